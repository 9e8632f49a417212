/* scheduler.c - the thread that runs requests: takes them in, plans and runs passes, chooses tokens
 * and hands them out. */
#include "engine/scheduler.h"

#include "base/memory.h"

/* ---- in and out ---- */

void scheduler_ring(scheduler *p) { thread_bell_ring(&p->bell); }

void scheduler_stop_pass(scheduler *p) { atomic_store(&p->stop, true); }

void scheduler_submit(scheduler *p, cerium_session *s)
{
    uint32_t class_ = s->request->class_;
    atomic_fetch_add(&p->engine->counts.waiting[class_], 1);
    atomic_fetch_add(&p->engine->counts.prompt_tokens, s->request->n_prompt);
    cerium_session *first = atomic_load(&p->submitted);
    do s->request->next_submitted = first;
    while (!atomic_compare_exchange_weak(&p->submitted, &first, s));
    if (class_ < atomic_load(&p->pass_class)) scheduler_stop_pass(p);
    scheduler_ring(p);
}

/* The entry of a tenant's requests of a class; a new one has got as much as the poorest there. */
static uint32_t find_share(scheduler *p, uint64_t tenant, uint32_t class_)
{
    uint64_t least = UINT64_MAX;
    uint32_t vacant = 0;
    for (uint32_t i = p->engine->sessions_max; i-- > 0;) {
        const tenant_share *share = &p->shares[i];
        if (share->n_requests == 0) vacant = i;
        if (share->n_requests == 0 || share->class_ != class_) continue;
        if (share->tenant == tenant) return i;
        if (share->served < least) least = share->served;
    }
    p->shares[vacant] = (tenant_share){tenant, class_, 0, least == UINT64_MAX ? 0 : least};
    return vacant;
}

static void take_submitted(scheduler *p)
{
    cerium_session *s = atomic_exchange(&p->submitted, NULL), *next;
    for (; s; s = next) {
        request *r = s->request;
        next = r->next_submitted;
        r->share = find_share(p, s->tenant, r->class_);
        p->shares[r->share].n_requests++;
        CHECK(p->n_active < p->engine->sessions_max);
        p->active[p->n_active++] = s;
    }
}

/* The request ends.  From the moment that its last event is out, the session is its owner's. */
static void finish(scheduler *p, cerium_session *s, int status, cerium_stop stop)
{
    request *r = s->request;
    uint32_t at = 0;
    while (p->active[at] != s) at++;
    p->active[at] = p->active[--p->n_active];
    p->shares[r->share].n_requests--;
    engine_counts *counts = &p->engine->counts;
    atomic_fetch_sub(r->begun ? &counts->running[r->class_] : &counts->waiting[r->class_], 1);
    atomic_store(&s->duration_ns, clock_ns() - atomic_load(&s->start_ns));
    atomic_store(&s->rank, rank_idle(p->engine));
    kv_sequence_mark(s->sequence);
    session_recall(s);
    event_slot slot = {.kind = CERIUM_EVENT_DONE, .status = status, .stop = stop};
    request_push(r, &slot, NULL);
    atomic_store(&r->is_over, true);
}

static void end_canceled(scheduler *p)
{
    for (uint32_t i = p->n_active; i-- > 0;) {
        cerium_session *s = p->active[i];
        if (!atomic_load(&s->cancel)) continue;
        atomic_store(&s->cancel, false);
        if (s->request->n_new == 0) session_shorten(s, s->n_computed);
        finish(p, s, CERIUM_ERR_CANCELED, CERIUM_STOP_NONE);
    }
}

/* ---- a pass ---- */

static bool any_canceled(const scheduler *p)
{
    for (uint32_t i = 0; i < p->n_plan; i++)
        if (atomic_load(&p->plan[i]->cancel)) return true;
    return false;
}

/* Let other threads stop the pass: a higher class, where a prompt is in it or it is not short, and
 * whoever cancels the request that it is mostly made of. */
static void open_to_stops(scheduler *p)
{
    uint32_t class_ = 0;
    atomic_store(&p->stop, false);
    if (plan_estimate(p, p->n_rows) > PLAN_STOP_NS_MIN) class_ = p->plan[0]->request->class_;
    for (uint32_t i = 0; i < p->n_plan; i++) {
        const request *r = p->plan[i]->request;
        if (r->n_rows > 1 && r->class_ > class_ && !p->is_for_starved) class_ = r->class_;
        atomic_store(&p->plan[i]->stops_pass, 2 * (r->n_rows + r->n_drafts) >= p->n_rows);
    }
    atomic_store(&p->pass_class, class_);
}

static void close_to_stops(scheduler *p)
{
    atomic_store(&p->pass_class, 0);
    for (uint32_t i = 0; i < p->n_plan; i++) atomic_store(&p->plan[i]->stops_pass, false);
}

/* Run the rows of the plan.  False when it did not come to its end, and is to be made anew. */
static bool run_rows(scheduler *p)
{
    bool has_prompt = p->n_more > p->n_drafts;
    open_to_stops(p);
    int status = CERIUM_ERR_CANCELED;
    bool is_late = atomic_load(&p->submitted) || any_canceled(p);
    uint64_t start = clock_ns();
    if (!is_late) status = engine_run(p->engine, p->n_rows, &p->stop);
    close_to_stops(p);
    if (status == CERIUM_OK) {
        plan_account(p, (double)(clock_ns() - start));
        if (has_prompt && p->prompt_ns_max < PLAN_PROMPT_NS_MAX) p->prompt_ns_max *= 2;
        return true;
    }
    if (is_late || any_canceled(p)) return false;
    /* Preempted: the next piece is smaller, so that many interruptions cannot hold it up. */
    atomic_fetch_add(&p->engine->counts.preempted_passes, 1);
    if (p->prompt_ns_max > PLAN_PROMPT_NS_MIN) p->prompt_ns_max /= 2;
    return false;
}

/* The rows of s are computed. */
static void commit(scheduler *p, cerium_session *s)
{
    request *r = s->request;
    bool grew = false;
    kv_sequence_commit(s->sequence, s->tokens + s->n_computed, r->n_rows);
    s->n_computed += r->n_rows;
    r->last_pass = p->n_passes;
    p->shares[r->share].served += r->n_rows + r->n_drafts;
    if (r->furthest < r->n_prompt && s->n_computed > r->furthest) {
        uint32_t end = s->n_computed < r->n_prompt ? s->n_computed : r->n_prompt;
        atomic_fetch_add(&s->computed_tokens, end - r->furthest);
        grew = true;
    }
    if (s->n_computed > r->furthest) r->furthest = s->n_computed;
    if (!r->prompt_done && s->n_computed >= r->n_prompt) {
        r->prompt_done = true;
        kv_sequence_mark(s->sequence);
        atomic_store(&s->prompt_ns, clock_ns() - atomic_load(&s->start_ns) -
                                        atomic_load(&s->queue_ns));
    }
    if (grew && r->notify_prompt && r->notify) r->notify(r->user);
}

/* ---- choosing tokens: each request is a unit of work for the team ---- */

static bool samples(const cerium_session *s)
{
    const request *r = s->request;
    return s->n_computed == s->n_tokens && r->new_tokens_max > 0 &&
           s->n_tokens < s->context_tokens;
}

/* The answer grew by the last of the chosen; what a guide forces comes with it, unless somebody
 * wants to know how likely it was. */
static void follow_guide(const cerium_engine *e, cerium_session *s)
{
    request *r = s->request;
    const chosen_token *last = &r->chosen[r->n_chosen - 1];
    uint32_t n_forced, most = CERIUM_STEP_TOKENS_MAX, room = request_room(r);
    guide_follow(r->guide, r->n_chosen - 1, last->token);
    if (room < most) most = room;
    while (r->n_chosen < most && !r->sampling.logprobs &&
           !tokenizer_is_end(e->tokens, last->token) &&
           s->n_tokens + r->n_chosen < s->context_tokens) {
        const int32_t *forced = guide_forced(r->guide, &n_forced);
        if (n_forced == 0) break;
        last = &r->chosen[r->n_chosen];
        r->chosen[r->n_chosen] = (chosen_token){.token = *forced};
        s->tokens[s->n_tokens + r->n_chosen++] = *forced;
        guide_follow(r->guide, 0, *forced);
    }
    r->is_stuck = !tokenizer_is_end(e->tokens, last->token) && guide_is_stuck(r->guide);
}

/* The tokens after the timeline, as far as drafts agree with what is chosen. */
static void choose(cerium_session *s, sampler *scratch)
{
    request *r = s->request;
    r->n_chosen = r->n_drawn = 0;
    r->is_broken = false;
    if (r->guide && r->n_new == 0 && guide_is_stuck(r->guide)) return;
    r->n_chosen = verify(s, scratch, &r->sampling, r->guide, r->logits, r->drafts, r->n_drafts,
                         r->n_script ? r->script + r->n_new : NULL, r->chosen, r->chosen_top,
                         r->top_logprobs);
    r->n_drawn = r->n_chosen;
    r->is_broken = r->n_chosen == 0;
    if (r->guide && !r->is_broken) follow_guide(s->engine, s);
}

static void choose_units(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    scheduler *p = arg;
    (void)phase;
    for (uint32_t i = first; i < end; i++)
        if (samples(p->plan[i])) choose(p->plan[i], p->engine->samplers[worker]);
}

static void choose_all(scheduler *p)
{
    team_phase phase = {.n_units = p->n_plan, .chunk = 1};
    if (p->n_plan == 1)
        choose_units(p, 0, 0, 1, 0);
    else
        team_run(p->engine->workers, &phase, 1, choose_units, p);
}

/* ---- handing out ---- */

static void keep_logits(const cerium_engine *e, cerium_session *s, const float *logits)
{
    s->has_best_alone = logits != s->logits && cpu_executor_searched(e->executor);
    if (logits != s->logits) memcpy(s->logits, logits, e->logits_stride * sizeof *logits);
    s->has_logits = true;
}

/* Why the answer ends with the token that was appended last, if it does. */
static cerium_stop stop_of(const cerium_engine *e, const cerium_session *s, bool is_last_chosen)
{
    const request *r = s->request;
    bool ends = r->guide || !r->sampling.ignore_end;
    if ((ends && tokenizer_is_end(e->tokens, s->tokens[s->n_tokens - 1])) ||
        (r->n_script && r->n_new == r->n_script))
        return CERIUM_STOP_END;
    if (s->n_tokens == s->context_tokens) return CERIUM_STOP_LIMIT;
    return is_last_chosen && r->is_stuck ? CERIUM_STOP_STUCK : CERIUM_STOP_NONE;
}

/* Append chosen token i and tell the reader. */
static cerium_stop hand_out(scheduler *p, cerium_session *s, uint32_t i, bool *is_last)
{
    const cerium_engine *e = p->engine;
    request *r = s->request;
    const chosen_token *chosen = &r->chosen[i];
    uint64_t now = clock_ns();
    event_slot slot = {.kind = CERIUM_EVENT_STEP,
                       .token = chosen->token,
                       .logprob = chosen->logprob,
                       .n_top = chosen->n_top,
                       .duration_ns = now - r->token_ns};
    r->token_ns = now;
    s->n_tokens++;
    answer_follow(s, chosen->token);
    if (r->n_new++ == 0) atomic_store(&s->first_token_ns, now - atomic_load(&s->start_ns));
    atomic_fetch_add(&s->new_tokens, 1);
    slot.stop = stop_of(e, s, i + 1 == r->n_chosen);
    char *text = request_text(r, answer_text_max(e));
    slot.text_len = answer_show(s, &r->sampling, &slot.stop, text);
    *is_last = slot.stop != CERIUM_STOP_NONE || r->n_new == r->new_tokens_max;
    if (*is_last) slot.text_len += answer_flush(s, text + slot.text_len);
    slot.text_held = answer_held(s);
    request_push(r, &slot, r->chosen_top + i * r->top_logprobs);
    return slot.stop;
}

/* The chosen tokens of s become part of its timeline. */
static void answer(scheduler *p, cerium_session *s)
{
    cerium_engine *e = p->engine;
    request *r = s->request;
    uint32_t before = s->n_tokens, n_accepted = r->n_drawn - 1, n = 0;
    bool is_last = false;
    cerium_stop stop = CERIUM_STOP_NONE;
    /* Drafts that were right are computed already: all drawn tokens but the last. */
    kv_sequence_commit(s->sequence, s->tokens + before, n_accepted);
    while (n < r->n_chosen && !is_last) stop = hand_out(p, s, n++, &is_last);
    if (n < r->n_drawn) n_accepted = n;
    s->n_computed = before + (n < r->n_drawn ? n : r->n_drawn) - 1;
    s->has_logits = false;
    atomic_fetch_add(&s->drafted_tokens, r->n_drafts);
    atomic_fetch_add(&s->accepted_tokens, n_accepted);
    if (r->draft_source == DRAFT_PREDICTION) {
        atomic_fetch_add(&s->drafted_predicted, r->n_drafts);
        atomic_fetch_add(&s->accepted_predicted, n_accepted);
    }
    session_drafted(s, r->draft_source, r->n_drafts, n_accepted, s->tokens + before, r->n_drawn);
    atomic_fetch_add(&e->counts.new_tokens, n);
    if (is_last) {
        uint32_t drawn = n < r->n_drawn ? n : r->n_drawn;
        keep_logits(e, s, r->logits + (drawn - 1) * e->logits_stride);
        finish(p, s, CERIUM_OK, stop);
        return;
    }
    session_follow(s);
}

static void hand_out_all(scheduler *p)
{
    for (uint32_t i = 0; i < p->n_plan; i++) {
        cerium_session *s = p->plan[i];
        const request *r = s->request;
        if (samples(s) && r->is_broken) {
            keep_logits(p->engine, s, r->logits);
            finish(p, s, CERIUM_ERR_NUMBERS, CERIUM_STOP_NONE);
        } else if (samples(s) && r->n_chosen == 0) { /* the guide has no beginning */
            keep_logits(p->engine, s, r->logits);
            finish(p, s, CERIUM_OK, CERIUM_STOP_STUCK);
        } else if (samples(s)) {
            answer(p, s);
        } else if (s->n_computed == s->n_tokens) { /* a prompt only, or no room for an answer */
            keep_logits(p->engine, s, r->logits);
            finish(p, s, CERIUM_OK, r->new_tokens_max ? CERIUM_STOP_LIMIT : CERIUM_STOP_NONE);
        }
    }
}

/* ---- the thread ---- */

static void begin_requests(scheduler *p)
{
    engine_counts *counts = &p->engine->counts;
    for (uint32_t i = 0; i < p->n_plan; i++) {
        cerium_session *s = p->plan[i];
        request *r = s->request;
        if (r->begun) continue;
        r->begun = true;
        atomic_store(&s->queue_ns, clock_ns() - atomic_load(&s->start_ns));
        atomic_fetch_sub(&counts->waiting[r->class_], 1);
        atomic_fetch_add(&counts->running[r->class_], 1);
    }
}

/* One pass. False when nobody can go on now. */
static bool run_pass(scheduler *p)
{
    cerium_engine *e = p->engine;
    if (p->n_active == 0) return false;
    thread_turn_take(&e->pass);
    plan_make(p);
    bool is_done = p->n_plan > 0;
    begin_requests(p);
    p->n_passes++;
    if (p->n_rows > 0) is_done = run_rows(p);
    for (uint32_t i = 0; i < p->n_plan; i++) p->plan[i]->planned = false;
    if (is_done) {
        for (uint32_t i = 0; i < p->n_plan; i++) commit(p, p->plan[i]);
        choose_all(p);
        hand_out_all(p);
    }
    thread_turn_give(&e->pass);
    return p->n_plan > 0;
}

static void *run(void *arg)
{
    scheduler *p = arg;
    while (!atomic_load(&p->closing)) {
        uint32_t seen = atomic_load(&p->bell.n_rings);
        take_submitted(p);
        end_canceled(p);
        if (!run_pass(p)) thread_bell_wait(&p->bell, seen);
    }
    return NULL;
}

int scheduler_open(scheduler **out, cerium_engine *e, cerium_error *err)
{
    scheduler *p = memory_zalloc(1, sizeof *p);
    if (!p) return error_set(err, CERIUM_ERR_MEMORY, "no memory for requests");
    p->engine = e;
    p->prompt_ns_max = PLAN_PROMPT_NS_MAX;
    p->slowness = 1;
    p->riders_max = ENGINE_STREAMS_MAX;
    p->active = memory_zalloc(e->sessions_max, sizeof(cerium_session *));
    p->shares = memory_zalloc(e->sessions_max, sizeof *p->shares);
    if (!p->active || !p->shares || thread_start(&p->thread, run, p)) {
        p->engine = NULL;
        scheduler_close(&p);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory or thread for requests");
    }
    *out = p;
    return CERIUM_OK;
}

void scheduler_close(scheduler **sched)
{
    if (!sched || !*sched) return;
    scheduler *p = *sched;
    if (p->engine) {
        atomic_store(&p->closing, true);
        scheduler_ring(p);
        pthread_join(p->thread, NULL);
    }
    memory_free(p->shares);
    memory_free(p->active);
    memory_free(p);
    *sched = NULL;
}
