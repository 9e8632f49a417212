/* shaping.c - owns the grammars that were compiled for requests.
 *
 * Clients send the same schema with each request, so the last ones are kept, whoever sent them:
 * what a schema compiles to says nothing about anybody. */
#include "server/shaping.h"

#include "base/limits.h"
#include "base/memory.h"

typedef struct {
    char *text; /* [len] Lark */
    size_t len;
    cerium_grammar *grammar;
    uint64_t used;
} shape;

struct shapes {
    shape kept[SERVER_SHAPES_MAX];
    uint64_t clock;
};

int shapes_open(shapes **out)
{
    *out = memory_zalloc(1, sizeof **out);
    return *out ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void forget(shape *of)
{
    memory_free(of->text);
    cerium_grammar_close(&of->grammar);
    *of = (shape){.len = 0};
}

void shapes_close(shapes **s)
{
    if (!s || !*s) return;
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) forget(&(*s)->kept[i]);
    memory_free(*s);
    *s = NULL;
}

/* Forms in which a call is a text that begins so; with tools, an answer is JSON or calls. */
static const char *call_of(const char *chat_form)
{
    static const struct {
        const char *form, *begin;
    } calls[] = {
        {"chatml", "\"<tool_call>\""},
        {"qwen3", "\"<tool_call>\""},
        {"qwen3-coder", "\"<tool_call>\""},
        {"qwen3.5", "\"<tool_call>\""},
        {"mistral-v3", "<\"[TOOL_CALLS]\">"},
        {"mistral-v7", "<\"[TOOL_CALLS]\">"},
        {"mistral-v7-tekken", "<\"[TOOL_CALLS]\">"},
    };
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (!strcmp(calls[i].form, chat_form)) return calls[i].begin;
    return NULL;
}

/* The grammar's text, in lark. */
static int write_text(const protocol_request *r, const char *call, bytes *out)
{
    static const char begin[] = "start: %json ", any_object[] = "{\"type\":\"object\"}";
    char *schema = r->schema ? json_dumps(r->schema, JSON_COMPACT) : NULL;
    const char *text = schema ? schema : any_object;
    int status = r->schema && !schema ? CERIUM_ERR_MEMORY : CERIUM_OK;
    if (!status) status = bytes_append(out, begin, strlen(begin));
    if (!status) status = bytes_append(out, text, strlen(text));
    memory_release(schema);
    if (!call || status) return status;
    static const char or [] = "\n  | ", more[] = " /(.|\\n)*/\n";
    status = bytes_append(out, or, strlen(or));
    if (!status) status = bytes_append(out, call, strlen(call));
    return status ? status : bytes_append(out, more, strlen(more));
}

static int compile(shapes *s, view text, cerium_grammar **out, cerium_error *err)
{
    shape *oldest = &s->kept[0];
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) {
        shape *at = &s->kept[i];
        if (at->grammar && view_equal((view){at->text, at->len}, text)) {
            at->used = ++s->clock;
            *out = cerium_grammar_hold(at->grammar);
            return CERIUM_OK;
        }
        if (at->used < oldest->used) oldest = at;
    }
    cerium_grammar *grammar = NULL;
    RETURN_IF(cerium_grammar_compile(&grammar, CERIUM_GRAMMAR_LARK, text.ptr, text.len, err));
    forget(oldest);
    char *copy = memory_copy(text.ptr, text.len);
    if (copy) *oldest = (shape){copy, text.len, cerium_grammar_hold(grammar), ++s->clock};
    *out = grammar;
    return CERIUM_OK;
}

/* "lark: line 1: %json /properties/a: ..." -> what is behind "%json ". */
static const char *without_place(const char *message)
{
    const char *at = strstr(message, "%json ");
    return at ? at + strlen("%json ") : message;
}

int shapes_of(shapes *s, const protocol_request *r, const char *chat_form, cerium_grammar **out,
              protocol_error *e)
{
    bool calls = r->n_tools > 0 && !r->tools_barred;
    const char *call = calls ? call_of(chat_form) : NULL;
    bytes text = {.max = GRAMMAR_TEXT_BYTES_MAX};
    cerium_error err = {.status = 0};
    *out = NULL;
    if (!r->schema && !r->wants_object) return CERIUM_OK;
    if (calls && !call) return CERIUM_OK; /* calls have a form of their own: the model is told */
    int status = write_text(r, call, &text);
    if (!status) status = compile(s, (view){text.ptr, text.len}, out, &err);
    bytes_free(&text);
    if (!status || (!r->is_strict && status != CERIUM_ERR_MEMORY)) return CERIUM_OK;
    if (status == CERIUM_ERR_MEMORY)
        return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
    bool chat = r->api == PROTOCOL_CHAT;
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_json_schema",
                              chat ? "response_format" : "text.format.schema",
                              "Invalid schema for response_format: %s", without_place(err.message));
}

void shapes_guide(const char *chat_form, const cerium_grammar *grammar, cerium_trigger *trigger,
                  cerium_guide *guide)
{
    static const char final[] = "<|channel|>final<|message|>", thought[] = "</think>\n\n";
    const char *begin = NULL;
    *guide = (cerium_guide){.grammar = grammar};
    if (!strcmp(chat_form, "harmony")) begin = final;
    if (!strcmp(chat_form, "qwen3.5")) begin = thought; /* its prompts end within a thought */
    if (!begin) return;
    *trigger = (cerium_trigger){
        .text = begin, .text_len = strlen(begin), .grammar = grammar, .ends = true};
    *guide = (cerium_guide){.triggers = trigger, .n_triggers = 1, .must = true};
}
