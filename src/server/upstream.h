/* upstream.h - requests to other servers, by libcurl, on a separate thread.
 *
 * A transfer is a POST and the bytes of its answer.  The thread moves bytes; the event loop takes
 * them when it is woken.  Bytes that arrive faster are held back (256 KiB), down to the other
 * server's socket.  After failures in a row an upstream is skipped for a time, and its health is
 * polled.  Why a thread: docs/decisions/0012-keys-limits-usage.md. */
#ifndef SERVER_UPSTREAM_H
#define SERVER_UPSTREAM_H

#include "base/memory.h"
#include "server/policy.h"

typedef struct upstreams upstreams;
typedef struct transfer transfer;

/* Read the keys and start the thread; p is borrowed.  wake(user) is called from the thread.
 * CERIUM_ERR_ARGUMENT: a missing key; CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int upstreams_open(upstreams **out, const policy *p, void (*wake)(void *user),
                                  void *user, cerium_error *err);
/* Ends running transfers. */
void upstreams_close(upstreams **u);

/* It answered recently, or no failure is known. */
bool upstream_is_up(const upstreams *u, uint32_t which);

/* POST body to the url's path ("/responses").  NULL when memory runs out or SERVER_RUNNING_MAX of
 * them are running. */
transfer *transfer_begin(upstreams *u, uint32_t which, const char *path, view body);

typedef struct {
    int status;           /* of HTTP; 0 = its head has not arrived */
    bool ended;           /* no more bytes will arrive */
    bool failed;          /* it ended too early; see error */
    uint32_t retry_after_s;
    char error[160];      /* one line */
} transfer_state;

/* Append the bytes received since the last call to *out, and report the state. */
CERIUM_CHECKED int transfer_take(transfer *t, bytes *out, transfer_state *state);
/* End it, if need be, and forget it. Accepts NULL and pointers to NULL. */
void transfer_end(transfer **t);

#endif
