/* kv.h - the KV cache: blocks of KERNEL_PAGE tokens, sequences that hold them, and the tree of
 * those that were computed.
 *
 * A block is the place of KERNEL_PAGE consecutive tokens in every layer.  Layers that see the same
 * span form a group, and a page holds a block's tokens for all layers of a group:
 *   [layer in group][kv head]{ keys, values }
 * each kernel_kv_bytes() of the layout's type and the layer's width (kernels.h); of a layer whose
 * values are its keys, the keys alone.  Where layers see
 * everything, the page has the block's number; where they have a window, pages are fewer than
 * blocks, and a block has one only as long as somebody may look at it.
 *
 * A full block becomes findable the moment it was computed, by the tokens in it and the block
 * before it, for sequences of the same tenant.  The last block of a timeline, full or not, stays
 * findable too, and is used as far as it agrees, by copying it.  Promise A (cpu/executor.h) makes
 * a page that was found the same bits as a page computed anew.
 *
 * Blocks that no sequence holds are idle: they are kept until their place is needed, and given up
 * in the order of what they would cost to compute again, how often they were taken up and how long
 * ago (evict.c), the end of a timeline before its beginning.  Pages of windows are kept longest
 * where somebody took a timeline up, or may come to: see kv_sequence_mark.
 *
 * A model with recurrent layers keeps a state of each sequence, too, which is one piece and
 * belongs to one place of a timeline (state.c).  States are never changed: a sequence holds one and
 * writes the next.  What is held of a timeline then ends where a state is known.
 *
 * All memory is taken at open: pages as address space, physical when first touched.  Thread-safe;
 * but what a running pass reads (kv_sequence_page) must not be changed meanwhile: a sequence that
 * takes part in a pass is left alone until the pass is over. */
#ifndef CACHE_KV_H
#define CACHE_KV_H

#include "base/base.h"
#include "kernels/kernels.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define KV_POPULATE_BYTES (64u << 20) /* of pages that get their memory at open: 20 ms at most */
#define KV_PREFAULT_BYTES    (32u << 20) /* of those after the last that was used, too */
#define KV_BLOCKS_MAX     (1u << 26)  /* of pages, and of what is kept of them on disk */
#define DISK_BYTES_DEFAULT  (UINT64_C(4) << 30) /* of all files of one model */
#define DISK_PATH_MAX       4096u           /* length of a name, with its folders */

enum { KV_GROUPS_MAX = 4 };

/* What a layer keeps of a token: keys and values of n_heads heads, each of this width. */
typedef struct {
    uint32_t n_heads, width;
    bool is_latent; /* keys alone, which are the values, too */
} kv_heads;

typedef struct {
    kernel_kv_type type;         /* what keys and values are kept in */
    uint32_t n_layers, n_kv_heads, head_dim;
    const kv_heads *heads;       /* [n_layers] where layers differ; NULL: all are as above */
    const uint32_t *windows;     /* [n_layers] tokens that a layer sees; 0 = all */
    uint32_t context_tokens;     /* of one sequence at most */
    uint32_t batch_tokens;       /* of one sequence written at once at most */
    uint32_t sequences_max;
    uint64_t bytes;              /* of all pages; raised to hold one whole sequence; 0 = what
                                    sequences_max sequences can hold, but at most: */
    uint64_t bytes_max;          /* 0 = no such limit */
    uint64_t state_bytes;        /* of what a model keeps of a whole sequence beside its pages, a
                                    multiple of 64; 0 = nothing */
    uint32_t even_tokens;        /* where attention costs a token what weights do; 0 = never */
} kv_layout;

typedef struct kv_pool kv_pool;
typedef struct kv_sequence kv_sequence;

/* CERIUM_ERR_CAPACITY when the layers have more than KV_GROUPS_MAX different windows. */
CERIUM_CHECKED int kv_pool_open(kv_pool **out, const kv_layout *layout, cerium_error *err);
/* Memory that the pages of such a pool may take; 0 where it cannot be opened. */
uint64_t kv_layout_bytes(const kv_layout *layout);
void kv_pool_close(kv_pool **pool);
/* Less memory for pages from now on, or as much as there is room for again (0): never less than for
 * one whole sequence.  What no sequence holds goes at once, the rest when it is let go of. */
void kv_pool_limit(kv_pool *pool, uint64_t bytes);
/* Bytes that one more token takes in the layers that keep everything. */
uint64_t kv_token_bytes(const kv_pool *pool);

typedef struct {
    uint32_t blocks_max, held, idle; /* the rest is free; max is what the limit leaves */
    uint32_t states_max, states_held, states_idle;
    uint64_t held_bytes;             /* about what those that are held take */
    uint32_t disk_blocks, waiting;   /* on disk, and looked at for it later */
    uint64_t written, loaded;        /* blocks, to disk and from it, since keeping began */
    uint64_t evicted, damaged;       /* blocks whose file went, and that were not as written */
    uint64_t lookups, hits;          /* prompts, and those of which the disk had more than memory */
    uint64_t disk_bytes, disk_bytes_max; /* of all files; max is 0 where nothing is kept */
    bool gave_up;                    /* a file could not be written: nothing more is */
} kv_use;

void kv_pool_measure(kv_pool *pool, kv_use *use);
/* Tests only: every list, table and count agrees with every other. */
bool kv_pool_check_invariants(kv_pool *pool);

/* Before the first sequence: the watcher hears of full blocks, with the pool's lock. */
void kv_pool_watch(kv_pool *pool, const cerium_kv_watcher *watcher, void *user);

/* ---- KV on disk ---- */

typedef struct {
    const char *folder;      /* of this model and this type alone; made if need be */
    uint64_t model, numbers; /* what pages are computed from, and how: others are rejected */
    uint64_t bytes_max;      /* of all files */
    uint64_t warm_bytes;     /* of what was written last, read at once: see disk_warm.c */
    void (*notice)(void *user, const char *line); /* what went wrong, once each; on any thread */
    void (*loaded)(void *user); /* a fetch is over, on a thread of the pool: must not call it */
    void *user;
} kv_disk_config;

/* Before the first sequence: keep what becomes findable in files, too, and find what they have.  A
 * thread writes, and one reads.  Files that are damaged, foreign or in use by another process, and
 * a disk that is full, cost a notice and are gone without.
 * CERIUM_ERR_ARGUMENT when bytes_max is too small for anything. */
CERIUM_CHECKED int kv_pool_attach_disk(kv_pool *pool, const kv_disk_config *config,
                                       cerium_error *err);
/* Write what waits, and keep no more; kv_pool_close() does it too. */
void kv_pool_detach_disk(kv_pool *pool);

/* Begin to load what the disk has of the beginning of tokens [n] and memory has not.  0 when that
 * is nothing, else a ticket; when it is over, an adopt finds what was loaded, as far as there was
 * room and until others need it. */
uint64_t kv_pool_fetch(kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n);
bool kv_pool_is_fetched(kv_pool *pool, uint64_t ticket);

/* ---- sequences ---- */

/* An empty sequence that shares with those of its tenant.  CERIUM_ERR_CAPACITY when sequences_max
 * are open.  Takes its table of pages and nothing else. */
CERIUM_CHECKED int kv_sequence_open(kv_sequence **out, kv_pool *pool, uint32_t context_tokens,
                                    uint64_t tenant, cerium_error *err);
void kv_sequence_close(kv_sequence **seq);

/* Hold the longest computed beginning of tokens [n]: what it holds itself, or what the tree has.
 * What it held beyond that stays findable.  Returns the length. */
uint32_t kv_sequence_adopt(kv_sequence *seq, const int32_t *tokens, uint32_t n);

/* Make room for tokens [0, end).
 * CERIUM_ERR_CAPACITY  end is beyond the sequence's context
 * CERIUM_ERR_MEMORY    every block or state is held by a sequence; nothing was taken */
CERIUM_CHECKED int kv_sequence_reserve(kv_sequence *seq, uint32_t end);
/* The same for two states that follow, not one: after rows that may not be kept. */
CERIUM_CHECKED int kv_sequence_reserve_two(kv_sequence *seq, uint32_t end);

/* The n tokens after those that it holds were computed, and are these; reserved before. */
void kv_sequence_commit(kv_sequence *seq, const int32_t *tokens, uint32_t n);

/* ---- states of a pool that has them ---- */

/* After the tokens that the sequence holds; NULL: at the beginning of a timeline. */
const float *kv_sequence_state(const kv_sequence *seq);
/* Where a pass writes the next one; reserved before. */
float *kv_sequence_next_state(kv_sequence *seq);
/* Where it writes that after n tokens, too, n beyond those held: others find it when they are
 * committed.  NULL: there is no room. */
float *kv_sequence_keep_state(kv_sequence *seq, uint32_t n);
/* The next state was written, and is that after n of the tokens committed; those that were kept up
 * to there are found from now on. */
void kv_sequence_commit_state(kv_sequence *seq, uint32_t n);
/* A place beyond the tokens held up to which others have pages, but no state; 0: none. */
uint32_t kv_sequence_known(kv_sequence *seq);

/* Here a timeline may be taken up again: its state is found from now on.  What the windows need for
 * it is kept longer than what lies between such places.  Adopting marks by itself. */
void kv_sequence_mark(kv_sequence *seq);

/* What this sequence computes after its first n tokens is for it alone: nobody finds it, now or
 * later, in memory or on disk.  n = 0: nothing is hidden.  What was hidden until now it holds no
 * longer. */
void kv_sequence_hide(kv_sequence *seq, uint32_t n);

/* Hold what `from` holds, computed and does not hide, and hide what it does: full blocks
 * themselves, and a copy of the last one, or not that when there is no place for it.  `to` is
 * empty, of the same tenant, and has as long a context; from is in no pass.  Returns the length. */
uint32_t kv_sequence_fork(kv_sequence *to, kv_sequence *from);

/* After an adopt of tokens [n]: hold more of them where `from`, of the same tenant and in no pass,
 * computed them in a block that is not full, which nobody finds while it goes on: a copy of that.
 * Returns the length. */
uint32_t kv_sequence_borrow(kv_sequence *seq, const kv_sequence *from, const int32_t *tokens,
                            uint32_t n);

/* Hold nothing: all that was computed stays findable, as long as there is room. */
void kv_sequence_rest(kv_sequence *seq);

/* Computed tokens that it holds, and blocks, reserved ones among them. */
uint32_t kv_sequence_length(kv_sequence *seq);
uint32_t kv_sequence_blocks(kv_sequence *seq);

typedef struct {
    void *keys, *values; /* as kernel_kv_page, of the layout's type; latent: no values, NULL */
} kv_page;

kernel_kv_type kv_sequence_type(const kv_sequence *seq);
/* Where a layer's KV head keeps tokens [page * KERNEL_PAGE, ...); reserved before, and in a layer
 * with a window no older than the first token to be computed may see. */
kv_page kv_sequence_page(const kv_sequence *seq, uint32_t layer, uint32_t kv_head, uint32_t page);

/* ---- images: the beginning of a sequence as bytes (page_image.c) ---- */

/* How pages lie in this pool: others cannot load its images. */
uint64_t kv_pool_image_key(const kv_pool *pool);
/* Of an image of the first n tokens of a sequence. */
uint64_t kv_pool_image_bytes(const kv_pool *pool, uint32_t n);
/* How many of its first n_max tokens can be saved now: full blocks, or to where a state is. */
uint32_t kv_sequence_image_tokens(kv_sequence *seq, uint32_t n_max);
/* Write them to out.  False when something of them went meanwhile: look again. */
CERIUM_CHECKED bool kv_sequence_save(kv_sequence *seq, uint32_t n, uint8_t *out);
/* Hold what is in an image, and nothing else: it is that of tokens [n].  Returns how many there was
 * room for. */
uint32_t kv_sequence_load(kv_sequence *seq, const int32_t *tokens, uint32_t n, const uint8_t *in);

#endif
