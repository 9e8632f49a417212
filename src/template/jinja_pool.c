/* jinja_pool.c - owns the memory of templates and of their runs: blocks that are freed as a
 * whole. */
#include "template/jinja_tree.h"

struct jinja_block {
    jinja_block *next;
    max_align_t bytes[];
};

enum { BLOCK_BYTES = 16 << 10, BLOCK_BYTES_MAX = 1 << 20, PLAIN_ALIGN = 16 };

static bool add_block(jinja_pool *pool, size_t size)
{
    size_t want = pool->used < BLOCK_BYTES       ? BLOCK_BYTES
                  : pool->used < BLOCK_BYTES_MAX ? pool->used
                                                 : BLOCK_BYTES_MAX;
    if (want < size) want = size;
    if (want > pool->max - pool->used) want = pool->max - pool->used;
    if (want < size) return false;
    jinja_block *block = memory_alloc(sizeof *block + want);
    if (!block) return false;
    block->next = pool->blocks;
    pool->blocks = block;
    pool->at = (uint8_t *)block->bytes;
    pool->end = pool->at + want;
    pool->used += want;
    return true;
}

void *jinja_take(jinja_pool *pool, size_t size)
{
    if (size > pool->max) return NULL;
    size = size_round_up(size ? size : 1, PLAIN_ALIGN);
    if (size > (size_t)(pool->end - pool->at) && !add_block(pool, size)) return NULL;
    void *out = pool->at;
    pool->at += size;
    return out;
}

void jinja_pool_free(jinja_pool *pool)
{
    for (jinja_block *block = pool->blocks; block;) {
        jinja_block *next = block->next;
        memory_free(block);
        block = next;
    }
    *pool = (jinja_pool){.max = pool->max};
}
