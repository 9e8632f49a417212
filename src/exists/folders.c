/* folders.c - lists folders and reads files, within limits. */
#include "exists/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int by_name(const void *a, const void *b, void *names_)
{
    const char *text = names_;
    return strcmp(text + *(const uint32_t *)a, text + *(const uint32_t *)b);
}

bool folder_read(folders *f, const char *path, folder_list *out)
{
    *out = (folder_list){.names = {.max = 16 << 20}, .offsets = {.max = 16 << 20}};
    bool stops = f->stop && atomic_load(f->stop);
    DIR *d = stops || f->b->status || f->n_files >= FOLDERS_FILES_MAX ? NULL : opendir(path);
    if (!d) return false;
    for (const struct dirent *e = readdir(d); e && out->n < FOLDERS_NAMES_MAX; e = readdir(d)) {
        uint32_t at = (uint32_t)out->names.len;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        int status = bytes_append(&out->names, e->d_name, strlen(e->d_name) + 1);
        if (!status) status = bytes_append(&out->offsets, &at, sizeof at);
        if (status == CERIUM_ERR_MEMORY) f->b->status = status;
        if (status) break;
        out->n++;
    }
    closedir(d);
    if (out->n)
        qsort_r(out->offsets.ptr, out->n, sizeof(uint32_t), by_name, out->names.ptr);
    return !f->b->status;
}

void folder_close(folder_list *l)
{
    bytes_free(&l->names);
    bytes_free(&l->offsets);
}

bool folder_has(const folder_list *l, const char *name)
{
    uint32_t from = 0, to = l->n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        int order = strcmp(folder_name(l, mid), name);
        if (!order) return true;
        if (order < 0) from = mid + 1;
        else to = mid;
    }
    return false;
}

folder_kind folder_kind_of(const char *path)
{
    struct stat at;
    if (stat(path, &at)) return FOLDERS_NONE;
    return S_ISDIR(at.st_mode) ? FOLDERS_FOLDER : S_ISREG(at.st_mode) ? FOLDERS_FILE : FOLDERS_NONE;
}

bool folder_file(folders *f, const char *path, size_t max, bytes *out)
{
    struct stat at;
    out->len = 0;
    bool stops = f->stop && atomic_load(f->stop);
    if (stops || f->n_files++ >= FOLDERS_FILES_MAX || f->b->status) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool fits = !fstat(fd, &at) && S_ISREG(at.st_mode) && (size_t)at.st_size <= max;
    if (fits) {
        int status = bytes_reserve(out, (size_t)at.st_size + 1);
        if (status == CERIUM_ERR_MEMORY) f->b->status = status;
        fits = !status;
    }
    if (fits) {
        out->len = file_read_at(fd, out->ptr, (size_t)at.st_size, 0);
        out->ptr[out->len] = 0;
    }
    close(fd);
    if (f->progress && f->n_files % 256 == 0) f->progress(f->user, f->n_files);
    return fits;
}

bool folder_join(char *out, const char *a, const char *b)
{
    return snprintf(out, 4096, "%s/%s", a, b) < 4096;
}
