/* eval_run.h - one model over a set: predictions, generated text and confidence. */
#ifndef PROGRAMS_EVAL_RUN_H
#define PROGRAMS_EVAL_RUN_H

#include "programs/eval_candidates.h"
#include "programs/eval_retrieve.h"
#include "programs/eval_stats.h"

typedef enum { EVAL_PREFIX = 0, EVAL_MIDDLE = 1, EVAL_FORMS = 2 } eval_form;

typedef struct {
    char text[EVAL_ANSWER_BYTES]; /* [len] the first line that is not blank */
    uint32_t len;
    float confidence;             /* probability of all its tokens */
    float similarity;
    bool right;
    uint32_t right_at;            /* which of several candidates is, from 1; 0: none */
} eval_result;

typedef struct {
    double *bits, *bytes;               /* [documents]; 0 for those that were not scored */
    eval_result *results[EVAL_FORMS];   /* [tasks]; NULL: the model has no such form */
    int32_t *likeliest;                 /* [n_likeliest] most likely tokens at places of the set */
    size_t n_likeliest;
    uint64_t n_prompt_tokens;           /* of all holes */
} eval_run;

typedef struct {
    uint32_t window;      /* the most tokens that the model sees */
    uint32_t line_tokens; /* the most of an answer */
    uint32_t n_likeliest; /* places at which the most likely token is noted */
    uint64_t bytes;       /* of each language whose bits are counted */
    uint64_t neighbour_bytes; /* of another file of the package, before holes */
    uint64_t retrieve_bytes;  /* of snippets of the package, before holes */
    eval_retrieval retrieval; /* which snippets */
    bool only_holes;          /* only holes are evaluated */
    uint64_t seed;
    double pointer;       /* in lines, see cerium_sampling; below 0: as the model file asks */
    uint32_t n_candidates; /* of a hole; 0: one */
    bool unhealed; /* the prompt is not cut back to the end of a token */
} eval_options;

/* The session scores SCORE tokens in a pass: open it with eval_session_config(). */
cerium_session_config eval_session_config(void);
CERIUM_CHECKED int eval_run_model(eval_run *run, const eval_set *set, const eval_options *o,
                                  const cerium_engine *engine, cerium_session *session,
                                  cerium_error *err);
void eval_run_close(eval_run *run);

#endif
