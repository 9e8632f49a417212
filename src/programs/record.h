/* record.h - a recorded answer: what was asked of which model, what came, and its digest. */
#ifndef PROGRAMS_RECORD_H
#define PROGRAMS_RECORD_H

#include "base/memory.h"
#include "programs/options.h"

enum { RECORD_SHA_DIGITS = 64, RECORD_TOKENS_MAX = 1 << 20 };

typedef struct {
    char sha256[RECORD_SHA_DIGITS + 1]; /* of the model's file */
    char kv_type[8];
    bool exact;
    int32_t *prompt, *tokens;           /* [n_prompt], [n_tokens] owned */
    size_t n_prompt, n_tokens;
    uint64_t *marks;                    /* [n_tokens] cerium_step.digests; owned */
    cerium_sampling sampling;           /* without stops and biases: they chose no token */
    char heal_prefix[CERIUM_HEAL_PREFIX_MAX];
    size_t n_heal;
    unsigned char digest[CERIUM_DIGEST_BYTES];
} record;

/* "9f86d0..." of CERIUM_DIGEST_BYTES. */
void record_digest_text(const unsigned char *digest, char out[2 * CERIUM_DIGEST_BYTES + 1]);
/* Write it to path as JSON, with the answer's text. */
CERIUM_CHECKED int record_write(const record *r, const char *path, view text, cerium_error *err);
/* Read it from path, or standard input for "-".  CERIUM_ERR_FORMAT: it is none. */
CERIUM_CHECKED int record_read(record *r, const char *path, cerium_error *err);
void record_free(record *r);

#endif
