/* tokenizer.h - text to tokens and back, for the vocabulary that a model file carries.
 *
 * Two algorithms: byte-level BPE (tokenizer.ggml.model "gpt2", with the pre-tokenizer that
 * tokenizer.ggml.pre names) and SentencePiece BPE with byte fallback ("llama").  A tokenizer owns
 * a copy of all it needs, so the model file may be closed; once open it is immutable and every
 * function may be called from any thread. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/base.h"
#include "gguf/gguf.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define TOKENIZER_TOKENS_MAX      (1u << 22) /* of one vocabulary: known ones have 32 k to 260 k */
#define TOKENIZER_TEXT_BYTES_MAX  (1u << 28) /* one text to encode; scratch is up to 40 times it */
#define TOKENIZER_PASSES_MAX      6u         /* expressions that one pre-tokenizer applies */

_Static_assert(TOKENIZER_TOKENS_MAX <= INT32_MAX / 2, "ids are int32_t, and symbols come on top");
_Static_assert((uint64_t)TOKENIZER_TEXT_BYTES_MAX * 2 <= UINT32_MAX, "positions are uint32_t");

typedef struct tokenizer tokenizer;

enum { TOKEN_NONE = -1 }; /* "the vocabulary has no such token" */

/* X(symbol, key): tokens with a role.  An id comes from the key tokenizer.ggml.<key>_token_id,
 * else from the texts that model families are known to use (special.c). */
#define TOKENIZER_ROLE_MAP(X)                                                                      \
    X(TOKEN_BOS, "bos")         /* begins a text */                                                \
    X(TOKEN_EOS, "eos")         /* ends a text */                                                  \
    X(TOKEN_EOT, "eot")         /* ends a turn */                                                  \
    X(TOKEN_EOM, "eom")         /* ends a message that a tool answers */                           \
    X(TOKEN_UNK, "unknown")                                                                        \
    X(TOKEN_PAD, "padding")                                                                        \
    X(TOKEN_FIM_PRE, "fim_pre") /* fill in the middle: prefix, suffix, middle follow */            \
    X(TOKEN_FIM_SUF, "fim_suf")                                                                    \
    X(TOKEN_FIM_MID, "fim_mid")                                                                    \
    X(TOKEN_FIM_PAD, "fim_pad")                                                                    \
    X(TOKEN_FIM_REP, "fim_rep") /* a repository's name follows */                                  \
    X(TOKEN_FIM_SEP, "fim_sep") /* a file's name follows */

#define TOKENIZER_ROLE_ENUM(symbol, key) symbol,
typedef enum { TOKENIZER_ROLE_MAP(TOKENIZER_ROLE_ENUM) TOKEN_ROLES } token_role;
#undef TOKENIZER_ROLE_ENUM

/* Read the vocabulary of file.
 * CERIUM_ERR_FORMAT: no vocabulary, a damaged one, or an unsupported algorithm or pre-tokenizer;
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int tokenizer_open(tokenizer **out, const gguf_file *file, cerium_error *err);
void tokenizer_close(tokenizer **t);

uint32_t tokenizer_n_tokens(const tokenizer *t);

/* Encode text, which may hold NUL and invalid UTF-8 (encoded byte by byte).
 *   special: text of control tokens becomes the token; otherwise it stays text
 *   begin:   put the begin-of-sequence token first (and the end token last) if the model wants it
 *   tokens:  [cap]; may be NULL when cap is 0
 *   n:       tokens written; tokens needed with CERIUM_ERR_CAPACITY
 * A byte for which the vocabulary has neither a token nor an unknown token is dropped.
 * CERIUM_ERR_ARGUMENT: longer than TOKENIZER_TEXT_BYTES_MAX; CERIUM_ERR_MEMORY.
 * Cost: linear in the text; see merger_run() for words of more than 8,192 letters. */
CERIUM_CHECKED int tokenizer_encode(const tokenizer *t, view text, bool special, bool begin,
                                    int32_t *tokens, size_t cap, size_t *n, cerium_error *err);

/* Text in the middle of something: no special tokens, nothing at the ends, no added space. */
CERIUM_CHECKED int tokenizer_encode_bare(const tokenizer *t, view text, int32_t *tokens,
                                         size_t cap, size_t *n, cerium_error *err);

/* The scratch of encoding, taken once, for frequent encoding: tokenizer_encode_bare() of at most
 * text_max bytes, without an allocation.  One thread at a time; t stays open. */
typedef struct tokenizer_scratch tokenizer_scratch;
CERIUM_CHECKED int tokenizer_scratch_open(tokenizer_scratch **out, const tokenizer *t,
                                          size_t text_max, cerium_error *err);
void tokenizer_scratch_close(tokenizer_scratch **x);
CERIUM_CHECKED int tokenizer_scratch_encode(tokenizer_scratch *x, view text, int32_t *tokens,
                                            size_t cap, size_t *n, cerium_error *err);

/* Bytes of a token, not NUL-terminated, owned by t; a control token gives its name.
 * NULL and *len = 0 for an id outside the vocabulary. */
const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *len);

bool tokenizer_is_end(const tokenizer *t, int32_t id);     /* ends a generation */
/* While a model is opened: this token ends a generation as well. */
void tokenizer_end_also(tokenizer *t, int32_t id);
bool tokenizer_is_control(const tokenizer *t, int32_t id); /* has a name, is no text */

/* TOKEN_NONE: the vocabulary has no token for that role. */
int32_t tokenizer_role(const tokenizer *t, token_role role);
/* The token whose text is exactly name, control tokens included; TOKEN_NONE: there is none. */
int32_t tokenizer_find(const tokenizer *t, view name);

/* The first token in text that is found by its name, the longest at its place; *at is its
 * beginning, *len the length of its name.  TOKEN_NONE: there is none. */
int32_t tokenizer_find_special(const tokenizer *t, view text, size_t *at, size_t *len);

bool tokenizer_drops_bytes(const tokenizer *t); /* there are bytes that no token encodes */
bool tokenizer_adds_bos(const tokenizer *t);   /* encode() with begin puts TOKEN_BOS first */
bool tokenizer_adds_space(const tokenizer *t); /* text at the start and after a control token gets a
                                                  space before it, even if it has one */
bool tokenizer_adds_space_within(const tokenizer *t); /* or only if it has none: not only at the
                                                         start of the whole text */
bool tokenizer_suffix_first(const tokenizer *t); /* cerium.fim_suffix_first: the text after a hole
                                                    comes first */
view tokenizer_pre(const tokenizer *t);        /* tokenizer.ggml.pre, or empty; owned by t */
view tokenizer_template(const tokenizer *t);   /* tokenizer.chat_template, or empty; owned by t */

#endif
