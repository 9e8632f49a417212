/* tree_memory.h - the memory in which a window is parsed: one bounded block, empty at each parse.
 *
 * tree-sitter allocates in many places and ends the process when memory runs out.  Here it gets a
 * block that was allocated beforehand; when that is used up the parse ends, and its memory is freed
 * with the block.  Whether a window is too large depends on the window alone. */
#ifndef GUARD_TREE_MEMORY_H
#define GUARD_TREE_MEMORY_H

#include <setjmp.h>

#include "base/memory.h"

enum { TREE_MEMORY_CLASSES = 32 };

typedef struct {
    uint8_t *block; /* [GUARD_PARSE_BYTES], mapped: pages that are never reached cost nothing */
    size_t used;
    void *spare[TREE_MEMORY_CLASSES]; /* freed pieces, by the power of two of their size */
    jmp_buf out;
} tree_memory;

int tree_memory_open(tree_memory *m);
void tree_memory_close(tree_memory *m);
/* Call run(arg) with all of tree-sitter's memory in *m, which is empty at first; false: it did not
 * suffice.  run may not hold anything that must be released otherwise. */
bool tree_memory_run(tree_memory *m, void (*run)(void *arg), void *arg);
/* Register with tree-sitter; once, before its first use. */
void tree_memory_install(void);

#endif
