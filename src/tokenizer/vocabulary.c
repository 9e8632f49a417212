/* vocabulary.c - owns reading the token table of a model file; knows nothing of encoding. */
#include "tokenizer/vocabulary.h"

#include "base/limits.h"

/* ---- hashing ---- */

static uint64_t load_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint64_t load_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t hash_mix(uint64_t h, uint64_t v)
{
    __extension__ unsigned __int128 m =
        (unsigned __int128)(h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t vocabulary_hash(const char *p, size_t len)
{
    uint64_t h = hash_mix(UINT64_C(0xA0761D6478BD642F), len);
    for (; len > 8; p += 8, len -= 8) h = hash_mix(h, load_u64(p));
    uint64_t tail = 0;
    if (len >= 4) tail = load_u32(p) << 32 | load_u32(p + len - 4);
    else if (len > 0)
        tail = (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[len / 2] << 8 |
               (uint8_t)p[len - 1];
    return hash_mix(h, tail);
}

/* Room for vocabulary_make_control(): one for each text and role that special.c knows. */
enum { MADE_CONTROL_MAX = 128 };

static size_t slots_for(size_t n)
{
    size_t n_slots = 16;
    while (n_slots < 2 * n) n_slots *= 2;
    return n_slots;
}

static vocabulary_slot *slots_open(size_t n_slots)
{
    vocabulary_slot *slots = memory_alloc(n_slots * sizeof *slots);
    if (slots) memset(slots, 0xFF, n_slots * sizeof *slots); /* id -1: free */
    return slots;
}

/* The slot of a text: holds its id, or is free. */
static vocabulary_slot *slot_of(const vocabulary *v, vocabulary_slot *slots, size_t n_slots,
                                view text, uint32_t hash)
{
    size_t i = hash & (n_slots - 1);
    for (;; i = (i + 1) & (n_slots - 1)) {
        if (slots[i].id < 0) return &slots[i];
        if (slots[i].hash == hash && view_equal(vocabulary_bytes(v, slots[i].id), text))
            return &slots[i];
    }
}

/* The first token with a text keeps it. */
static void slot_add(const vocabulary *v, vocabulary_slot *slots, size_t n_slots, int32_t id)
{
    view text = vocabulary_bytes(v, id);
    uint32_t hash = (uint32_t)vocabulary_hash(text.ptr, text.len);
    vocabulary_slot *slot = slot_of(v, slots, n_slots, text, hash);
    if (slot->id < 0) *slot = (vocabulary_slot){.hash = hash, .id = id};
}

int32_t vocabulary_find_hashed(const vocabulary *v, view text, uint32_t hash)
{
    return slot_of(v, v->by_bytes, v->n_slots, text, hash)->id;
}

int32_t vocabulary_find(const vocabulary *v, view text)
{
    return vocabulary_find_hashed(v, text, (uint32_t)vocabulary_hash(text.ptr, text.len));
}

int32_t vocabulary_find_name(const vocabulary *v, view name)
{
    uint32_t hash = (uint32_t)vocabulary_hash(name.ptr, name.len);
    return slot_of(v, v->by_name, v->n_name_slots, name, hash)->id;
}

void vocabulary_make_control(vocabulary *v, int32_t id)
{
    CHECK(id >= 0 && (uint32_t)id < v->n_tokens);
    if (v->kinds[id] == TOKEN_CONTROL) return;
    v->kinds[id] = TOKEN_CONTROL;
    slot_add(v, v->by_name, v->n_name_slots, id);
}

/* ---- from the text in the file to raw bytes ---- */

/* GPT-2 writes a byte as one printable character: bytes that are printable in Latin-1 stay, the
 * others become U+0100 and up in their order. */
static bool byte_is_plain(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/* The byte that a character encodes; -1: none. */
static int alphabet_byte(uint32_t character)
{
    if (character < 256) return byte_is_plain(character) ? (int)character : -1;
    /* In order: 0x00-0x20, 0x7F-0xA0, 0xAD. */
    uint32_t i = character - 256;
    if (i <= 0x20) return (int)i;
    if (i <= 0x20 + 0x22) return (int)(i - 0x21 + 0x7F);
    return i == 0x43 ? 0xAD : -1;
}

bool vocabulary_unalphabet(view text, char *raw, size_t *raw_len)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        int byte = -1;
        if (c < 0x80) {
            byte = alphabet_byte(c);
        } else if (c >= 0xC2 && c <= 0xC5 && i + 1 < text.len &&
                   ((uint8_t)text.ptr[i + 1] & 0xC0) == 0x80) {
            byte = alphabet_byte((uint32_t)(c & 0x1F) << 6 | ((uint8_t)text.ptr[++i] & 0x3F));
        }
        if (byte < 0) return false;
        raw[n++] = (char)byte;
    }
    *raw_len = n;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* "<0x0A>" -> 10; -1 for any other text. */
static int byte_token_value(view text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>') return -1;
    int high = hex_digit(text.ptr[3]), low = hex_digit(text.ptr[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

size_t vocabulary_unmark(view text, char *raw)
{
    size_t n = 0;
    for (size_t i = 0; i < text.len;) {
        if (text.len - i >= 3 && memcmp(text.ptr + i, "\xE2\x96\x81", 3) == 0) {
            raw[n++] = ' ';
            i += 3;
        } else {
            raw[n++] = text.ptr[i++];
        }
    }
    return n;
}

/* Raw bytes of one token; returns their number, at most text.len. */
static size_t token_decode(vocabulary_form form, token_kind kind, view text, char *raw)
{
    size_t n = 0;
    int byte = kind == TOKEN_BYTE ? byte_token_value(text) : -1;
    if (byte >= 0) {
        raw[0] = (char)byte;
        return 1;
    }
    bool named = kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN;
    if (form == VOCABULARY_SENTENCEPIECE && !named) return vocabulary_unmark(text, raw);
    if (form == VOCABULARY_BYTES && !named && kind != TOKEN_USER &&
        vocabulary_unalphabet(text, raw, &n))
        return n;
    if (text.len) memcpy(raw, text.ptr, text.len);
    return text.len;
}

/* ---- reading the file ---- */

static bool is_numbers(const gguf_value *array)
{
    return array->type == GGUF_ARRAY && array->item_type != GGUF_STRING &&
           array->item_type != GGUF_ARRAY;
}

static token_kind kind_of(vocabulary_form form, const gguf_value *types, uint32_t i, view text)
{
    int64_t type = types ? gguf_item_i64(types, i) : TOKEN_NORMAL;
    if (type < TOKEN_NORMAL || type > TOKEN_BYTE) type = TOKEN_NORMAL;
    if (!types && form == VOCABULARY_SENTENCEPIECE && byte_token_value(text) >= 0)
        type = TOKEN_BYTE;
    return (token_kind)type;
}

static int read_tokens(vocabulary *v, const gguf_file *file, const gguf_value *tokens,
                       cerium_error *err)
{
    const gguf_value *types = gguf_find(file, "tokenizer.ggml.token_type");
    if (types && (!is_numbers(types) || types->n_items < v->n_tokens))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tokenizer.ggml.token_type does not match the tokens; convert again",
                         gguf_path(file));
    size_t total = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        size_t len = tokens->strings[i].len;
        if (len > TOKENIZER_TOKEN_BYTES_MAX || !size_add(total, len, &total) ||
            total > UINT32_MAX)
            return error_set(err, CERIUM_ERR_FORMAT,
                             "%s: token %u is too long: a token may have %u bytes",
                             gguf_path(file), i, TOKENIZER_TOKEN_BYTES_MAX);
    }
    v->text = memory_alloc(total);
    v->offsets = memory_alloc(((size_t)v->n_tokens + 1) * sizeof *v->offsets);
    v->kinds = memory_alloc(v->n_tokens);
    if (!v->text || !v->offsets || !v->kinds)
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for %u tokens", gguf_path(file),
                         v->n_tokens);
    uint32_t at = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        view text = tokens->strings[i];
        token_kind kind = kind_of(v->form, types, i, text);
        v->kinds[i] = (uint8_t)kind;
        v->offsets[i] = at;
        at += (uint32_t)token_decode(v->form, kind, text, v->text + at);
    }
    v->offsets[v->n_tokens] = at;
    return CERIUM_OK;
}

static bool has_name(token_kind kind)
{
    return kind == TOKEN_CONTROL || kind == TOKEN_UNKNOWN || kind == TOKEN_USER;
}

static int index_tokens(vocabulary *v, const char *path, cerium_error *err)
{
    size_t n_named = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) n_named += has_name((token_kind)v->kinds[i]);
    v->n_slots = slots_for(v->n_tokens);
    v->n_name_slots = slots_for(n_named + MADE_CONTROL_MAX);
    v->by_bytes = slots_open(v->n_slots);
    v->by_name = slots_open(v->n_name_slots);
    if (!v->by_bytes || !v->by_name)
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for %u tokens", path,
                         v->n_tokens);
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        token_kind kind = (token_kind)v->kinds[i];
        if (v->offsets[i] == v->offsets[i + 1]) continue; /* encodes nothing */
        if (has_name(kind)) slot_add(v, v->by_name, v->n_name_slots, (int32_t)i);
        if (kind == TOKEN_NORMAL || kind == TOKEN_UNUSED || kind == TOKEN_USER)
            slot_add(v, v->by_bytes, v->n_slots, (int32_t)i);
    }
    return CERIUM_OK;
}

/* The token of each single byte: a byte token, else the token of those bytes, else (some byte
 * alphabets lack the bytes that UTF-8 never uses) a token with the text that GPT-2 gives it. */
static void index_bytes(vocabulary *v, const gguf_file *file)
{
    uint64_t unknown;
    int32_t none = TOKEN_NONE;
    if (gguf_get_u64(file, "tokenizer.ggml.unknown_token_id", &unknown) && unknown < v->n_tokens)
        none = (int32_t)unknown;
    for (int b = 0; b < 256; b++) {
        char raw = (char)b;
        v->byte_ids[b] = vocabulary_find(v, (view){&raw, 1});
    }
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        view text = vocabulary_bytes(v, (int32_t)i);
        char raw[4];
        size_t len;
        if (v->kinds[i] == TOKEN_BYTE && text.len == 1)
            v->byte_ids[(uint8_t)text.ptr[0]] = (int32_t)i;
        else if (v->form == VOCABULARY_BYTES && v->kinds[i] == TOKEN_USER && text.len <= 2 &&
                 vocabulary_unalphabet(text, raw, &len) && len == 1 &&
                 v->byte_ids[(uint8_t)raw[0]] < 0)
            v->byte_ids[(uint8_t)raw[0]] = (int32_t)i;
    }
    for (int b = 0; b < 256; b++)
        if (v->byte_ids[b] < 0) v->byte_ids[b] = none;
}

int vocabulary_open(vocabulary *v, const gguf_file *file, cerium_error *err)
{
    CHECK(v && file);
    *v = (vocabulary){0};
    const char *path = gguf_path(file);
    view model = {0};
    if (!gguf_get_string(file, "tokenizer.ggml.model", &model))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: no tokenizer.ggml.model: the file has no vocabulary", path);
    if (view_equal(model, VIEW("gpt2"))) v->form = VOCABULARY_BYTES;
    else if (view_equal(model, VIEW("llama"))) v->form = VOCABULARY_SENTENCEPIECE;
    else if (view_equal(model, VIEW("gemma4"))) v->form = VOCABULARY_SENTENCEPIECE;
    else
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tokenizer.ggml.model \"%.*s\" is not supported; use a model with "
                         "\"gpt2\", \"llama\" or \"gemma4\"",
                         path, (int)(model.len < 64 ? model.len : 64), model.ptr);
    v->lists_merges = v->form == VOCABULARY_BYTES || view_equal(model, VIEW("gemma4"));
    const gguf_value *tokens = gguf_find(file, "tokenizer.ggml.tokens");
    if (!tokens || tokens->type != GGUF_ARRAY || !tokens->strings || tokens->n_items == 0 ||
        tokens->n_items > TOKENIZER_TOKENS_MAX)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tokenizer.ggml.tokens must be an array of 1 to %u strings", path,
                         TOKENIZER_TOKENS_MAX);
    v->n_tokens = (uint32_t)tokens->n_items;
    int status = read_tokens(v, file, tokens, err);
    if (!status) status = index_tokens(v, path, err);
    if (status) {
        vocabulary_close(v);
        return status;
    }
    index_bytes(v, file);
    return CERIUM_OK;
}

void vocabulary_close(vocabulary *v)
{
    memory_free(v->text);
    memory_free(v->offsets);
    memory_free(v->kinds);
    memory_free(v->by_bytes);
    memory_free(v->by_name);
    *v = (vocabulary){0};
}
