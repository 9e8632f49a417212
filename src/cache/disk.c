/* disk.c - opening a folder of kept KV: its owner, how its bytes are shared out, and the threads.
 * disk_open.c has its files. */
#include "cache/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { RECORDS_MIN = 8, SEGMENTS_MIN = 3 };

static void measure(const void *user, kv_use *use)
{
    const kv_disk *disk = user;
    use->disk_blocks = disk->n_entries;
    use->waiting = disk->queue_tail - disk->queue_head;
    use->written = disk->n_written;
    use->loaded = disk->n_loaded;
    use->evicted = disk->n_evicted;
    use->damaged = disk->n_damaged;
    use->lookups = disk->n_lookups;
    use->hits = disk->n_hits;
    use->disk_states = disk->n_states;
    use->states_written = disk->n_states_written;
    use->states_loaded = disk->n_states_loaded;
    use->states_evicted = disk->n_states_evicted;
    use->states_damaged = disk->n_states_damaged;
    use->disk_bytes = disk->bytes + disk->n_states * disk_state_bytes(disk);
    use->disk_bytes_max = disk->with.bytes_max;
    use->gave_up = atomic_load(&disk->is_full);
}

/* ---- the folder ---- */

/* Open, check and lock the folder.  NULL on success, else the reason. */
static const char *lock_folder(kv_disk *disk)
{
    char path[DISK_PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/lock", disk->folder);
    file_make_folders(path);
    if (stat(disk->folder, &st)) return strerror(errno);
    if (!S_ISDIR(st.st_mode)) return "not a folder";
    if (disk_distrust(&st)) return disk_distrust(&st);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    disk->lock_fd = open(path, flags, 0600);
    if (disk->lock_fd < 0) return strerror(errno);
    if (flock(disk->lock_fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? "another process uses it" : strerror(errno);
    return NULL;
}

/* ---- opening ---- */

/* States have half of the bytes, and pages the rest: a state is as large as the pages of thousands
 * of tokens.  Returns the number of states; least: bytes that pages need. */
static uint32_t share_of_states(const kv_disk *disk, uint64_t least)
{
    const uint64_t most = disk->with.bytes_max, size = disk_state_bytes(disk);
    if (disk->pool->states.bytes == 0) return 0;
    uint64_t n = most / 2 / size, fitting = most > least ? (most - least) / size : 0;
    if (n < DISK_STATES_MIN) n = DISK_STATES_MIN;
    if (n > fitting) n = fitting;
    return n < DISK_STATES_MAX ? (uint32_t)n : DISK_STATES_MAX;
}

/* Choose the number of blocks of a file, and the numbers of files. */
static int share_out(kv_disk *disk, cerium_error *err)
{
    const kv_pool *pool = disk->pool;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        disk->layout.page_bytes[g] = pool->groups[g].page_bytes;
        if (!pool->groups[g].window) disk->layout.required |= 1u << g;
        disk->block_bytes += pool->groups[g].page_bytes;
    }
    disk->layout.n_groups = pool->n_groups;
    uint64_t n = DISK_SEGMENT_BYTES / disk->block_bytes;
    n = n < RECORDS_MIN ? RECORDS_MIN : n;
    disk->n_records = n < SEGMENT_RECORDS_MAX ? (uint32_t)n : SEGMENT_RECORDS_MAX;
    uint64_t segment = segment_pages_at(disk->n_records) + disk->n_records * disk->block_bytes;
    uint64_t states = pool->states.bytes ? disk_state_bytes(disk) : 0;
    const uint64_t least = SEGMENTS_MIN * segment + DISK_STATES_MIN * states;
    if (disk->with.bytes_max < least)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "KV on disk: %llu bytes are too few for this model, give it at least %llu",
                         (unsigned long long)disk->with.bytes_max,
                         (unsigned long long)least);
    disk->n_states_max = share_of_states(disk, SEGMENTS_MIN * segment);
    const uint64_t n_segments = (disk->with.bytes_max - disk->n_states_max * states) / segment;
    uint32_t most = DISK_RECORDS_MAX / disk->n_records;
    disk->n_segments_max = n_segments < most ? (uint32_t)n_segments : most;
    return CERIUM_OK;
}

static uint64_t layout_hash(const kv_pool *pool)
{
    uint64_t hash = hash_u64(pool->type, KERNEL_PAGE);
    for (uint32_t i = 0; i < pool->n_layers; i++) {
        const kv_layer *layer = &pool->layers[i];
        hash = hash_u64(layer->n_heads, hash_u64(layer->keys_bytes, hash));
        hash = hash_u64(pool->groups[layer->group].window, hash);
    }
    if (pool->states.bytes) hash = hash_u64(pool->states.bytes, hash);
    return hash;
}

static int take_memory(kv_disk *disk)
{
    const kv_pool *pool = disk->pool;
    RETURN_IF(disk_index_open(disk));
    RETURN_IF(disk_states_open(disk));
    disk->buffer = memory_alloc(disk->block_bytes);
    disk->sequence = kv_sequence_own(disk->pool);
    disk->path = memory_alloc(kv_blocks_for(pool->context_tokens) * sizeof *disk->path);
    return disk->buffer && disk->sequence && disk->path ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void close_disk(void *user)
{
    kv_disk *disk = user;
    disk->close_ns = clock_ns();
    atomic_store(&disk->closing, true);
    if (disk->has_writer) {
        thread_bell_ring(&disk->writer_bell);
        pthread_join(disk->writer, NULL);
    }
    if (disk->has_reader) {
        thread_bell_ring(&disk->reader_bell);
        pthread_join(disk->reader, NULL);
    }
    if (disk->write_fd >= 0) close(disk->write_fd);
    if (disk->lock_fd >= 0) close(disk->lock_fd);
    disk_index_close(disk);
    disk_states_close(disk);
    memory_free(disk->buffer);
    memory_free(disk->sequence);
    memory_free(disk->path);
    memory_free(disk->folder);
    memory_free(disk);
}

static const kv_listener listener = {disk_push, disk_push_state, measure, close_disk};

static int start(kv_disk *disk)
{
    RETURN_IF(disk_open_files(disk));
    if (!disk->has_salt && getrandom(disk->salt, sizeof disk->salt, 0) != sizeof disk->salt)
        return CERIUM_ERR_MEMORY;
    disk->pool->root = (hash_name){disk->salt[0], disk->salt[1]};
    disk->pool->listener = &listener;
    disk->pool->listener_user = disk;
    disk_warm_begin(disk);
    disk->has_writer = thread_start(&disk->writer, "kv-write", disk_write, disk) == 0;
    disk->has_reader = thread_start(&disk->reader, "kv-read", disk_read, disk) == 0;
    return disk->has_writer && disk->has_reader ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int kv_pool_attach_disk(kv_pool *pool, const kv_disk_config *config, cerium_error *err)
{
    CHECK(!pool->listener && pool->n_sequences == 0 && pool->n_idle == 0);
    CHECK(strlen(config->folder) + DISK_NAME_BYTES < DISK_PATH_MAX);
    kv_disk *disk = memory_zalloc(1, sizeof *disk);
    if (!disk) return error_set(err, CERIUM_ERR_MEMORY, "no memory for KV on disk");
    disk->pool = pool;
    disk->with = *config;
    disk->lock_fd = disk->write_fd = disk->read_fd = -1;
    disk->key = (segment_key){config->model, config->numbers, layout_hash(pool)};
    disk->folder = memory_copy(config->folder, strlen(config->folder));
    int status = disk->folder ? share_out(disk, err) : CERIUM_ERR_MEMORY;
    const char *fault = status ? NULL : lock_folder(disk);
    if (fault) disk_notice(disk, fault, "KV is not kept");
    if (!status && !fault) status = take_memory(disk);
    if (!status && !fault) status = start(disk);
    if (!status && !fault) return CERIUM_OK;
    pool->listener = NULL;
    pool->listener_user = NULL;
    close_disk(disk);
    if (status == CERIUM_ERR_MEMORY) error_set(err, status, "no memory for KV on disk");
    return status;
}
