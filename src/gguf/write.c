/* write.c - GGUF version 3 files, streamed.
 *
 * Owns the temporary file and its rename.  Metadata and the tensor table are kept in memory until
 * the first tensor byte, since the header counts them. */
#include "gguf/write.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_BUFFER_BYTES = 1 << 20 };

struct gguf_writer {
    char *path, *temporary;
    int fd;
    bool named; /* the temporary file exists */
    cerium_error error;
    uint64_t n_values, n_tensors;
    bytes values, tensors; /* encoded, without the header */
    bytes sizes;           /* uint64_t of each tensor */
    uint64_t data_offset;  /* of the next declared tensor */
    bool started;          /* header written */
    size_t next;           /* tensor of the next data byte */
    uint64_t left;         /* of its bytes */
    uint8_t *buffer;
    size_t buffered;
};

static void fail(gguf_writer *w, int status, const char *what)
{
    if (w->error.status) return;
    if (status == CERIUM_ERR_IO)
        error_set(&w->error, status, "%s: %s: %s", w->path, what, strerror(errno));
    else
        error_set(&w->error, status, "%s: %s", w->path, what);
}

/* ---- opening ---- */

static int check_target(const char *path, cerium_error *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return error_set(err, CERIUM_ERR_IO, "%s: exists and is not a regular file", path);
    return CERIUM_OK;
}

int gguf_writer_open(gguf_writer **out, const char *path, cerium_error *err)
{
    CHECK(out && path);
    RETURN_IF(check_target(path, err));
    gguf_writer *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    size_t room = strlen(path) + 32;
    w->fd = -1;
    w->values.max = w->tensors.max = w->sizes.max = (size_t)1 << 30;
    w->path = memory_copy(path, strlen(path));
    w->temporary = memory_alloc(room);
    w->buffer = memory_alloc(WRITE_BUFFER_BYTES);
    if (!w->path || !w->temporary || !w->buffer) {
        gguf_writer_close(&w);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    }
    snprintf(w->temporary, room, "%s.%ld.tmp", path, (long)getpid());
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        int status = error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
        gguf_writer_close(&w);
        return status;
    }
    w->named = true;
    *out = w;
    return CERIUM_OK;
}

void gguf_writer_close(gguf_writer **writer)
{
    if (!writer || !*writer) return;
    gguf_writer *w = *writer;
    if (w->fd >= 0) close(w->fd);
    if (w->named) unlink(w->temporary);
    bytes_free(&w->values);
    bytes_free(&w->tensors);
    bytes_free(&w->sizes);
    memory_free(w->buffer);
    memory_free(w->temporary);
    memory_free(w->path);
    memory_free(w);
    *writer = NULL;
}

/* ---- metadata and the tensor table ---- */

static void append(gguf_writer *w, bytes *to, const void *from, size_t size)
{
    CHECK(!w->started);
    if (w->error.status) return;
    int status = bytes_append(to, from, size);
    if (status) fail(w, status, "the metadata do not fit in memory");
}

static void append_u32(gguf_writer *w, bytes *to, uint32_t x)
{
    append(w, to, &x, sizeof x);
}

static void append_u64(gguf_writer *w, bytes *to, uint64_t x)
{
    append(w, to, &x, sizeof x);
}

static void append_string(gguf_writer *w, bytes *to, view text)
{
    append_u64(w, to, text.len);
    append(w, to, text.ptr, text.len);
}

static void begin_value(gguf_writer *w, view key, gguf_value_type type)
{
    CHECK(key.len > 0 && key.len <= GGUF_KEY_BYTES_MAX);
    append_string(w, &w->values, key);
    append_u32(w, &w->values, type);
    w->n_values++;
}

static void write_scalar(gguf_writer *w, const char *key, gguf_value_type type, const void *value,
                         size_t size)
{
    begin_value(w, view_of(key), type);
    append(w, &w->values, value, size);
}

void gguf_write_u32(gguf_writer *w, const char *key, uint32_t value)
{
    write_scalar(w, key, GGUF_UINT32, &value, sizeof value);
}

void gguf_write_f32(gguf_writer *w, const char *key, float value)
{
    write_scalar(w, key, GGUF_FLOAT32, &value, sizeof value);
}

void gguf_write_bool(gguf_writer *w, const char *key, bool value)
{
    write_scalar(w, key, GGUF_BOOL, &(uint8_t){value}, 1);
}

void gguf_write_string(gguf_writer *w, const char *key, view value)
{
    begin_value(w, view_of(key), GGUF_STRING);
    append_string(w, &w->values, value);
}

static void begin_array(gguf_writer *w, view key, gguf_value_type type, uint64_t n_items)
{
    begin_value(w, key, GGUF_ARRAY);
    append_u32(w, &w->values, type);
    append_u64(w, &w->values, n_items);
}

void gguf_write_array(gguf_writer *w, const char *key, gguf_value_type type, const void *items,
                      uint64_t n_items)
{
    size_t size = gguf_value_bytes(type);
    CHECK(size != 0);
    begin_array(w, view_of(key), type, n_items);
    append(w, &w->values, items, size * n_items);
}

static void write_strings(gguf_writer *w, view key, const view *items, uint64_t n_items)
{
    begin_array(w, key, GGUF_STRING, n_items);
    for (uint64_t i = 0; i < n_items; i++) append_string(w, &w->values, items[i]);
}

void gguf_write_strings(gguf_writer *w, const char *key, const view *items, uint64_t n_items)
{
    write_strings(w, view_of(key), items, n_items);
}

void gguf_write_value(gguf_writer *w, const gguf_value *value)
{
    if (value->strings) {
        write_strings(w, value->key, value->strings, value->n_items);
        return;
    }
    if (value->type == GGUF_ARRAY)
        begin_array(w, value->key, value->item_type, value->n_items);
    else
        begin_value(w, value->key, value->type);
    if (value->type == GGUF_STRING) append_u64(w, &w->values, value->data_len);
    append(w, &w->values, value->data, value->data_len);
}

void gguf_write_tensor(gguf_writer *w, view name, block_type type, uint32_t n_dims,
                       const uint64_t *dims)
{
    CHECK(block_values(type) && n_dims >= 1 && n_dims <= 4);
    CHECK(name.len > 0 && name.len <= GGUF_NAME_BYTES_MAX);
    uint64_t n = 1;
    size_t size = 0;
    bool fits = dims[0] % block_values(type) == 0;
    append_string(w, &w->tensors, name);
    append_u32(w, &w->tensors, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        append_u64(w, &w->tensors, dims[i]);
        fits = fits && dims[i] > 0 && !__builtin_mul_overflow(n, dims[i], &n);
    }
    fits = fits && n <= GGUF_TENSOR_VALUES_MAX && block_row_bytes(type, n, &size);
    append_u32(w, &w->tensors, block_file_id(type));
    append_u64(w, &w->tensors, w->data_offset);
    append_u64(w, &w->sizes, size);
    w->data_offset += size_round_up(size, GGUF_ALIGNMENT);
    w->n_tensors++;
    if (!fits) fail(w, CERIUM_ERR_ARGUMENT, "a tensor's rows do not fill its type's blocks");
}

/* ---- bytes to the disk ---- */

static void write_all(gguf_writer *w, const uint8_t *from, size_t size)
{
    while (size > 0 && !w->error.status) {
        ssize_t n = write(w->fd, from, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            fail(w, CERIUM_ERR_IO, "cannot write");
        else
            from += n, size -= (size_t)n;
    }
}

static void flush(gguf_writer *w)
{
    write_all(w, w->buffer, w->buffered);
    w->buffered = 0;
}

static void put(gguf_writer *w, const void *from, size_t size)
{
    if (size > WRITE_BUFFER_BYTES - w->buffered) flush(w);
    if (size >= WRITE_BUFFER_BYTES) {
        write_all(w, from, size);
        return;
    }
    if (size) memcpy(w->buffer + w->buffered, from, size);
    w->buffered += size;
}

static void put_padding(gguf_writer *w, uint64_t written)
{
    static const uint8_t zeros[GGUF_ALIGNMENT];
    put(w, zeros, size_round_up(written, GGUF_ALIGNMENT) - written);
}

static uint64_t tensor_size(const gguf_writer *w, size_t i)
{
    uint64_t size;
    memcpy(&size, w->sizes.ptr + i * sizeof size, sizeof size);
    return size;
}

static void start_data(gguf_writer *w)
{
    uint32_t version = 3;
    uint64_t header = 4 + sizeof version + 2 * sizeof(uint64_t);
    uint64_t written = header + w->values.len + w->tensors.len;
    uint64_t total = size_round_up(written, GGUF_ALIGNMENT) + w->data_offset;
    w->started = true;
    if (w->error.status) return;
    /* Reserve the space now, so that a full disk fails at once and not after an hour. */
    if (fallocate(w->fd, 0, 0, (off_t)total) && errno == ENOSPC) {
        fail(w, CERIUM_ERR_IO, "cannot write");
        return;
    }
    put(w, "GGUF", 4);
    put(w, &version, sizeof version);
    put(w, &w->n_tensors, sizeof w->n_tensors);
    put(w, &w->n_values, sizeof w->n_values);
    put(w, w->values.ptr, w->values.len);
    put(w, w->tensors.ptr, w->tensors.len);
    put_padding(w, written);
    w->left = w->n_tensors ? tensor_size(w, 0) : 0;
}

bool gguf_write_data(gguf_writer *w, const void *data, size_t size)
{
    CHECK(w && (data || size == 0));
    if (!w->started) start_data(w);
    const uint8_t *from = data;
    while (size > 0 && !w->error.status) {
        if (w->next == w->n_tensors) {
            fail(w, CERIUM_ERR_ARGUMENT, "more bytes than the tensors declared have");
            break;
        }
        size_t n = size < w->left ? size : w->left;
        put(w, from, n);
        from += n, size -= n, w->left -= n;
        if (w->left > 0) continue;
        put_padding(w, tensor_size(w, w->next));
        if (++w->next < w->n_tensors) w->left = tensor_size(w, w->next);
    }
    return w->error.status == CERIUM_OK;
}

/* The rename itself must survive a power cut: flush the folder too. */
static void sync_folder(gguf_writer *w)
{
    char *copy = memory_copy(w->path, strlen(w->path));
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd); /* some file systems cannot: the file itself is safe */
        close(fd);
    }
    memory_free(copy);
}

int gguf_writer_finish(gguf_writer **writer, cerium_error *err)
{
    CHECK(writer && *writer);
    gguf_writer *w = *writer;
    gguf_write_data(w, NULL, 0);
    flush(w);
    if (w->next != w->n_tensors)
        fail(w, CERIUM_ERR_ARGUMENT, "tensor data are missing; the file is incomplete");
    if (!w->error.status && fsync(w->fd)) fail(w, CERIUM_ERR_IO, "cannot write");
    int closed = close(w->fd);
    w->fd = -1;
    if (closed) fail(w, CERIUM_ERR_IO, "cannot write");
    if (!w->error.status && rename(w->temporary, w->path)) fail(w, CERIUM_ERR_IO, "cannot name");
    if (!w->error.status) {
        w->named = false;
        sync_folder(w);
    }
    int status = w->error.status;
    if (status && err) *err = w->error;
    gguf_writer_close(writer);
    return status;
}
