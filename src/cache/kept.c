/* kept.c - opening a folder of kept KV: whose it is, what of its files is good, and the threads. */
#include "cache/kept.h"

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
    const kv_kept *kept = user;
    use->kept = kept->n_entries;
    use->waiting = kept->queue_tail - kept->queue_head;
    use->written = kept->n_written;
    use->loaded = kept->n_loaded;
    use->evicted = kept->n_evicted;
    use->damaged = kept->n_damaged;
    use->lookups = kept->n_lookups;
    use->hits = kept->n_hits;
    use->kept_bytes = kept->bytes;
    use->kept_bytes_max = kept->with.bytes_max;
    use->gave_up = atomic_load(&kept->is_full);
}

/* ---- the folder ---- */

/* KV is what a model read: nobody else may write it, and only we may read it. */
static const char *distrust(const struct stat *st)
{
    if (st->st_uid != geteuid()) return "belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    return NULL;
}

/* NULL when the folder is there, ours, and locked; else why not. */
static const char *lock_folder(kv_kept *kept)
{
    char path[KEPT_PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/lock", kept->folder);
    file_make_folders(path);
    if (stat(kept->folder, &st)) return strerror(errno);
    if (!S_ISDIR(st.st_mode)) return "not a folder";
    if (distrust(&st)) return distrust(&st);
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    kept->lock_fd = open(path, flags, 0600);
    if (kept->lock_fd < 0) return strerror(errno);
    if (flock(kept->lock_fd, LOCK_EX | LOCK_NB))
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

/* Numbers of the files that are there, in order: owned [n]. */
static int list_files(const kv_kept *kept, uint64_t **numbers, uint32_t *n)
{
    *n = 0;
    *numbers = memory_alloc(KEPT_FILES_SEEN_MAX * sizeof **numbers);
    if (!*numbers) return CERIUM_ERR_MEMORY;
    DIR *folder = opendir(kept->folder);
    for (struct dirent *e; folder && *n < KEPT_FILES_SEEN_MAX && (e = readdir(folder));)
        *n += parse_name(e->d_name, &(*numbers)[*n]);
    if (folder) closedir(folder);
    qsort(*numbers, *n, sizeof **numbers, compare_numbers);
    return CERIUM_OK;
}

/* ---- files that are there ---- */

/* What is wrong is said once: the next start finds nothing there. */
static void forget_record(int fd, uint32_t index)
{
    static const uint8_t zeros[SEGMENT_RECORD_BYTES];
    int why = file_write_at(fd, zeros, sizeof zeros, segment_record_at(index));
    (void)why; /* then it is said again */
}

/* The records of an open file become entries.  NULL, or what is wrong with it or with some. */
static const char *read_records(kv_kept *kept, uint32_t place, int fd, uint64_t file_bytes,
                                const segment_head *head)
{
    kept_segment *s = &kept->segments[place];
    const char *fault = NULL;
    uint64_t end = segment_pages_at(kept->n_records);
    size_t table_bytes = (size_t)kept->n_records * SEGMENT_RECORD_BYTES;
    char *table = memory_alloc(table_bytes);
    if (!table) return "no memory";
    view text = {table, file_read_at(fd, table, table_bytes, SEGMENT_HEAD_BYTES)};
    *s = (kept_segment){.number = head->number, .bytes = file_bytes};
    kept->bytes += file_bytes;
    kept->n_segments++;
    for (uint32_t i = 0; i < kept->n_records; i++) {
        segment_record r;
        segment_record_state state =
            segment_record_read(text, i, file_bytes, head, &kept->layout, &r);
        /* A table ends where the file does while its first block is being written. */
        if (state == SEGMENT_RECORD_NONE || (state == SEGMENT_RECORD_CUT &&
                                             text.len <= (size_t)i * SEGMENT_RECORD_BYTES))
            continue;
        s->n_used = i + 1;
        if (state != SEGMENT_RECORD_GOOD) {
            fault = state == SEGMENT_RECORD_CUT ? "cut short" : "damaged";
            forget_record(fd, i);
            kept->n_damaged++;
            continue;
        }
        uint64_t pages = segment_record_pages_bytes(&kept->layout, r.groups);
        if (r.at + pages > end) end = r.at + pages;
        kept_add(kept, place * kept->n_records + i, &r, 1);
    }
    memory_free(table);
    if (s->n_used == kept->n_records) return fault;
    /* Go on with it. */
    if (kept->write_fd >= 0) close(kept->write_fd);
    kept->write_fd = dup(fd);
    kept->writing = place;
    kept->write_end = end;
    return fault;
}

/* NULL, or what is wrong with a file; *is_used when something of it is. */
static const char *open_file(kv_kept *kept, uint32_t place, uint64_t number, bool *is_used)
{
    char path[KEPT_PATH_MAX];
    uint8_t first[SEGMENT_HEAD_BYTES];
    struct stat st;
    segment_head head;
    kept_path(kept, number, path);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return strerror(errno);
    const char *fault = fstat(fd, &st) ? strerror(errno) : distrust(&st);
    if (!fault && !S_ISREG(st.st_mode)) fault = "not a regular file";
    if (!fault && st.st_size == 0) { /* whoever made it was killed before its first byte */
        close(fd);
        return NULL;
    }
    if (!fault) {
        view text = {(const char *)first, file_read_at(fd, first, sizeof first, 0)};
        fault = segment_head_read(text, &kept->key, &head);
    }
    if (!fault && (head.number != number || head.n_records != kept->n_records)) fault = "damaged";
    if (!fault && kept->has_salt && memcmp(head.salt, kept->salt, sizeof head.salt))
        fault = "belongs to other files";
    if (!fault) {
        memcpy(kept->salt, head.salt, sizeof head.salt);
        kept->has_salt = *is_used = true;
        kept->pool->root = (hash_name){head.salt[0], head.salt[1]};
        fault = read_records(kept, place, fd, (uint64_t)st.st_size, &head);
    }
    close(fd);
    return fault;
}

/* A file that may be removed: not a link, not somebody else's, and not one with another name. */
static bool is_removable(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
}

/* Take what is good, the newest files where there are too many; the rest is removed. */
static int open_files(kv_kept *kept)
{
    uint64_t *numbers = NULL;
    uint32_t n = 0, n_bad = 0;
    const char *first_fault = NULL;
    char path[KEPT_PATH_MAX];
    RETURN_IF(list_files(kept, &numbers, &n));
    uint32_t first = n >= kept->n_segments_max ? n - kept->n_segments_max + 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_used = false;
        kept->last_number = numbers[i];
        const char *fault =
            i < first ? NULL : open_file(kept, kept->n_segments, numbers[i], &is_used);
        if (fault && !first_fault) first_fault = fault;
        n_bad += fault != NULL;
        kept_path(kept, numbers[i], path);
        if (!is_used && is_removable(path)) unlink(path);
    }
    memory_free(numbers);
    if (n_bad) {
        char what[200];
        snprintf(what, sizeof what, "%u of %u files: %s", n_bad, n, first_fault);
        kept_notice(kept, what, "what is missing is computed anew");
    }
    return CERIUM_OK;
}

/* ---- opening ---- */

/* How many blocks a file has, and how many files there may be. */
static int share_out(kv_kept *kept, cerium_error *err)
{
    const kv_pool *pool = kept->pool;
    for (uint32_t g = 0; g < pool->n_groups; g++) {
        kept->layout.page_bytes[g] = pool->groups[g].page_bytes;
        if (!pool->groups[g].window) kept->layout.required |= 1u << g;
        kept->block_bytes += pool->groups[g].page_bytes;
    }
    kept->layout.n_groups = pool->n_groups;
    uint64_t n = KEPT_SEGMENT_BYTES / kept->block_bytes;
    n = n < RECORDS_MIN ? RECORDS_MIN : n;
    kept->n_records = n < SEGMENT_RECORDS_MAX ? (uint32_t)n : SEGMENT_RECORDS_MAX;
    uint64_t segment = segment_pages_at(kept->n_records) + kept->n_records * kept->block_bytes;
    uint64_t n_segments = kept->with.bytes_max / segment;
    if (n_segments < SEGMENTS_MIN)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "KV on disk: %llu bytes are too few for this model, give it at least %llu",
                         (unsigned long long)kept->with.bytes_max,
                         (unsigned long long)segment * SEGMENTS_MIN);
    uint32_t most = KEPT_RECORDS_MAX / kept->n_records;
    kept->n_segments_max = n_segments < most ? (uint32_t)n_segments : most;
    return CERIUM_OK;
}

static uint64_t layout_hash(const kv_pool *pool)
{
    uint64_t hash = hash_u64(pool->type, KERNEL_PAGE);
    hash = hash_u64(pool->n_kv_heads, hash_u64(pool->keys_bytes, hash));
    for (uint32_t i = 0; i < pool->n_layers; i++)
        hash = hash_u64(pool->groups[pool->places[i].group].window, hash);
    return hash;
}

static int take_memory(kv_kept *kept)
{
    const kv_pool *pool = kept->pool;
    RETURN_IF(kept_index_open(kept));
    kept->buffer = memory_alloc(kept->block_bytes);
    kept->sequence = kv_sequence_own(kept->pool);
    kept->path = memory_alloc(kv_blocks_for(pool->context_tokens) * sizeof *kept->path);
    return kept->buffer && kept->sequence && kept->path ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void close_kept(void *user)
{
    kv_kept *kept = user;
    kept->close_ns = clock_ns();
    atomic_store(&kept->closing, true);
    if (kept->has_writer) {
        thread_bell_ring(&kept->writer_bell);
        pthread_join(kept->writer, NULL);
    }
    if (kept->has_reader) {
        thread_bell_ring(&kept->reader_bell);
        pthread_join(kept->reader, NULL);
    }
    if (kept->write_fd >= 0) close(kept->write_fd);
    if (kept->lock_fd >= 0) close(kept->lock_fd);
    kept_index_close(kept);
    memory_free(kept->buffer);
    memory_free(kept->sequence);
    memory_free(kept->path);
    memory_free(kept->folder);
    memory_free(kept);
}

static const kv_listener listener = {kept_push, measure, close_kept};

static int start(kv_kept *kept)
{
    RETURN_IF(open_files(kept));
    if (!kept->has_salt && getrandom(kept->salt, sizeof kept->salt, 0) != sizeof kept->salt)
        return CERIUM_ERR_MEMORY;
    kept->pool->root = (hash_name){kept->salt[0], kept->salt[1]};
    kept->pool->listener = &listener;
    kept->pool->listener_user = kept;
    kept_warm_begin(kept);
    kept->has_writer = thread_start(&kept->writer, kept_write, kept) == 0;
    kept->has_reader = thread_start(&kept->reader, kept_read, kept) == 0;
    return kept->has_writer && kept->has_reader ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

int kv_pool_keep(kv_pool *pool, const kv_keeping *keeping, cerium_error *err)
{
    CHECK(!pool->listener && pool->n_sequences == 0 && pool->n_idle == 0);
    CHECK(strlen(keeping->folder) + KEPT_NAME_BYTES < KEPT_PATH_MAX);
    kv_kept *kept = memory_zalloc(1, sizeof *kept);
    if (!kept) return error_set(err, CERIUM_ERR_MEMORY, "no memory for KV on disk");
    kept->pool = pool;
    kept->with = *keeping;
    kept->lock_fd = kept->write_fd = kept->read_fd = -1;
    kept->key = (segment_key){keeping->model, keeping->numbers, layout_hash(pool)};
    kept->folder = memory_copy(keeping->folder, strlen(keeping->folder));
    int status = kept->folder ? share_out(kept, err) : CERIUM_ERR_MEMORY;
    const char *fault = status ? NULL : lock_folder(kept);
    if (fault) kept_notice(kept, fault, "KV is not kept");
    if (!status && !fault) status = take_memory(kept);
    if (!status && !fault) status = start(kept);
    if (!status && !fault) return CERIUM_OK;
    pool->listener = NULL;
    pool->listener_user = NULL;
    close_kept(kept);
    if (status == CERIUM_ERR_MEMORY) error_set(err, status, "no memory for KV on disk");
    return status;
}
