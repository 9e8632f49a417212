/* convert_fp4.c - NVFP4 of safetensors: found by its names, read, and kept as GGUF has it. */
#include "convert/convert_fp4.h"

#include <math.h>

#include "base/memory.h"

enum { BLOCK = 64, BLOCK_GROUPS = BLOCK / FP4_GROUP };

static bool ends_with(const char *name, const char *end)
{
    const size_t len = strlen(name), n = strlen(end);
    return len >= n && !strcmp(name + len - n, end);
}

/* "NAME.weight" and more. */
static const safetensor *beside(const safetensors *set, const char *name, const char *more)
{
    char full[GGUF_NAME_BYTES_MAX + 32];
    const int len = (int)strlen(name) - (ends_with(name, "_packed") ? 7 : 0);
    snprintf(full, sizeof full, "%.*s%s", len, name, more);
    return safetensors_find(set, full);
}

static const safetensor *scales_of(const safetensors *set, const safetensor *t)
{
    return beside(set, t->name, "_scale");
}

static bool is_packed(const safetensors *set, const safetensor *t)
{
    if (t->type != SAFE_U8 || t->n_dims != 2) return false;
    if (!ends_with(t->name, ".weight") && !ends_with(t->name, ".weight_packed")) return false;
    const safetensor *s = scales_of(set, t);
    return s && s->type == SAFE_F8_E4M3 && s->n_dims == 2 && s->dims[0] == t->dims[0] &&
           s->dims[1] * FP4_GROUP == t->dims[1] * 2;
}

int convert_find_fp4(safetensors *set, char **names, cerium_error *err)
{
    size_t n_bytes = 1;
    for (size_t i = 0; i < set->n; i++)
        if (is_packed(set, &set->tensors[i])) n_bytes += strlen(set->tensors[i].name) + 1;
    char *at = *names = memory_alloc(n_bytes);
    if (!at) return error_set(err, CERIUM_ERR_MEMORY, "no memory for names");
    for (size_t i = 0; i < set->n; i++) { /* finding by name needs the order that there was */
        safetensor *t = &set->tensors[i];
        if (!is_packed(set, t)) continue;
        t->type = SAFE_FP4;
        t->dims[1] *= 2;
    }
    for (size_t i = 0; i < set->n; i++) {
        safetensor *t = &set->tensors[i];
        if (t->type != SAFE_FP4 || !ends_with(t->name, "_packed")) continue;
        const size_t len = strlen(t->name) - strlen("_packed");
        memcpy(at, t->name, len);
        at[len] = 0;
        t->name = at;
        at += len + 1;
    }
    qsort(set->tensors, set->n, sizeof *set->tensors, safetensor_compare);
    for (size_t i = 1; i < set->n; i++)
        if (!strcmp(set->tensors[i - 1].name, set->tensors[i].name))
            return error_set(err, CERIUM_ERR_FORMAT, "tensor %s is there twice",
                             set->tensors[i].name);
    return CERIUM_OK;
}

int convert_fp4_factor(const safetensors *set, const safetensor *t, float *out, cerium_error *err)
{
    const safetensor *times = beside(set, t->name, "_scale_2");
    const safetensor *by = beside(set, t->name, "_global_scale"), *s = times ? times : by;
    if (!s || s->type != SAFE_F32 || s->size != sizeof *out)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "tensor %s: %s_scale_2 or %s_global_scale is missing or not one number",
                         t->name, t->name, t->name);
    safetensor_values(s, 0, 1, out, 1);
    if (!times) *out = 1.0f / *out;
    if (!(*out > 0.0f && isfinite(*out)))
        return error_set(err, CERIUM_ERR_FORMAT, "tensor %s is not a number above 0", s->name);
    return CERIUM_OK;
}

/* Its scales in row r, each checked. */
static int row_scales(const safetensors *set, const safetensor *t, uint64_t r, uint64_t n,
                      const uint8_t **out, cerium_error *err)
{
    const safetensor *s = scales_of(set, t);
    CHECK(s && t->type == SAFE_FP4 && n == t->dims[1]);
    *out = s->data + r * (n / FP4_GROUP);
    for (uint64_t i = 0; i < n / FP4_GROUP; i++)
        if (((*out)[i] & 0x7f) == 0x7f || (*out)[i] > 0x80)
            return error_set(err, CERIUM_ERR_FORMAT,
                             "tensor %s: row %llu has a scale that is below 0 or not a number",
                             s->name, (unsigned long long)r);
    return CERIUM_OK;
}

int convert_fp4_values(const safetensors *set, const safetensor *t, uint64_t r, uint64_t n,
                       float *out, cerium_error *err)
{
    const uint8_t *scales;
    float factor;
    RETURN_IF(convert_fp4_factor(set, t, &factor, err));
    RETURN_IF(row_scales(set, t, r, n, &scales, err));
    const uint8_t *q = t->data + r * (n / 2);
    for (uint64_t k = 0; k < n; k++)
        out[k] = (float)block_mxfp4_values[q[k / 2] >> (k % 2 * 4) & 15] *
                 ue4m3_half_to_f32(scales[k / FP4_GROUP]) * factor;
    return CERIUM_OK;
}

/* In the source neighbours share a byte; in a block, values 8 apart do. */
int convert_fp4_blocks(const safetensors *set, const safetensor *t, uint64_t r, uint64_t n,
                       const uint32_t *of, uint8_t *out, cerium_error *err)
{
    const uint8_t *scales;
    RETURN_IF(row_scales(set, t, r, n, &scales, err));
    const uint8_t *row = t->data + r * (n / 2);
    block_nvfp4 *to = (block_nvfp4 *)out;
    for (uint64_t i = 0; i < n / FP4_GROUP; i++) {
        const uint64_t group = of ? of[i] : i;
        const uint8_t *q = row + group * (FP4_GROUP / 2);
        const uint64_t b = i / BLOCK_GROUPS, s = i % BLOCK_GROUPS;
        to[b].e[s] = scales[group] & 0x7f;
        for (int j = 0; j < 8; j++) {
            const int shift = j % 2 * 4, low = q[j / 2] >> shift & 15;
            const int high = q[4 + j / 2] >> shift & 15;
            to[b].q[8 * s + (uint64_t)j] = (uint8_t)(low | high << 4);
        }
    }
    return CERIUM_OK;
}

/* Whether its rows are rows of the source, or whole groups of them in another order. */
static bool keeps_groups(const planner *p, const convert_tensor *t)
{
    switch (t->rows) {
    case ROWS_PLAIN:
    case ROWS_PERMUTED:
    case ROWS_EXPERTS:
    case ROWS_HEADS:
    case ROWS_PART: return true;
    case ROWS_HEADS_COLUMNS: return p->c->value_dim % FP4_GROUP == 0;
    case ROWS_STRIDED:
    case ROWS_COLUMNS:
    case ROWS_MXFP4:
    case ROWS_FACTORS:
    case ROWS_TOKENS:
    case ROWS_DIVISORS: break;
    }
    return false;
}

void plan_fp4(planner *p)
{
    const size_t n = p->n;
    for (size_t i = 0; i < n && !p->status && !p->type; i++) {
        convert_tensor *t = &p->all[i];
        if (!t->from || t->from->type != SAFE_FP4 || t->type == BLOCK_F32) continue;
        if (!keeps_groups(p, t) || t->dims[0] % BLOCK) continue;
        t->type = BLOCK_NVFP4;
        convert_tensor factors = *t;
        factors.rows = ROWS_FACTORS;
        factors.n_dims = 1;
        factors.dims[0] = t->rows == ROWS_EXPERTS ? t->dims[2] : 1;
        factors.dims[1] = factors.dims[2] = 1;
        memcpy(factors.name + strlen(factors.name) - strlen("weight"), "scale", sizeof "scale");
        plan_add(p, &factors);
    }
}
