/* chat_events.c - chunks of Chat Completions: the role first, then deltas, then the finish
 * reason. */
#include "protocol/writer.h"

static void put_head(const protocol_writer *w, json_out *t, const char *object)
{
    json_out_literal(t, "{\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"object\":");
    json_out_string(t, object);
    json_out_literal(t, ",\"created\":");
    json_out_integer(t, w->answer.created_at);
    json_out_literal(t, ",\"model\":");
    json_out_string(t, w->answer.model);
    if (w->answer.served_tier) {
        json_out_literal(t, ",\"service_tier\":");
        json_out_string(t, w->answer.served_tier);
    }
}

static const char chunk[] = "chat.completion.chunk";

/* {...,"choices":[{"index":N,"delta":{ */
static void put_choice(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    put_head(w, t, chunk);
    json_out_literal(t, ",\"choices\":[{\"index\":");
    json_out_integer(t, c->index);
    json_out_literal(t, ",\"delta\":{");
}

/* The text after the delta. */
static void send(protocol_writer *w, const char *finish)
{
    json_out *t = &w->event;
    json_out_literal(t, ",\"finish_reason\":");
    json_out_string(t, finish);
    json_out_put(t, w->r->include_usage ? VIEW("}],\"usage\":null") : VIEW("}]"));
    if (finish) put_findings(w, t);
    json_out_literal(t, "}");
    event_send(w, NULL);
}

static void begin(protocol_writer *w)
{
    for (uint32_t i = 0; i < w->n_choices && writer_live(w); i++) {
        json_out *t = event_begin(w);
        put_choice(w, &w->choices[i], t);
        json_out_literal(t, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null");
        send(w, NULL);
    }
}

/* "id":...,"type":"function","function":{"name":...,"arguments":" and of a function_call, the form
 * before tools, only the name and the arguments. */
static void put_call(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    if (!w->r->legacy_functions) {
        json_out_literal(t, "\"id\":");
        json_out_string(t, c->call_id);
        json_out_put(t, writer_calls_custom(c) ? VIEW(",\"type\":\"custom\",\"custom\":{")
                                      : VIEW(",\"type\":\"function\",\"function\":{"));
    }
    json_out_literal(t, "\"name\":");
    json_out_quoted(t, (view){c->call_name.ptr, c->call_name.len});
    json_out_put(t, writer_calls_custom(c) ? VIEW(",\"input\":\"") : VIEW(",\"arguments\":\""));
}

/* The beginning and the end of a call's deltas, within the delta of a choice. */
static void begin_call(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    if (w->r->legacy_functions) {
        json_out_literal(t, "\"function_call\":{");
        return;
    }
    json_out_literal(t, "\"tool_calls\":[{\"index\":");
    json_out_integer(t, c->n_calls - 1);
    json_out_literal(t, ",");
}

static view end_call(const protocol_writer *w)
{
    return w->r->legacy_functions ? VIEW("\"}},\"logprobs\":") : VIEW("\"}}]},\"logprobs\":");
}

static void open(protocol_writer *w, writer_choice *c)
{
    if (!writer_live(w)) return;
    json_out *t;
    if (c->piece == PIECE_CALL) {
        t = event_begin(w);
        put_choice(w, c, t);
        begin_call(w, c, t);
        put_call(w, c, t);
        json_out_put(t, end_call(w));
        json_out_literal(t, "null");
        send(w, NULL);
    }
    t = &c->head;
    json_out_clear(t);
    put_choice(w, c, t);
    switch (c->piece) {
    case PIECE_NONE:
    case PIECE_TEXT: json_out_literal(t, "\"content\":\""); break;
    case PIECE_REASONING: json_out_literal(t, "\"reasoning_content\":\""); break;
    case PIECE_CALL:
        begin_call(w, c, t);
        json_out_put(t, w->r->legacy_functions ? VIEW("\"arguments\":\"")
                        : writer_calls_custom(c)          ? VIEW("\"custom\":{\"input\":\"")
                                                : VIEW("\"function\":{\"arguments\":\""));
        break;
    }
}

static void put_logprobs(json_out *t, const json_out *list)
{
    json_out_literal(t, "{\"content\":[");
    json_out_put(t, json_out_view(list));
    json_out_literal(t, "],\"refusal\":null}");
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    bool content = c->piece == PIECE_TEXT;
    bytes *all = content ? &c->content : &c->thought;
    if (c->piece != PIECE_CALL) w->status = bytes_append(all, text.ptr, text.len);
    if (content && w->has_logprobs && c->tokens.taken.b.len) {
        if (c->logprobs.b.len) json_out_literal(&c->logprobs, ",");
        json_out_put(&c->logprobs, json_out_view(&c->tokens.taken));
        if (!w->status) w->status = c->logprobs.status;
    }
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&c->head));
    json_out_escape(t, text);
    json_out_put(t, c->piece == PIECE_CALL ? end_call(w) : VIEW("\"},\"logprobs\":"));
    if (content && w->has_logprobs)
        put_logprobs(t, &c->tokens.taken);
    else
        json_out_literal(t, "null");
    send(w, NULL);
}

static void close(protocol_writer *w, writer_choice *c, bool whole)
{
    if (c->piece != PIECE_CALL || !whole) return; /* a call that was cut off is dropped */
    json_out *t = &c->calls;
    if (t->b.len) json_out_literal(t, ",");
    json_out_literal(t, "{");
    put_call(w, c, t);
    json_out_escape(t, (view){c->text.ptr, c->text.len});
    json_out_put(t, w->r->legacy_functions ? VIEW("\"}") : VIEW("\"}}"));
    if (t->status && !w->status) w->status = t->status;
}

static const char *finish(const protocol_writer *w, const writer_choice *c)
{
    if (!c->ended) return NULL;
    if (w->r->warm_up) return "length";
    if (c->end == PROTOCOL_END_LENGTH || c->end == PROTOCOL_END_CONTEXT) return "length";
    if (c->end == PROTOCOL_END_GUARDED) return "content_filter";
    if (!c->n_whole) return "stop";
    return w->r->legacy_functions ? "function_call" : "tool_calls";
}

static void end_choice(protocol_writer *w, writer_choice *c)
{
    if (c->end == PROTOCOL_END_FAILED || !writer_live(w)) return;
    json_out *t = event_begin(w);
    put_choice(w, c, t);
    json_out_literal(t, "},\"logprobs\":null");
    send(w, finish(w, c));
}

static void put_usage(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    put_token_usage(w, t);
    json_out_literal(t, ",\"audio_tokens\":0},\"completion_tokens_details\":{");
    put_count(t, "reasoning_tokens", u->reasoning_tokens);
    json_out_literal(t, ",\"audio_tokens\":0,");
    put_count(t, "accepted_prediction_tokens", u->accepted_tokens);
    json_out_literal(t, ",");
    put_count(t, "rejected_prediction_tokens", u->rejected_tokens);
    json_out_literal(t, "}");
    put_digests(w, t);
    json_out_literal(t, "}");
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    if (w->error.http_status) {
        t->status = protocol_error_body(&t->b, &w->error);
        event_send(w, NULL);
    } else if (w->r->include_usage) {
        put_head(w, t, chunk);
        json_out_literal(t, ",\"choices\":[],");
        put_usage(w, t);
        json_out_literal(t, "}");
        event_send(w, NULL);
    }
    json_out_literal(event_begin(w), "[DONE]");
    event_send(w, NULL);
}

static void put_message(const protocol_writer *w, const writer_choice *c, json_out *t)
{
    json_out_literal(t, "{\"index\":");
    json_out_integer(t, c->index);
    json_out_literal(t, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->content.len || !c->calls.b.len)
        json_out_quoted(t, (view){c->content.ptr, c->content.len});
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"refusal\":null");
    if (c->thought.len) {
        json_out_literal(t, ",\"reasoning_content\":");
        json_out_quoted(t, (view){c->thought.ptr, c->thought.len});
    }
    if (c->calls.b.len) {
        bool legacy = w->r->legacy_functions;
        json_out_put(t, legacy ? VIEW(",\"function_call\":") : VIEW(",\"tool_calls\":["));
        json_out_put(t, json_out_view(&c->calls));
        json_out_put(t, legacy ? VIEW("") : VIEW("]"));
    }
    json_out_literal(t, "},\"logprobs\":");
    if (w->has_logprobs)
        put_logprobs(t, &c->logprobs);
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"finish_reason\":");
    json_out_string(t, finish(w, c));
    json_out_literal(t, "}");
}

static void body(const protocol_writer *w, json_out *t)
{
    put_head(w, t, "chat.completion");
    json_out_literal(t, ",\"choices\":[");
    for (uint32_t i = 0; i < w->n_choices; i++) {
        if (i) json_out_literal(t, ",");
        put_message(w, &w->choices[i], t);
    }
    json_out_literal(t, "],");
    put_usage(w, t);
    put_findings(w, t);
    json_out_literal(t, "}");
}

/* A chunk with an empty delta: it adds nothing to what clients join. */
static void progress(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    put_choice(w, &w->choices[0], t);
    json_out_literal(t, "},\"logprobs\":null,\"finish_reason\":null}],");
    if (w->r->include_usage) json_out_literal(t, "\"usage\":null,");
    put_progress(t, p);
    json_out_literal(t, "}");
    event_send(w, NULL);
}

const writer_api writer_chat = {
    .begin = begin, .open = open, .delta = delta, .close = close, .end_choice = end_choice,
    .end = end, .body = body, .beat = beat_silent, .progress = progress,
};
