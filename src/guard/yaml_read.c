/* yaml_read.c - a YAML document as a tree, with libyaml. */
#include "guard/yaml_read.h"

int yaml_open(yaml_text *y, const char *file, view text, cerium_error *err)
{
    yaml_parser_t parser;
    *y = (yaml_text){.file = file, .err = err};
    if (!yaml_parser_initialize(&parser))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory to read it", file);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.ptr, text.len);
    int status = CERIUM_OK;
    if (!yaml_parser_load(&parser, &y->document)) {
        status = parser.error == YAML_MEMORY_ERROR ? CERIUM_ERR_MEMORY : CERIUM_ERR_FORMAT;
        error_set(err, status, "%s:%zu: not YAML: %s", file, parser.problem_mark.line + 1,
                  parser.problem ? parser.problem : "cannot be read");
    }
    yaml_parser_delete(&parser);
    return status;
}

void yaml_close(yaml_text *y) { yaml_document_delete(&y->document); }

yaml_node_t *yaml_root(yaml_text *y) { return yaml_document_get_root_node(&y->document); }

int yaml_bad(const yaml_text *y, const yaml_node_t *at, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return error_set(y->err, CERIUM_ERR_FORMAT, "%s:%zu: %s", y->file,
                     at ? at->start_mark.line + 1 : (size_t)1, text);
}

bool yaml_entry_at(yaml_text *y, const yaml_node_t *map, size_t i, yaml_entry *out)
{
    yaml_node_pair_t *first = map->data.mapping.pairs.start;
    if (i >= (size_t)(map->data.mapping.pairs.top - first)) return false;
    out->key_node = yaml_document_get_node(&y->document, first[i].key);
    out->value = yaml_document_get_node(&y->document, first[i].value);
    out->key = yaml_scalar(out->key_node);
    return true;
}

bool yaml_item_at(yaml_text *y, yaml_node_t *list, size_t i, yaml_node_t **out)
{
    if (list->type != YAML_SEQUENCE_NODE) {
        *out = list;
        return i == 0;
    }
    yaml_node_item_t *first = list->data.sequence.items.start;
    if (i >= (size_t)(list->data.sequence.items.top - first)) return false;
    *out = yaml_document_get_node(&y->document, first[i]);
    return true;
}

view yaml_scalar(const yaml_node_t *node)
{
    if (!node || node->type != YAML_SCALAR_NODE) return (view){NULL, 0};
    return (view){(const char *)node->data.scalar.value, node->data.scalar.length};
}
