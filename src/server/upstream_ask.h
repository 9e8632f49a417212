/* upstream_ask.h - one question to an upstream, without a server: `cerium run --deep`. */
#ifndef SERVER_UPSTREAM_ASK_H
#define SERVER_UPSTREAM_ASK_H

#include "base/base.h"
#include "server/policy.h"

typedef struct {
    const char *upstream;   /* its name; NULL: the first one */
    view prompt;
    const char *system;     /* or NULL */
    uint32_t new_tokens_max; /* 0: no limit */
    void (*text)(void *user, view text); /* receives its output at once */
    void *user;
} upstream_question;

typedef struct {
    const char *served_by, *model; /* of the policy */
    uint32_t input_tokens, cached_tokens, output_tokens;
    uint64_t first_ns, duration_ns;
    bool cut; /* it reached the token limit */
} upstream_reply;

/* Send the request, and wait for the end.  CERIUM_ERR_ARGUMENT: no such upstream; CERIUM_ERR_IO: it
 * failed, with the server's message. */
CERIUM_CHECKED int upstream_ask(const policy *p, const upstream_question *question,
                                upstream_reply *answer, cerium_error *err);

#endif
