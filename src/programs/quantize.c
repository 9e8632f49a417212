/* quantize.c - `cerium quantize`: a model file with its weights in another type.
 *
 * Tensors are made one after the other, each in slabs of rows that threads share, and written in
 * order: a slab bounds the memory for any size of model. */
#include "programs/programs.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "gguf/finite.h"
#include "gguf/gguf.h"
#include "gguf/write.h"
#include "programs/importance.h"
#include "programs/options.h"
#include "programs/terminal.h"

enum { PATTERNS_MAX = 16, SLAB_BYTES = 4 << 20, WORKERS_MAX = 64 };

typedef struct {
    const char *at[PATTERNS_MAX];
    size_t n;
} patterns;

typedef struct {
    options o;
    const char *in, *out;
    block_type type, head;
    bool has_head;
    patterns only, keep;
    uint32_t n_workers;

    const char *imatrix;

    gguf_file *file, *importance;
    gguf_writer *writer;
    bool is_tied;
    uint64_t n_made, n_other, n_weighted; /* tensors made; of these, not of the type asked for;
                                           * weighted by importance */
    uint64_t n_narrow; /* tensors left as they are: their type is already as narrow as requested */
    double error, power; /* sums of squares over all converted tensors */
} quantize;

static bool add_pattern(patterns *p, const char *value)
{
    if (p->n == PATTERNS_MAX || !*value)
        return option_wants("a pattern of names, given at most %d times", PATTERNS_MAX);
    p->at[p->n++] = value;
    return true;
}

static bool take_only(void *program, const char *value)
{
    return add_pattern(&((quantize *)program)->only, value);
}

static bool take_keep(void *program, const char *value)
{
    return add_pattern(&((quantize *)program)->keep, value);
}

/* clang-format off */
static const option_spec own[] = {
    {"head", "TYPE",
     "type of the output head, and of the embedding that it may be tied to (default: Q6_K where "
     "TYPE is narrower, else TYPE)",
     TAKES_TYPE(quantize, head), GIVEN(quantize, has_head)},
    {"imatrix", "FILE",
     "an importance matrix (cerium imatrix): columns with large inputs keep more precision",
     TAKES_ANY(quantize, imatrix)},
    {"only", "PATTERN", "quantize only tensors of such names ('blk.*.ffn_*'); up to 16 times",
     TAKES_CALL(take_only)},
    {"keep", "PATTERN", "leave tensors of such names as they are; up to 16 times",
     TAKES_CALL(take_keep)},
    {"threads", "N", "threads (default: one for each core)",
     TAKES_U32(quantize, n_workers, 1, WORKERS_MAX)},
};
/* clang-format on */
const command_table quantize_command = {
    .name = "quantize",
    .usage = "[OPTIONS] IN OUT TYPE",
    .about = "Write the model IN to OUT with its matrices as TYPE: F32 F16 BF16 Q4_0 Q4_1 Q5_0 "
             "Q5_1 Q8_0 Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4, TQ1_0 and TQ2_0 for ternary "
             "models, or Q4_W and Q8_W, cerium's own types. Q1_0, Q2_0, Q2_K, IQ1 to 3, NVFP4, "
             "PQ2_0 and PTQ1_0 are read, not written. Norms, biases and routers stay as they are, "
             "and so does what is stored no wider than TYPE. Where rows do not fill the blocks of "
             "a type, the nearest type with smaller blocks is taken. OUT appears when it is whole; "
             "IN is never written to.",
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium quantize models/cerium-line.gguf line-q4_k.gguf Q4_K",
};

/* A slab of one tensor: the first thread to count row i of [n_rows] takes it. */
typedef struct {
    const gguf_tensor *from;
    block_type type;
    float *weights;              /* [matrices][columns] or NULL */
    const gguf_tensor *factors;  /* of `from`, one for each matrix or for all; or NULL */
    size_t from_bytes, to_bytes; /* of a row */
    uint64_t first, n_rows;
    uint8_t *to;                 /* [n_rows][to_bytes] */
    _Atomic uint64_t next, broken_row; /* a row with a value that is not finite, or UINT64_MAX */
    _Atomic bool is_beyond;            /* that row was finite before the conversion */
} slab;

typedef struct {
    slab *s;
    float *values; /* [2][row] */
    double error, power;
} worker;

/* ---- which type ---- */

static bool matches(const patterns *p, view name)
{
    char text[GGUF_NAME_BYTES_MAX + 1];
    snprintf(text, sizeof text, "%.*s", (int)name.len, name.ptr);
    for (size_t i = 0; i < p->n; i++)
        if (fnmatch(p->at[i], text, 0) == 0) return true;
    return false;
}

static bool ends_with(view text, view end)
{
    return text.len >= end.len && !memcmp(text.ptr + text.len - end.len, end.ptr, end.len);
}

static bool is_wider(block_type type, block_type than)
{
    return block_bytes(type) * block_values(than) > block_bytes(than) * block_values(type);
}

/* The nearest type in size with smaller blocks; F16 if none is smaller. */
static block_type with_smaller_blocks(block_type type)
{
    switch (type) {
    case BLOCK_Q3_K:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0: return BLOCK_Q4_0;
    case BLOCK_Q4_K: return BLOCK_Q5_0;
    case BLOCK_Q5_K: return BLOCK_Q5_1;
    case BLOCK_Q6_K:
    case BLOCK_Q8_W: return BLOCK_Q8_0;
    case BLOCK_IQ4_XS:
    case BLOCK_Q4_W: return BLOCK_IQ4_NL;
    default: return BLOCK_F16;
    }
}

/* Routers of experts and parameters of a recurrent state keep their type: their errors grow. */
static bool is_matrix(const gguf_tensor *t)
{
    static const char *const kept[] = {"ffn_gate_inp.weight", "ssm_conv1d.weight",
                                       "ssm_alpha.weight", "ssm_beta.weight", "ssm_ba.weight",
                                       "ssm_norm.weight"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (ends_with(t->name, view_of(kept[i]))) return false;
    return t->n_dims >= 2 && ends_with(t->name, VIEW(".weight"));
}

/* Weights that go through a latent twice, and are small. */
static bool is_of_latent(const gguf_tensor *t)
{
    static const char *const names[] = {"attn_k_b.weight", "attn_v_b.weight", "attn_kv_b.weight"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (ends_with(t->name, view_of(names[i]))) return true;
    return false;
}

static block_type type_of(const quantize *q, const gguf_tensor *t)
{
    bool is_head = view_equal(t->name, VIEW("output.weight")) ||
                   (q->is_tied && view_equal(t->name, VIEW("token_embd.weight")));
    if (!is_matrix(t) || matches(&q->keep, t->name)) return t->type;
    if (q->only.n && !matches(&q->only, t->name)) return t->type;
    block_type type = q->type;
    if (is_head && q->has_head)
        type = q->head;
    else if (is_head && is_wider(BLOCK_Q6_K, type))
        type = BLOCK_Q6_K;
    if (is_of_latent(t) && is_wider(BLOCK_Q8_0, type)) type = BLOCK_Q8_0;
    while (t->dims[0] % block_values(type) != 0) type = with_smaller_blocks(type);
    return is_wider(t->type, type) ? type : t->type;
}

/* Is the tensor left alone because its type is already narrower than requested? A wider type would
 * not restore the lost precision. */
static bool stays_narrow(const quantize *q, const gguf_tensor *t)
{
    return is_matrix(t) && !matches(&q->keep, t->name) &&
           (!q->only.n || matches(&q->only, t->name)) && is_wider(q->type, t->type);
}

/* ---- factors beside NVFP4 ---- */

/* The tensor named as `name` with another end; NULL: there is none. */
static const gguf_tensor *named(const quantize *q, view name, view end, const char *other)
{
    char text[GGUF_NAME_BYTES_MAX + 16];
    if (!ends_with(name, end)) return NULL;
    snprintf(text, sizeof text, "%.*s%s", (int)(name.len - end.len), name.ptr, other);
    return gguf_find_tensor(q->file, text);
}

/* Gemma 4 has scales of experts by the name of a factor. */
static bool is_own_scale(const quantize *q, const gguf_tensor *t)
{
    view arch;
    return gguf_get_string(q->file, "general.architecture", &arch) &&
           view_equal(arch, VIEW("gemma4")) && ends_with(t->name, VIEW("ffn_down_exps.scale"));
}

/* The factors of a matrix, which go into its values where its type changes. */
static int factors_of(const quantize *q, const gguf_tensor *t, const gguf_tensor **out,
                      cerium_error *err)
{
    const gguf_tensor *f = named(q, t->name, VIEW(".weight"), ".scale");
    *out = NULL;
    if (t->type != BLOCK_NVFP4 || !f || is_own_scale(q, f)) return CERIUM_OK;
    const uint64_t n = f->dims[0], n_matrices = t->dims[2] * t->dims[3];
    if (f->type != BLOCK_F32 || f->n_dims > 1 || (n != 1 && n != n_matrices))
        return error_set(err, CERIUM_ERR_FORMAT, "%s: tensor %.*s must have 1 or %llu values",
                         q->in, (int)f->name.len, f->name.ptr, (unsigned long long)n_matrices);
    *out = f;
    return CERIUM_OK;
}

/* Whether a tensor is about a matrix in NVFP4 that becomes another type. */
static bool is_spent(const quantize *q, const gguf_tensor *t)
{
    const gguf_tensor *w = named(q, t->name, VIEW(".input_scale"), ".weight");
    if (!w) w = named(q, t->name, VIEW(".scale"), ".weight");
    return w && w->type == BLOCK_NVFP4 && type_of(q, w) != w->type && !is_own_scale(q, t);
}

/* ---- one tensor ---- */

static bool is_finite(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* What the values of a row are multiplied with. */
static float factor_of(const slab *s, uint64_t row)
{
    float factor = 1.0f;
    if (!s->factors) return factor;
    const size_t i = s->factors->dims[0] > 1 ? row / s->from->dims[1] : 0;
    memcpy(&factor, (const float *)s->factors->data + i, sizeof factor);
    return factor;
}

static void *make_rows(void *arg)
{
    worker *w = arg;
    slab *s = w->s;
    const size_t n = (size_t)s->from->dims[0];
    for (uint64_t i; (i = atomic_fetch_add(&s->next, 1)) < s->n_rows;) {
        const uint8_t *from = (const uint8_t *)s->from->data + (s->first + i) * s->from_bytes;
        uint8_t *to = s->to + i * s->to_bytes;
        block_decode(s->from->type, w->values, from, n);
        const float factor = factor_of(s, s->first + i);
        for (size_t k = 0; s->factors && k < n; k++) w->values[k] *= factor;
        if (!is_finite(w->values, n)) {
            atomic_store(&s->broken_row, s->first + i);
            break;
        }
        const float *weights = s->weights;
        if (weights) weights += (s->first + i) / s->from->dims[1] * n;
        block_quantize(s->type, to, w->values, n, weights);
        block_decode(s->type, w->values + n, to, n);
        if (!is_finite(w->values + n, n)) {
            atomic_store(&s->is_beyond, true);
            atomic_store(&s->broken_row, s->first + i);
            break;
        }
        for (size_t k = 0; k < n; k++) {
            double x = (double)w->values[k], apart = (double)w->values[n + k] - x;
            w->error += apart * apart;
            w->power += x * x;
        }
    }
    return NULL;
}

/* The caller works too, so it needs no further thread. */
static void run_workers(quantize *q, slab *s, worker *workers)
{
    pthread_t threads[WORKERS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->n_workers; i++) workers[i].s = s;
    while (n + 1 < q->n_workers &&
           !thread_start(&threads[n], "quantize", make_rows, &workers[n + 1]))
        n++;
    make_rows(&workers[0]);
    for (uint32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static int tell_broken(const quantize *q, const slab *s, cerium_error *err)
{
    const gguf_tensor *t = s->from;
    unsigned long long row = atomic_load(&s->broken_row);
    if (!atomic_load(&s->is_beyond))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: tensor %.*s: row %llu has a value that is not finite", q->in,
                         (int)t->name.len, t->name.ptr, row);
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: tensor %.*s: row %llu has a value beyond what %s holds; leave the tensor "
                     "as it is with --keep, or take another type", q->in, (int)t->name.len,
                     t->name.ptr, row, block_name(s->type));
}

static int make_slabs(quantize *q, slab *s, worker *workers, cerium_error *err)
{
    const gguf_tensor *t = s->from;
    const uint64_t n_rows = t->dims[1] * t->dims[2] * t->dims[3];
    const uint64_t step = s->n_rows;
    for (; s->first < n_rows; s->first += step) {
        s->n_rows = n_rows - s->first < step ? n_rows - s->first : step;
        atomic_store(&s->next, 0);
        run_workers(q, s, workers);
        if (atomic_load(&s->broken_row) != UINT64_MAX) return tell_broken(q, s, err);
        /* gguf_writer_finish() reports any error. */
        if (!gguf_write_data(q->writer, s->to, s->n_rows * s->to_bytes)) break;
        gguf_release(q->file, (const uint8_t *)t->data + s->first * s->from_bytes,
                     s->n_rows * s->from_bytes);
    }
    return CERIUM_OK;
}

static int make_tensor(quantize *q, const gguf_tensor *t, block_type type, cerium_error *err)
{
    slab s = {.from = t, .type = type, .broken_row = UINT64_MAX};
    worker workers[WORKERS_MAX] = {{0}};
    CHECK(block_row_bytes(t->type, t->dims[0], &s.from_bytes) &&
          block_row_bytes(type, t->dims[0], &s.to_bytes));
    RETURN_IF(factors_of(q, t, &s.factors, err));
    s.n_rows = s.to_bytes < SLAB_BYTES ? SLAB_BYTES / s.to_bytes : 1;
    s.to = memory_alloc(s.n_rows * s.to_bytes);
    bool has_memory = s.to;
    for (uint32_t i = 0; i < q->n_workers; i++) {
        workers[i].values = memory_zalloc(t->dims[0], 2 * sizeof(float));
        has_memory = has_memory && workers[i].values;
    }
    int status = has_memory ? CERIUM_OK
                            : error_set(err, CERIUM_ERR_MEMORY, "no memory for a tensor's rows");
    if (!status && q->importance) status = importance_of(q->importance, t, &s.weights, err);
    if (!status) status = make_slabs(q, &s, workers, err);
    q->n_weighted += s.weights != NULL;
    for (uint32_t i = 0; i < q->n_workers; i++) {
        q->error += workers[i].error;
        q->power += workers[i].power;
        memory_free(workers[i].values);
    }
    memory_free(s.weights);
    memory_free(s.to);
    return status;
}

/* ---- the file ---- */

/* llama.cpp's number for "mostly of this type"; our own types have their ids. */
static uint32_t file_type(block_type type)
{
    static const uint8_t numbers[BLOCK_TYPE_END] = {
        [BLOCK_F32] = 0,   [BLOCK_F16] = 1,     [BLOCK_Q4_0] = 2,    [BLOCK_Q4_1] = 3,
        [BLOCK_Q8_0] = 7,  [BLOCK_Q5_0] = 8,    [BLOCK_Q5_1] = 9,    [BLOCK_Q4_K] = 15,
        [BLOCK_Q5_K] = 17, [BLOCK_Q6_K] = 18,   [BLOCK_IQ4_NL] = 25, [BLOCK_IQ4_XS] = 30,
        [BLOCK_BF16] = 32, [BLOCK_MXFP4] = 38,  [BLOCK_Q3_K] = 12,   [BLOCK_TQ1_0] = 36,
        [BLOCK_TQ2_0] = 37,
    };
    return type < BLOCK_Q4_W ? numbers[type] : block_file_id(type);
}

/* All keys but those that the new file sets itself. */
static void write_metadata(quantize *q)
{
    static const char *const keys[] = {"general.file_type", "general.alignment",
                                      "general.quantization_version", "split.no", "split.count",
                                      "split.tensors.count", "quantize.imatrix.file"};
    for (size_t i = 0; i < gguf_n_values(q->file); i++) {
        const gguf_value *value = gguf_value_at(q->file, i);
        bool is_own = false;
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            is_own = is_own || view_equal(value->key, view_of(keys[k]));
        if (!is_own) gguf_write_value(q->writer, value);
    }
    gguf_write_u32(q->writer, "general.file_type", file_type(q->type));
    gguf_write_u32(q->writer, "general.quantization_version", 2);
    if (q->imatrix) gguf_write_string(q->writer, "quantize.imatrix.file", view_of(q->imatrix));
}

static int write_tensors(quantize *q, cerium_error *err)
{
    const size_t n = gguf_n_tensors(q->file);
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(q->file, i);
        if (is_spent(q, t)) continue;
        gguf_write_tensor(q->writer, t->name, type_of(q, t), t->n_dims, t->dims);
    }
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(q->file, i);
        block_type type = type_of(q, t);
        if (is_spent(q, t)) continue;
        progress_show("%zu of %zu  %.*s  %s", i + 1, n, (int)t->name.len,
                    t->name.ptr, block_name(type));
        if (type == t->type) {
            q->n_narrow += stays_narrow(q, t);
            const uint64_t n_values = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
            if (!block_is_finite(t->type, t->data, n_values))
                return error_set(err, CERIUM_ERR_FORMAT,
                                 "%s: tensor %.*s has a value that is not a number", q->in,
                                 (int)t->name.len, t->name.ptr);
            if (!gguf_write_data(q->writer, t->data, t->size)) break;
            continue;
        }
        RETURN_IF(make_tensor(q, t, type, err));
        q->n_made++;
        q->n_other += type != q->type;
    }
    return CERIUM_OK;
}

static int check_paths(const quantize *q, cerium_error *err)
{
    struct stat in, out;
    if (stat(q->in, &in))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", q->in, strerror(errno));
    if (stat(q->out, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s and %s are the same file", q->in, q->out);
    return CERIUM_OK;
}

static int run(quantize *q, cerium_error *err)
{
    RETURN_IF(options_model_check(q->in, err));
    RETURN_IF(check_paths(q, err));
    RETURN_IF(gguf_open(&q->file, q->in, err));
    if (q->imatrix) RETURN_IF(importance_open(&q->importance, q->imatrix, err));
    RETURN_IF(gguf_writer_open(&q->writer, q->out, err));
    q->is_tied = !gguf_find_tensor(q->file, "output.weight");
    write_metadata(q);
    int status = write_tensors(q, err);
    progress_clear();
    if (status) return status;
    return gguf_writer_finish(&q->writer, err);
}

static void print_summary(const quantize *q)
{
    char before[32], after[32];
    struct stat st = {0};
    if (stat(q->out, &st)) return;
    fprintf(stderr, "%s: %s, from %s: %llu tensors made, of these %llu not %s", q->out,
            human_bytes(after, (double)st.st_size),
            human_bytes(before, (double)gguf_file_bytes(q->file)), (unsigned long long)q->n_made,
            (unsigned long long)q->n_other, block_name(q->type));
    if (q->imatrix) fprintf(stderr, ", %llu by importance", (unsigned long long)q->n_weighted);
    if (q->n_made)
        fprintf(stderr, "; error %.3f %%", q->power > 0 ? 100 * sqrt(q->error / q->power) : 0.0);
    if (q->n_narrow)
        fprintf(stderr, "; %llu tensors stay narrower than %s: widening them would gain nothing",
                (unsigned long long)q->n_narrow, block_name(q->type));
    fprintf(stderr, "\n");
}

/* ---- the command ---- */

int program_quantize(int argc, char **argv)
{
    uint32_t cpus[THREAD_CPUS_MAX], n_cores = 0;
    quantize q = {0};
    cerium_error err;
    RETURN_IF(command_parse(&quantize_command, &q, argc, argv));
    if (argc - optind != 3) return usage_error("quantize", "name IN, OUT and TYPE");
    static char in[OPTIONS_PATH_MAX];
    q.in = options_find_model(argv[optind], in);
    q.out = argv[optind + 1];
    const char *near = option_near_type(argv[optind + 2]);
    if (!block_type_of_name(view_of(argv[optind + 2]), &q.type))
        return near ? usage_error("quantize", "'%s' is a mixture of types: name one, such as %s",
                                  argv[optind + 2], near)
                    : usage_error("quantize", "'%s' is not a type of tensors: there are %s",
                                  argv[optind + 2], option_types());
    if (!block_is_written(q.type))
        return usage_error("quantize", "%s is read, not written: there are %s", block_name(q.type),
                           option_types());
    thread_cpus(cpus, &n_cores);
    if (q.n_workers == 0) q.n_workers = n_cores < WORKERS_MAX ? n_cores : WORKERS_MAX;
    if (q.n_workers == 0) q.n_workers = 1;
    int status = run(&q, &err);
    if (!status) print_summary(&q);
    gguf_writer_close(&q.writer);
    gguf_close(&q.importance);
    gguf_close(&q.file);
    return status ? failed(&err) : 0;
}
