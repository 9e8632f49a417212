/* digest.c - the running digest of an answer: how it was computed, in 16 bytes.
 *
 * XXH3-128, chained, see cerium_session_digest().  The logits of a step are hundreds of kilobytes:
 * SHA-256 would take as long as a small model's pass. */
#include "engine/engine.h"

hash_name digest_logits(const cerium_session *s, const float *logits)
{
    return hash_name_of(logits, s->engine->n_vocab * sizeof *logits);
}

void digest_follow(cerium_session *s, const chosen_token *chosen)
{
    struct {
        unsigned char before[HASH_NAME_BYTES];
        int32_t token;
        unsigned char logits[HASH_NAME_BYTES];
    } link = {.token = chosen->token};
    static const hash_name none;
    const bool is_first = s->slot.n_new == 0;
    if (!(s->slot.sampling && s->slot.sampling->digest)) s->has_digest = false;
    else if (is_first) s->has_digest = true;
    if (!s->has_digest) {
        s->digest = none;
        return;
    }
    if (is_first) s->digest = hash_name_of(s->tokens, s->n_tokens * sizeof *s->tokens);
    hash_name_write(s->digest, link.before);
    if (!hash_name_equal(chosen->logits, none)) hash_name_write(chosen->logits, link.logits);
    s->digest = hash_name_of(&link, sizeof link);
}

uint64_t digest_mark(hash_name digest) { return digest.high; }

void digest_show(cerium_session *s, hash_name digest)
{
    s->digest_shown = digest;
    s->shows_digest = !hash_name_equal(digest, (hash_name){0});
}

int cerium_session_digest(const cerium_session *s, unsigned char *out, cerium_error *err)
{
    if (!s || !out) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or digest");
    if (!s->shows_digest)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no digest: set cerium_sampling.digest for every token of the answer");
    hash_name_write(s->digest_shown, out);
    return CERIUM_OK;
}
