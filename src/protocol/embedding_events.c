/* embedding_events.c - vectors of texts, in the forms of their three APIs. */
#include "protocol/writer.h"

int protocol_writer_embedding(protocol_writer *w, uint32_t choice, const float *numbers, uint32_t n)
{
    CHECK(choice < w->n_choices);
    bytes *to = &w->choices[choice].content;
    to->len = 0;
    if (!w->status) w->status = bytes_append(to, numbers, n * sizeof *numbers);
    return w->status;
}

static void put_number(json_out *t, const char *name, uint64_t value)
{
    json_out_key(t, name);
    json_out_integer(t, (int64_t)value);
}

static void put_vector(const protocol_writer *w, json_out *t, const writer_choice *c)
{
    char number[32];
    float value;
    _Static_assert(sizeof value == 4, "as it is sent");
    if (w->r->as_base64) {
        json_out_literal(t, "\"");
        json_out_base64(t, (view){c->content.ptr, c->content.len});
        json_out_literal(t, "\"");
        return;
    }
    json_out_literal(t, "[");
    for (size_t at = 0; at < c->content.len; at += sizeof value) {
        memcpy(&value, c->content.ptr + at, sizeof value);
        int n = snprintf(number, sizeof number, at ? ",%.9g" : "%.9g", (double)value);
        json_out_put(t, (view){number, (size_t)n});
    }
    json_out_literal(t, "]");
}

static void put_list(const protocol_writer *w, json_out *t)
{
    json_out_literal(t, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < w->n_choices; i++) {
        json_out_put(t, i ? VIEW(",{\"object\":\"embedding\",")
                          : VIEW("{\"object\":\"embedding\","));
        put_number(t, "index", i);
        json_out_literal(t, ",\"embedding\":");
        put_vector(w, t, &w->choices[i]);
        json_out_literal(t, "}");
    }
    json_out_literal(t, "],\"model\":");
    json_out_string(t, w->answer.model);
    json_out_literal(t, ",\"usage\":{");
    put_number(t, "prompt_tokens", w->usage.input_tokens);
    json_out_literal(t, ",");
    put_number(t, "total_tokens", w->usage.input_tokens);
    json_out_literal(t, "}");
}

static void put_ollama(const protocol_writer *w, json_out *t)
{
    const protocol_usage *u = &w->usage;
    json_out_literal(t, "{\"model\":");
    json_out_string(t, w->r->model ? w->r->model : w->answer.model);
    json_out_literal(t, ",\"embeddings\":[");
    for (uint32_t i = 0; i < w->n_choices; i++) {
        if (i) json_out_literal(t, ",");
        put_vector(w, t, &w->choices[i]);
    }
    json_out_literal(t, "],");
    put_number(t, "total_duration", u->queue_ns + u->prompt_ns);
    json_out_literal(t, ",\"load_duration\":0,");
    put_number(t, "prompt_eval_count", u->input_tokens);
}

static void body(const protocol_writer *w, json_out *t)
{
    if (w->r->api == PROTOCOL_EMBEDDINGS) {
        put_list(w, t);
    } else if (json_object_get(w->r->root, "input")) {
        put_ollama(w, t);
    } else {
        json_out_literal(t, "{\"embedding\":");
        put_vector(w, t, &w->choices[0]);
    }
    put_findings(w, t);
    json_out_literal(t, "}");
}

const writer_api writer_embeddings = {.body = body};
