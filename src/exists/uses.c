/* uses.c - names bound by lines, and chains of names after them. */
#include "exists/uses.h"

#include "base/hash.h"
#include "base/text.h"

uint32_t uses_after(const uses_call *c, uint32_t i)
{
    return i < c->n && c->t[i].turn > 0 ? c->t[i].after : c->n;
}

/* After the token at i, or what its bracket holds. */
static uint32_t after_part(const uses_call *c, uint32_t i)
{
    return c->t[i].turn > 0 ? c->t[i].after : i + 1;
}

/* ---- the values of names ---- */

static uint64_t name_hash(view name) { return hash_bytes(name.ptr, name.len, 1); }

/* The bit of a name in uses_state.seen: cheap, for most names are not bound. */
static uint64_t name_bit(view name) { return UINT64_C(1) << (name.len ? token_sketch(name) : 0); }

static uses_bound *find_bound(uses_state *s, view name)
{
    if (!(s->seen & name_bit(name))) return NULL;
    uint64_t hash = name_hash(name);
    for (uint32_t i = 0; i < s->n_bound; i++)
        if (s->bound[i].hash == hash) return &s->bound[i];
    return NULL;
}

void uses_bind(uses_call *c, view name, name_kind kind, uint32_t target)
{
    uses_state *s = c->s;
    uses_bound *b = find_bound(s, name);
    bool same = b && b->kind == (uint8_t)kind && b->target == target;
    if (b && !same && c->indent > 0 && b->hidden == INT32_MAX) { /* only here */
        uses_hide(c, name, c->indent - 1);
        return;
    }
    if (!b && s->n_bound == USES_BOUND_MAX) return;
    if (!b) b = &s->bound[s->n_bound++];
    *b = (uses_bound){name_hash(name), target, (uint8_t)kind, INT32_MAX};
    s->seen |= name_bit(name);
}

void uses_hide(uses_call *c, view name, int32_t until)
{
    uses_bound *b = find_bound(c->s, name);
    if (!b) return;
    if (until == INT32_MIN) *b = c->s->bound[--c->s->n_bound];
    else if (b->hidden == INT32_MAX || until < b->hidden) b->hidden = until;
}

void uses_show(uses_call *c)
{
    for (uint32_t i = 0; i < c->s->n_bound; i++) {
        uses_bound *b = &c->s->bound[i];
        if (b->hidden != INT32_MAX && c->indent <= b->hidden) b->hidden = INT32_MAX;
    }
}

const uses_bound *uses_bound_of(const uses_call *c, view name)
{
    uses_bound *b = c->s->n_bound ? find_bound(c->s, name) : NULL;
    if (!b) return NULL;
    if (b->hidden != INT32_MAX && c->indent <= b->hidden) b->hidden = INT32_MAX;
    return b->hidden == INT32_MAX ? b : NULL;
}

static uint64_t patch_hash(uint32_t scope, view name)
{
    return hash_bytes(name.ptr, name.len, (uint64_t)scope + 2);
}

void uses_patch(uses_call *c, uint32_t scope, view name)
{
    uses_state *s = c->s;
    s->patched[s->n_patched++ % USES_PATCHED_MAX] = patch_hash(scope, name);
}

static bool is_patched(const uses_state *s, uint32_t scope, view name)
{
    uint32_t n = s->n_patched < USES_PATCHED_MAX ? s->n_patched : USES_PATCHED_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (s->patched[i] == patch_hash(scope, name)) return true;
    return false;
}

void uses_note_test(uses_call *c, uint32_t i)
{
    c->s->tests |= UINT64_C(1) << (c->t[i].sketch & 63);
    uses_patch(c, NAMES_NONE, uses_word(c, i));
}

bool uses_is_test(const uses_call *c, uint32_t i)
{
    uint8_t sketch = c->t[i].sketch;
    if (!(c->s->tests >> (sketch & 63) & 1) || sketch == TOKEN_NO_NAME) return false;
    return is_patched(c->s, NAMES_NONE, uses_word(c, i));
}

/* ---- looking up ---- */

index_answer uses_find(const uses_call *c, uint32_t scope, view name, index_name *out)
{
    char path[NAMES_WORD_MAX];
    uint32_t module;
    index_answer a = index_find(c->x, scope, name, out);
    if (a == INDEX_THERE || c->letter != 'p') return a;
    view label = index_label(c->x, scope);
    if (!(index_flags(c->x, scope) & SCOPE_PACKAGE)) return a;
    size_t n = label.len + 1 + name.len;
    if (n >= sizeof path) return INDEX_UNKNOWN;
    memcpy(path, label.ptr, label.len);
    path[label.len] = '.';
    memcpy(path + label.len + 1, name.ptr, name.len);
    if (index_module(c->x, 'p', (view){path, n}, &module) != INDEX_THERE) return a;
    *out = (index_name){NAME_SCOPE, module};
    return INDEX_THERE;
}

bool uses_is_declared(const uses_call *c, view package)
{
    char name[256];
    size_t n = 2;
    index_name found;
    if (package.len + 3 > sizeof name) return false;
    name[0] = 'd';
    name[1] = c->letter;
    for (size_t i = 0; i < package.len; i++) {
        char ch = package.ptr[i];
        if (c->letter == 'p') ch = strchr("-_.", ch) ? '-' : ch >= 'A' && ch <= 'Z' ? ch + 32 : ch;
        name[n++] = ch;
    }
    return index_find(c->x, 0, (view){name, n}, &found) == INDEX_THERE;
}

/* ---- findings ---- */

/* "a.b", "a/b", "f(key)"; false: too long. */
static bool write_name(exists_finding *f, view before, view word)
{
    bool call = f->kind == EXISTS_KEYWORD;
    bool slash = f->kind == EXISTS_IMPORT && (f->letter == 'j' || f->letter == 'g');
    if (before.len + word.len + 3 > sizeof f->name) return false;
    char *p = f->name;
    if (before.len) memcpy(p, before.ptr, before.len);
    p += before.len;
    if (call || before.len) *p++ = call ? '(' : slash ? '/' : '.';
    memcpy(p, word.ptr, word.len);
    p += word.len;
    if (call) *p++ = ')';
    *p = '\0';
    f->word = (uint16_t)(before.len ? before.len + 1 : 0);
    return true;
}

/* A comment says that a type checker misses the name, too. */
static bool is_expected(const uses_call *c)
{
    return c->letter == 'p' && (view_has(c->text, "type: ignore[attr-defined") ||
                                view_has(c->text, "type: ignore[import"));
}

void uses_report(uses_call *c, exists_kind kind, uint32_t scope, uint32_t i, uint32_t last,
                  view before, view word)
{
    if (c->guards || c->mute || is_expected(c)) return;
    exists_finding f = {.kind = (uint8_t)kind, .letter = c->letter, .scope = scope,
                        .line = c->s->text_line + c->t[i].line + 1, .begin = c->t[i].begin,
                        .end = c->t[last].end};
    if (!write_name(&f, before, word)) return;
    uses_state *s = c->s;
    if (c->try_indent >= 0) { /* its handler may expect the error */
        if (s->n_pending < USES_PENDING_MAX)
            s->pending[s->n_pending++] = (uses_pending){f, c->try_indent};
        return;
    }
    if (c->n_out < USES_FINDINGS_MAX) c->out[c->n_out++] = f;
}

/* ---- chains ---- */

static bool is_dunder(view name)
{
    return name.len > 4 && !memcmp(name.ptr, "__", 2) && !memcmp(name.ptr + name.len - 2, "__", 2);
}

/* Members of every function and object of a script. */
static bool is_everywhere(const uses_call *c, view name)
{
    static const char *const words[] = {
        "prototype", "name", "length", "call", "apply", "bind", "toString", "constructor",
        "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "valueOf",
        "default", "arguments", "caller"};
    if (c->letter == 'g') return false;
    if (c->letter == 'p')
        return is_dunder(name) || view_equal(name, VIEW("mro")) ||
               view_equal(name, VIEW("register")); /* of abstract classes */
    if (is_dunder(name)) return true;
    if (view_is_one_of(name, words, ARRAY_LEN(words))) return true;
    return name.len > 1 && name.ptr[0] == '_' && name.ptr[1] == '_';
}

/* Types without a declaration are unknown. */
static bool may_be_type(const uses_call *c, uint32_t scope, view name)
{
    bool typed = c->language == GUARD_TYPESCRIPT || c->language == GUARD_TSX;
    return typed && name_is_upper(name) && !(index_flags(c->x, scope) & SCOPE_TYPES);
}

/* Keywords of the call whose bracket is at i. */
static void check_keywords(uses_call *c, uint32_t i, uint32_t call, view label)
{
    uint32_t stop = uses_after(c, i), depth = 0;
    if (index_flags(c->x, call) & SCOPE_OPEN) return;
    for (uint32_t k = i; k < stop; k++) {
        const code_token *t = &c->t[k];
        depth += (uint32_t)t->turn;
        if (uses_is(c, k, "lambda")) /* its parameters are no keywords */
            while (k + 1 < stop && !uses_sign(c, k + 1, ':')) k = after_part(c, k + 1) - 1;
        bool begins = depth == 1 && t->kind == TOKEN_NAME && uses_sign(c, k + 1, '=') &&
                      (uses_sign(c, k - 1, '(') || uses_sign(c, k - 1, ','));
        index_name found;
        if (begins && index_find(c->x, call, uses_word(c, k), &found) == INDEX_NOT)
            uses_report(c, EXISTS_KEYWORD, call, k, k, label, uses_word(c, k));
    }
}

/* The keywords of a class's constructor. */
static void check_class(uses_call *c, uint32_t i, uint32_t scope)
{
    static const view own[] = {{"()", 2}};
    static const view made[] = {{"__init__", 8}, {"__new__", 7}};
    index_name init;
    uint32_t which;
    if (!(index_flags(c->x, scope) & SCOPE_CLASS)) return;
    bool indexed = index_has(c->x, scope, own[0]);
    index_answer a = indexed ? index_first(c->x, scope, own, 1, &which, &init)
                          : index_first(c->x, scope, made, 2, &which, &init);
    if (a == INDEX_THERE && init.kind == NAME_CALL)
        check_keywords(c, i, init.target, index_label(c->x, scope));
}

/* isFunction(fs.rm) */
static bool is_asked(const uses_call *c, uint32_t first, uint32_t last)
{
    static const char *const words[] = {"isFunction", "isCallable", "isDefined", "isUndefined",
                                        "isNil", "isNull", "isObject", "Boolean"};
    return first > 1 && uses_sign(c, first - 1, '(') && uses_name(c, first - 2) &&
           uses_sign(c, last + 1, ')') &&
           view_is_one_of(uses_word(c, first - 2), words, ARRAY_LEN(words));
}

/* fs.rm && ..., if (fs.rm), typeof fs.rm: a test for existence. */
static bool asks(const uses_call *c, uint32_t first, uint32_t last)
{
    if (c->letter != 'j') return false;
    if (is_asked(c, first, last)) return true;
    bool after = uses_sign(c, last + 1, SIGN_OR) || uses_sign(c, last + 1, '?') ||
                  uses_sign(c, last + 1, SIGN_MAYBE) || uses_sign(c, last + 1, SIGN_COMPARE);
    bool before = first && (uses_sign(c, first - 1, '!') || uses_is(c, first - 1, "typeof") ||
                            uses_sign(c, first - 1, SIGN_OR));
    bool alone = first > 1 && uses_sign(c, first - 1, '(') && uses_is(c, first - 2, "if") &&
                 uses_sign(c, last + 1, ')');
    return after || before || alone;
}

static bool is_stored(const uses_call *c, uint32_t first, uint32_t last)
{
    bool stores = uses_sign(c, last + 1, '=') || uses_sign(c, last + 1, SIGN_UPDATE) ||
                  (uses_sign(c, last + 1, ':') && c->letter == 'p' && first == 0) ||
                  (uses_sign(c, last + 1, ',') && first == 0);
    bool continues = uses_sign(c, last + 1, '[') || uses_sign(c, last + 1, '(') ||
                   uses_sign(c, last + 1, '.');
    bool deletes = first && (uses_is(c, first - 1, "del") || uses_is(c, first - 1, "delete"));
    return stores || (deletes && !continues);
}

void uses_chain(uses_call *c, uint32_t i, name_kind kind, uint32_t target)
{
    uint32_t at = i;
    view label = uses_word(c, i);
    while (kind == NAME_SCOPE && uses_sign(c, at + 1, '.') && uses_name(c, at + 2)) {
        view word = uses_word(c, at + 2);
        index_name next;
        if (is_everywhere(c, word) || is_patched(c->s, target, word)) return;
        index_answer a = uses_find(c, target, word, &next);
        if (a == INDEX_UNKNOWN) return;
        if (a == INDEX_NOT) {
            /* A private name may be of another build, or of declarations. */
            bool known = may_be_type(c, target, word) ||
                         (word.ptr[0] == '_' && c->letter == 'p' &&
                          index_flags(c->x, target) & (SCOPE_NATIVE | SCOPE_TYPES));
            if (is_stored(c, i, at + 2) || asks(c, i, at + 2)) uses_patch(c, target, word);
            else if (!known)
                uses_report(c, EXISTS_ATTRIBUTE, target, i, at + 2, index_label(c->x, target),
                             word);
            return;
        }
        label = word;
        kind = (name_kind)next.kind;
        target = next.target;
        at += 2;
    }
    if (!uses_sign(c, at + 1, '(') || c->letter != 'p') return;
    if (kind == NAME_CALL) check_keywords(c, at + 1, target, label);
    else if (kind == NAME_SCOPE) check_class(c, at + 1, target);
}
