/* hint.c - the note to a model about a wrong line, in the form of a comment of its language; and
 * whether the text after it is more than a comment. */
#include "watch/watch_parts.h"

enum { INDENT_MAX = 64 };

static const char *comment_of(guard_language language)
{
    switch (language) {
    case GUARD_PYTHON:
    case GUARD_RUBY: return "# ";
    case GUARD_TEXT: return "[";
    default: return "// ";
    }
}

/* Within a string of JSON, the text is escaped. */
static void put(char **at, const char *end, view text, bool escaped)
{
    for (size_t i = 0; i < text.len && *at + 2 < end; i++) {
        char c = text.ptr[i];
        if (c == '\r' || (c == '\n' && !escaped)) c = ' ';
        if (escaped && (c == '"' || c == '\\' || c == '\n' || c == '\t')) *(*at)++ = '\\';
        if (escaped && c == '\n') c = 'n';
        if (escaped && c == '\t') c = 't';
        *(*at)++ = c;
    }
}

/* The blanks at the beginning of a line; in JSON a tab is two bytes. */
static view indent_of(view line)
{
    size_t n = 0;
    while (n < line.len && n < INDENT_MAX && (line.ptr[n] == ' ' || line.ptr[n] == '\t')) n++;
    return (view){line.ptr, n};
}

size_t watch_hint(const guard_finding *f, view line, char *out, size_t size)
{
    char *at = out;
    const char *end = out + size;
    char number[32];
    bool prose = f->language == GUARD_TEXT;
    if (f->continues || !f->idiom) return 0;
    if (!prose) put(&at, end, indent_of(line), false);
    put(&at, end, view_of(comment_of(f->language)), f->escaped);
    snprintf(number, sizeof number, "CWE-%u: ", f->cwe);
    if (f->cwe) put(&at, end, view_of(number), f->escaped);
    put(&at, end, view_of(f->message), f->escaped);
    put(&at, end, VIEW("; instead: "), f->escaped);
    put(&at, end, view_of(*f->fix ? f->fix : f->idiom), f->escaped); /* the line's own names */
    if (end - at < 6) return 0; /* cut off in its middle */
    if (prose) put(&at, end, VIEW("] "), f->escaped);
    else if (f->escaped) put(&at, end, VIEW("\n"), true);
    else *at++ = '\n';
    if (f->added) *at++ = '+';
    return (size_t)(at - out);
}

reply_kind watch_kind_of(view text, bool escaped, bool prose)
{
    bool begins = true;
    reply_kind kind = REPLY_NOTHING;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (escaped && c == '\\' && i + 1 < text.len) c = text.ptr[++i] == 'n' ? '\n' : ' ';
        if (c == '\n') begins = true;
        else if (begins && !strchr(" \t\r+", c)) {
            bool slashes = c == '/' && i + 1 < text.len && strchr("/*", text.ptr[i + 1]);
            if (prose || !(c == '#' || c == '*' || slashes)) return REPLY_CODE;
            kind = REPLY_COMMENT;
            begins = false;
        }
    }
    return kind;
}
