/* make_model.c - models of real shapes with random weights, for speed and for tests.
 *
 *   tool_make_model --shape qwen2.5-coder-0.5b --type q4_0 -o out.gguf
 *
 * The same options make the same bytes.  Weights are random blocks, written without encoding, of
 * a size such that activations neither explode nor vanish: norms are 1, matrices have a standard
 * deviation of 1/sqrt(n_in).  The tokenizer is synthetic but whole (make_vocab.h), so text can be
 * tokenized; the model's output is noise, or the text of --recite. */
#include "base/base.h"
#include "base/memory.h"
#include "gguf/write.h"

#include <getopt.h>
#include <math.h>

#include "make_blocks.h"
#include "make_recital.h"
#include "make_vocab.h"

/* ---- shapes ---- */

typedef enum { ARCH_LLAMA, ARCH_QWEN2, ARCH_QWEN3, ARCH_QWEN3MOE, ARCH_GPT_OSS } arch_kind;

static const char *const arch_names[] = {"llama", "qwen2", "qwen3", "qwen3moe", "gpt-oss"};

typedef struct {
    const char *name;
    arch_kind arch;
    uint32_t n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff, n_vocab;
    uint32_t n_experts, n_used; /* 0 when dense; n_ff is one expert's */
    uint32_t context;
    bool tied; /* no output.weight */
    float rope_base, eps;
} shape;

static const shape shapes[] = {
    /* name, arch, embd, layers, heads, kv, dim, ff, vocab, experts, used, ctx, tied, base, eps */
    {"qwen2.5-coder-0.5b", ARCH_QWEN2, 896, 24, 14, 2, 64, 4864, 151936, 0, 0, 32768, true, 1e6f,
     1e-6f},
    {"qwen2.5-coder-1.5b", ARCH_QWEN2, 1536, 28, 12, 2, 128, 8960, 151936, 0, 0, 32768, true, 1e6f,
     1e-6f},
    {"qwen2.5-coder-3b", ARCH_QWEN2, 2048, 36, 16, 2, 128, 11008, 151936, 0, 0, 32768, true, 1e6f,
     1e-6f},
    {"qwen2.5-coder-7b", ARCH_QWEN2, 3584, 28, 28, 4, 128, 18944, 152064, 0, 0, 32768, false, 1e6f,
     1e-6f},
    {"qwen3-coder-30b-a3b", ARCH_QWEN3MOE, 2048, 48, 32, 4, 128, 768, 151936, 128, 8, 262144, false,
     1e7f, 1e-6f},
    {"gpt-oss-20b", ARCH_GPT_OSS, 2880, 24, 64, 8, 64, 2880, 201088, 32, 4, 131072, false, 150000,
     1e-5f},
    /* llama2.c's stories15M */
    {"tiny-15m", ARCH_LLAMA, 288, 6, 6, 6, 48, 768, 32000, 0, 0, 256, true, 1e4f, 1e-5f},
    /* 67 million parameters: 33.5 in the layers, twice 16.8 in embedding and head */
    {"60m", ARCH_LLAMA, 512, 8, 8, 8, 64, 2048, 32768, 0, 0, 4096, false, 1e4f, 1e-5f},
    /* the widths of BitNet-b1.58-2B-4T, for ternary types */
    {"ternary-2b", ARCH_LLAMA, 2560, 30, 20, 5, 128, 6912, 128256, 0, 0, 4096, true, 5e5f, 1e-5f},
    {"test-llama", ARCH_LLAMA, 256, 2, 4, 2, 64, 512, 512, 0, 0, 512, false, 1e4f, 1e-5f},
    {"test-qwen2", ARCH_QWEN2, 256, 2, 4, 2, 64, 512, 512, 0, 0, 512, true, 1e6f, 1e-6f},
    {"test-qwen3", ARCH_QWEN3, 256, 2, 4, 2, 128, 512, 512, 0, 0, 512, true, 1e6f, 1e-6f},
    {"test-qwen3moe", ARCH_QWEN3MOE, 256, 2, 4, 2, 128, 256, 512, 8, 2, 512, false, 1e6f, 1e-6f},
    {"test-gpt-oss", ARCH_GPT_OSS, 256, 4, 8, 2, 64, 256, 512, 8, 4, 512, false, 150000, 1e-5f},
};

/* ---- the list of tensors ---- */

typedef enum {
    FILL_RANDOM, /* mean 0, the given standard deviation */
    FILL_ONE,
    FILL_ROWS,    /* random, each row its own: an embedding */
    FILL_FOLLOWS, /* each row that of the token before it: the output matrix of a recital */
} fill_kind;

typedef struct {
    char name[64];
    block_type type;
    fill_kind fill;
    float deviation;
    uint32_t n_dims;
    uint64_t dims[3];
} tensor_plan;

enum { TENSORS_PER_LAYER_MAX = 24, LAYERS_MAX = 256 };

typedef struct {
    shape s;
    block_type type, head_type, attention_type;
    uint64_t seed;
    recital recital; /* before is NULL without one */
    tensor_plan *tensors; /* [n_tensors] */
    size_t n_tensors, tensors_cap;
} plan;

/* The type used instead if rows do not fill a type's blocks, as in llama-quantize. */
static block_type type_for_rows(block_type type, uint64_t n_cols)
{
    if (n_cols % block_values(type) == 0) return type;
    block_type next = BLOCK_F16;
    if (type == BLOCK_Q4_K) next = BLOCK_Q5_0;
    if (type == BLOCK_Q5_K) next = BLOCK_Q5_1;
    if (type == BLOCK_Q6_K) next = BLOCK_Q8_0;
    if (type == BLOCK_IQ4_XS) next = BLOCK_IQ4_NL;
    return n_cols % block_values(next) == 0 ? next : BLOCK_F16;
}

static tensor_plan *add(plan *p, int layer, const char *name, block_type type)
{
    CHECK(p->n_tensors < p->tensors_cap);
    tensor_plan *t = &p->tensors[p->n_tensors++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
    t->type = type;
    return t;
}

static tensor_plan *add_matrix(plan *p, int layer, const char *name, block_type type,
                               uint32_t n_in, uint32_t n_out)
{
    tensor_plan *t = add(p, layer, name, type_for_rows(type, n_in));
    t->deviation = 1.0f / sqrtf((float)n_in);
    t->n_dims = 2;
    t->dims[0] = n_in, t->dims[1] = n_out;
    return t;
}

static void add_experts(plan *p, int layer, const char *name, uint32_t n_in, uint32_t n_out)
{
    tensor_plan *t = add_matrix(p, layer, name, p->type, n_in, n_out);
    t->n_dims = 3;
    t->dims[2] = p->s.n_experts;
}

static void add_norm(plan *p, int layer, const char *name, uint32_t n)
{
    tensor_plan *t = add(p, layer, name, BLOCK_F32);
    t->fill = FILL_ONE;
    t->n_dims = 1;
    t->dims[0] = n;
}

/* A bias of n values, or of n for each of n_rows if that is not 0. */
static void add_bias(plan *p, int layer, const char *name, uint32_t n, uint32_t n_rows)
{
    tensor_plan *t = add(p, layer, name, BLOCK_F32);
    t->deviation = 0.05f;
    t->n_dims = n_rows ? 2 : 1;
    t->dims[0] = n, t->dims[1] = n_rows;
}

static void add_attention(plan *p, int layer)
{
    const shape *s = &p->s;
    uint32_t n_q = s->n_heads * s->head_dim, n_kv = s->n_kv_heads * s->head_dim;
    add_norm(p, layer, "attn_norm.weight", s->n_embd);
    add_matrix(p, layer, "attn_q.weight", p->attention_type, s->n_embd, n_q);
    add_matrix(p, layer, "attn_k.weight", p->attention_type, s->n_embd, n_kv);
    add_matrix(p, layer, "attn_v.weight", p->attention_type, s->n_embd, n_kv);
    add_matrix(p, layer, "attn_output.weight", p->attention_type, n_q, s->n_embd);
    if (s->arch == ARCH_QWEN2 || s->arch == ARCH_GPT_OSS) {
        add_bias(p, layer, "attn_q.bias", n_q, 0);
        add_bias(p, layer, "attn_k.bias", n_kv, 0);
        add_bias(p, layer, "attn_v.bias", n_kv, 0);
    }
    if (s->arch == ARCH_QWEN3 || s->arch == ARCH_QWEN3MOE) {
        add_norm(p, layer, "attn_q_norm.weight", s->head_dim);
        add_norm(p, layer, "attn_k_norm.weight", s->head_dim);
    }
    if (s->arch == ARCH_GPT_OSS) {
        add_bias(p, layer, "attn_output.bias", s->n_embd, 0);
        add_bias(p, layer, "attn_sinks.weight", s->n_heads, 0);
    }
}

static void add_feed_forward(plan *p, int layer)
{
    const shape *s = &p->s;
    bool oss = s->arch == ARCH_GPT_OSS;
    add_norm(p, layer, oss ? "post_attention_norm.weight" : "ffn_norm.weight", s->n_embd);
    if (s->n_experts == 0) {
        add_matrix(p, layer, "ffn_gate.weight", p->type, s->n_embd, s->n_ff);
        add_matrix(p, layer, "ffn_up.weight", p->type, s->n_embd, s->n_ff);
        add_matrix(p, layer, "ffn_down.weight", p->type, s->n_ff, s->n_embd);
        return;
    }
    add_matrix(p, layer, "ffn_gate_inp.weight", BLOCK_F32, s->n_embd, s->n_experts);
    add_experts(p, layer, "ffn_gate_exps.weight", s->n_embd, s->n_ff);
    add_experts(p, layer, "ffn_up_exps.weight", s->n_embd, s->n_ff);
    add_experts(p, layer, "ffn_down_exps.weight", s->n_ff, s->n_embd);
    if (!oss) return;
    add_bias(p, layer, "ffn_gate_inp.bias", s->n_experts, 0);
    add_bias(p, layer, "ffn_gate_exps.bias", s->n_ff, s->n_experts);
    add_bias(p, layer, "ffn_up_exps.bias", s->n_ff, s->n_experts);
    add_bias(p, layer, "ffn_down_exps.bias", s->n_embd, s->n_experts);
}

static bool plan_tensors(plan *p)
{
    const shape *s = &p->s;
    p->tensors_cap = 3 + (size_t)s->n_layers * TENSORS_PER_LAYER_MAX;
    p->tensors = memory_zalloc(p->tensors_cap, sizeof *p->tensors);
    if (!p->tensors) return false;
    bool recites = p->recital.before;
    block_type embedding = s->tied || recites ? p->head_type : p->attention_type;
    tensor_plan *in = add_matrix(p, -1, "token_embd.weight", embedding, s->n_embd, s->n_vocab);
    if (recites) in->fill = FILL_ROWS, in->deviation = recital_embedding_deviation;
    add_norm(p, -1, "output_norm.weight", s->n_embd);
    if (!s->tied || recites) {
        tensor_plan *out = add_matrix(p, -1, "output.weight", p->head_type, s->n_embd, s->n_vocab);
        if (recites) out->fill = FILL_FOLLOWS;
    }
    for (uint32_t i = 0; i < s->n_layers; i++) {
        add_attention(p, (int)i);
        add_feed_forward(p, (int)i);
    }
    return true;
}

/* ---- metadata ---- */

/* general.file_type, llama.cpp's number for "mostly of this type". */
static uint32_t file_type(block_type type)
{
    /* clang-format off */
    switch (type) {
    case BLOCK_I64:
    case BLOCK_F32: return 0;
    case BLOCK_F16: return 1;
    case BLOCK_Q4_0: return 2;
    case BLOCK_Q4_1: return 3;
    case BLOCK_Q8_0: return 7;
    case BLOCK_Q5_0: return 8;
    case BLOCK_Q5_1: return 9;
    case BLOCK_Q2_K: return 10;
    case BLOCK_Q3_K: return 11;
    case BLOCK_IQ2_XXS: return 19;
    case BLOCK_IQ2_XS: return 20;
    case BLOCK_IQ2_S: return 28;
    case BLOCK_IQ3_XXS: return 23;
    case BLOCK_IQ3_S: return 26;
    case BLOCK_IQ1_S: return 24;
    case BLOCK_IQ1_M: return 31;
    case BLOCK_Q1_0: return 40;
    case BLOCK_PQ2_0:
    case BLOCK_PTQ1_0: return block_file_id(type);
    case BLOCK_Q2_0: break; /* it has no number in llama.cpp */
    case BLOCK_TQ1_0: return 36;
    case BLOCK_TQ2_0: return 37;
    case BLOCK_Q4_K: return 14;
    case BLOCK_Q5_K: return 16;
    case BLOCK_Q6_K: return 18;
    case BLOCK_IQ4_NL: return 25;
    case BLOCK_IQ4_XS: return 30;
    case BLOCK_BF16: return 32;
    case BLOCK_MXFP4: return 38;
    case BLOCK_NVFP4: return 39;
    case BLOCK_Q4_W:
    case BLOCK_Q8_W: return block_file_id(type);
    }
    /* clang-format on */
    return 0;
}

static const char *arch_key(const plan *p, const char *suffix)
{
    static char key[96];
    snprintf(key, sizeof key, "%s.%s", arch_names[p->s.arch], suffix);
    return key;
}

static void write_metadata(gguf_writer *w, const plan *p)
{
    const shape *s = &p->s;
    gguf_write_string(w, "general.architecture", view_of(arch_names[s->arch]));
    gguf_write_string(w, "general.name", view_of(s->name));
    gguf_write_string(w, "general.description", VIEW("random weights, for measuring and testing"));
    gguf_write_u32(w, "general.file_type", file_type(p->type));
    gguf_write_u32(w, "general.quantization_version", 2);
    gguf_write_u32(w, arch_key(p, "context_length"), s->context);
    gguf_write_u32(w, arch_key(p, "embedding_length"), s->n_embd);
    gguf_write_u32(w, arch_key(p, "block_count"), s->n_layers);
    gguf_write_u32(w, arch_key(p, "feed_forward_length"), s->n_ff);
    gguf_write_u32(w, arch_key(p, "attention.head_count"), s->n_heads);
    gguf_write_u32(w, arch_key(p, "attention.head_count_kv"), s->n_kv_heads);
    gguf_write_u32(w, arch_key(p, "attention.key_length"), s->head_dim);
    gguf_write_u32(w, arch_key(p, "attention.value_length"), s->head_dim);
    gguf_write_u32(w, arch_key(p, "rope.dimension_count"), s->head_dim);
    gguf_write_u32(w, arch_key(p, "vocab_size"), s->n_vocab);
    gguf_write_f32(w, arch_key(p, "rope.freq_base"), s->rope_base);
    gguf_write_f32(w, arch_key(p, "attention.layer_norm_rms_epsilon"), s->eps);
    if (s->n_experts) {
        gguf_write_u32(w, arch_key(p, "expert_count"), s->n_experts);
        gguf_write_u32(w, arch_key(p, "expert_used_count"), s->n_used);
        gguf_write_u32(w, arch_key(p, "expert_feed_forward_length"), s->n_ff);
    }
    if (s->arch == ARCH_GPT_OSS) {
        gguf_write_u32(w, arch_key(p, "attention.sliding_window"), 128);
        gguf_write_string(w, arch_key(p, "rope.scaling.type"), VIEW("yarn"));
        gguf_write_f32(w, arch_key(p, "rope.scaling.factor"), 32.0f);
        gguf_write_u32(w, arch_key(p, "rope.scaling.original_context_length"), 4096);
    }
}

/* ---- the file ---- */

enum { CHUNK_VALUES = 1 << 18 };

/* Every tensor has a generator of its own, so that its bytes depend on its name and the seed. */
static uint64_t tensor_seed(const plan *p, const char *name)
{
    uint64_t h = p->seed + UINT64_C(0x9e3779b97f4a7c15);
    for (; *name; name++) h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    return h;
}

/* Row by row, each with its own generator: a row of the output matrix begins with the state of
 * the embedding's row whose token it follows, and has its values, except for the scale. */
static bool write_rows(gguf_writer *w, const plan *p, const tensor_plan *t, uint8_t *chunk)
{
    uint64_t seed = tensor_seed(p, "token_embd.weight");
    size_t size = 0;
    block_maker maker;
    block_maker_init(&maker, seed, t->type, t->deviation);
    CHECK(block_row_bytes(t->type, t->dims[0], &size));
    for (uint32_t row = 0; row < t->dims[1]; row++) {
        uint32_t own = t->fill == FILL_FOLLOWS ? p->recital.before[row] : row;
        maker.state = seed ^ (own + UINT64_C(1)) * UINT64_C(0xd1342543de82ef95);
        block_maker_fill(&maker, chunk, t->dims[0] / block_values(t->type));
        if (!gguf_write_data(w, chunk, size)) return false;
    }
    return true;
}

static bool write_tensor_data(gguf_writer *w, const plan *p, const tensor_plan *t, uint8_t *chunk)
{
    if (t->fill == FILL_ROWS || t->fill == FILL_FOLLOWS) return write_rows(w, p, t, chunk);
    uint64_t left = 1;
    size_t size = 0;
    block_maker maker;
    block_maker_init(&maker, tensor_seed(p, t->name), t->type, t->deviation);
    for (uint32_t i = 0; i < t->n_dims; i++) left *= t->dims[i];
    while (left > 0) {
        uint64_t n = left < CHUNK_VALUES ? left : CHUNK_VALUES;
        CHECK(block_row_bytes(t->type, n, &size));
        if (t->fill == FILL_ONE)
            for (uint64_t i = 0; i < n; i++) ((float *)(void *)chunk)[i] = 1.0f;
        else
            block_maker_fill(&maker, chunk, n / block_values(t->type));
        if (!gguf_write_data(w, chunk, size)) return false;
        left -= n;
    }
    return true;
}

static int write_model(const plan *p, const char *path, cerium_error *err)
{
    gguf_writer *w;
    uint8_t *chunk = memory_alloc(CHUNK_VALUES * sizeof(float));
    if (!chunk) return error_set(err, CERIUM_ERR_MEMORY, "%s: out of memory", path);
    int status = gguf_writer_open(&w, path, err);
    if (!status) {
        write_metadata(w, p);
        vocab_family family = p->s.arch == ARCH_GPT_OSS ? VOCAB_GPT_OSS : VOCAB_QWEN;
        status = write_vocab(w, family, p->s.n_vocab, err);
        for (size_t i = 0; i < p->n_tensors; i++) {
            const tensor_plan *t = &p->tensors[i];
            gguf_write_tensor(w, view_of(t->name), t->type, t->n_dims, t->dims);
        }
        for (size_t i = 0; i < p->n_tensors && !status; i++)
            if (!write_tensor_data(w, p, &p->tensors[i], chunk)) break;
        if (status)
            gguf_writer_close(&w);
        else
            status = gguf_writer_finish(&w, err);
    }
    memory_free(chunk);
    return status;
}

static void report(const plan *p, const char *path)
{
    uint64_t parameters = 0, total = 0;
    for (size_t i = 0; i < p->n_tensors; i++) {
        const tensor_plan *t = &p->tensors[i];
        uint64_t n = 1;
        size_t size = 0;
        for (uint32_t k = 0; k < t->n_dims; k++) n *= t->dims[k];
        CHECK(block_row_bytes(t->type, n, &size));
        parameters += n;
        total += size;
    }
    fprintf(stderr, "%s: %s, %u layers, %.1f million parameters, %.1f MB of weights\n", path,
            p->s.name, p->s.n_layers, (double)parameters / 1e6, (double)total / 1e6);
}

/* ---- the command line ---- */

static void print_help(FILE *to)
{
    fprintf(to,
            "tool_make_model --shape NAME [--type TYPE] -o FILE\n"
            "Write a model with random weights.\n\n"
            "  --shape NAME      one of the shapes below\n"
            "  --type TYPE       of the matrices (default q4_0; gpt-oss: mxfp4 experts)\n"
            "  --head-type TYPE  of the output matrix, or of the embedding when tied (default:\n"
            "                    as llama-quantize chooses: q6_k, or q8_0 for odd widths)\n"
            "  --layers N        cut to N layers\n"
            "  --vocab N         another size of vocabulary\n"
            "  --context N       another context length\n"
            "  --seed N          other weights (default 1)\n"
            "  --recite FILE     a model with a head of its own whose greedy text is known: lines\n"
            "                    of token numbers; each token of a line is followed by the next\n"
            "  -o FILE           where to\n\n"
            "Example: tool_make_model --shape qwen2.5-coder-0.5b --type q4_0 -o model.gguf\n\n"
            "Shapes:\n");
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const shape *s = &shapes[i];
        fprintf(to, "  %-20s %-9s %u layers of %u, %u/%u heads of %u, ff %u, vocabulary %u%s",
                s->name, arch_names[s->arch], s->n_layers, s->n_embd, s->n_heads, s->n_kv_heads,
                s->head_dim, s->n_ff, s->n_vocab, s->tied ? ", tied" : "");
        if (s->n_experts) fprintf(to, ", %u of %u experts", s->n_used, s->n_experts);
        fprintf(to, "\n");
    }
}

static _Noreturn void bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "tool_make_model: %s%s; see --help\n", what, value);
    exit(2);
}

static uint32_t number_of(const char *option, const char *text, uint64_t min, uint64_t max)
{
    uint64_t n;
    if (!parse_u64(view_of(text), &n) || n < min || n > max) bad_usage(option, text);
    return (uint32_t)n;
}

static block_type type_of(const char *option, const char *text)
{
    block_type type;
    if (!block_type_of_name(view_of(text), &type)) bad_usage(option, text);
    return type;
}

static const shape *shape_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
    bad_usage("unknown shape ", name);
}

typedef struct {
    const char *shape, *out, *type, *head_type, *recite;
    uint32_t layers, vocab, context, seed;
} options;

static void parse_options(options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"shape", required_argument, NULL, 's'},
        {"type", required_argument, NULL, 't'},
        {"head-type", required_argument, NULL, 'e'},
        {"layers", required_argument, NULL, 'l'},
        {"vocab", required_argument, NULL, 'v'},
        {"context", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, 'r'},
        {"recite", required_argument, NULL, 'f'},
        {"output", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "o:h", longs, NULL)) != -1;) {
        /* clang-format off */
        switch (c) {
        case 's': o->shape = optarg; break;
        case 't': o->type = optarg; break;
        case 'e': o->head_type = optarg; break;
        case 'l': o->layers = number_of("bad --layers ", optarg, 1, LAYERS_MAX); break;
        case 'v': o->vocab = number_of("bad --vocab ", optarg, VOCAB_MIN, VOCAB_MAX); break;
        case 'c': o->context = number_of("bad --context ", optarg, 1, 1 << 24); break;
        case 'r': o->seed = number_of("bad --seed ", optarg, 0, UINT32_MAX); break;
        case 'f': o->recite = optarg; break;
        case 'o': o->out = optarg; break;
        case 'h': print_help(stdout); exit(0);
        default: exit(2);
        }
        /* clang-format on */
    }
    if (optind < argc) bad_usage("unexpected argument ", argv[optind]);
    if (!o->shape) bad_usage("--shape is missing", "");
    if (!o->out) bad_usage("-o FILE is missing", "");
}

static plan plan_of(const options *o)
{
    plan p = {.s = *shape_of(o->shape), .seed = o->seed};
    bool oss = p.s.arch == ARCH_GPT_OSS;
    if (o->layers) p.s.n_layers = o->layers;
    if (o->vocab) p.s.n_vocab = o->vocab;
    if (o->context) p.s.context = o->context;
    p.type = o->type ? type_of("unknown --type ", o->type) : oss ? BLOCK_MXFP4 : BLOCK_Q4_0;
    p.attention_type = oss && p.type == BLOCK_MXFP4 ? BLOCK_Q8_0 : p.type;
    bool plain = block_values(p.type) == 1; /* F32, F16, BF16 keep their type in the head */
    p.head_type = plain ? p.type : p.type == BLOCK_Q8_0 || oss ? BLOCK_Q8_0 : BLOCK_Q6_K;
    if (o->head_type) p.head_type = type_of("unknown --head-type ", o->head_type);
    return p;
}

int main(int argc, char **argv)
{
    options o = {.seed = 1};
    cerium_error err;
    parse_options(&o, argc, argv);
    plan p = plan_of(&o);
    int status = o.recite ? recital_read(&p.recital, o.recite, p.s.n_vocab, &err) : CERIUM_OK;
    if (!status && !plan_tensors(&p))
        status = error_set(&err, CERIUM_ERR_MEMORY, "out of memory");
    if (!status) status = write_model(&p, o.out, &err);
    if (status)
        fprintf(stderr, "tool_make_model: %s\n", err.message);
    else
        report(&p, o.out);
    memory_free(p.tensors);
    memory_free(p.recital.before);
    return status ? 1 : 0;
}
