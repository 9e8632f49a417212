/* names.c - interned strings, and names by scope. */
#include "exists/names.h"

#include "base/hash.h"

enum { SLOTS_MIN = 1024 };

static bool append(name_table *b, bytes *to, const void *from, size_t n)
{
    if (!b->status) b->status = bytes_append(to, from, n);
    return !b->status;
}

/* ---- strings ---- */

view names_text(const name_table *b, uint32_t string)
{
    uint16_t n;
    memcpy(&n, b->strings.ptr + string, sizeof n);
    return (view){b->strings.ptr + string + sizeof n, n};
}

/* Double the slots; move those of the old ones. */
static bool grow(name_table *b, uint32_t **slots, uint32_t *n,
                 uint64_t (*hash_of)(const name_table *b, uint32_t at))
{
    uint32_t n_new = *n * 2, *made = memory_zalloc(n_new, sizeof *made);
    if (!made) return b->status = CERIUM_ERR_MEMORY, false;
    for (uint32_t i = 0; i < *n; i++) {
        if (!(*slots)[i]) continue;
        uint32_t at = (uint32_t)hash_of(b, (*slots)[i] - 1) & (n_new - 1);
        while (made[at]) at = (at + 1) & (n_new - 1);
        made[at] = (*slots)[i];
    }
    memory_free(*slots);
    *slots = made;
    *n = n_new;
    return true;
}

static uint64_t string_hash(const name_table *b, uint32_t at)
{
    view text = names_text(b, at);
    return hash_bytes(text.ptr, text.len, 0);
}

/* The slot that has the text, or the free one where it belongs. */
static uint32_t string_slot(const name_table *b, view text)
{
    const uint32_t mask = b->n_string_slots - 1;
    uint32_t at = (uint32_t)hash_bytes(text.ptr, text.len, 0) & mask;
    for (; b->string_slots[at]; at = (at + 1) & mask)
        if (view_equal(names_text(b, b->string_slots[at] - 1), text)) break;
    return at;
}

/* NAMES_NONE: it failed. */
static uint32_t string_of(name_table *b, view text)
{
    if (b->status) return NAMES_NONE;
    if (text.len > NAMES_WORD_MAX) text.len = NAMES_WORD_MAX;
    if (b->n_strings * 2 >= b->n_string_slots &&
        !grow(b, &b->string_slots, &b->n_string_slots, string_hash))
        return NAMES_NONE;
    const uint32_t at = string_slot(b, text);
    if (b->string_slots[at]) return b->string_slots[at] - 1;
    uint32_t made = (uint32_t)b->strings.len;
    uint16_t n = (uint16_t)text.len;
    if ((b->status = bytes_reserve(&b->strings, sizeof n + text.len + 1))) return NAMES_NONE;
    if (!append(b, &b->strings, &n, sizeof n) || !append(b, &b->strings, text.ptr, text.len) ||
        !append(b, &b->strings, "", 1))
        return NAMES_NONE;
    b->string_slots[at] = made + 1;
    b->n_strings++;
    return made;
}

/* ---- scopes and entries ---- */

name_scope *names_scope_at(const name_table *b, uint32_t scope)
{
    return (name_scope *)b->scopes.ptr + scope;
}

name_entry *names_entry_at(const name_table *b, uint32_t entry)
{
    return (name_entry *)b->entries.ptr + entry;
}

uint32_t names_scope(name_table *b, uint32_t flags, view label, uint32_t parent)
{
    if (b->stub) flags |= SCOPE_TYPES;
    name_scope made = {.label = string_of(b, label), .parent = parent, .flags = (uint8_t)flags};
    if (!append(b, &b->scopes, &made, sizeof made)) return NAMES_NONE;
    return b->n_scopes++;
}

void names_open_scope(name_table *b, uint32_t scope)
{
    if (!b->status && scope != NAMES_NONE) names_scope_at(b, scope)->flags |= SCOPE_OPEN;
}

static uint64_t pair_hash(uint32_t scope, uint32_t name)
{
    return hash_u64((uint64_t)scope << 32 | name, 0);
}

static uint64_t entry_hash(const name_table *b, uint32_t at)
{
    const name_entry *e = names_entry_at(b, at);
    return pair_hash(e->scope, e->name);
}

static uint32_t find_string(const name_table *b, view text)
{
    const uint32_t found = b->string_slots[string_slot(b, text)];
    return found ? found - 1 : NAMES_NONE;
}

static uint32_t find_entry(const name_table *b, uint32_t scope, uint32_t name)
{
    uint32_t mask = b->n_entry_slots - 1, at = (uint32_t)pair_hash(scope, name) & mask;
    for (; b->entry_slots[at]; at = (at + 1) & mask) {
        const name_entry *e = names_entry_at(b, b->entry_slots[at] - 1);
        if (e->scope == scope && e->name == name) return b->entry_slots[at] - 1;
    }
    return NAMES_NONE;
}

uint32_t names_find(const name_table *b, uint32_t scope, view name)
{
    if (b->status || scope == NAMES_NONE) return NAMES_NONE;
    uint32_t string = find_string(b, name);
    return string == NAMES_NONE ? NAMES_NONE : find_entry(b, scope, string);
}

static uint32_t new_entry(name_table *b, uint32_t scope, uint32_t name)
{
    if (b->n_entries * 2 >= b->n_entry_slots &&
        !grow(b, &b->entry_slots, &b->n_entry_slots, entry_hash))
        return NAMES_NONE;
    name_entry made = {.name = name, .scope = scope, .next = names_scope_at(b, scope)->first,
                       .pass = b->pass};
    if (!append(b, &b->entries, &made, sizeof made)) return NAMES_NONE;
    uint32_t mask = b->n_entry_slots - 1, at = (uint32_t)pair_hash(scope, name) & mask;
    while (b->entry_slots[at]) at = (at + 1) & mask;
    b->entry_slots[at] = ++b->n_entries;
    names_scope_at(b, scope)->first = b->n_entries;
    names_scope_at(b, scope)->n++;
    return b->n_entries - 1;
}

void names_add(name_table *b, uint32_t scope, view name, name_kind kind, uint32_t target)
{
    uint32_t string = string_of(b, name);
    if (b->status || scope == NAMES_NONE) return;
    uint32_t at = find_entry(b, scope, string);
    bool is_new = at == NAMES_NONE;
    if (is_new) at = new_entry(b, scope, string);
    if (b->status) return;
    name_entry *e = names_entry_at(b, at);
    bool same = e->kind == (uint8_t)kind && e->target == target;
    if (e->pass == NAMES_WEAK && b->pass != NAMES_WEAK) {
        is_new = true;
        e->pass = b->pass;
    }
    if (!is_new && e->pass != b->pass) return; /* the earlier file takes precedence */
    e->kind = is_new || same ? (uint8_t)kind : NAME_VALUE;
    e->target = is_new || same ? target : 0;
}

/* ---- the whole ---- */

int names_open(name_table *b)
{
    *b = (name_table){.strings = {.max = NAMES_BYTES_MAX},
                 .entries = {.max = (size_t)NAMES_MAX * sizeof(name_entry)},
                 .scopes = {.max = (size_t)NAMES_MAX * sizeof(name_scope)},
                 .aliases = {.max = NAMES_BYTES_MAX},
                 .stars = {.max = NAMES_BYTES_MAX},
                 .bases = {.max = NAMES_BYTES_MAX},
                 .patches = {.max = NAMES_BYTES_MAX}};
    b->n_string_slots = b->n_entry_slots = SLOTS_MIN;
    b->string_slots = memory_zalloc(SLOTS_MIN, sizeof *b->string_slots);
    b->entry_slots = memory_zalloc(SLOTS_MIN, sizeof *b->entry_slots);
    if (!b->string_slots || !b->entry_slots) b->status = CERIUM_ERR_MEMORY;
    (void)string_of(b, VIEW("")); /* string 0 */
    (void)names_scope(b, 0, VIEW("root"), NAMES_NONE);
    int status = b->status;
    if (status) names_close(b);
    return status;
}

void names_close(name_table *b)
{
    bytes_free(&b->strings);
    bytes_free(&b->entries);
    bytes_free(&b->scopes);
    bytes_free(&b->aliases);
    bytes_free(&b->stars);
    bytes_free(&b->bases);
    bytes_free(&b->patches);
    memory_free(b->string_slots);
    memory_free(b->entry_slots);
    b->string_slots = b->entry_slots = NULL;
}

/* ---- what is resolved later ---- */

typedef struct {
    uint32_t in, path;   /* path: NAMES_NONE: an expression in `in` */
    uint32_t member;     /* or the expression */
    bool running, done;
} alias;

typedef struct {
    uint32_t scope, path;
} star;

typedef struct {
    uint32_t in, expression, name;
} patch;

static void add_alias(name_table *b, uint32_t scope, view name, alias a)
{
    uint32_t at = (uint32_t)(b->aliases.len / sizeof a);
    if (append(b, &b->aliases, &a, sizeof a)) names_add(b, scope, name, NAME_ALIAS, at);
}

void names_import(name_table *b, uint32_t scope, view name, view path, view member)
{
    alias a = {.path = string_of(b, path), .member = string_of(b, member)};
    /* The same thing imported twice is one. */
    uint32_t old = names_find(b, scope, name);
    if (old != NAMES_NONE && names_entry_at(b, old)->kind == NAME_ALIAS) {
        const alias *o = (const alias *)b->aliases.ptr + names_entry_at(b, old)->target;
        if (o->path == a.path && o->member == a.member) return;
    }
    add_alias(b, scope, name, a);
}

void names_alias(name_table *b, uint32_t scope, view name, uint32_t in, view expression)
{
    add_alias(b, scope, name, (alias){.in = in, .path = NAMES_NONE,
                                      .member = string_of(b, expression)});
}

void names_star(name_table *b, uint32_t scope, view path)
{
    star s = {scope, string_of(b, path)};
    append(b, &b->stars, &s, sizeof s);
}

void names_base(name_table *b, uint32_t scope, uint32_t in, view expression)
{
    name_base s = {.scope = scope, .in = in, .expression = string_of(b, expression)};
    append(b, &b->bases, &s, sizeof s);
}

void names_base_scope(name_table *b, uint32_t scope, uint32_t base, bool soft)
{
    name_base s = {.scope = scope, .base = base, .soft = soft, .found = true};
    append(b, &b->bases, &s, sizeof s);
}

void names_patch(name_table *b, uint32_t in, view expression, view name)
{
    patch p = {in, string_of(b, expression), string_of(b, name)};
    append(b, &b->patches, &p, sizeof p);
}

uint32_t names_module(name_table *b, view path, uint32_t flags, view label)
{
    uint32_t at = names_find(b, 0, path);
    if (at != NAMES_NONE) return names_entry_at(b, at)->target;
    uint32_t made = names_scope(b, flags | SCOPE_MODULE, label, NAMES_NONE);
    names_add(b, 0, path, NAME_SCOPE, made);
    return b->status ? NAMES_NONE : made;
}

/* ---- resolving ---- */

static int by_scope(const void *a, const void *b)
{
    const name_base *x = a, *y = b;
    if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort_bases(name_table *b)
{
    name_base *list = (name_base *)b->bases.ptr;
    size_t n = b->bases.len / sizeof *list;
    for (size_t i = 0; i < n; i++) list[i].order = (uint32_t)i;
    if (n) qsort(list, n, sizeof *list, by_scope);
}

/* Known bases: those of specifiers are their files.  The list is sorted. */
static const name_base *bases_of(const name_table *b, uint32_t scope, size_t *n)
{
    const name_base *list = (const name_base *)b->bases.ptr;
    size_t from = 0, to = b->bases.len / sizeof *list, all = to;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (list[mid].scope < scope) from = mid + 1;
        else to = mid;
    }
    for (*n = 0; from + *n < all && list[from + *n].scope == scope;) ++*n;
    return all ? list + from : NULL;
}

typedef struct {
    name_kind kind;
    uint32_t target;
} meaning;

static bool resolve_entry(name_table *b, uint32_t at, uint32_t depth, meaning *out);

/* The name in a scope, in the scopes that it takes over, or a module of that name below a
 * package. */
static bool member_of(name_table *b, uint32_t scope, view name, uint32_t depth, meaning *out)
{
    char path[NAMES_WORD_MAX];
    uint32_t at = names_find(b, scope, name);
    /* from . import x, in a package: a module, not itself */
    bool itself = at != NAMES_NONE && names_entry_at(b, at)->kind == NAME_ALIAS &&
                  ((const alias *)b->aliases.ptr)[names_entry_at(b, at)->target].running;
    if (at != NAMES_NONE && !itself) return resolve_entry(b, at, depth + 1, out);
    size_t n_bases;
    const name_base *bases = bases_of(b, scope, &n_bases);
    for (size_t i = 0; i < n_bases; i++) {
        if (!bases[i].found) continue;
        at = names_find(b, bases[i].base, name);
        if (at != NAMES_NONE) return resolve_entry(b, at, depth + 1, out);
    }
    view label = names_text(b, names_scope_at(b, scope)->label);
    if (!(names_scope_at(b, scope)->flags & SCOPE_PACKAGE) ||
        label.len + name.len + 3 > sizeof path)
        return false;
    int n = snprintf(path, sizeof path, "p%.*s.%.*s", (int)label.len, label.ptr, (int)name.len,
                     name.ptr);
    at = names_find(b, 0, (view){path, (size_t)n});
    if (at == NAMES_NONE) return false;
    *out = (meaning){NAME_SCOPE, names_entry_at(b, at)->target};
    return true;
}

static bool resolve_words(name_table *b, uint32_t in, view words, uint32_t depth, meaning *out)
{
    meaning m = {NAME_SCOPE, in};
    bool first = true;
    while (words.len) {
        const char *dot = memchr(words.ptr, '.', words.len);
        view word = {words.ptr, dot ? (size_t)(dot - words.ptr) : words.len};
        if (m.kind != NAME_SCOPE) return false;
        uint32_t scope = m.target;
        while (!member_of(b, scope, word, depth, &m)) {
            scope = first ? names_scope_at(b, scope)->parent : NAMES_NONE;
            if (scope == NAMES_NONE) return false;
        }
        first = false;
        size_t used = word.len + (dot != NULL);
        words = (view){words.ptr + used, words.len - used};
    }
    *out = m;
    return true;
}

static bool resolve_alias(name_table *b, const alias *a, uint32_t depth, meaning *out)
{
    if (a->path == NAMES_NONE) return resolve_words(b, a->in, names_text(b, a->member), depth, out);
    uint32_t at = names_find(b, 0, names_text(b, a->path));
    if (at == NAMES_NONE) return false;
    *out = (meaning){NAME_SCOPE, names_entry_at(b, at)->target};
    view member = names_text(b, a->member);
    return !member.len || member_of(b, out->target, member, depth, out);
}

/* A name that cannot be resolved exists, without known members. */
static bool resolve_entry(name_table *b, uint32_t at, uint32_t depth, meaning *out)
{
    name_entry *e = names_entry_at(b, at);
    *out = (meaning){(name_kind)e->kind, e->target};
    if (e->kind != NAME_ALIAS) return true;
    alias *a = (alias *)b->aliases.ptr + e->target;
    *out = (meaning){NAME_VALUE, 0};
    if (a->running || depth > NAMES_DEPTH_MAX) return true;
    a->running = true;
    meaning found;
    if (resolve_alias(b, a, depth, &found)) *out = found;
    a->running = false;
    if (out->kind == NAME_ALIAS) *out = (meaning){NAME_VALUE, 0};
    e = names_entry_at(b, at);
    e->kind = (uint8_t)out->kind;
    e->target = out->target;
    return true;
}

/* A star of Python leaves out names that begin with '_', one of a script only the default. */
static bool take_scope(name_table *b, uint32_t into, uint32_t from, bool python)
{
    uint32_t n = b->n_entries;
    uint8_t flags = names_scope_at(b, from)->flags;
    for (uint32_t i = names_scope_at(b, from)->first; i && !b->status;) {
        const name_entry e = *names_entry_at(b, i - 1);
        view name = names_text(b, e.name);
        bool taken = flags & SCOPE_ALL ? e.starred : name.len && (!python || name.ptr[0] != '_');
        uint32_t old = taken ? find_entry(b, into, e.name) : NAMES_NONE;
        const bool weak = e.pass == NAMES_WEAK;
        bool is_new = old == NAMES_NONE ||
                      (!weak && names_entry_at(b, old)->pass == NAMES_WEAK);
        if (taken && is_new && (python || !view_equal(name, VIEW("default")))) {
            uint8_t pass = b->pass;
            if (weak) b->pass = NAMES_WEAK; /* of two packages: which one's is unknown */
            names_add(b, into, name, weak ? NAME_VALUE : (name_kind)e.kind, weak ? 0 : e.target);
            b->pass = pass;
        }
        i = e.next;
    }
    return b->n_entries != n;
}

/* One star import; true if it added names. */
static bool take_star(name_table *b, star s)
{
    view path = names_text(b, s.path);
    const bool python = path.len && path.ptr[0] == 'p';
    uint32_t at = names_find(b, 0, path);
    if (at == NAMES_NONE) {
        bool was = names_scope_at(b, s.scope)->flags & SCOPE_OPEN;
        names_open_scope(b, s.scope);
        return !was;
    }
    uint32_t from = names_entry_at(b, at)->target;
    size_t n_bases;
    const name_base *bases = bases_of(b, from, &n_bases);
    bool open = names_scope_at(b, from)->flags & SCOPE_OPEN, typed = false, more = false;
    if (from == s.scope) return false;
    for (size_t i = 0; i < n_bases && !b->status; i++) {
        if (bases[i].found) more |= take_scope(b, s.scope, bases[i].base, python);
        uint8_t flags = bases[i].found ? names_scope_at(b, bases[i].base)->flags : SCOPE_OPEN;
        typed |= (flags & (SCOPE_TYPES | SCOPE_OPEN)) == SCOPE_TYPES;
        open |= flags & SCOPE_OPEN;
    }
    more |= take_scope(b, s.scope, from, python);
    bool opens = open && !typed && !(names_scope_at(b, s.scope)->flags & SCOPE_OPEN);
    if (opens) names_open_scope(b, s.scope);
    return opens || more;
}

static void resolve_stars(name_table *b)
{
    size_t n = b->stars.len / sizeof(star);
    bool more = true;
    for (uint32_t round = 0; round < NAMES_DEPTH_MAX && more && !b->status; round++) {
        more = false;
        for (size_t i = 0; i < n; i++) more |= take_star(b, ((const star *)b->stars.ptr)[i]);
    }
    /* The chain of stars exceeds the limit: these scopes are open. */
    for (size_t i = 0; i < n && more; i++)
        names_open_scope(b, ((const star *)b->stars.ptr)[i].scope);
}

static void resolve_bases(name_table *b)
{
    name_base *list = (name_base *)b->bases.ptr;
    for (size_t i = 0; i < b->bases.len / sizeof *list && !b->status; i++) {
        meaning m;
        if (list[i].found) continue;
        bool found = resolve_words(b, list[i].in, names_text(b, list[i].expression), 0, &m) &&
                     m.kind == NAME_SCOPE && m.target != list[i].scope;
        list[i].found = found;
        if (found) list[i].base = m.target;
        else names_open_scope(b, list[i].scope);
    }
}

/* The scope of a module imported whole; if its files differ in it: the names that all of them
 * have. */
static void unite_default(name_table *b, uint32_t scope, const name_base *list, size_t n)
{
    uint32_t found[NAMES_DEPTH_MAX], n_found = 0;
    bool value = false;
    for (size_t i = 0; i < n; i++) {
        if (list[i].scope != scope || !list[i].found) continue;
        uint32_t at = names_find(b, list[i].base, VIEW("default"));
        if (at == NAMES_NONE) continue;
        const name_entry *e = names_entry_at(b, at);
        bool known = false;
        for (uint32_t k = 0; k < n_found; k++) known |= found[k] == e->target;
        value |= e->kind != NAME_SCOPE || n_found == NAMES_DEPTH_MAX;
        if (e->kind == NAME_SCOPE && !known && n_found < NAMES_DEPTH_MAX)
            found[n_found++] = e->target;
    }
    if (n_found < 2 && !value) return;
    uint32_t made = NAMES_NONE;
    view label = names_text(b, names_scope_at(b, scope)->label);
    if (!value) made = names_scope(b, SCOPE_CLASS, label, NAMES_NONE);
    names_add(b, scope, VIEW("default"), value ? NAME_VALUE : NAME_SCOPE, value ? 0 : made);
    for (uint32_t k = 0; k < n_found && !value && !b->status; k++)
        names_base_scope(b, made, found[k], false);
}

static void unite_defaults(name_table *b)
{
    size_t n = b->bases.len / sizeof(name_base);
    for (size_t i = 0; i + 1 < n && !b->status; i++) {
        const name_base *list = (const name_base *)b->bases.ptr;
        bool module = list[i].found && names_scope_at(b, list[i].scope)->flags & SCOPE_MODULE;
        bool first = module && (!i || list[i - 1].scope != list[i].scope) &&
                     list[i + 1].scope == list[i].scope &&
                     names_find(b, list[i].scope, VIEW("default")) == NAMES_NONE;
        size_t end = i + 1;
        while (first && end < n && list[end].scope == list[i].scope) end++;
        if (first) unite_default(b, list[i].scope, list + i, end - i);
    }
}

/* If declarations list all names of a module, other names of its code do not count. */
static void trust_types(name_table *b)
{
    name_base *list = (name_base *)b->bases.ptr;
    size_t n = b->bases.len / sizeof *list;
    for (size_t i = 0; i < n; i++) {
        bool typed = list[i].found && names_scope_at(b, list[i].base)->flags & SCOPE_MODULE &&
                     (names_scope_at(b, list[i].base)->flags & (SCOPE_TYPES | SCOPE_OPEN)) ==
                         SCOPE_TYPES;
        if (typed && names_scope_at(b, list[i].scope)->flags & SCOPE_MODULE)
            names_scope_at(b, list[i].scope)->flags |= SCOPE_TYPES;
    }
    for (size_t i = 0; i < n; i++) {
        if (!list[i].found) continue;
        bool typed = names_scope_at(b, list[i].scope)->flags & SCOPE_TYPES;
        list[i].soft |= typed && !(names_scope_at(b, list[i].base)->flags & SCOPE_TYPES) &&
                        names_scope_at(b, list[i].base)->flags & SCOPE_MODULE;
    }
}

void names_resolve(name_table *b)
{
    if (b->status) return;
    b->pass++;
    sort_bases(b);
    resolve_stars(b);
    for (size_t i = 0; i < b->patches.len / sizeof(patch) && !b->status; i++) {
        patch p = ((const patch *)b->patches.ptr)[i];
        meaning m;
        if (resolve_words(b, p.in, names_text(b, p.expression), 0, &m) && m.kind == NAME_SCOPE)
            names_add(b, m.target, names_text(b, p.name), NAME_VALUE, 0);
    }
    for (uint32_t i = 0; i < b->n_entries && !b->status; i++) {
        meaning m;
        (void)resolve_entry(b, i, 0, &m);
    }
    resolve_bases(b);
    unite_defaults(b);
    trust_types(b);
}
