/* frames.h - messages of the Language Server Protocol as bytes: a head with Content-Length, an
 * empty line, and this many bytes of JSON.
 *
 * Bytes come in pieces of any size.  An error costs only its own message: a body that is too long
 * is skipped, a head without a length is dropped. */
#ifndef LSP_FRAMES_H
#define LSP_FRAMES_H

#include "base/limits.h"
#include "base/memory.h"

#define LSP_HEAD_BYTES_MAX 8192u
#define LSP_BODY_BYTES_MAX PROTOCOL_BODY_BYTES_MAX /* once a whole file, when it is opened */

/* Zero-initialised: nothing was read. */
typedef struct {
    bytes in;
    size_t at;   /* of in, already used */
    size_t skip; /* remaining bytes of a body that is too long */
    size_t body; /* of the message whose head is complete */
    bool has_head;
} lsp_frames;

typedef enum {
    LSP_FRAME_NONE = 0,      /* more bytes are needed */
    LSP_FRAME_BODY = 1,
    LSP_FRAME_TOO_LONG = 2,  /* the body is skipped */
    LSP_FRAME_NO_LENGTH = 3, /* the head was dropped: no Content-Length, or no number in it */
    LSP_FRAME_HEAD_LONG = 4, /* the head was dropped: it is too long */
} lsp_frame_kind;

/* CERIUM_ERR_MEMORY: nothing was taken. */
CERIUM_CHECKED int lsp_frames_add(lsp_frames *f, view more);
/* The next message, or its error; *body is valid until the next call of either function. */
lsp_frame_kind lsp_frames_next(lsp_frames *f, view *body);
void lsp_frames_close(lsp_frames *f);

/* Append a message with its head. */
CERIUM_CHECKED int lsp_frame_write(bytes *out, view body);

#endif
