/* answer_watchdog.h - the watchdog of an answer: each of its texts has a watch; when that retracts
 * a line, the engine continues before the line. */
#ifndef SERVER_ANSWER_WATCHDOG_H
#define SERVER_ANSWER_WATCHDOG_H

#include "server/state.h"

/* What is done about weaknesses in this answer: the server's policy, its key's tier's, and what the
 * request asks for in its header or body, which may be stricter, and less strict only where the
 * tier allows it.
 * CERIUM_ERR_ARGUMENT with *e: 400. */
CERIUM_CHECKED int answer_watchdog_policy(answer *a, const char *header, protocol_error *e);

/* Open a watch for a choice, if the policy wants one.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int answer_watchdog_open(choice *ch);
/* The text ended: ch->sampled is what was released of it. */
void answer_watchdog_close(choice *ch);

/* What came of the engine, or that it ended; *out is what the watch lets out.  Its findings are
 * counted, logged and reported. CERIUM_ERR_MEMORY: nothing more may be released. */
CERIUM_CHECKED int answer_watchdog_step(choice *ch, const cerium_event *event, watch_result *out);
CERIUM_CHECKED int answer_watchdog_finish(choice *ch, watch_result *out);

/* After CERIUM_WATCH_RETRY, and the end of what ran: what is asked of the engine now, in *request,
 * which has all else as it was asked first.  False when there is nothing to ask for: no token is
 * left, or the recorded text is over.  CERIUM_ERR_MEMORY in *status. */
bool answer_watchdog_again(choice *ch, cerium_request *request, int *status);
/* A line was taken back, or a note is: the engine has not ended yet, and its events are void. */
bool answer_watchdog_turns(const choice *ch);
/* Bytes that the watch holds back now. */
uint64_t answer_watchdog_held(const choice *ch);
/* The answer's tokens so far: [*n], until the next step. */
const int32_t *answer_watchdog_tokens(const choice *ch, size_t *n);

#endif
