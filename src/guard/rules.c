/* rules.c - reads files of rules.  Errors are reported with their line. */
#include "guard/rules.h"

#include <dirent.h>
#include <errno.h>

#include "guard/yaml_read.h"

const char *const weakness_names[WEAK_COUNT] = {
    "secret", "sql", "nosql", "ldap", "xpath", "command", "code", "path", "xss", "ssrf",
    "redirect", "deserialize", "crypto", "tls", "jwt", "xxe", "temp", "permissions", "memory",
    "format", "exists",
};

typedef struct {
    rule_set *rules;
    yaml_text yaml;
    uint32_t languages; /* of this file */
} reading;

static view keep(reading *r, view text)
{
    char *copy = arena_take(&r->rules->strings, text.len + 1, 1);
    if (!copy) return (view){NULL, 0};
    if (text.len) memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    return (view){copy, text.len};
}

static int too_much(const reading *r, const yaml_node_t *at)
{
    return yaml_bad(&r->yaml, at, "more than the rules have room for");
}

static int read_text(reading *r, const yaml_node_t *node, const char **out)
{
    view text = yaml_scalar(node);
    if (!text.len) return yaml_bad(&r->yaml, node, "a text is wanted here");
    text = keep(r, text);
    if (!text.ptr) return too_much(r, node);
    *out = text.ptr;
    return CERIUM_OK;
}

static int read_regex(reading *r, const yaml_node_t *node, pcre2_code **out)
{
    char why[128];
    const char *text = NULL;
    RETURN_IF(read_text(r, node, &text));
    if (*out) return yaml_bad(&r->yaml, node, "there is one already");
    *out = regex_compile(text, why);
    return *out ? CERIUM_OK : yaml_bad(&r->yaml, node, "the expression: %s", why);
}

static int read_choice(reading *r, const yaml_node_t *node, const char *const *names, size_t n,
                       uint32_t *out)
{
    view text = yaml_scalar(node);
    for (size_t i = 0; i < n; i++)
        if (view_equal(text, view_of(names[i]))) {
            *out = (uint32_t)i;
            return CERIUM_OK;
        }
    return yaml_bad(&r->yaml, node, "'%.*s' is not known here", (int)text.len,
                    text.ptr ? text.ptr : "");
}

static int read_patterns(reading *r, yaml_node_t *node, pattern_list *out)
{
    yaml_node_t *item;
    for (size_t i = 0; yaml_item_at(&r->yaml, node, i, &item); i++) {
        view text = yaml_scalar(item);
        if (!text.len) return yaml_bad(&r->yaml, item, "a name is wanted here");
        int status = pattern_add(out, &r->rules->strings, text);
        if (status == CERIUM_ERR_CAPACITY) return too_much(r, item);
        if (status == CERIUM_ERR_FORMAT)
            return yaml_bad(&r->yaml, item, "'%.*s' is not a pattern", (int)text.len, text.ptr);
        RETURN_IF(status);
    }
    return CERIUM_OK;
}

static int read_views(reading *r, yaml_node_t *node, view **out, uint32_t *n)
{
    yaml_node_t *item;
    size_t count = 0;
    while (yaml_item_at(&r->yaml, node, count, &item)) count++;
    *out = arena_take(&r->rules->strings, (count + 1) * sizeof **out, sizeof(void *));
    if (!*out) return too_much(r, node);
    for (size_t i = 0; yaml_item_at(&r->yaml, node, i, &item); i++) {
        if (!yaml_scalar(item).len) return yaml_bad(&r->yaml, item, "a text is wanted here");
        (*out)[i] = keep(r, yaml_scalar(item));
        if (!(*out)[i].ptr) return too_much(r, item);
    }
    *n = (uint32_t)count;
    return CERIUM_OK;
}

/* "1", "Loader", "1|Loader", "receiver", "any". */
static int read_arg(reading *r, const yaml_node_t *node, rule_arg *out)
{
    view text = yaml_scalar(node);
    if (!text.len) return yaml_bad(&r->yaml, node, "an argument is wanted here: 0, name, 0|name");
    *out = (rule_arg){.index = ARG_NONE};
    if (view_equal(text, VIEW("receiver"))) out->index = ARG_RECEIVER;
    else if (view_equal(text, VIEW("any"))) out->index = ARG_ANY;
    else {
        size_t at = 0;
        uint64_t number;
        while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9') at++;
        if (at && (!parse_u64((view){text.ptr, at}, &number) || number > 32))
            return yaml_bad(&r->yaml, node, "there are no more than 32 arguments");
        if (at) out->index = (int)number;
        if (at && at < text.len && text.ptr[at] == '|') at++;
        if (at < text.len) {
            view name = keep(r, (view){text.ptr + at, text.len - at});
            if (!name.ptr) return too_much(r, node);
            out->name = name.ptr;
        }
    }
    return CERIUM_OK;
}

static int read_if(reading *r, yaml_node_t *node, rule_if *out)
{
    static const char *const flags[] = {"missing",  "given",   "dynamic",
                                        "constant", "exceeds", "literal"};
    yaml_entry e;
    uint32_t flag = 0;
    *out = (rule_if){.arg = {.index = ARG_NONE}};
    if (!yaml_is_map(node)) return yaml_bad(&r->yaml, node, "write {arg: 0, is: 'expression'}");
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        if (view_equal(e.key, VIEW("arg"))) RETURN_IF(read_arg(r, e.value, &out->arg));
        else if (view_equal(e.key, VIEW("is"))) RETURN_IF(read_regex(r, e.value, &out->is));
        else if (view_equal(e.key, VIEW("not"))) RETURN_IF(read_regex(r, e.value, &out->is_not));
        else if (view_equal(e.key, VIEW("that"))) {
            RETURN_IF(read_choice(r, e.value, flags, ARRAY_LEN(flags), &flag));
            *(flag == 0   ? &out->missing
              : flag == 1 ? &out->given
              : flag == 2 ? &out->dynamic
              : flag == 3 ? &out->constant
              : flag == 4 ? &out->exceeds
                          : &out->literal) = true;
        } else return yaml_bad(&r->yaml, e.key_node, "a condition has no '%.*s'",
                               (int)e.key.len, e.key.ptr ? e.key.ptr : "");
    }
    return CERIUM_OK;
}

static int read_ifs(reading *r, rule *u, yaml_node_t *node)
{
    yaml_node_t *item;
    for (size_t i = 0; yaml_item_at(&r->yaml, node, i, &item); i++) {
        if (u->n_ifs == RULE_IFS_MAX)
            return yaml_bad(&r->yaml, item, "at most %d conditions", RULE_IFS_MAX);
        /* Counted first: the compiled parts of a bad condition are released with the rule. */
        RETURN_IF(read_if(r, item, &u->ifs[u->n_ifs++]));
    }
    return CERIUM_OK;
}

static int read_args(reading *r, rule *u, yaml_node_t *node)
{
    yaml_node_t *item;
    for (size_t i = 0; yaml_item_at(&r->yaml, node, i, &item); i++) {
        if (u->n_args == RULE_ARGS_MAX)
            return yaml_bad(&r->yaml, item, "at most %d arguments", RULE_ARGS_MAX);
        RETURN_IF(read_arg(r, item, &u->args[u->n_args++]));
    }
    return CERIUM_OK;
}

static int read_cwe(reading *r, rule *u, const yaml_node_t *node)
{
    uint64_t number;
    if (!parse_u64(yaml_scalar(node), &number) || !number || number > 9999)
        return yaml_bad(&r->yaml, node, "cwe is a number, as in 'cwe: 89'");
    u->cwe = (uint32_t)number;
    return CERIUM_OK;
}

static int read_names(reading *r, rule *u, yaml_node_t *node, rule_kind kind)
{
    if (u->names.n || u->match) return yaml_bad(&r->yaml, node, "a rule has one kind of trigger");
    u->kind = kind;
    return read_patterns(r, node, &u->names);
}

static int read_match(reading *r, rule *u, const yaml_node_t *node, rule_kind kind)
{
    if (u->names.n || u->match) return yaml_bad(&r->yaml, node, "a rule has one kind of trigger");
    u->kind = kind;
    return read_regex(r, node, &u->match);
}

/* "block", or {source: block, parameter: warn}: the other levels are those of the class. */
static int read_severity(reading *r, rule *u, yaml_node_t *node)
{
    static const char *const severities[] = {"note", "warn", "block"};
    static const char *const levels[RULE_TIERS] = {"constant", "unknown", "parameter", "source"};
    yaml_entry e;
    uint32_t n = 0, level = 0;
    if (!yaml_is_map(node)) {
        RETURN_IF(read_choice(r, node, severities, ARRAY_LEN(severities), &n));
        memset(u->tiers, (int)n, sizeof u->tiers);
        return CERIUM_OK;
    }
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        RETURN_IF(read_choice(r, e.key_node, levels, ARRAY_LEN(levels), &level));
        RETURN_IF(read_choice(r, e.value, severities, ARRAY_LEN(severities), &n));
        u->tiers[level] = (int8_t)n;
    }
    return CERIUM_OK;
}

/* "3 of 42": findings in clean code that were right, of those that were read. */
static int read_share(reading *r, rule_read *out, yaml_node_t *node)
{
    view text = yaml_scalar(node);
    const char *of = text.len ? memmem(text.ptr, text.len, " of ", 4) : NULL;
    uint64_t right = 0, n = 0;
    view first = {text.ptr, of ? (size_t)(of - text.ptr) : 0};
    view second = {of ? of + 4 : NULL, of ? text.len - first.len - 4 : 0};
    if (!of || !parse_u64(first, &right) || !parse_u64(second, &n) || right > n || n > UINT16_MAX)
        return yaml_bad(&r->yaml, node, "write '3 of 42': right, of those that were read");
    *out = (rule_read){(uint32_t)n, (uint32_t)right};
    return CERIUM_OK;
}

/* "3 of 42", or {all: 3 of 42, source: 2 of 12}. */
static int read_precision(reading *r, rule *u, yaml_node_t *node)
{
    static const char *const of[RULE_TIERS + 1] = {"constant", "unknown", "parameter", "source",
                                                   "all"};
    yaml_entry e;
    uint32_t n = 0;
    if (!yaml_is_map(node)) return read_share(r, &u->read, node);
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        RETURN_IF(read_choice(r, e.key_node, of, ARRAY_LEN(of), &n));
        RETURN_IF(read_share(r, n < RULE_TIERS ? &u->read_of[n] : &u->read, e.value));
    }
    return CERIUM_OK;
}

/* {note: expression, block: expression} */
static int read_near(reading *r, rule *u, yaml_node_t *node)
{
    static const char *const severities[RULE_NEAR] = {"note", "warn", "block"};
    yaml_entry e;
    uint32_t n = 0;
    if (!yaml_is_map(node)) return yaml_bad(&r->yaml, node, "write {note: 'expression'}");
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        RETURN_IF(read_choice(r, e.key_node, severities, RULE_NEAR, &n));
        RETURN_IF(read_regex(r, e.value, &u->near[n]));
    }
    return CERIUM_OK;
}

/* One key of a rule. */
static int read_key(reading *r, rule *u, yaml_entry *e)
{
    static const char *const levels[] = {"any",    "dynamic",   "parameter",
                                         "source", "formatted", "tainted-format"};
    static const char *const yes[] = {"no", "yes"};
    enum { NAMES, ID, MESSAGE, IDIOM, CWE, WEAK, SEVERITY, LEVEL, ARG, IF, SEEN, UNSEEN, UNLESS,
           SECRET, LITERALS, BAD, GOOD, FIRM, NEAR, LIVE, FIX, NEEDS, PRECISION };
    static const char *const keys[] = {"",         "id",  "message", "idiom",  "cwe",    "weakness",
                                       "severity", "level", "arg",   "if",     "seen",   "unseen",
                                       "unless",   "secret", "literals", "bad", "good",
                                       "firm",     "near", "live", "fix", "needs",
                                       "precision"};
    static const char *const kinds[RULE_KINDS] = {"call",      "assign", "pair",
                                                  "reference", "string", "credential", "line"};
    uint32_t n = 0, key = 0;
    for (uint32_t k = 0; k < RULE_KINDS; k++)
        if (view_equal(e->key, view_of(kinds[k])))
            return k >= RULE_STRING ? read_match(r, u, e->value, (rule_kind)k)
                                    : read_names(r, u, e->value, (rule_kind)k);
    RETURN_IF(read_choice(r, e->key_node, keys, ARRAY_LEN(keys), &key));
    switch (key) {
    case ID: return read_text(r, e->value, &u->id);
    case MESSAGE: return read_text(r, e->value, &u->message);
    case IDIOM: return read_text(r, e->value, &u->idiom);
    case CWE: return read_cwe(r, u, e->value);
    case WEAK:
        RETURN_IF(read_choice(r, e->value, weakness_names, WEAK_COUNT, &n));
        u->weak = (weakness)n;
        return CERIUM_OK;
    case SEVERITY:
        return read_severity(r, u, e->value);
    case LEVEL:
        RETURN_IF(read_choice(r, e->value, levels, ARRAY_LEN(levels), &n));
        u->level = (rule_level)n;
        return CERIUM_OK;
    case ARG: return read_args(r, u, e->value);
    case IF: return read_ifs(r, u, e->value);
    case SEEN: return read_regex(r, e->value, &u->seen);
    case UNSEEN: return read_regex(r, e->value, &u->unseen);
    case UNLESS: return read_regex(r, e->value, &u->unless);
    case SECRET:
        RETURN_IF(read_choice(r, e->value, yes, ARRAY_LEN(yes), &n));
        u->secret = n != 0;
        return CERIUM_OK;
    case FIRM:
        RETURN_IF(read_choice(r, e->value, yes, ARRAY_LEN(yes), &n));
        u->firm = n != 0;
        return CERIUM_OK;
    case NEAR: return read_near(r, u, e->value);
    case LIVE:
        RETURN_IF(read_choice(r, e->value, yes, ARRAY_LEN(yes), &n));
        u->live = n != 0;
        return CERIUM_OK;
    case FIX: return read_views(r, e->value, &u->fixes, &u->n_fixes);
    case NEEDS: return read_text(r, e->value, &u->needs);
    case PRECISION: return read_precision(r, u, e->value);
    case LITERALS: return read_views(r, e->value, &u->literals, &u->n_literals);
    case BAD: return read_views(r, e->value, &u->bad, &u->n_bad);
    case GOOD: return read_views(r, e->value, &u->good, &u->n_good);
    default: return yaml_bad(&r->yaml, e->key_node, "a key of a rule is wanted here");
    }
}

static int read_rule(reading *r, yaml_node_t *node)
{
    yaml_entry e;
    rule_set *set = r->rules;
    if (!yaml_is_map(node)) return yaml_bad(&r->yaml, node, "a rule is a mapping");
    if (set->n == GUARD_RULES_MAX)
        return yaml_bad(&r->yaml, node, "more than %u rules", GUARD_RULES_MAX);
    rule *u = &set->list[set->n++];
    view file = keep(r, view_of(r->yaml.file));
    if (!file.ptr) return too_much(r, node);
    *u = (rule){.tiers = {-1, -1, -1, -1}, .languages = r->languages, .file = file.ptr,
                .line = (uint32_t)node->start_mark.line + 1};
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) RETURN_IF(read_key(r, u, &e));
    if (!u->id) return yaml_bad(&r->yaml, node, "a rule has an id");
    for (uint32_t i = 0; i + 1 < set->n; i++)
        if (!strcmp(set->list[i].id, u->id))
            return yaml_bad(&r->yaml, node, "the id %s is also in %s:%u", u->id,
                            set->list[i].file, set->list[i].line);
    if (!u->cwe || !u->message || !u->idiom)
        return yaml_bad(&r->yaml, node, "%s needs cwe, weakness, message and idiom", u->id);
    if (!u->names.n && !u->match)
        return yaml_bad(&r->yaml, node, "%s needs a trigger: call, assign, pair, reference, "
                        "string or line", u->id);
    if (u->match && !u->n_literals)
        return yaml_bad(&r->yaml, node, "%s needs literals, which wake it", u->id);
    if (!u->n_bad || !u->n_good)
        return yaml_bad(&r->yaml, node, "%s needs tests: bad and good", u->id);
    return CERIUM_OK;
}

/* names: argument, ... */
static int read_flows(reading *r, yaml_node_t *node, rule_flow *list, uint32_t *n)
{
    yaml_entry e;
    rule_arg arg;
    if (!yaml_is_map(node)) return yaml_bad(&r->yaml, node, "write {name: argument}");
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        if (*n == RULE_FLOWS_MAX) return too_much(r, node);
        rule_flow *flow = &list[(*n)++];
        RETURN_IF(read_arg(r, e.value, &arg));
        flow->to = arg.index;
        RETURN_IF(read_patterns(r, e.key_node, &flow->names));
    }
    return CERIUM_OK;
}

static int read_cleaners(reading *r, yaml_node_t *node, language_facts *f)
{
    yaml_entry e;
    uint32_t weak = 0;
    if (!yaml_is_map(node)) return yaml_bad(&r->yaml, node, "write {any: [names], sql: [names]}");
    for (size_t i = 0; yaml_entry_at(&r->yaml, node, i, &e); i++) {
        if (view_equal(e.key, VIEW("any"))) {
            RETURN_IF(read_patterns(r, e.value, &f->cleaners));
            continue;
        }
        RETURN_IF(read_choice(r, e.key_node, weakness_names, WEAK_COUNT, &weak));
        RETURN_IF(read_patterns(r, e.value, &f->cleaners_of[weak]));
    }
    return CERIUM_OK;
}

static int read_fact(reading *r, yaml_entry *e, language_facts *f)
{
    if (view_equal(e->key, VIEW("sources"))) return read_patterns(r, e->value, &f->sources);
    if (view_equal(e->key, VIEW("own"))) return read_patterns(r, e->value, &f->own);
    if (view_equal(e->key, VIEW("cleaners"))) return read_cleaners(r, e->value, f);
    if (view_equal(e->key, VIEW("guards"))) return read_patterns(r, e->value, &f->guards);
    if (view_equal(e->key, VIEW("formatters"))) return read_patterns(r, e->value, &f->formatters);
    if (view_equal(e->key, VIEW("mutators"))) return read_patterns(r, e->value, &f->mutators);
    if (view_equal(e->key, VIEW("fills"))) return read_flows(r, e->value, f->fills, &f->n_fills);
    if (view_equal(e->key, VIEW("copies")))
        return read_flows(r, e->value, f->copies, &f->n_copies);
    if (view_equal(e->key, VIEW("handler"))) return read_regex(r, e->value, &f->handler);
    if (view_equal(e->key, VIEW("parameter"))) return read_regex(r, e->value, &f->parameter);
    if (view_equal(e->key, VIEW("loose"))) return read_regex(r, e->value, &f->loose);
    return yaml_bad(&r->yaml, e->key_node, "a file of rules has no '%.*s'", (int)e->key.len,
                    e->key.ptr ? e->key.ptr : "");
}

static int read_languages(reading *r, yaml_node_t *node)
{
    yaml_node_t *item;
    for (size_t i = 0; yaml_item_at(&r->yaml, node, i, &item); i++) {
        view name = yaml_scalar(item);
        guard_language l = guard_language_named(name);
        if (view_equal(name, VIEW("any"))) r->languages = (1u << GUARD_LANGUAGES) - 1;
        else if (l == GUARD_TEXT && !view_equal(name, VIEW("text")))
            return yaml_bad(&r->yaml, item, "'%.*s' is not a language of the watchdog",
                            (int)name.len, name.ptr ? name.ptr : "");
        r->languages |= 1u << l;
    }
    return CERIUM_OK;
}

static int read_file_map(reading *r, yaml_node_t *root)
{
    yaml_entry e;
    yaml_node_t *item;
    if (!yaml_is_map(root)) return yaml_bad(&r->yaml, root, "a file of rules is a mapping");
    if (!yaml_entry_at(&r->yaml, root, 0, &e) || !view_equal(e.key, VIEW("language")))
        return yaml_bad(&r->yaml, root, "begin with 'language: python', or any");
    RETURN_IF(read_languages(r, e.value));
    for (size_t i = 1; yaml_entry_at(&r->yaml, root, i, &e); i++) {
        if (!view_equal(e.key, VIEW("rules"))) {
            for (int l = 0; l < GUARD_LANGUAGES; l++)
                if (r->languages & 1u << l)
                    RETURN_IF(read_fact(r, &e, &r->rules->facts[l]));
            continue;
        }
        for (size_t k = 0; yaml_item_at(&r->yaml, e.value, k, &item); k++)
            RETURN_IF(read_rule(r, item));
    }
    return CERIUM_OK;
}

int rules_read(rule_set *rules, const char *name, view text, cerium_error *err)
{
    reading r = {.rules = rules};
    RETURN_IF(yaml_open(&r.yaml, name, text, err));
    int status = read_file_map(&r, yaml_root(&r.yaml));
    if (status == CERIUM_ERR_MEMORY) error_set(err, status, "%s: no memory for its rules", name);
    yaml_close(&r.yaml);
    return status;
}
