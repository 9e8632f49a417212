/* documents.c - texts that the client of a WebSocket keeps open here. */
#include "server/documents.h"

#include "lsp/document_text.h"

enum {
    DOCUMENTS_MAX = 64,
    BYTES_MAX = 16 << 20,    /* of all of them */
    PATH_BYTES_MAX = 4096,
    CHANGES_MAX = 1024,      /* in one message */
    BEFORE_BYTES = 512 << 10, AFTER_BYTES = 128 << 10, /* of a completion; edits need the file */
};

typedef struct {
    char *path; /* owned */
    lsp_text text;
    json_int_t version;
} document;

struct documents {
    document all[DOCUMENTS_MAX];
    uint32_t n;
    size_t n_bytes;
};

static int bad(protocol_error *e, const char *param, const char *what)
{
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param, "%s %s",
                              param, what);
}

static document *find(const documents *all, const char *path)
{
    for (uint32_t i = 0; all && i < all->n; i++)
        if (!strcmp(all->all[i].path, path)) return (document *)&all->all[i];
    return NULL;
}

/* The document whose place a message names: by `document`, where many have one name of a file. */
static const json_t *name_in(const json_t *message, const char **param)
{
    const json_t *name = json_object_get(message, "document");
    *param = name ? "document" : "path";
    return name ? name : json_object_get(message, "path");
}

static int find_open(const documents *all, const json_t *path, const char *param, document **out,
                     protocol_error *e)
{
    if (!json_is_string(path)) return bad(e, param, "is the path of a document");
    *out = find(all, json_string_value(path));
    if (*out) return CERIUM_OK;
    return protocol_error_set(e, 404, "invalid_request_error", "document_not_open", param,
                              "no such document is open: send document.open with its text");
}

static void shut(documents *all, document *d)
{
    all->n_bytes -= d->text.text.len;
    memory_free(d->path);
    lsp_text_close(&d->text);
    *d = all->all[--all->n];
    all->all[all->n] = (document){.path = NULL};
}

static int fits(const documents *all, size_t len, size_t was, protocol_error *e)
{
    if (len <= was || len - was <= BYTES_MAX - all->n_bytes) return CERIUM_OK;
    return protocol_error_set(e, 413, "invalid_request_error", "documents_too_large", "text",
                              "the open documents of a WebSocket have up to %d bytes", BYTES_MAX);
}

static int set_text(documents *all, document *d, const json_t *text, protocol_error *e)
{
    const view t = {json_string_value(text), json_string_length(text)};
    const size_t was = d->text.text.len;
    RETURN_IF(fits(all, t.len, was, e));
    RETURN_IF(lsp_text_set(&d->text, t));
    all->n_bytes += t.len - was;
    return CERIUM_OK;
}

static int read_version(const json_t *message, json_int_t *out, protocol_error *e)
{
    const json_t *version = json_object_get(message, "version");
    if (!version || json_is_null(version)) return CERIUM_OK;
    if (!json_is_integer(version)) return bad(e, "version", "is an integer");
    *out = json_integer_value(version);
    return CERIUM_OK;
}

static int open_one(documents *all, const json_t *message, protocol_error *e)
{
    const json_t *path = json_object_get(message, "path"), *text = json_object_get(message, "text");
    const size_t n = json_string_length(path);
    if (!json_is_string(path) || !n || n > PATH_BYTES_MAX || strlen(json_string_value(path)) != n)
        return bad(e, "path", "is a string of 1 to 4096 bytes");
    if (!json_is_string(text)) return bad(e, "text", "is a string and has to be there");
    document *d = find(all, json_string_value(path));
    if (!d && all->n == DOCUMENTS_MAX)
        return protocol_error_set(e, 429, "rate_limit_error", "too_many_documents", "path",
                                  "a WebSocket has up to %d open documents", DOCUMENTS_MAX);
    if (!d) {
        char *name = memory_copy(json_string_value(path), n);
        if (!name) return CERIUM_ERR_MEMORY;
        d = &all->all[all->n++];
        *d = (document){.path = name};
    }
    d->version = 0;
    int status = read_version(message, &d->version, e);
    if (!status) status = set_text(all, d, text, e);
    if (status) shut(all, d);
    return status;
}

static int read_place(const document *d, const json_t *from, const char *param, size_t *out,
                      protocol_error *e)
{
    const json_t *line = json_object_get(from, "line"), *at = json_object_get(from, "character");
    const json_int_t a = json_integer_value(line), b = json_integer_value(at);
    if (!json_is_integer(line) || !json_is_integer(at) || a < 0 || b < 0 || a > UINT32_MAX ||
        b > UINT32_MAX)
        return bad(e, param, "has a line and a character, both from 0");
    *out = lsp_text_offset(&d->text, (lsp_position){(uint32_t)a, (uint32_t)b}, LSP_UTF16);
    return CERIUM_OK;
}

static int change_one(documents *all, document *d, const json_t *change, protocol_error *e)
{
    const json_t *range = json_object_get(change, "range"), *text = json_object_get(change, "text");
    size_t from, to;
    if (!json_is_string(text)) return bad(e, "changes", "have a text each");
    if (!range) return set_text(all, d, text, e);
    RETURN_IF(read_place(d, json_object_get(range, "start"), "range.start", &from, e));
    RETURN_IF(read_place(d, json_object_get(range, "end"), "range.end", &to, e));
    if (to < from) return bad(e, "range", "ends before it begins");
    const view with = {json_string_value(text), json_string_length(text)};
    RETURN_IF(fits(all, with.len, to - from, e));
    RETURN_IF(lsp_text_replace(&d->text, from, to, with));
    all->n_bytes += with.len - (to - from);
    return CERIUM_OK;
}

static int change(documents *all, const json_t *message, protocol_error *e)
{
    const json_t *changes = json_object_get(message, "changes"), *one;
    document *d;
    size_t i;
    RETURN_IF(find_open(all, json_object_get(message, "path"), "path", &d, e));
    json_int_t version = d->version + 1;
    int status = read_version(message, &version, e);
    if (!status && version <= d->version)
        status = bad(e, "version", "is larger than that of the document");
    if (!status && (!json_is_array(changes) || json_array_size(changes) > CHANGES_MAX))
        status = bad(e, "changes", "is an array of at most 1024 changes");
    json_array_foreach(changes, i, one) if (!status) status = change_one(all, d, one, e);
    d->version = version;
    if (status) shut(all, d); /* it may be changed in part */
    return status;
}

bool documents_know(const char *type)
{
    return !strcmp(type, "document.open") || !strcmp(type, "document.change") ||
           !strcmp(type, "document.close");
}

int documents_take(documents **all, const json_t *message, protocol_error *e)
{
    const char *type = json_string_value(json_object_get(message, "type"));
    document *d;
    if (!*all) *all = memory_zalloc(1, sizeof **all);
    if (!*all) return CERIUM_ERR_MEMORY;
    if (!strcmp(type, "document.open")) return open_one(*all, message, e);
    if (!strcmp(type, "document.change")) return change(*all, message, e);
    RETURN_IF(find_open(*all, json_object_get(message, "path"), "path", &d, e));
    shut(*all, d);
    return CERIUM_OK;
}

/* ---- messages that name a place in them ---- */

static bool lacks_text(const json_t *file)
{
    return json_is_object(file) && !json_object_get(file, "text");
}

/* Is the text of edit.predict as it was opened one of them? */
static bool names_original(const json_t *message)
{
    const char *type = json_string_value(json_object_get(message, "type"));
    return type && !strcmp(type, "edit.predict") && !json_object_get(message, "original") &&
           json_object_get(message, "original_document");
}

bool documents_needed(const json_t *message)
{
    const json_t *files = json_object_get(message, "files"), *one;
    size_t i;
    json_array_foreach(files, i, one) if (lacks_text(one)) return true;
    return names_original(message) ||
           (json_object_get(message, "position") && !json_object_get(message, "prefix"));
}

/* Ends of a window that is cut are ends of lines. */
static void cut(const lsp_text *t, size_t at, size_t *from, size_t *to)
{
    size_t unused;
    if (at - *from > BEFORE_BYTES)
        lsp_text_line(t, lsp_text_line_at(t, at - BEFORE_BYTES) + 1, from, &unused);
    if (*from > at) *from = at; /* one long line */
    if (*to - at > AFTER_BYTES)
        lsp_text_line(t, lsp_text_line_at(t, at + AFTER_BYTES), to, &unused);
    if (*to < at) *to = at;
}

static int fill_sides(const documents *all, json_t *message, protocol_error *e)
{
    const json_t *asked = json_object_get(message, "version");
    const bool is_edit = !strcmp(json_string_value(json_object_get(message, "type")),
                                 "edit.predict");
    document *d;
    size_t at, from = 0, to;
    const char *param;
    const json_t *name = name_in(message, &param);
    RETURN_IF(find_open(all, name, param, &d, e));
    RETURN_IF(read_place(d, json_object_get(message, "position"), "position", &at, e));
    json_int_t version = d->version;
    RETURN_IF(read_version(message, &version, e));
    if (asked && version != d->version)
        return protocol_error_set(e, 409, "invalid_request_error", "document_changed", "version",
                                  "the document has version %lld", (long long)d->version);
    to = d->text.text.len;
    if (!is_edit) cut(&d->text, at, &from, &to);
    const char *text = d->text.text.ptr ? d->text.text.ptr : "";
    if (json_object_set_new(message, "prefix", json_stringn(text + from, at - from)) ||
        json_object_set_new(message, "suffix", json_stringn(text + at, to - at)))
        return CERIUM_ERR_MEMORY;
    json_object_del(message, "position");
    json_object_del(message, "version");
    return CERIUM_OK;
}

/* The text of the document of that name, as a member of the message. */
static int fill_text(const documents *all, json_t *to, const char *key, const json_t *name,
                     const char *param, protocol_error *e)
{
    document *d;
    RETURN_IF(find_open(all, name, param, &d, e));
    const view t = lsp_text_view(&d->text);
    return json_object_set_new(to, key, json_stringn(t.len ? t.ptr : "", t.len))
               ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

int documents_fill(const documents *all, json_t *message, protocol_error *e)
{
    static const char original[] = "original_document";
    json_t *files = json_object_get(message, "files"), *one;
    size_t i;
    json_array_foreach(files, i, one)
        if (lacks_text(one))
            RETURN_IF(fill_text(all, one, "text", json_object_get(one, "path"), "files", e));
    if (names_original(message))
        RETURN_IF(fill_text(all, message, "original", json_object_get(message, original), original,
                            e));
    if (!json_object_get(message, "position") || json_object_get(message, "prefix"))
        return CERIUM_OK;
    return fill_sides(all, message, e);
}

void documents_close(documents **all)
{
    if (!*all) return;
    while ((*all)->n) shut(*all, &(*all)->all[0]);
    memory_free(*all);
    *all = NULL;
}
