/* ending_write.c - writes what closes unfinished code: statements, brackets and blocks. */
#include <ctype.h>

#include "guard/ending_parts.h"

/* A step of indentation, as the code has it. */
static view unit_of(const beginning *b)
{
    static const char blanks[] = "        ";
    size_t least = 0;
    for (uint32_t i = 0; i < b->n;) {
        view line = {b->text + i, b->n - i};
        uint32_t n = window_indent(line);
        if (n && line.ptr[0] == '\t') return VIEW("\t");
        bool code = n < line.len && !strchr("\r\n*", line.ptr[n]);
        if (code && n > 1 && n <= 8 && (!least || n < least)) least = n;
        const char *stop = memchr(line.ptr, '\n', line.len);
        i += stop ? (uint32_t)(stop - line.ptr) + 1 : (uint32_t)line.len;
    }
    if (!least && b->lexer.language == GUARD_GO) return VIEW("\t");
    return (view){blanks, least ? least : 4};
}

static void put_line(ending *e, view indent, int deeper)
{
    size_t n = e->text.n;
    bool begins = n ? e->text.text[n - 1] == '\n' : !e->b.n || e->b.text[e->b.n - 1] == '\n';
    if (!begins) repair_put_text(&e->text, "\n");
    repair_put(&e->text, indent);
    while (deeper-- > 0) repair_put(&e->text, unit_of(&e->b));
}

static void put_refusal(ending *e)
{
    const guard_finding f = {.language = e->s->language, .message = "the answer ended here"};
    const repair r = {.f = &f, .leaves = true};
    if (e->is_type) repair_put_text(&e->text, "pass"); /* the class stays usable */
    else (void)repair_put_statement(&e->text, &r, true);
}

/* Python: is the string whose last opening quote is byte `at` one with values in it: f"{x}"? */
static bool is_format(const beginning *b, uint32_t at)
{
    uint32_t from = at;
    while (from && b->text[from - 1] == b->text[at]) from--;
    uint32_t prefix = from;
    while (prefix && isalnum((unsigned char)b->text[prefix - 1])) prefix--;
    view text = {b->text + prefix, from - prefix};
    return text.len && text.len <= 2 && strspn(text.ptr, "fFrR") >= text.len &&
           (memchr(text.ptr, 'f', text.len) || memchr(text.ptr, 'F', text.len));
}

/* The value that is open at the end of that string. */
static void put_value(ending *e, uint32_t at)
{
    const beginning *b = &e->b;
    char text[GUARD_BRACKETS_MAX + 8];
    uint32_t begun = 0; /* of the value; 0: none is open */
    lexer x;
    for (uint32_t i = at + 1; i < b->n; i++) {
        const char c = b->text[i];
        if (begun && c == '}' && !x.n) begun = 0;
        else if (begun) lexer_step(&x, c);
        else if (c == '{' && i + 1 < b->n && b->text[i + 1] == '{') i++;
        else if (c == '{') {
            begun = i + 1;
            lexer_begin(&x, GUARD_PYTHON);
        }
    }
    if (!begun) return;
    view said = view_trim_end((view){b->text + begun, b->n - begun}, " \t\n\r");
    if (!said.len) repair_put_text(&e->text, "None");
    repair_put(&e->text, (view){text, lexer_closers(&x, text, sizeof text)});
    repair_put_text(&e->text, "}");
}

/* The texts of heredocs that the last line opens. */
static void put_heredocs(ending *e)
{
    const lexer *x = &e->b.lexer;
    if (!ending_owes_heredoc(x)) return;
    repair_put_text(&e->text, "\n");
    repair_put(&e->text, (view){x->ids, x->n_ids});
    if (x->ids[x->n_ids - 1] != '\n') repair_put_text(&e->text, "\n");
}

/* Closes the i-th construct. */
static void put_closer(ending *e, uint16_t i)
{
    const lexer *x = &e->b.lexer;
    const char bracket = x->stack[i];
    char text[8];
    lexer one = {.n = 1, .stack = {bracket}};
    if (bracket == 'H') {
        repair_put_text(&e->text, "\n");
        repair_put(&e->text, (view){x->ids, x->n_ids});
        return;
    }
    if (e->s->language == GUARD_PYTHON && strchr("'\"32", bracket) &&
        is_format(&e->b, e->b.open_at[i]))
        put_value(e, e->b.open_at[i]);
    repair_put(&e->text, (view){text, lexer_closers(&one, text, sizeof text)});
}

/* Go: a part of a value; a line that ends before its bracket would lack a comma. */
static bool is_part(const ending *e, uint32_t at)
{
    while (at && byte_is_blank(e->b.text[at - 1])) at--;
    return e->s->language == GUARD_GO && at && strchr("{,:", e->b.text[at - 1]);
}

/* The words of blocks within more than `depth` brackets; returns how many stay. */
static uint32_t put_ends(ending *e, uint32_t left, int depth)
{
    const beginning *b = &e->b;
    for (; left && b->words[left - 1].depth > depth; left--) {
        const syntax_word *word = &b->words[left - 1];
        if (*word->end == '#') repair_put_text(&e->text, "\n"); /* the line before may go on */
        put_line(e, syntax_indent_at(b, word->at), 0);
        repair_put_text(&e->text, word->end);
        repair_put_text(&e->text, "\n");
    }
    return left;
}

/* Closes the blocks and brackets [0, n), innermost first. */
static void put_blocks(ending *e, uint16_t n)
{
    const beginning *b = &e->b;
    uint32_t left = b->n_words;
    bool within = false; /* of an expression */
    for (uint16_t i = n; i-- > 0;) {
        left = put_ends(e, left, i);
        bool block = b->lexer.stack[i] == '{';
        if (within && block) repair_put_text(&e->text, ";");
        within = !block && b->lexer.stack[i] != 'M';
        if (b->lexer.stack[i] == 'M' && (i || left)) repair_put_text(&e->text, "<?php");
        if (!block) {
            put_closer(e, i);
            continue;
        }
        uint32_t at = b->open_at[i];
        if (!is_part(e, at)) put_line(e, syntax_indent_at(b, at), 0);
        repair_put_text(&e->text, "}");
        repair_put_text(&e->text, ending_after_block(e, at));
    }
    if (within) repair_put_text(&e->text, ";");
    (void)put_ends(e, left, -1);
}

/* Ruby's ends, and Python's tries without another part: after the code with the text so far. */
void ending_put_words(ending *e)
{
    char *text = e->w->window;
    size_t n = e->b.n, room = sizeof e->w->window - WINDOW_CLOSERS, first;
    lexer x;
    if (n + e->text.n + 2 > room) return;
    memcpy(text, e->b.text, n);
    memcpy(text + n, e->text.text, e->text.n);
    n += e->text.n;
    if (n && text[n - 1] != '\n') text[n++] = '\n', repair_put_text(&e->text, "\n");
    lexer_begin(&x, e->s->language);
    for (size_t i = 0; i < n; i++) lexer_step(&x, text[i]);
    first = n;
    if (e->s->language == GUARD_RUBY) {
        n = window_close(&x, text, n, WINDOW_CLOSERS);
        while (first < n && text[first] == '\n') first++;
    } else n += window_tries((view){text, n}, text + n, WINDOW_CLOSERS / 2);
    if (e->s->language == GUARD_PYTHON && n > first) first++; /* its newline is there */
    repair_put(&e->text, repair_part((view){text, n}, first, n));
}

void ending_write(ending *e, const ending_form *f, bool closes, bool cut)
{
    const lexer *x = &e->b.lexer;
    uint16_t n = x->n, keep = 0;
    e->text.n = 0;
    e->text.fits = true;
    if (n && x->stack[n - 1] == '#') {
        repair_put_text(&e->text, "\n");
        n--;
    }
    for (uint16_t i = 0; i < n && ending_has_braces(e); i++)
        if (strchr("{M", x->stack[i])) keep = i + 1;
    bool php = e->s->language == GUARD_PHP; /* the code goes on after the text */
    if (php) put_heredocs(e);
    for (uint16_t i = n; i-- > keep;) put_closer(e, i);
    if (!php) put_heredocs(e);
    e->begun = e->text.n;
    if (ending_has_braces(e) && e->b.closed == e->b.last)
        repair_put_text(&e->text, ending_after_block(e, e->b.closed_at));
    if (f->opens && ending_lacks_parameters(e)) repair_put_text(&e->text, "()");
    repair_put_text(&e->text, f->after);
    if (e->decorates) {
        put_line(e, e->indent, 0);
        repair_put_text(&e->text, "def withheld(*args, **kwargs):");
    }
    if (f->statement || e->decorates) {
        if (e->matches) {
            put_line(e, e->indent, 1);
            repair_put_text(&e->text, "case _:");
        }
        /* The removed line was deeper already. */
        put_line(e, e->indent, e->matches ? 2 : !cut || e->decorates);
        put_refusal(e);
    }
    if (f->opens) {
        put_line(e, e->indent, 0);
        repair_put_text(&e->text, "}");
        repair_put_text(&e->text, ending_after_block(e, e->b.last));
    }
    if (closes && ending_has_braces(e)) put_blocks(e, keep);
    else if (closes) ending_put_words(e);
    size_t end = e->text.n;
    bool ended = end ? e->text.text[end - 1] == '\n' : !e->b.n || e->b.text[e->b.n - 1] == '\n';
    if (!ended) repair_put_text(&e->text, "\n");
}
