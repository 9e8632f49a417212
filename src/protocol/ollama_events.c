/* ollama_events.c - answers of Ollama's /api/chat and /api/generate: an object a line; the last one
 * has the reason of the end and the durations.
 *
 * A call is sent whole, in a separate line; its arguments are an object. */
#include <time.h>

#include "reader/reader_json.h"
#include "protocol/writer.h"

static bool is_chat(const protocol_writer *w) { return w->r->api == PROTOCOL_OLLAMA_CHAT; }

/* 2026-11-25T12:00:00Z */
void put_time(json_out *t, int64_t seconds)
{
    char text[32];
    time_t at = (time_t)seconds;
    struct tm parts;
    gmtime_r(&at, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    json_out_string(t, text);
}

/* {"model":...,"created_at":... */
static void put_head(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"model\":");
    json_out_string(t, w->r->model ? w->r->model : w->answer.model);
    json_out_literal(t, ",\"created_at\":");
    put_time(t, w->answer.created_at);
}

/* ,"message":{"role":"assistant", KEY:"text"} or ,"response":"text" */
static void put_text(const protocol_writer *w, json_out *t, piece_kind kind, view text)
{
    bool thought = kind == PIECE_REASONING;
    if (is_chat(w)) {
        json_out_put(t, thought ? VIEW(",\"message\":{\"role\":\"assistant\",\"content\":\"\","
                                       "\"thinking\":")
                                : VIEW(",\"message\":{\"role\":\"assistant\",\"content\":"));
        json_out_quoted(t, text);
        json_out_literal(t, "}");
        return;
    }
    json_out_put(t, thought ? VIEW(",\"response\":\"\",\"thinking\":") : VIEW(",\"response\":"));
    json_out_quoted(t, text);
}

static void send_line(protocol_writer *w)
{
    json_out_literal(&w->event, ",\"done\":false}");
    event_send(w, NULL);
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    if (c->piece == PIECE_CALL) return;
    w->status = bytes_append(c->piece == PIECE_REASONING ? &c->thought : &c->content, text.ptr,
                             text.len);
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    put_head(w, t);
    put_text(w, t, c->piece, text);
    send_line(w);
}

static void put_call(const writer_choice *c, json_out *t)
{
    view text = {c->text.ptr ? c->text.ptr : "", c->text.len};
    bool is_object = text.len && text.ptr[0] == '{' && json_is_whole(text);
    json_out_literal(t, "{\"id\":");
    json_out_string(t, c->call_id);
    json_out_literal(t, ",\"function\":{\"index\":");
    json_out_integer(t, c->n_calls - 1);
    json_out_literal(t, ",\"name\":");
    json_out_quoted(t, (view){c->call_name.ptr, c->call_name.len});
    json_out_literal(t, ",\"arguments\":");
    if (is_object) {
        json_out_put(t, text);
    } else if (!text.len) {
        json_out_literal(t, "{}");
    } else {
        json_out_literal(t, "{\"input\":");
        json_out_quoted(t, text);
        json_out_literal(t, "}");
    }
    json_out_literal(t, "}}");
}

static void close(protocol_writer *w, writer_choice *c, bool whole)
{
    if (c->piece != PIECE_CALL || !whole) return; /* a call that was cut off is dropped */
    json_out *t = &c->calls;
    if (t->b.len) json_out_literal(t, ",");
    size_t from = t->b.len;
    put_call(c, t);
    if (t->status && !w->status) w->status = t->status;
    if (!writer_live(w)) return;
    view call = {t->b.ptr + from, t->b.len - from};
    t = event_begin(w);
    put_head(w, t);
    json_out_literal(t, ",\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[");
    json_out_put(t, call);
    json_out_literal(t, "]}");
    send_line(w);
}

static const char *done_reason(const protocol_writer *w)
{
    const writer_choice *c = &w->choices[0];
    if (w->r->warm_up) return "load";
    return c->end == PROTOCOL_END_LENGTH || c->end == PROTOCOL_END_CONTEXT ? "length" : "stop";
}

/* The last object's fields beside its message; durations in nanoseconds. */
static void put_done(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    json_out_literal(t, ",\"done\":true,\"done_reason\":");
    json_out_string(t, done_reason(w));
    json_out_literal(t, ",");
    put_count(t, "total_duration", u->queue_ns + u->prompt_ns + u->predict_ns);
    json_out_literal(t, ",\"load_duration\":0,");
    put_count(t, "prompt_eval_count", u->input_tokens);
    json_out_literal(t, ",");
    put_count(t, "prompt_eval_duration", u->prompt_ns);
    json_out_literal(t, ",");
    put_count(t, "eval_count", u->output_tokens);
    json_out_literal(t, ",");
    put_count(t, "eval_duration", u->predict_ns);
    put_findings(w, t);
    json_out_literal(t, "}");
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    if (w->error.http_status) {
        t->status = protocol_error_body_as(&t->b, PROTOCOL_FORM_OLLAMA, &w->error, NULL);
    } else {
        put_head(w, t);
        put_text(w, t, PIECE_TEXT, VIEW(""));
        put_done(w, t);
    }
    event_send(w, NULL);
}

static void body(const protocol_writer *w, json_out *t)
{
    const writer_choice *c = &w->choices[0];
    put_head(w, t);
    if (is_chat(w)) {
        json_out_literal(t, ",\"message\":{\"role\":\"assistant\",\"content\":");
        json_out_quoted(t, (view){c->content.ptr, c->content.len});
    } else {
        json_out_literal(t, ",\"response\":");
        json_out_quoted(t, (view){c->content.ptr, c->content.len});
    }
    if (c->thought.len) {
        json_out_literal(t, ",\"thinking\":");
        json_out_quoted(t, (view){c->thought.ptr, c->thought.len});
    }
    if (is_chat(w) && c->calls.b.len) {
        json_out_literal(t, ",\"tool_calls\":[");
        json_out_put(t, json_out_view(&c->calls));
        json_out_literal(t, "]");
    }
    if (is_chat(w)) json_out_literal(t, "}");
    put_done(w, t);
}

/* NDJSON has no comments: a line without text. */
static void beat(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    put_head(w, t);
    put_text(w, t, PIECE_TEXT, VIEW(""));
    if (p->loading) put_beat(t, p);
    send_line(w);
}

const writer_api writer_ollama = {
    .delta = delta, .close = close, .end = end, .body = body, .beat = beat,
};

int protocol_ollama_load_body(bytes *out, const protocol_request *r, const char *model,
                              int64_t now)
{
    json_out t = {.b = *out};
    json_out_literal(&t, "{\"model\":");
    json_out_string(&t, r->model ? r->model : model);
    json_out_literal(&t, ",\"created_at\":");
    put_time(&t, now);
    json_out_put(&t, r->api == PROTOCOL_OLLAMA_CHAT
                         ? VIEW(",\"message\":{\"role\":\"assistant\",\"content\":\"\"}")
                         : VIEW(",\"response\":\"\""));
    json_out_literal(&t, ",\"done\":true,\"done_reason\":");
    json_out_string(&t, r->loads);
    json_out_literal(&t, "}");
    *out = t.b;
    return t.status;
}
