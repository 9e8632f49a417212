/* chat_probe.c - owns probing a template: it is rendered with probes when a model is opened, and
 * the differences show what it accepts and how it writes calls. */
#include "tokenizer/chat_template.h"

/* ---- probes ---- */

#define TOOL "probe_tool"
#define KEY "probe_key"
#define ANSWER "probe answer"

static const cerium_tool probe_tools[] = {
    {.name = TOOL, .description = "Looks at \"it\".",
     .parameters = "{\"type\": \"object\", \"properties\": {\"" KEY "\": {\"type\": \"string\", "
                   "\"description\": \"What\"}, \"count\": {\"type\": \"integer\"}}, "
                   "\"required\": [\"" KEY "\"]}"},
    {.name = "probe_other", .description = "Does nothing.",
     .parameters = "{\"type\": \"object\", \"properties\": {}}"},
};

#define SYSTEM {.role = "system", .content = "Probe the system."}
#define USER {.role = "user", .content = "probe question"}
#define AGAIN {.role = "user", .content = "probe question, again"}
#define SAID {.role = "assistant", .content = ANSWER}
#define THOUGHT {.role = "reasoning", .content = "probe thought"}
#define CALL {.role = "call", .name = TOOL, .call_id = "probeid01",                                \
              .content = "{\"" KEY "\": \"probe value\"}"}
#define RESULT {.role = "tool", .name = TOOL, .call_id = "probeid01", .content = "probe result"}

enum { PROBE_MESSAGES_MAX = 8, PROBE_TOKENS_MAX = 16384 };

typedef struct {
    cerium_message list[PROBE_MESSAGES_MAX];
    size_t n;
    bool tools, thoughts;
} probe;

static const probe probes[] = {
    {{USER}, 1, false, false},
    {{SYSTEM, USER}, 2, false, false},
    {{USER, SAID, AGAIN}, 3, false, false},
    {{SYSTEM, USER, SAID, AGAIN, SAID, USER}, 6, false, false},
    {{USER, THOUGHT, SAID, AGAIN}, 4, false, true},
    {{USER}, 1, true, false},
    {{SYSTEM, USER, SAID, AGAIN}, 4, true, false},
    {{SYSTEM, USER, CALL, RESULT}, 4, true, false},
    {{USER, SAID, CALL, RESULT, RESULT}, 5, true, false},
    {{USER, CALL, RESULT, SAID, AGAIN}, 5, true, false},
    {{USER, THOUGHT, CALL, RESULT}, 4, true, true},
};

/* Text of a probe by the template; false: it cannot be rendered. */
typedef struct {
    const tokenizer *t;
    chat_form form;
    chat_template *c;
    int32_t *tokens[2]; /* [PROBE_TOKENS_MAX] */
    int status;         /* CERIUM_ERR_MEMORY */
    jinja_error err;
} prober;

/* Passes the text to `look`, and returns its result; false: no text. */
typedef bool look_fn(void *user, view text);

static bool look_at(prober *b, const piece *list, size_t n, bool tools, look_fn *look, void *user)
{
    prompt p = {.t = b->t};
    chat_tool specs[ARRAY_LEN(probe_tools)] = {{0}};
    chat_rendering out;
    talk k = {.p = &p, .form = &b->form, .list = list, .n = n, .tools = specs,
              .n_tools = tools ? ARRAY_LEN(specs) : 0, .says_tools = tools};
    int status = CERIUM_OK;
    for (size_t i = 0; i < ARRAY_LEN(specs) && !status; i++) {
        specs[i].name = probe_tools[i].name;
        specs[i].spec = chat_tool_spec(&probe_tools[i], &status);
    }
    if (!status) status = chat_template_text(b->c, &k, true, &out, &b->err);
    bool found = !status && look(user, out.out.text);
    if (!status) chat_template_text_free(&out);
    if (status == CERIUM_ERR_MEMORY) b->status = status;
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) json_decref(specs[i].spec);
    return found;
}

static bool has_word(void *user, view text)
{
    view word = view_of(user);
    return text.len && memmem(text.ptr, text.len, word.ptr, word.len) != NULL;
}

static bool shows(prober *b, const piece *list, size_t n, bool tools, const char *word)
{
    return look_at(b, list, n, tools, has_word, (void *)(uintptr_t)word);
}

#define P_USER {.kind = PIECE_USER, .content = {"probe question", 14}}
#define P_CONTENT {.kind = PIECE_CONTENT, .content = {ANSWER, sizeof ANSWER - 1}}
#define P_CALL {.kind = PIECE_CALL, .name = {TOOL, sizeof TOOL - 1}, .id = {"probeid01", 9},       \
                .content = {"{\"" KEY "\": \"probe value\"}", sizeof KEY + 18}}
#define P_CALL_2 {.kind = PIECE_CALL, .name = {TOOL, sizeof TOOL - 1}, .id = {"probeid02", 9},     \
                  .content = {"{\"" KEY "\": \"probe value\"}", sizeof KEY + 18}}
#define P_RESULT {.kind = PIECE_RESULT, .name = {TOOL, sizeof TOOL - 1}, .id = {"probeid01", 9},   \
                  .content = {"probe result", 12}}

static void refuse(prober *b, const char *why)
{
    if (*why || !b->err.message[0])
        snprintf(b->c->refusal, sizeof b->c->refusal, "%s", *why ? why : "it says nothing");
    else if (b->err.line)
        snprintf(b->c->refusal, sizeof b->c->refusal, "line %u: %s", b->err.line, b->err.message);
    else
        snprintf(b->c->refusal, sizeof b->c->refusal, "%s", b->err.message);
    for (char *p = b->c->refusal; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
}

/* In the form of families without their own tools: chat_hermes.c. */
static void speak(prober *b)
{
    static const char source[] =
        "{%- if tools -%}\n# Tools\n\nYou may call one or more functions to assist with the "
        "user query.\n\nYou are provided with function signatures within <tools></tools> XML "
        "tags:\n<tools>{% for tool in tools %}{{ '\n' }}{{ tool | tojson }}{% endfor %}"
        "{{ '\n' }}</tools>\n\nFor each function call, return a json object with function name and "
        "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
        "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>{%- else -%}\n"
        "<tool_call>\n{\"name\": \"{{ name }}\", \"arguments\": {{ arguments | tojson }}}\n"
        "</tool_call>{%- endif -%}";
    jinja_error err;
    b->c->text_arguments = false;
    int status = jinja_compile(&b->c->spoken, view_of(source), &err);
    CHECK(status != CERIUM_ERR_FORMAT);
    if (status) b->status = status;
}

/* The accepted forms: content as text or as parts, arguments as an object or as text. */
static void find_types(prober *b)
{
    static const piece user[] = {P_USER}, answered[] = {P_USER, P_CONTENT, P_USER},
                       call[] = {P_USER, P_CALL, P_RESULT};
    bool shown = shows(b, user, 1, false, "probe question");
    if (!shown && !b->status && b->err.failure == JINJA_FAILED) {
        b->c->tools_always = true;
        shown = shows(b, user, 1, false, "probe question");
        if (!shown) b->c->tools_always = false;
    }
    if (!shown) {
        jinja_error first = b->err;
        b->c->parts = true;
        if (b->status) return;
        if (!shows(b, user, 1, false, "probe question")) {
            b->err = first;
            refuse(b, b->err.message[0] ? "" : "it does not show what the user says");
            return;
        }
    }
    if (!shows(b, answered, 3, false, ANSWER) && !b->status) {
        refuse(b, b->err.message[0] ? "" : "it does not show what the assistant said");
        return;
    }
    /* Try an object first; then text, if that fails or the object is not rendered. */
    bool calls = shows(b, call, 3, true, "probe value");
    if (!calls && !b->status) {
        b->c->text_arguments = true;
        calls = shows(b, call, 3, true, "probe value");
    }
    b->c->tools = calls && shows(b, user, 1, true, TOOL);
    if (!b->c->tools && !b->status) speak(b);
}

/* ---- how calls are written ---- */

/* X(name of a family, the text around a call of TOOL with KEY = "probe value") */
typedef struct {
    const char *family;
    const char *text;
} call_shape;

#define JSON_ARGS "{\"" KEY "\": \"probe value\"}"

static const call_shape shapes[] = {
    {"qwen3", "<tool_call>\n{\"name\": \"" TOOL "\", \"arguments\": " JSON_ARGS "}\n</tool_call>"},
    {"qwen3-coder", "<tool_call>\n<function=" TOOL ">\n<parameter=" KEY ">\nprobe value\n"
                    "</parameter>\n</function>\n</tool_call>"},
    {"mistral-v7-tekken", "[TOOL_CALLS]" TOOL "[ARGS]" JSON_ARGS},
    {"mistral-v7-tekken", "[TOOL_CALLS]" TOOL "[CALL_ID]probeid01[ARGS]" JSON_ARGS},
    {"mistral-v7", "[TOOL_CALLS] [{\"name\": \"" TOOL "\", \"arguments\": " JSON_ARGS},
    {"mistral-v7", "[TOOL_CALLS][{\"name\": \"" TOOL "\", \"arguments\": " JSON_ARGS},
    {"harmony", "to=functions." TOOL "<|channel|>commentary json<|message|>" JSON_ARGS},
    {"harmony", "to=functions." TOOL "<|channel|>commentary <|constrain|> json<|message|>"
                JSON_ARGS},
    {"llama3.1", "<|end_header_id|>\n\n{\"name\": \"" TOOL "\", \"parameters\": " JSON_ARGS "}"},
};

typedef struct {
    const char *family;
    bool opens; /* the prompt begins a thought */
} found_shape;

static bool find_shape(void *user, view text)
{
    found_shape *f = user;
    for (size_t i = 0; i < ARRAY_LEN(shapes) && !f->family; i++)
        if (has_word((void *)(uintptr_t)shapes[i].text, text)) f->family = shapes[i].family;
    return f->family != NULL;
}

static bool ends_open(void *user, view text)
{
    (void)user;
    text = chat_trim(text);
    return text.len >= 7 && !memcmp(text.ptr + text.len - 7, "<think>", 7);
}

static bool copy_text(void *user, view text)
{
    view *to = user;
    to->ptr = memory_copy(text.ptr, text.len);
    to->len = to->ptr ? text.len : 0;
    return to->ptr != NULL;
}

#define CALL_OF(arguments)                                                                         \
    {.kind = PIECE_CALL, .name = {TOOL, sizeof TOOL - 1}, .id = {"probeid01", 9},                  \
     .content = {arguments, sizeof arguments - 1}}

/* Calls with marks of no family: a tag for each argument, or an object after the name. */
static bool find_marks(prober *b, bool opens_thought)
{
    enum { N = 7 };
    static const piece lists[N][4] = {
        {P_USER, CALL_OF("{\"" KEY "\": \"probe value\", \"probe_second\": \"probe two\"}"),
         P_RESULT},
        {P_USER, P_CALL, P_CALL, P_RESULT},
        {P_USER, CALL_OF("{\"" KEY "\": 48813}"), P_RESULT},
        {P_USER, CALL_OF("{\"" KEY "\": true}"), P_RESULT},
        {P_USER, P_CALL, P_CALL_2, P_RESULT},
        {P_USER},
        {P_USER, P_CONTENT},
    };
    static const size_t n[N] = {3, 4, 3, 3, 4, 1, 2};
    view t[N] = {{0}}, end = {0};
    bool found = true;
    for (size_t i = 0; i < N && found; i++)
        found = look_at(b, lists[i], n[i], true, copy_text, &t[i]);
    if (b->c->end >= 0) end.ptr = tokenizer_bytes(b->t, b->c->end, &end.len);
    const chat_call_probes p = {
        .other = t[0], .two = t[1], .number = t[2], .truth = t[3], .calls = t[4], .prompt = t[5],
        .answered = t[6], .question = VIEW("probe question"), .answer = VIEW(ANSWER),
        .name = VIEW(TOOL), .key = VIEW(KEY), .value = VIEW("probe value"),
        .second = VIEW("probe_second"), .figure = VIEW("48813"), .yes = VIEW("true"),
        .arguments = VIEW(JSON_ARGS), .ids = {VIEW("probeid01"), VIEW("probeid02")}, .end = end,
        .opens_thought = opens_thought};
    found = found &&
            (chat_find_marks(&p, b->c->calls) || chat_find_json_marks(&p, b->c->calls));
    for (size_t i = 0; i < N; i++) memory_free((void *)(uintptr_t)t[i].ptr);
    return found;
}

/* The form of calls: that of the family with the same shape.  If none has it, calls are not read,
 * and the grammar allows none. */
static void find_calls(prober *b)
{
    static const piece call[] = {P_USER, P_CALL, P_RESULT}, user[] = {P_USER};
    found_shape f = {0};
    bool open = look_at(b, user, 1, false, ends_open, NULL);
    if (!b->c->tools) f.family = "qwen3"; /* then in cerium's own form of tools */
    else look_at(b, call, 3, true, find_shape, &f);
    if (!f.family && find_marks(b, open)) f.family = b->c->calls;
    if (!f.family) f.family = "none";
    if (open && !strcmp(f.family, "qwen3")) f.family = "qwen3-open";
    if (open && !strcmp(f.family, "qwen3-coder")) f.family = "qwen3.5";
    if (open && !strcmp(f.family, "none")) f.family = "none-open";
    b->form.calls = f.family;
}

/* ---- families ---- */

static size_t tokens_of(prober *b, const chat_form *form, const probe *one, int32_t *tokens)
{
    size_t n = 0;
    cerium_chat chat = {.messages = one->list, .n_messages = one->n, .tools = probe_tools,
                        .n_tools = one->tools ? ARRAY_LEN(probe_tools) : 0};
    int status = chat_render(b->t, form, &chat, tokens, PROBE_TOKENS_MAX, &n, NULL);
    if (status == CERIUM_ERR_MEMORY) b->status = status;
    return status ? 0 : n;
}

/* Does the family's renderer give the same as the template?  Tools are not compared for a template
 * without them: families put them into the system message then. */
static bool family_is_equal(prober *b)
{
    chat_form runs = b->form;
    runs.runs = true;
    for (size_t i = 0; i < ARRAY_LEN(probes) && !b->status; i++) {
        if (probes[i].tools && !b->c->tools) continue;
        size_t n = tokens_of(b, &b->form, &probes[i], b->tokens[0]);
        size_t m = tokens_of(b, &runs, &probes[i], b->tokens[1]);
        if (!n || n != m || memcmp(b->tokens[0], b->tokens[1], n * sizeof(int32_t))) return false;
    }
    return true;
}

/* The special token after the assistant's text. */
static bool find_end(void *user, view text)
{
    prober *b = user;
    const char *at = text.len ? memmem(text.ptr, text.len, ANSWER, sizeof ANSWER - 1) : NULL;
    size_t from = 0, len = 0;
    if (!at) return false;
    at += sizeof ANSWER - 1;
    b->c->end = tokenizer_find_special(b->t, (view){at, (size_t)(text.ptr + text.len - at)}, &from,
                                       &len);
    return true;
}

static void look_into(prober *b)
{
    static const piece answered[] = {P_USER, P_CONTENT, P_USER};
    find_types(b);
    if (b->c->refusal[0] || b->status) return;
    if (b->form.kind != CHAT_NONE && family_is_equal(b)) return;
    b->form.runs = true;
    b->form.name = "template";
    look_at(b, answered, 3, false, find_end, b);
    find_calls(b);
}

static int read_template(chat_form *form, const tokenizer *t, chat_template *c)
{
    prober b = {.t = t, .form = *form, .c = c};
    view text = tokenizer_template(t);
    c->end = TOKEN_NONE;
    int status = jinja_compile(&c->program, text, &b.err);
    if (status == CERIUM_ERR_MEMORY) return status;
    b.form.template = c;
    if (status) refuse(&b, "");
    b.tokens[0] = memory_alloc(PROBE_TOKENS_MAX * sizeof(int32_t));
    b.tokens[1] = memory_alloc(PROBE_TOKENS_MAX * sizeof(int32_t));
    if (!b.tokens[0] || !b.tokens[1]) b.status = CERIUM_ERR_MEMORY;
    if (!status && !b.status) look_into(&b);
    memory_free(b.tokens[0]);
    memory_free(b.tokens[1]);
    if (c->refusal[0]) {
        b.form.refusal = c->refusal;
        b.form.name = "";
        b.form.runs = false;
    }
    *form = b.form;
    return b.status;
}

/* ---- the form of a model ---- */

static int take_kind(chat_form *form, const char *wanted, cerium_error *err)
{
#define CHAT_KIND_NAME(symbol, name) name,
    static const char *const names[CHAT_KINDS] = {CHAT_KIND_MAP(CHAT_KIND_NAME)};
#undef CHAT_KIND_NAME
    for (int kind = CHAT_NONE + 1; kind < CHAT_KINDS; kind++)
        if (!strcmp(names[kind], wanted)) {
            *form = (chat_form){.kind = (chat_kind)kind, .name = names[kind]};
            return CERIUM_OK;
        }
    return error_set(err, CERIUM_ERR_ARGUMENT,
                     "chat form \"%.64s\" is unknown; docs/chat.md has their names", wanted);
}

static void free_template(chat_template *c)
{
    if (!c) return;
    jinja_free(&c->program);
    jinja_free(&c->spoken);
    memory_free(c);
}

int chat_form_open(chat_form *out, const tokenizer *t, const char *wanted, cerium_error *err)
{
    CHECK(out && t);
    chat_form form = chat_detect(t);
    if (wanted && strcmp(wanted, "template") != 0) {
        RETURN_IF(take_kind(&form, wanted, err));
        *out = form;
        return CERIUM_OK;
    }
    if (!tokenizer_template(t).len) {
        if (wanted)
            return error_set(err, CERIUM_ERR_ARGUMENT, "the file has no chat template");
        *out = form;
        return CERIUM_OK;
    }
    chat_template *c = memory_zalloc(1, sizeof *c);
    int status = c ? read_template(&form, t, c) : CERIUM_ERR_MEMORY;
    if (status) {
        free_template(c);
        return error_set(err, status, "no memory for the chat template");
    }
    if (wanted && !form.refusal && !form.runs) {
        form.runs = true;
        form.calls = form.name; /* the template renders like this family */
        form.name = "template";
    }
    *out = form;
    return CERIUM_OK;
}

void chat_form_close(chat_form *form)
{
    free_template((chat_template *)(uintptr_t)form->template);
    *form = (chat_form){0};
}

int32_t chat_end_token(const chat_form *form)
{
    return form->template ? form->template->end : TOKEN_NONE;
}
