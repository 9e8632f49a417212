/* repair_line.c - reads a line to rewrite: brackets, the depth of each byte, words. */
#include "guard/repair_line.h"

#include <ctype.h>

#include "guard/lexer.h"

static void note(repair_brackets *b, char c)
{
    if (b->n < sizeof b->list) b->list[b->n] = c;
    b->n++;
}

static char kind_of(char c) { return strchr("{}EI", c) ? '{' : strchr("()", c) ? '(' : '['; }

repair_brackets repair_read_brackets(guard_language language, view text)
{
    repair_brackets b = {.n = 0};
    lexer x;
    char last = 0;
    lexer_begin(&x, language);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool inside = lexer_in_text(&x);
        if (!inside && !x.n && c && strchr(")]}", c)) note(&b, c);
        lexer_step(&x, c);
        if (!lexer_in_text(&x) && !isspace((unsigned char)c)) last = c;
    }
    for (uint32_t i = 0; i < x.n; i++) { /* a string that continues is one, too */
        char c = x.stack[i];
        if (c != '#') note(&b, strchr("([{EI", c) ? kind_of(c) : c);
    }
    b.opens = language == GUARD_PYTHON && last == ':' && !x.n;
    return b;
}

bool repair_same_brackets(const repair_brackets *a, const repair_brackets *b)
{
    return a->n == b->n && a->n <= BRACKETS_SEEN && a->opens == b->opens &&
           (!a->n || !memcmp(a->list, b->list, a->n));
}

void repair_read_depths(repair_depths *d, guard_language language, view line)
{
    lexer x;
    lexer_begin(&x, language);
    for (size_t i = 0; i < line.len && i < ARRAY_LEN(d->at); i++) {
        bool before = lexer_in_text(&x);
        lexer_step(&x, line.ptr[i]);
        d->at[i] = (repair_depth){before || lexer_in_text(&x), x.n ? x.stack[x.n - 1] : 0, x.n};
        d->n = i + 1;
    }
}

size_t repair_skip_blanks(view line, size_t at)
{
    while (at < line.len && isspace((unsigned char)line.ptr[at])) at++;
    return at;
}

bool repair_word_at(view line, size_t at, const char *word)
{
    size_t n = strlen(word);
    if (at + n > line.len || memcmp(line.ptr + at, word, n) != 0) return false;
    return at + n == line.len || !(isalnum((unsigned char)line.ptr[at + n]) ||
                                   line.ptr[at + n] == '_');
}

size_t repair_after_bracket(const repair_depths *d, size_t at)
{
    uint16_t outside = d->at[at].n ? d->at[at].n - 1 : 0;
    for (size_t i = at; i < d->n; i++)
        if (d->at[i].n <= outside) return i + 1;
    return d->n;
}
