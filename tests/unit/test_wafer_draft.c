/* test_wafer_draft.c - a model that drafts on idle cores: tokens and time of passes, against every
 * outcome one by one; its placement; and one line if it does not fit. */
#include <math.h>

#include "base/memory.h"
#include "unit.h"
#include "wafer/drafting.h"

/* ---- every outcome of a pass ---- */

typedef struct {
    double tokens, turns, overlapped, guesses; /* in the mean; guesses of the last */
} passes;

/* From the start of a verification to the next.  right: a bit for each guess, and then one for the
 * guess of the token that follows them. */
static double walk_overlapped(const draft_us *t, uint32_t tokens, uint32_t right, double *guesses)
{
    const bool all = right == (1u << tokens) - 1;
    double clock = 0;
    for (uint32_t made = 0; made < tokens; made++) { /* guesses made during the verification */
        if (!all && clock >= t->verify + t->tell) break;
        clock += t->step;
        ++*guesses;
    }
    if (clock < t->verify + t->tell) clock = t->verify + t->tell;
    for (uint32_t made = 1; !all && made < tokens; made++) clock += t->step, ++*guesses;
    return clock + t->offer;
}

static passes every_outcome(const draft_us *t, double p, uint32_t tokens)
{
    passes sum = {0};
    double total = 0;
    for (uint32_t right = 0; right < 1u << tokens; right++) {
        double chance = 1, guesses = 0;
        uint32_t found = 1;
        for (uint32_t i = 0; i < tokens; i++) chance *= right >> i & 1 ? p : 1 - p;
        while (found < tokens && right >> (found - 1) & 1) found++;
        double turns = t->verify + t->tell + t->offer; /* and the guesses after this outcome */
        for (uint32_t i = 1; i < tokens; i++)
            turns += i == 1 && found == tokens ? t->catch_up : t->step;
        total += chance;
        sum.tokens += chance * found;
        sum.turns += chance * turns;
        sum.overlapped += chance * walk_overlapped(t, tokens, right, &guesses);
        sum.guesses += chance * guesses;
    }
    TEST_CHECK(fabs(total - 1) < 1e-12);
    return sum;
}

static void test_every_outcome(void)
{
    static const draft_us times[] = {
        {.verify = 100, .step = 30, .catch_up = 37, .tell = 2, .offer = 3},
        {.verify = 100, .step = 7, .catch_up = 9, .tell = 1, .offer = 1},
        {.verify = 50, .step = 80, .catch_up = 99, .tell = 5, .offer = 9},
    };
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        for (uint32_t tokens = 2; tokens <= 10; tokens++)
            for (double p = 0; p <= 1; p += 0.125) {
                const draft_us *t = &times[i];
                const passes want = every_outcome(t, p, tokens);
                const double yield = draft_yield(p, tokens), turns = draft_turns_us(t, p, tokens);
                const double overlapped = draft_overlapped_us(t, p, tokens);
                TEST_CHECK_THAT(fabs(yield - want.tokens) < 1e-9, "%u, %g: %g", tokens, p, yield);
                TEST_CHECK_THAT(fabs(turns - want.turns) < 1e-9, "%u, %g: %g", tokens, p, turns);
                TEST_CHECK(fabs(draft_overlapped_guesses(t, p, tokens) - want.guesses) < 1e-9);
                TEST_CHECK_THAT(fabs(overlapped - want.overlapped) < 1e-9, "%u, %g: %g, not %g",
                                tokens, p, overlapped, want.overlapped);
                if (p < 1) TEST_CHECK(fabs(yield - (1 - pow(p, tokens)) / (1 - p)) < 1e-9);
            }
    TEST_CHECK(draft_turns_us(&times[0], 0.5, 1) == 100 && draft_yield(0.5, 1) == 1);
}

/* ---- places ---- */

typedef struct {
    wafer_machine machine;
    wafer_model large, drafter;
    plan_request request, small;
    cerium_error err;
} pair;

static void open_pair(pair *s, const char *machine, const char *large, const char *drafter)
{
    *s = (pair){0};
    CHECK(!machine_open(&s->machine, machine, &s->err) &&
          !wafer_model_open(&s->large, large, &s->err) &&
          !wafer_model_open(&s->drafter, drafter, &s->err));
    s->request = (plan_request){.machine = &s->machine,
                                .program = s->large.program,
                                .style = wafer_style_tuned(),
                                .quant = QUANT_FP16,
                                .context = 4096,
                                .draft = 4};
    s->small = (plan_request){.program = s->drafter.program, .quant = QUANT_FP16};
}

static void close_pair(pair *s)
{
    wafer_model_close(&s->large);
    wafer_model_close(&s->drafter);
    machine_close(&s->machine);
    TEST_CHECK(memory_live() == 0);
}

/* Without guesses it is the plan's own token.  If all are wrong, a token has the energy of a whole
 * pass and its guesses, if all are right a part of it; cost follows time. */
static void check_figures(const pair *s, const draft_plan *d, const plan_result *plan)
{
    plan_figures alone;
    draft_us us[2];
    draft_joules one, four;
    plan_request r = s->request;
    r.draft = 1;
    plan_result here = *plan;
    const wafer_band watts = plan_static_watts(plan, &r);
    CHECK(!plan_time(&here, &r) && !plan_figure(&alone, &here, &r, 1));
    CHECK(!draft_time(us, d, plan, &s->request, 1) &&
          !draft_energy(&one, d, plan, &s->request, 1));
    const draft_figures none = draft_figure(us, &one, plan, &s->request, 0.7, 1, true);
    TEST_CHECK_THAT(fabs(none.joules.low / alone.joules_user.low - 1) < 1e-9 &&
                        fabs(none.joules.high / alone.joules_user.high - 1) < 1e-9,
                    "%g, not %g", none.joules.low, alone.joules_user.low);
    TEST_CHECK(fabs(none.usd.low / alone.usd_user.low - 1) < 1e-9 &&
               fabs(none.tokens_s.high / alone.user_tokens_s.high - 1) < 1e-9);
    CHECK(!draft_time(us, d, plan, &s->request, 4) &&
          !draft_energy(&four, d, plan, &s->request, 4));
    TEST_CHECK(four.verify.low > one.verify.low && four.verify.low < 4 * one.verify.low);
    TEST_CHECK(four.guess.low == one.guess.low && four.guess.low < four.catch_up.low &&
               four.catch_up.low < 2 * four.guess.low && four.guess.high < four.verify.high);
    TEST_CHECK(four.messages.low > 0 && four.messages.high < four.guess.low && !one.messages.high);
    for (int on = 0; on < 2; on++) {
        const draft_figures wrong = draft_figure(us, &four, plan, &s->request, 0, 4, on);
        const draft_figures right = draft_figure(us, &four, plan, &s->request, 1, 4, on);
        const double guesses = on ? fmin(draft_overlapped_guesses(&us[0], 0, 4),
                                         draft_overlapped_guesses(&us[1], 0, 4))
                                  : 3;
        const double rest = on ? 4 * four.guess.low : 2 * four.guess.low + four.catch_up.low;
        const double least = four.verify.low + guesses * four.guess.low + four.messages.low;
        TEST_CHECK_THAT(
            fabs(wrong.joules.low - least - watts.low / wrong.tokens_s.high) < 1e-9, "%g",
            wrong.joules.low);
        TEST_CHECK(fabs(4 * right.joules.low - four.verify.low - rest - four.messages.low -
                        4 * watts.low / right.tokens_s.high) < 1e-9);
        TEST_CHECK(fabs(wrong.usd.low * wrong.tokens_s.high - right.usd.low * right.tokens_s.high) <
                   1e-6);
        TEST_CHECK(right.usd.low < wrong.usd.low && right.joules.high < wrong.joules.high);
    }
}

static bool are_apart(const wafer_region *a, const wafer_region *b)
{
    return a->wafer != b->wafer || a->x + a->width <= b->x || b->x + b->width <= a->x ||
           a->y + a->height <= b->y || b->y + b->height <= a->y;
}

static void check_place(const pair *s, const draft_plan *d, const plan_result *plan)
{
    wafer_placement placed;
    const wafer_mesh *m = &s->machine.mesh;
    const wafer_region *room = &d->place;
    const plan_layout *l = &d->plan.layout;
    uint64_t taken = (uint64_t)room->width * room->height;
    TEST_CHECK(room->wafer < plan->layout.wafers && room->x + room->width <= m->width &&
               room->y + room->height <= m->height);
    TEST_CHECK(l->wafers == 1 && l->cores <= taken && l->core_bytes <= l->usable_bytes);
    TEST_CHECK((uint64_t)l->columns * l->rows * l->width * l->height <= taken);
    CHECK(!plan_place(&placed, plan, &s->request));
    for (uint32_t i = 0; i < placed.n_regions; i++) {
        taken += (uint64_t)placed.regions[i].width * placed.regions[i].height;
        TEST_CHECK_THAT(are_apart(room, &placed.regions[i]), "region %u", i);
    }
    TEST_CHECK(taken <= (uint64_t)m->width * m->height * plan->layout.wafers);
    TEST_CHECK(plan->layout.cores + l->cores <= taken);
    placement_close(&placed);
}

static void test_places(void)
{
    static const char *const pairs[][3] = {{"wse3", "llama-3-8b", "llama-3.2-1b"},
                                           {"cs3", "llama-3-70b", "llama-3.2-1b"},
                                           {"cs3", "qwen3-30b-a3b", "qwen3-0.6b"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        pair s;
        draft_plan d;
        plan_result plan;
        draft_us one[2], two[2], four[2];
        open_pair(&s, pairs[i][0], pairs[i][1], pairs[i][2]);
        TEST_CHECK_THAT(!draft_search(&d, &plan, &s.request, &s.small, &s.err), "%s",
                        s.err.message);
        if (s.err.message[0]) return;
        check_place(&s, &d, &plan);
        check_figures(&s, &d, &plan);
        TEST_CHECK(!draft_time(one, &d, &plan, &s.request, 1) &&
                   !draft_time(two, &d, &plan, &s.request, 2) &&
                   !draft_time(four, &d, &plan, &s.request, 4));
        for (int end = 0; end < 2; end++) {
            TEST_CHECK(one[end].step > 0 && one[end].step == four[end].step);
            TEST_CHECK(two[end].catch_up > two[end].step &&
                       two[end].catch_up < 2 * two[end].step);
            TEST_CHECK(one[end].verify < two[end].verify && two[end].verify < four[end].verify &&
                       four[end].verify < 4 * one[end].verify);
            TEST_CHECK(one[end].tell > 0 && four[end].offer > 0);
        }
        TEST_CHECK(one[0].step < one[1].step && one[0].verify < one[1].verify);
        close_pair(&s);
    }
}

/* Rows of the free area are shifted by dead cores to its left, too: layers cost what
 * they do at their real place. */
static void check_dead(const char *drafter, bool sdk)
{
    pair s;
    draft_plan d;
    plan_result plan;
    wafer_core *dead = memory_alloc(5 * sizeof *dead);
    open_pair(&s, "wse3", "llama-3-8b", drafter);
    CHECK(dead && !s.machine.mesh.dead);
    if (sdk) s.request.style = wafer_style_sdk();
    s.request.is_sdk = sdk;
    dead[0] = (wafer_core){5, 700}, dead[1] = (wafer_core){6, 700};
    dead[2] = (wafer_core){320, 700}, dead[3] = (wafer_core){5, 900};
    dead[4] = (wafer_core){600, 901};
    s.machine.mesh.dead = dead;
    s.machine.mesh.n_dead = 5;
    TEST_CHECK_THAT(!draft_search(&d, &plan, &s.request, &s.small, &s.err), "%s", s.err.message);
    const plan_layout *l = &d.plan.layout;
    const step_cost cost = {.mesh = &s.machine.mesh,
                            .style = s.request.style,
                            .quant = QUANT_FP16,
                            .choice = l->choice,
                            .context = 4096,
                            .tokens = 2};
    CHECK(!l->is_turned);
    double worst = 0;
    step_time whole, around;
    CHECK(!time_layer(&whole, s.small.program, 0, l->width, l->height, &cost, true));
    for (uint32_t i = 0; i < l->columns * l->rows; i++) {
        CHECK(!time_layer_dead(&around, s.small.program, 0,
                               d.place.x + i % l->columns * l->width,
                               d.place.y + i / l->columns * l->height, l->width, l->height, &cost));
        worst = fmax(worst, around.cycles - whole.cycles);
    }
    TEST_CHECK_THAT((worst > 0 || !sdk) && d.plan.detour_cycles == worst, "%g, not %g at %u, %u",
                    d.plan.detour_cycles, worst, d.place.x, d.place.y);
    TEST_CHECK(!sdk || d.place.x > 5);
    check_place(&s, &d, &plan);
    close_pair(&s);
}

static void test_places_beside_dead_cores(void)
{
    check_dead("llama-3.2-1b", false);
    check_dead("llama-3.2-1b", true);
}

/* ---- impossible cases ---- */

static void refused(const char *drafter, uint32_t context, int status, const char *what)
{
    pair s;
    draft_plan d;
    plan_result plan;
    open_pair(&s, "wse3", "llama-3-8b", drafter);
    s.request.context = context;
    TEST_CHECK(draft_search(&d, &plan, &s.request, &s.small, &s.err) == status);
    TEST_CHECK_THAT(strstr(s.err.message, what), "%s", s.err.message);
    TEST_CHECK(!strchr(s.err.message, '\n'));
    close_pair(&s);
}

static void test_what_cannot_be(void)
{
    refused("llama-3.1-8b", 4096, CERIUM_ERR_CAPACITY, "--quant fp8 would fit");
    refused("llama-3-70b", 4096, CERIUM_ERR_CAPACITY, "take a smaller one");
    refused("qwen3-0.6b", 4096, CERIUM_ERR_ARGUMENT, "a draft is of the same vocabulary");
    refused("llama-3.2-1b", 8193, CERIUM_ERR_ARGUMENT, "the nearest is 8192");
}

static void test_memory(void)
{
    static const long at[] = {0, 1, 2, 3, 50, 1001, 5003};
    pair s;
    open_pair(&s, "wse3", "llama-3-8b", "llama-3.2-1b");
    const long live = memory_live();
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        draft_plan d;
        plan_result plan;
        memory_fail_at(at[i]);
        const int status = draft_search(&d, &plan, &s.request, &s.small, &s.err);
        memory_fail_at(-1);
        TEST_CHECK_THAT(status == CERIUM_ERR_MEMORY && s.err.message[0], "allocation %ld: %d",
                        at[i], status);
        TEST_CHECK(memory_live() == live);
    }
    close_pair(&s);
}

int main(void)
{
    TEST_RUN(test_every_outcome);
    TEST_RUN(test_places);
    TEST_RUN(test_places_beside_dead_cores);
    TEST_RUN(test_what_cannot_be);
    TEST_RUN(test_memory);
    return unit_report("wafer_draft");
}
