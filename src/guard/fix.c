/* fix.c - the safe form of a weak expression, made of pieces of its line.
 *
 * A rule has a template: text with {0} (an argument's source), {args}, {rest}, {receiver},
 * {callee}, {target} and {value} in it; {bound}: the call with its text's values bound; {program}
 * and {arguments}: the words of a shell's line; {wrapped:f}: the text with f() around its values.
 * If the line does not show enough, there is no form: better none than a wrong one. */
#include <ctype.h>
#include <strings.h>

#include "base/text.h"
#include "guard/judge.h"

enum { FIX_PARTS_MAX = 16 };

typedef struct {
    char text[GUARD_FIX_BYTES];
    size_t n;
    bool fits;
} writing;

static void put(writing *w, view text)
{
    if (text.len >= sizeof w->text - w->n) {
        w->fits = false;
        return;
    }
    if (text.len) memcpy(w->text + w->n, text.ptr, text.len);
    w->n += text.len;
}

static view source_of(const judge *j, int32_t n)
{
    return n < 0 ? (view){NULL, 0} : tree_text(&j->tree, n);
}

/* ---- values out of text ---- */

typedef struct {
    view literal, value; /* one of them */
} part;

typedef struct {
    part list[FIX_PARTS_MAX];
    uint32_t n;
    bool fits;
} parts;

static void add_part(parts *p, part one)
{
    if (p->n < FIX_PARTS_MAX) p->list[p->n++] = one;
    else p->fits = false;
}

/* A literal, and the values in it: f"a{b}c", `a${b}c`, "a#{b}c". */
static void split_string(const judge *j, int32_t n, parts *p)
{
    view inner = judge_string(j, n);
    const char *at = inner.ptr, *end = inner.ptr + inner.len;
    for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
        const node *part_ = &j->tree.list[c];
        if (part_->role == NODE_TEXT || part_->role == NODE_SKIP) continue;
        view whole = tree_text(&j->tree, c);
        if (whole.ptr < at || whole.ptr + whole.len > end || part_->child < 0) {
            p->fits = false;
            return;
        }
        view inside = tree_text(&j->tree, part_->child);
        bool plain = inside.len + 3 >= whole.len; /* {x:>10} and {x!r} are more */
        add_part(p, (part){.literal = {at, (size_t)(whole.ptr - at)}});
        add_part(p, (part){.value = inside});
        p->fits &= plain;
        at = whole.ptr + whole.len;
    }
    add_part(p, (part){.literal = {at, (size_t)(end - at)}});
}

/* "... %s ..." % x, or % (x, y) */
static void split_percent(const judge *j, int32_t left, int32_t right, parts *p)
{
    view text = judge_string(j, left);
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool list = j->tree.list[right].role == NODE_LIST;
    int32_t next = list ? j->tree.list[right].child : right;
    if (j->tree.list[right].role == NODE_DICT) p->fits = false;
    for (const char *c = at; p->fits && c + 1 < end; c++) {
        if (*c != '%') continue;
        if (next < 0 || !strchr("sd", c[1])) {
            p->fits = false;
            return;
        }
        add_part(p, (part){.literal = {at, (size_t)(c - at)}});
        add_part(p, (part){.value = tree_text(&j->tree, next)});
        next = list ? j->tree.list[next].next : -1;
        at = c + 2;
        c++;
    }
    add_part(p, (part){.literal = {at, (size_t)(end - at)}});
}

static void split(const judge *j, int32_t n, parts *p, unsigned depth)
{
    const node *at = &j->tree.list[n];
    if (depth > FIX_PARTS_MAX) {
        p->fits = false;
        return;
    }
    if (at->role == NODE_STRING) {
        split_string(j, n, p);
    } else if (at->role == NODE_OTHER && at->child >= 0 && j->tree.list[at->child].next < 0) {
        split(j, at->child, p, depth + 1); /* brackets */
    } else if (at->role == NODE_BINARY && at->child >= 0 && j->tree.list[at->child].next >= 0) {
        int32_t left = at->child, right = j->tree.list[left].next;
        if (at->op == OP_PLUS || at->op == OP_DOT) {
            split(j, left, p, depth + 1);
            split(j, right, p, depth + 1);
        } else if (at->op == OP_PERCENT && j->tree.list[left].role == NODE_STRING) {
            split_percent(j, left, right, p);
        } else p->fits = false;
    } else add_part(p, (part){.value = tree_text(&j->tree, n)});
}

static view trim_end(view text) { return view_trim_end(text, TEXT_SPACE); }

static bool ends_in(view text, const char *word)
{
    size_t n = strlen(word);
    return text.len > n && !strncasecmp(text.ptr + text.len - n, word, n);
}

/* May a bound value follow this text: "... = ", "... VALUES ("?  A table's name may not. */
static bool wants_value(view before)
{
    before = trim_end(before);
    if (!before.len || ends_in(before, " in (")) return false; /* a list needs a mark for each */
    return strchr("=<>(,", before.ptr[before.len - 1]) || ends_in(before, " like") ||
           ends_in(before, " limit") || ends_in(before, " offset") || ends_in(before, " between");
}

/* Remove quotes around a value: they would make the mark part of a text. */
static bool strip_quotes(parts *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        if (!p->list[i].value.len) continue;
        if (!i || p->list[i - 1].value.len) return false; /* two values side by side */
        if (i + 1 < p->n && p->list[i + 1].value.len) return false;
        view *before = &p->list[i - 1].literal;
        view *after = i + 1 < p->n ? &p->list[i + 1].literal : NULL;
        bool opens = before->len && strchr("'\"", before->ptr[before->len - 1]);
        bool closes = after && after->len && strchr("'\"", after->ptr[0]);
        if (opens != closes) return false; /* LIKE '%x%' */
        if (opens) {
            before->len--;
            after->ptr++;
            after->len--;
        }
        if (!wants_value(*before)) return false;
    }
    return true;
}

static bool seen(const judge *j, const char *word)
{
    return memmem(j->tree.text.ptr, j->tree.text.len, word, strlen(word)) != NULL;
}

static void put_mark(const judge *j, writing *w, uint32_t number)
{
    char mark[16];
    bool dollars = false, percent = false;
    switch (j->tree.language) {
    case GUARD_PYTHON:
        dollars = seen(j, "asyncpg");
        percent = !dollars && !seen(j, "sqlite3") && !seen(j, "duckdb");
        break;
    case GUARD_JAVASCRIPT:
    case GUARD_TYPESCRIPT:
    case GUARD_TSX: dollars = seen(j, "'pg'") || seen(j, "\"pg\"") || seen(j, "pool."); break;
    case GUARD_GO: dollars = seen(j, "lib/pq") || seen(j, "pgx"); break;
    default: break;
    }
    snprintf(mark, sizeof mark, "$%u", number);
    put(w, dollars ? view_of(mark) : percent ? VIEW("%s") : VIEW("?"));
}

/* Drivers whose calls take text with marks, then the values. */
static bool takes_values(const judge *j, view name)
{
    static const char *const scripts[] = {"query", "execute", "all", "get", "run", "each", "raw"};
    static const char *const go[] = {"Query", "QueryRow", "Exec", "Raw", "Where", "Get", "Select"};
    static const char *const python[] = {"execute", "fetch", "fetchrow", "fetchval"};
    static const char *const ruby[] = {"where", "having"};
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    view last = dot ? (view){dot + 1, name.len - (size_t)(dot + 1 - name.ptr)} : name;
    const char *const *list = scripts;
    size_t n = ARRAY_LEN(scripts);
    switch (j->tree.language) {
    case GUARD_PYTHON:
        list = python;
        n = seen(j, "asyncpg") ? ARRAY_LEN(python) : 1;
        break;
    case GUARD_GO: list = go, n = ARRAY_LEN(go); break;
    case GUARD_RUBY: list = ruby, n = ARRAY_LEN(ruby); break;
    default:
        if (seen(j, "equelize") || seen(j, "typeorm")) return false;
        break;
    }
    return view_is_one_of(last, list, n);
}

/* The called function as written: with the calls before it, which its name omits. */
static view callee_of(const judge *j, const use *u)
{
    const char *begin = j->tree.text.ptr + j->tree.list[u->node].begin;
    if (!u->n_args || !u->callee.raw.len) return u->callee.raw;
    view text = {begin, (size_t)(source_of(j, u->args[0].node).ptr - begin)};
    text = trim_end(text);
    if (u->args[0].name.len || !text.len || text.ptr[text.len - 1] != '(') return u->callee.raw;
    return (view){text.ptr, text.len - 1};
}

static bool put_bound(const judge *j, const use *u, writing *w)
{
    parts p = {.fits = true};
    uint32_t n = 0;
    bool python = j->tree.language == GUARD_PYTHON && !seen(j, "asyncpg");
    bool list = j->tree.language == GUARD_JAVASCRIPT || j->tree.language == GUARD_TYPESCRIPT ||
                j->tree.language == GUARD_TSX;
    if (u->n_args != 1 || !takes_values(j, u->callee.raw)) return false;
    split(j, u->args[0].node, &p, 0);
    if (!p.fits || !strip_quotes(&p)) return false;
    put(w, callee_of(j, u));
    put(w, VIEW("(\""));
    for (uint32_t i = 0; i < p.n; i++) {
        view text = p.list[i].literal;
        if (p.list[i].value.len) put_mark(j, w, ++n);
        else if (text.len && (memchr(text.ptr, '"', text.len) || memchr(text.ptr, '\n', text.len)))
            return false;
        else put(w, text);
    }
    put(w, python ? VIEW("\", (") : list ? VIEW("\", [") : VIEW("\", "));
    for (uint32_t i = 0, k = 0; i < p.n; i++) {
        if (!p.list[i].value.len) continue;
        if (k++) put(w, VIEW(", "));
        put(w, p.list[i].value);
    }
    put(w, python ? (n == 1 ? VIEW(",))") : VIEW("))")) : list ? VIEW("])") : VIEW(")"));
    return n > 0;
}

/* ---- a shell's line in words ---- */

enum { WORD_PARTS_MAX = 4, WORDS_MAX = 24 };

typedef struct {
    part list[WORD_PARTS_MAX];
    uint32_t n;
} shell_word;

static bool is_plain_literal(view text)
{
    for (size_t i = 0; i < text.len; i++)
        if (strchr("|&;<>()$`\\\"'*?[]#~!{}\n%", text.ptr[i])) return false;
    return true;
}

/* Remove the shell's quotes around a value. */
static void unquote(parts *p)
{
    for (uint32_t i = 1; i + 1 < p->n; i++) {
        view *before = &p->list[i - 1].literal, *after = &p->list[i + 1].literal;
        if (!p->list[i].value.len || !before->len || !after->len) continue;
        if (before->ptr[before->len - 1] != '\'' || after->ptr[0] != '\'') continue;
        before->len--;
        after->ptr++;
        after->len--;
    }
}

static bool add_to_word(shell_word *w, part one)
{
    if (w->n == WORD_PARTS_MAX) return false;
    w->list[w->n++] = one;
    return true;
}

/* Returns the number of words; 0: a shell would do more than split it. */
static uint32_t split_words(const judge *j, int32_t n, shell_word *words)
{
    parts p = {.fits = true};
    uint32_t k = 0;
    bool open = false;
    split(j, n, &p, 0);
    unquote(&p);
    for (uint32_t i = 0; i < p.n && p.fits; i++) {
        view text = p.list[i].literal;
        if (!is_plain_literal(text)) return 0;
        for (size_t at = 0, to; at < text.len || p.list[i].value.len; at = to) {
            for (to = at; to < text.len && text.ptr[to] == ' ';) to++;
            open &= to == at;
            if (to == text.len && !p.list[i].value.len) break;
            if (!open && k == WORDS_MAX) return 0;
            if (!open) words[k++].n = 0;
            open = true;
            part one = p.list[i];
            for (at = to; to < text.len && text.ptr[to] != ' ';) to++;
            if (!one.value.len) one.literal = (view){text.ptr + at, to - at};
            if (!add_to_word(&words[k - 1], one)) return 0;
            if (one.value.len) break;
        }
    }
    return p.fits && k > 1 && words[0].n == 1 && words[0].list[0].literal.len ? k : 0;
}

static bool is_simple(view text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!isalnum((unsigned char)text.ptr[i]) && !strchr("_.$@", text.ptr[i])) return false;
    return true;
}

/* A word of text and values, as one string of the language. */
static bool put_joined(const judge *j, writing *w, const shell_word *one)
{
    guard_language l = j->tree.language;
    bool plus = l == GUARD_GO || l == GUARD_JAVA;
    const char *open = l == GUARD_PYTHON ? "f\"" : l == GUARD_RUBY ? "\"" : "`";
    const char *brace = l == GUARD_PYTHON ? "{" : l == GUARD_RUBY ? "#{" : "${";
    put(w, plus ? VIEW("") : view_of(open));
    for (uint32_t i = 0; i < one->n; i++) {
        view text = one->list[i].value.len ? one->list[i].value : one->list[i].literal;
        bool is_value = one->list[i].value.len != 0;
        if (is_value && !is_simple(text)) return false;
        if (plus && i) put(w, VIEW(" + "));
        put(w, is_value ? (plus ? VIEW("") : view_of(brace)) : plus ? VIEW("\"") : VIEW(""));
        put(w, text);
        put(w, is_value ? (plus ? VIEW("") : VIEW("}")) : plus ? VIEW("\"") : VIEW(""));
    }
    put(w, plus ? VIEW("") : l == GUARD_PYTHON || l == GUARD_RUBY ? VIEW("\"") : VIEW("`"));
    return true;
}

static bool put_word(const judge *j, writing *w, const shell_word *one)
{
    view text = one->list[0].value.len ? one->list[0].value : one->list[0].literal;
    if (one->n > 1) return put_joined(j, w, one);
    if (!one->list[0].value.len) put(w, VIEW("\""));
    put(w, text);
    if (!one->list[0].value.len) put(w, VIEW("\""));
    return true;
}

/* The text is the last argument if the first are "sh", "-c", else the first argument. */
static bool put_words(const judge *j, const use *u, writing *w, bool program)
{
    shell_word words[WORDS_MAX];
    bool last = j->tree.language == GUARD_GO;
    if (!u->n_args || u->args[last ? u->n_args - 1 : 0].name.len) return false;
    uint32_t n = split_words(j, u->args[last ? u->n_args - 1 : 0].node, words);
    if (!n) return false;
    if (program) return put_word(j, w, &words[0]);
    for (uint32_t i = 1; i < n; i++) {
        if (i > 1) put(w, VIEW(", "));
        if (!put_word(j, w, &words[i])) return false;
    }
    return true;
}

/* f() around each value of the text in the first argument. */
static bool put_wrapped(const judge *j, const use *u, writing *w, view f)
{
    parts p = {.fits = true};
    uint32_t n = 0;
    view join = j->tree.language == GUARD_PHP ? VIEW(" . ") : VIEW(" + ");
    if (!u->n_args || u->args[0].name.len) return false;
    split(j, u->args[0].node, &p, 0);
    unquote(&p);
    for (uint32_t i = 0; i < p.n && p.fits; i++) {
        bool wraps = p.list[i].value.len != 0;
        view text = wraps ? p.list[i].value : p.list[i].literal;
        if (!text.len) continue;
        if (!wraps && (memchr(text.ptr, '"', text.len) || memchr(text.ptr, '$', text.len)))
            return false;
        if (n++) put(w, join);
        put(w, wraps ? f : VIEW("\""));
        if (wraps) put(w, VIEW("("));
        put(w, text);
        put(w, wraps ? VIEW(")") : VIEW("\""));
    }
    return p.fits && n > 1;
}

/* ---- conditions ---- */

/* Is the first argument an array that the window declares: "char b[9]"? */
static bool is_array(const judge *j, const use *u)
{
    char declared[80];
    view name = u->n_args ? source_of(j, u->args[0].node) : (view){NULL, 0};
    if (!name.len || name.len > 60 || !is_simple(name)) return false;
    int n = snprintf(declared, sizeof declared, "char %.*s[", (int)name.len, name.ptr);
    return memmem(j->tree.text.ptr, j->tree.text.len, declared, (size_t)n) != NULL;
}

static bool has_text(const judge *j, const use *u)
{
    view text = u->n_args ? source_of(j, u->args[0].node) : (view){NULL, 0};
    for (size_t i = 0; i < text.len; i++)
        if (strchr("'\"`", text.ptr[i])) return true;
    return false;
}

/* {!2}: two arguments; {?crypto.}, {~exec}: a name that begins, ends so; {+require(}: the window
 * has it; {[}: the first argument is an array; {"}: it has no text in it.  1: it holds, 0: not,
 * -1: it is not a condition. */
static int condition(const judge *j, const use *u, view name)
{
    uint64_t number;
    view rest = {name.ptr + 1, name.len - 1};
    switch (name.ptr[0]) {
    case '!': return parse_u64(rest, &number) && number == u->n_args;
    case '?': return view_starts(u->callee.raw, rest);
    case '~': return view_ends_with(u->callee.raw, rest);
    case '+': return memmem(j->tree.text.ptr, j->tree.text.len, rest.ptr, rest.len) != NULL;
    case '[': return is_array(j, u);
    case '"': return !has_text(j, u);
    default: return -1;
    }
}

/* ---- forms ---- */

/* Keyword arguments, except the one that requests a shell. */
static bool put_keywords(const judge *j, const use *u, writing *w)
{
    for (uint32_t i = 0; i < u->n_args; i++) {
        if (!u->args[i].name.len || view_equal(u->args[i].name, VIEW("shell"))) continue;
        put(w, VIEW(", "));
        put(w, u->args[i].name);
        put(w, VIEW("="));
        put(w, source_of(j, u->args[i].node));
    }
    return true;
}


static bool put_arguments(const judge *j, const use *u, writing *w, uint32_t from)
{
    for (uint32_t i = from; i < u->n_args; i++) {
        if (i > from) put(w, VIEW(", "));
        if (u->args[i].name.len) return false;
        put(w, source_of(j, u->args[i].node));
    }
    return u->n_args >= from;
}

static bool put_piece(const judge *j, const use *u, writing *w, view name)
{
    uint64_t number;
    int holds = condition(j, u, name);
    if (holds >= 0) return holds;
    if (view_equal(name, VIEW("bound"))) return put_bound(j, u, w);
    if (view_equal(name, VIEW("program"))) return put_words(j, u, w, true);
    if (view_equal(name, VIEW("arguments"))) return put_words(j, u, w, false);
    if (view_equal(name, VIEW("keywords"))) return put_keywords(j, u, w);
    if (view_starts(name, VIEW("wrapped:")))
        return put_wrapped(j, u, w, (view){name.ptr + 8, name.len - 8});
    if (view_equal(name, VIEW("args"))) return put_arguments(j, u, w, 0);
    if (view_equal(name, VIEW("rest"))) return put_arguments(j, u, w, 1);
    if (view_equal(name, VIEW("callee")) || view_equal(name, VIEW("target"))) {
        put(w, callee_of(j, u));
        return u->callee.raw.len != 0;
    }
    if (view_equal(name, VIEW("key"))) { /* of a pair, and the text between it and its value */
        const node *pair = &j->tree.list[u->node];
        if (!u->n_args || j->tree.list[u->args[0].node].begin <= pair->begin) return false;
        put(w, (view){j->tree.text.ptr + pair->begin,
                      j->tree.list[u->args[0].node].begin - pair->begin});
        return true;
    }
    if (view_equal(name, VIEW("receiver"))) {
        put(w, source_of(j, u->receiver_node));
        return u->receiver_node >= 0;
    }
    if (view_equal(name, VIEW("value"))) number = 0;
    else if (!parse_u64(name, &number)) return false;
    if (number >= u->n_args || u->args[number].name.len) return false;
    put(w, source_of(j, u->args[number].node));
    return true;
}

static bool write_fix(const judge *j, const use *u, view form, writing *w)
{
    *w = (writing){.fits = true};
    while (form.len) {
        const char *open = memchr(form.ptr, '{', form.len), *close = NULL;
        if (open) close = memchr(open, '}', (size_t)(form.ptr + form.len - open));
        size_t plain = close ? (size_t)(open - form.ptr) : form.len;
        put(w, (view){form.ptr, plain});
        if (!close) break;
        view name = {open + 1, (size_t)(close - open - 1)};
        bool piece = name.len && !memchr(name.ptr, ' ', name.len) &&
                     (isalnum((unsigned char)name.ptr[0]) || strchr("!?~+[\"", *name.ptr));
        if (!piece) put(w, (view){open, name.len + 2}); /* {} of the language */
        else if (!put_piece(j, u, w, name)) return false;
        size_t used = (size_t)(close + 1 - form.ptr);
        form.ptr += used;
        form.len -= used;
    }
    return w->fits;
}

view fix_of(judge *j, const rule *r, const use *u)
{
    writing w;
    for (uint32_t i = 0; i < r->n_fixes; i++) {
        if (!write_fix(j, u, r->fixes[i], &w)) continue;
        char *out = arena_take(&j->names, w.n + 1, 1);
        if (!out) return (view){NULL, 0};
        memcpy(out, w.text, w.n);
        return (view){out, w.n};
    }
    return (view){NULL, 0};
}
