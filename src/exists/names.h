/* names.h - the names of an environment while they are gathered: scopes with names in them.
 *
 * A scope is a module, a class, a namespace, or the keywords of a call.  Scope 0 is the root: its
 * names are paths of modules, with a letter for the kind before them ("pnumpy.linalg",
 * "jlodash/fp", "gnet/http", "czlib.h").  A name leads to another scope, or to a value without
 * known members.  An imported name is an alias until names_resolve() has found its target.
 *
 * The first failure is kept in `status`; later calls do nothing. */
#ifndef EXISTS_NAMES_H
#define EXISTS_NAMES_H

#include "base/memory.h"

/* ---- limits: the most that a broken or hostile environment can take ---- */

#define NAMES_MAX        (16u << 20)
#define NAMES_BYTES_MAX  (256u << 20)
#define NAMES_WORD_MAX   1024u /* length of one, paths too */
#define NAMES_DEPTH_MAX  16u   /* of aliases that lead to aliases, of classes over classes */
#define NAMES_NONE       UINT32_MAX
#define NAMES_WEAK       UINT8_MAX /* a pass: any definition of another pass takes precedence */

typedef enum {
    SCOPE_OPEN = 1,    /* it may have other, unknown names */
    SCOPE_MODULE = 2,
    SCOPE_CLASS = 4,
    SCOPE_CALL = 8,    /* its names are keywords of a call */
    SCOPE_PACKAGE = 16,
    SCOPE_ALL = 32,    /* it declares the names that a star takes: only these */
    SCOPE_TYPES = 64,  /* declarations: they list all its names */
    SCOPE_NATIVE = 128, /* of the interpreter's own library */
} scope_flags;

typedef enum {
    NAME_VALUE = 0, /* it exists, and has no known members */
    NAME_SCOPE = 1, /* it leads to a module, a class, a namespace */
    NAME_CALL = 2,  /* a function: leads to its keywords */
    NAME_ALIAS = 3, /* until it is resolved */
} name_kind;

typedef struct {
    uint32_t name;  /* of strings */
    uint32_t scope;
    uint32_t target; /* scope; alias: of aliases */
    uint32_t next;  /* of the scope, from 1; 0: none */
    uint8_t kind;
    uint8_t pass;
    bool starred;   /* taken by a star unless the scope declares the names that a star takes */
} name_entry;

typedef struct {
    uint32_t label; /* its name for people */
    uint32_t first, n; /* entries, in a list */
    uint32_t parent;   /* the scope in which names are searched next */
    uint8_t flags;
} name_scope;

typedef struct {
    bytes strings;  /* each: its length in two bytes, its bytes, NUL */
    bytes entries, scopes, aliases, stars, bases, patches;
    uint32_t *string_slots, *entry_slots; /* open addressing; [n_string_slots], ... */
    uint32_t n_string_slots, n_entry_slots;
    uint32_t n_strings, n_entries, n_scopes;
    bool stub;      /* reading declarations: scopes are SCOPE_TYPES */
    uint8_t pass;   /* which file of a module is being read: names of an earlier one stay */
    int status;
} name_table;

CERIUM_CHECKED int names_open(name_table *b);
void names_close(name_table *b);

view names_text(const name_table *b, uint32_t string);
name_scope *names_scope_at(const name_table *b, uint32_t scope);
name_entry *names_entry_at(const name_table *b, uint32_t entry);

/* A new scope; parent: NAMES_NONE or the scope in which its code searches names next. */
uint32_t names_scope(name_table *b, uint32_t flags, view label, uint32_t parent);
void names_open_scope(name_table *b, uint32_t scope);
/* The entry of a name; NAMES_NONE: none. */
uint32_t names_find(const name_table *b, uint32_t scope, view name);
/* A name; one that is defined twice in a file leads nowhere. */
void names_add(name_table *b, uint32_t scope, view name, name_kind kind, uint32_t target);
/* Module `path` (with its letter), or a member of it. */
void names_import(name_table *b, uint32_t scope, view name, view path, view member);
/* The target of the expression a.b.c in the scope `in`. */
void names_alias(name_table *b, uint32_t scope, view name, uint32_t in, view expression);
/* The scope takes over all names of module `path`. */
void names_star(name_table *b, uint32_t scope, view path);
/* A class takes over the names of its base: the expression in the scope `in`. */
void names_base(name_table *b, uint32_t scope, uint32_t in, view expression);
/* The same for a known scope; soft: unknown names of that scope do not count. */
void names_base_scope(name_table *b, uint32_t scope, uint32_t base, bool soft);
/* expression.name = ... in the scope `in`. */
void names_patch(name_table *b, uint32_t in, view expression, view name);

/* Scope of the path in the root, made if there is none. */
uint32_t names_module(name_table *b, view path, uint32_t flags, view label);

/* Resolve aliases, stars and bases to their targets. */
void names_resolve(name_table *b);

/* For index.c */
typedef struct {
    uint32_t scope, base; /* after names_resolve() */
    uint32_t in, expression, order;
    bool soft, found;
} name_base;

#endif
