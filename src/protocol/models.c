/* models.c - the list of models: OpenAI's "data" and Codex's "models" in one body. */
#include <math.h>

#include "protocol/json_out.h"
#include "protocol/protocol.h"
#include "protocol/texts.h"
#include "protocol/writer.h"

static const char any_model[] = "cerium";

/* Is it in memory?  status as in llama.cpp's router. */
static void put_state(json_out *t, const protocol_model *m)
{
    json_out_literal(t, ",\"status\":{\"value\":");
    json_out_string(t, m->state);
    if (m->failure) json_out_literal(t, ",\"failed\":true,\"reason\":");
    if (m->failure) json_out_string(t, m->failure);
    if (m->total_bytes) {
        json_out_literal(t, ",\"done_bytes\":");
        json_out_integer(t, (int64_t)m->done_bytes);
        json_out_literal(t, ",\"total_bytes\":");
        json_out_integer(t, (int64_t)m->total_bytes);
    }
    json_out_literal(t, "},\"memory_bytes\":");
    json_out_integer(t, (int64_t)m->n_bytes);
    json_out_literal(t, ",\"aliases\":[");
    for (uint32_t i = 0; i < m->n_aliases; i++) {
        if (i) json_out_literal(t, ",");
        json_out_string(t, m->aliases[i]);
    }
    json_out_literal(t, "]");
}

/* A float of the model's file as its author wrote it: 0.35, not 0.3499999940395355. */
static double as_written(double x)
{
    return round(x * 1e6) / 1e6;
}

/* OpenAI's and Anthropic's in one. */
static void put_openai(json_out *t, const protocol_model *m, const char *id)
{
    json_out_literal(t, "{\"id\":");
    json_out_string(t, id);
    json_out_literal(t, ",\"object\":\"model\",\"created\":");
    json_out_integer(t, m->created_at);
    json_out_literal(t, ",\"type\":\"model\",\"display_name\":");
    json_out_string(t, m->display_name ? m->display_name : m->id);
    json_out_literal(t, ",\"created_at\":");
    put_time(t, m->created_at);
    json_out_literal(t, ",\"max_input_tokens\":");
    json_out_integer(t, m->context_tokens);
    json_out_literal(t, ",\"max_tokens\":");
    json_out_integer(t, m->context_tokens);
    json_out_literal(t, ",\"capabilities\":null,\"lifecycle\":\"active\",\"line\":null");
    json_out_literal(t, ",\"owned_by\":\"cerium\",\"context_window\":");
    json_out_integer(t, m->context_tokens);
    json_out_literal(t, ",\"fill_in_middle\":");
    json_out_bool(t, m->fills_in);
    if (m->completes_only) json_out_literal(t, ",\"completes_only\":true");
    if (m->confidence_min > 0) {
        json_out_literal(t, ",\"min_confidence\":");
        json_out_number(t, as_written(m->confidence_min));
    }
    if (m->pointer > 0) {
        json_out_literal(t, ",\"pointer\":");
        json_out_number(t, as_written(m->pointer));
    }
    if (m->edit_form && *m->edit_form) {
        json_out_literal(t, ",\"edit_form\":");
        json_out_string(t, m->edit_form);
    }
    if (m->chat_form && *m->chat_form) {
        json_out_literal(t, ",\"chat_form\":");
        json_out_string(t, m->chat_form);
    }
    if (m->chat_refusal && *m->chat_refusal) {
        json_out_literal(t, ",\"chat_refusal\":");
        json_out_string(t, m->chat_refusal);
    }
    if (m->state) put_state(t, m);
    json_out_literal(t, "}");
}

/* Codex refuses the whole list when a field that it needs is missing. */
static void put_codex(json_out *t, const protocol_model *m, const char *slug,
                      const char *visibility)
{
    json_out_literal(t, "{\"slug\":");
    json_out_string(t, slug);
    json_out_literal(t, ",\"display_name\":");
    json_out_string(t, m->display_name ? m->display_name : m->id);
    json_out_literal(t, ",\"supported_reasoning_levels\":[],\"shell_type\":\"unified_exec\","
                         "\"supported_in_api\":true,\"priority\":1,"
                         "\"support_verbosity\":false,\"truncation_policy\":{\"mode\":\"tokens\","
                         "\"limit\":10000},\"experimental_supported_tools\":[],"
                         "\"visibility\":");
    json_out_string(t, visibility);
    json_out_literal(t, ",\"base_instructions\":");
    json_out_string(t, text_base_instructions);
    json_out_literal(t, ",\"context_window\":");
    json_out_integer(t, m->context_tokens);
    json_out_literal(t, ",\"max_context_window\":");
    json_out_integer(t, m->context_tokens);
    json_out_literal(t, ",\"effective_context_window_percent\":95,"
                         "\"apply_patch_tool_type\":\"freeform\",\"input_modalities\":[\"text\"],"
                         "\"service_tiers\":[{\"id\":\"priority\",\"name\":\"Fast\","
                         "\"description\":\"Goes before other agents' turns.\"},"
                         "{\"id\":\"flex\",\"name\":\"Flex\",\"description\":\"Waits for "
                         "everybody else.\"}],\"web_search_tool_type\":\"text\","
                         "\"supports_search_tool\":false}");
}

int protocol_model_body(bytes *out, const protocol_model *model, const char *id)
{
    json_out t = {.b = *out};
    put_openai(&t, model, id);
    *out = t.b;
    return t.status;
}

int protocol_models_body(bytes *out, const protocol_model *models, size_t n)
{
    json_out t = {.b = *out};
    json_out_literal(&t, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++) {
        if (i) json_out_literal(&t, ",");
        put_openai(&t, &models[i], models[i].id);
    }
    json_out_literal(&t, "],\"has_more\":false,\"first_id\":");
    json_out_string(&t, n ? models[0].id : NULL);
    json_out_literal(&t, ",\"last_id\":");
    json_out_string(&t, n ? models[n - 1].id : NULL);
    json_out_literal(&t, ",\"models\":[");
    const protocol_model *first = NULL;
    bool named = false; /* a model already has the generic name */
    for (size_t i = 0; i < n; i++) {
        if (!models[i].chats) continue; /* Codex cannot use it */
        if (first) json_out_literal(&t, ",");
        else first = &models[i];
        put_codex(&t, &models[i], models[i].id, "list");
        named = named || !strcmp(models[i].id, any_model);
    }
    /* A configuration need not change with the model. */
    if (first && !named) {
        json_out_literal(&t, ",");
        put_codex(&t, first, any_model, "hide");
    }
    json_out_literal(&t, "]}");
    *out = t.b;
    return t.status;
}
