/* api_writer.h - the two ways in which an answer is told. */
#ifndef SERVER_API_WRITER_H
#define SERVER_API_WRITER_H

#include "server/state.h"

/* By the writer of the request's API. */
extern const responder api_writer;
CERIUM_CHECKED int api_writer_open(answer *a, protocol_error *e);
/* Tell the events that a thread made. */
void api_writer_tell_held(answer *a);

#endif
