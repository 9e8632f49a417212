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
 * claimed units are counted, and the pass stays what it is. */
#include "cpu/team.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/thread.h"
#include "kernels/kernels.h"

enum { UNIT_BITS = 20 };
_Static_assert(TEAM_UNITS_MAX < 1 << UNIT_BITS, "a slab word holds a unit");

typedef struct {
    _Atomic uint64_t epoch; /* 0 while it is being written */
    _Atomic uint64_t done_target;
    _Atomic uint32_t phase, n_units, chunk;
} phase_slot;

typedef struct {
    _Alignas(64) _Atomic uint64_t word; /* epoch << UNIT_BITS | next unit */
} slab;

typedef struct {
    team *t;
    uint32_t index;
    uint32_t cpu;
} worker_start;

struct team {
    _Alignas(64) _Atomic uint64_t done;
    _Alignas(64) _Atomic uint32_t generation; /* of passes; futex word of idle workers */
    _Atomic uint32_t n_sleeping;
    _Atomic bool closing;
    _Atomic uint64_t first_epoch, end_epoch; /* of the pass of this generation */
    _Alignas(64) slab slabs[TEAM_WORKERS_MAX];
    phase_slot slots[TEAM_PHASES_MAX];
    team_fn *fn;
    void *arg;
    uint32_t n_workers, n_started;
    pthread_t threads[TEAM_WORKERS_MAX];
    worker_start starts[TEAM_WORKERS_MAX];
};

typedef struct {
    uint64_t done_target;
    uint32_t phase, n_units, chunk;
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
    return atomic_load(&slot->epoch) == epoch;
}

static inline uint32_t slab_begin(uint32_t n_units, uint32_t n_workers, uint32_t w)
{
    return (uint32_t)((uint64_t)n_units * w / n_workers);
}

/* Take a chunk of worker w's slab. */
static bool claim(team *t, const phase_view *p, uint64_t epoch, uint32_t w, uint32_t *first,
                  uint32_t *end)
{
    uint32_t begin = slab_begin(p->n_units, t->n_workers, w);
    uint32_t limit = slab_begin(p->n_units, t->n_workers, w + 1);
    if (begin == limit) return false;
    uint64_t word = atomic_load_explicit(&t->slabs[w].word, memory_order_acquire);
    for (;;) {
        uint64_t at_epoch = word >> UNIT_BITS;
        uint32_t next = at_epoch < epoch ? begin : (uint32_t)(word & TEAM_UNITS_MAX);
        if (at_epoch > epoch || next >= limit) return false;
        uint32_t stop = limit - next > p->chunk ? next + p->chunk : limit;
        uint64_t taken = epoch << UNIT_BITS | stop;
        if (atomic_compare_exchange_weak(&t->slabs[w].word, &word, taken)) {
            *first = next;
            *end = stop;
            return true;
        }
    }
}

/* Work on one phase until nothing is left to claim. */
static void work_on(team *t, const phase_view *p, uint64_t epoch, uint32_t worker)
{
    uint32_t n_done = 0, first, end;
    for (uint32_t i = 0; i < t->n_workers; i++) {
        uint32_t w = worker + i < t->n_workers ? worker + i : worker + i - t->n_workers;
        while (claim(t, p, epoch, w, &first, &end)) {
            t->fn(t->arg, p->phase, first, end, worker);
            n_done += end - first;
        }
    }
    if (n_done) atomic_fetch_add(&t->done, n_done);
}

static void run_pass(team *t, uint64_t first_epoch, uint64_t end_epoch, uint32_t worker)
{
    for (uint64_t epoch = first_epoch; epoch < end_epoch; epoch++) {
        phase_view p;
        uint32_t n_waits = 0;
        if (!read_phase(t, epoch, &p)) return; /* the pass is long over */
        work_on(t, &p, epoch, worker);
        while (atomic_load_explicit(&t->done, memory_order_acquire) < p.done_target)
            thread_wait_step(&n_waits);
    }
}

static void wait_for_pass(team *t, uint32_t seen)
{
    uint32_t n_waits = 0;
    while (atomic_load(&t->generation) == seen) {
        if (thread_wait_hot(&n_waits)) continue;
        atomic_fetch_add(&t->n_sleeping, 1);
        if (atomic_load(&t->generation) == seen) thread_sleep(&t->generation, seen);
        atomic_fetch_sub(&t->n_sleeping, 1);
    }
}

static void *worker_main(void *arg)
{
    worker_start *start = arg;
    team *t = start->t;
    uint32_t seen = 0;
    thread_pin(start->cpu);
    kernel_float_setup();
    for (;;) {
        wait_for_pass(t, seen);
        seen = atomic_load(&t->generation);
        if (atomic_load(&t->closing)) return NULL;
        uint64_t first = atomic_load(&t->first_epoch), end = atomic_load(&t->end_epoch);
        /* The two may be of neighbouring passes; phases are numbered in their slots, so walking
         * over both is right. */
        run_pass(t, first, end, start->index);
    }
}

static void begin_generation(team *t)
{
    atomic_fetch_add(&t->generation, 1);
    if (atomic_load(&t->n_sleeping)) thread_wake(&t->generation);
}

int team_open(team **out, uint32_t n_workers, cerium_error *err)
{
    CHECK(n_workers >= 1 && n_workers <= TEAM_WORKERS_MAX);
    team *t = memory_zalloc(1, sizeof *t);
    if (!t) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the compute threads");
    t->n_workers = n_workers;
    atomic_store(&t->end_epoch, 1);
    uint32_t cpus[THREAD_CPUS_MAX], n_cores, n_cpus = thread_cpus(cpus, &n_cores);
    for (uint32_t i = 1; i < n_workers; i++) {
        t->starts[i] = (worker_start){t, i, cpus[i % n_cpus]};
        if (pthread_create(&t->threads[i], NULL, worker_main, &t->starts[i])) {
            t->n_started = i - 1;
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
    begin_generation(*t);
    for (uint32_t i = 1; i <= (*t)->n_started; i++) pthread_join((*t)->threads[i], NULL);
    memory_free(*t);
    *t = NULL;
}

uint32_t team_n_workers(const team *t) { return t->n_workers; }

void team_run(team *t, const team_phase *phases, uint32_t n_phases, team_fn *fn, void *arg)
{
    CHECK(n_phases <= TEAM_PHASES_MAX);
    uint64_t first = atomic_load(&t->end_epoch), target = atomic_load(&t->done);
    /* All units of the last pass are counted, so no worker is inside its fn: fn and arg are ours
     * to change, and late readers of the slots see an epoch that is not theirs. */
    t->fn = fn;
    t->arg = arg;
    for (uint32_t i = 0; i < n_phases; i++) {
        phase_slot *slot = &t->slots[(first + i) % TEAM_PHASES_MAX];
        CHECK(phases[i].n_units <= TEAM_UNITS_MAX && phases[i].chunk >= 1);
        target += phases[i].n_units;
        atomic_store_explicit(&slot->epoch, 0, memory_order_release);
        atomic_store_explicit(&slot->done_target, target, memory_order_release);
        atomic_store_explicit(&slot->phase, i, memory_order_release);
        atomic_store_explicit(&slot->n_units, phases[i].n_units, memory_order_release);
        atomic_store_explicit(&slot->chunk, phases[i].chunk, memory_order_release);
        atomic_store_explicit(&slot->epoch, first + i, memory_order_release);
    }
    atomic_store(&t->first_epoch, first);
    atomic_store(&t->end_epoch, first + n_phases);
    begin_generation(t);
    kernel_float_setup();
    run_pass(t, first, first + n_phases, 0);
}
