/* merges.c - owns reading the merge rules of a model file into the map for encoding. */
#include "tokenizer/merges.h"

#include "base/limits.h"

/* ---- the map ---- */

int merge_map_open(merge_map *map, size_t n_max)
{
    size_t n_slots = 16;
    while (n_slots < n_max + n_max / 2) n_slots *= 2;
    *map = (merge_map){.mask = n_slots - 1, .n_max = n_max};
    map->slots = memory_zalloc(n_slots, sizeof *map->slots);
    return map->slots ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void merge_map_close(merge_map *map)
{
    memory_free(map->slots);
    *map = (merge_map){0};
}

void merge_map_add(merge_map *map, uint32_t left, uint32_t right, uint32_t rank, int32_t id)
{
    CHECK(map->n < map->n_max);
    uint64_t key = merge_key(left, right);
    size_t i = merge_hash(key) & map->mask;
    while (map->slots[i].key != 0 && map->slots[i].key != key) i = (i + 1) & map->mask;
    if (map->slots[i].key == key) return;
    map->slots[i] = (merge_slot){.key = key, .rank = rank, .id = id};
    map->n++;
    if (rank >= map->n_ranks) map->n_ranks = rank + 1;
}

/* ---- BPE: the file lists the merges ---- */

/* Lines are looked up in groups: searches one after the other would each wait for memory. */
enum { GROUP = 16, LEFT = 0, RIGHT = 1, BOTH = 2, PARTS = 3 };

typedef struct {
    view parts[GROUP][PARTS]; /* in raw */
    uint32_t hashes[GROUP][PARTS];
    uint32_t ranks[GROUP];
    unsigned n;
    size_t raw_used;
    char raw[2 * TOKENIZER_TOKEN_BYTES_MAX];
} line_group;

/* Pairs of tokens that form a third; a line that does not name three merges nothing. */
static void add_group(merges *m, const vocabulary *v, line_group *g)
{
    for (unsigned i = 0; i < g->n; i++)
        for (int part = 0; part < PARTS; part++) vocabulary_fetch(v, g->hashes[i][part]);
    for (unsigned i = 0; i < g->n; i++)
        for (int part = 0; part < PARTS; part++) vocabulary_fetch_text(v, g->hashes[i][part]);
    int32_t ids[GROUP][PARTS];
    for (unsigned i = 0; i < g->n; i++) {
        for (int part = 0; part < PARTS; part++)
            ids[i][part] = vocabulary_find_hashed(v, g->parts[i][part], g->hashes[i][part]);
        merge_map_fetch(&m->pairs, ids[i][LEFT], ids[i][RIGHT]);
    }
    for (unsigned i = 0; i < g->n; i++) {
        if (ids[i][LEFT] < 0 || ids[i][RIGHT] < 0 || ids[i][BOTH] < 0) continue;
        if (v->kinds[ids[i][BOTH]] == TOKEN_CONTROL) continue;
        merge_map_add(&m->pairs, (uint32_t)ids[i][LEFT], (uint32_t)ids[i][RIGHT], g->ranks[i],
                      ids[i][BOTH]);
    }
    g->n = 0;
    g->raw_used = 0;
}

/* Raw bytes of a part of a line; false: it is not one. */
static bool read_part(const vocabulary *v, view text, char *raw, size_t *raw_len)
{
    if (v->form == VOCABULARY_BYTES) return vocabulary_unalphabet(text, raw, raw_len);
    *raw_len = vocabulary_unmark(text, raw);
    return true;
}

/* "left right": the raw bytes of left, right and both lie in one piece. */
static void read_line(const vocabulary *v, line_group *g, view line, uint32_t rank)
{
    if (line.len > TOKENIZER_TOKEN_BYTES_MAX || line.len < 3) return;
    const char *space = memchr(line.ptr + 1, ' ', line.len - 1);
    if (!space) return;
    view left = {line.ptr, (size_t)(space - line.ptr)};
    view right = {space + 1, line.len - left.len - 1};
    char *raw = g->raw + g->raw_used;
    size_t n_left = 0, n_right = 0;
    if (!read_part(v, left, raw, &n_left) || !read_part(v, right, raw + n_left, &n_right)) return;
    view *parts = g->parts[g->n];
    parts[LEFT] = (view){raw, n_left};
    parts[RIGHT] = (view){raw + n_left, n_right};
    parts[BOTH] = (view){raw, n_left + n_right};
    for (int part = 0; part < PARTS; part++)
        g->hashes[g->n][part] = (uint32_t)vocabulary_hash(parts[part].ptr, parts[part].len);
    g->ranks[g->n++] = rank;
    g->raw_used += n_left + n_right;
}

static int open_listed(merges *m, const vocabulary *v, const gguf_file *file, cerium_error *err)
{
    const gguf_value *lines = gguf_find(file, "tokenizer.ggml.merges");
    if (!lines || lines->type != GGUF_ARRAY || (lines->n_items && !lines->strings) ||
        lines->n_items > TOKENIZER_TOKENS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tokenizer.ggml.merges must be an array of at most %u strings",
                         gguf_path(file), TOKENIZER_TOKENS_MAX);
    if (merge_map_open(&m->pairs, (size_t)lines->n_items + 1))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for %u merges", gguf_path(file),
                         (unsigned)lines->n_items);
    line_group group;
    group.n = 0;
    group.raw_used = 0;
    for (uint32_t i = 0; i < lines->n_items; i++) {
        read_line(v, &group, lines->strings[i], i);
        if (group.n == GROUP || group.raw_used > TOKENIZER_TOKEN_BYTES_MAX)
            add_group(m, v, &group);
    }
    add_group(m, v, &group);
    return CERIUM_OK;
}

/* ---- sentencePiece: any pair that forms a token merges, best score first ---- */

size_t utf8_length(view text)
{
    uint8_t c = (uint8_t)text.ptr[0];
    size_t len = c < 0xC2 || c > 0xF4 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (len > text.len) return 1;
    for (size_t i = 1; i < len; i++)
        if (((uint8_t)text.ptr[i] & 0xC0) != 0x80) return 1;
    return len;
}

uint32_t utf8_code(const char *character, size_t len)
{
    uint32_t code = 0;
    for (size_t i = 0; i < len; i++) code = code << 8 | (uint8_t)character[i];
    return code;
}

typedef struct {
    float score;
    int32_t id;
} scored;

static int compare_scored(const void *a, const void *b)
{
    float x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return x > y ? -1 : x < y;
}

static bool merges_into(const vocabulary *v, int32_t id)
{
    token_kind kind = (token_kind)v->kinds[id];
    return kind == TOKEN_NORMAL || kind == TOKEN_UNUSED;
}

/* ranks[id]: 0 for the best score, equal for equal scores. */
static int rank_scores(const vocabulary *v, const gguf_value *scores, uint32_t *ranks)
{
    scored *order = memory_alloc((size_t)v->n_tokens * sizeof *order);
    if (!order) return CERIUM_ERR_MEMORY;
    bool sorted = true;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        double score = gguf_item_f64(scores, i);
        order[i] = (scored){score == score ? (float)score : -1e30f, (int32_t)i};
        if (i && order[i].score > order[i - 1].score) sorted = false;
    }
    if (!sorted) qsort(order, v->n_tokens, sizeof *order, compare_scored);
    uint32_t rank = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        if (i && order[i].score < order[i - 1].score) rank++;
        ranks[order[i].id] = rank;
    }
    memory_free(order);
    return CERIUM_OK;
}

/* Characters that are tokens have their id; other characters of tokens get a new one. */
static void add_characters(merges *m, const vocabulary *v, view text)
{
    for (size_t i = 0, len; i < text.len; i += len) {
        len = utf8_length((view){text.ptr + i, text.len - i});
        uint32_t code = utf8_code(text.ptr + i, len);
        if (merge_find(&m->characters, 0, (int32_t)code)) continue;
        int32_t id = vocabulary_find(v, (view){text.ptr + i, len});
        if (id < 0) id = (int32_t)m->n_symbols++;
        merge_map_add(&m->characters, 0, code, 0, id);
    }
}

/* The symbol of a part of a token: a token, a character, or none. */
static int32_t symbol_of(const merges *m, const vocabulary *v, view text)
{
    int32_t id = vocabulary_find(v, text);
    if (id >= 0) return merges_into(v, id) ? id : TOKEN_NONE;
    if (utf8_length(text) != text.len) return TOKEN_NONE;
    const merge_slot *slot = merge_find(&m->characters, 0, (int32_t)utf8_code(text.ptr, text.len));
    return slot ? slot->id : TOKEN_NONE;
}

static void add_joins(merges *m, view text)
{
    for (size_t i = 0; i + 1 < text.len; i++)
        m->joins[(uint8_t)text.ptr[i] << 8 | (uint8_t)text.ptr[i + 1]] = 1;
}

static void add_splits(merges *m, const vocabulary *v, int32_t id, uint32_t rank)
{
    view text = vocabulary_bytes(v, id);
    add_joins(m, text);
    for (size_t at = 0; at < text.len;) {
        at += utf8_length((view){text.ptr + at, text.len - at});
        if (at >= text.len) break;
        int32_t left = symbol_of(m, v, (view){text.ptr, at});
        if (left < 0) continue;
        int32_t right = symbol_of(m, v, (view){text.ptr + at, text.len - at});
        if (right >= 0) merge_map_add(&m->pairs, (uint32_t)left, (uint32_t)right, rank, id);
    }
}

/* Upper bounds: characters of all tokens, and places to split them. */
static void count_splits(const vocabulary *v, size_t *n_characters, size_t *n_splits)
{
    for (uint32_t id = 0; id < v->n_tokens; id++) {
        if (!merges_into(v, (int32_t)id)) continue;
        view text = vocabulary_bytes(v, (int32_t)id);
        size_t n = 0;
        for (size_t i = 0; i < text.len; n++)
            i += utf8_length((view){text.ptr + i, text.len - i});
        *n_characters += n <= 1 ? n : 0;
        *n_splits += n > 1 ? n - 1 : 0;
    }
}

static int open_scored(merges *m, const vocabulary *v, const gguf_file *file, cerium_error *err)
{
    const gguf_value *scores = gguf_find(file, "tokenizer.ggml.scores");
    if (!scores || scores->type != GGUF_ARRAY || scores->item_type == GGUF_STRING ||
        scores->item_type == GGUF_ARRAY || scores->n_items < v->n_tokens)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tokenizer.ggml.scores must hold a number for each token",
                         gguf_path(file));
    size_t n_characters = 1, n_splits = 1;
    count_splits(v, &n_characters, &n_splits);
    m->n_symbols = v->n_tokens;
    m->joins = memory_zalloc(65536, 1);
    uint32_t *ranks = memory_alloc((size_t)v->n_tokens * sizeof *ranks);
    if (!m->joins || !ranks || merge_map_open(&m->pairs, n_splits) ||
        merge_map_open(&m->characters, n_characters + 2 * n_splits) ||
        rank_scores(v, scores, ranks)) {
        memory_free(ranks);
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the merges of %u tokens",
                         gguf_path(file), v->n_tokens);
    }
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (merges_into(v, (int32_t)i)) add_characters(m, v, vocabulary_bytes(v, (int32_t)i));
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (merges_into(v, (int32_t)i)) add_splits(m, v, (int32_t)i, ranks[i]);
    memory_free(ranks);
    return CERIUM_OK;
}

/* Gemma 4: characters as in SentencePiece, and a list of merges. */
static int open_characters(merges *m, const vocabulary *v, const gguf_file *file, cerium_error *err)
{
    size_t n = 1;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const view text = vocabulary_bytes(v, (int32_t)i);
        n += text.len && utf8_length(text) == text.len;
    }
    m->n_symbols = v->n_tokens;
    m->joins = memory_zalloc(65536, 1);
    if (!m->joins || merge_map_open(&m->characters, n))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for %u tokens", gguf_path(file),
                         v->n_tokens);
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const view text = vocabulary_bytes(v, (int32_t)i);
        if (!merges_into(v, (int32_t)i)) continue;
        add_joins(m, text);
        if (text.len && utf8_length(text) == text.len)
            merge_map_add(&m->characters, 0, utf8_code(text.ptr, text.len), 0, (int32_t)i);
    }
    return open_listed(m, v, file, err);
}

int merges_open(merges *m, const vocabulary *v, const gguf_file *file, cerium_error *err)
{
    CHECK(m && v && file);
    *m = (merges){0};
    int status = v->form == VOCABULARY_BYTES ? open_listed(m, v, file, err)
                 : v->lists_merges           ? open_characters(m, v, file, err)
                                             : open_scored(m, v, file, err);
    if (status) merges_close(m);
    return status;
}

void merges_close(merges *m)
{
    merge_map_close(&m->pairs);
    merge_map_close(&m->characters);
    memory_free(m->joins);
    *m = (merges){0};
}
