/* gguf.c - opening model files: mapping, joining split sets, and look-ups.
 *
 * Owns the mappings and the parsed data; gguf_parse.c owns the format.  If another process
 * truncates a mapped file, this process dies (SIGBUS), as with any mmap. */
#include "gguf/gguf.h"

#include "base/hash.h"
#include "base/memory.h"
#include "gguf/part.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct gguf_file {
    char *path;
    gguf_part *parts; /* [n_parts]; metadata is the first one's */
    char **paths;     /* [n_parts] */
    size_t n_parts;
    bool mapped;          /* the parts' bytes are our mappings */
    gguf_tensor *tensors; /* [n_tensors] of all parts */
    size_t n_tensors;
    name_table names;
};

/* ---- mapping ---- */

static int map_fd(gguf_part *part, int fd, cerium_error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", part->label, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return error_set(err, CERIUM_ERR_IO, "%s: is a folder; name the .gguf file in it",
                         part->label);
    if (!S_ISREG(st.st_mode))
        return error_set(err, CERIUM_ERR_IO, "%s: not a regular file", part->label);
    if (st.st_size == 0)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: the file is empty; download it again",
                         part->label);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return error_set(err, CERIUM_ERR_IO, "%s: cannot map: %s", part->label, strerror(errno));
    part->ptr = p;
    part->len = (size_t)st.st_size;
    part->changed_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return CERIUM_OK;
}

static int map_part(gguf_part *part, cerium_error *err)
{
    int fd = open(part->label, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(err, CERIUM_ERR_IO, "%s: %s", part->label, strerror(errno));
    int status = map_fd(part, fd, err);
    close(fd);
    return status;
}

/* ---- split sets ---- */

/* "model-00001-of-00003.gguf": are the digits of part and count in place? */
enum { SPLIT_SUFFIX = sizeof "-00001-of-00003.gguf" - 1 };

static bool split_name_matches(view path, uint64_t number, uint64_t count)
{
    char want[SPLIT_SUFFIX * 2];
    int len = snprintf(want, sizeof want, "-%05llu-of-%05llu.gguf", (unsigned long long)number,
                       (unsigned long long)count);
    return len == SPLIT_SUFFIX && path.len > SPLIT_SUFFIX &&
           memcmp(path.ptr + path.len - SPLIT_SUFFIX, want, SPLIT_SUFFIX) == 0;
}

/* The number of files in the set of this part; 1: it is whole. */
static int split_count(const gguf_part *part, uint64_t *count, cerium_error *err)
{
    const gguf_value *value = gguf_part_find(part, VIEW("split.count"));
    *count = 1;
    if (!value) return CERIUM_OK;
    if (!gguf_value_u64(value, count) || *count > GGUF_SPLITS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: split.count is not a number up to %u",
                         part->label, GGUF_SPLITS_MAX);
    if (*count == 0) *count = 1; /* like in a file that was merged again */
    return CERIUM_OK;
}

/* Is this file number `number` (from 1) of `count`? */
static int check_split(const gguf_part *part, uint64_t number, uint64_t count, cerium_error *err)
{
    uint64_t no, own_count;
    RETURN_IF(split_count(part, &own_count, err));
    if (!gguf_value_u64(gguf_part_find(part, VIEW("split.no")), &no))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: split.no is missing or not an integer",
                         part->label);
    if (own_count != count)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: split.count is %llu, in the first file %llu: parts of two sets",
                         part->label, (unsigned long long)own_count, (unsigned long long)count);
    if (no == number - 1) return CERIUM_OK;
    if (number == 1)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: this is part %llu of %llu; name the first part, "
                         "...-00001-of-%05llu.gguf",
                         part->label, (unsigned long long)no + 1, (unsigned long long)count,
                         (unsigned long long)count);
    return error_set(err, CERIUM_ERR_FORMAT, "%s: split.no is %llu where %llu was expected",
                     part->label, (unsigned long long)no, (unsigned long long)number - 1);
}

/* The path of part number (from 1), made from the first part's. Returns owned. */
static char *split_path(const char *first, uint64_t number, uint64_t count)
{
    size_t len = strlen(first);
    CHECK(len > SPLIT_SUFFIX);
    char *path = memory_copy(first, len);
    if (path)
        snprintf(path + len - SPLIT_SUFFIX, SPLIT_SUFFIX + 1, "-%05llu-of-%05llu.gguf",
                 (unsigned long long)number, (unsigned long long)count);
    return path;
}

/* Reserve n parts; existing ones may move. */
static int reserve_parts(gguf_file *file, size_t n)
{
    gguf_part *parts = memory_zalloc(n, sizeof *parts);
    char **paths = memory_zalloc(n, sizeof *paths);
    if (!parts || !paths) {
        memory_free(parts);
        memory_free(paths);
        return CERIUM_ERR_MEMORY;
    }
    for (size_t i = 0; i < file->n_parts; i++) {
        parts[i] = file->parts[i];
        paths[i] = file->paths[i];
    }
    memory_free(file->parts);
    memory_free(file->paths);
    file->parts = parts;
    file->paths = paths;
    return CERIUM_OK;
}

/* Open the file at path, which becomes owned, as the next part. */
static int add_part(gguf_file *file, char *path, cerium_error *err)
{
    if (!path) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", file->path);
    gguf_part *part = &file->parts[file->n_parts];
    file->paths[file->n_parts++] = path; /* from here on gguf_close() frees it */
    part->label = path;
    RETURN_IF(map_part(part, err));
    return gguf_part_parse(part, err);
}

static int open_siblings(gguf_file *file, cerium_error *err)
{
    uint64_t count;
    RETURN_IF(split_count(&file->parts[0], &count, err));
    if (count == 1) return CERIUM_OK;
    RETURN_IF(check_split(&file->parts[0], 1, count, err));
    if (!split_name_matches(view_of(file->path), 1, count))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: the first of %llu parts, but its name does not end in "
                         "-00001-of-%05llu.gguf; give the parts their names back",
                         file->path, (unsigned long long)count, (unsigned long long)count);
    if (reserve_parts(file, count))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", file->path);
    for (uint64_t number = 2; number <= count; number++) {
        RETURN_IF(add_part(file, split_path(file->path, number, count), err));
        RETURN_IF(check_split(&file->parts[number - 1], number, count, err));
    }
    return CERIUM_OK;
}

/* ---- joining ---- */

/* One list and one index of the tensors of all parts. */
static int join_tensors(gguf_file *file, cerium_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < file->n_parts; i++) n += file->parts[i].n_tensors;
    if (n > GGUF_TENSORS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: %zu tensors; the limit is %u", file->path, n,
                         GGUF_TENSORS_MAX);
    file->tensors = memory_zalloc(n, sizeof *file->tensors);
    if (!file->tensors || name_table_open(&file->names, n))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", file->path);
    for (size_t i = 0; i < file->n_parts; i++) {
        gguf_part *part = &file->parts[i];
        for (size_t j = 0; j < part->n_tensors; j++) {
            gguf_tensor *tensor = &file->tensors[file->n_tensors];
            *tensor = part->tensors[j];
            if (!name_table_add(&file->names, file->tensors, sizeof *tensor, file->n_tensors++))
                return error_set(err, CERIUM_ERR_FORMAT, "%s: tensor %.*s occurs twice",
                                 part->label, (int)tensor->name.len, tensor->name.ptr);
        }
        memory_free(part->tensors);
        part->tensors = NULL;
        part->n_tensors = 0;
    }
    return CERIUM_OK;
}

static int check_split_tensors(const gguf_file *file, cerium_error *err)
{
    uint64_t want;
    if (file->n_parts == 1 || !gguf_get_u64(file, "split.tensors.count", &want)) return CERIUM_OK;
    if (want == file->n_tensors) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: the parts hold %zu tensors, split.tensors.count says %llu", file->path,
                     file->n_tensors, (unsigned long long)want);
}

/* ---- opening and closing ---- */

/* A file with no parts yet, and capacity for one. */
static gguf_file *new_file(const char *path)
{
    gguf_file *file = memory_zalloc(1, sizeof *file);
    if (!file) return NULL;
    file->path = memory_copy(path, strlen(path));
    if (!file->path || reserve_parts(file, 1)) gguf_close(&file);
    return file;
}

int gguf_open(gguf_file **out, const char *path, cerium_error *err)
{
    CHECK(out && path);
    gguf_file *file = new_file(path);
    if (!file) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    file->mapped = true;
    int status = add_part(file, memory_copy(path, strlen(path)), err);
    if (!status) status = open_siblings(file, err);
    if (!status) status = join_tensors(file, err);
    if (!status) status = check_split_tensors(file, err);
    if (status) {
        gguf_close(&file);
        return status;
    }
    *out = file;
    return CERIUM_OK;
}

int gguf_open_bytes(gguf_file **out, view content, const char *name, cerium_error *err)
{
    CHECK(out && name && (content.ptr || content.len == 0));
    uint64_t count = 1;
    gguf_file *file = new_file(name);
    if (!file) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", name);
    file->n_parts = 1;
    file->parts[0].label = file->path;
    file->parts[0].ptr = (const uint8_t *)(content.ptr ? content.ptr : "");
    file->parts[0].len = content.len;
    int status = gguf_part_parse(&file->parts[0], err);
    if (!status) status = split_count(&file->parts[0], &count, err);
    if (!status && count > 1)
        status = error_set(err, CERIUM_ERR_FORMAT, "%s: one of %llu parts; open it by its path",
                           name, (unsigned long long)count);
    if (!status) status = join_tensors(file, err);
    if (status) {
        gguf_close(&file);
        return status;
    }
    *out = file;
    return CERIUM_OK;
}

int gguf_whole_bytes(uint64_t *out, view head, const char *name, cerium_error *err)
{
    CHECK(out && name && (head.ptr || head.len == 0));
    gguf_part part = {.label = name,
                      .ptr = (const uint8_t *)(head.ptr ? head.ptr : ""),
                      .len = head.len,
                      .is_head = true};
    RETURN_IF(gguf_part_parse(&part, err));
    *out = part.whole;
    gguf_part_free(&part);
    return CERIUM_OK;
}

void gguf_close(gguf_file **file)
{
    if (!file || !*file) return;
    gguf_file *f = *file;
    for (size_t i = 0; i < f->n_parts; i++) {
        gguf_part_free(&f->parts[i]);
        if (f->mapped && f->parts[i].ptr) munmap((void *)f->parts[i].ptr, f->parts[i].len);
        memory_free(f->paths[i]);
    }
    memory_free(f->parts);
    memory_free(f->paths);
    memory_free(f->tensors);
    name_table_close(&f->names);
    memory_free(f->path);
    memory_free(f);
    *file = NULL;
}

/* ---- look-ups ---- */

const char *gguf_path(const gguf_file *file)
{
    return file->path;
}

uint32_t gguf_version(const gguf_file *file)
{
    return file->parts[0].version;
}

size_t gguf_file_bytes(const gguf_file *file)
{
    size_t n = 0;
    for (size_t i = 0; i < file->n_parts; i++) n += file->parts[i].len;
    return n;
}

size_t gguf_n_values(const gguf_file *file)
{
    return file->parts[0].n_values;
}

const gguf_value *gguf_value_at(const gguf_file *file, size_t i)
{
    CHECK(i < file->parts[0].n_values);
    return &file->parts[0].values[i];
}

const gguf_value *gguf_find(const gguf_file *file, const char *key)
{
    CHECK(file && key);
    return gguf_part_find(&file->parts[0], view_of(key));
}

size_t gguf_n_tensors(const gguf_file *file)
{
    return file->n_tensors;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *file, size_t i)
{
    CHECK(i < file->n_tensors);
    return &file->tensors[i];
}

const gguf_tensor *gguf_find_tensor(const gguf_file *file, const char *name)
{
    CHECK(file && name);
    size_t i = name_table_find(&file->names, file->tensors, sizeof *file->tensors, view_of(name));
    return i == SIZE_MAX ? NULL : &file->tensors[i];
}

void gguf_release(const gguf_file *file, const void *data, size_t size)
{
    CHECK(file && data);
    if (!file->mapped) return;
    /* Whole pages only: a page at the edge may hold a neighbour's bytes. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t start = size_round_up((size_t)data, page), end = ((size_t)data + size) / page * page;
    if (start < end) madvise((void *)start, end - start, MADV_DONTNEED); /* a hint */
}

enum { SAMPLES = 16, SAMPLE_BYTES = 4096 };

static uint64_t part_fingerprint(const gguf_part *part, bool dated, uint64_t hash)
{
    if (dated) hash = hash_u64((uint64_t)part->changed_ns, hash);
    hash = hash_u64(part->len, hash);
    hash = hash_bytes(part->ptr, part->data_at, hash);
    size_t data = part->len - part->data_at, step = data / SAMPLES;
    for (size_t i = 0; i < SAMPLES; i++) {
        size_t n = step < SAMPLE_BYTES ? step : SAMPLE_BYTES;
        hash = hash_bytes(part->ptr + part->data_at + i * step, n, hash);
    }
    return hash;
}

static uint64_t fingerprint(const gguf_file *file, bool dated)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < file->n_parts; i++)
        hash = part_fingerprint(&file->parts[i], dated, hash);
    return hash;
}

uint64_t gguf_fingerprint(const gguf_file *file) { return fingerprint(file, true); }

uint64_t gguf_content_fingerprint(const gguf_file *file) { return fingerprint(file, false); }

/* ---- values by name ---- */

bool gguf_get_u64(const gguf_file *file, const char *key, uint64_t *out)
{
    return gguf_value_u64(gguf_find(file, key), out);
}

bool gguf_get_f32(const gguf_file *file, const char *key, float *out)
{
    return gguf_value_f32(gguf_find(file, key), out);
}

bool gguf_get_bool(const gguf_file *file, const char *key, bool *out)
{
    const gguf_value *value = gguf_find(file, key);
    if (!value || value->type != GGUF_BOOL) return false;
    *out = value->data[0] != 0;
    return true;
}

bool gguf_get_string(const gguf_file *file, const char *key, view *out)
{
    const gguf_value *value = gguf_find(file, key);
    if (!value || value->type != GGUF_STRING) return false;
    *out = (view){(const char *)value->data, value->data_len};
    return true;
}
