/* tool_choice.c - which tools an answer may call, whether it must call one, and how many calls it
 * may make.
 *
 * The choice only limits calls; the model sees all tools of the request, so that a conversation
 * whose choice changes from turn to turn finds its prompt in the cache. */
#include "protocol/parse.h"

static bool is_hosted(const char *type)
{
    return strcmp(type, "function") && strcmp(type, "custom");
}

static int fail_unknown(parser *p, const place *at, const char *type, const char *name)
{
    return parse_fail(p, at, "invalid_value",
                      "Tool choice '%.64s' named '%.128s' not found in 'tools' parameter.", type,
                      name);
}

/* The tool named by {"type": ..., "name": ...}; Chat has the name in an object named like the type.
 * *out: its index. */
static int find_chosen(parser *p, const place *at, const json_t *choice, const char *type,
                       size_t *out)
{
    const struct protocol_tools *set = p->r->tool_set;
    const place inner = {at, type, 0};
    const char *name = NULL, *space = NULL;
    json_t *from = NULL;
    RETURN_IF(field_object(p, at, choice, type, &from));
    RETURN_IF(field_name(p, from ? &inner : at, from ? from : choice, "name", &name));
    RETURN_IF(field_string(p, at, choice, "namespace", &space));
    protocol_tool_kind kind = strcmp(type, "custom") ? PROTOCOL_TOOL_FUNCTION
                                                     : PROTOCOL_TOOL_CUSTOM;
    for (size_t i = 0; i < set->n; i++) {
        const struct protocol_tool *tool = &set->facts[i];
        /* Without a namespace it may be the flat name, which other tools may have, too. */
        bool same = space ? tool->space && !strcmp(tool->space, space) && !strcmp(tool->name, name)
                          : !strcmp(set->list[i].name, name);
        if (tool->kind != kind || !same) continue;
        *out = i;
        return CERIUM_OK;
    }
    return fail_unknown(p, at, type, name);
}

static int bar_all(parser *p)
{
    if (!p->r->n_tools) return CERIUM_OK;
    p->r->callable = memory_zalloc(p->r->n_tools, sizeof *p->r->callable);
    return p->r->callable ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

/* "required" without tools would never end. */
static int require(parser *p, const place *at)
{
    size_t n = 0;
    for (size_t i = 0; i < p->r->n_tools; i++) n += !p->r->callable || p->r->callable[i];
    p->r->call_required = true;
    if (n) return CERIUM_OK;
    return parse_fail(p, at, "invalid_value",
                      "Tool choice 'required' must be specified with 'tools' that can be called: "
                      "functions or custom tools.");
}

static int word_parse(parser *p, const place *at, const char *word)
{
    p->r->tools_barred = !strcmp(word, "none");
    if (!strcmp(word, "none") || !strcmp(word, "auto")) return CERIUM_OK;
    if (strcmp(word, "required"))
        return parse_fail_value(p, at, word, "'none', 'auto', and 'required'");
    return require(p, at);
}

/* Tools of hosts in the list cannot be called here, and are ignored. */
static int allowed_parse(parser *p, const place *up, const json_t *choice)
{
    const place nested = {up, "allowed_tools", 0};
    const char *mode = "auto";
    json_t *inner = NULL, *list = NULL;
    RETURN_IF(field_object(p, up, choice, "allowed_tools", &inner));
    const place *at = inner ? &nested : up;
    const json_t *from = inner ? inner : choice;
    const place tools = {at, "tools", 0};
    RETURN_IF(field_string(p, at, from, "mode", &mode));
    if (strcmp(mode, "auto") && strcmp(mode, "required"))
        return parse_fail_value(p, &(place){at, "mode", 0}, mode, "'auto' and 'required'");
    RETURN_IF(field_array(p, at, from, "tools", PROTOCOL_TOOLS_MAX, &list));
    if (!list) return parse_fail_missing(p, &tools);
    RETURN_IF(bar_all(p));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const place here = {&tools, NULL, i};
        const char *type = NULL;
        size_t index = 0;
        RETURN_IF(expect_object(p, &here, one));
        RETURN_IF(field_string(p, &here, one, "type", &type));
        if (!type) return parse_fail_missing(p, &(place){&here, "type", 0});
        if (is_hosted(type)) continue;
        RETURN_IF(find_chosen(p, &here, one, type, &index));
        p->r->callable[index] = true;
    }
    return strcmp(mode, "required") ? CERIUM_OK : require(p, up);
}

static int named_parse(parser *p, const place *at, const json_t *choice, const char *type)
{
    size_t index = 0;
    RETURN_IF(find_chosen(p, at, choice, type, &index));
    RETURN_IF(bar_all(p));
    p->r->callable[index] = true;
    p->r->call_required = true;
    return CERIUM_OK;
}

/* A tool of a host (web_search, file_search, mcp, ...) cannot be required. */
static int refuse_hosted(parser *p, const place *at, const char *type)
{
    return parse_fail(p, at, "invalid_value",
                      "Tool choice '%.64s' not found in 'tools' parameter: this server calls no "
                      "hosted tools. Use 'auto', or a function or custom tool of yours.", type);
}

/* The form of Chat before tools: "none", "auto", or {"name": ...}. */
static int legacy_parse(parser *p)
{
    const json_t *choice = json_object_get(p->root, "function_call");
    const place at = {NULL, "function_call", 0};
    p->r->one_call = true;
    if (!choice || json_is_null(choice)) return CERIUM_OK;
    if (!json_is_string(choice)) {
        RETURN_IF(expect_object(p, &at, choice));
        return named_parse(p, &at, choice, "function");
    }
    const char *word = json_string_value(choice);
    p->r->tools_barred = !strcmp(word, "none");
    if (!strcmp(word, "none") || !strcmp(word, "auto")) return CERIUM_OK;
    return parse_fail_value(p, &at, word, "'none' and 'auto'");
}

/* Anthropic's: {"type": "auto", "any", "tool" with a name, or "none"}. */
static int input_parse(parser *p)
{
    json_t *choice = NULL;
    const place at = {NULL, "tool_choice", 0};
    const char *type = NULL;
    bool alone = false;
    RETURN_IF(field_object(p, NULL, p->root, at.key, &choice));
    if (!choice) return CERIUM_OK;
    RETURN_IF(field_string(p, &at, choice, "type", &type));
    RETURN_IF(field_bool(p, &at, choice, "disable_parallel_tool_use", &alone));
    p->r->one_call = alone;
    if (!type) return parse_fail_missing(p, &(place){&at, "type", 0});
    if (!strcmp(type, "any")) return require(p, &at);
    if (!strcmp(type, "tool")) return named_parse(p, &at, choice, "function");
    p->r->tools_barred = !strcmp(type, "none");
    if (p->r->tools_barred || !strcmp(type, "auto")) return CERIUM_OK;
    return parse_fail_value(p, &(place){&at, "type", 0}, type,
                            "'auto', 'any', 'tool', and 'none'");
}

int tool_choice_parse(parser *p)
{
    const json_t *choice = json_object_get(p->root, "tool_choice");
    const place at = {NULL, "tool_choice", 0};
    const char *type = NULL;
    bool parallel = true;
    if (p->r->api == PROTOCOL_MESSAGES) return input_parse(p);
    RETURN_IF(field_bool(p, NULL, p->root, "parallel_tool_calls", &parallel));
    p->r->one_call = !parallel;
    if (p->r->legacy_functions) return legacy_parse(p);
    if (!choice || json_is_null(choice)) return CERIUM_OK;
    if (json_is_string(choice)) return word_parse(p, &at, json_string_value(choice));
    RETURN_IF(expect_object(p, &at, choice));
    RETURN_IF(field_string(p, &at, choice, "type", &type));
    if (!type) return parse_fail_missing(p, &(place){&at, "type", 0});
    if (!strcmp(type, "allowed_tools")) return allowed_parse(p, &at, choice);
    return is_hosted(type) ? refuse_hosted(p, &at, type) : named_parse(p, &at, choice, type);
}
