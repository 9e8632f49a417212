/* kernelcheck.c - the harness: levels, buffers, faults, results.
 *
 * In the manner of checkasm (x264, FFmpeg, dav1d): the table is filled for one level after
 * another, and a function that is new at a level is checked there. */
#include "kernelcheck.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/matmul.h"

enum { BUFFERS_MAX = 64, FUNCTIONS_MAX = 512, NAME_MAX_LEN = 48, FILL = 0xa5, CANARY = 0x5c };

static struct {
    uint8_t *map, *begin;
    size_t map_bytes, size;
} buffers[BUFFERS_MAX];
static size_t n_buffers;

/* Every function that was checked, and the reference's time for each benchmark. */
static kc_fn seen[FUNCTIONS_MAX];
static size_t n_seen;
static struct {
    char name[2 * NAME_MAX_LEN];
    double ns;
} ref_times[FUNCTIONS_MAX];
static size_t n_ref_times;

static struct {
    const char *level, *filter;
    char name[NAME_MAX_LEN];
    bool bench, at_ref, slow;
    int failures, n_passed, n_failed;
    uint64_t rng;
} kc;

static sigjmp_buf on_fault_jump;
static volatile sig_atomic_t on_fault_armed;

/* ---- buffers ---- */

void *kc_buffer(size_t size, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t need = size_round_up(size, align), middle = size_round_up(need + 1, page);
    CHECK(n_buffers < BUFFERS_MAX);
    uint8_t *map = mmap(NULL, middle + 2 * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    memset(map + page, CANARY, middle);
    CHECK(mprotect(map, page, PROT_NONE) == 0);
    CHECK(mprotect(map + page + middle, page, PROT_NONE) == 0);
    uint8_t *begin = map + page + middle - need;
    memset(begin, FILL, size);
    buffers[n_buffers].map = map;
    buffers[n_buffers].begin = begin;
    buffers[n_buffers].map_bytes = middle + 2 * page;
    buffers[n_buffers].size = size;
    n_buffers++;
    return begin;
}

static bool all_canary(const uint8_t *p, const uint8_t *end)
{
    while (p < end && *p == CANARY) p++;
    return p == end;
}

void kc_release(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    while (n_buffers > 0) {
        n_buffers--;
        uint8_t *map = buffers[n_buffers].map, *begin = buffers[n_buffers].begin;
        const size_t map_bytes = buffers[n_buffers].map_bytes, size = buffers[n_buffers].size;
        if (!all_canary(map + page, begin)) kc_fail("bytes before a buffer were written");
        if (!all_canary(begin + size, map + map_bytes - page))
            kc_fail("bytes behind a buffer were written");
        munmap(map, map_bytes);
    }
}

uint32_t kc_rand(void)
{
    kc.rng ^= kc.rng << 13;
    kc.rng ^= kc.rng >> 7;
    kc.rng ^= kc.rng << 17;
    return (uint32_t)(kc.rng >> 32);
}

/* ---- results ---- */

bool kc_begin_named(const char *name)
{
    if (kc.filter && !strstr(name, kc.filter)) return false;
    snprintf(kc.name, sizeof kc.name, "%s", name);
    kc.failures = 0;
    kc.rng = UINT64_C(0x9e3779b97f4a7c15);
    return true;
}

bool kc_begin(kc_fn fn, const char *name)
{
    if (!fn) return false;
    for (size_t i = 0; i < n_seen; i++)
        if (seen[i] == fn) return false;
    CHECK(n_seen < FUNCTIONS_MAX);
    seen[n_seen++] = fn;
    return kc_begin_named(name);
}

void kc_end(void)
{
    kc_release();
    if (!kc.name[0]) return;
    *(kc.failures ? &kc.n_failed : &kc.n_passed) += 1;
    kc.name[0] = 0;
}

void kc_fail(const char *format, ...)
{
    enum { SHOWN_MAX = 8 };
    if (kc.failures++ >= SHOWN_MAX) return;
    va_list args;
    va_start(args, format);
    printf("  FAIL %s_%s: ", kc.name, kc.level);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

bool kc_failed(void) { return kc.failures != 0; }

bool kc_slow(void) { return kc.slow; }

void kc_compare(const float *want, const float *got, size_t n, const char *what)
{
    if (memcmp(want, got, n * sizeof *want) == 0) return;
    size_t i = 0;
    while (memcmp(want + i, got + i, sizeof *want) == 0) i++;
    kc_fail("%s [%zu]: want %a, got %a", what, i, (double)want[i], (double)got[i]);
}

bool kc_bench_wanted(void) { return kc.bench; }
bool kc_benching(void) { return kc.bench && !kc.failures; }

void kc_bench_result(const char *what, double ns, double amount, const char *unit)
{
    char name[2 * NAME_MAX_LEN];
    snprintf(name, sizeof name, "%s %s", kc.name, what);
    size_t i = 0;
    while (i < n_ref_times && strcmp(ref_times[i].name, name) != 0) i++;
    if (kc.at_ref && i == n_ref_times && n_ref_times < FUNCTIONS_MAX) {
        memcpy(ref_times[i].name, name, sizeof name);
        ref_times[n_ref_times++].ns = ns;
    }
    printf("  %-34s %-11s %11.0f ns %7.2f %s", name, kc.level, ns, amount / ns,
           unit);
    if (i < n_ref_times && !kc.at_ref) printf("  x%.1f", ref_times[i].ns / ns);
    printf("\n");
    fflush(stdout);
}

/* ---- levels ---- */

/* Above the reference, on this kind of processor. */
#if defined(__x86_64__)
static const int level_first = KERNEL_CPU_AVX2, level_last = KERNEL_CPU_AMX;
#elif defined(__aarch64__)
static const int level_first = KERNEL_CPU_NEON, level_last = KERNEL_CPU_NEONDOT;
#else
static const int level_first = KERNEL_CPU_REF + 1, level_last = KERNEL_CPU_REF;
#endif

static void on_fault(int number)
{
    if (on_fault_armed) siglongjmp(on_fault_jump, number);
    signal(number, SIG_DFL);
    raise(number);
}

/* A kernel that faults has failed; the others are still checked. */
static void run_check(void (*check)(const kernel_table *, const kernel_table *),
                      const kernel_table *ref, const kernel_table *level)
{
    const int number = sigsetjmp(on_fault_jump, 1);
    if (number == 0) {
        on_fault_armed = 1;
        check(ref, level);
    } else {
        kc_fail("signal %d: it read or wrote beside its buffers, or ran a wrong instruction",
                number);
    }
    on_fault_armed = 0;
    kc_end();
}

static void run_level(const char *name, const kernel_table *ref, const kernel_table *level)
{
#define RUN_CHECK(function) run_check(function, ref, level);
    kc.level = name;
    kc.at_ref = ref == level;
    KC_CHECK_MAP(RUN_CHECK)
#undef RUN_CHECK
}

#if defined(__x86_64__)
static void run_emulated(const kernel_table *ref, bool (*init)(kernel_table *), const char *of)
{
    kernel_table emulated;
    if (init(&emulated))
        run_level(emulated.name, ref, &emulated);
    else
        printf("skipped: emulated kernels of %s: libsimde-dev was not there\n", of);
}
#endif

static int usage(void)
{
    fprintf(stderr, "usage: kernelcheck [--bench | --short] [PART_OF_A_KERNEL_NAME]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static kernel_table ref, level;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0)
            kc.bench = true;
        else if (strcmp(argv[i], "--short") == 0)
            kc.slow = true;
        else if (argv[i][0] != '-' && !kc.filter)
            kc.filter = argv[i];
        else
            return usage();
    }
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    signal(SIGILL, on_fault);
    kernel_float_setup();
    kernel_table_init(&ref, KERNEL_CPU_REF);
    run_level("ref", &ref, &ref);
    for (int cpu = level_first; cpu <= level_last; cpu++) {
        if (!kernel_cpu_has((kernel_cpu)cpu)) {
            printf("skipped: kernels of %s: not on this processor\n",
                   kernel_cpu_name((kernel_cpu)cpu));
            continue;
        }
        kernel_table_init(&level, (kernel_cpu)cpu);
        run_level(kernel_cpu_name((kernel_cpu)cpu), &ref, &level);
    }
#if defined(__x86_64__)
    /* The orders of panels that this processor does not use. */
    static const char *const orders[] = {"avx512vnni apart", "avx512vnni in line",
                                         "avx512vnni ahead"};
    for (uint32_t i = 0; kernel_cpu_has(KERNEL_CPU_AVX512VNNI) && i < ARRAY_LEN(orders); i++) {
        const kernel_panel_order order = (kernel_panel_order)i;
        if (order == kernel_panel_order_detect()) continue;
        kernel_table_init(&level, KERNEL_CPU_AVX512VNNI);
        matmul_init_avx512vnni(&level, order);
        matmul_init_wide_avx512vnni(&level, order);
        run_level(orders[i], &ref, &level);
    }
    kc.bench = false;
    kc.slow = true;
    run_emulated(&ref, kc_emulated_init, "avx512vnni");
    run_emulated(&ref, kc_emulated_line_init, "avx512vnni in line");
    run_emulated(&ref, kc_emulated_ahead_init, "avx512vnni ahead");
    run_emulated(&ref, kc_emulated_tiles_init, "amx");
#endif
    printf("kernelcheck: %d passed, %d failed\n", kc.n_passed, kc.n_failed);
    return kc.n_failed != 0;
}
