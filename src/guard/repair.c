/* repair.c - rewrites a weak line from its own pieces.
 *
 * A refusal replaces as little of the line as its language allows: the innermost statement around
 * the weak code, or the weak code alone, or the condition of the block that the line opens.  What
 * opens or closes a block stays, as the text after the line belongs to it: a form with other
 * brackets than the line is rejected. */
#include "guard/repair.h"

#include <ctype.h>

#include "guard/repair_line.h"
#include "guard/repair_parts.h"

/* ---- the innermost statement ---- */

static const char *const conditions[] = {"if", "while", "for", "foreach", "switch"};

/* Does a statement begin there whose condition is weak? */
static bool is_head(const repair *r, size_t at)
{
    guard_language l = r->f->language;
    if (l == GUARD_PYTHON || l == GUARD_RUBY || l == GUARD_SHELL) return false;
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
        if (repair_word_at(r->line, at, conditions[i])) return true;
    return false;
}

static size_t skip_heads(const repair *r, const repair_depths *d, size_t at)
{
    for (bool again = true; again;) {
        again = false;
        at = repair_skip_blanks(r->line, at);
        if (repair_word_at(r->line, at, "else")) {
            at += 4;
            again = true;
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
            size_t open = repair_skip_blanks(r->line, at + strlen(conditions[i]));
            if (!repair_word_at(r->line, at, conditions[i]) || open >= d->n ||
                r->line.ptr[open] != '(')
                continue;
            size_t after = repair_after_bracket(d, open);
            if (after > r->from) return at; /* the head itself is weak */
            at = after;
            again = true;
            break;
        }
    }
    return at;
}

/* Python: after "if x:", and the last ";". */
static size_t begin_python(const repair *r, const repair_depths *d)
{
    static const char *const heads[] = {"if", "elif", "else", "for", "while", "with", "try",
                                        "except", "finally", "def", "class", "async", "case"};
    size_t begin = r->indent;
    bool head = false;
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) head |= repair_word_at(r->line, begin, heads[i]);
    for (size_t i = r->indent; i < r->from && i < d->n; i++) {
        bool outside = !d->at[i].text && !d->at[i].n;
        if (outside && head && r->line.ptr[i] == ':') {
            begin = i + 1;
            head = false;
        }
        if (outside && r->line.ptr[i] == ';') begin = i + 1;
    }
    return repair_skip_blanks(r->line, begin);
}

/* Does a statement end, or a block begin or end, with byte i? */
static bool is_boundary(const repair *r, const repair_depths *d, size_t i)
{
    char c = r->line.ptr[i], before = i ? d->at[i - 1].inner : 0;
    if (d->at[i].text) return false;
    if (c == '{') return d->at[i].inner == '{';
    if (c == '}') return before == '{' || !before; /* of a block that was open before the line */
    return c == ';' && (!before || before == '{');
}

/* PHP within a page: after the tag that opens the weak code.  shows: its value is printed. */
static size_t after_tag(const repair *r, bool *shows)
{
    size_t after = 0;
    *shows = false;
    for (size_t i = 0; r->f->language == GUARD_PHP && i + 1 < r->from; i++) {
        if (r->line.ptr[i] != '<' || r->line.ptr[i + 1] != '?') continue;
        *shows = i + 2 < r->from && r->line.ptr[i + 2] == '=';
        after = i + (*shows ? 3 : repair_word_at(r->line, i + 2, "php") ? 5 : 2);
    }
    return repair_skip_blanks(r->line, after);
}

static size_t begin_braces(const repair *r, const repair_depths *d)
{
    bool shows;
    const size_t tag = after_tag(r, &shows);
    size_t begin = tag > r->indent ? tag : r->indent;
    for (size_t i = begin; i < r->from && i < d->n; i++) {
        bool label = r->line.ptr[i] == ':' && !d->at[i].n &&
                     (repair_word_at(r->line, r->indent, "case") ||
                      repair_word_at(r->line, r->indent, "default"));
        if (label || is_boundary(r, d, i)) begin = i + 1;
    }
    return skip_heads(r, d, begin);
}

static bool ends_tag(const repair *r, size_t i)
{
    return r->f->language == GUARD_PHP && i + 1 < r->line.len && r->line.ptr[i] == '?' &&
           r->line.ptr[i + 1] == '>';
}

static size_t end_of_statement(const repair *r, const repair_depths *d, size_t begin)
{
    size_t i = r->to > begin ? r->to - 1 : begin;
    uint16_t base = begin && begin <= d->n ? d->at[begin - 1].n : 0;
    for (; i < d->n && (d->at[i].n > base || !is_boundary(r, d, i)); i++)
        if (ends_tag(r, i)) break;
    if (i >= d->n) return r->line.len;
    if (r->line.ptr[i] == ';') return i + 1;
    while (i > begin && isspace((unsigned char)r->line.ptr[i - 1])) i--;
    return i;
}

/* An anonymous function around the weak code refuses when it is called, not here. */
static bool in_function(const repair *r, size_t begin)
{
    view text = repair_part(r->line, begin, r->from);
    static const char *const words[] = {"=>", "function", "fn(", "func("};
    bool found = false;
    for (size_t i = 0; i < ARRAY_LEN(words) && text.len; i++)
        found |= memmem(text.ptr, text.len, words[i], strlen(words[i])) != NULL;
    return found;
}

/* Words of the shell before a command, and after it. */
static void shell_command(const repair *r, size_t *begin, size_t *end)
{
    static const char *const words[] = {"if", "elif", "while", "until", "then", "do", "else", "!",
                                        "RUN"};
    static const char *const ends[] = {"; then", ";then", "; do", ";do", " {", ";;", "; }"};
    size_t at = r->indent, to = r->line.len;
    for (bool again = true; again;) {
        again = false;
        at = repair_skip_blanks(r->line, at);
        for (size_t i = 0; i < ARRAY_LEN(words) && !again; i++)
            if (repair_word_at(r->line, at, words[i])) at += strlen(words[i]), again = true;
    }
    const char *brace = memmem(r->line.ptr + at, r->line.len - at, "() {", 4);
    if (brace && (size_t)(brace - r->line.ptr) < r->from)
        at = repair_skip_blanks(r->line, (size_t)(brace - r->line.ptr) + 4);
    while (to > at && isspace((unsigned char)r->line.ptr[to - 1])) to--;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        if (to > at + n && !memcmp(r->line.ptr + to - n, ends[i], n)) {
            to -= n;
            break;
        }
    }
    *begin = at;
    *end = to;
}

/* Go, outside of functions: a declaration refuses when the program starts. */
static bool write_declaration(const repair *r, writing *w)
{
    size_t at = repair_skip_blanks(r->line, repair_word_at(r->line, 0, "const") ? 5 : 3);
    size_t end = at;
    while (end < r->line.len && !strchr(" \t=", r->line.ptr[end])) end++;
    repair_put_text(w, "var ");
    repair_put(w, repair_part(r->line, at, end));
    repair_put_text(w, " = func() string { ");
    (void)repair_put_statement(w, r, true);
    repair_put_text(w, " }()");
    return end > at && r->line.ptr[at] != '(';
}

static bool write_statement(const repair *r, const repair_depths *d, writing *w)
{
    guard_language l = r->f->language;
    size_t begin, end;
    bool shows;
    (void)after_tag(r, &shows);
    if (shows) return false; /* its value refuses */
    if (l == GUARD_GO &&
        (repair_word_at(r->line, 0, "const") || repair_word_at(r->line, 0, "var")))
        return write_declaration(r, w);
    if (l == GUARD_SHELL) shell_command(r, &begin, &end);
    else if (l == GUARD_PYTHON) {
        begin = begin_python(r, d);
        end = r->line.len;
    } else if (l == GUARD_RUBY) {
        begin = r->indent;
        end = r->line.len;
    } else {
        begin = begin_braces(r, d);
        end = end_of_statement(r, d, begin);
    }
    if (begin > r->from || end < begin) return false;
    repair left = *r;
    left.leaves = repair_word_at(r->line, begin, "return") ||
                  repair_word_at(r->line, begin, "throw");
    if (l != GUARD_PYTHON && in_function(r, begin)) return false;
    if (is_head(r, begin)) return false; /* the following text belongs to it */
    repair_put(w, repair_part(r->line, 0, begin));
    /* A statement may continue on the next line: ".then()". */
    bool open = end == r->line.len && end > begin && !strchr(";}", r->line.ptr[end - 1]);
    if (!repair_put_statement(w, &left, !open)) return false;
    if (l == GUARD_GO && end > begin && r->line.ptr[end - 1] == ';') repair_put_text(w, ";");
    repair_put(w, repair_part(r->line, end, r->line.len));
    return true;
}

/* ---- the weak expression alone ---- */

/* A call that is open at the line's end: the part of its arguments that continues stays. */
static bool write_call(const repair *r, const repair_depths *d, writing *w)
{
    size_t open = r->from, rest;
    while (open < d->n && (r->line.ptr[open] != '(' || d->at[open].text)) open++;
    if (open >= d->n || repair_after_bracket(d, open) < d->n) return false;
    rest = open + 1;
    for (size_t i = open + 1; i < d->n; i++)
        if (r->line.ptr[i] == ',' && !d->at[i].text && d->at[i].n == d->at[open].n) rest = i + 1;
    repair_put(w, repair_part(r->line, 0, r->from));
    if (!repair_put_expression(w, r, true)) return false;
    repair_put_text(w, "(");
    repair_put(w, repair_part(r->line, repair_skip_blanks(r->line, rest), r->line.len));
    return true;
}

static bool write_expression(const repair *r, const repair_depths *d, writing *w)
{
    view weak = repair_part(r->line, r->from, r->to);
    size_t to = r->to, first = 0;
    repair_brackets b = repair_read_brackets(r->f->language, weak);
    if (b.n) return write_call(r, d, w);
    if (r->f->language == GUARD_RUBY && memmem(weak.ptr, weak.len, " do", 3)) {
        while (first < weak.len && weak.ptr[first] != '(') first++;
        if (first < weak.len) to = repair_after_bracket(d, r->from + first);
    }
    repair_put(w, repair_part(r->line, 0, r->from));
    bool attribute = repair_is_script(r->f->language) && memmem(weak.ptr, weak.len, "={", 2);
    if (attribute) { /* of JSX: the spread value refuses */
        repair_put_text(w, "{...");
        (void)repair_put_expression(w, r, false);
        repair_put_text(w, "}");
        repair_put(w, repair_part(r->line, to, r->line.len));
        return true;
    }
    /* The value of "key: value". */
    const char *colon = memchr(weak.ptr, ':', weak.len);
    bool pair = colon && colon > weak.ptr && colon + 1 < weak.ptr + weak.len && colon[1] == ' ';
    for (const char *c = weak.ptr; pair && c < colon; c++)
        pair = isalnum((unsigned char)*c) || strchr("_'\"$-", *c);
    if (pair) repair_put(w, (view){weak.ptr, (size_t)(colon + 2 - weak.ptr)});
    if (!repair_put_expression(w, r, false)) return false;
    repair_put(w, repair_part(r->line, to, r->line.len));
    return true;
}

/* ---- blocks ---- */

static void put_unit(const repair *r, writing *w)
{
    view indent = repair_part(r->line, 0, r->indent);
    repair_put(w, indent);
    repair_put_text(w, indent.len && memchr(indent.ptr, '\t', indent.len) ? "\t"
                : indent.len % 4 == 2                              ? "  "
                                                                   : "    ");
}

static bool write_header_python(const repair *r, writing *w)
{
    static const char *const loops[] = {"for", "while", "async for"};
    static const char *const blocks[] = {"if", "with", "async with"};
    const char *head = NULL;
    for (size_t i = 0; i < ARRAY_LEN(loops); i++)
        if (repair_word_at(r->line, r->indent, loops[i])) head = "while True:";
    for (size_t i = 0; i < ARRAY_LEN(blocks) && !head; i++)
        if (repair_word_at(r->line, r->indent, blocks[i])) head = "if True:";
    if (head) {
        repair_put(w, repair_part(r->line, 0, r->indent));
        (void)repair_put_statement(w, r, true);
        repair_put_text(w, "\n");
        repair_put(w, repair_part(r->line, 0, r->indent));
        repair_put_text(w, head);
    } else if (repair_word_at(r->line, r->indent, "elif")) {
        repair_put(w, repair_part(r->line, 0, r->indent));
        repair_put_text(w, "elif True:\n");
        put_unit(r, w);
        (void)repair_put_statement(w, r, true);
        return true;
    }
    return head != NULL;
}

/* "} else if (weak) {": a condition that holds, and a block that refuses. */
static bool write_header(const repair *r, writing *w)
{
    static const struct {
        const char *word, *braces, *go;
    } forms[] = {{"if", "if (true) {", "if true {"},
                 {"while", "while (true) {", NULL},
                 {"for", "for (;;) {", "for {"},
                 {"foreach", "for (;;) {", NULL},
                 {"try", "try (AutoCloseable unused = null) {", NULL}};
    bool go = r->f->language == GUARD_GO;
    size_t at = r->indent, end = r->line.len;
    if (r->f->language == GUARD_PYTHON) return write_header_python(r, w);
    if (r->f->language == GUARD_RUBY || r->f->language == GUARD_SHELL) return false;
    while (end && isspace((unsigned char)r->line.ptr[end - 1])) end--;
    bool opens = end && r->line.ptr[end - 1] == '{';
    if (at < end && r->line.ptr[at] == '}') at = repair_skip_blanks(r->line, at + 1);
    if (repair_word_at(r->line, at, "else")) at = repair_skip_blanks(r->line, at + 4);
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        view head = view_of(go ? forms[i].go ? forms[i].go : "" : forms[i].braces);
        if (!repair_word_at(r->line, at, forms[i].word) || !head.len) continue;
        if (!opens) { /* the block is below: refuse before it */
            repair_put(w, repair_part(r->line, 0, at));
            (void)repair_put_statement(w, r, true);
            repair_put_text(w, "\n");
            repair_put(w, repair_part(r->line, 0, r->indent));
            repair_put(w, repair_part(head, 0, head.len - 2));
            return at == r->indent;
        }
        repair_put(w, repair_part(r->line, 0, at));
        repair_put(w, head);
        repair_put_text(w, " ");
        return repair_put_statement(w, r, true);
    }
    return false;
}

/* A function that is weak as a whole refuses: in its body, or before its end. */
static bool write_body(const repair *r, const repair_depths *d, writing *w)
{
    size_t open = r->from, close = r->to, first = repair_skip_blanks(r->line, 0);
    if (r->f->language == GUARD_PYTHON || r->f->language == GUARD_SHELL) return false;
    if (first < r->line.len && strchr("})", r->line.ptr[first])) {
        put_unit(r, w);
        (void)repair_put_statement(w, r, true);
        repair_put_text(w, "\n");
        repair_put(w, r->line);
        return true;
    }
    while (open < d->n && (r->line.ptr[open] != '{' || d->at[open].inner != '{')) open++;
    while (close > open && r->line.ptr[close - 1] != '}') close--;
    if (open >= close || open >= d->n) return false;
    repair whole = *r;
    whole.leaves = true;
    repair_put(w, repair_part(r->line, 0, open + 1));
    repair_put_text(w, " ");
    if (!repair_put_statement(w, &whole, true)) return false;
    repair_put_text(w, " ");
    repair_put(w, repair_part(r->line, close - 1, r->line.len));
    return true;
}

/* ---- text that is not code ---- */

static bool write_value(const repair *r, writing *w)
{
    size_t from = r->from, to = r->to;
    if (r->f->language != GUARD_TEXT && r->f->language != GUARD_SHELL) return false;
    for (size_t i = r->from; i + 1 < r->to; i++) /* NAME=value, "name": "value" */
        if (strchr("=:", r->line.ptr[i]) && r->line.ptr[i + 1] != '/') from = i + 1;
    while (from < to && strchr(" \t'\"`", r->line.ptr[from])) from++;
    while (to > from && strchr(" \t'\"`,;", r->line.ptr[to - 1])) to--;
    if (from >= to) return false;
    repair_put(w, repair_part(r->line, 0, from));
    repair_put_text(w, "WITHHELD");
    repair_put(w, repair_part(r->line, to, r->line.len));
    return true;
}

/* ---- safe forms ---- */

static void put_needs(const repair *r, writing *w, const char *needs)
{
    repair_put(w, repair_part(r->line, 0, r->indent));
    repair_put_text(w, needs);
    repair_put_text(w, "\n");
}

/* The last weak literal, quotes included. */
static bool literal_around(const repair *r, size_t *from, size_t *to)
{
    bool found = false;
    for (size_t at = 0, end; at < r->to; at = end + 1) {
        char quote = r->line.ptr[at];
        end = at;
        if (!strchr("'\"`", quote)) continue;
        for (end = at + 1; end < r->line.len && r->line.ptr[end] != quote;)
            end += r->line.ptr[end] == '\\' ? 2 : 1;
        if (end >= r->line.len) return false;
        if (end < r->from) continue;
        *from = at;
        *to = end + 1;
        found = !at || !isalnum((unsigned char)r->line.ptr[at - 1]); /* f"", b"" are more */
    }
    return found;
}

static bool names_secret(const char *name, size_t n)
{
    static const char *const words[] = {"PASS", "PWD", "SECRET", "TOKEN", "KEY", "CREDENTIAL"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (memmem(name, n, words[i], strlen(words[i]))) return true;
    return false;
}

/* The name before a value, as one of the environment: dbPassword, "db-password":.  An argument has
 * the name of the argument before it, if that names a secret. */
static bool put_name(const repair *r, size_t at, writing *w)
{
    char name[64];
    size_t n = 0, end;
    bool bound = false;
    for (; at && strchr(" \t=:>'\"[](,!", r->line.ptr[at - 1]); at--)
        bound |= strchr("=:", r->line.ptr[at - 1]) != NULL;
    for (end = at; at && (isalnum((unsigned char)r->line.ptr[at - 1]) ||
                          strchr("_-", r->line.ptr[at - 1]));)
        at--;
    for (size_t i = at; i < end && n + 2 < sizeof name; i++) {
        char c = r->line.ptr[i];
        bool word = i > at && isupper((unsigned char)c) &&
                    islower((unsigned char)r->line.ptr[i - 1]);
        if (word) name[n++] = '_';
        name[n++] = c == '-' ? '_' : (char)toupper((unsigned char)c);
    }
    bool fits = n && !isdigit((unsigned char)name[0]) && (bound || names_secret(name, n));
    repair_put(w, fits ? (view){name, n} : VIEW("SECRET"));
    return true;
}

/* A secret comes from the environment. */
static bool write_environment(const repair *r, writing *w)
{
    const char *before, *after = "\")";
    size_t from = 0, to = 0;
    if (strcmp(r->f->weakness, "secret") != 0 || !literal_around(r, &from, &to)) return false;
    switch (r->f->language) {
    case GUARD_PYTHON: before = "os.environ[\"", after = "\"]"; break;
    case GUARD_RUBY: before = "ENV.fetch(\""; break;
    case GUARD_JAVASCRIPT:
    case GUARD_TYPESCRIPT:
    case GUARD_TSX: before = "process.env.", after = ""; break;
    case GUARD_JAVA: before = "System.getenv(\""; break;
    case GUARD_PHP: before = "getenv(\""; break;
    case GUARD_GO: before = "os.Getenv(\""; break;
    case GUARD_C:
    case GUARD_CPP: before = "getenv(\""; break;
    default: return false;
    }
    bool imports = r->f->language == GUARD_GO || r->f->language == GUARD_C ||
                   r->f->language == GUARD_CPP;
    if (!r->f->has_environment && (imports || r->outside)) return false;
    if (!r->f->has_environment && r->f->language == GUARD_PYTHON) put_needs(r, w, "import os");
    repair_put(w, repair_part(r->line, 0, from));
    repair_put_text(w, before);
    if (!put_name(r, from, w)) return false;
    repair_put_text(w, after);
    repair_put(w, repair_part(r->line, to, r->line.len));
    return true;
}

static bool write_fix(const repair *r, writing *w)
{
    if (!*r->f->fix) return write_environment(r, w);
    if (r->f->needs) put_needs(r, w, r->f->needs);
    repair_put(w, repair_part(r->line, 0, r->from));
    repair_put_text(w, r->f->fix);
    repair_put(w, repair_part(r->line, r->to, r->line.len));
    return true;
}

/* ---- bytes of the stream ---- */

static size_t escape_once(const char *in, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const char *found = strchr("\"\\\n\r\t", in[i]);
        char letter = in[i] == '\n' ? 'n' : in[i] == '\r' ? 'r' : in[i] == '\t' ? 't' : in[i];
        if (k + 2 > size) return 0;
        if (found && in[i]) out[k++] = '\\';
        out[k++] = letter;
    }
    return k;
}

static size_t to_stream(const repair *r, const writing *w, char *out, size_t size)
{
    writing lined = {.fits = true}, coded;
    for (size_t i = 0; i < w->n; i++) {
        repair_put(&lined, (view){w->text + i, 1});
        if (w->text[i] != '\n' || i + 1 == w->n) continue;
        repair_put(&lined, (view){r->f->margin, r->f->n_margin});
        if (r->f->added) repair_put(&lined, VIEW("+"));
    }
    for (uint32_t i = 0; i < r->f->escapes && lined.fits; i++) {
        coded.n = escape_once(lined.text, lined.n, coded.text, sizeof coded.text);
        if (!coded.n) return 0;
        lined.n = coded.n;
        memcpy(lined.text, coded.text, coded.n);
    }
    if (!lined.fits || lined.n > size) return 0;
    memcpy(out, lined.text, lined.n);
    return lined.n;
}

static bool write_form(const repair *r, repair_form form, writing *w)
{
    repair_depths d = {.n = 0};
    repair_read_depths(&d, r->f->language, r->line);
    switch (form) {
    case REPAIR_FIX: return write_fix(r, w);
    case REPAIR_BOUND: return repair_write_bound(r, &d, w);
    case REPAIR_STATEMENT: return write_statement(r, &d, w);
    case REPAIR_EXPRESSION: return write_expression(r, &d, w);
    case REPAIR_HEADER: return write_header(r, w);
    case REPAIR_BODY: return write_body(r, &d, w);
    case REPAIR_VALUE: return write_value(r, w);
    case REPAIR_FORMS: break;
    }
    return false;
}

size_t guard_repair(const guard_finding *f, repair_form form, char *out, size_t size)
{
    repair r = {.f = f, .line = f->held, .from = f->from, .to = f->to};
    writing w = {.fits = true};
    if (!f->held.len || f->continues || f->from >= f->to) return 0;
    while (r.line.len && strchr("\r\n", r.line.ptr[r.line.len - 1])) r.line.len--;
    r.newline = repair_part(f->held, r.line.len, f->held.len);
    if (r.to > r.line.len) r.to = r.line.len;
    while (r.indent < r.line.len && strchr(" \t", r.line.ptr[r.indent])) r.indent++;
    bool c = f->language == GUARD_C || f->language == GUARD_CPP;
    r.outside = c && !r.indent && (r.line.ptr[0] == '#' || !memchr(r.line.ptr, '{', r.line.len));
    if (r.from >= r.to || !write_form(&r, form, &w) || !w.fits) return 0;
    repair_brackets was = repair_read_brackets(f->language, r.line);
    repair_brackets is = repair_read_brackets(f->language, (view){w.text, w.n});
    bool refused = form == REPAIR_HEADER && f->language == GUARD_PYTHON && was.opens && !is.opens;
    if (!repair_same_brackets(&was, &is) && !refused) return 0;
    repair_put(&w, r.newline);
    return w.fits ? to_stream(&r, &w, out, size) : 0;
}
