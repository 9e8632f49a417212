/* script_common.c - the assignments of a CommonJS module to module.exports, wherever they are. */
#include "exists/script.h"

typedef struct {
    scripts *r;
    view whole;      /* the variable assigned to module.exports, or "" */
    bool any, open;
} common;

static view word(const scripts *r, uint32_t i) { return code_word(&r->s, i); }
static bool is(const scripts *r, uint32_t i, const char *w) { return code_is(&r->s, i, w); }
static bool sign(const scripts *r, uint32_t i, char c) { return code_sign(&r->s, i, c); }

static void add(common *c, view name)
{
    names_add(c->r->s.b, c->r->module, name, NAME_VALUE, 0);
    c->any = true;
}

/* The position after `exports` or `module.exports`, or its variable; i: there is none. */
static uint32_t after_exports(const common *c, uint32_t i)
{
    const scripts *r = c->r;
    if (i && sign(r, i - 1, '.')) return i;
    if (is(r, i, "exports")) return i + 1;
    if (code_kind(&r->s, i, TOKEN_NAME) && sign(r, i + 1, '.') && is(r, i + 2, "exports") &&
        !is(r, i, "this"))
        return i + 3; /* module, freeModule */
    return i;
}

/* Keys of the object at i. */
static void read_object(common *c, uint32_t i)
{
    scripts *r = c->r;
    uint32_t stop = code_after(&r->s, i, r->s.n);
    for (uint32_t k = i + 1; k + 1 < stop;) {
        bool begins = sign(r, k - 1, ',') || k == i + 1;
        if (begins && sign(r, k, SIGN_DOTS)) {
            bool known = is(r, k + 1, "require") && script_path(r, k + 3);
            if (known) names_star(r->s.b, r->module, view_of(r->path));
            else c->open = true;
        } else if (begins && sign(r, k, '[')) c->open = true;
        else if (begins) {
            bool accessor = (is(r, k, "get") || is(r, k, "set") || is(r, k, "async")) &&
                            code_kind(&r->s, k + 1, TOKEN_NAME);
            if (sign(r, k, '*') || accessor) k++;
            bool named = code_kind(&r->s, k, TOKEN_NAME) || code_kind(&r->s, k, TOKEN_STRING);
            if (named) add(c, word(r, k));
        }
        bool opens = r->s.t[k].kind == TOKEN_SIGN && token_opens(r->s.t[k].sign);
        k = opens ? code_after(&r->s, k, stop) : k + 1;
    }
    c->any = true;
}

/* The value assigned to module.exports, at i. */
static void read_whole(common *c, uint32_t i)
{
    scripts *r = c->r;
    c->any = true;
    if (sign(r, i, '{')) {
        read_object(c, i);
        return;
    }
    if (is(r, i, "require") && script_path(r, i + 2) && sign(r, i + 3, ')')) {
        bool alone = !sign(r, i + 4, '.') && !sign(r, i + 4, '(') && !sign(r, i + 4, '[');
        if (alone) names_star(r->s.b, r->module, view_of(r->path));
        else c->open = true;
        return;
    }
    if (is(r, i, "async")) i++;
    bool defines = is(r, i, "function") || is(r, i, "class");
    uint32_t named = i + 1 + sign(r, i + 1, '*');
    if (defines && code_kind(&r->s, named, TOKEN_NAME) && !is(r, named, "extends")) {
        if (is(r, named + 1, "extends")) c->open = true;
        if (c->whole.len) c->open = true;
        c->whole = word(r, named);
        if (!is(r, i, "class")) return;
        for (uint32_t k = named + 1; k < r->s.n; k++)
            if (sign(r, k, '{')) {
                read_object(c, k);
                c->open = true; /* static members */
                return;
            }
        return;
    }
    if (is(r, i, "function") || sign(r, i, '(')) {
        uint32_t at = code_after(&r->s, is(r, i, "function") ? i + 1 : i, r->s.n);
        bool arrow = is(r, i, "function") || sign(r, at, SIGN_ARROW);
        if (!arrow) c->open = true;
        return;
    }
    bool alone = code_kind(&r->s, i, TOKEN_NAME) &&
                 (i + 1 >= r->s.n || sign(r, i + 1, ';') || r->s.t[i + 1].first ||
                  sign(r, i + 1, '}'));
    if (code_kind(&r->s, i, TOKEN_NAME) && sign(r, i + 1, SIGN_ARROW)) return;
    if (!alone || (c->whole.len && !view_equal(c->whole, word(r, i)))) c->open = true;
    else c->whole = word(r, i);
}

/* Object.defineProperty(exports, "x", and __exportStar(require("x"), exports) */
static void read_passed(common *c, uint32_t i, uint32_t after)
{
    scripts *r = c->r;
    uint32_t open = i ? i - 1 : 0;
    bool defines = sign(r, open, '(') && open && is(r, open - 1, "defineProperty");
    if (defines && code_kind(&r->s, after + 1, TOKEN_STRING)) {
        add(c, word(r, after + 1));
        return;
    }
    bool star = sign(r, i - 1, ',') && i > 5 && sign(r, i - 2, ')') && sign(r, i - 4, '(') &&
                is(r, i - 5, "require") && script_path(r, i - 3);
    if (star) {
        names_star(r->s.b, r->module, view_of(r->path));
        c->any = true;
        return;
    }
    c->open = c->any = true; /* it may be changed elsewhere */
}

static uint32_t read_use(common *c, uint32_t i, uint32_t after)
{
    scripts *r = c->r;
    if (sign(r, after, '.') && code_kind(&r->s, after + 1, TOKEN_NAME)) {
        if (sign(r, after + 2, '=')) add(c, word(r, after + 1));
        return after + 2;
    }
    if (sign(r, after, '[')) {
        bool plain = code_kind(&r->s, after + 1, TOKEN_STRING) && r->s.t[after + 1].plain;
        uint32_t stop = code_after(&r->s, after, r->s.n);
        if (plain && sign(r, stop, '=')) add(c, word(r, after + 1));
        else if (sign(r, stop, '=')) c->open = c->any = true;
        return after + 1;
    }
    if (sign(r, after, '=')) {
        uint32_t at = after + 1, next = after_exports(c, at);
        while (next > at && (sign(r, next, '=') || sign(r, next, '.'))) { /* a = b = ... */
            if (sign(r, next, '.')) {
                add(c, word(r, next + 1));
                next += 2;
                if (!sign(r, next, '=')) break;
            }
            at = next + 1;
            next = after_exports(c, at);
        }
        if (!sign(r, at, '}') && !is(r, at, "void")) read_whole(c, at);
        return at;
    }
    if (i && (sign(r, i - 1, '(') || sign(r, i - 1, ',')) &&
        (sign(r, after, ')') || sign(r, after, ',')))
        read_passed(c, i, after);
    return after;
}

/* X.name = ... of the exported variable; how that variable was defined. */
static void read_variable(common *c)
{
    scripts *r = c->r;
    bool declared = false;
    for (uint32_t i = 0; i < r->s.n && !r->s.b->status; i++) {
        if (r->s.t[i].kind != TOKEN_NAME || !view_equal(word(r, i), c->whole)) continue;
        if (i && sign(r, i - 1, '.')) continue;
        bool variable = i && (is(r, i - 1, "var") || is(r, i - 1, "let") || is(r, i - 1, "const"));
        bool function = i && (is(r, i - 1, "function") || (sign(r, i - 1, '*') && i > 1));
        bool class_ = i && is(r, i - 1, "class");
        declared |= variable || function || class_;
        if (class_) {
            uint32_t k = i + 1;
            while (k < r->s.n && !sign(r, k, '{')) {
                if (is(r, k, "extends")) c->open |= script_class_is_foreign(r, k + 1);
                k++;
            }
            if (k < r->s.n) script_statics(r, k);
        } else if (variable && sign(r, i + 1, '=')) {
            uint32_t at = i + 2;
            if (!sign(r, at, '(') || !sign(r, code_after(&r->s, at, r->s.n), SIGN_ARROW)) {
                view was = c->whole;
                c->whole = (view){NULL, 0};
                read_whole(c, at);
                if (c->whole.len) c->open = true; /* the name of another */
                c->whole = was;
            }
        } else if (sign(r, i + 1, '.') && code_kind(&r->s, i + 2, TOKEN_NAME)) {
            if (sign(r, i + 3, '=')) add(c, word(r, i + 2));
        } else if (sign(r, i + 1, '[')) {
            c->open |= sign(r, code_after(&r->s, i + 1, r->s.n), '=');
        } else if (i > 1 && sign(r, i - 1, '(') && is(r, i - 2, "assign")) c->open = true;
        else if (i > 1 && sign(r, i - 1, '(') && is(r, i - 2, "defineProperty")) {
            if (code_kind(&r->s, i + 2, TOKEN_STRING)) add(c, word(r, i + 2));
            else c->open = true;
        } else if (i > 1 && sign(r, i - 1, '(') && sign(r, i + 1, ',') &&
                   code_kind(&r->s, i - 2, TOKEN_NAME))
            c->open = true; /* mixin(X, ...) */
    }
    c->open |= !declared;
}

void script_read_common(scripts *r)
{
    common c = {.r = r};
    for (uint32_t i = 0; i < r->s.n && !r->s.b->status;) {
        uint32_t after = r->s.t[i].kind == TOKEN_NAME ? after_exports(&c, i) : i;
        i = after > i ? read_use(&c, i, after) : i + 1;
    }
    if (c.whole.len) read_variable(&c);
    if (!c.any || c.open) names_open_scope(r->s.b, r->module);
    /* A module imported whole has the names of its exports. */
    if (!r->s.b->status && names_find(r->s.b, r->module, VIEW("default")) == NAMES_NONE)
        names_add(r->s.b, r->module, VIEW("default"), NAME_SCOPE, r->module);
}
