/* messages_events.c - the events of Anthropic's Messages: blocks one after another, each opened,
 * continued and closed, and the same blocks as one object.
 *
 * Clients add a block to their list when it opens and never look at its number, so no two are open
 * at a time.  A call that was cut off is omitted from the object; in the stream it ends with the
 * reason. */
#include "base/hash.h"
#include "reader/reader_json.h"
#include "protocol/writer.h"

/* ---- events ---- */

/* {"type":NAME */
static json_out *begin_event(protocol_writer *w, const char *name)
{
    json_out *t = event_begin(w);
    json_out_literal(t, "{\"type\":");
    json_out_string(t, name);
    return t;
}

static void send(protocol_writer *w, const char *name)
{
    json_out_literal(&w->event, "}");
    event_send(w, name);
}

/* ---- the message ---- */

static const char *stop_reason(const protocol_writer *w)
{
    const writer_choice *c = &w->choices[0];
    if (!c->ended) return NULL;
    if (w->r->warm_up) return "max_tokens";
    switch (c->end) {
    case PROTOCOL_END_LENGTH: return "max_tokens";
    case PROTOCOL_END_CONTEXT: return "model_context_window_exceeded";
    case PROTOCOL_END_GUARDED: return "refusal";
    case PROTOCOL_END_STOP:
    case PROTOCOL_END_STEERED:
    case PROTOCOL_END_CANCELED:
    case PROTOCOL_END_FAILED: break;
    }
    if (c->stopped_by) return "stop_sequence";
    return c->n_whole ? "tool_use" : "end_turn";
}

/* The uncached part and the cached part add up to the prompt. */
static void put_usage(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    bool ended = w->n_ended == w->n_choices;
    uint32_t input = ended ? u->input_tokens - u->cached_tokens : w->input_tokens;
    json_out_literal(t, "\"usage\":{");
    put_count(t, "input_tokens", input);
    json_out_literal(t, ",");
    put_count(t, "cache_read_input_tokens", ended ? u->cached_tokens : 0);
    json_out_literal(t, ",\"cache_creation_input_tokens\":0,\"cache_creation\":null,");
    put_count(t, "output_tokens", ended ? u->output_tokens : 0);
    json_out_literal(t, ",\"output_tokens_details\":{");
    put_count(t, "thinking_tokens", ended ? u->reasoning_tokens : 0);
    json_out_put(t, w->r->class_ == CERIUM_CLASS_EDIT
                        ? VIEW("},\"service_tier\":\"priority\"")
                        : VIEW("},\"service_tier\":\"standard\""));
    json_out_literal(t, ",\"server_tool_use\":null,\"inference_geo\":null,\"speed\":null}");
}

/* The reasons, without braces. */
static void put_stop(const protocol_writer *w, json_out *t)
{
    const writer_choice *c = &w->choices[0];
    bool stopped = c->ended && c->stopped_by && c->end == PROTOCOL_END_STOP;
    json_out_literal(t, "\"stop_reason\":");
    json_out_string(t, stop_reason(w));
    json_out_literal(t, ",\"stop_sequence\":");
    json_out_string(t, stopped ? c->stopped_by : NULL);
    json_out_literal(t, ",\"stop_details\":null,\"container\":null");
}

static void put_message(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"type\":\"message\",\"role\":\"assistant\",\"model\":");
    json_out_string(t, w->r->model ? w->r->model : w->answer.model);
    json_out_literal(t, ",\"content\":[");
    json_out_put(t, json_out_view(&w->items));
    json_out_literal(t, "],");
    put_stop(w, t);
    json_out_literal(t, ",\"diagnostics\":null,");
    put_usage(w, t);
    if (w->n_ended == w->n_choices) put_findings(w, t);
    json_out_literal(t, "}");
}

static void begin(protocol_writer *w)
{
    if (!writer_live(w)) return;
    json_out *t = begin_event(w, "message_start");
    json_out_literal(t, ",\"message\":");
    put_message(w, t);
    send(w, "message_start");
}

/* ---- blocks ---- */

static bool is_hidden(const protocol_writer *w, const writer_choice *c)
{
    return c->piece == PIECE_REASONING && w->r->hides_thoughts;
}

/* "toolu_" and the call's own part. */
static void put_call_id(const writer_choice *c, json_out *t)
{
    char id[sizeof c->call_id + 8];
    const char *own = strchr(c->call_id, '_');
    snprintf(id, sizeof id, "toolu%s", own ? own : c->call_id);
    json_out_string(t, id);
}

/* The signature: of a shown thought a digest; of a hidden one its text, because the client sends it
 * back. */
static void put_signature(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    char digest[32];
    view text = {c->text.ptr ? c->text.ptr : "", c->text.len};
    if (w->r->hides_thoughts) {
        json_out_opaque(t, text);
        return;
    }
    snprintf(digest, sizeof digest, "cerium%016llx",
             (unsigned long long)hash_bytes(text.ptr, text.len, 0));
    json_out_string(t, digest);
}

/* A delta's event up to its text: {"type":"content_block_delta","index":N,"delta":{... */
static void put_delta(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    json_out_literal(t, "{\"type\":\"content_block_delta\",\"index\":");
    json_out_integer(t, w->n_items);
    switch (c->piece) {
    case PIECE_NONE:
    case PIECE_TEXT: json_out_literal(t, ",\"delta\":{\"type\":\"text_delta\",\"text\":\""); break;
    case PIECE_REASONING:
        json_out_literal(t, ",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"");
        break;
    case PIECE_CALL:
        json_out_literal(t, ",\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"");
        break;
    }
}

static void open(protocol_writer *w, writer_choice *c)
{
    if (!writer_live(w)) return;
    json_out *t = begin_event(w, "content_block_start");
    json_out_literal(t, ",\"index\":");
    json_out_integer(t, w->n_items);
    json_out_literal(t, ",\"content_block\":{\"type\":");
    switch (c->piece) {
    case PIECE_NONE:
    case PIECE_TEXT: json_out_literal(t, "\"text\",\"text\":\"\",\"citations\":null}"); break;
    case PIECE_REASONING:
        json_out_literal(t, "\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
        break;
    case PIECE_CALL:
        json_out_literal(t, "\"tool_use\",\"id\":");
        put_call_id(c, t);
        json_out_literal(t, ",\"name\":");
        json_out_quoted(t, (view){c->call_name.ptr, c->call_name.len});
        json_out_literal(t, ",\"input\":{},\"caller\":{\"type\":\"direct\"}}");
        break;
    }
    send(w, "content_block_start");
    json_out_clear(&c->head);
    put_delta(w, c, &c->head);
}

static void send_delta(protocol_writer *w, writer_choice *c, view text)
{
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&c->head));
    json_out_escape(t, text);
    json_out_literal(t, "\"}");
    send(w, "content_block_delta");
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    if (writer_live(w) && !is_hidden(w, c)) send_delta(w, c, text);
}

/* Arguments of a whole call are an object, or become one. */
static void put_input(const writer_choice *c, json_out *t)
{
    view text = {c->text.ptr ? c->text.ptr : "", c->text.len};
    size_t i = 0;
    while (i < text.len && memchr(" \t\r\n", text.ptr[i], 4)) i++;
    if (i == text.len) {
        json_out_literal(t, "{}");
    } else if (text.ptr[i] == '{' && json_is_whole(text)) {
        json_out_put(t, text);
    } else {
        json_out_literal(t, "{\"input\":");
        json_out_quoted(t, text);
        json_out_literal(t, "}");
    }
}

static void make_block(protocol_writer *w, const writer_choice *c)
{
    json_out *t = &w->item;
    json_out_clear(t);
    switch (c->piece) {
    case PIECE_NONE:
    case PIECE_TEXT:
        json_out_literal(t, "{\"type\":\"text\",\"text\":");
        json_out_quoted(t, (view){c->text.ptr, c->text.len});
        json_out_literal(t, ",\"citations\":null}");
        break;
    case PIECE_REASONING:
        json_out_literal(t, "{\"type\":\"thinking\",\"thinking\":");
        json_out_quoted(t, w->r->hides_thoughts ? VIEW("") : (view){c->text.ptr, c->text.len});
        json_out_literal(t, ",\"signature\":");
        put_signature(w, c, t);
        json_out_literal(t, "}");
        break;
    case PIECE_CALL:
        json_out_literal(t, "{\"type\":\"tool_use\",\"id\":");
        put_call_id(c, t);
        json_out_literal(t, ",\"name\":");
        json_out_quoted(t, (view){c->call_name.ptr, c->call_name.len});
        json_out_literal(t, ",\"input\":");
        put_input(c, t);
        json_out_literal(t, ",\"caller\":{\"type\":\"direct\"}}");
        break;
    }
    if (t->status && !w->status) w->status = t->status;
}

/* Free text given to a tool was streamed bare: no text can follow it. */
static void send_end(protocol_writer *w, writer_choice *c)
{
    json_out *t;
    if (c->piece == PIECE_CALL && !c->text.len) send_delta(w, c, VIEW("{}"));
    if (c->piece == PIECE_REASONING) {
        t = begin_event(w, "content_block_delta");
        json_out_literal(t, ",\"index\":");
        json_out_integer(t, w->n_items);
        json_out_literal(t, ",\"delta\":{\"type\":\"signature_delta\",\"signature\":");
        put_signature(w, c, t);
        json_out_literal(t, "}");
        send(w, "content_block_delta");
    }
    t = begin_event(w, "content_block_stop");
    json_out_literal(t, ",\"index\":");
    json_out_integer(t, w->n_items);
    send(w, "content_block_stop");
}

static void close(protocol_writer *w, writer_choice *c, bool whole)
{
    if (writer_live(w)) send_end(w, c);
    const uint32_t n = w->n_items++;
    if (c->piece == PIECE_CALL && !whole) return;
    make_block(w, c);
    if (n && w->items.b.len) json_out_literal(&w->items, ",");
    json_out_put(&w->items, json_out_view(&w->item));
    if (w->items.status && !w->status) w->status = w->items.status;
}

/* ---- the end ---- */

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    if (w->error.http_status) {
        json_out *t = event_begin(w);
        if (!t->status) t->status = protocol_error_body_as(&t->b, PROTOCOL_FORM_MESSAGES,
                                                           &w->error, NULL);
        event_send(w, "error");
        return;
    }
    json_out *t = begin_event(w, "message_delta");
    json_out_literal(t, ",\"delta\":{");
    put_stop(w, t);
    json_out_literal(t, "},");
    put_usage(w, t);
    put_findings(w, t);
    send(w, "message_delta");
    begin_event(w, "message_stop");
    send(w, "message_stop");
}

static void ping(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = begin_event(w, "ping");
    if (p->loading) put_beat(t, p);
    send(w, "ping");
}

const writer_api writer_messages = {
    .begin = begin, .open = open, .delta = delta, .close = close, .end = end,
    .body = put_message, .beat = ping,
};
