/* room.c - who has pages: claims are ranked, and the lowest gives up first.
 *
 * Every session has a rank, the smaller the better: working ones by class and by the order in which
 * their work began, idle ones behind all of them, the least recently used last.  Ranks of work do
 * not change, and nothing is taken from those above: so the first of all keeps what it computed and
 * comes to its end, however few pages there are. */
#include "engine/engine.h"

enum { CLASS_SHIFT = 56 };

uint64_t rank_of(uint32_t class_, uint64_t ticket)
{
    return (uint64_t)class_ << CLASS_SHIFT | ticket;
}

uint64_t rank_idle(cerium_engine *e) { return UINT64_MAX - atomic_fetch_add(&e->n_tickets, 1); }

/* Let the session that ranks lowest, below s and outside of this pass, rest. False: no such. */
static bool take_from_lowest(cerium_engine *e, const cerium_session *s)
{
    uint64_t mine = atomic_load(&s->rank), lowest = mine;
    cerium_session *from = NULL;
    pthread_mutex_lock(&e->lock);
    for (cerium_session *other = e->sessions; other; other = other->next) {
        uint64_t rank = atomic_load(&other->rank);
        if (other == s || other->planned || rank <= lowest) continue;
        if (kv_sequence_blocks(other->sequence) == 0) continue;
        from = other;
        lowest = rank;
    }
    if (from) kv_sequence_rest(from->sequence);
    pthread_mutex_unlock(&e->lock);
    return from;
}

int engine_make_room(cerium_engine *e, cerium_session *s, uint32_t end)
{
    for (;;) {
        int status = kv_sequence_reserve(s->sequence, end);
        if (status != CERIUM_ERR_MEMORY || !take_from_lowest(e, s)) return status;
    }
}

uint32_t engine_borrow(cerium_engine *e, cerium_session *s)
{
    uint32_t n = kv_sequence_length(s->sequence), n_max = s->n_tokens - 1;
    pthread_mutex_lock(&e->lock);
    for (cerium_session *other = e->sessions; other && n < n_max; other = other->next)
        if (other != s && other->tenant == s->tenant)
            n = kv_sequence_borrow(s->sequence, other->sequence, s->tokens, n_max);
    pthread_mutex_unlock(&e->lock);
    return n;
}

void engine_want(cpu_row *row, const cerium_sampling *sampling, const int32_t *tokens, uint32_t n,
                 const int32_t *drafts, uint32_t n_drafts, const uint64_t *allowed)
{
    uint32_t look_back = (uint32_t)sampler_look_back(sampling, n);
    row->n_best = sampler_best(sampling);
    row->allowed = allowed;
    row->apart[0] = tokens + n - look_back;
    row->n_apart[0] = look_back;
    row->apart[1] = drafts;
    row->n_apart[1] = look_back ? n_drafts : 0;
}

int engine_run(cerium_engine *e, uint32_t n_rows, const _Atomic bool *cancel)
{
    uint32_t n_logits = 0;
    for (uint32_t i = 0; i < n_rows; i++) n_logits += e->rows[i].logits != NULL;
    bool measures = n_logits == n_rows && e->speculates && pace_wants(&e->pace, n_rows);
    bool clocks = measures || e->draft;
    uint64_t start = clock_ns(), used = clocks ? clock_thread_ns() : 0;
    int status = cpu_executor_run(e->executor, e->rows, n_rows, cancel);
    uint64_t ns = clock_ns() - start;
    atomic_fetch_add(&e->counts.busy_ns, ns);
    if (status) return status;
    atomic_fetch_add(&e->counts.passes, 1);
    atomic_fetch_add(&e->counts.head_bytes, cpu_executor_head_bytes(e->executor));
    cost_learn(&e->cost, n_rows, ns);
    if (clocks) used = clock_thread_ns() - used;
    if (measures) pace_learn(&e->pace, n_rows, used);
    if (e->draft) worth_earn(&e->draft->worth, (double)used);
    return CERIUM_OK;
}
