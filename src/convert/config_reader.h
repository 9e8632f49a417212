/* config_reader.h - shared by the parts that read config.json and write its keys.
 *
 * Private to this folder.  A reader remembers its first error. */
#ifndef CONVERT_CONFIG_READER_H
#define CONVERT_CONFIG_READER_H

#include "base/json.h"
#include "convert/convert.h"

enum { CONFIG_WIDTH_MAX = 1 << 24 };

typedef struct {
    json_t *file;               /* owned; NULL: it belongs to another reader */
    const json_t *whole, *root; /* the file, and the decoder's part of it */
    const char *name;           /* of the file, for messages */
    int status;
    cerium_error *err;
} config_reader;

/* Parses a config.json; name and err stay borrowed.  Unless it fails, config_close() is due.
 * CERIUM_ERR_FORMAT. */
CERIUM_CHECKED int config_open(config_reader *out, view json, const char *name, cerium_error *err);
/* The first error, or CERIUM_OK. */
CERIUM_CHECKED int config_close(config_reader *r);
void config_refuse(config_reader *r, const char *what, const char *key);
/* NULL: it is missing or null. */
const json_t *config_get(const json_t *object, const char *key);
/* A number without a fraction; 4.0 counts, too. */
bool config_whole(const json_t *value, int64_t *out);
uint32_t config_u32(config_reader *r, const char *key, uint32_t max);
uint32_t config_u32_or(config_reader *r, const char *key, uint32_t max, uint32_t otherwise);
/* Above 0. */
double config_number(config_reader *r, const json_t *object, const char *key, double otherwise);
const char *config_text(const json_t *object, const char *key);
/* layer_types: is[i] of n layers, whether each is of this type; the others see everything.
 * Unchanged if there is no list. */
void config_layer_types(config_reader *r, const char *type, uint32_t n, bool *is);

typedef struct {
    gguf_writer *w;
    const char *arch;
} config_writer;

const char *config_key(const config_writer *k, const char *name, char key[96]);
void config_put_u32(const config_writer *k, const char *name, uint32_t value);
void config_put_f32(const config_writer *k, const char *name, double value);

/* convert_families.c: windows by layer, experts, scales, and parts of heads that turn. */
void convert_families_read(config_reader *r, convert_config *c);
void convert_families_write(const config_writer *k, const convert_config *c);
/* If there are several objects for RoPE: the one of the layers that see everything. */
const json_t *convert_families_rope(config_reader *r, convert_config *c, const json_t *rope);

/* convert_drafters.c */
void convert_drafters_read(config_reader *r, convert_config *c);
void convert_drafters_write(const config_writer *k, const convert_config *c);

#endif
