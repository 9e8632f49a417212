/* test_mesh_draft.c - a model that drafts for another: the text is the main model's, and right
 * guesses save passes. */
#include "wafer/mesh_draft.h"

#include "mesh_beside.h"
#include "wafer/timing.h"

/* NEW tokens by passes of n_max. */
static mesh_draft draft_text(const char *path, const char *drafter, uint32_t n_max,
                             mesh_order order, const truth *t)
{
    gguf_file *file[2] = {NULL, NULL};
    const mesh_layout large = layout_of(4, 4, order, KERNEL_KV_I8);
    const mesh_layout small = layout_of(2, 3, MESH_EQUAL, KERNEL_KV_I8);
    mesh *m = open_mesh(path, &large, order == MESH_ORDER, MESH_SOUND, &file[0]);
    mesh_draft d = {.m = open_mesh(drafter, &small, false, MESH_SOUND, &file[1])};
    int32_t tokens[PROMPT + NEW + MESH_ROWS_MAX];
    uint32_t n = t->n_prompt;
    if (!m || !d.m) return d;
    memcpy(tokens, t->tokens, n * sizeof *tokens);
    prefill(m, tokens, n - 1);
    while (n < t->n_prompt + NEW) {
        const uint32_t found = mesh_draft_pass(&d, m, tokens, n, n_max, tokens + n);
        TEST_CHECK(found >= 1 && found <= n_max);
        n += found;
        TEST_CHECK(d.n_known < n);
    }
    TEST_CHECK_THAT(!memcmp(tokens, t->tokens, (t->n_prompt + NEW) * sizeof *tokens),
                    "%s by %s, %u a pass", path, drafter, n_max);
    TEST_CHECK(d.n_accepted + d.n_passes == n - t->n_prompt);
    TEST_CHECK(d.n_drafted == d.n_passes * (n_max - 1));
    mesh_close(&m);
    mesh_close(&d.m);
    gguf_close(&file[0]);
    gguf_close(&file[1]);
    return d;
}

static void test_the_text_is_the_models(void)
{
    truth t = {0};
    const char *path = "tests/golden/fixtures/qwen2-q4_0.gguf";
    if (!ask_cpu(&t, path, KERNEL_KV_I8, PROMPT, NULL)) return;
    for (uint32_t n_max = 1; n_max <= 5; n_max++) {
        /* A drafter that knows the text is always right; others cost passes, not tokens. */
        const mesh_draft same = draft_text(path, path, n_max, MESH_EQUAL, &t);
        TEST_CHECK_THAT(same.n_passes == (NEW + n_max - 1) / n_max && same.n_accepted ==
                        same.n_drafted, "%u a pass: %u", n_max, (unsigned)same.n_passes);
        const mesh_draft other =
            draft_text(path, path_of("llama"), n_max, MESH_EQUAL, &t);
        TEST_CHECK(n_max == 1 || other.n_passes > same.n_passes);
    }
    memory_free(t.logits);
}

/* One guess in two is right: wrong ones are forgotten in both regions. */
static void test_wrong_guesses_are_forgotten(void)
{
    truth t = {0};
    const char *path = "tests/golden/fixtures/qwen2.gguf";
    if (!ask_cpu(&t, path, KERNEL_KV_I8, PROMPT, NULL)) return;
    draft_text(path, path_of("qwen2-f16"), 4, MESH_ORDER, &t);
    draft_text(path, path_of("qwen2-q8_0"), 3, MESH_EQUAL, &t);
    memory_free(t.logits);
}

/* ---- overlapped ---- */

enum { LONG = 24, BEGIN = 5 };

/* A model and one that drafts, with LONG tokens of the model's own text. */
typedef struct {
    gguf_file *file[2];
    mesh *large, *small;
    int32_t text[BEGIN + LONG + MESH_ROWS_MAX];
} two_meshes;

static bool open_two(two_meshes *s, const char *path, const char *drafter, mesh_order order,
                     mesh_fault fault)
{
    const mesh_layout large = layout_of(4, 4, order, KERNEL_KV_I8);
    const mesh_layout small = layout_of(2, 3, MESH_EQUAL, KERNEL_KV_I8);
    char first[128];
    snprintf(first, sizeof first, "%s", path_of(path));
    *s = (two_meshes){.text = {65, 66, 67, 68, 69}};
    s->large = open_mesh(first, &large, false, MESH_SOUND, &s->file[0]);
    s->small = open_mesh(path_of(drafter), &small, false, fault, &s->file[1]);
    if (!s->large || !s->small) return false;
    prefill(s->large, s->text, BEGIN - 1);
    for (uint32_t n = BEGIN; n < BEGIN + LONG; n++) { /* one by one */
        mesh_run(s->large, &s->text[n - 1], 1, n - 1, 1);
        s->text[n] = mesh_sample(s->large, 0, NULL, NULL, 0, n);
    }
    return true;
}

static void close_two(two_meshes *s)
{
    mesh_close(&s->large);
    mesh_close(&s->small);
    gguf_close(&s->file[0]);
    gguf_close(&s->file[1]);
}

/* The text again, with that clock: it is the same, and the clock is that of the formulas, in which
 * a pass ends when the next guesses are made. */
static mesh_draft draft_by_the_clock(two_meshes *s, draft_us us, uint32_t n_max, bool overlapped)
{
    draft_us table[MESH_ROWS_MAX];
    int32_t tokens[BEGIN + LONG + MESH_ROWS_MAX];
    mesh_draft d = {.m = s->small, .us = table, .is_overlapped = overlapped};
    uint32_t n = BEGIN, all_right = 0;
    table[n_max - 1] = us;
    memcpy(tokens, s->text, sizeof tokens);
    memset(tokens + BEGIN, 0, LONG * sizeof *tokens);
    prefill(s->large, tokens, BEGIN - 1);
    while (n < BEGIN + LONG) {
        const uint32_t found = mesh_draft_pass(&d, s->large, tokens, n, n_max, tokens + n);
        TEST_CHECK(found >= 1 && found <= n_max);
        all_right += found == n_max;
        n += found;
    }
    TEST_CHECK_THAT(!memcmp(tokens, s->text, (BEGIN + LONG) * sizeof *tokens), "%u a pass", n_max);
    TEST_CHECK(overlapped || !d.n_foreseen);
    /* For a pass the formulas count the guesses after it, the clock those before it: after
     * the last there are n_chain already. */
    const double passes = (double)d.n_passes, ready = (double)d.n_foreseen, made = d.n_chain;
    double us_all = ready * draft_overlapped_us(&us, 1, n_max) +
                    (passes - ready) * draft_overlapped_us(&us, 0, n_max) + made * us.step;
    double guesses = ready * draft_overlapped_guesses(&us, 1, n_max) +
                     (passes - ready) * draft_overlapped_guesses(&us, 0, n_max) + made;
    if (!overlapped) {
        us_all = all_right * draft_turns_us(&us, 1, n_max) +
                 (passes - all_right) * draft_turns_us(&us, 0, n_max);
        if (n_max > 1 && d.n_known + 2 == n) us_all -= us.catch_up - us.step;
        guesses = passes * draft_turns_guesses(n_max);
    }
    TEST_CHECK_THAT(fabs(us_all - d.clock_us) < 1e-6, "%u a pass, %s: %g, not %g", n_max,
                    overlapped ? "overlapped" : "in turns", d.clock_us, us_all);
    TEST_CHECK_THAT(fabs(guesses - (double)d.n_steps) < 1e-6, "%u a pass: %llu guesses, not %g",
                    n_max, (unsigned long long)d.n_steps, guesses);
    return d;
}

static void test_drafting_on(void)
{
    static const struct {
        const char *model, *drafter;
        mesh_order order;
        mesh_fault fault; /* of the drafter: it is right now and then */
    } pairs[] = {{"qwen2", "qwen2", MESH_EQUAL, MESH_SOUND}, /* always */
                 {"qwen2-q8_0", "qwen2-q8_0", MESH_EQUAL, MESH_FAULT_EXP},
                 {"qwen3", "qwen3", MESH_ORDER, MESH_FAULT_EXP},
                 {"llama", "qwen2", MESH_EQUAL, MESH_SOUND}}; /* never */
    static const draft_us clocks[] = {
        {.verify = 100, .step = 30.25, .catch_up = 37, .tell = 2, .offer = 3},
        {.verify = 100, .step = 7, .catch_up = 9, .tell = 1, .offer = 1}, /* it waits */
        {.verify = 50, .step = 80, .catch_up = 99, .tell = 5, .offer = 9}, /* it is waited for */
    };
    uint64_t foreseen = 0, missed = 0;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        two_meshes s;
        if (!open_two(&s, pairs[i].model, pairs[i].drafter, pairs[i].order, pairs[i].fault)) return;
        for (size_t k = 0; k < ARRAY_LEN(clocks); k++)
            for (uint32_t n_max = 1; n_max <= 5; n_max++) {
                const mesh_draft turns = draft_by_the_clock(&s, clocks[k], n_max, false);
                const mesh_draft on = draft_by_the_clock(&s, clocks[k], n_max, true);
                TEST_CHECK(on.n_passes == turns.n_passes && on.n_accepted == turns.n_accepted);
                TEST_CHECK(i || n_max == 1 || on.n_foreseen == on.n_passes);
                if (pairs[i].fault) foreseen += on.n_foreseen;
                if (pairs[i].fault) missed += on.n_passes - on.n_foreseen;
            }
        close_two(&s);
    }
    TEST_CHECK(foreseen > 20 && missed > 20);
}

/* No guess after the end of the context, and none that could not be accepted. */
static void test_the_end_of_the_context(void)
{
    enum { CONTEXT = 24, TOKENS = 4 };
    gguf_file *file[2] = {NULL, NULL};
    mesh_layout layout = layout_of(3, 2, MESH_EQUAL, KERNEL_KV_I8);
    layout.choice.context = CONTEXT;
    mesh *m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file[0]);
    draft_us table[TOKENS] = {{.verify = 9, .step = 1, .catch_up = 2}};
    mesh_draft d = {.m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file[1]),
                    .us = table, .is_overlapped = true};
    int32_t tokens[CONTEXT + 1] = {65, 66};
    uint32_t n = 2;
    if (!m || !d.m) return;
    for (uint32_t i = 1; i < TOKENS; i++) table[i] = table[0];
    prefill(m, tokens, n - 1);
    while (n < CONTEXT + 1) {
        const uint32_t left = CONTEXT + 1 - n;
        n += mesh_draft_pass(&d, m, tokens, n, left < TOKENS ? left : TOKENS, tokens + n);
        TEST_CHECK(d.n_known <= CONTEXT && d.n_chain < 2 * TOKENS);
    }
    TEST_CHECK(d.n_accepted == d.n_drafted);
    mesh_close(&m);
    mesh_close(&d.m);
    gguf_close(&file[0]);
    gguf_close(&file[1]);
}

/* A plan's cost of the smaller model for a pass whose guesses are all right: in turns a step
 * after two tokens and one for each other guess; overlapped one for each token of the pass.  Of
 * operations with even tiles. */
static void check_steps(bool overlapped)
{
    enum { PASSES = 3, TOKENS = 4, FIRST = 2 };
    static const wafer_mesh machine = {.width = 4, .height = 4, .simd_fp16 = 8, .hop_cycles = 1,
                                       .ramp_cycles = 2};
    gguf_file *file[2] = {NULL, NULL};
    const mesh_layout layout = layout_of(4, 4, MESH_ORDER, KERNEL_KV_F32);
    mesh *m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file[0]);
    mesh_draft d = {.m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file[1])};
    draft_us us[TOKENS];
    int32_t tokens[FIRST + TOKENS * (PASSES + 1)] = {65, 66};
    uint32_t n = FIRST;
    uint64_t hops = 0, issues = 0, want_hops = 0, want_issues = 0;
    if (!m || !d.m) return;
    const draft_region side = {.program = d.m->program, .width = 4, .height = 4,
                               .cost = {.mesh = &machine, .style = wafer_style_sdk(),
                                        .quant = QUANT_FP16, .choice = layout.choice,
                                        .context = 64}};
    for (uint32_t i = 0; i < TOKENS; i++)
        TEST_CHECK(!draft_time_beside(&us[i], &side, &side, i + 1, 0.85));
    TEST_CHECK(us[0].step == us[0].verify && us[1].catch_up > us[1].step &&
               us[1].catch_up < us[1].verify && us[3].verify < 4 * us[0].verify);
    d.us = us;
    d.is_overlapped = overlapped;
    prefill(m, tokens, n - 1);
    n += mesh_draft_pass(&d, m, tokens, n, TOKENS, tokens + n); /* it learns the prompt */
    mesh_events_clear(d.m);
    const uint64_t before = d.n_steps;
    const double clock_before = d.clock_us;
    for (int i = 0; i < PASSES; i++) n += mesh_draft_pass(&d, m, tokens, n, TOKENS, tokens + n);
    TEST_CHECK(n == FIRST + TOKENS * (PASSES + 1) && d.n_accepted == d.n_drafted);
    const uint32_t guesses = overlapped ? TOKENS : TOKENS - 1;
    TEST_CHECK(d.n_steps - before == PASSES * guesses);
    const double pass = overlapped ? draft_overlapped_us(&us[TOKENS - 1], 1, TOKENS)
                                   : draft_turns_us(&us[TOKENS - 1], 1, TOKENS);
    TEST_CHECK_THAT(fabs(d.clock_us - clock_before - PASSES * pass) < 1e-6, "%g, not %g",
                    d.clock_us - clock_before, PASSES * pass);
    for (uint32_t i = 0; i < d.m->program->n_ops; i++) {
        const step_kind kind = d.m->program->ops[i].kind;
        if (kind != STEP_OUT && kind != STEP_FFN_DOWN) continue;
        for (uint32_t rows = 1; rows <= 2; rows++) {
            const uint32_t two = !overlapped; /* steps of a pass that are after two tokens */
            const uint32_t steps = PASSES * (rows == 2 ? two : guesses - two);
            const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(),
                                    .quant = QUANT_FP16, .choice = mesh_layout_of(d.m)->choice,
                                    .context = n, .tokens = rows};
            step_time t;
            TEST_CHECK(time_range(&t, d.m->program, i, 1, 4, 4, &cost, true) == 0);
            want_hops += 2 * steps * t.events.hops; /* of halves, two in a wavelet */
            want_issues += steps * (t.events.vector_ops + 16 * rows); /* and the residual */
        }
    }
    for (int kind = STEP_OUT; kind <= STEP_FFN_DOWN; kind += STEP_FFN_DOWN - STEP_OUT) {
        const mesh_kind_events *k = &mesh_kinds(d.m)[kind];
        hops += k->hops;
        issues += k->issues;
    }
    TEST_CHECK_THAT(hops == want_hops, "%llu, not %llu", (unsigned long long)hops,
                    (unsigned long long)want_hops);
    TEST_CHECK_THAT(issues == want_issues, "%llu, not %llu", (unsigned long long)issues,
                    (unsigned long long)want_issues);
    mesh_close(&m);
    mesh_close(&d.m);
    gguf_close(&file[0]);
    gguf_close(&file[1]);
}

static void test_the_steps_are_those_of_the_plan(void)
{
    check_steps(false);
    check_steps(true);
}

int main(void)
{
    TEST_RUN(test_the_text_is_the_models);
    TEST_RUN(test_wrong_guesses_are_forgotten);
    TEST_RUN(test_drafting_on);
    TEST_RUN(test_the_end_of_the_context);
    TEST_RUN(test_the_steps_are_those_of_the_plan);
    return unit_report("mesh_draft");
}
