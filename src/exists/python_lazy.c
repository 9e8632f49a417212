/* python_lazy.c - a module's __getattr__ (PEP 562), read: most accept names that are in the file,
 * and raise for all others.
 *
 * A body is understood if its statements, at its own depth, only test the name against constants
 * (or the items of a literal), look it up in such a literal, import, warn, or raise.  Any other use
 * of the name, and a try, make the module open. */
#include "exists/python.h"

typedef struct {
    const code_file *s;
    uint32_t module, begin, end; /* tokens of the body */
    view name;                   /* of the parameter */
    uint16_t indent;             /* of its statements */
    bool odd;                    /* something was not understood */
    bool narrowed;               /* from here on the name is one of the tested ones */
} lazy;

static bool is_name(const lazy *z, uint32_t i)
{
    return code_kind(z->s, i, TOKEN_NAME) && view_equal(code_word(z->s, i), z->name);
}

static void add(const lazy *z, uint32_t i)
{
    names_add(z->s->b, z->module, code_word(z->s, i), NAME_VALUE, 0);
}

/* Strings between the bracket at i and its end: of a dict the keys. */
static void add_literal(const lazy *z, uint32_t i)
{
    const code_file *s = z->s;
    uint32_t stop = code_after(s, i, s->n), depth = 0;
    for (uint32_t k = i; k < stop; k++) {
        const code_token *t = &s->t[k];
        if (t->kind == TOKEN_SIGN && token_opens(t->sign)) depth++;
        if (t->kind == TOKEN_SIGN && token_closes(t->sign)) depth--;
        bool value = k && token_sign(&s->t[k - 1], ':');
        if (t->kind == TOKEN_STRING && depth == 1 && !value) add(z, k);
    }
}

/* The literal that a name of the module holds: its bracket; 0: unknown. */
static uint32_t literal_of(const lazy *z, view name)
{
    const code_file *s = z->s;
    for (uint32_t i = 0; i + 3 < s->n; i++) {
        const code_token *t = &s->t[i];
        if (!t->first || !view_equal(token_text(s->text, t), name)) continue;
        uint32_t k = i + 1;
        if (code_sign(s, k, ':'))
            while (k < s->n && s->t[k].kind != TOKEN_LINE && !code_sign(s, k, '=')) k++;
        if (!code_sign(s, k, '=')) continue;
        bool wrapped = code_is(s, k + 1, "frozenset") || code_is(s, k + 1, "set") ||
                       code_is(s, k + 1, "dict");
        if (wrapped) k += 2;
        if (k + 1 < s->n && s->t[k + 1].kind == TOKEN_SIGN && token_opens(s->t[k + 1].sign))
            return k + 1;
    }
    return 0;
}

/* Does the statement after the head that ends at `colon` raise? */
static bool then_raises(const lazy *z, uint32_t colon)
{
    uint32_t i = colon + 1;
    while (i < z->end && z->s->t[i].kind == TOKEN_LINE) i++;
    return code_is(z->s, i, "raise");
}

/* NAME in LITERAL, NAME not in LITERAL; the place after it, 0: not understood. */
static uint32_t read_test(lazy *z, uint32_t i, bool raises)
{
    const code_file *s = z->s;
    bool negated = code_is(s, i, "not");
    i += negated + 1u;
    uint32_t at = 0;
    bool local = code_kind(s, i, TOKEN_NAME);
    if (local) at = literal_of(z, code_word(s, i));
    else if (i < s->n && s->t[i].kind == TOKEN_SIGN && token_opens(s->t[i].sign)) at = i;
    if (code_is(s, i, "__all__")) return i + 1; /* its items are known */
    if (!at && !(raises && !negated)) return 0;
    if (at && (negated || !raises)) add_literal(z, at);
    if (negated && raises) z->narrowed = true;
    return local ? i + 1 : code_after(s, i, s->n);
}

/* One use of the name at i; false: it is not understood. */
static bool read_use(lazy *z, uint32_t i, bool raises, bool *tests)
{
    const code_file *s = z->s;
    if (code_sign(s, i + 1, SIGN_COMPARE)) {
        if (!code_kind(s, i + 2, TOKEN_STRING)) return false;
        if (!raises) add(z, i + 2);
        return *tests = true;
    }
    if (i > 1 && code_sign(s, i - 1, SIGN_COMPARE) && code_kind(s, i - 2, TOKEN_STRING)) {
        if (!raises) add(z, i - 2);
        return *tests = true;
    }
    if (code_is(s, i + 1, "in") || (code_is(s, i + 1, "not") && code_is(s, i + 2, "in"))) {
        *tests = true;
        return read_test(z, i + 1, raises) != 0;
    }
    bool index = i > 1 && code_sign(s, i - 1, '[') && code_kind(s, i - 2, TOKEN_NAME);
    bool get = i > 3 && code_sign(s, i - 1, '(') && code_is(s, i - 2, "get");
    uint32_t at = index ? literal_of(z, code_word(s, i - 2))
                  : get ? literal_of(z, code_word(s, i - 4))
                        : 0;
    if (at) add_literal(z, at);
    return at != 0;
}

/* Uses of the name in [i, end), at the body's own depth. */
static void read_uses(lazy *z, uint32_t i, uint32_t end, bool raises, bool *tests)
{
    for (; i < end; i++)
        if (is_name(z, i) && !z->narrowed) z->odd |= !read_use(z, i, raises, tests);
}

static void read_body(lazy *z)
{
    const code_file *s = z->s;
    bool tests = false;
    for (uint32_t i = z->begin; i < z->end;) {
        uint32_t stop = i, depth = 0, colon = 0;
        for (; stop < z->end && s->t[stop].kind != TOKEN_LINE; stop++) {
            if (s->t[stop].kind != TOKEN_SIGN) continue;
            if (token_opens(s->t[stop].sign)) depth++;
            if (token_closes(s->t[stop].sign) && depth) depth--;
            if (!depth && s->t[stop].sign == ':' && !colon) colon = stop;
        }
        bool own = s->t[i].first && s->t[i].indent == z->indent;
        bool branch = code_is(s, i, "if") || code_is(s, i, "elif");
        z->odd |= code_is(s, i, "try") || code_is(s, i, "for") || code_is(s, i, "while") ||
                  (own && code_is(s, i, "else") && !tests) || (own && branch && !colon);
        if (own && branch) {
            bool tested = false;
            read_uses(z, i, colon, colon && then_raises(z, colon), &tested);
            tests = tested;
        } else if (own && !code_is(s, i, "raise") && !code_is(s, i, "import") &&
                   !code_is(s, i, "from")) {
            bool tested = false;
            read_uses(z, i, stop, false, &tested);
        } else if (!own && !tests && !z->narrowed && !code_is(s, i, "raise")) {
            bool tested = false;
            read_uses(z, i, stop, false, &tested);
        }
        i = stop + 1;
    }
}

bool python_lazy(const code_file *s, uint32_t module, uint32_t i, uint32_t end)
{
    uint32_t first = i;
    lazy z = {.s = s, .module = module, .begin = end + 1};
    if (!code_sign(s, i + 1, '(') || !code_kind(s, i + 2, TOKEN_NAME)) return false;
    z.name = code_word(s, i + 2);
    while (first && !s->t[first].first) first--;
    while (z.begin < s->n && s->t[z.begin].kind == TOKEN_LINE) z.begin++;
    if (z.begin >= s->n || !s->t[z.begin].first) return false;
    z.indent = s->t[z.begin].indent;
    for (z.end = z.begin; z.end < s->n; z.end++)
        if (s->t[z.end].first && s->t[z.end].indent <= s->t[first].indent &&
            s->t[z.end].kind != TOKEN_LINE)
            break;
    read_body(&z);
    return !z.odd;
}
