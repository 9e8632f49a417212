/* answer_keep.h - stores and meters a finished answer. */
#ifndef SERVER_ANSWER_KEEP_H
#define SERVER_ANSWER_KEEP_H

#include "server/state.h"

/* Does its client want it stored? */
bool answer_is_stored(const protocol_request *r);
/* Store the turn, so that the next request continues it.  False: the client wanted it stored, and
 * that failed.
 *   body: the whole answer, JSON */
bool answer_keep(answer *a, view body);
/* For source.h: the same of what our engine saw, as tokens. */
bool answer_keep_tokens(answer *a, view body);
/* In the journal before its client hears of the end; the same numbers everywhere.  An answer that
 * used nothing (it never began, or we failed) is as if it had not been asked for. */
void answer_meter(answer *a);

#endif
