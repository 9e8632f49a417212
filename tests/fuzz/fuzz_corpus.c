/* fuzz_corpus.c - an index of a workspace: no reads past its end, and on an accepted
 * index every search ends and finds tokens of the vocabulary. */
#include "base/hash.h"
#include "base/memory.h"
#include "speculation/corpus.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VOCABULARY = 7, TOKENS = 300, FILES_MAX = 4, LARGE_TOKENS_MAX = 600 };

static void check(const uint8_t *block, size_t size)
{
    corpus c;
    if (corpus_read(&c, (view){(const char *)block, size}, VOCABULARY, TOKENS)) return;
    for (uint32_t end = 0; end <= c.n_tokens; end += 1 + c.n_tokens / 16) {
        uint32_t at = 0;
        uint32_t same = ngrams_find(&c.index, c.tokens, c.tokens, end, UINT32_MAX, &at);
        CHECK(same == 0 || (at <= c.n_tokens && same >= NGRAMS_LARGE_SHORT));
        for (uint32_t i = 0; same && i < 8 && at + i < c.n_tokens; i++)
            CHECK((uint32_t)c.tokens[at + i] < TOKENS);
    }
}

/* A whole block, sealed, whose files, tokens and chains the data then changes; the checksum is made
 * right by its definition: a hash of the head with 0 in its place, then of the rest. */
static void check_made(const uint8_t *data, size_t size)
{
    enum { CHECKSUM_AT = 24, HEAD = 40 };
    uint32_t n_files = data[0] % FILES_MAX, n = n_files ? (data[1] * 3u) % LARGE_TOKENS_MAX : 0;
    size_t bytes_of = corpus_bytes(n_files, n);
    uint8_t *block = memory_zalloc(1, bytes_of);
    corpus c;
    CHECK(block);
    corpus_open(&c, block, n_files, n);
    for (uint32_t i = 0; i < n; i++) c.tokens[i] = (int32_t)((i * i + data[i % size]) % TOKENS);
    for (uint32_t i = 0; i < n_files; i++)
        c.files[i] = (corpus_file){.first = i * (n / n_files), .n = n / n_files};
    if (n_files) c.files[n_files - 1].n = n - c.files[n_files - 1].first;
    corpus_seal(&c, block, VOCABULARY);
    corpus sealed;
    CHECK(!corpus_read(&sealed, (view){(const char *)block, bytes_of}, VOCABULARY, TOKENS));
    for (size_t i = 2; i + 4 < size; i += 5) {
        size_t at = HEAD + (data[i] << 16 | data[i + 1] << 8 | data[i + 2]) % (bytes_of - HEAD);
        block[at] = data[i + 3];
    }
    uint64_t hash = 0;
    memcpy(block + CHECKSUM_AT, &hash, sizeof hash);
    hash = hash_bytes(block + HEAD, bytes_of - HEAD, hash_bytes(block, HEAD, 0));
    memcpy(block + CHECKSUM_AT, &hash, sizeof hash);
    check(block, bytes_of);
    memory_free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = memory_alloc(size ? size : 1); /* aligned, and of exact size */
    CHECK(copy);
    memcpy(copy, data, size);
    check(copy, size);
    memory_free(copy);
    if (size >= 2) check_made(data, size);
    return 0;
}
