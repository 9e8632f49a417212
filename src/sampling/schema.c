/* schema.c - owns the compiling of JSON schemas: conjuncts, references, choices and types. */
#include "sampling/schema.h"

#include "base/json.h"

/* Keys that decide about values and are not compiled: they are left out. */
static const char *const left_out[] = {"$dynamicRef", "$recursiveRef", "extends", "disallow"};

/* Keys that say what others do, in a shorter way. */
static const char *const derived[] = {"not", "if", "dependentRequired", "dependentSchemas",
                                      "dependencies"};
static const char one_of[] = "oneOf";

void schema_lack(schema_compiler *s, const char *key, const char *what)
{
    const char *slash = *key || !*s->path ? "/" : "";
    builder_note(s->b, "%.200s%s%s: %s", s->path, slash, key, what);
}

void schema_refuse(schema_compiler *s, const char *key, const char *what)
{
    if (s->b->forgives)
        schema_lack(s, key, what);
    else
        builder_fail(s->b, CERIUM_ERR_FORMAT, "%.200s%s%s: %s", s->path, *key ? "/" : "", key,
                     what);
}

/* ---- references ---- */

/* One part of a JSON pointer, with ~0, ~1 and %XX read. */
static bool read_part(view part, char *out, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        bool two = i + 1 < part.len && (part.ptr[i + 1] == '0' || part.ptr[i + 1] == '1');
        if (c == '~' && two) {
            c = part.ptr[++i] == '0' ? '~' : '/';
        } else if (c == '%' && i + 2 < part.len) {
            char hex[3] = {part.ptr[i + 1], part.ptr[i + 2], '\0'}, *end;
            unsigned long value = strtoul(hex, &end, 16);
            if (end == hex + 2) c = (char)value, i += 2;
        }
        if (n + 1 >= cap) return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* The schema with an $anchor (or an $id of the form "#name"), anywhere below from. */
static const json_t *find_anchor(schema_compiler *s, const json_t *from, const char *name,
                                 uint32_t depth)
{
    const char *key;
    json_t *value;
    size_t at;
    if (depth > GRAMMAR_NESTING_MAX || !builder_work(s->b, 1)) return NULL;
    const char *anchor = json_string_value(json_object_get(from, "$anchor"));
    const char *id = json_string_value(json_object_get(from, "$id"));
    if (anchor && !strcmp(anchor, name)) return from;
    if (id && id[0] == '#' && !strcmp(id + 1, name)) return from;
    json_object_foreach((json_t *)from, key, value)
    {
        const json_t *found = find_anchor(s, value, name, depth + 1);
        if (found) return found;
    }
    json_array_foreach(from, at, value)
    {
        const json_t *found = find_anchor(s, value, name, depth + 1);
        if (found) return found;
    }
    return NULL;
}

static const json_t *schema_resolve(schema_compiler *s, const char *ref)
{
    const char *id = json_string_value(json_object_get(s->root, "$id"));
    size_t n_id = id ? strlen(id) : 0;
    const json_t *at = s->root;
    if (n_id && !strncmp(ref, id, n_id) && (ref[n_id] == '#' || !ref[n_id])) ref += n_id;
    if (!*ref) return at;
    if (*ref++ != '#') return NULL;
    if (*ref && *ref != '/') return find_anchor(s, s->root, ref, 0);
    while (*ref == '/' && at) {
        char key[512];
        size_t len = strcspn(++ref, "/");
        uint64_t index;
        if (!read_part((view){ref, len}, key, sizeof key)) return NULL;
        if (json_is_array(at))
            at = parse_u64(view_of(key), &index) ? json_array_get(at, index) : NULL;
        else
            at = json_object_get(at, key);
        ref += len;
    }
    return at;
}

const json_t *schema_target(schema_compiler *s, const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    return ref ? schema_resolve(s, ref) : NULL;
}

/* ---- conjuncts ---- */

static void look_for_keys(schema_compiler *s, const json_t *schema)
{
    for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
        if (json_object_get(schema, left_out[i])) schema_lack(s, left_out[i], "is not supported");
}

static void schema_add_one(schema_compiler *s, conjuncts *to, conjunct c)
{
    for (uint32_t i = 0; i < to->n; i++)
        if (to->of[i].schema == c.schema && (to->of[i].done & c.done) == c.done) return;
    if (to->n == GRAMMAR_CONJUNCTS_MAX) {
        schema_lack(s, "", "a value that must fit more than 32 schemas at once: only those count");
        return;
    }
    to->of[to->n++] = c;
}

void conjuncts_add(schema_compiler *s, conjuncts *to, const json_t *schema)
{
    if (json_is_true(schema) || (json_is_object(schema) && json_object_size(schema) == 0)) return;
    if (!json_is_object(schema) && !json_is_false(schema)) {
        schema_refuse(s, "", "what should be a schema is no object or boolean");
        return;
    }
    schema_add_one(s, to, (conjunct){schema, 0});
}

bool schema_is_never(const conjuncts *of)
{
    for (uint32_t i = 0; i < of->n; i++)
        if (json_is_false(of->of[i].schema)) return true;
    return false;
}

void schema_expand(schema_compiler *s, conjuncts *of)
{
    for (uint32_t i = 0; i < of->n && !s->b->status; i++) {
        const json_t *schema = of->of[i].schema, *all = json_object_get(schema, "allOf"), *each;
        size_t at;
        look_for_keys(s, schema);
        if (json_object_get(schema, "$ref")) {
            const json_t *target = schema_target(s, schema);
            if (!target)
                schema_lack(s, "$ref", "leads to no schema; it must stay within this one");
            else
                conjuncts_add(s, of, target);
        }
        if (all && (!json_is_array(all) || json_array_size(all) == 0))
            schema_refuse(s, "allOf", "must be a list of schemas");
        json_array_foreach(all, at, each) conjuncts_add(s, of, each);
        for (size_t k = 0; k < ARRAY_LEN(derived) && !s->b->status; k++) {
            const json_t *made = schema_made_of(s, schema, derived[k]);
            if (made) conjuncts_add(s, of, made);
        }
    }
}

bool schema_has(const conjuncts *of, const char *const *keys, size_t n)
{
    for (uint32_t i = 0; i < of->n; i++)
        for (size_t k = 0; k < n; k++)
            if (json_object_get(of->of[i].schema, keys[k])) return true;
    return false;
}

bool schema_count(schema_compiler *s, const conjuncts *of, const char *key, bool is_max,
                  uint32_t *out)
{
    bool found = false;
    for (uint32_t i = 0; i < of->n; i++) {
        const json_t *value = json_object_get(of->of[i].schema, key);
        double n = json_number_value(value);
        if (!value) continue;
        if (!json_is_number(value) || n < 0 || (n < 1e15 && n != (double)(uint64_t)n)) {
            schema_refuse(s, key, "must be a whole number, 0 or above");
            continue;
        }
        if (n > GRAMMAR_REPEAT_MAX) { /* as a limit, none that an answer comes near */
            if (!is_max) schema_lack(s, key, "is more than can be counted");
            continue;
        }
        if (!found || (is_max ? n < *out : n > *out)) *out = (uint32_t)n;
        found = true;
    }
    return found;
}

/* ---- types ---- */

static const struct {
    const char *name;
    unsigned types;
} type_names[] = {
    {"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"object", TYPE_OBJECT},
    {"array", TYPE_ARRAY},   {"string", TYPE_STRING},   {"integer", TYPE_INTEGER},
    {"number", TYPE_NUMBER}, {SCHEMA_FRACTION, TYPE_FRACTION},
};

static unsigned named_type(schema_compiler *s, const json_t *name)
{
    const char *text = json_string_value(name);
    for (size_t i = 0; text && i < ARRAY_LEN(type_names); i++)
        if (!strcmp(text, type_names[i].name)) return type_names[i].types;
    schema_refuse(s, "type", "is not one of JSON's");
    return 0;
}

unsigned schema_types(schema_compiler *s, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *each;
    unsigned types = 0;
    size_t at;
    if (json_is_false(schema)) return 0;
    if (!type) return TYPE_ALL;
    if (!json_is_array(type)) types = named_type(s, type);
    json_array_foreach(type, at, each) types |= named_type(s, each);
    return types || !s->b->forgives ? types : TYPE_ALL;
}

unsigned schema_type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return TYPE_OBJECT;
    case JSON_ARRAY:
        return TYPE_ARRAY;
    case JSON_STRING:
        return TYPE_STRING;
    case JSON_INTEGER:
        return TYPE_INTEGER;
    case JSON_REAL: {
        double d = json_real_value(value);
        return d == (double)(int64_t)(d > -1e18 && d < 1e18 ? d : 0) ? TYPE_INTEGER : TYPE_FRACTION;
    }
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_NULL:
        return TYPE_NULL;
    }
    return 0;
}

/* ---- choices ---- */

/* The schemas under a key of a choice; NULL: there is none, or none that is a list. */
static const json_t *choice_of(schema_compiler *s, const json_t *schema, const char *key)
{
    const json_t *list = json_object_get(schema, key);
    if (!list || (json_is_array(list) && json_array_size(list) > 0)) return list;
    schema_refuse(s, key, "must be a list of schemas");
    return NULL;
}

/* oneOf is anyOf where no value fits two of its schemas. */
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

/* ---- what every schema knows ---- */

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
    s->integer = schema_fixed(s, regex_of(s, "-?(0|[1-9]\\d{0,17})"));
    s->number = schema_fixed(s, regex_of(s, "-?(0|[1-9]\\d{0,17})(\\.\\d{1,20})?"
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
    json_t *root = json_read(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
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
