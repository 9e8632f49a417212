/* panel_header.h - the bytes at the head of a file of panels: its source, and a hash of every
 * chunk.
 *
 * Pure functions over bytes; panel_file.h has the files.  All numbers are little-endian:
 *    0  "cerpanel"
 *    8  u32 version, u32 bytes of a chunk
 *   16  u64 model, layout, bytes: the panel_key
 *   40  u64 hash of the rest of the head
 *   48  u64 hash of each chunk of the panels, [panel_n_chunks()]
 * Then padding up to panel_file_at(), a multiple of a huge page, and the panels. */
#ifndef MODEL_PANEL_HEADER_H
#define MODEL_PANEL_HEADER_H

#include "base/memory.h"

enum {
    PANEL_FILE_VERSION = 1,
    PANEL_CHUNK_BYTES = MEMORY_HUGE_PAGE, /* written, hashed and checked at once */
};

/* The identity of panels: the model and the layout. */
typedef struct {
    uint64_t model;  /* gguf_fingerprint() */
    uint64_t layout; /* hash of the matrices, and of this build's layout of their types */
    uint64_t bytes;  /* of all panels */
} panel_key;

uint64_t panel_n_chunks(uint64_t panels_bytes);
/* Bytes of the head: numbers and hashes. */
uint64_t panel_file_head_bytes(uint64_t panels_bytes);
/* The offset of the panels in the file. */
uint64_t panel_file_at(uint64_t panels_bytes);

/* head [panel_file_head_bytes()] = the head of a file of key with these hashes of its chunks. */
void panel_head_write(uint8_t *head, const panel_key *key, const uint64_t *hashes);
/* NULL: head, the first bytes of a file of file_bytes [at most panel_file_head_bytes(), less only
 * if the file has less], is the whole head of a whole file of key; else the fault. */
const char *panel_head_fault(view head, uint64_t file_bytes, const panel_key *key);
/* The hash of a chunk, from a checked head. */
uint64_t panel_head_hash(const uint8_t *head, uint64_t chunk);

#endif
