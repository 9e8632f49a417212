/* chunks.h - reads a body in HTTP/1.1's chunked coding (RFC 9112 7.1), in any cuts.
 *
 * libwebsockets hands such bodies over as they came. */
#ifndef SERVER_CHUNKS_H
#define SERVER_CHUNKS_H

#include "base/base.h"
#include "base/memory.h"

/* Zero-initialise. */
typedef struct {
    int state;
    uint64_t left;   /* bytes of the chunk that are to come */
    uint32_t digits; /* of its length, so far */
    bool line_used;  /* the line of the trailer that is read is not empty */
    bool done;       /* the last chunk and its trailer were read */
} chunks;

/* More bytes; what they carry is appended to *body.  What stands behind the end is not looked at.
 * CERIUM_ERR_FORMAT, or of bytes_append(): CERIUM_ERR_CAPACITY, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int chunks_read(chunks *c, view text, bytes *body);

#endif
