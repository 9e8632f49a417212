/* zmtp.h - ZMTP 3.0 as bytes: the protocol of ZeroMQ's sockets over TCP (rfc.zeromq.org/spec/23).
 *
 * Each side sends a greeting of 64 bytes, then one command READY that names its kind of socket,
 * then frames.  A message is one frame or several.  Security: NULL, none. */
#ifndef NET_ZMTP_H
#define NET_ZMTP_H

#include "base/memory.h"

enum { ZMTP_GREETING_BYTES = 64, ZMTP_HEAD_BYTES = 9 };

extern const uint8_t zmtp_greeting[ZMTP_GREETING_BYTES];

typedef struct {
    bool more;    /* another frame of this message follows */
    bool command;
    view body;
    size_t size;  /* with its head */
} zmtp_frame;

typedef enum { ZMTP_PARTIAL, ZMTP_WHOLE, ZMTP_BROKEN } zmtp_result;

/* ZMTP_BROKEN as soon as it is known: another protocol, a version before 3, security. */
zmtp_result zmtp_read_greeting(view in);
/* ZMTP_BROKEN: reserved flags, or a body longer than max. */
zmtp_result zmtp_read_frame(view in, size_t max, zmtp_frame *out);
/* The rest of a command with this name. */
bool zmtp_is_command(const zmtp_frame *f, const char *name, view *rest);
/* A property of READY; names in any case.  Empty if missing or broken. */
view zmtp_property(view properties, const char *name);

/* Append. CERIUM_ERR_MEMORY, CERIUM_ERR_CAPACITY. */
CERIUM_CHECKED int zmtp_write_frame(bytes *out, bool more, bool command, view body);
CERIUM_CHECKED int zmtp_write_ready(bytes *out, const char *socket_type);

void zmtp_put_u64(uint8_t out[8], uint64_t n);
uint64_t zmtp_get_u64(const uint8_t in[8]);

#endif
