/* solve_run.h - one call of `cerium solve`: its request and its result. */
#ifndef PROGRAMS_SOLVE_RUN_H
#define PROGRAMS_SOLVE_RUN_H

#include "programs/apply.h"
#include "programs/solve_asked.h"
#include "programs/solve_judge.h"
#include "programs/solve_model.h"
#include "programs/watchdog.h"

enum { SOLVE_SURVIVORS_MAX = 64 };

/* How the unchanged file fails. */
typedef struct {
    char text[400];            /* the test, and its message */
    uint32_t line;             /* line of the file where it was raised; 0: not known */
    uint32_t n_passed, outer;  /* outer: solve_failed_line() */
} solve_failed;

typedef struct {
    options o;
    /* the request */
    const char *function, *root, *keep;
    uint32_t n_variants, n_survivors, n_slots, n_tokens, processes, level;
    bool all, first, survivors_given, apply, quiet, show_nearest, asks, makers[MAKERS];
    float temperature;         /* below 0: by the variant's index */
    double budget_s, wall_s, cpu_s;
    uint64_t memory_bytes, output_bytes;
    solve_place place;
    /* the input */
    apply_file file;
    view text;
    wire_language language;    /* of the file */
    solve_tests tests, hidden; /* hidden: empty if there are none */
    bytes folder;
    solve_span spans[SOLVE_HOLES_MAX];
    uint32_t n_spans;
    watchdog watchdog;
    /* running parts */
    solve_set set;
    solve_judge judge;
    solve_model model;
    solve_asked asked;         /* used instead if `asks` is set */
    cerium_engine *engine;
    uint64_t begin_ns;
    double before_ms;          /* of the tests on the unchanged file */
    wire_verdict before;
    solve_failed failed;
    bytes hint;
    /* the result */
    uint32_t survivors[SOLVE_SURVIVORS_MAX]; /* by index */
    uint32_t n_found, n_hidden_failed, n_flaky, n_weak, n_groups, n_alike;
    uint32_t winner;           /* SOLVE_NONE: none */
    bool stopped;              /* by Ctrl-C or the budget */
    bytes solved;              /* the file with the winner in it */
} solve;

/* ---- solve_run.c ---- */

/* Make and test variants until the request is satisfied.  CERIUM_OK also if none passes. */
CERIUM_CHECKED int solve_run(solve *s, cerium_error *err);

/* ---- solve_rank.c ---- */

/* The best of the survivors that passes again in a fresh sandbox: s->winner, s->solved. */
CERIUM_CHECKED int solve_choose(solve *s, cerium_error *err);
/* The failing variant that got furthest; SOLVE_NONE. */
uint32_t solve_nearest(const solve *s);

/* ---- solve_repair.c ---- */

void solve_read_failure(solve *s, const sandbox_result *r);
/* The line that failed first, then those of functions named in the failing test. */
void solve_sort_places(solve *s);
/* Plan and make at most n edits of the variants that got furthest.  All planned variants must be
 * decided. */
CERIUM_CHECKED int solve_repair(solve *s, uint32_t n, cerium_error *err);
/* A comment that describes the failure, with its line break; empty if that is not known. */
CERIUM_CHECKED int solve_hint(const solve *s, bytes *out, cerium_error *err);

/* ---- solve_tests.c ---- */

/* Sources of the tests: option by option. */
bool solve_takes_test(void *program, const char *value);
bool solve_takes_test_file(void *program, const char *value);
bool solve_takes_doctest(void *program, const char *value);
bool solve_takes_example(void *program, const char *value);
bool solve_takes_pytest(void *program, const char *value);
bool solve_takes_hidden(void *program, const char *value);
/* Read the named sources.  CERIUM_ERR_ARGUMENT: there are no tests, or two kinds of them. */
CERIUM_CHECKED int solve_tests_open(solve *s, cerium_error *err);
/* Run them on the unchanged file: they must run, and fail; and fail without the file.
 * CERIUM_ERR_ARGUMENT. */
CERIUM_CHECKED int solve_tests_check(solve *s, cerium_error *err);

/* ---- solve_show.c ---- */

void solve_show_progress(const solve *s, uint64_t *shown_ns);
CERIUM_CHECKED int solve_show_begin(const solve *s, cerium_error *err);
CERIUM_CHECKED int solve_show_pass(const solve *s, uint32_t index, cerium_error *err);
/* Print the diff and the figures, or the reason for none.  Returns the exit status. */
int solve_show_end(solve *s, bool is_applied);
/* With --ask, a failure is also an event. */
void solve_show_error(const cerium_error *err);
/* Every variant and its verdict, as JSON Lines. */
CERIUM_CHECKED int solve_keep(const solve *s, cerium_error *err);

#endif
