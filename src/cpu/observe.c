/* observe.c - passes the inputs of matrices to an observer, which collects statistics. */
#include "cpu/pass.h"

void cpu_executor_observe(cpu_executor *ex, cpu_observe_fn *fn, void *user)
{
    ex->observe = fn;
    ex->observe_user = user;
}

/* A row in 8 bits, group by group. */
static void show_acts(const cpu_executor *ex, cerium_observation seen, const kernel_act *acts)
{
    float values[KERNEL_GROUP];
    seen.input = values;
    for (; seen.first < seen.n_columns; seen.first += seen.n, acts++) {
        seen.n = smaller(seen.n_columns - seen.first, KERNEL_GROUP);
        for (uint32_t i = 0; i < seen.n; i++)
            values[i] = kernel_act_scale(acts, i) * (float)acts->q[i];
        ex->observe(ex->observe_user, &seen);
    }
}

void pass_observe(const cpu_executor *ex, const model_matrix *w, uint32_t matrix,
                  const pass_rows *x, uint32_t row, uint32_t n_rows)
{
    if (w->is_transposed) return; /* the tensor's columns are other ones */
    if (w->source->dims[2] == 1) matrix = 0; /* heads of one tensor */
    cerium_observation seen = {.tensor = w->source->name.ptr,
                               .tensor_len = w->source->name.len,
                               .matrix = matrix,
                               .n_columns = w->cols};
    for (uint32_t r = row; r < row + n_rows; r++) {
        if (kernel_takes_acts(w->type)) {
            show_acts(ex, seen, pass_acts(x, w->type, r));
            continue;
        }
        seen.input = x->f + r * x->f_stride;
        seen.n = w->cols;
        ex->observe(ex->observe_user, &seen);
    }
}
