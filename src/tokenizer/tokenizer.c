/* tokenizer.c - owns the public functions: opens the parts, and runs text through them.
 *
 * Text is cut at special tokens, then at invalid UTF-8, then (byte-level) by the pre-tokenizer or
 * (SentencePiece) between bytes that no token holds side by side; the rest is merged. */
#include "tokenizer/tokenizer.h"

#include "tokenizer/merger.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/special.h"

/* When a space is added before text: with the old normalizer always, with Metaspace if there is
 * none, or only at the beginning of the whole text (`tokenizers`: prepend, always, first). */
typedef enum { SPACE_NEVER, SPACE_PUT, SPACE_MISSING, SPACE_FIRST } space_scheme;

struct tokenizer {
    vocabulary vocab;
    special_tokens special;
    merges rules;
    pretokenizer *pre; /* byte-level only */
    bool whole_words, adds_bos, suffix_first;
    space_scheme space;
    bytes texts; /* the chat template, then the name of the pre-tokenizer */
    size_t template_len;
};

/* ---- opening ---- */

static int open_flags(tokenizer *t, const gguf_file *file, cerium_error *err)
{
    pretokenizer_facts facts = {.adds_bos = true};
    if (t->vocab.form == VOCABULARY_SENTENCEPIECE) {
        bool adds = !t->vocab.lists_merges;
        view scheme = {0};
        gguf_get_bool(file, "tokenizer.ggml.add_space_prefix", &adds);
        gguf_get_string(file, "cerium.space_prefix", &scheme);
        t->space = !adds                                ? SPACE_NEVER
                   : view_equal(scheme, VIEW("first"))  ? SPACE_FIRST
                   : view_equal(scheme, VIEW("always")) ? SPACE_MISSING
                                                        : SPACE_PUT;
    } else {
        view pre = VIEW("default");
        gguf_get_string(file, "tokenizer.ggml.pre", &pre);
        RETURN_IF(pretokenizer_open(&t->pre, pre, gguf_path(file), &facts, err));
    }
    t->whole_words = facts.whole_words;
    t->adds_bos = facts.adds_bos;
    gguf_get_bool(file, "tokenizer.ggml.add_bos_token", &t->adds_bos);
    gguf_get_bool(file, "cerium.fim_suffix_first", &t->suffix_first);
    if (t->special.roles[TOKEN_BOS] < 0) t->adds_bos = false;
    return CERIUM_OK;
}

static int keep_texts(tokenizer *t, const gguf_file *file, cerium_error *err)
{
    view form = {0}, pre = {0};
    gguf_get_string(file, "tokenizer.chat_template", &form);
    gguf_get_string(file, "tokenizer.ggml.pre", &pre);
    t->texts.max = SIZE_MAX;
    t->template_len = form.len;
    if (bytes_append(&t->texts, form.ptr, form.len) || bytes_append(&t->texts, pre.ptr, pre.len))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the chat template",
                         gguf_path(file));
    return CERIUM_OK;
}

int tokenizer_open(tokenizer **out, const gguf_file *file, cerium_error *err)
{
    CHECK(out && file);
    tokenizer *t = memory_zalloc(1, sizeof *t);
    if (!t) return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory", gguf_path(file));
    int status = vocabulary_open(&t->vocab, file, err);
    if (!status) status = special_open(&t->special, &t->vocab, file, err);
    if (!status) status = merges_open(&t->rules, &t->vocab, file, err);
    if (!status) status = open_flags(t, file, err);
    if (!status) status = keep_texts(t, file, err);
    if (status) tokenizer_close(&t);
    else *out = t;
    return status;
}

void tokenizer_close(tokenizer **t)
{
    if (!t || !*t) return;
    pretokenizer_close(&(*t)->pre);
    merges_close(&(*t)->rules);
    special_close(&(*t)->special);
    vocabulary_close(&(*t)->vocab);
    bytes_free(&(*t)->texts);
    memory_free(*t);
    *t = NULL;
}

/* ---- facts ---- */

static bool is_token(const tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n_tokens;
}

uint32_t tokenizer_n_tokens(const tokenizer *t) { return t->vocab.n_tokens; }

const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *len)
{
    CHECK(t && len);
    view text = {0};
    if (is_token(t, id)) text = vocabulary_bytes(&t->vocab, id);
    *len = text.len;
    return text.ptr;
}

bool tokenizer_is_end(const tokenizer *t, int32_t id)
{
    return is_token(t, id) && t->special.ends[id];
}

void tokenizer_end_also(tokenizer *t, int32_t id)
{
    CHECK(is_token(t, id));
    t->special.ends[id] = 1;
}

bool tokenizer_is_control(const tokenizer *t, int32_t id)
{
    return is_token(t, id) &&
           (t->vocab.kinds[id] == TOKEN_CONTROL || t->vocab.kinds[id] == TOKEN_UNKNOWN);
}

int32_t tokenizer_role(const tokenizer *t, token_role role)
{
    CHECK(role >= 0 && role < TOKEN_ROLES);
    return t->special.roles[role];
}

int32_t tokenizer_find(const tokenizer *t, view name)
{
    if (!name.len) return TOKEN_NONE;
    int32_t id = vocabulary_find_name(&t->vocab, name);
    return id >= 0 ? id : vocabulary_find(&t->vocab, name);
}

int32_t tokenizer_find_special(const tokenizer *t, view text, size_t *at, size_t *len)
{
    CHECK(t && at && len);
    return special_find(&t->special, text, true, at, len);
}

bool tokenizer_drops_bytes(const tokenizer *t)
{
    for (int b = 0; b < 256; b++)
        if (t->vocab.byte_ids[b] < 0) return true;
    return false;
}

bool tokenizer_adds_bos(const tokenizer *t) { return t->adds_bos; }

bool tokenizer_adds_space(const tokenizer *t) { return t->space == SPACE_PUT; }

bool tokenizer_adds_space_within(const tokenizer *t)
{
    return t->space == SPACE_PUT || t->space == SPACE_MISSING;
}

bool tokenizer_suffix_first(const tokenizer *t) { return t->suffix_first; }

view tokenizer_pre(const tokenizer *t)
{
    size_t len = t->texts.len - t->template_len;
    return (view){len ? t->texts.ptr + t->template_len : NULL, len};
}

view tokenizer_template(const tokenizer *t) { return (view){t->texts.ptr, t->template_len}; }

/* ---- encoding ---- */

/* One call of tokenizer_encode(). */
typedef struct {
    const tokenizer *t;
    int32_t *tokens; /* [cap] */
    size_t cap, n;
    merger merge;
    pretokenizer_run run;
} encoder;

static inline void emit(encoder *e, int32_t id)
{
    if (id < 0) return; /* a byte that the vocabulary lacks */
    if (e->n < e->cap) e->tokens[e->n] = id;
    e->n++;
}

static void emit_bytes(encoder *e, const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) emit(e, e->t->vocab.byte_ids[(uint8_t)p[i]]);
}

/* A piece of byte-level BPE: its symbols are bytes. */
static int encode_piece(encoder *e, view piece)
{
    const tokenizer *t = e->t;
    if (t->whole_words) {
        int32_t id = vocabulary_find(&t->vocab, piece);
        if (id >= 0 && t->vocab.kinds[id] != TOKEN_CONTROL) {
            emit(e, id);
            return CERIUM_OK;
        }
    }
    if (piece.len == 1) {
        emit_bytes(e, piece.ptr, 1);
        return CERIUM_OK;
    }
    RETURN_IF(merger_reserve(&e->merge, piece.len));
    for (size_t i = 0; i < piece.len; i++)
        e->merge.ids[i] = t->vocab.byte_ids[(uint8_t)piece.ptr[i]];
    e->merge.n = piece.len;
    RETURN_IF(merger_run(&e->merge));
    for (size_t i = 0; i < e->merge.n_merged; i++) emit(e, e->merge.merged[i]);
    return CERIUM_OK;
}

static int encode_words(encoder *e, view text)
{
    pretokenizer_start(&e->run, text);
    for (;;) {
        view piece;
        RETURN_IF(pretokenizer_next(&e->run, &piece));
        if (!piece.len) return CERIUM_OK;
        RETURN_IF(encode_piece(e, piece));
    }
}

/* Length of the well-formed UTF-8 character at text[0]; 0 when there is none. */
static size_t utf8_valid_length(view text)
{
    const uint8_t *p = (const uint8_t *)text.ptr;
    size_t len = utf8_length(text);
    if (len == 1) return p[0] < 0x80;
    if (len == 3 && ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F))) return 0;
    if (len == 4 && ((p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))) return 0;
    return len;
}

/* Byte-level BPE over any bytes: runs of valid UTF-8 as words, all other bytes one by one. */
static int encode_byte_level(encoder *e, view text)
{
    for (size_t from = 0, at = 0; from < text.len;) {
        size_t len = 0;
        while (at < text.len) {
            len = (uint8_t)text.ptr[at] < 0x80
                      ? 1
                      : utf8_valid_length((view){text.ptr + at, text.len - at});
            if (!len) break;
            at += len;
        }
        if (at > from) RETURN_IF(encode_words(e, (view){text.ptr + from, at - from}));
        if (at < text.len) emit_bytes(e, text.ptr + at++, 1);
        from = at;
    }
    return CERIUM_OK;
}

/* A stretch that no merge leaves.  While merging, its characters are at from[0..n) in text; symbols
 * that are not tokens at the end are written as bytes. */
static int encode_stretch(encoder *e, view text)
{
    const tokenizer *t = e->t;
    const merges *rules = &t->rules;
    RETURN_IF(merger_reserve(&e->merge, text.len));
    size_t n = 0;
    for (size_t at = 0, len; at < text.len; at += len) {
        len = utf8_length((view){text.ptr + at, text.len - at});
        uint32_t code = utf8_code(text.ptr + at, len);
        const merge_slot *slot = merge_find(&rules->characters, 0, (int32_t)code);
        e->merge.ids[n++] = slot ? slot->id : TOKEN_NONE;
    }
    e->merge.n = n;
    RETURN_IF(merger_run(&e->merge));
    size_t at = 0;
    for (size_t i = 0; i < e->merge.n_merged; i++) {
        int32_t id = e->merge.merged[i];
        if (is_token(t, id)) {
            emit(e, id);
            at += vocabulary_bytes(&t->vocab, id).len;
        } else {
            size_t len = utf8_length((view){text.ptr + at, text.len - at});
            emit_bytes(e, text.ptr + at, len);
            at += len;
        }
    }
    return CERIUM_OK;
}

static int encode_sentencepiece(encoder *e, view text)
{
    const uint8_t *joins = e->t->rules.joins;
    for (size_t from = 0; from < text.len;) {
        size_t at = from + 1;
        /* Characters are not cut either: their bytes are looked up together. */
        while (at < text.len && (joins[(uint8_t)text.ptr[at - 1] << 8 | (uint8_t)text.ptr[at]] ||
                                 ((uint8_t)text.ptr[at] & 0xC0) == 0x80))
            at++;
        RETURN_IF(encode_stretch(e, (view){text.ptr + from, at - from}));
        from = at;
    }
    return CERIUM_OK;
}

enum { SPACE_MARK_BYTES = 3 };
static const char space_mark[] = "\xE2\x96\x81";

/* The place of a stretch of text without special tokens. */
typedef enum { TEXT_WITHIN, TEXT_AFTER_TOKEN, TEXT_FIRST } text_place;

/* SentencePiece's own sign for a space counts as a space in any text. */
static bool find_mark(view text, size_t from, size_t *at)
{
    for (size_t i = from; i + SPACE_MARK_BYTES <= text.len; i++) {
        const char *mark = memchr(text.ptr + i, space_mark[0], text.len - i);
        if (!mark) return false;
        i = (size_t)(mark - text.ptr);
        if (!view_starts((view){mark, text.len - i}, view_of(space_mark))) continue;
        if (at) *at = i;
        return true;
    }
    return false;
}

static bool wants_space(const tokenizer *t, view text, text_place place)
{
    bool has = (text.len && text.ptr[0] == ' ') || view_starts(text, view_of(space_mark));
    if (place == TEXT_WITHIN) return false;
    switch (t->space) {
    case SPACE_NEVER: return false;
    case SPACE_PUT: return true;
    case SPACE_MISSING: return !has;
    case SPACE_FIRST: return !has && place == TEXT_FIRST;
    }
    return false;
}

static int encode_text(encoder *e, view text, text_place place)
{
    const tokenizer *t = e->t;
    if (t->vocab.form == VOCABULARY_BYTES) return encode_byte_level(e, text);
    bool adds = wants_space(t, text, place);
    if (!adds && !find_mark(text, 0, NULL)) return encode_sentencepiece(e, text);
    char *spaced = memory_alloc(text.len + 1);
    size_t n = adds, at = 0, next;
    if (!spaced) return CERIUM_ERR_MEMORY;
    spaced[0] = ' ';
    while (find_mark(text, at, &next)) {
        memcpy(spaced + n, text.ptr + at, next - at);
        n += next - at;
        spaced[n++] = ' ';
        at = next + SPACE_MARK_BYTES;
    }
    memcpy(spaced + n, text.ptr + at, text.len - at);
    n += text.len - at;
    int status = encode_sentencepiece(e, (view){spaced, n});
    memory_free(spaced);
    return status;
}

static int encode_all(encoder *e, view text, bool special)
{
    text_place place = TEXT_FIRST;
    while (text.len) {
        size_t at = 0, len = 0;
        int32_t id = special_find(&e->t->special, text, special, &at, &len);
        size_t plain = id >= 0 ? at : text.len;
        if (plain) RETURN_IF(encode_text(e, (view){text.ptr, plain}, place));
        if (id < 0) break;
        emit(e, id);
        text = (view){text.ptr + at + len, text.len - at - len};
        place = TEXT_AFTER_TOKEN;
    }
    return CERIUM_OK;
}

static int encoder_open(encoder *e, const tokenizer *t, view text, int32_t *tokens, size_t cap,
                        cerium_error *err)
{
    if (text.len > TOKENIZER_TEXT_BYTES_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "text of %zu bytes: at most %u can be encoded",
                         text.len, TOKENIZER_TEXT_BYTES_MAX);
    *e = (encoder){.t = t, .tokens = tokens, .cap = cap};
    merger_open(&e->merge, &t->rules.pairs);
    if (!t->pre || !pretokenizer_run_open(&e->run, t->pre)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory to encode a text of %zu bytes", text.len);
}

static void encoder_close(encoder *e)
{
    if (e->t->pre) pretokenizer_run_close(&e->run);
    merger_close(&e->merge);
}

static int encoder_result(const encoder *e, int status, view text, size_t *n, cerium_error *err)
{
    if (status)
        return error_set(err, status, "no memory to encode a text of %zu bytes", text.len);
    *n = e->n;
    if (e->n <= e->cap) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_CAPACITY, "the text has %zu tokens, there is room for %zu",
                     e->n, e->cap);
}

static int encoder_finish(encoder *e, int status, view text, size_t *n, cerium_error *err)
{
    encoder_close(e);
    return encoder_result(e, status, text, n, err);
}

int tokenizer_encode(const tokenizer *t, view text, bool special, bool begin, int32_t *tokens,
                     size_t cap, size_t *n, cerium_error *err)
{
    CHECK(t && n && (tokens || !cap) && (text.ptr || !text.len));
    encoder e;
    RETURN_IF(encoder_open(&e, t, text, tokens, cap, err));
    if (begin && t->adds_bos) emit(&e, t->special.roles[TOKEN_BOS]);
    int status = encode_all(&e, text, special);
    return encoder_finish(&e, status, text, n, err);
}

int tokenizer_encode_bare(const tokenizer *t, view text, int32_t *tokens, size_t cap, size_t *n,
                          cerium_error *err)
{
    CHECK(t && n && (tokens || !cap) && (text.ptr || !text.len));
    encoder e;
    RETURN_IF(encoder_open(&e, t, text, tokens, cap, err));
    return encoder_finish(&e, encode_text(&e, text, TEXT_WITHIN), text, n, err);
}

/* ---- encoding often ---- */

struct tokenizer_scratch {
    encoder e;
    size_t text_max;
};

int tokenizer_scratch_open(tokenizer_scratch **out, const tokenizer *t, size_t text_max,
                           cerium_error *err)
{
    tokenizer_scratch *x = memory_zalloc(1, sizeof *x);
    if (!x) return error_set(err, CERIUM_ERR_MEMORY, "no memory to encode");
    x->text_max = text_max;
    int status = encoder_open(&x->e, t, (view){NULL, text_max}, NULL, 0, err);
    if (status) {
        memory_free(x);
        return status;
    }
    *out = x;
    if (!merger_reserve(&x->e.merge, text_max)) return CERIUM_OK;
    tokenizer_scratch_close(out);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory to encode");
}

void tokenizer_scratch_close(tokenizer_scratch **x)
{
    if (!x || !*x) return;
    encoder_close(&(*x)->e);
    memory_free(*x);
    *x = NULL;
}

int tokenizer_scratch_encode(tokenizer_scratch *x, view text, int32_t *tokens, size_t cap,
                             size_t *n, cerium_error *err)
{
    CHECK(text.len <= x->text_max && n && (tokens || !cap));
    x->e.tokens = tokens;
    x->e.cap = cap;
    x->e.n = 0;
    return encoder_result(&x->e, encode_text(&x->e, text, TEXT_WITHIN), text, n, err);
}
