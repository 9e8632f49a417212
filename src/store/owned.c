/* owned.c - recognizes the files that SQLite puts beside a database. */
#include "store/owned.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/file.h"

enum {
    LOG_HEAD_BYTES = 32,
    FRAME_HEAD_BYTES = 24,
    APPLICATION_AT = 68,
    /* The shared-memory index grows by regions of 32 KB, a page at a time: a process that is killed
     * meanwhile leaves a part of one.  3 is its length at rest. */
    INDEX_STEP_BYTES = 4096,
    INDEX_REST_BYTES = 3,
};

/* Formats that SQLite documents: https://www.sqlite.org/fileformat2.html */
static const uint8_t log_magic[] = {0x37, 0x7f, 0x06};
static const uint8_t journal_magic[] = {0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7};

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

const char *owned_fault(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) return "not a regular file";
    if (st->st_uid != geteuid()) return "belongs to another user";
    if (st->st_nlink > 1) return "has another name (a hard link)";
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    return NULL;
}

/* 0 bytes: it cannot be read. */
static size_t read_first(const char *path, uint8_t *out, size_t len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    size_t n = fd < 0 ? 0 : file_read_at(fd, out, len, 0);
    if (fd >= 0) close(fd);
    return n;
}

static bool is_log(const char *path, const struct stat *st)
{
    uint8_t first[LOG_HEAD_BYTES];
    return !st->st_size || (read_first(path, first, sizeof first) == sizeof first &&
                            !memcmp(first, log_magic, sizeof log_magic));
}

/* Only by its length: opening and closing it would drop the locks that this process has on it. */
static bool is_index(const char *path, const struct stat *st)
{
    (void)path;
    return st->st_size == INDEX_REST_BYTES || st->st_size % INDEX_STEP_BYTES == 0;
}

/* A journal whose first bytes are zero has ended, or is being started. */
static bool is_journal(const char *path, const struct stat *st)
{
    static const uint8_t zeros[sizeof journal_magic];
    uint8_t first[sizeof journal_magic];
    if (!st->st_size) return true;
    return read_first(path, first, sizeof first) == sizeof first &&
           (!memcmp(first, journal_magic, sizeof first) || !memcmp(first, zeros, sizeof first));
}

int owned_sides(const char *path, cerium_error *err)
{
    static const struct {
        const char *end;
        bool (*is_sqlites)(const char *path, const struct stat *st);
    } sides[] = {{"-wal", is_log}, {"-shm", is_index}, {"-journal", is_journal}};
    char side[PATH_MAX + 16];
    struct stat st;
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        snprintf(side, sizeof side, "%s%s", path, sides[i].end);
        if (lstat(side, &st)) {
            if (errno == ENOENT) continue;
            return error_set(err, CERIUM_ERR_IO, "%s: cannot open: %s", side, strerror(errno));
        }
        const char *fault = S_ISLNK(st.st_mode) ? "a link" : owned_fault(&st);
        if (fault && geteuid() == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
            fault = NULL; /* root administers files of the service's user */
        if (!fault && !sides[i].is_sqlites(side, &st)) fault = "a file of another program";
        if (fault)
            return error_set(err, CERIUM_ERR_FORMAT, "%s: %s, and SQLite needs that name; move it "
                             "away, or name another store", side, fault);
    }
    return CERIUM_OK;
}

bool owned_log_names(const char *path, uint32_t application_id)
{
    char log[PATH_MAX + 16];
    uint8_t first[LOG_HEAD_BYTES], frame[FRAME_HEAD_BYTES + APPLICATION_AT + 4];
    snprintf(log, sizeof log, "%s-wal", path);
    int fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    bool is_named = false;
    if (file_read_at(fd, first, sizeof first, 0) == sizeof first) {
        uint64_t step = FRAME_HEAD_BYTES + (uint64_t)read_u32(first + 8);
        for (uint64_t at = LOG_HEAD_BYTES;
             !is_named && file_read_at(fd, frame, sizeof frame, at) == sizeof frame; at += step)
            is_named = read_u32(frame) == 1 &&
                       read_u32(frame + FRAME_HEAD_BYTES + APPLICATION_AT) == application_id;
    }
    close(fd);
    return is_named;
}
