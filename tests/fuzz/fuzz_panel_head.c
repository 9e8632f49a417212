/* fuzz_panel_head.c - the head of a file of panels: no reads past its end, and an
 * accepted one equals what would be written. */
#include "model/panel_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    panel_key key = {.model = 1, .layout = 2, .bytes = 3 << 20};
    uint64_t file_bytes = panel_file_at(key.bytes) + key.bytes;
    view head = {(const char *)data, size};
    const char *fault = panel_head_fault(head, file_bytes, &key);
    CHECK(!fault || fault[0]);
    if (size < 48) {
        CHECK(fault);
        return 0;
    }
    /* The key that the bytes themselves claim, if a model can be that large. */
    memcpy(&key, data + 16, sizeof key);
    key.bytes %= UINT64_C(1) << 32;
    if (key.bytes == 0) return 0;
    file_bytes = panel_file_at(key.bytes) + key.bytes;
    CHECK(panel_head_fault(head, file_bytes + 1, &key));
    CHECK(panel_head_fault(head, file_bytes - 1, &key));
    if (panel_head_fault(head, file_bytes, &key)) return 0;
    CHECK(size >= panel_file_head_bytes(key.bytes));
    uint64_t n = panel_n_chunks(key.bytes), *hashes = memory_alloc(n * sizeof *hashes);
    uint8_t *again = memory_alloc(panel_file_head_bytes(key.bytes));
    CHECK(hashes && again);
    for (uint64_t i = 0; i < n; i++) hashes[i] = panel_head_hash(data, i);
    panel_head_write(again, &key, hashes);
    CHECK(memcmp(again, data, panel_file_head_bytes(key.bytes)) == 0);
    memory_free(hashes);
    memory_free(again);
    return 0;
}
