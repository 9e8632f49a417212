/* yaml_read.h - a YAML document as a tree with lines, on libyaml. */
#ifndef GUARD_YAML_READ_H
#define GUARD_YAML_READ_H

#include <yaml.h>

#include "base/base.h"

typedef struct {
    yaml_document_t document;
    const char *file;
    cerium_error *err;
} yaml_text;

typedef struct {
    view key;
    yaml_node_t *key_node, *value;
} yaml_entry;

/* Read one document.  A YAML error is CERIUM_ERR_FORMAT with its line. */
int yaml_open(yaml_text *y, const char *file, view text, cerium_error *err);
void yaml_close(yaml_text *y);
yaml_node_t *yaml_root(yaml_text *y);
/* "file:line: text"; returns CERIUM_ERR_FORMAT. */
int yaml_bad(const yaml_text *y, const yaml_node_t *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Entry i of a mapping, item i of a sequence; false after the last.  A scalar counts as a sequence
 * of itself. */
bool yaml_entry_at(yaml_text *y, const yaml_node_t *map, size_t i, yaml_entry *out);
bool yaml_item_at(yaml_text *y, yaml_node_t *list, size_t i, yaml_node_t **out);
/* Its text; {NULL, 0}: it is not a scalar. */
view yaml_scalar(const yaml_node_t *node);
static inline bool yaml_is_map(const yaml_node_t *n) { return n && n->type == YAML_MAPPING_NODE; }

#endif
