/* http1.c - llhttp's callbacks, and the checks that llhttp does not make. */
#include "net/http1.h"
#include "base/limits.h"

#include <llhttp.h>
#include <stdlib.h>
#include <strings.h>

enum {
    FIELDS_MAX = 256,
    /* Sizes of chunks, their extensions and trailers, in addition to a body's own bytes. */
    OVERHEAD_BYTES_MAX = 16384,
    OVERHEAD_PER_BYTE = 8,
};

typedef enum {
    IN_HEAD = 0,
    HEAD_IS_WHOLE,
    IN_BODY,
    IN_TRAILERS,
    IS_WHOLE,
    IS_BAD,
} reader_state;

struct http_reader {
    llhttp_t parser;
    reader_state state;
    bytes text;    /* target, then name and value of each field, each with a NUL */
    size_t fields; /* offset of the first field in text */
    uint32_t n_fields;
    bool has_head;     /* the head is complete */
    size_t head_bytes; /* of the head, as received */
    char last;         /* byte of it, or of the trailers */
    size_t name_bytes; /* of the current trailer */
    uint64_t overhead; /* bytes of the body's framing */
    uint64_t body_bytes;
    bytes *body;        /* while feeding */
    char *path, *query; /* in text */
    char host[256];
    int status;
    const char *reason;
};

/* ---- callbacks ---- */

static http_reader *of(llhttp_t *parser)
{
    return parser->data;
}

static int refuse(http_reader *r, int status, const char *reason)
{
    if (!r->status) {
        r->status = status;
        r->reason = reason;
    }
    return HPE_USER;
}

static int keep(http_reader *r, const char *from, size_t len, int status, const char *reason)
{
    int failed = bytes_append(&r->text, from, len);
    if (failed == CERIUM_ERR_MEMORY) return refuse(r, 500, "out of memory");
    return failed ? refuse(r, status, reason) : 0;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
    http_reader *r = of(p);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] > 126 || at[i] == '#')
            return refuse(r, 400, "the request's target has bytes that RFC 3986 does not allow");
    return keep(r, at, len, 414, "the request's target is too long");
}

static int on_url_end(llhttp_t *p)
{
    http_reader *r = of(p);
    if (keep(r, "", 1, 414, "the request's target is too long")) return HPE_USER;
    r->fields = r->text.len;
    return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t len)
{
    http_reader *r = of(p);
    if (r->state >= IN_BODY) { /* a trailer: checked, not kept */
        r->name_bytes += len;
        return memchr(at, ' ', len) ? refuse(r, 400, "a trailer's name has a blank") : 0;
    }
    return keep(r, at, len, 431, "the header fields are too large");
}

static int on_name_end(llhttp_t *p)
{
    http_reader *r = of(p);
    if (r->state >= IN_BODY) {
        const bool is_named = r->name_bytes > 0;
        r->name_bytes = 0;
        return is_named ? 0 : refuse(r, 400, "a trailer has no name");
    }
    size_t begin = r->text.len;
    while (begin > r->fields && r->text.ptr[begin - 1]) begin--;
    view name = {r->text.ptr + begin, r->text.len - begin};
    if (!name.len) return refuse(r, 400, "a header field has no name");
    if (memchr(name.ptr, ' ', name.len))
        return refuse(r, 400, "a header field's name has a blank");
    if (++r->n_fields > FIELDS_MAX) return refuse(r, 431, "there are too many header fields");
    return keep(r, "", 1, 431, "the header fields are too large");
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
    http_reader *r = of(p);
    return r->state >= IN_BODY ? 0 : keep(r, at, len, 431, "the header fields are too large");
}

static int on_value_end(llhttp_t *p)
{
    http_reader *r = of(p);
    if (r->state >= IN_BODY) return 0;
    r->text.len = view_trim_end((view){r->text.ptr, r->text.len}, " \t").len;
    return keep(r, "", 1, 431, "the header fields are too large");
}

static int on_head(llhttp_t *p)
{
    http_reader *r = of(p);
    r->state = HEAD_IS_WHOLE;
    r->has_head = true;
    /* No other protocol is supported: a request for one is answered in this one (RFC 9110, 7.8). */
    if (!http_reader_wants_websocket(r)) p->upgrade = 0;
    return HPE_PAUSED;
}

/* A chunk's length is known before its bytes: one that cannot fit is refused at once. */
static int on_chunk(llhttp_t *p)
{
    http_reader *r = of(p);
    if (p->content_length > r->body->max - r->body->len)
        return refuse(r, 413, "the body is too large");
    if (p->content_length) return 0;
    r->state = IN_TRAILERS;
    r->last = '\n';
    return HPE_PAUSED;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
    http_reader *r = of(p);
    r->body_bytes += len;
    int failed = bytes_append(r->body, at, len);
    if (failed == CERIUM_ERR_MEMORY) return refuse(r, 500, "out of memory");
    return failed ? refuse(r, 413, "the body is too large") : 0;
}

static int on_whole(llhttp_t *p)
{
    of(p)->state = IS_WHOLE;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_url_complete = on_url_end,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_whole,
};

/* ---- opening ---- */

void http_reader_begin(http_reader *r)
{
    bytes text = r->text;
    bytes_free(&text);
    *r = (http_reader){.text = {.max = SERVER_HEADER_BYTES_MAX}};
    llhttp_init(&r->parser, HTTP_REQUEST, &settings);
    r->parser.data = r;
}

http_reader *http_reader_open(void)
{
    http_reader *r = memory_zalloc(1, sizeof *r);
    if (r) http_reader_begin(r);
    return r;
}

void http_reader_close(http_reader **r)
{
    if (!r || !*r) return;
    bytes_free(&(*r)->text);
    memory_free(*r);
    *r = NULL;
}

/* ---- the head as a whole ---- */

/* The field after this one, or the first; NULL after the last. */
static const char *next_field(const http_reader *r, const char *name)
{
    if (!r->has_head) return NULL;
    const char *at = r->text.ptr + r->fields;
    if (name) {
        at = name + strlen(name) + 1;
        at += strlen(at) + 1;
    }
    return at < r->text.ptr + r->text.len ? at : NULL;
}

const char *http_reader_field(const http_reader *r, const char *name)
{
    for (const char *at = next_field(r, NULL); at; at = next_field(r, at))
        if (!strcasecmp(at, name)) return at + strlen(at) + 1;
    return NULL;
}

void http_reader_copy(const http_reader *r, const char *name, char *out, size_t cap)
{
    const char *value = http_reader_field(r, name);
    size_t len = value ? strlen(value) : cap;
    out[0] = 0;
    if (len < cap) memcpy(out, value, len + 1);
}

uint32_t http_reader_fields(const http_reader *r, const char *name)
{
    uint32_t n = 0;
    for (const char *at = next_field(r, NULL); at; at = next_field(r, at))
        n += !strcasecmp(at, name);
    return n;
}

/* uri-host [":" port] of RFC 3986, checked by characters only; the port is one of TCP's. */
static bool is_host(const char *text)
{
    static const char reg_name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                   "0123456789-._~%!$&'()*+;=:";
    const bool is_literal = *text == '['; /* [::1] */
    const char *at = text + is_literal;
    size_t len = strspn(at, reg_name);
    if (!is_literal) len = strcspn(at, ":") < len ? strcspn(at, ":") : len;
    at += len;
    if (is_literal && (!len || *at++ != ']')) return false;
    if (!*at) return true;
    const size_t n_digits = strspn(at + 1, "0123456789");
    return *at == ':' && !at[1 + n_digits] && strtoul(at + 1, NULL, 10) <= 65535;
}

static int read_host(http_reader *r)
{
    const char *host = http_reader_field(r, "host");
    uint32_t n = http_reader_fields(r, "host");
    if (n > 1) return refuse(r, 400, "there are several Host fields");
    if (!n && http_reader_is_1_1(r)) return refuse(r, 400, "HTTP/1.1 needs a Host field");
    if (!host) host = "";
    if (!is_host(host) || strlen(host) >= sizeof r->host)
        return refuse(r, 400, "the Host field names no host");
    if (!r->host[0]) snprintf(r->host, sizeof r->host, "%s", host);
    return 0;
}

/* http://host/path: its host has priority (RFC 9112, 3.2.2). */
static int read_absolute(http_reader *r)
{
    char *host = strstr(r->path, "://") + 3;
    size_t len = strcspn(host, "/?");
    if (strncasecmp(r->path, "http://", 7) != 0 && strncasecmp(r->path, "https://", 8) != 0)
        return refuse(r, 400, "the request's target has a scheme that is not served");
    if (!len || len >= sizeof r->host) return refuse(r, 400, "the request's target names no host");
    snprintf(r->host, sizeof r->host, "%.*s", (int)len, host);
    if (!is_host(r->host)) return refuse(r, 400, "the request's target names no host");
    if (host[len] == '/') {
        r->path = host + len;
    } else { /* no path is "/" */
        memmove(r->path + 1, host + len, strlen(host + len) + 1);
        r->path[0] = '/';
    }
    return 0;
}

static int read_target(http_reader *r)
{
    r->path = r->text.ptr;
    if (r->path[0] != '/' && strstr(r->path, "://")) {
        if (read_absolute(r)) return -1;
    } else if (r->path[0] != '/' &&
               !(!strcmp(r->path, "*") && http_reader_method(r) == METHOD_OPTIONS)) {
        return refuse(r, r->parser.method == HTTP_CONNECT ? 501 : 400,
                      r->parser.method == HTTP_CONNECT ? "this server is not a proxy"
                                                       : "the request's target begins with '/'");
    }
    r->query = strchr(r->path, '?');
    if (r->query)
        *r->query++ = 0;
    else
        r->query = r->path + strlen(r->path);
    return 0;
}

static bool has_chunks(const http_reader *r)
{
    return (r->parser.flags & F_CHUNKED) != 0;
}

/* Errors that the parser does not find. */
static int check_head(http_reader *r)
{
    const char *coding = http_reader_field(r, "transfer-encoding");
    const char *expect = http_reader_field(r, "expect");
    if (r->parser.http_major != 1) return refuse(r, 505, "HTTP/1.1 is spoken here");
    if (read_target(r) || read_host(r)) return -1;
    if (coding && (strcasecmp(coding, "chunked") != 0 ||
                   http_reader_fields(r, "transfer-encoding") > 1))
        return refuse(r, 501, "of transfer codings, chunked alone is served");
    if (coding && !http_reader_is_1_1(r)) return refuse(r, 400, "HTTP/1.0 has no chunks");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return refuse(r, 417, "of expectations, 100-continue alone is met");
    return 0;
}

/* ---- reading ---- */

/* A header line that begins with a blank continues the line before it (obs-fold). Servers disagree
 * about these, so they are rejected (RFC 9112, 5.2). */
static int look_for_folds(http_reader *r, view head)
{
    for (size_t i = 0; i < head.len; i++) {
        if (r->last == '\n' && r->fields && (head.ptr[i] == ' ' || head.ptr[i] == '\t'))
            return refuse(r, 400, "a header field continues in the next line");
        r->last = head.ptr[i];
    }
    return 0;
}

/* The status and reason for the parser's own errors. */
static void blame(http_reader *r, llhttp_errno_t code)
{
    switch (code) {
    case HPE_INVALID_METHOD:
        (void)refuse(r, 501, "the request's method is not known");
        return;
    case HPE_INVALID_VERSION:
    case HPE_PAUSED_H2_UPGRADE:
        (void)refuse(r, 505, "HTTP/1.1 is spoken here");
        return;
    case HPE_INVALID_TRANSFER_ENCODING:
        (void)refuse(r, 400, "the last transfer coding of a request is chunked");
        return;
    default:
        (void)refuse(r, 400,
                     r->parser.reason && *r->parser.reason ? r->parser.reason
                                                           : "this is not an HTTP request");
    }
}

static http_progress bad(http_reader *r)
{
    r->state = IS_BAD;
    return HTTP_READ_BAD;
}

static http_progress feed_head(http_reader *r, view in, size_t *used)
{
    /* One byte more than allowed, to detect that there are more. */
    size_t room = SERVER_HEADER_BYTES_MAX + 1 - r->head_bytes;
    view part = {in.ptr, in.len < room ? in.len : room};
    llhttp_errno_t code = llhttp_execute(&r->parser, part.ptr, part.len);
    size_t n = code == HPE_OK ? part.len : (size_t)(llhttp_get_error_pos(&r->parser) - part.ptr);
    if (n > part.len) n = part.len;
    *used = n;
    r->head_bytes += n;
    if (look_for_folds(r, (view){part.ptr, n})) return bad(r);
    if (r->head_bytes > SERVER_HEADER_BYTES_MAX) {
        bool in_target = !r->fields;
        (void)refuse(r, in_target ? 414 : 431,
                     in_target ? "the request's target is too long"
                               : "the header fields are too large");
        return bad(r);
    }
    if (code == HPE_OK) return HTTP_READ_MORE;
    if (code != HPE_PAUSED || r->state < HEAD_IS_WHOLE) {
        blame(r, code);
        return bad(r);
    }
    return check_head(r) ? bad(r) : HTTP_READ_HEAD;
}

static http_progress feed_body(http_reader *r, view in, size_t *used)
{
    uint64_t before = r->body_bytes;
    if (r->state == HEAD_IS_WHOLE) {
        r->state = IN_BODY;
        llhttp_resume(&r->parser);
    }
    bool in_trailers = r->state == IN_TRAILERS;
    llhttp_errno_t code;
    do { /* called twice if trailers begin: they are checked, too */
        view rest = {in.ptr + *used, in.len - *used};
        code = llhttp_execute(&r->parser, rest.ptr, rest.len);
        size_t n = code == HPE_OK ? rest.len
                                  : (size_t)(llhttp_get_error_pos(&r->parser) - rest.ptr);
        if (n > rest.len) n = rest.len;
        *used += n;
        if (in_trailers && look_for_folds(r, (view){rest.ptr, n})) return bad(r);
        in_trailers = code == HPE_PAUSED && r->state == IN_TRAILERS;
        if (in_trailers) llhttp_resume(&r->parser);
    } while (in_trailers && *used < in.len);
    if (in_trailers) code = HPE_OK;
    r->overhead += *used - (r->body_bytes - before);
    if (r->overhead > OVERHEAD_BYTES_MAX + OVERHEAD_PER_BYTE * r->body_bytes) {
        (void)refuse(r, 400, "the chunks say more about themselves than they hold");
        return bad(r);
    }
    if (r->state == IS_WHOLE) return HTTP_READ_WHOLE;
    if (code != HPE_OK) {
        blame(r, code);
        return bad(r);
    }
    return HTTP_READ_MORE;
}

http_progress http_reader_feed(http_reader *r, view in, bytes *body, size_t *used)
{
    CHECK(r->state != IS_WHOLE);
    *used = 0;
    if (r->state == IS_BAD) return HTTP_READ_BAD;
    r->body = body;
    http_progress progress = r->state == IN_HEAD ? feed_head(r, in, used) : feed_body(r, in, used);
    r->body = NULL;
    return progress;
}

/* ---- the parsed request ---- */

int http_reader_status(const http_reader *r)
{
    return r->status;
}
const char *http_reader_reason(const http_reader *r)
{
    return r->reason ? r->reason : "";
}
bool http_reader_is_idle(const http_reader *r)
{
    return !r->head_bytes;
}

http_method http_reader_method(const http_reader *r)
{
    switch (r->parser.method) {
    case HTTP_GET:
        return METHOD_GET;
    case HTTP_POST:
        return METHOD_POST;
    case HTTP_OPTIONS:
        return METHOD_OPTIONS;
    case HTTP_PUT:
        return METHOD_PUT;
    case HTTP_PATCH:
        return METHOD_PATCH;
    case HTTP_DELETE:
        return METHOD_DELETE;
    case HTTP_HEAD:
        return METHOD_HEAD;
    default:
        return METHOD_OTHER;
    }
}

const char *http_method_name(http_method method)
{
    static const char *const names[] = {"GET",   "POST",   "OPTIONS", "PUT",
                                        "PATCH", "DELETE", "HEAD",    "-"};
    return names[method];
}

bool http_reader_is_1_1(const http_reader *r)
{
    return r->parser.http_major == 1 && r->parser.http_minor >= 1;
}

bool http_reader_keeps_alive(const http_reader *r)
{
    const char *connection = http_reader_field(r, "connection");
    if (r->parser.flags & F_CONNECTION_CLOSE) return false;
    return http_reader_is_1_1(r) || (connection && (r->parser.flags & F_CONNECTION_KEEP_ALIVE));
}

bool http_reader_wants_websocket(const http_reader *r)
{
    const char *upgrade = http_reader_field(r, "upgrade");
    return upgrade && http_reader_is_1_1(r) && !strcasecmp(upgrade, "websocket") &&
           (r->parser.flags & F_CONNECTION_UPGRADE) != 0;
}

uint64_t http_reader_body_bytes(const http_reader *r)
{
    return has_chunks(r)                        ? UINT64_MAX
           : r->parser.flags & F_CONTENT_LENGTH ? r->parser.content_length
                                                : 0;
}

const char *http_reader_path(const http_reader *r)
{
    return r->path ? r->path : "";
}
const char *http_reader_query(const http_reader *r)
{
    return r->query ? r->query : "";
}
const char *http_reader_host(const http_reader *r)
{
    return r->host;
}

/* ---- parts of a target ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool http_decode(char *text, bool is_argument)
{
    char *out = text;
    for (const char *in = text; *in; in++) {
        if (*in != '%') {
            *out++ = is_argument && *in == '+' ? ' ' : *in;
            continue;
        }
        int high = hex_digit(in[1]), low = high < 0 ? -1 : hex_digit(in[2]);
        if (low < 0 || (high == 0 && low == 0)) return false;
        *out++ = (char)(high * 16 + low);
        in += 2;
    }
    *out = 0;
    return true;
}

bool http_argument_of(const char *query, const char *name, char *out, size_t cap)
{
    size_t name_len = strlen(name);
    out[0] = 0;
    for (const char *at = query; *at;) {
        size_t len = strcspn(at, "&");
        if (len > name_len && !strncmp(at, name, name_len) && at[name_len] == '=') {
            size_t value = len - name_len - 1;
            if (value >= cap) return false;
            memcpy(out, at + name_len + 1, value);
            out[value] = 0;
            if (http_decode(out, true)) return true;
            out[0] = 0;
            return false;
        }
        at += len + (at[len] == '&');
    }
    return false;
}
