/* guide_calls.c - the rules of calls: a rule for each tool, with the JSON schema of its arguments,
 * or in XML with the tags of its parameters. */
#include "protocol/guide_calls.h"

static const char any_object[] = "{\"type\":\"object\"}";

/* ---- text ---- */

/* A character that stands for itself in an expression, inside a class or not. */
static void put_plain(json_out *t, char c)
{
    char out[2] = {'\\', c};
    bool special = strchr("\\/[]^-.*+?(){}|$\"", c) != NULL;
    json_out_put(t, special ? (view){out, 2} : (view){out + 1, 1});
}

static void put_others(json_out *t, const char *chars, size_t n)
{
    json_out_literal(t, "[^");
    for (size_t i = 0; i < n; i++) put_plain(t, chars[i]);
    json_out_literal(t, "]");
}

/* Between one first byte of the mark and the next, the text is not the rest of the mark: it ends
 * within that rest, or differs from it. */
void guide_put_avoiding(json_out *t, const char *mark)
{
    size_t len = strlen(mark);
    json_out_literal(t, "/");
    put_others(t, mark, 1);
    json_out_literal(t, "*(");
    put_plain(t, mark[0]);
    for (size_t i = 1; i < len; i++) {
        const char both[2] = {mark[0], mark[i]};
        json_out_literal(t, "(");
        put_others(t, both, 2);
        put_others(t, mark, 1);
        json_out_literal(t, "*");
        if (i + 1 < len) {
            json_out_literal(t, "|");
            put_plain(t, mark[i]);
        }
    }
    for (size_t i = 1; i < len; i++) json_out_literal(t, ")?");
    json_out_literal(t, ")*/");
}

/* before, text and after as one string. */
static void put_around(json_out *t, const char *before, view text, const char *after)
{
    json_out_literal(t, "\"");
    json_out_escape(t, view_of(before));
    json_out_escape(t, text);
    json_out_escape(t, view_of(after));
    json_out_literal(t, "\" ");
}

/* ---- arguments as JSON ---- */

/* Arguments are an object even if the schema does not say so. */
static void put_schema(json_out *t, const struct protocol_tool *facts)
{
    json_out_literal(t, "%json ");
    if (facts->loose || !json_object_size(facts->schema)) {
        json_out_literal(t, any_object);
    } else if (json_object_get(facts->schema, "type")) {
        json_out_value(t, facts->schema);
    } else {
        json_t *whole = json_copy((json_t *)facts->schema);
        if (!whole || json_object_set_new(whole, "type", json_string("object")))
            t->status = CERIUM_ERR_MEMORY;
        json_out_value(t, whole);
        json_decref(whole);
    }
}

/* The grammar of a custom tool, within this one. */
static void put_nested(json_out *t, const struct protocol_tool *facts, const char *how)
{
    json_out_put(t, view_of(how));
    json_out_literal(t, " {\"syntax\":");
    json_out_string(t, facts->syntax);
    json_out_literal(t, ",\"grammar\":");
    json_out_string(t, facts->grammar);
    json_out_literal(t, "}");
}

static void put_arguments(json_out *t, const struct protocol_tool *facts)
{
    if (facts->kind == PROTOCOL_TOOL_FUNCTION) {
        put_schema(t, facts);
        return;
    }
    if (!facts->grammar) {
        json_out_literal(t, "\"{\\\"input\\\": \" %json {\"type\":\"string\"} \"}\"");
        return;
    }
    json_out_literal(t, "\"{\\\"input\\\": \\\"\" ");
    put_nested(t, facts, "%string");
    json_out_literal(t, " \"\\\"}\"");
}

/* ---- arguments as tags ---- */

/* Values that a parameter's schema allows as text, written without quotes. */
static bool is_text(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    size_t i;
    json_t *one;
    if (!type) return true;
    if (json_is_string(type)) return !strcmp(json_string_value(type), "string");
    json_array_foreach(type, i, one)
        if (json_is_string(one) && !strcmp(json_string_value(one), "string")) return true;
    return false;
}

/* Alternatives of these texts; false when they are not all texts. */
static bool put_choices(json_out *t, const json_t *list)
{
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one) if (!json_is_string(one)) return false;
    if (!json_array_size(list)) return false;
    json_out_literal(t, "(");
    json_array_foreach(list, i, one)
    {
        if (i) json_out_literal(t, " | ");
        json_out_quoted(t, (view){json_string_value(one), json_string_length(one)});
    }
    json_out_literal(t, ") ");
    return true;
}

/* A parameter's own schema, with the tool's shared definitions. */
static void put_inner_schema(json_out *t, const json_t *whole, const json_t *schema)
{
    static const char *const shared[] = {"$defs", "definitions"};
    json_t *inner = json_copy((json_t *)schema);
    for (size_t i = 0; inner && i < ARRAY_LEN(shared); i++) {
        json_t *defs = json_object_get(whole, shared[i]);
        if (defs && !json_object_get(inner, shared[i]) &&
            json_object_set(inner, shared[i], defs))
            t->status = CERIUM_ERR_MEMORY;
    }
    if (!inner) t->status = CERIUM_ERR_MEMORY;
    json_out_literal(t, "%json ");
    json_out_value(t, inner);
    json_out_literal(t, " ");
    json_decref(inner);
}

static void put_value(json_out *t, const struct protocol_tool *facts, const json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    if (!facts->loose && put_choices(t, json_object_get(schema, "enum"))) return;
    if (type && !strcmp(type, "boolean")) {
        json_out_literal(t, "/[Tt]rue|[Ff]alse/ ");
    } else if (facts->loose || (is_text(schema) && !json_object_get(schema, "$ref"))) {
        json_out_literal(t, "value ");
    } else {
        put_inner_schema(t, facts->schema, schema);
    }
}

static bool is_required(const json_t *schema, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(schema, "required"), i, one)
        if (json_is_string(one) && !strcmp(json_string_value(one), name)) return true;
    return false;
}

static void put_tags(json_out *t, const struct protocol_tool *facts)
{
    const json_t *properties = json_object_get(facts->schema, "properties");
    const char *name;
    json_t *schema;
    if (!json_object_size(properties)) { /* any name that the model chooses */
        if (!json_is_false(json_object_get(facts->schema, "additionalProperties")))
            json_out_literal(t, "(\"<parameter=\" /[^<>\\n]+>\\n?/ value ends)*");
        return;
    }
    json_object_foreach((json_t *)properties, name, schema)
    {
        json_out_literal(t, "(");
        put_around(t, "<parameter=", view_of(name), ">");
        json_out_literal(t, "\"\\n\"? ");
        put_value(t, facts, schema);
        json_out_literal(t, "ends)");
        json_out_put(t, is_required(facts->schema, name) ? VIEW(" ") : VIEW("? "));
    }
}

static void put_xml(json_out *t, const cerium_tool *tool, const struct protocol_tool *facts)
{
    put_around(t, "", view_of(tool->name), ">\n");
    if (facts->kind == PROTOCOL_TOOL_FUNCTION) {
        put_tags(t, facts);
        return;
    }
    json_out_literal(t, "\"<parameter=input>\" \"\\n\"? ");
    if (facts->grammar) put_nested(t, facts, "%text");
    else json_out_literal(t, "value");
    json_out_literal(t, " ends");
}

/* ---- arguments as tags of a template ---- */

void guide_put_mark(json_out *t, const char *mark)
{
    while (*mark) {
        if (*mark == CALL_MARK_ANY) {
            json_out_literal(t, "/[A-Za-z0-9_.\\-]{1,64}/ ");
            mark++;
            continue;
        }
        size_t tag = mark[0] == '<' ? strcspn(mark, ">\n \"") : 0;
        bool is_tag = tag && mark[tag] == '>';
        size_t len = is_tag ? tag + 1 : 1;
        while (!is_tag && mark[len] && mark[len] != '<' && mark[len] != CALL_MARK_ANY) len++;
        json_out_put(t, is_tag ? VIEW("(") : VIEW(""));
        json_out_quoted(t, (view){mark, len});
        if (is_tag) {
            json_out_literal(t, " | <");
            json_out_quoted(t, (view){mark, len});
            json_out_literal(t, ">)");
        }
        json_out_literal(t, " ");
        mark += len;
    }
}

static void put_argument(json_out *t, const struct protocol_tool *facts, const call_marks *marks,
                         const char *name, const json_t *schema)
{
    guide_put_mark(t, marks->key);
    if (name) json_out_quoted(t, view_of(name));
    else json_out_literal(t, "/[^<>\\n\"]+/");
    json_out_literal(t, " ");
    bool json = schema && !facts->loose && *marks->json_key_end &&
                (!is_text(schema) || json_object_get(schema, "$ref"));
    guide_put_mark(t, json ? marks->json_key_end : marks->key_end);
    if (schema) put_value(t, facts, schema);
    else if (facts->kind != PROTOCOL_TOOL_FUNCTION && facts->grammar) put_nested(t, facts, "%text");
    else json_out_literal(t, "value ");
    guide_put_mark(t, marks->value_end);
    json_out_literal(t, "gap ");
}

static void put_marked(json_out *t, const cerium_tool *tool, const struct protocol_tool *facts,
                       const call_marks *marks)
{
    const json_t *properties = json_object_get(facts->schema, "properties");
    const char *name;
    json_t *schema;
    json_out_quoted(t, view_of(tool->name));
    json_out_literal(t, " ");
    guide_put_mark(t, marks->name_end);
    json_out_literal(t, "gap ");
    if (facts->kind != PROTOCOL_TOOL_FUNCTION) {
        put_argument(t, facts, marks, "input", NULL);
    } else if (!json_object_size(properties)) {
        json_out_literal(t, "(");
        put_argument(t, facts, marks, NULL, NULL);
        json_out_literal(t, ")* ");
    }
    json_object_foreach((json_t *)properties, name, schema)
    {
        json_out_literal(t, "(");
        put_argument(t, facts, marks, name, schema);
        json_out_put(t, is_required(facts->schema, name) ? VIEW(") ") : VIEW(")? "));
    }
    guide_put_mark(t, marks->end);
}

/* ---- calls ---- */

/* The name as it appears in a JSON string. */
static void put_json_name(json_out *t, const char *before, const char *name, const char *after)
{
    json_out inner = {.b.max = t->b.max};
    json_out_escape(&inner, view_of(name));
    if (inner.status) t->status = inner.status;
    put_around(t, before, json_out_view(&inner), after);
    json_out_free(&inner);
}

static void put_call(json_out *t, const cerium_tool *tool, const struct protocol_tool *facts,
                     call_style style, const call_marks *marks)
{
    switch (style) {
    case CALL_HERMES:
        put_json_name(t, "{\"name\": \"", tool->name, "\", \"arguments\": ");
        put_arguments(t, facts);
        json_out_literal(t, " \"}\"");
        return;
    case CALL_LINE:
        put_json_name(t, "", tool->name, "\", \"parameters\": ");
        put_arguments(t, facts);
        json_out_literal(t, " \"}\"");
        return;
    case CALL_LIST:
        put_json_name(t, "{\"name\": \"", tool->name, "\", \"arguments\": ");
        put_arguments(t, facts);
        json_out_literal(t, " (\", \\\"id\\\": \\\"\" /[a-zA-Z0-9]{9}/ \"\\\"\")? \"}\"");
        return;
    case CALL_NAMED:
    case CALL_CHANNEL:
        put_around(t, "", view_of(tool->name), "");
        json_out_literal(t, "mark ");
        put_arguments(t, facts);
        return;
    case CALL_XML: put_xml(t, tool, facts); return;
    case CALL_MARKED: put_marked(t, tool, facts, marks); return;
    case CALL_PROBED:
        json_out_quoted(t, view_of(tool->name));
        json_out_literal(t, " ");
        guide_put_mark(t, marks->name_end);
        put_arguments(t, facts);
        json_out_literal(t, " ");
        guide_put_mark(t, marks->end);
        return;
    case CALL_NONE: return;
    }
}

void guide_put_calls(json_out *t, const protocol_request *r, call_style style,
                     const call_marks *marks)
{
    bool first = true;
    json_out_literal(t, "call: ");
    for (size_t i = 0; i < r->n_tools; i++) {
        if (r->callable && !r->callable[i]) continue;
        json_out_put(t, first ? VIEW("") : VIEW("\n    | "));
        put_call(t, &r->tools[i], &r->tool_set->facts[i], style, marks);
        first = false;
    }
    json_out_literal(t, "\n");
    if (style == CALL_LIST)
        json_out_put(t, r->one_call ? VIEW("list: \" \"? \"[\" call \"]\"\n")
                                     : VIEW("list: \" \"? \"[\" call (\", \" call)* \"]\"\n"));
    if (style == CALL_MARKED) {
        json_out_literal(t, "value: ");
        guide_put_avoiding(t, marks->value_end);
        json_out_literal(t, "\n");
    }
    if (style == CALL_XML) {
        /* Stock models write the line feeds or omit them.  Within a value the beginning of the mark
         * does not occur: after these bytes only its end may follow. */
        json_out_literal(t, "value: ");
        guide_put_avoiding(t, "</parameter");
        json_out_literal(t, "\nends: /\\n?<\\/parameter>\\n?/\n");
    }
    if (style == CALL_MARKED) json_out_literal(t, "gap: /[ \\n]{0,2}/\n");
    if (style == CALL_PROBED) json_out_literal(t, "gap: /[ \\n]{0,8}/\n");
}
