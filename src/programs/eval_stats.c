/* eval_stats.c - edit distance, bootstrap, thresholds. */
#include "programs/eval_stats.h"

enum { RESAMPLES = 1000 };

view eval_stripped(view text)
{
    return view_trim(text, " \t\n\v\f\r");
}

/* Levenshtein's, row by row. */
double eval_similarity(view a, view b)
{
    uint32_t row[EVAL_COMPARED_MAX + 1];
    if (a.len > EVAL_COMPARED_MAX) a.len = EVAL_COMPARED_MAX;
    if (b.len > EVAL_COMPARED_MAX) b.len = EVAL_COMPARED_MAX;
    const size_t longer = a.len > b.len ? a.len : b.len;
    if (longer == 0) return 1;
    for (uint32_t j = 0; j <= b.len; j++) row[j] = j;
    for (uint32_t i = 1; i <= a.len; i++) {
        uint32_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            uint32_t best = corner + (a.ptr[i - 1] != b.ptr[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return 1.0 - (double)row[b.len] / (double)longer;
}

/* ---- bootstrap ---- */

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

eval_figure eval_ratio(const double *num, const double *den, size_t n, uint64_t seed)
{
    double values[RESAMPLES], sum = 0, of = 0;
    for (size_t i = 0; i < n; i++) sum += num[i], of += den[i];
    if (!(of > 0)) return (eval_figure){0};
    for (int b = 0; b < RESAMPLES; b++) {
        double s = 0, o = 0;
        for (size_t i = 0; i < n; i++) {
            size_t k = (size_t)(draw(&seed) % n);
            s += num[k];
            o += den[k];
        }
        values[b] = o > 0 ? s / o : sum / of;
    }
    qsort(values, RESAMPLES, sizeof *values, by_value);
    return (eval_figure){sum / of, values[RESAMPLES / 40], values[RESAMPLES - 1 - RESAMPLES / 40]};
}

/* ---- confidence ---- */

static int surest_first(const void *a, const void *b)
{
    const eval_answer *x = a, *y = b;
    return (x->confidence < y->confidence) - (x->confidence > y->confidence);
}

eval_cut eval_find_cut(eval_answer *answers, size_t n, double precision)
{
    eval_cut best = {.threshold = 1};
    size_t right = 0;
    qsort(answers, n, sizeof *answers, surest_first);
    for (size_t i = 0; i < n; i++) {
        right += answers[i].right;
        /* A threshold cannot separate equally sure answers. */
        if (i + 1 < n && !(answers[i + 1].confidence < answers[i].confidence)) continue;
        double got = (double)right / (double)(i + 1);
        if (i + 1 >= EVAL_CUT_LEAST && got >= precision)
            best = (eval_cut){(double)answers[i].confidence, got, (double)(i + 1) / (double)n};
    }
    return best;
}

eval_cut eval_cut_at(const eval_answer *answers, size_t n, double coverage)
{
    size_t shown = (size_t)(coverage * (double)n + 0.5), right = 0;
    if (shown < 1 || n == 0) return (eval_cut){.threshold = 1};
    if (shown > n) shown = n;
    for (size_t i = 0; i < shown; i++) right += answers[i].right;
    return (eval_cut){(double)answers[shown - 1].confidence, (double)right / (double)shown,
                      (double)shown / (double)n};
}
