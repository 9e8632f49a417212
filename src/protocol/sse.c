/* sse.c - lines become events. */
#include "protocol/sse.h"

void sse_open(sse *s, size_t event_bytes_max)
{
    *s = (sse){.line.max = event_bytes_max, .data.max = event_bytes_max};
}

void sse_close(sse *s)
{
    bytes_free(&s->line);
    bytes_free(&s->data);
}

static int end_line(sse *s, sse_fn *fn, void *user)
{
    view line = {s->line.ptr, s->line.len};
    int status = CERIUM_OK;
    s->line.len = 0;
    if (!line.len) {
        bool any = s->any;
        view data = {s->data.ptr, s->data.len};
        s->any = false;
        s->data.len = 0;
        return any ? fn(user, data) : CERIUM_OK;
    }
    if (!view_starts(line, VIEW("data")) || (line.len > 4 && line.ptr[4] != ':')) return CERIUM_OK;
    size_t from = line.len > 5 && line.ptr[5] == ' ' ? 6 : line.len > 4 ? 5 : 4;
    if (s->any) status = bytes_append(&s->data, "\n", 1);
    if (!status && line.len > from)
        status = bytes_append(&s->data, line.ptr + from, line.len - from);
    s->any = true;
    return status;
}

int sse_feed(sse *s, view text, sse_fn *fn, void *user)
{
    while (text.len) {
        size_t n = 0;
        if (s->was_cr && *text.ptr == '\n') { /* the second byte of \r\n */
            s->was_cr = false;
            text = (view){text.ptr + 1, text.len - 1};
            continue;
        }
        s->was_cr = false;
        while (n < text.len && text.ptr[n] != '\n' && text.ptr[n] != '\r') n++;
        if (n) RETURN_IF(bytes_append(&s->line, text.ptr, n));
        if (n == text.len) return CERIUM_OK;
        s->was_cr = text.ptr[n] == '\r';
        text = (view){text.ptr + n + 1, text.len - n - 1};
        RETURN_IF(end_line(s, fn, user));
    }
    return CERIUM_OK;
}
