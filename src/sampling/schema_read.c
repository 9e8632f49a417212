/* schema_read.c - reads a schema's references and types, and omits unsupported parts. */
#include "sampling/schema.h"

#include <math.h>

#include "base/json.h"

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
        return d == trunc(d) ? TYPE_INTEGER : TYPE_FRACTION;
    }
    case JSON_TRUE:
    case JSON_FALSE:
        return TYPE_BOOLEAN;
    case JSON_NULL:
        return TYPE_NULL;
    }
    return 0;
}
