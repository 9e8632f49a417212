/* gguf.h - a model file: metadata and tensors, validated whole when it is opened.
 *
 * GGUF versions 2 and 3, little-endian, memory-mapped, split files (-00001-of-00003.gguf)
 * included.  After gguf_open() every view, array and tensor lies inside the file, every tensor's
 * bytes agree with its type and shape, and names are unique: readers need no further checks of
 * bounds.  Immutable once open, so thread-safe. */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include "gguf/blocks.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define GGUF_VALUES_MAX        65536u      /* metadata keys of one file */
#define GGUF_TENSORS_MAX       65536u      /* tensors of a whole split set */
#define GGUF_KEY_BYTES_MAX     256u        /* length of a metadata key */
#define GGUF_NAME_BYTES_MAX    256u        /* length of a tensor's name */
#define GGUF_STRING_BYTES_MAX  (16u << 20) /* one string value: chat templates are ~10 KB */
#define GGUF_ITEMS_MAX         (16u << 20) /* items of one array: vocabularies are ~200,000 */
#define GGUF_SPLITS_MAX        1024u       /* files of a split set */
#define GGUF_FILE_BYTES_MAX    (UINT64_C(1) << 44) /* that a header may declare */
#define GGUF_ALIGNMENT_MIN     8u          /* the format's own rule */
#define GGUF_ALIGNMENT_MAX     65536u
#define GGUF_ALIGNMENT         32u /* if general.alignment is absent */
#define GGUF_TENSOR_VALUES_MAX (UINT64_C(1) << 48)

_Static_assert((GGUF_ALIGNMENT & (GGUF_ALIGNMENT - 1)) == 0, "alignments are powers of two");
_Static_assert(GGUF_TENSORS_MAX <= UINT32_MAX / 4, "hash tables index tensors by uint32_t");
_Static_assert(GGUF_VALUES_MAX <= UINT32_MAX / 4, "hash tables index keys by uint32_t");

typedef struct gguf_file gguf_file;

typedef enum {
    GGUF_UINT8 = 0,
    GGUF_INT8 = 1,
    GGUF_UINT16 = 2,
    GGUF_INT16 = 3,
    GGUF_UINT32 = 4,
    GGUF_INT32 = 5,
    GGUF_FLOAT32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_UINT64 = 10,
    GGUF_INT64 = 11,
    GGUF_FLOAT64 = 12,
} gguf_value_type;

/* Bytes of one value of a fixed size; 0 for strings, arrays and unknown types. */
size_t gguf_value_bytes(uint32_t type);

/* One metadata value.  For an array: type is GGUF_ARRAY, item_type and n_items describe it; items
 * of a fixed size lie packed (and unaligned) at data; strings are read by gguf_string_at(). */
typedef struct {
    view key;
    gguf_value_type type;
    gguf_value_type item_type; /* arrays */
    uint64_t n_items;          /* arrays */
    const uint8_t *data;       /* the value's bytes; for a string, its text */
    size_t data_len;
    const view *strings;       /* [n_items] for an array of strings, else NULL */
} gguf_value;

typedef struct {
    view name;
    block_type type;
    uint32_t n_dims;  /* 1..4 */
    uint64_t dims[4]; /* fastest first: dims[0] is a row's length; unused ones are 1 */
    const void *data; /* in the mapping; aligned as the file says (default 32) */
    size_t size;      /* bytes */
} gguf_tensor;

/* Open, map and validate path and, when it is the first of a split set, its siblings.
 * CERIUM_ERR_IO, CERIUM_ERR_FORMAT or CERIUM_ERR_MEMORY; the message names file and place. */
CERIUM_CHECKED int gguf_open(gguf_file **out, const char *path, cerium_error *err);
/* The same over bytes in memory, borrowed until closed (no split files); name is for messages.
 * Tensors have the alignment of file.ptr. */
CERIUM_CHECKED int gguf_open_bytes(gguf_file **out, view file, const char *name,
                                   cerium_error *err);
/* The full length of a file that begins with head, which must hold the metadata and the table of
 * tensors.  CERIUM_ERR_FORMAT or CERIUM_ERR_MEMORY; name is for messages. */
CERIUM_CHECKED int gguf_whole_bytes(uint64_t *out, view head, const char *name, cerium_error *err);
void gguf_close(gguf_file **file);

const char *gguf_path(const gguf_file *file);
uint32_t gguf_version(const gguf_file *file);
size_t gguf_file_bytes(const gguf_file *file); /* all parts together */

size_t gguf_n_values(const gguf_file *file);
const gguf_value *gguf_value_at(const gguf_file *file, size_t i);
/* NULL: absent.  Constant time. */
const gguf_value *gguf_find(const gguf_file *file, const char *key);

size_t gguf_n_tensors(const gguf_file *file);
const gguf_tensor *gguf_tensor_at(const gguf_file *file, size_t i);
const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name);

/* Scalars, converted from any numeric type that holds them exactly enough (an integer key may be
 * stored as any integer type).  False: absent or of another kind; *out is unchanged then. */
bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *out);
bool gguf_get_f32(const gguf_file *file, const char *key, float *out);
bool gguf_get_bool(const gguf_file *file, const char *key, bool *out);
bool gguf_get_string(const gguf_file *file, const char *key, view *out);
/* Item i of a numeric array as a number; the caller checked n_items and that it is numeric. */
int64_t gguf_item_i64(const gguf_value *array, uint64_t i);
double gguf_item_f64(const gguf_value *array, uint64_t i);

/* Identifies the model: a hash of the sizes and modification times of its files, all their
 * metadata, and 16 samples of 4 KB of each file's tensors. */
uint64_t gguf_fingerprint(const gguf_file *file);
/* The same hash for every copy of the model, whatever its date. */
uint64_t gguf_content_fingerprint(const gguf_file *file);

/* Tell the kernel that these bytes will not be read again (weights after repacking), so that they
 * do not stay resident beside their panels. */
void gguf_release(const gguf_file *file, const void *data, size_t size);

#endif
