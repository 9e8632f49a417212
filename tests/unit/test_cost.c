/* test_cost.c - the cost of passes, learned from passes that a busy machine disturbs. */
#include "engine/cost.h"
#include "unit.h"

enum { MS = 1000000 };

static void test_unknown(void)
{
    cost_model cost = {0};
    TEST_CHECK(cost_estimate(&cost, 1) == 0 && !cost_is_known(&cost, 1));
    TEST_CHECK(cost_rows_within(&cost, 50 * MS, 256) == 32);
    TEST_CHECK(cost_rows_within(&cost, 50 * MS, 20) == 20);
    cost_learn(&cost, 256, 90 * MS); /* fewer rows than any measured cost at most as much */
    TEST_CHECK(cost_estimate(&cost, 4) == 90 * MS);
}

static void test_rows(void)
{
    cost_model cost = {0};
    cost_learn(&cost, 1, 2 * MS);
    cost_learn(&cost, 16, 8 * MS);
    cost_learn(&cost, 64, 24 * MS);
    TEST_CHECK(cost_is_known(&cost, 60) && !cost_is_known(&cost, 100));
    TEST_CHECK(cost_estimate(&cost, 16) == 8 * MS && cost_estimate(&cost, 12) == 8 * MS);
    TEST_CHECK(cost_estimate(&cost, 128) == 48 * MS);
    TEST_CHECK(cost_rows_within(&cost, 30 * MS, 256) == 80);
    TEST_CHECK(cost_rows_within(&cost, 1, 256) == 1);
}

/* A pass of 32 rows took 200 ms because the machine was busy: prompts are then cut into smaller
 * pieces, and these correct the estimate, though no pass of 32 rows is made. */
static void test_disturbed(void)
{
    cost_model cost = {0};
    cost_learn(&cost, 32, 200 * MS);
    TEST_CHECK(cost_rows_within(&cost, 50 * MS, 256) < 32);
    for (int i = 0; i < 4; i++) cost_learn(&cost, 16, 10 * MS);
    TEST_CHECK(cost_estimate(&cost, 32) == 20 * MS);
    TEST_CHECK(cost_rows_within(&cost, 50 * MS, 256) == 80);
}

int main(void)
{
    TEST_RUN(test_unknown);
    TEST_RUN(test_rows);
    TEST_RUN(test_disturbed);
    return unit_report("cost");
}
