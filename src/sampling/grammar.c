/* grammar.c - chooses the front end for a grammar's text. */
#include "sampling/grammar.h"

#include "sampling/grammar_codes.h"
#include "sampling/grammar_lark.h"
#include "sampling/schema.h"

static uint32_t grammar_read_text(grammar_builder *b, cerium_grammar_syntax syntax, view text)
{
    switch (syntax) {
    case CERIUM_GRAMMAR_JSON_SCHEMA:
        return expr_schema(b, text, "");
    case CERIUM_GRAMMAR_REGEX:
        return expr_regex(b, text, (regex_options){.form = CODES_RAW}, "");
    case CERIUM_GRAMMAR_LARK:
        return expr_lark(b, text);
    case CERIUM_GRAMMAR_GBNF:
        return expr_gbnf(b, text);
    }
    return EXPR_NEVER;
}

typedef struct {
    cerium_grammar_syntax syntax;
    view text;
    bool forgives, is_careful;
} source;

static const char *const names[] = {"schema", "regex", "lark", "gbnf"};

static int compile_once(grammar **out, const source *from, cerium_error *err)
{
    grammar_builder b;
    builder_open(&b, names[from->syntax], err);
    b.forgives = from->forgives;
    b.is_careful = from->is_careful;
    uint32_t expr = grammar_read_text(&b, from->syntax, from->text), root = rule_new(&b);
    rule_set(&b, root, expr);
    int status = builder_finish(&b, root, out);
    if (!status) {
        (*out)->notes = b.notes.ptr;
        (*out)->notes_len = b.notes.len;
        b.notes = (bytes){0};
    }
    builder_close(&b);
    return status;
}

static int grammar_compile_one(grammar **out, source from, cerium_error *err)
{
    uint64_t start = clock_ns();
    if ((int)from.syntax < 0 || (size_t)from.syntax >= ARRAY_LEN(names))
        return error_set(err, CERIUM_ERR_ARGUMENT, "syntax %d of a grammar: there are 0 to %zu",
                         (int)from.syntax, ARRAY_LEN(names) - 1);
    if (from.text.len > GRAMMAR_TEXT_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: %zu bytes: at most %u", names[from.syntax],
                         from.text.len, GRAMMAR_TEXT_BYTES_MAX);
    int status = compile_once(out, &from, err);
    if (status == CERIUM_ERR_CAPACITY) { /* too large together: retry without the large parts */
        from.is_careful = true;
        cerium_error again;
        if (!compile_once(out, &from, &again)) status = CERIUM_OK;
    }
    if (!status) (*out)->compile_ns = clock_ns() - start;
    return status;
}

int grammar_compile(grammar **out, cerium_grammar_syntax syntax, view text, cerium_error *err)
{
    return grammar_compile_one(out, (source){.syntax = syntax, .text = text}, err);
}

int grammar_compile_forgiving(grammar **out, cerium_grammar_syntax syntax, view text,
                              cerium_error *err)
{
    return grammar_compile_one(out, (source){.syntax = syntax, .text = text, .forgives = true},
                               err);
}
