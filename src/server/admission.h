/* admission.h - admission control: is a request admitted now? */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/state.h"

/* May one more of the class run?  Better classes have places beside lower ones, which share passes
 * in the engine. */
bool admission_has_place(const server *s, cerium_class class_);
/* The same for a key without a running answer: it has as many extra places, so that it need not
 * wait for others that took all places. */
bool admission_has_place_for_idle(const server *s, cerium_class class_);
/* How long a request of this class would wait before it starts if admitted now: by the answers
 * ahead of it and the recent duration of answers.  0 = it starts at once. */
uint64_t admission_wait_ms(const server *s, cerium_class class_);
/* The recent duration of an answer. */
uint64_t admission_answer_ns(const server *s);
/* An answer ended. */
void admission_ended(server *s, uint64_t took_ns);

/* Is there room for a in the queue?  a is not in it yet.  CERIUM_ERR_ARGUMENT with *e: 429 and the
 * time to retry, 503 while the server ends. */
CERIUM_CHECKED int admission_check(const answer *a, protocol_error *e);

#endif
