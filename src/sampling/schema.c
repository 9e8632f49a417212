/* schema.c - owns compiling JSON schemas: choices, types and rules. */
#include "sampling/schema.h"

#include "base/json.h"

static const char one_of[] = "oneOf";

/* ---- choices ---- */

/* The schemas under a key of a choice; NULL: there is none, or it is not a list. */
static const json_t *choice_of(schema_compiler *s, const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, key);
    if (!list || (json_is_array(list) && json_array_size(list) > 0)) return list;
    schema_refuse(s, key, "must be a list of schemas");
    return NULL;
}

/* oneOf is anyOf if no value fits two of its schemas. */
static bool are_apart(schema_compiler *s, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i && !s->b->status; k++)
            if (!schema_apart(s, json_array_get(list, i), json_array_get(list, k))) return false;
    return true;
}

bool schema_choice(schema_compiler *s, conjuncts *of, schema_chosen *out)
{
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *schema = of->of[i].schema, *one = choice_of(s, schema, one_of);
        if (!(of->of[i].done & CONJUNCT_ANY_DONE) && choice_of(s, schema, "anyOf")) {
            *out = (schema_chosen){i, "anyOf", CONJUNCT_ANY_DONE};
            return true;
        }
        if (!one || (of->of[i].done & CONJUNCT_ONE_DONE)) continue;
        if (are_apart(s, one)) {
            *out = (schema_chosen){i, one_of, CONJUNCT_ONE_DONE};
            return true;
        }
        const json_t *made = schema_made_of(s, schema, one_of);
        of->of[i].done |= CONJUNCT_ONE_DONE;
        if (made) conjuncts_add(s, of, made);
    }
    return false;
}

/* A value that fits one of the schemas in the list of conjunct `which`, and all others. */
static uint32_t schema_choose(schema_compiler *s, const conjuncts *of, schema_chosen c)
{
    const json_t *list = json_object_get(of->of[c.which].schema, c.key), *each;
    bytes parts = {.max = GRAMMAR_PARTS_MAX * sizeof(uint32_t)};
    size_t at;
    json_array_foreach(list, at, each)
    {
        char name[24];
        conjuncts with = *of;
        snprintf(name, sizeof name, "%zu", at);
        with.of[c.which].done |= c.done;
        conjuncts_add(s, &with, each);
        uint32_t e = expr_call(s->b, schema_rule(s, &with, c.key, name));
        uint32_t *to = builder_add(s->b, &parts, sizeof *to);
        if (to) *to = e;
    }
    uint32_t e = expr_alt(s->b, (const uint32_t *)parts.ptr, parts.len / sizeof(uint32_t));
    bytes_free(&parts);
    return e;
}

static uint32_t of_types(schema_compiler *s, const conjuncts *of, unsigned types)
{
    static const struct {
        unsigned type;
        const char *text;
    } words[] = {{TYPE_NULL, "null"}, {TYPE_BOOLEAN, "true"}, {TYPE_BOOLEAN, "false"}};
    grammar_builder *b = s->b;
    uint32_t parts[8], n = 0;
    bool is_some = false;
    uint32_t values = schema_values(s, of, types, &is_some);
    if (is_some) return values;
    if (of->n == 0) return expr_call(b, s->value);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if ((types & words[i].type) && schema_word_fits(of, words[i].text))
            parts[n++] = expr_text(b, view_of(words[i].text));
    if (types & TYPE_OBJECT) parts[n++] = schema_object(s, of);
    if (types & TYPE_ARRAY) parts[n++] = schema_array(s, of);
    if (types & TYPE_STRING) parts[n++] = schema_string(s, of);
    if (types & TYPE_NUMBER) parts[n++] = schema_number(s, of, types);
    return expr_alt(b, parts, n);
}

static uint32_t schema_compile(schema_compiler *s, const conjuncts *given)
{
    conjuncts of = *given;
    schema_chosen chosen;
    unsigned types = TYPE_ALL;
    schema_expand(s, &of);
    if (s->b->status) return EXPR_NEVER;
    for (uint32_t i = 0; i < of.n; i++) types &= schema_types(s, of.of[i].schema);
    if (schema_choice(s, &of, &chosen)) return schema_choose(s, &of, chosen);
    return of_types(s, &of, types);
}

/* ---- rules ---- */

static bool schema_same(const conjuncts *x, const conjuncts *y)
{
    if (x->n != y->n) return false;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->of[i].schema != y->of[i].schema || x->of[i].done != y->of[i].done) return false;
    return true;
}

static uint32_t schema_add_path(schema_compiler *s, const char *key, const char *name)
{
    uint32_t at = (uint32_t)s->paths.len;
    char path[1024];
    snprintf(path, sizeof path, "%s%s%s%s%s", s->path, *key ? "/" : "", key, *name ? "/" : "",
             name);
    char *to = builder_add(s->b, &s->paths, strlen(path) + 1);
    if (to) memcpy(to, path, strlen(path) + 1);
    return at;
}

uint32_t schema_rule(schema_compiler *s, const conjuncts *of, const char *key, const char *name)
{
    schema_job *jobs = (schema_job *)s->jobs.ptr;
    size_t n = s->jobs.len / sizeof *jobs;
    if (of->n == 0) return s->value;
    for (size_t i = 0; i < n; i++)
        if (schema_same(&jobs[i].schemas, of)) return jobs[i].rule;
    if (!builder_work(s->b, n)) return 0;
    uint32_t path = schema_add_path(s, key, name), rule = rule_new(s->b);
    schema_job *job = builder_add(s->b, &s->jobs, sizeof *job);
    if (job) *job = (schema_job){*of, rule, path};
    return rule;
}

/* ---- keys of every schema ---- */

static uint32_t schema_fixed(schema_compiler *s, uint32_t expr)
{
    uint32_t rule = rule_new(s->b);
    rule_set(s->b, rule, expr);
    return rule;
}

static uint32_t regex_of(schema_compiler *s, const char *text)
{
    return expr_regex(s->b, view_of(text), (regex_options){.form = CODES_RAW}, s->path);
}

static uint32_t any_value(schema_compiler *s)
{
    grammar_builder *b = s->b;
    uint32_t value = expr_call(b, s->value), blank = expr_call(b, s->blank);
    uint32_t comma = EXPR_SEQ(b, expr_text(b, VIEW(",")), blank);
    uint32_t colon = EXPR_SEQ(b, expr_text(b, VIEW(":")), regex_of(s, " ?"));
    uint32_t member = EXPR_SEQ(b, expr_call(b, s->string), colon, value);
    uint32_t members =
        EXPR_SEQ(b, blank, expr_list(b, comma, (uint32_t[]){member, LIST_MANY}, 1), blank);
    uint32_t items =
        EXPR_SEQ(b, blank, expr_list(b, comma, (uint32_t[]){value, LIST_MANY}, 1), blank);
    return EXPR_ALT(b, EXPR_SEQ(b, expr_text(b, VIEW("{")), members, expr_text(b, VIEW("}"))),
                    EXPR_SEQ(b, expr_text(b, VIEW("[")), items, expr_text(b, VIEW("]"))),
                    expr_call(b, s->string), expr_call(b, s->number), expr_text(b, VIEW("true")),
                    expr_text(b, VIEW("false")), expr_text(b, VIEW("null")));
}

static void make_fixed(schema_compiler *s)
{
    grammar_builder *b = s->b;
    uint32_t quote = expr_text(b, VIEW("\""));
    uint32_t character = EXPR_ALT(
        b, expr_code_range(b, 0x20, 0x21, CODES_RAW), expr_code_range(b, 0x23, 0x5b, CODES_RAW),
        expr_code_range(b, 0x5d, CODE_MAX, CODES_RAW),
        regex_of(s, "\\\\([\"\\\\/bfnrt]|u([0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|"
                    "[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}))"));
    s->blank = schema_fixed(s, regex_of(s, "( |\\n[ \\t]{0,40})?"));
    s->character = schema_fixed(s, character);
    if (!b->status) builder_rule_at(b, s->character)->is_plain = true;
    s->string =
        schema_fixed(s, EXPR_SEQ(b, quote, expr_repeat(b, character, 0, GRAMMAR_NO_MAX), quote));
    s->integer = schema_fixed(s, regex_of(s, "-?(0|[1-9]\\d{0,19})"));
    s->number = schema_fixed(s, regex_of(s, "-?(0|[1-9]\\d{0,19})(\\.\\d{1,20})?"
                                     "([eE][+-]?(\\d{1,2}|1\\d\\d|2[0-7]\\d))?"));
    s->value = rule_new(b);
    rule_set(b, s->value, any_value(s));
}

static uint32_t compile_all(schema_compiler *s)
{
    conjuncts root = {.n = 0};
    make_fixed(s);
    conjuncts_add(s, &root, s->root);
    uint32_t rule = schema_rule(s, &root, "", "");
    for (size_t i = 0; i < s->jobs.len / sizeof(schema_job) && !s->b->status; i++) {
        schema_job job = ((schema_job *)s->jobs.ptr)[i];
        char path[1024];
        snprintf(path, sizeof path, "%s", s->paths.ptr + job.path);
        s->path = path;
        rule_set(s->b, job.rule, schema_compile(s, &job.schemas));
        s->path = "";
    }
    return expr_call(s->b, rule);
}

uint32_t expr_schema(grammar_builder *b, view text, const char *place)
{
    json_error_t error;
    if (text.len > GRAMMAR_TEXT_BYTES_MAX) {
        builder_fail(b, CERIUM_ERR_CAPACITY, "%s: longer than %u bytes", place,
                     GRAMMAR_TEXT_BYTES_MAX);
        return EXPR_NEVER;
    }
    json_t *root = json_read(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                             &error);
    if (!root) {
        builder_fail(b, CERIUM_ERR_FORMAT, "%s: not JSON: %s, line %d, column %d", place,
                     error.text, error.line, error.column);
        return EXPR_NEVER;
    }
    schema_compiler s = {.b = b,
                         .root = root,
                         .path = place,
                         .made.max = GRAMMAR_RULES_MAX * sizeof(schema_made),
                         .jobs.max = GRAMMAR_RULES_MAX * sizeof(schema_job),
                         .paths.max = 64 * (size_t)GRAMMAR_TEXT_BYTES_MAX};
    uint32_t e = compile_all(&s);
    for (size_t i = 0; i < s.made.len / sizeof(schema_made); i++)
        json_decref(((schema_made *)s.made.ptr)[i].made);
    bytes_free(&s.made);
    bytes_free(&s.jobs);
    bytes_free(&s.paths);
    json_decref(root);
    return b->status ? EXPR_NEVER : e;
}
