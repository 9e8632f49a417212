/* scheduler.h - the thread that runs requests, and the plan of its next pass. */
#ifndef ENGINE_SCHEDULER_H
#define ENGINE_SCHEDULER_H

#include "engine/request.h"
#include "engine/shares.h"

struct scheduler {
    cerium_engine *engine;
    pthread_t thread;
    bool has_thread;
    _Atomic bool closing;
    cerium_session *_Atomic submitted; /* a stack, linked through next_submitted */
    _Atomic uint32_t pass_class; /* a request of a class below it stops the pass; 0 = none does */
    _Atomic uint64_t alone_key;  /* so does one of this class and another key than this: */
    _Atomic uint32_t alone_class; /* CERIUM_CLASSES = none does */

    /* the scheduler thread's */
    cerium_session **active;     /* [sessions_max] */
    uint32_t n_active;
    bool keeps_threads;          /* another pass was to follow the last one at once */
    time_shares shares;          /* of keys: [sessions_max] */
    double prompt_ns_max;        /* that a pass with a prompt in it should last */
    uint64_t n_passes;
    /* What lower classes cost those above them (batch_account). */
    double lower_credit_ns;      /* that they may still take; < 0: they took too much */
    double expected_ns;          /* of the pass, before it ran */
    double slowness;             /* of passes of one class: measured over estimated, a mean */
    uint32_t riders_max;         /* that may come along */
    double stop_credit_ns;       /* of passes that other keys may stop; < 0: it was too much */

    /* the plan */
    cerium_session *slots[ENGINE_STREAMS_MAX];
    uint32_t n_slots;
    pass_rows rows;
    uint32_t n_own_rows; /* of those: those of the best class, which come first */
    uint32_t n_own;      /* of n_plan */
    bool is_for_starved; /* it has a prompt that higher classes may not stop */
};

CERIUM_CHECKED int scheduler_open(scheduler **out, cerium_engine *e, cerium_error *err);
/* Open without its thread: the caller runs scheduler_turn(). */
CERIUM_CHECKED int scheduler_make(scheduler **out, cerium_engine *e, cerium_error *err);
/* Take submitted requests, and run one pass.  False: no request can continue now. */
bool scheduler_turn(scheduler *p);
void scheduler_submit(scheduler *sched, cerium_session *s);

/* ---- batch.c ---- */

enum { BATCH_PROMPT_NS_MAX = 50000000, BATCH_PROMPT_NS_MIN = BATCH_PROMPT_NS_MAX / 16 };

/* A shorter pass of next tokens is not stopped for a better class. */
enum { BATCH_STOP_NS_MIN = 1000000 };

/* Within a pass: choose its requests, make room for them, and write their rows. */
void batch_build(scheduler *p);
/* The first n tokens of the prompt are there: count those that this request did not compute. */
void batch_count_reused(cerium_session *s, uint32_t n);
/* How long a pass of n_rows should last, as passes of one class do of late; 0 = not known. */
double batch_estimate(const scheduler *p, uint32_t n_rows);
/* After a pass of the plan that took ns: charge lower classes what they added to it. */
void batch_account(scheduler *p, double ns);
/* After a pass that was stopped, whose work is lost. */
void batch_stopped(scheduler *p, double ns);

#endif
