/* disk_write.c - writes blocks to segments, and removes segments to make room. */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

enum {
    COPY_BYTES = 64 << 10, /* under the lock at once: ten microseconds */
    TOUCH_MAX = 64,        /* entries under the lock at once */
};

void disk_give_up(kv_disk *disk, int why)
{
    if (!atomic_exchange(&disk->is_full, true))
        disk_notice(disk, strerror(why), "no more KV is kept");
}

/* ---- segments ---- */

/* Make a file for segment `place`, which is free. 0 or an errno. */
static int open_segment(kv_disk *disk, uint32_t place)
{
    char path[DISK_PATH_MAX];
    uint8_t text[SEGMENT_HEAD_BYTES];
    segment_head head = {.key = disk->key,
                         .salt = {disk->salt[0], disk->salt[1]},
                         .number = disk->last_number + 1,
                         .n_records = disk->n_records};
    disk_path(disk, head.number, path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return errno;
    uint64_t bytes_max = segment_pages_at(disk->n_records) +
                         (uint64_t)disk->n_records * disk->block_bytes;
    segment_head_write(text, &head);
    int why = file_lacks_room(fd, bytes_max);
    if (!why) why = file_write_at(fd, text, sizeof text, 0);
    if (why) {
        close(fd);
        unlink(path);
        return why;
    }
    disk->last_number = head.number;
    disk->write_fd = fd;
    disk->writing = place;
    disk->write_end = segment_pages_at(disk->n_records);
    pthread_mutex_lock(&disk->pool->lock);
    disk->segments[place] = (disk_segment){.number = head.number};
    disk->n_segments++;
    pthread_mutex_unlock(&disk->pool->lock);
    return 0;
}

static void remove_segment(kv_disk *disk, uint32_t place)
{
    char path[DISK_PATH_MAX];
    uint32_t first = place * disk->n_records, n_left = 0;
    double left = 0;
    pthread_mutex_lock(&disk->pool->lock);
    for (uint32_t i = first; i < first + disk->n_records; i++) {
        if (disk->entries[i].record.n_tokens == 0) continue;
        left += disk->entries[i].priority;
        n_left++;
        disk_remove(disk, i);
    }
    disk->n_evicted += n_left;
    if (n_left && left / n_left > disk->priority_floor) disk->priority_floor = left / n_left;
    disk_path(disk, disk->segments[place].number, path);
    disk->bytes -= disk->segments[place].bytes;
    disk->segments[place] = (disk_segment){0};
    disk->n_segments--;
    pthread_mutex_unlock(&disk->pool->lock);
    unlink(path);
}

/* Write what is in the buffer, pages [n], as the next block. 0 or an errno. */
static int append(kv_disk *disk, segment_record *record, size_t n, uint32_t n_uses)
{
    disk_segment *s = &disk->segments[disk->writing];
    uint8_t text[SEGMENT_RECORD_BYTES];
    segment_head head = {.salt = {disk->salt[0], disk->salt[1]}, .number = s->number};
    record->at = disk->write_end;
    segment_record_write(text, &head, s->n_used, record);
    int why = file_write_at(disk->write_fd, disk->buffer, n, record->at);
    if (!why)
        why = file_write_at(disk->write_fd, text, sizeof text, segment_record_at(s->n_used));
    if (why) return why;
    disk->write_end += n;
    pthread_mutex_lock(&disk->pool->lock);
    disk_add(disk, disk->writing * disk->n_records + s->n_used, record, n_uses);
    s->n_used++;
    disk->bytes += disk->write_end - s->bytes;
    s->bytes = disk->write_end;
    disk->n_written++;
    pthread_mutex_unlock(&disk->pool->lock);
    return 0;
}

/* Copy the pages of an entry into the segment that is being written. */
static int carry(kv_disk *disk, int from, uint32_t entry)
{
    pthread_mutex_lock(&disk->pool->lock);
    disk_entry e = disk->entries[entry];
    pthread_mutex_unlock(&disk->pool->lock);
    if (e.record.n_tokens == 0) return 0;
    size_t n = segment_record_pages_bytes(&disk->layout, e.record.groups), at = 0;
    if (file_read_at(from, disk->buffer, n, e.record.at) != n) return 0;
    for (uint32_t g = 0; g < disk->layout.n_groups; g++) {
        if (!(e.record.groups >> g & 1)) continue;
        size_t size = disk->layout.page_bytes[g];
        if (hash_bytes(disk->buffer + at, size, 0) != e.record.hashes[g]) return 0;
        at += size;
    }
    return append(disk, &e.record, n, e.n_uses);
}

/* Copy the blocks of a segment that were used again and have a higher priority than most, at most
 * half of them; then remove the segment. */
static int recycle(kv_disk *disk, uint32_t place)
{
    char path[DISK_PATH_MAX];
    uint32_t first = place * disk->n_records, n = 0;
    disk_path(disk, disk->segments[place].number, path);
    int why = 0, fd = open(path, O_RDONLY | O_CLOEXEC);
    for (uint32_t i = first; fd >= 0 && i < first + disk->n_records; i++) {
        pthread_mutex_lock(&disk->pool->lock);
        const disk_entry *e = &disk->entries[i];
        bool is_wanted = e->record.n_tokens > 0 && e->n_uses > 1 && n < disk->n_records / 2 &&
                        e->priority * disk->n_entries > disk->priority;
        pthread_mutex_unlock(&disk->pool->lock);
        if (!is_wanted) continue;
        why = carry(disk, fd, i);
        if (why) break;
        n++;
    }
    if (fd >= 0) close(fd);
    remove_segment(disk, place);
    return why;
}

static uint32_t cheapest(kv_disk *disk, uint32_t but)
{
    pthread_mutex_lock(&disk->pool->lock);
    uint32_t place = disk_cheapest(disk, but);
    pthread_mutex_unlock(&disk->pool->lock);
    return place;
}

/* Open the next segment to write to; one free segment always stays, to copy to.  0 or an errno. */
static int next_segment(kv_disk *disk)
{
    uint32_t place = 0;
    if (disk->write_fd >= 0) close(disk->write_fd);
    disk->write_fd = -1;
    while (disk->segments[place].number) place++;
    int why = open_segment(disk, place);
    while (why == ENOSPC && disk->n_segments > 0) { /* of our own, then */
        remove_segment(disk, cheapest(disk, KV_NONE));
        why = open_segment(disk, place);
    }
    if (!why && disk->n_segments == disk->n_segments_max)
        why = recycle(disk, cheapest(disk, place));
    return why;
}

/* ---- blocks ---- */

/* The first block of the timeline that ends with this one and is not yet on disk; KV_NONE: all are.
 * */
static uint32_t first_missing(const kv_disk *disk, uint32_t block)
{
    const kv_block *blocks = disk->pool->blocks;
    if (disk_find(disk, blocks[block].name) != KV_NONE) return KV_NONE;
    for (uint32_t up; (up = blocks[block].parent) != KV_NONE; block = up)
        if (disk_find(disk, blocks[up].name) != KV_NONE) break;
    return block;
}

static bool is_there(const kv_disk *disk, uint32_t block, uint64_t serial)
{
    const kv_block *b = &disk->pool->blocks[block];
    return b->in_tree && b->serial == serial;
}

static void describe(const kv_disk *disk, uint32_t block, segment_record *record)
{
    const kv_pool *pool = disk->pool;
    const kv_block *b = &pool->blocks[block];
    *record = (segment_record){
        .n_tokens = b->n_tokens, .position = b->position, .tenant = b->tenant};
    record->before = b->parent == KV_NONE ? kv_name_root(pool, b->tenant)
                                          : pool->blocks[b->parent].name;
    memcpy(record->tokens, b->tokens, b->n_tokens * sizeof *b->tokens);
}

/* Copy one group's page of a block into the buffer, in pieces: a block in the tree does not change,
 * but may leave the tree between pieces.  False: the block or its page has gone. */
static bool copy_page(kv_disk *disk, uint32_t block, uint64_t serial, uint32_t g, uint8_t *to)
{
    const kv_group *group = &disk->pool->groups[g];
    bool is_good = true;
    for (size_t at = 0; is_good && at < group->page_bytes; at += COPY_BYTES) {
        size_t left = group->page_bytes - at, n = left < COPY_BYTES ? left : COPY_BYTES;
        pthread_mutex_lock(&disk->pool->lock);
        size_t page = group->window ? group->page_of[block] : block;
        is_good = is_there(disk, block, serial) && page < group->n_pages;
        if (is_good) memcpy(to + at, group->pages + page * group->page_bytes + at, n);
        pthread_mutex_unlock(&disk->pool->lock);
    }
    return is_good;
}

/* Write a block whose ancestors are on disk.  False: it has gone, or writing is off. */
static bool write_block(kv_disk *disk, uint32_t block, uint64_t serial, segment_record *record)
{
    size_t n = 0;
    int why = 0;
    if (disk->write_fd < 0 || disk->segments[disk->writing].n_used == disk->n_records)
        why = next_segment(disk);
    for (uint32_t g = 0; !why && g < disk->layout.n_groups; g++) {
        if (!copy_page(disk, block, serial, g, disk->buffer + n)) {
            if (disk->layout.required >> g & 1) return false;
            continue;
        }
        record->groups |= 1u << g;
        record->hashes[g] = hash_bytes(disk->buffer + n, disk->layout.page_bytes[g], 0);
        n += disk->layout.page_bytes[g];
    }
    if (!why) why = append(disk, record, n, 1);
    if (why) disk_give_up(disk, why);
    return why == 0;
}

/* A timeline was adopted: mark all its entries as used. */
static void touch(kv_disk *disk, hash_name name)
{
    bool is_done = false;
    while (!is_done) {
        pthread_mutex_lock(&disk->pool->lock);
        for (int i = 0; i < TOUCH_MAX && !is_done; i++) {
            uint32_t entry = disk_find(disk, name);
            is_done = entry == KV_NONE;
            if (is_done) break;
            disk_touch(disk, entry);
            name = disk->entries[entry].record.before;
        }
        pthread_mutex_unlock(&disk->pool->lock);
    }
}

void disk_keep_block(kv_disk *disk, uint32_t last, uint64_t last_serial, bool was_used)
{
    bool continues = true;
    while (continues && !atomic_load(&disk->is_full)) {
        segment_record record;
        uint64_t serial = 0;
        hash_name name = {0};
        uint32_t block = KV_NONE;
        pthread_mutex_lock(&disk->pool->lock);
        bool is_gone = !is_there(disk, last, last_serial);
        if (!is_gone) {
            block = first_missing(disk, last);
            name = disk->pool->blocks[last].name;
        }
        if (block != KV_NONE) {
            describe(disk, block, &record);
            serial = disk->pool->blocks[block].serial;
        }
        pthread_mutex_unlock(&disk->pool->lock);
        if (!is_gone && block == KV_NONE && was_used) touch(disk, name);
        continues = block != KV_NONE && write_block(disk, block, serial, &record);
    }
}
