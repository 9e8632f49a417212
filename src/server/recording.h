/* recording.h - the events of a stored response, recorded so that its stream can be resumed.
 *
 * Each event is kept under its sequence number while the response runs and for SERVER_RECORD_NS
 * after its end: at most SERVER_RECORD_BYTES_MAX of one response, the oldest events go first, and
 * SERVER_RECORDS_BYTES_MAX of all, where whole responses that ended go first.  Connections follow:
 * they get the recorded events, then new ones, as fast as they read.  The answer never waits for
 * them.  Belongs to the loop's thread. */
#ifndef SERVER_RECORDING_H
#define SERVER_RECORDING_H

#include "server/state.h"

enum {
    SERVER_RECORD_BYTES_MAX = 4 << 20,
    SERVER_RECORDS_BYTES_MAX = 64 << 20,
};
#define SERVER_RECORD_NS (UINT64_C(300) * 1000000000)

/* A new recording; NULL: out of memory. */
recording *recording_open(server *s, uint64_t tenant, const char *id);
/* The response never began, or its events are useless now; nulls it, accepts NULL.  Followers are
 * notified. */
void recording_drop(recording **r);
/* Add an event, and send it to followers.  NULL: no recording. */
void recording_add(recording *r, const char *name, view json);
/* The last event was added. */
void recording_end(recording *r);

/* NULL: there is none, or all its events are gone. */
recording *recording_find(server *s, uint64_t tenant, const char *id);
/* Send to k's connection the events after number `after` (all of them for -1), and new ones, until
 * the end.  CERIUM_ERR_ARGUMENT with *e: some of these are gone, and the response still runs. */
int recording_follow(const sink *k, recording *r, int64_t after, protocol_error *e);
/* Its reader took some output. */
void recording_reads(connection *c);
/* The exchange has ended. */
void recording_leave(connection *c);
bool recording_is_followed(const recording *r);

/* Once a second: free recordings that are too old. */
void recordings_tick(server *s, uint64_t now_ns);
size_t recordings_bytes(const server *s);
void recordings_close(server *s);

#endif
