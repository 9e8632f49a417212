/* answers.h - one answer, from its first event to its last: beginning, text, end.
 *
 * Requests come from answer_open.h, text from source.h; sink.h sends the answer. */
#ifndef SERVER_ANSWERS_H
#define SERVER_ANSWERS_H

#include "server/state.h"

/* The most tokens of each of its texts; UINT32_MAX: no limit given.  Only texts that the server
 * starts itself have a cap here: a summary is short. */
enum { SUMMARY_TOKENS_MAX = 1024 };
static inline uint32_t answer_cap(const answer *a)
{
    uint32_t most = a->warm_up ? 0 : a->request->new_tokens_max;
    return a->request->compacts && most > SUMMARY_TOKENS_MAX ? SUMMARY_TOKENS_MAX : most;
}

/* ---- the beginning ---- */

/* Tell the client that it began, once. */
void answer_tell_begin(answer *a);
/* A warm-up is over for its client when it began. */
void answer_end_warm_up(answer *a);

/* ---- while it runs ---- */

/* More or fewer choices of the answer wait. */
void answer_count_waiting(const answer *a, int32_t n);
/* More or fewer of them run; parked ones do not. */
void answer_count_running(const answer *a, int32_t n);
/* Text for the client; kept until the end if improbable text is to be held back. tokens: [n], or
 * NULL. */
int choice_tell(choice *ch, view text, const cerium_watch_token *tokens, uint32_t n);

/* ---- the end ---- */

/* A failure of the server was found; the first one is reported. */
void answer_fail(answer *a, const protocol_error *e);
void answer_fail_memory(answer *a);
/* Tell the client that a choice ended; its session may run for another layer. */
void choice_end(choice *ch, protocol_end end);
/* The server ends a choice, not the model. */
void choice_stop(choice *ch, protocol_end end);
/* Its session is returned. */
void choice_closed(choice *ch);
/* End an answer with one choice; with an error for PROTOCOL_END_FAILED. */
void answer_end(answer *a, protocol_end end, const protocol_error *error);
/* End it now: the client gets the closing events with the text so far.  Its engine sessions stop
 * within a layer.  No effect on an answer that ended. */
void answer_cancel(answer *a, const char *reason);
/* Report why it cannot be given; it did not begin. */
void answer_refuse(answer *a, const protocol_error *e);
/* Its client left before it ran: it is over. */
void answer_abandon(answer *a);
/* Remove an answer that never began, or is over. */
void answer_free(answer *a);
/* Free a request of this many received bytes; nulls it. */
void request_bury(server *s, protocol_request **request, size_t n_bytes);

/* ---- all answers ---- */

/* The connection is gone: cancel the answers for it alone. */
void answers_leave(connection *c);
/* A running answer of this tenant; NULL when there is none. */
answer *answers_find(server *s, uint64_t tenant, const char *id);
/* An answer that this connection waits for; NULL when there is none. */
answer *answers_of(const connection *c);
/* Free answers that are over; at the end of each turn of the loop, when nothing points to them. */
void answers_reap(server *s);

#endif
