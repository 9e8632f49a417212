/* test_eval_stats.c - figures of an evaluation against known values. */
#include <math.h>

#include "../unit/unit.h"
#include "programs/eval_stats.h"

static bool near(double a, double b, double by) { return fabs(a - b) <= by; }

static void test_similarity(void)
{
    TEST_CHECK(eval_similarity(VIEW(""), VIEW("")) == 1);
    TEST_CHECK(eval_similarity(VIEW("abc"), VIEW("")) == 0);
    TEST_CHECK(eval_similarity(VIEW("return x"), VIEW("return x")) == 1);
    TEST_CHECK(near(eval_similarity(VIEW("kitten"), VIEW("sitting")), 1 - 3.0 / 7, 1e-12));
    TEST_CHECK(near(eval_similarity(VIEW("flaw"), VIEW("lawn")), 0.5, 1e-12));
    view s = eval_stripped(VIEW(" \t x = 1 \r\n"));
    TEST_CHECK(view_equal(s, VIEW("x = 1")));
    TEST_CHECK(eval_stripped(VIEW(" \n ")).len == 0);
}

/* For a share of one half among 400, the standard error is 0.025. */
static void test_ratio(void)
{
    enum { N = 400 };
    static double num[N], den[N];
    for (int i = 0; i < N; i++) num[i] = i % 2, den[i] = 1;
    eval_figure f = eval_ratio(num, den, N, 7);
    TEST_CHECK(f.value == 0.5);
    TEST_CHECK_THAT(near(f.low, 0.5 - 1.96 * 0.025, 0.01) && near(f.high, 0.5 + 1.96 * 0.025, 0.01),
                    "%f %f", f.low, f.high);
    eval_figure again = eval_ratio(num, den, N, 7);
    TEST_CHECK(again.low == f.low && again.high == f.high);
    /* Lines of one document are correlated: 20 documents of 20 lines give a larger error. */
    for (int i = 0; i < 20; i++) num[i] = i % 2 ? 20 : 0, den[i] = 20;
    f = eval_ratio(num, den, 20, 7);
    TEST_CHECK_THAT(f.value == 0.5 && f.high - f.low > 0.3, "%f", f.high - f.low);
    for (int i = 0; i < N; i++) num[i] = 3, den[i] = 4;
    f = eval_ratio(num, den, N, 1);
    TEST_CHECK(f.value == 0.75 && f.low == 0.75 && f.high == 0.75);
    f = eval_ratio(num, den, 0, 1);
    TEST_CHECK(f.value == 0 && f.high == 0);
}

static void test_cuts(void)
{
    eval_answer a[100];
    for (int i = 0; i < 100; i++) a[i] = (eval_answer){(float)i / 100.0f, i >= 60 && i % 2};
    for (int i = 0; i < 100; i++) /* in no order */
        if (i % 7 == 3) {
            eval_answer t = a[i];
            a[i] = a[99 - i];
            a[99 - i] = t;
        }
    eval_cut cut = eval_find_cut(a, 100, 0.5);
    TEST_CHECK_THAT(near(cut.threshold, 0.60, 1e-6) && cut.precision == 0.5 && cut.coverage == 0.4,
                    "%f %f %f", cut.threshold, cut.precision, cut.coverage);
    cut = eval_cut_at(a, 100, 0.2);
    TEST_CHECK(near(cut.threshold, 0.80, 1e-6) && cut.precision == 0.5);
    cut = eval_cut_at(a, 100, 1);
    TEST_CHECK(cut.precision == 0.2 && cut.coverage == 1);
    cut = eval_find_cut(a, 100, 0.9);
    TEST_CHECK(cut.coverage == 0 && cut.threshold == 1);
    /* Completions of equal confidence are all shown or all hidden. */
    for (int i = 0; i < 100; i++) a[i] = (eval_answer){0.5f, i < 40};
    cut = eval_find_cut(a, 100, 0.5);
    TEST_CHECK(cut.coverage == 0);
    cut = eval_find_cut(a, 100, 0.4);
    TEST_CHECK(cut.coverage == 1 && cut.precision == 0.4);
    TEST_CHECK(eval_find_cut(a, 0, 0.5).coverage == 0);
}

int main(void)
{
    TEST_RUN(test_similarity);
    TEST_RUN(test_ratio);
    TEST_RUN(test_cuts);
    return unit_report("eval_stats");
}
