/* response_events.c - the events of the Responses API, in OpenAI's order.
 *
 * A delta is the hot path: the first half of its event is made when its item opens, so that a delta
 * costs an escape and a copy. */
#include "protocol/writer.h"

/* ---- events ---- */

/* {"type":NAME  */
static json_out *begin(protocol_writer *w, const char *name)
{
    json_out *t = event_begin(w);
    json_out_literal(t, "{\"type\":");
    json_out_string(t, name);
    return t;
}

/* ,"sequence_number":N} and the lane. */
static void send(protocol_writer *w, const char *name)
{
    json_out *t = &w->event;
    json_out_literal(t, ",\"sequence_number\":");
    json_out_integer(t, (int64_t)w->sequence++);
    if (w->r->stream_id) {
        json_out_literal(t, ",\"stream_id\":");
        json_out_string(t, w->r->stream_id);
    }
    json_out_literal(t, "}");
    event_send(w, name);
}

static void put_place(const protocol_writer *w, json_out *t, const char *id, bool content)
{
    json_out_literal(t, ",\"item_id\":");
    json_out_string(t, id);
    json_out_literal(t, ",\"output_index\":");
    json_out_integer(t, w->n_items);
    if (content) json_out_literal(t, ",\"content_index\":0");
}

static void send_item(protocol_writer *w, const char *name, const json_out *item)
{
    json_out *t = begin(w, name);
    json_out_literal(t, ",\"output_index\":");
    json_out_integer(t, w->n_items);
    json_out_literal(t, ",\"item\":");
    json_out_put(t, json_out_view(item));
    send(w, name);
}

/* ---- items ---- */

typedef struct {
    const char *prefix;      /* of the id */
    const char *delta, *done; /* events */
    const char *text_key;    /* of the done event */
} item_kind;

static const item_kind item_text = {"msg", "response.output_text.delta",
                                    "response.output_text.done", "text"};
static const item_kind item_reasoning = {"rs", "response.reasoning_text.delta",
                                         "response.reasoning_text.done", "text"};
static const item_kind item_function = {"fc", "response.function_call_arguments.delta",
                                        "response.function_call_arguments.done", "arguments"};
static const item_kind item_custom = {"ctc", "response.custom_tool_call_input.delta",
                                      "response.custom_tool_call_input.done", "input"};

static const item_kind *kind_of(const writer_choice *c)
{
    if (c->piece == PIECE_TEXT) return &item_text;
    if (c->piece == PIECE_REASONING) return &item_reasoning;
    return writer_calls_custom(c) ? &item_custom : &item_function;
}

static void put_name(const writer_choice *c, json_out *t)
{
    if (c->tool)
        json_out_string(t, c->tool->name);
    else
        json_out_quoted(t, (view){c->call_name.ptr, c->call_name.len});
}

/* The text part of a message, or of a thought. */
static void put_part(const writer_choice *c, json_out *t, view text)
{
    bool content = c->piece == PIECE_TEXT;
    json_out_put(t, content ? VIEW("{\"type\":\"output_text\",\"text\":")
                          : VIEW("{\"type\":\"reasoning_text\",\"text\":"));
    json_out_quoted(t, text);
    if (content) {
        json_out_literal(t, ",\"annotations\":[],\"logprobs\":[");
        json_out_put(t, json_out_view(&c->tokens.all));
        json_out_literal(t, "]");
    }
    json_out_literal(t, "}");
}

static void put_call(const writer_choice *c, json_out *t)
{
    view text = {c->text.ptr, c->text.len};
    json_out_put(t, writer_calls_custom(c) ? VIEW(",\"type\":\"custom_tool_call\"")
                                  : VIEW(",\"type\":\"function_call\""));
    json_out_literal(t, ",\"call_id\":");
    json_out_string(t, c->call_id);
    json_out_literal(t, ",\"name\":");
    put_name(c, t);
    if (c->tool && c->tool->space) {
        json_out_literal(t, ",\"namespace\":");
        json_out_string(t, c->tool->space);
    }
    json_out_put(t, writer_calls_custom(c) ? VIEW(",\"input\":") : VIEW(",\"arguments\":"));
    json_out_quoted(t, text);
}

/* The open item in its current state, in w->item. */
static void make_item(protocol_writer *w, writer_choice *c, const char *status)
{
    json_out *t = &w->item;
    char id[128];
    bool added = !strcmp(status, "in_progress");
    view text = {c->text.ptr, c->text.len};
    item_id(w, kind_of(c)->prefix, w->n_items, id);
    json_out_clear(t);
    json_out_literal(t, "{\"id\":");
    json_out_string(t, id);
    if (c->piece == PIECE_CALL) {
        put_call(c, t);
    } else {
        json_out_put(t, c->piece == PIECE_TEXT
                             ? VIEW(",\"type\":\"message\",\"role\":\"assistant\",\"content\":[")
                             : VIEW(",\"type\":\"reasoning\",\"summary\":[],\"content\":["));
        if (!added) put_part(c, t, text);
        json_out_literal(t, "]");
    }
    if (c->piece == PIECE_REASONING && w->r->opaque_reasoning && !added) {
        json_out_literal(t, ",\"encrypted_content\":");
        json_out_opaque(t, text);
    }
    json_out_literal(t, ",\"status\":");
    json_out_string(t, status);
    json_out_literal(t, "}");
    if (t->status && !w->status) w->status = t->status;
}

static void open_item(protocol_writer *w, writer_choice *c)
{
    const item_kind *kind = kind_of(c);
    char id[128];
    if (!writer_live(w)) return;
    make_item(w, c, "in_progress");
    send_item(w, "response.output_item.added", &w->item);
    item_id(w, kind->prefix, w->n_items, id);
    bool content = c->piece != PIECE_CALL;
    if (content) {
        json_out *t = begin(w, "response.content_part.added");
        put_place(w, t, id, true);
        json_out_literal(t, ",\"part\":");
        put_part(c, t, (view){0});
        send(w, "response.content_part.added");
    }
    json_out_clear(&c->head);
    json_out_literal(&c->head, "{\"type\":");
    json_out_string(&c->head, kind->delta);
    put_place(w, &c->head, id, content);
    json_out_literal(&c->head, ",\"delta\":\"");
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&c->head));
    json_out_escape(t, text);
    if (c->piece == PIECE_TEXT) {
        json_out_literal(t, "\",\"logprobs\":[");
        json_out_put(t, json_out_view(&c->tokens.taken));
        json_out_literal(t, "]");
    } else {
        json_out_literal(t, "\"");
    }
    send(w, kind_of(c)->delta);
}

static void send_done(protocol_writer *w, writer_choice *c)
{
    const item_kind *kind = kind_of(c);
    bool content = c->piece != PIECE_CALL;
    view text = {c->text.ptr, c->text.len};
    char id[128];
    item_id(w, kind->prefix, w->n_items, id);
    json_out *t = begin(w, kind->done);
    put_place(w, t, id, content);
    json_out_literal(t, ",");
    json_out_string(t, kind->text_key);
    json_out_literal(t, ":");
    json_out_quoted(t, text);
    if (kind == &item_function) {
        json_out_literal(t, ",\"name\":");
        put_name(c, t);
    }
    if (kind == &item_text) {
        json_out_literal(t, ",\"logprobs\":[");
        json_out_put(t, json_out_view(&c->tokens.all));
        json_out_literal(t, "]");
    }
    send(w, kind->done);
    if (!content) return;
    t = begin(w, "response.content_part.done");
    put_place(w, t, id, true);
    json_out_literal(t, ",\"part\":");
    put_part(c, t, text);
    send(w, "response.content_part.done");
}

/* Clients run a call as soon as its item is done, so a cut off call is never done. */
static void close_item(protocol_writer *w, writer_choice *c, bool whole)
{
    bool announce = writer_live(w) && (whole || c->piece != PIECE_CALL);
    if (announce) send_done(w, c);
    make_item(w, c, whole ? "completed" : "incomplete");
    if (announce) send_item(w, "response.output_item.done", &w->item);
    w->n_items++;
    /* The answer ends well, without a call. */
    if (!whole && c->piece == PIECE_CALL && c->sent_verdict) return;
    if (w->items.b.len) json_out_literal(&w->items, ",");
    json_out_put(&w->items, json_out_view(&w->item));
    if (w->items.status && !w->status) w->status = w->items.status;
}

/* ---- responses ---- */

static const char *status_of(const protocol_writer *w)
{
    if (w->n_ended < w->n_choices)
        return w->r->background && !w->runs ? "queued" : "in_progress";
    switch (w->choices[0].end) {
    case PROTOCOL_END_STOP: return "completed";
    case PROTOCOL_END_LENGTH:
    case PROTOCOL_END_CONTEXT:
    case PROTOCOL_END_STEERED:
    case PROTOCOL_END_GUARDED: return "incomplete";
    case PROTOCOL_END_CANCELED: return "cancelled";
    case PROTOCOL_END_FAILED: return "failed";
    }
    return "failed";
}

static void put_error(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"code\":");
    json_out_string(t, w->error.code ? w->error.code : "server_error");
    json_out_literal(t, ",\"message\":");
    json_out_string(t, w->error.message);
    json_out_literal(t, "}");
}

static void response_usage(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    json_out_literal(t, "{");
    put_count(t, "input_tokens", u->input_tokens);
    json_out_literal(t, ",\"input_tokens_details\":{");
    put_count(t, "cached_tokens", u->cached_tokens);
    json_out_literal(t, ",");
    put_count(t, "cache_write_tokens", 0);
    json_out_literal(t, "},");
    put_count(t, "output_tokens", u->output_tokens);
    json_out_literal(t, ",\"output_tokens_details\":{");
    put_count(t, "reasoning_tokens", u->reasoning_tokens);
    json_out_literal(t, "},");
    put_count(t, "total_tokens", (uint64_t)u->input_tokens + u->output_tokens);
    put_digests(w, t);
    json_out_literal(t, "}");
}

static void put_response(const protocol_writer *w, json_out *t)
{
    const char *status = status_of(w);
    bool ended = w->n_ended == w->n_choices;
    const protocol_usage *u = &w->usage;
    uint64_t ns = u->queue_ns + u->prompt_ns + u->predict_ns;
    json_out_literal(t, "{");
    json_out_put(t, json_out_view(&w->echo));
    json_out_literal(t, "\"status\":");
    json_out_string(t, status);
    json_out_literal(t, ",\"completed_at\":");
    if (!strcmp(status, "completed"))
        json_out_integer(t, w->answer.created_at + (int64_t)(ns / 1000000000u));
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"error\":");
    if (!strcmp(status, "failed"))
        put_error(w, t);
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"incomplete_details\":");
    const protocol_end end = w->choices[0].end;
    json_out_put(t, strcmp(status, "incomplete") ? VIEW("null")
                    : end == PROTOCOL_END_GUARDED ? VIEW("{\"reason\":\"content_filter\"}")
                    : end == PROTOCOL_END_STEERED ? VIEW("{\"reason\":\"steered\"}")
                                                 : VIEW("{\"reason\":\"max_output_tokens\"}"));
    json_out_literal(t, ",\"output\":[");
    json_out_put(t, json_out_view(&w->items));
    json_out_literal(t, "],\"usage\":");
    if (ended)
        response_usage(w, t);
    else
        json_out_literal(t, "null");
    put_findings(w, t);
    json_out_literal(t, "}");
}

static void send_response(protocol_writer *w, const char *name)
{
    if (!writer_live(w)) return;
    json_out *t = begin(w, name);
    json_out_literal(t, ",\"response\":");
    put_response(w, t);
    send(w, name);
}

static void begin_response(protocol_writer *w)
{
    response_echo(w);
    send_response(w, "response.created");
    send_response(w, w->r->background && !w->runs ? "response.queued" : "response.in_progress");
}

/* Only a background response reports it to a waiting client: elsewhere the stream itself shows
 * it. */
static void run_response(protocol_writer *w)
{
    if (w->r->background) send_response(w, "response.in_progress");
}

static void end_response(protocol_writer *w)
{
    switch (w->choices[0].end) {
    case PROTOCOL_END_STOP: send_response(w, "response.completed"); break;
    case PROTOCOL_END_LENGTH:
    case PROTOCOL_END_CONTEXT:
    case PROTOCOL_END_GUARDED:
    case PROTOCOL_END_STEERED:
    case PROTOCOL_END_CANCELED: send_response(w, "response.incomplete"); break;
    case PROTOCOL_END_FAILED: send_response(w, "response.failed"); break;
    }
}

static void tell_finding(protocol_writer *w, writer_choice *c, const protocol_finding *f)
{
    (void)c;
    if (!writer_live(w)) return;
    json_out *t = begin(w, "response.cerium.finding");
    json_out_literal(t, ",\"output_index\":");
    json_out_integer(t, w->n_items);
    json_out_literal(t, ",\"finding\":");
    json_out_finding(t, f);
    send(w, "response.cerium.finding");
}

/* OpenAI's sign of life.  It counts in the response's sequence like every event; comments and pings
 * do not reset Codex's timeout. */
static void keepalive(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = begin(w, "keepalive");
    put_beat(t, p);
    send(w, "keepalive");
}

const writer_api writer_responses = {
    .begin = begin_response, .runs = run_response, .open = open_item, .delta = delta,
    .close = close_item, .end = end_response, .finding = tell_finding,
    .body = put_response, .beat = keepalive,
};

/* ---- compaction: the model's text is the summary, in one opaque item ---- */

/* Thoughts and calls are not part of the summary. */
static void compact_close(protocol_writer *w, writer_choice *c, bool whole)
{
    (void)whole;
    if (c->piece == PIECE_TEXT && !w->status)
        w->status = bytes_append(&c->content, c->text.ptr, c->text.len);
}

static void put_item_done(protocol_writer *w)
{
    if (w->n_items) json_out_literal(&w->items, ",");
    json_out_put(&w->items, json_out_view(&w->item));
    if (w->items.status && !w->status) w->status = w->items.status;
}

/* /responses/compact returns the user's messages, as separate items. */
static void keep_user_messages(protocol_writer *w)
{
    char id[128];
    for (size_t i = 0; i < w->r->n_messages; i++) {
        const cerium_message *m = &w->r->messages[i];
        if (strcmp(m->role, "user") || w->r->message_item[i] < 0) continue;
        json_out *t = &w->item;
        json_out_clear(t);
        item_id(w, "msg", w->n_items, id);
        json_out_literal(t, "{\"id\":");
        json_out_string(t, id);
        json_out_literal(t, ",\"type\":\"message\",\"status\":\"completed\",\"role\":\"user\","
                             "\"content\":[{\"type\":\"input_text\",\"text\":");
        json_out_string(t, m->content);
        json_out_literal(t, "}]}");
        put_item_done(w);
        w->n_items++;
    }
}

static void compact_end_choice(protocol_writer *w, writer_choice *c)
{
    char id[128];
    bool alone = w->r->api == PROTOCOL_COMPACT;
    if (c->end != PROTOCOL_END_STOP && c->end != PROTOCOL_END_LENGTH) return;
    if (alone) keep_user_messages(w);
    json_out *t = &w->item;
    json_out_clear(t);
    item_id(w, "cmp", w->n_items, id);
    json_out_literal(t, "{\"id\":");
    json_out_string(t, id);
    json_out_literal(t, ",\"type\":\"compaction\",\"encrypted_content\":");
    json_out_opaque(t, (view){c->content.ptr, c->content.len});
    json_out_literal(t, "}");
    if (!alone && writer_live(w)) {
        send_item(w, "response.output_item.added", t);
        send_item(w, "response.output_item.done", t);
    }
    put_item_done(w);
    w->n_items++;
    /* A summary that reached a cap is still valid; the client has no use for a part of an
     * answer. */
    c->end = PROTOCOL_END_STOP;
}

static void compact_begin(protocol_writer *w)
{
    response_echo(w);
    if (w->r->api == PROTOCOL_COMPACT) return;
    send_response(w, "response.created");
    send_response(w, "response.in_progress");
}

static void compact_end(protocol_writer *w)
{
    if (w->r->api != PROTOCOL_COMPACT) end_response(w);
}

static void compact_body(const protocol_writer *w, json_out *t)
{
    if (w->r->api != PROTOCOL_COMPACT) {
        put_response(w, t);
        return;
    }
    json_out_literal(t, "{\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"object\":\"response.compaction\",\"created_at\":");
    json_out_integer(t, w->answer.created_at);
    json_out_literal(t, ",\"output\":[");
    json_out_put(t, json_out_view(&w->items));
    json_out_literal(t, "],\"usage\":");
    response_usage(w, t);
    json_out_literal(t, "}");
}

/* On its own, it is not a stream of Responses' events. */
static void compact_beat(protocol_writer *w, const protocol_progress *p)
{
    if (w->r->api == PROTOCOL_COMPACT)
        beat_silent(w, p);
    else
        keepalive(w, p);
}

const writer_api writer_compaction = {
    .begin = compact_begin, .close = compact_close, .end_choice = compact_end_choice,
    .end = compact_end, .body = compact_body, .beat = compact_beat,
};
