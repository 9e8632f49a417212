/* fuzz_documents.c - messages about the open documents of a WebSocket, each ended by a byte 1. */
#include "base/json.h"
#include "server/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_text(const json_t *message)
{
    return json_is_string(json_object_get(message, "prefix")) &&
           json_is_string(json_object_get(message, "suffix"));
}

static void take(documents **all, json_t *message)
{
    protocol_error e = {0};
    const char *type = json_string_value(json_object_get(message, "type"));
    int status = CERIUM_OK;
    if (!type) return;
    if (documents_know(type)) {
        status = documents_take(all, message, &e);
    } else if ((!strcmp(type, "completion.create") || !strcmp(type, "edit.predict")) &&
               documents_needed(message)) {
        const bool is_placed = json_object_get(message, "position") &&
                               !json_object_get(message, "prefix");
        const bool names_original = !strcmp(type, "edit.predict") &&
                                    json_object_get(message, "original_document");
        status = documents_fill(*all, message, &e);
        CHECK(status || !names_original || json_object_get(message, "original"));
        CHECK(status || !is_placed || has_text(message));
    }
    CHECK(!status || (status == CERIUM_ERR_ARGUMENT && e.message[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    documents *all = NULL;
    view rest = {(const char *)data, size};
    while (rest.len) {
        const char *end = memchr(rest.ptr, 1, rest.len);
        const size_t n = end ? (size_t)(end - rest.ptr) : rest.len;
        json_error_t unused;
        json_t *message = json_read((view){rest.ptr, n}, JSON_ALLOW_NUL, &unused);
        if (json_is_object(message)) take(&all, message);
        json_decref(message);
        rest = (view){rest.ptr + n + (end != NULL), rest.len - n - (end != NULL)};
    }
    documents_close(&all);
    return 0;
}
