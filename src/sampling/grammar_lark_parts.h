/* grammar_lark_parts.h - shared by the parts of the front end for Lark's notation. */
#ifndef SAMPLING_GRAMMAR_LARK_PARTS_H
#define SAMPLING_GRAMMAR_LARK_PARTS_H

#include "sampling/grammar_lark.h"

enum { PARAMETERS_MAX = 16, USES_MAX = 4096 };

typedef struct {
    view name, parameters[PARAMETERS_MAX];
    uint32_t n_parameters;
    size_t at; /* its text */
} lark_template;

typedef struct {
    view name;
    uint32_t arguments[PARAMETERS_MAX], n_arguments, rule; /* arguments: rules */
    size_t at; /* for errors */
} lark_use;

typedef struct {
    notation n;
    code_form form;   /* the spelling of its texts in the input */
    uint32_t within;  /* grammars around this one */
    bool in_terminal; /* parsing a part of a terminal */
    uint32_t ignored; /* the rule for text between terminals, or NONE */
    bytes ignores;    /* expressions of %ignore */
    bytes templates;  /* lark_template */
    bytes uses;       /* lark_use: each a rule */
    const lark_template *of; /* whose text is being read, */
    const uint32_t *arguments;      /* with these; NULL: none */
} lark;

void lark_skip_blanks(lark *l, bool lines_too);
/* At the end of a line: whether the next line continues with '|'; if so, move there. */
bool lark_continues(lark *l);
bool lark_is_terminal_name(view name);
/* Alternatives, up to a bracket that closes or the end of the line. */
uint32_t lark_expansions(lark *l);

/* After "%extend" and "%override": what a name has that is defined already, by import or here. */
void lark_redefinition(lark *l, bool is_more);
/* After "%declare": names of texts that come from elsewhere, which a grammar may not use. */
void lark_declaration(lark *l);

/* grammar_template.c: after the name and '{' of a use or a definition. */
uint32_t lark_template_use(lark *l, view name);
void lark_template_definition(lark *l, view name);
/* The rules of all uses, once all templates are known. */
void lark_make_uses(lark *l);

#endif
