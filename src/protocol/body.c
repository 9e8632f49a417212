/* body.c - parses bytes from outside as JSON, after checking that they are small enough. */
#include "base/json.h"
#include "base/limits.h"
#include "protocol/parse.h"

typedef struct {
    size_t depth, depth_max, n_values, n_containers, n_lone;
    size_t string;    /* the beginning of the last string, at its quote */
    bool tools_open;  /* inside the value of the outermost "tools" */
    view tools;       /* span of that value; it may not be valid JSON */
} body_measure;

static int hex4(const char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool surrogate(view text, size_t i, int first)
{
    return i + 6 <= text.len && text.ptr[i] == '\\' && text.ptr[i + 1] == 'u' &&
           (hex4(text.ptr + i + 2) & ~0x3FF) == first;
}

/* One escape at text[i]: its length, and in *lone whether it is half of a pair without the other:
 * JSON.stringify makes such from text that was cut inside an emoji; it is not valid UTF-8. */
static size_t escape_len(view text, size_t i, bool *lone)
{
    *lone = false;
    if (surrogate(text, i, 0xD800)) {
        if (surrogate(text, i + 6, 0xDC00)) return 12;
        *lone = true;
        return 6;
    }
    *lone = surrogate(text, i, 0xDC00);
    return *lone ? 6 : 2;
}

/* A comma, colon or closing bracket at i; returns the depth after it. */
static void find_tools(body_measure *s, view text, size_t i)
{
    static const char key[] = "\"tools\"";
    char c = text.ptr[i];
    if (c == ':' && s->depth == 1 && text.len - s->string >= sizeof key - 1 &&
        !memcmp(text.ptr + s->string, key, sizeof key - 1)) {
        s->tools = (view){text.ptr + i + 1, 0};
        s->tools_open = true;
    } else if (s->tools_open && (c == ',' ? s->depth == 1 : c != ':' && s->depth == 0)) {
        s->tools.len = (size_t)(text.ptr + i - s->tools.ptr);
        s->tools_open = false;
    }
}

/* A pass that needs no memory; invalid JSON is counted in some way and refused later.  repaired: a
 * copy of text in which lone halves become U+FFFD, or NULL. */
static body_measure measure(view text, char *repaired)
{
    body_measure s = {0};
    bool quoted = false, lone;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (quoted) {
            while (i < text.len && text.ptr[i] != '"' && text.ptr[i] != '\\') i++;
            if (i == text.len) break;
            c = text.ptr[i];
            if (c == '"') quoted = false;
            if (c != '\\') continue;
            size_t len = escape_len(text, i, &lone);
            if (lone) s.n_lone++;
            if (lone && repaired) memcpy(repaired + i, "\\ufffd", 6);
            i += len - 1;
        } else if (c == '"') {
            quoted = true;
            s.string = i;
        } else if (c == '{' || c == '[') {
            s.n_containers++;
            s.n_values++;
            if (++s.depth > s.depth_max) s.depth_max = s.depth;
        } else if (c == '}' || c == ']') {
            if (s.depth) s.depth--;
            find_tools(&s, text, i);
        } else if (c == ',' || c == ':') {
            s.n_values++;
            find_tools(&s, text, i);
        }
    }
    return s;
}

static int refuse(protocol_error *error, const char *what, size_t most)
{
    return protocol_error_set(error, 400, "invalid_request_error", "invalid_json", "",
                              "We could not parse the JSON body of your request: it has more than "
                              "%zu %s.", most, what);
}

static int check_shape(const body_measure *s, protocol_error *error)
{
    if (s->depth_max > PROTOCOL_DEPTH_MAX) return refuse(error, "levels", PROTOCOL_DEPTH_MAX);
    if (s->n_values > PROTOCOL_VALUES_MAX) return refuse(error, "values", PROTOCOL_VALUES_MAX);
    if (s->n_containers > PROTOCOL_CONTAINERS_MAX)
        return refuse(error, "objects and arrays", PROTOCOL_CONTAINERS_MAX);
    return CERIUM_OK;
}

static int load(json_t **out, view body, protocol_error *error)
{
    json_error_t why;
    json_t *root = json_read(body, JSON_ALLOW_NUL, &why);
    /* jansson gives no message only when it is out of memory. */
    if (!root && (!why.text[0] || json_error_code(&why) == json_error_out_of_memory))
        return CERIUM_ERR_MEMORY;
    if (!root)
        return protocol_error_set(error, 400, "invalid_request_error", "invalid_json", "",
                                  "We could not parse the JSON body of your request: %s at byte "
                                  "%d.", why.text, why.position);
    if (!json_is_object(root)) {
        json_decref(root);
        return protocol_error_set(error, 400, "invalid_request_error", "invalid_json", "",
                                  "The body of a request is a JSON object.");
    }
    *out = root;
    return CERIUM_OK;
}

/* The body with null in place of known tools. */
static int load_without(json_t **out, view body, view tools, protocol_error *error)
{
    bytes rest = {.max = PROTOCOL_BODY_BYTES_MAX + 8};
    size_t before = (size_t)(tools.ptr - body.ptr), after = before + tools.len;
    int status = bytes_reserve(&rest, body.len - tools.len + 4);
    if (!status) status = bytes_append(&rest, body.ptr, before);
    if (!status) status = bytes_append(&rest, "null", 4);
    if (!status) status = bytes_append(&rest, body.ptr + after, body.len - after);
    if (!status) status = load(out, (view){rest.ptr, rest.len}, error);
    bytes_free(&rest);
    return status;
}

static int load_repaired(json_t **out, view body, protocol_error *error)
{
    char *copy = memory_copy(body.ptr, body.len);
    if (!copy) return CERIUM_ERR_MEMORY;
    measure(body, copy);
    int status = load(out, (view){copy, body.len}, error);
    memory_free(copy);
    return status;
}

int protocol_body_load(protocol_body *out, protocol_api api, view text,
                       const protocol_defaults *defaults, protocol_error *error)
{
    if (text.len > PROTOCOL_BODY_BYTES_MAX)
        return protocol_error_set(error, 413, "invalid_request_error", "request_too_large", "",
                                  "The request has %zu bytes; at most %u are read.", text.len,
                                  PROTOCOL_BODY_BYTES_MAX);
    body_measure s = measure(text, NULL);
    RETURN_IF(check_shape(&s, error));
    *out = (protocol_body){.root = NULL};
    if (s.n_lone) return load_repaired(&out->root, text, error);
    if (!defaults->cache || !s.tools.len || s.tools.len > PROTOCOL_CACHED_BYTES_MAX)
        return load(&out->root, text, error);
    out->tool_set = cache_find(defaults->cache, tools_style_of(api), s.tools);
    if (!out->tool_set) {
        out->raw_tools = s.tools;
        return load(&out->root, text, error);
    }
    int status = load_without(&out->root, text, s.tools, error);
    if (!status && json_object_set(out->root, "tools", out->tool_set->json))
        status = CERIUM_ERR_MEMORY;
    if (status) protocol_body_free(out);
    return status;
}

void protocol_body_free(protocol_body *body)
{
    json_decref(body->root);
    tools_release(&body->tool_set);
    *body = (protocol_body){.root = NULL};
}

/* ---- the id of a message ---- */

enum { ID_BYTES_MAX = 64 };

static bool id_is_good(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    if (!n || n > ID_BYTES_MAX) return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-", id[i]))
            return false;
    return true;
}

const char *protocol_inline_id(const protocol_body *body)
{
    const char *id = json_string_value(json_object_get(body->root, "id"));
    return id_is_good(id) ? id : NULL;
}
