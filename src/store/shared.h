/* shared.h - a mapped file that may be truncated while in use.
 *
 * Touching a mapped page beyond the end of its file raises SIGBUS, and so does a page for which a
 * full disk has no block. Here such a page is replaced by private zeroed memory: the access
 * continues, and the owner can ask whether this happened. Then the file can be repaired. Faults in
 * other memory end the process as usual.
 *
 * Threads: shared_mend() by one at a time; others may use the memory meanwhile. */
#ifndef STORE_SHARED_H
#define STORE_SHARED_H

#include "base/base.h"

enum { SHARED_MAX = 64 }; /* mappings of one process */

typedef struct {
    void *at; /* NULL: not open */
    size_t len;
    int fd;
    int place;
} shared;

/* Map the whole of fd, which has len bytes; fd: borrowed until shared_close().  0 or an errno
 * (ENFILE: there are SHARED_MAX). */
CERIUM_CHECKED int shared_open(shared *s, int fd, size_t len);
void shared_close(shared *s);

/* False: the file is shorter than before, or was so when a page of it was touched. */
bool shared_is_whole(const shared *s);
/* Repair the file, with zeros for missing bytes, and map all of it again.
 * 0, or an errno: then nothing changes. Data written to lost pages is gone. */
CERIUM_CHECKED int shared_mend(shared *s);

#endif
