/* response_echo.c - a Response repeats the request, with the defaults of the API filled in.
 *
 * This part is made once and used for created, in_progress and the last event alike. */
#include "protocol/writer.h"

static void put_field(json_out *t, const char *name, const json_t *value, const char *otherwise)
{
    json_out_key(t, name);
    if (value && !json_is_null(value))
        json_out_value(t, value);
    else
        json_out_put(t, view_of(otherwise));
    json_out_literal(t, ",");
}

/* {"effort":...,"summary":...}: both are written even if not requested. */
static void put_reasoning(json_out *t, const json_t *reasoning)
{
    json_out_literal(t, "\"reasoning\":{");
    put_field(t, "effort", json_object_get(reasoning, "effort"), "null");
    json_out_literal(t, "\"summary\":");
    json_out_value(t, json_object_get(reasoning, "summary"));
    json_out_literal(t, "},");
}

static void put_text(json_out *t, const json_t *text)
{
    json_out_literal(t, "\"text\":{");
    const json_t *verbosity = json_object_get(text, "verbosity");
    if (verbosity && !json_is_null(verbosity)) put_field(t, "verbosity", verbosity, "null");
    json_out_literal(t, "\"format\":");
    const json_t *format = json_object_get(text, "format");
    if (json_is_object(format))
        json_out_value(t, format);
    else
        json_out_literal(t, "{\"type\":\"text\"}");
    json_out_literal(t, "},");
}

static void put_number(json_out *t, const char *name, float value)
{
    json_out_key(t, name);
    json_out_float(t, value);
    json_out_literal(t, ",");
}

static void put_flag(json_out *t, const char *name, bool value)
{
    json_out_key(t, name);
    json_out_put(t, value ? VIEW("true,") : VIEW("false,"));
}

static void put_numbers(const protocol_writer *w, json_out *t)
{
    const json_t *root = w->r->root;
    const json_t *presence = json_object_get(root, "presence_penalty");
    const json_t *frequency = json_object_get(root, "frequency_penalty");
    float top_p = w->r->sampling.top_p;
    put_number(t, "temperature", w->r->sampling.temperature);
    put_number(t, "top_p", top_p > 0 ? top_p : 1.0f);
    put_field(t, "presence_penalty", presence, "0");
    put_field(t, "frequency_penalty", frequency, "0");
    put_number(t, "top_logprobs", (float)w->r->top_logprobs);
    put_field(t, "max_output_tokens", json_object_get(root, "max_output_tokens"), "null");
    put_field(t, "max_tool_calls", json_object_get(root, "max_tool_calls"), "null");
}

void response_echo(protocol_writer *w)
{
    static const char *const plain[] = {"instructions", "previous_response_id", "prompt_cache_key",
                                        "safety_identifier", "user"};
    const json_t *root = w->r->root;
    json_out *t = &w->echo;
    json_out_clear(t);
    json_out_literal(t, "\"id\":");
    json_out_string(t, w->answer.id);
    json_out_literal(t, ",\"object\":\"response\",\"created_at\":");
    json_out_integer(t, w->answer.created_at);
    json_out_literal(t, ",\"model\":");
    json_out_string(t, w->answer.model);
    json_out_literal(t, ",");
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        put_field(t, plain[i], json_object_get(root, plain[i]), "null");
    put_field(t, "metadata", json_object_get(root, "metadata"), "{}");
    put_field(t, "tool_choice", json_object_get(root, "tool_choice"), "\"auto\"");
    put_field(t, "parallel_tool_calls", json_object_get(root, "parallel_tool_calls"), "true");
    put_field(t, "truncation", json_object_get(root, "truncation"), "\"disabled\"");
    json_out_literal(t, "\"tools\":");
    json_out_put(t, json_out_view(&w->r->tool_set->echo));
    json_out_literal(t, ",");
    put_reasoning(t, json_object_get(root, "reasoning"));
    put_text(t, json_object_get(root, "text"));
    put_numbers(w, t);
    put_flag(t, "store", w->r->store);
    put_flag(t, "background", w->r->background);
    json_out_literal(t, "\"service_tier\":");
    json_out_string(t, w->answer.served_tier ? w->answer.served_tier : "default");
    json_out_literal(t, ",");
    if (t->status && !w->status) w->status = t->status;
}
