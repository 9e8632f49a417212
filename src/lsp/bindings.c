/* bindings.c - walks the tree of a file once, collects the uses of a name, and binds them by
 * scopes. */
#include "lsp/bindings.h"

#include <tree_sitter/api.h>

#include "guard/tree.h"

typedef enum {
    SCOPE_NONE = 0,
    SCOPE_FILE = 1,
    SCOPE_FUNCTION = 2,
    SCOPE_CLASS = 3,  /* Python's: functions in it do not see its names */
    SCOPE_BLOCK = 4,
    SCOPE_LIST = 5,   /* a comprehension */
} scope_kind;

typedef enum {
    NAME_USE = 0,
    NAME_DEFINES = 1,
    NAME_GLOBAL = 2,   /* the scope declares it: the file's */
    NAME_OUTER = 3,    /* the scope declares it: that of a function around it */
} name_kind;

typedef struct {
    int32_t parent;
    uint8_t kind;
    bool defines, is_global, is_outer;
    uint32_t from, to, first; /* first: of its definitions */
} scope;

typedef struct {
    uint32_t begin;
    int32_t scope;
    uint8_t kind;
    bool is_short, is_imported, is_type;
} occurrence;

/* One step down the tree. */
typedef struct {
    const char *type, *field;
    int32_t scope;
    uint32_t nth; /* among its parent's named children */
} level;

typedef struct {
    guard_language language;
    view text, name;
    scope *scopes; /* [BINDING_SCOPES_MAX] */
    occurrence *names; /* [BINDING_NAMES_MAX] */
    uint32_t n_scopes, n_names;
    level stack[BINDING_DEPTH_MAX];
    uint32_t depth;
    bool fails;
} reading;

static bool is(const char *a, const char *b) { return a && !strcmp(a, b); }

static bool is_one(const char *type, const char *const *list)
{
    for (; *list; list++)
        if (is(type, *list)) return true;
    return false;
}

static bool is_c(guard_language l) { return l == GUARD_C || l == GUARD_CPP; }
static bool is_script(guard_language l)
{
    return l == GUARD_JAVASCRIPT || l == GUARD_TYPESCRIPT || l == GUARD_TSX;
}

static bool knows(guard_language l)
{
    return (l == GUARD_PYTHON || is_c(l) || is_script(l)) && role_grammar(l);
}

/* ---- scopes ---- */

static int32_t open_scope(reading *r, int32_t parent, scope_kind kind, uint32_t from, uint32_t to)
{
    if (r->n_scopes == BINDING_SCOPES_MAX) {
        r->fails = true;
        return parent;
    }
    r->scopes[r->n_scopes] = (scope){.parent = parent, .kind = (uint8_t)kind, .from = from,
                                     .to = to, .first = UINT32_MAX};
    return (int32_t)r->n_scopes++;
}

static scope_kind scope_of_python(const char *type)
{
    static const char *const lists[] = {"list_comprehension", "set_comprehension",
                                        "dictionary_comprehension", "generator_expression", NULL};
    if (is(type, "function_definition") || is(type, "lambda")) return SCOPE_FUNCTION;
    if (is(type, "class_definition")) return SCOPE_CLASS;
    return is_one(type, lists) ? SCOPE_LIST : SCOPE_NONE;
}

static scope_kind scope_of_c(const char *type)
{
    static const char *const blocks[] = {"compound_statement", "for_statement", "for_range_loop",
                                         "if_statement", "while_statement", "catch_clause",
                                         "namespace_definition", "field_declaration_list", NULL};
    if (is(type, "function_definition") || is(type, "lambda_expression")) return SCOPE_FUNCTION;
    return is_one(type, blocks) ? SCOPE_BLOCK : SCOPE_NONE;
}

static scope_kind scope_of_script(const char *type)
{
    static const char *const functions[] = {"function_declaration", "function", "arrow_function",
                                            "function_expression", "method_definition",
                                            "generator_function", "function_signature",
                                            "generator_function_declaration", "method_signature",
                                            "function_type", "abstract_method_signature",
                                            "class_static_block", "call_signature", NULL};
    static const char *const blocks[] = {"statement_block", "for_statement", "for_in_statement",
                                         "catch_clause", "switch_body", "class_body", NULL};
    if (is_one(type, functions)) return SCOPE_FUNCTION;
    return is_one(type, blocks) ? SCOPE_BLOCK : SCOPE_NONE;
}

static scope_kind scope_of(const reading *r, const char *type)
{
    if (r->language == GUARD_PYTHON) return scope_of_python(type);
    return is_c(r->language) ? scope_of_c(type) : scope_of_script(type);
}

/* The parts of a function or class that belong to the scope around it. */
static bool is_outside(const reading *r, const level *whole, const level *child)
{
    const char *type = whole->type, *field = child->field;
    if (r->language == GUARD_PYTHON) {
        if (is(type, "function_definition"))
            return !is(field, "parameters") && !is(field, "body");
        if (is(type, "class_definition")) return !is(field, "body");
        bool defaults = is(type, "default_parameter") || is(type, "typed_default_parameter");
        if (defaults) return is(field, "value") || is(field, "type");
        if (is(type, "typed_parameter")) return is(field, "type");
        /* The first list is evaluated before the comprehension begins. */
        return is(type, "for_in_clause") && is(field, "right") && whole->nth == 2;
    }
    if (is_script(r->language)) {
        bool declares = is(type, "function_declaration") || is(type, "function_signature") ||
                        is(type, "generator_function_declaration") ||
                        is(type, "method_definition");
        return declares && is(field, "name");
    }
    return false;
}

/* ---- the role of an identifier ---- */

static const level *above(const reading *r, uint32_t n)
{
    static const level none = {.type = "", .field = ""};
    return r->depth > n ? &r->stack[r->depth - 1 - n] : &none;
}

/* The ancestor of which a node is a part, skipping nodes that only group. */
static uint32_t climb(const reading *r, const char *const *groups)
{
    uint32_t n = 1;
    while (is_one(above(r, n)->type, groups)) n++;
    return n;
}

static name_kind python_name(const reading *r, bool *skip, bool *imports)
{
    static const char *const groups[] = {"pattern_list", "tuple_pattern", "list_pattern",
                                         "list_splat_pattern", "as_pattern_target", NULL};
    static const char *const params[] = {"parameters", "lambda_parameters", "typed_parameter",
                                         "list_splat_pattern", "dictionary_splat_pattern", NULL};
    const level *self = above(r, 0), *up = above(r, 1), *up2 = above(r, 2);
    if ((is(up->type, "attribute") && is(self->field, "attribute")) ||
        (is(up->type, "keyword_argument") && is(self->field, "name"))) {
        *skip = true;
        return NAME_USE;
    }
    if (is(up->type, "global_statement")) return NAME_GLOBAL;
    if (is(up->type, "nonlocal_statement")) return NAME_OUTER;
    if (is(up->type, "dotted_name")) { /* of imports, and of patterns */
        bool aliased = is(up2->type, "aliased_import");
        bool module = is(up->field, "module_name") || self->nth > 1;
        if (aliased || module) *skip = true;
        *imports = true;
        return NAME_DEFINES;
    }
    if (is(up->type, "aliased_import")) return NAME_DEFINES;
    if ((is(up->type, "function_definition") || is(up->type, "class_definition")) &&
        is(self->field, "name"))
        return NAME_DEFINES;
    if (is_one(up->type, params)) return is(self->field, "type") ? NAME_USE : NAME_DEFINES;
    if ((is(up->type, "default_parameter") || is(up->type, "typed_default_parameter") ||
         is(up->type, "named_expression")) && is(self->field, "name"))
        return NAME_DEFINES;
    uint32_t n = climb(r, groups);
    const char *type = above(r, n)->type, *field = above(r, n - 1)->field;
    if ((is(type, "assignment") || is(type, "augmented_assignment") ||
         is(type, "for_statement") || is(type, "for_in_clause")) && is(field, "left"))
        return NAME_DEFINES;
    if (is(type, "as_pattern") && n > 1) return NAME_DEFINES;
    return is(type, "delete_statement") ? NAME_DEFINES : NAME_USE;
}

static name_kind c_name(const reading *r)
{
    static const char *const groups[] = {"pointer_declarator", "array_declarator",
                                         "function_declarator", "init_declarator",
                                         "parenthesized_declarator", "reference_declarator",
                                         "attributed_declarator", "structured_binding_declarator",
                                         NULL};
    static const char *const owners[] = {"declaration", "parameter_declaration",
                                         "optional_parameter_declaration", "function_definition",
                                         "for_range_loop", "type_definition",
                                         "variadic_parameter_declaration", NULL};
    const level *self = above(r, 0), *up = above(r, 1);
    if ((is(up->type, "enumerator") || is(up->type, "preproc_def") ||
         is(up->type, "preproc_function_def")) && is(self->field, "name"))
        return NAME_DEFINES;
    for (uint32_t n = 0;; n++) { /* each node on the way is the declarator of a declarator */
        const level *from = above(r, n), *to = above(r, n + 1);
        bool is_binding = is(to->type, "structured_binding_declarator") ||
                          is(to->type, "reference_declarator");
        if (!is(from->field, "declarator") && !is_binding) return NAME_USE;
        if (is_one(to->type, owners)) return NAME_DEFINES;
        if (!is_one(to->type, groups)) return NAME_USE;
    }
}

static name_kind script_name(const reading *r, bool *skip, bool *imports)
{
    static const char *const groups[] = {"object_pattern", "array_pattern", "rest_pattern",
                                         "assignment_pattern", "pair_pattern",
                                         "object_assignment_pattern", NULL};
    static const char *const owners[] = {"function_declaration", "generator_function_declaration",
                                         "class_declaration", "function_signature",
                                         "abstract_class_declaration", "enum_declaration",
                                         "function_expression", "function", "class", NULL};
    const level *self = above(r, 0), *up = above(r, 1);
    if (is(up->type, "import_specifier")) {
        bool has_alias = is(self->field, "name") && above(r, 0)->nth == 1;
        *imports = has_alias;
        return NAME_DEFINES;
    }
    if (is(up->type, "export_specifier")) {
        *imports = true; /* other files know it by this name */
        return NAME_USE;
    }
    if (is(up->type, "import_clause") || is(up->type, "namespace_import")) return NAME_DEFINES;
    if (is_one(up->type, owners) && is(self->field, "name")) return NAME_DEFINES;
    if (is(up->type, "arrow_function") && is(self->field, "parameter")) return NAME_DEFINES;
    if (is(up->type, "catch_clause") && is(self->field, "parameter")) return NAME_DEFINES;
    (void)skip;
    for (uint32_t n = 0;; n++) {
        const level *from = above(r, n), *to = above(r, n + 1);
        bool is_value = (is(to->type, "assignment_pattern") ||
                         is(to->type, "object_assignment_pattern")) && is(from->field, "right");
        bool is_key = is(to->type, "pair_pattern") && is(from->field, "key");
        if (is_value || is_key) return NAME_USE;
        if (is(to->type, "formal_parameters")) return NAME_DEFINES;
        if ((is(to->type, "required_parameter") || is(to->type, "optional_parameter")) &&
            is(from->field, "pattern"))
            return NAME_DEFINES;
        if (is(to->type, "variable_declarator")) return is(from->field, "name") ? NAME_DEFINES
                                                                               : NAME_USE;
        if (is(to->type, "for_in_statement"))
            return is(from->field, "left") ? NAME_DEFINES : NAME_USE;
        if (!is_one(to->type, groups)) return NAME_USE;
    }
}

/* ---- where a definition belongs ---- */

static int32_t function_around(const reading *r, int32_t s)
{
    while (r->scopes[s].parent >= 0 && r->scopes[s].kind != SCOPE_FUNCTION) s = r->scopes[s].parent;
    return s;
}

static bool has_above(const reading *r, const char *type)
{
    for (uint32_t n = 1; n < 8; n++)
        if (is(above(r, n)->type, type)) return true;
    return false;
}

static int32_t home_of(const reading *r, int32_t s)
{
    const level *self = above(r, 0), *up = above(r, 1);
    if (r->language == GUARD_PYTHON && is(up->type, "named_expression"))
        while (r->scopes[s].kind == SCOPE_LIST) s = r->scopes[s].parent;
    if (is_script(r->language) && has_above(r, "variable_declaration") &&
        !has_above(r, "statement_block"))
        return function_around(r, s); /* var */
    if (is_script(r->language) && r->scopes[s].kind == SCOPE_BLOCK &&
        has_above(r, "variable_declaration"))
        return function_around(r, s);
    if (!is_c(r->language) || !is(up->type, "function_declarator") ||
        !is(self->field, "declarator"))
        return s;
    /* A function's own name is visible around it. */
    for (uint32_t n = 1; n < r->depth; n++)
        if (is(above(r, n)->type, "function_definition")) {
            int32_t outer = r->scopes[s].parent;
            return outer >= 0 ? outer : s;
        } else if (!strstr(above(r, n)->type, "declarator")) {
            return s;
        }
    return s;
}

/* ---- the walk ---- */

static bool has_name(const reading *r, TSNode at)
{
    uint32_t begin = ts_node_start_byte(at), end = ts_node_end_byte(at);
    return end - begin == r->name.len && end <= r->text.len &&
           !memcmp(r->text.ptr + begin, r->name.ptr, r->name.len);
}

static void keep(reading *r, TSNode at, const char *type)
{
    bool skip = false, imports = false;
    bool is_type = is(type, "type_identifier");
    bool is_short = is(type, "shorthand_property_identifier") ||
                    is(type, "shorthand_property_identifier_pattern");
    bool is_plain = is(type, "identifier") || is_type || is_short;
    name_kind kind = NAME_USE;
    if (!is_plain || !has_name(r, at)) return;
    if (r->n_names == BINDING_NAMES_MAX) {
        r->fails = true;
        return;
    }
    if (r->language == GUARD_PYTHON) kind = python_name(r, &skip, &imports);
    else if (is_c(r->language) && !is_type) kind = c_name(r);
    else if (is_script(r->language)) kind = script_name(r, &skip, &imports);
    if (is_c(r->language) && is_type)
        kind = is(above(r, 0)->field, "name") || is(above(r, 0)->field, "declarator")
                   ? NAME_DEFINES : NAME_USE;
    if (skip) return;
    int32_t s = above(r, 0)->scope;
    if (kind == NAME_DEFINES) s = home_of(r, s);
    if (is_c(r->language) && is_type) s = 0;
    const uint32_t begin = ts_node_start_byte(at);
    r->names[r->n_names++] = (occurrence){.begin = begin, .scope = s, .kind = (uint8_t)kind,
                                          .is_short = is_short, .is_imported = imports,
                                          .is_type = is_type && is_c(r->language)};
    scope *home = &r->scopes[s];
    home->is_global |= kind == NAME_GLOBAL;
    home->is_outer |= kind == NAME_OUTER;
    if (kind != NAME_DEFINES || (is_type && is_c(r->language))) return;
    home->defines = true;
    if (begin < home->first) home->first = begin;
}

/* Parameters of a prototype are visible only in it. */
static bool is_prototype(const reading *r, const char *type)
{
    if (!is_c(r->language) || !is(type, "parameter_list")) return false;
    for (uint32_t n = 1; n < r->depth; n++) {
        if (is(above(r, n)->type, "function_definition")) return false;
        if (is(above(r, n)->type, "lambda_expression")) return false;
        if (!strstr(above(r, n)->type, "declarator")) return true;
    }
    return true;
}

static void enter(reading *r, TSNode at, const char *field, uint32_t nth)
{
    const char *type = ts_node_type(at);
    level *self = &r->stack[r->depth++];
    *self = (level){.type = type, .field = field ? field : "", .nth = nth};
    const level *up = above(r, 1);
    self->scope = r->depth > 1 ? up->scope : 0;
    if (r->depth > 1 && is_outside(r, up, self)) {
        int32_t s = up->scope;
        while (s > 0 && r->scopes[s].kind == SCOPE_BLOCK) s = r->scopes[s].parent;
        self->scope = r->scopes[s].parent >= 0 ? r->scopes[s].parent : 0;
    }
    scope_kind kind = scope_of(r, type);
    if (is_prototype(r, type)) kind = SCOPE_BLOCK;
    if (kind != SCOPE_NONE)
        self->scope = open_scope(r, self->scope, kind, ts_node_start_byte(at),
                                 ts_node_end_byte(at));
    keep(r, at, type);
}

static void walk(reading *r, TSNode root)
{
    TSTreeCursor c = ts_tree_cursor_new(root);
    uint32_t nths[BINDING_DEPTH_MAX] = {0};
    (void)open_scope(r, -1, SCOPE_FILE, 0, (uint32_t)r->text.len);
    enter(r, root, NULL, 1);
    bool down = true;
    while (!r->fails) {
        if (down && r->depth < BINDING_DEPTH_MAX && ts_tree_cursor_goto_first_child(&c)) {
            nths[r->depth] = 0;
        } else {
            if (down && r->depth == BINDING_DEPTH_MAX) r->fails = true;
            while (r->depth && !ts_tree_cursor_goto_next_sibling(&c)) {
                r->depth--;
                if (!ts_tree_cursor_goto_parent(&c)) return;
            }
            if (r->depth <= 1) return;
            r->depth--;
        }
        TSNode at = ts_tree_cursor_current_node(&c);
        nths[r->depth] += ts_node_is_named(at);
        enter(r, at, ts_tree_cursor_current_field_name(&c), nths[r->depth]);
        down = true;
    }
}

static void parse(void *user)
{
    reading *r = user;
    TSParser *parser = ts_parser_new();
    TSTree *parsed = NULL;
    ts_parser_set_timeout_micros(parser, 2000000);
    if (ts_parser_set_language(parser, role_grammar(r->language)))
        parsed = ts_parser_parse_string(parser, NULL, r->text.ptr, (uint32_t)r->text.len);
    if (parsed) walk(r, ts_tree_root_node(parsed));
    else r->fails = true;
    ts_tree_delete(parsed);
    ts_parser_delete(parser);
}

/* ---- binding ---- */

/* The scope of the definition that an occurrence means; -1: no definition in this file. */
static int32_t resolve(const reading *r, const occurrence *o)
{
    const bool in_order = is_c(r->language);
    int32_t s = o->scope, first = s;
    bool outer = false;
    if (o->is_type) return 0;
    while (s >= 0) {
        const scope *at = &r->scopes[s];
        bool seen = at->kind != SCOPE_CLASS || (s == first && !outer);
        if (seen && at->is_global) return 0;
        if (at->is_outer && seen) {
            outer = true;
        } else if (seen && at->defines && !(outer && at->kind == SCOPE_FILE) &&
                   (!in_order || at->first <= o->begin || at->kind == SCOPE_FILE)) {
            return s;
        }
        s = at->parent;
        if (r->language != GUARD_PYTHON) first = -1;
    }
    return -1;
}

static bool bind(reading *r, binding *out, size_t at)
{
    const occurrence *asked = NULL;
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < r->n_names; i++)
        if (r->names[i].begin == at) asked = &r->names[i];
    if (!asked) return false;
    const int32_t home = resolve(r, asked);
    if (home < 0) return false;
    *out = (binding){.from = r->scopes[home].from, .to = r->scopes[home].to};
    for (uint32_t i = 0; i < r->n_names; i++) {
        const occurrence *o = &r->names[i];
        if (resolve(r, o) != home || o->is_type != asked->is_type) continue;
        out->is_imported |= o->is_imported;
        if (o->kind == NAME_DEFINES && o->begin < first) first = o->begin;
        out->places[out->n++] = (binding_place){o->begin, o->is_short};
    }
    out->is_definition = first == asked->begin;
    return first != UINT32_MAX;
}

bool binding_find(binding *out, tree_memory *memory, guard_language language, view text, size_t at,
                  size_t len)
{
    reading *r = NULL;
    if (roles_open() || !knows(language) || text.len > BINDING_TEXT_MAX || at + len > text.len)
        return false;
    r = memory_zalloc(1, sizeof *r);
    if (!r) return false;
    r->language = language;
    r->text = text;
    r->name = (view){text.ptr + at, len};
    r->scopes = memory_alloc(BINDING_SCOPES_MAX * sizeof *r->scopes);
    r->names = memory_alloc(BINDING_NAMES_MAX * sizeof *r->names);
    bool found = r->scopes && r->names && tree_memory_run(memory, parse, r) && !r->fails &&
                 bind(r, out, at);
    memory_free(r->scopes);
    memory_free(r->names);
    memory_free(r);
    return found;
}
