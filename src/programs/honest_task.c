/* honest_task.c - a line of a set of tasks, in the format of bench/solve.py. */
#include "programs/honest.h"

#include "base/json.h"

static bool take_text(const json_t *root, const char *name, view *out)
{
    const json_t *value = json_object_get(root, name);
    *out = (view){json_string_value(value), json_string_length(value)};
    return json_is_string(value) && !memchr(out->ptr, 0, out->len);
}

static bool take_bytes(const json_t *root, honest_task *t)
{
    const json_t *at = json_object_get(root, "at");
    const json_int_t begin = json_integer_value(json_array_get(at, 0));
    const json_int_t end = json_integer_value(json_array_get(at, 1));
    t->begin = (size_t)begin;
    t->end = (size_t)end;
    return json_array_size(at) == 2 && begin >= 0 && end >= begin && t->end <= t->source.len;
}

static int read_fields(honest_task *t, cerium_error *err)
{
    view id, language, file;
    const json_t *root = t->root;
    if (!json_is_object(root)) return error_set(err, CERIUM_ERR_FORMAT, "it is no JSON object");
    if (!take_text(root, "id", &id) || !take_text(root, "language", &language) ||
        !take_text(root, "file", &file) || !take_text(root, "source", &t->source) ||
        !take_text(root, "tests", &t->tests))
        return error_set(err, CERIUM_ERR_FORMAT, "`id`, `language`, `file`, `source` and `tests` "
                         "must be texts");
    if (!take_bytes(root, t))
        return error_set(err, CERIUM_ERR_FORMAT, "`at` must be the bytes of `source`, as in "
                         "[10, 12]");
    t->id = id.ptr;
    t->language = language.ptr;
    t->file = file.ptr;
    return CERIUM_OK;
}

int honest_task_read(honest_task *out, view line, cerium_error *err)
{
    honest_task t = {.root = json_read(line, JSON_ALLOW_NUL, NULL)};
    int status = read_fields(&t, err);
    if (status) json_decref(t.root);
    else *out = t;
    return status;
}

void honest_task_free(honest_task *t)
{
    json_decref(t->root);
    *t = (honest_task){0};
}
