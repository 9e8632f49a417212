/* chunks.c - a state for each place in the coding where a cut may be. */
#include "server/chunks.h"

enum {
    AT_LENGTH = 0,   /* hexadecimal digits */
    AT_EXTENSION,    /* ";name=value", ignored, until the line ends */
    AT_DATA,
    AT_DATA_END,     /* the line break behind a chunk */
    AT_TRAILER,      /* lines, ignored, until an empty one */
};

enum { LENGTH_DIGITS_MAX = 15 };

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* The line with a chunk's length ended. */
static int begin_chunk(chunks *c)
{
    if (!c->digits) return CERIUM_ERR_FORMAT;
    c->digits = 0;
    c->line_used = false;
    c->state = c->left ? AT_DATA : AT_TRAILER;
    return CERIUM_OK;
}

/* One byte of what is not data. */
static int read_byte(chunks *c, char byte)
{
    switch (c->state) {
    case AT_LENGTH: {
        int digit = hex(byte);
        if (byte == '\n') return begin_chunk(c);
        if (byte == '\r') return CERIUM_OK;
        if (digit < 0) {
            if (byte != ';' && byte != ' ' && byte != '\t') return CERIUM_ERR_FORMAT;
            c->state = AT_EXTENSION;
            return c->digits ? CERIUM_OK : CERIUM_ERR_FORMAT;
        }
        if (!c->digits) c->left = 0;
        if (++c->digits > LENGTH_DIGITS_MAX) return CERIUM_ERR_FORMAT;
        c->left = c->left * 16 + (uint64_t)digit;
        return CERIUM_OK;
    }
    case AT_EXTENSION:
        return byte == '\n' ? begin_chunk(c) : CERIUM_OK;
    case AT_DATA_END:
        if (byte == '\r') return CERIUM_OK;
        c->state = AT_LENGTH;
        return byte == '\n' ? CERIUM_OK : CERIUM_ERR_FORMAT;
    case AT_TRAILER:
        if (byte == '\n' && !c->line_used) c->done = true;
        if (byte != '\r') c->line_used = byte != '\n';
        return CERIUM_OK;
    default:
        return CERIUM_ERR_FORMAT;
    }
}

int chunks_read(chunks *c, view text, bytes *body)
{
    while (text.len && !c->done) {
        if (c->state != AT_DATA) {
            RETURN_IF(read_byte(c, *text.ptr));
            text.ptr++;
            text.len--;
            continue;
        }
        size_t n = c->left < text.len ? (size_t)c->left : text.len;
        RETURN_IF(bytes_append(body, text.ptr, n));
        text.ptr += n;
        text.len -= n;
        c->left -= n;
        if (!c->left) c->state = AT_DATA_END;
    }
    return CERIUM_OK;
}
