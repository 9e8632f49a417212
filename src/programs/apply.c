/* apply.c - replacing a file as a whole. */
#include "programs/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/file.h"
#include "protocol/edit_answer.h"

static int fail(const apply_file *file, const char *what, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_IO, "%s is unchanged: %s", file->path, what);
}

/* Its text, into out; 0 or an errno. */
static int read_text(int fd, size_t n, bytes *out)
{
    out->max = EDIT_FILE_BYTES_MAX + 1;
    if (bytes_reserve(out, n + 1)) return ENOMEM;
    out->len = file_read_at(fd, out->ptr, n + 1, 0); /* one byte more, to detect that it grew */
    return 0;
}

int apply_open(apply_file *out, const char *path, cerium_error *err)
{
    char real[PATH_MAX];
    *out = (apply_file){0};
    int fd = realpath(path, real) ? open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    int why = fstat(fd, &out->st) ? errno : 0;
    const char *what = why ? strerror(why) : NULL;
    if (!what && !S_ISREG(out->st.st_mode)) what = "not a regular file";
    if (!what && (uint64_t)out->st.st_size > EDIT_FILE_BYTES_MAX) what = "too long to edit";
    if (!what && read_text(fd, (size_t)out->st.st_size, &out->text)) what = "no memory to read it";
    if (!what && out->text.len != (size_t)out->st.st_size) what = "it changes while it is read";
    close(fd);
    out->path = what ? NULL : memory_copy(real, strlen(real));
    if (!what && !out->path) what = "no memory for its name";
    if (!what) return CERIUM_OK;
    apply_close(out);
    return error_set(err, CERIUM_ERR_IO, "%s: %s", path, what);
}

void apply_close(apply_file *file)
{
    memory_free(file->path);
    bytes_free(&file->text);
    *file = (apply_file){0};
}

/* Is the file unchanged since it was read? */
static bool is_same(const apply_file *file)
{
    struct stat st;
    bytes now = {0};
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return false;
    bool same = fstat(fd, &st) == 0 && st.st_dev == file->st.st_dev &&
                st.st_ino == file->st.st_ino && st.st_size == file->st.st_size &&
                st.st_mode == file->st.st_mode &&
                read_text(fd, file->text.len, &now) == 0 && now.len == file->text.len &&
                memcmp(now.ptr, file->text.ptr, now.len) == 0;
    close(fd);
    bytes_free(&now);
    return same;
}

/* Write the new file as a whole, and sync it to the disk.  NULL, or the error. */
static const char *write_new(const apply_file *file, int fd, view text)
{
    bool is_ours = file->st.st_uid == geteuid() && file->st.st_gid == getegid();
    if (!is_ours && fchown(fd, file->st.st_uid, file->st.st_gid))
        return "its owner cannot be kept";
    if (fchmod(fd, file->st.st_mode & 07777)) return strerror(errno);
    int why = file_write_at(fd, text.ptr, text.len, 0);
    if (!why && fsync(fd)) why = errno;
    return why ? strerror(why) : NULL;
}

static void folder_of(const apply_file *file, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s", file->path);
    *(strrchr(out, '/') + 1) = 0;
}

/* A rename is durable only once its folder is synced. */
static void sync_folder(const apply_file *file)
{
    char folder[PATH_MAX];
    folder_of(file, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

int apply_check(const apply_file *file, cerium_error *err)
{
    char folder[PATH_MAX];
    folder_of(file, folder);
    if (file->st.st_nlink > 1) return fail(file, "it has other names (hard links)", err);
    if (!(file->st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) ||
        faccessat(AT_FDCWD, file->path, W_OK, AT_EACCESS))
        return fail(file, "it is read-only; allow writing with chmod first", err);
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
        return fail(file, "its folder cannot be written to, where the new one is made", err);
    return CERIUM_OK;
}

int apply_write(apply_file *file, view text, cerium_error *err)
{
    char path[PATH_MAX];
    RETURN_IF(apply_check(file, err));
    int n = snprintf(path, sizeof path, "%s.cerium-XXXXXX", file->path);
    if (n < 0 || (size_t)n >= sizeof path) return fail(file, "its name is too long", err);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return fail(file, strerror(errno), err);
    const char *what = write_new(file, fd, text);
    if (!what && !is_same(file)) what = "it changed while it was edited";
    if (!what && rename(path, file->path)) what = strerror(errno);
    close(fd);
    if (!what) {
        sync_folder(file);
        return CERIUM_OK;
    }
    unlink(path);
    return fail(file, what, err);
}
