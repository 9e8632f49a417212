/* fuzz_segment.c - a file of kept KV pages: no reads past its end, an accepted one
 * equals what would be written, and records are within the file. */
#include "base/memory.h"
#include "cache/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const segment_layout layouts[] = {
    {.n_groups = 1, .required = 1, .page_bytes = {100}},
    {.n_groups = 3, .required = 2, .page_bytes = {1 << 20, 64, 4096}},
};

static void check_record(view table, uint32_t index, uint64_t file_bytes, const segment_head *head,
                         const segment_layout *layout)
{
    segment_record r;
    uint8_t again[SEGMENT_RECORD_BYTES];
    if (segment_record_read(table, index, file_bytes, head, layout, &r)) return;
    CHECK(r.n_tokens >= 1 && r.n_tokens <= KERNEL_PAGE && r.groups >> layout->n_groups == 0);
    uint64_t n = segment_record_pages_bytes(layout, r.groups);
    CHECK(n >= layout->page_bytes[0] || !(layout->required & 1));
    CHECK(r.at >= segment_pages_at(head->n_records) && r.at + n <= file_bytes && r.at + n > r.at);
    segment_record_write(again, head, index, &r);
    segment_record back;
    view text = {(const char *)again, sizeof again};
    if (index == 0) CHECK(!segment_record_read(text, 0, file_bytes, head, layout, &back));
}

/* The bytes as a file: a head, if necessary with a corrected hash, and its records. */
static void check_file(const uint8_t *data, size_t size, bool mends)
{
    uint8_t *copy = memory_alloc(size);
    segment_head head;
    segment_key key;
    CHECK(copy);
    memcpy(copy, data, size);
    if (size >= SEGMENT_HEAD_BYTES) {
        memcpy(&key, copy + 16, sizeof key);
        if (mends) {
            segment_head wanted = {.key = key, .number = 3, .n_records = 1 + copy[12] % 8};
            memcpy(wanted.salt, copy + 40, sizeof wanted.salt);
            segment_head_write(copy, &wanted);
        }
    } else {
        key = (segment_key){1, 2, 3};
    }
    const char *fault = segment_head_read((view){(const char *)copy, size}, &key, &head);
    CHECK(!fault || (fault[0] && !mends) || size < SEGMENT_HEAD_BYTES);
    view table = {(const char *)copy + SEGMENT_HEAD_BYTES, fault ? 0 : size - SEGMENT_HEAD_BYTES};
    for (uint32_t i = 0; !fault && i < head.n_records && i < 16; i++) {
        size_t at = i * SEGMENT_RECORD_BYTES;
        if (mends && table.len >= at + SEGMENT_RECORD_BYTES) { /* right hash, wrong numbers */
            segment_record r = {.n_tokens = copy[SEGMENT_HEAD_BYTES + at + 8] % (KERNEL_PAGE + 1)};
            memcpy(&r.at, copy + SEGMENT_HEAD_BYTES + at, sizeof r.at);
            r.groups = copy[SEGMENT_HEAD_BYTES + at + 16];
            segment_record_write(copy + SEGMENT_HEAD_BYTES + at, &head, i, &r);
        }
        for (size_t k = 0; k < ARRAY_LEN(layouts); k++) {
            check_record(table, i, size, &head, &layouts[k]);
            check_record(table, i, UINT64_MAX, &head, &layouts[k]);
        }
    }
    memory_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_file(data, size, false);
    check_file(data, size, true);
    return 0;
}
