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
/* For source.h: the same for text of our engine, as tokens. */
bool answer_keep_tokens(answer *a, view body);
/* Write the usage to the journal before the client gets the end; the same numbers everywhere.  An
 * answer without usage (it never began, or the server failed) does not count as a request. */
void answer_meter(answer *a);

#endif
