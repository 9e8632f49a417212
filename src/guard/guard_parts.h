/* guard_parts.h - what a guard and its workers are made of; for stream.c and guard.c. */
#ifndef GUARD_GUARD_PARTS_H
#define GUARD_GUARD_PARTS_H

#include "guard/judge.h"
#include "guard/literals.h"
#include "guard/window.h"

struct guard {
    rule_set rules;
    rule_index *index;
    literal_set literals[GUARD_LANGUAGES];
};

struct guard_worker {
    const guard *g;
    hs_scratch_t *scratch;
    judge judge;
    char window[GUARD_WINDOW_BYTES + WINDOW_CLOSERS + 64];
    guard_finding findings[GUARD_FINDINGS_MAX];
    uint32_t n_findings, n_judged;
    bool late;
};

#endif
