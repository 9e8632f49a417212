/* team.c - claims, completion counts and the waiting of the compute team.
 *
 * Every phase ever run has a number, its epoch.  The slab of a worker is one 64-bit word
 * (epoch, next unit); a claim is a compare-and-swap that also checks the epoch, so a worker that
 * slept through the end of a phase, or of the whole pass, can claim nothing in it.  `done` counts
 * finished units over all time: phase e is over when done reaches the sum of units up to e.
 *
 * A late worker may read the description of a phase while the next pass is being written over it.
 * So descriptions are read as a seqlock keyed by epoch, and nothing else of a pass (fn, arg, what
 * fn reads) is touched before a claim has succeeded: from then on the phase cannot end until the
 * claimed units are counted, and the pass stays what it is.
 *
 * Slabs are numbered by rank: with fewer workers than all there are fewer slabs, those of ranks
 * below n_slabs.  A rank is only where a worker begins to look for work, so a worker with an old
 * rank does no harm. */
#include "cpu/team.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/thread.h"
#include "kernels/kernels.h"

enum { UNIT_BITS = 20, LATE_ONCE = 1 << 16 };
_Static_assert(TEAM_UNITS_MAX < 1 << UNIT_BITS, "a slab word holds a unit");

enum { SET_READY = 1, SET_RESTING = 2 }; /* of sleepers: those to wake for a pass, and others */

typedef struct {
    _Atomic uint64_t epoch; /* 0 while it is being written */
    _Atomic uint64_t done_target;
    _Atomic uint32_t phase, n_units, chunk, n_slabs;
} phase_slot;

typedef struct {
    _Alignas(64) _Atomic uint64_t word; /* epoch << UNIT_BITS | next unit */
} slab;

typedef struct {
    _Alignas(64) _Atomic uint64_t holds; /* epoch of the units that it is working on; 0 = none */
    _Atomic uint32_t rank;
    team *t;
    pthread_t thread;
    uint32_t index;
    uint64_t late; /* recent count of waits for it, in LATE_ONCE; the caller's */
} worker;

struct team {
    _Alignas(64) _Atomic uint64_t done;
    _Alignas(64) _Atomic uint32_t turn; /* of phases during which a worker slept; futex word */
    _Atomic uint32_t n_waiting;         /* for the end of a phase, asleep */
    _Alignas(64) _Atomic uint32_t generation; /* of passes; futex word of idle workers */
    _Atomic uint32_t n_sleeping, n_active;
    _Atomic bool closing, is_brisk;         /* passes follow each other quickly */
    _Atomic uint64_t first_epoch, end_epoch; /* of the pass of this generation */
    _Alignas(64) slab slabs[TEAM_WORKERS_MAX];
    phase_slot slots[TEAM_PHASES_MAX];
    worker workers[TEAM_WORKERS_MAX];
    team_fn *fn;
    void *arg;
    uint32_t n_workers, n_started;
    uint32_t cpus[THREAD_CPUS_MAX], n_cpus; /* that workers keep to */

    /* the caller's */
    uint64_t end_ns;   /* of the last pass */
    uint64_t sleep_ns; /* of this pass, for workers that the system has taken away */
    worker_tuner tuner;
};

typedef struct {
    uint64_t done_target;
    uint32_t phase, n_units, chunk, n_slabs;
} phase_view;

/* False when that epoch is not there any more. */
static bool read_phase(team *t, uint64_t epoch, phase_view *out)
{
    phase_slot *slot = &t->slots[epoch % TEAM_PHASES_MAX];
    if (atomic_load(&slot->epoch) != epoch) return false;
    out->done_target = atomic_load(&slot->done_target);
    out->phase = atomic_load(&slot->phase);
    out->n_units = atomic_load(&slot->n_units);
    out->chunk = atomic_load(&slot->chunk);
    out->n_slabs = atomic_load(&slot->n_slabs);
    return atomic_load(&slot->epoch) == epoch;
}

static inline uint32_t slab_begin(const phase_view *p, uint32_t s)
{
    return (uint32_t)((uint64_t)p->n_units * s / p->n_slabs);
}

/* Take a chunk of slab s. */
static bool claim(team *t, const phase_view *p, uint64_t epoch, uint32_t s, uint32_t *first,
                  uint32_t *end)
{
    uint32_t begin = slab_begin(p, s), limit = slab_begin(p, s + 1);
    if (begin == limit) return false;
    uint64_t word = atomic_load_explicit(&t->slabs[s].word, memory_order_acquire);
    for (;;) {
        uint64_t at_epoch = word >> UNIT_BITS;
        uint32_t next = at_epoch < epoch ? begin : (uint32_t)(word & TEAM_UNITS_MAX);
        if (at_epoch > epoch || next >= limit) return false;
        uint32_t stop = limit - next > p->chunk ? next + p->chunk : limit;
        uint64_t taken = epoch << UNIT_BITS | stop;
        if (atomic_compare_exchange_weak(&t->slabs[s].word, &word, taken)) {
            *first = next;
            *end = stop;
            return true;
        }
    }
}

/* Work on one phase until nothing is left to claim. */
static void work_on(team *t, const phase_view *p, uint64_t epoch, worker *me)
{
    uint32_t n_done = 0, first, end, rank = atomic_load_explicit(&me->rank, memory_order_relaxed);
    for (uint32_t i = 0; i < p->n_slabs; i++) {
        uint32_t s = (rank + i) % p->n_slabs;
        while (claim(t, p, epoch, s, &first, &end)) {
            if (!n_done) atomic_store_explicit(&me->holds, epoch, memory_order_relaxed);
            t->fn(t->arg, p->phase, first, end, me->index);
            n_done += end - first;
        }
    }
    if (!n_done) return;
    atomic_store_explicit(&me->holds, 0, memory_order_relaxed);
    uint64_t done = atomic_fetch_add(&t->done, n_done) + n_done;
    /* A sleeper counts itself before its last look at done. */
    if (done != p->done_target || !atomic_load(&t->n_waiting)) return;
    atomic_fetch_add(&t->turn, 1);
    thread_wake(&t->turn, THREAD_SET_ALL);
}

/* The caller has waited long: find the worker that the system descheduled. */
static void note_late(team *t, uint64_t epoch)
{
    uint64_t most = 0;
    uint32_t n_steady = t->n_workers;
    for (uint32_t i = 1; i < t->n_workers; i++) {
        worker *w = &t->workers[i];
        if (atomic_load_explicit(&w->holds, memory_order_relaxed) == epoch) w->late += LATE_ONCE;
        if (w->late > most) most = w->late;
    }
    for (uint32_t i = 1; most && i < t->n_workers; i++) n_steady -= t->workers[i].late >= most / 4;
    worker_tuner_see_steady(&t->tuner, n_steady);
}

static void wait_for_phase(team *t, uint64_t epoch, uint64_t target, const worker *me)
{
    thread_spin spin = {0};
    while (atomic_load_explicit(&t->done, memory_order_acquire) < target) {
        if (thread_spin_step(&spin, TEAM_PHASE_SPIN_NS)) continue;
        uint32_t seen = atomic_load(&t->turn);
        uint64_t start = clock_ns();
        if (me->index == 0) note_late(t, epoch);
        atomic_fetch_add(&t->n_waiting, 1);
        if (atomic_load(&t->done) < target) thread_sleep(&t->turn, seen, THREAD_SET_ALL);
        atomic_fetch_sub(&t->n_waiting, 1);
        if (me->index == 0) t->sleep_ns += clock_ns() - start;
    }
}

static void run_pass(team *t, uint64_t first_epoch, uint64_t end_epoch, worker *me)
{
    for (uint64_t epoch = first_epoch; epoch < end_epoch; epoch++) {
        phase_view p;
        if (!read_phase(t, epoch, &p)) return; /* the pass is long over */
        work_on(t, &p, epoch, me);
        wait_for_phase(t, epoch, p.done_target, me);
    }
}

static bool is_active(const team *t, const worker *me)
{
    return atomic_load(&me->rank) < atomic_load(&t->n_active);
}

static void wait_for_pass(team *t, uint32_t seen, const worker *me)
{
    thread_spin spin = {0};
    bool spins = atomic_load(&t->is_brisk) && is_active(t, me);
    while (atomic_load(&t->generation) == seen) {
        if (spins && thread_spin_step(&spin, TEAM_PASS_SPIN_NS)) continue;
        spins = false;
        atomic_fetch_add(&t->n_sleeping, 1);
        /* Whether it rests is asked after it has seen the generation: a change of ranks comes with
         * a new one. */
        if (atomic_load(&t->generation) == seen)
            thread_sleep(&t->generation, seen, is_active(t, me) ? SET_READY : SET_RESTING);
        atomic_fetch_sub(&t->n_sleeping, 1);
    }
}

static void *worker_main(void *arg)
{
    worker *me = arg;
    team *t = me->t;
    uint32_t seen = 0;
    thread_keep_to(t->cpus, t->n_cpus);
    kernel_float_setup();
    for (;;) {
        wait_for_pass(t, seen, me);
        seen = atomic_load(&t->generation);
        if (atomic_load(&t->closing)) return NULL;
        if (!is_active(t, me)) continue;
        uint64_t first = atomic_load(&t->first_epoch), end = atomic_load(&t->end_epoch);
        /* The two may be of neighbouring passes; phases are numbered in their slots, so walking
         * over both is right. */
        run_pass(t, first, end, me);
    }
}

static void begin_generation(team *t, int set)
{
    atomic_fetch_add(&t->generation, 1);
    if (atomic_load(&t->n_sleeping)) thread_wake(&t->generation, set);
}

int team_open(team **out, uint32_t n_workers, cerium_error *err)
{
    CHECK(n_workers >= 1 && n_workers <= TEAM_WORKERS_MAX);
    team *t = memory_zalloc(1, sizeof *t);
    if (!t) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the compute threads");
    t->n_workers = n_workers;
    t->tuner = worker_tuner_of(n_workers);
    atomic_store(&t->n_active, n_workers);
    atomic_store(&t->end_epoch, 1);
    /* One hyper-thread a core, as long as there are enough of them. */
    uint32_t n_cores, n_cpus = thread_cpus(t->cpus, &n_cores);
    t->n_cpus = n_workers <= n_cores ? n_cores : n_cpus;
    for (uint32_t i = 0; i < n_workers; i++) {
        worker *w = &t->workers[i];
        w->t = t;
        w->index = i;
        atomic_store(&w->rank, i);
        if (i > 0 && thread_start(&w->thread, "compute", worker_main, w)) {
            team_close(&t);
            return error_set(err, CERIUM_ERR_MEMORY,
                             "cannot start compute thread %u of %u; try fewer with --threads", i,
                             n_workers);
        }
        t->n_started = i;
    }
    *out = t;
    return CERIUM_OK;
}

void team_close(team **t)
{
    if (!t || !*t) return;
    atomic_store(&(*t)->closing, true);
    begin_generation(*t, THREAD_SET_ALL);
    for (uint32_t i = 1; i <= (*t)->n_started; i++) pthread_join((*t)->workers[i].thread, NULL);
    memory_free(*t);
    *t = NULL;
}

uint32_t team_n_workers(const team *t) { return t->n_workers; }
worker_tuner *team_tuner(team *t) { return &t->tuner; }

/* Ranks for n workers: those rest that were waited for most. */
static void choose_active(team *t, uint32_t n)
{
    uint32_t order[TEAM_WORKERS_MAX];
    for (uint32_t i = 0; i < t->n_workers; i++) {
        uint32_t at = i;
        for (; at > 1 && t->workers[order[at - 1]].late > t->workers[i].late; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    if (n == t->n_workers) /* slabs are where they were, and caches with them */
        for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = 0; i < t->n_workers; i++) {
        atomic_store(&t->workers[order[i]].rank, i);
        t->workers[i].late /= 2;
    }
    atomic_store(&t->n_active, n);
}

/* Write the phases where workers find them. Returns the number of units. */
static uint64_t write_phases(team *t, const team_phase *phases, uint32_t n_phases, uint64_t first,
                             uint32_t n_slabs)
{
    uint64_t before = atomic_load(&t->done), target = before;
    for (uint32_t i = 0; i < n_phases; i++) {
        phase_slot *slot = &t->slots[(first + i) % TEAM_PHASES_MAX];
        CHECK(phases[i].n_units <= TEAM_UNITS_MAX && phases[i].chunk >= 1);
        target += phases[i].n_units;
        atomic_store_explicit(&slot->epoch, 0, memory_order_release);
        atomic_store_explicit(&slot->done_target, target, memory_order_release);
        atomic_store_explicit(&slot->phase, i, memory_order_release);
        atomic_store_explicit(&slot->n_units, phases[i].n_units, memory_order_release);
        atomic_store_explicit(&slot->chunk, phases[i].chunk, memory_order_release);
        atomic_store_explicit(&slot->n_slabs, n_slabs, memory_order_release);
        atomic_store_explicit(&slot->epoch, first + i, memory_order_release);
    }
    return target - before;
}

void team_run(team *t, const team_phase *phases, uint32_t n_phases, team_fn *fn, void *arg)
{
    CHECK(n_phases <= TEAM_PHASES_MAX);
    uint64_t first = atomic_load(&t->end_epoch), start = clock_ns();
    uint32_t n_active = t->tuner.n;
    bool changes = n_active != atomic_load(&t->n_active);
    /* All units of the last pass are counted, so no worker is inside its fn: fn and arg are ours
     * to change, and late readers of the slots see an epoch that is not theirs. */
    t->fn = fn;
    t->arg = arg;
    t->sleep_ns = 0;
    if (changes) choose_active(t, n_active);
    uint64_t n_units = write_phases(t, phases, n_phases, first, n_active);
    atomic_store(&t->is_brisk, start - t->end_ns < TEAM_PASS_SPIN_NS);
    atomic_store(&t->first_epoch, first);
    atomic_store(&t->end_epoch, first + n_phases);
    if (n_active > 1 || changes) begin_generation(t, changes ? THREAD_SET_ALL : SET_READY);
    kernel_float_setup();
    bool is_trial = worker_tuner_is_trying(&t->tuner);
    uint64_t before = is_trial ? thread_clock_ns() : 0;
    run_pass(t, first, first + n_phases, &t->workers[0]);
    t->end_ns = clock_ns();
    uint64_t busy_ns = is_trial ? thread_clock_ns() - before : 0;
    worker_tuner_learn(&t->tuner, n_units << 16 | n_phases, t->end_ns - start, t->sleep_ns,
                       busy_ns);
}
