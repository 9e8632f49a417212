/* next_edit_events.c - the answer to a prediction of edits: an object, or the event
 * edit.prediction. */
#include "protocol/writer.h"

static void delta(protocol_writer *w, writer_choice *c, view text)
{
    w->status = bytes_append(&c->content, text.ptr, text.len);
}

static void put_edits(json_out *t, const next_edits *e)
{
    json_out_literal(t, "\"edits\":[");
    for (uint32_t i = 0; i < e->n; i++) {
        const next_edit *one = &e->list[i];
        if (i) json_out_literal(t, ",");
        json_out_literal(t, "{");
        put_count(t, "start_line", one->line);
        json_out_literal(t, ",");
        put_count(t, "end_line", (uint64_t)one->line + one->n_lines);
        json_out_literal(t, ",\"text\":");
        json_out_quoted(t, one->text);
        json_out_literal(t, "}");
    }
    json_out_literal(t, "]");
}

/* No edit is proposed if the answer is incomplete, or if the watchdog cut it. */
static const char *ended_by(const protocol_writer *w, const writer_choice *c, bool *is_whole)
{
    *is_whole = c->end == PROTOCOL_END_STOP;
    if (w->usage.reason) return w->usage.reason; /* superseded, unsure */
    if (c->end == PROTOCOL_END_CANCELED) return "canceled";
    return c->end == PROTOCOL_END_GUARDED ? "the watchdog holds it back" : NULL;
}

static void put_prediction(const protocol_writer *w, json_out *t)
{
    const writer_choice *c = &w->choices[0];
    const next_edit_order *order = w->r->edits;
    next_edits e = {.n = 0};
    bool is_whole;
    const char *why = ended_by(w, c, &is_whole);
    if (!why && !t->status)
        t->status = next_edit_read(&e, &order->place, &order->prompt,
                                   (view){c->content.ptr ? c->content.ptr : "", c->content.len},
                                   is_whole, &why);
    json_out_literal(t, "\"model\":");
    json_out_string(t, w->answer.model);
    json_out_literal(t, ",\"form\":");
    json_out_string(t, next_edit_name(order->form));
    json_out_literal(t, ",");
    put_edits(t, &e);
    json_out_literal(t, ",\"reason\":");
    json_out_string(t, why);
    json_out_literal(t, ",");
    put_token_usage(w, t);
    json_out_literal(t, "}}");
    put_findings(w, t);
    json_out_literal(t, "}");
    next_edits_close(&e);
}

static void body(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"object\":\"edit_prediction\",");
    put_count(t, "created", (uint64_t)w->answer.created_at);
    json_out_literal(t, ",");
    put_prediction(w, t);
}

static void end(protocol_writer *w)
{
    if (!writer_live(w)) return;
    json_out *t = event_begin(w);
    if (w->error.http_status) {
        t->status = protocol_inline_error(&t->b, &w->error, w->answer.id);
    } else {
        json_out_literal(t, "{\"type\":\"edit.prediction\",\"id\":");
        json_out_string(t, w->answer.id);
        json_out_literal(t, ",");
        put_prediction(w, t);
    }
    event_send(w, NULL);
}

const writer_api writer_edits = {.delta = delta, .end = end, .body = body, .beat = beat_silent};
