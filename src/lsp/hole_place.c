/* hole_place.c - reads the caret's line, the lines above it, and the open brackets there. */
#include "lsp/hole_place.h"

#include <ctype.h>

#include "guard/lexer.h"

enum {
    LEXED_BYTES = 256 << 10,  /* bytes before the caret searched for open strings */
    SHORT_BYTES = 2000,       /* files up to this size are never called minified */
    MEAN_LINE_BYTES = 240,
    LONG_LINE_BYTES = 120, LONG_LINES_PERCENT = 30,
};

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Bytes beyond ASCII are letters of some language. */
static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_closer(char c) { return c && strchr(")]}>\"'`;:,", c) != NULL; }

bool lsp_text_is_minified(const lsp_text *t)
{
    const uint32_t n = lsp_text_lines(t);
    uint32_t n_long = 0;
    size_t from, to;
    if (t->text.len <= SHORT_BYTES) return false;
    if (t->text.len / n > MEAN_LINE_BYTES) return true;
    for (uint32_t i = 0; i < n; i++) {
        lsp_text_line(t, i, &from, &to);
        n_long += to - from > LONG_LINE_BYTES;
    }
    return (uint64_t)n_long * 100 >= (uint64_t)n * LONG_LINES_PERCENT;
}

static bool is_in_text(const lsp_text *t, guard_language language, size_t at)
{
    lexer x;
    size_t from = 0, to;
    if (language == GUARD_TEXT || language == GUARD_HTML || language == GUARD_NOTEBOOK ||
        language == GUARD_SHELL)
        return false; /* unknown */
    if (at > LEXED_BYTES) lsp_text_line(t, lsp_text_line_at(t, at - LEXED_BYTES), &from, &to);
    lexer_begin(&x, language);
    for (size_t i = from; i < at; i++) (void)lexer_step(&x, t->text.ptr[i]);
    return lexer_in_text(&x) && x.stack[x.n - 1] != 'M' && x.stack[x.n - 1] != 'J';
}

static view stripped(view line) { return view_trim_end(line, " \t"); }

static bool ends_in(view code, const char *signs)
{
    code = stripped(code);
    return code.len && strchr(signs, code.ptr[code.len - 1]);
}

static bool is_comment(view code)
{
    static const char *const marks[] = {"//", "#", "--", "/*", "*", "\"\"\"", "'''"};
    code = view_trim_start(code, " \t");
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (view_starts(code, view_of(marks[i]))) return true;
    code = stripped(code);
    return code.len >= 3 && !memcmp(code.ptr + code.len - 3, "\"\"\"", 3);
}

/* A block may come after text that opens one, and on an empty line below that or below a
 * comment. */
static bool may_be_block(const lsp_text *t, uint32_t line, view before, bool is_line_blank)
{
    size_t from, to;
    if (!is_line_blank) return ends_in(before, "{:"); /* after ( the line continues */
    while (line-- > 0) {
        lsp_text_line(t, line, &from, &to);
        view above = stripped((view){t->text.ptr + from, to - from});
        if (above.len) return ends_in(above, "{([:") || is_comment(above);
    }
    return false;
}

lsp_place lsp_place_at(const lsp_text *t, guard_language language, size_t at, bool is_minified,
                       bool is_invoked)
{
    const uint32_t line = lsp_text_line_at(t, at);
    const char *text = t->text.ptr ? t->text.ptr : "";
    size_t from, to, n_other = 0;
    lsp_text_line(t, line, &from, &to);
    if (at > to) at = to;
    view before = {text + from, at - from};
    lsp_place p = {.after = {text + at, to - at}, .is_blank = stripped(before).len == 0};
    bool is_plain = true; /* only closers and blanks after it */
    for (size_t i = 0; i < p.after.len; i++) {
        bool is_other = !is_closer(p.after.ptr[i]) && !is_blank(p.after.ptr[i]);
        n_other += is_other;
        if (is_other) is_plain = false;
    }
    p.is_block = is_plain && (is_invoked || may_be_block(t, line, before, p.is_blank));
    if (t->text.len > LSP_LARGE_BYTES || lsp_text_lines(t) > LSP_LARGE_LINES)
        p.silence = LSP_SILENT_LARGE;
    else if (is_minified)
        p.silence = LSP_SILENT_MINIFIED;
    else if (p.after.len && is_word(*p.after.ptr))
        p.silence = LSP_SILENT_WORD;
    else if (!is_invoked && n_other > LSP_BEHIND_BYTES)
        p.silence = LSP_SILENT_BEHIND;
    else if (!is_invoked && is_in_text(t, language, at))
        p.silence = LSP_SILENT_TEXT;
    return p;
}

const char *lsp_silence_name(lsp_silence s)
{
    static const char *const names[LSP_SILENCES] = {
        [LSP_SPEAKS] = "", [LSP_SILENT_LARGE] = "the file is too large",
        [LSP_SILENT_MINIFIED] = "the file is minified",
        [LSP_SILENT_WORD] = "in the middle of a word", [LSP_SILENT_BEHIND] = "before other code",
        [LSP_SILENT_TEXT] = "in a string or a comment"};
    return names[s];
}
