/* fuzz_diffs.c - diffs of any bytes: a merge's becomes a plain one with as many lines, the same in
 * one piece and in many, the places of its lines lie in files that it names, and a hunk by words is
 * found in one piece and in many. */
#include "programs/combined.h"
#include "programs/places.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_lines(view text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '\n';
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const view text = {(const char *)data, size};
    combined whole = {.out.max = 1 << 24}, parts = {.out.max = 1 << 24};
    bytes joined = {.max = 1 << 24};
    diff_places p = {.n_old = 0}, by_bytes = {.n_old = 0};
    uint32_t number;
    CHECK(!combined_feed(&whole, text, true));
    for (size_t i = 0; i <= size; i++) {
        CHECK(!combined_feed(&parts, (view){text.ptr + i, i < size}, i == size));
        CHECK(!bytes_append(&joined, parts.out.ptr, parts.out.len));
    }
    CHECK(joined.len == whole.out.len && (!size || !memcmp(joined.ptr, whole.out.ptr, joined.len)));
    const view plain = {whole.out.ptr, whole.out.len};
    CHECK(n_lines(plain) == n_lines(text) && plain.len <= size + 8 * (n_lines(text) + 1));
    CHECK(!diff_places_feed(&p, plain));
    for (uint32_t i = 0; i < n_lines(plain) + 2; i++) {
        const char *path = diff_places_find(&p, i, &number);
        CHECK(!path || (number && strlen(path) < PLACES_PATH_MAX));
    }
    for (size_t i = 0; i < plain.len; i++)
        CHECK(!diff_places_feed(&by_bytes, (view){plain.ptr + i, 1}));
    CHECK(diff_places_by_words(&p) == diff_places_by_words(&by_bytes));
    CHECK(diff_places_by_words(&p) <= n_lines(plain) + 1);
    diff_places_free(&p);
    diff_places_free(&by_bytes);
    combined_free(&whole);
    combined_free(&parts);
    bytes_free(&joined);
    return 0;
}
