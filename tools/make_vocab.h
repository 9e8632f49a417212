/* make_vocab.h - a synthetic tokenizer of any size that real loaders accept.
 *
 * Byte-level BPE (tokenizer.ggml.model "gpt2"): 256 byte tokens in GPT-2's printable alphabet, then
 * runs of spaces, pairs, triples and quadruples of letters, each with the one merge that makes it,
 * then the family's control tokens at their real numbers (or at the end, when the vocabulary has
 * another size).  Included by make_model.c alone. */
#ifndef TOOLS_MAKE_VOCAB_H
#define TOOLS_MAKE_VOCAB_H

#include "base/memory.h"
#include "gguf/write.h"

typedef enum { VOCAB_QWEN, VOCAB_GPT_OSS } vocab_family;

enum {
    VOCAB_MIN = 320,
    VOCAB_MAX = 400000,
    VOCAB_TOKEN_BYTES = 24, /* the longest text in the tables below, with its NUL */
    TOKEN_NORMAL = 1,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
};

/* clang-format off */
static const char *const qwen_control[] = {
    "<|endoftext|>",     "<|im_start|>",   "<|im_end|>",    "<|object_ref_start|>",
    "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",   "<|quad_start|>",
    "<|quad_end|>",      "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>",     "<|video_pad|>",  "<tool_call>",   "</tool_call>",
    "<|fim_prefix|>",    "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>",     "<|file_sep|>",
};
/* clang-format on */
/* clang-format off */
static const char *const gpt_oss_control[] = {
    "<|startoftext|>",     "<|endoftext|>",       "<|reserved_200000|>", "<|reserved_200001|>",
    "<|return|>",          "<|constrain|>",       "<|reserved_200004|>", "<|channel|>",
    "<|start|>",           "<|end|>",             "<|message|>",         "<|reserved_200009|>",
    "<|reserved_200010|>", "<|reserved_200011|>", "<|call|>",            "<|reserved_200013|>",
    "<|reserved_200014|>", "<|reserved_200015|>", "<|reserved_200016|>", "<|reserved_200017|>",
    "<|endofprompt|>",
};
/* clang-format on */

static const char qwen_template[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% endif %}";
static const char gpt_oss_template[] =
    "{% for message in messages %}{{'<|start|>' + message['role'] + '<|message|>' + "
    "message['content'] + '<|end|>'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' }}{% endif %}";

typedef struct {
    const char *const *control; /* [n_control] */
    uint32_t n_control;
    uint32_t n_vocab, first_control; /* of the real vocabulary */
    const char *pre, *chat_template;
    uint32_t bos, eos, pad; /* counted from the first control token */
} vocab_table;

static const vocab_table vocab_tables[] = {
    [VOCAB_QWEN] = {qwen_control, ARRAY_LEN(qwen_control), 151936, 151643, "qwen2", qwen_template,
                    0, 2, 0},
    [VOCAB_GPT_OSS] = {gpt_oss_control, ARRAY_LEN(gpt_oss_control), 201088, 199998, "gpt-4o",
                       gpt_oss_template, 0, 4, 1},
};

typedef struct {
    char (*text)[VOCAB_TOKEN_BYTES];       /* [n_vocab] */
    view *tokens;                          /* [n_vocab] */
    int32_t *types;                        /* [n_vocab] */
    char (*merge_text)[VOCAB_TOKEN_BYTES]; /* [n_vocab] */
    view *merges;                          /* [n_merges] */
    uint32_t n_vocab, n_tokens, n_merges, n_normal;
} vocab;

static inline void vocab_close(vocab *v)
{
    memory_free(v->text);
    memory_free(v->tokens);
    memory_free(v->types);
    memory_free(v->merge_text);
    memory_free(v->merges);
}

static inline bool vocab_open(vocab *v, uint32_t n_vocab)
{
    *v = (vocab){.n_vocab = n_vocab};
    v->text = memory_zalloc(n_vocab, sizeof *v->text);
    v->tokens = memory_zalloc(n_vocab, sizeof *v->tokens);
    v->types = memory_zalloc(n_vocab, sizeof *v->types);
    v->merge_text = memory_zalloc(n_vocab, sizeof *v->merge_text);
    v->merges = memory_zalloc(n_vocab, sizeof *v->merges);
    if (v->text && v->tokens && v->types && v->merge_text && v->merges) return true;
    vocab_close(v);
    return false;
}

static inline void vocab_join(char *out, const char *left, const char *between, const char *right)
{
    size_t l = strlen(left), b = strlen(between), r = strlen(right);
    CHECK(l + b + r < VOCAB_TOKEN_BYTES);
    memcpy(out, left, l);
    memcpy(out + l, between, b);
    memcpy(out + l + b, right, r + 1);
}

static inline void vocab_add(vocab *v, const char *text, int32_t type)
{
    CHECK(v->n_tokens < v->n_vocab);
    vocab_join(v->text[v->n_tokens], text, "", "");
    v->tokens[v->n_tokens] = view_of(v->text[v->n_tokens]);
    v->types[v->n_tokens++] = type;
}

/* The token left + right and its merge; false when the vocabulary is full. */
static inline bool vocab_merge(vocab *v, const char *left, const char *right)
{
    char token[VOCAB_TOKEN_BYTES];
    if (v->n_tokens == v->n_normal) return false;
    vocab_join(token, left, "", right);
    vocab_add(v, token, TOKEN_NORMAL);
    char *merge = v->merge_text[v->n_merges];
    vocab_join(merge, left, " ", right);
    v->merges[v->n_merges++] = view_of(merge);
    return true;
}

/* GPT-2's alphabet: printable Latin-1 is itself, the rest is U+0100 and above, in the
 * order of GPT-2's own vocabulary. */
static inline void vocab_add_bytes(vocab *v)
{
    uint32_t next = 256;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
            if (printable != (pass == 0)) continue;
            uint32_t code = printable ? byte : next++;
            char text[3] = {(char)code, 0, 0};
            if (code >= 128) {
                text[0] = (char)(0xc0 | code >> 6);
                text[1] = (char)(0x80 | (code & 63));
            }
            vocab_add(v, text, TOKEN_NORMAL);
        }
}

#define VOCAB_SPACE "\xc4\xa0" /* the printable form of a space */

enum { VOCAB_LETTERS = 26, VOCAB_FIRSTS = 27 };

/* Letters by frequency, so that early merges are common ones; the last one is a space, which only
 * begins a token. */
static inline const char *vocab_letter(int i)
{
    static const char *const letters[VOCAB_FIRSTS] = {
        "e", "t", "a", "o", "i", "n", "s", "r", "h", "l", "d", "c", "u",         "m",
        "f", "p", "g", "w", "y", "b", "v", "k", "x", "j", "q", "z", VOCAB_SPACE,
    };
    return letters[i];
}

static inline void vocab_pair(char *pair, int i)
{
    vocab_join(pair, vocab_letter(i / VOCAB_LETTERS), "", vocab_letter(i % VOCAB_LETTERS));
}

/* Merges in the order of their rank: spaces, pairs, pair + letter, pair + pair. */
static inline void vocab_add_merges(vocab *v)
{
    char spaces[VOCAB_TOKEN_BYTES] = VOCAB_SPACE;
    char left[VOCAB_TOKEN_BYTES], right[VOCAB_TOKEN_BYTES];
    for (int n = 1; n < 4; n *= 2) {
        if (!vocab_merge(v, spaces, spaces)) return;
        vocab_join(spaces, v->text[v->n_tokens - 1], "", "");
    }
    for (int i = 0; i < VOCAB_FIRSTS * VOCAB_LETTERS; i++)
        if (!vocab_merge(v, vocab_letter(i / VOCAB_LETTERS), vocab_letter(i % VOCAB_LETTERS)))
            return;
    for (int i = 0; i < VOCAB_FIRSTS * VOCAB_LETTERS; i++)
        for (int j = 0; j < VOCAB_LETTERS; j++) {
            vocab_pair(left, i);
            if (!vocab_merge(v, left, vocab_letter(j))) return;
        }
    for (int i = 0; i < VOCAB_FIRSTS * VOCAB_LETTERS; i++)
        for (int j = 0; j < VOCAB_LETTERS * VOCAB_LETTERS; j++) {
            vocab_pair(left, i);
            vocab_pair(right, j);
            if (!vocab_merge(v, left, right)) return;
        }
}

static inline void vocab_add_control(vocab *v, const vocab_table *t)
{
    char unused[VOCAB_TOKEN_BYTES];
    for (uint32_t i = 0; i < t->n_control; i++) {
        bool text = strstr(t->control[i], "tool_call") != NULL;
        vocab_add(v, t->control[i], text ? TOKEN_USER_DEFINED : TOKEN_CONTROL);
    }
    while (v->n_tokens < v->n_vocab) {
        snprintf(unused, sizeof unused, "[PAD%u]", v->n_tokens);
        vocab_add(v, unused, TOKEN_UNUSED);
    }
}

/* Number of a control token by its text. */
static inline void vocab_write_id(gguf_writer *w, const vocab *v, const char *key, const char *text)
{
    for (uint32_t i = v->n_normal; i < v->n_vocab; i++)
        if (strcmp(v->text[i], text) == 0) gguf_write_u32(w, key, i);
}

static inline int write_vocab(gguf_writer *w, vocab_family family, uint32_t n_vocab,
                              cerium_error *err)
{
    const vocab_table *t = &vocab_tables[family];
    vocab v;
    CHECK(n_vocab >= VOCAB_MIN && n_vocab <= VOCAB_MAX);
    if (!vocab_open(&v, n_vocab)) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    v.n_normal = n_vocab >= t->n_vocab ? t->first_control : n_vocab - t->n_control;
    vocab_add_bytes(&v);
    vocab_add_merges(&v);
    CHECK(v.n_tokens == v.n_normal);
    vocab_add_control(&v, t);
    gguf_write_string(w, "tokenizer.ggml.model", VIEW("gpt2"));
    gguf_write_string(w, "tokenizer.ggml.pre", view_of(t->pre));
    gguf_write_strings(w, "tokenizer.ggml.tokens", v.tokens, v.n_tokens);
    gguf_write_array(w, "tokenizer.ggml.token_type", GGUF_INT32, v.types, v.n_tokens);
    gguf_write_strings(w, "tokenizer.ggml.merges", v.merges, v.n_merges);
    gguf_write_u32(w, "tokenizer.ggml.bos_token_id", v.n_normal + t->bos);
    gguf_write_u32(w, "tokenizer.ggml.eos_token_id", v.n_normal + t->eos);
    gguf_write_u32(w, "tokenizer.ggml.padding_token_id", v.n_normal + t->pad);
    vocab_write_id(w, &v, "tokenizer.ggml.fim_pre_token_id", "<|fim_prefix|>");
    vocab_write_id(w, &v, "tokenizer.ggml.fim_suf_token_id", "<|fim_suffix|>");
    vocab_write_id(w, &v, "tokenizer.ggml.fim_mid_token_id", "<|fim_middle|>");
    vocab_write_id(w, &v, "tokenizer.ggml.fim_pad_token_id", "<|fim_pad|>");
    vocab_write_id(w, &v, "tokenizer.ggml.fim_rep_token_id", "<|repo_name|>");
    vocab_write_id(w, &v, "tokenizer.ggml.fim_sep_token_id", "<|file_sep|>");
    gguf_write_bool(w, "tokenizer.ggml.add_bos_token", false);
    gguf_write_string(w, "tokenizer.chat_template", view_of(t->chat_template));
    vocab_close(&v);
    return CERIUM_OK;
}

#endif
