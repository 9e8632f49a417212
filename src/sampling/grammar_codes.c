/* grammar_codes.c - owns sets of code points, and their bytes. */
#include "sampling/grammar_codes.h"

void code_add(code_set *set, uint32_t lo, uint32_t hi)
{
    if (lo > hi) return;
    if (set->n == CODE_RANGES_MAX) {
        set->is_over = true;
        return;
    }
    set->range[set->n][0] = lo;
    set->range[set->n++][1] = hi;
}

void code_add_set(code_set *set, const code_set *more)
{
    for (uint32_t i = 0; i < more->n; i++) code_add(set, more->range[i][0], more->range[i][1]);
    set->is_over |= more->is_over;
}

static int codes_compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return x[0] < y[0] ? -1 : x[0] > y[0];
}

void code_sort(code_set *set)
{
    uint32_t n = 0;
    qsort(set->range, set->n, sizeof set->range[0], codes_compare);
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t lo = set->range[i][0], hi = set->range[i][1];
        if (n > 0 && lo <= set->range[n - 1][1] + 1) {
            if (hi > set->range[n - 1][1]) set->range[n - 1][1] = hi;
        } else {
            set->range[n][0] = lo;
            set->range[n++][1] = hi;
        }
    }
    set->n = n;
}

void code_invert(code_set *set)
{
    static code_set const nothing;
    code_set out = nothing;
    uint32_t lo = 0;
    code_add(set, 0xd800, 0xdfff);
    code_sort(set);
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->range[i][0] > lo) code_add(&out, lo, set->range[i][0] - 1);
        lo = set->range[i][1] + 1;
    }
    code_add(&out, lo, CODE_MAX);
    out.is_over |= set->is_over;
    *set = out;
}

void code_fold(code_set *set)
{
    for (uint32_t i = 0, n = set->n; i < n; i++) {
        for (uint32_t upper = 0; upper < 2; upper++) {
            uint32_t a = upper ? 'A' : 'a', z = upper ? 'Z' : 'z';
            uint32_t lo = set->range[i][0] > a ? set->range[i][0] : a;
            uint32_t hi = set->range[i][1] < z ? set->range[i][1] : z;
            if (lo <= hi) code_add(set, lo ^ 32, hi ^ 32);
        }
    }
}

size_t code_read(view text, uint32_t *code)
{
    const uint8_t *c = (const uint8_t *)text.ptr;
    if (text.len == 0) return 0;
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    if (n == 0 || n > text.len || c[0] > 0xf4) return 0;
    uint32_t value = n == 1 ? c[0] : c[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        value = value << 6 | (c[i] & 0x3f);
    }
    if ((n == 3 && value < 0x800) || (n == 4 && value < 0x10000) || value > CODE_MAX ||
        (value >= 0xd800 && value <= 0xdfff))
        return 0;
    *code = value;
    return n;
}

/* ---- expressions ---- */

size_t code_write(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    uint32_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (uint32_t i = n; i-- > 1; code >>= 6) out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(code | (0xf00u >> n & 0xff));
    return n;
}

/* Code points [lo, hi] of one length in UTF-8 whose bytes are independent ranges: any byte between
 * those of lo and hi, at each place. */
static uint32_t add_block(grammar_builder *b, uint32_t lo, uint32_t hi)
{
    uint8_t from[4], to[4];
    uint32_t parts[4], n = (uint32_t)code_write(lo, from);
    code_write(hi, to);
    for (uint32_t i = 0; i < n; i++) parts[i] = expr_bytes(b, from[i], to[i]);
    return expr_seq(b, parts, n);
}

/* Cut [lo, hi] into such blocks: the standard way, by the lowest continuation byte that differs. */
static void codes_add_blocks(grammar_builder *b, uint32_t lo, uint32_t hi, uint32_t *out,
                             uint32_t *n)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, CODE_MAX};
    while (lo <= hi) {
        uint32_t end = hi;
        for (uint32_t i = ARRAY_LEN(ends); i-- > 0;)
            if (lo <= ends[i] && end > ends[i]) end = ends[i];
        if (lo >= 0xd800 && lo <= 0xdfff) { /* none of these is a character */
            lo = end + 1;
            continue;
        }
        for (uint32_t shift = 6; lo > 0x7f && shift <= 18; shift += 6) {
            uint32_t low = (1u << shift) - 1;
            if ((lo & ~low) == (end & ~low)) break;
            if (lo & low) { /* up to where the lower bytes wrap around */
                end = lo | low;
                break;
            }
            if ((end & low) != low) { /* down to where they were all through */
                end = (end & ~low) - 1;
                shift = 0;
            }
        }
        out[(*n)++] = add_block(b, lo, end);
        lo = end + 1;
    }
}

static uint32_t raw_range(grammar_builder *b, uint32_t lo, uint32_t hi)
{
    uint32_t blocks[64], n = 0; /* at most 2 * 3 + 1 for each of the lengths */
    codes_add_blocks(b, lo, hi, blocks, &n);
    return expr_alt(b, blocks, n);
}

/* A control, quote or backslash in a JSON string. */
static uint32_t codes_escaped(grammar_builder *b, uint32_t code)
{
    static const char shorts[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char text[8] = "\\";
    const char *at = code ? strchr(shorts, (int)code) : NULL;
    if (at)
        text[1] = letters[at - shorts];
    else
        snprintf(text, sizeof text, "\\u%04x", code & 0xffff);
    return expr_text(b, view_of(text));
}

static uint32_t json_range(grammar_builder *b, uint32_t lo, uint32_t hi)
{
    uint32_t parts[64], n = 0, from = lo;
    for (uint32_t c = lo; c <= hi && c <= '\\'; c++) {
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        if (from < c) parts[n++] = raw_range(b, from, c - 1);
        parts[n++] = codes_escaped(b, c);
        from = c + 1;
    }
    if (from <= hi) parts[n++] = raw_range(b, from, hi);
    return expr_alt(b, parts, n);
}

uint32_t expr_code_range(grammar_builder *b, uint32_t lo, uint32_t hi, code_form form)
{
    return form == CODES_JSON ? json_range(b, lo, hi) : raw_range(b, lo, hi);
}

uint32_t expr_codes(grammar_builder *b, const code_set *set, code_form form)
{
    uint32_t parts[CODE_RANGES_MAX];
    if (set->is_over) {
        builder_fail(b, CERIUM_ERR_CAPACITY, "a class of more than %d ranges", CODE_RANGES_MAX);
        return EXPR_NEVER;
    }
    for (uint32_t i = 0; i < set->n; i++)
        parts[i] = expr_code_range(b, set->range[i][0], set->range[i][1], form);
    return expr_alt(b, parts, set->n);
}

uint32_t expr_literal(grammar_builder *b, view text, code_form form)
{
    if (form == CODES_RAW) return expr_text(b, text);
    bytes out = {.max = 8 * (size_t)GRAMMAR_TEXT_BYTES_MAX};
    int status = CERIUM_OK;
    for (size_t i = 0; i < text.len && !status; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            status = bytes_append(&out, &text.ptr[i], 1);
            continue;
        }
        expr_node e = *builder_node(b, codes_escaped(b, c));
        status = b->status ? b->status : bytes_append(&out, b->texts.ptr + e.a, e.b);
    }
    if (status) builder_lack(b);
    uint32_t e = expr_text(b, (view){out.ptr, out.len});
    bytes_free(&out);
    return e;
}
