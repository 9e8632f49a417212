/* frames.h - messages of the Language Server Protocol as bytes: a head with Content-Length, an
 * empty line, and this many bytes of JSON.
 *
 * Bytes come in any pieces.  What is wrong with one message costs that message alone: a body that
 * is too long is passed over, a head without a length is dropped. */
#ifndef LSP_FRAMES_H
#define LSP_FRAMES_H

#include "base/limits.h"
#include "base/memory.h"

#define LSP_HEAD_BYTES_MAX 8192u
#define LSP_BODY_BYTES_MAX PROTOCOL_BODY_BYTES_MAX /* a whole file, once, when it is opened */

/* Zero-initialised, nothing was read. */
typedef struct {
    bytes in;
    size_t at;   /* of in, that was used up */
    size_t skip; /* bytes of a body that is too long, still to come */
    size_t body; /* of the message whose head was read */
    bool has_head;
} lsp_frames;

typedef enum {
    LSP_FRAME_NONE = 0,      /* more bytes are needed */
    LSP_FRAME_BODY = 1,
    LSP_FRAME_TOO_LONG = 2,  /* the body is passed over */
    LSP_FRAME_NO_LENGTH = 3, /* the head was dropped: no Content-Length, or no number in it */
    LSP_FRAME_HEAD_LONG = 4, /* and so was one without an end */
} lsp_frame_kind;

/* CERIUM_ERR_MEMORY: nothing was taken. */
CERIUM_CHECKED int lsp_frames_add(lsp_frames *f, view more);
/* The next message, or what was wrong with it; *body is valid until the next call of either. */
lsp_frame_kind lsp_frames_next(lsp_frames *f, view *body);
void lsp_frames_close(lsp_frames *f);

/* Append a message with its head. */
CERIUM_CHECKED int lsp_frame_write(bytes *out, view body);

#endif
