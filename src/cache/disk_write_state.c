/* disk_write_state.c - writes a state to a file of its own, and removes others to make room. */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

/* A state at most this far behind one that is on disk is left out: computing the tokens between is
 * as fast as reading it, and a prompt has several states at its end. */
enum { NEAR_TOKENS = 4 };

static bool is_there(const kv_disk *disk, uint32_t state, uint64_t serial)
{
    const kv_state *x = &disk->pool->states.all[state];
    return x->is_found && x->serial == serial;
}

/* With the lock: what is to be written.  False: nothing. */
static bool describe(kv_disk *disk, uint32_t state, uint64_t serial, bool was_used,
                     state_head *head)
{
    const kv_pool *pool = disk->pool;
    const kv_state *x = &pool->states.all[state];
    if (!is_there(disk, state, serial)) return false;
    *head = (state_head){.key = disk->key,
                         .salt = {disk->salt[0], disk->salt[1]},
                         .number = disk->last_state + 1,
                         .tenant = x->tenant,
                         .bytes = pool->states.bytes,
                         .n_tokens = x->n_tokens};
    head->before = x->parent == KV_NONE ? kv_name_root(pool, x->tenant)
                                        : pool->blocks[x->parent].name;
    memcpy(head->tail, x->tail, state_head_tail(head) * sizeof *head->tail);
    uint32_t near = disk_state_find(disk, head->before, head->tail, state_head_tail(head));
    if (near == KV_NONE) return true;
    const uint32_t behind = head->n_tokens - disk->states[near].head.n_tokens;
    if (was_used && behind <= NEAR_TOKENS) disk_state_touch(disk, near);
    return behind > NEAR_TOKENS;
}

static void remove_cheapest(kv_disk *disk)
{
    char path[DISK_PATH_MAX];
    pthread_mutex_lock(&disk->pool->lock);
    const uint32_t state = disk_state_cheapest(disk);
    const disk_state *x = &disk->states[state];
    if (x->priority > disk->states_floor) disk->states_floor = x->priority;
    disk_state_path(disk, x->head.number, path);
    disk_state_remove(disk, state);
    disk->n_states_evicted++;
    pthread_mutex_unlock(&disk->pool->lock);
    unlink(path);
}

/* Copy a state into its file in pieces: a state that is found does not change, but may be evicted
 * between pieces.  0, an errno, or -1: it has gone. */
static int copy_pieces(kv_disk *disk, int fd, uint32_t state, uint64_t serial, state_head *head)
{
    int why = 0;
    head->hash = 0;
    for (size_t at = 0; !why && at < head->bytes; at += STATE_FILE_PIECE_BYTES) {
        const size_t left = head->bytes - at;
        const size_t n = left < STATE_FILE_PIECE_BYTES ? left : STATE_FILE_PIECE_BYTES;
        pthread_mutex_lock(&disk->pool->lock);
        const bool is_good = is_there(disk, state, serial);
        if (is_good)
            memcpy(disk->piece, (const uint8_t *)kv_state_at(disk->pool, state) + at, n);
        pthread_mutex_unlock(&disk->pool->lock);
        if (!is_good) return -1;
        head->hash = state_file_hash(disk->piece, n, head->hash);
        why = file_write_at(fd, disk->piece, n, STATE_FILE_HEAD_BYTES + at);
    }
    return why;
}

/* The same results. */
static int write_file(kv_disk *disk, uint32_t state, uint64_t serial, state_head *head)
{
    char path[DISK_PATH_MAX];
    uint8_t text[STATE_FILE_HEAD_BYTES];
    disk_state_path(disk, head->number, path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return errno;
    int why = file_lacks_room(fd, disk_state_bytes(disk));
    if (!why) why = copy_pieces(disk, fd, state, serial, head);
    if (!why) {
        state_head_write(text, head);
        why = file_write_at(fd, text, sizeof text, 0);
    }
    close(fd);
    if (why) unlink(path);
    return why;
}

void disk_keep_state(kv_disk *disk, uint32_t state, uint64_t serial, bool was_used)
{
    state_head head;
    const kv_pool *pool = disk->pool;
    uint64_t block_serial = 0;
    pthread_mutex_lock(&disk->pool->lock);
    bool is_wanted = describe(disk, state, serial, was_used, &head);
    const uint32_t block = is_wanted ? pool->states.all[state].parent : KV_NONE;
    if (block != KV_NONE) block_serial = pool->blocks[block].serial;
    pthread_mutex_unlock(&disk->pool->lock);
    if (!is_wanted) return;
    if (block != KV_NONE) disk_keep_block(disk, block, block_serial, false);
    pthread_mutex_lock(&disk->pool->lock);
    is_wanted = block == KV_NONE || disk_find(disk, head.before) != KV_NONE;
    pthread_mutex_unlock(&disk->pool->lock);
    if (!is_wanted || atomic_load(&disk->is_full)) return;
    if (disk->n_states == disk->n_states_max) remove_cheapest(disk);
    int why = write_file(disk, state, serial, &head);
    while (why == ENOSPC && disk->n_states > 0) { /* of our own, then */
        remove_cheapest(disk);
        why = write_file(disk, state, serial, &head);
    }
    if (why > 0) disk_give_up(disk, why);
    if (why) return;
    pthread_mutex_lock(&disk->pool->lock);
    disk->last_state = head.number;
    disk_state_add(disk, &head);
    disk->n_states_written++;
    pthread_mutex_unlock(&disk->pool->lock);
}
