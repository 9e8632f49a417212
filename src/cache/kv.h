/* kv.h - the KV cache: pages of KERNEL_PAGE tokens, and the page tables of sequences.
 *
 * Layers that see everything keep every page; layers with a sliding window keep a ring of pages
 * that spans the window and one batch.  Layers that keep the same span form a group and share a
 * page table, so that a page holds those tokens for all layers of its group:
 *   [layer in group][kv head]{ keys [head_dim][KERNEL_PAGE], values [KERNEL_PAGE][head_dim] }
 * in the layout's type.  Pages come from one pool an engine, taken at open as address space and in
 * physical memory when first touched.  Not thread-safe; pages of distinct sequences are
 * independent. */
#ifndef CACHE_KV_H
#define CACHE_KV_H

#include "base/base.h"
#include "kernels/kernels.h"

enum { KV_GROUPS_MAX = 4, KV_NO_PAGE = UINT32_MAX };

typedef struct {
    kernel_kv_type type;         /* what keys and values are kept in */
    uint32_t n_layers, n_kv_heads, head_dim;
    const uint32_t *windows;     /* [n_layers] tokens that a layer sees; 0 = all */
    uint32_t context_tokens;     /* of one sequence at most */
    uint32_t batch_tokens;       /* written at once at most */
    uint32_t sequences_max;
} kv_layout;

typedef struct kv_pool kv_pool;
typedef struct kv_sequence kv_sequence;

/* CERIUM_ERR_CAPACITY when the layers have more than KV_GROUPS_MAX different windows. */
CERIUM_CHECKED int kv_pool_open(kv_pool **out, const kv_layout *layout, cerium_error *err);
void kv_pool_close(kv_pool **pool);
/* Bytes that one more token takes in the layers that keep everything. */
uint64_t kv_token_bytes(const kv_pool *pool);

/* CERIUM_ERR_CAPACITY when sequences_max are open. */
CERIUM_CHECKED int kv_sequence_open(kv_sequence **out, kv_pool *pool, uint32_t context_tokens,
                                    cerium_error *err);
void kv_sequence_close(kv_sequence **seq);

/* Make room for tokens [0, end); end within the context. Takes pages from the pool. */
CERIUM_CHECKED int kv_sequence_reserve(kv_sequence *seq, uint32_t end);

/* Forget tokens from n on.  Returns how many are still usable: n, or 0 when a window layer no
 * longer has the tokens that token n would see. Gives back the pages that are not needed. */
uint32_t kv_sequence_truncate(kv_sequence *seq, uint32_t n);

typedef struct {
    kernel_kv_type type; /* of the numbers below */
    void *keys;          /* [head_dim][KERNEL_PAGE] */
    void *values;        /* [KERNEL_PAGE][head_dim] */
} kv_page;

/* Where a layer's KV head keeps tokens [page * KERNEL_PAGE, ...); reserved before. */
kv_page kv_sequence_page(const kv_sequence *seq, uint32_t layer, uint32_t kv_head, uint32_t page);

#endif
