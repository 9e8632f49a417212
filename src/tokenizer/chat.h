/* chat.h - conversations as the tokens that a model family was trained on.
 *
 * A form is known by the chat template of the model file (its text is only looked at, never run)
 * and by the vocabulary.  Renderers are written by hand, one for each family: docs/chat.md. */
#ifndef TOKENIZER_CHAT_H
#define TOKENIZER_CHAT_H

#include "tokenizer/tokenizer.h"

/* X(symbol, name) */
#define CHAT_KIND_MAP(X)                                                                           \
    X(CHAT_NONE, "")                   /* a plain form of our own, for models without one */       \
    X(CHAT_CHATML, "chatml")           /* and Qwen2, Qwen2.5, Hermes */                            \
    X(CHAT_QWEN3, "qwen3")             /* ChatML that drops old thoughts */                        \
    X(CHAT_QWEN3_CODER, "qwen3-coder") /* ChatML that calls tools in XML */                        \
    X(CHAT_QWEN35, "qwen3.5")          /* both, and the prompt opens a thought */                  \
    X(CHAT_HARMONY, "harmony")         /* gpt-oss */                                               \
    X(CHAT_LLAMA2, "llama2")                                                                       \
    X(CHAT_LLAMA3, "llama3")                                                                       \
    X(CHAT_LLAMA31, "llama3.1")        /* always with a system message */                          \
    X(CHAT_MISTRAL_V0, "mistral-v0")   /* before templates had numbers */                          \
    X(CHAT_MISTRAL_V1, "mistral-v1")                                                               \
    X(CHAT_MISTRAL_V3, "mistral-v3")                                                               \
    X(CHAT_MISTRAL_V3_TEKKEN, "mistral-v3-tekken")                                                 \
    X(CHAT_MISTRAL_V7, "mistral-v7")                                                               \
    X(CHAT_MISTRAL_V7_TEKKEN, "mistral-v7-tekken") /* Devstral, Mistral Small 3 */                 \
    X(CHAT_DEEPSEEK_CODER, "deepseek-coder")                                                       \
    X(CHAT_STARCODER2, "starcoder2-instruct")

#define CHAT_KIND_ENUM(symbol, name) symbol,
typedef enum { CHAT_KIND_MAP(CHAT_KIND_ENUM) CHAT_KINDS } chat_kind;
#undef CHAT_KIND_ENUM

typedef struct {
    chat_kind kind;
    const char *name;    /* of the kind; "" for CHAT_NONE */
    view default_system; /* what the template says when nobody gives a system message (ChatML);
                            owned by the tokenizer */
} chat_form;

/* The form of a model; CHAT_NONE when it has none or one that we do not know. */
chat_form chat_detect(const tokenizer *t);

/* Tokens of a conversation: cerium_chat_tokens() without its engine, errors included. */
CERIUM_CHECKED int chat_render(const tokenizer *t, const chat_form *form, const cerium_chat *chat,
                               int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err);

#endif
