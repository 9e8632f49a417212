/* chat_harmony.c - owns Harmony, the form of gpt-oss: channels, recipients, and tools as a
 * namespace in a language like TypeScript.  Rendered like openai/harmony. */
#include "tokenizer/chat_forms.h"

/* ---- types ---- */

enum { INDENT_MAX = 64, INDENT_FIELD = 4, INDENT_CHOICE = 3 }; /* deeper types are "any" */

static void put_type(prompt *p, const json_t *schema, unsigned indent);

static void put_indent(prompt *p, unsigned indent)
{
    for (; indent; indent--) prompt_scaffold(p, " ");
}

static void put_string(prompt *p, const json_t *text)
{
    prompt_text(p, (view){json_string_value(text), json_string_length(text)});
}

/* Each line of a comment begins with comment marks. */
static void put_comment(prompt *p, const json_t *text, unsigned indent)
{
    if (!json_is_string(text)) return;
    view rest = {json_string_value(text), json_string_length(text)};
    for (;;) {
        const char *end = rest.len ? memchr(rest.ptr, '\n', rest.len) : NULL;
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        put_indent(p, indent);
        prompt_scaffold(p, "// ");
        prompt_text(p, (view){rest.ptr, len});
        prompt_scaffold(p, "\n");
        if (!end) return;
        rest = (view){end + 1, rest.len - len - 1};
    }
}

static void put_default(prompt *p, const json_t *field)
{
    const json_t *value = json_object_get(field, "default");
    prompt_scaffold(p, "default: ");
    if (json_is_string(value) && json_object_get(field, "enum")) put_string(p, value);
    else chat_json(p, value, 0);
}

/* The type of a field or a choice, which may be null. */
static void put_nullable(prompt *p, const json_t *schema, unsigned indent)
{
    put_type(p, schema, indent);
    if (json_is_true(json_object_get(schema, "nullable"))) prompt_scaffold(p, " | null");
}

/* One line for each choice, with its description after it. */
static void put_choice(prompt *p, const json_t *choice, unsigned indent, bool says)
{
    const json_t *description = says ? json_object_get(choice, "description") : NULL;
    bool has_default = json_object_get(choice, "default") != NULL;
    put_indent(p, indent);
    prompt_scaffold(p, " | ");
    put_nullable(p, choice, indent + INDENT_CHOICE);
    if (json_is_string(description) || has_default) prompt_scaffold(p, " // ");
    if (json_is_string(description)) put_string(p, description);
    if (json_is_string(description) && has_default) prompt_scaffold(p, " ");
    if (has_default) put_default(p, choice);
}

static void put_choice_field(prompt *p, const json_t *field, unsigned indent)
{
    size_t i;
    json_t *one;
    json_t *description = json_object_get(field, "description");
    prompt_scaffold(p, "\n");
    json_array_foreach(json_object_get(field, "oneOf"), i, one)
    {
        bool same = json_equal(json_object_get(one, "description"), description);
        put_choice(p, one, indent, !same && (i > 0 || !description));
        prompt_scaffold(p, "\n");
    }
    put_indent(p, indent);
    prompt_scaffold(p, ",\n");
}

static void put_field_comments(prompt *p, const json_t *field, unsigned indent)
{
    size_t i;
    json_t *one, *examples = json_object_get(field, "examples");
    json_t *title = json_object_get(field, "title");
    put_comment(p, title, indent);
    if (json_is_string(title)) {
        put_indent(p, indent);
        prompt_scaffold(p, "//\n");
    }
    put_comment(p, json_object_get(field, "description"), indent);
    if (json_array_size(examples)) put_indent(p, indent);
    if (json_array_size(examples)) prompt_scaffold(p, "// Examples:\n");
    json_array_foreach(examples, i, one)
    {
        put_indent(p, indent);
        prompt_scaffold(p, "// - ");
        chat_json(p, one, 0);
        prompt_scaffold(p, "\n");
    }
    if (!json_object_get(field, "oneOf") || !json_object_get(field, "default")) return;
    put_indent(p, indent);
    prompt_scaffold(p, "// ");
    put_default(p, field);
    prompt_scaffold(p, "\n");
}

static bool is_required(const json_t *schema, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(schema, "required"), i, one)
        if (json_is_string(one) && strcmp(json_string_value(one), name) == 0) return true;
    return false;
}

static void put_object(prompt *p, const json_t *schema, unsigned indent)
{
    const char *name;
    json_t *field;
    put_comment(p, json_object_get(schema, "description"), indent);
    prompt_scaffold(p, "{\n");
    json_object_foreach(json_object_get(schema, "properties"), name, field)
    {
        bool choices = json_array_size(json_object_get(field, "oneOf")) > 0;
        put_field_comments(p, field, indent);
        put_indent(p, indent);
        prompt_text(p, view_of(name));
        prompt_scaffold(p, is_required(schema, name) ? ":" : "?:");
        if (choices) {
            put_choice_field(p, field, indent);
            continue;
        }
        prompt_scaffold(p, " ");
        put_nullable(p, field, indent + INDENT_FIELD);
        prompt_scaffold(p, ",");
        if (json_object_get(field, "default")) {
            prompt_scaffold(p, " // ");
            put_default(p, field);
        }
        prompt_scaffold(p, "\n");
    }
    put_indent(p, indent);
    prompt_scaffold(p, "}");
}

static void put_named_type(prompt *p, const json_t *schema, const char *name, unsigned indent)
{
    static const char *const same[] = {"string", "number", "boolean", "null"};
    const json_t *items = json_object_get(schema, "items");
    const char *own = strcmp(name, "integer") == 0 ? "number" : "any";
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if (strcmp(name, same[i]) == 0) own = same[i];
    if (strcmp(name, "array") == 0) {
        if (items) put_type(p, items, indent);
        prompt_scaffold(p, items ? "[]" : "Array<any>");
    } else if (strcmp(name, "object") == 0) {
        if (json_object_size(json_object_get(schema, "properties"))) put_object(p, schema, indent);
        else prompt_scaffold(p, "object");
    } else {
        prompt_scaffold(p, own);
    }
}

/* Every level adds to the indent, except lists in lists, which the parser bounds. */
static void put_type(prompt *p, const json_t *schema, unsigned indent)
{
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    const json_t *any = json_object_get(schema, "anyOf"), *choices;
    size_t i;
    json_t *one;
    choices = json_object_get(schema, "oneOf");
    if (indent > INDENT_MAX) {
        prompt_scaffold(p, "any");
    } else if (json_array_size(choices)) {
        json_array_foreach(choices, i, one)
        {
            prompt_scaffold(p, "\n");
            put_choice(p, one, indent, true);
        }
    } else if (json_array_size(any) || json_array_size(list)) {
        bool values = json_array_size(list) > 0;
        json_array_foreach(values ? list : any, i, one)
        {
            prompt_scaffold(p, i ? " | " : "");
            if (values) chat_json(p, one, 0);
            else put_type(p, one, indent + 1);
        }
    } else if (json_array_size(type)) {
        json_array_foreach(type, i, one)
        {
            prompt_scaffold(p, i ? " | " : "");
            put_named_type(p, schema, json_is_string(one) ? json_string_value(one) : "", indent);
        }
    } else {
        put_named_type(p, schema, json_is_string(type) ? json_string_value(type) : "", indent);
    }
}

static void put_tools(const talk *k)
{
    prompt *p = k->p;
    prompt_scaffold(p, "# Tools\n\n## functions\n\nnamespace functions {\n\n");
    for (size_t i = 0; i < k->n_tools; i++) {
        json_t *function = json_object_get(k->tools[i].spec, "function");
        json_t *parameters = json_object_get(function, "parameters");
        put_comment(p, json_object_get(function, "description"), 0);
        prompt_scaffold(p, "type ");
        prompt_text(p, view_of(k->tools[i].name));
        prompt_scaffold(p, " = ");
        if (json_object_size(json_object_get(parameters, "properties"))) {
            prompt_scaffold(p, "(_: ");
            put_object(p, parameters, 0);
            prompt_scaffold(p, ") => any;\n\n");
        } else {
            prompt_scaffold(p, "() => any;\n\n");
        }
    }
    prompt_scaffold(p, "} // namespace functions");
}

/* ---- turns ---- */

static int32_t find(const talk *k, const char *name)
{
    return tokenizer_find(k->p->t, view_of(name));
}

/* The header of the last message of a timeline. */
typedef struct {
    bool unfinished; /* no <|message|> yet */
    view to;         /* the recipient, in text; empty: not a call */
    char text[512];
} last_header;

static bool begins_message(const talk *k, int32_t token)
{
    return token == find(k, "<|start|>") || token == find(k, "<|end|>");
}

static void read_last_header(const talk *k, const int32_t *tokens, size_t n, last_header *h)
{
    int32_t body = find(k, "<|message|>");
    size_t at = n, from = sizeof h->text, to = 0;
    while (at > 0 && tokens[at - 1] != body && !begins_message(k, tokens[at - 1])) at--;
    h->unfinished = at == 0 || tokens[at - 1] != body;
    h->to = (view){0};
    if (!h->unfinished) n = at - 1;
    while (n > 0 && !begins_message(k, tokens[n - 1])) {
        size_t len;
        const char *text = tokenizer_bytes(k->p->t, tokens[--n], &len);
        if (len > from) break;
        from -= len;
        memcpy(h->text + from, text, len);
    }
    const char *found = memmem(h->text + from, sizeof h->text - from, " to=", 4);
    if (!found) return;
    found += 4;
    while (found + to < h->text + sizeof h->text && found[to] != ' ' && found[to] != '<') to++;
    h->to = (view){found, to};
}

/* The missing part after a turn of the assistant.  A <|return|> never is in a prompt: it becomes an
 * <|end|>, which is why sampled turns are copied without it. */
static void close_answer(const talk *k, const int32_t *tokens, size_t n)
{
    static const char *const closed[] = {"<|end|>", "<|call|>", "<|return|>"};
    last_header h;
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if (n && tokens[n - 1] == find(k, closed[i])) return;
    read_last_header(k, tokens, n, &h);
    if (h.unfinished) prompt_scaffold(k->p, "<|message|>");
    prompt_scaffold(k->p, h.to.len ? "<|call|>" : "<|end|>");
}

static void put_sampled(const talk *k, const piece *one)
{
    piece kept = *one;
    if (kept.n_tokens && kept.tokens[kept.n_tokens - 1] == find(k, "<|return|>")) kept.n_tokens--;
    prompt_scaffold(k->p, "<|start|>assistant");
    chat_sampled(k, &kept);
    close_answer(k, kept.tokens, kept.n_tokens);
}

/* The last piece that is a final answer; n: there is none.  Thoughts before it are dropped. */
static size_t find_final(const talk *k)
{
    last_header h;
    for (size_t i = k->n; i-- > 0;) {
        const piece *one = &k->list[i];
        if (one->kind == PIECE_SAMPLED) read_last_header(k, one->tokens, one->n_tokens, &h);
        if (one->kind == PIECE_SAMPLED && !h.to.len) return i;
        if (one->kind != PIECE_CONTENT) continue;
        size_t j = i + 1, end = chat_turn_end(k, i);
        while (j < end && k->list[j].kind != PIECE_CALL) j++;
        if (j == end) return i;
    }
    return k->n;
}

/* Text before a call in the same turn is a preamble: for the user, but not final. */
static void put_assistant(const talk *k, size_t i, size_t end, size_t final)
{
    size_t last_call = i;
    for (size_t j = i; j < end; j++)
        if (k->list[j].kind == PIECE_CALL) last_call = j;
    for (; i < end; i++) {
        const piece *one = &k->list[i];
        if (one->kind == PIECE_THOUGHT && final < k->n && i < final) continue;
        if (one->kind == PIECE_CONTENT && !one->content.len && end - i > 1) continue;
        prompt_scaffold(k->p, "<|start|>assistant");
        if (one->kind == PIECE_CALL) {
            prompt_scaffold(k->p, " to=functions.");
            prompt_text(k->p, one->name);
            prompt_scaffold(k->p, "<|channel|>commentary json<|message|>");
            chat_arguments(k, one);
            prompt_scaffold(k->p, "<|call|>");
            continue;
        }
        prompt_scaffold(k->p, one->kind == PIECE_THOUGHT ? "<|channel|>analysis<|message|>"
                              : i < last_call            ? "<|channel|>commentary<|message|>"
                                                         : "<|channel|>final<|message|>");
        prompt_text(k->p, one->content);
        prompt_scaffold(k->p, "<|end|>");
    }
}

/* The caller's system message becomes the developer's; the system message proper is part of the
 * form.  It has no date, so that prompts stay the same from day to day. */
static size_t put_head(const talk *k)
{
    bool is_system = k->n && k->list[0].kind == PIECE_SYSTEM;
    bool has_system = is_system && k->list[0].content.len;
    prompt_scaffold(k->p, "<|start|>system<|message|>You are ChatGPT, a large language model "
                          "trained by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n"
                          "# Valid channels: analysis, commentary, final. Channel must be included "
                          "for every message.");
    if (k->says_tools)
        prompt_scaffold(k->p, "\nCalls to these tools must go to the commentary channel: "
                              "'functions'.");
    prompt_scaffold(k->p, "<|end|>");
    if (!has_system && !k->says_tools) return is_system;
    prompt_scaffold(k->p, "<|start|>developer<|message|>");
    if (has_system) {
        prompt_scaffold(k->p, "# Instructions\n\n");
        prompt_text(k->p, k->list[0].content);
    }
    if (has_system && k->says_tools) prompt_scaffold(k->p, "\n\n");
    if (k->says_tools) put_tools(k);
    prompt_scaffold(k->p, "<|end|>");
    return is_system;
}

static void put_message(const talk *k, const char *header, view content)
{
    prompt_scaffold(k->p, header);
    prompt_text(k->p, content);
    prompt_scaffold(k->p, "<|end|>");
}

/* A result without a name belongs to the last call, which may be in the timeline. */
static void put_results(const talk *k, size_t i, size_t end)
{
    last_header h = {.to = {0}};
    if (k->continues) read_last_header(k, k->after, k->n_after, &h);
    for (; i < end; i++) {
        view name = k->list[i].name;
        prompt_scaffold(k->p, name.len || !h.to.len ? "<|start|>functions." : "<|start|>");
        prompt_text(k->p, name.len ? name : h.to.len ? h.to : VIEW("unknown"));
        put_message(k, " to=assistant<|channel|>commentary<|message|>", k->list[i].content);
    }
}

void chat_render_harmony(const talk *k)
{
    size_t final = find_final(k), i = 0;
    if (k->continues) close_answer(k, k->after, k->n_after);
    else i = put_head(k);
    if (!k->continues) chat_head_ends(k);
    for (size_t end; i < k->n; i = end) {
        const piece *one = &k->list[i];
        end = chat_turn_end(k, i);
        switch (one->kind) {
        case PIECE_SYSTEM:
            put_message(k, "<|start|>developer<|message|># Instructions\n\n", one->content);
            break;
        case PIECE_USER: put_message(k, "<|start|>user<|message|>", one->content); break;
        case PIECE_RESULT: put_results(k, i, end); break;
        case PIECE_SAMPLED: put_sampled(k, one); break;
        case PIECE_CONTENT:
        case PIECE_THOUGHT:
        case PIECE_CALL: put_assistant(k, i, end, final); break;
        }
    }
    if (!k->open) prompt_scaffold(k->p, "<|start|>assistant");
}
