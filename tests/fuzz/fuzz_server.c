/* fuzz_server.c - what the server reads before the protocol does: bodies in chunks, the type of a
 * message, paths, hosts and origins.
 *
 * Input: a byte that says how to cut, then the text, which each reader gets. */
#include "server/access.h"
#include "server/chunks.h"
#include "server/routes.h"
#include "server/socket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts change nothing. */
static void check_chunks(view text, size_t cut)
{
    chunks whole = {0}, cuts = {0};
    bytes a = {.max = 4096}, b = {.max = 4096};
    int status = chunks_read(&whole, text, &a), cut_status = 0;
    for (size_t i = 0; i < text.len && !cut_status; i += cut)
        cut_status = chunks_read(
            &cuts, (view){text.ptr + i, text.len - i < cut ? text.len - i : cut}, &b);
    CHECK(status == cut_status && whole.done == cuts.done);
    if (!status) CHECK(view_equal((view){a.ptr, a.len}, (view){b.ptr, b.len}));
    bytes_free(&a);
    bytes_free(&b);
}

/* Where jansson reads the message, it agrees about a plain type that stands there once. */
static void check_type(view text)
{
    view type = socket_message_type(text);
    CHECK(!type.len || (type.ptr > text.ptr && type.ptr + type.len < text.ptr + text.len));
    json_t *root = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL);
    const char *want = json_string_value(json_object_get(root, "type"));
    if (root && want && type.len) CHECK(view_equal(type, view_of(want)));
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    view text = {(const char *)data + 1, size - 1};
    char path[SERVER_PATH_BYTES_MAX], id[SERVER_ID_BYTES];
    check_chunks(text, (size_t)data[0] % 16 + 1);
    check_type(text);
    snprintf(path, sizeof path, "%.*s", (int)(text.len < sizeof path ? text.len : sizeof path - 1),
             text.ptr);
    CHECK(route_find(data[0] % 8, path, id) != NULL);
    CHECK(strlen(id) < sizeof id);
    (void)access_is_loopback(text);
    (void)access_same_host(text, VIEW("127.0.0.1:8383"));
    (void)access_decode(path);
    return 0;
}
