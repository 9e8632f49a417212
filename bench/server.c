/* server.c - a server as its clients see it, measured by a client that costs hardly anything.
 *
 *   bench_server roundtrip PORT TLS_PORT N BODY
 *       first event of N small requests: over one open WebSocket, over fresh connections, and from
 *       a process that only echoes as many bytes: the cost of two wake-ups and the kernel
 *   bench_server stream PORT ws|PATH FILE
 *       the requests in FILE, one per line, one after the other; $PREV is the last response's id
 *   bench_server crowd PORT PID IDLE STREAMS FILE
 *       IDLE silent WebSockets, STREAMS with the requests of FILE, all at once
 *
 * Prints one line of JSON for each measurement; bench/server.py runs it.  Everything is on
 * loopback, with blocking reads, so a round trip has two wake-ups of the kernel in it. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memory.h"

enum { BODY_BYTES_MAX = 4 << 20, TIMES_MAX = 1 << 20, SOCKETS_MAX = 8192, ECHO_BYTES = 1400 };

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "bench_server: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

/* ---- figures ---- */

typedef struct {
    double *values;
    size_t n;
} series;

static series series_open(void)
{
    series s = {memory_alloc(TIMES_MAX * sizeof(double)), 0};
    if (!s.values) give_up("memory");
    return s;
}

static void series_add(series *s, double value)
{
    if (s->n < TIMES_MAX) s->values[s->n++] = value;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double series_at(series *s, double share)
{
    if (!s->n) return 0;
    qsort(s->values, s->n, sizeof(double), by_size);
    return s->values[(size_t)(share * (double)(s->n - 1) + 0.5)];
}

/* ---- connections ---- */

typedef struct {
    int fd;
    SSL *tls;   /* or NULL */
    bytes in;   /* not yet read */
    size_t at;  /* read so far of in */
} channel;

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) give_up("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void channel_send(channel *l, const char *data, size_t len)
{
    while (len) {
        ssize_t n = l->tls ? SSL_write(l->tls, data, (int)len) : send(l->fd, data, len, 0);
        if (n <= 0) give_up("send");
        data += n;
        len -= (size_t)n;
    }
}

/* More bytes; false at the end. */
static bool channel_fill(channel *l)
{
    char chunk[65536];
    if (l->at) {
        memmove(l->in.ptr, l->in.ptr + l->at, l->in.len - l->at);
        l->in.len -= l->at;
        l->at = 0;
    }
    ssize_t n = l->tls ? SSL_read(l->tls, chunk, sizeof chunk)
                       : recv(l->fd, chunk, sizeof chunk, 0);
    if (n <= 0) return false;
    if (bytes_append(&l->in, chunk, (size_t)n)) give_up("memory");
    return true;
}

static channel channel_open(uint16_t port)
{
    return (channel){.fd = connect_to(port), .in.max = BODY_BYTES_MAX};
}

static void channel_close(channel *l)
{
    if (l->tls) SSL_free(l->tls);
    close(l->fd);
    bytes_free(&l->in);
}

static channel socket_open(uint16_t port)
{
    static const char upgrade[] =
        "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
    channel l = channel_open(port);
    channel_send(&l, upgrade, sizeof upgrade - 1);
    char *end = NULL;
    while (!end && channel_fill(&l)) end = memmem(l.in.ptr, l.in.len, "\r\n\r\n", 4);
    if (!end || memcmp(l.in.ptr, "HTTP/1.1 101", 12)) give_up("upgrade");
    l.at = (size_t)(end + 4 - l.in.ptr);
    return l;
}

/* A text frame; its mask of zeros leaves the text unchanged. */
static void socket_send(channel *l, view text)
{
    uint8_t head[14] = {0x81, 0x80 | 126, (uint8_t)(text.len >> 8), (uint8_t)text.len};
    size_t n = 8;
    bytes frame = {.max = BODY_BYTES_MAX + 16};
    if (text.len > 65535) {
        head[1] = 0x80 | 127;
        for (int i = 0; i < 8; i++) head[2 + i] = (uint8_t)((uint64_t)text.len >> (56 - 8 * i));
        n = 14;
    } else if (text.len < 126) {
        head[1] = (uint8_t)(0x80 | text.len);
        memset(head + 2, 0, 4);
        n = 6;
    }
    if (bytes_append(&frame, head, n) || bytes_append(&frame, text.ptr, text.len))
        give_up("memory");
    channel_send(l, frame.ptr, frame.len);
    bytes_free(&frame);
}

/* The next received frame; false if it is incomplete. */
static bool socket_next(channel *l, view *payload)
{
    const uint8_t *p = (const uint8_t *)l->in.ptr + l->at;
    size_t have = l->in.len - l->at, head = 2, len;
    if (have < 2) return false;
    len = p[1] & 127;
    if (len == 126) head = 4;
    if (len == 127) head = 10;
    if (have < head) return false;
    if (head > 2) {
        len = 0;
        for (size_t i = 2; i < head; i++) len = len << 8 | p[i];
    }
    if (have - head < len) return false;
    *payload = (view){(const char *)p + head, len};
    l->at += head + len;
    if ((p[0] & 15) == 8) give_up("the server closed");
    return true;
}

static view socket_read(channel *l)
{
    view payload;
    while (!socket_next(l, &payload))
        if (!channel_fill(l)) give_up("the server hung up");
    return payload;
}

static bool has(view text, const char *what)
{
    return memmem(text.ptr, text.len, what, strlen(what)) != NULL;
}

static bool is_last(view event)
{
    view start = {event.ptr, event.len < 64 ? event.len : 64};
    return has(start, "\"response.completed\"") || has(start, "\"response.incomplete\"") ||
           has(start, "\"response.failed\"") || has(start, "\"error\"");
}

static bool is_delta(view event)
{
    view start = {event.ptr, event.len < 64 ? event.len : 64};
    return has(start, "_text.delta\"");
}

/* The number after "name": in text; 0 when it is not there. */
static double number_of(view text, const char *name)
{
    char key[64];
    int len = snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = memmem(text.ptr, text.len, key, (size_t)len);
    return at ? strtod(at + len, NULL) : 0;
}

/* ---- round trips ---- */

/* Waits until the engine has finished the last request's work: its cost is not the trip's.  A
 * processor that slept for longer wakes up slower, for us and for the echo alike. */
static long settle_ns;
static void settle(void) { nanosleep(&(struct timespec){.tv_nsec = settle_ns}, NULL); }

static void put_roundtrip(const char *name, series *s)
{
    printf("{\"roundtrip\": \"%s\", \"after_ms\": %g, \"n\": %zu, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f}\n", name, (double)settle_ns / 1e6, s->n, series_at(s, 0.5),
           series_at(s, 0.99));
    fflush(stdout);
}

static void roundtrip_socket(uint16_t port, int n, view body)
{
    series s = series_open();
    channel l = socket_open(port);
    for (int i = -20; i < n; i++) { /* the first ones warm up */
        settle();
        uint64_t begin = clock_ns();
        socket_send(&l, body);
        view event = socket_read(&l);
        if (i >= 0) series_add(&s, (double)(clock_ns() - begin) / 1000);
        if (!has(event, "response.created")) give_up(event.ptr);
        while (!is_last(event)) event = socket_read(&l);
    }
    channel_close(&l);
    put_roundtrip("websocket", &s);
    memory_free(s.values);
}

/* The child answers each message with the size of a first event. */
static void echo_serve(int listener)
{
    static char chunk[65536];
    int fd = accept(listener, NULL, NULL), one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (poll(&ready, 1, -1) == 1 && recv(fd, chunk, sizeof chunk, 0) > 0)
        if (send(fd, chunk, ECHO_BYTES, MSG_NOSIGNAL) < 0) break;
    _exit(0);
}

static void roundtrip_echo(int n, view body)
{
    static char chunk[ECHO_BYTES];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&at, &len))
        give_up("echo");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) echo_serve(listener);
    series s = series_open();
    channel l = channel_open(ntohs(at.sin_port));
    for (int i = -20; i < n; i++) {
        settle();
        uint64_t begin = clock_ns();
        channel_send(&l, body.ptr, body.len);
        if (recv(l.fd, chunk, sizeof chunk, MSG_WAITALL) != sizeof chunk) give_up("echo");
        if (i >= 0) series_add(&s, (double)(clock_ns() - begin) / 1000);
    }
    channel_close(&l);
    close(listener);
    put_roundtrip("echo", &s);
    memory_free(s.values);
}

static void roundtrip_fresh(uint16_t port, int n, view body, SSL_CTX *context)
{
    series s = series_open();
    char head[256];
    int len = snprintf(head, sizeof head, "POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body.len);
    for (int i = -5; i < n; i++) {
        settle();
        uint64_t begin = clock_ns();
        channel l = channel_open(port);
        if (context) {
            l.tls = SSL_new(context);
            if (!l.tls || !SSL_set_fd(l.tls, l.fd) || SSL_connect(l.tls) != 1) give_up("TLS");
        }
        channel_send(&l, head, (size_t)len);
        channel_send(&l, body.ptr, body.len);
        while (!memmem(l.in.ptr, l.in.len, "response.created", 16))
            if (!channel_fill(&l)) give_up("no event");
        if (i >= 0) series_add(&s, (double)(clock_ns() - begin) / 1000);
        channel_close(&l);
    }
    put_roundtrip(context ? "fresh https" : "fresh http", &s);
    memory_free(s.values);
}

/* The time that the machine takes from a thread that only reads the clock: if that is a hundredth
 * of the time or more, no 99th percentile here is about us. */
static void put_taken(void)
{
    uint64_t begin = clock_ns(), last = begin, taken = 0, now;
    while ((now = clock_ns()) - begin < UINT64_C(3000000000)) {
        if (now - last > 50000) taken += now - last;
        last = now;
    }
    printf("{\"roundtrip\": \"taken away\", \"share\": %.4f}\n", (double)taken / 3e9);
}

static void roundtrips(uint16_t port, uint16_t tls_port, int n, const char *body)
{
    char *streamed = NULL;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    put_taken();
    if (!context || asprintf(&streamed, "%.*s, \"stream\": true}", (int)strlen(body) - 1, body) < 0)
        give_up("memory");
    /* In turn, since the machine's speed changes by the second. */
    for (int turn = 0; turn < 6; turn++) {
        settle_ns = turn % 2 ? 4000000 : 1000000;
        roundtrip_echo(n / 6, view_of(body));
        roundtrip_socket(port, n / 6, view_of(body));
    }
    roundtrip_fresh(port, n / 4, view_of(streamed), NULL);
    if (tls_port) roundtrip_fresh(tls_port, n / 4, view_of(streamed), context);
    SSL_CTX_free(context);
    memory_release(streamed);
}

/* ---- streams ---- */

/* One answer as it comes in. */
typedef struct {
    uint64_t begin, first, last; /* of its deltas; 0 = none yet */
    uint32_t deltas, tokens, cached;
    double gap_ms_max;
    bool done;
} answer;

static void answer_delta(answer *a, series *gaps)
{
    uint64_t now = clock_ns();
    if (!a->first) a->first = now;
    if (a->deltas++) {
        double gap = (double)(now - a->last) / 1e6;
        if (gaps) series_add(gaps, gap);
        if (gap > a->gap_ms_max) a->gap_ms_max = gap;
    }
    a->last = now;
}

static double answer_rate(const answer *a)
{
    uint32_t tokens = a->tokens ? a->tokens : a->deltas;
    return a->last > a->first ? (tokens - 1) / ((double)(a->last - a->first) / 1e9) : 0;
}

static void put_answer(const answer *a, series *gaps)
{
    printf("{\"first_ms\": %.3f, \"deltas\": %u, \"tokens\": %u, \"cached_tokens\": %u, "
           "\"tokens_per_s\": %.1f, \"gap_p50_ms\": %.4f, \"gap_p99_ms\": %.4f}\n",
           a->first ? (double)(a->first - a->begin) / 1e6 : 0, a->deltas, a->tokens, a->cached,
           answer_rate(a), series_at(gaps, 0.5), series_at(gaps, 0.99));
    fflush(stdout);
    gaps->n = 0;
}

static void note_usage(answer *a, view event)
{
    a->tokens = (uint32_t)number_of(event, "output_tokens");
    a->cached = (uint32_t)number_of(event, "cached_tokens");
    a->done = true;
}

static void stream_socket(channel *l, view body, char *previous, size_t cap, series *gaps)
{
    answer a = {.begin = clock_ns()};
    socket_send(l, body);
    while (!a.done) {
        view event = socket_read(l);
        if (is_delta(event)) answer_delta(&a, gaps);
        if (!is_last(event)) continue;
        note_usage(&a, event);
        const char *id = memmem(event.ptr, event.len, "\"resp_", 6);
        if (!id) give_up(event.ptr);
        size_t len = strcspn(id + 1, "\"");
        if (len < cap) {
            memcpy(previous, id + 1, len);
            previous[len] = 0;
        }
    }
    put_answer(&a, gaps);
}

/* Server-sent events: chunks have whole ones, so counting their beginnings is enough. */
static void stream_http(channel *l, const char *path, view body, series *gaps)
{
    char head[256];
    int len = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", path,
                       body.len);
    answer a = {.begin = clock_ns()};
    channel_send(l, head, (size_t)len);
    channel_send(l, body.ptr, body.len);
    while (!a.done) {
        if (!channel_fill(l)) give_up("the server hung up");
        const char *at = l->in.ptr + l->at, *end = l->in.ptr + l->in.len, *event;
        while ((event = memmem(at, (size_t)(end - at), "data: ", 6))) {
            const char *stop = memchr(event, '\n', (size_t)(end - event));
            if (!stop) break;
            view data = {event, (size_t)(stop - event)};
            at = stop;
            if (has(data, "[DONE]") || has(data, "response.completed")) a.done = true;
            if (has(data, "\"usage\":{")) a.tokens = (uint32_t)number_of(data, "completion_tokens");
            if (has(data, "\"content\":\"") || has(data, "\"text\":\"") || is_delta(data))
                answer_delta(&a, gaps);
        }
        l->at = (size_t)(at - l->in.ptr);
    }
    put_answer(&a, gaps);
}

/* Returns owned. */
static char *file_text(const char *path)
{
    bytes text = {.max = BODY_BYTES_MAX};
    char chunk[65536];
    size_t n;
    FILE *f = fopen(path, "re");
    if (!f) give_up(path);
    while ((n = fread(chunk, 1, sizeof chunk, f)))
        if (bytes_append(&text, chunk, n)) give_up(path);
    fclose(f);
    if (bytes_append(&text, "", 1)) give_up(path);
    return text.ptr;
}

static void streams(uint16_t port, const char *how, const char *path)
{
    char *text = file_text(path), previous[128] = "";
    bool socket = !strcmp(how, "ws");
    series gaps = series_open();
    channel l = {.fd = -1};
    for (char *line = text, *end; *line; line = end + 1) {
        bytes body = {.max = BODY_BYTES_MAX};
        if (!(end = strchr(line, '\n'))) break;
        *end = 0;
        char *at = strstr(line, "$PREV");
        size_t before = at ? (size_t)(at - line) : strlen(line);
        if (bytes_append(&body, line, before) ||
            (at && (bytes_append(&body, previous, strlen(previous)) ||
                    bytes_append(&body, at + 5, strlen(at + 5)))))
            give_up("memory");
        if (l.fd < 0) l = socket ? socket_open(port) : channel_open(port);
        if (socket) {
            stream_socket(&l, (view){body.ptr, body.len}, previous, sizeof previous, &gaps);
        } else {
            stream_http(&l, how, (view){body.ptr, body.len}, &gaps);
            channel_close(&l); /* llama.cpp's server may close a keep-alive connection */
            l.fd = -1;
        }
        bytes_free(&body);
    }
    if (l.fd >= 0) channel_close(&l);
    memory_free(gaps.values);
    memory_free(text);
}

/* ---- a crowd ---- */

static double rss_kb(long pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/status", pid);
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[len] = 0;
    const char *at = strstr(text, "VmRSS:");
    return at ? strtod(at + 6, NULL) : 0;
}

/* All answers at once, until the last one ends. */
static void read_all(channel *channels, answer *answers, int n, series *gaps)
{
    struct pollfd polled[SOCKETS_MAX];
    int open = n;
    for (int i = 0; i < n; i++) polled[i] = (struct pollfd){.fd = channels[i].fd, .events = POLLIN};
    while (open) {
        if (poll(polled, (nfds_t)n, 60000) <= 0) give_up("nothing comes");
        for (int i = 0; i < n; i++) {
            view event;
            if (!polled[i].revents) continue;
            if (!channel_fill(&channels[i])) give_up("the server hung up");
            while (socket_next(&channels[i], &event)) {
                if (is_delta(event)) answer_delta(&answers[i], gaps);
                if (!is_last(event)) continue;
                note_usage(&answers[i], event);
                polled[i].fd = -1;
                open--;
            }
        }
    }
}

static void crowd(uint16_t port, long pid, int n_idle, int n_streams, const char *path)
{
    static channel idle[SOCKETS_MAX], busy[SOCKETS_MAX];
    static answer answers[SOCKETS_MAX];
    char *body = file_text(path);
    if (n_idle > SOCKETS_MAX || n_streams > SOCKETS_MAX) give_up("too many");
    body[strcspn(body, "\n")] = 0;
    double before = rss_kb(pid);
    for (int i = 0; i < n_idle; i++) idle[i] = socket_open(port);
    double with_idle = rss_kb(pid);
    series gaps = series_open(), rates = series_open(), firsts = series_open();
    for (int i = 0; i < n_streams; i++) busy[i] = socket_open(port);
    uint64_t begin = clock_ns();
    for (int i = 0; i < n_streams; i++) {
        answers[i] = (answer){.begin = clock_ns()};
        socket_send(&busy[i], view_of(body));
    }
    read_all(busy, answers, n_streams, &gaps);
    double seconds = (double)(clock_ns() - begin) / 1e9, tokens = 0, worst = 0;
    for (int i = 0; i < n_streams; i++) {
        tokens += answers[i].tokens;
        series_add(&rates, answer_rate(&answers[i]));
        series_add(&firsts, (double)(answers[i].first - answers[i].begin) / 1e6);
        if (answers[i].gap_ms_max > worst) worst = answers[i].gap_ms_max;
    }
    printf("{\"idle\": %d, \"kb_per_idle\": %.2f, \"streams\": %d, \"tokens\": %.0f, "
           "\"tokens_per_s\": %.1f, \"rate_min\": %.1f, \"rate_p50\": %.1f, \"rate_max\": %.1f, "
           "\"first_p50_ms\": %.1f, \"first_max_ms\": %.1f, \"gap_p50_ms\": %.2f, "
           "\"gap_p99_ms\": %.2f, \"gap_max_ms\": %.1f}\n",
           n_idle, n_idle ? (with_idle - before) / n_idle : 0, n_streams, tokens, tokens / seconds,
           series_at(&rates, 0), series_at(&rates, 0.5), series_at(&rates, 1),
           series_at(&firsts, 0.5), series_at(&firsts, 1), series_at(&gaps, 0.5),
           series_at(&gaps, 0.99), worst);
    for (int i = 0; i < n_idle; i++) channel_close(&idle[i]);
    for (int i = 0; i < n_streams; i++) channel_close(&busy[i]);
    memory_free(gaps.values);
    memory_free(rates.values);
    memory_free(firsts.values);
    memory_free(body);
}

int main(int argc, char **argv)
{
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    uint16_t port = argc > 2 ? (uint16_t)strtoul(argv[2], NULL, 10) : 0;
    if (argc == 6 && !strcmp(argv[1], "roundtrip")) {
        roundtrips(port, (uint16_t)strtoul(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10),
                   argv[5]);
    } else if (argc == 5 && !strcmp(argv[1], "stream")) {
        streams(port, argv[3], argv[4]);
    } else if (argc == 7 && !strcmp(argv[1], "crowd")) {
        crowd(port, strtol(argv[3], NULL, 10), (int)strtol(argv[4], NULL, 10),
              (int)strtol(argv[5], NULL, 10), argv[6]);
    } else {
        fprintf(stderr, "bench_server: see bench/server.c\n");
        return 2;
    }
    return 0;
}
