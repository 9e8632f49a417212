/* syntax_check.c - is unfinished code the beginning of a program of its language?
 *
 * It is if a short ending completes it.  So open constructs are closed, some endings are tried, and
 * the grammar must read the result without an error.  Code that needs another ending is wrongly
 * called broken: this is rare, and test_replacement measures it. */
#include "base/text.h"
#include "guard/syntax_parts.h"

enum { INDENTS_MAX = 64, PROBES_MAX = 6, ENDING_BYTES = 128 };

view syntax_line_at(const beginning *b, uint32_t at)
{
    uint32_t from = at, to = at;
    while (from && b->text[from - 1] != '\n') from--;
    while (to < b->n && b->text[to] != '\n') to++;
    return view_trim_start((view){b->text + from, to - from}, " \t\n\r");
}

view syntax_indent_at(const beginning *b, uint32_t at)
{
    while (at && b->text[at - 1] != '\n') at--;
    view line = {b->text + at, b->n - at};
    return (view){line.ptr, window_indent(line)};
}

static void open_word(beginning *b, uint32_t at, const char *end)
{
    if (b->n_words < SYNTAX_WORDS_MAX)
        b->words[b->n_words++] = (syntax_word){.end = end, .at = at, .depth = b->lexer.n};
}

/* #if and #endif are brackets too. */
static void note_directive(beginning *b, uint32_t at)
{
    view line = syntax_line_at(b, at);
    do line.ptr++, line.len--;
    while (line.len && byte_is_blank(*line.ptr));
    if (view_starts(line, VIEW("if"))) open_word(b, at, "#endif");
    else if (view_starts(line, VIEW("endif")) && b->n_words) b->n_words--;
}

/* The word before byte `at`, or before the blanks there. */
static view word_before(const beginning *b, uint32_t at, bool blanks)
{
    while (blanks && at && byte_is_blank(b->text[at - 1])) at--;
    uint32_t from = at;
    while (from && byte_is_word(b->text[from - 1])) from--;
    return (view){b->text + from, at - from};
}

/* So are PHP's if (..): and endif.  n: brackets before byte `at`, which was read; n of the text: no
 * byte. */
static void note_php(beginning *b, uint32_t at, uint16_t n)
{
    static const char *const ends[] = {"endif;", "endforeach;", "endfor;", "endwhile;",
                                       "endswitch;"};
    const char c = at < b->n ? b->text[at] : ' ';
    if (!byte_is_word(c) && b->n_words) {
        const char *end = b->words[b->n_words - 1].end;
        if (view_equal(word_before(b, at, false), (view){end, strlen(end) - 1})) b->n_words--;
    }
    if (c == ')' && b->lexer.n < n) {
        view word = word_before(b, b->open_at[b->lexer.n], true);
        b->head = NULL;
        for (size_t i = 0; i < ARRAY_LEN(ends); i++)
            if (view_equal(word, (view){ends[i] + 3, strlen(ends[i]) - 4})) b->head = ends[i];
    } else if (!strchr(" \t\r\n", c)) {
        if (c == ':' && b->head) open_word(b, at, b->head);
        b->head = NULL;
    }
}

/* The byte that was read last.  before: what was open at it. */
static bool is_code(const lexer *x, char before, char c)
{
    if (strchr("\r\n", c) || (before && strchr("/#", before))) return false;
    return (before && strchr("'\"`32H", before)) || (!lexer_in_text(x) && !byte_is_blank(c));
}

/* The first signs of a comment were read as code, and blanks of a text are none at its end. */
static void trim_last(beginning *b)
{
    char open = b->lexer.n ? b->lexer.stack[b->lexer.n - 1] : 0;
    if (open && strchr("/#", open))
        while (b->last > 1 && b->text[b->last - 1] == '/') b->last--;
    while (b->last && byte_is_blank(b->text[b->last - 1])) b->last--;
}

void syntax_read(beginning *b, guard_language language, view text)
{
    bool c = language == GUARD_C || language == GUARD_CPP, begins = true;
    b->text = text.ptr;
    b->n = (uint32_t)text.len;
    b->head = NULL;
    b->n_words = b->closed = b->closed_at = b->last = 0;
    lexer_begin(&b->lexer, language);
    for (uint32_t i = 0; i < b->n; i++) {
        uint16_t n = b->lexer.n;
        char open = n ? b->lexer.stack[n - 1] : 0;
        if (c && begins && text.ptr[i] == '#' && !lexer_in_text(&b->lexer)) note_directive(b, i);
        begins = text.ptr[i] == '\n' || (begins && byte_is_blank(text.ptr[i]));
        bool code = !lexer_in_text(&b->lexer);
        lexer_step(&b->lexer, text.ptr[i]);
        if (language == GUARD_PHP && code) note_php(b, i, n);
        if (is_code(&b->lexer, open, text.ptr[i])) b->last = i + 1;
        if (b->lexer.n > n) b->open_at[n] = i;
        else if (b->lexer.n < n && b->lexer.stack[b->lexer.n] == '{') {
            b->closed_at = b->open_at[b->lexer.n];
            b->closed = i + 1;
        }
    }
    if (language == GUARD_PHP && !lexer_in_text(&b->lexer)) note_php(b, b->n, b->lexer.n);
    trim_last(b);
}

/* ---- closing open constructs ---- */

static bool ends_with_word(view text, view word)
{
    text = view_trim_end(text, " \t\n\r");
    if (text.len < word.len) return false;
    view end = {text.ptr + text.len - word.len, word.len};
    char before = text.len > word.len ? text.ptr[text.len - word.len - 1] : ' ';
    return view_equal(end, word) && !byte_is_word(before);
}

const char *syntax_after_block(const beginning *b, uint32_t at)
{
    view before = {b->text, at}, line = syntax_line_at(b, at);
    line = view_trim_start(line, "} \t\n\r");
    if (ends_with_word(before, VIEW("do"))) return " while (0);";
    if (!ends_with_word(before, VIEW("try")) && !view_starts(line, VIEW("try ("))) return "";
    return b->lexer.language == GUARD_CPP ? " catch (...) {}" : " finally {}";
}

static size_t put(char *out, size_t size, size_t n, const char *text)
{
    size_t len = strlen(text);
    if (len > size - n) return size;
    memcpy(out + n, text, len);
    return n + len;
}

static size_t put_word(const beginning *b, uint32_t nth, char *out, size_t size, size_t n)
{
    n = put(out, size, n, "\n");
    n = put(out, size, n, b->words[nth - 1].end);
    return put(out, size, n, "\n");
}

/* Closes the brackets of an expression, its statement, and the blocks around it. */
static size_t close_brackets(const beginning *b, const char *end, char *out, size_t size)
{
    size_t n = 0;
    uint32_t left = b->n_words;
    for (uint32_t i = b->lexer.n; i-- && n + 8 < size;) {
        if (end && b->lexer.stack[i] == '{') {
            n = put(out, size, n, end);
            end = NULL;
        }
        for (; left && b->words[left - 1].depth > i; left--) n = put_word(b, left, out, size, n);
        lexer one = b->lexer;
        one.stack[0] = b->lexer.stack[i];
        one.n = 1;
        n += lexer_closers(&one, out + n, size - n);
        if (one.stack[0] == '{') n = put(out, size, n, syntax_after_block(b, b->open_at[i]));
    }
    if (end) n = put(out, size, n, end);
    for (; left; left--) n = put_word(b, left, out, size, n);
    return n;
}

/* ---- endings ---- */

/* Text before the brackets of an expression are closed, and after them.  ">" means the last line's
 * indentation. */
typedef struct {
    const char *inside, *after;
} ending;

static const ending endings_python[] = {
    {"", ""},      {">pass", ""},          {">    pass", ""}, {">def x(): pass", ""},
    {">\tpass", ""}, {" x", ""}, {"", ": pass"}, {" x", ": pass"}, {NULL, NULL}};
static const ending endings_braces[] = {
    {"", ""}, {"", ";"}, {" x", ";"}, {"", " {}"}, {" x", " {}"}, {" x x", " {}"},
    {"", " x() {}"}, {"", " void x() {}"}, {"", " x: x;"}, {NULL, NULL}};
static const ending endings_php[] = {
    {"", ""}, {"", ";"}, {" $x", ";"}, {"", " {}"}, {" $x", " {}"}, {"", " x() {}"},
    {"", " function x() {}"}, {NULL, NULL}};
static const ending endings_ruby[] = {{"", ""}, {" x", ""}, {NULL, NULL}};

static const ending *endings_of(guard_language language)
{
    switch (language) {
    case GUARD_PYTHON: return endings_python;
    case GUARD_RUBY: return endings_ruby;
    case GUARD_PHP: return endings_php;
    default: return endings_braces;
    }
}

static size_t put_inside(const beginning *b, char *out, size_t size, const char *inside)
{
    size_t n = 0;
    if (*inside == '>') {
        uint32_t end = b->n, from;
        while (end && byte_is_blank(b->text[end - 1])) end--;
        for (from = end; from && b->text[from - 1] != '\n';) from--;
        uint32_t indent = window_indent((view){b->text + from, end - from});
        if (indent + 1 > size) return 0;
        out[n++] = '\n';
        memcpy(out + n, b->text + from, indent);
        n += indent;
        inside++;
    }
    return put(out, size, n, inside);
}

/* An ending that only closes open constructs, and fills an empty block. */
static bool adds_nothing(const ending *e)
{
    return !*e->after && (!*e->inside || (*e->inside == '>' && !strchr(e->inside, '(')));
}

/* Does all of it parse with this ending?  If the grammar gives up, it counts as complete. */
static guard_syntax try_ending(const guard_stream *s, guard_worker *w, const beginning *b,
                            const ending *e)
{
    uint32_t shift = stream_opening(s, w->window);
    char *text = w->window + shift;
    size_t n = b->n, end = b->n + WINDOW_CLOSERS;
    memcpy(text, b->text, n);
    n += put_inside(b, text + n, ENDING_BYTES, e->inside);
    if (s->language == GUARD_RUBY) n = window_close(&b->lexer, text, n, end - n);
    else n += close_brackets(b, e->after, text + n, (end - n) / 2);
    if (s->language == GUARD_PYTHON) n += window_tries((view){text, n}, text + n, (end - n) / 2);
    text[n++] = '\n';
    const tree *t = &w->judge.tree;
    uint32_t last = b->n;
    while (last && byte_is_blank(b->text[last - 1])) last--;
    if (!tree_read(&w->judge.tree, s->language, (view){w->window, shift + n}, NULL, 0))
        return GUARD_SYNTAX_COMPLETE;
    if (t->broken || t->missing < shift + last) return GUARD_SYNTAX_BROKEN;
    return t->missing == UINT32_MAX && adds_nothing(e) ? GUARD_SYNTAX_COMPLETE : GUARD_SYNTAX_OPEN;
}

/* Is each line of Python indented like one above it, or further, as is required after a line that
 * opens a block?  The grammar accepts any indentation. */
static bool is_indented(const guard_stream *s, uint32_t n)
{
    view open[INDENTS_MAX];
    uint32_t n_open = 0, at = 0;
    bool opened = false;
    lexer x;
    lexer_begin(&x, s->language);
    while (at < n) {
        view line = {s->text + at, n - at};
        uint32_t k = n_open;
        line.len = window_indent(line);
        bool code = at + line.len < n && !strchr("#\r\n", s->text[at + line.len]) && !x.n;
        while (code && k && !view_equal(open[k - 1], line)) k--;
        bool deeper = n_open && line.len > open[n_open - 1].len && k == 0 &&
                      view_starts(line, open[n_open - 1]);
        if (code && n_open && !k && !deeper) return false;
        if (code && opened && k) return false; /* no block came */
        if (code) opened = false;
        if (code && k) n_open = k;
        if (code && !k && n_open < INDENTS_MAX) open[n_open++] = line;
        for (bool ended = false; at < n && !ended;) {
            char last = x.last;
            ended = lexer_step(&x, s->text[at++]);
            if (ended && code) opened = last == ':';
        }
    }
    return true;
}

static guard_syntax syntax_of(const guard_stream *s, guard_worker *w, uint32_t n)
{
    beginning b;
    if (s->language == GUARD_PYTHON && !is_indented(s, n)) return GUARD_SYNTAX_BROKEN;
    syntax_read(&b, s->language, (view){s->text, n});
    guard_syntax best = GUARD_SYNTAX_BROKEN;
    for (const ending *e = endings_of(s->language); e->inside; e++) {
        if (best == GUARD_SYNTAX_COMPLETE || (best && !adds_nothing(e))) break;
        guard_syntax found = try_ending(s, w, &b, e);
        if (found > best) best = found;
    }
    return best;
}

static bool is_beginning(const guard_stream *s, guard_worker *w, uint32_t n)
{
    return syntax_of(s, w, n) != GUARD_SYNTAX_BROKEN;
}

/* Where a word ends, or a sign. */
static bool is_boundary(const char *text)
{
    return !(byte_is_word(text[-1]) && byte_is_word(text[0])) && !byte_is_blank(text[0]);
}

/* The last position up to which a line that is broken at its end can continue; found by bisection,
 * as all before it is good and all after it is bad. */
static uint32_t last_good(const guard_stream *s, guard_worker *w, uint32_t from, uint32_t to)
{
    uint32_t good = from;
    for (int i = 0; i < PROBES_MAX && to - good > 1; i++) {
        uint32_t middle = good + (to - good) / 2, at = middle;
        while (at > good && !is_boundary(s->text + at)) at--;
        for (at = at > good ? at : middle; at < to && !is_boundary(s->text + at);) at++;
        if (at >= to) break;
        if (is_beginning(s, w, at)) good = at;
        else to = at;
    }
    return good - from;
}

guard_syntax guard_syntax_check(const guard_stream *s, guard_worker *w, uint32_t *n_good)
{
    uint32_t n = s->n, from = s->row < n ? s->row : s->last_row;
    while (n > from && (s->text[n - 1] == ' ' || s->text[n - 1] == '\t')) n--;
    bool ends = n > from && s->text[n - 1] == '\n';
    char inner = s->lexer.n ? s->lexer.stack[s->lexer.n - 1] : 0;
    bool apart = inner && strchr("/#DdH", inner); /* comments and texts over lines */
    if (!ends || apart || !guard_has_grammar(s->language)) return GUARD_SYNTAX_COMPLETE;
    guard_syntax syntax = syntax_of(s, w, n);
    if (syntax != GUARD_SYNTAX_BROKEN) return syntax;
    if (!is_beginning(s, w, from)) return GUARD_SYNTAX_COMPLETE;
    *n_good = last_good(s, w, from, n);
    return GUARD_SYNTAX_BROKEN;
}
