/* record.h - a recorded answer: the request, the model, the tokens, and their digest.
 *
 * `cerium run --record` writes one to a file, answers of the server carry them in usage, and
 * `cerium verify` reads both. */
#ifndef PROTOCOL_RECORD_H
#define PROTOCOL_RECORD_H

#include "base/base.h"
#include "base/memory.h"

enum {
    RECORD_BYTES_MAX = 256 << 20,
    RECORD_SHA_DIGITS = 64,
    RECORD_TOKENS_MAX = 1 << 20,
    RECORD_DIGEST_DIGITS = 2 * CERIUM_DIGEST_BYTES,
};

typedef struct {
    char sha256[RECORD_SHA_DIGITS + 1]; /* of the model's file; "": unknown, */
    uint64_t fingerprint;               /* then this is set: cerium_engine_info.fingerprint */
    char kv_type[8];
    bool exact;
    int32_t *prompt, *tokens;           /* [n_prompt], [n_tokens]; owned if the record was read */
    size_t n_prompt, n_tokens;
    uint64_t *marks;                    /* [n_tokens] cerium_step.digests; owned alike */
    cerium_sampling sampling;           /* without stops, which chose no token, and without
                                         * biases */
    char heal_prefix[CERIUM_HEAL_PREFIX_MAX];
    size_t n_heal;
    unsigned char digest[CERIUM_DIGEST_BYTES];
} record;

/* "9f86d0..." of CERIUM_DIGEST_BYTES. */
void record_digest_text(const unsigned char *digest, char out[RECORD_DIGEST_DIGITS + 1]);
/* Append it to *out as JSON, with the answer's text where it has one. */
CERIUM_CHECKED int record_write(const record *r, view text, bytes *out);

typedef struct {
    record *all; /* [n] owned */
    size_t n;
} record_list;

/* A record, or an answer of the server with one for each choice: bytes from outside; fuzzed.
 *   *wrong: on error its reason, one line, a static string
 * CERIUM_ERR_FORMAT or CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int record_read(record_list *out, view text, const char **wrong);
void record_list_free(record_list *list);

#endif
