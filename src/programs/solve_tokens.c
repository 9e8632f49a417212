/* solve_tokens.c - the tokens of code, exact enough to change one and to compare two programs. */
#include "programs/solve.h"

#include <ctype.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }

static bool starts(view text, size_t at, const char *with)
{
    size_t n = strlen(with);
    return text.len - at >= n && memcmp(text.ptr + at, with, n) == 0;
}

/* Longest first. */
static const char *const operators[] = {
    "===", "!==", "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", "&&", "||", "++", "--",
    "->",  "=>",  "+=",  "-=",  "*=",  "/=",  "%=",  "&=", "|=", "^=", "**", "//", ">>", "<<", ":=",
    "??",  "?."};

static size_t line_end(view text, size_t at)
{
    while (at < text.len && text.ptr[at] != '\n') at++;
    return at;
}

/* The place after the string that begins at `at`. */
static size_t string_end(view text, size_t at, wire_language language)
{
    char quote = text.ptr[at];
    const char triple[] = {quote, quote, quote, 0};
    if (language == WIRE_PYTHON && starts(text, at, triple)) {
        for (at += 3; at < text.len && !starts(text, at, triple);)
            at += text.ptr[at] == '\\' && at + 1 < text.len ? 2 : 1;
        return at + 3 < text.len ? at + 3 : text.len;
    }
    bool many = quote == '`';
    for (at++; at < text.len && (many || text.ptr[at] != '\n'); at++) {
        if (text.ptr[at] == quote) return at + 1;
        if (text.ptr[at] == '\\' && at + 1 < text.len) at++;
    }
    return at;
}

static size_t comment_end(view text, size_t at, wire_language language)
{
    if (language == WIRE_PYTHON || language == WIRE_COMMAND)
        return text.ptr[at] == '#' ? line_end(text, at) : at;
    if (starts(text, at, "//")) return line_end(text, at);
    if (!starts(text, at, "/*")) return at;
    for (at += 2; at < text.len && !starts(text, at, "*/");) at++;
    return at + 2 < text.len ? at + 2 : text.len;
}

static size_t operator_end(view text, size_t at)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (starts(text, at, operators[i])) return at + strlen(operators[i]);
    return at + 1;
}

bool solve_token_next(view text, wire_language language, size_t *at, solve_token *out)
{
    size_t begin = *at, end = begin;
    if (begin >= text.len) return false;
    char c = text.ptr[begin];
    solve_token_kind kind = TOKEN_OPERATOR;
    if (c == '\n') {
        kind = TOKEN_BREAK;
        end++;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        kind = TOKEN_BLANK;
        while (end < text.len && strchr(" \t\r\f", text.ptr[end]) && text.ptr[end]) end++;
    } else if ((end = comment_end(text, begin, language)) > begin) {
        kind = TOKEN_COMMENT;
    } else if (isdigit((unsigned char)c)) {
        kind = TOKEN_NUMBER;
        while (end < text.len && (is_word(text.ptr[end]) || text.ptr[end] == '.')) end++;
    } else if (is_word(c)) {
        kind = TOKEN_NAME;
        while (end < text.len && is_word(text.ptr[end])) end++;
    } else if (c == '"' || c == '\'' || (c == '`' && language == WIRE_JAVASCRIPT)) {
        kind = TOKEN_STRING;
        end = string_end(text, begin, language);
    } else {
        end = operator_end(text, begin);
    }
    *out = (solve_token){kind, begin, end};
    *at = end;
    CHECK(end > begin && end <= text.len);
    return true;
}

hash_name solve_key(view text, wire_language language, size_t begin, size_t end)
{
    uint64_t low = 0x736f6c7665, high = begin;
    solve_token t;
    bool starts_line = begin == 0 || text.ptr[begin - 1] == '\n';
    /* If the span ends within a token, reading stops there. */
    const view part = {text.ptr, end};
    for (size_t at = begin; solve_token_next(part, language, &at, &t);) {
        bool indent = t.kind == TOKEN_BLANK && starts_line && language == WIRE_PYTHON;
        starts_line = t.kind == TOKEN_BREAK;
        if (t.kind == TOKEN_COMMENT || (t.kind == TOKEN_BLANK && !indent)) continue;
        low = hash_bytes(text.ptr + t.begin, t.end - t.begin, low + 1);
        high = hash_bytes(text.ptr + t.begin, t.end - t.begin, high ^ (low >> 7));
    }
    return (hash_name){low, high ^ (text.len - end)};
}
