/* step.c - passes of one session on its caller's thread, and the steps that they make. */
#include "engine/engine.h"

/* ---- a call ---- */

int session_begin_call(cerium_session *s, cerium_error *err)
{
    if (s->running)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a request runs in this session: poll it to its end first");
    uint64_t ticket = atomic_fetch_add(&s->engine->n_tickets, 1);
    atomic_store(&s->pages.rank, rank_of(CERIUM_CLASS_COMPLETION, ticket));
    return CERIUM_OK;
}

int session_end_call(cerium_session *s, int status)
{
    atomic_store(&s->pages.rank, rank_idle(s->engine));
    engine_has_room(s->engine);
    return status;
}

static int canceled(cerium_session *s, cerium_error *err)
{
    atomic_store(&s->cancel, false);
    return error_set(err, CERIUM_ERR_CANCELED, "canceled after %u tokens", s->n_computed);
}

/* ---- choosing ---- */

size_t step_text_max(const cerium_engine *e)
{
    return CERIUM_STEP_TOKENS_MAX * (size_t)e->token_bytes_max + 2 * answer_text_max(e);
}

static uint32_t tokens_max(const cerium_session *s)
{
    const cerium_sampling *sampling = s->slot.sampling;
    uint32_t asked = sampling ? sampling->step_tokens_max : 0;
    return asked && asked < CERIUM_STEP_TOKENS_MAX ? asked : CERIUM_STEP_TOKENS_MAX;
}

/* Length of the text up to the newest token. */
static void note_text(const cerium_session *s, cerium_step *out)
{
    out->text_ends[out->n_tokens - 1] = (uint32_t)out->text_len;
    out->text_held[out->n_tokens - 1] = answer_held(s);
}

/* Append the chosen tokens to the timeline, up to a stop. */
static void append(cerium_session *s, cerium_step *out)
{
    slot *x = &s->slot;
    while (x->n_appended < x->n_chosen && out->stop == CERIUM_STOP_NONE) {
        slot_token t = slot_append(s, s->text + out->text_len);
        out->tokens[out->n_tokens] = t.chosen->token;
        out->digests[out->n_tokens] = digest_mark(t.digest);
        out->logprobs[out->n_tokens++] = t.chosen->logprob;
        digest_show(s, t.digest);
        out->stop = t.stop;
        out->text_len += t.text_len;
        note_text(s, out);
    }
}

/* Within a pass: the next tokens, from logits that are there. */
static void choose(cerium_session *s, cerium_step *out)
{
    slot *x = &s->slot;
    slot_choose(s, s->engine->samplers[0]);
    if (x->is_broken) {
        slot_keep_logits(s);
        return;
    }
    *out = (cerium_step){.text = s->text};
    slot_accept(s);
    append(s, out);
    if (x->guide) { /* it follows the answer: a stop may have come before the last */
        bool continues = out->stop == CERIUM_STOP_NONE;
        x->n_chosen = x->n_appended;
        slot_force(s, continues ? tokens_max(s) : 0);
        append(s, out);
        if (out->stop == CERIUM_STOP_NONE && x->is_stuck) {
            out->stop = CERIUM_STOP_STUCK;
            out->text_len += answer_flush(s, s->text + out->text_len);
            note_text(s, out);
        }
    }
    slot_end(s);
    slot_keep_logits(s);
}

/* ---- passes ---- */

/* Within a pass.  See session_compute_all; logits NULL: those of the last token only, where they
 * are the newest of the timeline. */
static int run_pass(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done,
                    cerium_step *out)
{
    slot *x = &s->slot;
    pass_rows p = {.engine = s->engine};
    if (kv_sequence_length(s->pages.sequence) != s->n_computed) /* others needed the room since */
        s->n_computed = kv_sequence_adopt(s->pages.sequence, s->tokens, s->n_computed);
    uint32_t n = s->n_tokens - s->n_computed;
    if (n > n_max) n = n_max;
    const slot_terms terms = {.tokens_max = tokens_max(s),
                              .n_sharing = 1,
                              .is_alone = true,
                              .all_logits = logits,
                              .into_session = true};
    RETURN_IF(pass_add(&p, s, n, &terms));
    s->has_logits = false;
    RETURN_IF(pass_run(&p, &s->cancel));
    slot_commit(s);
    *n_done = n;
    if (s->n_computed < s->n_tokens) return CERIUM_OK;
    if (logits) x->logits = logits + (n - 1) * s->engine->logits_stride;
    if (x->new_tokens_max) {
        choose(s, out);
    } else {
        x->n_appended = 0;
        slot_keep_logits(s);
    }
    return CERIUM_OK;
}

static int compute(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done,
                   cerium_step *out, cerium_error *err)
{
    cerium_engine *e = s->engine;
    thread_spin wait = {0};
    for (;;) {
        engine_begin_pass(e, 0);
        int status = run_pass(s, n_max, logits, n_done, out);
        engine_end_pass(e, false);
        if (status == CERIUM_ERR_CANCELED) return canceled(s, err);
        if (status == CERIUM_OK) return CERIUM_OK;
        if (status == CERIUM_ERR_CAPACITY)
            return error_set(err, status, "the context of %u tokens is full", s->context_tokens);
        /* Earlier calls hold all pages: wait until they end or make room. */
        if (atomic_load(&s->cancel)) return canceled(s, err);
        thread_wait_step(&wait);
    }
}

int session_compute_all(cerium_session *s, uint32_t n_max, float *logits, uint32_t *n_done,
                        cerium_error *err)
{
    s->slot.new_tokens_max = 0;
    return compute(s, n_max, logits, n_done, NULL, err);
}

int session_compute(cerium_session *s, cerium_step *out, cerium_error *err)
{
    slot *x = &s->slot;
    uint32_t n;
    x->new_tokens_max = out ? UINT32_MAX : 0;
    if (session_has_all_logits(s, s->n_tokens)) {
        if (!out) return CERIUM_OK;
        thread_turn_take(&s->engine->pass);
        x->logits = s->logits;
        x->n_rows = x->n_drafts = 0;
        x->searched = false;
        choose(s, out);
        thread_turn_give(&s->engine->pass);
    } else {
        uint32_t end = s->n_tokens;
        if (s->n_computed == end)
            s->n_computed = kv_sequence_adopt(s->pages.sequence, s->tokens, end - 1);
        while (s->n_computed < end && s->n_tokens == end)
            RETURN_IF(compute(s, s->engine->batch_tokens_max, NULL, &n, out, err));
    }
    return out && x->is_broken ? engine_broken(s->engine, err) : CERIUM_OK;
}

/* ---- a step ---- */

static int step_once(cerium_session *s, cerium_step *out, cerium_error *err)
{
    slot *x = &s->slot;
    uint64_t start = clock_ns();
    if (atomic_load(&s->cancel)) return canceled(s, err);
    if (x->guide && guide_is_stuck(x->guide))
        return error_set(err, CERIUM_ERR_CAPACITY, "the guide allows no token: the text ended");
    if (s->answers)
        session_follow(s);
    else
        session_begin_answer(s, NULL, 0, NULL);
    RETURN_IF(session_compute(s, out, err));
    if (out->stop != CERIUM_STOP_NONE) session_cache_answer(s);
    out->duration_ns = clock_ns() - start;
    return CERIUM_OK;
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
    slot *x = &s->slot;
    *x = (slot){.sampling = sampling, .guide = x->guide, .n_new = x->n_new};
    int status = step_once(s, step, err);
    x->sampling = NULL; /* the caller's */
    return session_end_call(s, status);
}
