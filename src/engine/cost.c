/* cost.c - the moving means, and estimates from them. */
#include "engine/cost.h"

enum { UNKNOWN_ROWS = 32 };

static uint32_t size_of(uint32_t n_rows)
{
    uint32_t i = 0;
    while (i + 1 < COST_SIZES && 1u << i < n_rows) i++;
    return i;
}

void cost_learn(cost_model *cost, uint32_t n_rows, uint64_t ns)
{
    if (cost->is_fixed) return;
    uint32_t i = size_of(n_rows);
    double weight = cost->ns[i] > 0 ? 0.25 : 1;
    cost->ns[i] += weight * ((double)ns - cost->ns[i]);
    cost->rows[i] += weight * (n_rows - cost->rows[i]);
}

double cost_estimate(const cost_model *cost, uint32_t n_rows)
{
    uint32_t size = size_of(n_rows), at;
    double ns = 0;
    for (at = size + 1; at-- > 0;) { /* a row more costs at most its share of a smaller pass */
        if (cost->ns[at] <= 0) continue;
        double share = n_rows > cost->rows[at] ? n_rows / cost->rows[at] : 1;
        if (ns <= 0 || cost->ns[at] * share < ns) ns = cost->ns[at] * share;
    }
    for (at = size + 1; ns <= 0 && at < COST_SIZES; at++) ns = cost->ns[at];
    return ns;
}

bool cost_is_known(const cost_model *cost, uint32_t n_rows)
{
    return cost->ns[size_of(n_rows)] > 0;
}

uint32_t cost_rows_within(const cost_model *cost, double ns, uint32_t rows_max)
{
    uint32_t low = 1, high = rows_max;
    bool is_known = false;
    for (uint32_t i = size_of(UNKNOWN_ROWS); i < COST_SIZES; i++) is_known |= cost->ns[i] > 0;
    /* A few rows cost little more than one; only a whole tile shows the cost of many. */
    if (!is_known) return rows_max < UNKNOWN_ROWS ? rows_max : UNKNOWN_ROWS;
    while (low < high) { /* estimates grow with rows, nearly; any answer that fits is good */
        uint32_t middle = low + (high - low + 1) / 2;
        if (cost_estimate(cost, middle) <= ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
