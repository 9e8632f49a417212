/* answer_watchdog.h - the watchdog of an answer: each of its texts has a watch; when that retracts
 * a line, the engine continues before the line. */
#ifndef SERVER_ANSWER_WATCHDOG_H
#define SERVER_ANSWER_WATCHDOG_H

#include "server/state.h"

/* Set the policy for weaknesses in this answer: the server's, that of its key's tier, and that of
 * the request's header or body, which may be stricter, and less strict only if the tier allows it.
 * CERIUM_ERR_ARGUMENT with *e: 400. */
CERIUM_CHECKED int answer_watchdog_policy(answer *a, const char *header, protocol_error *e);

/* Open a watch for a choice, if the policy wants one.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int answer_watchdog_open(choice *ch);
/* The text ended: ch->sampled becomes its released tokens. */
void answer_watchdog_close(choice *ch);

/* Feed an engine's step, or its end; *out is the text that the watch releases.  Findings are
 * counted, logged and reported. CERIUM_ERR_MEMORY: nothing more may be released. */
CERIUM_CHECKED int answer_watchdog_step(choice *ch, const cerium_event *event, watch_result *out);
CERIUM_CHECKED int answer_watchdog_finish(choice *ch, watch_result *out);

/* After CERIUM_WATCH_RETRY, and the end of the run: the next request to the engine, in *request,
 * whose other fields are those of the first one.  False if nothing is left to request: no token is
 * left, or the recorded text is over.  CERIUM_ERR_MEMORY in *status. */
bool answer_watchdog_again(choice *ch, cerium_request *request, int *status);
/* A line or a note was retracted: the engine has not ended yet, and its events are ignored. */
bool answer_watchdog_turns(const choice *ch);
/* Bytes that the watch currently holds back. */
uint64_t answer_watchdog_held(const choice *ch);
/* The answer's tokens so far: [*n], until the next step. */
const int32_t *answer_watchdog_tokens(const choice *ch, size_t *n);

#endif
