/* team.h - compute threads that run passes: lists of phases, each cut into units of work.
 *
 * A phase begins when every unit of the one before it is done; that is the only barrier, and it
 * counts work, not workers.  Each worker has a slab of consecutive units of every phase, takes them
 * in chunks, and when its own are gone takes chunks of the others': a worker that the system
 * descheduled between chunks delays no other.  The caller of team_run() is worker 0.
 *
 * Waiting is a spin of TEAM_PHASE_SPIN_NS, then sleep: never a yield, which may cost a whole turn
 * of the processor.  Between passes there is a spin, of TEAM_PASS_SPIN_NS, only if the pass before
 * came that quickly: passes in quick succession find workers awake, and after a single pass the
 * processors are released at once.  If other programs use the processors too, fewer workers may be
 * faster: see worker_tuner.h.
 *
 * The team knows nothing of models. */
#ifndef CPU_TEAM_H
#define CPU_TEAM_H

#include "base/base.h"
#include "cpu/worker_tuner.h"

enum { TEAM_WORKERS_MAX = 256, TEAM_PHASES_MAX = 16384, TEAM_UNITS_MAX = (1 << 20) - 1,
       TEAM_PHASE_SPIN_NS = 100000, TEAM_PASS_SPIN_NS = 50000 };

typedef struct team team;

typedef struct {
    uint32_t n_units; /* at most TEAM_UNITS_MAX */
    uint32_t chunk;   /* units taken at once, at least 1 */
} team_phase;

/* Do units [first, end) of a phase. Called concurrently for disjoint units; worker is below
 * team_n_workers() and is one thread at a time. */
typedef void team_fn(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker);

/* Takes all memory and starts n_workers - 1 threads.  They keep to the processors that the caller
 * may use, one hyper-thread a core if there are enough; to which of them, the system decides, which
 * knows where others work. */
CERIUM_CHECKED int team_open(team **out, uint32_t n_workers, cerium_error *err);
void team_close(team **t);
uint32_t team_n_workers(const team *t);
/* What it goes by: how many take part, and what was seen of them.  A test may change n between
 * passes. */
worker_tuner *team_tuner(team *t);

/* Run phases [n_phases] to the end; returns when all units are done.  One caller at a time. */
void team_run(team *t, const team_phase *phases, uint32_t n_phases, team_fn *fn, void *arg);

#endif
