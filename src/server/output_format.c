/* output_format.c - the cache of compiled grammars, and the compilation of a request's.
 *
 * Clients send the same schemas and tools with each request, so the last ones are cached for all
 * tenants: a compiled schema reveals nothing about its sender.
 *
 * An order goes through up to three stages: the whole guide; if that fails, each schema and grammar
 * alone, to find which part is at fault; and the whole again without that part, if it was optional.
 */
#include "server/output_format.h"

#include <pthread.h>

#include "base/limits.h"
#include "base/memory.h"

typedef struct {
    char *text; /* [len] Lark */
    size_t len;
    bool forgives;
    cerium_grammar *grammar;
    uint64_t used;
} kept_grammar;

struct grammar_cache {
    cerium_engine *engine; /* NULL: its vocabulary is sorted */
    pthread_mutex_t lock;  /* the members below */
    kept_grammar kept[SERVER_GRAMMARS_MAX];
    uint64_t clock;
};

typedef enum { STAGE_WHOLE, STAGE_BLAME, STAGE_AGAIN, STAGE_OVER } order_stage;

typedef struct {
    char *text; /* [len] owned; NULL: nothing to compile */
    size_t len;
    cerium_grammar_syntax syntax;
    bool may_fail;           /* if it cannot be compiled, continue with the others */
    bool failed;
    uint32_t call_line;      /* in the whole: where the first tool's call is; 0: nowhere */
    cerium_grammar *grammar; /* owned */
} order_part;

/* The parts of a whole: the grammar, if any, and those of the triggers; when searching the part at
 * fault: the document, if any, and those of the tools. */
struct format_order {
    grammar_cache *s;
    const protocol_request *r;
    const char *chat_form;
    order_stage stage;
    bool loose_document; /* only the type of its schema: no grammar can be made of it, */
    char why[160];       /* for this reason */
    bool forgives; /* schemas are optional: leave invalid ones out */
    order_part *parts; /* [n_parts] owned */
    size_t n_parts, n_seen;
    int status;       /* of the first required part that failed; */
    size_t at;        /* the part's index, */
    cerium_error err; /* and the reason */
    protocol_trigger triggers[PROTOCOL_TRIGGERS_MAX]; /* without their grammars */
    size_t n_triggers;
};

int grammar_cache_open(grammar_cache **out, cerium_engine *engine, cerium_error *err)
{
    grammar_cache *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for schemas");
    s->engine = engine;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return CERIUM_OK;
}

static void forget(kept_grammar *of)
{
    memory_free(of->text);
    cerium_grammar_close(&of->grammar);
    *of = (kept_grammar){.len = 0};
}

void grammar_cache_close(grammar_cache **s)
{
    if (!s || !*s) return;
    for (size_t i = 0; i < SERVER_GRAMMARS_MAX; i++) forget(&(*s)->kept[i]);
    pthread_mutex_destroy(&(*s)->lock);
    memory_free(*s);
    *s = NULL;
}

void output_format_free(output_format *s)
{
    cerium_grammar_close(&s->grammar);
    for (uint32_t i = 0; i < s->n_triggers; i++) {
        cerium_grammar *grammar = (cerium_grammar *)s->triggers[i].grammar;
        cerium_grammar_close(&grammar);
    }
    *s = (output_format){.grammar = NULL};
}

bool output_format_guide(const output_format *s, cerium_guide *guide)
{
    *guide = (cerium_guide){
        .grammar = s->grammar, .triggers = s->triggers, .n_triggers = s->n_triggers};
    return s->grammar || s->n_triggers;
}

/* ---- the cache ---- */

/* Call with the lock. */
static kept_grammar *find_kept(grammar_cache *s, view text, bool forgives)
{
    for (size_t i = 0; i < SERVER_GRAMMARS_MAX; i++) {
        kept_grammar *at = &s->kept[i];
        if (!at->grammar || at->forgives != forgives) continue;
        if (!view_equal((view){at->text, at->len}, text)) continue;
        at->used = ++s->clock;
        return at;
    }
    return NULL;
}

/* The grammar of a text, held, or NULL. */
static cerium_grammar *hold_kept(grammar_cache *s, view text, bool forgives)
{
    pthread_mutex_lock(&s->lock);
    kept_grammar *kept = find_kept(s, text, forgives);
    cerium_grammar *grammar = kept ? cerium_grammar_hold(kept->grammar) : NULL;
    pthread_mutex_unlock(&s->lock);
    return grammar;
}

/* Stores the compiled text of a part, in place of the least recently used one. */
static void keep(grammar_cache *s, order_part *part, bool forgives)
{
    kept_grammar gone = {.len = 0}, *oldest = &s->kept[0];
    if (!part->text) return;
    pthread_mutex_lock(&s->lock);
    if (!find_kept(s, (view){part->text, part->len}, forgives)) {
        for (size_t i = 1; i < SERVER_GRAMMARS_MAX; i++)
            if (s->kept[i].used < oldest->used) oldest = &s->kept[i];
        gone = *oldest;
        *oldest = (kept_grammar){part->text, part->len, forgives,
                                 cerium_grammar_hold(part->grammar), ++s->clock};
        part->text = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    forget(&gone);
}

/* ---- the parts of a stage ---- */

static void forget_parts(format_order *o)
{
    for (size_t i = 0; i < o->n_parts; i++) {
        memory_free(o->parts[i].text);
        cerium_grammar_close(&o->parts[i].grammar);
    }
    memory_free(o->parts);
    o->parts = NULL;
    o->n_parts = o->n_seen = 0;
}

static int make_parts(format_order *o, size_t n)
{
    forget_parts(o);
    o->parts = memory_zalloc(n, sizeof *o->parts);
    o->n_parts = o->parts ? n : 0;
    return o->parts ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static int put(order_part *part, cerium_grammar_syntax syntax, view text)
{
    part->text = memory_copy(text.ptr, text.len);
    part->len = text.len;
    part->syntax = syntax;
    return part->text ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

/* From there on, each tool has a separate line. */
static uint32_t line_of_calls(view text)
{
    const view word = VIEW("call: ");
    uint32_t line = 1;
    for (size_t i = 0; i + word.len <= text.len; i++) {
        bool begins = i == 0 || text.ptr[i - 1] == '\n';
        if (begins && !memcmp(text.ptr + i, word.ptr, word.len)) return line;
        line += text.ptr[i] == '\n';
    }
    return 0;
}

static int put_whole(format_order *o, size_t i, view text)
{
    if (!text.len) return CERIUM_OK;
    o->parts[i].call_line = line_of_calls(text);
    o->parts[i].grammar = hold_kept(o->s, text, o->forgives);
    return o->parts[i].grammar ? CERIUM_OK : put(&o->parts[i], CERIUM_GRAMMAR_LARK, text);
}

static int order_whole(format_order *o)
{
    protocol_guide guide;
    RETURN_IF(protocol_guide_make(&guide, o->r, o->chat_form, o->loose_document));
    int status = make_parts(o, 1 + guide.n_triggers);
    if (!status) status = put_whole(o, 0, guide.grammar);
    o->n_triggers = guide.n_triggers;
    for (size_t i = 0; i < guide.n_triggers && !status; i++) {
        o->triggers[i] = guide.triggers[i];
        status = put_whole(o, 1 + i, guide.triggers[i].grammar);
    }
    protocol_guide_free(&guide);
    return status;
}

static cerium_grammar_syntax syntax_of(const char *name)
{
    return !strcmp(name, "gbnf")    ? CERIUM_GRAMMAR_GBNF
           : !strcmp(name, "regex") ? CERIUM_GRAMMAR_REGEX : CERIUM_GRAMMAR_LARK;
}

/* The document and each tool alone. */
static int order_blame(format_order *o)
{
    const protocol_request *r = o->r;
    char *text = r->schema ? json_dumps(r->schema, JSON_COMPACT) : NULL;
    int status = text || !r->schema ? make_parts(o, 1 + r->n_tools) : CERIUM_ERR_MEMORY;
    if (r->grammar.text && !status)
        status = put(&o->parts[0], syntax_of(r->grammar.syntax), view_of(r->grammar.text));
    if (text && !status) {
        status = put(&o->parts[0], CERIUM_GRAMMAR_JSON_SCHEMA, view_of(text));
        o->parts[0].may_fail = !r->is_strict;
    }
    memory_release(text);
    for (size_t i = 0; i < r->n_tools && !status; i++) {
        cerium_grammar_syntax syntax;
        view grammar = protocol_tool_grammar(r, i, &syntax);
        if (!grammar.len) continue;
        status = put(&o->parts[1 + i], syntax, grammar);
        o->parts[1 + i].may_fail = protocol_tool_may_loosen(r, i);
    }
    return status;
}

static void order_fail(format_order *o, int status)
{
    o->status = error_set(&o->err, status, "out of memory");
    o->stage = STAGE_OVER;
}

/* Is a schema binding? */
static bool is_strict(const protocol_request *r)
{
    bool any = r->schema && r->is_strict;
    for (size_t i = 0; i < r->n_tools; i++) any |= !protocol_tool_may_loosen(r, i);
    return any;
}

static void begin_stage(format_order *o, order_stage stage)
{
    o->stage = stage;
    o->status = CERIUM_OK;
    o->forgives = stage == STAGE_AGAIN || !is_strict(o->r);
    int status = stage == STAGE_BLAME ? order_blame(o) : order_whole(o);
    if (status) order_fail(o, status);
}

/* All parts of a stage were compiled, or a required one failed. */
static void end_stage(format_order *o)
{
    bool continues = o->status != CERIUM_ERR_MEMORY;
    if (continues && o->stage == STAGE_BLAME && !o->status) {
        o->loose_document = o->parts[0].failed;
        for (size_t i = 0; i < o->r->n_tools; i++)
            if (o->parts[1 + i].failed) protocol_tool_loosen(o->r, i);
        begin_stage(o, STAGE_AGAIN);
        return;
    }
    if (continues && o->stage == STAGE_WHOLE && o->status) {
        begin_stage(o, STAGE_BLAME);
        return;
    }
    if (!o->status)
        for (size_t i = 0; i < o->n_parts; i++)
            if (o->parts[i].grammar) keep(o->s, &o->parts[i], o->forgives);
    if (o->status && o->stage == STAGE_AGAIN) o->at = SIZE_MAX;
    o->stage = STAGE_OVER;
}

/* "schema: /properties/a: ..." -> the text after the notation's name; an empty place is left
 * out. */
static const char *without_notation(const char *message)
{
    const char *at = strstr(message, ": ");
    if (!at) return message;
    at += 2;
    return at[0] == ':' && at[1] == ' ' ? at + 2 : at;
}

static bool is_to_do(const order_part *part) { return part->text && !part->grammar; }

static void compile(format_order *o, order_part *part)
{
    cerium_error err;
    /* The first guide of an engine sorts its vocabulary: only its request waits for that. */
    int status = o->s->engine ? cerium_engine_prepare_guides(o->s->engine, &err) : CERIUM_OK;
    if (!status) o->s->engine = NULL;
    bool may_fail = !status && part->may_fail;
    bool forgives = o->forgives || (o->stage == STAGE_BLAME && may_fail);
    if (!status && forgives)
        status = cerium_grammar_compile_forgiving(&part->grammar, part->syntax, part->text,
                                                  part->len, &err);
    else if (!status)
        status = cerium_grammar_compile(&part->grammar, part->syntax, part->text, part->len, &err);
    part->failed = status != CERIUM_OK;
    if (part->failed && part == o->parts)
        snprintf(o->why, sizeof o->why, "%.150s", without_notation(err.message));
    if (!status || (may_fail && status != CERIUM_ERR_MEMORY)) return;
    o->status = status;
    o->at = (size_t)(part - o->parts);
    o->err = err;
}

/* ---- orders ---- */

bool format_order_is_done(const format_order *o) { return o->stage == STAGE_OVER; }

/* Go to the next part to compile, or to the end of the stage. */
static void seek(format_order *o)
{
    while (!o->status && o->n_seen < o->n_parts && !is_to_do(&o->parts[o->n_seen])) o->n_seen++;
    if (o->status || o->n_seen == o->n_parts) end_stage(o);
}

int format_order_open(format_order **out, grammar_cache *s, const protocol_request *r,
                      const char *chat_form)
{
    *out = NULL;
    if ((!r->talks && !protocol_has_format(r)) || r->compacts) return CERIUM_OK;
    format_order *o = memory_zalloc(1, sizeof *o);
    if (!o) return CERIUM_ERR_MEMORY;
    *o = (format_order){.s = s, .r = r, .chat_form = chat_form};
    begin_stage(o, STAGE_WHOLE);
    if (!format_order_is_done(o)) seek(o);
    *out = o;
    return CERIUM_OK;
}

bool format_order_step(format_order *o)
{
    if (format_order_is_done(o)) return false;
    /* A stage may begin with nothing to compile. */
    if (o->n_seen < o->n_parts && is_to_do(&o->parts[o->n_seen]))
        compile(o, &o->parts[o->n_seen++]);
    seek(o);
    return !format_order_is_done(o);
}

void format_order_free(format_order **o)
{
    if (!o || !*o) return;
    forget_parts(*o);
    memory_free(*o);
    *o = NULL;
}

/* ---- the result ---- */

/* Report the part at fault. */
static int tell_blame(const format_order *o, protocol_error *e)
{
    const char *why = without_notation(o->err.message);
    if (o->at == SIZE_MAX)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "tools",
                                  "the tools together cannot be kept to: %s", why);
    const char *field = o->r->shape_field;
    if (o->at == 0 && o->r->grammar.text)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_grammar", field,
                                  "Invalid '%s': %s", field, why);
    if (!field) field = o->r->api == PROTOCOL_CHAT ? "response_format" : "text.format.schema";
    if (o->at == 0)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_json_schema", field,
                                  "Invalid schema for '%s': %s", field, why);
    bool is_schema = o->parts[o->at].syntax == CERIUM_GRAMMAR_JSON_SCHEMA;
    return protocol_error_set(e, 400, "invalid_request_error",
                              is_schema ? "invalid_function_parameters" : "invalid_grammar",
                              "tools", "Invalid %s for tool '%.128s': %s",
                              is_schema ? "schema" : "grammar", o->r->tools[o->at - 1].name, why);
}

/* The tool that is number k of the callable ones. */
static size_t callable_tool(const protocol_request *r, uint32_t k)
{
    for (size_t i = 0; i < r->n_tools; i++)
        if ((!r->callable || r->callable[i]) && k-- == 0) return i;
    return r->n_tools;
}

/* The field of the request with the schema of a tool, or of the answer. */
static void print_param(const protocol_request *r, size_t tool, char out[static 160])
{
    if (tool < r->n_tools)
        snprintf(out, 160, "tools[%zu].%sparameters", tool,
                 r->api == PROTOCOL_CHAT ? "function." : "");
    else
        snprintf(out, 160, "%s", r->shape_field             ? r->shape_field
                                 : r->api == PROTOCOL_CHAT ? "response_format.json_schema.schema"
                                                           : "text.format.schema");
}

/* "line 4: %json /properties/a: ..." of a part: finds the schema, and the rest of the message. */
static void warn_of_line(protocol_request *r, const order_part *part, const char *text)
{
    const char *what = strstr(text, "%json ");
    unsigned line = 0;
    if (sscanf(text, "line %u:", &line) != 1 || !what) return;
    what += strlen("%json ");
    size_t tool = part->call_line && line >= part->call_line
                      ? callable_tool(r, line - part->call_line) : r->n_tools;
    char param[160];
    print_param(r, tool, param);
    protocol_warn(r, param, "left out of the schema%s%.64s: %s; all else of it holds",
                  tool < r->n_tools ? " of " : "", tool < r->n_tools ? r->tools[tool].name : "",
                  what);
}

/* Schemas of which no grammar can be made. */
static void warn_of_loose(const format_order *o, protocol_request *r)
{
    char param[160];
    print_param(r, r->n_tools, param);
    if (o->loose_document)
        protocol_warn(r, param, "cannot be kept to: %s; of it only the type is kept", o->why);
    for (size_t i = 0; i < r->n_tools; i++) {
        if (!protocol_tool_is_loose(r, i)) continue;
        print_param(r, i, param);
        protocol_warn(r, param, "the schema of %.64s cannot be kept to: its arguments are any "
                      "object", r->tools[i].name);
    }
}

void format_order_warn(const format_order *o, protocol_request *r)
{
    if (!o->status) warn_of_loose(o, r);
    for (size_t i = 0; i < o->n_parts && !o->status; i++) {
        const char *text;
        bool same = i > 1 && o->parts[i].len == o->parts[i - 1].len && o->parts[i].len &&
                    o->parts[i].text && o->parts[i - 1].text &&
                    !memcmp(o->parts[i].text, o->parts[i - 1].text, o->parts[i].len);
        for (size_t k = 0; !same && (text = cerium_grammar_left_out(o->parts[i].grammar, k)); k++)
            warn_of_line(r, &o->parts[i], text);
    }
}

int format_order_take(format_order *o, output_format *out, protocol_error *e)
{
    CHECK(format_order_is_done(o));
    *out = (output_format){.grammar = NULL};
    if (o->status == CERIUM_ERR_MEMORY)
        return protocol_error_memory(e);
    if (o->status) return tell_blame(o, e);
    out->grammar = cerium_grammar_hold(o->parts[0].grammar);
    for (size_t i = 0; i < o->n_triggers; i++) {
        const protocol_trigger *from = &o->triggers[i];
        out->triggers[out->n_triggers++] = (cerium_trigger){
            .text = from->text, .text_len = strlen(from->text),
            .grammar = cerium_grammar_hold(o->parts[1 + i].grammar), .ends = from->ends};
    }
    return CERIUM_OK;
}
