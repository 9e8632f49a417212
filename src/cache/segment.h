/* segment.h - the bytes of a file of kept KV pages: a head, a table of records, and their pages.
 *
 * Pure functions over bytes; disk.h has the files.  All numbers are little-endian:
 *    0  "cerkvseg"
 *    8  u32 version, u32 records in the table
 *   16  u64 model, numbers, layout: what the pages were computed from, how, and how they lie
 *   40  u64 salt[2]; u64 number of the segment
 *   64  u64 hash of all before
 *   72  records [n_records], SEGMENT_RECORD_BYTES each; a hash of zero while nothing is
 *      written there to its end
 * Then the pages of each record, where it says.
 *
 * A file is only ever added to: pages first, then their record.  A kill thus leaves no record of
 * missing pages; a power cut may, and the pages' hashes show it.  A record's own hash covers the
 * salt and its place, so a record copied from elsewhere is invalid.  A bad record is zeroed once
 * reported. */
#ifndef CACHE_SEGMENT_H
#define CACHE_SEGMENT_H

#include "base/hash.h"
#include "cache/kv.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define SEGMENT_RECORDS_MAX 4096u           /* blocks of one file */

enum { SEGMENT_VERSION = 2, SEGMENT_HEAD_BYTES = 72, SEGMENT_RECORD_BYTES = 352 };

/* What the pages are: of this model, by this arithmetic, in this layout. */
typedef struct {
    uint64_t model, numbers, layout;
} segment_key;

typedef struct {
    segment_key key;
    uint64_t salt[2];
    uint64_t number;
    uint32_t n_records;
} segment_head;

/* One block: its tokens, what comes before it, and where its pages are. */
typedef struct {
    uint64_t at;             /* in the file, of its first page */
    uint32_t n_tokens;       /* 1..KERNEL_PAGE */
    uint32_t position;       /* blocks before it */
    uint32_t groups;         /* bit g: it has the page of group g; they follow each other */
    hash_name before;        /* of the tenant and all tokens before it */
    int32_t tokens[KERNEL_PAGE];
    uint64_t hashes[KV_GROUPS_MAX]; /* of each page */
    uint64_t tenant;         /* whose it is: only they find it */
} segment_record;

/* What a reader knows of the pool: bytes of each group's page, and the required groups. */
typedef struct {
    uint32_t n_groups, required;
    size_t page_bytes[KV_GROUPS_MAX];
} segment_layout;

/* Where the pages may begin. */
uint64_t segment_pages_at(uint32_t n_records);
/* Where a record's entry in the table is. */
uint64_t segment_record_at(uint32_t index);
uint64_t segment_record_pages_bytes(const segment_layout *layout, uint32_t groups);

void segment_head_write(uint8_t out[SEGMENT_HEAD_BYTES], const segment_head *head);
/* NULL and *out when head, the first bytes of a file, is that of a segment of key; else what is
 * wrong.  out->n_records is at most SEGMENT_RECORDS_MAX. */
const char *segment_head_read(view head, const segment_key *key, segment_head *out);

void segment_record_write(uint8_t out[SEGMENT_RECORD_BYTES], const segment_head *head,
                          uint32_t index, const segment_record *record);

typedef enum {
    SEGMENT_RECORD_GOOD = 0,
    SEGMENT_RECORD_NONE = 1, /* nothing was written there */
    SEGMENT_RECORD_CUT = 2,  /* it, or its pages, are not whole in the file */
    SEGMENT_RECORD_BAD = 3,
} segment_record_state;

/* Entry `index` of the table of a file of file_bytes, which may be cut off. */
segment_record_state segment_record_read(view table, uint32_t index, uint64_t file_bytes,
                                         const segment_head *head, const segment_layout *layout,
                                         segment_record *out);

#endif
