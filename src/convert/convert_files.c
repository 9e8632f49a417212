/* convert_files.c - the files of a model's folder, mapped. */
#include "convert/convert_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int convert_map_file(view *out, const char *path, cerium_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        int reason = errno;
        if (fd >= 0) close(fd);
        return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(reason));
    }
    void *p = S_ISREG(st.st_mode) && st.st_size
                  ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                  : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED)
        return error_set(err, CERIUM_ERR_IO, "%s: empty, or cannot be mapped", path);
    *out = (view){p, (size_t)st.st_size};
    return CERIUM_OK;
}

void convert_unmap(view *file)
{
    if (file->ptr) munmap((void *)(uintptr_t)file->ptr, file->len);
    *file = (view){0};
}

int convert_map_text(const char *folder, view *out, const char *name, bool optional,
                     cerium_error *err)
{
    char path[CONVERT_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (optional && access(path, F_OK)) return CERIUM_OK;
    RETURN_IF(convert_map_file(out, path, err));
    if (out->len > CONVERT_TEXT_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %u bytes", path,
                         CONVERT_TEXT_BYTES_MAX);
    return CERIUM_OK;
}
