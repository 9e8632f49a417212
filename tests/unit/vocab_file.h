/* vocab_file.h - model files with only a vocabulary, built in memory for tests. */
#ifndef UNIT_VOCAB_FILE_H
#define UNIT_VOCAB_FILE_H

#include "base/memory.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    bytes file;
    uint64_t n_values;
} vocab_file;

static inline void vocab_put(vocab_file *v, const void *from, size_t len)
{
    CHECK(bytes_append(&v->file, from, len) == CERIUM_OK);
}

static inline void vocab_put_u32(vocab_file *v, uint32_t x) { vocab_put(v, &x, sizeof x); }
static inline void vocab_put_u64(vocab_file *v, uint64_t x) { vocab_put(v, &x, sizeof x); }

static inline void vocab_put_view(vocab_file *v, view text)
{
    vocab_put_u64(v, text.len);
    vocab_put(v, text.ptr, text.len);
}

static inline void vocab_open(vocab_file *v)
{
    *v = (vocab_file){.file = {.max = SIZE_MAX}};
    vocab_put(v, "GGUF", 4);
    vocab_put_u32(v, 3);
    vocab_put_u64(v, 0); /* tensors */
    vocab_put_u64(v, 0); /* values; set by vocab_tokenizer() */
}

static inline void vocab_close(vocab_file *v) { bytes_free(&v->file); }

static inline void vocab_key(vocab_file *v, const char *key, gguf_value_type type)
{
    vocab_put_view(v, view_of(key));
    vocab_put_u32(v, type);
    v->n_values++;
}

static inline void vocab_string(vocab_file *v, const char *key, view text)
{
    vocab_key(v, key, GGUF_STRING);
    vocab_put_view(v, text);
}

static inline void vocab_u32(vocab_file *v, const char *key, uint32_t x)
{
    vocab_key(v, key, GGUF_UINT32);
    vocab_put_u32(v, x);
}

static inline void vocab_bool(vocab_file *v, const char *key, bool x)
{
    uint8_t byte = x;
    vocab_key(v, key, GGUF_BOOL);
    vocab_put(v, &byte, 1);
}

static inline void vocab_array(vocab_file *v, const char *key, gguf_value_type type, uint64_t n)
{
    vocab_key(v, key, GGUF_ARRAY);
    vocab_put_u32(v, type);
    vocab_put_u64(v, n);
}

/* One byte in the alphabet of GPT-2, as UTF-8; returns its length. */
static inline size_t vocab_alphabet(uint8_t byte, char out[2])
{
    bool plain = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    unsigned code = plain           ? byte
                    : byte <= 0x20  ? 256u + byte
                    : byte == 0xAD  ? 256u + 0x43
                                    : 256u + 0x21 + (byte - 0x7Fu);
    if (code < 0x80) return out[0] = (char)code, 1;
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

/* Raw bytes as a string of the file. */
static inline void vocab_put_alphabet(vocab_file *v, view raw)
{
    char c[2];
    uint64_t len = 0;
    for (size_t i = 0; i < raw.len; i++) len += vocab_alphabet((uint8_t)raw.ptr[i], c);
    vocab_put_u64(v, len);
    for (size_t i = 0; i < raw.len; i++) {
        size_t n = vocab_alphabet((uint8_t)raw.ptr[i], c);
        vocab_put(v, c, n);
    }
}

/* The file's tokenizer; the file may be closed then. */
static inline int vocab_tokenizer(vocab_file *v, tokenizer **t, cerium_error *err)
{
    gguf_file *file = NULL;
    memcpy(v->file.ptr + 16, &v->n_values, 8);
    int status = gguf_open_bytes(&file, (view){v->file.ptr, v->file.len}, "vocabulary", err);
    if (status) return status;
    status = tokenizer_open(t, file, err);
    gguf_close(&file);
    return status;
}

/* 256 byte tokens, n words made by merges (given as their two halves in halves[2 * i]), then the
 * control tokens.  Ids in that order. */
static inline void vocab_bytes_model(vocab_file *v, const char *pre, const char *const *halves,
                                     size_t n, const char *const *control, size_t n_control)
{
    vocab_string(v, "tokenizer.ggml.model", VIEW("gpt2"));
    vocab_string(v, "tokenizer.ggml.pre", view_of(pre));
    vocab_array(v, "tokenizer.ggml.tokens", GGUF_STRING, 256 + n + n_control);
    for (int b = 0; b < 256; b++) {
        char raw = (char)b;
        vocab_put_alphabet(v, (view){&raw, 1});
    }
    for (size_t i = 0; i < n; i++) {
        char word[128];
        int len = snprintf(word, sizeof word, "%s%s", halves[2 * i], halves[2 * i + 1]);
        vocab_put_alphabet(v, (view){word, (size_t)len});
    }
    for (size_t i = 0; i < n_control; i++) vocab_put_view(v, view_of(control[i]));
    vocab_array(v, "tokenizer.ggml.token_type", GGUF_INT32, 256 + n + n_control);
    for (size_t i = 0; i < 256 + n; i++) vocab_put_u32(v, 1);
    for (size_t i = 0; i < n_control; i++) vocab_put_u32(v, 3);
    vocab_array(v, "tokenizer.ggml.merges", GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        char line[256], c[2];
        size_t len = 0;
        for (int half = 0; half < 2; half++) {
            for (const char *p = halves[2 * i + (size_t)half]; *p; p++) {
                size_t k = vocab_alphabet((uint8_t)*p, c);
                memcpy(line + len, c, k);
                len += k;
            }
            if (!half) line[len++] = ' ';
        }
        vocab_put_view(v, (view){line, len});
    }
}

#endif
