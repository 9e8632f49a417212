/* generate.h - the loop that streams an answer: watchdog, figures and Ctrl-C. */
#ifndef PROGRAMS_GENERATE_H
#define PROGRAMS_GENERATE_H

#include "base/thread.h"
#include "programs/watchdog.h"

typedef struct {
    uint32_t prompt_tokens, reused_tokens, new_tokens;
    uint32_t discarded_tokens; /* in retracted lines */
    uint64_t prompt_ns;       /* from the prompt to its logits */
    uint64_t first_ns;        /* from the prompt to the first token */
    uint64_t rest_ns;         /* from the first token to the last */
    cerium_stop stop;
    bool interrupted;         /* Ctrl-C */
    bool guarded;             /* the watchdog ended it */
    uint32_t n_sampled;       /* since the prompt, or the last retracted line; with a digest */
    unsigned char digest[CERIUM_DIGEST_BYTES]; /* of the tokens, if sampling asks for it */
} generation;

/* Sees every token whose text was released; may be NULL. */
typedef void token_fn(void *user, const cerium_watch_token *token);
/* Takes text as it arrives.  GENERATE_ENOUGH ends the answer. */
enum { GENERATE_ENOUGH = 1 };
typedef int text_fn(void *user, view text, cerium_error *err);

typedef struct {
    const int32_t *tokens;           /* [n_tokens] the text to continue */
    size_t n_tokens;
    view heal_prefix;                /* cerium_resume.heal_prefix: the end of the prompt's text */
    uint32_t n_new;                  /* the most tokens of the answer */
    const cerium_sampling *sampling;
    text_fn *text;
    token_fn *seen;
    uint32_t n_top;                  /* likeliest tokens at each place, for seen; needs steps of one
                                        token */
    uint64_t *marks;                 /* [n_new] output: cerium_step.digests; or NULL */
    void *user;
    watchdog *watchdog;              /* on or off, and the kind of answer: */
    guard_form form;
    guard_language language;
    view echo; /* written before the answer, once the request can no longer be refused */
    view before;                     /* GUARD_CODE: the code before it */
    bool has_after;                  /* and there is code after it */
} generation_order;

/* Stream an answer.  Ctrl-C is not an error: the text so far is kept and counted. */
CERIUM_CHECKED int generate(cerium_session *session, const cerium_engine *engine,
                            const generation_order *order, generation *g, cerium_error *err);

/* Writes to the FILE user, flushed at once. */
int generate_to_file(void *user, view text, cerium_error *err);

/* "end", "text", "limit"; "" while it still runs */
const char *stop_name(cerium_stop stop);

/* "prompt 12 tokens in 3.1 ms, first token after 3.2 ms, 64 tokens at 812 tokens/s" */
void print_generation(const generation *g, FILE *to);

/* While a session generates, Ctrl-C cancels it instead of ending the program. */
void interrupt_cancels(cerium_session *session);
/* For callers with several requests: Ctrl-C rings the bell, and interrupt_came() returns true. */
void interrupt_rings(thread_bell *bell);
bool interrupt_came(void);
void interrupt_restore(void);

#endif
