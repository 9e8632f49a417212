/* pass.c - one pass: rows of sessions, and the tokens that are chosen from their logits. */
#include "engine/engine.h"

static const float DRAFTS_COST_MAX = 1.25f; /* of the pass without them, where others share it */

/* ---- rows ---- */

/* Drafts for the pass in which the next token is chosen. */
static uint32_t choose_drafts(const pass_rows *p, cerium_session *s, const slot_terms *terms)
{
    const cerium_engine *e = p->engine;
    slot *x = &s->slot;
    uint32_t n = CERIUM_STEP_TOKENS_MAX - 1, rows = p->n_rows + 1;
    uint32_t limits[] = {
        terms->tokens_max - 1,
        s->context_tokens - s->n_tokens - 1,
        x->new_tokens_max - x->n_new - 1,
        ENGINE_LOGITS_MAX - ENGINE_STREAMS_MAX - p->n_drafts,
        e->batch_tokens_max - 1,
        e->batch_tokens_max - p->n_more,
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (n > limits[i]) n = limits[i];
    if (x->n_script && n > x->n_script - x->n_new - 1) n = x->n_script - x->n_new - 1;
    n = session_draft(s, rows, terms->n_sharing, n, x->drafts, &x->draft_source);
    if (x->guide) n = guide_plan(x->guide, x->drafts, n);
    if (n == 0 || terms->is_alone) return n;
    float cost[PACE_ROWS_MAX + 1];
    draft_costs(&e->pace, rows, n, cost);
    while (n > 0 && cost[n] > DRAFTS_COST_MAX) n--;
    return n;
}

/* Which logits of the row the choice at a place after the timeline needs. */
static void want(cerium_session *s, cpu_row *row, uint32_t place)
{
    slot *x = &s->slot;
    if (x->n_top || (x->sampling && (x->sampling->logprobs || x->sampling->digest)))
        return; /* more than the choice does */
    uint32_t look_back = (uint32_t)sampler_look_back(x->sampling, s->n_tokens);
    row->n_best = sampler_best(x->sampling);
    row->allowed = answer_mask(s, x->guide, place);
    row->apart[0] = s->tokens + s->n_tokens - look_back;
    row->n_apart[0] = look_back;
    row->apart[1] = x->drafts;
    row->n_apart[1] = look_back ? place : 0;
}

int pass_add(pass_rows *p, cerium_session *s, uint32_t n, const slot_terms *terms)
{
    cerium_engine *e = p->engine;
    slot *x = &s->slot;
    uint32_t first = s->n_computed;
    if (n > 0) RETURN_IF(claim_reserve(&s->pages, first + n));
    bool is_last = first + n == s->n_tokens, chooses = is_last && x->new_tokens_max > 0;
    x->n_rows = n;
    x->first_row = p->n_rows;
    x->n_drafts = 0;
    x->is_guest = x->is_late = false;
    x->logits = n == 0 ? s->logits : NULL;
    if (chooses && n == 1 && s->n_tokens < s->context_tokens)
        x->n_drafts = choose_drafts(p, s, terms);
    if (x->n_drafts && kv_sequence_reserve_two(s->pages.sequence, first + n + x->n_drafts))
        x->n_drafts = 0;
    if (is_last && n > 0 && !terms->all_logits) {
        bool direct = terms->into_session && x->n_drafts == 0;
        x->logits = direct ? s->logits : e->logits + p->n_logits * e->logits_stride;
        p->n_logits += 1 + x->n_drafts;
    }
    for (uint32_t i = 0; i < n + x->n_drafts; i++) {
        cpu_row *row = &e->rows[p->n_rows + i];
        float *logits = terms->all_logits ? terms->all_logits + i * e->logits_stride : NULL;
        if (x->logits && i + 1 >= n) logits = x->logits + (i + 1 - n) * e->logits_stride;
        *row = (cpu_row){.token = i < n ? s->tokens[first + i] : x->drafts[i - n],
                         .position = first + i,
                         .sequence = s->pages.sequence};
        engine_take_logits(e, row, logits);
        if (chooses && i + 1 >= n) want(s, row, i + 1 - n);
        row->is_draft = i >= n;
    }
    if (e->has_states && n > 0) session_want_states(s, &e->rows[p->n_rows]);
    p->n_rows += n + x->n_drafts;
    p->n_more += n ? n - 1 + x->n_drafts : 0;
    p->n_drafts += x->n_drafts;
    CHECK(p->n_more <= e->batch_tokens_max);
    return CERIUM_OK;
}

bool pass_share(const pass_rows *p, cerium_session *s, cerium_session *with)
{
    const slot *of = &with->slot;
    slot *x = &s->slot;
    const uint32_t n = s->n_tokens;
    if (of->n_rows == 0 || with->n_tokens != n || with->n_computed + of->n_rows != n) return false;
    if (with->pages.tenant != s->pages.tenant || with->is_private || s->is_private) return false;
    if (s->pool || s->engine->has_states) return false;
    /* Timelines mostly differ near their ends. */
    uint32_t n_late = n < KERNEL_PAGE ? n : KERNEL_PAGE;
    if (memcmp(s->tokens + n - n_late, with->tokens + n - n_late, n_late * sizeof *s->tokens) ||
        memcmp(s->tokens, with->tokens, n * sizeof *s->tokens))
        return false;
    const cpu_row *row = &p->engine->rows[of->first_row + of->n_rows - 1];
    cpu_row mine = {0};
    x->n_drafts = 0;
    if (x->new_tokens_max) want(s, &mine, 0);
    if (row->n_best && (row->allowed || mine.allowed || row->n_best != mine.n_best ||
                        row->n_apart[0] != mine.n_apart[0]))
        return false;
    x->n_rows = 0;
    x->first_row = of->first_row + of->n_rows - 1;
    x->is_guest = true;
    x->is_late = false;
    x->has_siblings = with->slot.has_siblings = true;
    x->logits = of->logits;
    return true;
}

int pass_run(const pass_rows *p, const _Atomic bool *cancel)
{
    cerium_engine *e = p->engine;
    uint32_t n_logits = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) n_logits += e->rows[i].logits != NULL;
    bool measures = n_logits == p->n_rows && e->speculates && pace_wants(&e->pace, p->n_rows);
    bool clocks = measures || e->draft;
    uint64_t start = clock_ns(), used = clocks ? clock_thread_ns() : 0;
    int status = cpu_executor_run(e->executor, e->rows, p->n_rows, cancel);
    uint64_t ns = clock_ns() - start;
    atomic_fetch_add(&e->counts.busy_ns, ns);
    if (status) return status;
    atomic_fetch_add(&e->counts.passes, 1);
    atomic_fetch_add(&e->counts.head_bytes, cpu_executor_head_bytes(e->executor));
    cost_learn(&e->cost, p->n_rows, ns);
    if (clocks) used = clock_thread_ns() - used;
    if (measures) pace_learn(&e->pace, p->n_rows, used);
    if (e->draft) budget_earn(&e->draft->budget, (double)used);
    return CERIUM_OK;
}

void slot_commit(cerium_session *s)
{
    slot *x = &s->slot;
    if (x->is_guest) {
        if (s->draft && !x->is_late) draft_session_tap(s, x->first_row, s->n_tokens - 1, 1);
        s->n_computed = s->n_tokens;
        x->searched = !x->is_late && cpu_executor_searched(s->engine->executor);
        atomic_fetch_add(&s->engine->counts.shared_rows, 1);
        return;
    }
    /* What a guest computes when it parts is of its answer, too. */
    const bool ends = x->n_rows && s->n_computed + x->n_rows == s->n_tokens;
    if (x->n_new > 0 || (x->new_tokens_max && ends))
        atomic_fetch_add(&s->engine->counts.answer_rows, x->n_new > 0 ? x->n_rows : 1);
    kv_sequence_commit(s->pages.sequence, s->tokens + s->n_computed, x->n_rows);
    if (s->pool) embedding_take(s);
    if (s->draft) draft_session_tap(s, x->first_row, s->n_computed, x->n_rows + x->n_drafts);
    s->n_computed += x->n_rows;
    if (s->engine->has_states && x->n_rows) session_commit_state(s);
    x->searched = x->n_rows > 0 && cpu_executor_searched(s->engine->executor);
}

/* ---- choosing ---- */

/* The token at a place after the timeline.  *is_drawn: from the logits. */
static int32_t choose_at(cerium_session *s, sampler *scratch, guide *g, const float *logits,
                         const float *tops, uint32_t place, bool *is_drawn)
{
    uint32_t n = s->n_tokens + place, n_forced = 0;
    const int32_t *forced = g ? guide_forced(g, &n_forced) : NULL;
    *is_drawn = n_forced == 0;
    if (n_forced > 0) return *forced;
    return sampler_choose_allowed(scratch, logits, tops, s->engine->n_vocab,
                                  answer_mask(s, g, place), s->slot.sampling, s->tokens, n, n);
}

/* Choose the tokens after the timeline, into chosen and s->tokens, as far as drafts agree with the
 * choices.  A token that is forbidden in a choice thus rejects the draft, too.  Returns their
 * number, 1 more than accepted drafts; 0: the logits are not numbers. */
static uint32_t verify(cerium_session *s, sampler *scratch)
{
    const cerium_engine *e = s->engine;
    slot *x = &s->slot;
    const int32_t *script = x->n_script ? x->script + x->n_new : NULL;
    const float *logits = x->logits;
    /* The bytes of a heal_prefix are given: the probability of a token is relative to the tokens
     * that spell them. */
    const uint64_t *spelled = heal_is_open(s) ? answer_mask(s, x->guide, 0) : NULL;
    for (uint32_t i = 0; i <= x->n_drafts; i++, logits += e->logits_stride) {
        uint32_t n = s->n_tokens + i;
        chosen_token *to = &x->chosen[i];
        if (!sampler_are_numbers(logits, e->n_vocab)) return i;
        const float *mixed = session_mix(s, x->sampling, logits, n);
        /* Choose as usual: a script costs as much as its tokens. */
        const float *tops = mixed == logits ? logits + e->tops_at : NULL;
        bool is_drawn;
        *to = (chosen_token){
            .token = choose_at(s, scratch, script ? NULL : x->guide, mixed, tops, i, &is_drawn)};
        if (x->sampling && x->sampling->digest && is_drawn)
            to->logits = digest_logits(s, logits);
        if (script) to->token = script[i];
        if (x->sampling && x->sampling->logprobs)
            to->logprob = sampler_logprob(mixed, e->n_vocab, spelled, to->token);
        if (x->n_top)
            to->n_top = (uint32_t)sampler_top(mixed, e->n_vocab, x->top + i * x->n_top, x->n_top);
        s->tokens[n] = to->token;
        if (i == x->n_drafts || x->drafts[i] != to->token) return i + 1;
    }
    return x->n_drafts + 1;
}

void slot_choose(cerium_session *s, sampler *scratch)
{
    slot *x = &s->slot;
    x->n_chosen = x->n_drawn = x->n_appended = x->n_accepted = 0;
    x->is_broken = x->is_stuck = false;
    if (x->guide && x->n_new == 0 && guide_is_stuck(x->guide)) return;
    x->n_chosen = x->n_drawn = verify(s, scratch);
    x->is_broken = x->n_chosen == 0;
}

void slot_force(cerium_session *s, uint32_t n_max)
{
    slot *x = &s->slot;
    const tokenizer *t = s->engine->tokens;
    const chosen_token *last = &x->chosen[x->n_chosen - 1];
    uint32_t n_forced;
    if (n_max > CERIUM_STEP_TOKENS_MAX) n_max = CERIUM_STEP_TOKENS_MAX;
    guide_follow(x->guide, x->n_chosen - 1, last->token);
    while (x->n_chosen < n_max && !(x->sampling && x->sampling->logprobs) &&
           !tokenizer_is_end(t, last->token) &&
           s->n_tokens + x->n_chosen - x->n_appended < s->context_tokens) {
        const int32_t *forced = guide_forced(x->guide, &n_forced);
        if (n_forced == 0) break;
        s->tokens[s->n_tokens + x->n_chosen - x->n_appended] = *forced;
        last = &x->chosen[x->n_chosen];
        x->chosen[x->n_chosen++] = (chosen_token){.token = *forced};
        guide_follow(x->guide, 0, *forced);
    }
    x->is_stuck = !tokenizer_is_end(t, last->token) && guide_is_stuck(x->guide);
}

/* ---- the timeline grows ---- */

/* All drawn tokens but the last were drafts that were right. */
void slot_accept(cerium_session *s)
{
    kv_sequence_commit(s->pages.sequence, s->tokens + s->n_tokens, s->slot.n_drawn - 1);
}

/* Why the answer ends with the token that was appended last, if it does. */
static cerium_stop stop_of(const cerium_session *s)
{
    const slot *x = &s->slot;
    bool ends = x->guide || !(x->sampling && x->sampling->ignore_end);
    if ((ends && tokenizer_is_end(s->engine->tokens, s->tokens[s->n_tokens - 1])) ||
        (x->n_script && x->n_new == x->n_script))
        return CERIUM_STOP_END;
    if (s->n_tokens == s->context_tokens) return CERIUM_STOP_LIMIT;
    return x->n_appended == x->n_chosen && x->is_stuck ? CERIUM_STOP_STUCK : CERIUM_STOP_NONE;
}

slot_token slot_append(cerium_session *s, char *text)
{
    slot *x = &s->slot;
    uint32_t i = x->n_appended++;
    slot_token out = {.chosen = &x->chosen[i], .top = x->top + (size_t)i * x->n_top};
    digest_follow(s, out.chosen);
    out.digest = s->digest;
    s->n_tokens++;
    x->n_new++;
    answer_follow(s, out.chosen->token);
    out.stop = stop_of(s);
    out.text_len = answer_show(s, x->sampling, &out.stop, text);
    out.is_last = out.stop != CERIUM_STOP_NONE || x->n_new == x->new_tokens_max;
    if (out.is_last) out.text_len += answer_flush(s, text + out.text_len);
    out.text_held = answer_held(s);
    return out;
}

void slot_end(cerium_session *s)
{
    slot *x = &s->slot;
    uint32_t n = x->n_appended, begin = s->n_tokens - n;
    x->n_accepted = n < x->n_drawn ? n : x->n_drawn - 1;
    s->n_computed = begin + (n < x->n_drawn ? n : x->n_drawn) - 1;
    if (s->engine->has_states) session_replay_drafts(s, begin);
    session_drafted(s, x->draft_source, x->n_drafts, x->n_accepted, s->tokens + begin, x->n_drawn);
    atomic_fetch_add(&s->engine->counts.new_tokens, n);
}

void slot_keep_logits(cerium_session *s)
{
    const slot *x = &s->slot;
    const cerium_engine *e = s->engine;
    uint32_t n = x->n_appended < x->n_drawn ? x->n_appended : x->n_drawn;
    const float *logits = x->logits + (n ? n - 1 : 0) * e->logits_stride;
    if (logits != s->logits) memcpy(s->logits, logits, e->logits_stride * sizeof *logits);
    s->has_best_alone = x->searched;
    s->has_logits = true;
    s->logits_at = s->n_computed;
}
