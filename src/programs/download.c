/* download.c - downloads with libcurl, with ranges, checks and retries. */
#include "programs/download.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum {
    TRIES = 6,             /* tries in a row that bring no data */
    PAUSE_MS = 200,        /* before the second try; doubled before each further one */
    REDIRECTS_MAX = 10,
    CONNECT_SECONDS = 20,
    TAG_BYTES = 256,
    HEADERS_BYTES_MAX = 256 << 10,
    HASH_PIECE = 1 << 20,
    SHA_DIGITS = 64,
    PATH_BYTES = 4096,
};

typedef struct {
    const download *d;
    CURL *easy;
    int fd;
    char part[PATH_BYTES], tag_path[PATH_BYTES];
    char tag[TAG_BYTES];      /* strong ETag of the source of .part; "" unknown */
    char linked[TAG_BYTES];   /* SHA-256 that Hugging Face reports */
    uint64_t have;            /* bytes in .part */
    /* of the current answer */
    uint64_t headers_bytes;
    long code;
    uint64_t length, range_begin, total; /* total 0: not known */
    bool has_length, has_range, placed;
    char etag[TAG_BYTES];
    const char *wrong;        /* why we aborted it; for good if is_final */
    bool is_final;
    int disk_error;
    char why[CURL_ERROR_SIZE];
} puller;

/* ---- headers ---- */

static bool header_is(view line, const char *name, view *value)
{
    size_t len = strlen(name);
    if (line.len <= len || line.ptr[len] != ':' || strncasecmp(line.ptr, name, len) != 0)
        return false;
    *value = view_trim((view){line.ptr + len + 1, line.len - len - 1}, " \t\r\n");
    return true;
}

static void keep(char out[TAG_BYTES], view value)
{
    snprintf(out, TAG_BYTES, "%.*s", value.len < TAG_BYTES ? (int)value.len : 0, value.ptr);
}

/* "bytes 100-199/200" */
static void read_range(puller *p, view value)
{
    if (!view_starts(value, VIEW("bytes "))) return;
    view rest = {value.ptr + 6, value.len - 6};
    const char *dash = memchr(rest.ptr, '-', rest.len), *slash = memchr(rest.ptr, '/', rest.len);
    if (!dash || !slash || slash < dash) return;
    view total = {slash + 1, rest.len - (size_t)(slash + 1 - rest.ptr)};
    p->has_range = parse_u64((view){rest.ptr, (size_t)(dash - rest.ptr)}, &p->range_begin);
    if (!parse_u64(total, &p->total)) p->total = 0;
}

static void begin_answer(puller *p)
{
    p->code = 0;
    p->has_length = p->has_range = p->placed = false;
    p->length = p->range_begin = p->total = 0;
    p->etag[0] = 0;
}

static size_t on_header(char *text, size_t size, size_t n, void *user)
{
    puller *p = user;
    view line = {text, size * n}, value;
    p->headers_bytes += line.len;
    if (p->headers_bytes > HEADERS_BYTES_MAX) {
        p->wrong = "its headers do not end";
        return 0;
    }
    if (view_starts(line, VIEW("HTTP/"))) begin_answer(p);
    if (header_is(line, "content-length", &value)) p->has_length = parse_u64(value, &p->length);
    if (header_is(line, "content-range", &value)) read_range(p, value);
    if (header_is(line, "etag", &value)) keep(p->etag, value);
    if (header_is(line, "x-linked-etag", &value)) {
        while (value.len && value.ptr[0] == '"') value.ptr++, value.len--;
        while (value.len && value.ptr[value.len - 1] == '"') value.len--;
        if (value.len == SHA_DIGITS) keep(p->linked, value);
    }
    return line.len;
}

/* ---- the body ---- */

/* Only a strong ETag guarantees equal bytes. */
static void keep_tag(puller *p)
{
    snprintf(p->tag, sizeof p->tag, "%s", p->etag[0] == '"' ? p->etag : "");
    int fd = open(p->tag_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_at(fd, p->tag, strlen(p->tag), 0)) unlink(p->tag_path);
    if (fd >= 0) close(fd);
}

/* The file position of the first byte of this answer. */
static bool place(puller *p)
{
    p->placed = true;
    curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &p->code);
    if (p->code == 206 && p->has_range && p->range_begin == p->have && p->have) return true;
    if (p->code == 206) {
        p->wrong = "it sent a different range than requested";
        return false;
    }
    if (p->code != 200) return true; /* an error page: not kept */
    p->total = p->has_length ? p->length : 0;
    p->have = 0;
    keep_tag(p);
    if (!ftruncate(p->fd, 0)) return true;
    p->disk_error = errno;
    return false;
}

static size_t on_body(char *bytes_in, size_t size, size_t n, void *user)
{
    puller *p = user;
    const size_t len = size * n;
    if (!p->placed && !place(p)) return 0;
    if (p->code != 200 && p->code != 206) return len;
    if (p->total && len > p->total - p->have) {
        p->wrong = "it sent more bytes than announced";
        return 0;
    }
    p->disk_error = file_write_at(p->fd, bytes_in, len, p->have);
    if (p->disk_error) return 0;
    p->have += len;
    if (p->d->progress) p->d->progress(p->d->user, p->have, p->total);
    return len;
}

/* libcurl calls about once a second, even without data. */
static int on_moment(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const puller *p = user;
    (void)a, (void)b, (void)c, (void)d;
    return p->d->canceled && p->d->canceled(p->d->user);
}

/* ---- one try ---- */

static int set_up(puller *p, struct curl_slist **headers)
{
    const download *d = p->d;
    char line[4600];
    const bool secure = !strncasecmp(d->url, "https:", 6);
    curl_easy_reset(p->easy);
    if (p->have && p->tag[0]) {
        snprintf(line, sizeof line, "Range: bytes=%llu-", (unsigned long long)p->have);
        *headers = curl_slist_append(*headers, line);
        snprintf(line, sizeof line, "If-Range: %s", p->tag);
        *headers = curl_slist_append(*headers, line);
    }
    if (d->token) {
        /* libcurl omits it when a redirect leads to another host. */
        snprintf(line, sizeof line, "Authorization: Bearer %s", d->token);
        *headers = curl_slist_append(*headers, line);
    }
    *headers = curl_slist_append(*headers, "Accept-Encoding: identity");
    if (!*headers) return CERIUM_ERR_MEMORY;
    curl_easy_setopt(p->easy, CURLOPT_URL, d->url);
    curl_easy_setopt(p->easy, CURLOPT_HTTPHEADER, *headers);
    curl_easy_setopt(p->easy, CURLOPT_USERAGENT, "cerium");
    curl_easy_setopt(p->easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(p->easy, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_easy_setopt(p->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(p->easy, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(p->easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl_easy_setopt(p->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(p->easy, CURLOPT_LOW_SPEED_TIME, (long)d->stall_seconds);
    curl_easy_setopt(p->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(p->easy, CURLOPT_ERRORBUFFER, p->why);
    curl_easy_setopt(p->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(p->easy, CURLOPT_HEADERDATA, p);
    curl_easy_setopt(p->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(p->easy, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(p->easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(p->easy, CURLOPT_XFERINFOFUNCTION, on_moment);
    curl_easy_setopt(p->easy, CURLOPT_XFERINFODATA, p);
    return CERIUM_OK;
}

/* Errors that a retry cannot fix. */
static const char *final_answer(long code)
{
    switch (code) {
    case 401:
    case 403: return "it wants a token that may read this (HF_TOKEN or CERIUM_PULL_TOKEN)";
    case 404:
    case 410: return "there is nothing at that address";
    default: return code >= 400 && code < 500 && code != 408 && code != 416 && code != 429
                        ? "it refused" : NULL;
    }
}

/* True when the file is complete; else p->wrong has the reason, and p->is_final means that a retry
 * will not help. */
static bool try_once(puller *p)
{
    struct curl_slist *headers = NULL;
    begin_answer(p);
    p->headers_bytes = 0;
    p->wrong = NULL;
    p->why[0] = 0;
    if (set_up(p, &headers)) {
        p->wrong = "there is no memory";
        p->is_final = true;
        return false;
    }
    CURLcode result = curl_easy_perform(p->easy);
    curl_slist_free_all(headers);
    curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &p->code);
    p->is_final = p->disk_error != 0 || result == CURLE_URL_MALFORMAT ||
                  result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_TOO_MANY_REDIRECTS ||
                  result == CURLE_PEER_FAILED_VERIFICATION ||
                  result == CURLE_ABORTED_BY_CALLBACK;
    if (p->wrong || p->disk_error) return false;
    if (result != CURLE_OK) {
        p->wrong = p->why[0] ? p->why : curl_easy_strerror(result);
        return false;
    }
    if (!p->placed && !place(p)) return false; /* an empty body */
    if (p->code == 416) { /* our partial file does not match the beginning of the current file */
        p->have = 0;
        p->tag[0] = 0;
    }
    p->wrong = final_answer(p->code);
    p->is_final = p->wrong != NULL;
    if (!p->wrong && p->code != 200 && p->code != 206) p->wrong = "it cannot answer now";
    if (!p->wrong && p->total && p->have != p->total) p->wrong = "it ended early";
    return !p->wrong;
}

static bool try_often(puller *p)
{
    for (uint32_t failures = 0; failures < TRIES;) {
        uint64_t before = p->have;
        if (try_once(p)) return true;
        if (p->is_final || on_moment(p, 0, 0, 0, 0)) return false;
        failures = p->have > before ? 0 : failures + 1;
        if (failures < TRIES) usleep((useconds_t)PAUSE_MS * 1000u << failures);
    }
    return false;
}

/* ---- the result ---- */

static bool hash_file(int fd, char out[SHA_DIGITS + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    uint64_t at = 0;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    uint8_t *piece = memory_alloc(HASH_PIECE);
    bool good = c && piece && EVP_DigestInit_ex(c, EVP_sha256(), NULL);
    for (size_t n; good && (n = file_read_at(fd, piece, HASH_PIECE, at)) > 0; at += n)
        good = EVP_DigestUpdate(c, piece, n);
    good = good && EVP_DigestFinal_ex(c, digest, &len);
    for (unsigned i = 0; good && i < len; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(c);
    memory_free(piece);
    return good && len == SHA_DIGITS / 2;
}

static int check(puller *p, cerium_error *err)
{
    char got[SHA_DIGITS + 1], magic[4] = "";
    const char *want = p->d->sha256 ? p->d->sha256 : p->linked[0] ? p->linked : NULL;
    int status = CERIUM_OK;
    file_read_at(p->fd, magic, sizeof magic, 0);
    if (memcmp(magic, "GGUF", 4) != 0)
        status = error_set(err, CERIUM_ERR_FORMAT, "%s: what was downloaded is not a GGUF file",
                           p->d->url);
    else if (want && !hash_file(p->fd, got))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory to check the file");
    else if (want && strcasecmp(got, want) != 0)
        status = error_set(err, CERIUM_ERR_FORMAT,
                           "%s: other bytes came than were to come: SHA-256 %s, not %s", p->d->url,
                           got, want);
    if (!status) return CERIUM_OK;
    unlink(p->part);
    unlink(p->tag_path);
    return status;
}

static int open_part(puller *p, cerium_error *err)
{
    struct stat st;
    if (snprintf(p->part, sizeof p->part, "%s.part", p->d->path) >= (int)sizeof p->part - 4)
        return error_set(err, CERIUM_ERR_ARGUMENT, "a name of that length is not supported");
    snprintf(p->tag_path, sizeof p->tag_path, "%s.part.tag", p->d->path);
    file_make_folders(p->part);
    p->fd = open(p->part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (p->fd < 0 || fstat(p->fd, &st))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", p->part, strerror(errno));
    if (flock(p->fd, LOCK_EX | LOCK_NB))
        return error_set(err, CERIUM_ERR_IO, "%s: another cerium pull is at it", p->part);
    int fd = open(p->tag_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return CERIUM_OK;
    p->tag[file_read_at(fd, p->tag, sizeof p->tag - 1, 0)] = 0;
    close(fd);
    if (strpbrk(p->tag, "\r\n")) p->tag[0] = 0;
    if (p->tag[0]) p->have = (uint64_t)st.st_size;
    return CERIUM_OK;
}

static int pull(puller *p, cerium_error *err)
{
    RETURN_IF(open_part(p, err));
    if (!try_often(p)) {
        if (on_moment(p, 0, 0, 0, 0))
            return error_set(err, CERIUM_ERR_CANCELED, "canceled; what came so far is kept");
        const char *why = p->disk_error ? strerror(p->disk_error) : p->wrong;
        if (p->disk_error) return error_set(err, CERIUM_ERR_IO, "%s: %s", p->part, why);
        return error_set(err, CERIUM_ERR_IO, "%s: %s (%s %ld); what came so far is kept: try again",
                         p->d->url, why, "status", p->code);
    }
    RETURN_IF(check(p, err));
    if (fsync(p->fd) || rename(p->part, p->d->path))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", p->d->path, strerror(errno));
    unlink(p->tag_path);
    return CERIUM_OK;
}

int download_file(const download *d, cerium_error *err)
{
    puller p = {.d = d, .fd = -1};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(p.easy = curl_easy_init()))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a transfer");
    int status = pull(&p, err);
    if (p.fd >= 0) close(p.fd);
    curl_easy_cleanup(p.easy);
    return status;
}

int download_hash(const char *path, char out[DOWNLOAD_SHA_DIGITS + 1], cerium_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && hash_file(fd, out);
    if (!good) error_set(err, CERIUM_ERR_IO, "%s: cannot be read to its end", path);
    if (fd >= 0) close(fd);
    return good ? CERIUM_OK : CERIUM_ERR_IO;
}

int download_check(const char *path, const char *sha256, cerium_error *err)
{
    char got[SHA_DIGITS + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    bool read = hash_file(fd, got);
    close(fd);
    if (!read) return error_set(err, CERIUM_ERR_MEMORY, "no memory to check %s", path);
    if (strcasecmp(got, sha256) == 0) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT, "%s is there already, and is another file: SHA-256 "
                     "%s, not %s; remove it, or give --to FILE", path, got, sha256);
}
