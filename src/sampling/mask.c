/* mask.c - owns the sorted vocabulary, and the walk through it. */
#include "sampling/mask.h"

#include "base/limits.h"
#include "base/text.h"

/* ---- opening ---- */

/* Characters of a text that is all plain, at most RUN_MAX; 0: it is not. */
static uint32_t plain_characters(view text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len;) {
        const uint8_t *c = (const uint8_t *)text.ptr + i;
        size_t len = c[0] < 0x80   ? 1
                     : c[0] < 0xc2 ? 0
                     : c[0] < 0xe0 ? 2
                     : c[0] < 0xf0 ? 3
                     : c[0] < 0xf5 ? 4
                                   : 0;
        if (len == 0 || i + len > text.len || c[0] < 0x20 || c[0] == '"' || c[0] == '\\' ||
            c[0] == 0x7f)
            return 0;
        for (size_t k = 1; k < len; k++)
            if ((c[k] & 0xc0) != 0x80) return 0;
        if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
            (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
            return 0;
        i += len;
        n++;
    }
    return n > GRAMMAR_RUN_MAX ? 0 : n;
}

typedef struct {
    const mask_vocabulary *v;
    uint32_t *order, *scratch;
} sorter;

static int mask_compare(const mask_vocabulary *v, uint32_t a, uint32_t b)
{
    view x = mask_text(v, a), y = mask_text(v, b);
    int c = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    if (c == 0 && x.len != y.len) c = x.len < y.len ? -1 : 1;
    return c ? c : a < b ? -1 : a > b;
}

/* Merge sort, bottom up: qsort() has no place for v. */
static void mask_sort(const sorter *s, uint32_t n)
{
    uint32_t *from = s->order, *to = s->scratch;
    for (uint32_t width = 1; width < n; width *= 2) {
        for (uint32_t lo = 0; lo < n; lo += 2 * width) {
            uint32_t middle = lo + width < n ? lo + width : n;
            uint32_t hi = lo + 2 * width < n ? lo + 2 * width : n, a = lo, b = middle;
            for (uint32_t i = lo; i < hi; i++)
                to[i] = b == hi || (a < middle && mask_compare(s->v, from[a], from[b]) < 0)
                            ? from[a++]
                            : from[b++];
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != s->order) memcpy(s->order, from, n * sizeof *from);
}

static uint32_t count_nodes(const mask_vocabulary *v, const mask_trie *t)
{
    uint32_t n = 0;
    view before = {0};
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        view text = mask_text(v, t->order[i]);
        n += (uint32_t)(text.len - view_common(before, text));
        before = text;
    }
    return n;
}

/* A node is whole: its parent continues at least as long, and ends within a character if a byte
 * follows that begins none. */
static void close_node(mask_trie *t, const uint32_t *open, uint32_t depth, uint32_t n)
{
    mask_node *node = &t->nodes[open[depth]];
    node->skip = n;
    if (depth == 0) return;
    mask_node *parent = &t->nodes[open[depth - 1]];
    bool begins = (node->byte & 0xc0) != 0x80;
    uint32_t below = node->below + begins;
    if (below > UINT8_MAX) below = UINT8_MAX;
    if (below > parent->below) parent->below = (uint8_t)below;
    parent->is_cut |= !begins;
}

/* A trie of the tokens in t->order, which are sorted. */
static int make_trie(const mask_vocabulary *v, mask_trie *t, uint32_t *open)
{
    uint32_t depth = 0, n = 0;
    t->n_nodes = count_nodes(v, t);
    t->nodes = memory_alloc((t->n_nodes + 1) * sizeof *t->nodes);
    if (!t->nodes) return CERIUM_ERR_MEMORY;
    view before = {0};
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        view text = mask_text(v, t->order[i]);
        uint32_t same = (uint32_t)view_common(before, text);
        for (; depth > same; depth--) close_node(t, open, depth - 1, n);
        for (; depth < text.len; depth++) {
            t->nodes[n] = (mask_node){
                .first = i, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)text.ptr[depth]};
            open[depth] = n++;
        }
        if (t->nodes[open[depth - 1]].n_here < UINT16_MAX) t->nodes[open[depth - 1]].n_here++;
        before = text;
    }
    for (; depth > 0; depth--) close_node(t, open, depth - 1, n);
    t->nodes[n] = (mask_node){.skip = n, .first = t->n_tokens};
    CHECK(n == t->n_nodes);
    return CERIUM_OK;
}

static int copy_texts(mask_vocabulary *v, const mask_token *tokens)
{
    const char mark = (char)GRAMMAR_CONTROL_MARK;
    v->texts.max = UINT32_MAX / 2;
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        const mask_token *t = &tokens[i];
        int status = CERIUM_OK;
        v->at[i] = (uint32_t)v->texts.len;
        v->is_control[i] = t->is_control;
        if (t->is_end) mask_set(v->ends, i);
        if (t->text.len || t->is_end) mask_set(v->all, i);
        if (t->text.len == 0 || t->text.len > TOKENIZER_TOKEN_BYTES_MAX ||
            memchr(t->text.ptr, mark, t->text.len))
            continue;
        if (t->is_control) status = bytes_append(&v->texts, &mark, 1);
        if (!status) status = bytes_append(&v->texts, t->text.ptr, t->text.len);
        if (!status && t->is_control) status = bytes_append(&v->texts, &mark, 1);
        if (status) return CERIUM_ERR_MEMORY;
        uint32_t len = (uint32_t)v->texts.len - v->at[i];
        if (len > v->token_bytes_max) v->token_bytes_max = len;
    }
    v->at[v->n_vocab] = (uint32_t)v->texts.len;
    return CERIUM_OK;
}

static void mask_share_out(mask_vocabulary *v)
{
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        view text = mask_text(v, i);
        uint32_t n = v->is_control[i] ? 0 : plain_characters(text);
        if (text.len == 0) continue;
        for (uint32_t k = n; n > 0 && k <= GRAMMAR_RUN_MAX; k++)
            mask_set(v->runs + (size_t)k * v->n_words, i);
        mask_trie *t = n > 0 ? &v->plain : &v->rest;
        t->order[t->n_tokens++] = i;
    }
}

static int mask_alloc(mask_vocabulary *v)
{
    uint32_t n = v->n_vocab;
    v->runs = memory_zalloc((size_t)(GRAMMAR_RUN_MAX + 1) * v->n_words, sizeof *v->runs);
    v->ends = memory_zalloc(v->n_words, sizeof *v->ends);
    v->all = memory_zalloc(v->n_words, sizeof *v->all);
    v->at = memory_zalloc(n + 1, sizeof *v->at);
    v->is_control = memory_zalloc(n, sizeof *v->is_control);
    v->plain.order = memory_zalloc(n, sizeof *v->plain.order);
    v->rest.order = memory_zalloc(n, sizeof *v->rest.order);
    return v->runs && v->ends && v->all && v->at && v->is_control && v->plain.order && v->rest.order
               ? CERIUM_OK
               : CERIUM_ERR_MEMORY;
}

static int mask_fill(mask_vocabulary *v, const mask_token *tokens)
{
    v->plain.is_plain = true;
    RETURN_IF(mask_alloc(v));
    RETURN_IF(copy_texts(v, tokens));
    mask_share_out(v);
    size_t longest = v->token_bytes_max > v->n_vocab ? v->token_bytes_max : v->n_vocab;
    uint32_t *scratch = memory_alloc((longest + 1) * sizeof *scratch);
    if (!scratch) return CERIUM_ERR_MEMORY;
    mask_trie *tries[] = {&v->plain, &v->rest};
    int status = CERIUM_OK;
    for (size_t i = 0; i < ARRAY_LEN(tries) && !status; i++) {
        sorter s = {.v = v, .order = tries[i]->order, .scratch = scratch};
        mask_sort(&s, tries[i]->n_tokens);
        status = make_trie(v, tries[i], scratch);
    }
    memory_free(scratch);
    return status;
}

int mask_vocabulary_open(mask_vocabulary **out, const mask_token *tokens, uint32_t n_vocab,
                         cerium_error *err)
{
    CHECK(n_vocab > 0);
    mask_vocabulary *v = memory_zalloc(1, sizeof *v);
    if (v) {
        v->n_vocab = n_vocab;
        v->n_words = (n_vocab + 63) / 64;
    }
    if (!v || mask_fill(v, tokens)) {
        mask_vocabulary_close(&v);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to sort %u tokens", n_vocab);
    }
    *out = v;
    return CERIUM_OK;
}

void mask_vocabulary_close(mask_vocabulary **v)
{
    if (!v || !*v) return;
    void *parts[] = {(*v)->runs,        (*v)->ends,       (*v)->all,
                     (*v)->at,          (*v)->is_control, (*v)->plain.order,
                     (*v)->plain.nodes, (*v)->rest.order, (*v)->rest.nodes};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) memory_free(parts[i]);
    bytes_free(&(*v)->texts);
    memory_free(*v);
    *v = NULL;
}

/* ---- masks ---- */

uint32_t mask_count(const uint64_t *mask, uint32_t n_words, uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_words && n < most; i++) n += (uint32_t)__builtin_popcountll(mask[i]);
    return n < most ? n : most;
}

/* Tokens [from, to) of a trie's order. */
static void set_tokens(uint64_t *mask, const mask_trie *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) mask_set(mask, t->order[i]);
}

/* ---- tries over classes of bytes ---- */

/* A node represents all nodes of the vocabulary's trie whose bytes are of the same classes: the
 * grammar does not tell their tokens apart.  Its children are made when it is walked through, so
 * many for each mask; the rest is walked byte by byte. */
typedef struct {
    uint32_t member, n_members; /* nodes of the vocabulary's trie, in `members` */
    uint32_t token, n_tokens;   /* that end here, in `tokens` */
    uint32_t child, n_children; /* child NONE: not made yet */
    uint32_t parent;
    uint8_t class_, below; /* below: of a mask_node; NOT_PLAIN: it is cut */
} class_node;

enum {
    CHILD_NONE = UINT32_MAX,
    ROOTS = 2,
    NOT_PLAIN = UINT8_MAX,
    MADE_MAX = 16384, /* nodes of the vocabulary's trie that one mask may sort by classes */
};
_Static_assert((int)GRAMMAR_RUN_ANY < (int)NOT_PLAIN, "no run continues after a cut character");

/* One block of memory; there are never more nodes than in the vocabulary's tries. */
struct mask_classes {
    class_node *nodes; /* the first two are roots: of plain tokens, and the rest */
    uint32_t *members, *tokens;
    uint32_t n_nodes, n_members, n_tokens;
    uint32_t n_left; /* of MADE_MAX */
};

int mask_classes_open(matcher *m, const mask_vocabulary *v)
{
    CHECK(!m->classes);
    size_t n = (size_t)v->plain.n_nodes + v->rest.n_nodes;
    struct mask_classes *c;
    c = memory_alloc(sizeof *c + (n + ROOTS) * sizeof *c->nodes +
                     (n + v->n_vocab) * sizeof *c->tokens);
    if (!c) return CERIUM_ERR_MEMORY;
    *c = (struct mask_classes){.nodes = (class_node *)(c + 1), .n_nodes = ROOTS};
    c->members = (uint32_t *)(c->nodes + n + ROOTS);
    c->tokens = c->members + n;
    for (uint32_t i = 0; i < ROOTS; i++) c->nodes[i] = (class_node){.child = CHILD_NONE};
    m->classes = c;
    return CERIUM_OK;
}

/* The next child of a node of the vocabulary's trie; from NONE on; NONE: there is none left. */
static uint32_t next_child(const mask_trie *t, uint32_t parent, uint32_t before)
{
    uint32_t first = parent == CHILD_NONE ? 0 : parent + 1;
    uint32_t end = parent == CHILD_NONE ? t->n_nodes : t->nodes[parent].skip;
    uint32_t next = before == CHILD_NONE ? first : t->nodes[before].skip;
    return next < end ? next : CHILD_NONE;
}

/* The member of a node to walk next: the root's only one is the trie itself. */
static uint32_t member_at(const struct mask_classes *c, uint32_t node, uint32_t i)
{
    return node < ROOTS ? CHILD_NONE : c->members[c->nodes[node].member + i];
}

static void add_member(struct mask_classes *c, const mask_trie *t, class_node *to, uint32_t member)
{
    uint8_t below = t->nodes[member].is_cut ? NOT_PLAIN : t->nodes[member].below;
    c->members[to->member + to->n_members++] = member;
    if (below > to->below) to->below = below;
    for (uint32_t k = 0; k < t->nodes[member].n_here; k++)
        c->tokens[to->token + to->n_tokens++] = t->order[t->nodes[member].first + k];
}

/* Make the children of a node: first the number of each class, then the members. */
static void make_children(matcher *m, const mask_trie *t, uint32_t node)
{
    struct mask_classes *c = m->classes;
    uint32_t members[256] = {0}, tokens[256] = {0}, place[256];
    uint32_t n = node < ROOTS ? 1 : c->nodes[node].n_members, n_seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of = member_at(c, node, i), at = CHILD_NONE;
        while ((at = next_child(t, of, at)) != CHILD_NONE) {
            uint8_t class_ = m->g->class_of[t->nodes[at].byte];
            members[class_]++;
            tokens[class_] += t->nodes[at].n_here;
            n_seen++;
        }
    }
    c->n_left -= n_seen < c->n_left ? n_seen : c->n_left;
    c->nodes[node].child = c->n_nodes;
    for (uint32_t k = 0; k < m->g->n_classes; k++) {
        if (!members[k]) continue;
        place[k] = c->n_nodes;
        c->nodes[c->n_nodes++] = (class_node){
            .member = c->n_members, .token = c->n_tokens, .child = CHILD_NONE, .parent = node,
            .class_ = (uint8_t)k};
        c->n_members += members[k];
        c->n_tokens += tokens[k];
        c->nodes[node].n_children++;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of = member_at(c, node, i), at = CHILD_NONE;
        while ((at = next_child(t, of, at)) != CHILD_NONE)
            add_member(c, t, &c->nodes[place[m->g->class_of[t->nodes[at].byte]]], at);
    }
}

/* All tokens below a node. */
static void set_through(uint64_t *mask, const struct mask_classes *c, const mask_trie *t,
                        const class_node *of)
{
    for (uint32_t i = 0; i < of->n_members; i++) {
        const mask_node *inner = &t->nodes[c->members[of->member + i]];
        set_tokens(mask, t, inner->first, t->nodes[inner->skip].first);
    }
}

/* The vocabulary's trie below a node, byte by byte. */
static void walk_bytes(matcher *m, const mask_trie *t, uint32_t node, bool is_open, uint64_t *mask)
{
    for (uint32_t i = node + 1; i < t->nodes[node].skip;) {
        const mask_node *at = &t->nodes[i];
        m->n_path = at->depth;
        uint32_t to = matcher_next(m, &m->path[at->depth - 1u], m->g->class_of[at->byte]);
        if (to == MATCH_NOWHERE) {
            if (is_open && m->sets[m->path[at->depth - 1u]].is_complete)
                set_tokens(mask, t, at->first, t->nodes[at->skip].first);
            i = at->skip;
            continue;
        }
        m->path[at->depth] = to;
        set_tokens(mask, t, at->first, at->first + at->n_here);
        i++;
    }
}

/* The tokens below a node whose bytes lead from path[depth] on; true: walk its children. */
static bool walk_node(matcher *m, const mask_trie *t, uint32_t at, uint32_t depth, bool is_open,
                      uint64_t *mask)
{
    struct mask_classes *c = m->classes;
    const class_node *node = &c->nodes[at];
    m->n_path = depth + 1;
    uint32_t to = matcher_next(m, &m->path[depth], node->class_);
    if (to == MATCH_NOWHERE) {
        if (is_open && m->sets[m->path[depth]].is_complete) set_through(mask, c, t, node);
        return false;
    }
    m->path[depth + 1] = to;
    if (t->is_plain && node->below <= m->sets[to].run) {
        set_through(mask, c, t, node);
        return false;
    }
    for (uint32_t k = 0; k < node->n_tokens; k++) mask_set(mask, c->tokens[node->token + k]);
    if (node->child == CHILD_NONE && c->n_left > 0) make_children(m, t, at);
    if (node->child != CHILD_NONE) return node->n_children > 0;
    for (uint32_t i = 0; i < node->n_members; i++)
        walk_bytes(m, t, c->members[node->member + i], is_open, mask);
    return false;
}

/* Walk a trie from path[0]; skip a node with all its descendants if it cannot follow, or if it
 * follows whatever its bytes are. */
static void mask_walk(matcher *m, const mask_trie *t, uint32_t root, bool is_open, uint64_t *mask)
{
    struct mask_classes *c = m->classes;
    uint32_t parent = root, depth = 0;
    c->n_left = MADE_MAX;
    if (c->nodes[root].child == CHILD_NONE) make_children(m, t, root);
    for (uint32_t at = c->nodes[root].child;;) {
        if (at == c->nodes[parent].child + c->nodes[parent].n_children) {
            if (parent == root) break;
            at = parent + 1;
            parent = c->nodes[parent].parent;
            depth--;
        } else if (walk_node(m, t, at, depth, is_open, mask)) {
            parent = at;
            at = c->nodes[at].child;
            depth++;
        } else {
            at++;
        }
    }
    m->n_path = 0;
}

static void work_out(matcher *m, uint32_t slot, const mask_vocabulary *v, bool is_open,
                     uint64_t *mask)
{
    const match_set *set = &m->sets[m->slots[slot]];
    uint32_t run = set->run > GRAMMAR_RUN_MAX ? GRAMMAR_RUN_MAX : set->run;
    bool walks_plain = run < GRAMMAR_RUN_MAX && (set->most > run || (is_open && set->is_complete));
    memcpy(mask, v->runs + (size_t)run * v->n_words, v->n_words * sizeof *mask);
    m->path[0] = m->slots[slot];
    if (walks_plain) mask_walk(m, &v->plain, 0, is_open, mask);
    m->path[0] = m->slots[slot];
    mask_walk(m, &v->rest, 1, is_open, mask);
    if (!m->sets[m->slots[slot]].is_complete) return;
    for (uint32_t i = 0; i < v->n_words; i++) mask[i] |= v->ends[i];
}

const uint64_t *mask_of(matcher *m, uint32_t slot, const mask_vocabulary *v, bool is_open)
{
    CHECK(m->n_masks > 0 && m->mask_words == v->n_words && m->classes);
    uint32_t at = m->sets[m->slots[slot]].mask;
    if (at == MATCH_UNKNOWN) {
        at = 0;
        for (uint32_t i = 1; i < m->n_masks; i++)
            if (m->mask_time[i] < m->mask_time[at]) at = i;
        if (m->mask_set[at] != MATCH_UNKNOWN) m->sets[m->mask_set[at]].mask = MATCH_UNKNOWN;
        m->mask_set[at] = MATCH_UNKNOWN;
        work_out(m, slot, v, is_open, m->masks + (size_t)at * m->mask_words);
        m->mask_set[at] = m->slots[slot]; /* numbers may have changed on the way */
        m->sets[m->slots[slot]].mask = at;
    }
    m->mask_time[at] = ++m->time;
    return m->masks + (size_t)at * m->mask_words;
}

/* ---- prefixes ---- */

static uint32_t first_from(const mask_vocabulary *v, const mask_trie *t, view text, bool inside)
{
    uint32_t lo = 0, hi = t->n_tokens;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        view of = mask_text(v, t->order[middle]);
        size_t n = of.len < text.len ? of.len : text.len;
        int c = memcmp(of.ptr, text.ptr, n);
        if (c == 0 && of.len < text.len) c = -1;
        if (c < 0 || (c == 0 && inside))
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static void add_longer(uint64_t *mask, const mask_vocabulary *v, const mask_trie *t, view prefix,
                       size_t least)
{
    uint32_t end = first_from(v, t, prefix, true);
    for (uint32_t k = first_from(v, t, prefix, false); k < end; k++)
        if (mask_text(v, t->order[k]).len > least) mask_set(mask, t->order[k]);
}

void mask_add_longer(uint64_t *mask, const mask_vocabulary *v, view text)
{
    char marked[1 + CERIUM_TRIGGER_BYTES_MAX] = {(char)GRAMMAR_CONTROL_MARK};
    CHECK(text.len <= CERIUM_TRIGGER_BYTES_MAX);
    memcpy(marked + 1, text.ptr, text.len);
    add_longer(mask, v, &v->plain, text, text.len);
    add_longer(mask, v, &v->rest, text, text.len);
    add_longer(mask, v, &v->rest, (view){marked, text.len + 1}, text.len + 2);
}
