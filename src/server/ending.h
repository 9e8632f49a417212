/* ending.h - how answers and their choices end, for who makes and follows them. */
#ifndef SERVER_ENDING_H
#define SERVER_ENDING_H

#include "server/answers.h"
#include "server/look.h"

/* One that never began, or is over. */
void answer_free(answer *a);
/* Its client left before it began to run: it is over. */
void answer_abandon(answer *a);
/* Free a request, which came as so many bytes; nulls it. */
void request_bury(server *s, protocol_request **request, size_t n_bytes);
/* A thread makes its end: told when that is kept. */
void answer_hold(answer *a, const char *name, const char *json, size_t len);
/* What failed first is what the client is told. */
void answer_fail(answer *a, const protocol_error *e);
/* More choices of the answer wait, or fewer. */
void answer_count_waiting(const answer *a, int32_t n);
/* More of them run, or fewer; those that are parked do not. */
void answer_count_running(const answer *a, int32_t n);

/* Take what the engine has for the choice, at least one event, until end_ns. */
look_result choice_look(choice *ch, uint64_t end_ns);

/* Text for the client; kept until the end where what is improbable is to be held back.
 * tokens: [n], or NULL. */
int choice_tell(choice *ch, view text, const watch_token *tokens, uint32_t n);
/* The client is told that a choice ended; its session may go on for another layer. */
void choice_end(choice *ch, protocol_end end);
/* We end a choice, not the model. */
void choice_stop(choice *ch, protocol_end end);
/* Its session is given back. */
void choice_closed(choice *ch);

#endif
