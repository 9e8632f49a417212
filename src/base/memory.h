/* memory.h - all allocation goes through here: allocations that may fail, huge mappings, arenas.
 *
 * Everything returns NULL when memory runs out, and the caller returns CERIUM_ERR_MEMORY.  Tests
 * make the n-th allocation fail with memory_fail_at() and count live allocations.  Thread-safe. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include "base/base.h"

/* A cache line, and one AVX-512 register.  Allocations are aligned to it from MEMORY_ALIGNED_MIN
 * bytes on, and all whose size is a multiple of it, which includes every type that asks for it.
 * Others are small parts of a request, aligned for any plain type. */
enum { MEMORY_ALIGN = 64, MEMORY_ALIGNED_MIN = 1024 };
/* A huge page of x86-64 and arm64: the alignment of large mappings and files of weights. */
enum { MEMORY_HUGE_PAGE = 2 << 20 };

/* Returns owned, uninitialised; release with memory_free(). size may be 0. */
void *memory_alloc(size_t size);
/* Returns owned, all zero; NULL also when n * size overflows. */
void *memory_zalloc(size_t n, size_t size);
/* Returns owned: [size] bytes of from and a NUL after them. */
void *memory_copy(const void *from, size_t size);
/* Accepts NULL. */
void memory_free(void *p);

/* Return freed memory to the system, if the C library can. Small live blocks keep it from doing so
 * by itself. Takes about a millisecond at most, during which other threads may wait. */
void memory_trim(void);

/* Free what the C library allocated for us (open_memstream). Accepts NULL. */
void memory_release(void *p);

/* Zeroed pages for weights and KV, on huge pages if the kernel allows them.  Physical memory is
 * taken when a page is first touched.  Returns owned; release with memory_unmap(). */
void *memory_map(size_t size);
/* The same on pages of the usual size: for much room of which little is used, since one byte on a
 * huge page takes all of it. */
void *memory_map_sparse(size_t size);
/* Take the physical memory of mapped pages now, if the kernel can, so that a later pass meets no
 * page fault. */
void memory_populate(void *p, size_t size);
/* Bytes [offset, offset + size) of an open file, read-only and shared between all processes that
 * map them; NULL with errno set.  offset is a multiple of MEMORY_HUGE_PAGE, so that the system can
 * use huge pages where its file systems have them.  Returns owned; the file may be closed. */
void *memory_map_file(int fd, uint64_t offset, size_t size);
/* Unmaps mappings of either kind. */
void memory_unmap(void *p, size_t size);
/* Return the physical memory of the whole system pages inside, parts of a memory_map(): they read
 * as zeros again. */
void memory_drop(void *p, size_t size);

/* Tests only: fail allocation number n from now (0 = the next one); -1 = never. */
void memory_fail_at(long n);
/* Live allocations and mappings. */
long memory_live(void);
/* Allocations and mappings ever made: a decode loop must leave it unchanged. */
long memory_count(void);

/* One bounded block from which pieces are taken and which is freed as a whole. */
typedef struct {
    uint8_t *base;
    size_t used, size;
} arena;

int arena_open(arena *a, size_t size);
/* NULL: it does not fit; aligned to align (a power of two, at most MEMORY_ALIGN). */
void *arena_take(arena *a, size_t size, size_t align);
void arena_close(arena *a);

/* A growable byte buffer with a maximum.  Zero-initialise, set max.  From BYTES_MAPPED_MIN bytes on
 * it has its own pages, and growing moves them without a copy, so filling 32 MB never stalls for
 * long. ptr belongs to the buffer: only bytes_free() may free it. */
enum { BYTES_MAPPED_MIN = 1 << 20 };
typedef struct {
    char *ptr;
    size_t len, cap;
    size_t max;
} bytes;

/* CERIUM_ERR_CAPACITY beyond max, CERIUM_ERR_MEMORY if memory runs out; *b stays unchanged. */
int bytes_reserve(bytes *b, size_t more);
int bytes_append(bytes *b, const void *from, size_t len);
void bytes_free(bytes *b);

#endif
