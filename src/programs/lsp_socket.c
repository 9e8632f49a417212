/* lsp_socket.c - the client's side of a WebSocket (RFC 6455), over a connection that curl makes. */
#include "programs/lsp_socket.h"

#include <openssl/evp.h>
#include <sys/random.h>
#include <wslay/wslay.h>

#include "net/websocket.h"

enum {
    HEAD_BYTES_MAX = 16384,
    MESSAGE_BYTES_MAX = 4 << 20,
    LOOK_BYTES = 256 << 10,   /* read in one look, so that a server cannot hold the editor up */
    QUEUED_BYTES_MAX = 16 << 20, /* that the server does not take */
    CONNECT_MS = 3000,
    KEY_BYTES = 16,
};

struct lsp_socket {
    CURLM *multi;
    CURL *easy;
    char url[1200], key[32];
    curl_socket_t fd;
    lsp_socket_state state;
    bool is_connected;
    bytes ask;  /* the request to upgrade; [asked] of it are sent */
    size_t asked;
    bytes head; /* the answer; behind it frames, [taken] of them are read */
    size_t taken;
    size_t n_looked; /* bytes read in this look */
    wslay_event_context_ptr ws;
    void (*message)(void *user, view text);
    void *user;
};

/* ---- bytes of the connection: how many, 0 for none now, below 0 if it is lost ---- */

static ssize_t receive(lsp_socket *s, void *out, size_t size)
{
    size_t n = 0;
    CURLcode code = curl_easy_recv(s->easy, out, size, &n);
    if (code == CURLE_AGAIN) return 0;
    return code || !n ? -1 : (ssize_t)n;
}

static ssize_t transmit(lsp_socket *s, const void *data, size_t size)
{
    size_t n = 0;
    CURLcode code = curl_easy_send(s->easy, data, size, &n);
    if (code == CURLE_AGAIN) return 0;
    return code ? -1 : (ssize_t)n;
}

static ssize_t on_read(wslay_event_context_ptr ws, uint8_t *out, size_t size, int flags, void *user)
{
    lsp_socket *s = user;
    (void)flags;
    size_t rest = s->head.len - s->taken;
    if (rest) { /* came with the answer */
        if (rest > size) rest = size;
        memcpy(out, s->head.ptr + s->taken, rest);
        s->taken += rest;
        return (ssize_t)rest;
    }
    ssize_t n = s->n_looked < LOOK_BYTES ? receive(s, out, size) : 0;
    if (n > 0) s->n_looked += (size_t)n;
    if (n > 0) return n;
    wslay_event_set_error(ws, n ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static ssize_t on_write(wslay_event_context_ptr ws, const uint8_t *data, size_t size, int flags,
                        void *user)
{
    (void)flags;
    ssize_t n = transmit(user, data, size);
    if (n > 0) return n;
    wslay_event_set_error(ws, n ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
    return -1;
}

static int on_mask(wslay_event_context_ptr ws, uint8_t *out, size_t n, void *user)
{
    (void)ws;
    (void)user;
    return getrandom(out, n, 0) == (ssize_t)n ? 0 : -1;
}

static void on_message(wslay_event_context_ptr ws, const struct wslay_event_on_msg_recv_arg *m,
                       void *user)
{
    lsp_socket *s = user;
    (void)ws;
    if (m->opcode == WSLAY_TEXT_FRAME)
        s->message(s->user, (view){(const char *)m->msg, m->msg_length});
}

static const struct wslay_event_callbacks callbacks = {
    .recv_callback = on_read, .send_callback = on_write, .genmask_callback = on_mask,
    .on_msg_recv_callback = on_message};

/* ---- its beginning ---- */

static int write_request(lsp_socket *s, const struct curl_slist *headers)
{
    char *host = NULL, *port = NULL, *path = NULL, line[1400];
    uint8_t random[KEY_BYTES];
    CURLU *at = curl_url();
    int bad = !at || getrandom(random, sizeof random, 0) != (ssize_t)sizeof random ||
              curl_url_set(at, CURLUPART_URL, s->url, 0) ||
              curl_url_get(at, CURLUPART_HOST, &host, 0) ||
              curl_url_get(at, CURLUPART_PATH, &path, 0);
    if (!bad) {
        (void)curl_url_get(at, CURLUPART_PORT, &port, 0);
        EVP_EncodeBlock((unsigned char *)s->key, random, sizeof random);
        s->ask.max = HEAD_BYTES_MAX;
        int n = snprintf(line, sizeof line,
                         "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nUpgrade: websocket\r\n"
                         "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: %s\r\n",
                         path, host, port ? ":" : "", port ? port : "", s->key);
        bad = n < 0 || (size_t)n >= sizeof line || bytes_append(&s->ask, line, (size_t)n);
    }
    for (; headers && !bad; headers = headers->next) {
        const size_t n = strlen(headers->data);
        if (strncmp(headers->data, "Authorization:", 14) != 0) continue;
        bad = bytes_append(&s->ask, headers->data, n) || bytes_append(&s->ask, "\r\n", 2);
    }
    if (!bad) bad = bytes_append(&s->ask, "\r\n", 2);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_url_cleanup(at);
    return bad ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

int lsp_socket_open(lsp_socket **out, CURLM *multi, const char *url,
                    const struct curl_slist *headers, void *mark,
                    void (*message)(void *user, view text), void *user)
{
    lsp_socket *s = memory_zalloc(1, sizeof *s);
    if (!s) return CERIUM_ERR_MEMORY;
    *s = (lsp_socket){.multi = multi, .fd = -1, .message = message, .user = user};
    snprintf(s->url, sizeof s->url, "%s/v1/responses", url);
    s->easy = curl_easy_init();
    int bad = !s->easy || write_request(s, headers) ||
              wslay_event_context_client_init(&s->ws, &callbacks, s);
    bad = bad || curl_easy_setopt(s->easy, CURLOPT_URL, s->url) ||
          curl_easy_setopt(s->easy, CURLOPT_PRIVATE, mark) ||
          curl_easy_setopt(s->easy, CURLOPT_NOSIGNAL, 1L) ||
          curl_easy_setopt(s->easy, CURLOPT_TCP_NODELAY, 1L) ||
          curl_easy_setopt(s->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ||
          curl_easy_setopt(s->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) ||
          curl_easy_setopt(s->easy, CURLOPT_CONNECT_ONLY, 1L);
    if (!bad) wslay_event_config_set_max_recv_msg_length(s->ws, MESSAGE_BYTES_MAX);
    if (!bad && curl_multi_add_handle(multi, s->easy) == CURLM_OK) {
        *out = s;
        return CERIUM_OK;
    }
    curl_easy_cleanup(s->easy);
    s->easy = NULL;
    lsp_socket_close(&s);
    return CERIUM_ERR_MEMORY;
}

void lsp_socket_close(lsp_socket **socket)
{
    if (!socket || !*socket) return;
    lsp_socket *s = *socket;
    if (s->easy) curl_multi_remove_handle(s->multi, s->easy);
    curl_easy_cleanup(s->easy);
    if (s->ws) wslay_event_context_free(s->ws);
    bytes_free(&s->ask);
    bytes_free(&s->head);
    memory_free(s);
    *socket = NULL;
}

void lsp_socket_connected(lsp_socket *s, CURLcode code)
{
    s->is_connected = !code && !curl_easy_getinfo(s->easy, CURLINFO_ACTIVESOCKET, &s->fd);
    if (!s->is_connected) s->state = LSP_SOCKET_LOST;
}

/* Is it "HTTP/1.1 101", with what follows from our key? */
static bool is_upgraded(const lsp_socket *s)
{
    char accept[WEBSOCKET_ACCEPT_BYTES];
    return websocket_accept(s->key, accept) && !strncmp(s->head.ptr, "HTTP/1.1 101", 12) &&
           strstr(s->head.ptr, accept);
}

static void read_head(lsp_socket *s)
{
    char piece[1024];
    ssize_t n;
    s->head.max = HEAD_BYTES_MAX;
    while ((n = receive(s, piece, sizeof piece)) > 0) {
        if (bytes_append(&s->head, piece, (size_t)n) || bytes_reserve(&s->head, 1)) break;
        s->head.ptr[s->head.len] = 0;
        char *end = strstr(s->head.ptr, "\r\n\r\n");
        if (!end) continue;
        *end = 0;
        s->taken = (size_t)(end - s->head.ptr) + 4;
        s->state = is_upgraded(s) ? LSP_SOCKET_OPEN : LSP_SOCKET_REFUSED;
        return;
    }
    if (n) s->state = LSP_SOCKET_LOST;
}

static void open_it(lsp_socket *s)
{
    while (s->asked < s->ask.len) {
        ssize_t n = transmit(s, s->ask.ptr + s->asked, s->ask.len - s->asked);
        if (n < 0) s->state = LSP_SOCKET_LOST;
        if (n <= 0) return;
        s->asked += (size_t)n;
    }
    read_head(s);
}

/* ---- messages ---- */

int lsp_socket_fd(const lsp_socket *s) { return s && s->is_connected ? s->fd : -1; }

bool lsp_socket_writes(const lsp_socket *s)
{
    return s->state == LSP_SOCKET_OPEN ? wslay_event_want_write(s->ws) : s->asked < s->ask.len;
}

bool lsp_socket_has_more(const lsp_socket *s) { return s && s->n_looked >= LOOK_BYTES; }

bool lsp_socket_is_open(const lsp_socket *s) { return s && s->state == LSP_SOCKET_OPEN; }

lsp_socket_state lsp_socket_look(lsp_socket *s)
{
    if (s->is_connected && s->state == LSP_SOCKET_OPENING) open_it(s);
    s->n_looked = 0;
    if (s->state != LSP_SOCKET_OPEN) return s->state;
    /* wslay stops reading after a frame that is wrong: nothing more comes of that connection. */
    if (wslay_event_recv(s->ws) || (wslay_event_want_write(s->ws) && wslay_event_send(s->ws)) ||
        wslay_event_get_close_received(s->ws) || !wslay_event_want_read(s->ws) ||
        wslay_event_get_queued_msg_length(s->ws) > QUEUED_BYTES_MAX)
        s->state = LSP_SOCKET_LOST;
    return s->state;
}

bool lsp_socket_send(lsp_socket *s, view text)
{
    const struct wslay_event_msg m = {WSLAY_TEXT_FRAME, (const uint8_t *)text.ptr, text.len};
    return lsp_socket_is_open(s) &&
           wslay_event_get_queued_msg_length(s->ws) + text.len <= QUEUED_BYTES_MAX &&
           !wslay_event_queue_msg(s->ws, &m);
}
