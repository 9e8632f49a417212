/* tools.c - tools of a request in the model's view: flat names, one schema each.
 *
 * A function in a namespace is known as "namespace__name".  That name is never split again: the
 * table of tools has both parts, so calls carry exactly the client's names. */
#include "protocol/parse.h"

#include <pthread.h>

enum { FULL_NAME_BYTES = 2 * PROTOCOL_NAME_BYTES_MAX + 24 };

/* The n-th candidate for a tool's name, as other tools may have the earlier ones. */
static void nth_name(const char *space, const char *name, unsigned n, char out[FULL_NAME_BYTES])
{
    if (n && space)
        snprintf(out, FULL_NAME_BYTES, "%s__%s_%u", space, name, n);
    else if (n)
        snprintf(out, FULL_NAME_BYTES, "%s__again_%u", name, n);
    else if (space)
        snprintf(out, FULL_NAME_BYTES, "%s__%s", space, name);
    else
        snprintf(out, FULL_NAME_BYTES, "%s", name);
}

/* The tool, or NULL and in free_name its unused name. */
static const cerium_tool *find_tool(const struct protocol_tools *set, const char *space,
                                    const char *name, char free_name[FULL_NAME_BYTES])
{
    for (unsigned n = 0;; n++) {
        nth_name(space, name, n, free_name);
        const json_t *holder = json_object_get(set->names, free_name);
        if (!holder) return NULL;
        size_t i = (size_t)json_integer_value(holder);
        const struct protocol_tool *facts = &set->facts[i];
        bool same_space = space ? facts->space && !strcmp(space, facts->space) : !facts->space;
        if (same_space && !strcmp(name, facts->name)) return &set->list[i];
    }
}

int tool_full_name(parser *p, const char *space, const char *name, const char **out)
{
    char full[FULL_NAME_BYTES];
    const cerium_tool *tool = find_tool(p->r->tool_set, space, name, full);
    if (!tool && space) return make_text(p, view_of(full), out);
    *out = tool ? tool->name : name;
    return CERIUM_OK;
}

static int tools_reserve(struct protocol_tools *set)
{
    if (set->n < set->cap) return CERIUM_OK;
    size_t cap = set->cap ? set->cap * 2 : 16;
    cerium_tool *list = memory_zalloc(cap, sizeof *list);
    struct protocol_tool *facts = memory_zalloc(cap, sizeof *facts);
    if (!list || !facts) {
        memory_free(list);
        memory_free(facts);
        return CERIUM_ERR_MEMORY;
    }
    if (set->n) {
        memcpy(list, set->list, set->n * sizeof *list);
        memcpy(facts, set->facts, set->n * sizeof *facts);
    }
    memory_free(set->list);
    memory_free(set->facts);
    set->list = list;
    set->facts = facts;
    set->cap = cap;
    return CERIUM_OK;
}

/* facts except the name, which belongs to the tool. */
static int tool_add(parser *p, const place *at, const cerium_tool *tool, struct protocol_tool facts)
{
    struct protocol_tools *set = p->r->tool_set;
    const char *space = facts.space;
    char full[FULL_NAME_BYTES];
    if (set->n >= PROTOCOL_TOOLS_MAX)
        return parse_fail(p, at, "array_above_max_length",
                          "Invalid 'tools': too many. Expected at most %u, those in namespaces "
                          "counted.", PROTOCOL_TOOLS_MAX);
    if (find_tool(set, space, tool->name, full)) return CERIUM_OK; /* duplicate: the first one
                                                                    * counts */
    RETURN_IF(tools_reserve(set));
    set->list[set->n] = *tool;
    facts.name = tool->name;
    set->facts[set->n] = facts;
    RETURN_IF(make_text(p, view_of(full), &set->list[set->n].name));
    if (json_object_set_new(set->names, full, json_integer((json_int_t)set->n)))
        return CERIUM_ERR_MEMORY;
    set->n++;
    return CERIUM_OK;
}

static int add_function(parser *p, const place *at, const json_t *tool, const char *space)
{
    cerium_tool made = {.parameters = "{\"type\":\"object\",\"properties\":{}}"};
    struct protocol_tool facts = {.kind = PROTOCOL_TOOL_FUNCTION, .space = space};
    json_t *parameters = NULL;
    RETURN_IF(field_name(p, at, tool, "name", &made.name));
    RETURN_IF(field_string(p, at, tool, "description", &made.description));
    RETURN_IF(field_object(p, at, tool, "parameters", &parameters));
    RETURN_IF(field_bool(p, at, tool, "strict", &facts.strict));
    if (parameters) RETURN_IF(make_json(p, parameters, &made.parameters));
    facts.schema = parameters;
    return tool_add(p, at, &made, facts);
}

/* The grammar is part of the model's view: it must know what to write. */
static int describe_grammar(parser *p, const place *up, const json_t *tool,
                            struct protocol_tool *facts, const char **out)
{
    json_t *format = NULL;
    const place at = {up, "format", 0};
    const char *type = "text", *syntax = NULL, *definition = NULL;
    RETURN_IF(field_object(p, up, tool, "format", &format));
    if (!format) return CERIUM_OK;
    RETURN_IF(field_string(p, &at, format, "type", &type));
    if (strcmp(type, "grammar")) return CERIUM_OK;
    json_t *nested = NULL; /* Chat has the grammar in an object of its own */
    RETURN_IF(field_object(p, &at, format, "grammar", &nested));
    const place inner = {&at, "grammar", 0};
    const place *where = nested ? &inner : &at;
    RETURN_IF(field_string(p, where, nested ? nested : format, "syntax", &syntax));
    RETURN_IF(field_string(p, where, nested ? nested : format, "definition", &definition));
    if (!definition) return parse_fail_missing(p, &(place){where, "definition", 0});
    if (!syntax || (strcmp(syntax, "lark") && strcmp(syntax, "regex")))
        return parse_fail_value(p, &(place){where, "syntax", 0}, syntax ? syntax : "",
                                "'lark' and 'regex'");
    facts->syntax = syntax;
    facts->grammar = definition;
    bytes text = {.max = PROTOCOL_BODY_BYTES_MAX};
    const char *pieces[] = {*out ? *out : "", *out ? "\n" : "", "The input follows this grammar (",
                            syntax, "):\n", definition};
    int status = CERIUM_OK;
    for (size_t i = 0; i < ARRAY_LEN(pieces) && !status; i++)
        status = bytes_append(&text, pieces[i], strlen(pieces[i]));
    if (!status) status = make_text(p, (view){text.ptr, text.len}, out);
    bytes_free(&text);
    return status;
}

static int add_custom(parser *p, const place *at, const json_t *tool, const char *space)
{
    struct protocol_tool facts = {.kind = PROTOCOL_TOOL_CUSTOM, .space = space};
    cerium_tool made = {0};
    RETURN_IF(field_name(p, at, tool, "name", &made.name));
    RETURN_IF(field_string(p, at, tool, "description", &made.description));
    RETURN_IF(describe_grammar(p, at, tool, &facts, &made.description));
    return tool_add(p, at, &made, facts);
}

/* A function or a custom tool; Chat has its fields in an object named like the type. */
static int add_simple(parser *p, const place *at, const json_t *tool, const char *type,
                      const char *space)
{
    bool custom = !strcmp(type, "custom");
    if (!custom && strcmp(type, "function")) return CERIUM_OK; /* web_search and others */
    const place inner = {at, custom ? "custom" : "function", 0};
    bool nested = p->r->tool_set->style == TOOLS_NESTED;
    json_t *facts = NULL;
    if (nested) {
        RETURN_IF(field_object(p, at, tool, inner.key, &facts));
        if (!facts) return parse_fail_missing(p, &inner);
    }
    const json_t *from = nested ? facts : tool;
    return custom ? add_custom(p, nested ? &inner : at, from, space)
                  : add_function(p, nested ? &inner : at, from, space);
}

static int add_namespace(parser *p, const place *at, const json_t *tool)
{
    const char *space = NULL;
    json_t *inner = NULL;
    RETURN_IF(field_name(p, at, tool, "name", &space));
    RETURN_IF(field_array(p, at, tool, "tools", PROTOCOL_TOOLS_MAX, &inner));
    const place list = {at, "tools", 0};
    for (size_t i = 0; i < json_array_size(inner); i++) {
        const json_t *one = json_array_get(inner, i);
        const place here = {&list, NULL, i};
        const char *type = "function";
        RETURN_IF(expect_object(p, &here, one));
        RETURN_IF(field_string(p, &here, one, "type", &type));
        RETURN_IF(add_simple(p, &here, one, type, space));
    }
    return CERIUM_OK;
}

/* Anthropic's: tools with a type are the vendor's own and run at their host; the model does not see
 * tools that are deferred to a search. */
static int add_input_tool(parser *p, const place *at, const json_t *tool, const char *type)
{
    cerium_tool made = {.parameters = "{\"type\":\"object\",\"properties\":{}}"};
    struct protocol_tool facts = {.kind = PROTOCOL_TOOL_FUNCTION};
    json_t *parameters = NULL;
    bool waits = false;
    if (type && strcmp(type, "custom")) return CERIUM_OK;
    RETURN_IF(field_name(p, at, tool, "name", &made.name));
    RETURN_IF(field_bool(p, at, tool, "defer_loading", &waits));
    if (waits) return CERIUM_OK;
    RETURN_IF(field_string(p, at, tool, "description", &made.description));
    RETURN_IF(field_object(p, at, tool, "input_schema", &parameters));
    RETURN_IF(field_bool(p, at, tool, "strict", &facts.strict));
    if (parameters) RETURN_IF(make_json(p, parameters, &made.parameters));
    facts.schema = parameters;
    return tool_add(p, at, &made, facts);
}

/* The form of Chat before tools. */
static int functions_parse(parser *p)
{
    json_t *list = NULL;
    const place functions = {NULL, "functions", 0};
    RETURN_IF(field_array(p, NULL, p->root, "functions", PROTOCOL_TOOLS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const place at = {&functions, NULL, i};
        RETURN_IF(expect_object(p, &at, json_array_get(list, i)));
        RETURN_IF(add_function(p, &at, json_array_get(list, i), NULL));
    }
    return CERIUM_OK;
}

static int list_parse(parser *p)
{
    json_t *list = NULL;
    const place tools = {NULL, "tools", 0};
    RETURN_IF(field_array(p, NULL, p->root, "tools", PROTOCOL_TOOLS_MAX, &list));
    p->r->tool_set->json = json_incref(list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *tool = json_array_get(list, i);
        const place at = {&tools, NULL, i};
        const char *type = NULL;
        RETURN_IF(expect_object(p, &at, tool));
        RETURN_IF(field_string(p, &at, tool, "type", &type));
        if (p->r->tool_set->style == TOOLS_INPUT) {
            RETURN_IF(add_input_tool(p, &at, tool, type));
            continue;
        }
        if (!type) return parse_fail_missing(p, &(place){&at, "type", 0});
        if (!strcmp(type, "namespace"))
            RETURN_IF(add_namespace(p, &at, tool));
        else
            RETURN_IF(add_simple(p, &at, tool, type, NULL));
    }
    return CERIUM_OK;
}

/* Clients check these fields of a function, which requests may omit. */
static void put_tool(json_out *t, const json_t *tool)
{
    static const char *const wanted[] = {"description", "parameters", "strict"};
    const char *type = json_string_value(json_object_get(tool, "type"));
    const char *key;
    json_t *value;
    bool first = true;
    json_out_literal(t, "{");
    json_object_foreach((json_t *)tool, key, value) {
        if (!first) json_out_literal(t, ",");
        first = false;
        json_out_string(t, key);
        json_out_literal(t, ":");
        json_out_value(t, value);
    }
    for (size_t i = 0; type && !strcmp(type, "function") && i < ARRAY_LEN(wanted); i++) {
        if (json_object_get(tool, wanted[i])) continue;
        json_out_literal(t, ",");
        json_out_string(t, wanted[i]);
        json_out_literal(t, ":null");
    }
    json_out_literal(t, "}");
}

static int make_echo(struct protocol_tools *set)
{
    json_out *t = &set->echo;
    t->b.max = 8u * PROTOCOL_BODY_BYTES_MAX;
    json_out_literal(t, "[");
    for (size_t i = 0; i < json_array_size(set->json); i++) {
        if (i) json_out_literal(t, ",");
        put_tool(t, json_array_get(set->json, i));
    }
    json_out_literal(t, "]");
    return t->status;
}

static void cache_keep(protocol_cache *cache, struct protocol_tools *set);

static int read_tools(parser *p)
{
    struct protocol_tools *set = p->r->tool_set;
    p->texts = &set->texts;
    set->names = json_object();
    int status = set->names ? list_parse(p) : CERIUM_ERR_MEMORY;
    if (!status && p->r->legacy_functions) status = functions_parse(p);
    p->texts = &p->r->texts;
    if (status) return status;
    if (set->style == TOOLS_FLAT) RETURN_IF(make_echo(set));
    if (!p->raw_tools.len || !set->json) return CERIUM_OK;
    set->raw.max = PROTOCOL_CACHED_BYTES_MAX;
    RETURN_IF(bytes_append(&set->raw, p->raw_tools.ptr, p->raw_tools.len));
    cache_keep(p->defaults->cache, set);
    return CERIUM_OK;
}

tools_style tools_style_of(protocol_api api)
{
    switch (api) {
    case PROTOCOL_CHAT:
    case PROTOCOL_OLLAMA_CHAT: return TOOLS_NESTED;
    case PROTOCOL_MESSAGES: return TOOLS_INPUT;
    case PROTOCOL_RESPONSES:
    case PROTOCOL_COMPACT:
    case PROTOCOL_COMPLETIONS:
    case PROTOCOL_COMPLETION:
    case PROTOCOL_EMBEDDINGS:
    case PROTOCOL_OLLAMA_EMBED:
    case PROTOCOL_OLLAMA_GENERATE:
    case PROTOCOL_EDITS:
    case PROTOCOL_INFILL: break;
    }
    return TOOLS_FLAT;
}

int tools_parse(parser *p)
{
    protocol_request *r = p->r;
    r->legacy_functions = r->api == PROTOCOL_CHAT && json_object_get(p->root, "functions") &&
                          !json_is_array(json_object_get(p->root, "tools"));
    if (!r->tool_set) {
        r->tool_set = memory_zalloc(1, sizeof *r->tool_set);
        if (!r->tool_set) return CERIUM_ERR_MEMORY;
        r->tool_set->n_refs = 1;
        r->tool_set->style = tools_style_of(r->api);
        RETURN_IF(read_tools(p));
    }
    r->tools = r->tool_set->list;
    r->n_tools = r->tool_set->n;
    return tool_choice_parse(p);
}

void tools_release(struct protocol_tools **set)
{
    struct protocol_tools *s = *set;
    *set = NULL;
    if (!s || atomic_fetch_sub(&s->n_refs, 1) > 1) return;
    texts_free(&s->texts);
    memory_free(s->list);
    memory_free(s->facts);
    bytes_free(&s->raw);
    json_out_free(&s->echo);
    json_decref(s->json);
    json_decref(s->names);
    memory_free(s);
}

/* ---- cache ---- */

struct protocol_cache {
    _Atomic size_t n_refs;
    pthread_mutex_t lock;                             /* what is below */
    struct protocol_tools *sets[PROTOCOL_CACHED_MAX]; /* the newest first */
};

int protocol_cache_open(protocol_cache **out)
{
    protocol_cache *cache = memory_zalloc(1, sizeof *cache);
    if (!cache) return CERIUM_ERR_MEMORY;
    cache->n_refs = 1;
    pthread_mutex_init(&cache->lock, NULL);
    *out = cache;
    return CERIUM_OK;
}

protocol_cache *protocol_cache_hold(protocol_cache *cache)
{
    if (cache) atomic_fetch_add(&cache->n_refs, 1);
    return cache;
}

void protocol_cache_close(protocol_cache **cache)
{
    if (!cache || !*cache) return;
    protocol_cache *c = *cache;
    *cache = NULL;
    if (atomic_fetch_sub(&c->n_refs, 1) > 1) return;
    for (size_t i = 0; i < PROTOCOL_CACHED_MAX; i++) tools_release(&c->sets[i]);
    pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

struct protocol_tools *cache_find(protocol_cache *cache, tools_style style, view raw)
{
    struct protocol_tools *found = NULL;
    pthread_mutex_lock(&cache->lock);
    for (size_t i = 0; i < PROTOCOL_CACHED_MAX && cache->sets[i] && !found; i++) {
        struct protocol_tools *set = cache->sets[i];
        if (set->style != style || !view_equal(raw, (view){set->raw.ptr, set->raw.len})) continue;
        memmove(&cache->sets[1], &cache->sets[0], i * sizeof cache->sets[0]);
        cache->sets[0] = found = set;
        atomic_fetch_add(&set->n_refs, 1);
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

static void cache_keep(protocol_cache *cache, struct protocol_tools *set)
{
    atomic_fetch_add(&set->n_refs, 1);
    pthread_mutex_lock(&cache->lock);
    struct protocol_tools *oldest = cache->sets[PROTOCOL_CACHED_MAX - 1];
    memmove(&cache->sets[1], &cache->sets[0],
            (PROTOCOL_CACHED_MAX - 1) * sizeof cache->sets[0]);
    cache->sets[0] = set;
    pthread_mutex_unlock(&cache->lock);
    tools_release(&oldest);
}
