/* solve_order.c - parses the request. */
#include "server/solve_order.h"

#include "base/json.h"
#include "guard/guard.h"

enum {
    BODY_BYTES_MAX = 4 << 20,
    LINES_MAX = 1 << 24,
    VARIANTS_MAX = 4096,
    VARIANTS = 256,
    SECONDS_MAX = 600,
    SECONDS = 30,
};

static const char *const known[] = {"code",         "file",        "language", "line",
                                    "last_line",    "column",      "function", "tests",
                                    "examples",     "doctest",     "hidden",   "max_variants",
                                    "max_seconds",  "seed",        "makers",   "model",
                                    "stream"};

#define bad_value(e, param, ...)                                                                   \
    protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param, __VA_ARGS__)

static int check_names(const solve_order *o, protocol_error *e)
{
    const char *key;
    json_t *value;
    json_object_foreach(o->root, key, value) {
        size_t i = 0;
        while (i < ARRAY_LEN(known) && strcmp(known[i], key) != 0) i++;
        if (i == ARRAY_LEN(known))
            return protocol_error_set(e, 400, "invalid_request_error", "unknown_parameter", key,
                                      "Unknown parameter: '%.100s'.", key);
    }
    return CERIUM_OK;
}

/* null counts as missing. */
static const json_t *field(const solve_order *o, const char *name)
{
    const json_t *value = json_object_get(o->root, name);
    return json_is_null(value) ? NULL : value;
}

static int take_text(const solve_order *o, const char *name, const char **out, protocol_error *e)
{
    const json_t *value = field(o, name);
    *out = json_string_value(value);
    return value && !*out ? bad_value(e, name, "%s is a string", name) : CERIUM_OK;
}

static int take_number(const solve_order *o, const char *name, int64_t least, int64_t most,
                       int64_t *out, protocol_error *e)
{
    const json_t *value = field(o, name);
    if (!value) return CERIUM_OK;
    *out = json_integer_value(value);
    if (json_is_integer(value) && *out >= least && *out <= most) return CERIUM_OK;
    return bad_value(e, name, "%s is a whole number from %lld to %lld", name, (long long)least,
                     (long long)most);
}

static int take_bool(const solve_order *o, const char *name, bool *out, protocol_error *e)
{
    const json_t *value = field(o, name);
    *out = json_is_true(value);
    return value && !json_is_boolean(value) ? bad_value(e, name, "%s is true or false", name)
                                            : CERIUM_OK;
}

static int take_makers(solve_order *o, protocol_error *e)
{
    static const char *const names[] = {"mutate", "model", "repair"};
    const json_t *list = field(o, "makers"), *one;
    bool makes = !list;
    size_t i;
    if (list && !json_is_array(list)) list = json_null(); /* has no elements */
    json_array_foreach(list, i, one) {
        const char *name = json_string_value(one);
        size_t k = 0;
        while (name && k < ARRAY_LEN(names) && strcmp(names[k], name) != 0) k++;
        if (!name || k == ARRAY_LEN(names) || o->makers[k])
            return bad_value(e, "makers", "makers are some of mutate, model and repair, each once");
        o->makers[k] = names[k];
        makes |= k < 2;
    }
    return makes ? CERIUM_OK
                 : bad_value(e, "makers", "makers is a list with mutate or model in it; repair "
                             "changes what they made");
}

static int take_seconds(solve_order *o, protocol_error *e)
{
    const json_t *value = field(o, "max_seconds");
    o->seconds = value ? json_number_value(value) : SECONDS;
    if (!value || (json_is_number(value) && o->seconds >= 0.1 && o->seconds <= SECONDS_MAX))
        return CERIUM_OK;
    return bad_value(e, "max_seconds", "max_seconds is a number from 0.1 to %d", SECONDS_MAX);
}

static bool is_served(const char *file)
{
    const int language = (int)guard_language_of_path(view_of(file));
    return language == GUARD_PYTHON || language == GUARD_JAVASCRIPT || language == GUARD_C;
}

/* It becomes a file name, and a word of a command. */
static bool is_plain(const char *name)
{
    const size_t n = strlen(name);
    return n && n <= SOLVE_NAME_BYTES_MAX && *name != '-' && *name != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int take_file(solve_order *o, protocol_error *e)
{
    static const char *const languages[][2] = {
        {"python", "code.py"}, {"javascript", "code.js"}, {"c", "code.c"}};
    const char *file, *language;
    RETURN_IF(take_text(o, "file", &file, e));
    RETURN_IF(take_text(o, "language", &language, e));
    if (!file == !language)
        return bad_value(e, "file", "name the code's file or its language: one of both");
    for (size_t i = 0; language && i < ARRAY_LEN(languages); i++)
        if (!strcmp(language, languages[i][0])) file = languages[i][1];
    if (!file) return bad_value(e, "language", "language is python, javascript or c");
    if (!is_plain(file) || !is_served(file))
        return bad_value(e, "file", "file is a name without folders, of letters, digits, '.', '_' "
                         "and '-', of Python, JavaScript or C");
    snprintf(o->file, sizeof o->file, "%s", file);
    return CERIUM_OK;
}

static int take_place(solve_order *o, protocol_error *e)
{
    RETURN_IF(take_number(o, "line", 1, LINES_MAX, &o->line, e));
    RETURN_IF(take_number(o, "last_line", 1, LINES_MAX, &o->last_line, e));
    RETURN_IF(take_number(o, "column", 1, LINES_MAX, &o->column, e));
    RETURN_IF(take_text(o, "function", &o->function, e));
    if (!o->line && (o->last_line || o->column))
        return bad_value(e, "line", "last_line and column need a line");
    if (o->last_line && o->column)
        return bad_value(e, "column", "last_line or column, not both");
    if (o->last_line && o->last_line < o->line)
        return bad_value(e, "last_line", "last_line is not before line");
    if (o->function && (o->line || !is_plain(o->function)))
        return bad_value(e, "function", "function is a name, and a place, as line is");
    return CERIUM_OK;
}

static int take_tests(solve_order *o, protocol_error *e)
{
    const json_t *examples = field(o, "examples"), *one;
    size_t i;
    RETURN_IF(take_text(o, "tests", &o->tests, e));
    RETURN_IF(take_text(o, "hidden", &o->hidden, e));
    RETURN_IF(take_bool(o, "doctest", &o->doctest, e));
    if (examples && (!json_is_array(examples) || json_array_size(examples) > SOLVE_EXAMPLES_MAX))
        return bad_value(e, "examples", "examples is a list of at most %d strings",
                         SOLVE_EXAMPLES_MAX);
    json_array_foreach(examples, i, one)
        if (!json_is_string(one) || !json_string_length(one))
            return bad_value(e, "examples", "examples are expressions, as in 'f(2) == 3'");
    const bool has_texts = o->tests || json_array_size(examples);
    if (has_texts == o->doctest)
        return bad_value(e, "tests", "give tests or examples, or doctest");
    return CERIUM_OK;
}

static int take_order(solve_order *o, protocol_error *e)
{
    const char *model;
    o->variants = VARIANTS;
    RETURN_IF(check_names(o, e));
    RETURN_IF(take_text(o, "code", &o->code, e));
    if (!o->code) return bad_value(e, "code", "code has to be there: the text of a file");
    RETURN_IF(take_file(o, e));
    RETURN_IF(take_place(o, e));
    RETURN_IF(take_tests(o, e));
    RETURN_IF(take_number(o, "max_variants", 1, VARIANTS_MAX, &o->variants, e));
    RETURN_IF(take_number(o, "seed", 0, INT64_MAX, &o->seed, e));
    RETURN_IF(take_seconds(o, e));
    RETURN_IF(take_makers(o, e));
    RETURN_IF(take_text(o, "model", &model, e));
    if (model && strlen(model) >= sizeof o->model)
        return bad_value(e, "model", "model is a name of at most %zu bytes", sizeof o->model - 1);
    snprintf(o->model, sizeof o->model, "%s", model ? model : "");
    return take_bool(o, "stream", &o->streams, e);
}

int solve_order_read(solve_order *out, view body, protocol_error *e)
{
    solve_order o = {.root = NULL};
    int status;
    if (body.len > BODY_BYTES_MAX)
        return protocol_error_set(e, 413, "invalid_request_error", "request_too_large", "",
                                  "the body has %zu bytes; at most %d are taken here", body.len,
                                  BODY_BYTES_MAX);
    o.root = json_read(body, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(o.root))
        status = take_order(&o, e);
    else
        status = protocol_error_set(e, 400, "invalid_request_error", "invalid_json", "",
                                    "The body of a request is a JSON object.");
    if (status) solve_order_free(&o);
    else *out = o;
    return status;
}

void solve_order_free(solve_order *o)
{
    json_decref(o->root);
    o->root = NULL;
}

/* ---- its words ---- */

static void add(solve_words *w, const char *option, const char *value)
{
    if (!value) return;
    w->all[w->n++] = option;
    w->all[w->n++] = value;
}

void solve_order_words(const solve_order *o, solve_words *out)
{
    static const char *const always[] = {"cerium", "solve", "--json", "--ask", "--show-nearest",
                                         "--sandbox", "strict", "--slots", "1"};
    const json_t *one;
    size_t i;
    char *at = out->makers;
    out->n = 0;
    for (i = 0; i < ARRAY_LEN(always); i++) out->all[out->n++] = always[i];
    snprintf(out->variants, sizeof out->variants, "%lld", (long long)o->variants);
    snprintf(out->seed, sizeof out->seed, "%lld", (long long)o->seed);
    snprintf(out->seconds, sizeof out->seconds, "%.3f", o->seconds);
    for (i = 0; i < ARRAY_LEN(o->makers); i++)
        if (o->makers[i])
            at += snprintf(at, (size_t)(out->makers + sizeof out->makers - at), "%s%s",
                           at == out->makers ? "" : ",", o->makers[i]);
    add(out, "--variants", out->variants);
    add(out, "--seed", out->seed);
    add(out, "--budget", out->seconds);
    if (at != out->makers) add(out, "--makers", out->makers);
    add(out, "--function", o->function);
    add(out, "--test-file", o->tests ? SOLVE_TESTS_NAME : NULL);
    add(out, "--hidden", o->hidden ? SOLVE_HIDDEN_NAME : NULL);
    json_array_foreach(field(o, "examples"), i, one) add(out, "--example", json_string_value(one));
    if (o->doctest) out->all[out->n++] = "--doctest";
    at = out->place + snprintf(out->place, sizeof out->place, "%s", o->file);
    if (o->line) at += snprintf(at, 32, ":%lld", (long long)o->line);
    if (o->last_line) snprintf(at, 32, "-%lld", (long long)o->last_line);
    if (o->column) snprintf(at, 32, ":%lld", (long long)o->column);
    out->all[out->n++] = "--";
    out->all[out->n++] = out->place;
    out->all[out->n] = NULL;
}
