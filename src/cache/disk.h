/* disk.h - KV pages and states on disk: a restarted process finds the blocks of the tree again.
 *
 * A folder holds segments (segment.h): files of up to n_records blocks that are only added to.  A
 * table in memory maps the name of a block (its tokens, those before it, the tenant, and a salt of
 * the folder) to its place.  Blocks are written when they become findable, ancestors first, by a
 * thread that copies their pages in pieces.  Blocks for which it is too slow are left out until a
 * sequence adopts them again.  Another thread reads: it drives a sequence whose KV comes from
 * files, not from computing, and what it commits is found as usual.  Until the first prompt it
 * reads the timelines that were written last.
 *
 * When there is no room for another segment, the one whose blocks have the least priority (as in
 * evict.c) is removed; blocks that were used again are copied first.
 *
 * A state of recurrent layers has a file of its own (state_file.h), as it is as large as hundreds
 * of blocks and belongs to one place.  It is written after the blocks before it, and read behind
 * the last block of a timeline that is wanted up to there.  When there is no room, the state is
 * removed that costs least to compute again from the one before it.
 *
 * kv_pool.lock guards everything but the pages themselves and the fields of one thread. */
#ifndef CACHE_DISK_H
#define CACHE_DISK_H

#include <sys/stat.h>

#include "base/thread.h"
#include "cache/pool.h"
#include "cache/segment.h"
#include "cache/state_file.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define DISK_RECORDS_MAX    (1u << 18)      /* blocks of one model on disk; its files are fewer */
#define DISK_SEGMENT_BYTES  (32u << 20)     /* of one file, or 8 blocks */
#define DISK_FILES_SEEN_MAX 65536u          /* names of a folder that are looked at */
#define DISK_QUEUE_MAX      4096u           /* blocks that wait to be written */
#define DISK_FETCHES_MAX    256u            /* beginnings that wait to be read */
#define DISK_STATES_MAX     1024u           /* states of one model on disk */

_Static_assert(DISK_RECORDS_MAX / SEGMENT_RECORDS_MAX >= 3, "there are files to choose from");
_Static_assert((DISK_QUEUE_MAX & (DISK_QUEUE_MAX - 1)) == 0, "a ring");
_Static_assert((DISK_FETCHES_MAX & (DISK_FETCHES_MAX - 1)) == 0, "a ring");

enum { DISK_NAME_BYTES = 24 }; /* "/0123456789abcdef.state" */
enum { DISK_STATES_MIN = 3 };

/* Entry number segment * n_records + record. */
typedef struct {
    segment_record record; /* n_tokens is 0 while there is none */
    hash_name name;
    uint64_t near_hash;
    uint32_t next_name, next_near; /* in its bucket of the tables */
    uint32_t n_uses;
    double priority;
} disk_entry;

typedef struct {
    uint64_t number;     /* of its file; 0: the place is free */
    uint32_t n_used;     /* records written, good or not */
    uint64_t bytes;      /* of its file */
    double priority;        /* of its entries together */
} disk_segment;

/* A state's file. */
typedef struct {
    state_head head;     /* its number is 0 while there is none */
    uint32_t next;       /* in its bucket */
    uint32_t n_uses;
    double priority;
} disk_state;

/* A block or a state that became findable, or was adopted. */
typedef struct {
    uint32_t at;
    bool is_state, was_used;
    uint64_t serial;
} disk_item;

typedef struct {
    hash_name name; /* name of the last wanted block */
    uint64_t tenant;
    uint32_t n_tokens; /* 0, or a state is wanted, after this many; the last of these tokens are: */
    bool has_tail;     /* those in memory already */
    int32_t tail[KERNEL_PAGE]; /* [n_tokens % KERNEL_PAGE] */
} disk_fetch;

struct kv_disk {
    kv_pool *pool;
    char *folder;
    int lock_fd;
    segment_key key;
    segment_layout layout;
    uint64_t salt[2];
    bool has_salt;
    kv_disk_config with;
    size_t block_bytes;      /* of all groups */
    uint32_t n_records, n_segments_max;
    _Atomic bool closing;
    _Atomic bool is_full;    /* nothing more is written */
    bool reported_damage;

    disk_segment *segments;  /* [n_segments_max] */
    uint32_t n_segments, n_entries;
    disk_entry *entries;     /* [n_segments_max][n_records] */
    size_t entries_bytes;
    uint32_t *names, *near;  /* [n_buckets] first entry */
    uint32_t n_buckets;      /* a power of two */
    uint64_t bytes;          /* of all segments */
    double priority_floor, priority; /* of what went last; of all entries */
    uint64_t n_written, n_loaded, n_evicted, n_damaged, n_lookups, n_hits;

    disk_state *states;      /* [n_states_max] */
    uint32_t n_states, n_states_max; /* max: 0 = the model has none */
    uint32_t *states_of;     /* [n_state_buckets] first, by the name of the block before them */
    uint32_t n_state_buckets; /* a power of two */
    double states_floor;     /* priority of what went last */
    uint64_t n_states_written, n_states_loaded, n_states_evicted, n_states_damaged;

    /* the writer */
    pthread_t writer;
    bool has_writer;
    thread_bell writer_bell;
    disk_item queue[DISK_QUEUE_MAX];
    uint32_t queue_head, queue_tail;
    uint8_t *buffer;         /* [block_bytes] */
    uint8_t *piece;          /* [STATE_FILE_PIECE_BYTES] of a state */
    uint64_t last_state;     /* number of a file */
    int write_fd;            /* of segment `writing`, or -1 */
    uint32_t writing;
    uint64_t write_end, last_number, close_ns;

    /* the reader */
    pthread_t reader;
    bool has_reader;
    thread_bell reader_bell;
    disk_fetch fetches[DISK_FETCHES_MAX];
    uint64_t n_fetches, n_fetched;
    kv_sequence *sequence;
    hash_name *path;         /* [blocks of a context] */
    int read_fd;             /* of the file `read_number`, or -1 */
    uint64_t read_number;

    /* what it reads unasked */
    uint64_t warm_below;     /* records of files with lower numbers, */
    uint32_t warm_place, warm_records; /* and this many of this one, were not looked at yet */
    uint32_t warm_left;      /* blocks that may be read */
};
typedef struct kv_disk kv_disk;

/* ---- disk_index.c ---- */

/* Name of a segment's file, into out [DISK_PATH_MAX]. */
void disk_path(const kv_disk *disk, uint64_t number, char *out);
/* "FOLDER: what; and then"; without the lock. */
void disk_notice(kv_disk *disk, const char *what, const char *and_then);
/* The reader found pages or a state damaged or cut short: a notice, the first time. */
void disk_tell_damage(kv_disk *disk);

/* With the lock: */
CERIUM_CHECKED int disk_index_open(kv_disk *disk);
void disk_index_close(kv_disk *disk);
/* The entry of a name, or KV_NONE. */
uint32_t disk_find(const kv_disk *disk, hash_name name);
/* The entry after `before` with the longest common prefix with tokens [n], and its length; KV_NONE
 * and 0. */
uint32_t disk_near(const kv_disk *disk, hash_name before, const int32_t *tokens, uint32_t n,
                   uint32_t *n_common);
/* Add a record that was written or found; it replaces an older entry of the same name. */
void disk_add(kv_disk *disk, uint32_t entry, const segment_record *record, uint32_t n_uses);
void disk_remove(kv_disk *disk, uint32_t entry);
/* It was used. */
void disk_touch(kv_disk *disk, uint32_t entry);
/* The segment of the least priority other than this one; KV_NONE: there is none. */
uint32_t disk_cheapest(const kv_disk *disk, uint32_t but);

/* ---- disk_states.c ---- */

/* Name of a state's file, into out [DISK_PATH_MAX]. */
void disk_state_path(const kv_disk *disk, uint64_t number, char *out);
/* Bytes of each file. */
uint64_t disk_state_bytes(const kv_disk *disk);

/* With the lock: */
CERIUM_CHECKED int disk_states_open(kv_disk *disk);
void disk_states_close(kv_disk *disk);
/* The state that is furthest within tokens [n] after `before`; KV_NONE. */
uint32_t disk_state_find(const kv_disk *disk, hash_name before, const int32_t *tokens, uint32_t n);
/* There is room for one more. */
void disk_state_add(kv_disk *disk, const state_head *head);
void disk_state_remove(kv_disk *disk, uint32_t state);
/* It was used. */
void disk_state_touch(kv_disk *disk, uint32_t state);
/* The state of the least priority: first of those whose blocks have gone.  KV_NONE: none. */
uint32_t disk_state_cheapest(const kv_disk *disk);

/* ---- disk_write.c ---- */

/* Write the timeline up to a block, as far as it is not on disk. */
void disk_keep_block(kv_disk *disk, uint32_t block, uint64_t serial, bool was_used);
/* Nothing more is written. */
void disk_give_up(kv_disk *disk, int why);

/* ---- disk_write_state.c ---- */

void disk_keep_state(kv_disk *disk, uint32_t state, uint64_t serial, bool was_used);

/* ---- disk_queue.c ---- */

/* With the lock: a block or a state became findable, or was adopted. */
void disk_push(void *disk, uint32_t block, bool was_used);
void disk_push_state(void *disk, uint32_t state, bool was_used);
void *disk_write(void *disk);

/* ---- disk_read.c ---- */

void *disk_read(void *disk);

/* ---- disk_read_state.c ---- */

/* With the lock: what to read so that tokens [n] are found up to a state beyond the first n_held.
 * False: nothing. */
bool disk_find_state(const kv_pool *pool, uint64_t tenant, const int32_t *tokens, uint32_t n,
                     uint32_t n_held, disk_fetch *out);
/* The reader's sequence holds what there is of the blocks: read the last state. */
void disk_load_state(kv_disk *disk, const disk_fetch *fetch);

/* ---- disk_open.c: files that are there ---- */

/* Index the good ones, of the newest if there are too many; remove the rest. */
CERIUM_CHECKED int disk_open_files(kv_disk *disk);
/* KV holds what a model read, so it must be private to this user.  NULL, or what is wrong. */
const char *disk_distrust(const struct stat *st);

/* ---- disk_warm.c; with the lock ---- */

void disk_warm_begin(kv_disk *disk);
/* The next timeline to prefetch; false: there is none, or no room. */
bool disk_warm_next(kv_disk *disk, disk_fetch *fetch);
/* May one more block be prefetched: no prompt came yet, and no block must be evicted for it? */
bool disk_warm_continues(const kv_disk *disk);

#endif
