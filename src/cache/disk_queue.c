/* disk_queue.c - the thread that writes what became findable: blocks (disk_write.c) and states
 * (disk_write_state.c), in that order. */
#include "cache/disk.h"

static const uint64_t CLOSE_NS_MAX = UINT64_C(10) * 1000000000; /* for what is queued at the end */

static void queue(kv_disk *disk, disk_item item)
{
    if (disk->queue_tail - disk->queue_head == DISK_QUEUE_MAX) return;
    disk->queue[disk->queue_tail++ % DISK_QUEUE_MAX] = item;
    thread_bell_ring(&disk->writer_bell);
}

void disk_push(void *user, uint32_t block, bool was_used)
{
    kv_disk *disk = user;
    if (atomic_load(&disk->is_full)) return;
    if (!was_used && disk_find(disk, disk->pool->blocks[block].name) != KV_NONE) return;
    queue(disk, (disk_item){block, false, was_used, disk->pool->blocks[block].serial});
}

void disk_push_state(void *user, uint32_t state, bool was_used)
{
    kv_disk *disk = user;
    if (atomic_load(&disk->is_full)) return;
    queue(disk, (disk_item){state, true, was_used, disk->pool->states.all[state].serial});
}

void *disk_write(void *arg)
{
    kv_disk *disk = arg;
    for (;;) {
        uint32_t seen = atomic_load(&disk->writer_bell.n_rings);
        bool closes = atomic_load(&disk->closing);
        disk_item item;
        pthread_mutex_lock(&disk->pool->lock);
        bool has_item = disk->queue_head != disk->queue_tail;
        if (has_item) item = disk->queue[disk->queue_head % DISK_QUEUE_MAX];
        pthread_mutex_unlock(&disk->pool->lock);
        if (closes && (!has_item || clock_ns() > disk->close_ns + CLOSE_NS_MAX)) return NULL;
        if (!has_item) {
            thread_bell_wait(&disk->writer_bell, seen);
            continue;
        }
        if (item.is_state)
            disk_keep_state(disk, item.at, item.serial, item.was_used);
        else
            disk_keep_block(disk, item.at, item.serial, item.was_used);
        pthread_mutex_lock(&disk->pool->lock);
        disk->queue_head++; /* no longer queued */
        pthread_mutex_unlock(&disk->pool->lock);
    }
}
