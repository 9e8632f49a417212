/* fuzz_wire.c - a whole server over real sockets: whatever one or two clients send, in any
 * pieces, and however they leave, others are served, and nothing is left over.
 *
 * Input: a byte for the kind of clients (plan_of()), the number of pieces, the length of each,
 * then the data; the last piece is the rest.  Answers come from a script. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/memory.h"
#include "server/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PIECES_MAX = 16,
    PATIENCE_MS = 60000, /* for expected data; a fuzzing engine gives up earlier */
    UNREAD_MS = 100,     /* to send to a server that waits for us to read */
    SLOW_BYTES = 32768,  /* in the kernel's buffers; with less, it sends at intervals of its own */
    TOLD_BYTES_MAX = 1 << 20,
};

/* ---- the server ---- */

static struct {
    cerium_engine *engine;
    server *server;
    pthread_t thread;
    uint32_t n_connected;
    long live; /* allocations before it was opened */
} world;

static const char script[] =
    "{\"when\":{\"last\":\"talk\"},\"repeat\":true,\"output\":\"one two three four five six seven "
    "eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen\"}\n"
    "{\"when\":{\"has_tool\":\"f\"},\"repeat\":true,\"output\":\"<tool_call>\\n{\\\"name\\\": "
    "\\\"f\\\", \\\"arguments\\\": {}}\\n</tool_call>\"}\n"
    "{\"repeat\":true,\"output\":\"ok\"}\n";

static void *run_server(void *arg)
{
    cerium_error err;
    (void)arg;
    CHECK(!server_run(world.server, &err));
    return NULL;
}

/* All allocated memory is freed. */
static void close_world(void)
{
    server_stop(world.server);
    CHECK(!pthread_join(world.thread, NULL));
    server_close(&world.server);
    cerium_engine_close(&world.engine);
    CHECK(memory_live() == world.live);
}

static void open_world(void)
{
    cerium_engine_config engine;
    server_config config;
    cerium_error err;
    char path[64];
    int fd = memfd_create("script", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, script, sizeof script - 1) == (ssize_t)sizeof script - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    signal(SIGPIPE, SIG_IGN);
    world.live = memory_live();
    cerium_engine_config_defaults(&engine);
    engine.model_path = "models/cerium-line.gguf";
    engine.threads = 1;
    engine.sessions_max = 16;
    engine.context_tokens_max = 256;
    server_config_defaults(&config);
    config.port = 0;
    config.replay_path = path;
    config.running_max = 4;
    config.drain_s = 5;
    config.quiet = true;
    CHECK(!cerium_engine_open(&world.engine, &engine, &err));
    config.engine = world.engine;
    CHECK(!server_open(&world.server, &config, &err));
    close(fd);
    CHECK(!pthread_create(&world.thread, NULL, run_server, NULL));
    CHECK(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL)); /* so that it is closed after us */
    atexit(close_world);
}

/* ---- a connection ---- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* From one of many addresses: one would run out of ports. */
static int open_connection(int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)server_port(world.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr =
                                   htonl(INADDR_LOOPBACK + 1 + world.n_connected++ % 200)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    CHECK(!bind(fd, (struct sockaddr *)&from, sizeof from));
    CHECK(!connect(fd, (struct sockaddr *)&to, sizeof to));
    CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
    return fd;
}

static void reset_connection(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(fd);
}

/* Reads available data into *told, which may be NULL. False: the server has closed it. */
static bool read_some(int fd, bytes *log)
{
    char scratch[16384];
    ssize_t n;
    while ((n = recv(fd, scratch, sizeof scratch, 0)) > 0)
        if (log) CHECK(!bytes_append(log, scratch, (size_t)n));
    return n < 0 && errno == EAGAIN;
}

static void read_to_end(int fd, bytes *log)
{
    uint64_t end = now_ms() + PATIENCE_MS;
    while (read_some(fd, log)) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        CHECK(now_ms() < end);
        (void)poll(&wait, 1, 1000);
    }
}

/* Sends as far as the server reads; is_slow: reads nothing meanwhile. False: it reads no more. */
static bool send_all(int fd, view what, bool is_slow)
{
    uint64_t end = now_ms() + (is_slow ? UNREAD_MS : PATIENCE_MS);
    for (size_t sent = 0; sent < what.len;) {
        ssize_t n = send(fd, what.ptr + sent, what.len - sent, MSG_NOSIGNAL);
        if (n >= 0) {
            sent += (size_t)n;
            continue;
        }
        if (errno != EAGAIN || (is_slow && now_ms() > end)) return false;
        CHECK(now_ms() < end);
        struct pollfd wait = {.fd = fd, .events = is_slow ? POLLOUT : POLLOUT | POLLIN};
        (void)poll(&wait, 1, 20);
        if (!is_slow && !read_some(fd, NULL)) return false;
    }
    return true;
}

/* ---- other clients ---- */

/* Sum of a metric's samples. */
static double metric(const char *text, const char *name)
{
    double sum = 0;
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if (at[-1] == '\n') sum += strtod(strchr(at, ' '), NULL);
    return sum;
}

/* Checks that a new client is served; returns whether it is the only one left. */
static bool is_quiet(void)
{
    static const view asked = VIEW("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
                                   "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                                   "Connection: close\r\n\r\n");
    bytes log = {.max = TOLD_BYTES_MAX};
    int fd = open_connection(0);
    CHECK(send_all(fd, asked, false));
    read_to_end(fd, &log);
    reset_connection(fd);
    CHECK(!bytes_append(&log, "", 1));
    CHECK(!strncmp(log.ptr, "HTTP/1.1 200 ", 13));
    CHECK(strstr(log.ptr, "\ncerium_open{what=\"connections\"} "));
    bool quiet = metric(log.ptr, "cerium_open{what=\"connections\"}") == 1 &&
                 metric(log.ptr, "cerium_waiting_bytes{way=\"in\"}") == 0 &&
                 metric(log.ptr, "cerium_requests_running{") == 0 &&
                 metric(log.ptr, "cerium_requests_waiting{") == 0;
    bytes_free(&log);
    return quiet;
}

static void await_quiet(void)
{
    uint64_t end = now_ms() + PATIENCE_MS;
    for (long ms = 1; !is_quiet(); ms = ms < 20 ? 2 * ms : ms) {
        struct timespec wait = {.tv_nsec = ms * 1000000};
        CHECK(now_ms() < end);
        nanosleep(&wait, NULL);
    }
}

/* ---- the clients ---- */

typedef enum {
    SAYS_BYTES = 0,    /* unchanged */
    SAYS_FRAMES = 1,   /* unchanged, after an upgrade */
    SAYS_MESSAGES = 2, /* each piece as a message, or part of one */
    SAYS_BODIES = 3,   /* each piece as the body of a request */
} speech;
typedef enum { LEAVES_BY_CLOSE = 0, LEAVES_BY_FIN = 1, LEAVES_BY_RESET = 2 } leaving;

typedef struct {
    speech speech;
    leaving leaves;
    bool is_slow;     /* reads nothing until it leaves, with a small buffer */
    bool takes_turns; /* another client is served between two pieces */
    bool are_two;     /* each sends every second piece */
    bool in_parts;    /* messages in several frames, bodies in chunks */
    uint32_t n_pieces;
    size_t lengths[PIECES_MAX];
    view bytes;
} plan;

static plan plan_of(const uint8_t *data, size_t size)
{
    uint8_t mode = data[0];
    plan p = {.speech = (speech)(mode & 3), .leaves = (leaving)((mode >> 2 & 3) % 3),
              .is_slow = mode & 16, .takes_turns = mode & 32, .are_two = mode & 64,
              .in_parts = mode & 128, .n_pieces = 1};
    size_t used = 1, n = size > 1 ? data[used++] % PIECES_MAX : 0;
    for (; p.n_pieces <= n && used < size; used++)
        p.lengths[p.n_pieces++ - 1] = data[used] < 200 ? data[used] : (data[used] - 199) * 64u;
    p.bytes = (view){(const char *)data + used, size - used};
    p.lengths[p.n_pieces - 1] = SIZE_MAX;
    return p;
}

/* A frame with a mask of zeros. */
static void put_frame(bytes *out, uint8_t first, view payload)
{
    uint8_t head[8] = {first, (uint8_t)(0x80 | payload.len)};
    size_t n = 2;
    if (payload.len > 125) {
        head[1] = 0x80 | 126, head[2] = (uint8_t)(payload.len >> 8), head[3] = (uint8_t)payload.len;
        n = 4;
    }
    CHECK(payload.len <= UINT16_MAX);
    CHECK(!bytes_append(out, head, n + 4) && !bytes_append(out, payload.ptr, payload.len));
}

static void put_message(bytes *out, bool in_parts, view text)
{
    size_t half = text.len / 2;
    if (!in_parts) {
        put_frame(out, 0x81, text);
        return;
    }
    put_frame(out, 0x01, (view){text.ptr, half});
    put_frame(out, 0x89, VIEW("ping"));
    put_frame(out, 0x80, (view){text.ptr + half, text.len - half});
}

/* Its first byte chooses the route. */
static void put_body(bytes *out, bool in_parts, view body)
{
    static const char *const paths[] = {"/v1/responses",         "/v1/chat/completions",
                                        "/v1/completions",       "/infill",
                                        "/tokenize",             "/v1/responses/compact",
                                        "/v1/responses/x/cancel"};
    char head[256];
    if (!body.len) return;
    const char *path = paths[(uint8_t)body.ptr[0] % ARRAY_LEN(paths)];
    body = (view){body.ptr + 1, body.len - 1};
    int n = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\n", path);
    n += in_parts ? snprintf(head + n, sizeof head - (size_t)n,
                             "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body.len)
                  : snprintf(head + n, sizeof head - (size_t)n, "Content-Length: %zu\r\n\r\n",
                             body.len);
    CHECK(!bytes_append(out, head, (size_t)n) && !bytes_append(out, body.ptr, body.len));
    if (in_parts) CHECK(!bytes_append(out, "\r\n0\r\n\r\n", body.len ? 7 : 2));
}

static void put_piece(bytes *out, const plan *p, view piece)
{
    out->len = 0;
    if (p->speech == SAYS_MESSAGES)
        put_message(out, p->in_parts, piece);
    else if (p->speech == SAYS_BODIES)
        put_body(out, p->in_parts, piece);
    else
        CHECK(!bytes_append(out, piece.ptr, piece.len));
}

static void send_pieces(const plan *p, const int *fds, int n_fds)
{
    static const view upgrade = VIEW("GET /v1/responses HTTP/1.1\r\nHost: localhost\r\n"
                                     "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                                     "Sec-WebSocket-Version: 13\r\n"
                                     "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
    bytes out = {.max = TOLD_BYTES_MAX};
    view rest = p->bytes;
    if (p->speech == SAYS_FRAMES || p->speech == SAYS_MESSAGES)
        for (int i = 0; i < n_fds; i++) CHECK(send_all(fds[i], upgrade, p->is_slow));
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        size_t len = p->lengths[i] < rest.len ? p->lengths[i] : rest.len;
        put_piece(&out, p, (view){rest.ptr, len});
        rest = (view){rest.ptr + len, rest.len - len};
        if (!send_all(fds[i % (uint32_t)n_fds], (view){out.ptr, out.len}, p->is_slow)) break;
        if (p->takes_turns) (void)is_quiet();
    }
    bytes_free(&out);
}

/* A client that has shut down sending is answered, then closed. */
static void leave(const plan *p, int fd)
{
    if (p->leaves == LEAVES_BY_RESET) {
        reset_connection(fd);
        return;
    }
    if (p->leaves == LEAVES_BY_FIN) {
        (void)shutdown(fd, SHUT_WR);
        read_to_end(fd, NULL);
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || size > UINT16_MAX) return 0;
    if (!world.server) open_world();
    plan p = plan_of(data, size);
    int fds[2], n = p.are_two ? 2 : 1;
    for (int i = 0; i < n; i++) fds[i] = open_connection(p.is_slow ? SLOW_BYTES : 0);
    send_pieces(&p, fds, n);
    for (int i = 0; i < n; i++) leave(&p, fds[i]);
    await_quiet();
    return 0;
}
