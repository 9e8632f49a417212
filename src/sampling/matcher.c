/* matcher.c - sets of parses: interning, one step, and garbage collection. */
#include "sampling/matcher.h"

#include "base/memory.h"

enum { ROWS_MIN = 256 };
_Static_assert(MATCH_ROWS_BYTES >= 4u * ROWS_MIN * 256, "the cached transitions have enough rows");
_Static_assert(MATCH_DEPTH_MAX < MATCH_SETS_MAX / 4, "the deepest text leaves space to continue");
_Static_assert(MATCH_READINGS_MAX <= MATCH_PAIRS_MAX / 8, "so does the most ambiguous");

/* ---- opening ---- */

static bool matcher_alloc(matcher *m)
{
    uint32_t n_classes = m->g->n_classes;
    m->rows_max = MATCH_ROWS_BYTES / (4 * n_classes);
    m->table_size = 2 * MATCH_SETS_MAX;
    m->path = memory_zalloc(m->path_max, sizeof *m->path);
    m->sets = memory_alloc(MATCH_SETS_MAX * sizeof *m->sets);
    m->pairs = memory_alloc(MATCH_PAIRS_MAX * sizeof *m->pairs);
    m->rows = memory_alloc((size_t)m->rows_max * n_classes * sizeof *m->rows);
    m->table = memory_zalloc(m->table_size, sizeof *m->table);
    m->found = memory_alloc(MATCH_READINGS_MAX * sizeof *m->found);
    m->found_at = memory_alloc(2 * MATCH_READINGS_MAX * sizeof *m->found_at);
    m->found_stamp = memory_zalloc(2 * MATCH_READINGS_MAX, sizeof *m->found_stamp);
    m->waits = memory_alloc(MATCH_READINGS_MAX * sizeof *m->waits);
    m->renamed = memory_alloc(MATCH_SETS_MAX * sizeof *m->renamed);
    m->masks = memory_alloc((size_t)m->n_masks * m->mask_words * sizeof *m->masks);
    m->mask_set = memory_alloc(m->n_masks * sizeof *m->mask_set);
    m->mask_time = memory_zalloc(m->n_masks + 1, sizeof *m->mask_time);
    for (uint32_t i = 0; m->mask_set && i < m->n_masks; i++) m->mask_set[i] = MATCH_UNKNOWN;
    return m->path && m->sets && m->pairs && m->rows && m->table && m->found && m->found_at &&
           m->found_stamp && m->waits && m->renamed && m->masks && m->mask_set && m->mask_time;
}

int matcher_open(matcher **out, const grammar *g, uint32_t token_bytes_max, uint32_t mask_words,
                 uint32_t n_masks, cerium_error *err)
{
    CHECK(g && g->n_classes > 0);
    matcher *m = memory_zalloc(1, sizeof *m);
    if (m) {
        m->g = g;
        m->path_max = token_bytes_max + 1;
        m->mask_words = mask_words;
        m->n_masks = n_masks;
    }
    if (!m || !matcher_alloc(m)) {
        matcher_close(&m);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to follow a grammar");
    }
    m->sets[0] = (match_set){.row = 0, .mask = MATCH_UNKNOWN};
    m->n_sets = m->n_rows = 1;
    memset(m->rows, 0, g->n_classes * sizeof *m->rows); /* nowhere has no edges */
    *out = m;
    return CERIUM_OK;
}

void matcher_close(matcher **m)
{
    if (!m || !*m) return;
    void *parts[] = {(*m)->path,     (*m)->sets,        (*m)->pairs,    (*m)->rows,    (*m)->table,
                     (*m)->found,    (*m)->found_at,    (*m)->waits,    (*m)->renamed, (*m)->masks,
                     (*m)->mask_set, (*m)->found_stamp, (*m)->mask_time,   (*m)->classes};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) memory_free(parts[i]);
    memory_free(*m);
    *m = NULL;
}

/* ---- sets ---- */

static uint32_t matcher_hash(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

static int compare_pairs(const void *a, const void *b)
{
    const match_pair *x = a, *y = b;
    if (x->state != y->state) return x->state < y->state ? -1 : 1;
    return x->rest < y->rest ? -1 : x->rest > y->rest;
}

/* Sets are small: insertion sort is fastest. */
static uint32_t sort_pairs(match_pair *pairs, uint32_t n)
{
    if (n > 16) {
        qsort(pairs, n, sizeof *pairs, compare_pairs);
    } else {
        for (uint32_t i = 1; i < n; i++) {
            match_pair p = pairs[i];
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

static void describe_set(matcher *m, match_set *set)
{
    const match_pair *pairs = m->pairs + set->first;
    for (uint32_t i = 0; i < set->n; i++) {
        const grammar_state *s = &m->g->states[pairs[i].state];
        uint16_t depth = (uint16_t)(m->sets[pairs[i].rest].depth + 1);
        if (depth > set->depth) set->depth = depth;
        if (s->run > set->run) set->run = s->run;
        if (s->most > set->most) set->most = s->most;
        set->is_complete |= pairs[i].state == GRAMMAR_END;
    }
}

/* The set of pairs[n], which are sorted here.  NOWHERE: there is none, it is too deep, or out of
 * space (is_full). */
static uint32_t matcher_intern(matcher *m, match_pair *pairs, uint32_t n)
{
    n = sort_pairs(pairs, n);
    if (n == 0) return MATCH_NOWHERE;
    uint32_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = matcher_hash(matcher_hash(hash, pairs[i].state), pairs[i].rest);
    uint32_t at = hash;
    for (; m->table[at & (m->table_size - 1)]; at++) {
        uint32_t known = m->table[at & (m->table_size - 1)] - 1;
        const match_set *set = &m->sets[known];
        if (set->hash == hash && set->n == n &&
            !memcmp(m->pairs + set->first, pairs, n * sizeof *pairs))
            return known;
    }
    if (m->n_sets == MATCH_SETS_MAX || n > MATCH_PAIRS_MAX - m->n_pairs) {
        m->is_full = true;
        return MATCH_NOWHERE;
    }
    match_set *set = &m->sets[m->n_sets];
    *set = (match_set){
        .first = m->n_pairs, .n = n, .hash = hash, .row = MATCH_UNKNOWN, .mask = MATCH_UNKNOWN};
    memcpy(m->pairs + m->n_pairs, pairs, n * sizeof *pairs);
    describe_set(m, set);
    if (set->depth > MATCH_DEPTH_MAX) return MATCH_NOWHERE;
    m->n_pairs += n;
    m->table[at & (m->table_size - 1)] = ++m->n_sets;
    return m->n_sets - 1;
}

/* ---- garbage collection ---- */

static void matcher_hold(matcher *m, uint32_t *number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) m->renamed[number[i]] = 1;
}

static void rename_all(const matcher *m, uint32_t *number, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) number[i] = m->renamed[number[i]];
}

/* Compact the live sets; a set comes after its continuations. */
static void move_sets(matcher *m)
{
    uint32_t n_sets = 1, n_pairs = 0;
    m->renamed[0] = 0;
    memset(m->table, 0, m->table_size * sizeof *m->table);
    for (uint32_t i = 1; i < m->n_sets; i++) {
        if (!m->renamed[i]) continue;
        match_set set = m->sets[i];
        uint32_t hash = set.n;
        for (uint32_t k = 0; k < set.n; k++) {
            match_pair p = m->pairs[set.first + k];
            p.rest = m->renamed[p.rest]; /* the order stays */
            m->pairs[n_pairs + k] = p;
            hash = matcher_hash(matcher_hash(hash, p.state), p.rest);
        }
        set.first = n_pairs;
        set.hash = hash;
        set.row = MATCH_UNKNOWN;
        n_pairs += set.n;
        m->renamed[i] = n_sets;
        m->sets[n_sets++] = set;
        uint32_t at = hash;
        while (m->table[at & (m->table_size - 1)]) at++;
        m->table[at & (m->table_size - 1)] = n_sets;
    }
    m->n_sets = n_sets;
    m->n_pairs = n_pairs;
    m->n_rows = 1;
}

/* Mark the held sets, and their continuations. */
static void matcher_collect(matcher *m)
{
    uint32_t n_before = m->n_sets;
    m->n_collected++;
    memset(m->renamed, 0, n_before * sizeof *m->renamed);
    matcher_hold(m, m->slots, MATCH_SLOTS);
    matcher_hold(m, m->path, m->n_path);
    for (uint32_t i = n_before; i-- > 1;) {
        if (!m->renamed[i]) continue;
        for (uint32_t k = 0; k < m->sets[i].n; k++)
            m->renamed[m->pairs[m->sets[i].first + k].rest] = 1;
    }
    move_sets(m);
    rename_all(m, m->slots, MATCH_SLOTS);
    rename_all(m, m->path, m->n_path);
    for (uint32_t i = 0; i < m->n_masks; i++) {
        uint32_t set = m->mask_set[i];
        if (set != MATCH_UNKNOWN)
            m->mask_set[i] = m->renamed[set] ? m->renamed[set] : MATCH_UNKNOWN;
    }
    m->is_full = false;
}

/* ---- one step ---- */

static void matcher_find(matcher *m, match_pair p)
{
    uint32_t mask = 2 * MATCH_READINGS_MAX - 1, at = matcher_hash(p.state, p.rest);
    _Static_assert((MATCH_READINGS_MAX & (MATCH_READINGS_MAX - 1)) == 0, "a mask");
    for (; m->found_stamp[at & mask] == m->stamp; at++) {
        const match_pair *known = &m->found[m->found_at[at & mask]];
        if (known->state == p.state && known->rest == p.rest) return;
    }
    if (m->n_found == MATCH_READINGS_MAX) {
        m->is_full = true;
        return;
    }
    m->found_stamp[at & mask] = m->stamp;
    m->found_at[at & mask] = m->n_found;
    m->found[m->n_found++] = p;
}

static void wait_for(matcher *m, uint32_t rule, match_pair back)
{
    if (m->n_waits == MATCH_READINGS_MAX) {
        m->is_full = true;
        return;
    }
    m->waits[m->n_waits++] = (match_wait){rule, back};
}

/* The epsilon closure of a reading: at the end of its rule, its callers; at a call, the waiting
 * ones.  A last call passes its callers on, so that lists do not nest. */
static void matcher_follow(matcher *m, match_pair p)
{
    const grammar_state *s = &m->g->states[p.state];
    const match_set *rest = &m->sets[p.rest];
    for (uint32_t i = 0; s->is_final && i < rest->n; i++)
        matcher_find(m, m->pairs[rest->first + i]);
    for (uint32_t k = s->first_call; k < s[1].first_call && !m->is_full; k++) {
        grammar_call call = m->g->calls[k];
        if (!call.is_last) wait_for(m, call.rule, (match_pair){call.to, p.rest});
        for (uint32_t i = 0; call.is_last && i < rest->n; i++)
            wait_for(m, call.rule, m->pairs[rest->first + i]);
    }
}

/* Enter the first of the awaited rules; later ones may be awaited by its start. */
static void enter_rule(matcher *m)
{
    uint32_t rule = m->waits[0].rule, n = 0, n_left = 0;
    for (uint32_t i = 1; i < m->n_waits; i++)
        if (m->waits[i].rule < rule) rule = m->waits[i].rule;
    match_pair *pairs = m->found + m->n_found; /* free space after the parses found */
    for (uint32_t i = 0; i < m->n_waits; i++) {
        match_wait wait = m->waits[i];
        if (wait.rule != rule)
            m->waits[n_left++] = wait;
        else if (m->n_found + n < MATCH_READINGS_MAX)
            pairs[n++] = wait.back;
        else
            m->is_full = true;
    }
    m->n_waits = n_left;
    uint32_t rest = matcher_intern(m, pairs, n);
    if (rest != MATCH_NOWHERE) matcher_find(m, (match_pair){m->g->starts[rule], rest});
}

/* Whether a set must contain it: it reads, ends the text, or has a bound on what may follow. */
static bool matcher_needs(const matcher *m, match_pair p)
{
    const grammar_state *s = &m->g->states[p.state];
    return s->first_edge != s[1].first_edge || s->run || s->most || p.state == GRAMMAR_END;
}

/* The set of all readings found, and of their closure. */
static uint32_t matcher_settle(matcher *m)
{
    uint32_t n = 0, at = 0;
    while (!m->is_full) {
        for (; at < m->n_found && !m->is_full; at++) matcher_follow(m, m->found[at]);
        if (m->n_waits == 0 || m->is_full) break;
        enter_rule(m);
    }
    if (m->is_full) return MATCH_NOWHERE;
    for (uint32_t i = 0; i < m->n_found; i++)
        if (matcher_needs(m, m->found[i])) m->found[n++] = m->found[i];
    return matcher_intern(m, m->found, n);
}

static void begin_step(matcher *m)
{
    m->n_found = m->n_waits = 0;
    if (++m->stamp == 0) { /* after 2^32 steps old stamps could be taken for new ones */
        memset(m->found_stamp, 0, 2 * MATCH_READINGS_MAX * sizeof *m->found_stamp);
        m->stamp = 1;
    }
}

static uint32_t matcher_step(matcher *m, uint32_t from, uint8_t byte)
{
    const match_set *set = &m->sets[from];
    begin_step(m);
    for (uint32_t i = 0; i < set->n; i++) {
        match_pair p = m->pairs[set->first + i];
        const grammar_state *s = &m->g->states[p.state];
        uint32_t lo = s->first_edge, hi = s[1].first_edge;
        while (lo < hi) { /* the first edge that does not end before byte */
            uint32_t middle = lo + (hi - lo) / 2;
            if (m->g->edges[middle].hi < byte)
                lo = middle + 1;
            else
                hi = middle;
        }
        if (lo < s[1].first_edge && m->g->edges[lo].lo <= byte)
            matcher_find(m, (match_pair){m->g->edges[lo].to, p.rest});
    }
    return matcher_settle(m);
}

/* A row for the transitions of `from`; false: there is none left. */
static bool need_row(matcher *m, uint32_t from)
{
    if (m->sets[from].row != MATCH_UNKNOWN) return true;
    if (m->n_rows == m->rows_max) return false;
    uint32_t *row = m->rows + (size_t)m->n_rows * m->g->n_classes;
    for (uint32_t i = 0; i < m->g->n_classes; i++) row[i] = MATCH_UNKNOWN;
    m->sets[from].row = m->n_rows++;
    return true;
}

uint32_t matcher_compute(matcher *m, const uint32_t *from, uint32_t class_)
{
    uint32_t to = MATCH_NOWHERE;
    for (int attempt = 0; attempt < 2; attempt++) {
        m->is_full = false;
        if (attempt > 0) matcher_collect(m);
        if (!need_row(m, *from)) continue;
        to = matcher_step(m, *from, m->g->byte_of[class_]);
        if (!m->is_full) break;
        to = MATCH_NOWHERE; /* also if it does not fit at all */
    }
    m->is_full = false;
    if (m->sets[*from].row != MATCH_UNKNOWN)
        m->rows[(size_t)m->sets[*from].row * m->g->n_classes + class_] = to;
    return to;
}

/* ---- texts ---- */

void matcher_begin(matcher *m, uint32_t slot)
{
    const grammar *g = m->g;
    uint32_t to = MATCH_NOWHERE;
    for (int attempt = 0; attempt < 2; attempt++) {
        m->is_full = false;
        if (attempt > 0) matcher_collect(m);
        begin_step(m);
        match_pair end = {GRAMMAR_END, MATCH_NOWHERE};
        if (g->takes_empty) matcher_find(m, end);
        if (g->n_rules > 0) wait_for(m, g->root, end);
        to = matcher_settle(m);
        if (!m->is_full) break;
    }
    m->is_full = false;
    m->slots[slot] = to;
}

bool matcher_accept(matcher *m, uint32_t from, uint32_t to, view text)
{
    m->n_path = 1;
    m->path[0] = m->slots[from];
    for (size_t i = 0; i < text.len && m->path[0] != MATCH_NOWHERE; i++)
        m->path[0] = matcher_next(m, &m->path[0], m->g->class_of[(uint8_t)text.ptr[i]]);
    m->n_path = 0;
    if (m->path[0] == MATCH_NOWHERE) return false;
    m->slots[to] = m->path[0];
    return true;
}

/* The only byte that can follow, or -1. */
static int only_byte(matcher *m, const uint32_t *at)
{
    int only = -1;
    const grammar *g = m->g;
    for (uint32_t c = 0; c < g->n_classes; c++) {
        if (matcher_next(m, at, c) == MATCH_NOWHERE) continue;
        uint32_t byte = g->byte_of[c];
        bool is_one = byte == 255 || g->class_of[byte + 1] != c;
        if (only >= 0 || !is_one) return -1;
        only = (int)byte;
    }
    return only;
}

size_t matcher_forced(matcher *m, uint32_t slot, char *out, size_t cap)
{
    size_t n = 0;
    m->n_path = 1;
    m->path[0] = m->slots[slot];
    while (n < cap && !m->sets[m->path[0]].is_complete) {
        int byte = only_byte(m, &m->path[0]);
        if (byte < 0) break;
        out[n++] = (char)byte;
        m->path[0] = matcher_next(m, &m->path[0], m->g->class_of[byte]);
    }
    m->n_path = 0;
    return n;
}
