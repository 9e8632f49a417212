/* panel_header.c - writes and checks the head of a file of panels. */
#include "model/panel_header.h"

#include "base/hash.h"

enum { AT_VERSION = 8, AT_CHUNK = 12, AT_KEY = 16, AT_HASH = 40, AT_TABLE = 48 };

static const char magic[] = "cerpanel";
_Static_assert(sizeof magic - 1 == AT_VERSION, "the version follows");
_Static_assert(AT_KEY + sizeof(panel_key) == AT_HASH, "the key has no holes");

uint64_t panel_n_chunks(uint64_t panels_bytes)
{
    return panels_bytes / PANEL_CHUNK_BYTES + (panels_bytes % PANEL_CHUNK_BYTES != 0);
}

uint64_t panel_file_head_bytes(uint64_t panels_bytes)
{
    return AT_TABLE + panel_n_chunks(panels_bytes) * sizeof(uint64_t);
}

uint64_t panel_file_at(uint64_t panels_bytes)
{
    return size_round_up(panel_file_head_bytes(panels_bytes), MEMORY_HUGE_PAGE);
}

static uint64_t hash_of(const uint8_t *head, uint64_t panels_bytes)
{
    size_t table_bytes = panel_n_chunks(panels_bytes) * sizeof(uint64_t);
    return hash_bytes(head + AT_TABLE, table_bytes, hash_bytes(head, AT_HASH, 0));
}

void panel_head_write(uint8_t *head, const panel_key *key, const uint64_t *hashes)
{
    const uint32_t numbers[2] = {PANEL_FILE_VERSION, PANEL_CHUNK_BYTES};
    memcpy(head, magic, AT_VERSION);
    memcpy(head + AT_VERSION, numbers, sizeof numbers);
    memcpy(head + AT_KEY, key, sizeof *key);
    memcpy(head + AT_TABLE, hashes, panel_n_chunks(key->bytes) * sizeof *hashes);
    const uint64_t hash = hash_of(head, key->bytes);
    memcpy(head + AT_HASH, &hash, sizeof hash);
}

const char *panel_head_fault(view head, uint64_t file_bytes, const panel_key *key)
{
    uint32_t numbers[2];
    panel_key have;
    uint64_t hash;
    if (head.len < AT_VERSION || memcmp(head.ptr, magic, AT_VERSION) != 0)
        return "not a file of panels";
    if (head.len < AT_TABLE) return "cut short";
    memcpy(numbers, head.ptr + AT_VERSION, sizeof numbers);
    memcpy(&have, head.ptr + AT_KEY, sizeof have);
    memcpy(&hash, head.ptr + AT_HASH, sizeof hash);
    if (numbers[0] != PANEL_FILE_VERSION || numbers[1] != PANEL_CHUNK_BYTES)
        return "made by another version";
    if (have.model != key->model) return "made from another model file";
    if (have.layout != key->layout || have.bytes != key->bytes) return "made by another version";
    const uint64_t want = panel_file_at(key->bytes) + key->bytes;
    if (head.len < panel_file_head_bytes(key->bytes) || file_bytes < want) return "cut short";
    if (file_bytes > want || hash != hash_of((const uint8_t *)head.ptr, key->bytes))
        return "damaged";
    return NULL;
}

uint64_t panel_head_hash(const uint8_t *head, uint64_t chunk)
{
    uint64_t hash;
    memcpy(&hash, head + AT_TABLE + chunk * sizeof hash, sizeof hash);
    return hash;
}
