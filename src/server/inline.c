/* inline.c - reads the two messages and writes their events. */
#include "server/inline.h"

#include <math.h>

#include "protocol/json_out.h"
#include "server/answer.h"
#include "server/answer_open.h"
#include "server/connection.h"
#include "server/lanes.h"
#include "server/metrics.h"

enum {
    ID_BYTES_MAX = INLINE_ID_BYTES - 1,
    TOKENS_MAX = 4096,
    STOPS_MAX = 4,
};

/* ---- events ---- */

static void put_event(json_out *t, const char *type, const char *id)
{
    json_out_clear(t);
    json_out_literal(t, "{\"type\":");
    json_out_string(t, type);
    json_out_literal(t, ",\"id\":");
    json_out_string(t, id);
}

/* Closes the object and sends it. */
static int tell(answer *a, json_out *t)
{
    a->said_ns = clock_ns();
    json_out_literal(t, "}");
    if (!t->status) sink_event(&a->sink, NULL, json_out_view(t));
    return t->status;
}

void inline_refuse(connection *c, const char *id, const protocol_error *e)
{
    json_out error = {.b = {.max = 16384}}, *t = &error;
    json_out_literal(t, "{\"type\":\"error\",\"status\":");
    json_out_integer(t, e->http_status);
    if (id[0]) {
        json_out_literal(t, ",\"id\":");
        json_out_string(t, id);
    }
    json_out_literal(t, ",\"error\":{\"type\":");
    json_out_string(t, e->type);
    json_out_literal(t, ",\"code\":");
    json_out_string(t, e->code);
    json_out_literal(t, ",\"message\":");
    json_out_string(t, e->message);
    json_out_literal(t, ",\"param\":");
    json_out_string(t, e->param[0] ? e->param : NULL);
    json_out_literal(t, "}}");
    if (t->status)
        connection_break(c);
    else
        socket_send(c, json_out_view(t));
    json_out_free(t);
}

static int begin(answer *a)
{
    (void)a; /* the first event is the first text */
    return CERIUM_OK;
}

static int text(choice *ch, view said, const watch_token *tokens, uint32_t n)
{
    answer *a = ch->a;
    json_out *t = &a->event;
    (void)tokens;
    (void)n;
    if (!a->sink.c || !said.len) return CERIUM_OK;
    put_event(t, "completion.delta", a->id);
    json_out_literal(t, ",\"delta\":");
    json_out_quoted(t, said);
    return tell(a, t);
}

static int finding(choice *ch, const protocol_finding *f)
{
    answer *a = ch->a;
    json_out *t = &a->event;
    if (!a->sink.c) return CERIUM_OK;
    put_event(t, "completion.finding", a->id);
    json_out_literal(t, ",\"finding\":");
    json_out_finding(t, f);
    return tell(a, t);
}

/* Pages that do not know the type pass over it. */
static int beat(answer *a, const protocol_progress *p)
{
    json_out *t = &a->event;
    if (!a->sink.c) return CERIUM_OK;
    put_event(t, "completion.keepalive", a->id);
    json_out_literal(t, ",\"cerium\":{\"prompt_tokens\":");
    json_out_integer(t, p->prompt_tokens);
    json_out_literal(t, ",\"done\":");
    json_out_integer(t, p->done_tokens);
    json_out_literal(t, "}");
    return tell(a, t);
}

static const char *reason_of(const choice *ch, protocol_end how)
{
    const answer *a = ch->a;
    if (a->superseded) return "superseded";
    if (ch->held_back) return "unsure";
    switch (how) {
    case PROTOCOL_END_STOP: return "stop";
    case PROTOCOL_END_LENGTH: return "length";
    case PROTOCOL_END_CONTEXT: return "context";
    case PROTOCOL_END_CANCELED: return "canceled";
    case PROTOCOL_END_FAILED: return "failed";
    case PROTOCOL_END_GUARDED: return "content_filter";
    case PROTOCOL_END_STEERED: break;
    }
    return "failed";
}

static void put_ms(json_out *t, const char *name, uint64_t ns)
{
    json_out_string(t, name);
    json_out_literal(t, ":");
    json_out_number(t, (double)(ns / 1000) / 1e3);
}

static int end(choice *ch, protocol_end how, const protocol_usage *usage,
               const protocol_error *error)
{
    answer *a = ch->a;
    json_out *t = &a->event;
    if (!a->sink.c) return CERIUM_OK;
    if (how == PROTOCOL_END_FAILED && error) {
        sink_fail(&a->sink, error);
        return CERIUM_OK;
    }
    put_event(t, "completion.done", a->id);
    json_out_literal(t, ",\"reason\":");
    json_out_string(t, reason_of(ch, how));
    json_out_literal(t, ",\"usage\":{\"input_tokens\":");
    json_out_integer(t, usage->input_tokens);
    json_out_literal(t, ",\"cached_tokens\":");
    json_out_integer(t, usage->cached_tokens);
    json_out_literal(t, ",\"output_tokens\":");
    json_out_integer(t, usage->output_tokens);
    json_out_literal(t, "}");
    if (a->request->confidence_min > 0) {
        json_out_literal(t, ",\"confidence\":");
        json_out_number(t, exp(usage->logprob));
    }
    json_out_literal(t, ",\"timings\":{");
    put_ms(t, "queue_ms", usage->queue_ns);
    json_out_literal(t, ",");
    put_ms(t, "prompt_ms", usage->prompt_ns);
    json_out_literal(t, ",");
    put_ms(t, "first_token_ms", ch->first_ns ? ch->first_ns - a->started_ns : 0);
    json_out_literal(t, ",");
    put_ms(t, "predict_ms", usage->predict_ns);
    json_out_literal(t, "}");
    return tell(a, t);
}

static const answer_voice voice_inline = {.begin = begin, .text = text, .finding = finding,
                                          .beat = beat, .end = end};

static void refuse(const sink *k, const protocol_error *e) { inline_refuse(k->c, k->name, e); }

static const sink_type completion_sink = {.streams = true,
                                          .limits = socket_limits,
                                          .event = socket_event,
                                          .fail = refuse,
                                          .refuse = refuse};

/* ---- messages ---- */

static int bad(protocol_error *e, const char *param, const char *what)
{
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param, "%s %s",
                              param, what);
}

static bool id_is_good(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    if (!n || n > ID_BYTES_MAX) return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", id[i]))
            return false;
    return true;
}

/* A string field; *len 0 and *text "" when it is absent or null. */
static int read_string(const json_t *root, const char *name, const char **text, size_t *len,
                       protocol_error *e)
{
    json_t *value = json_object_get(root, name);
    *text = "";
    *len = 0;
    if (!value || json_is_null(value)) return CERIUM_OK;
    if (!json_is_string(value)) return bad(e, name, "is a string");
    *text = json_string_value(value);
    *len = json_string_length(value);
    return CERIUM_OK;
}

static int read_limits(protocol_request *r, protocol_error *e)
{
    json_t *most = json_object_get(r->root, "max_tokens");
    json_t *stops = json_object_get(r->root, "stop"), *stop;
    size_t i;
    r->new_tokens_max = 64;
    if (most && !json_is_null(most)) {
        json_int_t n = json_integer_value(most);
        if (!json_is_integer(most) || n < 1 || n > TOKENS_MAX)
            return bad(e, "max_tokens", "is 1 to 4096");
        r->new_tokens_max = (uint32_t)n;
    }
    if (!stops || json_is_null(stops)) return CERIUM_OK;
    if (!json_is_array(stops) || json_array_size(stops) > STOPS_MAX)
        return bad(e, "stop", "is an array of at most 4 strings");
    json_array_foreach(stops, i, stop)
    {
        size_t len = json_string_length(stop);
        if (!json_is_string(stop) || !len || len > CERIUM_STOP_BYTES_MAX)
            return bad(e, "stop", "holds strings of 1 to 256 bytes");
        r->stops[r->sampling.n_stops++] = json_string_value(stop);
    }
    r->sampling.stops = r->stops;
    return CERIUM_OK;
}

static int read_share(const json_t *root, const char *key, double standard, double *out,
                      protocol_error *e)
{
    const json_t *value = json_object_get(root, key);
    *out = standard;
    if (!value || json_is_null(value)) return CERIUM_OK;
    double x = json_is_number(value) ? json_number_value(value) : -1;
    if (!(x >= 0 && x <= 1)) return bad(e, key, "is 0 to 1");
    *out = x;
    return CERIUM_OK;
}

static int read_request(const protocol_defaults *d, protocol_request *r, protocol_error *e)
{
    cerium_infill *in = &r->infill;
    size_t path_len, words_len;
    const char *path, *words;
    double pointer;
    r->api = PROTOCOL_INFILL;
    r->stream = true;
    r->fill_in = true;
    r->n_choices = r->n_best = 1;
    r->class_ = CERIUM_CLASS_COMPLETION;
    r->sampling = d->sampling;
    if (!json_is_string(json_object_get(r->root, "prefix")))
        return bad(e, "prefix", "is a string and has to be there");
    RETURN_IF(read_string(r->root, "prefix", &in->prefix, &in->prefix_len, e));
    RETURN_IF(read_string(r->root, "suffix", &in->suffix, &in->suffix_len, e));
    RETURN_IF(read_string(r->root, "path", &path, &path_len, e));
    RETURN_IF(read_string(r->root, "cerium_guard", &words, &words_len, e));
    RETURN_IF(read_share(r->root, "min_confidence", d->confidence_min,
                         &r->confidence_min, e));
    RETURN_IF(read_share(r->root, "pointer", (double)d->pointer, &pointer, e));
    r->sampling.pointer = (float)pointer;
    r->guard = words_len ? words : NULL;
    in->path = path_len ? path : NULL;
    return read_limits(r, e);
}

int inline_read(protocol_body *body, const protocol_defaults *defaults, protocol_request **out,
                char id[INLINE_ID_BYTES], protocol_error *e)
{
    const char *said = json_string_value(json_object_get(body->root, "id"));
    id[0] = 0;
    if (!id_is_good(said)) {
        protocol_body_free(body);
        return bad(e, "id", "is 1 to 64 of A-Za-z0-9_.-");
    }
    snprintf(id, INLINE_ID_BYTES, "%s", said);
    protocol_request *r = memory_zalloc(1, sizeof *r);
    if (!r) {
        protocol_body_free(body);
        return protocol_error_memory(e);
    }
    r->root = body->root;
    r->tool_set = body->tool_set;
    int status = read_request(defaults, r, e);
    if (status)
        protocol_request_free(&r);
    else
        *out = r;
    return status;
}

void inline_begin(connection *c, protocol_request *r, const char *id, size_t n_bytes,
                  uint64_t started_ns)
{
    protocol_error e;
    char client[32]; /* a WebSocket is one */
    snprintf(client, sizeof client, "socket %llu", (unsigned long long)c->serial);
    answer_order order = {.sink = {.type = &completion_sink, .c = c, .name = id},
                          .voice = &voice_inline,
                          .request = r,
                          .id = id,
                          .document = r->infill.path ? r->infill.path : "",
                          .client = client,
                          .n_bytes = n_bytes,
                          .started_ns = started_ns};
    if (answer_open(c->s, &order, &e)) inline_refuse(c, id, &e);
}

void inline_read_cancel(protocol_body *body, char id[INLINE_ID_BYTES])
{
    const char *said = json_string_value(json_object_get(body->root, "id"));
    snprintf(id, INLINE_ID_BYTES, "%s", id_is_good(said) ? said : "");
    protocol_body_free(body);
}

bool inline_cancel(connection *c, const char *id)
{
    answer *a = id[0] ? c->s->answers : NULL;
    while (a && (a->sink.c != c || a->voice != &voice_inline || strcmp(a->id, id) != 0))
        a = a->next;
    if (a) answer_cancel(a, "completion.cancel");
    return a != NULL;
}
