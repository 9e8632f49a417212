/* ending.c - what unfinished code lacks to be a whole text of its language.
 *
 * A block without a statement gets one that refuses; strings, brackets and blocks are closed; a
 * last line that no closing completes is replaced by the refusal.  Each form is a guess, and the
 * grammar decides: the first with which all of the code parses is taken, with the signs that the
 * grammar says are missing. */
#include "guard/ending.h"

#include <ctype.h>

#include "base/text.h"
#include "guard/repair_parts.h"
#include "guard/syntax_parts.h"

enum { SIGNS_MAX = 8 }; /* that the grammar misses */

typedef struct {
    const guard_stream *s;
    guard_worker *w;
    beginning b;    /* the code that stays */
    uint32_t last;  /* the last byte of it that is code, from 1; 0: there is none */
    view indent;    /* of the statement */
    bool at_header; /* nothing comes after the line that opens a block */
    bool is_type;   /* that block holds no statements */
    bool decorates; /* Python: a function must follow */
    bool matches;   /* and here a case */
    size_t begun;   /* bytes of the text that close brackets */
    writing text;
} ending;

/* What comes after the brackets of the last expression.  opens: a block with a statement. */
typedef struct {
    const char *after;
    bool statement, opens;
} ending_form;

static const ending_form forms_words[] = {
    {"", true, false}, {"", false, false}, {":", true, false}, {NULL, false, false}};
static const ending_form forms_braces[] = {
    {"", true, false}, {"", false, false}, {";", false, false}, {" {", true, true},
    {" {", false, true}, {NULL, false, false}};

static bool has_braces(const ending *e)
{
    return e->s->language != GUARD_PYTHON && e->s->language != GUARD_RUBY;
}

/* ---- the last line ---- */

static bool is_code(const lexer *x, char c) { return !lexer_in_text(x) && !byte_is_blank(c); }

/* Comments do not count. */
static uint32_t last_code(const beginning *b)
{
    uint32_t last = 0;
    lexer x;
    lexer_begin(&x, b->lexer.language);
    for (uint32_t i = 0; i < b->n; i++) {
        char before = x.n ? x.stack[x.n - 1] : 0;
        lexer_step(&x, b->text[i]);
        bool text = before && strchr("'\"`32H", before);
        if (before != '/' && before != '#' && !strchr("\r\n", b->text[i]) &&
            (text || is_code(&x, b->text[i])))
            last = i + 1;
    }
    /* The first signs of a comment were read as code. */
    while (last && last > 1 && b->lexer.n && b->text[last - 1] == '/' &&
           strchr("/#", b->lexer.stack[b->lexer.n - 1]))
        last--;
    while (last && byte_is_blank(b->text[last - 1])) last--;
    return last;
}

static bool has_word(view line, const char *const *words, size_t n_words)
{
    size_t n_seen = 0;
    for (size_t i = 0, end; i < line.len && n_seen < 6 && !strchr("(=", line.ptr[i]); i = end) {
        end = i + 1;
        if (!isalpha((unsigned char)line.ptr[i])) continue;
        while (end < line.len && (isalnum((unsigned char)line.ptr[end]) || line.ptr[end] == '_'))
            end++;
        n_seen++;
        for (size_t k = 0; k < n_words; k++)
            if (view_equal((view){line.ptr + i, end - i}, view_of(words[k]))) return true;
    }
    return false;
}

static bool is_type(view line)
{
    static const char *const words[] = {"class", "struct", "enum", "interface", "union", "module",
                                        "namespace", "trait", "switch", "select", "type", "match",
                                        "extern", "record", "case"};
    size_t n_words = ARRAY_LEN(words);
    return has_word(line, words, n_words);
}

/* As window.c closes Ruby's blocks. */
static bool opens_ruby(view line)
{
    static const char *const words[] = {"def", "class", "module", "if", "unless", "while", "case",
                                        "begin", "for", "until", "else", "elsif", "when", "rescue",
                                        "ensure"};
    line = view_trim_end(line, TEXT_SPACE);
    bool ends = line.len > 3 && !memcmp(line.ptr + line.len - 3, "end", 3);
    bool block = memmem(line.ptr, line.len, " do |", 5) != NULL ||
                 (line.len > 3 && !memcmp(line.ptr + line.len - 3, " do", 3));
    for (size_t i = 0; i < ARRAY_LEN(words) && !block; i++)
        block = repair_word_at(line, 0, words[i]);
    return block && !ends;
}

static bool is_at_header(const ending *e, view line)
{
    const lexer *x = &e->b.lexer;
    uint16_t n = x->n;
    if (!e->last) return false;
    char c = e->b.text[e->last - 1];
    while (n && strchr("/#", x->stack[n - 1])) n--;
    if (e->s->language == GUARD_PYTHON) return c == ':' && !n;
    if (e->s->language == GUARD_RUBY) return !n && opens_ruby(line) && !strchr("=,.+-*/&<([{", c);
    return c == '{' && n && x->stack[n - 1] == '{' && e->b.open_at[n - 1] + 1 == e->last;
}

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

/* The code up to byte n.  cut: a line behind it was removed, with this indentation. */
static void begin(ending *e, uint32_t n, const view *cut)
{
    syntax_read(&e->b, e->s->language, (view){e->s->text, n});
    e->last = last_code(&e->b);
    view line = syntax_line_at(&e->b, e->last ? e->last - 1 : 0);
    const char *from = line.ptr;
    while (from > e->b.text && from[-1] != '\n') from--;
    e->indent = cut ? *cut : (view){from, (size_t)(line.ptr - from)};
    e->at_header = is_at_header(e, line);
    line.len = e->last > (size_t)(line.ptr - e->b.text) ? e->last - (line.ptr - e->b.text) : 0;
    bool python = e->s->language == GUARD_PYTHON;
    e->matches = python && e->at_header && view_starts(line, VIEW("match "));
    e->is_type = e->at_header && !e->matches && is_type(line);
    e->decorates = python && view_starts(line, VIEW("@"));
}

static view last_line(const ending *e)
{
    view line = syntax_line_at(&e->b, e->last - 1);
    line.len = e->last - (size_t)(line.ptr - e->b.text);
    return line;
}

/* Words that no block follows. */
static bool ends_in_word(const ending *e)
{
    static const char *const words[] = {"class", "constructor", "func", "extends", "interface"};
    view line = last_line(e);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        if (line.len >= n && !memcmp(line.ptr + line.len - n, words[i], n)) return true;
    }
    return false;
}

/* ---- forms ---- */

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

static void put_closer(ending *e, char bracket)
{
    char text[8];
    lexer one = {.n = 1, .stack = {bracket}};
    if (bracket == 'H') {
        repair_put_text(&e->text, "\n");
        repair_put(&e->text, (view){e->b.lexer.ids, e->b.lexer.n_ids});
        return;
    }
    repair_put(&e->text, (view){text, lexer_closers(&one, text, sizeof text)});
}

/* What belongs behind a block, though grammars accept it without: a part of "try {", the call of
 * "go func() {", the end of a type of C. */
static const char *after_block(const ending *e, uint32_t at)
{
    static const char *const types[] = {"struct", "class", "union", "enum"};
    bool c = e->s->language == GUARD_C || e->s->language == GUARD_CPP;
    view line = syntax_line_at(&e->b, at);
    line.len = e->b.text + at > line.ptr ? (size_t)(e->b.text + at - line.ptr) : 0;
    if (c && has_word(line, types, ARRAY_LEN(types))) return ";";
    bool go = e->s->language == GUARD_GO && (view_starts(line, VIEW("go func")) ||
                                             view_starts(line, VIEW("defer func")));
    return go ? "()" : syntax_after_block(&e->b, at);
}

/* Go: a part of a value; a line that ends before its bracket would lack a comma. */
static bool is_part(const ending *e, uint32_t at)
{
    while (at && byte_is_blank(e->b.text[at - 1])) at--;
    return e->s->language == GUARD_GO && at && strchr("{,:", e->b.text[at - 1]);
}

/* Closes the blocks and brackets [0, n), innermost first. */
static void put_blocks(ending *e, uint16_t n)
{
    const beginning *b = &e->b;
    uint32_t left = b->n_directives;
    bool within = false; /* of an expression */
    for (uint16_t i = n; i-- > 0;) {
        for (; left && b->directives[left - 1] > i; left--)
            repair_put_text(&e->text, "\n#endif\n");
        bool block = b->lexer.stack[i] == '{';
        if (within && block) repair_put_text(&e->text, ";");
        within = !block;
        if (!block) {
            put_closer(e, b->lexer.stack[i]);
            continue;
        }
        view line = syntax_line_at(b, b->open_at[i]);
        const char *from = line.ptr;
        while (from > b->text && from[-1] != '\n') from--;
        if (!is_part(e, b->open_at[i]))
            put_line(e, (view){from, (size_t)(line.ptr - from)}, 0);
        repair_put_text(&e->text, "}");
        repair_put_text(&e->text, after_block(e, b->open_at[i]));
    }
    if (within) repair_put_text(&e->text, ";");
    for (; left; left--) repair_put_text(&e->text, "\n#endif\n");
}

/* Ruby's ends, and Python's tries without another part: after the code with the text so far. */
static void put_words(ending *e)
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

/* Go: "func (s *shelf) add" and "func add", which its grammar takes without. */
static bool lacks_parameters(const ending *e)
{
    size_t n = 0;
    view line = last_line(e);
    if (e->s->language != GUARD_GO || !view_starts(line, VIEW("func ")) ||
        !isalnum((unsigned char)line.ptr[line.len - 1]))
        return false;
    for (size_t i = 0; i < line.len; i++) n += line.ptr[i] == '(';
    return n == (size_t)view_starts(line, VIEW("func ("));
}

static void write_form(ending *e, const ending_form *f, bool closes, bool cut)
{
    const lexer *x = &e->b.lexer;
    uint16_t n = x->n, keep = 0;
    e->text.n = 0;
    e->text.fits = true;
    if (n && x->stack[n - 1] == '#') {
        repair_put_text(&e->text, "\n");
        n--;
    }
    for (uint16_t i = 0; i < n && has_braces(e); i++)
        if (strchr("{M", x->stack[i])) keep = i + 1;
    for (uint16_t i = n; i-- > keep;) put_closer(e, x->stack[i]);
    e->begun = e->text.n;
    if (has_braces(e) && e->b.closed == e->last)
        repair_put_text(&e->text, after_block(e, e->b.closed_at));
    if (f->opens && lacks_parameters(e)) repair_put_text(&e->text, "()");
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
        repair_put_text(&e->text, after_block(e, e->last));
    }
    if (closes && has_braces(e)) put_blocks(e, keep);
    else if (closes) put_words(e);
    size_t end = e->text.n;
    bool ended = end ? e->text.text[end - 1] == '\n' : !e->b.n || e->b.text[e->b.n - 1] == '\n';
    if (!ended) repair_put_text(&e->text, "\n");
}

/* A sign that the grammar misses in the text, or before it.  shift: the code's place in the tree's
 * text. */
static bool put_missing(ending *e, uint32_t shift)
{
    const tree *t = &e->w->judge.tree;
    writing *w = &e->text, rest = {.fits = true};
    if (t->missing == UINT32_MAX || !t->missing_sign || t->missing < shift + e->last) return false;
    size_t at = t->missing > shift + e->b.n ? t->missing - shift - e->b.n : 0;
    if (at < e->begun) at = e->begun;
    if (at > w->n) return false;
    repair_put(&rest, repair_part((view){w->text, w->n}, at, w->n));
    w->n = at;
    repair_put_text(w, t->missing_sign);
    repair_put(w, (view){rest.text, rest.n});
    return w->fits;
}

/* Does the code parse with the text?  The grammar accepts blocks of Python without a line. */
static bool parses(ending *e, bool closes, uint32_t *at)
{
    const guard_stream *s = e->s;
    char *window = e->w->window;
    writing said = e->text;
    if (!closes) put_words(e);
    uint32_t shift = *at = stream_opening(s, window);
    if (!e->text.fits || shift + e->b.n + e->text.n + 1 > sizeof e->w->window) return false;
    memcpy(window + shift, e->b.text, e->b.n);
    memcpy(window + shift + e->b.n, e->text.text, e->text.n);
    const view all = {window, shift + e->b.n + e->text.n};
    e->text = said;
    const tree *t = &e->w->judge.tree;
    return tree_read(&e->w->judge.tree, s->language, all, NULL, 0) && t->whole;
}

static bool is_whole(ending *e, bool closes)
{
    uint32_t shift = 0;
    for (int i = 0; i < SIGNS_MAX; i++) {
        e->w->judge.tree.missing = UINT32_MAX;
        if (parses(e, closes, &shift)) return true;
        if (!put_missing(e, shift)) return false;
    }
    return false;
}

/* In a class a function needs a body. */
static bool is_method(const ending *e)
{
    const lexer *x = &e->b.lexer;
    uint16_t n = x->n;
    if (!has_braces(e) || e->s->language == GUARD_C || e->s->language == GUARD_CPP) return false;
    while (n && x->stack[n - 1] != '{') n--;
    if (!n) return false;
    view line = syntax_line_at(&e->b, e->b.open_at[n - 1]);
    const char *paren = memchr(line.ptr, '(', line.len);
    view last = last_line(e);
    bool function = e->s->language == GUARD_PHP ? memmem(last.ptr, last.len, "function", 8) != NULL
                                                : memchr(last.ptr, '(', last.len) != NULL;
    return function && is_type(line) && !paren;
}

/* The grammars accept heads that no compiler does. */
static bool is_half_head(const ending *e)
{
    view line = last_line(e);
    const lexer *x = &e->b.lexer;
    if (repair_word_at(line, 0, "constructor") && line.len == strlen("constructor")) return true;
    if (e->s->language != GUARD_GO || !repair_word_at(line, 0, "func")) return false;
    const char *close = memchr(line.ptr, ')', line.len);
    bool receiver = view_starts(line, VIEW("func (")) && close &&
                    close + 1 == line.ptr + line.len;
    return (x->n && x->stack[x->n - 1] == '(') || receiver;
}

/* Outside of all blocks some languages have no statements. */
static bool can_refuse(const ending *e, const ending_form *f)
{
    const guard_language l = e->s->language;
    bool declares = l == GUARD_GO || l == GUARD_JAVA || l == GUARD_C || l == GUARD_CPP;
    return !declares || f->opens || e->b.lexer.n;
}

static bool try_forms(ending *e, bool closes, bool cut, bool bodies)
{
    const ending_form *f = has_braces(e) ? forms_braces : forms_words;
    for (; f->after && (cut || !is_half_head(e)); f++) {
        if (bodies && !f->opens) continue;
        bool hole = e->at_header && !e->is_type && !f->statement && e->s->language == GUARD_PYTHON;
        bool useless = f->statement && !*f->after && !e->at_header && !cut;
        if (hole || useless || (f->statement && e->is_type && has_braces(e))) continue;
        if ((e->at_header || e->decorates) && *f->after) continue;
        if (f->opens && ends_in_word(e)) continue;
        if (f->statement && !can_refuse(e, f)) continue;
        write_form(e, f, closes, cut);
        if (is_whole(e, closes)) return true;
    }
    return false;
}

static bool find_form(ending *e, bool closes, bool cut)
{
    if (!cut && is_method(e) && try_forms(e, closes, cut, true)) return true;
    return try_forms(e, closes, cut, false);
}

/* ---- the stream ---- */

/* Code of which only a part is known, and texts that others read, stay as they are. */
static bool can_end(const guard_stream *s)
{
    const unwrap *u = &s->unwrap;
    guard_language around = s->carrier.segment.language;
    bool apart = u->mode == UNWRAP_DIFF || u->block != BLOCK_NONE || u->in_json || u->in_value;
    return guard_has_grammar(s->language) && !apart && !s->escaped && !s->added && !s->detect &&
           !s->continues && around != GUARD_HTML && around != GUARD_NOTEBOOK;
}

/* The lines of a list or a quotation have a margin. */
static void put_margins(const ending *e, bool at_margin, guard_ending *out)
{
    const unwrap *u = &e->s->unwrap;
    writing w = {.fits = true};
    bool begins = !at_margin && (!e->b.n || e->b.text[e->b.n - 1] == '\n');
    for (size_t i = 0; i < e->text.n; i++) {
        if (begins) repair_put(&w, (view){u->margin, u->n_margin});
        repair_put(&w, (view){e->text.text + i, 1});
        begins = e->text.text[i] == '\n';
    }
    out->n = w.fits && w.n <= sizeof out->text ? w.n : 0;
    memcpy(out->text, w.text, out->n);
}

bool guard_end_code(const guard_stream *s, guard_worker *w, guard_closing closing,
                    guard_ending *out)
{
    ending e = {.s = s, .w = w};
    uint32_t n = s->n, indent = window_indent((view){s->text + s->held, s->n - s->held});
    bool blank = n > s->held && s->held + indent == n, cut = blank;
    bool closes = closing != GUARD_CLOSE_NOTHING;
    uint64_t held = unwrap_held(&s->unwrap);
    const view before = {s->text + s->held, indent};
    if (!can_end(s)) return false;
    begin(&e, blank ? s->held : n, NULL);
    bool known = e.b.lexer.n == s->lexer.n && !e.b.lexer.over &&
                 !memcmp(e.b.lexer.stack, s->lexer.stack, s->lexer.n);
    if (!known) return false; /* what its beginning opened */
    if (!e.last || (closing != GUARD_CLOSE_ALL && !e.at_header)) return false;
    if (!closes && has_braces(&e)) return false;
    e.text = (writing){.fits = true};
    bool owes = has_braces(&e) && e.b.closed == e.last && *after_block(&e, e.b.closed_at);
    owes |= e.b.lexer.n && e.b.lexer.stack[e.b.lexer.n - 1] == 'H'; /* Ruby's grammar ends it */
    uint32_t shift;
    if (!e.at_header && !owes && !is_half_head(&e) && parses(&e, true, &shift)) return false;
    bool found = find_form(&e, closes, false);
    if (!found && closing == GUARD_CLOSE_ALL && n > s->held && !blank && s->map[0].fresh) {
        begin(&e, s->held, &before);
        found = cut = e.last && find_form(&e, closes, true);
    }
    if (!found) return false;
    out->at = cut ? s->map[0].at : held < s->fed ? held : s->fed;
    out->refuses = memmem(e.text.text, e.text.n, "the answer ended", 16) != NULL;
    put_margins(&e, cut, out);
    return out->n > 0 || cut; /* the removed line may be all that was wrong */
}
