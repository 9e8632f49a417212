/* solve_rank.c - chooses among variants that pass: the one that most others agree with, then the
 * smallest change, then the first. */
#include "programs/solve_run.h"

enum { RUNS = 8 };

typedef struct {
    uint32_t index, weight; /* weight: of its group, in variants that were made */
    uint64_t behaviour;
    size_t change;
} candidate;

/* The results of its functions for inputs near those of the tests.  Languages other than Python:
 * 0. */
static int behaviour_of(solve *s, view program, uint64_t *out, cerium_error *err)
{
    solve_tests near = s->tests;
    sandbox_result r;
    *out = 0;
    if (s->tests.language != WIRE_PYTHON || s->tests.mode != WIRE_TESTS) return CERIUM_OK;
    near.mode = WIRE_BEHAVIOUR;
    const sandbox_limits limits = s->judge.limits; /* of one run of the tests: this one has many
                                                    * inputs */
    s->judge.limits.cpu_ms *= RUNS;
    s->judge.limits.cpu_s *= RUNS;
    s->judge.limits.wall_ms *= RUNS;
    int status = tester_run(&s->judge, program, &near, &r, err);
    s->judge.limits = limits;
    if (status) return status;
    *out = hash_bytes(r.out.ptr, r.out.len, r.verdict == WIRE_PASS);
    return CERIUM_OK;
}

/* Removed or added tokens, whichever are more: a replaced token counts once. */
static size_t change_of(const solve *s, uint32_t index)
{
    const solve_variant *v = &s->set.all[index];
    const char *was = s->text.ptr + v->span.begin;
    size_t n_was = v->span.end - v->span.begin, n_now = v->n_text, same = 0;
    while (same < n_was && same < n_now && was[same] == v->text[same]) same++;
    n_was -= same;
    n_now -= same;
    size_t tail = 0;
    while (tail < n_was && tail < n_now &&
           was[same + n_was - 1 - tail] == v->text[same + n_now - 1 - tail])
        tail++;
    const view parts[] = {{was + same, n_was - tail}, {v->text + same, n_now - tail}};
    solve_token t;
    size_t n[2] = {0};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (size_t at = 0; solve_token_next(parts[i], s->language, &at, &t);)
            n[i] += t.kind != TOKEN_BLANK;
    return n[0] > n[1] ? n[0] : n[1];
}

static int by_rank(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    if (x->change != y->change) return x->change < y->change ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int rank(solve *s, candidate *all, cerium_error *err)
{
    s->n_groups = 0;
    for (uint32_t i = 0; i < s->n_found; i++) {
        candidate *c = &all[i];
        *c = (candidate){.index = s->survivors[i], .change = change_of(s, s->survivors[i])};
        if (s->n_found == 1) break;
        if (solve_set_program(&s->set, c->index, &s->solved))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
        RETURN_IF(behaviour_of(s, (view){s->solved.ptr, s->solved.len}, &c->behaviour, err));
    }
    for (uint32_t i = 0; i < s->n_found; i++) {
        bool first = true;
        for (uint32_t k = 0; k < s->n_found; k++) {
            bool same = all[k].behaviour == all[i].behaviour;
            if (same) all[i].weight += s->set.all[all[k].index].n_same;
            first &= !same || k >= i;
        }
        s->n_groups += first;
    }
    qsort(all, s->n_found, sizeof *all, by_rank);
    for (uint32_t i = 1; i < s->n_found; i++) s->n_alike += all[i].behaviour == all[0].behaviour;
    return CERIUM_OK;
}

int solve_choose(solve *s, cerium_error *err)
{
    candidate all[SOLVE_SURVIVORS_MAX];
    s->winner = SOLVE_NONE;
    s->solved.max = 2 * SOLVE_TEXT_BYTES_MAX;
    if (s->n_found == 0) return CERIUM_OK;
    RETURN_IF(rank(s, all, err));
    for (uint32_t i = 0; i < s->n_found && s->winner == SOLVE_NONE; i++) {
        wire_verdict again = WIRE_FAIL;
        if (solve_set_program(&s->set, all[i].index, &s->solved))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
        const view program = {s->solved.ptr, s->solved.len};
        RETURN_IF(tester_confirm(&s->judge, program, &s->tests, &again, err));
        if (again == WIRE_PASS) s->winner = all[i].index;
        else s->n_flaky++;
    }
    return CERIUM_OK;
}

uint32_t solve_nearest(const solve *s)
{
    uint32_t best = SOLVE_NONE;
    for (uint32_t i = 0; i < s->set.n; i++) {
        const solve_variant *v = &s->set.all[i];
        bool ran = v->state == VARIANT_DECIDED && !v->dropped && v->verdict != WIRE_PASS;
        if (ran && v->n_passed && (best == SOLVE_NONE || v->n_passed > s->set.all[best].n_passed))
            best = i;
    }
    return best;
}
