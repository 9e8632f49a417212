/* index.h - the names of an environment, sealed: one block of bytes, the same as in its file.
 *
 *   header   magic, version, hash of the environment, counts
 *   scopes   the name of a module, a class or a call, its entries, the scopes it takes over
 *   entries  names of a scope, one after the other
 *   bases    scopes whose names a scope has, too
 *   slots    of each scope together, open addressing by name: names of one module are near each
 *            other in memory, and a slot has bits of the hash, so that few others are read
 *   strings  each once: length, bytes, NUL
 *
 * It is immutable: any thread may look up.  A block from a file is used only after a check of every
 * offset. */
#ifndef EXISTS_INDEX_H
#define EXISTS_INDEX_H

#include "exists/names.h"

typedef struct names_index names_index;

typedef struct {
    uint8_t kind;    /* name_kind, no alias */
    uint32_t target; /* scope */
} index_name;

/* Three answers, only one of which is ever reported. */
typedef enum { INDEX_NOT = 0, INDEX_THERE = 1, INDEX_UNKNOWN = 2 } index_answer;

/* Seal the gathered and resolved names.  Returns owned. */
CERIUM_CHECKED int index_seal(names_index **out, const name_table *b, uint64_t environment,
                              cerium_error *err);
/* Map a file that index_write() made.  CERIUM_ERR_FORMAT: it is not such a file, is damaged, or is
 * of another environment (0: of any). */
CERIUM_CHECKED int index_map(names_index **out, const char *path, uint64_t environment,
                             cerium_error *err);
/* Written beside path, then renamed: readers see the old file or the new one. */
CERIUM_CHECKED int index_write(const names_index *x, const char *path, cerium_error *err);
void index_close(names_index **x);

/* A name of a scope, or of the scopes that it takes over.  INDEX_THERE: *out is its target. */
index_answer index_find(const names_index *x, uint32_t scope, view name, index_name *out);
/* The first of names [n] that the scope has, or else the first scope that it takes over: *which.
 * INDEX_UNKNOWN: an earlier scope may have one. */
index_answer index_first(const names_index *x, uint32_t scope, const view *names_, uint32_t n,
                         uint32_t *which, index_name *out);
/* Does the scope itself have the name? */
bool index_has(const names_index *x, uint32_t scope, view name);
/* A path in the root. */
index_answer index_module(const names_index *x, char letter, view path, uint32_t *scope);
/* Scopes of the root with this prefix, such as all below a package. */
uint8_t index_flags(const names_index *x, uint32_t scope);
view index_label(const names_index *x, uint32_t scope);
/* Call for each name of a scope, and of those that it takes over, until it returns false. */
void index_each(const names_index *x, uint32_t scope, bool (*each)(void *user, view name),
                void *user);
/* A scope of the root that has the name itself: the first with the shortest path with the prefix
 * `below`; false: none. */
bool index_elsewhere(const names_index *x, char letter, view below, view name, view *path);

#endif
