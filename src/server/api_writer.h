/* api_writer.h - answers are written by the protocol_writer of their API. */
#ifndef SERVER_API_WRITER_H
#define SERVER_API_WRITER_H

#include "server/state.h"

CERIUM_CHECKED int api_writer_open(answer *a, protocol_error *e);
/* Write text, and its tokens [n]; NULL: without tokens. */
CERIUM_CHECKED int api_writer_text(choice *ch, view text, const cerium_watch_token *tokens,
                                   uint32_t n);
/* Send the events that a thread made. */
void api_writer_tell_held(answer *a);

#endif
