/* step.c - the next tokens of a session that runs by itself. */
#include "engine/engine.h"

size_t step_text_max(const cerium_engine *e)
{
    return CERIUM_STEP_TOKENS_MAX * (size_t)e->token_bytes_max + 2 * answer_text_max(e);
}

void step_draft(cerium_session *s)
{
    const cerium_engine *e = s->engine;
    step_choice *c = s->step;
    uint32_t n = CERIUM_STEP_TOKENS_MAX, asked = c->sampling ? c->sampling->step_tokens_max : 0;
    uint32_t limits[] = {s->context_tokens - s->n_tokens, e->batch_tokens_max,
                         asked ? asked : CERIUM_STEP_TOKENS_MAX};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (n > limits[i]) n = limits[i];
    c->n_drafts = session_draft(s, 1, 1, n - 1, c->drafts, &c->draft_source);
    if (s->guide) c->n_drafts = guide_plan(s->guide, c->drafts, c->n_drafts);
    if (c->n_drafts && kv_sequence_reserve(s->sequence, s->n_tokens + c->n_drafts))
        c->n_drafts = 0;
}

/* How far the text had come with the newest token. */
static void note_text(const cerium_session *s, cerium_step *out)
{
    out->text_ends[out->n_tokens - 1] = (uint32_t)out->text_len;
    out->text_held[out->n_tokens - 1] = answer_held(s);
}

static void show(cerium_session *s, const cerium_sampling *sampling, cerium_step *out)
{
    out->text_len += answer_show(s, sampling, &out->stop, s->text + out->text_len);
    note_text(s, out);
}

/* What was chosen becomes part of the timeline, up to where it stops. */
static void append(cerium_session *s, const step_choice *c, cerium_step *out)
{
    const cerium_sampling *sampling = c->sampling;
    const cerium_engine *e = s->engine;
    bool goes_on = !s->guide && sampling && sampling->ignore_end;
    *out = (cerium_step){.text = s->text};
    while (out->n_tokens < c->n_chosen && out->stop == CERIUM_STOP_NONE) {
        const chosen_token *chosen = &c->chosen[out->n_tokens];
        out->tokens[out->n_tokens] = chosen->token;
        out->logprobs[out->n_tokens++] = chosen->logprob;
        s->n_tokens++;
        answer_follow(s, chosen->token);
        if (!goes_on && tokenizer_is_end(e->tokens, chosen->token))
            out->stop = CERIUM_STOP_END;
        else if (s->n_tokens == s->context_tokens)
            out->stop = CERIUM_STOP_LIMIT;
        show(s, sampling, out);
    }
}

/* The answer grew: what its guide then forces comes with it, unless somebody wants to know how
 * likely each was. */
static void follow_guide(cerium_session *s, const step_choice *c, cerium_step *out)
{
    const cerium_sampling *sampling = c->sampling;
    uint32_t n_forced = 0, most = CERIUM_STEP_TOKENS_MAX;
    if (sampling && sampling->step_tokens_max) most = sampling->step_tokens_max;
    guide_follow(s->guide, out->n_tokens - 1, out->tokens[out->n_tokens - 1]);
    while (out->stop == CERIUM_STOP_NONE && out->n_tokens < most &&
           !(sampling && sampling->logprobs)) {
        const int32_t *forced = guide_forced(s->guide, &n_forced);
        if (n_forced == 0) break;
        s->tokens[s->n_tokens++] = out->tokens[out->n_tokens] = *forced;
        out->logprobs[out->n_tokens++] = 0;
        guide_follow(s->guide, 0, *forced);
        answer_follow(s, *forced);
        if (s->n_tokens == s->context_tokens) out->stop = CERIUM_STOP_LIMIT;
        show(s, sampling, out);
    }
    if (out->stop == CERIUM_STOP_NONE && guide_is_stuck(s->guide)) {
        out->stop = CERIUM_STOP_STUCK;
        out->text_len += answer_flush(s, s->text + out->text_len);
        note_text(s, out);
    }
}

void step_choose(cerium_session *s, const float *logits)
{
    cerium_engine *e = s->engine;
    step_choice *c = s->step;
    uint32_t before = s->n_tokens;
    c->n_chosen = verify(s, e->samplers[0], c->sampling, s->guide, logits, c->drafts, c->n_drafts,
                         NULL, c->chosen, NULL, 0);
    c->is_broken = c->n_chosen == 0;
    if (c->is_broken) return;
    /* Drafts that were right are computed already: all chosen tokens but the last. */
    kv_sequence_commit(s->sequence, s->tokens + before, c->n_chosen - 1);
    append(s, c, c->out);
    uint32_t n = c->out->n_tokens, n_accepted = n < c->n_chosen ? n : n - 1;
    s->n_computed = s->n_tokens - 1;
    if (s->guide) follow_guide(s, c, c->out);
    if (logits != s->logits)
        memcpy(s->logits, logits + (n - 1) * e->logits_stride, e->logits_stride * sizeof *logits);
    atomic_fetch_add(&e->counts.new_tokens, c->out->n_tokens);
    session_drafted(s, c->draft_source, c->n_drafts, n_accepted, s->tokens + before, c->n_chosen);
}

static int step_once(cerium_session *s, step_choice *c, cerium_error *err)
{
    cerium_engine *e = s->engine;
    uint64_t start = clock_ns();
    if (atomic_load(&s->cancel)) return session_canceled(s, err);
    if (s->guide && guide_is_stuck(s->guide))
        return error_set(err, CERIUM_ERR_CAPACITY, "the guide allows no token: the text ended");
    if (s->answers)
        session_follow(s);
    else
        session_begin_answer(s, NULL, 0, NULL);
    s->step = c;
    int status = session_compute(s, err);
    if (!status && c->n_chosen == 0 && !c->is_broken) { /* the logits were there */
        thread_turn_take(&e->pass);
        step_choose(s, s->logits);
        thread_turn_give(&e->pass);
    }
    s->step = NULL;
    if (!status && c->is_broken) status = engine_broken(e, err);
    if (!status && c->out->stop != CERIUM_STOP_NONE) session_recall(s);
    if (!status) c->out->duration_ns = clock_ns() - start;
    return status;
}

int cerium_session_step(cerium_session *s, const cerium_sampling *sampling, cerium_step *step,
                        cerium_error *err)
{
    if (!s || !step) return error_set(err, CERIUM_ERR_ARGUMENT, "no session or step");
    if (s->running) return session_begin_call(s, err);
    if (s->n_tokens == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT, "nothing to continue: sync a prompt first");
    RETURN_IF(sampler_validate(sampling, err));
    if (s->n_tokens == s->context_tokens)
        return error_set(err, CERIUM_ERR_CAPACITY, "the context of %u tokens is full",
                         s->context_tokens);
    RETURN_IF(session_need_pointer(s, sampling, err));
    RETURN_IF(session_begin_call(s, err));
    step_choice choice;
    choice.sampling = sampling;
    choice.out = step;
    choice.n_drafts = choice.n_chosen = 0;
    choice.is_broken = false;
    choice.draft_source = DRAFT_TIMELINE;
    return session_end_call(s, step_once(s, &choice, err));
}
