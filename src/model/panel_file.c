/* panel_file.c - finding, mapping and writing files of panels. */
#include "model/panel_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

static bool fault(char out[PANEL_TEXT_MAX], const char *path, const char *what)
{
    snprintf(out, PANEL_TEXT_MAX, "%.*s: %s", PANEL_TEXT_MAX - 100, path, what);
    return false;
}

/* ---- places ---- */

/* One string of four; owned, NULL when memory runs out. */
static char *join(const char *a, const char *b, const char *c, const char *d)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + strlen(d) + 1;
    char *out = memory_alloc(n);
    if (out) snprintf(out, n, "%s%s%s%s", a, b, c, d);
    return out;
}

static int add_place(panel_places *places, char *path)
{
    if (!path) return CERIUM_ERR_MEMORY;
    CHECK(places->n < PANEL_PLACES_MAX);
    places->paths[places->n++] = path;
    return CERIUM_OK;
}

/* In a folder of many models: the file's name, and a hash of its real path. */
static int add_in_folder(panel_places *places, const char *folder)
{
    char real[PATH_MAX], end[48];
    const char *slash = strrchr(places->model_path, '/');
    if (!realpath(places->model_path, real)) return CERIUM_OK;
    snprintf(end, sizeof end, "-%016llx.panels",
             (unsigned long long)hash_bytes(real, strlen(real), 0));
    return add_place(places, join(folder, "/", slash ? slash + 1 : places->model_path, end));
}

/* Panels of models that nobody opens any more are removed there. */
static int add_users_folder(panel_places *places)
{
    char folder[PATH_MAX];
    if (!file_cache_folder(folder, sizeof folder)) return CERIUM_OK;
    file_bound(folder, "*.panels*", FILE_CACHED_MAX, FILE_CACHED_DAYS);
    return add_in_folder(places, folder);
}

int panel_places_open(panel_places *places, const char *model_path, const char *folder,
                      uint64_t panels_bytes)
{
    *places = (panel_places){.model_path = model_path};
    if (folder && strcmp(folder, "off") == 0) return CERIUM_OK;
    if (!folder && panels_bytes < PANEL_BYTES_MIN) return CERIUM_OK;
    int status = CERIUM_OK;
    if (folder) {
        status = add_in_folder(places, folder);
    } else {
        status = add_place(places, join(model_path, ".panels", "", ""));
        if (!status) status = add_users_folder(places);
    }
    if (status) panel_places_close(places);
    return status;
}

void panel_places_close(panel_places *places)
{
    for (uint32_t i = 0; i < places->n; i++) memory_free(places->paths[i]);
    *places = (panel_places){.model_path = places->model_path};
}

/* ---- mapping ---- */

/* Weights decide a model's output: no other user may replace them, or cut the file while it is
 * mapped. */
static const char *distrust(const struct stat *st, const char *model_path)
{
    struct stat model;
    if (!S_ISREG(st->st_mode)) return "not a regular file";
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return "others may write to it";
    if (st->st_uid == geteuid() || st->st_uid == 0) return NULL;
    if (stat(model_path, &model) == 0 && model.st_uid == st->st_uid) return NULL;
    return "belongs to another user";
}

/* NULL: the file was mapped; else its fault. */
static const char *map_fd(panel_map *map, const panel_places *places, int fd)
{
    struct stat st;
    if (fstat(fd, &st)) return strerror(errno);
    const char *what = distrust(&st, places->model_path);
    if (what) return what;
    size_t len = file_read_at(fd, map->head, panel_file_head_bytes(map->key.bytes), 0);
    what = panel_head_fault((view){(const char *)map->head, len}, (uint64_t)st.st_size,
                            &map->key);
    if (what) return what;
    map->panels = memory_map_file(fd, panel_file_at(map->key.bytes), map->key.bytes);
    file_used(fd);
    return map->panels ? NULL : strerror(errno);
}

int panel_map_open(panel_map *map, const panel_places *places, const panel_key *key)
{
    *map = (panel_map){.key = *key};
    if (places->n == 0) return CERIUM_OK;
    map->head = memory_alloc(panel_file_head_bytes(key->bytes));
    if (!map->head) return CERIUM_ERR_MEMORY;
    for (uint32_t i = 0; i < places->n && !map->panels; i++) {
        int fd = open(places->paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) continue;
        const char *what = fd < 0 ? strerror(errno) : map_fd(map, places, fd);
        if (fd >= 0) close(fd);
        map->path = places->paths[i];
        if (what) fault(map->fault, map->path, what);
    }
    return CERIUM_OK;
}

bool panel_map_check(const panel_map *map, uint64_t chunk)
{
    const uint64_t at = chunk * PANEL_CHUNK_BYTES, left = map->key.bytes - at;
    const size_t n = left < PANEL_CHUNK_BYTES ? left : PANEL_CHUNK_BYTES;
    return hash_bytes(map->panels + at, n, 0) == panel_head_hash(map->head, chunk);
}

void panel_map_close(panel_map *map)
{
    memory_unmap(map->panels, map->key.bytes);
    memory_free(map->head);
    map->panels = map->head = NULL;
}

/* ---- writing ---- */

/* Create and lock the file to write.  0, an errno, or EWOULDBLOCK: another process writes it or has
 * just finished. */
static int lock_new(int fd, const char *new_path)
{
    struct stat here, there;
    if (fstat(fd, &here)) return errno;
    if (!S_ISREG(here.st_mode) || here.st_uid != geteuid() || here.st_nlink > 1) return EPERM;
    if (flock(fd, LOCK_EX | LOCK_NB)) return errno;
    /* The previous holder of the lock may have renamed this very file: do not truncate it. */
    if (stat(new_path, &there) || there.st_ino != here.st_ino || there.st_dev != here.st_dev)
        return EWOULDBLOCK;
    return 0;
}

/* Keep a disk from filling up. */
static const char *lacks_room(int fd, uint64_t file_bytes)
{
    int why = file_lacks_room(fd, file_bytes);
    if (why == EFBIG) return "larger than this process may write files";
    if (why == ENOSPC) return "too little room on the disk";
    return why ? strerror(why) : NULL;
}

/* 0, EWOULDBLOCK, or -1 with a fault. */
static int begin(panel_writer *writer, char *path, const char *model_path)
{
    struct stat model;
    writer->path = path;
    writer->mode = 0400;
    file_make_folders(path);
    writer->new_path = join(path, ".new", "", "");
    if (!writer->new_path) return fault(writer->fault, path, "no memory"), -1;
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = open(writer->new_path, flags, 0600);
    if (fd < 0) return fault(writer->fault, path, strerror(errno)), -1;
    int why = lock_new(fd, writer->new_path);
    if (why) {
        close(fd);
        if (why == EWOULDBLOCK) return why;
        return fault(writer->fault, path, strerror(why)), -1;
    }
    writer->fd = fd; /* from here on closing removes it */
    if (stat(model_path, &model) == 0) writer->mode |= model.st_mode & 0444;
    if (ftruncate(fd, 0)) return fault(writer->fault, path, strerror(errno)), -1;
    const char *what = lacks_room(fd, panel_file_at(writer->key.bytes) + writer->key.bytes);
    return what ? fault(writer->fault, path, what), -1 : 0;
}

bool panel_writer_open(panel_writer *writer, const panel_places *places, const panel_key *key)
{
    *writer = (panel_writer){.fd = -1, .key = *key};
    for (uint32_t i = 0; i < places->n; i++) {
        int status = begin(writer, places->paths[i], places->model_path);
        if (status == 0) {
            writer->hashes = memory_zalloc(panel_n_chunks(key->bytes), sizeof(uint64_t));
            if (writer->hashes) {
                writer->fault[0] = 0; /* an earlier place's */
                return true;
            }
            fault(writer->fault, writer->path, "no memory");
        }
        panel_writer_close(writer);
        if (status != EWOULDBLOCK) continue;
        writer->fault[0] = 0;
        return false;
    }
    return false;
}

bool panel_writer_put(panel_writer *writer, uint64_t chunk, const uint8_t *panels)
{
    const uint64_t at = chunk * PANEL_CHUNK_BYTES, left = writer->key.bytes - at;
    const size_t n = left < PANEL_CHUNK_BYTES ? left : PANEL_CHUNK_BYTES;
    if (atomic_load_explicit(&writer->failed, memory_order_relaxed)) return false;
    writer->hashes[chunk] = hash_bytes(panels + at, n, 0);
    int why = file_write_at(writer->fd, panels + at, n, panel_file_at(writer->key.bytes) + at);
    if (why) atomic_store(&writer->failed, why);
    return why == 0;
}

bool panel_writer_finish(panel_writer *writer)
{
    const size_t len = panel_file_head_bytes(writer->key.bytes);
    int why = atomic_load(&writer->failed);
    if (why) return fault(writer->fault, writer->path, strerror(why));
    uint8_t *head = memory_alloc(len);
    if (!head) return fault(writer->fault, writer->path, "no memory");
    panel_head_write(head, &writer->key, writer->hashes);
    why = file_write_at(writer->fd, head, len, 0);
    memory_free(head);
    /* Read-only, so that a file that others have mapped is not truncated by mistake. */
    if (!why && fchmod(writer->fd, writer->mode)) why = errno;
    if (!why && rename(writer->new_path, writer->path)) why = errno;
    if (why) return fault(writer->fault, writer->path, strerror(why));
    memory_free(writer->new_path);
    writer->new_path = NULL;
    return true;
}

void panel_writer_close(panel_writer *writer)
{
    if (writer->fd >= 0) {
        if (writer->new_path) unlink(writer->new_path); /* while the lock is held */
        close(writer->fd);
    }
    memory_free(writer->new_path);
    memory_free(writer->hashes);
    writer->fd = -1;
    writer->new_path = NULL;
    writer->hashes = NULL;
}
