/* state_file.c - writing and reading the head of a file with a kept state. */
#include "cache/state_file.h"

enum {
    AT_COUNTS = 8, AT_KEY = 16, AT_SALT = 40, AT_NUMBER = 56, AT_TENANT = 64, AT_BYTES = 72,
    AT_STATE_HASH = 80, AT_BEFORE = 88, AT_TAIL = 104, AT_HASH = 360,
};

static const char magic[] = "cerstate";
_Static_assert(sizeof magic - 1 == AT_COUNTS, "the counts follow");
_Static_assert(AT_KEY + sizeof(segment_key) == AT_SALT, "the key has no holes");
_Static_assert(AT_BEFORE + sizeof(hash_name) == AT_TAIL, "a name has no holes");
_Static_assert(AT_TAIL + KERNEL_PAGE * sizeof(int32_t) == AT_HASH, "tokens have no holes");
_Static_assert(AT_HASH + 8 <= STATE_FILE_HEAD_BYTES, "the head has room for its hash");

void state_head_write(uint8_t out[STATE_FILE_HEAD_BYTES], const state_head *head)
{
    const uint32_t counts[2] = {STATE_FILE_VERSION, head->n_tokens};
    memset(out, 0, STATE_FILE_HEAD_BYTES);
    memcpy(out, magic, AT_COUNTS);
    memcpy(out + AT_COUNTS, counts, sizeof counts);
    memcpy(out + AT_KEY, &head->key, sizeof head->key);
    memcpy(out + AT_SALT, head->salt, sizeof head->salt);
    memcpy(out + AT_NUMBER, &head->number, sizeof head->number);
    memcpy(out + AT_TENANT, &head->tenant, sizeof head->tenant);
    memcpy(out + AT_BYTES, &head->bytes, sizeof head->bytes);
    memcpy(out + AT_STATE_HASH, &head->hash, sizeof head->hash);
    memcpy(out + AT_BEFORE, &head->before, sizeof head->before);
    memcpy(out + AT_TAIL, head->tail, state_head_tail(head) * sizeof *head->tail);
    const uint64_t hash = hash_bytes(out, AT_HASH, 0);
    memcpy(out + AT_HASH, &hash, sizeof hash);
}

const char *state_head_read(view first, uint64_t file_bytes, const segment_key *key, uint64_t bytes,
                            state_head *out)
{
    uint32_t counts[2];
    uint64_t hash;
    if (first.len < AT_COUNTS || memcmp(first.ptr, magic, AT_COUNTS) != 0)
        return "not a file of a state";
    if (first.len < STATE_FILE_HEAD_BYTES) return "cut short";
    memcpy(counts, first.ptr + AT_COUNTS, sizeof counts);
    memcpy(&hash, first.ptr + AT_HASH, sizeof hash);
    if (counts[0] != STATE_FILE_VERSION) return "made by another version";
    if (hash != hash_bytes(first.ptr, AT_HASH, 0)) return "damaged";
    state_head have = {.n_tokens = counts[1]};
    memcpy(&have.key, first.ptr + AT_KEY, sizeof have.key);
    memcpy(have.salt, first.ptr + AT_SALT, sizeof have.salt);
    memcpy(&have.number, first.ptr + AT_NUMBER, sizeof have.number);
    memcpy(&have.tenant, first.ptr + AT_TENANT, sizeof have.tenant);
    memcpy(&have.bytes, first.ptr + AT_BYTES, sizeof have.bytes);
    memcpy(&have.hash, first.ptr + AT_STATE_HASH, sizeof have.hash);
    memcpy(&have.before, first.ptr + AT_BEFORE, sizeof have.before);
    memcpy(have.tail, first.ptr + AT_TAIL, state_head_tail(&have) * sizeof *have.tail);
    if (have.key.model != key->model) return "made from another model file";
    if (have.key.numbers != key->numbers || have.key.layout != key->layout || have.bytes != bytes)
        return "made by another version";
    if (have.n_tokens < 1) return "damaged";
    if (file_bytes < STATE_FILE_HEAD_BYTES || file_bytes - STATE_FILE_HEAD_BYTES < bytes)
        return "cut short";
    *out = have;
    return NULL;
}

bool state_file_is_unfinished(view first)
{
    static const char zeros[AT_COUNTS];
    const size_t n = first.len < AT_COUNTS ? first.len : AT_COUNTS;
    return memcmp(first.ptr, zeros, n) == 0;
}

uint64_t state_file_hash(const void *piece, size_t n, uint64_t before)
{
    return hash_bytes(piece, n, before);
}
