/* outline.c - functions by the look of their first and last lines. */
#include "guard/outline.h"

#include <ctype.h>

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static bool begins_with_word(view line, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        view word = view_of(words[i]);
        if (view_starts(line, word) && (line.len == word.len || !is_word(line.ptr[word.len])))
            return true;
    }
    return false;
}

/* Does a function's block begin here?  Lines of bracket languages open one. */
static bool is_head(guard_language language, view line)
{
    static const char *const defs[] = {"def", "async def"};
    static const char *const others[] = {
        "if", "for", "foreach", "while", "switch", "else", "elseif", "try", "catch", "do", "case",
        "class", "struct", "union", "enum", "interface", "namespace", "select", "synchronized",
        "with", "using", "match", "default", "finally", "unless", "#define", "type", "trait"};
    if (language == GUARD_PYTHON) return begins_with_word(line, defs, 2);
    if (language == GUARD_RUBY) return begins_with_word(line, defs, 1);
    return memchr(line.ptr, '(', line.len) && line.ptr[0] != '}' &&
           !begins_with_word(line, others, ARRAY_LEN(others));
}

/* The word that ends at `at`, blanks aside. */
static view word_before(view line, size_t at)
{
    while (at && line.ptr[at - 1] == ' ') at--;
    size_t end = at;
    while (at && is_word(line.ptr[at - 1])) at--;
    return (view){line.ptr + at, end - at};
}

/* The name by which a function of the same file calls this one; empty: none does. */
static view name_of(view line)
{
    static const char *const keywords[] = {"function", "func", "async", "fn", "return"};
    const char *open = memchr(line.ptr, '(', line.len);
    if (!open) return word_before(line, line.len);
    view name = word_before(line, (size_t)(open - line.ptr));
    if (view_equal(name, VIEW("func"))) { /* Go: func (r *T) name( */
        const char *end = line.ptr + line.len, *close = memchr(open, ')', (size_t)(end - open));
        open = close ? memchr(close, '(', (size_t)(end - close)) : NULL;
        name = open ? word_before(line, (size_t)(open - line.ptr)) : (view){NULL, 0};
    } else if (!name.len || begins_with_word(name, keywords, ARRAY_LEN(keywords))) {
        const char *equals = memchr(line.ptr, '=', line.len);
        if (!equals) equals = memchr(line.ptr, ':', line.len);
        name = equals ? word_before(line, (size_t)(equals - line.ptr)) : (view){NULL, 0};
    }
    return name.len && name.ptr > line.ptr && name.ptr[-1] == '.' ? (view){NULL, 0} : name;
}

/* A function is complete: functions within it are part of it. */
static void complete(outline *o, outline_function f)
{
    uint8_t n = 0;
    o->n_complete++;
    for (uint8_t i = 0; i < o->n_done; i++)
        if (o->done[i].begin < f.begin) o->done[n++] = o->done[i];
    o->n_done = n;
    if (o->n_done < OUTLINE_DONE_MAX && f.tail > f.body) o->done[o->n_done++] = f;
}

void outline_line(outline *o, guard_language language, view text, uint32_t begin, uint32_t end,
                  unsigned before, unsigned after)
{
    uint32_t first = begin;
    while (first < end && isspace((unsigned char)text.ptr[first])) first++;
    if (first == end) return;
    uint32_t row = first; /* blank lines before it belong to the text before */
    while (row > begin && text.ptr[row - 1] != '\n') row--;
    view line = {text.ptr + first, end - first};
    uint16_t indent = (uint16_t)(first - row);
    bool words = language == GUARD_PYTHON || language == GUARD_RUBY;
    bool comment = line.ptr[0] == '#' && words;
    while (o->n_open && !comment) {
        outline_function f = o->open[o->n_open - 1];
        if (words ? indent > f.indent : after > f.depth) break;
        f.tail = (uint16_t)row;
        o->n_open--;
        complete(o, f);
    }
    if (!is_head(language, line) || (!words && after <= before) || o->n_open == OUTLINE_OPEN_MAX)
        return;
    view name = name_of(line);
    o->open[o->n_open++] = (outline_function){
        .begin = (uint16_t)row,
        .body = (uint16_t)end,
        .name = name.len ? (uint16_t)(name.ptr - text.ptr) : 0,
        .name_len = (uint16_t)name.len,
        .indent = indent,
        .depth = (uint16_t)before,
    };
}

/* False: a part of it is gone. */
static bool moved(outline_function *f, uint32_t from, uint32_t to)
{
    if (f->begin < to) return false;
    uint16_t by = (uint16_t)(to - from);
    f->begin -= by;
    f->body -= by;
    f->tail -= by;
    f->name -= by;
    return true;
}

void outline_cut(outline *o, uint32_t from, uint32_t to)
{
    uint8_t n = 0;
    for (uint8_t i = 0; i < o->n_done; i++)
        if (moved(&o->done[i], from, to)) o->done[n++] = o->done[i];
    o->n_done = n;
    n = 0;
    for (uint8_t i = 0; i < o->n_open; i++)
        if (moved(&o->open[i], from, to)) o->open[n++] = o->open[i];
    o->n_open = n;
}

/* A call on another object is not of this file: f(, self.f(, new A().f( are. */
static bool is_of_this_file(view text, size_t at)
{
    if (!at || !strchr(".>:", text.ptr[at - 1])) return true;
    while (at && strchr(".->:", text.ptr[at - 1])) at--;
    view receiver = word_before(text, at);
    return (at && text.ptr[at - 1] == ')') || view_equal(receiver, VIEW("self")) ||
           view_equal(receiver, VIEW("this")) || view_equal(receiver, VIEW("$this"));
}

/* Is f named where it can be called: outside its own head and the omitted bodies? */
static bool is_called(const outline *o, guard_language language, const bool *kept,
                      const outline_function *f, view text)
{
    const char *name = text.ptr + f->name, *end = text.ptr + text.len;
    const char *at = f->name_len ? text.ptr : NULL;
    while (at && (at = memmem(at, (size_t)(end - at), name, f->name_len))) {
        uint32_t name_at = (uint32_t)(at - text.ptr), after = name_at + f->name_len;
        at++;
        if ((name_at && is_word(text.ptr[name_at - 1])) ||
            (after < text.len && is_word(text.ptr[after])))
            continue;
        /* Ruby calls without brackets. */
        while (after < text.len && text.ptr[after] == ' ') after++;
        bool call = after < text.len && (text.ptr[after] == '(' || language == GUARD_RUBY);
        bool hidden = !call || !is_of_this_file(text, name_at) ||
                      (name_at >= f->begin && name_at < f->tail);
        for (uint8_t i = 0; i < o->n_done && !hidden; i++)
            hidden = !kept[i] && name_at >= o->done[i].body && name_at < o->done[i].tail;
        if (!hidden) return true;
    }
    return false;
}

uint32_t outline_holes(const outline *o, guard_language language, view text, outline_hole *out)
{
    bool kept[OUTLINE_DONE_MAX] = {false}, more = true;
    uint32_t n = 0;
    while (more) { /* functions that a called function calls are called, too */
        more = false;
        for (uint8_t i = 0; i < o->n_done; i++)
            if (!kept[i] && is_called(o, language, kept, &o->done[i], text)) kept[i] = more = true;
    }
    for (uint8_t i = 0; i < o->n_done; i++)
        if (!kept[i]) out[n++] = (outline_hole){o->done[i].body, o->done[i].tail};
    return n;
}
