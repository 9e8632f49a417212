/* upstream_request.c - bodies for other servers: a conversation in the words of their API. */
#include "protocol/upstream_api.h"

#include "base/json.h"
#include "base/limits.h"
#include "protocol/parse.h"

const char *upstream_path(const upstream_order *o)
{
    return o->responses && o->request->api == PROTOCOL_RESPONSES ? "/responses"
                                                                 : "/chat/completions";
}

/* ---- items as messages ---- */

/* Text of a string or of parts; a server of Chat gets no images and the like. */
static int add_text(bytes *out, const json_t *content)
{
    size_t i;
    const json_t *part;
    if (json_is_string(content))
        return bytes_append(out, json_string_value(content), json_string_length(content));
    json_array_foreach(content, i, part) {
        const json_t *text = json_object_get(part, "text");
        if (!text) text = json_object_get(part, "refusal");
        if (json_is_string(text))
            RETURN_IF(bytes_append(out, json_string_value(text), json_string_length(text)));
    }
    return CERIUM_OK;
}

static json_t *text_of(const json_t *content)
{
    bytes text = {.max = PROTOCOL_BODY_BYTES_MAX};
    json_t *value = add_text(&text, content) ? NULL : json_stringn(text.ptr ? text.ptr : "",
                                                                   text.len);
    bytes_free(&text);
    return value;
}

static const char *role_of(const json_t *item)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    if (!role) return "user";
    if (!strcmp(role, "developer") || !strcmp(role, "system")) return "system";
    return strcmp(role, "assistant") ? "user" : "assistant";
}

/* "ns__name", as the tools are named. */
static void full_name(const json_t *item, char *out, size_t cap)
{
    const char *space = json_string_value(json_object_get(item, "namespace"));
    const char *name = json_string_value(json_object_get(item, "name"));
    snprintf(out, cap, "%s%s%s", space ? space : "", space ? "__" : "", name ? name : "");
}

static json_t *call_of(const json_t *item, bool custom)
{
    char name[2 * PROTOCOL_NAME_BYTES_MAX + 8];
    char *wrapped = NULL;
    const char *arguments = json_string_value(json_object_get(item, "arguments"));
    const char *id = json_string_value(json_object_get(item, "call_id"));
    full_name(item, name, sizeof name);
    if (custom) {
        json_t *whole = json_pack("{s:O?}", "input", json_object_get(item, "input"));
        wrapped = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
        json_decref(whole);
        arguments = wrapped;
    }
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id ? id : "", "type", "function",
                             "function", "name", name, "arguments", arguments ? arguments : "{}");
    memory_release(wrapped);
    return call;
}

/* Adjacent calls are one message of the assistant. */
static int add_call(json_t *messages, json_t *call)
{
    size_t n = json_array_size(messages);
    json_t *last = n ? json_array_get(messages, n - 1) : NULL;
    const char *role = json_string_value(json_object_get(last, "role"));
    if (!call) return CERIUM_ERR_MEMORY;
    if (!role || strcmp(role, "assistant") != 0) {
        if (json_array_append_new(messages, json_pack("{s:s, s:n}", "role", "assistant",
                                                      "content")))
            return json_decref(call), CERIUM_ERR_MEMORY;
        last = json_array_get(messages, n);
    }
    json_t *calls = json_object_get(last, "tool_calls");
    if (!calls) {
        if (json_object_set_new(last, "tool_calls", json_array()))
            return json_decref(call), CERIUM_ERR_MEMORY;
        calls = json_object_get(last, "tool_calls");
    }
    return json_array_append_new(calls, call) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

static int add_message(json_t *messages, json_t *message)
{
    return json_array_append_new(messages, message) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

static int add_item(json_t *messages, const json_t *item)
{
    const char *type = json_string_value(json_object_get(item, "type"));
    const json_t *output = json_object_get(item, "output");
    if (!type || !strcmp(type, "message"))
        return add_message(messages,
                           json_pack("{s:s, s:o}", "role", role_of(item), "content",
                                     text_of(json_object_get(item, "content"))));
    if (!strcmp(type, "function_call")) return add_call(messages, call_of(item, false));
    if (!strcmp(type, "custom_tool_call")) return add_call(messages, call_of(item, true));
    if (!strcmp(type, "function_call_output") || !strcmp(type, "custom_tool_call_output")) {
        const char *id = json_string_value(json_object_get(item, "call_id"));
        return add_message(messages, json_pack("{s:s, s:s, s:o}", "role", "tool", "tool_call_id",
                                               id ? id : "", "content", text_of(output)));
    }
    return CERIUM_OK; /* thoughts and the like are only for the model that had them */
}

static json_t *messages_of(const upstream_order *o)
{
    const json_t *instructions = json_object_get(o->request->root, "instructions"), *item;
    json_t *messages = json_array();
    int status = messages ? CERIUM_OK : CERIUM_ERR_MEMORY;
    size_t i;
    if (!status && json_is_string(instructions))
        status = add_message(messages, json_pack("{s:s, s:O}", "role", "system", "content",
                                                 instructions));
    json_array_foreach(o->items, i, item)
        if (!status) status = add_item(messages, item);
    if (!status) return messages;
    json_decref(messages);
    return NULL;
}

/* ---- tools, and how to answer ---- */

/* As functions; tools with free text get one parameter for it. */
static json_t *functions_of(const protocol_request *r)
{
    static const char free_text[] = "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":"
                                    "\"string\"}},\"required\":[\"input\"]}";
    json_t *tools = json_array();
    for (size_t i = 0; tools && i < r->n_tools; i++) {
        const cerium_tool *t = &r->tools[i];
        json_t *parameters = json_read(view_of(t->parameters ? t->parameters : free_text), 0, NULL);
        json_t *tool = json_pack("{s:s, s:{s:s, s:s*, s:o*}}", "type", "function", "function",
                                 "name", t->name, "description", t->description, "parameters",
                                 parameters);
        if (json_array_append_new(tools, tool)) {
            json_decref(tools);
            return NULL;
        }
    }
    return tools;
}

static int set(json_t *to, const char *name, json_t *value)
{
    return json_object_set_new(to, name, value) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

/* Copy a value to another name, if present. */
static int carry(json_t *to, const char *name, json_t *value)
{
    return value && !json_is_null(value) ? set(to, name, json_incref(value)) : CERIUM_OK;
}

static int carry_choice(json_t *to, const json_t *root)
{
    json_t *choice = json_object_get(root, "tool_choice");
    if (!json_is_object(choice)) return carry(to, "tool_choice", choice);
    const char *type = json_string_value(json_object_get(choice, "type"));
    char name[2 * PROTOCOL_NAME_BYTES_MAX + 8];
    if (!type || (strcmp(type, "function") && strcmp(type, "custom"))) return CERIUM_OK;
    full_name(choice, name, sizeof name);
    return set(to, "tool_choice",
               json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", name));
}

static int carry_format(json_t *to, const json_t *root)
{
    json_t *format = json_object_get(json_object_get(root, "text"), "format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type || !strcmp(type, "text")) return CERIUM_OK;
    if (strcmp(type, "json_schema") != 0)
        return set(to, "response_format", json_incref(format));
    json_t *schema = json_copy(format);
    json_object_del(schema, "type");
    return set(to, "response_format", json_pack("{s:s, s:o}", "type", type, "json_schema", schema));
}

/* A request of Responses as one of Chat. */
static json_t *translated(const upstream_order *o)
{
    const protocol_request *r = o->request;
    json_t *root = r->root, *body = json_object();
    json_t *effort = json_object_get(json_object_get(root, "reasoning"), "effort");
    int status = set(body, "messages", messages_of(o));
    if (!status && r->n_tools) status = set(body, "tools", functions_of(r));
    if (!status && r->n_tools) status = carry_choice(body, root);
    if (!status && r->n_tools)
        status = carry(body, "parallel_tool_calls", json_object_get(root, "parallel_tool_calls"));
    if (!status) status = carry(body, "temperature", json_object_get(root, "temperature"));
    if (!status) status = carry(body, "top_p", json_object_get(root, "top_p"));
    if (!status) status = carry(body, "reasoning_effort", effort);
    if (!status) status = carry_format(body, root);
    if (!status) return body;
    json_decref(body);
    return NULL;
}

/* ---- messages of other APIs ---- */

/* Ids of calls are optional in some APIs: then calls and results are numbered. */
typedef struct {
    uint32_t calls, results;
} numbering;

static json_t *id_of(const cerium_message *m, uint32_t *n)
{
    char id[32];
    snprintf(id, sizeof id, "call_%u", (*n)++);
    return json_string(m->call_id ? m->call_id : id);
}

static int add_spoken(json_t *messages, const cerium_message *m, numbering *n)
{
    const char *role = !strcmp(m->role, "developer") ? "system" : m->role;
    if (!strcmp(role, "reasoning")) return CERIUM_OK; /* only for the model that had it */
    if (!strcmp(role, "call"))
        return add_call(messages, json_pack("{s:o, s:s, s:{s:s, s:s}}", "id",
                                            id_of(m, &n->calls), "type", "function", "function",
                                            "name", m->name, "arguments", m->content));
    if (!strcmp(role, "tool"))
        return add_message(messages, json_pack("{s:s, s:o, s:s}", "role", "tool", "tool_call_id",
                                               id_of(m, &n->results), "content", m->content));
    return add_message(messages, json_pack("{s:s, s:s}", "role", role, "content", m->content));
}

static json_t *spoken_messages(const protocol_request *r)
{
    numbering n = {0, 0};
    json_t *messages = json_array();
    int status = messages ? CERIUM_OK : CERIUM_ERR_MEMORY;
    for (size_t i = 0; i < r->n_messages && !status; i++)
        status = add_spoken(messages, &r->messages[i], &n);
    if (!status && r->prefill)
        status = add_message(messages, json_pack("{s:s, s:s}", "role", "assistant", "content",
                                                 r->prefill));
    if (!status) return messages;
    json_decref(messages);
    return NULL;
}

/* The allowed tools, in Chat's words. */
static json_t *spoken_choice(const protocol_request *r)
{
    size_t n = 0, last = 0;
    for (size_t i = 0; i < r->n_tools; i++)
        if (!r->callable || r->callable[i]) n++, last = i;
    if (r->tools_barred) return json_string("none");
    if (!r->call_required) return json_string("auto");
    if (n != 1) return json_string("required");
    return json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name",
                     r->tools[last].name);
}

static json_t *stops_of(const protocol_request *r)
{
    json_t *stops = json_array();
    for (uint32_t i = 0; i < r->sampling.n_stops; i++)
        json_array_append_new(stops, json_string(r->stops[i]));
    return stops;
}

/* A request of Messages or Ollama as one of Chat. */
static json_t *spoken(const upstream_order *o)
{
    const protocol_request *r = o->request;
    json_t *root = r->root, *body = json_object();
    json_t *effort = json_object_get(json_object_get(root, "output_config"), "effort");
    int status = set(body, "messages", spoken_messages(r));
    if (!status && r->n_tools) status = set(body, "tools", functions_of(r));
    if (!status && r->n_tools) status = set(body, "tool_choice", spoken_choice(r));
    if (!status && r->n_tools && r->one_call)
        status = set(body, "parallel_tool_calls", json_false());
    if (!status && r->sampling.n_stops) status = set(body, "stop", stops_of(r));
    if (!status) status = carry(body, "temperature", json_object_get(root, "temperature"));
    if (!status) status = carry(body, "top_p", json_object_get(root, "top_p"));
    if (!status) status = carry(body, "reasoning_effort", effort);
    if (!status && r->wants_object)
        status = set(body, "response_format", json_pack("{s:s}", "type", "json_object"));
    if (!status && r->schema)
        status = set(body, "response_format",
                     json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema", "json_schema", "name",
                               "answer", "schema", r->schema));
    if (!status) return body;
    json_decref(body);
    return NULL;
}

/* Thoughts are sealed by the server that had them: another server could not read them. */
static json_t *without_thoughts(json_t *items)
{
    json_t *out = json_array(), *item;
    size_t i;
    json_array_foreach(items, i, item) {
        const char *type = json_string_value(json_object_get(item, "type"));
        if (type && (!strcmp(type, "reasoning") || !strcmp(type, "item_reference"))) continue;
        if (json_array_append(out, item)) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static json_t *same_api(const upstream_order *o)
{
    static const char *const ours[] = {"previous_response_id", "stream_id", "type", "generate",
                                       "client_metadata", "prediction", "metadata", "service_tier",
                                       "top_logprobs", "max_output_tokens", "max_tokens",
                                       "max_completion_tokens"};
    bool responses = o->request->api == PROTOCOL_RESPONSES;
    json_t *body = json_copy(o->request->root);
    for (size_t i = 0; body && i < ARRAY_LEN(ours); i++) json_object_del(body, ours[i]);
    int status = body ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status && responses) status = set(body, "input", without_thoughts(o->items));
    if (!status && responses) status = set(body, "store", json_false());
    if (!status) return body;
    json_decref(body);
    return NULL;
}

/* A budget of thoughts gets the other server's name for it. */
static int carry_budget(json_t *body, const upstream_order *o)
{
    const uint32_t most = o->request->thought_tokens_max;
    for (size_t i = 0; i < THOUGHT_BUDGETS; i++) json_object_del(body, thought_budgets[i]);
    if (most == UINT32_MAX || !o->budget) return CERIUM_OK;
    return set(body, o->budget, json_integer(most));
}

static int put_text(const char *text, size_t len, void *out)
{
    return bytes_append(out, text, len);
}

int upstream_body(bytes *out, const upstream_order *o)
{
    bool responses = o->request->api == PROTOCOL_RESPONSES;
    const protocol_api api = o->request->api;
    const bool is_other = api == PROTOCOL_MESSAGES || api == PROTOCOL_OLLAMA_CHAT;
    json_t *body = is_other                       ? spoken(o)
                   : responses && !o->responses ? translated(o) : same_api(o);
    int status = body ? set(body, "model", json_string(o->model)) : CERIUM_ERR_MEMORY;
    if (!status) status = set(body, "stream", json_true());
    if (!status && !(responses && o->responses)) status = carry_budget(body, o);
    if (!status && !(responses && o->responses))
        status = set(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    if (!status && json_dump_callback(body, put_text, out, JSON_COMPACT))
        status = CERIUM_ERR_CAPACITY;
    json_decref(body);
    return status;
}

int upstream_cap(bytes *out, const upstream_order *o, uint32_t new_tokens_max)
{
    const protocol_request *r = o->request;
    const char *name = "max_tokens";
    char text[64];
    if (r->api == PROTOCOL_RESPONSES && o->responses) name = "max_output_tokens";
    if (json_object_get(r->root, "max_completion_tokens")) name = "max_completion_tokens";
    CHECK(out->len && out->ptr[out->len - 1] == '}');
    int len = snprintf(text, sizeof text, ",\"%s\":%u}", name, new_tokens_max);
    out->len--;
    return bytes_append(out, text, (size_t)len);
}
