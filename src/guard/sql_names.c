/* sql_names.c - where SQL has the name of a table or a column, which cannot be bound. */
#include <ctype.h>

#include "base/text.h"
#include "guard/judge.h"

static view without_blanks(view text) { return view_trim_end(text, TEXT_SPACE); }

static bool ends_with_word(view text, const char *word)
{
    size_t n = strlen(word);
    if (text.len < n || strncasecmp(text.ptr + text.len - n, word, n)) return false;
    if (text.len == n) return true;
    char before = text.ptr[text.len - n - 1];
    return !isalnum((unsigned char)before) && before != '_';
}

bool judge_before_name(view text, bool after)
{
    static const char *const words[] = {"from", "into", "update", "table", "join", "exists",
                                        "index", "view", "schema", "database", "by", "column",
                                        "on", "only", "pragma", "sequence", "truncate"};
    bool quoted = false; /* within a string of SQL */
    for (size_t i = 0; i < text.len; i++) quoted ^= text.ptr[i] == '\'';
    if (quoted) return false;
    while (text.len && strchr("\"`[", text.ptr[text.len - 1])) text.len--;
    /* schema.table */
    if (text.len && text.ptr[text.len - 1] == '.') return after || text.len > 1;
    view head = without_blanks(text);
    if (head.len == text.len && text.len) return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (ends_with_word(head, words[i])) return true;
    return false;
}

/* The length of the conversion at text: %s, %(a)s, %1$s, {}, {name}; 0: none. */
static size_t conversion_at(view text)
{
    size_t i = 1;
    if (text.ptr[0] == '{') {
        while (i < text.len && (isalnum((unsigned char)text.ptr[i]) || strchr("_.!", text.ptr[i])))
            i++;
        return i < text.len && text.ptr[i] == '}' ? i + 1 : 0;
    }
    if (text.ptr[0] != '%') return 0;
    if (i < text.len && text.ptr[i] == '(') {
        while (i < text.len && text.ptr[i] != ')') i++;
        i++;
    }
    while (i < text.len && strchr("0123456789.-+ #$lhzq", text.ptr[i])) i++;
    return i < text.len && isalpha((unsigned char)text.ptr[i]) ? i + 1 : 0;
}

bool judge_formats_names(view format)
{
    size_t from = 0;
    bool any = false;
    for (size_t i = 0; i < format.len; i++) {
        size_t n = conversion_at((view){format.ptr + i, format.len - i});
        if (!n) continue;
        if (!judge_before_name((view){format.ptr + from, i - from}, any)) return false;
        any = true;
        i += n - 1;
        from = i + 1;
    }
    return any;
}

bool judge_is_chosen(view text)
{
    view head = without_blanks(text);
    return ends_with_word(head, "by") || ends_with_word(head, "explain") ||
           (text.len && text.ptr[text.len - 1] == ',');
}

bool judge_binds_nothing(view text)
{
    static const char *const words[] = {"pragma", "set", "alter", "create", "drop", "truncate",
                                        "use", "grant", "revoke", "notify", "listen", "vacuum",
                                        "analyze", "show", "describe", "attach", "detach",
                                        "savepoint", "release", "rollback", "lock", "reindex",
                                        "begin", "start", "commit"};
    text = view_trim_start(text, TEXT_SPACE);
    /* EXPLAIN and a whole statement */
    if (text.len == 8 && !strncasecmp(text.ptr, "explain ", 8)) return true;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if (text.len >= n && !strncasecmp(text.ptr, words[i], n) &&
            (text.len == n || isspace((unsigned char)text.ptr[n])))
            return true;
    }
    return false;
}
