/* fuzz_state_file.c - a file with a kept state: no reads past its end, an accepted head equals what
 * would be written, and its state is within the file. */
#include "cache/state_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_head(view first, uint64_t file_bytes, const segment_key *key,
                       uint64_t state_bytes)
{
    state_head head, back;
    uint8_t again[STATE_FILE_HEAD_BYTES];
    const char *fault = state_head_read(first, file_bytes, key, state_bytes, &head);
    if (fault) {
        CHECK(fault[0]);
        return;
    }
    CHECK(!state_file_is_unfinished(first));
    CHECK(first.len >= STATE_FILE_HEAD_BYTES && head.n_tokens >= 1 && head.bytes == state_bytes);
    CHECK(file_bytes - state_bytes >= STATE_FILE_HEAD_BYTES && file_bytes >= state_bytes);
    CHECK(head.key.model == key->model && head.key.layout == key->layout);
    state_head_write(again, &head);
    CHECK(!state_head_read((view){(const char *)again, sizeof again}, file_bytes, key,
                           state_bytes, &back));
    CHECK(back.n_tokens == head.n_tokens && back.hash == head.hash && back.tenant == head.tenant &&
          back.number == head.number && hash_name_equal(back.before, head.before) &&
          !memcmp(back.tail, head.tail, state_head_tail(&head) * sizeof *head.tail));
}

/* The bytes as a file, and with the numbers of a head that has the right hash. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t mended[STATE_FILE_HEAD_BYTES];
    segment_key key = {1, 2, 3};
    uint64_t state_bytes = 640;
    uint32_t n_tokens = 0;
    if (size >= 80) {
        memcpy(&key, data + 16, sizeof key);
        memcpy(&state_bytes, data + 72, sizeof state_bytes);
        memcpy(&n_tokens, data + 12, sizeof n_tokens);
    }
    view first = {(const char *)data, size < STATE_FILE_HEAD_BYTES ? size : STATE_FILE_HEAD_BYTES};
    (void)state_file_is_unfinished(first);
    check_head(first, size, &key, state_bytes);
    check_head(first, UINT64_MAX, &key, state_bytes);
    state_head head = {.key = key, .bytes = state_bytes, .n_tokens = n_tokens, .number = size};
    for (size_t i = 0; i < KERNEL_PAGE && 104 + 4 * i + 4 <= size; i++)
        memcpy(&head.tail[i], data + 104 + 4 * i, sizeof *head.tail);
    state_head_write(mended, &head);
    first = (view){(const char *)mended, sizeof mended};
    check_head(first, size, &key, state_bytes);
    check_head(first, UINT64_MAX, &key, state_bytes);
    return 0;
}
