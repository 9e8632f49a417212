/* chat_xml.c - owns tools in the form of Qwen3-Coder and Qwen3.5: calls with a tag for each
 * parameter, whose value is text and not JSON. */
#include "tokenizer/chat_forms.h"

#define HOW_TO_CALL                                                                                \
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"    \
    "</parameter>\n<parameter=example_parameter_2>\n"
#define REMINDER                                                                                   \
    "\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"                        \
    "- Function calls MUST follow the specified format: "
#define REMINDER_REST                                                                              \
    "\n- Required parameters MUST be specified\n- You may provide optional reasoning for your "    \
    "function call in natural language BEFORE the function call, but NOT after\n- If there is no " \
    "function call available, answer the question like normal with your current knowledge and do " \
    "not tell the user about function calls\n</IMPORTANT>"

/* ---- values as Python's str() writes them ---- */

static void put_list(prompt *p, const json_t *list)
{
    size_t i;
    json_t *one;
    prompt_scaffold(p, "[");
    json_array_foreach(list, i, one)
    {
        if (i) prompt_scaffold(p, ", ");
        prompt_scaffold(p, "'");
        if (json_is_string(one))
            prompt_text(p, (view){json_string_value(one), json_string_length(one)});
        else chat_json(p, one, 0);
        prompt_scaffold(p, "'");
    }
    prompt_scaffold(p, "]");
}

/* A value in the templates' form: text unchanged, objects and lists as JSON, the rest like
 * Python. */
static void put_value(prompt *p, const json_t *value)
{
    if (json_is_string(value))
        prompt_text(p, (view){json_string_value(value), json_string_length(value)});
    else if (json_is_boolean(value)) prompt_scaffold(p, json_is_true(value) ? "True" : "False");
    else if (json_is_null(value)) prompt_scaffold(p, "None");
    else chat_json(p, value, 0);
}

static view trimmed(const json_t *string)
{
    return chat_trim((view){json_string_value(string), json_string_length(string)});
}

/* ---- the tools ---- */

static bool is_one_of(const char *key, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(key, *names) == 0) return true;
    return false;
}

static void put_extra(prompt *p, json_t *fields, const char *const *handled)
{
    const char *key;
    json_t *value;
    json_object_foreach(fields, key, value)
    {
        if (is_one_of(key, handled)) continue;
        prompt_scaffold(p, "\n<");
        prompt_text(p, view_of(key));
        prompt_scaffold(p, ">");
        put_value(p, value);
        prompt_scaffold(p, "</");
        prompt_text(p, view_of(key));
        prompt_scaffold(p, ">");
    }
}

static void put_description(prompt *p, const json_t *text)
{
    if (!json_is_string(text)) return;
    prompt_scaffold(p, "\n<description>");
    prompt_text(p, trimmed(text));
    prompt_scaffold(p, "</description>");
}

static void put_parameter(prompt *p, const char *name, json_t *fields)
{
    static const char *const handled[] = {"name", "type", "description", NULL};
    json_t *type = json_object_get(fields, "type");
    prompt_scaffold(p, "\n<parameter>\n<name>");
    prompt_text(p, view_of(name));
    prompt_scaffold(p, "</name>");
    if (type) {
        prompt_scaffold(p, "\n<type>");
        if (json_is_array(type)) put_list(p, type);
        else put_value(p, type);
        prompt_scaffold(p, "</type>");
    }
    put_description(p, json_object_get(fields, "description"));
    put_extra(p, fields, handled);
    prompt_scaffold(p, "\n</parameter>");
}

static void put_tool(prompt *p, const chat_tool *tool)
{
    static const char *const handled[] = {"type", "properties", NULL};
    json_t *function = json_object_get(tool->spec, "function"), *fields;
    json_t *parameters = json_object_get(function, "parameters");
    const char *name;
    prompt_scaffold(p, "\n<function>\n<name>");
    prompt_text(p, view_of(tool->name));
    prompt_scaffold(p, "</name>");
    put_description(p, json_object_get(function, "description"));
    prompt_scaffold(p, "\n<parameters>");
    json_object_foreach(json_object_get(parameters, "properties"), name, fields)
        put_parameter(p, name, fields);
    put_extra(p, parameters, handled);
    prompt_scaffold(p, "\n</parameters>\n</function>");
}

void chat_xml_tools(const talk *k)
{
    prompt_scaffold(k->p, "# Tools\n\nYou have access to the following tools:\n\n<tools>");
    for (size_t i = 0; i < k->n_tools; i++) put_tool(k->p, &k->tools[i]);
    prompt_scaffold(k->p, "\n</tools>\n\nIf you choose to call a tool ONLY reply in the following "
                          "format with NO suffix:\n\n" HOW_TO_CALL "value_2" REMINDER
                          "the tool calling block MUST begin with an opening <tool_call> tag and "
                          "end with a closing </tool_call> tag." REMINDER_REST);
}

void chat_xml_tools_json(const talk *k)
{
    prompt_scaffold(k->p, "# Tools\n\nYou have access to the following functions:\n\n<tools>");
    for (size_t i = 0; i < k->n_tools; i++) {
        prompt_scaffold(k->p, "\n");
        chat_json(k->p, k->tools[i].spec, 0);
    }
    prompt_scaffold(k->p, "\n</tools>\n\nIf you choose to call a function ONLY reply in the "
                          "following format with NO suffix:\n\n" HOW_TO_CALL
                          "This is the value for the second parameter\nthat can span\nmultiple "
                          "lines" REMINDER
                          "an inner <function=...></function> block must be nested within "
                          "<tool_call></tool_call> XML tags" REMINDER_REST);
}

/* ---- a call ---- */

void chat_xml_call(const talk *k, const piece *call)
{
    prompt *p = k->p;
    const char *name;
    json_t *value, *arguments = chat_arguments_object(k, call);
    prompt_scaffold(p, "<tool_call>\n<function=");
    prompt_text(p, call->name);
    prompt_scaffold(p, ">\n");
    json_object_foreach(arguments, name, value)
    {
        prompt_scaffold(p, "<parameter=");
        prompt_text(p, view_of(name));
        prompt_scaffold(p, ">\n");
        put_value(p, value);
        prompt_scaffold(p, "\n</parameter>\n");
    }
    prompt_scaffold(p, "</function>\n</tool_call>");
    json_decref(arguments);
}
