/* write.h - make a GGUF file: metadata first, then the list of tensors, then their bytes in order.
 *
 *   gguf_writer *w;
 *   if (gguf_writer_open(&w, "out.gguf", &err)) return ...;
 *   gguf_write_string(w, "general.architecture", VIEW("llama"));
 *   gguf_write_tensor(w, VIEW("output_norm.weight"), BLOCK_F32, 1, (uint64_t[]){n_embd});
 *   gguf_write_data(w, norm, n_embd * sizeof *norm);
 *   if (gguf_writer_finish(&w, &err)) return ...;
 *
 * The first failure sticks: later calls do nothing, and gguf_writer_finish() reports it. The bytes
 * go to a temporary file beside path, which is renamed to path when everything is on the disk, so
 * path never names an incomplete file. Used by one thread. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include "gguf/gguf.h"

typedef struct gguf_writer gguf_writer;

/* CERIUM_ERR_IO: no file can be made there; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int gguf_writer_open(gguf_writer **out, const char *path, cerium_error *err);
/* Write the rest, flush it to the disk, give the file its name, and free the writer in any case.
 * CERIUM_ERR_ARGUMENT: there were too few or too many tensor bytes. */
CERIUM_CHECKED int gguf_writer_finish(gguf_writer **writer, cerium_error *err);
/* Abandon: nothing is left on the disk. Accepts NULL and pointers to NULL. */
void gguf_writer_close(gguf_writer **writer);

/* ---- metadata: before the first gguf_write_data(); keys must be unique ---- */

void gguf_write_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_write_f32(gguf_writer *w, const char *key, float value);
void gguf_write_bool(gguf_writer *w, const char *key, bool value);
void gguf_write_string(gguf_writer *w, const char *key, view value);
/* items: [n_items] of a fixed-size type, in memory order. */
void gguf_write_array(gguf_writer *w, const char *key, gguf_value_type type, const void *items,
                      uint64_t n_items);
void gguf_write_strings(gguf_writer *w, const char *key, const view *items, uint64_t n_items);
/* A value of any type from another file, under its own key. */
void gguf_write_value(gguf_writer *w, const gguf_value *value);

/* ---- tensors ---- */

/* dims: [n_dims], fastest first; dims[0] a multiple of the type's block. Before the first
 * gguf_write_data(). */
void gguf_write_tensor(gguf_writer *w, view name, block_type type, uint32_t n_dims,
                       const uint64_t *dims);
/* The next bytes of the tensors, in the order in which they were declared; padding between them
 * is the writer's. They may be split anywhere. False when writing failed; further calls are
 * pointless. */
bool gguf_write_data(gguf_writer *w, const void *data, size_t size);

#endif
