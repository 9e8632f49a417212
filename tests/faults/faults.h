/* faults.h - checks of the behaviour while the n-th allocation fails. */
#ifndef TESTS_FAULTS_FAULTS_H
#define TESTS_FAULTS_FAULTS_H

#include <stdio.h>

#include "base/memory.h"

static int passed, failed;

#define CHECK_THAT(cond, n)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("  FAIL %s:%d: %s at allocation %ld\n", __FILE__, __LINE__, #cond, (long)(n));  \
            failed++;                                                                              \
        }                                                                                          \
    } while (0)

#endif
