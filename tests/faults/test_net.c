/* test_net.c - every allocation fails in turn: reading requests and frames returns an error, leaks
 * nothing, and succeeds when memory is there again. */
#include "net/http1.h"
#include "net/websocket.h"

#include "faults.h"

static const view request = VIEW("POST /v1/responses?a=b HTTP/1.1\r\nHost: a\r\nX-Long: "
                                 "0123456789012345678901234567890123456789\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");

/* 0: it was read; otherwise the status of the refusal; -1: there is no reader. */
static int read_request(void)
{
    http_reader *r = http_reader_open();
    bytes body = {.max = 64};
    http_progress progress = HTTP_READ_MORE;
    if (!r) return -1;
    for (size_t begin = 0, used; progress < HTTP_READ_WHOLE; begin += used)
        progress =
            http_reader_feed(r, (view){request.ptr + begin, request.len - begin}, &body, &used);
    int status = progress == HTTP_READ_BAD ? http_reader_status(r) : 0;
    http_reader_close(&r);
    bytes_free(&body);
    return status;
}

static void test_request(void)
{
    int status = -1;
    long live = memory_live(), n = 0;
    for (; status; n++) {
        memory_fail_at(n);
        status = read_request();
        memory_fail_at(-1);
        CHECK_THAT(status == 0 || status == -1 || status == 500, n);
        CHECK_THAT(memory_live() == live, n);
        if (n > 100) break;
    }
    CHECK_THAT(n > 2 && !status, n);
    passed++;
}

typedef struct {
    bool got;
    bytes sent;
} peer;

static void on_message(void *user, bytes *text)
{
    peer *p = user;
    p->got = view_equal((view){text->ptr, text->len}, VIEW("hello"));
}

static bool on_gather(void *user, ptrdiff_t more)
{
    (void)user;
    return more >= 0;
}

static int on_send(void *user, view frame)
{
    peer *p = user;
    return bytes_append(&p->sent, frame.ptr, frame.len);
}

/* "hello" in two frames, masked with zeros; the answer is sent back.  True: all of it succeeded. */
static bool exchange(void)
{
    static const websocket_events events = {
        .message = on_message, .gathers = on_gather, .send = on_send};
    static const view frames = VIEW("\x01\x83\0\0\0\0hel\x80\x82\0\0\0\0lo");
    peer p = {.sent = {.max = 4096}};
    size_t used;
    websocket *w = websocket_open(64, &events, &p);
    if (!w) return false;
    bool good = websocket_feed(w, frames, 4, &used) && p.got && !websocket_send(w, VIEW("hi"));
    websocket_close(&w);
    bytes_free(&p.sent);
    return good;
}

static void test_websocket(void)
{
    bool good = false;
    long live = memory_live(), n = 0;
    for (; !good && n < 100; n++) {
        memory_fail_at(n);
        good = exchange();
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == live, n);
    }
    CHECK_THAT(n > 2 && good, n);
    passed++;
}

int main(void)
{
    test_request();
    test_websocket();
    printf("faults net: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
