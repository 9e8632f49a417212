/* kv.h - the KV cache: blocks of KERNEL_PAGE tokens, sequences that hold them, and the tree of
 * computed blocks.
 *
 * A block is the place of KERNEL_PAGE consecutive tokens in every layer.  Layers that see the same
 * span form a group, and a page holds a block's tokens for all layers of a group:
 *   [layer in group][kv head]{ keys, values }
 * each kernel_kv_bytes() of the layout's type and the layer's width (kernels.h); of a layer whose
 * values are its keys, the keys alone.  Where layers see everything, the page has the block's
 * number; where they have a window, pages are fewer than blocks, and a block has a page only while
 * a sequence may read it.
 *
 * A full block becomes findable as soon as it is computed, by its tokens and the block before it,
 * for sequences of the same tenant.  The last block of a timeline, full or not, stays findable too:
 * a sequence copies as much of it as agrees.  Promise A (cpu/executor.h) makes a page that was
 * found the same bits as a page computed anew.
 *
 * Blocks that no sequence holds are idle.  They stay until their memory is needed, and are evicted
 * by the cost of computing them again, how often they were adopted, and how long ago (evict.c), the
 * end of a timeline before its beginning.  Pages of windows stay longest where a timeline was
 * adopted or probably will be: see kv_sequence_mark.
 *
 * A model with recurrent layers keeps a state of each sequence, too, which is one piece and belongs
 * to one place of a timeline (state.c).  States are never changed: a sequence holds one and writes
 * the next.  A sequence then holds a timeline only up to a known state.
 *
 * All memory is taken at open: pages as address space, which becomes physical when first touched.
 * Thread-safe; but do not change a sequence during a pass that reads it (kv_sequence_page). */
#ifndef CACHE_KV_H
#define CACHE_KV_H

#include "base/base.h"
#include "kernels/kernels.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define KV_POPULATE_BYTES (64u << 20) /* of pages that get their memory at open: 20 ms at most */
#define KV_PREFAULT_BYTES    (32u << 20) /* of those after the last that was used, too */
#define KV_BLOCKS_MAX     (1u << 26)  /* of pages, and of what is kept of them on disk */
#define DISK_BYTES_DEFAULT  (UINT64_C(4) << 30) /* of all files of one model */
#define DISK_PATH_MAX       4096u           /* bytes of a path */

enum { KV_GROUPS_MAX = 4 };

/* What a layer stores of a token: keys and values of n_heads heads, each of this width. */
typedef struct {
    uint32_t n_heads, width;
    bool is_latent; /* keys alone, which are the values, too */
} kv_heads;

typedef struct {
    kernel_kv_type type;         /* the type of stored keys and values */
    uint32_t n_layers, n_kv_heads, head_dim;
    const kv_heads *heads;       /* [n_layers] where layers differ; NULL: all are as above */
    const uint32_t *windows;     /* [n_layers] tokens that a layer sees; 0 = all */
    uint32_t context_tokens;     /* of one sequence at most */
    uint32_t batch_tokens;       /* of one sequence written at once at most */
    uint32_t sequences_max;
    uint64_t bytes;              /* of all pages; raised to hold one whole sequence; 0 = what
                                    sequences_max sequences can hold, but at most: */
    uint64_t bytes_max;          /* 0 = no such limit */
    uint64_t state_bytes;        /* of a model's state of a whole sequence, beside its pages, a
                                    multiple of 64; 0 = none */
    uint32_t even_tokens;        /* where attention costs a token what weights do; 0 = never */
} kv_layout;

typedef struct kv_pool kv_pool;
typedef struct kv_sequence kv_sequence;

/* CERIUM_ERR_CAPACITY when the layers have more than KV_GROUPS_MAX different windows. */
CERIUM_CHECKED int kv_pool_open(kv_pool **out, const kv_layout *layout, cerium_error *err);
/* Memory that the pages of such a pool may take; 0: it cannot be opened. */
uint64_t kv_layout_bytes(const kv_layout *layout);
void kv_pool_close(kv_pool **pool);
/* Limit the memory of pages from now on; 0: no limit.  It never falls below one whole sequence.
 * Idle blocks beyond it are evicted at once, held ones when they are released. */
void kv_pool_limit(kv_pool *pool, uint64_t bytes);
/* Bytes that one more token takes in the layers that keep everything. */
uint64_t kv_token_bytes(const kv_pool *pool);

typedef struct {
    uint32_t blocks_max, held, idle; /* the rest is free; max: under the limit */
    uint32_t states_max, states_held, states_idle;
    uint64_t held_bytes;             /* about the memory of held pages */
    uint32_t disk_blocks, waiting;   /* on disk, and searched there later */
    uint64_t written, loaded;        /* blocks, to disk and from it, since the disk was attached */
    uint64_t evicted, damaged;       /* blocks removed with their file; blocks that were damaged */
    uint64_t lookups, hits;          /* prompts; and those of which the disk had more */
    uint32_t disk_states;            /* the same of states: */
    uint64_t states_written, states_loaded, states_evicted, states_damaged;
    uint64_t disk_bytes, disk_bytes_max; /* of all files; max is 0 without a disk */
    bool gave_up;                    /* a file could not be written: writing stopped */
} kv_use;

void kv_pool_measure(kv_pool *pool, kv_use *use);
/* Tests only: every list, table and count agrees with every other. */
bool kv_pool_check_invariants(kv_pool *pool);

/* Before the first sequence: call the watcher for each full block, under the pool's lock. */
void kv_pool_watch(kv_pool *pool, const cerium_kv_watcher *watcher, void *user);

/* ---- KV on disk ---- */

typedef struct {
    const char *folder;      /* of this model and this type alone; made if need be */
    uint64_t model, numbers; /* model and arithmetic of the pages; files of others are rejected */
    uint64_t bytes_max;      /* of all files */
    uint64_t warm_bytes;     /* prefetch at open: see disk_warm.c */
    void (*notice)(void *user, const char *line); /* each fault, once; on any thread */
    void (*loaded)(void *user); /* a fetch is over, on a thread of the pool: must not call it */
    void *user;
} kv_disk_config;

/* Before the first sequence: also store findable blocks in files, and find the blocks of existing
 * files.  One thread writes, and one reads.  Files that are damaged, foreign or in use by another
 * process, and a full disk, cost a notice only.  CERIUM_ERR_ARGUMENT when bytes_max is too small
 * for anything. */
CERIUM_CHECKED int kv_pool_attach_disk(kv_pool *pool, const kv_disk_config *config,
                                       cerium_error *err);
/* Write the queued blocks, then stop writing; kv_pool_close() does this too. */
void kv_pool_detach_disk(kv_pool *pool);

/* Begin to load the blocks of tokens [n] that are on disk and not in memory, where a pool has
 * states up to the furthest one beyond n_held tokens, with it.  0: there are none; else a ticket.
 * After the load, an adopt finds what was loaded, as far as there was room, until it is evicted. */
uint64_t kv_pool_fetch(kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                       uint32_t n_held);
bool kv_pool_is_fetched(kv_pool *pool, uint64_t ticket);

/* ---- sequences ---- */

/* An empty sequence, which shares blocks with those of its tenant.  CERIUM_ERR_CAPACITY when
 * sequences_max are open.  Allocates its table of pages only. */
CERIUM_CHECKED int kv_sequence_open(kv_sequence **out, kv_pool *pool, uint32_t context_tokens,
                                    uint64_t tenant, cerium_error *err);
void kv_sequence_close(kv_sequence **seq);

/* Hold the longest computed prefix of tokens [n], its own or one of the tree.  What it held beyond
 * that stays findable.  Returns the length. */
uint32_t kv_sequence_adopt(kv_sequence *seq, const int32_t *tokens, uint32_t n);

/* Make room for tokens [0, end).
 * CERIUM_ERR_CAPACITY  end is beyond the sequence's context
 * CERIUM_ERR_MEMORY    every block or state is held by a sequence; nothing was taken */
CERIUM_CHECKED int kv_sequence_reserve(kv_sequence *seq, uint32_t end);
/* The same for two consecutive states, not one: the rows between may be rejected. */
CERIUM_CHECKED int kv_sequence_reserve_two(kv_sequence *seq, uint32_t end);

/* The next n tokens were computed: these; reserved before. */
void kv_sequence_commit(kv_sequence *seq, const int32_t *tokens, uint32_t n);

/* ---- states of a pool that has them ---- */

/* The state after the tokens that the sequence holds; NULL: at the beginning of a timeline. */
const float *kv_sequence_state(const kv_sequence *seq);
/* Where a pass writes the next one; reserved before. */
float *kv_sequence_next_state(kv_sequence *seq);
/* Where a pass also writes the state n tokens beyond those held: others find it once these are
 * committed.  NULL: there is no room. */
float *kv_sequence_keep_state(kv_sequence *seq, uint32_t n);
/* The next state was written, and is that after n of the tokens committed; those that were kept up
 * to there are found from now on. */
void kv_sequence_commit_state(kv_sequence *seq, uint32_t n);
/* A position beyond the tokens held, up to which the tree has pages but no state; 0: none. */
uint32_t kv_sequence_known(kv_sequence *seq);

/* Mark a position where the timeline will probably be adopted again: its state is found from now
 * on, and its window pages stay longer than those between marks.  Adopting marks by itself. */
void kv_sequence_mark(kv_sequence *seq);

/* Hide what this sequence computes after its first n tokens: no other sequence finds it, now or
 * later, in memory or on disk.  n = 0: hide nothing.  Releases what was hidden until now. */
void kv_sequence_hide(kv_sequence *seq, uint32_t n);

/* Share the computed blocks of `from` that it does not hide, and hide after the same length: full
 * blocks are shared, the last one is copied if a block is free.  `to` is empty, of the same tenant,
 * and has as long a context; `from` is in no pass.  Returns the length. */
uint32_t kv_sequence_fork(kv_sequence *to, kv_sequence *from);

/* After an adopt of tokens [n]: also copy the tokens that `from`, of the same tenant and in no
 * pass, computed in its last block.  That block is not full, so the tree does not have it yet.
 * Returns the length. */
uint32_t kv_sequence_borrow(kv_sequence *seq, const kv_sequence *from, const int32_t *tokens,
                            uint32_t n);

/* Release all blocks: what was computed stays findable until it is evicted. */
void kv_sequence_rest(kv_sequence *seq);

/* Computed tokens that it holds, and blocks, including reserved ones. */
uint32_t kv_sequence_length(kv_sequence *seq);
uint32_t kv_sequence_blocks(kv_sequence *seq);

typedef struct {
    void *keys, *values; /* as kernel_kv_page, of the layout's type; NULL of latents */
} kv_page;

kernel_kv_type kv_sequence_type(const kv_sequence *seq);
/* The page of a layer's KV head with tokens [page * KERNEL_PAGE, ...); reserved before, and in a
 * layer with a window inside the window of the first token to compute. */
kv_page kv_sequence_page(const kv_sequence *seq, uint32_t layer, uint32_t kv_head, uint32_t page);

/* ---- images: the beginning of a sequence as bytes (page_image.c) ---- */

/* The layout of pages in this pool: pools of another layout cannot load its images. */
uint64_t kv_pool_image_key(const kv_pool *pool);
/* Of an image of the first n tokens of a sequence. */
uint64_t kv_pool_image_bytes(const kv_pool *pool, uint32_t n);
/* How many of its first n_max tokens can be saved now: up to a full block, or to a state. */
uint32_t kv_sequence_image_tokens(kv_sequence *seq, uint32_t n_max);
/* Write them to out.  False: some were evicted meanwhile; ask again. */
CERIUM_CHECKED bool kv_sequence_save(kv_sequence *seq, uint32_t n, uint8_t *out);
/* Hold the content of an image of tokens [n], and nothing else.  Returns how many tokens there was
 * room for. */
uint32_t kv_sequence_load(kv_sequence *seq, const int32_t *tokens, uint32_t n, const uint8_t *in);

#endif
