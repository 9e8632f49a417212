/* test_net.c - HTTP/1.1 and WebSocket as bytes: accepted and refused input, for any cuts.
 */
#include "net/http1.h"
#include "net/websocket.h"
#include "unit.h"

/* ---- requests ---- */

#define HEAD "POST /tokenize HTTP/1.1\r\nHost: a\r\n"

/* The status with which a text is refused; 0: complete; -1: incomplete. */
static int read_one(view text, size_t cut, bytes *body)
{
    http_reader *r = http_reader_open();
    int result = -1;
    body->len = 0;
    for (size_t begin = 0, end = 0; result < 0;) {
        size_t used;
        http_progress progress =
            http_reader_feed(r, (view){text.ptr + begin, end - begin}, body, &used);
        begin += used;
        if (progress == HTTP_READ_WHOLE) result = 0;
        if (progress == HTTP_READ_BAD) result = http_reader_status(r);
        if (progress != HTTP_READ_MORE) continue;
        if (end == text.len) break;
        end = text.len - end < cut ? text.len : end + cut;
    }
    http_reader_close(&r);
    return result;
}

#define TRAILERS HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"

typedef struct {
    const char *name;
    view text;
    int status;
    const char *body;
} request_case;

static const request_case requests[] = {
    {"plain", VIEW(HEAD "Content-Length: 3\r\n\r\nabc"), 0, "abc"},
    {"no body", VIEW(HEAD "\r\n"), 0, ""},
    {"empty lines first", VIEW("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 0, ""},
    {"chunks", VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n"), 0,
     "abc"},
    {"absolute form", VIEW("GET http://b:1/c?d HTTP/1.1\r\nHost: a\r\n\r\n"), 0, ""},
    {"asterisk form", VIEW("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), 0, ""},
    {"HTTP/1.0 without a host", VIEW("GET / HTTP/1.0\r\n\r\n"), 0, ""},
    {"more must come", VIEW(HEAD "Content-Length: 4\r\n\r\nabc"), -1, "abc"},
    {"blank before the colon", VIEW(HEAD "Content-Length : 3\r\n\r\nabc"), 400, NULL},
    {"tab before the colon", VIEW(HEAD "Content-Length\t: 3\r\n\r\nabc"), 400, NULL},
    {"blank before any colon", VIEW(HEAD "X : 3\r\n\r\n"), 400, NULL},
    {"blank within a name", VIEW(HEAD "X Y: 3\r\n\r\n"), 400, NULL},
    {"NUL in a name", VIEW(HEAD "X\0Y: 3\r\n\r\n"), 400, NULL},
    {"NUL in a value", VIEW(HEAD "X: a\0b\r\n\r\n"), 400, NULL},
    {"control byte in a value",
     VIEW(HEAD "X: a\x01"
               "b\r\n\r\n"),
     400, NULL},
    {"no name", VIEW(HEAD ": 3\r\n\r\n"), 400, NULL},
    {"a name with a bracket", VIEW(HEAD "X(: 3\r\n\r\n"), 400, NULL},
    {"folded", VIEW(HEAD "X: a\r\n b\r\n\r\n"), 400, NULL},
    {"folded by a tab", VIEW(HEAD "X: a\r\n\tb\r\n\r\n"), 400, NULL},
    {"folded coding", VIEW(HEAD "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"), 400, NULL},
    {"folded before the first field", VIEW("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400, NULL},
    {"two lengths", VIEW(HEAD "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), 400, NULL},
    {"a list of lengths", VIEW(HEAD "Content-Length: 3, 3\r\n\r\nabc"), 400, NULL},
    {"+3", VIEW(HEAD "Content-Length: +3\r\n\r\nabc"), 400, NULL},
    {"-3", VIEW(HEAD "Content-Length: -3\r\n\r\nabc"), 400, NULL},
    {"0x3", VIEW(HEAD "Content-Length: 0x3\r\n\r\nabc"), 400, NULL},
    {"no length", VIEW(HEAD "Content-Length:\r\n\r\nabc"), 400, NULL},
    {"beyond 64 bits", VIEW(HEAD "Content-Length: 99999999999999999999\r\n\r\n"), 400, NULL},
    {"length and chunks",
     VIEW(HEAD "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400, NULL},
    {"chunks and length",
     VIEW(HEAD "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n"), 400, NULL},
    {"gzip, chunked", VIEW(HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501, NULL},
    {"chunked, gzip", VIEW(HEAD "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"), 400, NULL},
    {"xchunked", VIEW(HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"), 501, NULL},
    {"chunks in HTTP/1.0", VIEW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
     400, NULL},
    {"chunk of 0x3", VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"), 400,
     NULL},
    {"chunk of ' 3'", VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n 3\r\nabc\r\n0\r\n\r\n"), 400,
     NULL},
    {"chunk of '3 '", VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n"), 400,
     NULL},
    {"chunk of -1", VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n"), 400,
     NULL},
    {"chunk of 2^68",
     VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400,
     NULL},
    {"a chunk longer than it says",
     VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"), 400, NULL},
    {"trailers", VIEW(TRAILERS "X-A: b\r\nContent-Length: 9\r\n\r\n"), 0, "abc"},
    {"a blank in a trailer's name", VIEW(TRAILERS "X : b\r\n\r\n"), 400, NULL},
    {"a trailer without a name", VIEW(TRAILERS ": b\r\n\r\n"), 400, NULL},
    {"a later trailer without a name", VIEW(TRAILERS "X: b\r\n: b\r\n\r\n"), 400, NULL},
    {"a trailer without a colon", VIEW(TRAILERS "X\r\n\r\n"), 400, NULL},
    {"a folded trailer", VIEW(TRAILERS "X: b\r\n c\r\n\r\n"), 400, NULL},
    {"a trailer folded by a tab", VIEW(TRAILERS "X: b\r\n\tc\r\n\r\n"), 400, NULL},
    {"a trailer folded at once", VIEW(TRAILERS " X: b\r\n\r\n"), 400, NULL},
    {"a trailer of a blank", VIEW(TRAILERS " \r\n\r\n"), 400, NULL},
    {"NUL in a trailer", VIEW(TRAILERS "X: a\0b\r\n\r\n"), 400, NULL},
    {"a body of 65 bytes",
     VIEW(HEAD "Transfer-Encoding: chunked\r\n\r\n41\r\n"
               "0123456789012345678901234567890123456789012345678901234567890123456"),
     413, NULL},
    {"bare LF", VIEW("GET / HTTP/1.1\nHost: a\n\n"), 400, NULL},
    {"bare CR", VIEW("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), 400, NULL},
    {"no host", VIEW("GET / HTTP/1.1\r\n\r\n"), 400, NULL},
    {"two hosts", VIEW("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400, NULL},
    {"a host with a path", VIEW("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400, NULL},
    {"a port that is no number", VIEW("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"), 400, NULL},
    {"an IPv6 host", VIEW("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 0, ""},
    {"two hosts in one", VIEW("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), 400, NULL},
    {"a foreign scheme", VIEW("GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL},
    {"no path", VIEW("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL},
    {"a target beyond ASCII", VIEW("GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL},
    {"a fragment", VIEW("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"), 400, NULL},
    {"CONNECT", VIEW("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"), 501, NULL},
    {"an unknown method", VIEW("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), 501, NULL},
    {"a method in small letters", VIEW("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 501, NULL},
    {"HTTP/2.0", VIEW("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505, NULL},
    {"HTTP/2's preface", VIEW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505, NULL},
    {"HTTP/1.2", VIEW("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505, NULL},
    {"HTTP/0.9", VIEW("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505, NULL},
    {"a blank behind the version", VIEW("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 505, NULL},
    {"an unknown expectation", VIEW(HEAD "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na"), 417,
     NULL},
    {"TLS", VIEW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 501, NULL},
};

static void test_requests(void)
{
    bytes body = {.max = 64};
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        const request_case *c = &requests[i];
        for (size_t cut = 1; cut <= c->text.len; cut++) {
            int status = read_one(c->text, cut, &body);
            TEST_CHECK_THAT(status == c->status, "%s: %d with cuts of %zu", c->name, status, cut);
            if (status != c->status) break;
            if (c->body) TEST_CHECK(view_equal((view){body.ptr, body.len}, view_of(c->body)));
        }
    }
    bytes_free(&body);
}

/* A head of many fields, or of a long one. */
static int read_large(const char *begin, const char *repeated, size_t times, size_t cut)
{
    bytes text = {.max = 8 << 20}, body = {.max = 64};
    (void)!bytes_append(&text, begin, strlen(begin));
    for (size_t i = 0; i < times; i++) (void)!bytes_append(&text, repeated, strlen(repeated));
    int status = read_one((view){text.ptr, text.len}, cut, &body);
    bytes_free(&text);
    bytes_free(&body);
    return status;
}

static void test_bounds(void)
{
    static const size_t cuts[] = {1, 7, 4096, SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        TEST_CHECK(read_large("GET / HTTP/1.1\r\nHost: a\r\n", "X: y\r\n", 5000, cuts[i]) == 431);
        TEST_CHECK(read_large("GET / HTTP/1.1\r\nHost: a\r\n", "X:\r\n", 300, cuts[i]) == 431);
        TEST_CHECK(read_large("GET / HTTP/1.1\r\nX: ", "aaaaaaaa", 1 << 17, cuts[i]) == 431);
        TEST_CHECK(read_large("GET / HTTP/1.1\r\n", "aaaaaaaa", 1 << 17, cuts[i]) == 431);
        TEST_CHECK(read_large("GET /", "aaaaaaaa", 1 << 17, cuts[i]) == 414);
        /* Bytes around chunks, and after them, are bounded as well. */
        TEST_CHECK(read_large(HEAD "Transfer-Encoding: chunked\r\n\r\n1;", "aaaaaaaa", 1 << 17,
                              cuts[i]) == 400);
        TEST_CHECK(read_large(HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n", 1 << 17,
                              cuts[i]) == 400);
    }
}

static void test_pipeline(void)
{
    static const view text =
        VIEW("GET /a/?x=1&y=a%2Bb+c HTTP/1.1\r\nHost: h:1\r\n\r\n" HEAD
             "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
             "POST /b HTTP/1.1\r\nhOST: h\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi");
    static const char *const paths[] = {"/a/", "/tokenize", "/b"}, *const bodies[] = {"", "abc",
                                                                                      "hi"};
    for (size_t cut = 1; cut <= text.len; cut++) {
        http_reader *r = http_reader_open();
        bytes body = {.max = 64};
        size_t n = 0, used;
        for (size_t begin = 0, end = 0; n < 3;) {
            http_progress progress =
                http_reader_feed(r, (view){text.ptr + begin, end - begin}, &body, &used);
            begin += used;
            TEST_CHECK(progress != HTTP_READ_BAD);
            if (progress == HTTP_READ_MORE && end == text.len) break;
            if (progress == HTTP_READ_MORE) end = text.len - end < cut ? text.len : end + cut;
            if (progress != HTTP_READ_WHOLE) continue;
            char argument[16];
            TEST_CHECK(!strcmp(http_reader_path(r), paths[n]));
            TEST_CHECK(view_equal((view){body.ptr, body.len}, view_of(bodies[n])));
            TEST_CHECK(http_reader_keeps_alive(r) == (n < 2));
            TEST_CHECK(http_argument_of(http_reader_query(r), "y", argument, sizeof argument) ==
                       !n);
            if (!n) TEST_CHECK(!strcmp(argument, "a+b c") && !strcmp(http_reader_host(r), "h:1"));
            body.len = 0;
            n++;
            http_reader_begin(r);
        }
        TEST_CHECK(n == 3);
        bytes_free(&body);
        http_reader_close(&r);
    }
}

/* ---- WebSocket ---- */

typedef struct {
    char got[256];
    bytes sent;
    ptrdiff_t gathered, most;
    ptrdiff_t room; /* for assembled messages */
} peer;

/* Accepts every second message. */
static void on_message(void *user, bytes *text)
{
    peer *p = user;
    size_t n = strlen(p->got);
    snprintf(p->got + n, sizeof p->got - n, "%.*s|", (int)text->len, text->ptr ? text->ptr : "");
    if (n % 2) bytes_free(text);
}

static bool on_gather(void *user, ptrdiff_t more)
{
    peer *p = user;
    if (p->gathered + more > p->room) return false;
    p->gathered += more;
    if (p->gathered > p->most) p->most = p->gathered;
    return true;
}

static int on_send(void *user, view frame)
{
    peer *p = user;
    return bytes_append(&p->sent, frame.ptr, frame.len);
}

static const websocket_events events = {
    .message = on_message, .gathers = on_gather, .send = on_send};

/* A masked frame after *out. */
static void put_frame(bytes *out, uint8_t first, const char *payload, size_t len)
{
    unsigned char head[14] = {first, (unsigned char)(0x80 | (len < 126 ? len : 126))};
    size_t n = 2;
    if (len >= 126) {
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        n = 4;
    }
    memcpy(head + n, "\1\2\3\4", 4);
    (void)!bytes_append(out, head, n + 4);
    for (size_t i = 0; i < len; i++) {
        char c = (char)(payload[i] ^ "\1\2\3\4"[i % 4]);
        (void)!bytes_append(out, &c, 1);
    }
}

/* The code of the closing frame that was sent; 0: none. */
static int close_code(const peer *p)
{
    for (size_t i = 0; i + 1 < p->sent.len;) {
        const unsigned char *f = (const unsigned char *)p->sent.ptr + i;
        if (f[0] == 0x88) return f[1] >= 2 ? f[2] << 8 | f[3] : 1005;
        i += 2 + (f[1] & 127);
    }
    return 0;
}

static bool feed_all(websocket *w, view text, size_t cut)
{
    for (size_t begin = 0, end = 0; begin < text.len;) {
        size_t used;
        if (begin == end) end = text.len - end < cut ? text.len : end + cut;
        if (!websocket_feed(w, (view){text.ptr + begin, end - begin}, 2, &used)) return false;
        begin += used;
    }
    return true;
}

typedef struct {
    const char *name;
    struct {
        uint8_t first;
        const char *payload;
        size_t len;
    } frames[4];
    const char *got;
    int code;
} frame_case;

static const char long_ping[126];

static const frame_case cases[] = {
    {"two messages", {{0x81, "a", 1}, {0x81, "b", 1}}, "a|b|", 0},
    {"an empty message", {{0x81, "", 0}}, "|", 0},
    {"in pieces, with a ping between",
     {{0x01, "ab", 2}, {0x89, "p", 1}, {0x00, "c", 1}, {0x80, "d", 1}},
     "abcd|",
     0},
    {"UTF-8 in two pieces", {{0x01, "\xc3", 1}, {0x80, "\xa9", 1}}, "\xc3\xa9|", 0},
    {"bad UTF-8", {{0x81, "\xff\xfe", 2}}, "", 1007},
    {"UTF-8 that does not end", {{0x81, "\xc3", 1}}, "", 1007},
    {"binary", {{0x82, "x", 1}}, "", 1003},
    {"too long", {{0x81, "0123456789abcdef0", 17}}, "", 1009},
    {"too long in pieces", {{0x01, "0123456789", 10}, {0x80, "0123456789", 10}}, "", 1009},
    {"reserved bits", {{0xc1, "x", 1}}, "", 1002},
    {"an unknown opcode", {{0x83, "x", 1}}, "", 1002},
    {"an unknown control opcode", {{0x8b, "", 0}}, "", 1002},
    {"a ping in pieces", {{0x09, "x", 1}}, "", 1002},
    {"a ping of 126 bytes", {{0x89, long_ping, 126}}, "", 1002},
    {"a continuation of nothing", {{0x80, "x", 1}}, "", 1002},
    {"a message within a message", {{0x01, "x", 1}, {0x81, "y", 1}}, "", 1002},
    {"a close", {{0x81, "a", 1}, {0x88, "\x03\xe8", 2}, {0x81, "b", 1}}, "a|", 1000},
    {"a close of one byte", {{0x88, "\x03", 1}}, "", 1002},
    {"a close of one byte behind a message", {{0x81, "a", 1}, {0x88, "\x03", 1}}, "a|", 1002},
    {"a close without a code", {{0x81, "a", 1}, {0x88, "", 0}}, "a|", 1005},
    {"a close code that none may send", {{0x88, "\x03\xed", 2}}, "", 1002},
};

static void test_frames(void)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const frame_case *c = &cases[i];
        bytes text = {.max = 4096};
        for (size_t k = 0; k < 4 && c->frames[k].payload; k++)
            put_frame(&text, c->frames[k].first, c->frames[k].payload, c->frames[k].len);
        for (size_t cut = 1; cut <= text.len; cut++) {
            peer p = {.sent = {.max = 4096}, .room = 1 << 20};
            websocket *w = websocket_open(16, &events, &p);
            bool continues = feed_all(w, (view){text.ptr, text.len}, cut);
            int code = close_code(&p);
            bool good = !strcmp(p.got, c->got) && code == c->code && continues == !c->code;
            TEST_CHECK_THAT(good, "%s: told %s, code %d, cuts of %zu", c->name, p.got, code, cut);
            websocket_close(&w);
            TEST_CHECK(p.gathered == 0);
            bytes_free(&p.sent);
            if (!good) break;
        }
        bytes_free(&text);
    }
}

/* A frame is refused by its head alone, and the messages before it are delivered. */
static void test_promises(void)
{
    static const struct {
        const char *name;
        view text;
        int code;
    } heads[] = {
        {"too long", VIEW("\x81\x91"), 1009},
        {"16 bits", VIEW("\x81\xfe\x01\x00"), 1009},
        {"64 bits", VIEW("\x81\xff\x00\x00\x00\x00\x02\x00\x00\x01"), 1009},
        {"63 bits", VIEW("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"), 1009},
        {"too long in pieces", VIEW("\x01\x8a\0\0\0\0" "0123456789" "\x80\x87"), 1009},
        {"too long after a ping", VIEW("\x01\x8a\0\0\0\0" "0123456789" "\x89\x80\0\0\0\0"
                                        "\x00\x87"), 1009},
        {"binary", VIEW("\x82\x81"), 1003},
        {"a close of one byte", VIEW("\x88\x81"), 1002},
        {"as long as may be", VIEW("\x81\x90"), 0},
        {"as long as may be, in pieces", VIEW("\x01\x8a\0\0\0\0" "0123456789" "\x80\x86"), 0},
        {"a new message", VIEW("\x81\x8a\0\0\0\0" "0123456789" "\x81\x90"), 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        for (size_t cut = 1; cut <= heads[i].text.len + 7; cut++) {
            peer p = {.sent = {.max = 4096}, .room = 1 << 20};
            bytes text = {.max = 4096};
            websocket *w = websocket_open(16, &events, &p);
            put_frame(&text, 0x81, "a", 1);
            (void)!bytes_append(&text, heads[i].text.ptr, heads[i].text.len);
            bool continues = feed_all(w, (view){text.ptr, text.len}, cut);
            int code = close_code(&p);
            TEST_CHECK_THAT(code == heads[i].code && continues == !code, "%s: code %d, cuts of %zu",
                            heads[i].name, code, cut);
            TEST_CHECK(!strncmp(p.got, "a|", 2));
            websocket_close(&w);
            bytes_free(&p.sent);
            bytes_free(&text);
        }
}

/* An unmasked frame; a length with its top bit set. */
static void test_bad_heads(void)
{
    static const view bad[] = {VIEW("\x81\x01"
                                    "a"),
                               VIEW("\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
                               VIEW("\x81\xfe\x00\x01\1\2\3\4"
                                    "a")};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        peer p = {.sent = {.max = 4096}, .room = 1 << 20};
        websocket *w = websocket_open(16, &events, &p);
        TEST_CHECK(!feed_all(w, bad[i], bad[i].len) && close_code(&p) == 1002 && !p.got[0]);
        websocket_close(&w);
        bytes_free(&p.sent);
    }
}

static void test_gathering(void)
{
    static char part[60000];
    memset(part, 'x', sizeof part);
    for (int full = 0; full < 2; full++) {
        peer p = {.sent = {.max = 4096}, .room = full ? 200000 : 1 << 20};
        websocket *w = websocket_open(1 << 20, &events, &p);
        bytes text = {.max = 1 << 20};
        for (int i = 0; i < 10; i++) put_frame(&text, i ? 0x00 : 0x01, part, sizeof part);
        bool continues = feed_all(w, (view){text.ptr, text.len}, 4096);
        TEST_CHECK(continues == !full && close_code(&p) == (full ? 1013 : 0));
        TEST_CHECK(p.most <= p.room && (full || p.most > 500000));
        websocket_close(&w);
        TEST_CHECK(p.gathered == 0);
        bytes_free(&p.sent);
        bytes_free(&text);
    }
}

static void test_accept(void)
{
    char out[WEBSOCKET_ACCEPT_BYTES];
    /* The example of RFC 6455, 1.3. */
    TEST_CHECK(websocket_accept("dGhlIHNhbXBsZSBub25jZQ==", out));
    TEST_CHECK(!strcmp(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    TEST_CHECK(!websocket_accept("", out) && !websocket_accept("dGhlIHNhbXBsZSBub25jZQ=", out));
    TEST_CHECK(!websocket_accept("dGhlIHNhbXBsZSBub25jZQ!=", out));
    TEST_CHECK(!websocket_accept("dGhlIHNhbXBsZSBub25j!!==", out));
}

int main(void)
{
    TEST_RUN(test_requests);
    TEST_RUN(test_bounds);
    TEST_RUN(test_pipeline);
    TEST_RUN(test_frames);
    TEST_RUN(test_promises);
    TEST_RUN(test_bad_heads);
    TEST_RUN(test_gathering);
    TEST_RUN(test_accept);
    return unit_report("net");
}
