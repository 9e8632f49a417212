/* fuzz_model.c - any bytes as the head of a model: lowered to steps and, if it is small, run for
 * a few tokens.  The weights after the head are zeros, so seeds are heads of files. */
#include "base/memory.h"
#include "cpu/executor.h"
#include "model/model.h"

enum { FILE_BYTES_MAX = 16 << 20, PANELS_MAX = 8 << 20 };
enum { ROWS = 3, WIDTH_MAX = 512, VOCAB_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static team *workers;
static kernel_table kernels;
static model *of; /* that heads in files of their own draft for; or NULL */
static const _Atomic bool go_on;

/* A pass is work for the product of its shapes; hostile ones are huge and all zeros. */
static bool is_small(const model *m)
{
    const step_shape *s = &model_program(m)->shape;
    const uint64_t head_values = (uint64_t)s->n_heads * s->head_dim;
    return model_panel_key(m).bytes <= PANELS_MAX && s->n_layers <= 16 && s->n_embd <= WIDTH_MAX &&
           cpu_state_floats(model_program(m)) <= 64 * WIDTH_MAX &&
           head_values <= 4 * WIDTH_MAX && s->n_vocab <= VOCAB_MAX && s->n_experts <= 64 &&
           (uint64_t)s->n_experts_used * s->n_ff_expert <= 64 * WIDTH_MAX;
}

static int run(const step_program *program, kv_pool *pool, cpu_executor *executor,
               cerium_error *err)
{
    static float logits[ROWS][VOCAB_MAX + KERNEL_PANEL_ROWS];
    static const float last_state[WIDTH_MAX] = {1};
    kv_sequence *sequence = NULL;
    cpu_row rows[ROWS];
    RETURN_IF(kv_sequence_open(&sequence, pool, 64, 0, err));
    int status = kv_sequence_reserve(sequence, ROWS);
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (cpu_row){.token = (int32_t)(i % program->shape.n_vocab),
                            .position = i,
                            .sequence = sequence,
                            .last_state = i ? last_state : NULL,
                            .logits = logits[i]};
    if (!status && cpu_state_floats(program)) {
        rows[1].next_state = kv_sequence_next_state(sequence);
        rows[2].state = rows[1].next_state;
    }
    rows[2].is_own = program->shape.n_block > 0; /* after two of the context, a block */
    if (!status) status = cpu_executor_run(executor, rows, 2, &go_on);
    if (!status) status = cpu_executor_run(executor, rows + 2, 1, &go_on);
    kv_sequence_close(&sequence);
    return status;
}

static int run_program(const step_program *program)
{
    uint32_t windows[512] = {0};
    kv_heads heads[ARRAY_LEN(windows)];
    kv_pool *pool = NULL;
    cpu_executor *executor = NULL;
    cerium_error err = {0};
    cpu_kv_windows(program, windows);
    cpu_kv_heads(program, heads);
    const kv_layout layout = {.type = KERNEL_KV_I8,
                              .n_layers = program->shape.n_kv_layers,
                              .n_kv_heads = program->shape.n_kv_heads,
                              .head_dim = program->shape.head_dim,
                              .heads = heads,
                              .windows = windows,
                              .context_tokens = 64,
                              .batch_tokens = ROWS,
                              .sequences_max = 1,
                              .state_bytes = size_round_up(cpu_state_floats(program) *
                                                           sizeof(float), MEMORY_ALIGN)};
    int status = kv_pool_open(&pool, &layout, &err);
    if (!status) status = cpu_executor_open(&executor, program, &kernels, workers, ROWS, &err);
    if (!status) status = run(program, pool, executor, &err);
    cpu_executor_close(&executor);
    kv_pool_close(&pool);
    return status;
}

static void run_model(model *m)
{
    uint8_t *panels = memory_map(model_panel_key(m).bytes);
    if (!panels) return;
    model_set_panels(m, panels);
    int status = CERIUM_OK;
    for (uint32_t i = 0; !status && i < model_n_repack_items(m); i++) status = model_repack(m, i);
    if (status == CERIUM_ERR_FORMAT) return; /* bytes after the head that are no number */
    if (!status) status = run_program(model_program(m));
    if (!status && model_mtp(m)) status = run_program(model_mtp(m));
    CHECK(!status || status == CERIUM_ERR_MEMORY || status == CERIUM_ERR_CAPACITY);
}

static void open_model(view bytes_of_file)
{
    gguf_file *file = NULL;
    model *m = NULL;
    cerium_error err = {0};
    if (gguf_open_bytes(&file, bytes_of_file, "fuzz.gguf", &err)) return;
    const bool is_head = model_is_drafter(file);
    const model_options options = {.head = MODEL_HEAD_FULL, .mtp = true,
                                   .of = is_head ? model_program(of) : NULL};
    int status = model_open(&m, file, &options, &err);
    CHECK((status == 0) == (m != NULL));
    CHECK(!status || (err.status == status && err.message[0]));
    if (!status && is_small(m)) run_model(m);
    model_close(&m);
    gguf_close(&file);
}

/* A small model, whose weights are zeros; from the repository's root. */
static void open_target(void)
{
    static char all[FILE_BYTES_MAX];
    const model_options options = {.head = MODEL_HEAD_FULL};
    gguf_file *file = NULL;
    cerium_error err = {0};
    uint64_t whole = 0;
    FILE *f = fopen("tests/fuzz/corpus/model/llama", "rb");
    if (!f) return;
    const view head = {all, fread(all, 1, sizeof all, f)};
    fclose(f);
    CHECK(!gguf_whole_bytes(&whole, head, "llama", &err) && whole <= sizeof all);
    CHECK(!gguf_open_bytes(&file, (view){all, (size_t)whole}, "llama", &err));
    CHECK(!model_open(&of, file, &options, &err));
    model_set_panels(of, memory_map(model_panel_key(of).bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cerium_error err = {0};
    uint64_t whole = 0;
    if (!workers) {
        kernel_table_init(&kernels, kernel_cpu_detect());
        CHECK(!team_open(&workers, 1, &err));
        open_target();
    }
    const long live = memory_live();
    const view head = {(const char *)data, size};
    if (gguf_whole_bytes(&whole, head, "fuzz.gguf", &err) || whole > FILE_BYTES_MAX) return 0;
    if (whole < size) whole = size;
    char *file = memory_zalloc((size_t)whole, 1);
    if (!file) return 0;
    memcpy(file, data, size);
    open_model((view){file, (size_t)whole});
    memory_free(file);
    CHECK(memory_live() == live);
    return 0;
}
