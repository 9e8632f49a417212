/* state_file.h - the bytes of a file with one kept state of a model's recurrent layers.
 *
 * Pure functions over bytes; disk.h has the files.  All numbers are little-endian:
 *    0  "cerstate"
 *    8  u32 version, u32 tokens after which the state is
 *   16  u64 model, numbers, layout: as of a segment (segment.h)
 *   40  u64 salt[2]; u64 number of the file
 *   64  u64 tenant; u64 bytes of the state; u64 hash of the state
 *   88  name of the tenant and all tokens up to the last full block before the state
 *  104  i32 tokens [KERNEL_PAGE] after that block, the rest 0
 *  360  u64 hash of all before
 * Then, at STATE_FILE_HEAD_BYTES, the state, to the end of the file.
 *
 * The head is written last: a file that begins with zeros is one whose writer was killed. */
#ifndef CACHE_STATE_FILE_H
#define CACHE_STATE_FILE_H

#include "cache/segment.h"

enum {
    STATE_FILE_VERSION = 1,
    STATE_FILE_HEAD_BYTES = 512,
    STATE_FILE_PIECE_BYTES = 64 << 10, /* hashed, and copied, at once */
};

typedef struct {
    segment_key key;
    uint64_t salt[2];
    uint64_t number;
    uint64_t tenant;         /* whose it is: only they find it */
    uint64_t bytes, hash;    /* of the state */
    hash_name before;        /* of the tenant and all tokens before the tail */
    uint32_t n_tokens;       /* at least 1; the last n_tokens % KERNEL_PAGE of them are: */
    int32_t tail[KERNEL_PAGE];
} state_head;

static inline uint32_t state_head_tail(const state_head *head)
{
    return head->n_tokens % KERNEL_PAGE;
}

void state_head_write(uint8_t out[STATE_FILE_HEAD_BYTES], const state_head *head);
/* NULL and *out when `first`, the first bytes of a file of file_bytes, is the head of a whole state
 * of key and of `bytes`; else what is wrong. */
const char *state_head_read(view first, uint64_t file_bytes, const segment_key *key, uint64_t bytes,
                            state_head *out);
/* Whether the writer of a file with these first bytes did not finish: nothing was lost. */
bool state_file_is_unfinished(view first);
/* Of all pieces so far and the next one; 0 before the first.  All pieces but the last have
 * STATE_FILE_PIECE_BYTES. */
uint64_t state_file_hash(const void *piece, size_t n, uint64_t before);

#endif
