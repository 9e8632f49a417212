/* compiler.h - a thread that compiles grammars, so that the event loop never does.
 *
 * A job belongs to who made it until it is submitted, to the thread until it is done, and then to
 * who made it again.  Jobs are taken in their order, but one tenant after another: who brings many
 * large grammars waits for them alone.  A grammar takes as long as GRAMMAR_WORK_MAX allows. */
#ifndef SERVER_COMPILER_H
#define SERVER_COMPILER_H

#include "base/base.h"

typedef struct {
    char *text; /* [len] owned */
    size_t len;
    cerium_grammar_syntax syntax;
    bool may_fail;           /* others are compiled if this one cannot be */
    bool failed;             /* output */
    cerium_grammar *grammar; /* output, owned; given: nothing is to be done */
} compile_part;

typedef struct compile_job {
    compile_part *parts; /* [n_parts] owned */
    size_t n_parts;
    uint64_t tenant;
    int status;       /* output: of the first part that failed and may not; */
    size_t at;        /* which that is, */
    cerium_error err; /* and why */

    struct compile_job *next; /* the compiler's: of those that wait */
    int state;
    bool is_dropped;
} compile_job;

typedef struct compiler compiler;

/* engine: sorts its vocabulary for guides before the first job, or NULL.  wake: something is done;
 * called by the thread. */
CERIUM_CHECKED int compiler_open(compiler **out, cerium_engine *engine, void (*wake)(void *user),
                                 void *user, cerium_error *err);
/* Waits for the grammar that is being compiled.  No job is left. */
void compiler_close(compiler **out);

/* A job with room for n parts, all zero; NULL: no memory. */
compile_job *compile_job_new(size_t n, uint64_t tenant);
/* Copy text into part i. */
CERIUM_CHECKED int compile_job_put(compile_job *job, size_t i, cerium_grammar_syntax syntax,
                                   view text);
void compile_job_free(compile_job **job);

void compiler_submit(compiler *c, compile_job *job);
bool compiler_is_done(compiler *c, const compile_job *job);
/* Nobody wants a submitted job any more: freed now, or when the thread is done with it. */
void compiler_drop(compiler *c, compile_job **job);

#endif
