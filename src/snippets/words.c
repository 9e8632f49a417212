/* words.c - identifiers and their roles in lines, by their look. */
#include "snippets/words.h"

#include <ctype.h>

#include "base/text.h"

bool word_has(char c) { return isalnum((unsigned char)c) || c == '_' || (c & 0x80); }

bool word_next(view text, size_t *at, view *word)
{
    for (size_t i = *at; i < text.len;) {
        const size_t begin = i;
        while (i < text.len && word_has(text.ptr[i])) i++;
        if (i == begin) {
            i++;
        } else if (!isdigit((unsigned char)text.ptr[begin])) {
            *word = (view){text.ptr + begin, i - begin};
            *at = i;
            return true;
        }
    }
    *at = text.len;
    return false;
}

/* ---- definitions ---- */

/* After one of these words a name is new. */
static bool defines(view word)
{
    static const char *const words[] = {
        "def", "class", "function", "func", "fn", "struct", "enum", "union", "interface", "type",
        "trait", "const", "let", "var", "define", "module", "namespace", "typedef", "mod", "static",
        "record", "protocol", "macro_rules"};
    return view_is_one_of(word, words, ARRAY_LEN(words));
}

/* Words that may precede a call. */
static bool calls(view word)
{
    static const char *const words[] = {"return", "assert", "else", "await", "in", "not", "yield",
                                        "new", "throw", "raise", "case", "and", "or", "delete",
                                        "if", "while", "is", "typeof"};
    return view_is_one_of(word, words, ARRAY_LEN(words));
}

bool word_is_defined_at(view line, size_t at, size_t n)
{
    size_t end = at, begin, after = at + n;
    while (end > 0 && strchr(" \t*&", line.ptr[end - 1])) end--;
    for (begin = end; begin > 0 && word_has(line.ptr[begin - 1]);) begin--;
    const view word = {line.ptr + begin, end - begin};
    if (end < at && defines(word)) return true;
    while (after < line.len && (line.ptr[after] == ' ' || line.ptr[after] == '\t')) after++;
    char next = after < line.len ? line.ptr[after] : 0;
    bool margin = !isspace((unsigned char)line.ptr[0]) && line.ptr[0] != '#';
    const size_t last = view_trim_end(line, TEXT_SPACE).len;
    char tail = last ? line.ptr[last - 1] : 0;
    if (at == 0 && next == '=' && after + 1 < line.len && line.ptr[after + 1] != '=') return true;
    /* C: a type before it, not in a statement; or the name at a typedef's end. */
    bool typed = end < at ? begin < end : at > 0 && strchr("*&", line.ptr[at - 1]) != NULL;
    bool continues = tail == '{' || tail == ')' || tail == ',';
    if (margin && typed && next == '(' && continues && !calls(word)) return true;
    return line.ptr[0] == '}' && next == ';';
}

/* ---- imports ---- */

bool line_imports(view line)
{
    static const char *const words[] = {"import", "from", "use", "using", "require", "include",
                                        "source"};
    size_t at = 0;
    view first;
    line = view_trim(line, TEXT_SPACE);
    if (!line.len) return false;
    if (line.ptr[0] == '#') return view_starts(line, VIEW("#include"));
    /* In the brackets of an import of Go. */
    if (line.ptr[0] == '"') return line.len > 1 && line.ptr[line.len - 1] == '"';
    if (memmem(line.ptr, line.len, "require(", 8)) return true;
    return word_next(line, &at, &first) && view_is_one_of(first, words, ARRAY_LEN(words));
}
