/* fields.c - typed fields of a request, with errors in the words of the APIs. */
#include <math.h>

#include "protocol/parse.h"

/* ---- errors ---- */

void place_print(const place *at, char *out, size_t size)
{
    const place *chain[8];
    size_t n = 0, len = 0;
    for (; at && n < ARRAY_LEN(chain); at = at->up) chain[n++] = at;
    out[0] = 0;
    while (n-- && len < size) {
        const place *here = chain[n];
        int wrote = here->key ? snprintf(out + len, size - len, "%s%s", len ? "." : "", here->key)
                              : snprintf(out + len, size - len, "[%zu]", here->index);
        if (wrote > 0) len += (size_t)wrote;
    }
}

int parse_fail(parser *p, const place *at, const char *code, const char *format, ...)
{
    char param[96], message[400];
    place_print(at, param, sizeof param);
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return protocol_error_set(p->error, 400, "invalid_request_error", code, param, "%s", message);
}

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",     [JSON_ARRAY] = "an array",    [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer",   [JSON_REAL] = "a decimal",    [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",      [JSON_NULL] = "null"};
    return names[json_typeof(value)];
}

int parse_fail_type(parser *p, const place *at, const char *expected, const json_t *got)
{
    char path[96];
    place_print(at, path, sizeof path);
    return parse_fail(p, at, "invalid_type",
                      "Invalid type for '%s': expected %s, but got %s instead.", path, expected,
                      type_name(got));
}

int parse_fail_missing(parser *p, const place *at)
{
    char path[96];
    place_print(at, path, sizeof path);
    return parse_fail(p, at, "missing_required_parameter", "Missing required parameter: '%s'.",
                      path);
}

int parse_fail_value(parser *p, const place *at, const char *got, const char *supported)
{
    return parse_fail(p, at, "invalid_value",
                      "Invalid value: '%.64s'. Supported values are: %s.", got, supported);
}

/* ---- fields ---- */

static const json_t *present(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

int field_string(parser *p, const place *up, const json_t *object, const char *key,
                 const char **out)
{
    const json_t *value = present(object, key);
    if (!value) return CERIUM_OK;
    if (!json_is_string(value)) return parse_fail_type(p, &(place){up, key, 0}, "a string", value);
    return string_text(p, value, out);
}

int field_name(parser *p, const place *up, const json_t *object, const char *key,
               const char **out)
{
    const place at = {up, key, 0};
    const char *name = NULL;
    char path[96];
    RETURN_IF(field_string(p, up, object, key, &name));
    if (!name) return parse_fail_missing(p, &at);
    place_print(&at, path, sizeof path);
    if (!name[0])
        return parse_fail(p, &at, "empty_string",
                          "Invalid '%s': empty string. Expected a string with minimum length 1, "
                          "but got an empty string instead.", path);
    if (strlen(name) > PROTOCOL_NAME_BYTES_MAX)
        return parse_fail(p, &at, "string_above_max_length",
                          "Invalid '%s': string too long. Expected a string with maximum length "
                          "%u, but got a string with length %zu instead.",
                          path, PROTOCOL_NAME_BYTES_MAX, strlen(name));
    *out = name;
    return CERIUM_OK;
}

int field_bool(parser *p, const place *up, const json_t *object, const char *key, bool *out)
{
    const json_t *value = present(object, key);
    if (!value) return CERIUM_OK;
    if (!json_is_boolean(value))
        return parse_fail_type(p, &(place){up, key, 0}, "a boolean", value);
    *out = json_is_true(value);
    return CERIUM_OK;
}

/* The number as written, shortened: clients send 1e400, too. */
static void number_print(const json_t *value, char out[static 32])
{
    if (json_is_integer(value)) snprintf(out, 32, "%lld", (long long)json_integer_value(value));
    else snprintf(out, 32, "%.17g", json_real_value(value));
}

int field_integer(parser *p, const place *up, const json_t *object, const char *key, int64_t min,
                  int64_t max, int64_t *out)
{
    const json_t *value = present(object, key);
    const place at = {up, key, 0};
    char path[96], given[32];
    if (!value) return CERIUM_OK;
    double number = json_number_value(value);
    if (!json_is_number(value) || (json_is_real(value) && number != floor(number)))
        return parse_fail_type(p, &at, "an integer", value);
    /* 4.0 is an integer too; comparing as doubles first keeps the cast defined. */
    bool small = json_is_real(value) ? number < -9e18 : false;
    bool large = json_is_real(value) ? number > 9e18 : false;
    int64_t n = small || large ? 0
                : json_is_real(value) ? (int64_t)number
                                      : (int64_t)json_integer_value(value);
    place_print(&at, path, sizeof path);
    number_print(value, given);
    if (small || (!large && n < min))
        return parse_fail(p, &at, "integer_below_min_value",
                          "Invalid '%s': integer below minimum value. Expected a value >= %lld, "
                          "but got %s instead.", path, (long long)min, given);
    if (large || n > max)
        return parse_fail(p, &at, "integer_above_max_value",
                          "Invalid '%s': integer above maximum value. Expected a value <= %lld, "
                          "but got %s instead.", path, (long long)max, given);
    *out = n;
    return CERIUM_OK;
}

int field_bound(parser *p, const place *up, const json_t *object, const char *key, int64_t min,
                int64_t max, int64_t *out)
{
    const json_t *value = present(object, key);
    double number = json_number_value(value);
    if (number <= (double)max || number != floor(number))
        return field_integer(p, up, object, key, min, max, out);
    *out = max;
    return CERIUM_OK;
}

int field_number(parser *p, const place *up, const json_t *object, const char *key, double min,
                 double max, double *out)
{
    const json_t *value = present(object, key);
    const place at = {up, key, 0};
    char path[96];
    if (!value) return CERIUM_OK;
    if (!json_is_number(value)) return parse_fail_type(p, &at, "a decimal", value);
    double number = json_number_value(value);
    place_print(&at, path, sizeof path);
    if (number < min)
        return parse_fail(p, &at, "decimal_below_min_value",
                          "Invalid '%s': decimal below minimum value. Expected a value >= %g, but "
                          "got %g instead.", path, min, number);
    if (number > max)
        return parse_fail(p, &at, "decimal_above_max_value",
                          "Invalid '%s': decimal above maximum value. Expected a value <= %g, but "
                          "got %g instead.", path, max, number);
    *out = number;
    return CERIUM_OK;
}

int field_array(parser *p, const place *up, const json_t *object, const char *key, size_t max,
                json_t **out)
{
    json_t *value = json_object_get(object, key);
    const place at = {up, key, 0};
    char path[96];
    if (!value || json_is_null(value)) return CERIUM_OK;
    if (!json_is_array(value)) return parse_fail_type(p, &at, "an array", value);
    place_print(&at, path, sizeof path);
    if (json_array_size(value) > max)
        return parse_fail(p, &at, "array_above_max_length",
                          "Invalid '%s': array too long. Expected an array with maximum length "
                          "%zu, but got an array with length %zu instead.", path, max,
                          json_array_size(value));
    *out = value;
    return CERIUM_OK;
}

int expect_object(parser *p, const place *at, const json_t *value)
{
    return json_is_object(value) ? CERIUM_OK : parse_fail_type(p, at, "an object", value);
}

int field_object(parser *p, const place *up, const json_t *object, const char *key, json_t **out)
{
    json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return CERIUM_OK;
    RETURN_IF(expect_object(p, &(place){up, key, 0}, value));
    *out = value;
    return CERIUM_OK;
}

/* ---- made strings ---- */

/* Room for len bytes and a NUL; NULL when memory ran out. */
static char *text_room(parser *p, size_t len)
{
    struct protocol_text *made = memory_alloc(sizeof *made + len + 1);
    if (!made) return NULL;
    made->next = *p->texts;
    *p->texts = made;
    made->chars[len] = 0;
    return made->chars;
}

void texts_free(struct protocol_text **texts)
{
    for (struct protocol_text *t = *texts, *next; t; t = next) {
        next = t->next;
        memory_free(t);
    }
    *texts = NULL;
}

int make_text(parser *p, view text, const char **out)
{
    size_t n_nul = 0, at = 0;
    for (size_t i = 0; i < text.len; i++) n_nul += text.ptr[i] == 0;
    char *chars = text_room(p, text.len + 2 * n_nul);
    if (!chars) return CERIUM_ERR_MEMORY;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i]) {
            chars[at++] = text.ptr[i];
        } else {
            memcpy(chars + at, "\xEF\xBF\xBD", 3);
            at += 3;
        }
    }
    *out = chars;
    return CERIUM_OK;
}

int string_text(parser *p, const json_t *string, const char **out)
{
    view text = {json_string_value(string), json_string_length(string)};
    if (memchr(text.ptr, 0, text.len)) return make_text(p, text, out);
    *out = text.ptr;
    return CERIUM_OK;
}

int make_json(parser *p, const json_t *value, const char **out)
{
    json_out t = {.b.max = SIZE_MAX};
    json_out_value(&t, value);
    int status = t.status ? t.status : make_text(p, json_out_view(&t), out);
    json_out_free(&t);
    return status;
}
