/* choice.c - two kernels, timed against each other. */
#include "kernels/x86/choice.h"

#include "base/memory.h"

/* As a unit of work of a pass has them: one step of the output matrix of a small model. */
enum {
    TRIAL_COLS = 1024,
    TRIAL_PANELS = 4,
    TRIAL_RUNS = 4,
    UNMEASURED = 4 /* where tiles win on the processors that we know of */
};

typedef struct {
    const uint8_t *panels;
    const kernel_act *x;
    float *y;
} trial;

/* The best time of a few: the worse ones are other people's. */
static uint64_t trial_ns(const trial *t, kernel_matmul_fn *fn, uint32_t n_tokens)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIAL_RUNS; i++) {
        const uint64_t begin = clock_ns();
        fn(t->y, TRIAL_PANELS * KERNEL_PANEL_ROWS, t->panels, t->x, TRIAL_PANELS, TRIAL_COLS,
           n_tokens);
        const uint64_t ns = clock_ns() - begin;
        if (ns < best) best = ns;
    }
    return best;
}

static uint32_t find(const trial *t, kernel_matmul_fn *few, kernel_matmul_fn *many)
{
    static const uint8_t counts[] = {2, 3, 4, 6, 8, 12, CHOICE_TOKENS_MAX};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (trial_ns(t, many, counts[i]) < trial_ns(t, few, counts[i])) return counts[i];
    return CHOICE_TOKENS_MAX + 1;
}

uint32_t matmul_tokens_min(block_type type, kernel_matmul_fn *few, kernel_matmul_fn *many)
{
    enum { N_ROWS = TRIAL_PANELS * KERNEL_PANEL_ROWS };
    const size_t x_groups = CHOICE_TOKENS_MAX * kernel_n_groups(TRIAL_COLS);
    void *panels = memory_zalloc(TRIAL_PANELS, kernel_panel_bytes(type, TRIAL_COLS));
    kernel_act *x = memory_zalloc(x_groups, sizeof *x);
    float *y = memory_alloc(sizeof *y * CHOICE_TOKENS_MAX * N_ROWS);
    const trial t = {.panels = panels, .x = x, .y = y};
    const uint32_t n_tokens = panels && x && y ? find(&t, few, many) : UNMEASURED;
    memory_free(panels);
    memory_free(x);
    memory_free(y);
    return n_tokens;
}
