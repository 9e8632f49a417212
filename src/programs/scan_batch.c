/* scan_batch.c - reads a file of JSON Lines, has each judged, and prints the answers. */
#include "programs/scan_batch.h"

#include "base/file.h"
#include "base/json.h"
#include "programs/options.h"
#include "programs/output.h"

enum { BATCH_BYTES_MAX = 256 << 20 };

static int judge_line(const scan_batch_events *e, const char *path, size_t line, view text,
                      cerium_error *err)
{
    json_error_t why;
    json_t *in = json_read(text, 0, &why), *id = json_object_get(in, "id");
    json_t *code = json_object_get(in, "code"), *language = json_object_get(in, "language");
    json_t *list = json_array();
    int status = CERIUM_OK;
    if (!id || !json_is_string(code) || !json_is_string(language))
        status = error_set(err, CERIUM_ERR_FORMAT,
                           "%s:%zu: want {\"id\", \"language\", \"code\"}%s%s", path, line,
                           in ? "" : ": ", in ? "" : why.text);
    if (!status)
        status = e->judge(e->user, guard_language_named(view_of(json_string_value(language))),
                          (view){json_string_value(code), json_string_length(code)}, list, err);
    if (!status)
        status = output_json(json_pack("{s:O, s:O}", "id", id, "findings", list), JSON_COMPACT,
                             err);
    json_decref(list);
    json_decref(in);
    return status;
}

int scan_batch(const char *path, const scan_batch_events *e, cerium_error *err)
{
    bytes file = {.max = BATCH_BYTES_MAX};
    int status = read_file(path, &file, err);
    size_t line = 1;
    if (status && status != CERIUM_ERR_MEMORY) { /* the next one may be read */
        bytes_free(&file);
        e->trouble(e->user, err->message);
        return CERIUM_OK;
    }
    for (size_t at = 0; at < file.len && !status; line++) {
        const char *end = memchr(file.ptr + at, '\n', file.len - at);
        size_t len = end ? (size_t)(end - file.ptr) - at : file.len - at;
        if (len) status = judge_line(e, path, line, (view){file.ptr + at, len}, err);
        at += len + 1;
        if (status != CERIUM_ERR_FORMAT) continue;
        e->trouble(e->user, err->message);
        status = CERIUM_OK;
    }
    bytes_free(&file);
    return status;
}
