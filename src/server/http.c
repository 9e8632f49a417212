/* http.c - parses heads and bodies, writes answers. */
#include "server/http.h"

#include "base/json.h"
#include "server/access.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/ids.h"
#include "server/look.h"
#include "server/recording.h"
#include "server/routes.h"
#include "server/schedule.h"

enum {
    HEAD_BYTES_MAX = 4096,
    PIECE_BYTES_MAX = 128, /* before the body of a chunk */
};

void http_argument(const connection *c, const char *name, char *out, size_t cap)
{
    (void)http_argument_of(http_reader_query(c->reader), name, out, cap);
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } known[] = {{200, "OK"},
                 {204, "No Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {422, "Unprocessable Content"},
                 {426, "Upgrade Required"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"},
                 {529, "Overloaded"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].status == status) return known[i].text;
    return status < 500 ? "Error" : "Server Error";
}

/* Write the head of an answer to out; length < 0: it streams. */
static view write_head(connection *c, char out[HEAD_BYTES_MAX], const http_head *head,
                       int64_t length)
{
    const exchange *x = &c->http;
    char cors[512] = "", framing[64] = "";
    if (x->origin[0])
        snprintf(cors, sizeof cors,
                 "access-control-allow-origin: %s\r\nvary: origin\r\n"
                 "access-control-expose-headers: request-id, x-request-id, retry-after, "
                 "x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, "
                 "x-cerium-served-by, x-cerium-replica\r\n",
                 x->origin);
    if (length >= 0 && head->status != 304 && head->status != 204)
        snprintf(framing, sizeof framing, "content-length: %lld\r\n", (long long)length);
    else if (length < 0 && x->chunked)
        snprintf(framing, sizeof framing, "transfer-encoding: chunked\r\n");
    int n = snprintf(out, HEAD_BYTES_MAX,
                     "HTTP/1.1 %d %s\r\ncontent-type: %s\r\n%sx-request-id: %s\r\n"
                     "request-id: %s\r\n"
                     "x-content-type-options: nosniff\r\nserver: cerium\r\n%s%s%s%s%s\r\n",
                     head->status, status_text(head->status),
                     head->type ? head->type : "application/json", framing, x->request_id,
                     x->request_id, c->s->replica.field, x->limits, cors,
                     head->headers ? head->headers : "cache-control: no-store\r\n",
                     c->closing || x->closes ? "connection: close\r\n" : "");
    CHECK(n > 0 && n < HEAD_BYTES_MAX);
    return (view){out, (size_t)n};
}

void http_answer(connection *c, const http_head *head, view body)
{
    char text[HEAD_BYTES_MAX];
    view written = write_head(c, text, head, (int64_t)body.len);
    c->http.status = head->status;
    c->http.done = true;
    if (c->http.method == METHOD_HEAD || head->status == 304) body.len = 0;
    connection_send(c, written, body);
}

void http_json(connection *c, int status, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        protocol_error e;
        (void)protocol_error_memory(&e);
        http_error(c, &e);
        return;
    }
    http_answer(c, &(http_head){.status = status}, view_of(text));
    memory_release(text);
}

/* The header that names the accepted methods. */
static const char *what_instead(int status)
{
    switch (status) {
    case 401:
        return "www-authenticate: Bearer\r\n";
    case 405: /* of a path for WebSockets; routes.c knows the methods of others */
        return "allow: GET\r\n";
    case 415:
        return "accept-encoding: identity\r\n";
    case 426:
        return "upgrade: websocket\r\nsec-websocket-version: 13\r\n";
    default:
        return "";
    }
}

/* Errors have the form of the path's API, also for unknown and forbidden paths. */
static protocol_form form_of(const connection *c)
{
    const view path = view_of(c->http.path);
    const bool is_anthropic = http_reader_field(c->reader, "anthropic-version") != NULL;
    if (view_starts(path, VIEW("/v1/messages")) || view_starts(path, VIEW("/messages")) ||
        (is_anthropic && view_starts(path, VIEW("/v1/models"))))
        return PROTOCOL_FORM_MESSAGES;
    return view_starts(path, VIEW("/api/")) ? PROTOCOL_FORM_OLLAMA : PROTOCOL_FORM_OPENAI;
}

int http_error_event(const connection *c, bytes *out, const protocol_error *e)
{
    const protocol_form form = form_of(c);
    if (form == PROTOCOL_FORM_OPENAI) return protocol_error_event(out, e, NULL);
    return protocol_error_body_as(out, form, e, c->http.request_id);
}

void http_error(connection *c, const protocol_error *e)
{
    http_error_with(c, e, what_instead(e->http_status));
}

void http_error_with(connection *c, const protocol_error *e, const char *fields)
{
    static const char fallback[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                   "\"server_error\",\"param\":null,\"code\":null}}";
    bytes body = {.max = 16384};
    const protocol_form form = form_of(c);
    const int http_status = protocol_error_status(form, e);
    char headers[160] = "cache-control: no-store\r\n";
    const size_t n = strlen(headers);
    if (e->retry_after_s)
        snprintf(headers + n, sizeof headers - n, "retry-after: %u\r\n", e->retry_after_s);
    else
        snprintf(headers + n, sizeof headers - n, "%s", fields);
    int status = protocol_error_body_as(&body, form, e, c->http.request_id);
    view text = status ? VIEW(fallback) : (view){body.ptr, body.len};
    http_answer(c, &(http_head){.status = http_status, .headers = headers}, text);
    bytes_free(&body);
}

json_t *http_body_object(connection *c, size_t bytes_max)
{
    const view body = {c->http.body.ptr, c->http.body.len};
    protocol_error e;
    json_t *object = body.len <= bytes_max ? json_read(body, 0, NULL) : NULL;
    if (json_is_object(object)) return object;
    json_decref(object);
    if (body.len > bytes_max)
        (void)protocol_error_set(&e, 413, "invalid_request_error", "request_too_large", "",
                                 "the body has %zu bytes; at most %zu are taken here", body.len,
                                 bytes_max);
    else
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_json", "",
                                 "The body of a request is a JSON object.");
    http_error(c, &e);
    return NULL;
}

void http_stream(connection *c, const char *type)
{
    char text[HEAD_BYTES_MAX];
    if (!c->http.chunked) c->http.closes = true; /* HTTP/1.0: this shows the client the end */
    c->http.status = 200;
    c->http.is_lines = strcmp(type, "text/event-stream") != 0;
    view head = write_head(c, text,
                           &(http_head){.status = 200,
                                        .type = type,
                                        .headers = "cache-control: no-cache\r\n"
                                                   "x-accel-buffering: no\r\n"},
                           -1);
    connection_send(c, head, (view){NULL, 0});
}

void http_piece(connection *c, view before, view body, view after)
{
    char head[PIECE_BYTES_MAX], tail[8];
    const size_t size = before.len + body.len + after.len;
    int n = c->http.chunked ? snprintf(head, sizeof head, "%zx\r\n", size) : 0;
    CHECK(before.len + (size_t)n <= sizeof head && after.len + 2 <= sizeof tail);
    memcpy(head + n, before.ptr, before.len);
    memcpy(tail, after.ptr, after.len);
    memcpy(tail + after.len, "\r\n", 2);
    connection_put(c, (view){head, before.len + (size_t)n}, body);
    connection_put(c, (view){tail, after.len + (c->http.chunked ? 2 : 0)}, (view){NULL, 0});
}

void http_stream_end(connection *c)
{
    c->http.done = true;
    if (c->http.chunked)
        connection_send(c, VIEW("0\r\n\r\n"), (view){NULL, 0});
    else
        connection_flush(c);
}

static void log_exchange(const connection *c)
{
    const exchange *x = &c->http;
    char path[160];
    if (c->type->is_probe && x->status < 400) return; /* twenty a second */
    log_event(LOG_INFO, "request", "request=%s method=%s path=%s status=%d ms=%.3f peer=%s",
              x->request_id, http_method_name(x->method), log_quote(path, sizeof path, x->path),
              x->status, (double)(clock_ns() - x->started_ns) / 1e6, c->peer);
}

static void forget_exchange(connection *c)
{
    exchange *x = &c->http;
    log_exchange(c);
    metrics_request(&c->s->metrics, x->route->metric, x->status);
    workers_drop(c->s->workers, &x->job);
    x->awaits_end = x->awaits_deletion = false;
    x->follows_pull = PULL_FOLLOWS_NOT;
    recording_leave(c);
    if (x->leaves) x->leaves(c);
    (void)connection_gathers(c, 0, -(ptrdiff_t)x->body_counted);
    x->body_counted = 0;
    x->route = NULL;
    x->done = false;
    bytes_free(&x->body); /* keeps its maximum */
    c->deadline_ns = 0;
}

/* Everything is sent: prepare for the next request. */
static void on_sent(connection *c)
{
    bool closes = c->http.closes || c->closing;
    if (!c->http.done || !c->http.route) return;
    forget_exchange(c);
    /* Requests that came before the client closed its side are answered too. */
    if (closes || (c->has_ended && !stream_input(&c->io).len)) {
        connection_close(c);
        return;
    }
    c->active_ns = clock_ns();
    c->deadline_ns = c->active_ns + c->s->config.idle_s * UINT64_C(1000000000);
    http_reader_begin(c->reader);
    stream_resume(&c->io);
}

void http_abandon(connection *c)
{
    if (!c->http.route) return;
    if (!c->http.status) c->http.status = 499; /* nginx's status: the client went away */
    forget_exchange(c);
}

void http_refuse(connection *c, const protocol_error *e)
{
    c->closing = true;
    stream_pause(&c->io);
    http_error(c, e);
}

/* ---- requests ---- */

void http_open(connection *c)
{
    exchange *x = &c->http;
    const char *path = http_reader_path(c->reader);
    bytes_free(&x->body);
    *x = (exchange){.body = {.max = PROTOCOL_BODY_BYTES_MAX}, .started_ns = clock_ns()};
    make_id(x->request_id, "req_");
    x->method = http_reader_method(c->reader);
    x->chunked = http_reader_is_1_1(c->reader);
    /* A client that keeps connections must not meet a closed one if it could use another server.
     */
    x->closes = !x->chunked || !http_reader_keeps_alive(c->reader) || c->s->leaving;
    snprintf(x->path, sizeof x->path, "%s", path);
    size_t len = strlen(x->path);
    if (len > 1 && x->path[len - 1] == '/') x->path[len - 1] = 0; /* the same place */
    x->route = (c->type->is_probe ? c->s->routes->find_probed : c->s->routes->find)(
        x->method, x->path, x->id);
    http_reader_copy(c->reader, "x-cerium-guard", x->guard, sizeof x->guard);
}

static int bad_request(protocol_error *e, int status, const char *why)
{
    return protocol_error_set(e, status, "invalid_request_error",
                              status == 413 ? "request_too_large" : "invalid_request", "", "%s",
                              why);
}

/* The bytes are not a request, or a refused one: answered, and the connection ends. */
static void refuse_bytes(connection *c)
{
    protocol_error e;
    if (!c->http.route) http_open(c);
    if (http_reader_status(c->reader) == 413)
        (void)protocol_error_set(&e, 413, "invalid_request_error", "request_too_large", "",
                                 "the body has more than %u bytes", PROTOCOL_BODY_BYTES_MAX);
    else
        (void)bad_request(&e, http_reader_status(c->reader), http_reader_reason(c->reader));
    http_refuse(c, &e);
}

static int check_body(const connection *c, protocol_error *e)
{
    uint64_t len = http_reader_body_bytes(c->reader);
    const char *coding = http_reader_field(c->reader, "content-encoding");
    if (coding && *coding && strcasecmp(coding, "identity") != 0)
        return protocol_error_set(e, 415, "invalid_request_error", "unsupported_media_type",
                                  "Content-Encoding", "bodies are taken as they are, not encoded");
    if (strlen(http_reader_path(c->reader)) >= sizeof c->http.path)
        return protocol_error_set(e, 414, "invalid_request_error", NULL, "",
                                  "the path is longer than %u bytes", SERVER_PATH_BYTES_MAX);
    if (len != UINT64_MAX && len > PROTOCOL_BODY_BYTES_MAX)
        return protocol_error_set(e, 413, "invalid_request_error", "request_too_large", "",
                                  "the body has %llu bytes; at most %u are taken",
                                  (unsigned long long)len, PROTOCOL_BODY_BYTES_MAX);
    return CERIUM_OK;
}

/* The head is complete: a forbidden request is refused before its body is read. */
static void take_head(connection *c)
{
    exchange *x = &c->http;
    protocol_error e;
    http_open(c);
    uint64_t len = http_reader_body_bytes(c->reader);
    if (check_body(c, &e)) {
        http_refuse(c, &e);
        return;
    }
    if (access_check(c, x->route->open, &e)) {
        if (!len)
            http_error(c, &e);
        else
            http_refuse(c, &e); /* its further bytes are not read */
        return;
    }
    c->deadline_ns = clock_ns() + c->s->config.body_s * UINT64_C(1000000000);
    if (!len || !x->chunked || !http_reader_field(c->reader, "expect")) return;
    if (x->route->methods) {
        connection_send(c, VIEW("HTTP/1.1 100 Continue\r\n\r\n"), (view){NULL, 0});
        return;
    }
    c->closing = true; /* it asks whether to send a body to a route without one */
    stream_pause(&c->io);
    x->route->serve(c);
}

/* Count the received part of the body.  False: no room for it. */
static bool count_body(connection *c)
{
    exchange *x = &c->http;
    size_t more = x->body.len - x->body_counted;
    protocol_error e;
    metrics_count(&c->s->metrics, METRICS_BYTES_IN, more);
    if (connection_gathers(c, x->body.len, (ptrdiff_t)more)) {
        x->body_counted = x->body.len;
        return true;
    }
    metrics_count(&c->s->metrics, METRICS_INPUT_REFUSED, 1);
    (void)protocol_error_overloaded(&e, "large requests are being sent");
    http_refuse(c, &e);
    return false;
}

/* Its client may have left, or has only closed its own side and reads on (RFC 9112, 9.6).  Bytes
 * that mean nothing tell: who left answers them with a reset, which cancels the answer. */
static void probe_client(connection *c)
{
    const exchange *x = &c->http;
    if (!c->has_ended || !x->route || !x->is_whole || x->done) return;
    if (x->status) http_piece(c, VIEW(""), x->is_lines ? VIEW(" ") : VIEW(":\n\n"), VIEW(""));
    else if (x->chunked) connection_put(c, VIEW("HTTP/1.1 100 Continue\r\n\r\n"), VIEW(""));
    connection_flush(c);
}

static void take_whole(connection *c)
{
    exchange *x = &c->http;
    x->is_whole = true;
    c->deadline_ns = 0;
    stream_pause(&c->io);
    if (bytes_reserve(&x->body, 1)) { /* for code that needs a string */
        connection_break(c);
        return;
    }
    x->body.ptr[x->body.len] = 0;
    x->route->serve(c);
    probe_client(c);
}

static bool on_input(connection *c)
{
    size_t used;
    if (http_reader_is_idle(c->reader))
        c->deadline_ns = clock_ns() + c->s->config.header_s * UINT64_C(1000000000);
    for (;;) {
        http_progress progress =
            http_reader_feed(c->reader, stream_input(&c->io), &c->http.body, &used);
        stream_use(&c->io, used);
        if (progress == HTTP_READ_HEAD && http_reader_wants_websocket(c->reader))
            return c->s->routes->upgrade(c);
        if (progress == HTTP_READ_HEAD) take_head(c);
        if (progress == HTTP_READ_BAD) refuse_bytes(c);
        /* The connection is refused, or already answered. */
        if (c->closing || progress == HTTP_READ_BAD || c->http.done) return false;
        if (progress == HTTP_READ_HEAD && c->http.status) return false;
        if (progress != HTTP_READ_HEAD && !count_body(c)) return false;
        if (progress == HTTP_READ_WHOLE) take_whole(c);
        if (progress == HTTP_READ_MORE && c->has_ended) connection_close(c); /* no more will
                                                                             * arrive */
        if (progress != HTTP_READ_HEAD) return false;
    }
}

/* ---- the connection ---- */

static void on_ended(connection *c)
{
    if (!c->http.route || !c->http.is_whole) connection_close(c);
    else probe_client(c);
}

static void on_reads(connection *c)
{
    if (c->has_parked) look_at_reader(c);
    recording_reads(c);
}

static const char *on_tick(connection *c, uint64_t now)
{
    if (!c->deadline_ns || now <= c->deadline_ns || c->closing) return NULL;
    if (c->http.route) return "the body does not come";
    return http_reader_is_idle(c->reader) ? "no request comes" : "the head does not come";
}

static bool is_idle(const connection *c) { return !c->http.route; }

static void on_gone(connection *c)
{
    answers_leave(c);
    http_abandon(c);
    answers_start(c->s); /* it waited for its place */
}

#define HTTP_CONNECTION                                                                            \
    .input = on_input, .ended = on_ended, .reads = on_reads, .sent = on_sent, .tick = on_tick,     \
    .is_idle = is_idle, .is_cheap = true, .gone = on_gone
const connection_type http_connection = {HTTP_CONNECTION};
const connection_type http_probe = {HTTP_CONNECTION, .is_probe = true};
