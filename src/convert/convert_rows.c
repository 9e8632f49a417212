/* convert_rows.c - the values of a planned tensor, row by row, from safetensors. */
#include <math.h>

#include "convert/convert_fp4.h"

static int bad_tensor(const safetensor *t, const char *what, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_FORMAT, "tensor %s: %s", t->name, what);
}

/* Row r of a matrix [..., n]; FP8 with the scale of each block. */
static int source_row(const convert_config *c, const safetensors *set, const safetensor *t,
                      uint64_t r, uint64_t n, float *out, cerium_error *err)
{
    char name[GGUF_NAME_BYTES_MAX + 16];
    if (t->type == SAFE_FP4) return convert_fp4_values(set, t, r, n, out, err);
    safetensor_values(t, r * n, 1, out, n);
    if (t->type != SAFE_F8_E4M3) return CERIUM_OK;
    snprintf(name, sizeof name, "%s_scale_inv", t->name);
    const safetensor *s = safetensors_find(set, name);
    if (!c->fp8_rows || !s)
        return bad_tensor(t, "is in FP8 without the scales of its blocks", err);
    const uint64_t rows = (t->dims[0] + c->fp8_rows - 1) / c->fp8_rows;
    const uint64_t columns = (n + c->fp8_columns - 1) / c->fp8_columns;
    if (t->n_dims != 2 || s->type == SAFE_U8 || !convert_has_shape(s, rows, columns, 0))
        return bad_tensor(s, "does not have a scale for each block", err);
    for (uint64_t b = 0; b < columns; b++) {
        float scale;
        safetensor_values(s, r / c->fp8_rows * columns + b, 1, &scale, 1);
        uint64_t end = (b + 1) * c->fp8_columns < n ? (b + 1) * c->fp8_columns : n;
        for (uint64_t k = b * c->fp8_columns; k < end; k++) out[k] *= scale;
    }
    return CERIUM_OK;
}

/* Pairs (2 j, 2 j + 1) of a head, whose channels the source has as halves. */
static uint64_t permuted(const convert_tensor *t, uint64_t row, uint64_t n_rows)
{
    const uint64_t d = n_rows / t->n_heads, in_head = row % d;
    return row - in_head + in_head % 2 * (d / 2) + in_head / 2;
}

static int expert_of(const convert_tensor *t, const safetensors *set, uint64_t expert,
                     const safetensor **out, cerium_error *err)
{
    char name[GGUF_NAME_BYTES_MAX], *at = strstr(t->expert_format, "%u");
    snprintf(name, sizeof name, "%.*s%u%s", (int)(at - t->expert_format), t->expert_format,
             (unsigned)expert, at + 2);
    *out = safetensors_find(set, name);
    if (!*out) return error_set(err, CERIUM_ERR_FORMAT, "tensor %s is missing", name);
    return CERIUM_OK;
}

/* The source's row that is row `row`, if it is one: *from is NULL otherwise. */
static int whole_row(const convert_tensor *t, const convert_config *c, const safetensors *set,
                     uint64_t row, const safetensor **from, uint64_t *r, cerium_error *err)
{
    *from = t->n_dims > 1 ? t->from : NULL;
    *r = row;
    switch (t->rows) {
    case ROWS_PLAIN: *from = t->from; break;
    case ROWS_PART: *r = row / t->dims[1] * t->step + t->offset + row % t->dims[1]; break;
    case ROWS_HEADS: *r = convert_state_row(c, (convert_heads)t->step, row); break;
    case ROWS_PERMUTED: *r = permuted(t, row, t->dims[1]); break;
    case ROWS_EXPERTS:
        RETURN_IF(expert_of(t, set, row / t->dims[1], from, err));
        if (!convert_has_shape(*from, t->dims[1], t->dims[0], 0))
            return bad_tensor(*from, "its shape does not agree with config.json", err);
        *r = row % t->dims[1];
        break;
    case ROWS_STRIDED:
    case ROWS_COLUMNS:
    case ROWS_MXFP4:
    case ROWS_DIVISORS:
    case ROWS_HEADS_COLUMNS:
    case ROWS_TOKENS:
    case ROWS_FACTORS: *from = NULL; break;
    }
    return CERIUM_OK;
}

static int float_row(const convert_tensor *t, const convert_config *c, const safetensors *set,
                     uint64_t row, float *out, cerium_error *err)
{
    const uint64_t n = t->dims[0];
    const safetensor *from;
    uint64_t r;
    RETURN_IF(whole_row(t, c, set, row, &from, &r, err));
    if (from) return source_row(c, set, from, r, n, out, err);
    switch (t->rows) {
    case ROWS_HEADS:
        for (uint64_t k = 0; k < n; k++)
            safetensor_values(t->from, convert_state_row(c, (convert_heads)t->step, k), 1, out + k,
                              1);
        break;
    case ROWS_HEADS_COLUMNS:
        RETURN_IF(source_row(c, set, t->from, row, n, out + n, err));
        for (uint64_t k = 0; k < n; k++)
            out[k] = out[n + convert_state_row(c, HEADS_OF_VALUES, k)];
        break;
    case ROWS_PERMUTED:
        for (uint64_t k = 0; k < n; k++)
            safetensor_values(t->from, permuted(t, k, n), 1, out + k, 1);
        break;
    case ROWS_STRIDED:
        safetensor_values(t->from, row * n * t->step + t->offset, t->step, out, n);
        break;
    case ROWS_COLUMNS: {
        const uint64_t width = t->from->n_dims == 3 ? t->from->dims[2] : t->dims[1] * t->step;
        const uint64_t expert = row / t->dims[1];
        const uint64_t n_rows = t->n_rows ? t->n_rows : n;
        if (t->from->type == SAFE_F8_E4M3)
            return bad_tensor(t->from, "is in FP8: not supported where rows become columns", err);
        if (t->from->type == SAFE_FP4)
            return bad_tensor(t->from, "is in NVFP4: not supported where rows become columns", err);
        safetensor_values(t->from, expert * n_rows * width + row % t->dims[1] * t->step + t->offset,
                          width, out, n);
        break;
    }
    case ROWS_DIVISORS: convert_rope_divisors(c, out); break;
    case ROWS_FACTORS:
        for (uint64_t k = 0; k < n; k++) {
            from = t->from;
            if (t->expert_format[0]) RETURN_IF(expert_of(t, set, k, &from, err));
            if (from->type != SAFE_FP4) return bad_tensor(from, "is not in NVFP4 as others", err);
            RETURN_IF(convert_fp4_factor(set, from, out + k, err));
        }
        break;
    case ROWS_PLAIN:
    case ROWS_PART:
    case ROWS_EXPERTS: /* whole_row() */
    case ROWS_TOKENS:
    case ROWS_MXFP4: break;
    }
    return CERIUM_OK;
}

/* As it is: rows in another order, or groups of their columns. */
static int nvfp4_row(const convert_tensor *t, const convert_config *c, const safetensors *set,
                     uint64_t row, uint8_t *out, float *scratch, cerium_error *err)
{
    const safetensor *from;
    uint32_t *of = NULL;
    uint64_t r;
    RETURN_IF(whole_row(t, c, set, row, &from, &r, err));
    if (!from) { /* plan_fp4(): whole groups move */
        from = t->from;
        of = (uint32_t *)(void *)scratch;
        for (uint64_t i = 0; i < t->dims[0] / FP4_GROUP; i++)
            of[i] = (uint32_t)(convert_state_row(c, HEADS_OF_VALUES, i * FP4_GROUP) / FP4_GROUP);
    }
    if (from->type != SAFE_FP4) return bad_tensor(from, "is not in NVFP4 as others", err);
    return convert_fp4_blocks(set, from, r, t->dims[0], of, out, err);
}

/* In the source neighbours share a byte; in a block, values 16 apart do. */
static void mxfp4_row(const convert_tensor *t, uint64_t row, uint8_t *out)
{
    const uint64_t n_blocks = t->dims[0] / MXFP4_VALUES, expert = row / t->dims[1];
    const uint64_t source = (expert * t->dims[1] + row % t->dims[1]) * t->step + t->offset;
    block_mxfp4 *to = (block_mxfp4 *)out;
    for (uint64_t b = 0; b < n_blocks; b++) {
        const uint8_t *q = t->from->data + (source * n_blocks + b) * MXFP4_BYTES;
        to[b].e = t->scales->data[source * n_blocks + b];
        for (int j = 0; j < MXFP4_BYTES; j++) {
            int shift = j % 2 * 4, low = q[j / 2] >> shift & 15, high = q[8 + j / 2] >> shift & 15;
            to[b].q[j] = (uint8_t)(low | high << 4);
        }
    }
}

/* Files have the distance of each token from its own number. */
static void tokens_row(const convert_tensor *t, uint8_t *out)
{
    for (uint64_t i = 0; i < t->dims[0]; i++) {
        const int64_t token = safetensor_integer(t->from, i) + (int64_t)i;
        memcpy(out + i * sizeof token, &token, sizeof token);
    }
}

int convert_rows(const convert_tensor *t, const convert_config *c, const safetensors *set,
                 uint64_t first, uint64_t n_rows, uint8_t *out, float *values, cerium_error *err)
{
    const uint64_t n = t->dims[0];
    size_t row_bytes = 0;
    CHECK(block_row_bytes(t->type, n, &row_bytes));
    for (uint64_t r = first; r < first + n_rows; r++, out += row_bytes) {
        if (t->rows == ROWS_MXFP4) {
            mxfp4_row(t, r, out);
            continue;
        }
        if (t->rows == ROWS_TOKENS) {
            tokens_row(t, out);
            continue;
        }
        if (t->type == BLOCK_NVFP4 && t->from && t->from->type == SAFE_FP4) {
            RETURN_IF(nvfp4_row(t, c, set, r, out, values, err));
            continue;
        }
        RETURN_IF(float_row(t, c, set, r, values, err));
        for (uint64_t k = 0; t->more != 0 && k < n; k++) values[k] += t->more;
        for (uint64_t k = 0; t->is_decay && k < n; k++) values[k] = -expf(values[k]);
        for (uint64_t k = 0; k < n; k++)
            if (!isfinite(values[k]))
                return error_set(err, CERIUM_ERR_FORMAT, "%s: row %llu has a value that is not "
                                 "finite", t->name, (unsigned long long)r);
        block_quantize(t->type, out, values, n, NULL);
        block_decode(t->type, values, out, n);
        for (uint64_t k = 0; k < n; k++)
            if (!isfinite(values[k]))
                return error_set(err, CERIUM_ERR_FORMAT, "%s: row %llu has a value beyond what %s "
                                 "holds; take another --type", t->name, (unsigned long long)r,
                                 block_name(t->type));
    }
    return CERIUM_OK;
}
