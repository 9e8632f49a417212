/* tool_guide.c - the order of calls, thoughts and documents in an answer, by chat form; the calls
 * themselves are in guide_calls.c. */
#include "protocol/tool_guide.h"

#include "protocol/guide_calls.h"

/* ---- forms ---- */

typedef enum {
    THINKS_NEVER,
    THINKS_FIRST, /* an answer may begin with a thought */
    THINKS_OPEN,  /* the prompt began one already */
} thinking;

typedef struct {
    const char *text, *rest; /* the text that opens a call, and its rest after that */
} opening;

/* Expressions use `call` (see guide_calls.h), `thought`, and the rules of the style. */
typedef struct {
    const char *name;
    call_style style;
    thinking thinks;
    opening openings[PROTOCOL_TRIGGERS_MAX];
    const char *first;    /* a complete call at the beginning of an answer */
    const char *more;     /* another one after it; NULL: an answer has one */
    bool ends;            /* no text follows calls */
    const char *beginning; /* a call without a mark, which may begin an answer, or NULL */
    const char *document; /* before a forced answer, if it is not all of the text */
    const char *rules;
} guide_form;

/* A mark is a control token in some vocabularies and text in others. */
#define RULES_TAGS                                                                                 \
    "opens: \"<tool_call>\" | <\"<tool_call>\">\ncloses: \"</tool_call>\" | <\"</tool_call>\">\n"
#define RULES_INST                                                                                 \
    "opens: \"[TOOL_CALLS]\" | <\"[TOOL_CALLS]\">\n"                                               \
    "mark: ((\"[CALL_ID]\" | <\"[CALL_ID]\">) /[a-zA-Z0-9]{9}/)? (\"[ARGS]\" | <\"[ARGS]\">)\n"
#define RULES_HARMONY                                                                              \
    "mark: (<|channel|> \"commentary\")? (\" \" <|constrain|>? \" \"? \"json\")? <|message|>\n"

#define HERMES                                                                                     \
    .openings = {{"<tool_call>", "\"\\n\" call \"\\n\" closes"}},                                  \
    .first = "\" \"? opens \"\\n\" call \"\\n\" closes", .more = "\"\\n\" first",                  \
    .rules = RULES_TAGS
#define XML                                                                                        \
    .style = CALL_XML,                                                                             \
    .openings = {{"<tool_call>", "\"\\n<function=\" call \"</function>\\n\" closes"}},             \
    .first = "opens \"\\n<function=\" call \"</function>\\n\" closes", .more = "\"\\n\" first",    \
    .rules = RULES_TAGS
/* Before an answer, templates for SentencePiece have a blank, which belongs to the answer's first
 * token. */
#define BLANK "\" \"?"
#define LIST                                                                                       \
    .openings = {{"[TOOL_CALLS]", "list"}}, .first = "opens list", .ends = true,                   \
    .rules = RULES_INST

static const guide_form forms[] = {
    {.name = "", HERMES},
    {.name = "llama2", HERMES, .document = BLANK},
    {.name = "mistral-v1", HERMES, .document = BLANK},
    {.name = "chatml", HERMES, .thinks = THINKS_FIRST},
    {.name = "qwen3", HERMES, .thinks = THINKS_FIRST},
    {.name = "qwen3-open", HERMES, .thinks = THINKS_OPEN},
    /* For a template with marks of its own; they are in the maker. */
    {.name = "{", .style = CALL_MARKED, .thinks = THINKS_FIRST, .first = "opens call",
     .more = "gap again call"},
    {.name = "{open", .style = CALL_MARKED, .thinks = THINKS_OPEN, .first = "opens call",
     .more = "gap again call"},
    {.name = "{json", .style = CALL_PROBED, .thinks = THINKS_FIRST, .first = "opens call",
     .more = "between call"},
    {.name = "{json-open", .style = CALL_PROBED, .thinks = THINKS_OPEN, .first = "opens call",
     .more = "between call"},
    {.name = "none", .style = CALL_NONE, .thinks = THINKS_FIRST},
    {.name = "none-open", .style = CALL_NONE, .thinks = THINKS_OPEN},
    {.name = "qwen3-coder", XML, .thinks = THINKS_FIRST},
    {.name = "qwen3.5", XML, .thinks = THINKS_OPEN},
    {.name = "llama3.1", .style = CALL_LINE,
     .openings = {{"\n{\"name\": \"", "call"}, {"; {\"name\": \"", "call"},
                  {"<|python_tag|>", "first"}},
     .first = "\"{\\\"name\\\": \\\"\" call", .more = "\"; \" first", .beginning = "first",
     .rules = ""},
    {.name = "mistral-v3", .style = CALL_LIST, LIST, .document = BLANK},
    {.name = "mistral-v3-tekken", .style = CALL_LIST, LIST},
    {.name = "mistral-v7", .style = CALL_LIST, LIST, .thinks = THINKS_FIRST, .document = BLANK},
    {.name = "mistral-v7-tekken", .style = CALL_NAMED, .thinks = THINKS_FIRST,
     .openings = {{"[TOOL_CALLS]", "call"}}, .first = "opens call", .more = "first",
     .rules = RULES_INST},
    {.name = "harmony", .style = CALL_CHANNEL,
     .openings = {{"<|channel|>commentary to=functions.", "call"},
                  {"<|channel|>analysis to=functions.", "call"},
                  {"<|start|>assistant to=functions.", "call"}},
     .first = "(<|channel|> \"commentary to=functions.\" | \" to=functions.\") call",
     .beginning = "\" to=functions.\" call", .ends = true,
     .document = "<|channel|> \"final\" <|message|>", .rules = RULES_HARMONY},
};

static const guide_form *find_form(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(forms); i++)
        if (!strcmp(forms[i].name, name)) return &forms[i];
    return &forms[0]; /* as in the reader */
}

static const char *form_of(const call_marks *marks)
{
    if (marks->json) return marks->opens_thought ? "{json-open" : "{json";
    return marks->opens_thought ? "{open" : "{";
}

static bool is_inst(const guide_form *form)
{
    return form->style == CALL_LIST || form->style == CALL_NAMED;
}

/* ---- grammars ---- */

typedef struct {
    const protocol_request *r;
    const guide_form *form;
    thinking thinks;
    call_marks marks; /* of CALL_MARKED and CALL_PROBED, else zeros */
    bool calls;    /* at least one tool may be called */
    bool document; /* the answer has a format */
    bool loose;    /* only the type of its schema is enforced: no grammar can be made of it */
    json_out text; /* all grammars one after the other */
} maker;

static void put_mark_rules(maker *m)
{
    json_out *t = &m->text;
    json_out_literal(t, "opens: ");
    if (*m->marks.section) {
        guide_put_mark(t, m->marks.section);
        json_out_literal(t, "gap ");
    }
    json_out_literal(t, "again\nagain: ");
    guide_put_mark(t, m->marks.open);
    json_out_literal(t, "\n");
    if (m->form->style != CALL_PROBED) return;
    json_out_literal(t, "between: ");
    if (*m->marks.between) guide_put_mark(t, m->marks.between);
    json_out_literal(t, "again\ncloses: gap ");
    guide_put_mark(t, m->marks.section_end);
    json_out_literal(t, "\n");
}

/* Each grammar is complete, with the rules that it needs. */
static void put_rules(maker *m)
{
    json_out_literal(&m->text, "\n");
    if (!m->calls) return;
    if (m->marks.open) put_mark_rules(m);
    else json_out_put(&m->text, view_of(m->form->rules));
    json_out_literal(&m->text, "first: ");
    json_out_put(&m->text, view_of(m->form->first));
    json_out_literal(&m->text, "\n");
    guide_put_calls(&m->text, m->r, m->form->style, &m->marks);
}

static void put_thought(maker *m)
{
    guide_put_avoiding(&m->text, is_inst(m->form) ? "[/THINK" : "</think");
    json_out_put(&m->text, is_inst(m->form) ? VIEW(" (\"[/THINK]\" | <\"[/THINK]\">)")
                                             : VIEW(" (\"</think>\" | <\"</think>\">)"));
}

/* The text before calls and documents if the answer must be one of these. */
static void put_before(maker *m)
{
    json_out *t = &m->text;
    if (m->form->style == CALL_CHANNEL)
        json_out_literal(t, "(<|channel|> \"analysis\" <|message|> /.*/s <|end|> <|start|> "
                            "\"assistant\")? ");
    if (m->thinks == THINKS_NEVER) return;
    if (m->thinks == THINKS_FIRST)
        json_out_put(t, is_inst(m->form) ? VIEW("((\"[THINK]\" | <\"[THINK]\">) ")
                                          : VIEW("((\"<think>\" | <\"<think>\">) "));
    put_thought(m);
    json_out_literal(t, " /\\n{0,2}/");
    json_out_put(t, m->thinks == THINKS_FIRST ? VIEW(")? ") : VIEW(" "));
}

/* The continuation directly after a call. */
static void put_more(maker *m)
{
    if (m->form->more && !m->r->one_call) {
        json_out_literal(&m->text, " (");
        json_out_put(&m->text, view_of(m->form->more));
        json_out_literal(&m->text, ")*");
    }
    if (m->form->style == CALL_PROBED && *m->marks.section_end)
        json_out_literal(&m->text, " closes");
}

/* All calls of an answer. */
static void put_all_calls(maker *m)
{
    json_out_literal(&m->text, "first");
    put_more(m);
}

static void put_document(maker *m)
{
    json_out *t = &m->text;
    const protocol_request *r = m->r;
    if (r->grammar.text) {
        json_out_literal(t, "%text {\"syntax\":");
        json_out_string(t, r->grammar.syntax);
        json_out_literal(t, ",\"grammar\":");
        json_out_string(t, r->grammar.text);
        json_out_literal(t, "}");
        return;
    }
    const json_t *type = json_object_get(r->schema, "type");
    json_out_literal(t, "%json ");
    if (r->schema && m->loose) {
        json_out_literal(t, "{");
        if (type) json_out_literal(t, "\"type\":"), json_out_value(t, type);
        json_out_literal(t, "}");
    } else if (r->schema) json_out_value(t, r->schema);
    else json_out_literal(t, "{\"type\":\"object\"}");
}

/* The answer is only a document, or calls. */
static void put_whole(maker *m)
{
    json_out *t = &m->text;
    json_out_literal(t, "start: ");
    put_before(m);
    json_out_literal(t, "(");
    if (m->calls) put_all_calls(m);
    if (m->document && !m->r->call_required) {
        if (m->calls) json_out_literal(t, " | ");
        if (m->form->document) json_out_put(t, view_of(m->form->document));
        json_out_literal(t, " ");
        put_document(m);
    }
    json_out_literal(t, ")");
    put_rules(m);
}

typedef struct {
    size_t from, to;
} span;

static span add_trigger(maker *m, protocol_guide *g, const opening *opens)
{
    span at = {m->text.b.len, 0};
    bool one = m->form->ends || !m->form->more || m->r->one_call;
    g->triggers[g->n_triggers++] = (protocol_trigger){.text = opens->text, .ends = one};
    json_out_literal(&m->text, "start: ");
    json_out_put(&m->text, view_of(opens->rest));
    if (m->form->style == CALL_PROBED && *m->marks.section) put_more(m);
    put_rules(m);
    at.to = m->text.b.len;
    return at;
}

/* A thought is free text; calls in it do not count. */
static span add_thought(maker *m, protocol_guide *g)
{
    span at = {m->text.b.len, 0};
    g->triggers[g->n_triggers++] =
        (protocol_trigger){.text = is_inst(m->form) ? "[THINK]" : "<think>"};
    json_out_literal(&m->text, "start: ");
    put_thought(m);
    json_out_literal(&m->text, "\n");
    at.to = m->text.b.len;
    return at;
}

/* The beginning of an answer that is free afterwards. */
static void put_beginning(maker *m)
{
    json_out *t = &m->text;
    if (m->thinks != THINKS_OPEN && !m->form->beginning) return;
    json_out_literal(t, "start: ");
    if (m->thinks == THINKS_OPEN) {
        put_thought(m);
        json_out_literal(t, "\n");
        return;
    }
    json_out_literal(t, "(");
    json_out_put(t, view_of(m->form->beginning));
    json_out_literal(t, ")?");
    put_rules(m);
}

/* Free text, and calls after text that opens one. */
static void put_free(maker *m, protocol_guide *g)
{
    span at[PROTOCOL_TRIGGERS_MAX];
    bool sections = m->marks.open && *m->marks.section;
    const opening own[PROTOCOL_TRIGGERS_MAX] = {
        {sections ? m->marks.section : m->marks.open, sections ? "gap again call" : "call"}};
    const opening *opens = m->marks.open ? own : m->form->openings;
    put_beginning(m);
    size_t head = m->text.b.len;
    for (size_t i = 0; i < PROTOCOL_TRIGGERS_MAX && opens[i].text; i++) {
        bool same = i && !strcmp(opens[i].rest, opens[i - 1].rest);
        size_t n = g->n_triggers;
        if (same) {
            g->triggers[n] = g->triggers[n - 1];
            g->triggers[n].text = opens[i].text;
            at[n] = at[n - 1];
            g->n_triggers++;
        } else {
            at[n] = add_trigger(m, g, &opens[i]);
        }
    }
    size_t n = g->n_triggers;
    if (m->thinks == THINKS_FIRST) at[n] = add_thought(m, g);
    const char *text = m->text.b.ptr;
    g->grammar = (view){text, head};
    for (size_t i = 0; i < g->n_triggers && text; i++)
        g->triggers[i].grammar = (view){text + at[i].from, at[i].to - at[i].from};
}

static bool any_callable(const protocol_request *r)
{
    if (r->tools_barred) return false;
    for (size_t i = 0; i < r->n_tools; i++)
        if (!r->callable || r->callable[i]) return true;
    return false;
}

bool protocol_has_format(const protocol_request *r)
{
    return r->schema || r->wants_object || r->grammar.text;
}

int protocol_guide_make(protocol_guide *out, const protocol_request *r, const char *chat_form,
                        bool loose_document)
{
    CHECK(out && r && chat_form);
    maker m = {.r = r, .calls = any_callable(r), .loose = loose_document};
    bool marked = call_marks_read(&m.marks, chat_form);
    *out = (protocol_guide){.n_triggers = 0};
    if (!marked && chat_form[0] == '{') return CERIUM_ERR_MEMORY;
    m.form = find_form(!marked ? chat_form : form_of(&m.marks));
    m.calls = m.calls && m.form->style != CALL_NONE;
    m.thinks = r->prefill || r->think == PROTOCOL_THINK_OFF ? THINKS_NEVER : m.form->thinks;
    m.document = protocol_has_format(r);
    if (!m.calls && !m.document) {
        call_marks_free(&m.marks);
        return CERIUM_OK;
    }
    m.text.b.max = PROTOCOL_GUIDE_BYTES_MAX;
    if (!r->talks) {
        json_out_literal(&m.text, "start: ");
        put_document(&m);
        json_out_literal(&m.text, "\n");
        out->grammar = json_out_view(&m.text);
    } else if (m.document || r->call_required) {
        put_whole(&m);
        out->grammar = json_out_view(&m.text);
    } else {
        put_free(&m, out);
    }
    int status = m.text.status;
    if (status) {
        json_out_free(&m.text);
        call_marks_free(&m.marks);
        *out = (protocol_guide){.n_triggers = 0};
        return status;
    }
    out->text = m.text.b;
    out->marks = m.marks.owner;
    return CERIUM_OK;
}

void protocol_guide_free(protocol_guide *guide)
{
    bytes_free(&guide->text);
    json_decref(guide->marks);
    *guide = (protocol_guide){.n_triggers = 0};
}

/* ---- one tool ---- */

view protocol_tool_grammar(const protocol_request *r, size_t tool, cerium_grammar_syntax *syntax)
{
    CHECK(tool < r->n_tools);
    const struct protocol_tool *facts = &r->tool_set->facts[tool];
    if (facts->kind == PROTOCOL_TOOL_CUSTOM) {
        bool regex = facts->syntax && !strcmp(facts->syntax, "regex");
        *syntax = regex ? CERIUM_GRAMMAR_REGEX : CERIUM_GRAMMAR_LARK;
        return view_of(facts->grammar);
    }
    *syntax = CERIUM_GRAMMAR_JSON_SCHEMA;
    return facts->schema && !facts->loose ? view_of(r->tools[tool].parameters) : VIEW("");
}

bool protocol_tool_may_loosen(const protocol_request *r, size_t tool)
{
    CHECK(tool < r->n_tools);
    const struct protocol_tool *facts = &r->tool_set->facts[tool];
    return !facts->strict && facts->kind != PROTOCOL_TOOL_CUSTOM;
}

bool protocol_tool_is_loose(const protocol_request *r, size_t tool)
{
    CHECK(tool < r->n_tools);
    return r->tool_set->facts[tool].loose;
}

void protocol_tool_loosen(const protocol_request *r, size_t tool)
{
    CHECK(protocol_tool_may_loosen(r, tool));
    r->tool_set->facts[tool].loose = true;
}
