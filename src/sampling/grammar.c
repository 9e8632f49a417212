/* grammar.c - which front end reads a grammar's text. */
#include "sampling/grammar.h"

#include "sampling/grammar_codes.h"
#include "sampling/grammar_lark.h"
#include "sampling/schema.h"

static uint32_t read_text(grammar_builder *b, cerium_grammar_syntax syntax, view text)
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

int grammar_compile(grammar **out, cerium_grammar_syntax syntax, view text, cerium_error *err)
{
    static const char *const names[] = {"schema", "regex", "lark", "gbnf"};
    grammar_builder b;
    uint64_t start = clock_ns();
    if ((int)syntax < 0 || (size_t)syntax >= ARRAY_LEN(names))
        return error_set(err, CERIUM_ERR_ARGUMENT, "syntax %d of a grammar: there are 0 to %zu",
                         (int)syntax, ARRAY_LEN(names) - 1);
    if (text.len > GRAMMAR_TEXT_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: %zu bytes: at most %u", names[syntax],
                         text.len, GRAMMAR_TEXT_BYTES_MAX);
    builder_open(&b, names[syntax], err);
    uint32_t expr = read_text(&b, syntax, text), root = rule_new(&b);
    rule_set(&b, root, expr);
    int status = builder_finish(&b, root, out);
    builder_close(&b);
    if (!status) (*out)->compile_ns = clock_ns() - start;
    return status;
}
