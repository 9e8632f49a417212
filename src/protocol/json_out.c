/* json_out.c - escaping and numbers; most text is plain ASCII and copied in runs. */
#include "protocol/json_out.h"

#include <math.h>

#include "base/json.h"

void json_out_clear(json_out *t)
{
    t->b.len = 0;
    t->status = CERIUM_OK;
}

void json_out_free(json_out *t)
{
    bytes_free(&t->b);
    t->status = CERIUM_OK;
}

void json_out_put(json_out *t, view raw)
{
    if (!t->status) t->status = bytes_append(&t->b, raw.ptr, raw.len);
}

size_t utf8_char_len(view text)
{
    static const uint8_t least[5] = {0, 0, 0x80, 0xA0, 0x90}; /* of the second byte: excludes
                                                               * overlong forms */
    if (!text.len) return 0;
    const uint8_t *p = (const uint8_t *)text.ptr, c = p[0];
    if (c < 0x80) return 1;
    size_t len = c >= 0xC2 && c <= 0xDF   ? 2
                 : (c & 0xF0) == 0xE0     ? 3
                 : c >= 0xF0 && c <= 0xF4 ? 4
                                          : 0;
    if (!len || len > text.len) return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((c == 0xE0 || c == 0xF0) && p[1] < least[len]) return 0;
    if ((c == 0xED && p[1] > 0x9F) || (c == 0xF4 && p[1] > 0x8F)) return 0;
    return len;
}

/* How many bytes from the start are valid UTF-8. */
static size_t valid_prefix(view text)
{
    size_t i = 0;
    while (i < text.len) {
        uint64_t eight;
        if (i + 8 <= text.len) {
            memcpy(&eight, text.ptr + i, 8);
            if (!(eight & UINT64_C(0x8080808080808080))) {
                i += 8;
                continue;
            }
        }
        size_t len = utf8_char_len((view){text.ptr + i, text.len - i});
        if (!len) break;
        i += len;
    }
    return i;
}

bool utf8_valid(view text) { return valid_prefix(text) == text.len; }

int utf8_repair(bytes *out, view text)
{
    while (text.len) {
        size_t len = valid_prefix(text);
        RETURN_IF(bytes_append(out, text.ptr, len));
        if (len == text.len) break;
        RETURN_IF(bytes_append(out, "\xEF\xBF\xBD", 3));
        text = (view){text.ptr + len + 1, text.len - len - 1};
    }
    return CERIUM_OK;
}

static void escape_byte(json_out *t, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    const char *named = c == '"'    ? "\\\""
                        : c == '\\' ? "\\\\"
                        : c == '\n' ? "\\n"
                        : c == '\t' ? "\\t"
                        : c == '\r' ? "\\r"
                                    : NULL;
    const char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    json_out_put(t, named ? (view){named, 2} : (view){code, 6});
}

void json_out_escape(json_out *t, view text)
{
    size_t from = 0, i = 0;
    if (!text.len) return;
    while (i < text.len) {
        uint8_t c = (uint8_t)text.ptr[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t len = c < 0x80 ? 0 : utf8_char_len((view){text.ptr + i, text.len - i});
        if (len) {
            i += len;
            continue;
        }
        json_out_put(t, (view){text.ptr + from, i - from});
        if (c < 0x80)
            escape_byte(t, c);
        else
            json_out_literal(t, "\xEF\xBF\xBD");
        from = ++i;
    }
    json_out_put(t, (view){text.ptr + from, i - from});
}

void json_out_quoted(json_out *t, view text)
{
    json_out_literal(t, "\"");
    json_out_escape(t, text);
    json_out_literal(t, "\"");
}

void json_out_string(json_out *t, const char *text)
{
    if (text)
        json_out_quoted(t, view_of(text));
    else
        json_out_literal(t, "null");
}

void json_out_key(json_out *t, const char *name)
{
    size_t len = strlen(name);
    if (!t->status) t->status = bytes_reserve(&t->b, len + 3);
    if (t->status) return;
    char *to = t->b.ptr + t->b.len;
    to[0] = '"';
    memcpy(to + 1, name, len);
    memcpy(to + 1 + len, "\":", 2);
    t->b.len += len + 3;
}

void json_out_integer(json_out *t, int64_t value)
{
    char digits[24];
    size_t i = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do digits[--i] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) digits[--i] = '-';
    json_out_put(t, (view){digits + i, sizeof digits - i});
}

void json_out_number(json_out *t, double value)
{
    char text[40];
    if (!isfinite(value)) {
        json_out_literal(t, "null");
        return;
    }
    if (value == trunc(value) && fabs(value) < 1e6 && !(value == 0 && signbit(value))) {
        json_out_integer(t, (int64_t)value); /* as %g prints it, at a fiftieth of the cost */
        return;
    }
    /* Numbers from a float or from a person are short; 17 digits are always enough. */
    int precision = 6;
    do snprintf(text, sizeof text, "%.*g", precision, value);
    while (precision++ < 17 && strtod(text, NULL) != value);
    json_out_put(t, view_of(text));
}

/* Nine digits as an integer, and the position of the point. */
void json_out_float(json_out *t, float value)
{
    char digits[24];
    size_t i = sizeof digits;
    double size = fabs((double)value), scaled = size;
    uint32_t n_after = 0;  /* the point */
    if (!(size >= 1e-4 && size < 1e8) || value == truncf(value)) {
        json_out_number(t, (double)value);
        return;
    }
    for (; scaled < 1e8; scaled *= 10) n_after++;
    uint64_t rest = (uint64_t)(scaled + 0.5);
    for (; rest % 10 == 0; rest /= 10) n_after--;
    for (; n_after; rest /= 10, n_after--) digits[--i] = (char)('0' + rest % 10);
    digits[--i] = '.';
    do digits[--i] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) digits[--i] = '-';
    json_out_put(t, (view){digits + i, sizeof digits - i});
}

void json_out_bool(json_out *t, bool value)
{
    json_out_put(t, value ? VIEW("true") : VIEW("false"));
}

typedef struct {
    json_out *to;
    bool quoted;
} dumped;

/* jansson passes a quote, and a number, in one piece.  It writes 17 digits of a real: fewer are as
 * good, and an integer beyond int64_t is written as one. */
static int put_dumped(const char *buffer, size_t size, void *arg)
{
    dumped *d = arg;
    char number[JSON_NUMBER_BYTES], *end;
    view piece = {buffer, size};
    if (size == 1 && *buffer == '"') d->quoted = !d->quoted;
    if (!d->quoted && size > 1 && size < sizeof number && memchr(buffer, '.', size)) {
        memcpy(number, buffer, size);
        number[size] = '\0';
        double real = strtod(number, &end);
        if (end == number + size) json_real_text(number, real), piece = view_of(number);
    }
    json_out_put(d->to, piece);
    return d->to->status ? -1 : 0;
}

void json_out_value(json_out *t, const json_t *value)
{
    if (!value) {
        json_out_literal(t, "null");
    } else if (json_dump_callback(value, put_dumped, &(dumped){t, false},
                                  JSON_COMPACT | JSON_ENCODE_ANY)) {
        if (!t->status) t->status = CERIUM_ERR_MEMORY; /* jansson fails here only for lack of
                                                        * memory */
    }
}

/* ---- opaque text ---- */

static const char opaque_mark[] = "cerium1:";
static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void json_out_base64(json_out *t, view text)
{
    for (size_t i = 0; i < text.len; i += 3) {
        uint8_t b[3] = {0};
        size_t n = text.len - i < 3 ? text.len - i : 3;
        memcpy(b, text.ptr + i, n);
        char out[4] = {base64_digits[b[0] >> 2], base64_digits[(b[0] & 3) << 4 | b[1] >> 4],
                       n > 1 ? base64_digits[(b[1] & 15) << 2 | b[2] >> 6] : '=',
                       n > 2 ? base64_digits[b[2] & 63] : '='};
        json_out_put(t, (view){out, 4});
    }
}

void json_out_opaque(json_out *t, view text)
{
    json_out_literal(t, "\"");
    json_out_put(t, view_of(opaque_mark));
    json_out_base64(t, text);
    json_out_literal(t, "\"");
}

static int base64_value(char c)
{
    const char *at = c ? strchr(base64_digits, c) : NULL;
    return at ? (int)(at - base64_digits) : -1;
}

/* Bytes of four digits, 1..3; 0 when they are not base64. */
static size_t base64_read(const char *from, uint8_t to[3])
{
    int v[4];
    size_t n = from[3] != '=' ? 3 : from[2] != '=' ? 2 : 1;
    for (size_t i = 0; i < 4; i++) v[i] = i <= n ? base64_value(from[i]) : 0;
    if (v[0] < 0 || v[1] < 0 || v[2] < 0 || v[3] < 0) return 0;
    to[0] = (uint8_t)(v[0] << 2 | v[1] >> 4);
    to[1] = (uint8_t)(v[1] << 4 | v[2] >> 2);
    to[2] = (uint8_t)(v[2] << 6 | v[3]);
    return n;
}

int opaque_read(bytes *out, view opaque, bool *ours)
{
    view mark = view_of(opaque_mark);
    size_t before = out->len;
    *ours = view_starts(opaque, mark) && (opaque.len - mark.len) % 4 == 0;
    for (size_t i = mark.len; *ours && i < opaque.len; i += 4) {
        uint8_t b[3];
        size_t n = base64_read(opaque.ptr + i, b);
        *ours = n == 3 || (n && i + 4 == opaque.len);
        if (*ours) RETURN_IF(bytes_append(out, b, n));
    }
    if (*ours) *ours = utf8_valid((view){out->ptr + before, out->len - before});
    if (!*ours) out->len = before;
    return CERIUM_OK;
}
