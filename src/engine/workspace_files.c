/* workspace_files.c - walks through folders, and tokenizes the files. */
#include "engine/workspace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "engine/workspace.h"
#include "speculation/corpus.h"

enum { LINE_BYTES_MEAN_MAX = 300 }; /* longer lines are not written by hand */

/* ---- looking ---- */

static bool is_made(const char *name)
{
    static const char *const made[] = {"build", "dist", "node_modules", "out", "target",
                                       "vendor", "venv", "__pycache__"};
    return view_is_one_of(view_of(name), made, ARRAY_LEN(made));
}

static int add_file(workspace_look *look, const char *path, const struct stat *st)
{
    size_t len = strlen(path);
    workspace_file file = {.name = hash_name_of(path, len),
                           .changed_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 +
                                         st->st_mtim.tv_nsec,
                           .size = (uint64_t)st->st_size,
                           .path_at = look->paths.len};
    if (look->n_files == WORKSPACE_FILES_MAX) return CERIUM_OK;
    RETURN_IF(bytes_append(&look->paths, path, len + 1));
    RETURN_IF(bytes_append(&look->files, &file, sizeof file));
    look->n_files++;
    return CERIUM_OK;
}

static int walk(workspace_look *look, int fd, char *path, size_t len, uint32_t depth);

/* One name of the folder fd; path [len] is that folder's, "" or with a '/' at its end. */
static int walk_name(workspace_look *look, int fd, const char *name, char *path, size_t len,
                     uint32_t depth)
{
    struct stat st;
    size_t n = strlen(name);
    if (name[0] == '.' || len + n + 2 > WORKSPACE_PATH_MAX) return CERIUM_OK;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW)) return CERIUM_OK; /* gone meanwhile */
    memcpy(path + len, name, n + 1);
    if (S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= WORKSPACE_FILE_BYTES_MAX)
        return add_file(look, path, &st);
    if (!S_ISDIR(st.st_mode) || depth == WORKSPACE_DEPTH_MAX || is_made(name)) return CERIUM_OK;
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) return CERIUM_OK; /* not ours to read */
    memcpy(path + len + n, "/", 2);
    return walk(look, below, path, len + n + 1, depth + 1);
}

/* Takes fd.  At most WORKSPACE_DEPTH_MAX of these are under way. */
static int walk(workspace_look *look, int fd, char *path, size_t len, uint32_t depth)
{
    int status = CERIUM_OK;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return CERIUM_ERR_MEMORY;
    }
    for (struct dirent *d; !status && (d = readdir(dir));) {
        if (look->n_names++ >= WORKSPACE_NAMES_MAX) break;
        status = walk_name(look, fd, d->d_name, path, len, depth);
    }
    closedir(dir);
    return status;
}

static const workspace_file *files_of(const workspace_look *look)
{
    return (const workspace_file *)look->files.ptr;
}

/* By name if times are equal, so that the order does not depend on the walk. */
static int newest_first(const void *a, const void *b)
{
    const workspace_file *x = a, *y = b;
    if (x->changed_ns != y->changed_ns) return x->changed_ns > y->changed_ns ? -1 : 1;
    if (x->name.high != y->name.high) return x->name.high < y->name.high ? -1 : 1;
    return x->name.low < y->name.low ? -1 : x->name.low > y->name.low;
}

int workspace_look_at(workspace_look *look, const char *folder, cerium_error *err)
{
    *look = (workspace_look){
        .files.max = WORKSPACE_FILES_MAX * sizeof(workspace_file),
        .paths.max = (size_t)WORKSPACE_FILES_MAX * WORKSPACE_PATH_MAX,
    };
    char *path = memory_alloc(WORKSPACE_PATH_MAX);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = path ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (fd < 0) {
        memory_free(path);
        return error_set(err, CERIUM_ERR_IO, "%.200s: %s", folder, strerror(errno));
    }
    if (status)
        close(fd);
    else
        status = walk(look, fd, path, 0, 0);
    memory_free(path);
    if (!status && look->n_files > 1)
        qsort(look->files.ptr, look->n_files, sizeof(workspace_file), newest_first);
    return status ? error_set(err, status, "%.200s: no memory to look at it", folder) : CERIUM_OK;
}

void workspace_look_close(workspace_look *look)
{
    bytes_free(&look->files);
    bytes_free(&look->paths);
    *look = (workspace_look){0};
}

uint64_t workspace_look_hash(const workspace_look *look)
{
    const workspace_file *files = files_of(look);
    uint64_t hash = look->n_files;
    for (uint32_t i = 0; i < look->n_files; i++) {
        hash = hash_bytes(&files[i].name, sizeof files[i].name, hash);
        hash = hash_u64((uint64_t)files[i].changed_ns, hash_u64(files[i].size, hash));
    }
    return hash | 1;
}

/* ---- tokens ---- */

typedef struct {
    const tokenizer *t;
    const int32_t *old_tokens;
    corpus_file *old;        /* [n_old] by name */
    uint32_t n_old;
    char *text;              /* [WORKSPACE_FILE_BYTES_MAX + 1] */
    int32_t *tokens;         /* [WORKSPACE_TOKENS_MAX] mapped */
    corpus_file *files;      /* those with tokens, the newest first */
    uint32_t n_files, n_tokens;
    int folder;
} building;

static int by_name(const void *a, const void *b)
{
    const corpus_file *x = a, *y = b;
    if (x->path.high != y->path.high) return x->path.high < y->path.high ? -1 : 1;
    return x->path.low < y->path.low ? -1 : x->path.low > y->path.low;
}

/* Is it text written by hand: no NUL, and no long lines? */
static bool is_written(view text)
{
    size_t n_lines = 1;
    const char *at = text.ptr, *end = text.ptr + text.len;
    for (; (at = memchr(at, '\n', (size_t)(end - at))); at++) n_lines++;
    return !memchr(text.ptr, 0, text.len) && text.len / n_lines <= LINE_BYTES_MEAN_MAX;
}

/* Its bytes, if it is text and did not change since the walk; else an empty view. */
static view read_text(building *b, const char *path, const workspace_file *file)
{
    struct stat st;
    view text = {b->text, 0};
    int fd = openat(b->folder, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return text;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == file->size)
        text.len = file_read_at(fd, b->text, file->size, 0);
    close(fd);
    if (!is_written(text)) text.len = 0;
    return text;
}

/* Append the tokens of a file; false: no room. */
static int take_file(building *b, const char *path, const workspace_file *file, bool *has_room)
{
    corpus_file entry = {file->name, file->changed_ns, file->size, b->n_tokens, 0};
    corpus_file *old = b->n_old ? bsearch(&entry, b->old, b->n_old, sizeof *old, by_name) : NULL;
    size_t n = 0, room = WORKSPACE_TOKENS_MAX - b->n_tokens;
    cerium_error err;
    if (old && old->changed_ns == file->changed_ns && old->bytes == file->size) {
        n = old->n;
        *has_room = n <= room;
        if (*has_room)
            memcpy(b->tokens + b->n_tokens, b->old_tokens + old->first, n * sizeof *b->tokens);
    } else {
        view text = read_text(b, path, file);
        if (text.len == 0) return CERIUM_OK;
        int status = tokenizer_encode_bare(b->t, text, b->tokens + b->n_tokens, room, &n, &err);
        *has_room = status != CERIUM_ERR_CAPACITY;
        if (status && *has_room) return status;
    }
    if (!*has_room) return CERIUM_OK;
    entry.n = (uint32_t)n;
    b->files[b->n_files++] = entry;
    b->n_tokens += (uint32_t)n;
    return CERIUM_OK;
}

static int open_building(building *b, const char *folder, const workspace_look *look,
                         const corpus *old)
{
    b->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->folder < 0) return CERIUM_ERR_IO;
    b->text = memory_alloc(WORKSPACE_FILE_BYTES_MAX);
    b->tokens = memory_map(WORKSPACE_TOKENS_MAX * sizeof *b->tokens);
    b->files = memory_alloc((look->n_files + (size_t)1) * sizeof *b->files);
    if (!b->text || !b->tokens || !b->files) return CERIUM_ERR_MEMORY;
    if (!old || old->n_files == 0) return CERIUM_OK;
    b->old = memory_copy(old->files, old->n_files * sizeof *b->old);
    if (!b->old) return CERIUM_ERR_MEMORY;
    b->n_old = old->n_files;
    b->old_tokens = old->tokens;
    qsort(b->old, b->n_old, sizeof *b->old, by_name);
    return CERIUM_OK;
}

static void close_building(building *b)
{
    if (b->folder >= 0) close(b->folder);
    memory_free(b->text);
    memory_unmap(b->tokens, WORKSPACE_TOKENS_MAX * sizeof *b->tokens);
    memory_free(b->files);
    memory_free(b->old);
}

/* Oldest first: among equally good places the last wins. */
static void lay_down(const building *b, corpus *c)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < b->n_files; i++) {
        corpus_file file = b->files[b->n_files - 1 - i];
        memcpy(c->tokens + at, b->tokens + file.first, file.n * sizeof *c->tokens);
        file.first = at;
        at += file.n;
        c->files[i] = file;
    }
}

int workspace_build(const workspace_look *look, const char *folder, const tokenizer *t,
                    uint64_t vocabulary, const corpus *old, const _Atomic bool *stop, void **block,
                    size_t *size)
{
    building b = {.t = t};
    bool has_room = true;
    corpus c;
    int status = open_building(&b, folder, look, old);
    for (uint32_t i = 0; i < look->n_files && has_room && !status; i++) {
        const workspace_file *file = &files_of(look)[i];
        status = take_file(&b, look->paths.ptr + file->path_at, file, &has_room);
        if (atomic_load(stop)) status = CERIUM_ERR_CANCELED;
    }
    if (!status) {
        *size = corpus_bytes(b.n_files, b.n_tokens);
        *block = memory_map(*size);
        if (!*block) status = CERIUM_ERR_MEMORY;
    }
    if (!status) {
        corpus_open(&c, *block, b.n_files, b.n_tokens);
        c.state = workspace_look_hash(look);
        lay_down(&b, &c);
        corpus_seal(&c, *block, vocabulary);
    }
    close_building(&b);
    return status;
}
