/* ollama_request.c - requests of Ollama's /api/chat and /api/generate.
 *
 * Fields in this API's `options` are read like those of the other APIs. */
#include "protocol/parse.h"
#include "protocol/texts.h"

/* ---- options ---- */

int ollama_hoist(parser *p)
{
    static const char *const options[] = {
        "temperature", "top_k",       "top_p",          "min_p",            "seed",
        "stop",        "num_predict", "repeat_penalty", "presence_penalty", "frequency_penalty",
    };
    /* Options of the machine that runs the model. */
    static const char *const silent[] = {"num_batch", "num_gpu", "main_gpu", "num_thread",
                                         "use_mmap", "use_mlock", "low_vram", "numa"};
    static const place in_options = {NULL, "options", 0};
    json_t *given = NULL, *value;
    const char *key;
    const json_t *stream = json_object_get(p->root, "stream");
    if ((!stream || json_is_null(stream)) && json_object_set_new(p->root, "stream", json_true()))
        return CERIUM_ERR_MEMORY;
    RETURN_IF(field_object(p, NULL, p->root, "options", &given));
    p->sampling_at = &in_options;
    json_object_foreach(given, key, value) {
        bool known = json_is_null(value);
        for (size_t i = 0; i < ARRAY_LEN(silent) && !known; i++) known = !strcmp(key, silent[i]);
        for (size_t i = 0; i < ARRAY_LEN(options) && !known; i++) {
            known = !strcmp(key, options[i]);
            if (!known) continue;
            const bool is_stop = !strcmp(key, "stop");
            if (is_stop ? !json_is_string(value) && !json_is_array(value) : !json_is_number(value))
                return parse_fail_type(p, &(place){&in_options, key, 0},
                                       is_stop ? "a string or an array" : "a decimal", value);
            if (json_object_set(p->root, key, value)) return CERIUM_ERR_MEMORY;
        }
        char param[80];
        snprintf(param, sizeof param, "options.%.60s", key);
        if (!known) protocol_warn(p->r, param, "is not used by this server");
    }
    return CERIUM_OK;
}

/* "5m", "1h30m", "0.5s", as in Go; without a unit, seconds. */
static bool read_duration(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6}, {"ms", 1e-3},
                 {"h", 3600},  {"m", 60},    {"s", 1}};
    const bool is_negative = *text == '-';
    double sum = 0;
    text += is_negative || *text == '+';
    if (!*text) return false;
    while (*text) {
        const size_t len = strspn(text, "0123456789.");
        double n = 0;
        size_t i = 0;
        if (!parse_f64((view){text, len}, &n)) return false;
        text += len;
        while (i < ARRAY_LEN(units) && strncmp(text, units[i].name, strlen(units[i].name))) i++;
        if (i == ARRAY_LEN(units) && *text) return false;
        if (i < ARRAY_LEN(units)) text += strlen(units[i].name);
        sum += n * (i < ARRAY_LEN(units) ? units[i].seconds : 1);
    }
    *seconds = is_negative ? -sum : sum;
    return true;
}

/* How long an idle model stays loaded: negative is for ever. */
static int keep_alive_parse(parser *p)
{
    const json_t *keep = json_object_get(p->root, "keep_alive");
    double seconds = json_number_value(keep);
    if (!keep || json_is_null(keep)) return CERIUM_OK;
    if (!json_is_number(keep) && !json_is_string(keep))
        return parse_fail_type(p, &(place){NULL, "keep_alive", 0}, "a number or a string", keep);
    if (json_is_string(keep) && !read_duration(json_string_value(keep), &seconds))
        return parse_fail_value(p, &(place){NULL, "keep_alive", 0}, json_string_value(keep),
                                "a number of seconds and durations such as '5m'");
    p->r->keeps_model = true;
    p->r->keep_model_s = seconds < 0 ? -1 : seconds > 1e9 ? 1000000000 : (int64_t)seconds;
    return CERIUM_OK;
}

/* An empty request: load the model, or unload it. */
static void take_load(parser *p)
{
    p->r->loads = p->r->keeps_model && !p->r->keep_model_s ? "unload" : "load";
}

/* ---- chat ---- */

static int add_images(parser *p, const place *at, const json_t *message, const char **text)
{
    json_t *images = NULL;
    bytes all = {.max = SIZE_MAX};
    RETURN_IF(field_array(p, at, message, "images", PROTOCOL_MESSAGES_MAX, &images));
    if (!json_array_size(images)) return CERIUM_OK;
    p->r->image_dropped = true;
    int status = bytes_append(&all, *text, strlen(*text));
    if (!status && all.len) status = bytes_append(&all, "\n", 1);
    if (!status) status = bytes_append(&all, text_image_note, strlen(text_image_note));
    if (!status) status = make_text(p, (view){all.ptr, all.len}, text);
    bytes_free(&all);
    return status;
}

static int add_calls(parser *p, const place *at, const json_t *message, size_t item)
{
    json_t *calls = NULL;
    const place list = {at, "tool_calls", 0};
    RETURN_IF(field_array(p, at, message, "tool_calls", PROTOCOL_MESSAGES_MAX, &calls));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const place here = {&list, NULL, i}, inner = {&here, "function", 0};
        const json_t *call = json_array_get(calls, i);
        const char *name = NULL, *id = NULL, *content = "{}";
        json_t *facts = NULL;
        RETURN_IF(expect_object(p, &here, call));
        RETURN_IF(field_string(p, &here, call, "id", &id));
        RETURN_IF(field_object(p, &here, call, "function", &facts));
        if (!facts) return parse_fail_missing(p, &inner);
        RETURN_IF(field_name(p, &inner, facts, "name", &name));
        const json_t *given = json_object_get(facts, "arguments");
        if (json_is_string(given))
            RETURN_IF(string_text(p, given, &content));
        else if (given && !json_is_null(given))
            RETURN_IF(make_json(p, given, &content));
        if (id && (!id[0] || strlen(id) > PROTOCOL_NAME_BYTES_MAX)) id = NULL;
        const cerium_message made = {"call", content, name, .call_id = id};
        RETURN_IF(call_add(p, &made, (int32_t)item));
    }
    return CERIUM_OK;
}

static int add_assistant(parser *p, const place *at, const json_t *message, const char *spoken,
                         size_t item)
{
    const char *thought = "";
    const json_t *calls = json_object_get(message, "tool_calls");
    RETURN_IF(field_string(p, at, message, "thinking", &thought));
    if (thought[0])
        RETURN_IF(message_add(p, &(cerium_message){.role = "reasoning", .content = thought},
                              (int32_t)item));
    if (spoken[0] || !json_array_size(calls))
        RETURN_IF(message_add(p, &(cerium_message){.role = "assistant", .content = spoken},
                              (int32_t)item));
    return add_calls(p, at, message, item);
}

/* The result of the call with the id, or of the tool with the name; else of some tool. */
static int add_result(parser *p, const place *at, const json_t *message, const char *spoken,
                      size_t item)
{
    const char *name = NULL, *id = NULL;
    RETURN_IF(field_string(p, at, message, "tool_name", &name));
    if (!name) RETURN_IF(field_string(p, at, message, "name", &name));
    RETURN_IF(field_string(p, at, message, "tool_call_id", &id));
    if (id && json_object_get(p->calls, id)) return result_add(p, id, spoken, (int32_t)item);
    return message_add(p, &(cerium_message){.role = "tool", .content = spoken,
                                            .name = name && name[0] ? name : "tool"},
                       (int32_t)item);
}

static int add_message(parser *p, const place *at, const json_t *message, size_t item)
{
    const char *role = NULL, *spoken = NULL;
    const place content = {at, "content", 0};
    RETURN_IF(expect_object(p, at, message));
    RETURN_IF(field_string(p, at, message, "role", &role));
    if (!role) return parse_fail_missing(p, &(place){at, "role", 0});
    RETURN_IF(content_text(p, &content, json_object_get(message, "content"), VIEW("\n"), &spoken));
    RETURN_IF(add_images(p, at, message, &spoken));
    if (!strcmp(role, "assistant")) return add_assistant(p, at, message, spoken, item);
    if (!strcmp(role, "tool")) return add_result(p, at, message, spoken, item);
    if (strcmp(role, "user") && strcmp(role, "system") && strcmp(role, "developer"))
        return parse_fail_value(p, &(place){at, "role", 0}, role,
                                "'system', 'user', 'assistant', and 'tool'");
    return message_add(p, &(cerium_message){.role = role, .content = spoken}, (int32_t)item);
}

static int chat_messages(parser *p)
{
    const place list = {NULL, "messages", 0};
    RETURN_IF(field_array(p, NULL, p->root, "messages", PROTOCOL_MESSAGES_MAX, &p->r->items));
    if (!json_array_size(p->r->items)) {
        take_load(p);
        return CERIUM_OK;
    }
    for (size_t i = 0; i < json_array_size(p->r->items); i++)
        RETURN_IF(add_message(p, &(place){&list, NULL, i}, json_array_get(p->r->items, i), i));
    return CERIUM_OK;
}

/* ---- generate ---- */

static int fill_in(parser *p, const char *prompt, const char *suffix)
{
    protocol_request *r = p->r;
    if (!p->defaults->fills_in)
        return parse_fail(p, &(place){NULL, "suffix", 0}, "unsupported_parameter",
                          "this model does not support insert");
    r->talks = false;
    r->fill_in = r->ends_hole = true;
    r->class_ = CERIUM_CLASS_COMPLETION;
    r->sampling.pointer = p->defaults->pointer;
    r->infill.prefix = prompt;
    r->infill.prefix_len = strlen(prompt);
    r->infill.suffix = suffix;
    r->infill.suffix_len = strlen(suffix);
    return CERIUM_OK;
}

/* The prompt becomes a message, or is continued unchanged. */
static int generate(parser *p)
{
    const char *prompt = "", *suffix = "", *system = "";
    bool raw = !p->defaults->has_chat_form;
    RETURN_IF(field_string(p, NULL, p->root, "prompt", &prompt));
    RETURN_IF(field_string(p, NULL, p->root, "suffix", &suffix));
    RETURN_IF(field_string(p, NULL, p->root, "system", &system));
    bool asked = raw;
    RETURN_IF(field_bool(p, NULL, p->root, "raw", &asked));
    raw = raw || asked;
    RETURN_IF(add_images(p, NULL, p->root, &prompt));
    if (suffix[0]) return fill_in(p, prompt, suffix);
    if (!prompt[0]) {
        take_load(p);
        return CERIUM_OK;
    }
    if (raw) {
        if (system[0])
            protocol_warn(p->r, "system", "is not used: the prompt is continued as it is");
        p->r->talks = false;
        p->r->class_ = CERIUM_CLASS_COMPLETION;
        return prompt_of(p, prompt);
    }
    if (system[0])
        RETURN_IF(message_add(p, &(cerium_message){.role = "system", .content = system}, -1));
    return message_add(p, &(cerium_message){.role = "user", .content = prompt}, 0);
}

int ollama_parse(parser *p)
{
    RETURN_IF(thoughts_parse(p));
    RETURN_IF(keep_alive_parse(p));
    if (p->r->api == PROTOCOL_OLLAMA_GENERATE) {
        RETURN_IF(generate(p));
    } else {
        RETURN_IF(tools_parse(p));
        RETURN_IF(chat_messages(p));
    }
    return p->r->loads ? CERIUM_OK : answer_format_parse(p);
}
