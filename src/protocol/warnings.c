/* warnings.c - finds ignored fields of a request, and formats the warnings about them. */
#include "base/json.h"
#include "protocol/parse.h"
#include "protocol/writer.h"

enum { WARNINGS_BYTES_MAX = 16384 };

void protocol_warn(protocol_request *r, const char *param, const char *format, ...)
{
    char message[512];
    json_out t = {.b.max = 4096};
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (r->warnings.len) json_out_literal(&t, ",");
    json_out_literal(&t, "{\"param\":");
    json_out_string(&t, param);
    json_out_literal(&t, ",\"message\":");
    json_out_string(&t, message);
    json_out_literal(&t, "}");
    r->warnings.max = WARNINGS_BYTES_MAX;
    /* A warning without room is not worth failing the answer. */
    if (!t.status && bytes_append(&r->warnings, t.b.ptr, t.b.len))
        r->warnings.max = r->warnings.len;
    json_out_free(&t);
}

/* ---- fields that nobody reads ---- */

/* For all APIs: fields that are read, and fields that only name the user or the storage. */
static const char *const common[] = {
    "model", "stream", "stream_options", "stream_id", "type", "cerium_guard", "cerium_guard_end",
    "temperature", "top_p", "min_p", "top_k", "seed", "presence_penalty", "frequency_penalty",
    "stop", "n", "logit_bias", "ignore_eos", "repetition_penalty", "repeat_penalty",
    "service_tier", "prompt_cache_key", "prompt_cache_retention", "user", "metadata",
    "safety_identifier", "client_metadata", "return_progress", "cache_prompt", "timings_per_token",
};

#define SHAPES                                                                                     \
    "grammar", "json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar",    \
        "guided_json_object", "structured_outputs"
#define ENDS "n_predict", "max_tokens"
#define TEMPLATE                                                                                   \
    "chat_template_kwargs", "enable_thinking", "reasoning", "reasoning_effort",                    \
        "thinking_budget_tokens", "reasoning_budget", "reasoning_budget_tokens",                   \
        "thinking_token_budget", "thinking_budget"

static const char *const own[][48] = {
    [PROTOCOL_RESPONSES] = {"max_output_tokens", "text", "include",
                            "top_logprobs", "store", "generate", "truncation", "input", "tools",
                            "previous_response_id", "instructions", "tool_choice", "response_id",
                            "parallel_tool_calls", "background", "conversation", "prompt",
                            "event_id", "stream_id", "n_predict", "cerium_digest", TEMPLATE,
                            SHAPES},
    [PROTOCOL_CHAT] = {"max_completion_tokens", "messages", "tools",
                       "functions", "function_call", "tool_choice", "parallel_tool_calls",
                       "response_format", "logprobs", "top_logprobs", "prediction", "store",
                       "continue_final_message", "add_generation_prompt", "thinking",
                       "cerium_digest", TEMPLATE, ENDS, SHAPES},
    [PROTOCOL_COMPLETIONS] = {"prompt", "best_of", "echo", "token_healing",
                              "logprobs", "suffix", "pointer", "min_confidence", "input_extra",
                              "max_completion_tokens", "response_format", "cerium_digest", ENDS,
                              SHAPES},
    [PROTOCOL_INFILL] = {"input_prefix", "input_suffix", "input_extra",
                         "prompt", "filename", "id_slot", "one_block", "n_indent",
                         "t_max_prompt_ms", "t_max_predict_ms", "min_confidence", "pointer",
                         "candidates", "token_healing", "samplers", "response_fields", ENDS,
                         SHAPES},
    [PROTOCOL_COMPACT] = {"max_output_tokens", "text", "include",
                          "top_logprobs", "store", "truncation", "input", "tools",
                          "previous_response_id", "instructions", "tool_choice", "generate",
                          "parallel_tool_calls", "n_predict", TEMPLATE, SHAPES},
    [PROTOCOL_MESSAGES] = {"messages", "system", "tools", "tool_choice", "stop_sequences",
                           "thinking", "output_config", "cache_control", "speed",
                           "context_management", "diagnostics", "thread", TEMPLATE, ENDS},
    [PROTOCOL_OLLAMA_CHAT] = {"messages", "tools", "format", "think", "options", "keep_alive",
                              "num_predict", "n_predict", TEMPLATE},
    [PROTOCOL_OLLAMA_GENERATE] = {"prompt", "suffix", "system", "format", "think", "options",
                                  "keep_alive", "raw", "images", "num_predict", "n_predict",
                                  TEMPLATE},
    [PROTOCOL_COMPLETION] = {"prompt", "samplers", "response_fields",
                             "token_healing", "pointer", "response_format", ENDS, SHAPES},
    [PROTOCOL_EMBEDDINGS] = {"input", "prompt", "encoding_format", "dimensions"},
    [PROTOCOL_OLLAMA_EMBED] = {"input", "prompt", "truncate", "dimensions", "keep_alive"},
    [PROTOCOL_EDITS] = {"id", "path", "prefix", "suffix", "original", "original_document",
                        "document", "changes", "context", ENDS},
};

static bool is_read(protocol_api api, const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(common); i++)
        if (!strcmp(common[i], key)) return true;
    for (size_t i = 0; i < ARRAY_LEN(own[api]) && own[api][i]; i++)
        if (!strcmp(own[api][i], key)) return true;
    return false;
}

/* One field of an object that is partly read. */
static void warn_of(parser *p, const char *object, const char *key)
{
    const json_t *value = json_object_get(json_object_get(p->root, object), key);
    char param[96];
    if (!value || json_is_null(value)) return;
    snprintf(param, sizeof param, "%s.%s", object, key);
    protocol_warn(p->r, param, "is not used by this server");
}

void warn_of_unread(parser *p)
{
    const char *key;
    json_t *value;
    json_object_foreach(p->root, key, value) {
        if (json_is_null(value) || is_read(p->r->api, key)) continue;
        char param[80];
        snprintf(param, sizeof param, "%.64s", key);
        protocol_warn(p->r, param, "is not used by this server");
    }
    bool many = p->r->api == PROTOCOL_CHAT || p->r->api == PROTOCOL_COMPLETIONS;
    if (!many && json_number_value(json_object_get(p->root, "n")) > 1)
        protocol_warn(p->r, "n", "is not used here: there is one answer");
    warn_of(p, "text", "verbosity");
    warn_of(p, "reasoning", "context");
    warn_of(p, "reasoning", "mode");
    const json_t *called = json_object_get(p->root, "function_call");
    if (p->r->api == PROTOCOL_CHAT && called && !json_is_null(called) &&
        !json_object_get(p->root, "functions"))
        protocol_warn(p->r, "function_call", "is not used without functions; see tool_choice");
}

/* ---- logit_bias ---- */

static int add_bias(parser *p, const place *at, int64_t token, const json_t *value)
{
    cerium_sampling *s = &p->r->sampling;
    double bias = json_is_false(value) ? -1e30 : json_number_value(value);
    if (!json_is_number(value) && !json_is_false(value))
        return parse_fail_type(p, at, "a decimal", value);
    if (json_is_number(value) && (bias < -100 || bias > 100))
        return parse_fail(p, at, "invalid_value",
                          "Invalid value: a bias is between -100 and 100, but got %g.", bias);
    if (token < 0 || token > INT32_MAX)
        return parse_fail(p, at, "invalid_value", "Invalid key in 'logit_bias': not a token's id.");
    p->r->biases[s->n_biases++] = (cerium_logit_bias){(int32_t)token, (float)bias};
    return CERIUM_OK;
}

/* {"id": bias}, or llama.cpp's [[id, bias], ...], where false means never. */
int bias_parse(parser *p)
{
    json_t *biases = json_object_get(p->root, "logit_bias"), *value;
    const place at = {NULL, "logit_bias", 0};
    const char *key;
    size_t i, n = json_is_array(biases) ? json_array_size(biases) : json_object_size(biases);
    p->r->sampling.n_biases = 0;
    if (!biases || json_is_null(biases)) return CERIUM_OK;
    if (!json_is_object(biases) && !json_is_array(biases))
        return parse_fail_type(p, &at, "an object", biases);
    if (n > CERIUM_BIASES_MAX)
        return parse_fail(p, &at, "invalid_value", "'logit_bias' has more than %d tokens.",
                          CERIUM_BIASES_MAX);
    p->r->biases = memory_zalloc(n ? n : 1, sizeof *p->r->biases);
    if (!p->r->biases) return CERIUM_ERR_MEMORY;
    json_object_foreach(biases, key, value) {
        uint64_t id;
        bool is = parse_u64(view_of(key), &id) && id <= INT32_MAX;
        RETURN_IF(add_bias(p, &(place){&at, key, 0}, is ? (int64_t)id : -1, value));
    }
    json_array_foreach(biases, i, value) {
        const json_t *id = json_array_get(value, 0);
        RETURN_IF(add_bias(p, &(place){&at, NULL, i},
                           json_is_integer(id) ? (int64_t)json_integer_value(id) : -1,
                           json_array_get(value, 1) ? json_array_get(value, 1) : value));
    }
    p->r->sampling.biases = p->r->biases;
    return CERIUM_OK;
}
