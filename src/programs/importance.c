/* importance.c - reads importance matrices. */
#include "programs/importance.h"

#include <math.h>

#include "base/memory.h"

#define LEAST_SHARE 1e-3f /* share of the mean square of all columns, added to every column */

int importance_open(gguf_file **out, const char *path, cerium_error *err)
{
    view type = {0};
    RETURN_IF(gguf_open(out, path, err));
    gguf_get_string(*out, "general.type", &type);
    if (view_equal(type, VIEW("imatrix"))) return CERIUM_OK;
    gguf_close(out);
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: not an importance matrix, whose general.type is \"imatrix\"; make one "
                     "with cerium imatrix",
                     path);
}

static const gguf_tensor *part(const gguf_file *file, const gguf_tensor *tensor, const char *what)
{
    char name[GGUF_NAME_BYTES_MAX + 16];
    snprintf(name, sizeof name, "%.*s.%s", (int)tensor->name.len, tensor->name.ptr, what);
    return gguf_find_tensor(file, name);
}

/* Turn sums [n] into means; false if one of them cannot be a sum of squares. */
static bool means(float *out, const float *sums, float count, uint64_t n)
{
    double all = 0;
    if (!(count >= 0.0f) || !isfinite(count)) return false;
    for (uint64_t i = 0; i < n; i++) {
        if (!(sums[i] >= 0.0f) || !isfinite(sums[i])) return false;
        out[i] = count > 0.0f ? sums[i] / count : 0.0f;
        all += (double)out[i];
    }
    const float least = (float)(all / (double)n) * LEAST_SHARE;
    for (uint64_t i = 0; i < n; i++) out[i] = least > 0.0f ? out[i] + least : 1.0f;
    return true;
}

int importance_of(const gguf_file *file, const gguf_tensor *tensor, float **out, cerium_error *err)
{
    const gguf_tensor *sums = part(file, tensor, "in_sum2"), *counts = part(file, tensor, "counts");
    const uint64_t columns = tensor->dims[0], n = tensor->dims[2] * tensor->dims[3];
    *out = NULL;
    if (!sums && !counts) return CERIUM_OK;
    if (!sums || !counts || sums->type != BLOCK_F32 || counts->type != BLOCK_F32 ||
        sums->dims[0] != columns || sums->size != n * columns * sizeof(float) ||
        counts->size != n * sizeof(float))
        return error_set(
            err, CERIUM_ERR_FORMAT,
            "%s: its entry for %.*s does not fit that tensor: is it from another model?",
            gguf_path(file), (int)tensor->name.len, tensor->name.ptr);
    float *values = memory_zalloc(n, columns * sizeof *values);
    if (!values) return error_set(err, CERIUM_ERR_MEMORY, "no memory for an importance matrix");
    for (uint64_t m = 0; m < n; m++) {
        const float *sum = (const float *)sums->data + m * columns;
        if (means(values + m * columns, sum, ((const float *)counts->data)[m], columns)) continue;
        memory_free(values);
        return error_set(err, CERIUM_ERR_FORMAT, "%s: %.*s.in_sum2: not sums of squares",
                         gguf_path(file), (int)tensor->name.len, tensor->name.ptr);
    }
    *out = values;
    return CERIUM_OK;
}
