/* match.c - checks the uses found by the judge against rules. */
#include "base/text.h"
#include "guard/judge.h"

#include <ctype.h>
#include <strings.h>

#include "guard/buffers.h"

typedef struct {
    uint32_t hash; /* of the pattern's last segment; 0: it is open */
    const rule *rule;
    const pattern *pattern;
} entry;

struct rule_index {
    struct {
        entry *list;
        uint32_t n;
    } of[GUARD_LANGUAGES][RULE_KINDS];
};

static int by_hash(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    /* In the order of the files, so that the first of two rules reports. */
    return x->rule != y->rule ? (x->rule < y->rule ? -1 : 1) : 0;
}

static int index_one(rule_index *x, const rule_set *rules, int l, int k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rules->n; i++) {
        const rule *u = &rules->list[i];
        if ((int)u->kind == k && u->languages >> l & 1) n += u->names.n + (u->match != NULL);
    }
    if (!n) return CERIUM_OK;
    entry *list = memory_alloc(n * sizeof *list);
    if (!list) return CERIUM_ERR_MEMORY;
    x->of[l][k].list = list;
    for (uint32_t i = 0; i < rules->n; i++) {
        const rule *u = &rules->list[i];
        if ((int)u->kind != k || !(u->languages >> l & 1)) continue;
        if (u->match) list[x->of[l][k].n++] = (entry){0, u, NULL};
        for (uint32_t p = 0; p < u->names.n; p++) {
            const pattern *pat = &u->names.list[p];
            list[x->of[l][k].n++] = (entry){pat->hash, u, pat};
        }
    }
    qsort(list, n, sizeof *list, by_hash);
    return CERIUM_OK;
}

int rule_index_open(rule_index **out, const rule_set *rules)
{
    rule_index *x = memory_zalloc(1, sizeof *x);
    if (!x) return CERIUM_ERR_MEMORY;
    for (int l = 0; l < GUARD_LANGUAGES; l++)
        for (int k = 0; k < RULE_KINDS; k++)
            if (index_one(x, rules, l, k)) {
                rule_index_close(&x);
                return CERIUM_ERR_MEMORY;
            }
    *out = x;
    return CERIUM_OK;
}

void rule_index_close(rule_index **index)
{
    if (!*index) return;
    for (int l = 0; l < GUARD_LANGUAGES; l++)
        for (int k = 0; k < RULE_KINDS; k++) memory_free((*index)->of[l][k].list);
    memory_free(*index);
    *index = NULL;
}

/* The entries of hash, from *at on. */
static const entry *next_entry(const judge *j, rule_kind kind, uint32_t hash, uint32_t *at)
{
    const entry *list = j->index->of[j->tree.language][kind].list;
    uint32_t n = j->index->of[j->tree.language][kind].n;
    if (*at == UINT32_MAX) {
        uint32_t low = 0, high = n;
        while (low < high) {
            uint32_t mid = (low + high) / 2;
            if (list[mid].hash < hash) low = mid + 1;
            else high = mid;
        }
        *at = low;
    }
    if (*at >= n || list[*at].hash != hash) return NULL;
    return &list[(*at)++];
}

/* What an attacker gains: everything with text that a language reads; with a path, an address or
 * markup, only if the value is theirs.  A switch that turns a check off is a constant. */
static guard_severity rule_severity(const rule *u, taint level)
{
    if (u->tiers[level] >= 0) return (guard_severity)u->tiers[level];
    switch (u->weak) {
    case WEAK_SECRET:
    case WEAK_TLS:
    case WEAK_JWT: return GUARD_BLOCK;
    case WEAK_SQL:
    case WEAK_COMMAND:
    case WEAK_CODE:
    case WEAK_NOSQL:
    case WEAK_LDAP:
    case WEAK_XPATH:
    case WEAK_DESERIALIZE: return level == TAINT_UNKNOWN ? GUARD_WARN : GUARD_BLOCK;
    case WEAK_PATH:
    case WEAK_SSRF:
    case WEAK_REDIRECT:
    case WEAK_XSS:
    case WEAK_XXE:
    case WEAK_FORMAT:
    case WEAK_MEMORY: return level == TAINT_SOURCE ? GUARD_BLOCK : GUARD_WARN;
    default: return GUARD_WARN;
    }
}

/* The surroundings of a use: the lines before it, and its own to the end. */
static view around(view text, uint32_t begin, uint32_t end)
{
    enum { AROUND_BYTES = 400 };
    uint32_t from = begin > AROUND_BYTES ? begin - AROUND_BYTES : 0, to = end;
    while (to < text.len && text.ptr[to] != '\n') to++;
    return (view){text.ptr + from, to - from};
}

guard_severity rule_severity_near(const rule *u, taint level, regex_scratch *re, view text,
                                  uint32_t begin, uint32_t end)
{
    for (int k = RULE_NEAR; k--;) /* the worst first */
        if (u->near[k] && regex_found(u->near[k], re, around(text, begin, end)))
            return (guard_severity)k;
    return rule_severity(u, level);
}

static bool mentions(view text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0, len = strlen(words[i]); at + len <= text.len; at++)
            if (!strncasecmp(text.ptr + at, words[i], len)) return true;
    return false;
}

/* The condition of the branch that contains n; -1: n is the condition. */
static int32_t condition_of(const judge *j, int32_t branch, int32_t n)
{
    int32_t condition = tree_field(&j->tree, branch, FIELD_CONDITION);
    if (condition < 0) condition = tree_field(&j->tree, branch, FIELD_VALUE);
    if (condition < 0) condition = j->tree.list[branch].child;
    return condition == n ? -1 : condition;
}

/* Verification that an option turns off, or a function that is named after it. */
static bool is_asked_for(const judge *j, int32_t n)
{
    static const char *const words[] = {"insecure", "verif", "skip", "allow", "unsafe", "trust",
                                        "cert", "check_host", "tls_version", "ssl_version",
                                        "strict", "ignore"};
    /* A conditional expression counts, whatever its condition, also in parentheses. */
    bool pair = j->tree.list[n].role == NODE_PAIR;
    int32_t inner = pair ? tree_field(&j->tree, n, FIELD_VALUE) : n;
    if (inner < 0) inner = n;
    while (j->tree.list[inner].role == NODE_OTHER && j->tree.list[inner].child >= 0 &&
           j->tree.list[j->tree.list[inner].child].next < 0)
        inner = j->tree.list[inner].child;
    if (j->tree.list[inner].role == NODE_TERNARY) return true;
    for (int32_t p = j->tree.list[n].parent; p >= 0; n = p, p = j->tree.list[p].parent) {
        switch ((node_role)j->tree.list[p].role) {
        case NODE_TERNARY:
        case NODE_CASE: return true;
        case NODE_IF:
        case NODE_UNLESS:
        case NODE_OPTIONAL: break;
        case NODE_FUNCTION: {
            static const char *const named[] = {"insecure", "unverified", "noverify", "no_verif",
                                                "skipverif", "skip_verif", "trustall", "trust_all"};
            int32_t name = tree_field(&j->tree, p, FIELD_NAME);
            if (name >= 0 && mentions(tree_text(&j->tree, name), named, ARRAY_LEN(named)))
                return true;
            continue;
        }
        default: continue;
        }
        int32_t condition = condition_of(j, p, n);
        view asks = condition < 0 ? (view){NULL, 0} : tree_text(&j->tree, condition);
        if (mentions(asks, words, ARRAY_LEN(words))) return true;
    }
    return false;
}

/* A use that is bad because of its surroundings (a hash, of a password) has another safe form. */
static view fix_for(judge *j, const rule *u, guard_severity severity, taint level, const use *by)
{
    if (severity > rule_severity(u, level)) return (view){NULL, 0};
    return fix_of(j, u, by);
}

static bool was_wrong(const rule_read *r)
{
    return r->n >= RULE_READ_LEAST && 2 * r->n_right < r->n;
}

/* The findings with such a value, and those of whose value nothing was written down. */
static rule_read read_with(const rule *u, taint level)
{
    rule_read r = u->read;
    for (int l = 0; l < RULE_TIERS; l++) {
        if (l == (int)level) continue;
        r.n -= r.n < u->read_of[l].n ? r.n : u->read_of[l].n;
        r.n_right -= r.n_right < u->read_of[l].n_right ? r.n_right : u->read_of[l].n_right;
    }
    return r;
}

bool rule_only_warns(const rule *u, taint level)
{
    const rule_read r = read_with(u, level);
    return was_wrong(&r) && level != TAINT_SOURCE;
}

bool rule_is_unlikely(const rule *u, taint level)
{
    const rule_read *r = &u->read_of[level], with = read_with(u, level);
    if (level == TAINT_SOURCE) return r->n >= RULE_READ_LEAST && !r->n_right;
    if (r->n >= RULE_READ_LEAST) return was_wrong(r);
    return level != TAINT_CONST || was_wrong(&with);
}

static void hit_at(judge *j, const rule *u, taint level, int32_t n, const use *by)
{
    const node *at = &j->tree.list[n];
    guard_severity severity =
        rule_severity_near(u, level, &j->re, j->tree.text, at->begin, at->end);
    if (at->end <= j->from) return;
    if (level == TAINT_CONST && u->level != LEVEL_ANY) severity = GUARD_NOTE;
    if (u->weak == WEAK_TLS && severity > GUARD_NOTE && is_asked_for(j, n)) severity = GUARD_NOTE;
    for (uint32_t i = 0; i < j->n_hits; i++) {
        hit *h = &j->hits[i];
        if (h->rule->cwe != u->cwe || h->begin >= at->end || at->begin >= h->end) continue;
        if (severity <= h->severity) return;
        /* The worse one is reported. */
        *h = (hit){u, severity, at->begin, at->end, level,
                   fix_for(j, u, severity, level, by)};
        return;
    }
    if (j->n_hits < GUARD_FINDINGS_MAX)
        j->hits[j->n_hits++] =
            (hit){u, severity, at->begin, at->end, level,
                   fix_for(j, u, severity, level, by)};
}

/* ---- conditions ---- */

/* The argument that a spec names, also in a literal of options; NULL: not given. */
static const argument *find_argument(judge *j, const use *u, const rule_arg *spec, argument *room)
{
    if (spec->index == ARG_RECEIVER) {
        if (u->receiver_node < 0) return NULL;
        *room = (argument){.v = u->receiver, .node = u->receiver_node};
        return room;
    }
    if (spec->name)
        for (uint32_t i = 0; i < u->n_args; i++) {
            if (view_equal(u->args[i].name, view_of(spec->name))) return &u->args[i];
            int32_t n = u->args[i].node;
            while (n >= 0 && j->tree.list[n].role == NODE_OTHER) n = j->tree.list[n].child;
            if (n < 0 || (j->tree.list[n].role != NODE_DICT && j->tree.list[n].role != NODE_LIST))
                continue;
            for (int32_t c = j->tree.list[n].child; c >= 0; c = j->tree.list[c].next) {
                if (j->tree.list[c].role != NODE_PAIR) continue;
                view key;
                uint32_t hits = j->n_hits;
                value v = judge_pair(j, c, &key);
                j->n_hits = hits;
                if (!view_equal(key, view_of(spec->name))) continue;
                int32_t at = tree_field(&j->tree, c, FIELD_VALUE);
                *room = (argument){.v = v, .node = at >= 0 ? at : c};
                return room;
            }
        }
    if (spec->index >= 0) {
        uint32_t index = 0;
        for (uint32_t i = 0; i < u->n_args; i++)
            if (!u->args[i].name.len && index++ == (uint32_t)spec->index) return &u->args[i];
    }
    return NULL;
}

static view argument_text(const judge *j, const argument *a)
{
    int32_t n = a->node;
    if (strchr("*&", j->tree.text.ptr[j->tree.list[n].begin])) return tree_text(&j->tree, n);
    while (j->tree.list[n].role == NODE_OTHER && j->tree.list[n].child >= 0)
        n = j->tree.list[n].child;
    if (a->v.flags & VALUE_LIST)
        return j->tree.list[n].role == NODE_LIST || j->tree.list[n].role == NODE_DICT
                   ? tree_text(&j->tree, n) : a->v.text;
    if (a->v.flags & (VALUE_STRING | VALUE_FORMAT)) return a->v.text;
    if (a->v.text.len && a->v.level == TAINT_CONST) return a->v.text;
    return tree_text(&j->tree, a->node);
}

static bool one_holds(judge *j, const rule_if *c, const argument *a)
{
    if (!a) return c->missing;
    if (c->missing) return false;
    if (c->dynamic && a->v.level == TAINT_CONST) return false;
    if (c->constant && a->v.level != TAINT_CONST) return false;
    if (c->literal && (a->v.level != TAINT_CONST || !(a->v.flags & VALUE_STRING))) return false;
    if (c->is && !regex_found(c->is, &j->re, argument_text(j, a))) return false;
    return !c->is_not || !regex_found(c->is_not, &j->re, argument_text(j, a));
}

/* Of the buffer that it names, or that was assigned to it. */
static bool buffer_of(const judge *j, const argument *a, view before, uint64_t *out)
{
    return buffer_bytes(before, tree_text(&j->tree, a->node), out) ||
           buffer_bytes(before, a->v.name, out);
}

/* How many bytes an argument stands for: a length, or the size of a text or buffer. */
static bool amount_of(const judge *j, const argument *a, view before, uint64_t *out)
{
    if (a->v.level == TAINT_CONST && a->v.flags & VALUE_STRING) {
        *out = a->v.text.len + 1;
        return true;
    }
    view text = tree_text(&j->tree, a->node);
    if (a->v.level == TAINT_CONST && a->v.text.len) text = a->v.text;
    return buffer_number(before, text, out) || buffer_of(j, a, before, out);
}

static bool exceeds_buffer(const judge *j, const use *u, const argument *a)
{
    uint64_t amount, size;
    view before = {j->tree.text.ptr, j->tree.list[u->node].begin};
    for (const argument *b = u->args; b < a; b++)
        if (buffer_of(j, b, before, &size))
            return amount_of(j, a, before, &amount) && amount > size;
    return false;
}

static bool condition_holds(judge *j, const rule_if *c, const use *u)
{
    argument room;
    if (c->arg.index == ARG_ANY) {
        for (uint32_t i = 0; i < u->n_args; i++)
            if (one_holds(j, c, &u->args[i])) return true;
        return false;
    }
    const argument *a = find_argument(j, u, &c->arg, &room);
    if (!a && !c->missing) return c->is_not && !c->is && !c->given;
    if (c->exceeds && !exceeds_buffer(j, u, a)) return false;
    return one_holds(j, c, a);
}

/* Names of tables and columns in SQL cannot be bound, and in some statements nothing can: an
 * unknown value there counts as the program's own.  So does the statement that continues a text. */
static bool is_own(const rule *u, const value *v)
{
    if (u->weak != WEAK_SQL || v->level != TAINT_UNKNOWN || !(v->flags & VALUE_FORMAT))
        return false;
    return v->flags & VALUE_NAMES || !v->text.len || judge_before_name(v->text, false) ||
           judge_binds_nothing(v->text);
}

/* execute(sql, values): the text is put together from names and marks. */
static bool binds_beside(const judge *j, const use *u)
{
    const argument *a = u->n_args > 1 ? &u->args[1] : NULL;
    if (!a || a->node < 0 || j->tree.list[a->node].role == NODE_FUNCTION) return false;
    return !a->name.len && (a->v.flags & VALUE_LIST || a->v.level > TAINT_CONST);
}

/* A method of the object itself is judged where it is defined: this.query(sql).  Ruby's models
 * inherit theirs from the framework. */
static bool is_own_method(const judge *j, const rule *r, const use *u)
{
    static const char *const words[] = {"this", "self", "super", "$this", "parent"};
    bool runs = r->weak == WEAK_SQL || r->weak == WEAK_COMMAND || r->weak == WEAK_CODE ||
                r->weak == WEAK_NOSQL || r->weak == WEAK_DESERIALIZE;
    if (!runs || u->receiver_node < 0 || j->tree.language == GUARD_RUBY) return false;
    view text = tree_text(&j->tree, u->receiver_node);
    if (view_starts(text, VIEW("super("))) return true;
    return view_is_one_of(text, words, ARRAY_LEN(words));
}

static bool is_dirty_enough(const rule *u, const value *v)
{
    bool cleaned = v->clean >> u->weak & 1;
    bool dirty = v->level > TAINT_CONST && !cleaned && !is_own(u, v);
    bool format = (v->flags & VALUE_FORMAT) != 0;
    switch (u->level) {
    case LEVEL_ANY: return true;
    case LEVEL_DYNAMIC: return dirty;
    case LEVEL_PARAMETER: return dirty && v->level >= TAINT_PARAMETER;
    case LEVEL_SOURCE: return dirty && v->level == TAINT_SOURCE;
    case LEVEL_FORMATTED: return dirty && (format || v->level == TAINT_SOURCE);
    case LEVEL_TAINTED_FORMAT:
        return dirty && ((format && v->level >= TAINT_PARAMETER) || v->level == TAINT_SOURCE);
    }
    return false;
}

/* A value that waits for its function is decided later. */
static bool level_holds(judge *j, const rule *r, const use *u, const value *v)
{
    if (!is_dirty_enough(r, v)) return false;
    if (!(v->flags & VALUE_PENDING) || r->level == LEVEL_ANY || j->final) return true;
    const node *at = &j->tree.list[u->node];
    if (at->end > j->from && j->n_deferred < JUDGE_DEFERRED_MAX)
        j->deferred[j->n_deferred++] = (deferral){at->begin, at->end};
    return false;
}

/* The user of a program may name its files and its servers. */
static bool is_of_places(weakness weak)
{
    return weak == WEAK_PATH || weak == WEAK_SSRF || weak == WEAK_REDIRECT || weak == WEAK_XSS ||
           weak == WEAK_XXE;
}

static taint worth_of(const judge *j, const rule *r, const use *u, const value *v)
{
    bool cleaned = v->clean && v->clean != ~0u && !(v->clean & VALUE_GIVEN);
    bool format = (v->flags & VALUE_FORMAT) != 0;
    if (cleaned) return TAINT_UNKNOWN; /* for something else: worth a look */
    bool after_host = v->flags & VALUE_AFTER_HOST &&
                      (r->weak == WEAK_SSRF || r->weak == WEAK_REDIRECT);
    bool own = after_host ||
               (is_of_places(r->weak) && (v->clean & VALUE_GIVEN || v->flags & VALUE_MADE));
    bool whole = v->flags & (VALUE_LEADS | VALUE_MADE) || !(format || v->flags & VALUE_LIST);
    bool command = r->weak == WEAK_COMMAND && r->tiers[TAINT_PARAMETER] < 0;
    bool given = (v->clean & VALUE_GIVEN) != 0;
    /* A function that runs its argument: the caller, or the program's user, writes it. */
    if (whole && command && (v->level < TAINT_SOURCE || given)) return TAINT_UNKNOWN;
    if (whole && given && r->weak == WEAK_SQL) return TAINT_UNKNOWN;
    if (command && given && v->flags & VALUE_LIST) return TAINT_UNKNOWN;
    /* The result of a function that is not in view may be clean or not. */
    bool made = v->flags & VALUE_MADE && v->level < TAINT_SOURCE;
    if (made && (r->weak == WEAK_SQL || r->weak == WEAK_CODE || r->weak == WEAK_COMMAND))
        return TAINT_UNKNOWN;
    if (v->level == TAINT_SOURCE) return own ? TAINT_PARAMETER : TAINT_SOURCE;
    if (r->weak == WEAK_SQL && format &&
        (v->flags & VALUE_NAMES || judge_binds_nothing(v->text) || binds_beside(j, u)))
        return TAINT_UNKNOWN;
    /* Text with a value in it: the caller chooses the value. */
    return v->level == TAINT_UNKNOWN && format ? TAINT_PARAMETER : (taint)v->level;
}

/* What was made elsewhere is judged there, and gets a note here: text with a value set earlier; a
 * whole statement, command or page that a function out of view made. */
static bool is_judged_elsewhere(const rule *r, const value *v)
{
    bool format = (v->flags & VALUE_FORMAT) != 0;
    if (v->level == TAINT_UNKNOWN && v->flags & VALUE_FIELDS && format) return true;
    bool made = v->flags & VALUE_MADE && !format;
    /* PRAGMA with the program's own words, the name of a table: an order or a whole statement that
     * the caller gives more often comes from outside. */
    bool own = r->weak == WEAK_SQL && format && v->level < TAINT_SOURCE &&
               (v->level == TAINT_UNKNOWN || !judge_is_chosen(v->text));
    if (own && (v->flags & VALUE_NAMES || judge_binds_nothing(v->text))) return true;
    if (made && r->weak == WEAK_XSS) return true;
    bool leads = v->flags & VALUE_MADE && v->flags & VALUE_LEADS; /* the program, of its own */
    if (made && r->weak == WEAK_SQL) return v->level < TAINT_SOURCE;
    return (made || leads) && r->weak == WEAK_COMMAND && v->level == TAINT_UNKNOWN;
}

static bool value_holds(judge *j, const rule *r, const use *u, const value *v, taint *level)
{
    if (!level_holds(j, r, u, v)) return false;
    bool dirty = !(v->clean >> r->weak & 1);
    if (r->level != LEVEL_ANY && v->level < TAINT_SOURCE && is_own_method(j, r, u)) return false;
    taint worth = is_judged_elsewhere(r, v) ? TAINT_CONST : worth_of(j, r, u, v);
    if (dirty && worth > *level) *level = worth;
    return true;
}

/* The text that a function would return is not given text. */
static bool argument_holds(judge *j, const rule *r, const use *u, const argument *a, taint *level)
{
    bool function = a->node >= 0 && j->tree.list[a->node].role == NODE_FUNCTION;
    if (function && r->level != LEVEL_ANY) return false;
    return value_holds(j, r, u, &a->v, level);
}

/* *level: how far from constant is the worst value for which the rule holds. */
static bool arguments_hold(judge *j, const rule *r, const use *u, taint *level)
{
    argument room;
    bool holds = r->level == LEVEL_ANY && !r->n_args;
    if (!r->n_args) { /* the first, and the assigned one */
        return (u->n_args && argument_holds(j, r, u, &u->args[0], level)) || holds;
    }
    for (uint32_t i = 0; i < r->n_args; i++) {
        if (r->args[i].index == ARG_ANY) {
            for (uint32_t k = 0; k < u->n_args; k++)
                holds |= argument_holds(j, r, u, &u->args[k], level);
            continue;
        }
        const argument *a = find_argument(j, u, &r->args[i], &room);
        if (a) holds |= argument_holds(j, r, u, a, level);
    }
    return holds;
}

static bool rule_holds(judge *j, const rule *r, const use *u, taint *level)
{
    *level = TAINT_CONST;
    if (!arguments_hold(j, r, u, level)) return false;
    for (uint32_t i = 0; i < r->n_ifs; i++)
        if (!condition_holds(j, &r->ifs[i], u)) return false;
    view before = {j->tree.text.ptr, j->tree.list[u->node].end};
    if (r->seen && !regex_found(r->seen, &j->re, before)) return false;
    return !r->unseen || !regex_found(r->unseen, &j->re, before);
}

/* exec = require("./exec"): not the library's. */
static bool is_own_command(const rule *r, const use *u)
{
    return r->weak == WEAK_COMMAND && view_starts(u->callee.name, VIEW("own."));
}

static void try_name(judge *j, rule_kind kind, const use *u, view name, uint32_t hash)
{
    uint32_t at = UINT32_MAX;
    taint level;
    for (const entry *e; (e = next_entry(j, kind, hash, &at));)
        if (pattern_matches(e->pattern, name) && !is_own_command(e->rule, u) &&
            rule_holds(j, e->rule, u, &level))
            hit_at(j, e->rule, level, u->node, u);
}

static void try_credentials(judge *j, const use *u)
{
    uint32_t at = UINT32_MAX;
    const value *v = &u->args[0].v;
    taint level;
    if (!u->n_args || !(v->flags & VALUE_STRING) || v->level != TAINT_CONST) return;
    view name = judge_last(u->callee.raw);
    for (const entry *e; (e = next_entry(j, RULE_CREDENTIAL, 0, &at));)
        if (regex_found(e->rule->match, &j->re, name) && secret_credential(name, v->text) &&
            rule_holds(j, e->rule, u, &level))
            hit_at(j, e->rule, secret_is_live(v->text) ? TAINT_SOURCE : level, u->node, u);
}

void match_use(judge *j, rule_kind kind, const use *u)
{
    view names[2] = {u->callee.name, u->callee.raw};
    if (j->tree.list[u->node].end <= j->from) return; /* judged with an earlier line */
    /* system("no such signal"): the file's own function of that name. */
    if (kind == RULE_CALL && u->receiver_node < 0 && judge_is_defined(j, u->callee.raw)) return;
    for (int i = 0; i < 2; i++) {
        if (!names[i].len || (i == 1 && view_equal(names[0], names[1]))) continue;
        try_name(j, kind, u, names[i], pattern_hash(names[i]));
        try_name(j, kind, u, names[i], 0);
    }
    if (kind == RULE_ASSIGN || kind == RULE_PAIR) try_credentials(j, u);
}

void match_reference(judge *j, int32_t n, const value *v)
{
    use u = {.node = n, .receiver_node = -1, .callee = *v};
    if (j->tree.list[n].end <= j->from || !j->index->of[j->tree.language][RULE_REFERENCE].n) return;
    int32_t parent = j->tree.list[n].parent; /* the value compared with is not used */
    node_op op = parent < 0 ? OP_NONE : (node_op)j->tree.list[parent].op;
    if (parent >= 0 && (j->tree.list[parent].role == NODE_COMPARE || op == OP_EQUAL)) return;
    match_use(j, RULE_REFERENCE, &u);
}

void match_string(judge *j, int32_t n, const value *v)
{
    uint32_t at = UINT32_MAX;
    if (j->tree.list[n].end <= j->from || !(v->flags & VALUE_STRING)) return;
    use u = {.node = n, .receiver_node = -1, .n_args = 1};
    u.args[0] = (argument){.v = *v, .node = n};
    taint level;
    for (const entry *e; (e = next_entry(j, RULE_STRING, 0, &at));)
        if (regex_found(e->rule->match, &j->re, v->text) && rule_holds(j, e->rule, &u, &level))
            hit_at(j, e->rule, level, n, &u);
}

bool match_loose(judge *j, int32_t call)
{
    return j->facts->loose && regex_found(j->facts->loose, &j->re, tree_text(&j->tree, call));
}

bool match_names_function(judge *j, view name)
{
    uint32_t at = UINT32_MAX;
    for (const entry *e; (e = next_entry(j, RULE_CALL, pattern_hash(name), &at));)
        if (pattern_matches(e->pattern, name)) return true;
    return false;
}
