/* demo.c - a client like any other: a separate thread, a blocking socket, OpenSSL and wslay.  It
 * always shows either code or the reason for none. */
#include "server/demo.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <wslay/wslay.h>

#include "base/json.h"
#include "base/thread.h"

enum {
    ANSWER_TOKENS = 64,
    MESSAGE_BYTES_MAX = 1 << 20,
    HEAD_BYTES_MAX = 4096,
    AUTHORITY_BYTES_MAX = 300,
};

/* Texts to try if the model adds nothing to the given one: the bundled model completes these. */
static const char *const places[] = {
    "class Point:\n"
    "    def __init__(self, x, y):\n"
    "        self.x = x\n"
    "        self.y = y\n"
    "\n"
    "    def __add__(self, other):\n"
    "        return Point(self.x + other.x, self.y + other.y)\n"
    "\n"
    "    def __sub__",
    "static void clear(int *values, int n)\n"
    "{\n"
    "    int i;\n"
    "\n"
    "    for (",
    "def read(path):\n"
    "    try:\n"
    "        with open(path) as f:\n"
    "            return f.read()\n"
    "    except",
};

struct demo {
    server *s;
    pthread_t thread;
    BIO *wire;
    bool quiets;    /* on a terminal no event of the log appears within the text */
    _Atomic int fd; /* the socket; -1 = none; shut down to end the demo */
    const char *asked; /* text of the last place asked */
    uint32_t n_places; /* number of places[] asked */
    uint64_t asked_ns, first_ns;
    double predict_ms; /* as the server reports it: a single piece has no speed */
    uint32_t n_tokens;
    bytes blanks; /* of the answer so far, if it has no other text */
    bool over;
    _Atomic bool closing; /* the server ends: no browser can open it */
};

/* ---- its output ---- */

/* Where to connect: the address that means all addresses cannot be used. */
static const char *address_of(const server *s)
{
    const char *host = s->config.host;
    if (!host || !strcmp(host, "0.0.0.0")) return "127.0.0.1";
    return strcmp(host, "::") ? host : "::1";
}

/* "host:port", as in URLs: an IPv6 address is in brackets. */
static void authority(const server *s, char *out, size_t size)
{
    const char *address = address_of(s);
    bool brackets = strchr(address, ':') != NULL;
    snprintf(out, size, "%s%s%s:%u", brackets ? "[" : "", address, brackets ? "]" : "",
             s->listeners.port);
}

static void print_speed(const demo *d)
{
    char at[AUTHORITY_BYTES_MAX];
    authority(d->s, at, sizeof at);
    printf("\n\n");
    fflush(stdout);
    fprintf(stderr, "first token after %.1f ms", (double)(d->first_ns - d->asked_ns) / 1e6);
    if (d->n_tokens && d->predict_ms > 0)
        fprintf(stderr, ", %u tokens at %.0f tokens/s", d->n_tokens,
                d->n_tokens * 1e3 / d->predict_ms);
    fprintf(stderr, ", over ws%s://%s/v1/responses\n", d->s->config.tls_cert ? "s" : "", at);
}

static void print_next_step(const demo *d)
{
    char at[AUTHORITY_BYTES_MAX];
    authority(d->s, at, sizeof at);
    printf("\nOpen http%s://%s in a browser; Ctrl+C here stops cerium.\n",
           d->s->config.tls_cert ? "s" : "", at);
    fflush(stdout);
}

/* The given text is printed before the first part of the answer. */
static void show(demo *d, const char *text)
{
    if (!d->first_ns) {
        if (!text[strspn(text, " \t\r\n")]) {
            (void)bytes_append(&d->blanks, text, strlen(text));
            return;
        }
        d->first_ns = clock_ns();
        fputs(d->asked, stdout);
        if (d->blanks.len) fwrite(d->blanks.ptr, 1, d->blanks.len, stdout);
    }
    fputs(text, stdout);
    fflush(stdout);
}

static bool ask_place(demo *d, wslay_event_context_ptr context, const char *text);

/* Nothing was shown: ask at another place, if one is left. */
static void go_on(demo *d, wslay_event_context_ptr context)
{
    d->over = d->n_places == ARRAY_LEN(places);
    if (d->over) {
        printf("\nThe model adds nothing at any of %zu places: it may not be made to complete "
               "code.\n`cerium pull --list` names models that are.\n", ARRAY_LEN(places) + 1);
        return;
    }
    printf("The model has nothing to add to\n\n%s\n\n%s\n\n", d->asked,
           d->n_places ? "nor there. Another place:" : "Another place:");
    fflush(stdout);
    d->over = !ask_place(d, context, places[d->n_places++]);
}

static void take_event(demo *d, wslay_event_context_ptr context, const char *type,
                       const json_t *event)
{
    if (!strcmp(type, "completion.delta")) {
        show(d, json_string_value(json_object_get(event, "delta")));
    } else if (!strcmp(type, "completion.done")) {
        const json_t *usage = json_object_get(event, "usage");
        d->n_tokens = (uint32_t)json_integer_value(json_object_get(usage, "output_tokens"));
        d->predict_ms = json_number_value(
            json_object_get(json_object_get(event, "timings"), "predict_ms"));
        if (!d->first_ns) {
            go_on(d, context);
            return;
        }
        print_speed(d);
        d->over = true;
    } else if (!strcmp(type, "error")) {
        const json_t *error = json_object_get(event, "error");
        log_event(LOG_WARNING, "demo", "reason=\"%s\"",
                  json_string_value(json_object_get(error, "message")));
        d->over = true;
    }
}

/* ---- the WebSocket ---- */

static ssize_t on_recv(wslay_event_context_ptr context, uint8_t *out, size_t len, int flags,
                       void *user)
{
    demo *d = user;
    (void)flags;
    int n = d->over ? 0 : BIO_read(d->wire, out, (int)len);
    if (n > 0) return n;
    wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *from, size_t len, int flags,
                       void *user)
{
    demo *d = user;
    (void)flags;
    int n = BIO_write(d->wire, from, (int)len);
    if (n > 0) return n;
    wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static int on_mask(wslay_event_context_ptr context, uint8_t *out, size_t len, void *user)
{
    (void)context;
    (void)user;
    memset(out, 0x5a, len); /* both ends are this process: masking protects nothing */
    return 0;
}

static void on_message(wslay_event_context_ptr context,
                       const struct wslay_event_on_msg_recv_arg *message, void *user)
{
    demo *d = user;
    if (message->opcode != WSLAY_TEXT_FRAME) return;
    json_t *event = json_read((view){(const char *)message->msg, message->msg_length}, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    if (type) take_event(d, context, type, event);
    json_decref(event);
}

/* Shown at once, confident or not: this is a demonstration. */
static bool ask_place(demo *d, wslay_event_context_ptr context, const char *place)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:i}", "type", "completion.create", "id", "demo",
                             "prefix", place, "max_tokens", (int)ANSWER_TOKENS,
                             "min_confidence", 0);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    struct wslay_event_msg message = {WSLAY_TEXT_FRAME, (const uint8_t *)text,
                                      text ? strlen(text) : 0};
    d->asked = place;
    d->blanks.len = 0;
    d->asked_ns = clock_ns();
    bool sent = text && !wslay_event_queue_msg(context, &message) && !wslay_event_send(context);
    json_decref(root);
    memory_release(text);
    return sent;
}

static bool talk(demo *d)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
                                                           .send_callback = on_send,
                                                           .genmask_callback = on_mask,
                                                           .on_msg_recv_callback = on_message};
    wslay_event_context_ptr context;
    if (wslay_event_context_client_init(&context, &callbacks, d)) return false;
    wslay_event_config_set_max_recv_msg_length(context, MESSAGE_BYTES_MAX);
    if (ask_place(d, context, d->s->config.demo))
        (void)wslay_event_recv(context); /* until it is over */
    wslay_event_context_free(context);
    return d->over;
}

/* ---- connecting ---- */

static BIO *connect_to(const server *s, SSL_CTX *context)
{
    char port[16];
    snprintf(port, sizeof port, "%u", s->listeners.port);
    BIO *wire = context ? BIO_new_ssl_connect(context) : BIO_new(BIO_s_connect());
    if (!wire) return NULL;
    BIO_set_conn_hostname(wire, address_of(s));
    BIO_set_conn_port(wire, port);
    if (BIO_do_connect(wire) == 1) return wire;
    BIO_free_all(wire);
    return NULL;
}

/* The handshake: true when the server switched. */
static bool upgrade(demo *d)
{
    const server *s = d->s;
    char head[HEAD_BYTES_MAX], key[SERVER_KEY_BYTES_MAX + 32] = "", at[AUTHORITY_BYTES_MAX];
    authority(s, at, sizeof at);
    if (s->config.n_keys)
        snprintf(key, sizeof key, "Authorization: Bearer %s\r\n", s->config.keys[0]);
    int n = snprintf(head, sizeof head,
                     "GET /v1/responses HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                     "Sec-WebSocket-Version: 13\r\n%s\r\n",
                     at, key);
    if (BIO_write(d->wire, head, n) != n) return false;
    /* Byte by byte: the byte after the head belongs to a frame. */
    size_t len = 0;
    while (len + 1 < sizeof head && BIO_read(d->wire, head + len, 1) == 1) {
        head[++len] = 0;
        if (len >= 4 && !strcmp(head + len - 4, "\r\n\r\n"))
            return !strncmp(head, "HTTP/1.1 101 ", 13);
    }
    return false;
}

static void *run(void *arg)
{
    demo *d = arg;
    SSL_CTX *context = d->s->config.tls_cert ? SSL_CTX_new(TLS_client_method()) : NULL;
    int fd = -1;
    bool reached = false;
    d->wire = d->s->config.tls_cert && !context ? NULL : connect_to(d->s, context);
    if (d->wire) {
        BIO_get_fd(d->wire, &fd);
        atomic_store(&d->fd, fd);
        reached = upgrade(d) && talk(d);
        char rest[256];
        shutdown(fd, SHUT_WR); /* and until the server has closed, too: its log line comes first */
        while (reached && BIO_read(d->wire, rest, sizeof rest) > 0) continue;
        atomic_store(&d->fd, -1);
        BIO_free_all(d->wire);
    }
    SSL_CTX_free(context);
    if (!reached && !atomic_load(&d->closing))
        log_event(LOG_WARNING, "demo", "reason=\"the server does not reach itself\"");
    if (d->quiets) log_open(LOG_INFO);
    if (!atomic_load(&d->closing)) print_next_step(d);
    return NULL;
}

void demo_start(server *s)
{
    demo *d = memory_zalloc(1, sizeof *d);
    if (!d) return;
    d->s = s;
    d->blanks.max = MESSAGE_BYTES_MAX;
    atomic_store(&d->fd, -1);
    d->quiets = !s->config.quiet && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
    if (d->quiets) log_open(LOG_WARNING);
    if (thread_start(&d->thread, "demo", run, d)) {
        if (d->quiets) log_open(LOG_INFO);
        log_event(LOG_WARNING, "demo", "reason=\"no thread\"");
        memory_free(d);
        return;
    }
    s->demo = d;
}

void demo_close(server *s)
{
    demo *d = s->demo;
    if (!d) return;
    atomic_store(&d->closing, true);
    int fd = atomic_load(&d->fd);
    if (fd >= 0) shutdown(fd, SHUT_RDWR);
    pthread_join(d->thread, NULL);
    bytes_free(&d->blanks);
    memory_free(d);
    s->demo = NULL;
}
