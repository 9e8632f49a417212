/* shaping.c - owns the grammars that were compiled for requests.
 *
 * Clients send the same schemas and tools with each request, so the last ones are kept, whoever
 * sent them: what a schema compiles to says nothing about anybody. */
#include "server/shaping.h"

#include "base/limits.h"
#include "base/memory.h"

typedef struct {
    char *text; /* [len] Lark */
    size_t len;
    cerium_grammar *grammar;
    uint64_t used;
} kept_grammar;

struct shapes {
    kept_grammar kept[SERVER_SHAPES_MAX];
    uint64_t clock;
};

int shapes_open(shapes **out)
{
    *out = memory_zalloc(1, sizeof **out);
    return *out ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void forget(kept_grammar *of)
{
    memory_free(of->text);
    cerium_grammar_close(&of->grammar);
    *of = (kept_grammar){.len = 0};
}

void shapes_close(shapes **s)
{
    if (!s || !*s) return;
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) forget(&(*s)->kept[i]);
    memory_free(*s);
    *s = NULL;
}

static int compile(shapes *s, view text, cerium_grammar **out, cerium_error *err)
{
    kept_grammar *oldest = &s->kept[0];
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) {
        kept_grammar *at = &s->kept[i];
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
    if (copy)
        *oldest = (kept_grammar){copy, text.len, cerium_grammar_hold(grammar), ++s->clock};
    *out = grammar;
    return CERIUM_OK;
}

void shape_free(shape *s)
{
    cerium_grammar_close(&s->grammar);
    for (uint32_t i = 0; i < s->n_triggers; i++) {
        cerium_grammar *grammar = (cerium_grammar *)s->triggers[i].grammar;
        cerium_grammar_close(&grammar);
    }
    *s = (shape){.grammar = NULL};
}

bool shape_guide(const shape *s, cerium_guide *guide)
{
    *guide = (cerium_guide){
        .grammar = s->grammar, .triggers = s->triggers, .n_triggers = s->n_triggers};
    return s->grammar || s->n_triggers;
}

static int compile_all(shapes *s, const protocol_guide *guide, shape *out, cerium_error *err)
{
    if (guide->grammar.len) RETURN_IF(compile(s, guide->grammar, &out->grammar, err));
    for (size_t i = 0; i < guide->n_triggers; i++) {
        const protocol_trigger *from = &guide->triggers[i];
        cerium_grammar *grammar = NULL;
        RETURN_IF(compile(s, from->grammar, &grammar, err));
        out->triggers[out->n_triggers++] = (cerium_trigger){
            .text = from->text, .text_len = strlen(from->text), .grammar = grammar,
            .ends = from->ends};
    }
    return CERIUM_OK;
}

static int make(shapes *s, const protocol_request *r, const char *chat_form, bool no_document,
                shape *out, cerium_error *err)
{
    protocol_guide guide;
    *out = (shape){.grammar = NULL};
    RETURN_IF(protocol_guide_make(&guide, r, chat_form, no_document));
    int status = compile_all(s, &guide, out, err);
    protocol_guide_free(&guide);
    if (status) shape_free(out);
    return status;
}

/* "schema: /properties/a: ..." -> what is behind the notation's name. */
static const char *without_notation(const char *message)
{
    const char *at = strstr(message, ": ");
    return at ? at + 2 : message;
}

static int compiles(cerium_grammar_syntax syntax, view text, cerium_error *err)
{
    cerium_grammar *grammar = NULL;
    int status = cerium_grammar_compile(&grammar, syntax, text.ptr, text.len, err);
    cerium_grammar_close(&grammar);
    return status;
}

/* Each tool alone: those whose schema need not be kept to are let go, others are told. */
static int blame_tools(const protocol_request *r, protocol_error *e)
{
    for (size_t i = 0; i < r->n_tools; i++) {
        cerium_grammar_syntax syntax;
        cerium_error err = {.status = 0};
        view text = protocol_tool_grammar(r, i, &syntax);
        int status = text.len ? compiles(syntax, text, &err) : CERIUM_OK;
        if (!status || status == CERIUM_ERR_MEMORY || protocol_tool_loosen(r, i)) continue;
        bool schema = syntax == CERIUM_GRAMMAR_JSON_SCHEMA;
        return protocol_error_set(e, 400, "invalid_request_error",
                                  schema ? "invalid_function_parameters" : "invalid_grammar",
                                  "tools", "Invalid %s for tool '%.128s': %s",
                                  schema ? "schema" : "grammar", r->tools[i].name,
                                  without_notation(err.message));
    }
    return CERIUM_OK;
}

static int blame_document(const protocol_request *r, bool *no_document, protocol_error *e)
{
    cerium_error err = {.status = 0};
    char *text = r->schema ? json_dumps(r->schema, JSON_COMPACT) : NULL;
    if (!text) return CERIUM_OK;
    int status = compiles(CERIUM_GRAMMAR_JSON_SCHEMA, view_of(text), &err);
    memory_release(text);
    *no_document = status != CERIUM_OK;
    if (!status || !r->is_strict) return CERIUM_OK;
    bool chat = r->api == PROTOCOL_CHAT;
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_json_schema",
                              chat ? "response_format" : "text.format.schema",
                              "Invalid schema for response_format: %s",
                              without_notation(err.message));
}

int shapes_of(shapes *s, const protocol_request *r, const char *chat_form, shape *out,
              protocol_error *e)
{
    cerium_error err = {.status = 0};
    bool no_document = false, calls = r->api == PROTOCOL_RESPONSES || r->api == PROTOCOL_CHAT;
    *out = (shape){.grammar = NULL};
    if (!calls || r->compacts) return CERIUM_OK;
    int status = make(s, r, chat_form, no_document, out, &err);
    if (status && status != CERIUM_ERR_MEMORY) {
        RETURN_IF(blame_document(r, &no_document, e));
        RETURN_IF(blame_tools(r, e));
        status = make(s, r, chat_form, no_document, out, &err);
    }
    if (!status) return CERIUM_OK;
    if (status == CERIUM_ERR_MEMORY)
        return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "tools",
                              "the tools together cannot be kept to: %s",
                              without_notation(err.message));
}
