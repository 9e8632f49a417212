/* unwrap_marks.c - diffs, search/replace blocks and code by the look of their lines. */
#include <ctype.h>
#include <strings.h>

#include "base/text.h"
#include "guard/unwrap.h"

static mark begins_with(view head, const char *const *list, size_t n)
{
    mark best = MARK_NO;
    for (size_t i = 0; i < n; i++) {
        view word = view_of(list[i]);
        if (view_starts(head, word)) return MARK_YES;
        if (view_starts(word, head)) best = MARK_MAYBE;
    }
    return best;
}

/* ---- diffs ---- */

bool mark_diff(view line)
{
    static const char *const begins[] = {"*** Begin Patch", "diff --git ", "*** Update File: ",
                                         "--- a/", "*** Add File: "};
    return begins_with(line, begins, ARRAY_LEN(begins)) == MARK_YES;
}

bool guard_text_is_diff(view text)
{
    static const char *const begins[] = {"diff --git ", "diff --cc ", "diff --combined ", "Index: ",
                                         "--- ", "From ", "commit ", "*** Begin Patch"};
    const char *plain = text.ptr;
    while (text.len > 2 && *plain == '\033') { /* `git diff --color=always` */
        const char *end = memchr(plain, 'm', (size_t)(text.ptr + text.len - plain));
        if (!end) return false;
        plain = end + 1;
        if (plain == text.ptr + text.len) return false;
    }
    view line = {plain, (size_t)(text.ptr + text.len - plain)};
    if (begins_with(line, begins, ARRAY_LEN(begins)) != MARK_YES) return false;
    return view_starts(line, VIEW("*** Begin Patch")) || view_starts(line, VIEW("diff --")) ||
           memmem(line.ptr, line.len, "\n+++ ", 5) || memmem(line.ptr, line.len, "m+++ ", 5);
}

mark mark_first_line(view head, bool *header)
{
    static const char *const headers[] = {"*** Begin Patch", "diff --git ", "*** Update File: ",
                                          "*** Add File: ", "--- ", "+++ ", "@@ -", "@@\n"};
    mark sure = begins_with(head, headers, ARRAY_LEN(headers));
    *header = sure == MARK_YES;
    if (sure != MARK_NO || !head.len) return sure;
    if (head.ptr[0] == '-' || head.ptr[0] == '+') return MARK_YES;
    if (head.ptr[0] != ' ') return MARK_NO;
    if (head.len == 1) return MARK_MAYBE; /* no code begins with one blank */
    return strchr(" \t\r\n", head.ptr[1]) ? MARK_NO : MARK_YES;
}

mark mark_heredoc(view head)
{
    static const char *const begins[] = {"*** Begin Patch\n", "*** Begin Patch\r\n"};
    return begins_with(head, begins, ARRAY_LEN(begins));
}

/* ---- search/replace blocks ---- */

enum { RUN_MIN = 5, RUN_MAX = 9 };

static mark run_then(view head, char c, const char *const *words, size_t n_words)
{
    size_t n = 0;
    while (n < head.len && head.ptr[n] == c) n++;
    if (n > RUN_MAX || !n) return MARK_NO;
    view rest = {head.ptr + n, head.len - n};
    if (!rest.len) return MARK_MAYBE;
    if (n < RUN_MIN) return MARK_NO;
    mark m = begins_with(rest, words, n_words);
    if (m != MARK_YES) return m;
    return rest.ptr[rest.len - 1] == '\n' ? MARK_YES : rest.len > 40 ? MARK_NO : MARK_MAYBE;
}

static mark either(mark a, mark b) { return a > b ? a : b; }

mark mark_block(const unwrap *u, view head)
{
    static const char *const search[] = {" SEARCH", " ORIGINAL", " HEAD"}, *const replace[] = {
        " REPLACE", " "}, *const end[] = {"\n", "\r\n", " \n"};
    static const char *const start[] = {":start_line:", ":end_line:"};
    switch (u->block) {
    case BLOCK_NONE: return either(run_then(head, '<', search, 3), run_then(head, '-', search, 1));
    case BLOCK_SEARCH: {
        mark m = run_then(head, '=', end, 3);
        if (u->first) m = either(m, run_then(head, '-', end, 3));
        mark line = u->first ? begins_with(head, start, 2) : MARK_NO;
        if (line == MARK_YES && head.ptr[head.len - 1] != '\n')
            line = head.len > 40 ? MARK_NO : MARK_MAYBE;
        return either(m, line);
    }
    case BLOCK_REPLACE:
        return either(run_then(head, '>', replace, 2), run_then(head, '+', replace, 1));
    }
    return MARK_NO;
}

/* ---- code without a fence ---- */

static view line_of(view text)
{
    const char *end = memchr(text.ptr, '\n', text.len);
    view line = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
    line = view_trim_end(line, TEXT_SPACE);
    return line;
}

static uint32_t count_words(view line)
{
    uint32_t n = 0;
    for (size_t i = 0; i < line.len; i++)
        n += !isspace((unsigned char)line.ptr[i]) &&
             (i == 0 || isspace((unsigned char)line.ptr[i - 1]));
    return n;
}

static bool has_signs(view line)
{
    char last = line.len ? line.ptr[line.len - 1] : ' ';
    if (last == ';' || last == '{' || last == '}' || last == ')' || last == ',') return true;
    return memmem(line.ptr, line.len, " = ", 3) || memmem(line.ptr, line.len, "):", 2) ||
           memmem(line.ptr, line.len, "();", 3);
}

/* Openings of lines that prose does not begin with, and the number of words that may follow. */
static const char *const openings[] = {
    "import ", "from ", "def ", "async def ", "class ", "#include", "package ", "<?php", "#!/",
    "@", "export ", "const ", "let ", "var ", "function ", "async function ", "interface ",
    "public ", "private ", "static ", "func ", "'use strict'", "\"use strict\"", "require ",
    "require_relative ", "module ", "using ", "namespace ", "struct ", "<!DOCTYPE", "<!doctype",
    "<html", "<script", "<template"};

static bool is_code_line(view line)
{
    if (!line.len || begins_with(line, openings, ARRAY_LEN(openings)) != MARK_YES) return false;
    char last = line.ptr[line.len - 1];
    bool import = view_starts(line, VIEW("import ")) || view_starts(line, VIEW("from ")) ||
                  view_starts(line, VIEW("package ")) || view_starts(line, VIEW("require")) ||
                  view_starts(line, VIEW("module ")) || view_starts(line, VIEW("using "));
    if (strchr("#<@'\"", line.ptr[0])) return last != '.' && last != '?';
    if (import && last == ':') return false;
    if (import && (count_words(line) <= 3 || strchr(";'\")(,{", last))) return last != '.';
    if (view_starts(line, VIEW("from "))) return memmem(line.ptr, line.len, " import ", 8) != NULL;
    return (has_signs(line) || last == ':' || last == '(') && last != '.';
}

mark mark_bare(view head, bool whole)
{
    mark first = begins_with(head, openings, ARRAY_LEN(openings));
    if (first == MARK_NO) return MARK_NO;
    const char *end = memchr(head.ptr, '\n', head.len);
    if (!end) return whole && !is_code_line(line_of(head)) ? MARK_NO : MARK_MAYBE;
    if (!is_code_line(line_of(head))) return MARK_NO;
    if (view_starts(head, VIEW("#!/"))) return MARK_YES;
    view rest = {end + 1, (size_t)(head.ptr + head.len - end - 1)};
    bool indented = false;
    while (rest.len && isspace((unsigned char)rest.ptr[0])) {
        indented = rest.ptr[0] != '\n';
        rest.ptr++, rest.len--;
    }
    if (!rest.len || (!memchr(rest.ptr, '\n', rest.len) && !whole))
        return whole ? MARK_YES : MARK_MAYBE;
    view second = line_of(rest);
    bool comment = view_starts(second, VIEW("#")) || view_starts(second, VIEW("//"));
    return indented || comment || is_code_line(second) || has_signs(second) ? MARK_YES : MARK_NO;
}

/* ---- remarks about code ---- */

bool mark_says_bad(view text)
{
    static const char *const words[] = {"never", "do not", "don't", "avoid", "vulnerab", "insecure",
                                        "unsafe", "wrong", "the problem", "before:", "bad:",
                                        "bad example", "exploit", "instead of", "currently",
                                        "change this", "replace this", "you have:", "old code",
                                        "existing code", "existing line", "current code",
                                        "current version", "old version", "is now:"};
    for (size_t at = 0; at < text.len; at++) {
        if (at > 0 && isalpha((unsigned char)text.ptr[at - 1])) continue;
        const char first = (char)tolower((unsigned char)text.ptr[at]);
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
            if (words[i][0] == first && strlen(words[i]) <= text.len - at &&
                !strncasecmp(text.ptr + at, words[i], strlen(words[i])))
                return true;
    }
    return false;
}

bool mark_soft_path(view line)
{
    for (size_t at = 0; at < line.len;) {
        while (at < line.len && strchr(" \t\r\n`*'\"(){}[],:=#<>", line.ptr[at])) at++;
        size_t from = at;
        while (at < line.len && !strchr(" \t\r\n`*'\"(){}[],:=#<>", line.ptr[at])) at++;
        view word = {line.ptr + from, at - from};
        if (word.len && memchr(word.ptr, '.', word.len) &&
            guard_language_of_path(word) != GUARD_TEXT && guard_path_is_soft(word))
            return true;
    }
    return false;
}
