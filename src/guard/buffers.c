/* buffers.c - "char b[10 + 1]", "b = malloc(10 * sizeof(char))": sizes written in the text. */
#include "guard/buffers.h"

#include <ctype.h>

#include "base/text.h"

enum { NESTED_MAX = 8, NUMBER_MAX = 1 << 30 };

typedef struct {
    view text; /* of the window, for sizeof of a name */
    view rest;
    int depth;
} reading;

static void skip(reading *r, size_t n)
{
    r->rest.ptr += n;
    r->rest.len -= n;
}

static bool next_is(reading *r, const char *word)
{
    while (r->rest.len && isspace((unsigned char)r->rest.ptr[0])) skip(r, 1);
    if (!view_starts(r->rest, view_of(word))) return false;
    skip(r, strlen(word));
    return true;
}

static view word_of(reading *r)
{
    size_t n = 0;
    next_is(r, "");
    while (n < r->rest.len && byte_is_word(r->rest.ptr[n])) n++;
    view word = {r->rest.ptr, n};
    skip(r, n);
    return word;
}

static bool is_byte_type(view word)
{
    static const char *const types[] = {"char", "uint8_t", "int8_t", "BYTE", "CHAR", "u8", "uchar"};
    return view_is_one_of(word, types, ARRAY_LEN(types));
}

static bool read_sum(reading *r, uint64_t *out);

static bool read_sizeof(reading *r, uint64_t *out)
{
    bool closed = next_is(r, "(");
    view word = word_of(r);
    if (!word.len || (closed && !next_is(r, ")"))) return false;
    if (is_byte_type(word)) {
        *out = 1;
        return closed;
    }
    return buffer_bytes(r->text, word, out);
}

static bool read_one(reading *r, uint64_t *out)
{
    if (next_is(r, "(")) {
        if (r->depth++ == NESTED_MAX) return false;
        bool good = read_sum(r, out) && next_is(r, ")");
        r->depth--;
        return good;
    }
    view word = word_of(r);
    if (view_equal(word, VIEW("sizeof"))) return read_sizeof(r, out);
    return parse_u64(word, out) && *out < NUMBER_MAX;
}

static bool read_product(reading *r, uint64_t *out)
{
    uint64_t more;
    if (!read_one(r, out)) return false;
    while (next_is(r, "*")) {
        if (!read_one(r, &more)) return false;
        *out *= more;
        if (*out > NUMBER_MAX) return false;
    }
    return true;
}

static bool read_sum(reading *r, uint64_t *out)
{
    uint64_t more;
    if (!read_product(r, out)) return false;
    for (;;) {
        bool plus = next_is(r, "+");
        if (!plus && !next_is(r, "-")) return true;
        if (!read_product(r, &more) || (!plus && more > *out)) return false;
        *out = plus ? *out + more : *out - more;
        if (*out > NUMBER_MAX) return false;
    }
}

bool buffer_number(view text, view expression, uint64_t *out)
{
    reading r = {text, expression, 0};
    return read_sum(&r, out) && !word_of(&r).len && !r.rest.len;
}

/* An allocation: "malloc(", "new char[". */
static bool read_allocation(reading *r, uint64_t *out)
{
    static const char *const calls[] = {"malloc(", "alloca(", "ALLOCA(", "new char["};
    view statement = r->rest;
    const char *stop = memchr(statement.ptr, ';', statement.len);
    if (!stop) return false;
    statement.len = (size_t)(stop - statement.ptr);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        const char *at = memmem(statement.ptr, statement.len, calls[i], strlen(calls[i]));
        if (!at) continue;
        at += strlen(calls[i]);
        r->rest = (view){at, (size_t)(stop - at)};
        return read_sum(r, out) && (next_is(r, ")") || next_is(r, "]"));
    }
    return false;
}

static view word_before(view text, size_t at)
{
    while (at && isspace((unsigned char)text.ptr[at - 1])) at--;
    size_t end = at;
    while (at && byte_is_word(text.ptr[at - 1])) at--;
    return (view){text.ptr + at, end - at};
}

bool buffer_bytes(view text, view name, uint64_t *out)
{
    for (size_t at = text.len; name.len && at >= name.len; at--) {
        size_t begin = at - name.len;
        if (memcmp(text.ptr + begin, name.ptr, name.len) != 0) continue;
        if ((begin && byte_is_word(text.ptr[begin - 1])) ||
            (at < text.len && byte_is_word(text.ptr[at])))
            continue;
        /* No text: a size must not look up another size, which could take very long. */
        reading r = {{text.ptr, 0}, {text.ptr + at, text.len - at}, 0};
        if (next_is(&r, "[") && is_byte_type(word_before(text, begin)))
            return read_sum(&r, out) && next_is(&r, "]") && !next_is(&r, "[");
        r.rest = (view){text.ptr + at, text.len - at};
        if (next_is(&r, "=") && !view_starts(r.rest, VIEW("=")) && read_allocation(&r, out))
            return true;
    }
    return false;
}
