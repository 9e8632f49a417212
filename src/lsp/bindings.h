/* bindings.h - the occurrences of one name in a file that mean the same: a definition, and the uses
 * bound to it by the language's scopes. */
#ifndef LSP_BINDINGS_H
#define LSP_BINDINGS_H

#include "guard/guard.h"
#include "guard/tree_memory.h"

enum {
    BINDING_TEXT_MAX = 512 << 10, /* of a file to parse */
    BINDING_NAMES_MAX = 4096,     /* occurrences of one name */
    BINDING_SCOPES_MAX = 16384,
    BINDING_DEPTH_MAX = 400,      /* of the tree */
};

typedef struct {
    uint32_t begin;   /* byte of the text */
    bool is_short;    /* {name}: its key has the same text */
} binding_place;

typedef struct {
    bool is_definition;   /* the given place is its first definition */
    bool is_imported;     /* another file names it */
    uint32_t from, to;    /* of the text: the scope that knows it */
    uint32_t n;
    binding_place places[BINDING_NAMES_MAX]; /* [n] in order, with the given place */
} binding;

/* Binds the identifier of `len` bytes at byte `at`.  False: its meaning is not certain. */
bool binding_find(binding *out, tree_memory *memory, guard_language language, view text, size_t at,
                  size_t len);

#endif
