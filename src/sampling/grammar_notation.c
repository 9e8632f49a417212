/* grammar_notation.c - names, texts and numbers of grammars written by people. */
#include "sampling/grammar_lark.h"

uint32_t notation_refuse(notation *n, const char *what)
{
    uint32_t line = 1;
    size_t from = n->at < n->text.len ? n->at : n->text.len, len = 0;
    for (size_t i = 0; i < from; i++) line += n->text.ptr[i] == '\n';
    while (from + len < n->text.len && len < 24 && n->text.ptr[from + len] != '\n') len++;
    builder_fail(n->b, CERIUM_ERR_FORMAT, "line %u: %s, at '%.*s'", line, what, (int)len,
                 n->text.ptr + from);
    return EXPR_NEVER;
}

bool notation_take(notation *n, const char *what)
{
    view w = view_of(what), rest = {n->text.ptr + n->at, n->text.len - n->at};
    if (n->b->status || !view_starts(rest, w)) return false;
    n->at += w.len;
    return true;
}

view notation_name(notation *n, const char *more)
{
    size_t from = n->at;
    for (; notation_has(n); n->at++) {
        char c = notation_peek(n, 0);
        bool is = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || (c && strchr(more, c));
        if (!is) break;
    }
    return (view){n->text.ptr + from, n->at - from};
}

bool notation_number(notation *n, uint32_t *out)
{
    size_t from = n->at;
    uint64_t value = 0;
    for (; notation_peek(n, 0) >= '0' && notation_peek(n, 0) <= '9'; n->at++)
        if (value <= GRAMMAR_REPEAT_MAX) value = 10 * value + (uint64_t)(notation_peek(n, 0) - '0');
    *out = (uint32_t)value;
    return n->at > from;
}

notation_symbol *notation_symbol_of(notation *n, view name)
{
    notation_symbol *symbols = (notation_symbol *)n->symbols.ptr;
    size_t n_symbols = n->symbols.len / sizeof *symbols;
    for (size_t i = 0; i < n_symbols; i++)
        if (view_equal(symbols[i].name, name)) return &symbols[i];
    if (!builder_work(n->b, n_symbols)) return NULL;
    uint32_t rule = rule_new(n->b);
    notation_symbol *to = builder_add(n->b, &n->symbols, sizeof *to);
    if (to) *to = (notation_symbol){.name = name, .rule = rule, .at = n->at - name.len};
    return to;
}

uint32_t notation_begin(notation *n, const char *first)
{
    uint32_t e = GRAMMAR_NONE;
    notation_symbol *symbols = (notation_symbol *)n->symbols.ptr;
    for (size_t i = 0; i < n->symbols.len / sizeof *symbols && !n->b->status; i++) {
        if (view_equal(symbols[i].name, view_of(first))) e = expr_call(n->b, symbols[i].rule);
        if (symbols[i].is_said) continue;
        n->at = symbols[i].at;
        notation_refuse(n, "a name that nothing defines");
    }
    if (e == GRAMMAR_NONE)
        builder_fail(n->b, CERIUM_ERR_FORMAT, "there is no start rule '%s'", first);
    return n->b->status ? EXPR_NEVER : e;
}

static bool notation_read_hex(notation *n, uint32_t digits, uint32_t *code)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < digits; i++, n->at++) {
        char c = notation_peek(n, 0);
        int digit = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (digit < 0) return notation_refuse(n, "a hexadecimal digit is missing"), false;
        value = value << 4 | (uint32_t)digit;
    }
    if (value > CODE_MAX || (value >= 0xd800 && value <= 0xdfff))
        return notation_refuse(n, "not a character"), false;
    *code = value;
    return true;
}

bool notation_code(notation *n, uint32_t *code)
{
    static const char from[] = "ntrfv0", to[] = "\n\t\r\f\v";
    view rest = {n->text.ptr + n->at, n->text.len - n->at};
    if (!notation_take(n, "\\")) {
        size_t len = code_read(rest, code);
        n->at += len;
        return len ? true : (notation_refuse(n, "not UTF-8"), false);
    }
    if (!notation_has(n)) return notation_refuse(n, "ends with a backslash"), false;
    char c = notation_peek(n, 0);
    const char *known = strchr(from, c);
    n->at++;
    if (known) return *code = (uint32_t)to[known - from], true;
    if (c == 'x') return notation_read_hex(n, 2, code);
    if (c == 'u') return notation_read_hex(n, 4, code);
    if (c == 'U') return notation_read_hex(n, 8, code);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9') || c < 0)
        return notation_refuse(n, "this escape is not supported"), false;
    return *code = (uint32_t)c, true;
}

bool notation_quoted(notation *n, char quote, bytes *out)
{
    while (notation_has(n) && notation_peek(n, 0) != quote) {
        uint32_t code;
        char utf8[4];
        size_t len = 0;
        if (notation_peek(n, 0) == '\n') break;
        if (!notation_code(n, &code)) return false;
        len = code_write(code, (uint8_t *)utf8);
        int status = bytes_append(out, utf8, len);
        if (status) return builder_lack(n->b), false;
    }
    if (notation_peek(n, 0) != quote || n->b->status)
        return notation_refuse(n, "a text has no end"), false;
    n->at++;
    return true;
}

void notation_keep(notation *n, bytes *parts, uint32_t e)
{
    if (!parts->max) parts->max = GRAMMAR_PARTS_MAX * sizeof(uint32_t);
    uint32_t *to = builder_add(n->b, parts, sizeof *to);
    if (to) *to = e;
}

uint32_t notation_join(notation *n, bytes *parts, bool is_alt)
{
    const uint32_t *of = (const uint32_t *)parts->ptr;
    size_t count = parts->len / sizeof *of;
    uint32_t e = is_alt ? expr_alt(n->b, of, count) : expr_seq(n->b, of, count);
    bytes_free(parts);
    return e;
}
