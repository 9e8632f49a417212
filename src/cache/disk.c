/* disk.c - opening a folder of kept KV: its owner, which records of its files are good, and the
 * threads. */
#include "cache/disk.h"

#include <dirent.h>
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
    use->disk_bytes = disk->bytes;
    use->disk_bytes_max = disk->with.bytes_max;
    use->gave_up = atomic_load(&disk->is_full);
}

/* ---- the folder ---- */

/* KV holds what a model read, so the folder must be private to this user. */
static const char *distrust(const struct stat *st)
{
    if (st->st_uid != geteuid()) return "belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    return NULL;
}

/* Open, check and lock the folder.  NULL on success, else the reason. */
static const char *lock_folder(kv_disk *disk)
{
    char path[DISK_PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/lock", disk->folder);
    file_make_folders(path);
    if (stat(disk->folder, &st)) return strerror(errno);
    if (!S_ISDIR(st.st_mode)) return "not a folder";
    if (distrust(&st)) return distrust(&st);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    disk->lock_fd = open(path, flags, 0600);
    if (disk->lock_fd < 0) return strerror(errno);
    if (flock(disk->lock_fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK ? "another process uses it" : strerror(errno);
    return NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool parse_name(const char *name, uint64_t *number)
{
    char *end;
    if (strlen(name) != 19 || strcmp(name + 16, ".kv") || strspn(name, "0123456789abcdef") != 16)
        return false;
    *number = strtoull(name, &end, 16);
    return *number > 0 && *number < UINT64_MAX / 2;
}

/* Numbers of the existing files, ascending: owned [n]. */
static int list_files(const kv_disk *disk, uint64_t **numbers, uint32_t *n)
{
    *n = 0;
    *numbers = memory_alloc(DISK_FILES_SEEN_MAX * sizeof **numbers);
    if (!*numbers) return CERIUM_ERR_MEMORY;
    DIR *folder = opendir(disk->folder);
    for (struct dirent *e; folder && *n < DISK_FILES_SEEN_MAX && (e = readdir(folder));)
        *n += parse_name(e->d_name, &(*numbers)[*n]);
    if (folder) closedir(folder);
    qsort(*numbers, *n, sizeof **numbers, compare_numbers);
    return CERIUM_OK;
}

/* ---- files that are there ---- */

/* Report a fault once: the next start finds no bad record there. */
static void forget_record(int fd, uint32_t index)
{
    static const uint8_t zeros[SEGMENT_RECORD_BYTES];
    int why = file_write_at(fd, zeros, sizeof zeros, segment_record_at(index));
    (void)why; /* then it is said again */
}

/* Index the records of an open file.  NULL, or what is wrong with the file or with a record. */
static const char *read_records(kv_disk *disk, uint32_t place, int fd, uint64_t file_bytes,
                                const segment_head *head)
{
    disk_segment *s = &disk->segments[place];
    const char *fault = NULL;
    uint64_t end = segment_pages_at(disk->n_records);
    size_t table_bytes = (size_t)disk->n_records * SEGMENT_RECORD_BYTES;
    char *table = memory_alloc(table_bytes);
    if (!table) return "no memory";
    view text = {table, file_read_at(fd, table, table_bytes, SEGMENT_HEAD_BYTES)};
    *s = (disk_segment){.number = head->number, .bytes = file_bytes};
    disk->bytes += file_bytes;
    disk->n_segments++;
    for (uint32_t i = 0; i < disk->n_records; i++) {
        segment_record r;
        segment_record_state state =
            segment_record_read(text, i, file_bytes, head, &disk->layout, &r);
        /* A table ends where the file does while its first block is being written. */
        if (state == SEGMENT_RECORD_NONE || (state == SEGMENT_RECORD_CUT &&
                                             text.len <= (size_t)i * SEGMENT_RECORD_BYTES))
            continue;
        s->n_used = i + 1;
        if (state != SEGMENT_RECORD_GOOD) {
            fault = state == SEGMENT_RECORD_CUT ? "cut short" : "damaged";
            forget_record(fd, i);
            disk->n_damaged++;
            continue;
        }
        uint64_t pages = segment_record_pages_bytes(&disk->layout, r.groups);
        if (r.at + pages > end) end = r.at + pages;
        disk_add(disk, place * disk->n_records + i, &r, 1);
    }
    memory_free(table);
    if (s->n_used == disk->n_records) return fault;
    /* Go on with it. */
    if (disk->write_fd >= 0) close(disk->write_fd);
    disk->write_fd = dup(fd);
    disk->writing = place;
    disk->write_end = end;
    return fault;
}

/* NULL, or what is wrong with a file; *is_used: some of its records are good. */
static const char *open_file(kv_disk *disk, uint32_t place, uint64_t number, bool *is_used)
{
    char path[DISK_PATH_MAX];
    uint8_t first[SEGMENT_HEAD_BYTES];
    struct stat st;
    segment_head head;
    disk_path(disk, number, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return strerror(errno);
    const char *fault = fstat(fd, &st) ? strerror(errno) : distrust(&st);
    if (!fault && !S_ISREG(st.st_mode)) fault = "not a regular file";
    if (!fault && st.st_size == 0) { /* its writer was killed before the first byte */
        close(fd);
        return NULL;
    }
    if (!fault) {
        view text = {(const char *)first, file_read_at(fd, first, sizeof first, 0)};
        fault = segment_head_read(text, &disk->key, &head);
    }
    if (!fault && (head.number != number || head.n_records != disk->n_records)) fault = "damaged";
    if (!fault && disk->has_salt && memcmp(head.salt, disk->salt, sizeof head.salt))
        fault = "belongs to other files";
    if (!fault) {
        memcpy(disk->salt, head.salt, sizeof head.salt);
        disk->has_salt = *is_used = true;
        disk->pool->root = (hash_name){head.salt[0], head.salt[1]};
        fault = read_records(disk, place, fd, (uint64_t)st.st_size, &head);
    }
    close(fd);
    return fault;
}

/* May a file be removed: not a link, owned by this user, with the name of a segment? */
static bool is_removable(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
}

/* Index the good records, of the newest files if there are too many; remove the rest. */
static int open_files(kv_disk *disk)
{
    uint64_t *numbers = NULL;
    uint32_t n = 0, n_bad = 0;
    const char *first_fault = NULL;
    char path[DISK_PATH_MAX];
    RETURN_IF(list_files(disk, &numbers, &n));
    uint32_t first = n >= disk->n_segments_max ? n - disk->n_segments_max + 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_used = false;
        disk->last_number = numbers[i];
        const char *fault =
            i < first ? NULL : open_file(disk, disk->n_segments, numbers[i], &is_used);
        if (fault && !first_fault) first_fault = fault;
        n_bad += fault != NULL;
        disk_path(disk, numbers[i], path);
        if (!is_used && is_removable(path)) unlink(path);
    }
    memory_free(numbers);
    if (n_bad) {
        char what[200];
        snprintf(what, sizeof what, "%u of %u files: %s", n_bad, n, first_fault);
        disk_notice(disk, what, "what is missing is computed anew");
    }
    return CERIUM_OK;
}

/* ---- opening ---- */

/* Choose the number of blocks of a file, and the number of files. */
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
    uint64_t n_segments = disk->with.bytes_max / segment;
    if (n_segments < SEGMENTS_MIN)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "KV on disk: %llu bytes are too few for this model, give it at least %llu",
                         (unsigned long long)disk->with.bytes_max,
                         (unsigned long long)segment * SEGMENTS_MIN);
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
    return hash;
}

static int take_memory(kv_disk *disk)
{
    const kv_pool *pool = disk->pool;
    RETURN_IF(disk_index_open(disk));
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
    memory_free(disk->buffer);
    memory_free(disk->sequence);
    memory_free(disk->path);
    memory_free(disk->folder);
    memory_free(disk);
}

static const kv_listener listener = {disk_push, measure, close_disk};

static int start(kv_disk *disk)
{
    RETURN_IF(open_files(disk));
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
