/* combined.c - signs and headers of combined diffs, a line at a time. */
#include "programs/combined.h"

static int send_head(combined *c)
{
    int status = bytes_append(&c->out, c->head, c->n_head);
    c->n_head = 0;
    return status;
}

/* "@@@ -4,5 -5,4 +5,6 @@@ what it is in": the number of parents and the last range; 0: another
 * line. */
static size_t read_header(const combined *c, view *range)
{
    size_t n = 0, i = 0;
    for (; i < c->n_head && c->head[i] == '@'; i++) n++;
    if (n < 3 || n > COMBINED_PARENTS_MAX + 1) return 0;
    const char *from = memchr(c->head, '+', c->n_head);
    if (!from) return 0;
    for (i = 1; from + i < c->head + c->n_head && from[i] != ' '; i++)
        if (from[i] != ',' && (from[i] < '0' || from[i] > '9')) return 0;
    *range = (view){from, i};
    return n - 1;
}

/* A held line of @, without its end. */
static int end_header(combined *c)
{
    view range;
    const size_t n_parents = read_header(c, &range);
    if (!n_parents) return send_head(c);
    c->n_parents = n_parents;
    c->n_head = 0;
    RETURN_IF(bytes_append(&c->out, "@@ -0,0 ", 8));
    RETURN_IF(bytes_append(&c->out, range.ptr, range.len));
    return bytes_append(&c->out, " @@", 3);
}

/* A line whose signs are complete, or that ends before. */
static int end_signs(combined *c)
{
    const bool is_old = memchr(c->head, '-', c->n_head), is_new = memchr(c->head, '+', c->n_head);
    c->n_head = 0;
    c->in_line = true;
    return bytes_append(&c->out, is_old ? "-" : is_new ? "+" : " ", 1);
}

static int begin_byte(combined *c, char byte)
{
    if (c->n_parents && !strchr("+- \\", byte)) c->n_parents = 0; /* the hunk is over */
    if (c->n_parents && byte != '\\') {
        c->head[c->n_head++] = byte;
        return c->n_head == c->n_parents ? end_signs(c) : CERIUM_OK;
    }
    if (byte == '@') {
        c->head[c->n_head++] = byte;
        return CERIUM_OK;
    }
    c->in_line = true;
    return bytes_append(&c->out, &byte, 1);
}

static int held_byte(combined *c, char byte)
{
    if (c->n_parents && strchr("+- ", byte)) return begin_byte(c, byte);
    if (c->n_parents) { /* shorter than its signs: no line of a hunk */
        c->n_parents = 0;
        c->in_line = true;
        RETURN_IF(send_head(c));
        return bytes_append(&c->out, &byte, 1);
    }
    c->head[c->n_head++] = byte;
    if (c->n_head < sizeof c->head) return CERIUM_OK;
    c->in_line = true;
    return end_header(c);
}

int combined_feed(combined *c, view text, bool last)
{
    c->out.len = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char byte = text.ptr[i];
        if (byte == '\n') {
            if (c->n_head) RETURN_IF(c->n_parents ? end_signs(c) : end_header(c));
            c->in_line = false;
            RETURN_IF(bytes_append(&c->out, "\n", 1));
        } else if (c->in_line) {
            const char *end = memchr(text.ptr + i, '\n', text.len - i);
            const size_t n = end ? (size_t)(end - text.ptr) - i : text.len - i;
            RETURN_IF(bytes_append(&c->out, text.ptr + i, n));
            i += n - 1;
        } else {
            RETURN_IF(c->n_head ? held_byte(c, byte) : begin_byte(c, byte));
        }
    }
    return last ? send_head(c) : CERIUM_OK;
}

void combined_free(combined *c)
{
    bytes_free(&c->out);
    *c = (combined){0};
}
