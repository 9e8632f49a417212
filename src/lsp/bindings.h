/* bindings.h - where one name of a file means the same thing: its definition, and the uses that the
 * language's scopes bind to it. */
#ifndef LSP_BINDINGS_H
#define LSP_BINDINGS_H

#include "guard/guard.h"
#include "guard/tree_memory.h"

enum {
    BINDING_TEXT_MAX = 512 << 10, /* of a file that is read */
    BINDING_NAMES_MAX = 4096,     /* occurrences of one name */
    BINDING_SCOPES_MAX = 16384,
    BINDING_DEPTH_MAX = 400,      /* of the tree */
};

typedef struct {
    uint32_t begin;   /* byte of the text */
    bool is_short;    /* {name}: its key has the same text */
} binding_place;

typedef struct {
    bool is_definition;   /* the place that was asked for is the first that defines it */
    bool is_imported;     /* another file names it */
    uint32_t from, to;    /* of the text: the scope in which it is known */
    uint32_t n;
    binding_place places[BINDING_NAMES_MAX]; /* [n] in order, the place that was asked for too */
} binding;

/* Of the identifier of `len` bytes at byte `at`.  False: nothing there is known for sure. */
bool binding_find(binding *out, tree_memory *memory, guard_language language, view text, size_t at,
                  size_t len);

#endif
