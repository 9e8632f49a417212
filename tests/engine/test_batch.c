/* test_batch.c - rows of sixteen sequences in one pass give the bits that each gives alone.
 *
 * The public API runs one session at a time; the executor below it runs rows of many sequences,
 * of different lengths.  That is tested here, on the golden fixtures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cpu/executor.h"
#include "model/model.h"

enum { SEQUENCES = 16, TOKENS = 40, VOCAB_MAX = 1024 };

typedef struct {
    gguf_file *file;
    model *m;
    team *workers;
    kernel_table kernels;
    cpu_executor *executor;
    kv_pool *pool;
} machine;

static int passed, failed;
static const _Atomic bool go_on;

static void repack(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    (void)phase, (void)worker;
    for (uint32_t i = first; i < end; i++) CHECK(!model_repack(arg, i));
}

static int open_machine(machine *x, const char *path, kernel_kv_type kv_type, cerium_error *err)
{
    uint32_t windows[512] = {0};
    kv_heads heads[ARRAY_LEN(windows)];
    kernel_table_init(&x->kernels, kernel_cpu_detect());
    RETURN_IF(gguf_open(&x->file, path, err));
    RETURN_IF(model_open(&x->m, x->file, NULL, err));
    RETURN_IF(team_open(&x->workers, 2, err));
    const step_program *program = model_program(x->m);
    cpu_kv_windows(program, windows);
    cpu_kv_heads(program, heads);
    kv_layout layout = {.type = kv_type,
                        .n_layers = program->shape.n_kv_layers,
                        .n_kv_heads = program->shape.n_kv_heads,
                        .head_dim = program->shape.head_dim,
                        .heads = heads,
                        .windows = windows,
                        .context_tokens = 128,
                        .batch_tokens = SEQUENCES * TOKENS,
                        .sequences_max = SEQUENCES};
    RETURN_IF(kv_pool_open(&x->pool, &layout, err));
    RETURN_IF(cpu_executor_open(&x->executor, program, &x->kernels, x->workers,
                                SEQUENCES * TOKENS, err));
    uint8_t *panels = memory_map(model_panel_key(x->m).bytes);
    if (!panels) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the weights");
    model_set_panels(x->m, panels);
    team_phase phase = {.n_units = model_n_repack_items(x->m), .chunk = 1};
    team_run(x->workers, &phase, 1, repack, x->m);
    return 0;
}

static void close_machine(machine *x)
{
    cpu_executor_close(&x->executor);
    kv_pool_close(&x->pool);
    team_close(&x->workers);
    model_close(&x->m);
    gguf_close(&x->file);
}

static int32_t token_of(uint32_t sequence, uint32_t position, uint32_t n_vocab)
{
    return (int32_t)((sequence * 7919 + position * 104729 + sequence * position) % n_vocab);
}

static float tops[2 * SEQUENCES][VOCAB_MAX / CPU_PIECE + 1];

static bool tops_are_right(uint32_t row, const float *logits, uint32_t n_vocab)
{
    uint32_t n_wrong = 0;
    for (uint32_t i = 0; i < n_vocab; i += CPU_PIECE) {
        uint32_t n = n_vocab - i < CPU_PIECE ? n_vocab - i : CPU_PIECE;
        float top = -INFINITY;
        for (uint32_t k = i; k < i + n; k++) top = logits[k] > top ? logits[k] : top;
        n_wrong += tops[row][i / CPU_PIECE] != top;
    }
    return n_wrong == 0;
}

/* Sequence i holds i + 20 tokens: the first i in a pass of their own if apart is false, then
 * the rest of all sequences in one pass, with the logits of each one's last two rows. */
static int run(machine *x, bool together, float *logits, size_t stride, cerium_error *err)
{
    static cpu_row rows[SEQUENCES * TOKENS];
    kv_sequence *sequences[SEQUENCES] = {NULL};
    uint32_t n_vocab = model_program(x->m)->shape.n_vocab, n = 0;
    int status = 0;
    for (uint32_t s = 0; s < SEQUENCES && !status; s++) {
        status = kv_sequence_open(&sequences[s], x->pool, 128, 0, err);
        if (!status) status = kv_sequence_reserve(sequences[s], s + 20);
        if (!together) n = 0;
        for (uint32_t p = 0; p < s + 20 && !status; p++) {
            float *out = p >= s + 18 ? logits + (2 * s + p - (s + 18)) * stride : NULL;
            rows[n++] = (cpu_row){.token = token_of(s, p, n_vocab),
                                  .position = p,
                                  .sequence = sequences[s],
                                  .logits = out,
                                  .tops = out ? tops[2 * s + p - (s + 18)] : NULL};
            /* Alone: one row per pass, the opposite of all rows at once. */
            if (!together) {
                status = cpu_executor_run(x->executor, rows, 1, &go_on);
                n = 0;
            }
        }
    }
    if (together && !status) status = cpu_executor_run(x->executor, rows, n, &go_on);
    for (uint32_t s = 0; s < SEQUENCES; s++) kv_sequence_close(&sequences[s]);
    return status;
}

static void check(const char *name, kernel_kv_type kv_type)
{
    char path[256];
    machine x = {0};
    cerium_error err = {0};
    static float alone[2 * SEQUENCES * VOCAB_MAX], together[2 * SEQUENCES * VOCAB_MAX];
    snprintf(path, sizeof path, "tests/golden/fixtures/%s.gguf", name);
    memset(alone, 0x11, sizeof alone);
    memset(together, 0x22, sizeof together);
    int status = open_machine(&x, path, kv_type, &err);
    size_t n_vocab = status ? 0 : model_program(x.m)->shape.n_vocab;
    if (!status) status = run(&x, false, alone, VOCAB_MAX, &err);
    if (!status) status = run(&x, true, together, VOCAB_MAX, &err);
    uint32_t wrong = 0;
    for (size_t i = 0; i < 2 * SEQUENCES; i++)
        wrong += memcmp(alone + i * VOCAB_MAX, together + i * VOCAB_MAX,
                        n_vocab * sizeof(float)) != 0 ||
                 !tops_are_right((uint32_t)i, together + i * VOCAB_MAX, (uint32_t)n_vocab);
    if (status || wrong) {
        failed++;
        printf("  FAIL %s, KV in %s: %u of %d rows differ %s\n", name, kernel_kv_name(kv_type),
               wrong, 2 * SEQUENCES, err.message);
    } else {
        passed++;
    }
    close_machine(&x);
}

int main(void)
{
    check("llama", KERNEL_KV_I8);
    check("llama", KERNEL_KV_F16);
    check("llama", KERNEL_KV_F32);
    check("qwen2-q4_0", KERNEL_KV_I8);
    check("qwen3", KERNEL_KV_I8);
    check("qwen3moe-q4_0", KERNEL_KV_I8);
    check("gpt-oss-mxfp4", KERNEL_KV_I8);
    check("gpt-oss-mxfp4", KERNEL_KV_F16);
    check("gpt-oss-mxfp4", KERNEL_KV_F32);
    check("starcoder2", KERNEL_KV_I8);
    check("gemma3", KERNEL_KV_I8);
    check("granitemoe", KERNEL_KV_I8);
    check("glm4moe", KERNEL_KV_I8);
    check("minimax-m2", KERNEL_KV_I8);
    check("deepseek2", KERNEL_KV_I8);
    check("deepseek2", KERNEL_KV_F16);
    check("deepseek2-yarn", KERNEL_KV_F32);
    printf("batch: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
