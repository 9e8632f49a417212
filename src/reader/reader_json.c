/* reader_json.c - owns JSON one byte at a time (RFC 8259). */
#include "reader/reader_json.h"

#include "base/text.h"

/* ---- values ---- */

enum {
    VALUE,      /* a value is expected; zero, so that a zeroed scan begins here */
    FIRST_ITEM, /* a value or ] */
    FIRST_KEY,  /* a key or } */
    NEXT_KEY,   /* a key */
    COLON,
    AFTER,      /* after a value: a comma or the end of its container */
    STRING,
    ESCAPE,
    HEX,
    WORD,
    MINUS, ZERO, DIGITS, POINT, FRACTION, EXPONENT, SIGN, POWER, /* of a number */
};

static scan_result go(json_scan *s, int state)
{
    s->state = (uint8_t)state;
    return SCAN_MORE;
}

static bool in_object(const json_scan *s)
{
    return s->objects[(s->depth - 1) / 64] >> ((s->depth - 1) % 64) & 1;
}

static scan_result push(json_scan *s, bool object)
{
    if (s->depth == READER_JSON_DEPTH_MAX) return SCAN_BAD;
    uint64_t bit = UINT64_C(1) << (s->depth % 64), *word = &s->objects[s->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    s->depth++;
    return go(s, object ? FIRST_KEY : FIRST_ITEM);
}

static scan_result value_ended(json_scan *s)
{
    s->state = AFTER;
    return s->depth ? SCAN_MORE : SCAN_DONE;
}

static scan_result begin_string(json_scan *s, bool key)
{
    s->key = key;
    return go(s, STRING);
}

static scan_result begin_word(json_scan *s, const char *rest)
{
    s->word = rest;
    return go(s, WORD);
}

static scan_result begin_value(json_scan *s, char c)
{
    if (byte_is_blank(c)) return SCAN_MORE;
    switch (c) {
    case '{': return push(s, true);
    case '[': return push(s, false);
    case '"': return begin_string(s, false);
    case 't': return begin_word(s, "rue");
    case 'f': return begin_word(s, "alse");
    case 'n': return begin_word(s, "ull");
    case '-': return go(s, MINUS);
    case '0': return go(s, ZERO);
    default: return byte_is_digit(c) ? go(s, DIGITS) : SCAN_BAD;
    }
}

static scan_result pop(json_scan *s, bool object)
{
    if (!s->depth || in_object(s) != object) return SCAN_BAD;
    s->depth--;
    return value_ended(s);
}

static scan_result after(json_scan *s, char c)
{
    if (byte_is_blank(c)) return SCAN_MORE;
    if (c == '}' || c == ']') return pop(s, c == '}');
    if (c != ',' || !s->depth) return SCAN_BAD;
    return go(s, in_object(s) ? NEXT_KEY : VALUE);
}

static scan_result in_string(json_scan *s, char c)
{
    if (s->state == STRING) {
        if (c == '\\') return go(s, ESCAPE);
        if (c != '"') return SCAN_MORE;
        return s->key ? go(s, COLON) : value_ended(s);
    }
    if (s->state == ESCAPE) {
        if (c == 'u') {
            s->left = 4;
            return go(s, HEX);
        }
        return c && strchr("\"\\/bfnrt", c) ? go(s, STRING) : SCAN_BAD;
    }
    if (!byte_is_digit(c) && !(c >= 'a' && c <= 'f') && !(c >= 'A' && c <= 'F')) return SCAN_BAD;
    return --s->left ? SCAN_MORE : go(s, STRING);
}

/* A number ends with the byte after it, which is then read as the byte after a value. */
static scan_result number_ended(json_scan *s, char c)
{
    s->state = AFTER;
    return s->depth ? after(s, c) : SCAN_BEFORE;
}

static scan_result in_number(json_scan *s, char c)
{
    bool digit = byte_is_digit(c), e = c == 'e' || c == 'E';
    switch (s->state) {
    case MINUS: return c == '0' ? go(s, ZERO) : digit ? go(s, DIGITS) : SCAN_BAD;
    case ZERO:
    case DIGITS:
        if (digit) return s->state == DIGITS ? SCAN_MORE : SCAN_BAD;
        return c == '.' ? go(s, POINT) : e ? go(s, EXPONENT) : number_ended(s, c);
    case POINT: return digit ? go(s, FRACTION) : SCAN_BAD;
    case FRACTION: return digit ? SCAN_MORE : e ? go(s, EXPONENT) : number_ended(s, c);
    case EXPONENT:
        if (c == '+' || c == '-') return go(s, SIGN);
        return digit ? go(s, POWER) : SCAN_BAD;
    case SIGN: return digit ? go(s, POWER) : SCAN_BAD;
    default: return digit ? SCAN_MORE : number_ended(s, c);
    }
}

scan_result json_scan_byte(json_scan *s, char c)
{
    switch (s->state) {
    case VALUE: return begin_value(s, c);
    case FIRST_ITEM: return c == ']' ? pop(s, false) : begin_value(s, c);
    case FIRST_KEY:
        if (c == '}') return pop(s, true);
        return byte_is_blank(c) ? SCAN_MORE : c == '"' ? begin_string(s, true) : SCAN_BAD;
    case NEXT_KEY:
        return byte_is_blank(c) ? SCAN_MORE : c == '"' ? begin_string(s, true) : SCAN_BAD;
    case COLON: return byte_is_blank(c) ? SCAN_MORE : c == ':' ? go(s, VALUE) : SCAN_BAD;
    case AFTER: return after(s, c);
    case STRING:
    case ESCAPE:
    case HEX: return in_string(s, c);
    case WORD:
        if (c != *s->word) return SCAN_BAD;
        return *++s->word ? SCAN_MORE : value_ended(s);
    default: return in_number(s, c);
    }
}

bool json_scan_in_string(const json_scan *s) { return s->state == STRING; }

bool json_is_whole(view text)
{
    json_scan s = {0};
    scan_result result = SCAN_MORE;
    size_t i = 0;
    while (i < text.len && result == SCAN_MORE) result = json_scan_byte(&s, text.ptr[i++]);
    if (result == SCAN_BEFORE) i--;
    else if (result == SCAN_MORE) return json_scan_byte(&s, ' ') == SCAN_BEFORE;
    while (i < text.len && byte_is_blank(text.ptr[i])) i++;
    return result != SCAN_BAD && i == text.len;
}

/* ---- strings ---- */

static size_t put_character(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(first[n] | code);
    return n;
}

enum { REPLACEMENT = 0xFFFD, HIGH = 0xD800, LOW = 0xDC00, LOW_END = 0xE000 };

/* Half a pair without its other half is not a character. */
static size_t put_lone(json_text *t, char *out)
{
    if (!t->high) return 0;
    t->high = 0;
    return put_character(REPLACEMENT, out);
}

static size_t put_code(json_text *t, char *out)
{
    uint32_t code = t->code;
    if (t->high && code >= LOW && code < LOW_END) {
        code = 0x10000 + ((t->high - HIGH) << 10) + (code - LOW);
        t->high = 0;
        return put_character(code, out);
    }
    size_t n = put_lone(t, out);
    if (code >= HIGH && code < LOW) {
        t->high = code;
        return n;
    }
    if (code >= LOW && code < LOW_END) code = REPLACEMENT;
    return n + put_character(code, out + n);
}

static int hex_value(char c)
{
    return byte_is_digit(c)            ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

text_result json_text_byte(json_text *t, char c, char *out, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    *n = 0;
    if (t->left) {
        int value = hex_value(c);
        if (value < 0) return TEXT_BAD;
        t->code = t->code << 4 | (uint32_t)value;
        if (!--t->left) *n = put_code(t, out);
        return TEXT_MORE;
    }
    if (t->escape) {
        t->escape = false;
        const char *found = c ? strchr(from, c) : NULL;
        if (c == 'u') {
            t->left = 4;
            t->code = 0;
            return TEXT_MORE;
        }
        *n = put_lone(t, out);
        if (!found) return TEXT_BAD;
        out[(*n)++] = to[found - from];
        return TEXT_MORE;
    }
    if (c == '\\') {
        t->escape = true;
        return TEXT_MORE;
    }
    *n = put_lone(t, out);
    if (c == '"') return TEXT_END;
    out[(*n)++] = c;
    return TEXT_MORE;
}

size_t json_escape_byte(char c, char *out)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        out[0] = '\\';
        out[1] = to[found - from];
        return 2;
    }
    out[0] = c;
    if ((unsigned char)c >= 0x20) return 1;
    memcpy(out, "\\u00", 4);
    out[4] = hex[(unsigned char)c >> 4];
    out[5] = hex[c & 15];
    return 6;
}
