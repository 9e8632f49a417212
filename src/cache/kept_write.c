/* kept_write.c - the thread that writes blocks to segments, and makes room for more. */
#include "cache/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

enum {
    COPY_BYTES = 64 << 10, /* under the lock at once: ten microseconds */
    TOUCH_MAX = 64,        /* entries under the lock at once */
};
static const uint64_t CLOSE_NS_MAX = UINT64_C(10) * 1000000000; /* for what waits at the end */

void kept_push(void *user, uint32_t block, bool was_used)
{
    kv_kept *kept = user;
    if (atomic_load(&kept->is_full)) return;
    if (kept->queue_tail - kept->queue_head == KEPT_QUEUE_MAX) return;
    if (!was_used && kept_find(kept, kept->pool->blocks[block].name) != KV_NONE) return;
    kept->queue[kept->queue_tail++ % KEPT_QUEUE_MAX] =
        (kept_item){block, was_used, kept->pool->blocks[block].serial};
    thread_bell_ring(&kept->writer_bell);
}

static void give_up(kv_kept *kept, int why)
{
    if (!atomic_exchange(&kept->is_full, true))
        kept_notice(kept, strerror(why), "no more KV is kept");
}

/* ---- segments ---- */

/* Make a file for segment `place`, which is free. 0 or an errno. */
static int open_segment(kv_kept *kept, uint32_t place)
{
    char path[KEPT_PATH_MAX];
    uint8_t text[SEGMENT_HEAD_BYTES];
    segment_head head = {.key = kept->key,
                         .salt = {kept->salt[0], kept->salt[1]},
                         .number = kept->last_number + 1,
                         .n_records = kept->n_records};
    kept_path(kept, head.number, path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return errno;
    uint64_t bytes_max = segment_pages_at(kept->n_records) +
                         (uint64_t)kept->n_records * kept->block_bytes;
    segment_head_write(text, &head);
    int why = file_lacks_room(fd, bytes_max);
    if (!why) why = file_write_at(fd, text, sizeof text, 0);
    if (why) {
        close(fd);
        unlink(path);
        return why;
    }
    kept->last_number = head.number;
    kept->write_fd = fd;
    kept->writing = place;
    kept->write_end = segment_pages_at(kept->n_records);
    pthread_mutex_lock(&kept->pool->lock);
    kept->segments[place] = (kept_segment){.number = head.number};
    kept->n_segments++;
    pthread_mutex_unlock(&kept->pool->lock);
    return 0;
}

static void remove_segment(kv_kept *kept, uint32_t place)
{
    char path[KEPT_PATH_MAX];
    uint32_t first = place * kept->n_records, n_left = 0;
    double left = 0;
    pthread_mutex_lock(&kept->pool->lock);
    for (uint32_t i = first; i < first + kept->n_records; i++) {
        if (kept->entries[i].record.n_tokens == 0) continue;
        left += kept->entries[i].worth;
        n_left++;
        kept_remove(kept, i);
    }
    kept->n_evicted += n_left;
    if (n_left && left / n_left > kept->worth_floor) kept->worth_floor = left / n_left;
    kept_path(kept, kept->segments[place].number, path);
    kept->bytes -= kept->segments[place].bytes;
    kept->segments[place] = (kept_segment){0};
    kept->n_segments--;
    pthread_mutex_unlock(&kept->pool->lock);
    unlink(path);
}

/* Write what is in the buffer, pages [n], as the next block. 0 or an errno. */
static int append(kv_kept *kept, segment_record *record, size_t n, uint32_t n_uses)
{
    kept_segment *s = &kept->segments[kept->writing];
    uint8_t text[SEGMENT_RECORD_BYTES];
    segment_head head = {.salt = {kept->salt[0], kept->salt[1]}, .number = s->number};
    record->at = kept->write_end;
    segment_record_write(text, &head, s->n_used, record);
    int why = file_write_at(kept->write_fd, kept->buffer, n, record->at);
    if (!why)
        why = file_write_at(kept->write_fd, text, sizeof text, segment_record_at(s->n_used));
    if (why) return why;
    kept->write_end += n;
    pthread_mutex_lock(&kept->pool->lock);
    kept_add(kept, kept->writing * kept->n_records + s->n_used, record, n_uses);
    s->n_used++;
    kept->bytes += kept->write_end - s->bytes;
    s->bytes = kept->write_end;
    kept->n_written++;
    pthread_mutex_unlock(&kept->pool->lock);
    return 0;
}

/* Take the pages of an entry over into the segment that is being written. */
static int carry(kv_kept *kept, int from, uint32_t entry)
{
    pthread_mutex_lock(&kept->pool->lock);
    kept_entry e = kept->entries[entry];
    pthread_mutex_unlock(&kept->pool->lock);
    if (e.record.n_tokens == 0) return 0;
    size_t n = segment_record_pages_bytes(&kept->layout, e.record.groups), at = 0;
    if (file_read_at(from, kept->buffer, n, e.record.at) != n) return 0;
    for (uint32_t g = 0; g < kept->layout.n_groups; g++) {
        if (!(e.record.groups >> g & 1)) continue;
        size_t size = kept->layout.page_bytes[g];
        if (hash_bytes(kept->buffer + at, size, 0) != e.record.hashes[g]) return 0;
        at += size;
    }
    return append(kept, &e.record, n, e.n_uses);
}

/* Carry over what of a segment was used again and is worth more than most, half of it at most, and
 * remove it. */
static int recycle(kv_kept *kept, uint32_t place)
{
    char path[KEPT_PATH_MAX];
    uint32_t first = place * kept->n_records, n = 0;
    kept_path(kept, kept->segments[place].number, path);
    int why = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    for (uint32_t i = first; fd >= 0 && i < first + kept->n_records; i++) {
        pthread_mutex_lock(&kept->pool->lock);
        const kept_entry *e = &kept->entries[i];
        bool is_worth = e->record.n_tokens > 0 && e->n_uses > 1 && n < kept->n_records / 2 &&
                        e->worth * kept->n_entries > kept->worth;
        pthread_mutex_unlock(&kept->pool->lock);
        if (!is_worth) continue;
        why = carry(kept, fd, i);
        if (why) break;
        n++;
    }
    if (fd >= 0) close(fd);
    remove_segment(kept, place);
    return why;
}

static uint32_t cheapest(kv_kept *kept, uint32_t but)
{
    pthread_mutex_lock(&kept->pool->lock);
    uint32_t place = kept_cheapest(kept, but);
    pthread_mutex_unlock(&kept->pool->lock);
    return place;
}

/* The next segment to write to: a free place always stays, to carry over to. 0 or an errno. */
static int next_segment(kv_kept *kept)
{
    uint32_t place = 0;
    if (kept->write_fd >= 0) close(kept->write_fd);
    kept->write_fd = -1;
    while (kept->segments[place].number) place++;
    int why = open_segment(kept, place);
    while (why == ENOSPC && kept->n_segments > 0) { /* of our own, then */
        remove_segment(kept, cheapest(kept, KV_NONE));
        why = open_segment(kept, place);
    }
    if (!why && kept->n_segments == kept->n_segments_max)
        why = recycle(kept, cheapest(kept, place));
    return why;
}

/* ---- blocks ---- */

/* The first block of a timeline, up to this one, that is not on disk; KV_NONE when all are. */
static uint32_t first_missing(const kv_kept *kept, uint32_t block)
{
    const kv_block *blocks = kept->pool->blocks;
    if (kept_find(kept, blocks[block].name) != KV_NONE) return KV_NONE;
    for (uint32_t up; (up = blocks[block].parent) != KV_NONE; block = up)
        if (kept_find(kept, blocks[up].name) != KV_NONE) break;
    return block;
}

static bool is_there(const kv_kept *kept, uint32_t block, uint64_t serial)
{
    const kv_block *b = &kept->pool->blocks[block];
    return b->in_tree && b->serial == serial;
}

static void describe(const kv_kept *kept, uint32_t block, segment_record *record)
{
    const kv_pool *pool = kept->pool;
    const kv_block *b = &pool->blocks[block];
    *record = (segment_record){
        .n_tokens = b->n_tokens, .position = b->position, .tenant = b->tenant};
    record->before = b->parent == KV_NONE ? kv_name_root(pool, b->tenant)
                                          : pool->blocks[b->parent].name;
    memcpy(record->tokens, b->tokens, b->n_tokens * sizeof *b->tokens);
}

/* One group's page of a block into the buffer, in pieces: a block that is in the tree does not
 * change, and between pieces it may leave it.  False when it or the page is not there any more. */
static bool copy_page(kv_kept *kept, uint32_t block, uint64_t serial, uint32_t g, uint8_t *to)
{
    const kv_group *group = &kept->pool->groups[g];
    bool is_good = true;
    for (size_t at = 0; is_good && at < group->page_bytes; at += COPY_BYTES) {
        size_t left = group->page_bytes - at, n = left < COPY_BYTES ? left : COPY_BYTES;
        pthread_mutex_lock(&kept->pool->lock);
        size_t page = group->window ? group->page_of[block] : block;
        is_good = is_there(kept, block, serial) && page < group->n_pages;
        if (is_good) memcpy(to + at, group->pages + page * group->page_bytes + at, n);
        pthread_mutex_unlock(&kept->pool->lock);
    }
    return is_good;
}

/* Write a block whose ancestors are on disk. False when it is gone, or nothing is written now. */
static bool write_block(kv_kept *kept, uint32_t block, uint64_t serial, segment_record *record)
{
    size_t n = 0;
    int why = 0;
    if (kept->write_fd < 0 || kept->segments[kept->writing].n_used == kept->n_records)
        why = next_segment(kept);
    for (uint32_t g = 0; !why && g < kept->layout.n_groups; g++) {
        if (!copy_page(kept, block, serial, g, kept->buffer + n)) {
            if (kept->layout.required >> g & 1) return false;
            continue;
        }
        record->groups |= 1u << g;
        record->hashes[g] = hash_bytes(kept->buffer + n, kept->layout.page_bytes[g], 0);
        n += kept->layout.page_bytes[g];
    }
    if (!why) why = append(kept, record, n, 1);
    if (why) give_up(kept, why);
    return why == 0;
}

/* A timeline was taken up: all that is on disk of it was used. */
static void touch(kv_kept *kept, hash_name name)
{
    bool is_done = false;
    while (!is_done) {
        pthread_mutex_lock(&kept->pool->lock);
        for (int i = 0; i < TOUCH_MAX && !is_done; i++) {
            uint32_t entry = kept_find(kept, name);
            is_done = entry == KV_NONE;
            if (is_done) break;
            kept_touch(kept, entry);
            name = kept->entries[entry].record.before;
        }
        pthread_mutex_unlock(&kept->pool->lock);
    }
}

static void keep(kv_kept *kept, const kept_item *item)
{
    bool goes_on = true;
    while (goes_on && !atomic_load(&kept->is_full)) {
        segment_record record;
        uint64_t serial = 0;
        hash_name name = {0};
        uint32_t block = KV_NONE;
        pthread_mutex_lock(&kept->pool->lock);
        bool is_gone = !is_there(kept, item->block, item->serial);
        if (!is_gone) {
            block = first_missing(kept, item->block);
            name = kept->pool->blocks[item->block].name;
        }
        if (block != KV_NONE) {
            describe(kept, block, &record);
            serial = kept->pool->blocks[block].serial;
        }
        pthread_mutex_unlock(&kept->pool->lock);
        if (!is_gone && block == KV_NONE && item->was_used) touch(kept, name);
        goes_on = block != KV_NONE && write_block(kept, block, serial, &record);
    }
}

void *kept_write(void *arg)
{
    kv_kept *kept = arg;
    for (;;) {
        uint32_t seen = atomic_load(&kept->writer_bell.n_rings);
        bool closes = atomic_load(&kept->closing);
        kept_item item;
        pthread_mutex_lock(&kept->pool->lock);
        bool has_item = kept->queue_head != kept->queue_tail;
        if (has_item) item = kept->queue[kept->queue_head % KEPT_QUEUE_MAX];
        pthread_mutex_unlock(&kept->pool->lock);
        if (closes && (!has_item || clock_ns() > kept->close_ns + CLOSE_NS_MAX)) return NULL;
        if (!has_item) {
            thread_bell_wait(&kept->writer_bell, seen);
            continue;
        }
        keep(kept, &item);
        pthread_mutex_lock(&kept->pool->lock);
        kept->queue_head++; /* now it does not wait any more */
        pthread_mutex_unlock(&kept->pool->lock);
    }
}
