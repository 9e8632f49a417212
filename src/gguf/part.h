/* part.h - one GGUF file, parsed: gguf_parse.c makes it, and gguf.c joins parts into a model.
 *
 * Private to src/gguf. */
#ifndef GGUF_PART_H
#define GGUF_PART_H

#include "gguf/gguf.h"

/* Index of unique names: open addressing over items that begin with their name. */
typedef struct {
    uint32_t *slots; /* [mask + 1]: item number + 1, or 0 */
    uint32_t mask;
} name_table;

/* Allocate for n_max names. Release with name_table_close(). */
CERIUM_CHECKED int name_table_open(name_table *table, size_t n_max);
void name_table_close(name_table *table);
/* items: [.][stride bytes], each beginning with its name as a view.
 * The number of the item, or SIZE_MAX: the name is not there. */
size_t name_table_find(const name_table *table, const void *items, size_t stride, view name);
/* False: item i's name is there already.  The caller inserts at most n_max. */
bool name_table_add(name_table *table, const void *items, size_t stride, size_t i);

typedef struct {
    const char *label;  /* the file, in messages; borrowed */
    const uint8_t *ptr; /* [len] the whole file; borrowed */
    size_t len;
    int64_t changed_ns; /* time of the last change; 0 for bytes in memory */
    size_t data_at;     /* end of the metadata, at most len */
    bool is_head;       /* data may lie past len, and tensors have none */
    uint64_t whole;     /* required bytes of the whole file: the end of the last tensor */
    uint32_t version;
    gguf_value *values; /* [n_values] */
    size_t n_values;
    name_table keys;
    gguf_tensor *tensors; /* [n_tensors]; names may repeat: the caller checks them across parts */
    size_t n_tensors;
} gguf_part;

/* Parse and validate part->ptr[len]. label, ptr and len are set, the rest is zero; on failure it
 * is zero again. CERIUM_ERR_FORMAT or CERIUM_ERR_MEMORY. Release with gguf_part_free(). */
CERIUM_CHECKED int gguf_part_parse(gguf_part *part, cerium_error *err);
void gguf_part_free(gguf_part *part);
/* NULL: absent. */
const gguf_value *gguf_part_find(const gguf_part *part, view key);

/* A scalar of any integer type, not negative; false: another. value may be NULL. */
bool gguf_value_u64(const gguf_value *value, uint64_t *out);
/* The same for a number of any type. */
bool gguf_value_f32(const gguf_value *value, float *out);

#endif
