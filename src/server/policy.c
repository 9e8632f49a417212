/* policy.c - reads a configuration file: one table of keys for each kind of section. */
#include "server/policy.h"

#include <ini.h>

#include "base/memory.h"
#include "watch/watch.h"

_Static_assert(POLICY_LINE_BYTES_MAX < INI_MAX_LINE - 3, "libinih's own buffer");

enum { DAY_S = 86400 };

/* A text that libinih reads line by line: its handler does not get the line number. */
typedef struct {
    view rest;
    uint32_t line;
    uint32_t wrong_line; /* of the first error found */
    policy *p;
    const char *name;
    cerium_error *err;
    int status;
    uint64_t seen[POLICY_TIERS_MAX + POLICY_UPSTREAMS_MAX + 2]; /* given keys, one bit each */
} reading;

static int wrong(reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int wrong(reading *r, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->status) return r->status;
    r->wrong_line = r->line;
    return r->status = error_set(r->err, CERIUM_ERR_FORMAT, "%s:%u: %s", r->name, r->line, text);
}

/* ---- values ---- */

typedef enum {
    VALUE_COUNT,   /* a whole number within low..high */
    VALUE_PRICE,   /* dollars for a million tokens, three decimals */
    VALUE_TEXT,
    VALUE_URL,
    VALUE_CLASS,
    VALUE_BOOL,
    VALUE_MODELS,  /* names separated by commas */
    VALUE_EFFORTS,
    VALUE_TIER,
    VALUE_GUARD,   /* as in --guard, words separated by commas */
} value_kind;

typedef struct {
    const char *name;
    value_kind kind;
    size_t at; /* offset in the struct */
    uint32_t low, high;
} key;

static bool parse_price(const char *text, uint64_t *out)
{
    double dollars;
    if (!parse_f64(view_of(text), &dollars) || !(dollars >= 0 && dollars <= 1e6)) return false;
    double thousandths = dollars * 1000;
    *out = (uint64_t)(thousandths + 0.5);
    double off = thousandths - (double)*out;
    return off < 1e-6 && off > -1e-6;
}

static bool parse_class(const char *text, cerium_class *out)
{
    static const char *const names[CERIUM_CLASSES] = {"completion", "edit", "turn", "batch"};
    for (int i = 0; i < CERIUM_CLASSES; i++)
        if (!strcmp(text, names[i])) {
            *out = (cerium_class)i;
            return true;
        }
    return false;
}

/* Copy the next name of a list to out[cap]; false at its end, or with *bad when it does not fit. */
static bool next_name(const char **text, char *out, size_t cap, bool *bad)
{
    *text += strspn(*text, ", ");
    size_t len = strcspn(*text, ", ");
    if (!len) return false;
    *bad = len >= cap;
    if (*bad) return false;
    memcpy(out, *text, len);
    out[len] = 0;
    *text += len;
    return true;
}

static int take_names(reading *r, const char *value, char *names, size_t cap, uint32_t *n)
{
    bool bad = false;
    char name[POLICY_TEXT_BYTES];
    while (next_name(&value, name, cap, &bad)) {
        if (*n == POLICY_NAMES_MAX) return wrong(r, "at most %u names", POLICY_NAMES_MAX);
        memcpy(names + cap * (*n)++, name, strlen(name) + 1);
    }
    return bad ? wrong(r, "'%s' is too long", value) : CERIUM_OK;
}

static int take_url(reading *r, const char *value, char *out)
{
    size_t len = strlen(value);
    bool http = !strncmp(value, "http://", 7), https = !strncmp(value, "https://", 8);
    while (len && value[len - 1] == '/') len--;
    if ((!http && !https) || len <= (http ? 7u : 8u))
        return wrong(r, "'%s' is not an address: write https://host/v1", value);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)value[i] <= ' ' || value[i] == 0x7F || strchr("?#@", value[i]))
            return wrong(r, "'%s' is not an address: without blanks, '?', '#' and '@'", value);
    memcpy(out, value, len);
    out[len] = 0;
    return CERIUM_OK;
}

static int take_value(reading *r, void *into, const key *k, const char *value)
{
    char *at = (char *)into + k->at;
    uint64_t n;
    switch (k->kind) {
    case VALUE_COUNT:
        if (!parse_u64(view_of(value), &n) || n < k->low || n > k->high)
            return wrong(r, "'%s' is not a value for %s: a whole number from %u to %u", value,
                         k->name, k->low, k->high);
        *(uint32_t *)(void *)at = (uint32_t)n;
        return CERIUM_OK;
    case VALUE_PRICE:
        if (parse_price(value, (uint64_t *)(void *)at)) return CERIUM_OK;
        return wrong(r, "'%s' is not a price: dollars for a million tokens, as 0.50", value);
    case VALUE_TEXT:
        if (!*value) return wrong(r, "%s is empty", k->name);
        memcpy(at, value, strlen(value) + 1);
        return CERIUM_OK;
    case VALUE_URL: return take_url(r, value, at);
    case VALUE_CLASS:
        if (parse_class(value, (cerium_class *)(void *)at)) return CERIUM_OK;
        return wrong(r, "'%s' is not a priority: completion, edit, turn or batch", value);
    case VALUE_BOOL:
        if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
            return wrong(r, "'%s' is not a value for %s: yes or no", value, k->name);
        *(bool *)at = value[0] == 'y';
        return CERIUM_OK;
    case VALUE_MODELS: {
        upstream_policy *u = into;
        return take_names(r, value, u->models[0], sizeof u->models[0], &u->n_models);
    }
    case VALUE_EFFORTS: {
        upstream_policy *u = into;
        return take_names(r, value, u->efforts[0], sizeof u->efforts[0], &u->n_efforts);
    }
    case VALUE_GUARD: {
        watch_policy ignored = watch_policy_strict();
        if (!watch_policy_set_all(&ignored, view_of(value)))
            return wrong(r, "'%s' is not a guard setting: block, warn, off, or CLASS=one of them",
                         value);
        memcpy(at, value, strlen(value) + 1);
        return CERIUM_OK;
    }
    case VALUE_TIER:
        if (!policy_name_is_good(value)) return wrong(r, "'%s' is not the name of a tier", value);
        memcpy(at, value, strlen(value) + 1);
        return CERIUM_OK;
    }
    return CERIUM_ERR_ARGUMENT;
}

/* ---- sections ---- */

#define TIER(member) offsetof(tier, member)
static const key tier_keys[] = {
    {"requests-per-minute", VALUE_COUNT, TIER(requests_per_minute), 0, RATES_MAX},
    {"tokens-per-minute", VALUE_COUNT, TIER(tokens_per_minute), 0, RATES_MAX},
    {"deep-requests-per-minute", VALUE_COUNT, TIER(deep_requests_per_minute), 0, RATES_MAX},
    {"deep-tokens-per-minute", VALUE_COUNT, TIER(deep_tokens_per_minute), 0, RATES_MAX},
    {"streams", VALUE_COUNT, TIER(streams), 0, 1 << 20},
    {"priority", VALUE_CLASS, TIER(ceiling), 0, 0},
    {"guard", VALUE_GUARD, TIER(guard), 0, 0},
    {"guard-loosens", VALUE_BOOL, TIER(guard_loosens), 0, 0},
    {"price-input", VALUE_PRICE, TIER(price_input), 0, 0},
    {"price-cached", VALUE_PRICE, TIER(price_cached), 0, 0},
    {"price-output", VALUE_PRICE, TIER(price_output), 0, 0},
};

#define LIMIT(member) offsetof(policy, member)
static const key limit_keys[] = {
    {"key-tier", VALUE_TIER, LIMIT(key_tier), 0, 0},
    {"queue-seconds", VALUE_COUNT, LIMIT(queue_s), 0, DAY_S},
    {"replicas", VALUE_COUNT, LIMIT(replicas), 1, 1000},
    {"load-seconds", VALUE_COUNT, LIMIT(load_s), 1, DAY_S},
    {"load-floor", VALUE_COUNT, LIMIT(load_floor), 1, 100},
};

#define UPSTREAM(member) offsetof(upstream_policy, member)
static const key upstream_keys[] = {
    {"url", VALUE_URL, UPSTREAM(url), 0, 0},
    {"key-env", VALUE_TEXT, UPSTREAM(key_env), 0, 0},
    {"key-file", VALUE_TEXT, UPSTREAM(key_file), 0, 0},
    {"model", VALUE_TEXT, UPSTREAM(model), 0, 0},
    {"models", VALUE_MODELS, 0, 0, 0},
    {"effort", VALUE_EFFORTS, 0, 0, 0},
    {"context-over", VALUE_COUNT, UPSTREAM(context_over), 0, 1 << 30},
    {"queue-over", VALUE_COUNT, UPSTREAM(queue_over_s), 0, DAY_S},
    {"responses", VALUE_BOOL, UPSTREAM(responses), 0, 0},
    {"thinking-budget", VALUE_TEXT, UPSTREAM(budget), 0, 0},
    {"connect-time", VALUE_COUNT, UPSTREAM(connect_s), 1, DAY_S},
    {"first-time", VALUE_COUNT, UPSTREAM(first_s), 1, DAY_S},
    {"idle-time", VALUE_COUNT, UPSTREAM(idle_s), 1, DAY_S},
    {"retries", VALUE_COUNT, UPSTREAM(retries), 0, 10},
    {"failures", VALUE_COUNT, UPSTREAM(failures), 1, 1000},
    {"rest-time", VALUE_COUNT, UPSTREAM(rest_s), 1, DAY_S},
    {"health-time", VALUE_COUNT, UPSTREAM(health_s), 0, DAY_S},
};
_Static_assert(ARRAY_LEN(upstream_keys) < 64, "a bit each");

bool policy_name_is_good(const char *name)
{
    size_t n = strlen(name);
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return n && n <= POLICY_NAME_BYTES_MAX && strspn(name, good) == n;
}

static void new_tier(tier *t, const char *name)
{
    *t = (tier){.ceiling = CERIUM_CLASS_COMPLETION,
                .price_input = 5000,
                .price_cached = 500,
                .price_output = 15000};
    snprintf(t->name, sizeof t->name, "%s", name);
}

void policy_defaults(policy *out)
{
    static const char *const names[] = {"pro", "team", "batch"};
    *out = (policy){.n_tiers = ARRAY_LEN(names), .replicas = 1, .load_s = 10,
                    .load_floor = 25};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) new_tier(&out->tiers[i], names[i]);
    out->tiers[2].ceiling = CERIUM_CLASS_BATCH;
}

const tier *policy_tier(const policy *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_tiers; i++)
        if (!strcmp(p->tiers[i].name, name)) return &p->tiers[i];
    return NULL;
}

static int take_key(reading *r, const key *keys, size_t n, void *into, uint64_t *seen,
                    const char *section, const char *name, const char *value)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(keys[i].name, name) != 0) continue;
        if (*seen & UINT64_C(1) << i) return wrong(r, "%s is given twice in [%s]", name, section);
        *seen |= UINT64_C(1) << i;
        return take_value(r, into, &keys[i], value);
    }
    return wrong(r, "[%s] has no key '%s'; see docs/service.md", section, name);
}

static int take_setting(reading *r, const char *name, const char *value)
{
    policy *p = r->p;
    if (p->n_settings == POLICY_SETTINGS_MAX)
        return wrong(r, "[server] has more than %u lines", POLICY_SETTINGS_MAX);
    policy_setting *s = &p->settings[p->n_settings++];
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->value, sizeof s->value, "%s", value);
    s->line = r->line;
    return CERIUM_OK;
}

/* The tier of a section; a new one for a new name. */
static tier *find_tier(reading *r, const char *name)
{
    policy *p = r->p;
    for (uint32_t i = 0; i < p->n_tiers; i++)
        if (!strcmp(p->tiers[i].name, name)) return &p->tiers[i];
    if (!policy_name_is_good(name))
        return (void)wrong(r, "'%s' is not a name: 1 to %u letters, digits, '-', '_', '.'", name,
                           POLICY_NAME_BYTES_MAX), NULL;
    if (p->n_tiers == POLICY_TIERS_MAX)
        return (void)wrong(r, "more than %u tiers", POLICY_TIERS_MAX), NULL;
    new_tier(&p->tiers[p->n_tiers], name);
    return &p->tiers[p->n_tiers++];
}

static upstream_policy *find_upstream(reading *r, const char *name)
{
    policy *p = r->p;
    for (uint32_t i = 0; i < p->n_upstreams; i++)
        if (!strcmp(p->upstreams[i].name, name)) return &p->upstreams[i];
    if (!policy_name_is_good(name))
        return (void)wrong(r, "'%s' is not a name: 1 to %u letters, digits, '-', '_', '.'", name,
                           POLICY_NAME_BYTES_MAX), NULL;
    if (p->n_upstreams == POLICY_UPSTREAMS_MAX)
        return (void)wrong(r, "more than %u upstreams", POLICY_UPSTREAMS_MAX), NULL;
    upstream_policy *u = &p->upstreams[p->n_upstreams++];
    *u = (upstream_policy){.responses = true,
                           .budget = "thinking_token_budget",
                           .connect_s = 5,
                           .first_s = 120,
                           .idle_s = 120,
                           .retries = 1,
                           .failures = 3,
                           .rest_s = 30,
                           .health_s = 10};
    snprintf(u->name, sizeof u->name, "%s", name);
    return u;
}

/* libinih: returning 0 does not stop it, but makes ini_parse_stream() report the line. */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
    reading *r = user;
    policy *p = r->p;
    if (r->status) return 0;
    int status;
    if (!strcmp(section, "server")) {
        status = take_setting(r, name, value);
    } else if (!strcmp(section, "limits")) {
        status = take_key(r, limit_keys, ARRAY_LEN(limit_keys), p, &r->seen[0], section, name,
                          value);
    } else if (!strncmp(section, "tier ", 5)) {
        tier *t = find_tier(r, section + 5);
        status = !t ? r->status
                    : take_key(r, tier_keys, ARRAY_LEN(tier_keys), t, &r->seen[1 + (t - p->tiers)],
                               section, name, value);
    } else if (!strncmp(section, "upstream ", 9)) {
        upstream_policy *u = find_upstream(r, section + 9);
        status = !u ? r->status
                    : take_key(r, upstream_keys, ARRAY_LEN(upstream_keys), u,
                               &r->seen[1 + POLICY_TIERS_MAX + (u - p->upstreams)], section, name,
                               value);
    } else {
        status = wrong(r, section[0] ? "there is no section [%s]: server, limits, tier NAME, "
                                       "upstream NAME"
                                     : "a line before the first [section]%s",
                       section);
    }
    return status == CERIUM_OK;
}

/* The next line for libinih, without the blanks that would make it a continued value. */
static char *read_line(char *out, int cap, void *stream)
{
    reading *r = stream;
    if (!r->rest.len || r->status) return NULL;
    const char *end = memchr(r->rest.ptr, '\n', r->rest.len);
    size_t whole = end ? (size_t)(end - r->rest.ptr) + 1 : r->rest.len;
    view line = {r->rest.ptr, whole};
    r->rest = (view){r->rest.ptr + whole, r->rest.len - whole};
    r->line++;
    line = view_trim_start(line, " \t");
    if (memchr(line.ptr, 0, line.len)) (void)wrong(r, "a NUL byte: this is not a text file");
    line = view_trim_end(line, " \t\r\n");
    if (line.len && strchr("#;", line.ptr[0])) line.len = 0; /* a comment */
    if (line.len > POLICY_LINE_BYTES_MAX || (int)line.len + 2 > cap)
        (void)wrong(r, "longer than %u bytes", POLICY_LINE_BYTES_MAX);
    if (r->status) return NULL;
    memcpy(out, line.ptr, line.len);
    out[line.len] = '\n';
    out[line.len + 1] = 0;
    return out;
}

/* Independent stores each admit their part; a limit stays at least one. */
static void divide_limits(policy *p)
{
    for (uint32_t i = 0; i < p->n_tiers; i++) {
        tier *t = &p->tiers[i];
        uint32_t *const limits[] = {&t->requests_per_minute, &t->tokens_per_minute,
                                    &t->deep_requests_per_minute, &t->deep_tokens_per_minute,
                                    &t->streams};
        for (size_t k = 0; k < ARRAY_LEN(limits); k++)
            *limits[k] = (uint32_t)(((uint64_t)*limits[k] + p->replicas - 1) / p->replicas);
    }
}

/* Checks that need the whole file. */
static int check_whole(reading *r)
{
    policy *p = r->p;
    if (p->key_tier[0] && !policy_tier(p, p->key_tier))
        return error_set(r->err, CERIUM_ERR_FORMAT, "%s: key-tier names '%s', and there is no "
                         "[tier %s]", r->name, p->key_tier, p->key_tier);
    for (uint32_t i = 0; i < p->n_upstreams; i++) {
        const upstream_policy *u = &p->upstreams[i];
        if (!u->url[0])
            return error_set(r->err, CERIUM_ERR_FORMAT, "%s: [upstream %s] has no url", r->name,
                             u->name);
        if (u->key_env[0] && u->key_file[0])
            return error_set(r->err, CERIUM_ERR_FORMAT, "%s: [upstream %s] has key-env and "
                             "key-file: give one", r->name, u->name);
    }
    return CERIUM_OK;
}

int policy_parse(policy *out, view text, const char *name, cerium_error *err)
{
    CHECK(out && name);
    reading r = {.rest = text, .p = out, .name = name, .err = err};
    policy_defaults(out);
    if (text.len > POLICY_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: longer than %u bytes", name,
                         POLICY_BYTES_MAX);
    int line = ini_parse_stream(read_line, &r, on_key, &r);
    /* libinih continues after a line that it cannot parse; later errors would mislead. */
    if (line > 0 && (!r.status || (uint32_t)line < r.wrong_line))
        return error_set(err, CERIUM_ERR_FORMAT, "%s:%d: not `[section]` or `key = value`", name,
                         line);
    if (line < 0) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", name);
    if (r.status) return r.status;
    divide_limits(out);
    return check_whole(&r);
}
