/* events.c - shared by the writers of all APIs: begins and sends events, writes common fields. */
#include "protocol/writer.h"

json_out *event_begin(protocol_writer *w)
{
    json_out_clear(&w->event);
    return &w->event;
}

void event_send(protocol_writer *w, const char *name)
{
    if (w->event.status && !w->status) w->status = w->event.status;
    if (writer_live(w)) w->answer.emit(w->answer.user, name, w->event.b.ptr, w->event.b.len);
}

void put_count(json_out *t, const char *name, uint64_t value)
{
    json_out_quoted(t, view_of(name));
    json_out_literal(t, ":");
    json_out_integer(t, (int64_t)value);
}

void beat_silent(protocol_writer *w, const protocol_progress *p)
{
    char text[160];
    const uint64_t all = p->load_bytes;
    if (!writer_live(w)) return;
    if (p->loading && all)
        snprintf(text, sizeof text, "loading %.100s, %u %%", p->loading,
                 (unsigned)((double)p->loaded_bytes / (double)all * 100));
    else if (p->loading)
        snprintf(text, sizeof text, "loading %.100s", p->loading);
    w->answer.emit(w->answer.user, p->loading ? text : NULL, NULL, 0);
}

static void put_loading(json_out *t, const protocol_progress *p)
{
    json_out_literal(t, "\"loading\":{\"model\":");
    json_out_string(t, p->loading);
    json_out_literal(t, ",");
    put_count(t, "done_bytes", p->loaded_bytes);
    json_out_literal(t, ",");
    put_count(t, "total_bytes", p->load_bytes);
    json_out_literal(t, "}");
}

void put_beat(json_out *t, const protocol_progress *p)
{
    if (!p->prompt_tokens && !p->loading) return;
    json_out_literal(t, ",\"cerium\":{");
    if (p->prompt_tokens) {
        put_count(t, "prompt_tokens", p->prompt_tokens);
        json_out_literal(t, ",");
        put_count(t, "done", p->done_tokens);
        if (p->loading) json_out_literal(t, ",");
    }
    if (p->loading) put_loading(t, p);
    json_out_literal(t, "}");
}

void put_progress(json_out *t, const protocol_progress *p)
{
    json_out_literal(t, "\"prompt_progress\":{");
    put_count(t, "total", p->prompt_tokens);
    json_out_literal(t, ",");
    put_count(t, "cache", p->cached_tokens);
    json_out_literal(t, ",");
    put_count(t, "processed", p->done_tokens);
    json_out_literal(t, ",");
    put_count(t, "time_ms", p->prompt_ns / 1000000);
    json_out_literal(t, "}");
}

void put_token_usage(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    json_out_literal(t, "\"usage\":{");
    put_count(t, "prompt_tokens", u->input_tokens);
    json_out_literal(t, ",");
    put_count(t, "completion_tokens", u->output_tokens);
    json_out_literal(t, ",");
    put_count(t, "total_tokens", (uint64_t)u->input_tokens + u->output_tokens);
    json_out_literal(t, ",\"prompt_tokens_details\":{");
    put_count(t, "cached_tokens", u->cached_tokens);
}

int protocol_writer_digest(protocol_writer *w, uint32_t choice, const char *digest,
                           uint32_t n_tokens, view record, const char *why)
{
    CHECK(choice < w->n_choices && (digest || why));
    json_out *t = &w->choices[choice].digest;
    json_out_clear(t);
    json_out_literal(t, "{\"digest\":");
    json_out_string(t, digest);
    json_out_literal(t, ",");
    put_count(t, "tokens", n_tokens);
    if (record.len) {
        json_out_literal(t, ",\"record\":");
        json_out_put(t, record);
    } else if (why) {
        json_out_put(t, digest ? VIEW(",\"record\":null,\"reason\":") : VIEW(",\"reason\":"));
        json_out_string(t, why);
    }
    json_out_literal(t, "}");
    return t->status;
}

void put_digests(const protocol_writer *w, json_out *t)
{
    if (!w->r->sampling.digest) return;
    json_out_literal(t, ",\"cerium_digests\":[");
    for (uint32_t i = 0; i < w->n_choices; i++) {
        const view one = json_out_view(&w->choices[i].digest);
        if (i) json_out_literal(t, ",");
        json_out_put(t, one.len ? one : VIEW("null"));
    }
    json_out_literal(t, "]");
}

void item_id(const protocol_writer *w, const char *prefix, uint32_t index, char out[128])
{
    snprintf(out, 128, "%s_%.96s_%u", prefix, w->suffix, index);
}
