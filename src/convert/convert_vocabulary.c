/* convert_vocabulary.c - tokenizer.json of byte-pair vocabularies, and the resulting keys. */

#include "base/json.h"
#include "base/limits.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "convert/convert_tokenizer.h"

enum { SIGNATURE_BYTES = 8192, TOKEN_NAME_BYTES = 32 };

typedef enum {
    KIND_NORMAL = 1,
    KIND_UNKNOWN = 2,
    KIND_CONTROL = 3,
    KIND_USER = 4,
    KIND_UNUSED = 5,
    KIND_BYTE = 6,
} token_kind;

struct convert_vocabulary {
    json_t *root, *config;      /* own the texts */
    view *tokens;               /* [n_tokens] */
    int32_t *kinds;             /* [n_tokens] */
    char (*made_up)[TOKEN_NAME_BYTES]; /* [n_tokens] names of rows without a token */
    view *merges;               /* [n_merges]: "a b" */
    bytes merge_texts;          /* of those that come as pairs */
    float *scores;              /* [n_tokens] of SentencePiece, else NULL */
    uint32_t n_tokens;
    size_t n_merges;
    bool is_sentencepiece, adds_bos, adds_space;
    const char *space_scheme; /* Metaspace's "first" or "always"; NULL: a normalizer's */
    int64_t bos, eos, pad, unk; /* -1: none */
    char pre[64];
};

/* ---- the pre-tokenizer ---- */

#define WORDS_QWEN2(digits)                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_O200K                                                                                \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"  \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}|"                   \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define WORDS_TEKKEN                                                                               \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|" \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|" \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The result of pre_signature() for tokenizer.json, and llama.cpp's name for it. */
static const struct {
    const char *signature, *name;
} pres[] = {
    {"split " WORDS_QWEN2("\\p{N}") "\nbytes\n", "qwen2"},
    {"split " WORDS_QWEN2("\\p{N}{1,3}") "\nbytes\n", "llama-bpe"},
    {"split " WORDS_O200K "\nbytes\n", "gpt-4o"},
    {"split " WORDS_TEKKEN "\nbytes\n", "tekken"},
    {"words\n", "gpt-2"},
    {"digit\nwords\n", "starcoder"},
    {"split [\r\n]\nsplit \\s?\\p{L}+\nsplit \\s?\\p{P}+\n"
     "split [\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+\n"
     "digit\nbytes\n", "deepseek-coder"},
};

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* One line for each step. */
static void pre_signature(const json_t *pre, char *out, size_t size)
{
    const char *type = text_of(pre, "type");
    size_t len = strlen(out), i;
    json_t *step;
    if (!type) return;
    if (!strcmp(type, "Sequence")) {
        json_array_foreach(json_object_get(pre, "pretokenizers"), i, step) {
            const char *inner = text_of(step, "type");
            if (inner && strcmp(inner, "Sequence") != 0) pre_signature(step, out, size);
        }
        return;
    }
    if (!strcmp(type, "Split")) {
        const json_t *pattern = json_object_get(pre, "pattern");
        const char *text = text_of(pattern, "Regex");
        if (!text) text = text_of(pattern, "String");
        /* The whole text is in one piece or another, if the pattern fits everywhere: only then
         * are these two the same. */
        const char *behavior = text_of(pre, "behavior");
        const bool inverts = json_is_true(json_object_get(pre, "invert"));
        const bool plain = !behavior || !strcmp(behavior, inverts ? "Removed" : "Isolated");
        snprintf(out + len, size - len, "split %s%s\n", plain ? "" : "otherwise ",
                 text ? text : "");
    } else if (!strcmp(type, "ByteLevel")) {
        bool words = !json_is_false(json_object_get(pre, "use_regex"));
        snprintf(out + len, size - len, words ? "words\n" : "bytes\n");
    } else if (!strcmp(type, "Digits")) {
        bool single = json_is_true(json_object_get(pre, "individual_digits"));
        snprintf(out + len, size - len, single ? "digit\n" : "digits\n");
    } else {
        snprintf(out + len, size - len, "%s\n", type);
    }
}

static int find_pre(convert_vocabulary *v, const char *pre, cerium_error *err)
{
    char signature[SIGNATURE_BYTES] = "";
    if (v->is_sentencepiece) return CERIUM_OK;
    if (pre) {
        snprintf(v->pre, sizeof v->pre, "%s", pre);
        return CERIUM_OK;
    }
    pre_signature(json_object_get(v->root, "pre_tokenizer"), signature, sizeof signature);
    for (size_t i = 0; i < ARRAY_LEN(pres); i++) {
        if (strcmp(signature, pres[i].signature) != 0) continue;
        const json_t *whole = json_object_get(json_object_get(v->root, "model"), "ignore_merges");
        if (!strcmp(pres[i].name, "tekken") && !json_is_true(whole)) continue; /* has no name */
        bool differs = !strcmp(pres[i].name, "llama-bpe") && !json_is_true(whole);
        snprintf(v->pre, sizeof v->pre, "%s", differs ? "smaug-bpe" : pres[i].name);
        return CERIUM_OK;
    }
    return error_set(err, CERIUM_ERR_FORMAT,
                     "tokenizer.json: unknown pre-tokenizer; name one with --pre");
}

/* ---- tokens ---- */

static bool is_byte_name(view t)
{
    return t.len == 6 && !memcmp(t.ptr, "<0x", 3) && t.ptr[5] == '>';
}

static int add_token(convert_vocabulary *v, const char *text, size_t len, const json_t *id,
                     token_kind kind, cerium_error *err)
{
    json_int_t at = json_is_integer(id) ? json_integer_value(id) : -1;
    if (at < 0 || at >= v->n_tokens || len == 0 || len > TOKENIZER_TOKEN_BYTES_MAX)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "tokenizer.json: token '%.40s' has an id beyond the embedding's %u rows, "
                         "or no fitting text", text, v->n_tokens);
    if (v->is_sentencepiece && is_byte_name((view){text, len})) kind = KIND_BYTE;
    v->tokens[at] = (view){text, len};
    v->kinds[at] = kind;
    return CERIUM_OK;
}

static int read_tokens(convert_vocabulary *v, const json_t *model, cerium_error *err)
{
    const char *text;
    json_t *id, *added;
    size_t i;
    json_object_foreach(json_object_get(model, "vocab"), text, id)
        RETURN_IF(add_token(v, text, strlen(text), id, KIND_NORMAL, err));
    json_array_foreach(json_object_get(v->root, "added_tokens"), i, added) {
        const json_t *content = json_object_get(added, "content");
        bool special = json_is_true(json_object_get(added, "special"));
        if (!json_is_string(content))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: added token %zu has no text",
                             i);
        RETURN_IF(add_token(v, json_string_value(content), json_string_length(content),
                            json_object_get(added, "id"), special ? KIND_CONTROL : KIND_USER, err));
    }
    for (uint32_t k = 0; k < v->n_tokens; k++) {
        if (v->tokens[k].ptr) continue;
        snprintf(v->made_up[k], TOKEN_NAME_BYTES, "[PAD%u]", k);
        v->tokens[k] = view_of(v->made_up[k]);
        v->kinds[k] = KIND_UNUSED;
    }
    return CERIUM_OK;
}

/* Either "a b" or ["a", "b"]; the pairs' texts are made in merge_texts, one after the other. */
static int read_merges(convert_vocabulary *v, const json_t *model, cerium_error *err)
{
    const json_t *merges = json_object_get(model, "merges");
    size_t n = json_array_size(merges), i;
    json_t *merge;
    v->merges = memory_zalloc(n, sizeof *v->merges);
    v->merge_texts.max = CONVERT_TEXT_BYTES_MAX;
    if (!v->merges) return error_set(err, CERIUM_ERR_MEMORY, "no memory for merges");
    json_array_foreach(merges, i, merge) {
        const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
        view *to = &v->merges[v->n_merges++];
        if (json_is_string(merge)) {
            *to = (view){json_string_value(merge), json_string_length(merge)};
            continue;
        }
        if (!json_is_string(a) || !json_is_string(b))
            return error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: merge %zu is not a pair", i);
        size_t len[2] = {json_string_length(a), json_string_length(b)};
        *to = (view){NULL, len[0] + len[1] + 1}; /* placed when all are there */
        if (bytes_append(&v->merge_texts, json_string_value(a), len[0]) ||
            bytes_append(&v->merge_texts, " ", 1) ||
            bytes_append(&v->merge_texts, json_string_value(b), len[1]))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for merges");
    }
    const char *at = v->merge_texts.ptr;
    for (size_t k = 0; k < n; k++) {
        if (v->merges[k].ptr) continue;
        v->merges[k].ptr = at;
        at += v->merges[k].len;
    }
    return CERIUM_OK;
}

/* SentencePiece merges the pair with the best score first, so a token's score is the rank of the
 * first merge that makes it. */
static int make_scores(convert_vocabulary *v, const json_t *model, cerium_error *err)
{
    const json_t *vocab = json_object_get(model, "vocab");
    v->scores = memory_zalloc(v->n_tokens, sizeof *v->scores);
    char *made = memory_alloc(2 * TOKENIZER_TOKEN_BYTES_MAX + 2);
    int status = CERIUM_OK;
    if (!v->scores || !made) status = error_set(err, CERIUM_ERR_MEMORY, "no memory for scores");
    for (uint32_t i = 0; !status && i < v->n_tokens; i++)
        v->scores[i] = v->kinds[i] == KIND_NORMAL ? -1e6f : 0.0f;
    for (size_t rank = v->n_merges; !status && rank-- > 0;) {
        view m = v->merges[rank];
        const char *space = memchr(m.ptr, ' ', m.len);
        if (!space || m.len > 2 * TOKENIZER_TOKEN_BYTES_MAX) continue;
        size_t first = (size_t)(space - m.ptr), rest = m.len - first - 1;
        memcpy(made, m.ptr, first);
        memcpy(made + first, space + 1, rest);
        made[first + rest] = 0;
        const json_t *id = json_object_get(vocab, made);
        if (id) v->scores[json_integer_value(id)] = -(float)rank;
    }
    memory_free(made);
    return status;
}

/* ---- special tokens ---- */

static int64_t id_of(const convert_vocabulary *v, const char *text)
{
    for (uint32_t i = 0; text && i < v->n_tokens; i++)
        if (view_equal(v->tokens[i], view_of(text)) && v->kinds[i] != KIND_UNUSED) return i;
    return -1;
}

/* "<s>" or {"content": "<s>"} */
static int64_t special_id(const convert_vocabulary *v, const char *key)
{
    const json_t *value = json_object_get(v->config, key);
    const char *text = json_is_object(value) ? text_of(value, "content") : json_string_value(value);
    return id_of(v, text);
}

/* The token that the post-processor puts first in every text, or NULL. */
static const char *template_begins(const json_t *post)
{
    size_t i;
    json_t *inner;
    const json_t *first = json_array_get(json_object_get(post, "single"), 0);
    const char *text = text_of(json_object_get(first, "SpecialToken"), "id");
    json_array_foreach(json_object_get(post, "processors"), i, inner) {
        first = json_array_get(json_object_get(inner, "single"), 0);
        if (!text) text = text_of(json_object_get(first, "SpecialToken"), "id");
    }
    return text;
}

static bool has_step(const json_t *steps, const char *list, const char *type)
{
    size_t i;
    json_t *step;
    const char *own = text_of(steps, "type");
    if (own && !strcmp(own, type)) return true;
    json_array_foreach(json_object_get(steps, list), i, step) {
        own = text_of(step, "type");
        if (own && !strcmp(own, type)) return true;
    }
    return false;
}

/* The text that Metaspace prepends to a text, as the only normalizer or one of several; NULL:
 * none. */
static const char *metaspace_scheme(const json_t *pre)
{
    const json_t *found = NULL, *step;
    const char *type = text_of(pre, "type");
    size_t i;
    if (type && !strcmp(type, "Metaspace")) found = pre;
    json_array_foreach(json_object_get(pre, "pretokenizers"), i, step) {
        type = text_of(step, "type");
        if (type && !strcmp(type, "Metaspace")) found = step;
    }
    if (!found) return NULL;
    const char *scheme = text_of(found, "prepend_scheme");
    if (scheme && (!strcmp(scheme, "first") || !strcmp(scheme, "never"))) return scheme;
    if (scheme) return "always";
    /* Older files have a flag instead of a scheme; it is true by default. */
    return json_is_false(json_object_get(found, "add_prefix_space")) ? "never" : "always";
}

static void read_special(convert_vocabulary *v, const json_t *model)
{
    const json_t *adds = json_object_get(v->config, "add_bos_token");
    const json_t *pre = json_object_get(v->root, "pre_tokenizer");
    v->bos = special_id(v, "bos_token");
    v->eos = special_id(v, "eos_token");
    v->pad = special_id(v, "pad_token");
    v->unk = id_of(v, text_of(model, "unk_token"));
    const char *first = template_begins(json_object_get(v->root, "post_processor"));
    v->adds_bos = adds ? json_is_true(adds) : first != NULL;
    if (v->bos < 0) v->bos = id_of(v, first);
    if (!v->is_sentencepiece) return;
    if (v->unk >= 0) v->kinds[v->unk] = KIND_UNKNOWN;
    v->adds_space = has_step(json_object_get(v->root, "normalizer"), "normalizers", "Prepend");
    const char *scheme = metaspace_scheme(pre);
    if (v->adds_space || !scheme || !strcmp(scheme, "never")) return;
    v->adds_space = true;
    v->space_scheme = scheme;
}

/* ---- all ---- */

static int read_all(convert_vocabulary *v, const char *pre, cerium_error *err)
{
    const json_t *model = json_object_get(v->root, "model");
    const char *type = text_of(model, "type");
    if ((type && strcmp(type, "BPE") != 0) || !json_is_object(json_object_get(model, "vocab")) ||
        !json_is_array(json_object_get(model, "merges")))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "tokenizer.json: only byte-pair vocabularies are supported");
    const json_t *pre_steps = json_object_get(v->root, "pre_tokenizer");
    bool is_bytes = has_step(pre_steps, "pretokenizers", "ByteLevel") ||
                    has_step(json_object_get(v->root, "decoder"), "decoders", "ByteLevel");
    v->is_sentencepiece = !is_bytes && json_is_true(json_object_get(model, "byte_fallback"));
    if (!is_bytes && !v->is_sentencepiece)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "tokenizer.json: neither byte-level nor with bytes to fall back to");
    RETURN_IF(find_pre(v, pre, err));
    RETURN_IF(convert_tokenizer_check(v->root, v->is_sentencepiece, err));
    RETURN_IF(read_tokens(v, model, err));
    RETURN_IF(read_merges(v, model, err));
    if (v->is_sentencepiece) RETURN_IF(make_scores(v, model, err));
    read_special(v, model);
    return CERIUM_OK;
}

int convert_vocabulary_parse(convert_vocabulary **out, view tokenizer, view config,
                             const char *pre, uint32_t n_tokens, cerium_error *err)
{
    json_error_t at = {.text = "no JSON"};
    convert_vocabulary *v = memory_zalloc(1, sizeof *v);
    if (!v) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the vocabulary");
    v->n_tokens = n_tokens;
    v->tokens = memory_zalloc(n_tokens, sizeof *v->tokens);
    v->kinds = memory_zalloc(n_tokens, sizeof *v->kinds);
    v->made_up = memory_zalloc(n_tokens, sizeof *v->made_up);
    v->root = json_read(tokenizer, JSON_READ_PYTHON, &at);
    int status = CERIUM_OK;
    if (!v->tokens || !v->kinds || !v->made_up)
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the vocabulary");
    else if (!json_is_object(v->root))
        status = error_set(err, CERIUM_ERR_FORMAT, "tokenizer.json: line %d: %s", at.line, at.text);
    if (!status && config.len && !(v->config = json_read(config, JSON_READ_PYTHON, &at)))
        status = error_set(err, CERIUM_ERR_FORMAT, "tokenizer_config.json: line %d: %s", at.line,
                           at.text);
    if (!status) status = read_all(v, pre, err);
    if (status) convert_vocabulary_free(&v);
    else *out = v;
    return status;
}

const char *convert_vocabulary_left_out(const convert_vocabulary *v, size_t at)
{
    return convert_tokenizer_left_out(v->root, at);
}

void convert_vocabulary_free(convert_vocabulary **vocabulary)
{
    convert_vocabulary *v = *vocabulary;
    if (!v) return;
    json_decref(v->root);
    json_decref(v->config);
    memory_free(v->tokens);
    memory_free(v->kinds);
    memory_free(v->made_up);
    memory_free(v->merges);
    memory_free(v->scores);
    bytes_free(&v->merge_texts);
    memory_free(v);
    *vocabulary = NULL;
}

static void write_id(gguf_writer *w, const char *key, int64_t id, const convert_vocabulary *v)
{
    if (id >= 0 && id < v->n_tokens) gguf_write_u32(w, key, (uint32_t)id);
}

/* A text, or a list of them, one of which is called default. */
static view chat_template(const convert_vocabulary *v)
{
    const json_t *value = json_object_get(v->config, "chat_template");
    size_t i;
    json_t *one;
    json_array_foreach(value, i, one) {
        const char *name = text_of(one, "name");
        if (name && !strcmp(name, "default")) return view_of(text_of(one, "template"));
    }
    return view_of(json_string_value(value));
}

void convert_vocabulary_write(const convert_vocabulary *v, int64_t bos, int64_t eos, view chat,
                              bool lists_merges, gguf_writer *w)
{
    const view model = !v->is_sentencepiece ? VIEW("gpt2")
                       : lists_merges       ? VIEW("gemma4")
                                            : VIEW("llama");
    gguf_write_string(w, "tokenizer.ggml.model", model);
    gguf_write_string(w, "tokenizer.ggml.pre",
                      v->is_sentencepiece ? VIEW("default") : view_of(v->pre));
    gguf_write_strings(w, "tokenizer.ggml.tokens", v->tokens, v->n_tokens);
    gguf_write_array(w, "tokenizer.ggml.token_type", GGUF_INT32, v->kinds, v->n_tokens);
    if (v->scores)
        gguf_write_array(w, "tokenizer.ggml.scores", GGUF_FLOAT32, v->scores, v->n_tokens);
    if (!v->scores || lists_merges)
        gguf_write_strings(w, "tokenizer.ggml.merges", v->merges, v->n_merges);
    write_id(w, "tokenizer.ggml.bos_token_id", v->bos >= 0 ? v->bos : bos, v);
    write_id(w, "tokenizer.ggml.eos_token_id", v->eos >= 0 ? v->eos : eos, v);
    write_id(w, "tokenizer.ggml.padding_token_id", v->pad, v);
    write_id(w, "tokenizer.ggml.unknown_token_id", v->unk, v);
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", v->adds_bos);
    if (v->is_sentencepiece) gguf_write_bool(w, "tokenizer.ggml.add_space_prefix", v->adds_space);
    if (v->space_scheme)
        gguf_write_string(w, "cerium.space_prefix", view_of(v->space_scheme));
    view own = chat_template(v);
    if (chat.len) own = chat;
    if (own.len) gguf_write_string(w, "tokenizer.chat_template", own);
}
