/* thoughts.c - whether the model thinks before it answers, for how long, and the variables of its
 * template for that. */
#include "protocol/parse.h"

/* ---- whether ---- */

/* Anthropic's. */
static int thinking_parse(parser *p)
{
    json_t *thinking = NULL;
    const place at = {NULL, "thinking", 0};
    const char *type = "", *display = "";
    if (p->r->api != PROTOCOL_MESSAGES && p->r->api != PROTOCOL_CHAT) return CERIUM_OK;
    RETURN_IF(field_object(p, NULL, p->root, at.key, &thinking));
    if (!thinking) return CERIUM_OK;
    RETURN_IF(field_string(p, &at, thinking, "type", &type));
    RETURN_IF(field_string(p, &at, thinking, "display", &display));
    p->r->think = strcmp(type, "disabled") ? PROTOCOL_THINK_ON : PROTOCOL_THINK_OFF;
    p->r->hides_thoughts = !strcmp(display, "omitted");
    return CERIUM_OK;
}

/* Ollama's: a boolean, or an effort. */
static int think_parse(parser *p)
{
    const json_t *think = json_object_get(p->root, "think");
    const place at = {NULL, "think", 0};
    if (!think || json_is_null(think)) return CERIUM_OK;
    if (!json_is_boolean(think) && !json_is_string(think))
        return parse_fail_type(p, &at, "a boolean or a string", think);
    p->r->think = json_is_false(think) ? PROTOCOL_THINK_OFF : PROTOCOL_THINK_ON;
    return CERIUM_OK;
}

/* The effort of a request of one of the three APIs that have it; borrowed. */
static int effort_parse(parser *p, const char **out)
{
    json_t *reasoning = NULL;
    const bool is_ollama =
        p->r->api == PROTOCOL_OLLAMA_CHAT || p->r->api == PROTOCOL_OLLAMA_GENERATE;
    const place at = {NULL, p->r->api == PROTOCOL_MESSAGES ? "output_config" : "reasoning", 0};
    *out = "";
    RETURN_IF(field_object(p, NULL, p->root, at.key, &reasoning));
    RETURN_IF(field_string(p, &at, reasoning, "effort", out));
    RETURN_IF(field_string(p, NULL, p->root, "reasoning_effort", out));
    if (is_ollama && json_is_string(json_object_get(p->root, "think")))
        *out = json_string_value(json_object_get(p->root, "think"));
    if (!strcmp(*out, "none")) p->r->think = PROTOCOL_THINK_OFF;
    else if (**out)
        protocol_warn(p->r, is_ollama ? "think" : reasoning ? "reasoning.effort"
                                                            : "reasoning_effort",
                      "counts only where the model's chat template asks for it");
    return CERIUM_OK;
}

/* ---- for how long ---- */

/* A negative budget is unlimited; 0 means no thought. */
static int budget_of(parser *p, const place *up, const json_t *object, const char *key)
{
    int64_t most = -1;
    RETURN_IF(field_bound(p, up, object, key, -2, UINT32_MAX - 1, &most));
    if (most < 0) return CERIUM_OK;
    if ((uint32_t)most < p->r->thought_tokens_max) p->r->thought_tokens_max = (uint32_t)most;
    if (!most) p->r->think = PROTOCOL_THINK_OFF;
    return CERIUM_OK;
}

const char *const thought_budgets[THOUGHT_BUDGETS] = {
    "thinking_budget_tokens", "reasoning_budget", "reasoning_budget_tokens",
    "thinking_token_budget", "thinking_budget"};

/* The names of the budget in llama.cpp, vLLM, Qwen's own service, OpenRouter and Anthropic. */
static int budget_parse(parser *p)
{
    static const char *const objects[][2] = {{"reasoning", "max_tokens"},
                                             {"thinking", "budget_tokens"},
                                             {"chat_template_kwargs", "thinking_budget"}};
    for (size_t i = 0; i < THOUGHT_BUDGETS; i++)
        RETURN_IF(budget_of(p, NULL, p->root, thought_budgets[i]));
    for (size_t i = 0; i < ARRAY_LEN(objects); i++) {
        const json_t *object = json_object_get(p->root, objects[i][0]);
        if (!json_is_object(object)) continue;
        RETURN_IF(budget_of(p, &(place){NULL, objects[i][0], 0}, object, objects[i][1]));
    }
    return CERIUM_OK;
}

/* ---- the template's variables beside the messages ---- */

static int set(json_t *all, const char *key, json_t *value)
{
    if (json_object_get(all, key)) {
        json_decref(value);
        return 0;
    }
    return json_object_set_new(all, key, value);
}

static void warn_of_variables(parser *p, json_t *given)
{
    const char *key;
    json_t *value;
    json_object_foreach(given, key, value) {
        char param[96];
        if (!strcmp(key, "enable_thinking") || !strcmp(key, "thinking_budget")) continue;
        snprintf(param, sizeof param, "chat_template_kwargs.%.60s", key);
        protocol_warn(p->r, param, "counts only where the model's chat template asks for it");
    }
}

/* chat_template_kwargs, as in vLLM's and llama.cpp's servers; enable_thinking; the effort. */
static int variables_parse(parser *p, const char *effort)
{
    protocol_request *r = p->r;
    const place at = {NULL, "chat_template_kwargs", 0};
    json_t *given = NULL;
    bool thinks = true;
    RETURN_IF(field_object(p, NULL, p->root, at.key, &given));
    RETURN_IF(field_bool(p, NULL, p->root, "enable_thinking", &thinks));
    RETURN_IF(field_bool(p, &at, given, "enable_thinking", &thinks));
    if (!thinks) r->think = PROTOCOL_THINK_OFF;
    warn_of_variables(p, given);
    json_t *all = given ? json_copy(given) : json_object();
    int failed = !all;
    if (!failed && r->think != PROTOCOL_THINK_DEFAULT)
        failed = set(all, "enable_thinking", json_boolean(r->think == PROTOCOL_THINK_ON));
    if (!failed && json_object_get(p->root, "enable_thinking"))
        failed = set(all, "enable_thinking", json_boolean(thinks));
    if (!failed && *effort) failed = set(all, "reasoning_effort", json_string(effort));
    if (!failed && json_object_size(all)) {
        char *text = json_dumps(all, JSON_COMPACT);
        if (text) r->template_variables = memory_copy(text, strlen(text));
        failed = !r->template_variables;
        memory_release(text);
    }
    json_decref(all);
    return failed ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

int thoughts_parse(parser *p)
{
    const char *effort;
    RETURN_IF(thinking_parse(p));
    RETURN_IF(think_parse(p));
    RETURN_IF(effort_parse(p, &effort));
    RETURN_IF(budget_parse(p));
    return variables_parse(p, effort);
}

/* ---- where an answer begins ---- */

view protocol_answer_head(const protocol_request *r, const char *chat_form)
{
    if (protocol_ends_thought(r, chat_form)) return VIEW("\n</think>\n\n");
    bool thinks = !strcmp(chat_form, "qwen3");
    return thinks && r->think == PROTOCOL_THINK_OFF ? VIEW("<think>\n\n</think>\n\n") : VIEW("");
}

bool protocol_ends_thought(const protocol_request *r, const char *chat_form)
{
    return chat_form && !strcmp(chat_form, "qwen3.5") &&
           (r->prefill || r->think == PROTOCOL_THINK_OFF);
}

/* ---- where a thought is closed ---- */

/* Harmony's model chooses the next channel while it may call tools, and would think again. */
view protocol_thought_end(const protocol_request *r, const char *call_form, bool again)
{
    if (!strcmp(call_form, "harmony"))
        return r->n_tools && !r->tools_barred && !again
                   ? VIEW("<|end|><|start|>assistant")
                   : VIEW("<|end|><|start|>assistant<|channel|>final<|message|>");
    if (!strncmp(call_form, "mistral-", 8)) return VIEW("[/THINK]");
    return VIEW("\n</think>\n\n");
}
