/* infill_events.c - llama.cpp's /infill and /completion: an object with timings, or pieces and then
 * that. */
#include <math.h>

#include "base/json.h"

#include "protocol/writer.h"

static void open(protocol_writer *w, writer_choice *c)
{
    (void)w;
    json_out_literal(&c->head, "{\"index\":0,\"tokens\":[],\"stop\":false,\"content\":\"");
}

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    w->status = bytes_append(&c->content, text.ptr, text.len);
    if (!writer_live(w) || !text.len || c->index) return;
    json_out *t = event_begin(w);
    json_out_put(t, json_out_view(&c->head));
    json_out_escape(t, text);
    json_out_literal(t, "\"}");
    event_send(w, NULL);
}

static void put_rate(json_out *t, const char *name, uint64_t n, uint64_t ns)
{
    double ms = (double)ns / 1e6, one = n ? ms / (double)n : 0, rate = ns ? 1e3 * n / ms : 0;
    const struct {
        const char *suffix;
        double value;
    } numbers[] = {{"n", (double)n}, {"ms", ms}, {"per_token_ms", one}, {"per_second", rate}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        json_out_literal(t, "\"");
        json_out_put(t, view_of(name));
        json_out_literal(t, "_");
        json_out_put(t, view_of(numbers[i].suffix));
        json_out_literal(t, "\":");
        json_out_number(t, numbers[i].value);
        json_out_literal(t, ",");
    }
}

static void put_timings(const protocol_usage *u, json_out *t)
{
    uint32_t computed = u->input_tokens - u->cached_tokens;
    json_out_literal(t, "\"timings\":{");
    put_rate(t, "prompt", computed, u->prompt_ns);
    put_rate(t, "predicted", u->output_tokens, u->predict_ns);
    put_count(t, "cache_n", u->cached_tokens);
    json_out_literal(t, "}");
}

/* The fields in which /completion repeats its request. */
static void put_request(const protocol_writer *w, json_out *t)
{
    const protocol_request *r = w->r;
    const cerium_sampling *s = &r->sampling;
    const double repeat = s->repetition_penalty > 0 ? (double)s->repetition_penalty : 1;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"temperature", (double)s->temperature},
                   {"top_k", s->top_k},
                   {"top_p", s->top_p > 0 ? (double)s->top_p : 1},
                   {"min_p", (double)s->min_p},
                   {"repeat_penalty", repeat},
                   {"presence_penalty", (double)s->presence_penalty},
                   {"frequency_penalty", (double)s->frequency_penalty},
                   {"n_predict",
                    r->new_tokens_max == UINT32_MAX ? -1 : (double)r->new_tokens_max}};
    json_out_literal(t, "\"generation_settings\":{");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        json_out_string(t, numbers[i].name);
        json_out_literal(t, ":");
        json_out_number(t, numbers[i].value);
        json_out_literal(t, ",");
    }
    put_count(t, "seed", s->seed);
    json_out_literal(t, ",\"stop\":[");
    for (uint32_t i = 0; i < s->n_stops; i++) {
        if (i) json_out_literal(t, ",");
        json_out_string(t, r->stops[i]);
    }
    json_out_literal(t, "]},\"prompt\":");
    json_out_value(t, json_object_get(r->root, "prompt"));
    json_out_literal(t, ",");
}

/* Has an earlier choice the same text? */
static bool is_said(const protocol_writer *w, const writer_choice *c)
{
    bool said = false;
    for (uint32_t i = 0; i < c->index && !said; i++)
        said = view_equal((view){w->choices[i].content.ptr, w->choices[i].content.len},
                          (view){c->content.ptr, c->content.len});
    return said;
}

void put_candidates(const protocol_writer *w, json_out *t)
{
    bool first = true;
    if (!w->r->candidates) return;
    json_out_literal(t, ",\"candidates\":[");
    for (uint32_t i = 1; i < w->n_choices; i++) {
        const writer_choice *c = &w->choices[i];
        if (!c->content.len || !c->ended || c->end == PROTOCOL_END_GUARDED || is_said(w, c))
            continue;
        if (!first) json_out_literal(t, ",");
        json_out_literal(t, "{\"text\":");
        json_out_quoted(t, (view){c->content.ptr, c->content.len});
        json_out_literal(t, ",\"confidence\":");
        json_out_number(t, exp(c->logprob));
        json_out_literal(t, ",\"cut\":");
        json_out_bool(t, c->end == PROTOCOL_END_LENGTH || c->end == PROTOCOL_END_CONTEXT);
        json_out_literal(t, "}");
        first = false;
    }
    json_out_literal(t, "]");
}

static void put_all(const protocol_writer *w, json_out *t, view content)
{
    const writer_choice *c = &w->choices[0];
    const protocol_usage *u = &w->usage;
    bool limit = c->end == PROTOCOL_END_LENGTH || c->end == PROTOCOL_END_CONTEXT || w->r->warm_up;
    json_out_literal(t, "{\"index\":0,\"content\":");
    json_out_quoted(t, content);
    json_out_literal(t, ",\"tokens\":[],\"stop\":");
    json_out_bool(t, c->ended);
    json_out_literal(t, ",\"model\":");
    json_out_string(t, w->answer.model);
    json_out_literal(t, ",\"id_slot\":");
    const json_t *slot = json_object_get(w->r->root, "id_slot");
    json_out_integer(t, json_is_integer(slot) ? json_integer_value(slot) : 0);
    json_out_literal(t, ",");
    put_count(t, "tokens_predicted", u->output_tokens);
    json_out_literal(t, ",");
    put_count(t, "tokens_evaluated", u->input_tokens);
    json_out_literal(t, ",");
    put_count(t, "tokens_cached", (uint64_t)u->input_tokens + u->output_tokens);
    json_out_literal(t, ",\"truncated\":");
    json_out_bool(t, c->end == PROTOCOL_END_CONTEXT);
    json_out_literal(t, ",\"has_new_line\":");
    json_out_bool(t, c->content.len && memchr(c->content.ptr, '\n', c->content.len));
    json_out_literal(t, ",\"stop_type\":");
    json_out_string(t, limit                             ? "limit"
                       : c->stopped_by                   ? "word"
                       : c->end == PROTOCOL_END_STOP ? "eos" : "none");
    json_out_literal(t, ",\"stopping_word\":");
    json_out_string(t, c->stopped_by ? c->stopped_by : "");
    json_out_literal(t, ",");
    if (w->r->api == PROTOCOL_COMPLETION && c->ended) put_request(w, t);
    if (w->r->confidence_min > 0 && c->ended) {
        json_out_literal(t, "\"confidence\":");
        json_out_number(t, exp(c->logprob));
        json_out_literal(t, ",");
    }
    put_timings(u, t);
    put_candidates(w, t);
    put_findings(w, t);
    json_out_literal(t, "}");
}

/* The value at "timings/predicted_n", or NULL. */
static const json_t *value_at(const json_t *object, const char *path)
{
    while (object && path) {
        const char *slash = strchr(path, '/');
        size_t len = slash ? (size_t)(slash - path) : strlen(path);
        object = json_object_getn(object, path, len);
        path = slash ? slash + 1 : NULL;
    }
    return object;
}

/* Only the requested fields, each under its whole path. */
static void put_wanted(const json_t *all, const json_t *fields, json_out *t)
{
    bool first = true;
    json_out_literal(t, "{");
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *path = json_string_value(json_array_get(fields, i));
        const json_t *value = value_at(all, path);
        if (!value) continue;
        if (!first) json_out_literal(t, ",");
        first = false;
        json_out_string(t, path);
        json_out_literal(t, ":");
        json_out_value(t, value);
    }
    json_out_literal(t, "}");
}

static void put_answer(const protocol_writer *w, json_out *t, view content)
{
    const json_t *fields = json_object_get(w->r->root, "response_fields");
    if (!json_array_size(fields)) {
        put_all(w, t, content);
        return;
    }
    json_out whole = {.b.max = PROTOCOL_ANSWER_BYTES_MAX};
    put_all(w, &whole, content);
    json_t *all = whole.status ? NULL
                               : json_read(json_out_view(&whole), JSON_ALLOW_NUL, NULL);
    if (all)
        put_wanted(all, fields, t);
    else
        t->status = whole.status ? whole.status : CERIUM_ERR_MEMORY;
    json_decref(all);
    json_out_free(&whole);
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    if (w->error.http_status)
        t->status = protocol_error_body(&t->b, &w->error);
    else
        put_answer(w, t, VIEW(""));
    event_send(w, NULL);
}

static void body(const protocol_writer *w, json_out *t)
{
    const writer_choice *c = &w->choices[0];
    put_answer(w, t, (view){c->content.ptr, c->content.len});
}

/* A piece without text. */
static void progress(protocol_writer *w, const protocol_progress *p)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    json_out_literal(t, "{\"index\":0,\"tokens\":[],\"stop\":false,\"content\":\"\",");
    put_progress(t, p);
    json_out_literal(t, "}");
    event_send(w, NULL);
}

const writer_api writer_infill = {
    .open = open, .delta = delta, .end = end, .body = body, .beat = beat_silent,
    .progress = progress,
};
