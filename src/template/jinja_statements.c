/* jinja_statements.c - owns statements as trees, and building a template's tree from its text. */
#include "template/jinja_tree.h"

static const jinja_node *parse_until(jinja_parser *p, const char *const *ends, size_t n);

#define UNTIL(p, ...)                                                                              \
    parse_until((p), (const char *const[]){__VA_ARGS__},                                           \
                ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

/* {% name %}: the name and the end of the tag. */
static void expect_end(jinja_parser *p)
{
    jinja_advance(p);
    jinja_expect(p, TOK_BLOCK_END);
}

/* The end of the tag, the body of the statement, and its end tag. */
static void parse_block(jinja_parser *p, jinja_node *out, const char *end)
{
    jinja_expect(p, TOK_BLOCK_END);
    out->body = UNTIL(p, end);
    expect_end(p);
}

/* Up to the end of the statement, with the body of its else. */
static const jinja_node *parse_else(jinja_parser *p, const char *end)
{
    const jinja_node *otherwise = NULL;
    if (jinja_at_name(p, "else")) {
        expect_end(p);
        otherwise = UNTIL(p, end);
    }
    expect_end(p);
    return otherwise;
}

static const jinja_node *parse_if(jinja_parser *p)
{
    jinja_node *first = jinja_new(p, NODE_IF), *out = first;
    for (;;) {
        jinja_advance(p);
        out->a = jinja_tuple(p, false);
        jinja_expect(p, TOK_BLOCK_END);
        out->body = UNTIL(p, "elif", "else", "endif");
        if (p->status || !jinja_at_name(p, "elif")) break;
        jinja_node *next = jinja_new(p, NODE_IF);
        out->otherwise = next;
        out = next;
    }
    out->otherwise = parse_else(p, "endif");
    return first;
}

static const jinja_node *parse_for(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_FOR);
    jinja_advance(p);
    out->a = jinja_target(p, false);
    if (!jinja_at_name(p, "in"))
        jinja_parse_fail(p, p->token.line, "expected 'in', found %s",
                         jinja_token_name(p->token.kind));
    jinja_advance(p);
    out->b = jinja_tuple(p, false);
    if (jinja_at_name(p, "if")) {
        jinja_advance(p);
        out->c = jinja_expression(p);
    }
    if (jinja_at_name(p, "recursive")) {
        jinja_advance(p);
        out->flag = true;
    }
    jinja_expect(p, TOK_BLOCK_END);
    p->loops++;
    out->body = UNTIL(p, "else", "endfor");
    p->loops--;
    out->otherwise = parse_else(p, "endfor");
    return out;
}

static const jinja_node *parse_set(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_SET);
    jinja_advance(p);
    out->a = jinja_target(p, true);
    if (jinja_at(p, TOK_ASSIGN)) {
        jinja_advance(p);
        out->b = jinja_tuple(p, true);
        jinja_expect(p, TOK_BLOCK_END);
        return out;
    }
    out->kind = NODE_SET_BLOCK;
    if (jinja_at(p, TOK_PIPE)) out->b = jinja_filter_chain(p, NULL, false);
    parse_block(p, out, "endset");
    return out;
}

/* (a, b=1): a list of NODE_KEYWORD. */
static void parse_signature(jinja_parser *p, jinja_node *macro)
{
    const jinja_node **tail = &macro->list;
    jinja_expect(p, TOK_LPAREN);
    while (!p->status && !jinja_at(p, TOK_RPAREN)) {
        if (macro->list) jinja_expect(p, TOK_COMMA);
        if (jinja_at(p, TOK_RPAREN)) break;
        jinja_node *one = jinja_new(p, NODE_KEYWORD);
        one->name = p->token.text;
        if (jinja_at(p, TOK_NAME)) one->symbol = jinja_symbol_of(p, p->token.text);
        jinja_expect(p, TOK_NAME);
        if (jinja_at(p, TOK_ASSIGN)) {
            jinja_advance(p);
            one->a = jinja_expression(p);
        }
        if (p->status) return;
        *tail = one;
        tail = &one->next;
    }
    jinja_expect(p, TOK_RPAREN);
}

static const jinja_node *parse_macro(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_MACRO);
    jinja_advance(p);
    out->name = p->token.text;
    if (jinja_at(p, TOK_NAME)) out->symbol = jinja_symbol_of(p, p->token.text);
    jinja_expect(p, TOK_NAME);
    parse_signature(p, out);
    jinja_expect(p, TOK_BLOCK_END);
    uint32_t loops = p->loops;
    p->loops = 0;
    out->body = UNTIL(p, "endmacro");
    p->loops = loops;
    jinja_advance(p);
    if (jinja_at(p, TOK_NAME)) jinja_advance(p); /* {% endmacro name %} */
    jinja_expect(p, TOK_BLOCK_END);
    return out;
}

static const jinja_node *parse_call_block(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_CALL_BLOCK);
    jinja_advance(p);
    if (jinja_at(p, TOK_LPAREN)) parse_signature(p, out);
    out->a = jinja_expression(p);
    if (!p->status && out->a->kind != NODE_CALL)
        jinja_parse_fail(p, out->line, "{%% call %%} wants a call");
    parse_block(p, out, "endcall");
    return out;
}

static const jinja_node *parse_filter_block(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_FILTER_BLOCK);
    jinja_advance(p);
    out->b = jinja_filter_chain(p, NULL, true);
    parse_block(p, out, "endfilter");
    return out;
}

static const jinja_node *parse_with(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_WITH);
    const jinja_node **tail = &out->list;
    jinja_advance(p);
    while (!p->status && !jinja_at(p, TOK_BLOCK_END)) {
        if (out->list) jinja_expect(p, TOK_COMMA);
        jinja_node *one = jinja_new(p, NODE_SET);
        one->a = jinja_target(p, false);
        jinja_expect(p, TOK_ASSIGN);
        one->b = jinja_expression(p);
        if (p->status) return out;
        *tail = one;
        tail = &one->next;
    }
    parse_block(p, out, "endwith");
    return out;
}

static const jinja_node *parse_generation(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_SCOPE);
    expect_end(p);
    out->body = UNTIL(p, "endgeneration");
    expect_end(p);
    return out;
}

static const jinja_node *parse_jump(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, jinja_at_name(p, "break") ? NODE_BREAK : NODE_CONTINUE);
    if (!p->loops)
        jinja_parse_fail(p, p->token.line, "{%% %.*s %%} outside of a loop",
                         (int)p->token.text.len, p->token.text.ptr);
    expect_end(p);
    return out;
}

static const jinja_node *parse_statement(jinja_parser *p)
{
    static const struct {
        const char *name;
        const jinja_node *(*parse)(jinja_parser *p);
    } statements[] = {
        {"if", parse_if}, {"for", parse_for}, {"set", parse_set}, {"macro", parse_macro},
        {"call", parse_call_block}, {"filter", parse_filter_block}, {"with", parse_with},
        {"generation", parse_generation}, {"break", parse_jump}, {"continue", parse_jump},
    };
    for (size_t i = 0; i < ARRAY_LEN(statements); i++)
        if (jinja_at_name(p, statements[i].name)) return statements[i].parse(p);
    if (jinja_at(p, TOK_NAME))
        jinja_parse_fail(p, p->token.line, "the tag '%.*s' is unknown here",
                         (int)(p->token.text.len < 64 ? p->token.text.len : 64),
                         p->token.text.ptr);
    else jinja_expect(p, TOK_NAME);
    return jinja_new(p, NODE_SCOPE);
}

static const jinja_node *parse_print(jinja_parser *p)
{
    jinja_node *out = jinja_new(p, NODE_PRINT);
    jinja_advance(p);
    out->a = jinja_tuple(p, true);
    jinja_expect(p, TOK_PRINT_END);
    return out;
}

/* Statements up to a tag with one of the names; then its name is the current token. */
static const jinja_node *parse_until(jinja_parser *p, const char *const *ends, size_t n)
{
    const jinja_node *first = NULL, **tail = &first;
    uint32_t line = p->token.line;
    if (++p->nesting > JINJA_NESTING_MAX)
        jinja_parse_fail(p, line, "nested deeper than %u", JINJA_NESTING_MAX);
    while (!p->status) {
        const jinja_node *one = NULL;
        if (jinja_at(p, TOK_END)) {
            if (n) jinja_parse_fail(p, line, "{%% %s %%} is missing", ends[n - 1]);
            break;
        }
        if (jinja_at(p, TOK_DATA)) {
            jinja_node *data = jinja_new(p, NODE_DATA);
            data->name = p->token.text;
            jinja_advance(p);
            one = data;
        } else if (jinja_at(p, TOK_PRINT)) {
            one = parse_print(p);
        } else {
            jinja_advance(p); /* {% */
            for (size_t i = 0; i < n; i++)
                if (jinja_at_name(p, ends[i])) {
                    p->nesting--;
                    return first;
                }
            one = parse_statement(p);
        }
        if (p->status) break;
        *tail = one;
        tail = (const jinja_node **)(uintptr_t)&one->next;
    }
    p->nesting--;
    return first;
}

static const jinja_node *jinja_parse_body(jinja_parser *p)
{
    jinja_advance(p);
    return parse_until(p, NULL, 0);
}

/* ---- templates ---- */

/* Line feeds for carriage returns, and none at the end. */
static view normalize(jinja_pool *pool, view source)
{
    char *to = jinja_take(pool, source.len);
    size_t n = 0;
    if (!to) return (view){0};
    for (size_t i = 0; i < source.len; i++) {
        if (source.ptr[i] == '\r') {
            to[n++] = '\n';
            if (i + 1 < source.len && source.ptr[i + 1] == '\n') i++;
        } else {
            to[n++] = source.ptr[i];
        }
    }
    if (n && to[n - 1] == '\n') n--;
    return (view){to, n};
}

static int parse(jinja_template *t, view source, jinja_error *err)
{
    static const char *const known[SYMBOLS_KNOWN] = {
        "loop", "caller", "varargs", "kwargs", "namespace", "range", "dict", "raise_exception",
        "strftime_now", "cycler", "joiner",
    };
    jinja_parser p = {.t = t, .err = err};
    t->source = normalize(&t->pool, source);
    if (!t->source.ptr) return CERIUM_ERR_MEMORY;
    jinja_lexer_open(&p.lexer, t->source, &t->pool, err);
    for (size_t i = 0; i < SYMBOLS_KNOWN; i++) jinja_symbol_of(&p, view_of(known[i]));
    t->body = jinja_parse_body(&p);
    return p.status;
}

int jinja_compile(jinja_template **out, view source, jinja_error *err)
{
    CHECK(out && err && (source.ptr || !source.len));
    *err = (jinja_error){.failure = JINJA_FAILED};
    if (source.len > JINJA_SOURCE_BYTES_MAX) {
        err->failure = JINJA_EXCEEDED;
        snprintf(err->message, sizeof err->message, "a template of %zu bytes; at most %u",
                 source.len, JINJA_SOURCE_BYTES_MAX);
        return CERIUM_ERR_FORMAT;
    }
    jinja_template *t = memory_zalloc(1, sizeof *t);
    if (!t) return CERIUM_ERR_MEMORY;
    t->pool.max = JINJA_TREE_BYTES_MAX;
    int status = parse(t, source, err);
    if (status) jinja_free(&t);
    else *out = t;
    return status;
}

void jinja_free(jinja_template **t)
{
    if (!t || !*t) return;
    jinja_pool_free(&(*t)->pool);
    memory_free(*t);
    *t = NULL;
}

bool jinja_mentions(const jinja_template *t, view word)
{
    return t->source.len && word.len &&
           memmem(t->source.ptr, t->source.len, word.ptr, word.len) != NULL;
}
