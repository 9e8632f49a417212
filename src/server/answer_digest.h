/* answer_digest.h - `cerium_digest`: the proof of how an answer's choices were computed.
 *
 * A choice has a digest if one run of the engine drew all its tokens, and the client got them
 * unchanged; else the answer gives the reason. */
#ifndef SERVER_ANSWER_DIGEST_H
#define SERVER_ANSWER_DIGEST_H

#include "server/state.h"

/* Its session is open; no effect for requests without digests.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int answer_digest_open(choice *ch);
/* The engine returned a token. */
void answer_digest_step(choice *ch, const cerium_step *step);
/* It has no digest, for this reason, static text; the last reason counts. */
void answer_digest_void(choice *ch, const char *why);
void answer_digest_close(choice *ch);

/* All choices ended: give their digests to the writer.  On a thread or on the loop.
 * CERIUM_ERR_MEMORY, CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int answer_digests_tell(answer *a);
/* About how many bytes these take. */
size_t answer_digest_bytes(const choice *ch);

#endif
