/* walker.c - sets of readings: interning, one step, and forgetting. */
#include "sampling/walker.h"

#include "base/memory.h"

enum { ROWS_MIN = 256 };
_Static_assert(WALK_ROWS_BYTES >= 4u * ROWS_MIN * 256, "a walk has room for its steps");
_Static_assert(WALK_DEPTH_MAX < WALK_SETS_MAX / 4, "the deepest text leaves room to go on");
_Static_assert(WALK_READINGS_MAX <= WALK_PAIRS_MAX / 8, "so does the most ambiguous");

/* ---- opening ---- */

static bool take_memory(walker *w)
{
    uint32_t n_classes = w->g->n_classes;
    w->rows_max = WALK_ROWS_BYTES / (4 * n_classes);
    w->table_size = 2 * WALK_SETS_MAX;
    w->path = memory_zalloc(w->path_max, sizeof *w->path);
    w->sets = memory_alloc(WALK_SETS_MAX * sizeof *w->sets);
    w->pairs = memory_alloc(WALK_PAIRS_MAX * sizeof *w->pairs);
    w->rows = memory_alloc((size_t)w->rows_max * n_classes * sizeof *w->rows);
    w->table = memory_zalloc(w->table_size, sizeof *w->table);
    w->found = memory_alloc(WALK_READINGS_MAX * sizeof *w->found);
    w->found_at = memory_alloc(2 * WALK_READINGS_MAX * sizeof *w->found_at);
    w->found_stamp = memory_zalloc(2 * WALK_READINGS_MAX, sizeof *w->found_stamp);
    w->waits = memory_alloc(WALK_READINGS_MAX * sizeof *w->waits);
    w->renamed = memory_alloc(WALK_SETS_MAX * sizeof *w->renamed);
    w->masks = memory_alloc((size_t)w->n_masks * w->mask_words * sizeof *w->masks);
    w->mask_set = memory_alloc(w->n_masks * sizeof *w->mask_set);
    w->mask_time = memory_zalloc(w->n_masks + 1, sizeof *w->mask_time);
    for (uint32_t i = 0; w->mask_set && i < w->n_masks; i++) w->mask_set[i] = WALK_UNKNOWN;
    return w->path && w->sets && w->pairs && w->rows && w->table && w->found && w->found_at &&
           w->found_stamp && w->waits && w->renamed && w->masks && w->mask_set && w->mask_time;
}

int walker_open(walker **out, const grammar *g, uint32_t token_bytes_max, uint32_t mask_words,
                uint32_t n_masks, cerium_error *err)
{
    CHECK(g && g->n_classes > 0);
    walker *w = memory_zalloc(1, sizeof *w);
    if (w) {
        w->g = g;
        w->path_max = token_bytes_max + 1;
        w->mask_words = mask_words;
        w->n_masks = n_masks;
    }
    if (!w || !take_memory(w)) {
        walker_close(&w);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to follow a grammar");
    }
    w->sets[0] = (walk_set){.row = 0, .mask = WALK_UNKNOWN};
    w->n_sets = w->n_rows = 1;
    memset(w->rows, 0, g->n_classes * sizeof *w->rows); /* nowhere leads nowhere */
    *out = w;
    return CERIUM_OK;
}

void walker_close(walker **w)
{
    if (!w || !*w) return;
    void *parts[] = {(*w)->path,     (*w)->sets,        (*w)->pairs,    (*w)->rows,    (*w)->table,
                     (*w)->found,    (*w)->found_at,    (*w)->waits,    (*w)->renamed, (*w)->masks,
                     (*w)->mask_set, (*w)->found_stamp, (*w)->mask_time,   (*w)->classes};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) memory_free(parts[i]);
    memory_free(*w);
    *w = NULL;
}

/* ---- sets ---- */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

static int compare_pairs(const void *a, const void *b)
{
    const walk_pair *x = a, *y = b;
    if (x->state != y->state) return x->state < y->state ? -1 : 1;
    return x->rest < y->rest ? -1 : x->rest > y->rest;
}

/* Pairs are few: sorting as they are inserted is the fastest there is. */
static uint32_t sort_pairs(walk_pair *pairs, uint32_t n)
{
    if (n > 16) {
        qsort(pairs, n, sizeof *pairs, compare_pairs);
    } else {
        for (uint32_t i = 1; i < n; i++) {
            walk_pair p = pairs[i];
            uint32_t at = i;
            for (; at > 0 && compare_pairs(&pairs[at - 1], &p) > 0; at--) pairs[at] = pairs[at - 1];
            pairs[at] = p;
        }
    }
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || compare_pairs(&pairs[n_kept - 1], &pairs[i]) != 0) pairs[n_kept++] = pairs[i];
    return n_kept;
}

static void describe_set(walker *w, walk_set *set)
{
    const walk_pair *pairs = w->pairs + set->first;
    for (uint32_t i = 0; i < set->n; i++) {
        const grammar_state *s = &w->g->states[pairs[i].state];
        uint16_t depth = (uint16_t)(w->sets[pairs[i].rest].depth + 1);
        if (depth > set->depth) set->depth = depth;
        if (s->run > set->run) set->run = s->run;
        if (s->most > set->most) set->most = s->most;
        set->is_complete |= pairs[i].state == GRAMMAR_END;
    }
}

/* The set of pairs[n], which are sorted here.  NOWHERE when there is none, when it is too deep, or
 * when there is no room (is_full). */
static uint32_t intern(walker *w, walk_pair *pairs, uint32_t n)
{
    n = sort_pairs(pairs, n);
    if (n == 0) return WALK_NOWHERE;
    uint32_t hash = n;
    for (uint32_t i = 0; i < n; i++) hash = mix(mix(hash, pairs[i].state), pairs[i].rest);
    uint32_t at = hash;
    for (; w->table[at & (w->table_size - 1)]; at++) {
        uint32_t known = w->table[at & (w->table_size - 1)] - 1;
        const walk_set *set = &w->sets[known];
        if (set->hash == hash && set->n == n &&
            !memcmp(w->pairs + set->first, pairs, n * sizeof *pairs))
            return known;
    }
    if (w->n_sets == WALK_SETS_MAX || n > WALK_PAIRS_MAX - w->n_pairs) {
        w->is_full = true;
        return WALK_NOWHERE;
    }
    walk_set *set = &w->sets[w->n_sets];
    *set = (walk_set){
        .first = w->n_pairs, .n = n, .hash = hash, .row = WALK_UNKNOWN, .mask = WALK_UNKNOWN};
    memcpy(w->pairs + w->n_pairs, pairs, n * sizeof *pairs);
    describe_set(w, set);
    if (set->depth > WALK_DEPTH_MAX) return WALK_NOWHERE;
    w->n_pairs += n;
    w->table[at & (w->table_size - 1)] = ++w->n_sets;
    return w->n_sets - 1;
}

/* ---- forgetting ---- */

static void keep(walker *w, uint32_t *number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) w->renamed[number[i]] = 1;
}

static void rename_all(const walker *w, uint32_t *number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) number[i] = w->renamed[number[i]];
}

/* Move what is kept to the front; sets are after those that they go on with. */
static void move_sets(walker *w)
{
    uint32_t n_sets = 1, n_pairs = 0;
    w->renamed[0] = 0;
    memset(w->table, 0, w->table_size * sizeof *w->table);
    for (uint32_t i = 1; i < w->n_sets; i++) {
        if (!w->renamed[i]) continue;
        walk_set set = w->sets[i];
        uint32_t hash = set.n;
        for (uint32_t k = 0; k < set.n; k++) {
            walk_pair p = w->pairs[set.first + k];
            p.rest = w->renamed[p.rest]; /* the order stays */
            w->pairs[n_pairs + k] = p;
            hash = mix(mix(hash, p.state), p.rest);
        }
        set.first = n_pairs;
        set.hash = hash;
        set.row = WALK_UNKNOWN;
        n_pairs += set.n;
        w->renamed[i] = n_sets;
        w->sets[n_sets++] = set;
        uint32_t at = hash;
        while (w->table[at & (w->table_size - 1)]) at++;
        w->table[at & (w->table_size - 1)] = n_sets;
    }
    w->n_sets = n_sets;
    w->n_pairs = n_pairs;
    w->n_rows = 1;
}

/* Keep the places that are held, and what they go on with. */
static void collect(walker *w)
{
    uint32_t n_before = w->n_sets;
    w->n_collected++;
    memset(w->renamed, 0, n_before * sizeof *w->renamed);
    keep(w, w->slots, WALK_SLOTS);
    keep(w, w->path, w->n_path);
    for (uint32_t i = n_before; i-- > 1;) {
        if (!w->renamed[i]) continue;
        for (uint32_t k = 0; k < w->sets[i].n; k++)
            w->renamed[w->pairs[w->sets[i].first + k].rest] = 1;
    }
    move_sets(w);
    rename_all(w, w->slots, WALK_SLOTS);
    rename_all(w, w->path, w->n_path);
    for (uint32_t i = 0; i < w->n_masks; i++) {
        uint32_t set = w->mask_set[i];
        if (set != WALK_UNKNOWN) w->mask_set[i] = w->renamed[set] ? w->renamed[set] : WALK_UNKNOWN;
    }
    w->is_full = false;
}

/* ---- one step ---- */

static void find(walker *w, walk_pair p)
{
    uint32_t mask = 2 * WALK_READINGS_MAX - 1, at = mix(p.state, p.rest);
    _Static_assert((WALK_READINGS_MAX & (WALK_READINGS_MAX - 1)) == 0, "a mask");
    for (; w->found_stamp[at & mask] == w->stamp; at++) {
        const walk_pair *known = &w->found[w->found_at[at & mask]];
        if (known->state == p.state && known->rest == p.rest) return;
    }
    if (w->n_found == WALK_READINGS_MAX) {
        w->is_full = true;
        return;
    }
    w->found_stamp[at & mask] = w->stamp;
    w->found_at[at & mask] = w->n_found;
    w->found[w->n_found++] = p;
}

static void wait_for(walker *w, uint32_t rule, walk_pair back)
{
    if (w->n_waits == WALK_READINGS_MAX) {
        w->is_full = true;
        return;
    }
    w->waits[w->n_waits++] = (walk_wait){rule, back};
}

/* What a reading leads to without reading: where its rule ends, its callers; where it calls, those
 * that wait.  A last call hands its callers on, so that lists do not nest. */
static void follow(walker *w, walk_pair p)
{
    const grammar_state *s = &w->g->states[p.state];
    const walk_set *rest = &w->sets[p.rest];
    for (uint32_t i = 0; s->is_final && i < rest->n; i++) find(w, w->pairs[rest->first + i]);
    for (uint32_t k = s->first_call; k < s[1].first_call && !w->is_full; k++) {
        grammar_call call = w->g->calls[k];
        if (!call.is_last) wait_for(w, call.rule, (walk_pair){call.to, p.rest});
        for (uint32_t i = 0; call.is_last && i < rest->n; i++)
            wait_for(w, call.rule, w->pairs[rest->first + i]);
    }
}

/* Enter the first of the rules that are waited for; later ones may be waited for by its start. */
static void enter_rule(walker *w)
{
    uint32_t rule = w->waits[0].rule, n = 0, n_left = 0;
    for (uint32_t i = 1; i < w->n_waits; i++)
        if (w->waits[i].rule < rule) rule = w->waits[i].rule;
    walk_pair *pairs = w->found + w->n_found; /* room behind what was found */
    for (uint32_t i = 0; i < w->n_waits; i++) {
        walk_wait wait = w->waits[i];
        if (wait.rule != rule)
            w->waits[n_left++] = wait;
        else if (w->n_found + n < WALK_READINGS_MAX)
            pairs[n++] = wait.back;
        else
            w->is_full = true;
    }
    w->n_waits = n_left;
    uint32_t rest = intern(w, pairs, n);
    if (rest != WALK_NOWHERE) find(w, (walk_pair){w->g->starts[rule], rest});
}

/* Whether a place must know of it: it reads, ends the text, or says what may follow. */
static bool matters(const walker *w, walk_pair p)
{
    const grammar_state *s = &w->g->states[p.state];
    return s->first_edge != s[1].first_edge || s->run || s->most || p.state == GRAMMAR_END;
}

/* The place of all that was found, and of what that leads to. */
static uint32_t settle(walker *w)
{
    uint32_t n = 0, at = 0;
    while (!w->is_full) {
        for (; at < w->n_found && !w->is_full; at++) follow(w, w->found[at]);
        if (w->n_waits == 0 || w->is_full) break;
        enter_rule(w);
    }
    if (w->is_full) return WALK_NOWHERE;
    for (uint32_t i = 0; i < w->n_found; i++)
        if (matters(w, w->found[i])) w->found[n++] = w->found[i];
    return intern(w, w->found, n);
}

static void begin_step(walker *w)
{
    w->n_found = w->n_waits = 0;
    if (++w->stamp == 0) { /* after 2^32 steps old stamps could be taken for new ones */
        memset(w->found_stamp, 0, 2 * WALK_READINGS_MAX * sizeof *w->found_stamp);
        w->stamp = 1;
    }
}

static uint32_t step(walker *w, uint32_t from, uint8_t byte)
{
    const walk_set *set = &w->sets[from];
    begin_step(w);
    for (uint32_t i = 0; i < set->n; i++) {
        walk_pair p = w->pairs[set->first + i];
        const grammar_state *s = &w->g->states[p.state];
        uint32_t lo = s->first_edge, hi = s[1].first_edge;
        while (lo < hi) { /* the first edge that does not end before byte */
            uint32_t middle = lo + (hi - lo) / 2;
            if (w->g->edges[middle].hi < byte)
                lo = middle + 1;
            else
                hi = middle;
        }
        if (lo < s[1].first_edge && w->g->edges[lo].lo <= byte)
            find(w, (walk_pair){w->g->edges[lo].to, p.rest});
    }
    return settle(w);
}

/* A row for what follows `from`; false when there is none left. */
static bool need_row(walker *w, uint32_t from)
{
    if (w->sets[from].row != WALK_UNKNOWN) return true;
    if (w->n_rows == w->rows_max) return false;
    uint32_t *row = w->rows + (size_t)w->n_rows * w->g->n_classes;
    for (uint32_t i = 0; i < w->g->n_classes; i++) row[i] = WALK_UNKNOWN;
    w->sets[from].row = w->n_rows++;
    return true;
}

uint32_t walker_work_out(walker *w, const uint32_t *from, uint32_t class_)
{
    uint32_t to = WALK_NOWHERE;
    for (int attempt = 0; attempt < 2; attempt++) {
        w->is_full = false;
        if (attempt > 0) collect(w);
        if (!need_row(w, *from)) continue;
        to = step(w, *from, w->g->byte_of[class_]);
        if (!w->is_full) break;
        to = WALK_NOWHERE; /* also when it does not fit at all */
    }
    w->is_full = false;
    if (w->sets[*from].row != WALK_UNKNOWN)
        w->rows[(size_t)w->sets[*from].row * w->g->n_classes + class_] = to;
    return to;
}

/* ---- texts ---- */

void walker_begin(walker *w, uint32_t slot)
{
    const grammar *g = w->g;
    uint32_t to = WALK_NOWHERE;
    for (int attempt = 0; attempt < 2; attempt++) {
        w->is_full = false;
        if (attempt > 0) collect(w);
        begin_step(w);
        walk_pair end = {GRAMMAR_END, WALK_NOWHERE};
        if (g->takes_empty) find(w, end);
        if (g->n_rules > 0) wait_for(w, g->root, end);
        to = settle(w);
        if (!w->is_full) break;
    }
    w->is_full = false;
    w->slots[slot] = to;
}

bool walker_feed(walker *w, uint32_t from, uint32_t to, view text)
{
    w->n_path = 1;
    w->path[0] = w->slots[from];
    for (size_t i = 0; i < text.len && w->path[0] != WALK_NOWHERE; i++)
        w->path[0] = walker_next(w, &w->path[0], w->g->class_of[(uint8_t)text.ptr[i]]);
    w->n_path = 0;
    if (w->path[0] == WALK_NOWHERE) return false;
    w->slots[to] = w->path[0];
    return true;
}

/* The only byte that can follow, or -1. */
static int only_byte(walker *w, const uint32_t *at)
{
    int only = -1;
    const grammar *g = w->g;
    for (uint32_t c = 0; c < g->n_classes; c++) {
        if (walker_next(w, at, c) == WALK_NOWHERE) continue;
        uint32_t byte = g->byte_of[c];
        bool is_one = byte == 255 || g->class_of[byte + 1] != c;
        if (only >= 0 || !is_one) return -1;
        only = (int)byte;
    }
    return only;
}

size_t walker_forced(walker *w, uint32_t slot, char *out, size_t cap)
{
    size_t n = 0;
    w->n_path = 1;
    w->path[0] = w->slots[slot];
    while (n < cap && !w->sets[w->path[0]].is_complete) {
        int byte = only_byte(w, &w->path[0]);
        if (byte < 0) break;
        out[n++] = (char)byte;
        w->path[0] = walker_next(w, &w->path[0], w->g->class_of[byte]);
    }
    w->n_path = 0;
    return n;
}
