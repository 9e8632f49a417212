/* websocket.c - wslay's event layer; messages are assembled here, with limits.
 *
 * wslay reports a frame only with the first byte of its payload, and treats a close frame of one
 * byte like one without a code. So frame headers are parsed here while wslay fetches its input, and
 * bad ones are rejected before wslay has the payload. */
#include "net/websocket.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <wslay/wslay.h>

enum {
    READ_BYTES =
        1024, /* that wslay reads at once; not counted against messages_max */
    GATHER_BYTES = 65536, /* bytes reported to the owner at once */
};

/* The end of the bytes that wslay has. */
typedef struct {
    uint8_t head[10]; /* of the frame, without its mask */
    uint32_t n_head;
    uint64_t left;          /* bytes of its mask and payload */
    uint64_t message_bytes; /* of the frames of its message */
} frame_place;

struct websocket {
    wslay_event_context_ptr context;
    const websocket_events *events;
    void *user;
    bytes message;  /* received so far */
    size_t n_reported;    /* of these, reported to the owner */
    uint8_t opcode; /* of the current frame */
    frame_place at;
    websocket_code ahead; /* reason to refuse the frame whose head wslay has last; 0 = none */
    view in;              /* while feeding */
    uint32_t left; /* messages that may still be read */
    bool is_over;
    websocket_code code; /* our reason to end it, set within an event; 0 = none */
    const char *why;
};

/* ---- heads ---- */

static uint32_t head_bytes(const frame_place *at)
{
    uint8_t n = at->head[1] & 127;
    return n == 127 ? 10 : n == 126 ? 4 : 2;
}

/* The head is complete: the reason to refuse the frame, or 0.  wslay finds heads that RFC 6455
 * itself forbids. */
static websocket_code judge_head(frame_place *at, size_t bytes_max)
{
    uint8_t opcode = at->head[0] & 15;
    uint64_t len = at->head[1] & 127;
    if (at->n_head > 2) len = 0;
    for (uint32_t i = 2; i < at->n_head; i++) len = len << 8 | at->head[i];
    at->n_head = 0;
    if (len >> 63) return 0; /* nothing of it will be read */
    at->left = len + (at->head[1] & 128 ? 4 : 0);
    if (wslay_is_ctrl_frame(opcode))
        return opcode == WSLAY_CONNECTION_CLOSE && len == 1 ? WEBSOCKET_PROTOCOL_ERROR : 0;
    if (opcode == WSLAY_BINARY_FRAME) return WEBSOCKET_BAD_TYPE;
    if (opcode != WSLAY_CONTINUATION_FRAME) at->message_bytes = 0;
    at->message_bytes += len;
    return len > bytes_max || at->message_bytes > bytes_max ? WEBSOCKET_TOO_BIG : 0;
}

/* How many of the first n bytes of input wslay may have: all, or up to the head of a refused frame,
 * so that earlier frames are processed. */
static size_t read_heads(websocket *w, size_t n)
{
    frame_place *at = &w->at;
    for (size_t i = 0; i < n;) {
        if (at->left) {
            size_t skipped = at->left < n - i ? (size_t)at->left : n - i;
            at->left -= skipped;
            i += skipped;
            continue;
        }
        at->head[at->n_head++] = (uint8_t)w->in.ptr[i++];
        if (at->n_head < 2 || at->n_head < head_bytes(at)) continue;
        w->ahead = judge_head(at, w->message.max);
        if (w->ahead) return i;
    }
    return n;
}

static void refuse(websocket *w, websocket_code code, const char *why)
{
    if (w->code) return;
    w->code = code;
    w->why = why;
}

/* wslay has processed all before it. */
static void refuse_ahead(websocket *w)
{
    refuse(w, w->ahead,
           w->ahead == WEBSOCKET_TOO_BIG    ? "the message is too large"
           : w->ahead == WEBSOCKET_BAD_TYPE ? "messages are text"
                                            : "a code has two bytes");
}

/* ---- wslay's callbacks ---- */

static ssize_t on_recv(wslay_event_context_ptr context, uint8_t *out, size_t len, int flags,
                       void *user)
{
    websocket *w = user;
    (void)flags;
    size_t n = w->in.len < len ? w->in.len : len;
    if (n > READ_BYTES) n = READ_BYTES;
    if (w->ahead) refuse_ahead(w);
    if (!n || !w->left || w->code) {
        wslay_event_set_error(context, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = read_heads(w, n);
    memcpy(out, w->in.ptr, n);
    w->in.ptr += n;
    w->in.len -= n;
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr context, const uint8_t *from, size_t len, int flags,
                       void *user)
{
    websocket *w = user;
    (void)flags;
    if (!w->events->send(w->user, (view){(const char *)from, len})) return (ssize_t)len;
    wslay_event_set_error(context, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void forget(websocket *w)
{
    bytes_free(&w->message);
    if (w->n_reported) (void)w->events->gathers(w->user, -(ptrdiff_t)w->n_reported);
    w->n_reported = 0;
}

static void on_frame(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *user)
{
    websocket *w = user;
    (void)context;
    w->opcode = frame->opcode;
}

static void on_chunk(wslay_event_context_ptr context,
                     const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *user)
{
    websocket *w = user;
    (void)context;
    if (w->code || wslay_is_ctrl_frame(w->opcode)) return;
    if (bytes_append(&w->message, chunk->data, chunk->data_length)) {
        refuse(w, WEBSOCKET_TRY_LATER, "out of memory");
        return;
    }
    while (w->message.len > w->n_reported + GATHER_BYTES && !w->code) {
        if (w->events->gathers(w->user, GATHER_BYTES))
            w->n_reported += GATHER_BYTES;
        else
            refuse(w, WEBSOCKET_TRY_LATER, "too much unread input; try again");
    }
}

static void on_message(wslay_event_context_ptr context,
                       const struct wslay_event_on_msg_recv_arg *message, void *user)
{
    websocket *w = user;
    (void)context;
    if (w->left) w->left--;
    if (message->opcode != WSLAY_TEXT_FRAME || w->code) return;
    bytes whole = w->message; /* the owner may end the connection in this call */
    w->message = (bytes){.max = whole.max};
    forget(w);
    w->events->message(w->user, &whole);
    bytes_free(&whole);
}

/* ---- opening ---- */

websocket *websocket_open(size_t bytes_max, const websocket_events *events, void *user)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_frame_recv_chunk_callback = on_chunk,
        .on_msg_recv_callback = on_message,
    };
    websocket *w = memory_zalloc(1, sizeof *w);
    if (!w) return NULL;
    *w = (websocket){.events = events, .user = user, .message = {.max = bytes_max}};
    if (wslay_event_context_server_init(&w->context, &callbacks, w)) {
        memory_free(w);
        return NULL;
    }
    wslay_event_config_set_no_buffering(w->context, 1);
    wslay_event_config_set_max_recv_msg_length(
        w->context, UINT64_MAX >> 1); /* our own limit has a clear message */
    return w;
}

void websocket_close(websocket **out)
{
    if (!out || !*out) return;
    websocket *w = *out;
    forget(w);
    wslay_event_context_free(w->context);
    memory_free(w);
    *out = NULL;
}

/* ---- in and out ---- */

static int send_queued(websocket *w)
{
    return wslay_event_send(w->context) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

/* wslay closes a connection for a broken frame without a reason. */
static void end_broken(websocket *w)
{
    static const char frame[] = "\x88\x02\x03\xea"; /* close, 1002 */
    w->is_over = true;
    (void)w->events->send(w->user, VIEW(frame));
}

bool websocket_feed(websocket *w, view in, uint32_t messages_max, size_t *used)
{
    *used = in.len;
    if (w->is_over) return false;
    w->in = in;
    w->left = messages_max;
    int status = wslay_event_recv(w->context);
    *used = in.len - w->in.len;
    if (w->is_over) return false; /* the owner ended it in an event */
    if (w->code)
        websocket_end(w, w->code, w->why);
    else if (status)
        end_broken(w);
    else if (send_queued(w) || !wslay_event_want_read(w->context))
        w->is_over = true; /* a closing frame came, or wslay sent one */
    return !w->is_over;
}

static int queue(websocket *w, uint8_t opcode, view text)
{
    struct wslay_event_msg message = {opcode, (const uint8_t *)text.ptr, text.len};
    if (w->is_over) return CERIUM_OK;
    int status = wslay_event_queue_msg(w->context, &message);
    if (status == WSLAY_ERR_NO_MORE_MSG) return CERIUM_OK; /* a closing frame is on its way */
    return status ? CERIUM_ERR_MEMORY : send_queued(w);
}

int websocket_send(websocket *w, view text)
{
    return queue(w, WSLAY_TEXT_FRAME, text);
}

int websocket_ping(websocket *w)
{
    return queue(w, WSLAY_PING, (view){NULL, 0});
}

void websocket_end(websocket *w, websocket_code code, const char *why)
{
    if (w->is_over) return;
    /* If wslay found an error itself, its close frame is already queued, and stays. */
    (void)wslay_event_queue_close(w->context, (uint16_t)code, (const uint8_t *)why, strlen(why));
    (void)send_queued(w);
    wslay_event_shutdown_read(w->context);
    w->is_over = true;
}

bool websocket_accept(const char *key, char out[WEBSOCKET_ACCEPT_BYTES])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    unsigned char raw[24], digest[SHA_DIGEST_LENGTH];
    char text[24 + sizeof guid];
    /* 16 bytes in base64 are 24 characters, the last two of which are padding. */
    if (strlen(key) != 24 || strcmp(key + 22, "==") != 0) return false;
    if (EVP_DecodeBlock(raw, (const unsigned char *)key, 24) != 18) return false;
    int n = snprintf(text, sizeof text, "%s%s", key, guid);
    SHA1((const unsigned char *)text, (size_t)n, digest);
    EVP_EncodeBlock((unsigned char *)out, digest, sizeof digest);
    return true;
}
