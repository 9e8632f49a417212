/* completion_events.c - Completions: bare text, preceded by the prompt if requested. */
#include "protocol/writer.h"

static void put_head(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"object\":\"text_completion\",\"created\":");
    json_out_integer(t, w->answer.created_at);
    json_out_literal(t, ",\"model\":");
    json_out_string(t, w->answer.model);
}

/* First half of a chunk, up to the text. */
static void make_head(protocol_writer *w, writer_choice *c)
{
    json_out *t = &c->head;
    put_head(w, t);
    json_out_literal(t, ",\"choices\":[{\"index\":");
    json_out_integer(t, c->index);
    json_out_literal(t, ",\"text\":\"");
}

static const char *finish(const protocol_writer *w, const writer_choice *c)
{
    if (!c->ended) return NULL;
    if (c->end == PROTOCOL_END_GUARDED) return "content_filter";
    bool is_cut = c->end == PROTOCOL_END_LENGTH || c->end == PROTOCOL_END_CONTEXT;
    return is_cut || w->r->warm_up ? "length" : "stop";
}

static void send_text(protocol_writer *w, writer_choice *c, view text)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&c->head));
    json_out_escape(t, text);
    json_out_literal(t, "\",\"logprobs\":");
    if (w->has_logprobs)
        legacy_put(&c->legacy, t, true);
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"finish_reason\":");
    json_out_string(t, finish(w, c));
    json_out_put(t, w->r->include_usage ? VIEW("}],\"usage\":null") : VIEW("}]"));
    if (c->ended) put_findings(w, t);
    json_out_literal(t, "}");
    legacy_sent(&c->legacy);
    event_send(w, NULL);
}

static void echo(protocol_writer *w, writer_choice *c)
{
    size_t i = c->index / w->r->n_choices;
    token_text_fn *name_of = w->answer.token_text;
    if (!w->r->prompt_tokens[i]) {
        w->status = bytes_append(&c->content, w->r->prompts[i], w->r->prompt_lens[i]);
    } else {
        for (size_t k = 0; name_of && k < w->r->prompt_n_tokens[i] && !w->status; k++) {
            view text = name_of(w->answer.user, w->r->prompt_tokens[i][k]);
            w->status = bytes_append(&c->content, text.ptr, text.len);
        }
    }
    c->legacy.offset = count_chars((view){c->content.ptr, c->content.len});
    if (!w->status) send_text(w, c, (view){c->content.ptr, c->content.len});
}

static void begin(protocol_writer *w)
{
    for (uint32_t i = 0; i < w->n_choices; i++) {
        make_head(w, &w->choices[i]);
        if (w->r->echo && !w->status) echo(w, &w->choices[i]);
    }
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    w->status = bytes_append(&c->content, text.ptr, text.len);
    if (!w->status && text.len) send_text(w, c, text);
}

static void end_choice(protocol_writer *w, writer_choice *c)
{
    if (c->end != PROTOCOL_END_FAILED) send_text(w, c, VIEW(""));
}

static void put_usage(const protocol_writer *w, json_out *t)
{
    put_token_usage(w, t);
    json_out_literal(t, "}");
    put_digests(w, t);
    json_out_literal(t, "}");
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    if (w->error.http_status) {
        json_out *t = event_begin(w);
        if (!w->status) t->status = protocol_error_body(&t->b, &w->error);
        event_send(w, NULL);
    } else if (w->r->include_usage) {
        json_out *t = event_begin(w);
        put_head(w, t);
        json_out_literal(t, ",\"choices\":[],");
        put_usage(w, t);
        json_out_literal(t, "}");
        event_send(w, NULL);
    }
    json_out_literal(event_begin(w), "[DONE]");
    event_send(w, NULL);
}

static void put_choice(const protocol_writer *w, json_out *t, const writer_choice *c,
                       uint32_t index)
{
    if (index) json_out_literal(t, ",");
    json_out_literal(t, "{\"index\":");
    json_out_integer(t, index);
    json_out_literal(t, ",\"text\":");
    json_out_quoted(t, (view){c->content.ptr, c->content.len});
    json_out_literal(t, ",\"logprobs\":");
    if (w->has_logprobs)
        legacy_put(&c->legacy, t, false);
    else
        json_out_literal(t, "null");
    json_out_literal(t, ",\"finish_reason\":");
    json_out_string(t, finish(w, c));
    json_out_literal(t, "}");
}

/* The choices [n] of a prompt, the likeliest first if not all are requested. */
static void put_best(const protocol_writer *w, json_out *t, const writer_choice *choices,
                     uint32_t index)
{
    uint32_t order[PROTOCOL_CHOICES_MAX], n = w->r->n_choices;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;
        for (; w->r->n_best < n && at > 0 && choices[order[at - 1]].score < choices[i].score; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < w->r->n_best; i++) put_choice(w, t, &choices[order[i]], index + i);
}

static void body(const protocol_writer *w, json_out *t)
{
    uint32_t n_prompts = w->n_choices / w->r->n_choices;
    put_head(w, t);
    json_out_literal(t, ",\"choices\":[");
    for (uint32_t i = 0; i < n_prompts; i++)
        put_best(w, t, &w->choices[i * w->r->n_choices], i * w->r->n_best);
    json_out_literal(t, "],");
    put_usage(w, t);
    put_findings(w, t);
    json_out_literal(t, "}");
}

/* A chunk without text. */
static void progress(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&w->choices[0].head));
    json_out_literal(t, "\",\"logprobs\":null,\"finish_reason\":null}],");
    if (w->r->include_usage) json_out_literal(t, "\"usage\":null,");
    put_progress(t, p);
    json_out_literal(t, "}");
    event_send(w, NULL);
}

const writer_api writer_completions = {
    .begin = begin, .delta = delta, .end_choice = end_choice, .end = end, .body = body,
    .beat = beat_silent, .progress = progress,
};
