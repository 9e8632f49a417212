/* worker_tuner.c - trials of more and of fewer workers. */
#include "cpu/worker_tuner.h"

static const double DISTURBED = 1.25; /* mean against least, from which on fewer are tried, */
static const double SLEEPY = 0.1;     /* or this part of the time asleep for others */
static const double WORTH = 0.95;     /* a change must save a twentieth of the cost */

worker_tuner worker_tuner_of(uint32_t n_workers)
{
    return (worker_tuner){
        .n = n_workers, .n_all = n_workers, .n_steady = n_workers, .rest_ns = TUNER_REST_NS};
}

static void begin_window(worker_tuner *m)
{
    m->ns = m->sleep_ns = m->busy_ns = 0;
    m->least_ns = UINT64_MAX;
    m->n_passes = 0;
}

static void begin_trial(worker_tuner *m, uint32_t n)
{
    m->n_of[0] = m->n;
    m->n_of[1] = n;
    m->cost[0] = m->cost[1] = 0;
    m->turn = 1;
    m->n = n;
}

static void end_trial(worker_tuner *m)
{
    bool is_better = m->cost[1] < WORTH * m->cost[0];
    m->n = m->n_of[is_better];
    m->turn = 0;
    if (is_better)
        m->rest_ns = TUNER_REST_NS;
    else if (m->rest_ns < TUNER_REST_NS_MAX)
        m->rest_ns *= 2;
    m->left_ns = m->rest_ns;
    m->n_steady = m->n_all; /* until a worker is late again */
}

/* Other passes came: what was summed says nothing about them. */
static void change_kind(worker_tuner *m, uint64_t kind)
{
    if (m->turn) m->n = m->n_of[0];
    m->turn = 0;
    m->kind = kind;
    begin_window(m);
}

static void end_window(worker_tuner *m)
{
    double n = m->n_passes;
    bool is_disturbed = (double)m->ns > DISTURBED * n * (double)m->least_ns ||
                        (double)m->sleep_ns > SLEEPY * (double)m->ns;
    if (m->turn) {
        m->cost[m->turn % 2] += (double)(m->busy_ns + m->sleep_ns) / n;
        m->n = m->n_of[++m->turn % 2];
        if (m->turn > 2 * TUNER_TURNS) end_trial(m);
    } else if (m->left_ns == 0 && m->n < m->n_all) {
        begin_trial(m, m->n_all);
    } else if (m->left_ns == 0 && m->n > 1 && is_disturbed) {
        begin_trial(m, m->n_steady < m->n ? m->n_steady : m->n - (m->n + 3) / 4);
    }
    begin_window(m);
}

void worker_tuner_learn(worker_tuner *m, uint64_t kind, uint64_t ns, uint64_t sleep_ns,
                        uint64_t busy_ns)
{
    m->left_ns -= ns < m->left_ns ? ns : m->left_ns;
    if (kind != m->kind) {
        change_kind(m, kind);
        return; /* the first of a kind finds cold caches */
    }
    m->ns += ns;
    m->sleep_ns += sleep_ns;
    m->busy_ns += busy_ns;
    m->n_passes++;
    if (ns < m->least_ns) m->least_ns = ns;
    if (m->ns >= TUNER_WINDOW_NS && m->n_passes >= TUNER_PASSES_MIN) end_window(m);
}
