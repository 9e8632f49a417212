/* parse.c - one request from its bytes: reads the fields common to all APIs, calls the API's
 * reader. */
#include "protocol/parse.h"

#include <math.h>

#include "base/json.h"
#include "protocol/json_out.h"

/* ---- sampling and length ---- */

/* The most probable token has always at least this probability, despite rounding. */
#define MIN_P_MAX 0.999999

static int temperature_parse(parser *p)
{
    cerium_sampling *s = &p->r->sampling;
    double temperature = s->temperature, top_p = s->top_p, min_p = s->min_p;
    double penalty = s->repetition_penalty, presence = s->presence_penalty;
    double frequency = s->frequency_penalty;
    const place *up = p->sampling_at;
    RETURN_IF(field_number(p, up, p->root, "temperature", 0, 2, &temperature));
    RETURN_IF(field_number(p, up, p->root, "top_p", 0, 1, &top_p));
    RETURN_IF(field_number(p, up, p->root, "min_p", 0, 1, &min_p));
    RETURN_IF(field_number(p, up, p->root, "repetition_penalty", 0, 10, &penalty));
    RETURN_IF(field_number(p, up, p->root, "repeat_penalty", 0, 10, &penalty));
    RETURN_IF(field_number(p, up, p->root, "presence_penalty", -2, 2, &presence));
    RETURN_IF(field_number(p, up, p->root, "frequency_penalty", -2, 2, &frequency));
    s->presence_penalty = (float)presence;
    s->frequency_penalty = (float)frequency;
    bool greedy = json_is_number(json_object_get(p->root, "top_p")) && top_p <= 0;
    s->temperature = greedy ? 0 : (float)temperature;
    s->top_p = (float)top_p;
    s->min_p = min_p < MIN_P_MAX ? (float)min_p : (float)MIN_P_MAX;
    s->repetition_penalty = (float)penalty;
    return CERIUM_OK;
}

static int sampling_parse(parser *p)
{
    int64_t top_k = -2, seed = (int64_t)p->r->sampling.seed;
    const json_t *wide = json_object_get(p->root, "seed");
    RETURN_IF(temperature_parse(p));
    RETURN_IF(bias_parse(p));
    RETURN_IF(field_bool(p, p->sampling_at, p->root, "ignore_eos", &p->r->sampling.ignore_end));
    RETURN_IF(field_bound(p, p->sampling_at, p->root, "top_k", -1, INT32_MAX, &top_k));
    /* A seed beyond int64_t is accepted like any other. */
    if (json_is_real(wide) && fabs(json_real_value(wide)) > 9e18)
        seed = (int64_t)fmod(fabs(json_real_value(wide)), 9e18);
    else
        RETURN_IF(field_integer(p, p->sampling_at, p->root, "seed", INT64_MIN, INT64_MAX, &seed));
    if (top_k > -2) p->r->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    p->r->sampling.seed = (uint64_t)seed;
    return CERIUM_OK;
}

/* A negative value means no limit; n_predict 0 only computes the prompt. */
static int length_parse(parser *p)
{
    static const char *const keys[] = {"n_predict", "max_tokens", "max_completion_tokens",
                                       "max_output_tokens", "num_predict"};
    protocol_request *r = p->r;
    const bool is_responses = r->api == PROTOCOL_RESPONSES || r->api == PROTOCOL_COMPACT;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const bool zero = i == 0 || i == 4 || (!r->talks && r->api != PROTOCOL_EDITS) ||
                          r->api == PROTOCOL_MESSAGES;
        const place at = {NULL, keys[i], 0};
        int64_t most = -1;
        if (i && i < 4 && (i == 3) != is_responses) continue;
        if (i == 4 && !p->sampling_at) continue; /* Ollama's own */
        RETURN_IF(field_bound(p, p->sampling_at, p->root, keys[i], -2, UINT32_MAX - 1, &most));
        if (!most && !zero)
            return parse_fail(p, &at, "integer_below_min_value",
                              "Invalid '%s': integer below minimum value. Expected a value >= 1, "
                              "but got 0 instead.", keys[i]);
        if (most < 0) continue;
        r->new_tokens_max = (uint32_t)most;
        r->warm_up = r->warm_up || (!most && (i == 0 || i == 4 || r->api == PROTOCOL_MESSAGES));
    }
    return CERIUM_OK;
}

static int stop_add(parser *p, const place *at, const json_t *value)
{
    const char *stop = NULL;
    char path[96];
    if (!json_is_string(value)) return parse_fail_type(p, at, "a string", value);
    RETURN_IF(string_text(p, value, &stop));
    place_print(at, path, sizeof path);
    if (strlen(stop) > CERIUM_STOP_BYTES_MAX)
        return parse_fail(p, at, "string_above_max_length",
                          "Invalid '%s': string too long. Expected a string with maximum length "
                          "%d, but got a string with length %zu instead.",
                          path, CERIUM_STOP_BYTES_MAX, strlen(stop));
    if (stop[0]) p->r->stops[p->r->sampling.n_stops++] = stop;
    return CERIUM_OK;
}

static int stops_parse(parser *p)
{
    const char *key = p->r->api == PROTOCOL_MESSAGES ? "stop_sequences" : "stop";
    const json_t *stop = json_object_get(p->root, key);
    const place at = {p->sampling_at, key, 0};
    json_t *list = NULL;
    p->r->sampling.n_stops = 0;
    p->r->sampling.stops = p->r->stops;
    if (json_is_string(stop)) return stop_add(p, &at, stop);
    RETURN_IF(field_array(p, p->sampling_at, p->root, key, CERIUM_STOPS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++)
        RETURN_IF(stop_add(p, &(place){&at, NULL, i}, json_array_get(list, i)));
    return CERIUM_OK;
}

static int include_parse(parser *p)
{
    json_t *list = NULL;
    int64_t top = 0;
    RETURN_IF(field_array(p, NULL, p->root, "include", 64, &list));
    RETURN_IF(field_integer(p, NULL, p->root, "top_logprobs", 0, CERIUM_TOP_MAX, &top));
    p->r->top_logprobs = (uint32_t)top;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *what = json_string_value(json_array_get(list, i));
        if (!what) continue;
        if (!strcmp(what, "message.output_text.logprobs")) p->r->sampling.logprobs = true;
        if (!strcmp(what, "reasoning.encrypted_content")) p->r->opaque_reasoning = true;
    }
    if (top) p->r->sampling.logprobs = true;
    return CERIUM_OK;
}

/* ---- common fields, and each API's own ---- */

static bool not_by_user(const json_t *metadata)
{
    const char *source = json_string_value(json_object_get(metadata, "thread_source"));
    return source && strcmp(source, "user") != 0;
}

bool protocol_is_side_request(view metadata)
{
    json_t *root = json_read(metadata, JSON_ALLOW_NUL, NULL);
    bool is = not_by_user(root);
    json_decref(root);
    return is;
}

/* Codex says what a request is for, as an object or as its text. */
static bool is_side_request(const json_t *root)
{
    const json_t *metadata = json_object_get(json_object_get(root, "client_metadata"),
                                             "x-codex-turn-metadata");
    if (!json_is_string(metadata)) return not_by_user(metadata);
    return protocol_is_side_request(
        (view){json_string_value(metadata), json_string_length(metadata)});
}

static int tier_parse(parser *p)
{
    protocol_request *r = p->r;
    RETURN_IF(field_string(p, NULL, p->root, "service_tier", &r->service_tier));
    const char *tier = r->service_tier ? r->service_tier : "";
    bool inline_ = !r->talks;
    r->class_ = inline_ ? CERIUM_CLASS_COMPLETION : CERIUM_CLASS_TURN;
    bool is_batch = !strcmp(tier, "flex") || !strcmp(tier, "batch");
    if (is_batch || (!*tier && is_side_request(p->root))) r->class_ = CERIUM_CLASS_BATCH;
    if (!inline_ && (!strcmp(tier, "priority") || !strcmp(tier, "fast")))
        r->class_ = CERIUM_CLASS_EDIT;
    return CERIUM_OK;
}

static int lane_parse(parser *p)
{
    const place at = {NULL, "stream_id", 0};
    const char *lane = NULL;
    RETURN_IF(field_string(p, NULL, p->root, "stream_id", &lane));
    if (!lane) return CERIUM_OK;
    size_t len = strspn(lane, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
    if (!len || len > 256 || lane[len])
        return parse_fail(p, &at, "invalid_stream_id",
                          "Invalid 'stream_id': expected 1 to 256 of the characters A-Z, a-z, 0-9, "
                          "'_', '.' and '-'.");
    p->r->stream_id = lane;
    return CERIUM_OK;
}

static int guard_end_parse(parser *p)
{
    const char *end = p->defaults->guard_ends ? "incomplete" : "message";
    RETURN_IF(field_string(p, NULL, p->root, "cerium_guard_end", &end));
    p->r->guard_ends = !strcmp(end, "incomplete");
    if (p->r->guard_ends || !strcmp(end, "message")) return CERIUM_OK;
    return parse_fail_value(p, &(place){NULL, "cerium_guard_end", 0}, end,
                            "'message' and 'incomplete'");
}

/* Part of usage in APIs that have choices; elsewhere the field is ignored. */
static int digest_parse(parser *p)
{
    protocol_request *r = p->r;
    const json_t *value = json_object_get(p->root, "cerium_digest");
    const place at = {NULL, "cerium_digest", 0};
    if (r->api > PROTOCOL_COMPLETIONS || !value || json_is_null(value)) return CERIUM_OK;
    if (!json_is_boolean(value) && !json_is_string(value))
        return parse_fail_type(p, &at, "a boolean or 'record'", value);
    if (json_is_string(value) && strcmp(json_string_value(value), "record") != 0)
        return parse_fail_value(p, &at, json_string_value(value), "true, false and 'record'");
    r->wants_record = json_is_string(value);
    r->sampling.digest = r->wants_record || json_is_true(value);
    return CERIUM_OK;
}

static int common_parse(parser *p)
{
    protocol_request *r = p->r;
    json_t *options = NULL;
    const place at = {NULL, "stream_options", 0};
    int64_t n = 1;
    RETURN_IF(field_string(p, NULL, p->root, "model", &r->model));
    RETURN_IF(field_string(p, NULL, p->root, "prompt_cache_key", &r->prompt_cache_key));
    RETURN_IF(field_bool(p, NULL, p->root, "stream", &r->stream));
    RETURN_IF(field_object(p, NULL, p->root, "stream_options", &options));
    RETURN_IF(field_bool(p, &at, options, "include_usage", &r->include_usage));
    RETURN_IF(field_string(p, NULL, p->root, "cerium_guard", &r->guard));
    RETURN_IF(guard_end_parse(p));
    RETURN_IF(digest_parse(p));
    RETURN_IF(tier_parse(p));
    RETURN_IF(sampling_parse(p));
    RETURN_IF(length_parse(p));
    RETURN_IF(stops_parse(p));
    RETURN_IF(field_integer(p, NULL, p->root, "n", 1, PROTOCOL_CHOICES_MAX, &n));
    bool many = r->api == PROTOCOL_CHAT || r->api == PROTOCOL_COMPLETIONS;
    r->n_choices = r->n_best = many ? (uint32_t)n : 1;
    if (r->api != PROTOCOL_INFILL) return CERIUM_OK;
    n = 1;
    RETURN_IF(field_integer(p, NULL, p->root, "candidates", 1, PROTOCOL_CANDIDATES_MAX, &n));
    r->n_choices = (uint32_t)n;
    r->candidates = n > 1;
    return CERIUM_OK;
}

/* An unsupported feature is refused by name, as an answer without it would mislead. */
static int refuse_unsupported(parser *p)
{
    static const char *const keys[] = {"conversation", "prompt"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const json_t *value = json_object_get(p->root, keys[i]);
        if (value && !json_is_null(value) && !json_is_false(value))
            return parse_fail(p, &(place){NULL, keys[i], 0}, "unsupported_parameter",
                              "Unsupported parameter: '%s' is not supported by this server.",
                              keys[i]);
    }
    return CERIUM_OK;
}

/* A background response must be stored. */
static int background_parse(parser *p)
{
    protocol_request *r = p->r;
    const place at = {NULL, "background", 0};
    RETURN_IF(field_bool(p, NULL, p->root, "background", &r->background));
    if (!r->background) return CERIUM_OK;
    if (!r->store)
        return parse_fail(p, &at, "invalid_value",
                          "Invalid 'background': it needs 'store' to be true.");
    if (!r->compacts && !p->defaults->is_socket) return CERIUM_OK;
    return parse_fail(p, &at, "unsupported_parameter",
                      "Unsupported parameter: 'background' is not supported %s.",
                      p->defaults->is_socket ? "over a WebSocket" : "for compaction");
}

static int responses_parse(parser *p)
{
    protocol_request *r = p->r;
    const char *truncation = "disabled";
    bool generate = true;
    json_t *unused = NULL;
    RETURN_IF(refuse_unsupported(p));
    r->store = r->api == PROTOCOL_RESPONSES;
    RETURN_IF(field_bool(p, NULL, p->root, "store", &r->store));
    RETURN_IF(field_bool(p, NULL, p->root, "generate", &generate));
    RETURN_IF(field_object(p, NULL, p->root, "reasoning", &unused));
    RETURN_IF(field_object(p, NULL, p->root, "metadata", &unused));
    RETURN_IF(field_string(p, NULL, p->root, "truncation", &truncation));
    RETURN_IF(field_string(p, NULL, p->root, "previous_response_id", &r->previous_response_id));
    if (strcmp(truncation, "auto") && strcmp(truncation, "disabled"))
        return parse_fail_value(p, &(place){NULL, "truncation", 0}, truncation,
                                "'auto' and 'disabled'");
    r->warm_up = r->warm_up || !generate;
    r->truncate = !strcmp(truncation, "auto");
    if (r->api == PROTOCOL_COMPACT && !r->model)
        return parse_fail_missing(p, &(place){NULL, "model", 0});
    RETURN_IF(thoughts_parse(p));
    RETURN_IF(tools_parse(p));
    RETURN_IF(items_parse(p));
    RETURN_IF(background_parse(p));
    RETURN_IF(answer_format_parse(p));
    return include_parse(p);
}

static int talk_parse(parser *p)
{
    RETURN_IF(thoughts_parse(p));
    RETURN_IF(tools_parse(p));
    RETURN_IF(chat_parse(p));
    return answer_format_parse(p);
}

static int text_parse(parser *p)
{
    RETURN_IF(p->r->api == PROTOCOL_INFILL ? infill_parse(p) : completion_parse(p));
    return answer_format_parse(p);
}

static int request_parse(parser *p)
{
    static int (*const parse_api[])(parser *) = {
        [PROTOCOL_RESPONSES] = responses_parse,   [PROTOCOL_CHAT] = talk_parse,
        [PROTOCOL_COMPLETIONS] = text_parse,      [PROTOCOL_INFILL] = text_parse,
        [PROTOCOL_COMPACT] = responses_parse,     [PROTOCOL_MESSAGES] = messages_parse,
        [PROTOCOL_OLLAMA_CHAT] = ollama_parse,    [PROTOCOL_OLLAMA_GENERATE] = ollama_parse,
        [PROTOCOL_COMPLETION] = llama_completion_parse,
        [PROTOCOL_EMBEDDINGS] = embeddings_parse, [PROTOCOL_OLLAMA_EMBED] = embeddings_parse,
        [PROTOCOL_EDITS] = edits_parse,
    };
    protocol_request *r = p->r;
    const char *type = NULL;
    RETURN_IF(lane_parse(p));
    RETURN_IF(field_string(p, NULL, p->root, "type", &type));
    if (type && r->api == PROTOCOL_RESPONSES) {
        r->cancel = !strcmp(type, "response.cancel");
        if (!r->cancel && strcmp(type, "response.create"))
            return parse_fail_value(p, &(place){NULL, "type", 0}, type,
                                    "'response.create' and 'response.cancel'");
        if (r->cancel)
            return field_string(p, NULL, p->root, "response_id", &r->response_id);
    }
    if (r->api == PROTOCOL_OLLAMA_CHAT || r->api == PROTOCOL_OLLAMA_GENERATE)
        RETURN_IF(ollama_hoist(p));
    RETURN_IF(common_parse(p));
    RETURN_IF(parse_api[r->api](p));
    warn_of_unread(p);
    return r->previous_response_id ? CERIUM_OK : protocol_request_check_results(r, p->error);
}

static bool may_talk(protocol_api api)
{
    return api != PROTOCOL_COMPLETIONS && api != PROTOCOL_INFILL && api < PROTOCOL_COMPLETION;
}

int protocol_body_parse(protocol_request **out, protocol_api api, protocol_body *body,
                        const protocol_defaults *defaults, protocol_error *error)
{
    CHECK(out && defaults && error && body->root && api <= PROTOCOL_EDITS);
    protocol_request *r = memory_zalloc(1, sizeof *r);
    if (!r) {
        protocol_body_free(body);
        return CERIUM_ERR_MEMORY;
    }
    *r = (protocol_request){.api = api, .root = body->root, .tool_set = body->tool_set,
                            .talks = may_talk(api), .sampling = defaults->sampling,
                            .n_choices = 1, .n_best = 1, .new_tokens_max = UINT32_MAX,
                            .thought_tokens_max = UINT32_MAX};
    parser p = {.r = r, .defaults = defaults, .error = error, .texts = &r->texts,
                .root = body->root, .calls = json_object(), .raw_tools = body->raw_tools};
    *body = (protocol_body){.root = NULL};
    int status = p.calls ? request_parse(&p) : CERIUM_ERR_MEMORY;
    json_decref(p.calls);
    if (status)
        protocol_request_free(&r);
    else
        *out = r;
    return status;
}

int protocol_request_parse(protocol_request **out, protocol_api api, view text,
                           const protocol_defaults *defaults, protocol_error *error)
{
    protocol_body body;
    RETURN_IF(protocol_body_load(&body, api, text, defaults, error));
    return protocol_body_parse(out, api, &body, defaults, error);
}

void protocol_request_free(protocol_request **request)
{
    if (!request || !*request) return;
    protocol_request *r = *request;
    *request = NULL;
    for (size_t i = 0; i < r->n_prompts; i++) memory_free((void *)r->prompt_tokens[i]);
    texts_free(&r->texts);
    tools_release(&r->tool_set);
    memory_free(r->callable);
    memory_free(r->template_variables);
    memory_free(r->biases);
    bytes_free(&r->warnings);
    if (r->edits) next_edit_close(&r->edits->prompt);
    memory_free(r->edits);
    memory_free((void *)r->infill.files);
    memory_free(r->prompts);
    memory_free(r->prompt_lens);
    memory_free(r->prompt_tokens);
    memory_free(r->prompt_n_tokens);
    memory_free(r->messages);
    memory_free(r->message_item);
    json_decref(r->found);
    json_decref(r->root);
    memory_free(r);
}

/* ---- results of calls in earlier responses ---- */

/* The name of a call, owned by the request; NULL for an invalid one. */
static int name_of_call(parser *p, const json_t *item, const char **out)
{
    const char *name = json_string_value(json_object_get(item, "name"));
    const char *space = json_string_value(json_object_get(item, "namespace"));
    if (!name || !name[0] || strlen(name) > PROTOCOL_NAME_BYTES_MAX) return CERIUM_OK;
    if (space && (!space[0] || strlen(space) > PROTOCOL_NAME_BYTES_MAX)) space = NULL;
    RETURN_IF(tool_full_name(p, space, name, &name));
    return make_text(p, view_of(name), out);
}

int protocol_request_name_results(protocol_request *request, const json_t *items)
{
    parser p = {.r = request, .texts = &request->texts, .calls = json_object()};
    int status = p.calls ? CERIUM_OK : CERIUM_ERR_MEMORY;
    for (size_t i = 0; i < json_array_size(items) && !status; i++) {
        const json_t *item = json_array_get(items, i);
        const char *id = json_string_value(json_object_get(item, "call_id"));
        if (id && json_object_get(item, "name") &&
            json_object_set_nocheck(p.calls, id, (json_t *)item))
            status = CERIUM_ERR_MEMORY;
    }
    for (size_t i = 0; i < request->n_messages && !status; i++) {
        cerium_message *m = &request->messages[i];
        if (m->name || strcmp(m->role, "tool")) continue;
        status = name_of_call(&p, json_object_get(p.calls, m->call_id), &m->name);
    }
    json_decref(p.calls);
    return status;
}

/* A result made by the client itself, like the answer to a call of ours. */
static bool answers_call(const protocol_request *r, size_t i)
{
    const json_t *item = r->message_item[i] < 0
                             ? NULL : json_array_get(r->items, (size_t)r->message_item[i]);
    const char *type = json_string_value(json_object_get(item, "type"));
    return type && (!strcmp(type, "function_call_output") ||
                    !strcmp(type, "custom_tool_call_output"));
}

/* The summary contains the calls of the summed up part. */
static bool was_compacted(const protocol_request *r)
{
    size_t i;
    json_t *item;
    json_array_foreach(r->items, i, item) {
        const char *type = json_string_value(json_object_get(item, "type"));
        if (type && strstr(type, "compaction")) return true;
    }
    return false;
}

int protocol_request_check_results(protocol_request *r, protocol_error *error)
{
    char param[48];
    bool checks = r->api == PROTOCOL_RESPONSES && !was_compacted(r);
    for (size_t i = 0; i < r->n_messages && checks; i++) {
        const cerium_message *m = &r->messages[i];
        if (m->name || strcmp(m->role, "tool") || !answers_call(r, i)) continue;
        snprintf(param, sizeof param, "input[%d].call_id", (int)r->message_item[i]);
        return protocol_error_set(error, 400, "invalid_request_error", NULL, param,
                                  "No tool call found for function call output with call_id "
                                  "%.128s.", m->call_id ? m->call_id : "");
    }
    protocol_request_name_orphans(r);
    return CERIUM_OK;
}

void protocol_request_name_orphans(protocol_request *request)
{
    for (size_t i = 0; i < request->n_messages; i++) {
        cerium_message *m = &request->messages[i];
        if (!m->name && !strcmp(m->role, "tool")) m->name = "tool";
    }
}
