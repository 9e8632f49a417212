/* replay.c - parses replay scripts and matches requests with their lines. */
#include "server/replay.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"

typedef struct {
    json_t *root;         /* owned; the strings below are in it */
    const char *last, *role, *has_tool, *model;
    view output;
    json_t *corrected;    /* texts, or NULL */
    protocol_api api;
    bool any_api, repeat, used;
    uint64_t nth, n_matched; /* nth: 0 = any */
} line;

struct replay {
    pthread_mutex_t lock; /* used lines, and their counts of matches */
    line *lines;          /* [n_lines] */
    uint32_t n_lines;
};

static const char *const apis[] = {
    [PROTOCOL_RESPONSES] = "responses", [PROTOCOL_CHAT] = "chat",
    [PROTOCOL_COMPLETIONS] = "completions", [PROTOCOL_INFILL] = "infill",
    [PROTOCOL_COMPACT] = "compact",     [PROTOCOL_EDITS] = "edits",
};

/* The place of a line, for its errors. */
typedef struct {
    const char *name;
    uint32_t number;
    cerium_error *err;
} script_line;

static int wrong(const script_line *at, const char *what, const char *field, const char *should)
{
    return error_set(at->err, CERIUM_ERR_FORMAT, "%s:%u: %s\"%s\" %s", at->name, at->number, what,
                     field, should);
}

static int read_text(const script_line *at, const char *field, const json_t *value,
                     const char **out)
{
    if (!json_is_string(value)) return wrong(at, "", field, "must be a string");
    *out = json_string_value(value);
    return CERIUM_OK;
}

static int read_api(const script_line *at, const json_t *value, line *l)
{
    const char *name = NULL;
    RETURN_IF(read_text(at, "when.api", value, &name));
    for (size_t i = 0; i < ARRAY_LEN(apis); i++) {
        if (!apis[i] || strcmp(apis[i], name)) continue;
        l->api = (protocol_api)i;
        l->any_api = false;
        return CERIUM_OK;
    }
    return wrong(at, "", "when.api",
                 "must be responses, chat, completions, infill, edits or compact");
}

static int read_when(const script_line *at, json_t *when, line *l)
{
    const char *key;
    json_t *value;
    if (!json_is_object(when)) return wrong(at, "", "when", "must be an object");
    json_object_foreach(when, key, value) {
        int status = CERIUM_OK;
        if (!strcmp(key, "last")) {
            status = read_text(at, "when.last", value, &l->last);
        } else if (!strcmp(key, "has_tool")) {
            status = read_text(at, "when.has_tool", value, &l->has_tool);
        } else if (!strcmp(key, "model")) {
            status = read_text(at, "when.model", value, &l->model);
        } else if (!strcmp(key, "api")) {
            status = read_api(at, value, l);
        } else if (!strcmp(key, "role")) {
            status = read_text(at, "when.role", value, &l->role);
            if (!status && strcmp(l->role, "user") && strcmp(l->role, "tool"))
                status = wrong(at, "", "when.role", "must be user or tool");
        } else if (!strcmp(key, "nth")) {
            l->nth = json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
            if (!l->nth || l->nth > INT32_MAX)
                status = wrong(at, "", "when.nth", "must be 1 or more");
        } else {
            status = wrong(at, "\"when\" has no ", key, "(misspelled?)");
        }
        RETURN_IF(status);
    }
    return CERIUM_OK;
}

static int read_corrected(const script_line *at, const json_t *value)
{
    bool good = json_is_array(value);
    for (size_t i = 0; i < json_array_size(value); i++)
        good &= json_is_string(json_array_get(value, i));
    return good ? CERIUM_OK : wrong(at, "", "corrected", "must be an array of strings");
}

static int read_fields(const script_line *at, line *l)
{
    const char *key;
    json_t *value;
    if (!json_is_object(l->root))
        return error_set(at->err, CERIUM_ERR_FORMAT, "%s:%u: must be a JSON object", at->name,
                         at->number);
    json_object_foreach(l->root, key, value) {
        int status = CERIUM_OK;
        if (!strcmp(key, "when")) {
            status = read_when(at, value, l);
        } else if (!strcmp(key, "output")) {
            status = read_text(at, key, value, &l->output.ptr);
            l->output.len = json_string_length(value);
        } else if (!strcmp(key, "corrected")) {
            status = read_corrected(at, value);
            l->corrected = value;
        } else if (!strcmp(key, "repeat")) {
            if (!json_is_boolean(value)) status = wrong(at, "", key, "must be true or false");
            l->repeat = json_is_true(value);
        } else {
            status = wrong(at, "a line has no ", key, "(misspelled?)");
        }
        RETURN_IF(status);
    }
    return l->output.ptr ? CERIUM_OK : wrong(at, "", "output", "is missing");
}

static int read_line(const script_line *at, view text, line *l)
{
    json_error_t error;
    *l = (line){.any_api = true};
    /* The whole line is one value: text after it is an error, too. */
    l->root = json_read(text, JSON_REJECT_DUPLICATES, &error);
    if (l->root) return read_fields(at, l);
    if (json_error_code(&error) == json_error_out_of_memory)
        return error_set(at->err, CERIUM_ERR_MEMORY, "%s: out of memory", at->name);
    return error_set(at->err, CERIUM_ERR_FORMAT, "%s:%u: not JSON at column %d: %s", at->name,
                     at->number, error.column, error.text);
}

static bool is_blank(view text) { return !view_trim_start(text, " \t\r").len; }

/* Cut the first line off. */
static view next_line(view *rest)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    view text = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    size_t skipped = text.len + (end != NULL);
    *rest = (view){rest->ptr + skipped, rest->len - skipped};
    return text;
}

int replay_parse(replay **out, view script, const char *name, cerium_error *err)
{
    script_line at = {.name = name, .err = err};
    CHECK(out && name);
    if (script.len > REPLAY_BYTES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: a script may have %u bytes", name,
                         REPLAY_BYTES_MAX);
    size_t n_lines = 1;
    for (size_t i = 0; i < script.len; i++) n_lines += script.ptr[i] == '\n';
    if (n_lines > REPLAY_LINES_MAX)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: a script may have %u lines", name,
                         REPLAY_LINES_MAX);
    replay *r = memory_zalloc(1, sizeof *r);
    if (r) pthread_mutex_init(&r->lock, NULL);
    if (r) r->lines = memory_zalloc(n_lines, sizeof *r->lines);
    int status = r && r->lines ? CERIUM_OK
                               : error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", name);
    while (!status && script.len) {
        view text = next_line(&script);
        at.number++;
        if (!is_blank(text)) status = read_line(&at, text, &r->lines[r->n_lines++]);
    }
    if (status) {
        replay_free(&r);
        return status;
    }
    *out = r;
    return CERIUM_OK;
}

int replay_open(replay **out, const char *path, cerium_error *err)
{
    bytes text = {.max = REPLAY_BYTES_MAX + 1};
    char chunk[65536];
    size_t n;
    CHECK(out && path);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_set(err, CERIUM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    int status = CERIUM_OK;
    while (!status && (n = fread(chunk, 1, sizeof chunk, f)))
        status = bytes_append(&text, chunk, n);
    if (ferror(f)) {
        status = error_set(err, CERIUM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    } else if (status == CERIUM_ERR_MEMORY) {
        error_set(err, status, "%s: out of memory", path);
    } else if (status) {
        error_set(err, status, "%s: a script may have %u bytes", path, REPLAY_BYTES_MAX);
    }
    fclose(f);
    if (!status) status = replay_parse(out, (view){text.ptr ? text.ptr : "", text.len}, path, err);
    bytes_free(&text);
    return status;
}

void replay_free(replay **r)
{
    if (!r || !*r) return;
    for (uint32_t i = 0; i < (*r)->n_lines; i++) json_decref((*r)->lines[i].root);
    memory_free((*r)->lines);
    pthread_mutex_destroy(&(*r)->lock);
    memory_free(*r);
    *r = NULL;
}

/* The text for "last" and its "role"; text NULL when there is none. */
typedef struct {
    const char *role;
    view text;
} newest;

static newest newest_of(const protocol_request *request)
{
    if (request->n_prompts)
        return (newest){"user", {request->prompts[0], request->prompt_lens[0]}};
    if (request->infill.prefix)
        return (newest){"user", {request->infill.prefix, request->infill.prefix_len}};
    for (size_t i = request->n_messages; i-- > 0;) {
        const cerium_message *m = &request->messages[i];
        if (m->content && (!strcmp(m->role, "user") || !strcmp(m->role, "tool")))
            return (newest){m->role, view_of(m->content)};
    }
    return (newest){NULL, {NULL, 0}};
}

static bool offers(const protocol_request *request, const char *tool)
{
    for (size_t i = 0; i < request->n_tools; i++)
        if (!strcmp(request->tools[i].name, tool)) return true;
    return false;
}

static bool fulfils(const line *l, const protocol_request *request, newest last)
{
    if (!l->any_api && l->api != request->api) return false;
    if (l->role && (!last.role || strcmp(l->role, last.role))) return false;
    if (l->last && (!last.text.ptr ||
                    !memmem(last.text.ptr, last.text.len, l->last, strlen(l->last))))
        return false;
    if (l->model && (!request->model || strcmp(l->model, request->model))) return false;
    return !l->has_tool || offers(request, l->has_tool);
}

/* The first line that matches and may be used; call with the lock. */
static line *take_line(replay *r, const protocol_request *request)
{
    newest last = newest_of(request);
    line *taken = NULL;
    for (uint32_t i = 0; i < r->n_lines; i++) {
        line *l = &r->lines[i];
        if (!fulfils(l, request, last)) continue;
        l->n_matched++;
        if (taken || (l->used && !l->repeat) || (l->nth && l->nth != l->n_matched)) continue;
        taken = l;
    }
    if (taken) taken->used = true;
    return taken;
}

bool replay_take(replay *r, const protocol_request *request, view *output, json_t **corrected)
{
    CHECK(r && request && output);
    if (request->warm_up || request->new_tokens_max == 0) return false;
    pthread_mutex_lock(&r->lock);
    const line *taken = take_line(r, request);
    pthread_mutex_unlock(&r->lock);
    if (!taken) return false;
    *output = taken->output;
    *corrected = taken->corrected;
    return true;
}

uint32_t replay_lines(const replay *r) { return r->n_lines; }
