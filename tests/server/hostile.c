/* hostile.c - many misbehaving clients at once, from one thread.
 *
 *   hostile_clients PORT CLIENTS SECONDS SEED KEY all|transport|generating
 *
 * transport: none of it makes the engine generate.  generating: well behaved, each client reads
 * long answers, one after another.
 *
 * Each client draws a plan, carries it out, and draws the next one.  A plan has
 * what to send (pipelined requests, broken ones, frames, bursts, prompts of 31 MB, noise),
 * in which pieces, how the answer is read (all, slowly, not at all), and how the client
 * leaves (close, FIN, reset).  Answers are not checked here: tests/server/hostile.py asks
 * the server for its health, and measures other clients.  Prints one line of JSON at its end.
 *
 * It owns its sockets and nothing of the server.  The same seed makes the same plans; how they meet
 * is up to the kernel. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base.h"
#include "base/memory.h"

#include "../random.h"

enum {
    CLIENTS_MAX = 4000,
    PLAN_BYTES_MAX = 4 << 20,
    PROMPT_BYTES = 31 << 20,
    PROMPTS_MAX = 3,  /* in flight at once; a crowd of them is another test */
    REQUESTS_MAX = 6,
    BURST = 2000,
    TICK_MS = 5,
};

typedef enum { READS_ALL = 0, READS_SLOWLY = 1, READS_NOTHING = 2 } reading;
typedef enum { LEAVES_BY_CLOSE = 0, LEAVES_BY_FIN = 1, LEAVES_BY_RESET = 2 } leaving;

typedef struct {
    int fd;                 /* -1: between two plans */
    bytes out;              /* what is sent; kept from plan to plan */
    const char *prompt;     /* sent after it, borrowed; or NULL */
    size_t prompt_bytes;
    size_t sent;            /* of both */
    size_t piece_bytes_max; /* 0: as much as the socket takes */
    uint64_t pause_ns;      /* between two pieces, at most */
    reading reads;
    leaving leaves;
    bool has_fin;           /* FIN was sent */
    bool waits;             /* for the socket to take more */
    uint64_t next_ns;       /* its next step */
    uint64_t end_ns;        /* it leaves then */
} client;

typedef struct {
    uint64_t plans, refused, resets, ends, bytes_in, bytes_out, statuses[6];
} counts;

static struct {
    client *clients;
    uint32_t n;
    int epoll, n_prompts;
    uint16_t port;
    const char *key;
    bool generates, only_generates;
    char *prompt; /* [PROMPT_BYTES] */
    counts counts;
} world;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "hostile_clients: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

/* Below n. */
static uint32_t chance(uint32_t n) { return random_below(n); }

/* ---- what is sent ---- */

static void put(client *c, const void *data, size_t len)
{
    if (bytes_append(&c->out, data, len)) give_up("a plan is too large");
}

static void put_text(client *c, const char *text) { put(c, text, strlen(text)); }

__attribute__((format(printf, 2, 3))) static void put_format(client *c, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK(n >= 0 && n < (int)sizeof text);
    put(c, text, (size_t)n);
}

static void put_noise(client *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) put(c, &(uint8_t){(uint8_t)chance(256)}, 1);
}

static const char *key_line(void)
{
    static char text[256];
    /* One in eight has no key. */
    text[0] = 0;
    if (chance(8)) snprintf(text, sizeof text, "Authorization: Bearer %s\r\n", world.key);
    return text;
}

static void put_post(client *c, const char *path, const char *fields, const char *body)
{
    put_format(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s%sContent-Length: %zu\r\n\r\n%s", path,
               key_line(), fields, strlen(body), body);
}

static void put_get(client *c, const char *method, const char *target, const char *fields)
{
    put_format(c, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", method, target, key_line(),
               fields);
}

/* Batch work: its answers are not tested here.  The first entries make the engine compute. */
enum { COMPUTING_BODIES = 3 };
static const char *const bodies[] = {
    "{\"input\":\"say little\",\"store\":false,\"service_tier\":\"batch\",\"max_output_tokens\":2}",
    "{\"input\":\"say little\",\"stream\":true,\"service_tier\":\"batch\",\"max_output_tokens\":2}",
    "{\"input\":\"say little\",\"stream\":true,\"store\":false,\"generate\":false}",
    "{\"input\":5}",
    "{\"input\":",
    "",
    "{\"input\":\"x\",\"previous_response_id\":\"resp_0\"}",
};

static void put_chunked(client *c)
{
    put_format(c, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n"
               "\r\n4;a=\"b c\"\r\n{\"co\r\nd\r\nntent\":\"abcd\"}\r\n0\r\nX-Sum: 1\r\n\r\n",
               key_line());
}

static void put_request(client *c)
{
    static const char *const targets[] = {
        "/health/live", "/health/ready", "/v1/models", "/metrics", "/", "/nothing", "/v1/models/x",
        "/v1/responses?limit=100", "/v1/responses/resp_0", "/v1/responses/resp_0/input_items",
    };
    const uint32_t from = world.generates ? 0 : COMPUTING_BODIES;
    const char *body = bodies[from + chance(ARRAY_LEN(bodies) - from)];
    const char *target = targets[chance(ARRAY_LEN(targets))];
    switch (chance(10)) {
    case 0: put_post(c, "/tokenize", "", "{\"content\":\"abc\",\"with_pieces\":true}"); break;
    case 1: put_post(c, "/v1/responses", "", body); break;
    case 2: put_post(c, "/v1/responses", "Expect: 100-continue\r\n", body); break;
    case 3: put_chunked(c); break;
    case 4: put_get(c, "POST", "/tokenize", ""); break;
    case 5: put_get(c, "HEAD", target, ""); break;
    case 6: put_get(c, "OPTIONS", target, ""); break;
    case 7: put_get(c, "GET", target, chance(4) ? "" : "Connection: close\r\n"); break;
    case 8: put_get(c, "DELETE", target, ""); break;
    default: put_get(c, "GET", target, ""); break;
    }
}

static void put_requests(client *c)
{
    for (uint32_t n = 1 + chance(REQUESTS_MAX); n; n--) put_request(c);
}

/* Changes some of the bytes. */
static void plan_mutated(client *c)
{
    put_requests(c);
    for (uint32_t n = 1 + chance(4); n; n--)
        c->out.ptr[chance((uint32_t)c->out.len)] = (char)chance(256);
}

static void plan_broken(client *c)
{
    static const char *const broken[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3, 4\r\n\r\nabc",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999999999999\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\n",
        ("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
         "Content-Length: 5\r\n\r\n0\r\n\r\n"),
        "\r\n\r\n\r\n\r\n", "\r", "G",
    };
    put_text(c, broken[chance(ARRAY_LEN(broken))]);
    if (chance(2)) put_noise(c, chance(4096));
}

static void plan_requests(client *c) { put_requests(c); }

static void plan_tls_garbage(client *c)
{
    put(c, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    put_noise(c, chance(1000));
}

static void plan_idle(client *c) { put(c, "GET / HTTP/1.1\r\n", chance(16)); }

/* A byte at a time, for the client's whole life. */
static void plan_endless(client *c)
{
    static const char *const begins[] = {
        "GET / HTTP/1.1\r\nHost: localhost\r\n", "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 4000\r\n\r\n{", "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
        "Transfer-Encoding: chunked\r\n\r\n",
    };
    uint32_t which = chance(ARRAY_LEN(begins));
    put_text(c, begins[which]);
    for (int i = 0; i < 200; i++) put_text(c, which == 2 ? "1\r\n \r\n" : which ? " " : "A: b\r\n");
    c->piece_bytes_max = 4;
    c->pause_ns = UINT64_C(100000000);
}

/* Lists and probabilities of 100 KB to some MB, none of which costs the engine much. */
static void plan_large(client *c)
{
    static char list[65536];
    for (size_t i = 0; i + 1 < sizeof list; i++) list[i] = "0123456789 "[i * 7 % 11];
    switch (chance(world.generates ? 3 : 2)) {
    case 0:
        put_format(c, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n"
                   "{\"with_pieces\":true,\"content\":\"", key_line(), sizeof list - 1 + 32);
        put(c, list, sizeof list - 1);
        put_text(c, "\"}");
        break;
    case 1: put_get(c, "GET", "/v1/responses?limit=100", ""); break;
    default:
        put_post(c, "/v1/chat/completions", "", "{\"messages\":[{\"role\":\"user\",\"content\":"
                 "\"say little\"}],\"stream\":true,\"logprobs\":true,\"top_logprobs\":20,"
                 "\"service_tier\":\"batch\",\"max_tokens\":20}");
    }
}

/* ---- frames ---- */

static void put_frame(client *c, uint8_t first, uint8_t mask, const char *text, size_t len)
{
    uint8_t head[14] = {first, (uint8_t)(mask | len)};
    size_t n = 2;
    if (len > 65535) {
        head[1] = mask | 127;
        for (int i = 0; i < 8; i++) head[2 + i] = (uint8_t)((uint64_t)len >> (56 - 8 * i));
        n = 10;
    } else if (len > 125) {
        head[1] = mask | 126, head[2] = (uint8_t)(len >> 8), head[3] = (uint8_t)len;
        n = 4;
    }
    put(c, head, mask ? n + 4 : n); /* a mask of zeros */
    put(c, text, len);
}

static void put_upgrade(client *c)
{
    put_get(c, "GET", "/v1/responses", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n");
}

static void put_some_frame(client *c)
{
    static const char computes[] = "{\"type\":\"response.create\",\"input\":\"say little\","
                                   "\"store\":false,\"service_tier\":\"batch\","
                                   "\"max_output_tokens\":2}";
    static const char refused[] = "{\"type\":\"response.create\",\"input\":5           ,"
                                  "\"store\":false,\"service_tier\":\"batch\","
                                  "\"max_output_tokens\":2}";
    _Static_assert(sizeof computes == sizeof refused, "one length, below");
    const char *create = world.generates ? computes : refused;
    static const char cancel[] = "{\"type\":\"response.cancel\"}";
    static const uint8_t firsts[] = {0x81, 0x01, 0x00, 0x80, 0x82, 0x88, 0x89, 0x8a, 0xc1, 0x83};
    switch (chance(8)) {
    case 0: put_frame(c, 0x81, 0x80, create, sizeof computes - 1); break;
    case 1: put_frame(c, 0x81, 0x80, cancel, sizeof cancel - 1); break;
    case 2: put_frame(c, 0x89, 0x80, create, chance(sizeof computes)); break;
    case 3: put_frame(c, 0x81, 0x80, "\xff", 1); break;
    case 4: /* in two, with a ping between */
        put_frame(c, 0x01, 0x80, create, 40);
        put_frame(c, 0x89, 0x80, "p", 1);
        put_frame(c, 0x80, 0x80, create + 40, sizeof computes - 41);
        break;
    case 5:
        put_frame(c, firsts[chance(ARRAY_LEN(firsts))], chance(4) ? 0x80 : 0, create,
                  chance(sizeof computes));
        break;
    default: put_frame(c, 0x81, 0x80, "x", 1); break;
    }
}

static void plan_frames(client *c)
{
    put_upgrade(c);
    for (uint32_t n = chance(20); n; n--) put_some_frame(c);
    if (!chance(4)) c->out.ptr[chance((uint32_t)c->out.len)] = (char)chance(256);
}

static void plan_burst(client *c)
{
    put_upgrade(c);
    uint32_t kind = chance(4);
    for (uint32_t i = 0; i < BURST; i++) {
        if (kind == 3 && i % 40 == 0) put_some_frame(c);
        else put_frame(c, kind == 1 ? 0x89 : 0x81, 0x80, "x", kind == 2 ? 0 : 1);
    }
    c->reads = READS_NOTHING;
    c->leaves = (leaving)chance(3);
}

/* A long answer for a reader that reads nothing, or hardly anything: the engine soon stops. */
static void plan_stuck(client *c)
{
    c->reads = chance(2) ? READS_NOTHING : READS_SLOWLY;
    c->end_ns += UINT64_C(1000000000) * (5 + chance(15));
    if (!world.generates) {
        plan_large(c);
        return;
    }
    static const char create[] = "{\"type\":\"response.create\",\"input\":\"talk for long\","
                                 "\"store\":false,\"service_tier\":\"batch\"}";
    if (chance(2)) {
        put_upgrade(c);
        put_frame(c, 0x81, 0x80, create, sizeof create - 1);
    } else {
        put_post(c, "/v1/chat/completions", "", "{\"messages\":[{\"role\":\"user\",\"content\":"
                 "\"talk for long\"}],\"stream\":true,\"logprobs\":true,\"top_logprobs\":20,"
                 "\"service_tier\":\"batch\"}");
    }
}

/* An ordinary turn, read to its end. */
static void plan_generating(client *c)
{
    c->reads = READS_ALL;
    c->leaves = LEAVES_BY_CLOSE;
    c->piece_bytes_max = 0;
    put_format(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
               "Authorization: Bearer %s\r\nConnection: close\r\nContent-Length: 70\r\n\r\n"
               "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"talk for long\"}]}",
               world.key);
    c->end_ns += UINT64_C(60000000000);
}

static void plan_prompt(client *c)
{
    static const char *const paths[] = {"/tokenize", "/v1/responses", "/infill", "/api/show"};
    static const char *const names[] = {"content", "input", "input_prefix", "model"};
    uint32_t which = chance(ARRAY_LEN(paths));
    if (which == 2 && !world.generates) which = 0; /* the others are refused for their length */
    if (world.n_prompts == PROMPTS_MAX) {
        put_requests(c);
        return;
    }
    char begin[64];
    int n = snprintf(begin, sizeof begin, "{\"%s\":\"", names[which]);
    put_format(c, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s",
               paths[which], key_line(), (size_t)n + PROMPT_BYTES, begin);
    c->prompt = world.prompt;
    c->prompt_bytes = PROMPT_BYTES;
    c->end_ns += UINT64_C(10000000000);
    world.n_prompts++;
}

/* Weights, out of 64. */
static const struct {
    uint32_t weight;
    void (*plan)(client *c);
} plans[] = {
    {24, plan_requests}, {6, plan_mutated}, {6, plan_broken}, {8, plan_frames}, {5, plan_burst},
    {3, plan_tls_garbage}, {3, plan_idle}, {3, plan_endless}, {3, plan_large}, {2, plan_stuck},
    {1, plan_prompt},
};

/* ---- a client ---- */

static bool connects(client *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(world.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    /* One address would run out of ports. */
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + chance(200))};
    int one = 1, receive = c->reads == READS_ALL ? 65536 : 4096;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) give_up("socket");
    setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    return !bind(c->fd, (struct sockaddr *)&from, sizeof from) &&
           (!connect(c->fd, (struct sockaddr *)&to, sizeof to) || errno == EINPROGRESS) &&
           !epoll_ctl(world.epoll, EPOLL_CTL_ADD, c->fd, &event);
}

static void leave(client *c, uint64_t now)
{
    if (c->leaves == LEAVES_BY_RESET)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(c->fd);
    if (c->prompt) world.n_prompts--;
    c->fd = -1;
    c->next_ns = now + chance(200) * UINT64_C(1000000);
}

static void begin(client *c, uint64_t now)
{
    static const size_t piece_sizes[] = {0, 0, 0, 1, 7, 64, 1000};
    bytes out = c->out;
    out.len = 0;
    *c = (client){.fd = -1, .out = out, .reads = chance(8) ? READS_ALL : (reading)chance(3),
                  .leaves = (leaving)chance(3), .next_ns = now,
                  .piece_bytes_max = piece_sizes[chance(ARRAY_LEN(piece_sizes))],
                  .end_ns = now + chance(4000) * UINT64_C(1000000)};
    if (c->piece_bytes_max) c->pause_ns = chance(20) * UINT64_C(1000000);
    uint32_t at = chance(64);
    size_t which = 0;
    while (at >= plans[which].weight) at -= plans[which++].weight;
    if (world.only_generates)
        plan_generating(c);
    else
        plans[which].plan(c);
    world.counts.plans++;
    if (!connects(c)) {
        world.counts.refused++;
        leave(c, now);
    }
}

/* False when the connection is over. */
static bool read_some(client *c)
{
    static char chunk[65536];
    size_t most = c->reads == READS_SLOWLY ? 1 + chance(2000) : sizeof chunk;
    for (;;) {
        ssize_t n = recv(c->fd, chunk, most, 0);
        if (n < 0 && errno == EAGAIN) return true;
        if (n < 0) world.counts.resets++;
        if (n == 0) world.counts.ends++;
        if (n <= 0) return false;
        world.counts.bytes_in += (uint64_t)n;
        if (n > 12 && !memcmp(chunk, "HTTP/1.1 ", 9) && chunk[9] >= '1' && chunk[9] <= '5')
            world.counts.statuses[chunk[9] - '0']++;
        if (c->reads == READS_SLOWLY) return true;
    }
}

static bool send_some(client *c, uint64_t now)
{
    size_t all = c->out.len + c->prompt_bytes;
    while (c->sent < all && !c->waits && c->next_ns <= now) {
        bool of_plan = c->sent < c->out.len;
        const char *from = of_plan ? c->out.ptr + c->sent : c->prompt + (c->sent - c->out.len);
        size_t len = of_plan ? c->out.len - c->sent : all - c->sent;
        if (c->piece_bytes_max && of_plan && len > c->piece_bytes_max)
            len = 1 + chance((uint32_t)c->piece_bytes_max);
        ssize_t n = send(c->fd, from, len, MSG_NOSIGNAL);
        if (n < 0) {
            c->waits = errno == EAGAIN;
            if (!c->waits) world.counts.resets++;
            return c->waits;
        }
        c->sent += (size_t)n;
        world.counts.bytes_out += (uint64_t)n;
        if (c->piece_bytes_max && c->pause_ns)
            c->next_ns = now + chance((uint32_t)c->pause_ns);
    }
    if (c->sent == all && c->leaves == LEAVES_BY_FIN && !c->has_fin) {
        shutdown(c->fd, SHUT_WR);
        c->has_fin = true;
    }
    return true;
}

static void step(client *c, uint32_t events, uint64_t now)
{
    if (events & EPOLLOUT) c->waits = false;
    bool continues = !(events & EPOLLERR) && send_some(c, now);
    if (continues && c->reads != READS_NOTHING) continues = read_some(c);
    if (!continues || now >= c->end_ns) leave(c, now);
}

static void turn(uint64_t until)
{
    static struct epoll_event events[512];
    while (clock_ns() < until) {
        int n = epoll_wait(world.epoll, events, ARRAY_LEN(events), TICK_MS);
        uint64_t now = clock_ns();
        for (int i = 0; i < n; i++) {
            client *c = events[i].data.ptr;
            if (c->fd >= 0 && (c->reads != READS_SLOWLY || events[i].events & EPOLLOUT))
                step(c, events[i].events, now);
        }
        /* Timed steps; a slow reader reads a little about every 50 ms. */
        for (uint32_t i = 0; i < world.n; i++) {
            client *c = &world.clients[i];
            if (c->fd < 0 && now >= c->next_ns) begin(c, now);
            else if (c->fd >= 0 && (now >= c->end_ns || (c->sent < c->out.len && c->pause_ns) ||
                                    (c->reads == READS_SLOWLY && !chance(10))))
                step(c, 0, now);
        }
    }
}

static void put_counts(void)
{
    const counts *k = &world.counts;
    printf("{\"plans\": %llu, \"refused\": %llu, \"resets\": %llu, \"ends\": %llu, "
           "\"bytes_in\": %llu, \"bytes_out\": %llu, "
           "\"statuses\": [%llu, %llu, %llu, %llu, %llu]}\n",
           (unsigned long long)k->plans, (unsigned long long)k->refused,
           (unsigned long long)k->resets, (unsigned long long)k->ends,
           (unsigned long long)k->bytes_in, (unsigned long long)k->bytes_out,
           (unsigned long long)k->statuses[1], (unsigned long long)k->statuses[2],
           (unsigned long long)k->statuses[3], (unsigned long long)k->statuses[4],
           (unsigned long long)k->statuses[5]);
}

static void open_world(char **argv)
{
    struct rlimit files;
    uint64_t port, n;
    if (!parse_u64(view_of(argv[1]), &port) || !parse_u64(view_of(argv[2]), &n) ||
        !parse_u64(view_of(argv[4]), &random_state) || port > 65535 || !n || n > CLIENTS_MAX)
        give_up("arguments");
    world.port = (uint16_t)port;
    world.n = (uint32_t)n;
    world.key = argv[5];
    world.only_generates = !strcmp(argv[6], "generating");
    world.generates = strcmp(argv[6], "transport") != 0;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    world.epoll = epoll_create1(EPOLL_CLOEXEC);
    world.clients = memory_zalloc(world.n, sizeof(client));
    world.prompt = memory_alloc(PROMPT_BYTES);
    if (world.epoll < 0 || !world.clients || !world.prompt) give_up("memory");
    for (size_t i = 0; i < PROMPT_BYTES; i++) world.prompt[i] = "int add(a) { 12; } "[i * i % 19];
    memcpy(world.prompt + PROMPT_BYTES - 2, "\"}", 2);
}

int main(int argc, char **argv)
{
    double seconds;
    if (argc != 7 || !parse_f64(view_of(argv[3]), &seconds)) {
        fputs("usage: hostile_clients PORT CLIENTS SECONDS SEED KEY KIND\n", stderr);
        return 2;
    }
    open_world(argv);
    uint64_t now = clock_ns();
    for (uint32_t i = 0; i < world.n; i++)
        world.clients[i] = (client){.fd = -1, .out.max = PLAN_BYTES_MAX,
                                    .next_ns = now + chance(1000) * UINT64_C(1000000)};
    turn(now + (uint64_t)(seconds * 1e9));
    put_counts();
    for (uint32_t i = 0; i < world.n; i++) {
        if (world.clients[i].fd >= 0) close(world.clients[i].fd);
        bytes_free(&world.clients[i].out);
    }
    memory_free(world.clients);
    memory_free(world.prompt);
    close(world.epoll);
    return 0;
}
