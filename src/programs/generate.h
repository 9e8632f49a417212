/* generate.h - the loop that streams an answer to a file, with its figures and Ctrl-C. */
#ifndef PROGRAMS_GENERATE_H
#define PROGRAMS_GENERATE_H

#include "base/thread.h"
#include "programs/options.h"

typedef struct {
    uint32_t prompt_tokens, reused_tokens, new_tokens;
    uint64_t prompt_ns;       /* prompt to its logits */
    uint64_t first_ns;        /* prompt to the first token */
    uint64_t rest_ns;         /* first token to the last */
    cerium_stop stop;
    bool interrupted;         /* Ctrl-C */
} generation;

/* Sees every step as it comes; may be NULL. */
typedef void step_fn(void *arg, const cerium_session *session, const cerium_step *step);

/* Continue tokens [n_tokens] with at most n_new, text to out as it comes (flushed by token).
 * A generation that Ctrl-C ends is no error: what was made is kept and counted. */
CERIUM_CHECKED int generate(cerium_session *session, const int32_t *tokens, size_t n_tokens,
                            uint32_t n_new, const cerium_sampling *sampling, FILE *out,
                            step_fn *seen, void *arg, generation *g, cerium_error *err);

/* "end", "text", "limit"; "" while there is more to come */
const char *stop_name(cerium_stop stop);

/* "prompt 12 tokens in 3.1 ms, first token after 3.2 ms, 64 tokens at 812 tokens/s" */
void print_generation(const generation *g, FILE *to);

/* While a session generates, Ctrl-C cancels it instead of ending the program. */
void interrupt_cancels(cerium_session *session);
/* The same for who works with many: the bell rings, and interrupt_came() says why. */
void interrupt_rings(thread_bell *bell);
bool interrupt_came(void);
void interrupt_restore(void);

#endif
