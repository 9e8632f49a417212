/* disk_open.c - the files of a folder of kept KV when it is opened: which records and states are
 * good. */
#include "cache/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

const char *disk_distrust(const struct stat *st)
{
    if (st->st_uid != geteuid()) return "belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    return NULL;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static bool parse_name(const char *name, const char *suffix, uint64_t *number)
{
    char *end;
    if (strspn(name, "0123456789abcdef") != 16 || strcmp(name + 16, suffix)) return false;
    *number = strtoull(name, &end, 16);
    return *number > 0 && *number < UINT64_MAX / 2;
}

/* Numbers of the existing files of a kind, ascending: owned [n]. */
static int list_files(const kv_disk *disk, const char *suffix, uint64_t **numbers, uint32_t *n)
{
    *n = 0;
    *numbers = memory_alloc(DISK_FILES_SEEN_MAX * sizeof **numbers);
    if (!*numbers) return CERIUM_ERR_MEMORY;
    DIR *folder = opendir(disk->folder);
    for (struct dirent *e; folder && *n < DISK_FILES_SEEN_MAX && (e = readdir(folder));)
        *n += parse_name(e->d_name, suffix, &(*numbers)[*n]);
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

/* A file of this user's, and its size: a descriptor, or -1 and what is wrong. */
static int open_own(const char *path, uint64_t *file_bytes, const char **fault)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        *fault = strerror(errno);
        return -1;
    }
    *fault = fstat(fd, &st) ? strerror(errno) : disk_distrust(&st);
    if (!*fault && !S_ISREG(st.st_mode)) *fault = "not a regular file";
    if (!*fault) *file_bytes = (uint64_t)st.st_size;
    if (!*fault) return fd;
    close(fd);
    return -1;
}

/* All files of a folder have one salt, from which the names of blocks begin.  NULL, or what is
 * wrong. */
static const char *take_salt(kv_disk *disk, const uint64_t salt[2])
{
    if (disk->has_salt && memcmp(salt, disk->salt, sizeof disk->salt))
        return "belongs to other files";
    memcpy(disk->salt, salt, sizeof disk->salt);
    disk->has_salt = true;
    disk->pool->root = (hash_name){salt[0], salt[1]};
    return NULL;
}

/* NULL, or what is wrong with a file; *is_used: some of its records are good. */
static const char *open_segment(kv_disk *disk, uint64_t number, bool *is_used)
{
    char path[DISK_PATH_MAX];
    uint8_t first[SEGMENT_HEAD_BYTES];
    segment_head head;
    uint64_t file_bytes;
    const char *fault;
    disk_path(disk, number, path);
    int fd = open_own(path, &file_bytes, &fault);
    if (fd < 0) return fault;
    if (file_bytes == 0) { /* its writer was killed before the first byte */
        close(fd);
        return NULL;
    }
    view text = {(const char *)first, file_read_at(fd, first, sizeof first, 0)};
    fault = segment_head_read(text, &disk->key, &head);
    if (!fault && (head.number != number || head.n_records != disk->n_records)) fault = "damaged";
    if (!fault) fault = take_salt(disk, head.salt);
    if (!fault) {
        *is_used = true;
        fault = read_records(disk, disk->n_segments, fd, file_bytes, &head);
    }
    close(fd);
    return fault;
}

/* The same of a state: its bytes are checked when it is read. */
static const char *open_state(kv_disk *disk, uint64_t number, bool *is_used)
{
    char path[DISK_PATH_MAX];
    uint8_t first[STATE_FILE_HEAD_BYTES];
    state_head head;
    uint64_t file_bytes;
    const char *fault;
    disk_state_path(disk, number, path);
    int fd = open_own(path, &file_bytes, &fault);
    if (fd < 0) return fault;
    view text = {(const char *)first, file_read_at(fd, first, sizeof first, 0)};
    close(fd);
    if (state_file_is_unfinished(text)) return NULL;
    fault = state_head_read(text, file_bytes, &disk->key, disk->pool->states.bytes, &head);
    if (!fault && head.number != number) fault = "damaged";
    if (!fault) fault = take_salt(disk, head.salt);
    if (fault) return fault;
    *is_used = true;
    disk_state_add(disk, &head);
    return NULL;
}

/* May a file be removed: not a link, owned by this user, with the name of a segment? */
static bool is_removable(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1;
}

/* Files of one kind, of which the newest n_max are used. */
typedef struct {
    const char *suffix;
    uint32_t n_max;
    uint64_t *last; /* output: the greatest number */
    void (*path)(const kv_disk *disk, uint64_t number, char *out);
    const char *(*open)(kv_disk *disk, uint64_t number, bool *is_used);
} kind;

typedef struct {
    uint32_t n_files, n_bad;
    const char *first;
} faults;

static int open_kind(kv_disk *disk, const kind *k, faults *all)
{
    uint64_t *numbers = NULL;
    uint32_t n = 0;
    char path[DISK_PATH_MAX];
    RETURN_IF(list_files(disk, k->suffix, &numbers, &n));
    for (uint32_t i = 0; i < n; i++) {
        bool is_used = false;
        *k->last = numbers[i];
        const char *fault = n - i > k->n_max ? NULL : k->open(disk, numbers[i], &is_used);
        if (fault && !all->first) all->first = fault;
        all->n_bad += fault != NULL;
        k->path(disk, numbers[i], path);
        if (!is_used && is_removable(path)) unlink(path);
    }
    all->n_files += n;
    memory_free(numbers);
    return CERIUM_OK;
}

int disk_open_files(kv_disk *disk)
{
    const kind segments = {".kv", disk->n_segments_max - 1, &disk->last_number, disk_path,
                           open_segment};
    const kind states = {".state", disk->n_states_max, &disk->last_state, disk_state_path,
                         open_state};
    faults all = {0};
    RETURN_IF(open_kind(disk, &segments, &all));
    if (disk->n_states_max) RETURN_IF(open_kind(disk, &states, &all));
    if (all.n_bad) {
        char what[200];
        snprintf(what, sizeof what, "%u of %u files: %s", all.n_bad, all.n_files, all.first);
        disk_notice(disk, what, "what is missing is computed anew");
    }
    return CERIUM_OK;
}
