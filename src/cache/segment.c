/* segment.c - writing and reading the head and the records of a file of kept pages. */
#include "cache/segment.h"

enum {
    AT_VERSION = 8, AT_KEY = 16, AT_SALT = 40, AT_NUMBER = 56, AT_HASH = 64,
    /* of a record */
    AT_COUNTS = 8, AT_BEFORE = 24, AT_TOKENS = 40, AT_HASHES = 296, AT_TENANT = 328,
    AT_RECORD_HASH = 336,
};

static const char magic[] = "cerkvseg";
_Static_assert(sizeof magic - 1 == AT_VERSION, "the version follows");
_Static_assert(AT_KEY + sizeof(segment_key) == AT_SALT, "the key has no holes");
_Static_assert(AT_HASH + 8 == SEGMENT_HEAD_BYTES, "the hash is the last of the head");
_Static_assert(AT_TOKENS + KERNEL_PAGE * sizeof(int32_t) == AT_HASHES, "tokens have no holes");
_Static_assert(AT_HASHES + KV_GROUPS_MAX * 8 == AT_TENANT, "every group has a hash");
_Static_assert(AT_RECORD_HASH + 8 <= SEGMENT_RECORD_BYTES, "a record has room for its hash");

uint64_t segment_record_at(uint32_t index)
{
    return SEGMENT_HEAD_BYTES + (uint64_t)index * SEGMENT_RECORD_BYTES;
}

uint64_t segment_pages_at(uint32_t n_records) { return segment_record_at(n_records); }

uint64_t segment_record_pages_bytes(const segment_layout *layout, uint32_t groups)
{
    uint64_t n = 0;
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (groups >> g & 1) n += layout->page_bytes[g];
    return n;
}

void segment_head_write(uint8_t out[SEGMENT_HEAD_BYTES], const segment_head *head)
{
    const uint32_t numbers[2] = {SEGMENT_VERSION, head->n_records};
    memcpy(out, magic, AT_VERSION);
    memcpy(out + AT_VERSION, numbers, sizeof numbers);
    memcpy(out + AT_KEY, &head->key, sizeof head->key);
    memcpy(out + AT_SALT, head->salt, sizeof head->salt);
    memcpy(out + AT_NUMBER, &head->number, sizeof head->number);
    const uint64_t hash = hash_bytes(out, AT_HASH, 0);
    memcpy(out + AT_HASH, &hash, sizeof hash);
}

const char *segment_head_read(view head, const segment_key *key, segment_head *out)
{
    uint32_t numbers[2];
    uint64_t hash;
    if (head.len < AT_VERSION || memcmp(head.ptr, magic, AT_VERSION) != 0)
        return "not a file of KV pages";
    if (head.len < SEGMENT_HEAD_BYTES) return "cut short";
    memcpy(numbers, head.ptr + AT_VERSION, sizeof numbers);
    memcpy(&hash, head.ptr + AT_HASH, sizeof hash);
    if (numbers[0] != SEGMENT_VERSION) return "made by another version";
    if (hash != hash_bytes(head.ptr, AT_HASH, 0)) return "damaged";
    segment_head have = {.n_records = numbers[1]};
    memcpy(&have.key, head.ptr + AT_KEY, sizeof have.key);
    memcpy(have.salt, head.ptr + AT_SALT, sizeof have.salt);
    memcpy(&have.number, head.ptr + AT_NUMBER, sizeof have.number);
    if (have.n_records < 1 || have.n_records > SEGMENT_RECORDS_MAX) return "damaged";
    if (have.key.model != key->model) return "made from another model file";
    if (have.key.numbers != key->numbers || have.key.layout != key->layout)
        return "made by another version";
    *out = have;
    return NULL;
}

/* Of the bytes of a record, and of where it is. */
static uint64_t hash_of(const uint8_t *bytes, const segment_head *head, uint32_t index)
{
    const uint64_t place[4] = {head->salt[0], head->salt[1], head->number, index};
    return hash_bytes(bytes, AT_RECORD_HASH, hash_bytes(place, sizeof place, 0));
}

void segment_record_write(uint8_t out[SEGMENT_RECORD_BYTES], const segment_head *head,
                          uint32_t index, const segment_record *record)
{
    const uint32_t counts[4] = {record->n_tokens, record->position, record->groups, 0};
    memset(out, 0, SEGMENT_RECORD_BYTES);
    memcpy(out, &record->at, sizeof record->at);
    memcpy(out + AT_COUNTS, counts, sizeof counts);
    memcpy(out + AT_BEFORE, &record->before, sizeof record->before);
    memcpy(out + AT_TOKENS, record->tokens, record->n_tokens * sizeof *record->tokens);
    memcpy(out + AT_HASHES, record->hashes, sizeof record->hashes);
    memcpy(out + AT_TENANT, &record->tenant, sizeof record->tenant);
    const uint64_t hash = hash_of(out, head, index);
    memcpy(out + AT_RECORD_HASH, &hash, sizeof hash);
}

segment_record_state segment_record_read(view table, uint32_t index, uint64_t file_bytes,
                                         const segment_head *head, const segment_layout *layout,
                                         segment_record *out)
{
    const size_t at = (size_t)index * SEGMENT_RECORD_BYTES;
    uint32_t counts[4];
    uint64_t hash;
    if (table.len < at || table.len - at < SEGMENT_RECORD_BYTES) return SEGMENT_RECORD_CUT;
    const char *bytes = table.ptr + at;
    memcpy(&hash, bytes + AT_RECORD_HASH, sizeof hash);
    /* Not written, or not to its end: a kill can end a write between two pages of the file. */
    if (hash == 0) return SEGMENT_RECORD_NONE;
    if (hash != hash_of((const uint8_t *)bytes, head, index)) return SEGMENT_RECORD_BAD;
    segment_record r = {0};
    memcpy(&r.at, bytes, sizeof r.at);
    memcpy(counts, bytes + AT_COUNTS, sizeof counts);
    memcpy(&r.before, bytes + AT_BEFORE, sizeof r.before);
    memcpy(r.tokens, bytes + AT_TOKENS, sizeof r.tokens);
    memcpy(r.hashes, bytes + AT_HASHES, sizeof r.hashes);
    memcpy(&r.tenant, bytes + AT_TENANT, sizeof r.tenant);
    r.n_tokens = counts[0];
    r.position = counts[1];
    r.groups = counts[2];
    if (r.n_tokens < 1 || r.n_tokens > KERNEL_PAGE) return SEGMENT_RECORD_BAD;
    if (r.groups >> layout->n_groups || (r.groups & layout->required) != layout->required)
        return SEGMENT_RECORD_BAD;
    if (r.at < segment_pages_at(head->n_records)) return SEGMENT_RECORD_BAD;
    const uint64_t n = segment_record_pages_bytes(layout, r.groups);
    if (r.at > file_bytes || file_bytes - r.at < n) return SEGMENT_RECORD_CUT;
    *out = r;
    return SEGMENT_RECORD_GOOD;
}
