/* shared.h - a file that is mapped and may be cut under us.
 *
 * A page of a mapping that its file does not have any more is SIGBUS for whoever touches it, and so
 * is one that a full disk has no block for.  Here such a page becomes memory of this process, zero
 * at first: whoever touched it goes on, and is told when it asks.  Then the file can be made whole
 * again.  Faults in other memory end the process as they did before.
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
 * (ENFILE when there are SHARED_MAX). */
CERIUM_CHECKED int shared_open(shared *s, int fd, size_t len);
void shared_close(shared *s);

/* False when the file is shorter than it was, or was when a page of it was touched. */
bool shared_is_whole(const shared *s);
/* Make the file whole, what is missing zero, and map all of it again.  0 or an errno: then all
 * stays as it is.  What was written to lost pages is gone. */
CERIUM_CHECKED int shared_mend(shared *s);

#endif
