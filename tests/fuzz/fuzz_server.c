/* fuzz_server.c - input that the server reads before the protocol: requests, frames,
 * inline completions, paths, hosts and origins.
 *
 * Input: a byte that chooses the cuts, then the text, which each reader gets. */
#include "base/hash.h"
#include "net/websocket.h"
#include "server/access.h"
#include "server/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REQUESTS_MAX = 64 };

/* The results of a series of requests, one line each. */
static void read_requests(view text, size_t cut, bytes *log)
{
    http_reader *r = http_reader_open();
    bytes body = {.max = 4096};
    char line[128];
    CHECK(r != NULL);
    for (size_t begin = 0, end = 0, n = 0; n < REQUESTS_MAX;) {
        size_t used;
        http_progress progress =
            http_reader_feed(r, (view){text.ptr + begin, end - begin}, &body, &used);
        CHECK(used <= end - begin && body.len <= body.max);
        begin += used;
        if (progress == HTTP_READ_MORE) {
            CHECK(begin == end);
            if (end == text.len) break;
            end = text.len - end < cut ? text.len : end + cut;
        } else if (progress == HTTP_READ_BAD) {
            CHECK(http_reader_status(r) >= 400 && *http_reader_reason(r));
            (void)bytes_append(log, line,
                               (size_t)snprintf(line, sizeof line, "%d\n", http_reader_status(r)));
            break;
        } else if (progress == HTTP_READ_HEAD) {
            CHECK(http_reader_path(r)[0] == '/' || !strcmp(http_reader_path(r), "*"));
            (void)http_argument_of(http_reader_query(r), "a", line, sizeof line);
        } else {
            int len = snprintf(line, sizeof line, "%d %.60s %zu %llx\n", http_reader_method(r),
                               http_reader_path(r), body.len,
                               (unsigned long long)hash_bytes(body.ptr, body.len, 0));
            (void)bytes_append(log, line, (size_t)len);
            body.len = 0;
            http_reader_begin(r);
            n++;
        }
    }
    bytes_free(&body);
    http_reader_close(&r);
}

/* Cuts change nothing. */
static void check_requests(view text, size_t cut)
{
    bytes whole = {.max = 1 << 16}, cuts = {.max = 1 << 16};
    read_requests(text, text.len + 1, &whole);
    read_requests(text, cut, &cuts);
    CHECK(view_equal((view){whole.ptr, whole.len}, (view){cuts.ptr, cuts.len}));
    bytes_free(&whole);
    bytes_free(&cuts);
}

/* ---- WebSocket ---- */

typedef struct {
    ptrdiff_t gathered;
    bytes log;
} frames;

static void on_message(void *user, bytes *text)
{
    frames *f = user;
    (void)bytes_append(&f->log, text->ptr, text->len);
}

static bool on_gather(void *user, ptrdiff_t more)
{
    frames *f = user;
    f->gathered += more;
    CHECK(f->gathered >= 0);
    return true;
}

static int on_send(void *user, view frame)
{
    (void)user;
    return frame.len ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void read_frames(view text, size_t cut, bytes *log)
{
    static const websocket_events events = {
        .message = on_message, .gathers = on_gather, .send = on_send};
    frames f = {.log = {.max = 1 << 20}};
    websocket *w = websocket_open(4096, &events, &f);
    CHECK(w != NULL);
    for (size_t begin = 0, end = 0; begin < text.len;) {
        size_t used;
        if (begin == end) end = text.len - end < cut ? text.len : end + cut;
        if (!websocket_feed(w, (view){text.ptr + begin, end - begin}, 3, &used)) break;
        begin += used;
    }
    websocket_close(&w);
    CHECK(f.gathered == 0);
    *log = f.log;
}

static void check_frames(view text, size_t cut)
{
    bytes whole, cuts;
    read_frames(text, text.len + 1, &whole);
    read_frames(text, cut, &cuts);
    CHECK(view_equal((view){whole.ptr, whole.len}, (view){cuts.ptr, cuts.len}));
    bytes_free(&whole);
    bytes_free(&cuts);
}

/* A message completion.create: refused, or an infill request with its place. */
static void check_completion(view text)
{
    const protocol_defaults defaults = {.fills_in = true};
    protocol_body body;
    protocol_error e;
    protocol_request *r = NULL;
    if (protocol_body_load(&body, PROTOCOL_RESPONSES, text, &defaults, &e)) return;
    int status = protocol_inline_parse(&r, &body, &defaults, &e);
    CHECK(status ? e.http_status == 400 && !r : r->inline_id && r->infill.prefix);
    protocol_request_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    view text = {(const char *)data + 1, size - 1};
    char path[SERVER_PATH_BYTES_MAX], id[SERVER_ID_BYTES];
    check_requests(text, (size_t)data[0] % 16 + 1);
    check_frames(text, (size_t)data[0] % 16 + 1);
    check_completion(text);
    snprintf(path, sizeof path, "%.*s", (int)(text.len < sizeof path ? text.len : sizeof path - 1),
             text.ptr);
    CHECK(route_find((http_method)(data[0] % 8), path, id) != NULL);
    CHECK(strlen(id) < sizeof id);
    (void)access_is_loopback(text);
    (void)access_same_host(text, VIEW("127.0.0.1:8383"));
    (void)http_decode(path, data[0] & 1);
    return 0;
}
