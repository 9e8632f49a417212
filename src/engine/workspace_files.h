/* workspace_files.h - finds the text files of a folder that a user works on, and their tokens. */
#ifndef ENGINE_WORKSPACE_FILES_H
#define ENGINE_WORKSPACE_FILES_H

#include <stdatomic.h>

#include "base/memory.h"
#include "speculation/corpus.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    hash_name name;      /* of its path from the folder */
    int64_t changed_ns;
    uint64_t size;
    size_t path_at;      /* in paths */
} workspace_file;

/* The result of a walk through the folder. */
typedef struct {
    bytes files;         /* workspace_file, the newest first */
    bytes paths;         /* NUL-terminated, from the folder */
    uint32_t n_files, n_names;
} workspace_look;

/* Files below folder, but those whose name begins with '.', links, folders of what is made or
 * installed (build, node_modules, ...), files over WORKSPACE_FILE_BYTES_MAX; no more than the
 * limits allow.  CERIUM_ERR_IO: the folder cannot be read; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int workspace_look_at(workspace_look *look, const char *folder, cerium_error *err);
void workspace_look_close(workspace_look *look);
/* The same for the same files with the same times and sizes; never 0. */
uint64_t workspace_look_hash(const workspace_look *look);

/* Sealed bytes of what was looked at, the newest files first as far as there is room, into a block
 * [*size] of memory_map().  Files that old (or NULL) has, and that did not change, are not read.
 * CERIUM_ERR_CANCELED when *stop was set; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int workspace_build(const workspace_look *look, const char *folder,
                                   const tokenizer *t, uint64_t vocabulary, const corpus *old,
                                   const _Atomic bool *stop, void **block, size_t *size);

#endif
