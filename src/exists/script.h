/* script.h - declarations shared by the readers of JavaScript and TypeScript. */
#ifndef EXISTS_SCRIPT_H
#define EXISTS_SCRIPT_H

#include "exists/code_file.h"

enum { SCRIPT_BODIES_MAX = 16 };

typedef struct {
    uint32_t end, scope; /* of a namespace: the token after it, and its names */
} script_body;

typedef struct {
    code_file s;
    uint32_t module, locals;
    bool types;      /* declarations */
    bool is_module;  /* it imports or exports, as ES modules do */
    bool has_list;   /* it declares its exports itself */
    bool is_global;
    uint32_t n_ambient;
    script_body bodies[SCRIPT_BODIES_MAX];
    uint32_t n_bodies;
    script_find find;
    void *user;
    char path[NAMES_WORD_MAX];
    bytes words;     /* scratch */
} scripts;

/* The module that the string at i names, into r->path. */
bool script_path(scripts *r, uint32_t i);
/* Static members of the class whose body begins at i, which the module exports. */
void script_statics(scripts *r, uint32_t i);
/* Does the class at i extend one with unknown members? */
bool script_class_is_foreign(scripts *r, uint32_t i);
/* The values that a CommonJS module assigns to its exports. */
void script_read_common(scripts *r);

#endif
