/* index.c - the sealed block: writing, checking, looking up. */
#include "exists/index.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

enum { INDEX_VERSION = 3, WALK_MAX = 64, SOFT = 1u << 31, SLOT_BITS = 24 };

_Static_assert(NAMES_MAX <= 1u << SLOT_BITS, "a slot has the place of a name in its scope");

typedef struct {
    char magic[8];
    uint32_t version, n_scopes, n_entries, n_bases, n_slots, n_strings; /* bytes of strings */
    uint64_t environment, size, check; /* checksum of all bytes after the header */
} header;

typedef struct {
    uint32_t label, first, n, base, n_bases, flags;
} scope;

typedef struct {
    uint32_t name, target, kind;
} entry;

struct names_index {
    const header *head;
    const scope *scopes;
    const entry *entries;
    const uint32_t *bases, *slots;
    const char *strings;
    void *block; /* owned, or NULL */
    size_t size;
};

static const char magic[8] = "ceNAMES";

static view text_at(const names_index *x, uint32_t at)
{
    uint16_t n;
    memcpy(&n, x->strings + at, sizeof n);
    return (view){x->strings + at + sizeof n, n};
}

/* ---- places of the parts ---- */

static size_t size_of(const header *h)
{
    return sizeof *h + (size_t)h->n_scopes * sizeof(scope) + (size_t)h->n_entries * sizeof(entry) +
           ((size_t)h->n_bases + h->n_slots) * sizeof(uint32_t) + h->n_strings;
}

static void place(names_index *x, const void *block)
{
    x->head = block;
    x->scopes = (const scope *)(x->head + 1);
    x->entries = (const entry *)(x->scopes + x->head->n_scopes);
    x->bases = (const uint32_t *)(x->entries + x->head->n_entries);
    x->slots = x->bases + x->head->n_bases;
    x->strings = (const char *)(x->slots + x->head->n_slots);
}

/* ---- slots: two for each entry of a scope; empty, or a tag and the place of the entry ---- */

static uint64_t name_hash(view name) { return hash_bytes(name.ptr, name.len, 0); }

static uint32_t slot_tag(uint64_t hash) { return ((uint32_t)(hash >> 57) << 1 | 1) << SLOT_BITS; }

static uint32_t slot_place(uint32_t slot) { return slot & ((1u << SLOT_BITS) - 1); }

static uint32_t n_slots(const scope *s) { return 2 * s->n; }

static uint32_t first_slot(const scope *s, uint64_t hash)
{
    return (uint32_t)((hash & UINT32_MAX) * n_slots(s) >> 32);
}

static uint32_t next_slot(const scope *s, uint32_t at) { return at + 1 < n_slots(s) ? at + 1 : 0; }

static uint64_t check_of(const header *h)
{
    return hash_bytes(h + 1, size_of(h) - sizeof *h, h->environment);
}

/* ---- making ---- */

static void seal_entries(const name_table *b, names_index *x)
{
    scope *scopes = (scope *)(uintptr_t)x->scopes;
    entry *entries = (entry *)(uintptr_t)x->entries;
    uint32_t n = 0;
    for (uint32_t s = 0; s < b->n_scopes; s++) {
        const name_scope *from = names_scope_at(b, s);
        scopes[s] = (scope){.label = from->label, .first = n, .flags = from->flags};
        for (uint32_t i = from->first; i; i = names_entry_at(b, i - 1)->next) {
            const name_entry *e = names_entry_at(b, i - 1);
            bool leads = e->kind == NAME_SCOPE || e->kind == NAME_CALL;
            entries[n++] = (entry){e->name, leads ? e->target : 0, leads ? e->kind : NAME_VALUE};
        }
        scopes[s].n = n - scopes[s].first;
    }
}

static void seal_bases(const name_table *b, names_index *x)
{
    scope *scopes = (scope *)(uintptr_t)x->scopes;
    uint32_t *bases = (uint32_t *)(uintptr_t)x->bases, n = 0;
    const name_base *list = (const name_base *)b->bases.ptr;
    size_t n_list = b->bases.len / sizeof *list;
    for (size_t i = 0; i < n_list; i++) scopes[list[i].scope].n_bases += list[i].found;
    for (uint32_t s = 0; s < b->n_scopes; s++) {
        scopes[s].base = n;
        n += scopes[s].n_bases;
        scopes[s].n_bases = 0;
    }
    for (size_t i = 0; i < n_list; i++) {
        if (!list[i].found) continue;
        scope *s = &scopes[list[i].scope];
        bases[s->base + s->n_bases++] = list[i].base | (list[i].soft ? SOFT : 0);
    }
}

static void seal_slots(names_index *x)
{
    for (uint32_t in = 0; in < x->head->n_scopes; in++) {
        const scope *s = &x->scopes[in];
        uint32_t *slots = (uint32_t *)(uintptr_t)x->slots + 2 * (size_t)s->first;
        for (uint32_t i = 0; i < s->n; i++) {
            uint64_t hash = name_hash(text_at(x, x->entries[s->first + i].name));
            uint32_t at = first_slot(s, hash);
            while (slots[at]) at = next_slot(s, at);
            slots[at] = slot_tag(hash) | i;
        }
    }
}

int index_seal(names_index **out, const name_table *b, uint64_t environment, cerium_error *err)
{
    header h = {.version = INDEX_VERSION, .n_scopes = b->n_scopes, .n_entries = b->n_entries,
                .n_slots = 2 * b->n_entries, .n_strings = (uint32_t)b->strings.len,
                .environment = environment};
    const name_base *list = (const name_base *)b->bases.ptr;
    if (b->status) return error_set(err, b->status, "no memory for the names of an environment");
    memcpy(h.magic, magic, sizeof magic);
    for (size_t i = 0; i < b->bases.len / sizeof *list; i++) h.n_bases += list[i].found;
    h.size = size_of(&h);
    names_index *x = memory_zalloc(1, sizeof *x);
    void *block = x ? memory_map(h.size) : NULL;
    if (!block) {
        memory_free(x);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the names of an environment");
    }
    x->block = block;
    x->size = h.size;
    memcpy(block, &h, sizeof h);
    place(x, block);
    memcpy((char *)(uintptr_t)x->strings, b->strings.ptr, b->strings.len);
    seal_entries(b, x);
    seal_bases(b, x);
    seal_slots(x);
    ((header *)block)->check = check_of(block);
    *out = x;
    return CERIUM_OK;
}

/* ---- files ---- */

static bool string_is_sound(const names_index *x, uint32_t at)
{
    uint32_t n = x->head->n_strings;
    uint16_t len;
    if (at > n || n - at < sizeof len + 1) return false;
    memcpy(&len, x->strings + at, sizeof len);
    return len <= n - at - sizeof len - 1 && len <= NAMES_WORD_MAX;
}

/* Do the slots lead to its entries, and is one empty? */
static bool slots_are_sound(const names_index *x, const scope *s)
{
    const uint32_t *slots = x->slots + 2 * (size_t)s->first;
    bool empty = !s->n;
    for (uint32_t i = 0; i < n_slots(s); i++) {
        empty |= !slots[i];
        if (slots[i] && slot_place(slots[i]) >= s->n) return false;
    }
    return empty;
}

static bool is_sound(const names_index *x)
{
    const header *h = x->head;
    for (uint32_t i = 0; i < h->n_scopes; i++) {
        const scope *s = &x->scopes[i];
        if (s->first > h->n_entries || s->n > h->n_entries - s->first) return false;
        if (s->base > h->n_bases || s->n_bases > h->n_bases - s->base) return false;
        if (!string_is_sound(x, s->label) || !slots_are_sound(x, s)) return false;
    }
    for (uint32_t i = 0; i < h->n_entries; i++) {
        const entry *e = &x->entries[i];
        if (!string_is_sound(x, e->name) || e->kind >= NAME_ALIAS) return false;
        if (e->kind != NAME_VALUE && e->target >= h->n_scopes) return false;
    }
    for (uint32_t i = 0; i < h->n_bases; i++)
        if ((x->bases[i] & ~SOFT) >= h->n_scopes) return false;
    return h->n_scopes;
}

/* The bytes are borrowed. */
static int check(names_index **out, const void *from, size_t size, uint64_t environment,
                 cerium_error *err)
{
    const header *h = from;
    if (size < sizeof *h || memcmp(h->magic, magic, sizeof magic) || h->version != INDEX_VERSION)
        return error_set(err, CERIUM_ERR_FORMAT, "not an index of names of this version");
    if (environment && h->environment != environment)
        return error_set(err, CERIUM_ERR_FORMAT, "the index of names is of another environment");
    bool whole = h->size == size && size_of(h) == size && h->n_entries <= NAMES_MAX &&
                 h->n_slots == 2 * h->n_entries && check_of(h) == h->check;
    names_index *x = whole ? memory_zalloc(1, sizeof *x) : NULL;
    if (whole && !x) return error_set(err, CERIUM_ERR_MEMORY, "no memory for an index of names");
    if (whole) place(x, from);
    if (!whole || !is_sound(x)) {
        memory_free(x);
        return error_set(err, CERIUM_ERR_FORMAT, "the index of names is damaged");
    }
    *out = x;
    return CERIUM_OK;
}

int index_map(names_index **out, const char *path, uint64_t environment, cerium_error *err)
{
    struct stat at;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    file_used(fd);
    bool plain = !fstat(fd, &at) && S_ISREG(at.st_mode) && at.st_size > 0;
    void *block = plain ? memory_map_file(fd, 0, (size_t)at.st_size) : NULL;
    close(fd);
    if (!block) return error_set(err, CERIUM_ERR_IO, "%s: cannot be mapped", path);
    int status = check(out, block, (size_t)at.st_size, environment, err);
    if (status) memory_unmap(block, (size_t)at.st_size);
    else {
        (*out)->block = block;
        (*out)->size = (size_t)at.st_size;
    }
    return status;
}

int index_write(const names_index *x, const char *path, cerium_error *err)
{
    char beside[4096 + 16];
    if (snprintf(beside, sizeof beside, "%s.%d", path, (int)getpid()) >= (int)sizeof beside)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: too long a path", path);
    file_make_folders(beside);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int why = fd < 0 ? errno : file_lacks_room(fd, x->head->size);
    if (!why) why = file_write_at(fd, x->head, x->head->size, 0);
    if (!why && fsync(fd)) why = errno;
    if (fd >= 0) close(fd);
    if (!why && rename(beside, path)) why = errno;
    if (!why) return CERIUM_OK;
    if (fd >= 0) (void)unlink(beside);
    return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(why));
}

void index_close(names_index **x)
{
    if (!x || !*x) return;
    if ((*x)->block) memory_unmap((*x)->block, (*x)->size);
    memory_free(*x);
    *x = NULL;
}

/* ---- looking up ---- */

static const entry *find_entry(const names_index *x, uint32_t in, view name, uint64_t hash)
{
    const scope *s = &x->scopes[in];
    const uint32_t *slots = x->slots + 2 * (size_t)s->first, tag = slot_tag(hash);
    if (!s->n) return NULL;
    for (uint32_t at = first_slot(s, hash); slots[at]; at = next_slot(s, at)) {
        const entry *e = &x->entries[s->first + slot_place(slots[at])];
        if (slots[at] - slot_place(slots[at]) == tag && view_equal(text_at(x, e->name), name))
            return e;
    }
    return NULL;
}

static const entry *own_entry(const names_index *x, uint32_t in, view name)
{
    return find_entry(x, in, name, name_hash(name));
}

/* The scope and all those that it takes over, in the order in which a class searches them. */
typedef struct {
    uint32_t seen[WALK_MAX]; /* a scope, with SOFT */
    uint32_t n;
    bool too_many;
} walk;

static void walk_over(const names_index *x, uint32_t from, walk *w)
{
    w->seen[0] = from;
    w->n = 1;
    w->too_many = false;
    for (uint32_t i = 0; i < w->n; i++) {
        const scope *s = &x->scopes[w->seen[i] & ~SOFT];
        for (uint32_t k = 0; k < s->n_bases; k++) {
            uint32_t next = x->bases[s->base + k] | (w->seen[i] & SOFT);
            bool seen = false;
            for (uint32_t m = 0; m < w->n && !seen; m++)
                seen = (w->seen[m] & ~SOFT) == (next & ~SOFT);
            if (seen) continue;
            if (w->n == WALK_MAX) w->too_many = true;
            else w->seen[w->n++] = next;
        }
    }
}

index_answer index_find(const names_index *x, uint32_t in, view name, index_name *out)
{
    walk w;
    const uint64_t hash = name_hash(name);
    const entry *e = find_entry(x, in, name, hash);
    bool open = false;
    *out = (index_name){NAME_VALUE, 0};
    if (!e) {
        walk_over(x, in, &w);
        for (uint32_t i = 0; i < w.n && !e; i++) {
            if (i) e = find_entry(x, w.seen[i] & ~SOFT, name, hash);
            open |= !(w.seen[i] & SOFT) && x->scopes[w.seen[i]].flags & SCOPE_OPEN;
        }
        open |= w.too_many;
    }
    if (!e) return open ? INDEX_UNKNOWN : INDEX_NOT;
    *out = (index_name){(uint8_t)e->kind, e->target};
    return INDEX_THERE;
}

bool index_has(const names_index *x, uint32_t in, view name) { return own_entry(x, in, name); }

index_answer index_first(const names_index *x, uint32_t in, const view *names_, uint32_t n,
                         uint32_t *which, index_name *out)
{
    walk w;
    walk_over(x, in, &w);
    for (uint32_t i = 0; i < w.n; i++) {
        uint32_t at = w.seen[i] & ~SOFT;
        if (x->scopes[at].flags & SCOPE_OPEN) return INDEX_UNKNOWN;
        for (uint32_t k = 0; k < n; k++) {
            const entry *e = own_entry(x, at, names_[k]);
            if (!e) continue;
            *which = k;
            *out = (index_name){(uint8_t)e->kind, e->target};
            /* Both are asked. */
            for (uint32_t m = k + 1; m < n; m++)
                if (own_entry(x, at, names_[m])) return INDEX_UNKNOWN;
            return INDEX_THERE;
        }
    }
    return w.too_many ? INDEX_UNKNOWN : INDEX_NOT;
}

index_answer index_module(const names_index *x, char letter, view path, uint32_t *out)
{
    char whole[NAMES_WORD_MAX];
    index_name found;
    if (path.len + 1 > sizeof whole) return INDEX_UNKNOWN;
    whole[0] = letter;
    memcpy(whole + 1, path.ptr, path.len);
    index_answer a = index_find(x, 0, (view){whole, path.len + 1}, &found);
    if (a == INDEX_THERE) *out = found.target;
    return a;
}

uint8_t index_flags(const names_index *x, uint32_t in) { return (uint8_t)x->scopes[in].flags; }

view index_label(const names_index *x, uint32_t in) { return text_at(x, x->scopes[in].label); }

void index_each(const names_index *x, uint32_t in, bool (*each)(void *user, view name), void *user)
{
    walk w;
    walk_over(x, in, &w);
    for (uint32_t i = 0; i < w.n; i++) {
        const scope *s = &x->scopes[w.seen[i] & ~SOFT];
        for (uint32_t k = s->first; k < s->first + s->n; k++)
            if (!each(user, text_at(x, x->entries[k].name))) return;
    }
}

bool index_elsewhere(const names_index *x, char letter, view below, view name, view *path)
{
    bool found = false;
    for (uint32_t i = x->scopes[0].first; i < x->scopes[0].first + x->scopes[0].n; i++) {
        view at = text_at(x, x->entries[i].name);
        if (!at.len || at.ptr[0] != letter) continue;
        at = (view){at.ptr + 1, at.len - 1};
        if (!view_starts(at, below) || (found && at.len >= path->len)) continue;
        if (at.len > below.len && !strchr("./", at.ptr[below.len])) continue;
        if (memchr(at.ptr, '_', at.len) || !own_entry(x, x->entries[i].target, name)) continue;
        *path = at;
        found = true;
    }
    return found;
}
