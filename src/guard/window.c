/* window.c - closes unfinished code. */
#include "guard/window.h"

#include <string.h>

#include "base/text.h"

static bool is_ruby_part(view line)
{
    static const char *const words[] = {"else", "elsif ", "when ", "in ", "rescue", "ensure"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (view_starts(line, view_of(words[i]))) return true;
    return false;
}

static bool opens_block(view line)
{
    static const char *const openers[] = {"def ", "class ", "module ", "if ", "unless ",
                                          "while ", "case ", "begin", "for ", "until "};
    line = view_trim_end(line, TEXT_SPACE);
    bool opens = memmem(line.ptr, line.len, " do |", 5) != NULL ||
                 (line.len > 3 && !memcmp(line.ptr + line.len - 3, " do", 3)) ||
                 (line.len > 6 && !memcmp(line.ptr + line.len - 6, " begin", 6));
    for (size_t i = 0; i < ARRAY_LEN(openers) && !opens; i++)
        opens = view_starts(line, view_of(openers[i]));
    return opens && !(line.len > 3 && !memcmp(line.ptr + line.len - 3, "end", 3));
}

bool window_opens_ruby(view line) { return is_ruby_part(line) || opens_block(line); }

static size_t put_end(char *out, size_t n, size_t size, view indent)
{
    if (n + indent.len + 5 > size) return n;
    out[n++] = '\n';
    memcpy(out + n, indent.ptr, indent.len);
    memcpy(out + n + indent.len, "end", 3);
    return n + indent.len + 3;
}

/* Ruby's blocks close with words; the indentation of lines gives how many are open. */
static size_t ruby_ends(view text, char *out, size_t size)
{
    size_t n = 0, at = text.len, indent = SIZE_MAX;
    while (at && n + 5 < size) {
        size_t begin = at - 1, first;
        while (begin && text.ptr[begin - 1] != '\n') begin--;
        for (first = begin; first < at && strchr(" \t\n\r", text.ptr[first]);) first++;
        view line = {text.ptr + first, at - first}, blanks = {text.ptr + begin, first - begin};
        line = view_trim_end(line, TEXT_SPACE);
        bool opens = opens_block(line);
        if (line.len && first - begin < indent) {
            /* After a part of a block its head is still open, at the same place. */
            indent = first - begin + is_ruby_part(line);
            if (opens) n = put_end(out, n, size, blanks);
        } else if (line.len && first - begin == indent && opens && at == text.len) {
            n = put_end(out, n, size, blanks);
        }
        at = begin;
    }
    return n;
}

/* Python's blocks are never empty. */
static size_t fill_block(char *text, size_t n)
{
    size_t end = n;
    while (end && strchr(" \n", text[end - 1])) end--;
    if (!end || text[end - 1] != ':') return n;
    memcpy(text + end, " pass\n", 6);
    return end + 6;
}

/* A `try:` of Python above that has no other part yet. */
size_t window_tries(view text, char *out, size_t size)
{
    size_t n = 0, end = text.len;
    uint32_t least = UINT32_MAX;
    while (end) {
        size_t from = end - 1;
        while (from && text.ptr[from - 1] != '\n') from--;
        view line = {text.ptr + from, end - from};
        uint32_t indent = window_indent(line);
        end = from;
        if (indent == line.len || line.ptr[indent] == '\n' || line.ptr[indent] == '#') continue;
        bool opens = view_starts((view){line.ptr + indent, line.len - indent}, VIEW("try:"));
        if (indent < least && opens && size - n > indent + 32) {
            out[n++] = '\n';
            memcpy(out + n, line.ptr, indent);
            memcpy(out + n + indent, "finally: pass\n", 14);
            n += indent + 14;
        }
        if (indent < least) least = indent;
    }
    return n;
}

size_t window_close(const lexer *x, char *text, size_t n, size_t room)
{
    size_t n_code = n;
    if (x->language == GUARD_PYTHON && x->prev == '\n' && n > 1) n = fill_block(text, n);
    n += lexer_closers(x, text + n, room / 2);
    if (x->language == GUARD_RUBY)
        n += ruby_ends((view){text, n_code}, text + n, room / 2);
    text[n++] = '\n';
    if (x->language == GUARD_PYTHON) n += window_tries((view){text, n}, text + n, room / 4);
    return n;
}
