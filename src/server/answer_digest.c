/* answer_digest.c - digests and records of choices: kept token by token, written at the end. */
#include "server/answer_digest.h"

#include "protocol/record.h"

struct answer_digest {
    const char *why;        /* the reason for no digest; NULL: there is one */
    const char *why_record; /* no record */
    uint32_t n_tokens;
    bytes tokens, marks;    /* int32_t, uint64_t each: for the record */
    record head;            /* the fields known at the beginning, and the digest so far */
};

int answer_digest_open(choice *ch)
{
    const protocol_request *r = ch->a->request;
    cerium_engine_info info;
    if (!r->sampling.digest || ch->digest) return CERIUM_OK;
    struct answer_digest *d = memory_zalloc(1, sizeof *d);
    if (!d) return CERIUM_ERR_MEMORY;
    ch->digest = d;
    cerium_engine_describe(ch->a->model->engine, &info);
    d->tokens.max = d->marks.max = SIZE_MAX / 2;
    d->head.fingerprint = info.fingerprint;
    d->head.exact = info.exact;
    snprintf(d->head.kv_type, sizeof d->head.kv_type, "%s", info.kv_type);
    d->head.sampling = r->sampling;
    d->head.sampling.seed += ch->index;
    d->head.n_heal = ch->begins.n_heal;
    if (d->head.n_heal) memcpy(d->head.heal_prefix, ch->begins.heal_prefix, d->head.n_heal);
    if (ch->script) answer_digest_void(ch, "its text was recorded, and no token drawn");
    cerium_guide guide;
    if (!r->wants_record) return CERIUM_OK;
    if (output_format_guide(&ch->a->format, &guide))
        d->why_record = "a record cannot hold a grammar, a schema or a forced call";
    if (r->sampling.n_biases) d->why_record = "a record cannot hold logit_bias";
    return CERIUM_OK;
}

void answer_digest_void(choice *ch, const char *why)
{
    if (ch->digest) ch->digest->why = why;
}

void answer_digest_step(choice *ch, const cerium_step *step)
{
    struct answer_digest *d = ch->digest;
    cerium_error err;
    if (!d || d->why) return;
    d->n_tokens += step->n_tokens;
    if (cerium_session_digest(ch->session, d->head.digest, &err))
        answer_digest_void(ch, "not every token was drawn with one");
    if (!ch->a->request->wants_record || d->why_record) return;
    if (bytes_append(&d->tokens, step->tokens, step->n_tokens * sizeof *step->tokens) ||
        bytes_append(&d->marks, step->digests, step->n_tokens * sizeof *step->digests))
        d->why_record = "out of memory";
}

void answer_digest_close(choice *ch)
{
    if (!ch->digest) return;
    bytes_free(&ch->digest->tokens);
    bytes_free(&ch->digest->marks);
    memory_free(ch->digest);
    ch->digest = NULL;
}

size_t answer_digest_bytes(const choice *ch)
{
    const bool records = ch->digest && ch->a->request->wants_record && !ch->digest->why_record;
    return records ? 8 * ch->n_prompt + 28 * (size_t)ch->digest->n_tokens : 0;
}

static int tell(answer *a, choice *ch)
{
    struct answer_digest *d = ch->digest;
    char digest[RECORD_DIGEST_DIGITS + 1];
    bytes text = {.max = PROTOCOL_ANSWER_BYTES_MAX};
    const char *why = !a->source->is_local ? "another server gave the answer"
                      : a->failed          ? "the answer failed"
                      : d && d->why        ? d->why
                      : !d || !d->n_tokens ? "no token was drawn"
                                           : NULL;
    if (why) return protocol_writer_digest(a->writer, ch->index, NULL, 0, (view){0}, why);
    int status = CERIUM_OK;
    if (a->request->wants_record && !d->why_record) {
        record r = d->head;
        r.prompt = (int32_t *)ch->prompt;
        r.n_prompt = ch->n_prompt;
        r.tokens = (int32_t *)(void *)d->tokens.ptr;
        r.marks = (uint64_t *)(void *)d->marks.ptr;
        r.n_tokens = d->n_tokens;
        status = record_write(&r, (view){0}, &text);
    }
    record_digest_text(d->head.digest, digest);
    if (!status)
        status = protocol_writer_digest(a->writer, ch->index, digest, d->n_tokens,
                                        (view){text.ptr, text.len}, d->why_record);
    bytes_free(&text);
    return status;
}

int answer_digests_tell(answer *a)
{
    for (uint32_t i = 0; a->request->sampling.digest && i < a->n_choices; i++)
        RETURN_IF(tell(a, &a->choices[i]));
    return CERIUM_OK;
}
