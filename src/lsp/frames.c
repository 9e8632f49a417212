/* frames.c - finds heads and bodies in a stream of bytes. */
#include "lsp/frames.h"

#include <strings.h>

enum { READ_BYTES_MAX = 1 << 20, HEAD_KEPT = 64 };

int lsp_frames_add(lsp_frames *f, view more)
{
    f->in.max = LSP_HEAD_BYTES_MAX + (size_t)LSP_BODY_BYTES_MAX + READ_BYTES_MAX;
    if (f->at) {
        f->in.len -= f->at;
        memmove(f->in.ptr, f->in.ptr + f->at, f->in.len);
        f->at = 0;
    }
    size_t n = f->skip < more.len ? f->skip : more.len;
    RETURN_IF(bytes_append(&f->in, more.ptr + n, more.len - n));
    f->skip -= n;
    return CERIUM_OK;
}

/* The value of a line "Content-Length: 12". */
static bool read_length(view line, uint64_t *out)
{
    static const char name[] = "content-length";
    const size_t n = sizeof name - 1;
    if (line.len <= n || strncasecmp(line.ptr, name, n) != 0) return false;
    line = view_trim((view){line.ptr + n, line.len - n}, " \t\r");
    if (!line.len || *line.ptr != ':') return false;
    return parse_u64(view_trim_start((view){line.ptr + 1, line.len - 1}, " \t\r"), out);
}

/* The bytes of the head with its empty line; 0: it is incomplete. */
static size_t head_bytes(view in)
{
    size_t line = 0;
    for (size_t i = 0; i < in.len; i++) {
        if (in.ptr[i] != '\n') continue;
        size_t n = i - line;
        if (n == 0 || (n == 1 && in.ptr[line] == '\r')) return i + 1;
        line = i + 1;
    }
    return 0;
}

static bool head_length(view head, uint64_t *out)
{
    bool found = false;
    while (head.len) {
        const char *end = memchr(head.ptr, '\n', head.len);
        size_t n = end ? (size_t)(end - head.ptr) : head.len;
        if (!found) found = read_length((view){head.ptr, n}, out);
        n += end != NULL;
        head = (view){head.ptr + n, head.len - n};
    }
    return found;
}

/* Skip the received part of an unwanted body. */
static void skip_body(lsp_frames *f, uint64_t length)
{
    size_t here = f->in.len - f->at;
    size_t n = length < here ? (size_t)length : here;
    f->at += n;
    f->skip = (size_t)(length - n);
}

static lsp_frame_kind read_head(lsp_frames *f)
{
    uint64_t length;
    /* Some peers end a body with a line break. */
    while (f->at < f->in.len && (f->in.ptr[f->at] == '\r' || f->in.ptr[f->at] == '\n')) f->at++;
    view in = {f->in.ptr + f->at, f->in.len - f->at};
    size_t n = head_bytes(in);
    if (!n && in.len < LSP_HEAD_BYTES_MAX) return LSP_FRAME_NONE;
    if (!n || n > LSP_HEAD_BYTES_MAX) { /* its end, or what may be a part of it, is kept */
        f->at += n ? n : in.len - HEAD_KEPT;
        return LSP_FRAME_HEAD_LONG;
    }
    f->at += n;
    if (!head_length((view){in.ptr, n}, &length)) return LSP_FRAME_NO_LENGTH;
    if (length > LSP_BODY_BYTES_MAX) {
        skip_body(f, length);
        return LSP_FRAME_TOO_LONG;
    }
    f->body = (size_t)length;
    f->has_head = true;
    return LSP_FRAME_BODY;
}

lsp_frame_kind lsp_frames_next(lsp_frames *f, view *body)
{
    if (f->skip || f->at == f->in.len) {
        if (f->at == f->in.len && f->in.cap > READ_BYTES_MAX) bytes_free(&f->in), f->at = 0;
        if (!f->has_head || f->body) return LSP_FRAME_NONE;
    }
    if (!f->has_head) {
        lsp_frame_kind kind = read_head(f);
        if (kind != LSP_FRAME_BODY) return kind;
    }
    if (f->in.len - f->at < f->body) return LSP_FRAME_NONE;
    *body = (view){f->in.ptr + f->at, f->body};
    f->at += f->body;
    f->has_head = false;
    return LSP_FRAME_BODY;
}

void lsp_frames_close(lsp_frames *f) { bytes_free(&f->in); }

int lsp_frame_write(bytes *out, view body)
{
    char head[48];
    int n = snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", body.len);
    RETURN_IF(bytes_reserve(out, (size_t)n + body.len));
    RETURN_IF(bytes_append(out, head, (size_t)n));
    return bytes_append(out, body.ptr, body.len);
}
