/* demo.c - a WebSocket client in the server's own loop. */
#include "server/demo.h"

#include <unistd.h>

enum { ANSWER_TOKENS = 64, MESSAGE_BYTES_MAX = 1 << 20 };

struct demo {
    server *s;
    struct lws_vhost *vhost;
    bytes message;       /* one event, in pieces */
    uint64_t asked_ns, first_ns, last_ns;
    uint32_t n_tokens;
    bool asked, over;
};

static void ask(demo *d, struct lws *wsi)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:i}", "type", "completion.create", "id", "demo",
                             "prefix", d->s->config.demo, "max_tokens", (int)ANSWER_TOKENS);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    size_t len = text ? strlen(text) : 0;
    char *buffer = text ? memory_alloc(LWS_PRE + len) : NULL;
    if (buffer) {
        memcpy(buffer + LWS_PRE, text, len);
        d->asked_ns = clock_ns();
        d->asked = true;
        if (lws_write(wsi, (unsigned char *)buffer + LWS_PRE, len, LWS_WRITE_TEXT) < (int)len)
            log_event(LOG_WARNING, "demo", "reason=\"the question cannot be sent\"");
    }
    memory_free(buffer);
    memory_release(text);
}

static void print_speed(const demo *d)
{
    printf("\n");
    fflush(stdout);
    fprintf(stderr, "first token after %.1f ms", (double)(d->first_ns - d->asked_ns) / 1e6);
    if (d->n_tokens > 1 && d->last_ns > d->first_ns)
        fprintf(stderr, ", %u tokens at %.0f tokens/s", d->n_tokens,
                (d->n_tokens - 1) * 1e9 / (double)(d->last_ns - d->first_ns));
    fprintf(stderr, ", over %s://%s:%u/v1/responses\n", d->s->config.tls_cert ? "wss" : "ws",
            d->s->config.host ? d->s->config.host : "127.0.0.1", d->s->port);
}

/* Returns -1 after the last event. */
static int take_event(demo *d)
{
    json_t *event = json_loadb(d->message.ptr, d->message.len, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    d->message.len = 0;
    if (type && !strcmp(type, "completion.delta")) {
        d->last_ns = clock_ns();
        if (!d->first_ns) {
            d->first_ns = d->last_ns;
            fputs(d->s->config.demo, stdout);
        }
        fputs(json_string_value(json_object_get(event, "delta")), stdout);
        fflush(stdout);
    } else if (type && !strcmp(type, "completion.done")) {
        json_t *usage = json_object_get(event, "usage");
        d->n_tokens = (uint32_t)json_integer_value(json_object_get(usage, "output_tokens"));
        if (d->first_ns) print_speed(d);
        else log_event(LOG_INFO, "demo", "reason=\"the model has nothing to add\"");
        d->over = true;
    } else if (type && !strcmp(type, "error")) {
        json_t *error = json_object_get(event, "error");
        log_event(LOG_WARNING, "demo", "reason=\"%s\"",
                  json_string_value(json_object_get(error, "message")));
        d->over = true;
    }
    json_decref(event);
    return d->over ? -1 : 0;
}

static int send_key(const demo *d, struct lws *wsi, unsigned char **at, size_t len)
{
    char value[SERVER_KEY_BYTES_MAX + 8];
    if (!d->s->config.n_keys) return 0;
    int n = snprintf(value, sizeof value, "Bearer %s", d->s->config.keys[0]);
    return lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, (unsigned char *)value,
                                        n, at, *at + len);
}

static int on_client(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                     size_t len)
{
    (void)user;
    server *s = lws_context_user(lws_get_context(wsi));
    demo *d = s->demo;
    if (!d) return 0;
    switch ((int)reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return send_key(d, wsi, in, len);
    case LWS_CALLBACK_CLIENT_ESTABLISHED:
        lws_callback_on_writable(wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_WRITEABLE:
        if (!d->asked) ask(d, wsi);
        return 0;
    case LWS_CALLBACK_CLIENT_RECEIVE:
        if (bytes_append(&d->message, in, len)) return -1;
        if (lws_is_final_fragment(wsi) && !lws_remaining_packet_payload(wsi)) return take_event(d);
        return 0;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        log_event(LOG_WARNING, "demo", "reason=\"the server does not reach itself\"");
        return 0;
    default:
        return 0;
    }
}

static const struct lws_protocols protocols[] = {
    {.name = "cerium", .callback = on_client, .rx_buffer_size = SERVER_READ_BYTES},
    {.name = NULL},
};

/* Where to connect: an address that stands for all of them is not one. */
static const char *address_of(const server *s)
{
    const char *host = s->config.host;
    if (!host || !strcmp(host, "0.0.0.0")) return "127.0.0.1";
    return strcmp(host, "::") ? host : "::1";
}

void demo_start(server *s)
{
    struct lws_context_creation_info info = {.port = CONTEXT_PORT_NO_LISTEN,
                                             .protocols = protocols,
                                             .vhost_name = "demo",
                                             .options = LWS_SERVER_OPTION_DISABLE_OS_CA_CERTS,
                                             .user = s};
    struct lws_client_connect_info to = {.context = s->lws,
                                         .address = address_of(s),
                                         .port = (int)s->port,
                                         .path = "/v1/responses",
                                         .host = address_of(s),
                                         .local_protocol_name = "cerium"};
    demo *d = memory_zalloc(1, sizeof *d);
    if (!d) return;
    d->s = s;
    d->message.max = MESSAGE_BYTES_MAX;
    s->demo = d;
    d->vhost = lws_create_vhost(s->lws, &info);
    to.vhost = d->vhost;
    if (s->config.tls_cert)
        to.ssl_connection = LCCSCF_USE_SSL | LCCSCF_ALLOW_SELFSIGNED |
                            LCCSCF_SKIP_SERVER_CERT_HOSTNAME_CHECK;
    if (!d->vhost || !lws_client_connect_via_info(&to))
        log_event(LOG_WARNING, "demo", "reason=\"the server does not reach itself\"");
}

void demo_close(server *s)
{
    if (!s->demo) return;
    bytes_free(&s->demo->message);
    memory_free(s->demo);
    s->demo = NULL;
}
