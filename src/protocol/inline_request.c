/* inline_request.c - a message completion.create: completions while typing, over a WebSocket.
 *
 * docs/server.md describes the messages.  It is POST /infill with other field names. */
#include "protocol/protocol.h"

enum {
    TOKENS_MAX = 4096,
    FILES_MAX = 16,
    STOPS_MAX = 4,
};

static int bad(protocol_error *e, const char *param, const char *what)
{
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param, "%s %s",
                              param, what);
}

/* A string field; *len 0 and *text "" when it is absent or null. */
static int read_string(const json_t *root, const char *name, const char **text, size_t *len,
                       protocol_error *e)
{
    json_t *value = json_object_get(root, name);
    *text = "";
    *len = 0;
    if (!value || json_is_null(value)) return CERIUM_OK;
    if (!json_is_string(value)) return bad(e, name, "is a string");
    *text = json_string_value(value);
    *len = json_string_length(value);
    return CERIUM_OK;
}

static int read_limits(protocol_request *r, protocol_error *e)
{
    json_t *most = json_object_get(r->root, "max_tokens");
    json_t *stops = json_object_get(r->root, "stop"), *stop;
    size_t i;
    r->new_tokens_max = 64;
    if (most && !json_is_null(most)) {
        json_int_t n = json_integer_value(most);
        if (!json_is_integer(most) || n < 1 || n > TOKENS_MAX)
            return bad(e, "max_tokens", "is 1 to 4096");
        r->new_tokens_max = (uint32_t)n;
    }
    if (!stops || json_is_null(stops)) return CERIUM_OK;
    if (!json_is_array(stops) || json_array_size(stops) > STOPS_MAX)
        return bad(e, "stop", "is an array of at most 4 strings");
    json_array_foreach(stops, i, stop)
    {
        size_t len = json_string_length(stop);
        if (!json_is_string(stop) || !len || len > CERIUM_STOP_BYTES_MAX)
            return bad(e, "stop", "holds strings of 1 to 256 bytes");
        r->stops[r->sampling.n_stops++] = json_string_value(stop);
    }
    r->sampling.stops = r->stops;
    return CERIUM_OK;
}

static int read_share(const json_t *root, const char *key, double standard, double *out,
                      protocol_error *e)
{
    const json_t *value = json_object_get(root, key);
    *out = standard;
    if (!value || json_is_null(value)) return CERIUM_OK;
    double x = json_is_number(value) ? json_number_value(value) : -1;
    if (!(x >= 0 && x <= 1)) return bad(e, key, "is 0 to 1");
    *out = x;
    return CERIUM_OK;
}

/* Text of other files that the model may look at. */
static int read_files(protocol_request *r, protocol_error *e)
{
    static const char *const what = "is an array of at most 16 objects with path and text";
    const json_t *list = json_object_get(r->root, "files"), *one;
    size_t i;
    if (!list || json_is_null(list)) return CERIUM_OK;
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > FILES_MAX) return bad(e, "files", what);
    cerium_context_file *files = n ? memory_zalloc(n, sizeof *files) : NULL;
    if (n && !files) return CERIUM_ERR_MEMORY;
    r->infill.files = files;
    r->infill.n_files = n;
    json_array_foreach(list, i, one) {
        const json_t *path = json_object_get(one, "path"), *text = json_object_get(one, "text");
        if (!json_is_string(path) || !json_is_string(text)) return bad(e, "files", what);
        files[i] = (cerium_context_file){json_string_value(path), json_string_value(text),
                                         json_string_length(text)};
    }
    return CERIUM_OK;
}

static int read_candidates(protocol_request *r, protocol_error *e)
{
    const json_t *value = json_object_get(r->root, "candidates");
    if (!value || json_is_null(value)) return CERIUM_OK;
    const json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > PROTOCOL_CANDIDATES_MAX)
        return bad(e, "candidates", "is 1 to 6");
    r->n_choices = (uint32_t)n;
    r->candidates = n > 1;
    return CERIUM_OK;
}

static int read_request(const protocol_defaults *d, protocol_request *r, protocol_error *e)
{
    cerium_infill *in = &r->infill;
    size_t path_len, words_len, document_len;
    const char *path, *words, *document;
    double pointer;
    r->api = PROTOCOL_INFILL;
    r->stream = true;
    r->fill_in = r->ends_hole = true;
    r->n_choices = r->n_best = 1;
    r->class_ = CERIUM_CLASS_COMPLETION;
    r->sampling = d->sampling;
    if (!json_is_string(json_object_get(r->root, "prefix")))
        return bad(e, "prefix", "is a string and has to be there");
    RETURN_IF(read_string(r->root, "prefix", &in->prefix, &in->prefix_len, e));
    RETURN_IF(read_string(r->root, "suffix", &in->suffix, &in->suffix_len, e));
    RETURN_IF(read_string(r->root, "path", &path, &path_len, e));
    RETURN_IF(read_string(r->root, "document", &document, &document_len, e));
    RETURN_IF(read_files(r, e));
    RETURN_IF(read_candidates(r, e));
    RETURN_IF(read_string(r->root, "cerium_guard", &words, &words_len, e));
    RETURN_IF(read_share(r->root, "min_confidence", d->confidence_min,
                         &r->confidence_min, e));
    RETURN_IF(read_share(r->root, "pointer", (double)d->pointer, &pointer, e));
    r->sampling.pointer = (float)pointer;
    r->guard = words_len ? words : NULL;
    in->path = path_len ? path : NULL;
    r->document = document_len ? document : NULL;
    return read_limits(r, e);
}

int protocol_inline_parse(protocol_request **out, protocol_body *body,
                          const protocol_defaults *defaults, protocol_error *error)
{
    const char *id = protocol_inline_id(body);
    if (!id) {
        protocol_body_free(body);
        return bad(error, "id", "is 1 to 64 of A-Za-z0-9_.-");
    }
    protocol_request *r = memory_zalloc(1, sizeof *r);
    if (!r) {
        protocol_body_free(body);
        return CERIUM_ERR_MEMORY;
    }
    *r = (protocol_request){.root = body->root, .tool_set = body->tool_set, .inline_id = id};
    *body = (protocol_body){.root = NULL};
    int status = read_request(defaults, r, error);
    if (status)
        protocol_request_free(&r);
    else
        *out = r;
    return status;
}
