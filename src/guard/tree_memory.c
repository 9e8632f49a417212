/* tree_memory.c - tree-sitter's memory: pieces of powers of two from one block. */
#include "guard/tree_memory.h"
#include "guard/guard.h"

#include <tree_sitter/api.h>

/* Before each piece: its class.  Sixteen bytes keep the piece aligned. */
enum { HEAD = 16, CLASS_MIN = 5 };

static _Thread_local tree_memory *current;

int tree_memory_open(tree_memory *m)
{
    *m = (tree_memory){.block = memory_map_sparse(GUARD_PARSE_BYTES)};
    return m->block ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void tree_memory_close(tree_memory *m)
{
    if (m->block) memory_unmap(m->block, GUARD_PARSE_BYTES);
    *m = (tree_memory){0};
}

static void *take(size_t size)
{
    tree_memory *m = current;
    unsigned class = CLASS_MIN;
    CHECK(m);
    while (class < TREE_MEMORY_CLASSES && ((size_t)1 << class) - HEAD < size) class++;
    if (class == TREE_MEMORY_CLASSES) longjmp(m->out, 1);
    uint8_t *piece = m->spare[class];
    if (piece) memcpy(&m->spare[class], piece + HEAD, sizeof(void *));
    else {
        if ((size_t)1 << class > GUARD_PARSE_BYTES - m->used) longjmp(m->out, 1);
        piece = m->block + m->used;
        m->used += (size_t)1 << class;
    }
    piece[0] = (uint8_t)class;
    return piece + HEAD;
}

static void *take_zeroed(size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total)) longjmp(current->out, 1);
    return memset(take(total), 0, total);
}

static void give(void *p)
{
    tree_memory *m = current;
    if (!p) return;
    CHECK(m);
    uint8_t *piece = (uint8_t *)p - HEAD;
    memcpy(p, &m->spare[piece[0]], sizeof(void *));
    m->spare[piece[0]] = piece;
}

static void *take_again(void *p, size_t size)
{
    if (!p) return take(size);
    size_t had = ((size_t)1 << ((uint8_t *)p - HEAD)[0]) - HEAD;
    if (size <= had) return p;
    void *more = take(size);
    memcpy(more, p, had);
    give(p);
    return more;
}

bool tree_memory_run(tree_memory *m, void (*run)(void *arg), void *arg)
{
    m->used = 0;
    memset(m->spare, 0, sizeof m->spare);
    current = m;
    bool enough = setjmp(m->out) == 0;
    if (enough) run(arg);
    current = NULL;
    return enough;
}

void tree_memory_install(void) { ts_set_allocator(take, take_zeroed, take_again, give); }
