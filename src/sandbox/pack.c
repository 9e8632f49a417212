/* pack.c - a folder as one run of bytes: the sandbox gets a copy, made by a process that may read
 * it, so that neither the folder nor its path is ever in the sandbox. */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <unistd.h>

#include "base/file.h"

enum { ENTRIES_MAX = 8192, PAD = 8 };

/* Generated, or large, and never needed by a test. */
static const char *const skipped[] = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache",
                                      ".pytest_cache", ".tox", ".venv"};

static bool is_skipped(const FTSENT *e)
{
    for (size_t i = 0; i < ARRAY_LEN(skipped); i++)
        if (e->fts_level > 0 && !strcmp(e->fts_name, skipped[i])) return true;
    return false;
}

static int put(bytes *out, const FTSENT *e, const char *name, const void *content, size_t n)
{
    static const char zeros[PAD];
    const wire_entry head = {(uint32_t)e->fts_statp->st_mode, (uint32_t)strlen(name) + 1, n};
    const size_t size = head.n_name + n;
    RETURN_IF(bytes_append(out, &head, sizeof head));
    RETURN_IF(bytes_append(out, name, head.n_name));
    if (n) RETURN_IF(bytes_append(out, content, n));
    return bytes_append(out, zeros, size_round_up(size, PAD) - size);
}

static int put_file(bytes *out, const FTSENT *e, const char *name)
{
    bytes text = {.max = out->max};
    const size_t size = (size_t)e->fts_statp->st_size;
    int fd = open(e->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return CERIUM_ERR_IO;
    int status = bytes_reserve(&text, size + 1);
    if (!status) text.len = file_read_at(fd, text.ptr, size, 0);
    close(fd);
    if (!status) status = put(out, e, name, text.ptr, text.len);
    bytes_free(&text);
    return status;
}

static int put_entry(bytes *out, const FTSENT *e, const char *name)
{
    char to[PATH_MAX];
    ssize_t n;
    switch (e->fts_info) {
    case FTS_D:
        return put(out, e, name, NULL, 0);
    case FTS_F:
        return put_file(out, e, name);
    case FTS_SL:
    case FTS_SLNONE:
        n = readlink(e->fts_accpath, to, sizeof to);
        return n <= 0 || n == sizeof to ? CERIUM_OK : put(out, e, name, to, (size_t)n);
    default:
        return CERIUM_OK; /* pipes, devices, unreadable files */
    }
}

int sandbox_pack(const char *path, bytes *out, cerium_error *err)
{
    char *const roots[] = {memory_copy(path, strlen(path)), NULL};
    FTS *tree = roots[0] ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL) : NULL;
    int status = tree ? CERIUM_OK : CERIUM_ERR_MEMORY;
    uint32_t n = 0;
    for (FTSENT *e; !status && (e = fts_read(tree));) {
        const char *name = e->fts_path + strlen(path);
        while (*name == '/') name++;
        if (e->fts_info == FTS_D && is_skipped(e)) fts_set(tree, e, FTS_SKIP);
        if (e->fts_info == FTS_DP || e->fts_level == 0 || is_skipped(e)) continue;
        status = ++n > ENTRIES_MAX ? CERIUM_ERR_CAPACITY : put_entry(out, e, name);
        if (status == CERIUM_ERR_IO) status = CERIUM_OK; /* it is gone, or unreadable */
    }
    if (tree) fts_close(tree);
    memory_free(roots[0]);
    if (status == CERIUM_ERR_CAPACITY)
        return error_set(err, status, "%s: more than %d files or %zu MB; name a smaller folder "
                         "with --root", path, ENTRIES_MAX, out->max >> 20);
    if (status) return error_set(err, status, "%s: no memory to read it", path);
    return CERIUM_OK;
}
