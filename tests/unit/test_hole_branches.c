/* test_hole_branches.c - which other beginnings of a completion are likely: against all of them,
 * sorted; and what each may not begin with. */
#include <stdlib.h>
#include <string.h>

#include "protocol/hole_branches.h"

#include "../random.h"
#include "unit.h"

static bool avoids(const branch *b, const int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < b->n_avoid;) {
        uint32_t end = i;
        while (end < b->n_avoid && b->avoid[end] >= 0) end++;
        if (end - i == n && !memcmp(b->avoid + i, tokens, n * sizeof *tokens)) return true;
        i = end + 1;
    }
    return false;
}

static void test_one(void)
{
    /* "a b": beside b there was c, then d; beside a nothing was near. */
    const cerium_logprob first[] = {{1, -0.1F}, {9, -6}}, second[] = {{2, -0.5F}, {3, -1}, {4, -2}};
    branch_path path = {.n = 0};
    branch all[BRANCHES_MAX];
    branch_path_add(&path, 1, -0.1F, first, 2);
    branch_path_add(&path, 2, -0.5F, second, 3);
    TEST_CHECK(branches_find(&path, all, 0) == 0);
    TEST_CHECK(branches_find(&path, all, 2) == 2);
    TEST_CHECK(branches_find(&path, all, 64) == 3);
    const int32_t ab[] = {1, 2}, ac[] = {1, 3};
    TEST_CHECK(all[0].n_avoid == 2 && avoids(&all[0], ab, 2));
    TEST_CHECK(all[1].n_avoid == 5 && avoids(&all[1], ab, 2) && avoids(&all[1], ac, 2));
    TEST_CHECK(all[2].n_avoid == 1 && avoids(&all[2], ab, 1));
    TEST_CHECK(all[0].logprob > all[1].logprob && all[1].logprob > all[2].logprob);
}

/* A chosen token that was not the likeliest, as after a mask, is avoided, too. */
static void test_not_likeliest(void)
{
    const cerium_logprob top[] = {{7, -0.1F}, {8, -3}};
    const int32_t own[] = {5}, other[] = {7};
    branch_path path = {.n = 0};
    branch all[BRANCHES_MAX];
    branch_path_add(&path, 5, -4, top, 2);
    TEST_CHECK(branches_find(&path, all, 8) == 2);
    TEST_CHECK(all[0].n_avoid == 1 && avoids(&all[0], own, 1));
    TEST_CHECK(all[1].n_avoid == 3 && avoids(&all[1], own, 1) && avoids(&all[1], other, 1));
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void test_random(void)
{
    random_state = 11;
    for (int round = 0; round < 3000; round++) {
        branch_path path = {.n = 0};
        branch out[BRANCHES_MAX];
        double all[BRANCH_TOKENS_MAX * BRANCH_TOP], before = 0;
        size_t n_all = 0;
        const uint32_t n = random_below(40), n_max = random_below(10);
        for (uint32_t i = 0; i < n; i++) {
            cerium_logprob top[BRANCH_TOP];
            float at = 0;
            for (int k = 0; k < BRANCH_TOP; k++) {
                at -= (float)(random_below(1000) + 1) / 500;
                top[k] = (cerium_logprob){(int32_t)(random_below(1000)) * 4 + k, at};
            }
            branch_path_add(&path, top[0].token, top[0].logprob, top, BRANCH_TOP);
            /* Of three beginnings of 22 tokens more than CERIUM_AVOID_MAX would be avoided. */
            for (uint32_t k = 1; k < BRANCH_TOP && i < BRANCH_TOKENS_MAX; k++)
                if (k * (i + 2) - 1 <= CERIUM_AVOID_MAX)
                    all[n_all++] = before + (double)top[k].logprob;
            before += (double)top[0].logprob;
        }
        qsort(all, n_all, sizeof *all, by_value);
        const uint32_t got = branches_find(&path, out, n_max);
        const size_t most = n_max < BRANCHES_MAX ? n_max : BRANCHES_MAX;
        TEST_CHECK(got == (n_all < most ? n_all : most));
        for (uint32_t i = 0; i < got; i++) {
            TEST_CHECK(out[i].logprob == all[i]);
            TEST_CHECK(out[i].n_avoid > 0 && out[i].n_avoid <= CERIUM_AVOID_MAX);
            for (uint32_t k = 0; k < i; k++)
                TEST_CHECK(out[i].n_avoid != out[k].n_avoid ||
                           memcmp(out[i].avoid, out[k].avoid, out[i].n_avoid * sizeof(int32_t)));
        }
    }
}

int main(void)
{
    TEST_RUN(test_one);
    TEST_RUN(test_not_likeliest);
    TEST_RUN(test_random);
    return unit_report("hole_branches");
}
