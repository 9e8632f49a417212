/* solve_judge.h - the tests of `cerium solve`, and the slots that run them. */
#ifndef PROGRAMS_SOLVE_JUDGE_H
#define PROGRAMS_SOLVE_JUDGE_H

#include "programs/solve.h"

/* One set of tests: how to run a program, and the tests' text. */
typedef struct {
    wire_language language;
    wire_mode mode;
    bytes text; /* owned */
} solve_tests;

typedef struct {
    sandbox_config config;
    unsigned flags;          /* WIRE_USE_CC, WIRE_MAY_LOOK */
    view name;               /* name of the file in the sandbox */
    sandbox_limits limits;
    const solve_tests *tests;
    sandbox *slots[SOLVE_SLOTS_MAX];
    uint32_t running[SOLVE_SLOTS_MAX]; /* index of a variant; SOLVE_NONE */
    uint32_t n_slots;
    bytes program;           /* the variant that is sent */
    uint64_t cpu_ns;         /* of all runs */
} solve_judge;

/* Open the first slot; the limits are those of the language. */
CERIUM_CHECKED int tester_open(solve_judge *j, cerium_error *err);
/* Up to n slots. */
CERIUM_CHECKED int tester_open_slots(solve_judge *j, uint32_t n, cerium_error *err);
void tester_close(solve_judge *j);

/* Run one program and wait; the result is valid until the next run. */
CERIUM_CHECKED int tester_run(solve_judge *j, view program, const solve_tests *tests,
                             sandbox_result *out, cerium_error *err);
/* The same in a new sandbox with another hash seed: a pass there, too, does not depend on
 * either. */
CERIUM_CHECKED int tester_confirm(const solve_judge *j, view program, const solve_tests *tests,
                                 wire_verdict *out, cerium_error *err);

/* Set the limits from the run of the unchanged file. */
void tester_calibrate(solve_judge *j, const sandbox_result *r);

/* Start a variant in a free slot; false if none is free. */
CERIUM_CHECKED int tester_start(solve_judge *j, const solve_set *s, uint32_t index,
                               cerium_error *err);
bool tester_has_room(const solve_judge *j);
bool tester_is_idle(const solve_judge *j);
/* Wait at most ms for a result or for the descriptor `other` (-1: none); decide on results. */
CERIUM_CHECKED int tester_wait(solve_judge *j, solve_set *s, int other, int ms, cerium_error *err);

#endif
