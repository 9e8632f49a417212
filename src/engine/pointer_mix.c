/* pointer_mix.c - the mixture of a session's logits with what its own text says. */
#include "engine/engine.h"

static int open_words(const cerium_engine *e, pointer_vocabulary **out, cerium_error *err)
{
    pointer_token *tokens = memory_zalloc(e->n_vocab, sizeof *tokens);
    if (!tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory to sort the vocabulary");
    int32_t seam = e->infill.order == INFILL_NONE ? TOKEN_NONE : e->infill.mid;
    for (uint32_t i = 0; i < e->n_vocab; i++) {
        pointer_token *to = &tokens[i];
        int32_t token = (int32_t)i;
        to->text.ptr = tokenizer_bytes(e->tokens, token, &to->text.len);
        if (token == seam) to->kind = POINTER_SEAM;
        else if (tokenizer_is_end(e->tokens, token)) to->kind = POINTER_END;
        else if (!to->text.len || tokenizer_is_control(e->tokens, token)) to->kind = POINTER_BREAK;
    }
    int status = pointer_vocabulary_open(out, tokens, e->n_vocab, err);
    memory_free(tokens);
    return status;
}

/* As sorted_vocabulary() in text_out.c: the loser of a race discards its copy. */
static int need_words(cerium_engine *e, const pointer_vocabulary **out, cerium_error *err)
{
    pointer_vocabulary *there = atomic_load(&e->words), *fresh;
    if (!there) {
        RETURN_IF(open_words(e, &fresh, err));
        if (atomic_compare_exchange_strong(&e->words, &there, fresh)) there = fresh;
        else pointer_vocabulary_close(&fresh);
    }
    *out = there;
    return CERIUM_OK;
}

int session_need_pointer(cerium_session *s, const cerium_sampling *sampling, cerium_error *err)
{
    const pointer_vocabulary *v;
    if (s->pointer || !sampling || !(sampling->pointer > 0)) return CERIUM_OK;
    RETURN_IF(need_words(s->engine, &v, err));
    return pointer_open(&s->pointer, v, s->context_tokens, err);
}

const float *session_mix(cerium_session *s, const cerium_sampling *sampling, const float *logits,
                         uint32_t n)
{
    if (!sampling || !(sampling->pointer > 0)) return logits;
    return pointer_mix(s->pointer, logits, sampling->pointer, s->tokens, n);
}
