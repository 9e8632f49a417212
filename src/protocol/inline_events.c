/* inline_events.c - completion.delta, .finding, .keepalive and .done: completions while typing. */
#include <math.h>

#include "protocol/writer.h"

static json_out *begin_event(protocol_writer *w, const char *type)
{
    json_out *t = event_begin(w);
    json_out_literal(t, "{\"type\":");
    json_out_string(t, type);
    json_out_literal(t, ",\"id\":");
    json_out_string(t, w->answer.id);
    return t;
}

/* Closes the object and sends it. */
static void send_event(protocol_writer *w)
{
    json_out_literal(&w->event, "}");
    event_send(w, NULL);
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    if (w->r->candidates) w->status = bytes_append(&c->content, text.ptr, text.len);
    if (!writer_live(w) || c->index) return; /* the other candidates come with the end */
    json_out *t = begin_event(w, "completion.delta");
    json_out_literal(t, ",\"delta\":");
    json_out_quoted(t, text);
    send_event(w);
}

static void finding(protocol_writer *w, writer_choice *c, const protocol_finding *f)
{
    (void)c;
    if (!writer_live(w)) return;
    json_out *t = begin_event(w, "completion.finding");
    json_out_literal(t, ",\"finding\":");
    json_out_finding(t, f);
    send_event(w);
}

/* Pages that do not know the type ignore it. */
static void beat(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = begin_event(w, "completion.keepalive");
    put_beat(t, p);
    send_event(w);
}

static const char *reason_of(const protocol_writer *w)
{
    if (w->usage.reason) return w->usage.reason;
    switch (w->choices[0].end) {
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

static void put_done(protocol_writer *w)
{
    const protocol_usage *u = &w->usage;
    json_out *t = begin_event(w, "completion.done");
    json_out_literal(t, ",\"reason\":");
    json_out_string(t, reason_of(w));
    if (w->choices[0].stopped_by) {
        json_out_literal(t, ",\"stop\":");
        json_out_string(t, w->choices[0].stopped_by);
    }
    json_out_literal(t, ",\"usage\":{\"input_tokens\":");
    json_out_integer(t, u->input_tokens);
    json_out_literal(t, ",\"cached_tokens\":");
    json_out_integer(t, u->cached_tokens);
    json_out_literal(t, ",\"output_tokens\":");
    json_out_integer(t, u->output_tokens);
    json_out_literal(t, "}");
    if (w->r->confidence_min > 0) {
        json_out_literal(t, ",\"confidence\":");
        json_out_number(t, exp(w->choices[0].logprob));
    }
    json_out_literal(t, ",\"timings\":{");
    put_ms(t, "queue_ms", u->queue_ns);
    json_out_literal(t, ",");
    put_ms(t, "prompt_ms", u->prompt_ns);
    json_out_literal(t, ",");
    put_ms(t, "first_token_ms", u->first_ns);
    json_out_literal(t, ",");
    put_ms(t, "predict_ms", u->predict_ns);
    json_out_literal(t, "}");
    put_candidates(w, t);
    send_event(w);
}

int protocol_inline_error(bytes *out, const protocol_error *e, const char *id)
{
    json_out error = {.b = *out}, *t = &error;
    json_out_literal(t, "{\"type\":\"error\",\"status\":");
    json_out_integer(t, e->http_status);
    if (id && id[0]) {
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
    *out = error.b;
    return error.status;
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    if (!w->error.http_status) {
        put_done(w);
        return;
    }
    json_out *t = event_begin(w);
    t->status = protocol_inline_error(&t->b, &w->error, w->answer.id);
    event_send(w, NULL);
}

static void body(const protocol_writer *w, json_out *t)
{
    (void)w;
    json_out_literal(t, "null"); /* it always streams */
}

const writer_api writer_inline = {
    .delta = delta, .end = end, .finding = finding, .body = body, .beat = beat,
};
