/* scheduler.c - the thread that runs requests (continuous batching): takes them in, plans and runs
 * passes, chooses tokens and hands them out. */
#include "engine/scheduler.h"

#include "base/memory.h"

/* ---- in and out ---- */

void scheduler_submit(scheduler *p, cerium_session *s)
{
    uint32_t class_ = s->request->class_;
    atomic_fetch_add(&p->engine->counts.waiting[class_], 1);
    atomic_fetch_add(&p->engine->counts.prompt_tokens, s->request->n_prompt);
    cerium_session *first = atomic_load(&p->submitted);
    do s->request->next_submitted = first;
    while (!atomic_compare_exchange_weak(&p->submitted, &first, s));
    if (class_ < atomic_load(&p->pass_class) ||
        (class_ == atomic_load(&p->alone_class) && s->share_key != atomic_load(&p->alone_key)))
        atomic_store(&p->engine->stop_pass, true);
    engine_wake(p->engine);
}

static void take_submitted(scheduler *p)
{
    cerium_session *s = atomic_exchange(&p->submitted, NULL), *next;
    for (; s; s = next) {
        request *r = s->request;
        next = r->next_submitted;
        r->share = shares_join(&p->shares, s->share_key, r->class_);
        CHECK(p->n_active < p->engine->sessions_max);
        p->active[p->n_active++] = s;
    }
}

/* End the request.  Once its last event is out, the session belongs to its owner. */
static void finish(scheduler *p, cerium_session *s, int status, cerium_stop stop)
{
    request *r = s->request;
    uint32_t at = 0;
    while (p->active[at] != s) at++;
    p->active[at] = p->active[--p->n_active];
    shares_leave(&p->shares, r->share);
    engine_counts *counts = &p->engine->counts;
    atomic_fetch_sub(r->begun ? &counts->running[r->class_] : &counts->waiting[r->class_], 1);
    atomic_store(&s->duration_ns, clock_ns() - atomic_load(&s->start_ns));
    atomic_store(&s->pages.rank, rank_idle(p->engine));
    kv_sequence_mark(s->pages.sequence);
    session_cache_answer(s);
    event_slot event = {.kind = CERIUM_EVENT_DONE, .status = status, .stop = stop};
    request_push(r, &event, NULL);
    atomic_store(&r->is_over, true);
}

static void end_canceled(scheduler *p)
{
    for (uint32_t i = p->n_active; i-- > 0;) {
        cerium_session *s = p->active[i];
        if (!atomic_load(&s->cancel)) continue;
        atomic_store(&s->cancel, false);
        if (s->slot.n_new == 0) session_shorten(s, s->n_computed);
        finish(p, s, CERIUM_ERR_CANCELED, CERIUM_STOP_NONE);
    }
}

/* ---- a pass ---- */

static bool any_canceled(const scheduler *p)
{
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (atomic_load(&p->slots[i]->cancel)) return true;
    return false;
}

/* Whether all requests of the pass's class are of one key. */
static bool is_of_one_key(const scheduler *p)
{
    const request *first = p->slots[0]->request;
    for (uint32_t i = 0; i < p->n_active; i++) {
        const request *r = p->active[i]->request;
        if (r->class_ == first->class_ && r->share != first->share) return false;
    }
    return true;
}

/* Who may stop the pass: a higher class, if the pass has a prompt or is long; a cancel of the
 * request that has most of its rows; another key of its class, which would wait for all streams of
 * this key. */
static void open_to_stops(scheduler *p)
{
    uint32_t class_ = 0;
    atomic_store(&p->engine->stop_pass, false);
    if (batch_estimate(p, p->rows.n_rows) > BATCH_STOP_NS_MIN)
        class_ = p->slots[0]->request->class_;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const request *r = p->slots[i]->request;
        const slot *x = &p->slots[i]->slot;
        if (x->n_rows > 1 && r->class_ > class_ && !p->is_for_starved) class_ = r->class_;
        atomic_store(&p->slots[i]->stops_pass, 2 * (x->n_rows + x->n_drafts) >= p->rows.n_rows);
    }
    atomic_store(&p->pass_class, p->engine->turn.is_starved ? 0 : class_);
    if (p->stop_credit_ns >= 0 && batch_estimate(p, p->rows.n_rows) > BATCH_STOP_NS_MIN &&
        is_of_one_key(p)) {
        atomic_store(&p->alone_key, p->slots[0]->share_key);
        atomic_store(&p->alone_class, p->slots[0]->request->class_);
    }
}

static void close_to_stops(scheduler *p)
{
    atomic_store(&p->pass_class, 0);
    atomic_store(&p->alone_class, CERIUM_CLASSES);
    for (uint32_t i = 0; i < p->n_slots; i++) atomic_store(&p->slots[i]->stops_pass, false);
}

/* Run the rows of the plan.  False: it was stopped, and must be planned again. */
static bool run_rows(scheduler *p)
{
    bool has_prompt = p->rows.n_more > p->rows.n_drafts;
    open_to_stops(p);
    int status = CERIUM_ERR_CANCELED;
    bool is_late = atomic_load(&p->submitted) || any_canceled(p) ||
                   shared_team_wanted(p->engine->shared) < atomic_load(&p->pass_class);
    uint64_t start = clock_ns();
    if (!is_late) status = pass_run(&p->rows, &p->engine->stop_pass);
    close_to_stops(p);
    if (status == CERIUM_OK) {
        if (has_prompt && p->prompt_ns_max < BATCH_PROMPT_NS_MAX) p->prompt_ns_max *= 2;
        return true;
    }
    if (is_late || any_canceled(p)) return false;
    batch_stopped(p, (double)(clock_ns() - start));
    /* Preempted: the next piece is smaller, so that many interruptions cannot hold it up. */
    atomic_fetch_add(&p->engine->counts.preempted_passes, 1);
    if (p->prompt_ns_max > BATCH_PROMPT_NS_MIN) p->prompt_ns_max /= 2;
    return false;
}

/* The rows of s are computed. */
static void commit(scheduler *p, cerium_session *s)
{
    request *r = s->request;
    const uint32_t before = r->furthest;
    slot_commit(s);
    if (s->slot.is_guest) batch_count_reused(s, s->n_computed);
    r->last_pass = p->n_passes;
    if (r->furthest < r->n_prompt && s->n_computed > r->furthest) {
        uint32_t end = s->n_computed < r->n_prompt ? s->n_computed : r->n_prompt;
        atomic_fetch_add(&s->computed_tokens, end - r->furthest);
    }
    if (s->n_computed > r->furthest) r->furthest = s->n_computed;
    if (!r->prompt_done && s->n_computed >= r->n_prompt) {
        r->prompt_done = true;
        kv_sequence_mark(s->pages.sequence);
        atomic_store(&s->prompt_ns, clock_ns() - atomic_load(&s->start_ns) -
                                        atomic_load(&s->queue_ns));
    }
    const bool grew = before < r->n_prompt && r->furthest > before;
    if (grew && r->notify_prompt && r->notify) r->notify(r->user);
}

/* ---- choosing tokens: each request is a unit of work for the team ---- */

static bool samples(const cerium_session *s)
{
    return s->n_computed == s->n_tokens && s->slot.new_tokens_max > 0 &&
           s->n_tokens < s->context_tokens;
}

static void choose(cerium_session *s, sampler *scratch)
{
    slot_choose(s, scratch);
    if (s->slot.guide && s->slot.n_chosen) slot_force(s, request_room(s->request));
}

static void choose_units(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    scheduler *p = arg;
    (void)phase;
    for (uint32_t i = first; i < end; i++)
        if (samples(p->slots[i])) choose(p->slots[i], p->engine->samplers[worker]);
}

static void choose_all(scheduler *p)
{
    team_phase phase = {.n_units = p->n_slots, .chunk = 1};
    if (p->n_slots == 1)
        choose_units(p, 0, 0, 1, 0);
    else
        team_run(p->engine->workers, &phase, 1, choose_units, p);
}

/* ---- handing out ---- */

/* Append one of the chosen tokens and tell the reader. */
static slot_token hand_out(cerium_session *s)
{
    request *r = s->request;
    slot_token t = slot_append(s, request_text(r, answer_text_max(s->engine)));
    uint64_t now = clock_ns();
    event_slot event = {.kind = CERIUM_EVENT_STEP,
                        .token = t.chosen->token,
                        .logprob = t.chosen->logprob,
                        .digest = t.digest,
                        .stop = t.stop,
                        .n_top = t.chosen->n_top,
                        .text_len = t.text_len,
                        .text_held = t.text_held,
                        .duration_ns = now - r->token_ns};
    r->token_ns = now;
    if (s->slot.n_new == 1) atomic_store(&s->first_token_ns, now - atomic_load(&s->start_ns));
    atomic_fetch_add(&s->new_tokens, 1);
    request_push(r, &event, t.top);
    return t;
}

static void count_drafts(cerium_session *s)
{
    const slot *x = &s->slot;
    atomic_fetch_add(&s->drafted_tokens, x->n_drafts);
    atomic_fetch_add(&s->accepted_tokens, x->n_accepted);
    if (x->draft_source != DRAFT_PREDICTION) return;
    atomic_fetch_add(&s->drafted_predicted, x->n_drafts);
    atomic_fetch_add(&s->accepted_predicted, x->n_accepted);
}

/* Within a pass: the request ends with logits; first adopt what other sessions computed. */
static void end_with_logits(scheduler *p, cerium_session *s, int status, cerium_stop stop)
{
    const uint32_t n = s->n_computed;
    slot_keep_logits(s);
    if (s->slot.is_guest) s->n_computed = kv_sequence_adopt(s->pages.sequence, s->tokens, n);
    if (s->n_computed < n) s->n_computed = claim_borrow(&s->pages, s->tokens, n);
    finish(p, s, status, stop);
}

/* The chosen tokens of s become part of its timeline. */
static void answer(scheduler *p, cerium_session *s)
{
    slot *x = &s->slot;
    slot_token last = {0};
    slot_accept(s);
    while (x->n_appended < x->n_chosen && !last.is_last) last = hand_out(s);
    slot_end(s);
    count_drafts(s);
    s->has_logits = false;
    if (!last.is_last) {
        session_follow(s);
        return;
    }
    end_with_logits(p, s, CERIUM_OK, last.stop);
}

static void hand_out_all(scheduler *p)
{
    for (uint32_t i = 0; i < p->n_slots; i++) {
        cerium_session *s = p->slots[i];
        const slot *x = &s->slot;
        int status = CERIUM_OK;
        cerium_stop stop = CERIUM_STOP_NONE;
        if (s->n_computed < s->n_tokens) continue;
        if (samples(s) && x->n_chosen) {
            answer(p, s);
            continue;
        }
        if (samples(s) && x->is_broken) status = CERIUM_ERR_NUMBERS;
        else if (samples(s)) stop = CERIUM_STOP_STUCK; /* the guide has no beginning */
        else if (x->new_tokens_max) stop = CERIUM_STOP_LIMIT; /* no room for an answer */
        end_with_logits(p, s, status, stop);
    }
}

/* ---- the thread ---- */

static void begin_requests(scheduler *p)
{
    engine_counts *counts = &p->engine->counts;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        cerium_session *s = p->slots[i];
        request *r = s->request;
        if (r->begun) continue;
        r->begun = true;
        atomic_store(&s->queue_ns, clock_ns() - atomic_load(&s->start_ns));
        /* In this order: who reads waiting, then running, never finds it in neither. */
        atomic_fetch_add(&counts->running[r->class_], 1);
        atomic_fetch_sub(&counts->waiting[r->class_], 1);
    }
}

static uint32_t best_class(const scheduler *p)
{
    uint32_t best = CERIUM_CLASSES - 1;
    for (uint32_t i = 0; i < p->n_active; i++)
        if (p->active[i]->request->class_ < best) best = p->active[i]->request->class_;
    return best;
}

/* A pass lasts longer than its rows: choosing tokens adds to it, most of all with requested
 * probabilities. */
static void end_pass(scheduler *p, uint64_t began_ns)
{
    for (uint32_t i = 0; i < p->n_slots; i++) {
        commit(p, p->slots[i]);
        kept_rows_take(p->slots[i]);
    }
    shares_charge(&p->shares, p->rows.n_rows, &p->engine->cost);
    choose_all(p);
    hand_out_all(p);
    batch_account(p, (double)(clock_ns() - began_ns));
}

/* Run one pass.  False: no request can continue now. */
static bool run_pass(scheduler *p)
{
    cerium_engine *e = p->engine;
    if (p->n_active == 0) {
        if (p->keeps_threads) engine_leave_threads(e);
        p->keeps_threads = false;
        return false;
    }
    engine_begin_pass(e, best_class(p));
    batch_build(p);
    bool is_done = p->n_slots > 0;
    begin_requests(p);
    p->n_passes++;
    const uint64_t began_ns = clock_ns();
    if (p->rows.n_rows > 0) is_done = run_rows(p);
    for (uint32_t i = 0; i < p->n_slots; i++) p->slots[i]->pages.planned = false;
    if (is_done) end_pass(p, began_ns);
    p->keeps_threads = p->n_slots > 0 && p->n_active > 0;
    engine_end_pass(e, p->keeps_threads);
    return p->n_slots > 0;
}

bool scheduler_turn(scheduler *p)
{
    take_submitted(p);
    end_canceled(p);
    return run_pass(p);
}

static void *run(void *arg)
{
    scheduler *p = arg;
    while (!atomic_load(&p->closing)) {
        uint32_t seen = atomic_load(&p->engine->bell.n_rings);
        if (!scheduler_turn(p)) thread_bell_wait(&p->engine->bell, seen);
    }
    if (p->keeps_threads) engine_leave_threads(p->engine);
    return NULL;
}

int scheduler_make(scheduler **out, cerium_engine *e, cerium_error *err)
{
    scheduler *p = memory_zalloc(1, sizeof *p);
    if (!p) return error_set(err, CERIUM_ERR_MEMORY, "no memory for requests");
    p->engine = e;
    e->turn.stop = &e->stop_pass;
    e->turn.stops_below = &p->pass_class;
    atomic_store(&p->alone_class, CERIUM_CLASSES);
    p->prompt_ns_max = BATCH_PROMPT_NS_MAX;
    p->slowness = 1;
    p->riders_max = ENGINE_STREAMS_MAX;
    p->active = memory_zalloc(e->sessions_max, sizeof(cerium_session *));
    p->shares = (time_shares){.of = memory_zalloc(e->sessions_max, sizeof *p->shares.of),
                              .n = e->sessions_max};
    if (!p->active || !p->shares.of) {
        scheduler_close(&p);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for requests");
    }
    *out = p;
    return CERIUM_OK;
}

int scheduler_open(scheduler **out, cerium_engine *e, cerium_error *err)
{
    scheduler *p = NULL;
    RETURN_IF(scheduler_make(&p, e, err));
    p->has_thread = !thread_start(&p->thread, "scheduler", run, p);
    if (!p->has_thread) {
        scheduler_close(&p);
        return error_set(err, CERIUM_ERR_MEMORY, "no thread for requests");
    }
    *out = p;
    return CERIUM_OK;
}

void scheduler_close(scheduler **sched)
{
    if (!sched || !*sched) return;
    scheduler *p = *sched;
    if (p->has_thread) {
        atomic_store(&p->closing, true);
        engine_wake(p->engine);
        pthread_join(p->thread, NULL);
    }
    memory_free(p->shares.of);
    memory_free(p->active);
    memory_free(p);
    *sched = NULL;
}
