/* chat.h - conversations as the tokens that a model was trained on.
 *
 * A model's own chat template is run.  Handwritten renderers, one for each family, replace it if
 * they render the same: they know prefixes.  A template that cannot be run is an error, never
 * silently replaced: docs/chat.md. */
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

typedef struct chat_template chat_template;

typedef struct {
    chat_kind kind;
    const char *name;    /* of the kind, "template" if that decides, "": unknown */
    view default_system; /* the template's default system message (ChatML); owned by the
                            tokenizer */
    const char *calls;   /* how calls are read and guided: the name of a form of the reader, which
                            is that of a family; "none": an unknown form; NULL: the same as name */
    const chat_template *template; /* of the file, compiled; NULL: none, or not read yet */
    bool runs;           /* the template renders, not the kind */
    const char *refusal; /* one line: why the file's template cannot be run, so chat is unavailable;
                            else NULL */
} chat_form;

/* The family whose marks a model's template and vocabulary have, without running it; CHAT_NONE:
 * none. */
chat_form chat_detect(const tokenizer *t);

/* The form of a model: its template if that can be run, a family that renders the same, or, without
 * a template, the family that its vocabulary shows.
 *   wanted: the name of a kind, "template", or NULL: as above
 * Release *out with chat_form_close().  CERIUM_ERR_ARGUMENT: wanted is unknown; CERIUM_ERR_MEMORY.
 * Cost: some dozen renderings. */
CERIUM_CHECKED int chat_form_open(chat_form *out, const tokenizer *t, const char *wanted,
                                  cerium_error *err);
void chat_form_close(chat_form *form);
/* The token that ends a turn by the template, or TOKEN_NONE. */
int32_t chat_end_token(const chat_form *form);

/* Tokens of a conversation: as cerium_chat_tokens() without its engine, errors included. */
CERIUM_CHECKED int chat_render(const tokenizer *t, const chat_form *form, const cerium_chat *chat,
                               int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err);

#endif
