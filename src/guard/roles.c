/* roles.c - the meaning of each grammar's nodes. */
#include <pthread.h>

#include "guard/tree.h"

/* A build without a grammar lacks its function; the linker sets it to NULL. */
#define GRAMMAR(name) __attribute__((weak)) const TSLanguage *tree_sitter_##name(void);
GRAMMAR(python) GRAMMAR(javascript) GRAMMAR(typescript) GRAMMAR(tsx) GRAMMAR(java) GRAMMAR(go)
GRAMMAR(c) GRAMMAR(cpp) GRAMMAR(php) GRAMMAR(ruby)

#define SCRIPTS (1u << GUARD_JAVASCRIPT | 1u << GUARD_TYPESCRIPT | 1u << GUARD_TSX)
#define TYPED (1u << GUARD_TYPESCRIPT | 1u << GUARD_TSX)
#define CS (1u << GUARD_C | 1u << GUARD_CPP)
#define PY (1u << GUARD_PYTHON)
#define JAVA (1u << GUARD_JAVA)
#define GO (1u << GUARD_GO)
#define CPP (1u << GUARD_CPP)
#define PHP (1u << GUARD_PHP)
#define RUBY (1u << GUARD_RUBY)
#define ALL (~0u)

static const struct {
    uint32_t languages;
    node_role role;
    const char *names; /* separated by blanks */
} table[] = {
    {ALL, NODE_SKIP, "comment line_comment block_comment type_annotation type_arguments "
                     "type_parameters text text_interpolation php_tag package_clause "
                     "package_declaration marker_annotation annotation superclass "
                     "format_specifier type_conversion preproc_include preproc_def type "
                     "interface_declaration type_alias_declaration"},
    {JAVA, NODE_SKIP, "import_declaration"},
    {CPP, NODE_SKIP, "using_declaration"},
    {PHP, NODE_SKIP, "namespace_use_declaration namespace_definition"},
    /* functions */
    {PY, NODE_FUNCTION, "function_definition lambda"},
    {SCRIPTS, NODE_FUNCTION, "function_declaration function_expression arrow_function "
                             "method_definition generator_function "
                             "generator_function_declaration"},
    {TYPED, NODE_SIGNATURE, "method_signature function_signature"},
    {JAVA, NODE_FUNCTION, "method_declaration constructor_declaration lambda_expression"},
    {GO, NODE_FUNCTION, "function_declaration method_declaration func_literal"},
    {CS, NODE_FUNCTION, "function_definition lambda_expression"},
    {PHP, NODE_FUNCTION, "function_definition method_declaration anonymous_function "
                         "arrow_function"},
    {RUBY, NODE_FUNCTION, "method singleton_method lambda block do_block"},
    {PY, NODE_DECORATED, "decorated_definition"},
    {ALL, NODE_PARAMS, "parameters lambda_parameters formal_parameters parameter_list "
                       "inferred_parameters method_parameters block_parameters"},
    {ALL, NODE_PARAM, "default_parameter typed_parameter typed_default_parameter "
                      "required_parameter optional_parameter formal_parameter spread_parameter "
                      "parameter_declaration variadic_parameter_declaration "
                      "optional_parameter_declaration simple_parameter variadic_parameter "
                      "property_promotion_parameter keyword_parameter splat_parameter "
                      "hash_splat_parameter block_parameter"},
    /* calls */
    {ALL, NODE_CALL, "call call_expression method_invocation function_call_expression "
                     "member_call_expression nullsafe_member_call_expression "
                     "scoped_call_expression"},
    {ALL, NODE_NEW, "new_expression object_creation_expression"},
    {ALL, NODE_ARGS, "argument_list arguments"},
    {PHP, NODE_ECHO, "echo_statement print_intrinsic exit_statement"},
    {PHP, NODE_INCLUDE, "include_expression include_once_expression require_expression "
                        "require_once_expression"},
    {PHP, NODE_SHELL, "shell_command_expression"},
    {RUBY, NODE_SHELL, "subshell"},
    /* names and parts */
    {ALL, NODE_MEMBER, "attribute member_expression field_access selector_expression "
                       "field_expression qualified_identifier member_access_expression "
                       "nullsafe_member_access_expression scoped_property_access_expression "
                       "class_constant_access_expression scope_resolution qualified_type "
                       "scoped_identifier"},
    {ALL, NODE_SUBSCRIPT, "subscript subscript_expression array_access index_expression "
                          "slice_expression element_reference"},
    {ALL, NODE_NAME, "identifier property_identifier private_property_identifier this self super "
                     "shorthand_property_identifier shorthand_property_identifier_pattern "
                     "type_identifier scoped_type_identifier field_identifier package_identifier "
                     "namespace_identifier variable_name name qualified_name constant "
                     "instance_variable class_variable global_variable relative_scope"},
    /* values */
    {ALL, NODE_STRING, "string concatenated_string template_string string_literal "
                       "interpreted_string_literal raw_string_literal encapsed_string heredoc "
                       "nowdoc chained_string heredoc_body regex bare_string"},
    {ALL, NODE_TEXT, "string_content string_fragment escape_sequence heredoc_content string_start "
                     "string_end heredoc_end nowdoc_string raw_string_content "
                     "multiline_string_fragment interpreted_string_literal_content "
                     "raw_string_literal_content heredoc_start regex_pattern regex_flags "
                     "raw_string_delimiter"},
    {RUBY, NODE_HEREDOC, "heredoc_beginning"},
    {ALL, NODE_CONST, "integer float true false none number null undefined null_literal "
                      "decimal_integer_literal hex_integer_literal octal_integer_literal "
                      "binary_integer_literal decimal_floating_point_literal character_literal "
                      "class_literal int_literal float_literal imaginary_literal rune_literal nil "
                      "iota char_literal number_literal sizeof_expression boolean simple_symbol "
                      "hash_key_symbol delimited_symbol symbol_array string_array character "
                      "rational complex ellipsis"},
    {ALL, NODE_BINARY, "binary_operator boolean_operator binary_expression binary"},
    {ALL, NODE_COMPARE, "comparison_operator instanceof_expression"},
    {ALL, NODE_NOT, "not_operator unary_expression unary unary_op_expression"},
    {ALL, NODE_TERNARY, "conditional_expression ternary_expression conditional"},
    {ALL, NODE_CAST, "cast_expression type_conversion_expression"},
    {ALL, NODE_LIST, "list tuple set array expression_list array_initializer initializer_list "
                     "array_creation_expression pattern_list tuple_pattern list_pattern "
                     "left_assignment_list right_assignment_list list_literal array_pattern "
                     "object_pattern literal_value"},
    {ALL, NODE_DICT, "dictionary object hash composite_literal"},
    {ALL, NODE_PAIR, "pair keyword_argument keyed_element jsx_attribute pair_pattern "
                     "array_element_initializer"},
    /* statements */
    {ALL, NODE_ASSIGN, "assignment named_expression variable_declarator assignment_expression "
                       "public_field_definition field_definition short_var_declaration "
                       "assignment_statement var_spec const_spec init_declarator resource "
                       "const_element property_element"},
    {ALL, NODE_UPDATE, "augmented_assignment augmented_assignment_expression operator_assignment"},
    {PY, NODE_AS, "as_pattern"},
    {ALL, NODE_IF, "if_statement elif_clause else_if_clause if elsif if_modifier"},
    {RUBY, NODE_UNLESS, "unless unless_modifier"},
    {ALL, NODE_SWITCH, "switch_statement switch_expression expression_switch_statement case "
                       "match_statement match_expression"},
    {ALL, NODE_CASE, "switch_case switch_default switch_block_statement_group switch_rule "
                     "expression_case default_case case_statement default_statement when "
                     "case_clause match_conditional_expression"},
    {ALL, NODE_FOREACH, "for_statement for_in_statement enhanced_for_statement range_clause "
                        "for_range_loop foreach_statement for for_in_clause"},
    {ALL, NODE_OPTIONAL, "catch_clause except_clause rescue while_statement do_statement while"},
    {PY, NODE_COMPREHENSION, "list_comprehension generator_expression set_comprehension "
                             "dictionary_comprehension"},
    {ALL, NODE_LEAVE, "return_statement raise_statement throw_statement break_statement "
                      "continue_statement throw_expression goto_statement return break next"},
    {ALL, NODE_IMPORT, "import_statement import_from_statement import_spec import_specifier "
                       "namespace_import import_clause"},
    {ALL, NODE_BLOCK, "module block statement_block program source_file translation_unit "
                      "compound_statement body_statement declaration_list class_body then "
                      "else_clause else begin ERROR"},
};

static const struct {
    node_field field;
    const char *names;
} fields[] = {
    {FIELD_CALLEE, "function constructor method"},
    {FIELD_NAME, "name property attribute field"},
    {FIELD_OBJECT, "object receiver operand argument scope array"},
    {FIELD_ARGUMENTS, "arguments"},
    {FIELD_LEFT, "left"},
    {FIELD_RIGHT, "right"},
    {FIELD_VALUE, "value default_value subject"},
    {FIELD_CONDITION, "condition"},
    {FIELD_CONSEQUENCE, "consequence"},
    {FIELD_ALTERNATIVE, "alternative"},
    {FIELD_BODY, "body"},
    {FIELD_PARAMETERS, "parameters parameter"},
    {FIELD_DECLARATOR, "declarator"},
    {FIELD_TYPE, "type return_type result"},
    {FIELD_INDEX, "subscript index indices"},
    {FIELD_KEY, "key"},
    {FIELD_ALIAS, "alias"},
    {FIELD_MODULE, "module_name path source"},
    {FIELD_PATTERN, "pattern"},
    {FIELD_INITIALIZER, "initializer"},
};

static const struct {
    node_op op;
    const char *token;
} ops[] = {
    {OP_PLUS, "+"},       {OP_PERCENT, "%"},  {OP_DOT, "."},       {OP_SHIFT, "<<"},
    {OP_EQUAL, "=="},     {OP_EQUAL, "==="},  {OP_DIFFERS, "!="},  {OP_DIFFERS, "!=="},
    {OP_IN, "in"},        {OP_NOT_IN, "not in"}, {OP_MATCH, "=~"}, {OP_MATCH, "!~"},
    {OP_OR, "||"},        {OP_OR, "??"},      {OP_OR, "or"},       {OP_OR, "?:"},
    {OP_AND, "&&"},       {OP_AND, "and"},    {OP_UPDATE, "+="},   {OP_UPDATE, ".="},
    {OP_UPDATE, "<<="},   {OP_OR, "||="},     {OP_OTHER, "<"},     {OP_OTHER, ">"},
    {OP_OTHER, "<="},     {OP_OTHER, ">="},   {OP_OTHER, "-"},     {OP_OTHER, "*"},
    {OP_SLASH, "/"},      {OP_OTHER, "&"},    {OP_OTHER, "|"},     {OP_DIFFERS, "is not"},
    {OP_EQUAL, "is"},     {OP_DIFFERS, "<>"}, {OP_EXTRACT, ">>"},    {OP_OTHER, "^"},
    {OP_OTHER, "**"},     {OP_OTHER, "//"},   {OP_OTHER, "!"},
};

enum { SYMBOLS_MAX = 1024, FIELDS_MAX = 64 };

static uint8_t symbol_roles[GUARD_LANGUAGES][SYMBOLS_MAX], field_roles[GUARD_LANGUAGES][FIELDS_MAX];
static bool present[GUARD_LANGUAGES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

const TSLanguage *role_grammar(guard_language language)
{
    switch (language) {
    case GUARD_PYTHON: return tree_sitter_python ? tree_sitter_python() : NULL;
    case GUARD_JAVASCRIPT: return tree_sitter_javascript ? tree_sitter_javascript() : NULL;
    case GUARD_TYPESCRIPT: return tree_sitter_typescript ? tree_sitter_typescript() : NULL;
    case GUARD_TSX: return tree_sitter_tsx ? tree_sitter_tsx() : NULL;
    case GUARD_JAVA: return tree_sitter_java ? tree_sitter_java() : NULL;
    case GUARD_GO: return tree_sitter_go ? tree_sitter_go() : NULL;
    case GUARD_C: return tree_sitter_c ? tree_sitter_c() : NULL;
    case GUARD_CPP: return tree_sitter_cpp ? tree_sitter_cpp() : NULL;
    case GUARD_PHP: return tree_sitter_php ? tree_sitter_php() : NULL;
    case GUARD_RUBY: return tree_sitter_ruby ? tree_sitter_ruby() : NULL;
    case GUARD_TEXT:
    case GUARD_SHELL:
    case GUARD_HTML:
    case GUARD_NOTEBOOK:
    case GUARD_LANGUAGES: break;
    }
    return NULL;
}

/* The next word of a list; false after the last. */
static bool next_word(const char **list, view *out)
{
    while (**list == ' ') ++*list;
    out->ptr = *list;
    while (**list && **list != ' ') ++*list;
    out->len = (size_t)(*list - out->ptr);
    return out->len != 0;
}

static node_role role_named(view name, guard_language language)
{
    view word;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *at = table[i].names;
        if (!(table[i].languages >> language & 1)) continue;
        while (next_word(&at, &word))
            if (view_equal(word, name)) return table[i].role;
    }
    return NODE_OTHER;
}

static node_field field_named(view name)
{
    view word;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const char *at = fields[i].names;
        while (next_word(&at, &word))
            if (view_equal(word, name)) return fields[i].field;
    }
    return FIELD_NONE;
}

static void fill(void)
{
    tree_memory_install();
    for (int l = 1; l < GUARD_LANGUAGES; l++) {
        const TSLanguage *g = role_grammar((guard_language)l);
        if (!g) continue;
        uint32_t n = ts_language_symbol_count(g), n_fields = ts_language_field_count(g);
        if (n > SYMBOLS_MAX || n_fields >= FIELDS_MAX) continue;
        for (uint32_t s = 0; s < n; s++)
            if (ts_language_symbol_type(g, (TSSymbol)s) == TSSymbolTypeRegular)
                symbol_roles[l][s] = (uint8_t)role_named(
                    view_of(ts_language_symbol_name(g, (TSSymbol)s)), (guard_language)l);
        for (uint32_t f = 1; f <= n_fields; f++)
            field_roles[l][f] =
                (uint8_t)field_named(view_of(ts_language_field_name_for_id(g, (TSFieldId)f)));
        present[l] = true;
    }
}

int roles_open(void) { return pthread_once(&once, fill) ? CERIUM_ERR_MEMORY : CERIUM_OK; }

const uint8_t *role_of_symbols(guard_language language)
{
    return present[language] ? symbol_roles[language] : NULL;
}

const uint8_t *role_of_fields(guard_language language)
{
    return present[language] ? field_roles[language] : NULL;
}

node_op role_op(const char *token)
{
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (!strcmp(ops[i].token, token)) return ops[i].op;
    return OP_NONE;
}

static bool in_some_grammar(view name, uint32_t languages)
{
    for (int l = 1; l < GUARD_LANGUAGES; l++) {
        const TSLanguage *g = languages >> l & 1 ? role_grammar((guard_language)l) : NULL;
        if (g && ts_language_symbol_for_name(g, name.ptr, (uint32_t)name.len, true)) return true;
    }
    return view_equal(name, VIEW("ERROR"));
}

uint32_t roles_unknown(FILE *out)
{
    uint32_t n = 0;
    view word;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *at = table[i].names;
        while (next_word(&at, &word))
            if (!in_some_grammar(word, table[i].languages)) {
                fprintf(out, "roles.c: no grammar has %.*s\n", (int)word.len, word.ptr);
                n++;
            }
    }
    return n;
}

bool guard_has_grammar(guard_language language)
{
    return language > GUARD_TEXT && language < GUARD_LANGUAGES && role_grammar(language) != NULL;
}

void guard_lacks(char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (int l = GUARD_TEXT + 1; l < GUARD_LANGUAGES && n < size; l++)
        if (!guard_has_grammar((guard_language)l) && !guard_is_read_by_lines((guard_language)l))
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
                                  guard_language_name((guard_language)l));
}
