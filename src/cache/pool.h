/* pool.h - what the parts of the cache share: blocks, groups of pages, the tree, sequences.
 *
 * A block is free (on free_blocks), private (held by the one sequence that computes it), or in the
 * tree.  A block of the tree is held by sequences, or idle.  A sequence that holds a block holds
 * those before it, so the children of an idle block are idle.  Idle blocks without children are in
 * a heap by their priority (evict.c), so evicting its first never orphans a block. */
#ifndef CACHE_POOL_H
#define CACHE_POOL_H

#include <pthread.h>

#include "base/hash.h"
#include "base/thread.h"
#include "cache/kv.h"

#define KV_NONE UINT32_MAX

typedef struct {
    int32_t tokens[KERNEL_PAGE];
    uint64_t tenant;
    uint32_t n_tokens;     /* computed */
    uint32_t holders;      /* sequences; 1 while it is private */
    bool in_tree;          /* and while it is: */
    bool is_marked;        /* a timeline that sees it may be adopted; private ones too */
    uint32_t parent;       /* the block before; KV_NONE: at the beginning */
    uint32_t position;     /* blocks before it */
    uint32_t n_children;
    uint32_t n_uses;       /* times that it was computed or adopted */
    uint64_t serial;       /* unique in the pool for ever */
    hash_name name;        /* of the tenant and of all tokens up to its end */
    uint64_t near_hash;    /* of the tenant, all tokens before it, and its first one */
    uint32_t next_full, next_near; /* in its bucket of the tables */
    uint32_t first_state;  /* of those between its end and that of the block after it; KV_NONE */
    /* while idle: */
    double priority;
    uint64_t idle_since;   /* the count of released blocks at its release */
    uint32_t heap_at;      /* KV_NONE while something follows it */
} kv_block;

/* Pages of the layers that see the same span. */
typedef struct {
    uint32_t window;      /* 0 = everything: page numbers are block numbers */
    uint32_t sequence_pages; /* that one sequence needs at most */
    size_t page_bytes;    /* of all layers of the group */
    uint8_t *pages;       /* [n_pages][page_bytes] */
    size_t pages_bytes;
    uint32_t n_pages, pages_min; /* min: of one whole sequence */
    uint32_t pages_limit; /* that may be in use: limit.c */
    size_t used_bytes;    /* of pages, up to the last that was ever used */
    size_t ready_bytes;   /* that have their memory: prefault.c */
    /* where there is a window: */
    uint32_t *page_of;    /* [n_blocks] page, or KV_NONE */
    uint32_t *users;      /* [n_blocks] sequences that may still look at it */
    uint32_t *block_of;   /* [n_pages] */
    uint32_t *free_pages; /* [n_free]: a stack */
    uint32_t n_free;
    uint8_t *list_of;     /* [n_pages] links, while a page is on a list: */
    uint32_t *older, *newer; /* [n_pages] of pages without users, in the order of their last */
    uint32_t oldest[2], newest[2]; /* of blocks without a mark, and of those with one */
} kv_group;

typedef struct {
    uint32_t group, n_heads;
    size_t at;             /* of its first head, in a page of the group */
    size_t keys_bytes;     /* of a page of one head; its values take as many, if there are any: */
    size_t head_bytes;     /* of both */
} kv_layer;

/* The listener stores blocks elsewhere; the memory calls it and does not know it (as SQLite's
 * pcache does not know its pager). */
typedef struct {
    /* With the lock: a block or a state became findable, or was adopted. */
    void (*findable)(void *user, uint32_t block, bool was_used);
    void (*state_findable)(void *user, uint32_t state, bool was_used);
    void (*measure)(const void *user, kv_use *use); /* with the lock */
    void (*close)(void *user);
} kv_listener;

/* A state: free, held by sequences, or findable.  Its key is the last full block before it and the
 * tokens between, so it is evicted with that block. */
typedef struct {
    uint64_t tenant;
    uint32_t n_tokens;      /* after which it is */
    uint32_t holders;
    bool is_found;          /* and while it is: */
    bool is_passing;        /* only as long as it is held */
    uint64_t serial;        /* unique in the pool for ever */
    uint32_t parent;        /* that block; KV_NONE at the beginning */
    uint32_t next;          /* of the same parent */
    uint32_t n_uses;
    double priority;        /* while idle, as of blocks */
    int32_t tail[KERNEL_PAGE]; /* [n_tokens % KERNEL_PAGE] */
} kv_state;

typedef struct {
    size_t bytes;           /* of one; 0 = there are none */
    uint8_t *memory;        /* [n][bytes] */
    kv_state *all;          /* [n] */
    uint32_t limit;         /* that may be in use */
    uint32_t n, n_free;
    uint32_t *free;         /* [n_free]: a stack */
    uint32_t first;         /* of those before the end of the first block; KV_NONE */
    double priority_floor;
} kv_states;

enum { KV_KEEPS_MAX = 8, KV_STATES_MIN = 6 /* what one sequence needs to continue */ };

struct kv_pool {
    pthread_mutex_t lock; /* guards everything below, and every sequence; the last lock to take */
    bool has_lock;
    kernel_kv_type type;
    uint32_t n_layers, context_tokens, sequences_max;
    uint32_t n_groups, n_sequences;
    kv_group groups[KV_GROUPS_MAX];
    kv_layer *layers;      /* [n_layers] */
    kv_block *blocks;      /* [n_blocks] */
    uint32_t n_blocks, n_free, n_idle;
    uint32_t blocks_limit; /* that may be in use: limit.c */
    uint32_t *free_blocks; /* [n_free]: a stack */
    uint32_t *heap;        /* [n_heap] idle blocks that nothing follows, the least priority first */
    uint32_t n_heap;
    double priority_floor;    /* of what was evicted last */
    double even_blocks;    /* position at which attention costs as much as the weights; 0 = never */
    uint64_t n_let_go, n_serials;
    hash_name root;        /* before every timeline */
    const kv_listener *listener; /* or NULL; and */
    void *listener_user;
    const cerium_kv_watcher *watcher; /* or NULL; and */
    void *watcher_user;
    kv_states states;
    uint32_t *full, *near; /* [n_buckets] first block: full ones by hash, all by near_hash */
    uint32_t n_buckets;    /* a power of two */

    pthread_t prefault;
    bool has_prefault;
    thread_bell prefault_bell;
    _Atomic bool closing;
};

struct kv_sequence {
    kv_pool *pool;
    uint64_t tenant;
    uint32_t context_tokens;
    uint32_t n_tokens; /* computed */
    uint32_t n_blocks; /* held: those of n_tokens, and reserved ones */
    uint32_t fork; /* tokens in the tree whose window pages are gone: mark there when computed */
    uint32_t hidden; /* tokens after this many are hidden from others; 0 = none */
    uint32_t state, state_at; /* held: that after state_at tokens; KV_NONE and 0 at the beginning.
                                 state_at <= n_tokens, but within its functions */
    uint32_t next[2], n_next; /* held: those to be written */
    struct {
        uint32_t state, n_tokens;
    } keeps[KV_KEEPS_MAX];    /* [n_keeps] held: written with the next, to be found */
    uint32_t n_keeps;
    uint32_t first[KV_GROUPS_MAX]; /* it uses the group's pages of blocks [first, n_blocks) */
    uint32_t blocks[]; /* [pages of context_tokens] */
};

static inline uint32_t kv_blocks_for(uint32_t n_tokens)
{
    return (n_tokens + KERNEL_PAGE - 1) / KERNEL_PAGE;
}

/* The first block that a token at position n sees in a group with a window. */
static inline uint32_t kv_window_first(const kv_group *group, uint32_t n)
{
    return n + 1 > group->window ? (n + 1 - group->window) / KERNEL_PAGE : 0;
}

static inline uint32_t kv_blocks_used(const kv_pool *pool) { return pool->n_blocks - pool->n_free; }
static inline uint32_t kv_pages_used(const kv_group *group)
{
    return group->n_pages - group->n_free; /* of a group with a window */
}

/* The group's page of a block that has one. */
static inline uint8_t *kv_group_page(const kv_group *group, uint32_t block)
{
    return group->pages + (size_t)(group->window ? group->page_of[block] : block) *
                              group->page_bytes;
}

/* ---- tell.c: with the lock ---- */

/* Call the listener. */
void kv_pool_tell(kv_pool *pool, uint32_t block, bool was_used);
void kv_pool_tell_state(kv_pool *pool, uint32_t state, bool was_used);
/* Call the watcher for a full block. */
void kv_pool_tell_stored(const kv_pool *pool, const kv_block *b);
void kv_pool_tell_removed(const kv_pool *pool, const kv_block *b);

/* ---- pages.c: free, idle and held blocks and pages ---- */

/* A private block with pages in these groups (bits; those that have everything always); KV_NONE
 * when none is free. */
enum { KV_ALL_GROUPS = (1 << KV_GROUPS_MAX) - 1 };
uint32_t kv_block_take(kv_pool *pool, uint32_t groups);
/* Give a block back that is not in the tree. */
void kv_block_free(kv_pool *pool, uint32_t block);
/* Hold a block of the tree, and release it. */
void kv_block_hold(kv_pool *pool, uint32_t block);
void kv_block_let_go(kv_pool *pool, uint32_t block);
void kv_block_use_page(kv_pool *pool, uint32_t group, uint32_t block);
void kv_block_leave_page(kv_pool *pool, uint32_t group, uint32_t block);
void kv_block_copy(kv_pool *pool, uint32_t to, uint32_t from);
/* For the tree alone: list the pages of a block without users for eviction, or unlist them. */
void kv_block_list_pages(kv_pool *pool, uint32_t block, bool listed);
/* Whether it has a page in every group. */
bool kv_block_has_pages(const kv_pool *pool, uint32_t block);
/* Keep its pages longer than those of blocks without a mark. */
void kv_block_mark(kv_pool *pool, uint32_t block);
/* Pages that `to`, in the tree, lacks and its equal `from`, private, has become those of `to`. */
void kv_block_give_pages(kv_pool *pool, uint32_t to, uint32_t from);

/* Take a page off its list. */
void kv_page_unlist(kv_group *group, uint32_t page);

/* The system has the memory of n pages again. */
void kv_pages_drop(const kv_group *group, uint32_t first, uint32_t n);

/* ---- limit.c: with the lock, less memory than there is room for ---- */

/* Blocks were released: evict what is beyond the limit. */
void kv_limit_keep(kv_pool *pool);

/* ---- prefault.c: memory for pages before they are used ---- */

/* Touches the first pages of each group, as the last step of opening the pool. */
void kv_prefault_open(kv_pool *pool);
void kv_prefault_close(kv_pool *pool);
/* With the lock: a page of a group is in use. */
void kv_prefault_note(kv_pool *pool, kv_group *group, uint32_t page);

/* ---- evict.c: idle blocks, and which of them goes first ---- */

void kv_idle_add(kv_pool *pool, uint32_t block);
void kv_idle_remove(kv_pool *pool, uint32_t block);
/* The block got its first child in the tree, or lost its last. */
void kv_idle_followed(kv_pool *pool, uint32_t block);
void kv_idle_unfollowed(kv_pool *pool, uint32_t block);
/* The idle block to evict, or KV_NONE; report its eviction. */
uint32_t kv_idle_first(const kv_pool *pool);
void kv_idle_evicts(kv_pool *pool, uint32_t block);

/* ---- state.c ---- */

/* A state, held by the caller; evicts an idle one.  KV_NONE: all are held. */
uint32_t kv_state_take(kv_pool *pool);
void kv_state_hold(kv_pool *pool, uint32_t state);
void kv_state_let_go(kv_pool *pool, uint32_t state); /* KV_NONE: nothing */
/* Make a held state findable; parent is in the tree or KV_NONE.  False: an equal one is findable
 * already. */
bool kv_state_add(kv_pool *pool, uint32_t state, uint64_t tenant, uint32_t parent,
                  uint32_t n_tokens, const int32_t *tail, bool is_passing);
/* The state after parent that is furthest within tokens [n], or KV_NONE. */
uint32_t kv_state_find(const kv_pool *pool, uint64_t tenant, uint32_t parent, const int32_t *tokens,
                       uint32_t n);
/* A block leaves the tree. */
void kv_states_leave(kv_pool *pool, uint32_t block);
/* Of the number and size that are in the pool. */
CERIUM_CHECKED int kv_states_open(kv_pool *pool);
void kv_states_close(kv_pool *pool);
/* Limit states to a part of the pool; evict those beyond. */
void kv_states_limit(kv_pool *pool, double share);
void kv_states_keep_limit(kv_pool *pool);
void kv_states_measure(const kv_pool *pool, kv_use *use);
bool kv_states_agree(const kv_pool *pool);
static inline float *kv_state_at(const kv_pool *pool, uint32_t state)
{
    return (float *)(void *)(pool->states.memory + state * pool->states.bytes);
}

/* ---- name.c ---- */

/* Names: of the empty prefix of a tenant, of [n] tokens after a named prefix, and of all blocks
 * after a prefix that begin with a token. */
hash_name kv_name_root(const kv_pool *pool, uint64_t tenant);
hash_name kv_name_after(hash_name before, const int32_t *tokens, uint32_t n);
uint64_t kv_name_near(hash_name before, int32_t first_token);

/* ---- prefix.c: the tree ---- */

/* The full block with tokens [KERNEL_PAGE] after parent, or KV_NONE. */
uint32_t kv_tree_full(const kv_pool *pool, uint64_t tenant, uint32_t parent,
                      const int32_t *tokens);
/* The full block with this name, or KV_NONE. */
uint32_t kv_tree_named(const kv_pool *pool, hash_name name);
/* The block after parent with the longest common prefix with tokens [n], and its length; KV_NONE
 * and 0. */
uint32_t kv_tree_near(const kv_pool *pool, uint64_t tenant, uint32_t parent, const int32_t *tokens,
                      uint32_t n, uint32_t *n_common);
/* Put a private block into the tree, after parent; its holders stay. */
void kv_tree_add(kv_pool *pool, uint64_t tenant, uint32_t parent, uint32_t block);
/* Put the private last block of a timeline into the tree, idle, unless the tree has it already. */
void kv_tree_add_last(kv_pool *pool, uint64_t tenant, uint32_t parent, uint32_t block);
void kv_tree_remove(kv_pool *pool, uint32_t block);
/* Take an idle block out of the tree and give it back; it must be the end of its timelines. */
void kv_tree_discard(kv_pool *pool, uint32_t block);

/* ---- sequence.c, for who has the lock ---- */

/* An empty sequence for whole contexts, which no limit counts. */
kv_sequence *kv_sequence_own(kv_pool *pool);
/* For an empty sequence: hold the timeline up to `last` of the tree (KV_NONE: nothing), to continue
 * to n tokens. */
void kv_sequence_follow(kv_sequence *seq, uint64_t tenant, uint32_t last, uint32_t n);
/* Append a block, with pages in these groups.  False: none is free. */
bool kv_sequence_extend(kv_sequence *seq, uint32_t groups);
void kv_sequence_add(kv_sequence *seq, const int32_t *tokens, uint32_t n);
/* Release all blocks but the first n. */
void kv_sequence_drop(kv_sequence *seq, uint32_t n);

/* ---- state_sequence.c: the states of a sequence; with the lock ---- */

/* The last one known within its first n tokens, and where; KV_NONE: the beginning (sequence.c). */
uint32_t kv_sequence_state_before(const kv_sequence *seq, uint32_t n, uint32_t *at);
/* Hold this state, which is held or findable, in place of its own. */
void kv_sequence_set_state(kv_sequence *seq, uint32_t state, uint32_t n_tokens);
/* States to be written: this many at least.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int kv_sequence_take_next(kv_sequence *seq, uint32_t n);
void kv_sequence_drop_next(kv_sequence *seq);
/* Make it findable, where it is not hidden. */
void kv_sequence_show_state(kv_sequence *seq, uint32_t state, uint32_t n_tokens, bool is_passing);

#endif
