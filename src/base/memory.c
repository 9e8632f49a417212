/* memory.c - the one file that calls malloc, free and mmap for memory. */
#define BASE_MEMORY_C
#include "base/memory.h"

#include <errno.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic long fail_countdown = -1;
static _Atomic long n_live, n_made;

static bool allowed(void)
{
    atomic_fetch_add_explicit(&n_made, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_countdown, memory_order_relaxed) < 0) return true;
    return atomic_fetch_sub(&fail_countdown, 1) != 0;
}

/* glibc keeps no list of freed aligned blocks: they cost ten times as much. */
static void *take(size_t size, bool aligned)
{
    void *p = NULL;
    if (!allowed() || size > SIZE_MAX - MEMORY_ALIGN) return NULL;
    if (!aligned)
        p = malloc(size ? size : 1);
    else if (posix_memalign(&p, MEMORY_ALIGN, size ? size : 1))
        p = NULL;
    if (p) atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

void *memory_alloc(size_t size)
{
    return take(size, size >= MEMORY_ALIGNED_MIN || size % MEMORY_ALIGN == 0);
}

void *memory_zalloc(size_t n, size_t size)
{
    size_t total;
    if (!size_mul(n, size, &total)) return NULL;
    void *p = memory_alloc(total);
    if (p) memset(p, 0, total);
    return p;
}

void *memory_copy(const void *from, size_t size)
{
    char *p = size < SIZE_MAX ? memory_alloc(size + 1) : NULL;
    if (!p) return NULL;
    if (size) memcpy(p, from, size);
    p[size] = 0;
    return p;
}

void memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void memory_free(void *p)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

void memory_release(void *p) { free(p); }

/* Address space of size bytes that begins on a huge page: over-map and trim. */
static uint8_t *reserve(size_t size)
{
    const size_t huge = MEMORY_HUGE_PAGE, len = size_round_up(size, 4096), span = len + huge;
    uint8_t *p = mmap(NULL, span, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    uint8_t *start = (uint8_t *)size_round_up((size_t)p, huge);
    if (start > p) munmap(p, (size_t)(start - p));
    if (p + span > start + len) munmap(start + len, (size_t)(p + span - (start + len)));
    return start;
}

static bool mappable(size_t size)
{
    return allowed() && size != 0 && size <= SIZE_MAX - 2 * (size_t)MEMORY_HUGE_PAGE;
}

static void *map(size_t size, int advice)
{
    uint8_t *start = mappable(size) ? reserve(size) : NULL;
    if (!start) return NULL;
    /* A hint; without huge pages the result is the same. */
    madvise(start, size_round_up(size, 4096), advice);
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return start;
}

void *memory_map(size_t size) { return map(size, MADV_HUGEPAGE); }

void *memory_map_sparse(size_t size) { return map(size, MADV_NOHUGEPAGE); }

void memory_populate(void *p, size_t size)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE of Linux 5.14 */
    madvise(p, size_round_up(size, 4096), POPULATE_WRITE); /* a hint, too */
}

void *memory_map_file(int fd, uint64_t offset, size_t size)
{
    CHECK(offset % MEMORY_HUGE_PAGE == 0);
    errno = ENOMEM;
    uint8_t *start = mappable(size) ? reserve(size) : NULL;
    if (!start) return NULL;
    if (mmap(start, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == MAP_FAILED) {
        int why = errno;
        munmap(start, size_round_up(size, 4096));
        errno = why;
        return NULL;
    }
    madvise(start, size, MADV_HUGEPAGE); /* of the page cache, if the file system has them */
    atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return start;
}

void memory_drop(void *p, size_t size)
{
    const size_t from = size_round_up((size_t)p, 4096), end = ((size_t)p + size) / 4096 * 4096;
    if (from < end) madvise((void *)from, end - from, MADV_DONTNEED);
}

void memory_unmap(void *p, size_t size)
{
    if (!p) return;
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    munmap(p, size_round_up(size, 4096));
}

void memory_fail_at(long n) { atomic_store(&fail_countdown, n); }
long memory_live(void) { return atomic_load(&n_live); }
long memory_count(void) { return atomic_load(&n_made); }

int arena_open(arena *a, size_t size)
{
    a->used = 0;
    a->size = size;
    a->base = size <= SIZE_MAX / 2 ? memory_alloc(size_round_up(size, MEMORY_ALIGN)) : NULL;
    return a->base ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void *arena_take(arena *a, size_t size, size_t align)
{
    CHECK(align && align <= MEMORY_ALIGN && (align & (align - 1)) == 0);
    size_t at = (a->used + align - 1) & ~(align - 1);
    if (at > a->size || size > a->size - at) return NULL;
    a->used = at + size;
    return a->base + at;
}

void arena_close(arena *a)
{
    memory_free(a->base);
    *a = (arena){0};
}

static bool is_mapped(const bytes *b) { return b->cap >= BYTES_MAPPED_MIN; }

static size_t mapped_size(size_t cap) { return size_round_up(cap, 4096); }

/* Separate pages for a long run: they move without being copied.  NULL: no memory. */
static char *map_run(const bytes *b, size_t cap)
{
    const size_t size = mapped_size(cap);
    void *p;
    if (!allowed()) return NULL;
    if (is_mapped(b))
        p = mremap(b->ptr, mapped_size(b->cap), size, MREMAP_MAYMOVE);
    else
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (!is_mapped(b)) atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

int bytes_reserve(bytes *b, size_t more)
{
    size_t need;
    if (!size_add(b->len, more, &need) || need > b->max) return CERIUM_ERR_CAPACITY;
    if (need <= b->cap) return CERIUM_OK;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (cap > b->max) cap = b->max;
    bool moves = is_mapped(b);
    char *p = cap < BYTES_MAPPED_MIN ? take(cap, false) : map_run(b, cap);
    if (!p) return CERIUM_ERR_MEMORY;
    if (!moves) {
        if (b->len) memcpy(p, b->ptr, b->len);
        memory_free(b->ptr);
    }
    b->ptr = p;
    b->cap = cap;
    return CERIUM_OK;
}

int bytes_append(bytes *b, const void *from, size_t len)
{
    RETURN_IF(bytes_reserve(b, len));
    if (len) memcpy(b->ptr + b->len, from, len);
    b->len += len;
    return CERIUM_OK;
}

void bytes_free(bytes *b)
{
    if (is_mapped(b))
        memory_unmap(b->ptr, b->cap);
    else
        memory_free(b->ptr);
    *b = (bytes){.max = b->max};
}
