/* voice.h - the two ways in which an answer is told. */
#ifndef SERVER_VOICE_H
#define SERVER_VOICE_H

#include "server/state.h"

/* By the writer of the request's API. */
extern const answer_voice voice_writer;
CERIUM_CHECKED int voice_open(answer *a, protocol_error *e);
/* Tell the events that a thread made. */
void voice_tell_held(answer *a);

#endif
