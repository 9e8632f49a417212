/* unit.h - the whole unit-test harness: a test file is a program that ends with a count.
 *
 *   static void test_x(void) { TEST_CHECK(1 + 1 == 2); }
 *   int main(void) { TEST_RUN(test_x); return unit_report("name"); }  */
#ifndef UNIT_UNIT_H
#define UNIT_UNIT_H

#include <stdbool.h>
#include <stdio.h>

/* A sanitizer multiplies the cost of computing: tests with repetitions run fewer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_SANITIZED true
#else
#define UNIT_SANITIZED false
#endif
#define UNIT_TIMES(alone, sanitized) (UNIT_SANITIZED ? (sanitized) : (alone))

static int unit_passed, unit_failed, unit_test_failed;
static int unit_checks; /* run in this test, and skips */

#define TEST_CHECK(cond)                                                                           \
    do {                                                                                           \
        unit_checks++;                                                                             \
        if (!(cond)) {                                                                             \
            if (unit_test_failed++ < 20)                                                           \
                printf("  FAIL %s:%d: %s\n", __FILE__, __LINE__, #cond);                           \
        }                                                                                          \
    } while (0)
/* The same with a reason: TEST_CHECK_THAT(got == want, "%d", got) */
#define TEST_CHECK_THAT(cond, ...)                                                                 \
    do {                                                                                           \
        unit_checks++;                                                                             \
        if (!(cond) && unit_test_failed++ < 20) {                                                  \
            printf("  FAIL %s:%d: %s: ", __FILE__, __LINE__, #cond);                               \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)
#define TEST_RUN(test)                                                                             \
    do {                                                                                           \
        unit_test_failed = unit_checks = 0;                                                        \
        test();                                                                                    \
        if (!unit_checks) {                                                                        \
            unit_test_failed = 1;                                                                  \
            printf("  FAIL %s: no check ran and nothing was skipped\n", #test);                    \
        }                                                                                          \
        if (unit_test_failed) {                                                                    \
            unit_failed++;                                                                         \
            printf("  FAIL %s\n", #test);                                                          \
        } else {                                                                                   \
            unit_passed++;                                                                         \
        }                                                                                          \
    } while (0)

/* For tests that this machine or this checkout cannot run: TEST_SKIP("the AVX2 path: no AVX2
 * here") */
#define TEST_SKIP(what_and_why) ((void)unit_checks++, (void)printf("skipped: %s\n", what_and_why))

static inline int unit_report(const char *name)
{
    printf("%s: %d passed, %d failed\n", name, unit_passed, unit_failed);
    return unit_failed != 0;
}

#endif
