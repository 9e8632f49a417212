/* bandwidth.c - threads that read memory, and cache sizes from sysfs. */
#include "programs/bandwidth.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/thread.h"

enum { THREADS_MAX = 256, RUN_NS = 60000000, WORDS_STEP = 64 };

typedef struct {
    const uint64_t *words;
    size_t n_words;
    uint32_t cpu, n_runs, n_threads;
    _Atomic uint32_t *arrived; /* barrier: counts up, n_threads for each run */
    double *bytes_per_s;       /* [n_runs] of this thread */
    uint64_t sum;              /* keeps the loads alive */
} reader;

/* The inner loop: reads n 64-bit words (a multiple of 64, 32-byte aligned) as wide as the processor
 * can, a quarter of them in each of four streams, because its prefetchers need more than one
 * (kernels/tiles.h).  The result only keeps the loads alive. */
static uint64_t bandwidth_sum(const uint64_t *words, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return bandwidth_sum_avx2(words, n);
#endif
    uint64_t sum[8] = {0};
    for (size_t i = 0; i < n / 4; i += 8)
        for (size_t stream = 0; stream < 4; stream++)
            for (int k = 0; k < 8; k++) sum[k] += words[stream * (n / 4) + i + k];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static void *read_runs(void *arg)
{
    reader *r = arg;
    thread_keep_to(&r->cpu, 1);
    r->sum += bandwidth_sum(r->words, r->n_words); /* into the caches, if it fits */
    for (uint32_t run = 0; run < r->n_runs; run++) {
        uint32_t n_passes = 0;
        thread_spin wait = {0};
        atomic_fetch_add(r->arrived, 1);
        while (atomic_load(r->arrived) < (run + 1) * r->n_threads) thread_wait_step(&wait);
        uint64_t start = clock_ns(), now;
        do {
            r->sum += bandwidth_sum(r->words, r->n_words);
            n_passes++;
            now = clock_ns();
        } while (now - start < RUN_NS);
        r->bytes_per_s[run] = (double)n_passes * (double)r->n_words * 8e9 / (double)(now - start);
    }
    return NULL;
}

double median(double *values, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            double t = values[j];
            values[j] = values[j - 1];
            values[j - 1] = t;
        }
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double percentile(double *sorted, size_t n, double p)
{
    size_t i = (size_t)(p * (double)(n - 1) + 0.5);
    return sorted[i < n ? i : n - 1];
}

bool bandwidth_open(bandwidth_set *set, size_t n_bytes, uint32_t n_threads)
{
    CHECK(n_threads >= 1 && n_threads <= THREADS_MAX);
    size_t n_words = n_bytes / 8 / n_threads / WORDS_STEP * WORDS_STEP;
    if (n_words == 0) n_words = WORDS_STEP;
    *set = (bandwidth_set){memory_map(n_words * n_threads * 8), n_words, n_threads};
    if (set->words) memset(set->words, 1, n_words * n_threads * 8);
    return set->words != NULL;
}

void bandwidth_close(bandwidth_set *set)
{
    if (set->words) memory_unmap(set->words, set->n_words * set->n_threads * 8);
    set->words = NULL;
}

double bandwidth_measure(const bandwidth_set *set, uint32_t n_runs)
{
    static reader readers[THREADS_MAX];
    static double speeds[THREADS_MAX][64];
    pthread_t threads[THREADS_MAX];
    uint32_t cpus[THREAD_CPUS_MAX], n_cores, n_cpus = thread_cpus(cpus, &n_cores), started = 0;
    _Atomic uint32_t arrived = 0;
    CHECK(n_runs >= 1 && n_runs <= 64);
    if (!set->words) return 0;
    for (; started < set->n_threads; started++) {
        readers[started] = (reader){.words = set->words + started * set->n_words,
                                    .n_words = set->n_words, .cpu = cpus[started % n_cpus],
                                    .n_runs = n_runs, .n_threads = set->n_threads,
                                    .arrived = &arrived, .bytes_per_s = speeds[started]};
        if (thread_start(&threads[started], "bandwidth", read_runs, &readers[started])) break;
    }
    /* The started threads would wait forever for the missing ones: release them. */
    if (started < set->n_threads) atomic_store(&arrived, UINT32_MAX / 2);
    double total[64] = {0};
    for (uint32_t t = 0; t < started; t++) {
        pthread_join(threads[t], NULL);
        for (uint32_t run = 0; run < n_runs; run++) total[run] += speeds[t][run];
    }
    return started == set->n_threads ? median(total, n_runs) : 0;
}

double bandwidth_read(size_t n_bytes, uint32_t n_threads, uint32_t n_runs)
{
    bandwidth_set set;
    const double speed = bandwidth_open(&set, n_bytes, n_threads) ? bandwidth_measure(&set, n_runs)
                                                                : 0;
    bandwidth_close(&set);
    return speed;
}

void bandwidth_caches(size_t *l2_bytes, size_t *l3_bytes)
{
    *l2_bytes = *l3_bytes = 0;
    for (int index = 0; index < 8; index++) {
        char path[96];
        unsigned level = 0, size_kb = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
        FILE *f = fopen(path, "r");
        if (!f) return;
        if (fscanf(f, "%u", &level) != 1) level = 0;
        fclose(f);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        f = fopen(path, "r");
        if (!f) return;
        if (fscanf(f, "%uK", &size_kb) != 1) size_kb = 0;
        fclose(f);
        if (level == 2) *l2_bytes = (size_t)size_kb << 10;
        if (level == 3) *l3_bytes = (size_t)size_kb << 10;
    }
}
