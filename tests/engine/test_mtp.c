/* test_mtp.c - a model's own head for the token after the next: its logits are those of the
 * formulas, for any rows of a pass; it gets the right states; heads that know
 * the next tokens are accepted, and one that is wrong once in five as often; damaged files are
 * refused in one line.  That no head changes an answer: test_draft_model.c. */
#include "heads.h"

enum { LONG = 200 };

/* ---- its logits ---- */

typedef struct {
    uint32_t n, n_embd, n_vocab;
    const int32_t *tokens;
    const float *states, *logits; /* [n][n_embd], [n][n_vocab] */
} expected;

static void read_expected(expected *x, const char *from, size_t len)
{
    CHECK(len > 20 && !memcmp(from, "CEMTP001", 8));
    memcpy(&x->n, from + 8, 4);
    memcpy(&x->n_embd, from + 12, 4);
    memcpy(&x->n_vocab, from + 16, 4);
    const size_t n = x->n, states = n * x->n_embd, logits = n * x->n_vocab;
    CHECK(len == 20 + 4 * (n + states + logits));
    x->tokens = (const int32_t *)(const void *)(from + 20);
    x->states = (const float *)(const void *)(from + 20 + 4 * n);
    x->logits = x->states + states;
}

/* Rows in passes of n_pass. */
static void run_head(cerium_engine *head, const expected *x, uint32_t n_pass, float *logits)
{
    static const _Atomic bool go_on;
    kv_sequence *sequence = NULL;
    cerium_error err;
    CHECK(kv_sequence_open(&sequence, head->pool, x->n, 0, &err) == 0);
    CHECK(kv_sequence_reserve(sequence, x->n) == 0);
    for (uint32_t first = 0; first < x->n; first += n_pass) {
        uint32_t n = x->n - first < n_pass ? x->n - first : n_pass;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t at = first + i;
            head->rows[i] = (cpu_row){.token = x->tokens[at],
                                      .position = at,
                                      .sequence = sequence,
                                      .last_state = at ? x->states + (size_t)at * x->n_embd : NULL};
            engine_take_logits(head, &head->rows[i], logits + at * head->logits_stride);
        }
        CHECK(cpu_executor_run(head->executor, head->rows, n, &go_on) == 0);
    }
    kv_sequence_close(&sequence);
}

static void check_logits(const char *name)
{
    char path[256];
    size_t len;
    expected x;
    snprintf(path, sizeof path, FIXTURES "%s.mtp", name);
    char *all = read_file(path, &len);
    read_expected(&x, all, len);
    snprintf(path, sizeof path, FIXTURES "%s.gguf", name);
    cerium_engine *e = open_with(path, "always", "mtp", 128), *head = e->draft->engine;
    const size_t stride = head->logits_stride;
    float *logits = memory_zalloc(2 * x.n * stride, sizeof *logits);
    run_head(head, &x, 64, logits);
    run_head(head, &x, 1, logits + x.n * stride);
    check_rows(name, logits, stride, x.logits, x.n, x.n_vocab);
    memory_free(logits);
    cerium_engine_close(&e);
    memory_free(all);
}

static void test_logits(void)
{
    check_logits("mtp-qwen35");
    check_logits("mtp-qwen35moe");
    check_logits("mtp-glm4moe");
}

/* ---- planted heads ---- */

/* A head that uses the state knows the next token, if the state is that of the token before: for
 * the first draft it is the model's state, for later ones the head's own. */
static void test_planted_state(void)
{
    cerium_engine_stats s;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always", NULL, 512);
    uint64_t passes = count(e, 7, &s);
    printf("  by states: %u tokens, %llu passes, %llu drafted, %llu right\n", SAID,
           (unsigned long long)passes, (unsigned long long)s.model_drafted_tokens,
           (unsigned long long)s.model_accepted_tokens);
    TEST_CHECK(s.model_accepted_tokens == s.model_drafted_tokens);
    TEST_CHECK(passes < SAID / 5);
    cerium_engine_close(&e);
}

/* A head that is wrong for one token in five is noticed: with one draft at a time, of tokens 0, 1
 * and 3 in turn, modulo 5, the first is wrong. */
static void test_planted_token(void)
{
    cerium_engine_stats s;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-token.gguf", "always", "mtp", 512);
    count(e, 2, &s);
    double share = (double)s.model_accepted_tokens / (double)s.model_drafted_tokens;
    printf("  by tokens: %llu drafted, %.3f of them right\n",
           (unsigned long long)s.model_drafted_tokens, share);
    TEST_CHECK_THAT(share > 0.65 && share < 0.68, "%.3f", share);
    cerium_engine_close(&e);
}

/* A head that says few tokens: where the model counts beyond them, the first of each panel is
 * missed, and then the panel is seen.  What the model says stays. */
static void test_planted_few(void)
{
    cerium_engine_stats s;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always", NULL, 512);
    draft_vocabulary *few = &e->draft->vocabulary;
    TEST_CHECK(few->n_panels == 0); /* its vocabulary is small */
    CHECK(draft_vocabulary_open(few, e->tokens, (uint32_t)e->draft->n_tokens, 1) == 0);
    const uint64_t passes = count(e, 7, &s);
    const uint64_t wrong = s.model_drafted_tokens - s.model_accepted_tokens;
    printf("  by few tokens: %llu passes, %llu drafted, %llu right\n", (unsigned long long)passes,
           (unsigned long long)s.model_drafted_tokens,
           (unsigned long long)s.model_accepted_tokens);
    TEST_CHECK(wrong > 0);
    TEST_CHECK(passes >= SAID / 7 + SAID / 32 && passes < SAID / 7 + 2 * (SAID / 16));
    cerium_engine_close(&e);
}

/* ---- memory of states ---- */

/* Its bound is reported. */
static void test_account(void)
{
    cerium_engine_info info;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always", NULL, 512);
    const uint64_t ring = (uint64_t)TAPS_MAX * e->program->shape.n_embd * sizeof(float);
    cerium_engine_describe(e, &info);
    TEST_CHECK(e->draft->states.n_rings == e->sessions_max);
    TEST_CHECK(taps_pool_bytes(&e->draft->states) == e->sessions_max * ring);
    TEST_CHECK(info.draft_model_bytes > e->sessions_max * ring);
    cerium_engine_close(&e);
}

/* Two sessions and one ring: the second gets no drafts, until the first stands still for long; both
 * count. */
static void test_one_ring(void)
{
    enum { NONE = 30, ALL = 100 };
    static const int32_t prompt[] = {0, 1, 2, 3};
    cerium_engine_stats s;
    cerium_error err;
    cerium_step step;
    cerium_session *of[2] = {NULL, NULL};
    int32_t next[2] = {4, 4};
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always", NULL, 512);
    e->draft->states.n_rings = 1;
    for (int k = 0; k < 2; k++) {
        TEST_CHECK(cerium_session_open(&of[k], e, NULL, &err) == 0);
        TEST_CHECK(cerium_session_sync(of[k], prompt, ARRAY_LEN(prompt), NULL, &err) == 0);
    }
    for (uint32_t i = 0; i < 2 * ALL; i++) {
        const int k = i < 2 * NONE ? i % 2 : 1; /* then the first stands still */
        const cerium_sampling sampling = {.ignore_end = true, .step_tokens_max = 2};
        TEST_CHECK(cerium_session_step(of[k], &sampling, &step, &err) == 0);
        for (uint32_t t = 0; t < step.n_tokens; t++) TEST_CHECK(step.tokens[t] == next[k]++);
        if (i == 2 * NONE - 1) TEST_CHECK_THAT(next[1] == 4 + NONE, "%d", next[1]);
        if (next[1] > 4 + ALL) break;
    }
    cerium_engine_measure(e, &s);
    TEST_CHECK(next[0] > 4 + NONE && s.model_accepted_tokens > NONE);
    TEST_CHECK(s.passes < (uint64_t)(next[0] + next[1]));
    for (int k = 0; k < 2; k++) cerium_session_close(&of[k]);
    cerium_engine_close(&e);
}

/* ---- another engine ---- */

enum { ASKED = 90, TURNS = 3, NEW = 24 };

/* A turn of a conversation, by steps; returns the new length. */
static size_t turn(cerium_engine *e, int32_t *tokens, size_t n, uint64_t seed)
{
    cerium_session *s = NULL;
    cerium_error err;
    cerium_step step;
    TEST_CHECK(cerium_session_open(&s, e, NULL, &err) == 0);
    TEST_CHECK_THAT(cerium_session_sync(s, tokens, n, NULL, &err) == 0, "%s", err.message);
    for (size_t end = n + NEW; n < end; n += step.n_tokens) {
        cerium_sampling sampling = {.ignore_end = true, .temperature = seed % 2 ? 0.8f : 0,
                                    .seed = seed, .step_tokens_max = (uint32_t)(end - n)};
        TEST_CHECK(cerium_session_step(s, &sampling, &step, &err) == 0);
        memcpy(tokens + n, step.tokens, step.n_tokens * sizeof *tokens);
    }
    cerium_session_close(&s);
    return n;
}

/* A conversation whose server restarts before each turn: the head then has nothing of it, and
 * the model has everything on disk. */
static void check_restart(const char *path)
{
    enum { ALL = ASKED + TURNS * (NEW + 7) };
    static int32_t want[ALL], have[ALL];
    cerium_engine *plain = open_with(path, "off", NULL, 512);
    size_t n = ASKED;
    for (uint32_t i = 0; i < ALL; i++) want[i] = (int32_t)(i * 7919 % 211);
    memcpy(have, want, sizeof have);
    char name[] = "/tmp/cerium-mtp-XXXXXX";
    CHECK(mkdtemp(name));
    for (uint64_t i = 0; i < TURNS; i++) {
        size_t end = turn(plain, want, n, i);
        kv_folder = name;
        cerium_engine *e = open_with(path, "always", "mtp", 512);
        kv_folder = NULL;
        TEST_CHECK(turn(e, have, n, i) == end);
        TEST_CHECK(!memcmp(have, want, end * sizeof *have));
        cerium_engine_close(&e);
        n = end + 7; /* the next question */
    }
    cerium_engine_close(&plain);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", name);
    CHECK(system(command) == 0);
}

static void test_restart(void)
{
    check_restart(FIXTURES "mtp-qwen35.gguf");
    check_restart(FIXTURES "mtp-planted-state.gguf");
}

/* ---- choice of the drafter ---- */

/* ---- how much of a prompt it reads ---- */

/* Rows of the head in the first two steps after a prompt. */
static uint64_t rows_after(cerium_engine *e, uint32_t n_prompt, uint64_t tenant)
{
    int32_t prompt[LONG];
    cerium_session *s = NULL;
    cerium_session_config config = {.tenant = tenant};
    cerium_sampling sampling = {.ignore_end = true};
    cerium_engine_stats before, after;
    cerium_error err;
    cerium_step step;
    CHECK(n_prompt <= LONG);
    for (uint32_t i = 0; i < n_prompt; i++) prompt[i] = (int32_t)((i * i + 7 * i) % 251);
    cerium_engine_measure(e, &before);
    CHECK(cerium_session_open(&s, e, &config, &err) == 0);
    TEST_CHECK(cerium_session_sync(s, prompt, n_prompt, NULL, &err) == 0);
    for (int i = 0; i < 2; i++) TEST_CHECK(cerium_session_step(s, &sampling, &step, &err) == 0);
    cerium_session_close(&s);
    cerium_engine_measure(e, &after);
    return after.draft_model_tokens - before.draft_model_tokens;
}

/* Before any guess was right the end of it alone, so that a head that never is costs little;
 * afterwards all of it. */
static void read_of(const char *of, const char *head)
{
    cerium_engine *e = open_with(of, "always", head, 512);
    const uint64_t shorter = rows_after(e, LONG / 2, 1), first = rows_after(e, LONG, 2);
    TEST_CHECK(!budget_was_right(&e->draft->budget));
    e->draft->budget.came = 30;
    const uint64_t then = rows_after(e, LONG, 3);
    printf("  of %d tokens it reads %llu rows, and %llu when it was right\n", LONG,
           (unsigned long long)first, (unsigned long long)then);
    TEST_CHECK_THAT(first >= 5 && first <= BUDGET_LITTLE + 20 && shorter <= BUDGET_LITTLE + 20,
                    "%llu %llu", (unsigned long long)first, (unsigned long long)shorter);
    TEST_CHECK_THAT(then >= LONG, "%llu", (unsigned long long)then);
    cerium_engine_close(&e);
}

static void test_little(void)
{
    read_of(FIXTURES "mtp-qwen35.gguf", "mtp");
    read_of(FIXTURES "llama.gguf", FIXTURES "eagle3-llama.gguf");
    read_of(FIXTURES "llama.gguf", FIXTURES "dflash-llama.gguf");
}

static void test_choice(void)
{
    static const struct {
        const char *path, *speculation, *drafter;
        bool drafts;
    } cases[] = {
        {FIXTURES "mtp-qwen35.gguf", "auto", NULL, true},
        {FIXTURES "mtp-qwen35.gguf", "auto", "", true},
        {FIXTURES "mtp-qwen35.gguf", "auto", "mtp", true},
        {FIXTURES "mtp-qwen35.gguf", "auto", "off", false},
        {FIXTURES "mtp-qwen35.gguf", "off", "mtp", false},
        {FIXTURES "qwen35.gguf", "auto", NULL, false},
        {FIXTURES "qwen35-wide.gguf", "auto", NULL, false}, /* declares a block, and lacks it */
    };
    const long before = memory_live();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cerium_engine_info info;
        cerium_engine *e = open_with(cases[i].path, cases[i].speculation, cases[i].drafter, 256);
        cerium_engine_describe(e, &info);
        TEST_CHECK_THAT((info.draft_model[0] != 0) == cases[i].drafts, "case %zu", i);
        TEST_CHECK((info.draft_model_bytes > 0) == cases[i].drafts);
        TEST_CHECK((model_mtp(e->model) != NULL) == cases[i].drafts);
        cerium_engine_close(&e);
    }
    TEST_CHECK(memory_live() == before);
}

/* ---- damage ---- */

static char noticed[512];

static void take_notice(void *user, const char *line)
{
    (void)user;
    snprintf(noticed, sizeof noticed, "%s", line);
}

/* The fixture with some bytes changed: those after `text`, or with `at` < 0 before its end. */
static void damaged(const char *text, long at, const void *put, size_t n_put, const char *by,
                    const char *why)
{
    char path[] = "/tmp/cerium-mtp-XXXXXX";
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err = {0};
    write_damaged(path, FIXTURES "mtp-qwen35.gguf", text, at, put, n_put);
    const long before = memory_live();
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.context_tokens_max = 256;
    config.draft_model = by;
    config.notice = take_notice;
    noticed[0] = 0;
    int status = cerium_engine_open(&e, &config, &err);
    if (why)
        TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && !e && strstr(err.message, why) &&
                            !strchr(err.message, '\n') && memory_live() == before,
                        "%s: %s", text, err.message);
    else
        TEST_CHECK_THAT(status == 0, "%s: %s", text, err.message);
    if (e) cerium_engine_close(&e);
    unlink(path);
}

/* A head with a missing tensor, which has another name: the model works without it, and reports
 * that; if the head was requested, opening fails. */
static void lacking(const char *tensor, const char *other)
{
    char why[128];
    snprintf(why, sizeof why, "tensor %s is missing", tensor);
    damaged(tensor, -1, other, strlen(other), NULL, NULL);
    TEST_CHECK_THAT(strstr(noticed, why) && strstr(noticed, "does not draft") &&
                        !strchr(noticed, '\n'), "%s: %s", tensor, noticed);
    damaged(tensor, -1, other, strlen(other), "mtp", why);
    damaged(tensor, -1, other, strlen(other), "off", NULL);
    TEST_CHECK_THAT(!noticed[0], "%s", noticed);
}

static void test_damage(void)
{
    static const char ahead[] = "qwen35.nextn_predict_layers";
    static const char eh_proj[] = "blk.4.nextn.eh_proj.weight";
    const uint32_t none = 0, two = 2, many = 99;
    const uint64_t rows = 16;
    lacking("blk.4.nextn.enorm.weight", "blk.4.nextn.xnorm");
    lacking("blk.4.nextn.hnorm.weight", "blk.4.nextn.xnorm");
    lacking("blk.4.nextn.eh_proj.weight", "blk.4.nextn.xh_proj");
    lacking("blk.4.attn_norm.weight", "blk.4.attn_xorm");
    lacking("blk.4.attn_q.weight", "blk.4.attn_x");
    lacking("blk.4.ffn_down.weight", "blk.4.ffn_xown");
    damaged(eh_proj, 4 + 8, &rows, sizeof rows, NULL,
            "tensor blk.4.nextn.eh_proj.weight has shape");
    /* Without its own norm the head uses the model's; without other tensors there is no head. */
    damaged("blk.4.nextn.shared_head_norm", -1, "blk.4.nextn.xhared_head_norm", 28, "mtp", NULL);
    /* Tensors that are not loaded need not exist. */
    damaged("blk.4.nextn.enorm", -1, "blk.4.nextn.xnorm", 17, "off", NULL);
    damaged(ahead, 4, &many, sizeof many, NULL,
            "key qwen35.nextn_predict_layers is 99, of 5 blocks");
    damaged(ahead, 4, &none, sizeof none, NULL, "blk.4");
    damaged(ahead, 4, &two, sizeof two, NULL, "no layer attends"); /* of three that are left */
}

int main(void)
{
    TEST_RUN(test_logits);
    TEST_RUN(test_planted_state);
    TEST_RUN(test_planted_token);
    TEST_RUN(test_planted_few);
    TEST_RUN(test_account);
    TEST_RUN(test_one_ring);
    TEST_RUN(test_restart);
    TEST_RUN(test_little);
    TEST_RUN(test_choice);
    TEST_RUN(test_damage);
    return unit_report("mtp");
}
