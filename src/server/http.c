/* http.c - reading heads and bodies, writing answers. */
#include "server/http.h"

#include "server/access.h"
#include "server/connection.h"
#include "server/routes.h"

enum { HEAD_BYTES_MAX = 4096 };

void http_header(const connection *c, enum lws_token_indexes token, char *out, size_t cap)
{
    out[0] = 0;
    if (lws_hdr_copy(c->wsi, out, (int)cap, token) < 0) out[0] = 0;
}

void http_custom_header(const connection *c, const char *name, char *out, size_t cap)
{
    out[0] = 0;
    if (lws_hdr_custom_copy(c->wsi, out, (int)cap, name, (int)strlen(name)) < 0) out[0] = 0;
}

void http_argument(const connection *c, const char *name, char *out, size_t cap)
{
    const char *value = lws_get_urlarg_by_name(c->wsi, name, out, (int)cap);
    if (!value)
        out[0] = 0;
    else
        memmove(out, value, strlen(value) + 1);
}

static const char *status_text(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 422: return "Unprocessable Content";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return status < 500 ? "Error" : "Server Error";
    }
}

/* The head of an answer into out; length < 0: it streams. */
static view write_head(connection *c, char out[HEAD_BYTES_MAX], const http_head *head,
                       int64_t length)
{
    const exchange *x = &c->http;
    char cors[512] = "", framing[64] = "";
    if (x->origin[0])
        snprintf(cors, sizeof cors,
                 "access-control-allow-origin: %s\r\nvary: origin\r\n"
                 "access-control-expose-headers: x-request-id, retry-after, "
                 "x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, "
                 "x-cerium-served-by\r\n",
                 x->origin);
    if (length >= 0 && head->status != 304 && head->status != 204)
        snprintf(framing, sizeof framing, "content-length: %lld\r\n", (long long)length);
    else if (length < 0 && x->chunked)
        snprintf(framing, sizeof framing, "transfer-encoding: chunked\r\n");
    int n = snprintf(out, HEAD_BYTES_MAX,
                     "HTTP/1.1 %d %s\r\ncontent-type: %s\r\n%sx-request-id: %s\r\n"
                     "x-content-type-options: nosniff\r\nserver: cerium\r\n%s%s%s%s\r\n",
                     head->status, status_text(head->status),
                     head->type ? head->type : "application/json", framing, x->request_id,
                     x->limits, cors,
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
    if (c->http.method == LWSHUMETH_HEAD || head->status == 304) body.len = 0;
    connection_send(c, written, body);
}

void http_json(connection *c, int status, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text) {
        protocol_error e;
        (void)protocol_error_set(&e, 500, "server_error", NULL, "", "out of memory");
        http_error(c, &e);
        return;
    }
    http_answer(c, &(http_head){.status = status}, view_of(text));
    memory_release(text);
}

void http_error(connection *c, const protocol_error *e)
{
    static const char fallback[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                                   "\"server_error\",\"param\":null,\"code\":null}}";
    bytes body = {.max = 16384};
    char headers[128] = "cache-control: no-store\r\n";
    if (e->retry_after_s)
        snprintf(headers, sizeof headers, "cache-control: no-store\r\nretry-after: %u\r\n",
                 e->retry_after_s);
    else if (e->http_status == 401)
        snprintf(headers, sizeof headers,
                 "cache-control: no-store\r\nwww-authenticate: Bearer\r\n");
    view text = protocol_error_body(&body, e) ? VIEW(fallback) : (view){body.ptr, body.len};
    http_answer(c, &(http_head){.status = e->http_status, .headers = headers}, text);
    bytes_free(&body);
}

void http_stream(connection *c)
{
    char text[HEAD_BYTES_MAX];
    if (!c->http.chunked) c->http.closes = true; /* HTTP/1.0: so the client sees the end */
    c->http.status = 200;
    view head = write_head(c, text,
                           &(http_head){.status = 200,
                                        .type = "text/event-stream",
                                        .headers = "cache-control: no-cache\r\n"
                                                   "x-accel-buffering: no\r\n"},
                           -1);
    connection_send(c, head, (view){NULL, 0});
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
    static const char *const methods[] = {"GET",    "POST",    "OPTIONS", "PUT",
                                          "PATCH", "DELETE", "CONNECT", "HEAD"};
    const exchange *x = &c->http;
    char path[160];
    const char *method = x->method >= 0 && x->method < (int)ARRAY_LEN(methods)
                             ? methods[x->method] : "-";
    log_event(LOG_INFO, "request", "request=%s method=%s path=%s status=%d ms=%.3f peer=%s",
              x->request_id, method, log_quote(path, sizeof path, x->path), x->status,
              (double)(clock_ns() - x->started_ns) / 1e6, c->peer);
}

static void forget_exchange(connection *c)
{
    exchange *x = &c->http;
    log_exchange(c);
    metrics_request(&c->s->metrics, x->route->metric, x->status);
    x->route = NULL;
    x->done = false;
    bytes_free(&x->body); /* keeps its maximum */
    c->deadline_ns = 0;
}

void http_end(connection *c)
{
    bool closes = c->http.closes || c->closing;
    if (!c->http.route) return;
    forget_exchange(c);
    bytes_free(&c->out);
    bytes_free(&c->units);
    if (closes) {
        connection_close(c);
        return;
    }
    lws_rx_flow_control(c->wsi, 1);
    if (lws_http_transaction_completed(c->wsi)) connection_close(c);
}

void http_abandon(connection *c)
{
    if (!c->http.route) return;
    if (!c->http.status) c->http.status = 499; /* as nginx calls it: the client went away */
    forget_exchange(c);
}

void http_refuse(connection *c, const protocol_error *e)
{
    c->closing = true;
    http_error(c, e);
}

/* The length that the head announces; an error ends the connection, because where the next
 * request would begin is not known. */
static int body_length(connection *c, protocol_error *e)
{
    exchange *x = &c->http;
    char text[32];
    uint64_t len = 0;
    bool said = lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) > 0;
    http_header(c, WSI_TOKEN_HTTP_CONTENT_LENGTH, text, sizeof text);
    if (lws_hdr_total_length(c->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0) {
        http_header(c, WSI_TOKEN_HTTP_TRANSFER_ENCODING, text, sizeof text);
        x->closes = true; /* for libwebsockets the body never ends */
        x->body_chunked = x->method == LWSHUMETH_POST && !strcasecmp(text, "chunked");
        if (!said && x->body_chunked) return CERIUM_OK;
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                  "Transfer-Encoding",
                                  "a POST may be chunked, without Content-Length; nothing else");
    }
    if (said && !parse_u64(view_of(text), &len))
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                  "Content-Length", "Content-Length is not a number");
    /* Neither length nor chunks: there is no body (RFC 9112, 6.3), as `curl -X POST` asks; but
     * libwebsockets would take what comes next for one. */
    if (!said && x->method == LWSHUMETH_POST) x->bodyless = x->closes = true;
    if (len > PROTOCOL_BODY_BYTES_MAX)
        return protocol_error_set(e, 413, "invalid_request_error", "request_too_large", "",
                                  "the body has %llu bytes; at most %u are taken",
                                  (unsigned long long)len, PROTOCOL_BODY_BYTES_MAX);
    x->body_len = (size_t)len;
    return CERIUM_OK;
}

/* False when it is none that we speak. */
static bool read_version(connection *c)
{
    char version[16];
    http_header(c, WSI_TOKEN_HTTP, version, sizeof version);
    c->http.chunked = strcmp(version, "HTTP/1.0") != 0;
    return !strncmp(version, "HTTP/1.", 7);
}

void http_open(connection *c, const char *path)
{
    exchange *x = &c->http;
    char *uri;
    int uri_len;
    bytes_free(&x->body);
    *x = (exchange){.body = {.max = PROTOCOL_BODY_BYTES_MAX + 1}, .started_ns = clock_ns()};
    make_id(x->request_id, "req_");
    x->method = lws_http_get_uri_and_method(c->wsi, &uri, &uri_len);
    snprintf(x->path, sizeof x->path, "%s", path);
    x->speaks = read_version(c);
    x->route = route_find(x->method, x->path, x->id);
    http_custom_header(c, "x-cerium-guard:", x->guard, sizeof x->guard);
}

static int check_line(const connection *c, const char *path, protocol_error *e)
{
    if (!c->http.speaks)
        return protocol_error_set(e, 400, "invalid_request_error", NULL, "",
                                  "HTTP/1.1 is spoken here");
    if (strlen(path) >= sizeof c->http.path)
        return protocol_error_set(e, 414, "invalid_request_error", NULL, "",
                                  "the path is longer than %u bytes", SERVER_PATH_BYTES_MAX);
    return CERIUM_OK;
}

void http_request(connection *c, const char *path)
{
    exchange *x = &c->http;
    protocol_error e;
    char expect[32];
    http_open(c, path);
    if (check_line(c, path, &e) || body_length(c, &e)) {
        http_refuse(c, &e);
        return;
    }
    if (access_check(c, x->route->open, &e)) {
        if (x->body_len || x->body_chunked) x->closes = true; /* what it sends is not read */
        http_error(c, &e);
        return;
    }
    c->deadline_ns = clock_ns() + c->s->config.body_s * UINT64_C(1000000000);
    http_header(c, WSI_TOKEN_HTTP_EXPECT, expect, sizeof expect);
    if ((x->body_len || x->body_chunked) && !strcasecmp(expect, "100-continue"))
        connection_send(c, VIEW("HTTP/1.1 100 Continue\r\n\r\n"), (view){NULL, 0});
    /* libwebsockets announces the end of a body, even an empty one, for POST; else of those that
     * have one. */
    if (!x->body_len && (x->bodyless || x->method != LWSHUMETH_POST)) http_body_end(c);
}

/* The body of the request is still awaited. */
static bool is_reading(const connection *c)
{
    return c->http.route && !c->http.status && c->deadline_ns;
}

void http_body(connection *c, const void *from, size_t len)
{
    exchange *x = &c->http;
    if (!is_reading(c)) return;
    metrics_count(&c->s->metrics, METRICS_BYTES_IN, len);
    if (!x->body_chunked) {
        if (bytes_append(&x->body, from, len)) connection_break(c);
        return;
    }
    int status = chunks_read(&x->chunks, (view){from, len}, &x->body);
    if (status) {
        protocol_error e;
        bool big = status == CERIUM_ERR_CAPACITY;
        (void)protocol_error_set(&e, big ? 413 : 400, "invalid_request_error",
                                 big ? "request_too_large" : "invalid_value", "",
                                 big ? "the body has more than %u bytes"
                                     : "the body is no chunked coding",
                                 PROTOCOL_BODY_BYTES_MAX);
        http_error(c, &e);
    } else if (x->chunks.done) {
        http_body_end(c);
    }
}

void http_body_end(connection *c)
{
    exchange *x = &c->http;
    if (!is_reading(c)) {
        /* More bytes came while an answer is under way (pipelining): they wait. */
        if (x->route) lws_rx_flow_control(c->wsi, 0);
        return;
    }
    c->deadline_ns = 0;
    if (bytes_append(&x->body, "", 1)) { /* for readers that want a string */
        connection_break(c);
        return;
    }
    x->body.len--;
    x->route->serve(c);
}
