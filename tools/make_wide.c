/* make_wide.c - a wider copy of a model with the same output: for measuring a small model
 * that drafts for a large one.
 *
 *   tool_make_wide -m models/cerium-line.gguf --times 8 --type q4_0 --noise 0.05 -o wide.gguf
 *
 * The residual stream and the feed-forward layers become N times as wide by repeating each
 * value; sums over repeated inputs are divided by their number, a power of two, so that
 * only rounding differs.  Then types with less precision, and noise on every weight of a matrix,
 * change its output, the more often the stronger they are. */
#include "base/base.h"
#include "base/memory.h"
#include "gguf/gguf.h"
#include "gguf/write.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const gguf_file *file;
    uint64_t width, ff;
    uint32_t times;
    bool has_type;
    block_type type;
    float noise;
    uint64_t random;
} plan;

/* Even in [-1, 1). */
static float random_part(plan *p)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)(int32_t)(p->random >> 32) / 2147483648.0f;
}

static bool has(const gguf_tensor *t, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; i + len <= t->name.len; i++)
        if (!memcmp(t->name.ptr + i, part, len)) return true;
    return false;
}

/* How often a dimension is repeated: heads and the vocabulary stay as they are. */
static uint32_t times_of(const plan *p, const gguf_tensor *t, uint32_t dim)
{
    bool reads_heads = has(t, "attn_output.weight"), writes_heads = has(t, "attn_q.") ||
                       has(t, "attn_k.") || has(t, "attn_v.");
    bool is_table = has(t, "token_embd.") || t->name.len == strlen("output.weight");
    if (dim >= t->n_dims || has(t, "q_norm") || has(t, "k_norm")) return 1;
    if (dim == 0) return reads_heads || (writes_heads && t->n_dims == 1) ? 1 : p->times;
    return writes_heads || is_table || dim > 1 ? 1 : p->times;
}

static block_type type_of(const plan *p, const gguf_tensor *t)
{
    return t->n_dims > 1 && p->has_type ? p->type : t->type;
}

/* The divisor of a value: a product sums repeated inputs; a head that reads the embedding
 * does, too, and its norm compensates for it. */
static float divisor_of(const plan *p, const gguf_tensor *t)
{
    if (has(t, "output_norm.weight")) return (float)p->times;
    if (t->n_dims == 1 || has(t, "token_embd.") || has(t, "attn_output.weight")) return 1;
    return t->name.len == strlen("output.weight") && has(t, "output.weight") ? 1 : (float)p->times;
}

static bool write_tensor(plan *p, gguf_writer *w, const gguf_tensor *t)
{
    uint64_t n = t->dims[0], n_rows = t->dims[1], across = times_of(p, t, 0);
    float divisor = divisor_of(p, t), *row = memory_alloc(n * across * sizeof *row);
    size_t in_bytes, out_bytes;
    block_type type = type_of(p, t);
    bool good = row && block_row_bytes(t->type, n, &in_bytes) &&
                block_row_bytes(type, n * across, &out_bytes);
    void *out = good ? memory_alloc(out_bytes) : NULL;
    good = good && out;
    for (uint64_t copy = 0; good && copy < times_of(p, t, 1); copy++)
        for (uint64_t i = 0; good && i < n_rows; i++) {
            block_decode(t->type, row, (const char *)t->data + i * in_bytes, n);
            for (uint64_t k = 0; k < n; k++) row[k] /= divisor;
            for (uint64_t k = n; k < n * across; k++) row[k] = row[k - n];
            for (uint64_t k = 0; p->noise > 0 && t->n_dims > 1 && k < n * across; k++)
                row[k] *= 1 + p->noise * random_part(p);
            block_encode(type, out, row, n * across);
            good = gguf_write_data(w, out, out_bytes);
        }
    memory_free(row);
    memory_free(out);
    return good;
}

static bool ends_with(view text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && !memcmp(text.ptr + text.len - len, end, len);
}

static void write_values(const plan *p, gguf_writer *w)
{
    for (size_t i = 0; i < gguf_n_values(p->file); i++) {
        const gguf_value *v = gguf_value_at(p->file, i);
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)v->key.len, v->key.ptr);
        if (ends_with(v->key, ".embedding_length"))
            gguf_write_u32(w, key, (uint32_t)p->width * p->times);
        else if (ends_with(v->key, ".feed_forward_length"))
            gguf_write_u32(w, key, (uint32_t)p->ff * p->times);
        else
            gguf_write_value(w, v);
    }
}

static int write_model(plan *p, const char *path, cerium_error *err)
{
    gguf_writer *w;
    size_t n = gguf_n_tensors(p->file);
    bool good = true;
    RETURN_IF(gguf_writer_open(&w, path, err));
    write_values(p, w);
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(p->file, i);
        uint64_t dims[4];
        for (uint32_t k = 0; k < 4; k++) dims[k] = t->dims[k] * times_of(p, t, k);
        gguf_write_tensor(w, t->name, type_of(p, t), t->n_dims, dims);
    }
    for (size_t i = 0; i < n && good; i++) good = write_tensor(p, w, gguf_tensor_at(p->file, i));
    return gguf_writer_finish(&w, err);
}

static int read_plan(plan *p, cerium_error *err)
{
    view arch = {"", 0};
    char key[128];
    uint64_t head_dim;
    gguf_get_string(p->file, "general.architecture", &arch);
    const char *const keys[] = {"embedding_length", "feed_forward_length", "attention.key_length"};
    uint64_t *const values[] = {&p->width, &p->ff, &head_dim};
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "%.*s.%s", (int)arch.len, arch.ptr, keys[i]);
        if (!gguf_get_u64(p->file, key, values[i]))
            return error_set(err, CERIUM_ERR_FORMAT, "%s: no %s", gguf_path(p->file), key);
    }
    return CERIUM_OK;
}

static _Noreturn void bad_usage(void)
{
    fprintf(stderr, "usage: tool_make_wide -m MODEL --times 2|4|8|16 [--type TYPE] [--noise X] "
                    "-o FILE\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"times", required_argument, NULL, 't'},
                                          {"type", required_argument, NULL, 'y'},
                                          {"noise", required_argument, NULL, 'n'},
                                          {NULL, 0, NULL, 0}};
    const char *in = NULL, *out = NULL;
    plan p = {.random = 1};
    uint64_t times = 0;
    double noise = 0;
    for (int c; (c = getopt_long(argc, argv, "m:o:", longs, NULL)) != -1;) {
        if (c == 'm') in = optarg;
        else if (c == 'o') out = optarg;
        else if (c == 't' && parse_u64(view_of(optarg), &times)) continue;
        else if (c == 'y' && block_type_of_name(view_of(optarg), &p.type)) p.has_type = true;
        else if (c != 'n' || !parse_f64(view_of(optarg), &noise)) bad_usage();
    }
    if (!in || !out || optind < argc || times < 1 || times > 16 || (times & (times - 1)))
        bad_usage();
    p.times = (uint32_t)times;
    p.noise = (float)noise;
    cerium_error err;
    gguf_file *file = NULL;
    int status = gguf_open(&file, in, &err);
    p.file = file;
    if (!status) status = read_plan(&p, &err);
    if (!status) status = write_model(&p, out, &err);
    gguf_close(&file);
    if (status) fprintf(stderr, "tool_make_wide: %s\n", err.message);
    return status != 0;
}
