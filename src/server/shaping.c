/* shaping.c - owns the grammars that were compiled for requests, and the way from a request to its
 * own.
 *
 * Clients send the same schemas and tools with each request, so the last ones are kept, whoever
 * sent them: what a schema compiles to says nothing about anybody.
 *
 * An order goes through up to three stages, each a job of the compiler: the guide as a whole; where
 * that cannot be, each schema and grammar alone, which says whose fault it is; and the whole again,
 * when that was what need not be kept to. */
#include "server/shaping.h"

#include "base/limits.h"
#include "base/memory.h"
#include "server/compiler.h"

typedef struct {
    char *text; /* [len] Lark */
    size_t len;
    cerium_grammar *grammar;
    uint64_t used;
} kept_grammar;

struct shapes {
    kept_grammar kept[SERVER_SHAPES_MAX];
    uint64_t clock;
    compiler *compiler;
};

typedef enum { STAGE_WHOLE, STAGE_BLAME, STAGE_AGAIN } order_stage;

/* The parts of a job: of a whole the grammar, or none, and those of the triggers; to blame somebody
 * the document, or none, and those of the tools. */
struct shape_order {
    const protocol_request *r;
    const char *chat_form;
    uint64_t tenant;
    order_stage stage;
    bool no_document;
    compile_job *job;
    protocol_trigger triggers[PROTOCOL_TRIGGERS_MAX]; /* but for their grammars */
    size_t n_triggers;
};

int shapes_open(shapes **out, cerium_engine *engine, void (*wake)(void *user), void *user,
                cerium_error *err)
{
    shapes *s = memory_zalloc(1, sizeof *s);
    if (!s) return error_set(err, CERIUM_ERR_MEMORY, "no memory for schemas");
    int status = compiler_open(&s->compiler, engine, wake, user, err);
    if (status)
        memory_free(s);
    else
        *out = s;
    return status;
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
    compiler_close(&(*s)->compiler);
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) forget(&(*s)->kept[i]);
    memory_free(*s);
    *s = NULL;
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

/* ---- what is kept ---- */

static kept_grammar *find_kept(shapes *s, view text)
{
    for (size_t i = 0; i < SERVER_SHAPES_MAX; i++) {
        kept_grammar *at = &s->kept[i];
        if (!at->grammar || !view_equal((view){at->text, at->len}, text)) continue;
        at->used = ++s->clock;
        return at;
    }
    return NULL;
}

/* Keeps the text of a part that was compiled, in place of what was not used for the longest. */
static void keep(shapes *s, compile_part *part)
{
    kept_grammar *oldest = &s->kept[0];
    if (!part->text || find_kept(s, (view){part->text, part->len})) return;
    for (size_t i = 1; i < SERVER_SHAPES_MAX; i++)
        if (s->kept[i].used < oldest->used) oldest = &s->kept[i];
    forget(oldest);
    *oldest = (kept_grammar){part->text, part->len, cerium_grammar_hold(part->grammar),
                             ++s->clock};
    part->text = NULL;
}

/* ---- the stages ---- */

static int no_memory(protocol_error *e)
{
    return protocol_error_set(e, 500, "server_error", NULL, "", "out of memory");
}

/* "schema: /properties/a: ..." -> what is behind the notation's name. */
static const char *without_notation(const char *message)
{
    const char *at = strstr(message, ": ");
    return at ? at + 2 : message;
}

static int put_whole(shapes *s, compile_job *job, size_t i, view text, bool *is_all)
{
    kept_grammar *kept = text.len ? find_kept(s, text) : NULL;
    if (kept) job->parts[i].grammar = cerium_grammar_hold(kept->grammar);
    if (kept || !text.len) return CERIUM_OK;
    *is_all = false;
    return compile_job_put(job, i, CERIUM_GRAMMAR_LARK, text);
}

/* The job of the whole guide; *is_all: all of it is kept. */
static int order_whole(shapes *s, shape_order *o, bool *is_all)
{
    protocol_guide guide;
    *is_all = true;
    RETURN_IF(protocol_guide_make(&guide, o->r, o->chat_form, o->no_document));
    o->job = compile_job_new(1 + guide.n_triggers, o->tenant);
    int status = o->job ? put_whole(s, o->job, 0, guide.grammar, is_all) : CERIUM_ERR_MEMORY;
    o->n_triggers = guide.n_triggers;
    for (size_t i = 0; i < guide.n_triggers && !status; i++) {
        o->triggers[i] = guide.triggers[i];
        status = put_whole(s, o->job, 1 + i, guide.triggers[i].grammar, is_all);
    }
    protocol_guide_free(&guide);
    return status;
}

/* The job of the document and of each tool alone. */
static int order_blame(shape_order *o)
{
    const protocol_request *r = o->r;
    char *text = r->schema ? json_dumps(r->schema, JSON_COMPACT) : NULL;
    o->job = compile_job_new(1 + r->n_tools, o->tenant);
    int status = o->job && (text || !r->schema) ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (text && !status) {
        status = compile_job_put(o->job, 0, CERIUM_GRAMMAR_JSON_SCHEMA, view_of(text));
        o->job->parts[0].may_fail = !r->is_strict;
    }
    memory_release(text);
    for (size_t i = 0; i < r->n_tools && !status; i++) {
        cerium_grammar_syntax syntax;
        view grammar = protocol_tool_grammar(r, i, &syntax);
        if (!grammar.len) continue;
        status = compile_job_put(o->job, 1 + i, syntax, grammar);
        o->job->parts[1 + i].may_fail = protocol_tool_may_loosen(r, i);
    }
    return status;
}

/* Whose fault it is. */
static int tell_blame(const shape_order *o, protocol_error *e)
{
    const char *why = without_notation(o->job->err.message);
    size_t tool = o->job->at - 1;
    bool is_schema = o->job->parts[o->job->at].syntax == CERIUM_GRAMMAR_JSON_SCHEMA;
    if (o->job->at == 0)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_json_schema",
                                  o->r->api == PROTOCOL_CHAT ? "response_format"
                                                             : "text.format.schema",
                                  "Invalid schema for response_format: %s", why);
    return protocol_error_set(e, 400, "invalid_request_error",
                              is_schema ? "invalid_function_parameters" : "invalid_grammar",
                              "tools", "Invalid %s for tool '%.128s': %s",
                              is_schema ? "schema" : "grammar", o->r->tools[tool].name, why);
}

/* What was compiled, as a shape. */
static void take_whole(shapes *s, shape_order *o, shape *out)
{
    compile_part *parts = o->job->parts;
    for (size_t i = 0; i < o->job->n_parts; i++)
        if (parts[i].grammar) keep(s, &parts[i]);
    out->grammar = cerium_grammar_hold(parts[0].grammar);
    for (size_t i = 0; i < o->n_triggers; i++) {
        const protocol_trigger *from = &o->triggers[i];
        out->triggers[out->n_triggers++] = (cerium_trigger){
            .text = from->text, .text_len = strlen(from->text),
            .grammar = cerium_grammar_hold(parts[1 + i].grammar), .ends = from->ends};
    }
}

/* The next stage's job is made, and begins; or nothing is left to do. */
static int go_on(shapes *s, shape_order *o, shape *out, bool *is_done, protocol_error *e)
{
    bool is_all = false;
    compile_job_free(&o->job);
    int status = o->stage == STAGE_BLAME ? order_blame(o) : order_whole(s, o, &is_all);
    if (status) return no_memory(e);
    *is_done = is_all;
    if (is_all)
        take_whole(s, o, out);
    else
        compiler_submit(s->compiler, o->job);
    return CERIUM_OK;
}

/* The job of a stage is done. */
static int end_stage(shapes *s, shape_order *o, shape *out, bool *is_done, protocol_error *e)
{
    const compile_job *job = o->job;
    *is_done = true;
    if (job->status == CERIUM_ERR_MEMORY) return no_memory(e);
    if (o->stage == STAGE_BLAME) {
        if (job->status) return tell_blame(o, e);
        o->no_document = job->parts[0].failed;
        for (size_t i = 0; i < o->r->n_tools; i++)
            if (job->parts[1 + i].failed) protocol_tool_loosen(o->r, i);
    } else if (!job->status) {
        take_whole(s, o, out);
        return CERIUM_OK;
    } else if (o->stage == STAGE_AGAIN) {
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", "tools",
                                  "the tools together cannot be kept to: %s",
                                  without_notation(job->err.message));
    }
    o->stage++;
    return go_on(s, o, out, is_done, e);
}

static void free_order(shape_order **order)
{
    compile_job_free(&(*order)->job);
    memory_free(*order);
    *order = NULL;
}

int shapes_of(shapes *s, const protocol_request *r, const char *chat_form, uint64_t tenant,
              shape *out, shape_order **order, protocol_error *e)
{
    bool calls = r->api == PROTOCOL_RESPONSES || r->api == PROTOCOL_CHAT, is_done = true;
    *out = (shape){.grammar = NULL};
    *order = NULL;
    if (!calls || r->compacts) return CERIUM_OK;
    shape_order *o = memory_zalloc(1, sizeof *o);
    if (!o) return no_memory(e);
    *o = (shape_order){.r = r, .chat_form = chat_form, .tenant = tenant};
    int status = go_on(s, o, out, &is_done, e);
    if (status || is_done)
        free_order(&o);
    else
        *order = o;
    return status;
}

int shapes_take(shapes *s, shape_order **order, shape *out, protocol_error *e)
{
    bool is_done = false;
    if (!compiler_is_done(s->compiler, (*order)->job)) return CERIUM_OK;
    int status = end_stage(s, *order, out, &is_done, e);
    if (status || is_done) free_order(order);
    return status;
}

void shapes_drop(shapes *s, shape_order **order)
{
    if (!order || !*order) return;
    compiler_drop(s->compiler, &(*order)->job);
    free_order(order);
}
