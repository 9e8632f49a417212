/* batch.c - chooses the requests of the next pass.
 *
 * The best class with work has the pass: all of its next tokens, then pieces of its prompts
 * (chunked prefill), while the pass stays short.  Lower classes may take a sixteenth of the time:
 * their next tokens are added, and short pieces of their prompts take a turn, while the measured
 * time that they added to earlier passes is within that share.  So no class starves, and none is
 * slowed by more.  Within a class keys have equal shares of the time (shares.h); within a key the
 * request that has waited longest goes first. */
#include "engine/scheduler.h"

#include "base/memory.h"

enum {
    PROMPT_ROWS_MIN = 16, PROMPT_ROWS_STEP = 32, RIDERS_UNKNOWN_MAX = 8,
    SHARED_ROWS_MIN = 4, /* rows worth a pass of their own: fewer cost almost nothing */
};

static const double LOWER_SHARE = 1.0 / 16;  /* of the time: what lower classes may add */
static const double LOWER_CREDIT_NS_MAX = BATCH_PROMPT_NS_MIN; /* they do not save up more */
static const double RIDERS_COST_MAX = 1.1;  /* of the pass without them */
static const double RIDERS_EXCESS_MAX = 0.25; /* of it, when it was measured: half as many then */
static const double SLOWNESS_WEIGHT = 0.1;
static const double STOPPED_SHARE = 1.0 / 8; /* of the time: what may be lost for other keys */
static const double STOP_CREDIT_NS_MAX = BATCH_PROMPT_NS_MAX;

static int goes_before(const void *a, const void *b)
{
    const request *x = (*(cerium_session *const *)a)->request;
    const request *y = (*(cerium_session *const *)b)->request;
    if (x->class_ != y->class_) return x->class_ < y->class_ ? -1 : 1;
    if (x->share_ns != y->share_ns) return x->share_ns < y->share_ns ? -1 : 1;
    if (x->share != y->share) return x->share < y->share ? -1 : 1;
    if (x->last_pass != y->last_pass) return x->last_pass < y->last_pass ? -1 : 1;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

/* Load the part of its prompt that is on disk first; other requests run meanwhile.  Before that,
 * its session releases blocks that are not of the prompt, and makes room. */
static bool is_fetched(cerium_session *s)
{
    request *r = s->request;
    if (r->begun || session_has_all_logits(s, s->n_tokens)) return true;
    if (r->fetch == 0)
        s->n_computed = kv_sequence_adopt(s->pages.sequence, s->tokens,
                                          embedding_skips(s, s->n_tokens - 1));
    return engine_fetch(s, &r->fetch);
}

/* Leave out a request whose reader is slow; other requests may take its pages. */
static bool can_run(cerium_session *s)
{
    request *r = s->request;
    bool has_room = request_has_room(r);
    if (has_room == r->is_parked)
        atomic_store(&s->pages.rank,
                     has_room ? rank_of(r->class_, r->ticket) : rank_idle(s->engine));
    r->is_parked = !has_room;
    return has_room && is_fetched(s);
}

void batch_count_reused(cerium_session *s, uint32_t n)
{
    request *r = s->request;
    if (n > r->n_prompt) n = r->n_prompt;
    if (n <= r->furthest) return;
    atomic_fetch_add(&s->reused_tokens, n - r->furthest);
    atomic_fetch_add(&s->engine->counts.reused_tokens, n - r->furthest);
    r->furthest = n;
}

/* Adopt the computed part of the timeline: at first, after its pages were taken, and before each
 * piece of a prompt, as another request may have computed it meanwhile. */
static void settle(cerium_session *s)
{
    request *r = s->request;
    if (session_has_all_logits(s, s->n_tokens)) {
        batch_count_reused(s, s->n_computed);
        return;
    }
    bool is_prompt = s->n_tokens - s->n_computed > 1;
    if (r->begun && !is_prompt && kv_sequence_length(s->pages.sequence) == s->n_computed) return;
    const uint32_t most = embedding_skips(s, s->n_tokens - 1);
    s->n_computed = kv_sequence_adopt(s->pages.sequence, s->tokens, most);
    if (s->n_computed < most) s->n_computed = claim_borrow(&s->pages, s->tokens, most);
    batch_count_reused(s, s->n_computed);
}

/* Whether a request of the pass computes what s would compute next: s finds it after the pass. */
static bool is_being_computed(const scheduler *p, const cerium_session *s)
{
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const cerium_session *other = p->slots[i];
        uint32_t first = other->n_computed, end = first + other->slot.n_rows;
        uint32_t need = s->n_computed + SHARED_ROWS_MIN;
        if (other->pages.tenant == s->pages.tenant && first <= s->n_computed && end >= need &&
            s->n_tokens > need && !memcmp(s->tokens, other->tokens, need * sizeof *s->tokens))
            return true;
    }
    return false;
}

/* Put s into the pass without a row if another request computes the row that it needs: choices of
 * one prompt, while their tokens are equal. */
static bool share(scheduler *p, cerium_session *s)
{
    if (session_has_all_logits(s, s->n_tokens)) return false;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        if (!pass_share(&p->rows, s, p->slots[i])) continue;
        p->slots[p->n_slots++] = s;
        s->pages.planned = true;
        return true;
    }
    if (!kept_rows_share(s)) return false;
    p->slots[p->n_slots++] = s;
    s->pages.planned = true;
    return true;
}

static time_share *share_of(const scheduler *p, const cerium_session *s)
{
    return &p->shares.of[s->request->share];
}

/* Rows left to its key. */
static uint32_t share_left(const scheduler *p, const cerium_session *s)
{
    const time_share *x = share_of(p, s);
    return x->rows < x->rows_max ? x->rows_max - x->rows : 0;
}

/* Put the next n tokens of s into the pass: see pass_add(). */
static void add(scheduler *p, cerium_session *s, uint32_t n, bool is_alone)
{
    const slot_terms terms = {.tokens_max = request_room(s->request),
                              .n_sharing = p->n_active,
                              .is_alone = is_alone};
    if (pass_add(&p->rows, s, n, &terms)) return;
    p->slots[p->n_slots++] = s;
    s->pages.planned = true;
    share_of(p, s)->rows += s->slot.n_rows + s->slot.n_drafts + (s->slot.n_rows == 0);
}

/* Does it need only its next token: one row, or the rows of forced tokens, and drafts? */
static bool is_at_its_end(cerium_session *s)
{
    uint32_t most = s->slot.n_new > 0 ? CERIUM_STEP_TOKENS_MAX : 1;
    if (!session_has_all_logits(s, s->n_tokens) &&
        (!s->request->begun || s->n_tokens - s->n_computed > most))
        return false;
    settle(s);
    return s->n_tokens - s->n_computed <= most;
}

static bool fits_another(const scheduler *p) { return p->n_slots < ENGINE_STREAMS_MAX; }

/* Put the rest of s into the pass, if it is small and fits. */
static void add_end(scheduler *p, cerium_session *s, bool is_alone)
{
    if (s->pages.planned || !can_run(s) || share(p, s)) return;
    if (!share_left(p, s) || !is_at_its_end(s)) return;
    uint32_t n = s->n_tokens - s->n_computed;
    if (n <= 1 || n - 1 <= p->engine->batch_tokens_max - p->rows.n_more) add(p, s, n, is_alone);
}

/* Next tokens of the requests [n] of one class. */
static void add_next(scheduler *p, cerium_session **of, uint32_t n)
{
    for (uint32_t i = 0; i < n && fits_another(p); i++)
        add_end(p, of[i], n == 1 && p->n_active == 1);
}

/* Rows of a prompt that its key may have: all of it, or enough for a piece. */
static uint32_t prompt_left(const scheduler *p, const cerium_session *s, uint32_t need)
{
    const time_share *x = share_of(p, s);
    uint32_t left = share_left(p, s);
    if (x->piece_min > x->rows && left < x->piece_min - x->rows) left = x->piece_min - x->rows;
    return left >= need || left >= PROMPT_ROWS_MIN ? left : 0;
}

/* Add a rest that is too short for a piece of its own, if the pass has room. */
static uint32_t rows_of_piece(uint32_t need, uint32_t left, uint32_t most)
{
    if (need <= left || (need < left + PROMPT_ROWS_MIN && need <= most)) return need;
    return left;
}

/* Pieces of prompts, in order, as long as the pass stays short. */
static void add_prompts(scheduler *p, cerium_session **of, uint32_t n, double prompt_ns_max)
{
    const cerium_engine *e = p->engine;
    uint32_t most = e->batch_tokens_max - p->rows.n_more; /* rows beyond one each */
    uint32_t rows = cost_rows_within(&e->cost, prompt_ns_max, p->rows.n_rows + most);
    uint32_t left = rows > p->rows.n_rows ? rows - p->rows.n_rows : 0;
    if (left > PROMPT_ROWS_STEP) left -= left % PROMPT_ROWS_STEP;
    if (left < PROMPT_ROWS_MIN) left = PROMPT_ROWS_MIN;
    if (left > most) left = most;
    for (uint32_t i = 0; i < n && left > 0 && fits_another(p); i++) {
        cerium_session *s = of[i];
        if (s->pages.planned || !can_run(s) || share(p, s)) continue;
        settle(s);
        if (is_being_computed(p, s)) continue;
        uint32_t need = s->n_tokens - s->n_computed, may = prompt_left(p, s, need);
        if (may == 0) continue;
        most = e->batch_tokens_max - p->rows.n_more;
        if (left > most) left = most; /* drafts took the rest */
        if (left == 0) return;
        const uint32_t before = p->rows.n_rows;
        add(p, s, rows_of_piece(need, left < may ? left : may, most), false);
        const uint32_t added = p->rows.n_rows - before;
        left -= added < left ? added : left;
    }
}

/* Add next tokens of lower classes, while the pass is expected to last hardly longer. */
static void add_riders(scheduler *p, cerium_session **of, uint32_t n)
{
    const cost_model *cost = &p->engine->cost;
    double most = RIDERS_COST_MAX * cost_estimate(cost, p->rows.n_rows);
    for (uint32_t i = 0; i < n && fits_another(p) && p->n_slots - p->n_own < p->riders_max; i++) {
        uint32_t rows = p->rows.n_rows + 1;
        bool is_known = cost_is_known(cost, rows);
        if (is_known ? cost_estimate(cost, rows) > most : rows > RIDERS_UNKNOWN_MAX) return;
        add_end(p, of[i], false);
    }
}

/* The end of the requests of one class that begin at `at`; they are sorted. */
static uint32_t end_of_class(const scheduler *p, uint32_t at)
{
    uint32_t end = at, class_ = p->active[at]->request->class_;
    while (end < p->n_active && p->active[end]->request->class_ == class_) end++;
    return end;
}

/* Add a short piece of a prompt of a lower class, each class in turn: a stream of higher ones would
 * starve it.  False: none waits. */
static bool add_starved(scheduler *p, uint32_t first)
{
    uint32_t begins[CERIUM_CLASSES], n = 0, before = p->n_slots;
    if (p->lower_credit_ns < 0) return false;
    for (uint32_t at = first; at < p->n_active; at = end_of_class(p, at)) begins[n++] = at;
    for (uint32_t i = 0; i < n && p->n_slots == before; i++) {
        uint32_t at = begins[(p->n_passes + i) % n];
        add_prompts(p, p->active + at, end_of_class(p, at) - at, BATCH_PROMPT_NS_MIN);
    }
    return p->n_slots > before;
}

/* Rows that s would have in a pass of its own. */
static uint32_t ready_rows(const scheduler *p, cerium_session *s)
{
    if (!can_run(s)) return 0;
    uint32_t n = is_at_its_end(s) ? 1 : s->n_tokens - s->n_computed;
    if (n <= 1) return 1;
    uint32_t most = cost_rows_within(&p->engine->cost, p->prompt_ns_max, n);
    return most < p->engine->batch_tokens_max ? most : p->engine->batch_tokens_max;
}

/* If several keys have requests among these of one class, bound the rows of each. */
static void share_out(scheduler *p, cerium_session **of, uint32_t n)
{
    if (of[0]->request->share == of[n - 1]->request->share) return; /* sorted */
    for (uint32_t i = 0; i < n; i++) share_of(p, of[i])->ready += ready_rows(p, of[i]);
    for (uint32_t i = 0; i < n; i++) { /* prompts of a key run one after the other */
        time_share *x = share_of(p, of[i]);
        if (x->ready > ENGINE_STREAMS_MAX)
            x->ready = cost_rows_within(&p->engine->cost, p->prompt_ns_max, x->ready);
    }
    shares_bound(&p->shares, of[0]->request->class_, &p->engine->cost, BATCH_PROMPT_NS_MIN);
}

/* Fill the best class's part of the pass: next tokens, then pieces of prompts, its own or in turn
 * those of lower classes. */
static void add_class(scheduler *p, uint32_t at, uint32_t end)
{
    add_next(p, p->active + at, end - at);
    p->n_own = p->n_slots, p->n_own_rows = p->rows.n_rows;
    p->is_for_starved = end < p->n_active && add_starved(p, end);
    if (p->is_for_starved) return;
    add_prompts(p, p->active + at, end - at, p->prompt_ns_max);
    p->n_own = p->n_slots, p->n_own_rows = p->rows.n_rows;
}

void batch_build(scheduler *p)
{
    p->n_slots = p->n_own = p->n_own_rows = 0;
    p->rows = (pass_rows){.engine = p->engine};
    p->is_for_starved = false;
    shares_clear(&p->shares);
    kept_rows_begin(p->engine);
    for (uint32_t i = 0; i < p->n_active; i++) {
        request *r = p->active[i]->request;
        r->share_ns = p->shares.of[r->share].ns;
    }
    qsort(p->active, p->n_active, sizeof(cerium_session *), goes_before);
    for (uint32_t at = 0, end; at < p->n_active && p->n_slots == 0; at = end) {
        end = end_of_class(p, at);
        share_out(p, p->active + at, end - at);
        add_class(p, at, end);
        if (p->n_slots == 0) { /* the request in turn finds no room: others do not wait for it */
            shares_clear(&p->shares);
            add_class(p, at, end);
        }
        if (p->n_slots > 0 && p->lower_credit_ns >= 0)
            add_riders(p, p->active + end, p->n_active - end);
    }
    p->expected_ns = batch_estimate(p, p->rows.n_rows);
}

double batch_estimate(const scheduler *p, uint32_t n_rows)
{
    return n_rows ? p->slowness * cost_estimate(&p->engine->cost, n_rows) : 0;
}

/* How long the pass lasted; one that was disturbed, because others had the processor, is not what
 * its requests cost: they would pay for it many times as long. */
static double undisturbed(const scheduler *p, double ns)
{
    const double most = 2 * p->expected_ns;
    return most > 0 && ns > most ? most : ns;
}

/* The cost model knows the number of rows, not their attention spans; recent passes of one class
 * measure that factor, so passes with and without other classes can be compared. */
void batch_account(scheduler *p, double ns)
{
    double own_ns = batch_estimate(p, p->n_own_rows);
    ns = undisturbed(p, ns);
    uint32_t n_lower = p->n_slots - p->n_own;
    if (n_lower == 0) {
        double ratio = own_ns > 0 ? ns / own_ns : 1;
        p->slowness *= 1 + SLOWNESS_WEIGHT * ((ratio < 2 ? ratio : 2) - 1);
        own_ns = ns;
    } else {
        bool is_much = ns - own_ns > RIDERS_EXCESS_MAX * own_ns;
        if (is_much && !p->is_for_starved) p->riders_max = n_lower / 2 + 1;
        else if (p->riders_max < ENGINE_STREAMS_MAX) p->riders_max++;
    }
    p->lower_credit_ns += LOWER_SHARE * own_ns - (ns - own_ns);
    if (p->lower_credit_ns > LOWER_CREDIT_NS_MAX) p->lower_credit_ns = LOWER_CREDIT_NS_MAX;
    p->stop_credit_ns += STOPPED_SHARE * ns;
    if (p->stop_credit_ns > STOP_CREDIT_NS_MAX) p->stop_credit_ns = STOP_CREDIT_NS_MAX;
}

void batch_stopped(scheduler *p, double ns) { p->stop_credit_ns -= undisturbed(p, ns); }
