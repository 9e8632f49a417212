/* choice.c - two kernels, timed against each other. */
#include "kernels/x86/choice.h"

#include "base/memory.h"
#include "kernels/kv_i8.h"

/* As a unit of work of a pass has them: one step of the output matrix of a small model, and some
 * pages of a head. */
enum {
    TRIAL_COLS = 1024,
    TRIAL_PANELS = 4,
    TRIAL_PAGES = 8,
    TRIAL_HEAD = 64,
    TRIAL_RUNS = 4,
    UNMEASURED = 4 /* where tiles win on the processors that we know of */
};

/* One of two kernels does its work once, for n tokens or rows. */
typedef struct {
    void (*run)(const void *trial, bool many, uint32_t n);
    const void *trial;
} contest;

/* The best time of a few: the worse ones are other people's. */
static uint64_t best_ns(const contest *c, bool many, uint32_t n)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIAL_RUNS; i++) {
        const uint64_t begin = clock_ns();
        c->run(c->trial, many, n);
        const uint64_t ns = clock_ns() - begin;
        if (ns < best) best = ns;
    }
    return best;
}

static uint32_t find(const contest *c)
{
    static const uint8_t counts[] = {2, 3, 4, 6, 8, 12, CHOICE_TOKENS_MAX};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (best_ns(c, true, counts[i]) < best_ns(c, false, counts[i])) return counts[i];
    return CHOICE_TOKENS_MAX + 1;
}

typedef struct {
    kernel_matmul_fn *fn[2]; /* for few, for many */
    const uint8_t *panels;
    const kernel_act *x;
    float *y;
} matmul_trial;

static void run_matmul(const void *trial, bool many, uint32_t n)
{
    const matmul_trial *t = trial;
    t->fn[many](t->y, TRIAL_PANELS * KERNEL_PANEL_ROWS, t->panels, t->x, TRIAL_PANELS, TRIAL_COLS,
                n);
}

uint32_t matmul_tokens_min(block_type type, kernel_matmul_fn *few, kernel_matmul_fn *many)
{
    enum { N_ROWS = TRIAL_PANELS * KERNEL_PANEL_ROWS };
    const size_t x_groups = CHOICE_TOKENS_MAX * kernel_n_groups(TRIAL_COLS);
    void *panels = memory_zalloc(TRIAL_PANELS, kernel_panel_bytes(type, TRIAL_COLS));
    kernel_act *x = memory_zalloc(x_groups, sizeof *x);
    float *y = memory_alloc(sizeof *y * CHOICE_TOKENS_MAX * N_ROWS);
    const matmul_trial t = {.fn = {few, many}, .panels = panels, .x = x, .y = y};
    const contest c = {run_matmul, &t};
    const uint32_t n_tokens = panels && x && y ? find(&c) : UNMEASURED;
    memory_free(panels);
    memory_free(x);
    memory_free(y);
    return n_tokens;
}

typedef struct {
    kernel_attend_fn *fn[2];
    const uint8_t *queries; /* zeros, as are the pages */
    const kernel_kv_page *pages;
    float *out;
} attend_trial;

static void run_attend(const void *trial, bool many, uint32_t n)
{
    const attend_trial *t = trial;
    kernel_softmax_state state[CHOICE_TOKENS_MAX];
    uint32_t first[CHOICE_TOKENS_MAX] = {0}, end[CHOICE_TOKENS_MAX];
    for (uint32_t r = 0; r < n; r++) {
        state[r] = (kernel_softmax_state){.max = -INFINITY};
        end[r] = TRIAL_PAGES * KERNEL_PAGE;
    }
    t->fn[many](state, t->out, t->queries, t->pages, TRIAL_PAGES, first, end, n, TRIAL_HEAD);
}

uint32_t attend_rows_min(kernel_attend_fn *few, kernel_attend_fn *many)
{
    const size_t page_bytes = kernel_kv_bytes(KERNEL_KV_I8, TRIAL_HEAD);
    uint8_t *kv = memory_zalloc(2 * TRIAL_PAGES, page_bytes);
    uint8_t *queries =
        memory_zalloc(CHOICE_TOKENS_MAX, kernel_query_bytes(KERNEL_KV_I8, TRIAL_HEAD));
    float *out = memory_zalloc(CHOICE_TOKENS_MAX * TRIAL_HEAD, sizeof *out);
    kernel_kv_page pages[TRIAL_PAGES];
    for (size_t i = 0; kv && i < TRIAL_PAGES; i++)
        pages[i] = (kernel_kv_page){kv + 2 * i * page_bytes, kv + (2 * i + 1) * page_bytes};
    const attend_trial t = {.fn = {few, many}, .queries = queries, .pages = pages, .out = out};
    const contest c = {run_attend, &t};
    const uint32_t n_rows = kv && queries && out ? find(&c) : UNMEASURED;
    memory_free(kv);
    memory_free(queries);
    memory_free(out);
    return n_rows;
}
