/* test_dflash.c - a drafter that says a block of tokens in one pass (DFlash, DSpark): its logits
 * are those of the formulas, wherever the block begins and however the context was cut into passes;
 * one that knows how a model counts is right in each; damaged files are refused in one line.  That
 * random ones change no byte: test_draft_model.c. */
#include "engine/draft_round.h"
#include "heads.h"

/* The folder of the drafters whose logits are looked at: another may be the argument. */
static const char *drafters = FIXTURES;

/* ---- its logits ---- */

typedef struct {
    uint32_t n_context, n_in, n_vocab, n_said, n_blocks;
    const float *taps;  /* [n_context][n_in] */
    const char *blocks; /* [n_blocks] of at, token, logits [n_said][n_vocab] */
} expected;

static size_t block_bytes_of(const expected *x) { return 8 + 4 * (size_t)x->n_said * x->n_vocab; }

static void read_expected(expected *x, const char *from, size_t len)
{
    CHECK(len > 28 && !memcmp(from, "CEDFL001", 8));
    memcpy(x, from + 8, 5 * sizeof(uint32_t));
    x->taps = (const float *)(const void *)(from + 28);
    x->blocks = from + 28 + 4 * (size_t)x->n_context * x->n_in;
    CHECK(len == 28 + 4 * (size_t)x->n_context * x->n_in + x->n_blocks * block_bytes_of(x));
}

/* The context up to `end` in passes of n_pass. */
static void run_context(cerium_engine *head, const expected *x, kv_sequence *sequence,
                        uint32_t end, uint32_t n_pass)
{
    static const _Atomic bool go_on;
    for (uint32_t first = 0; first < end; first += n_pass) {
        const uint32_t n = end - first < n_pass ? end - first : n_pass;
        for (uint32_t i = 0; i < n; i++)
            head->rows[i] = (cpu_row){.position = first + i,
                                      .sequence = sequence,
                                      .last_state = x->taps + (size_t)(first + i) * x->n_in};
        CHECK(cpu_executor_run(head->executor, head->rows, n, &go_on) == 0);
    }
}

/* The likeliest, as a token of the model. */
static int32_t likeliest(const cerium_engine *head, const float *logits)
{
    const int32_t *said = model_said_tokens(head->model);
    int32_t best = 0;
    for (int32_t i = 1; i < (int32_t)head->n_vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return said ? said[best] : best;
}

static void run_block(cerium_engine *head, const expected *x, kv_sequence *sequence, uint32_t at,
                      int32_t token, float *logits)
{
    static const _Atomic bool go_on;
    const step_shape *s = &head->program->shape;
    const uint32_t n = s->n_block, first = s->block_says_first ? 0 : 1;
    CHECK(n - first == x->n_said);
    for (uint32_t i = 0; i < n; i++) {
        head->rows[i] = (cpu_row){.token = i ? (int32_t)s->mask_token : token,
                                  .position = at + i,
                                  .sequence = sequence,
                                  .is_own = true,
                                  .ahead = s->block_is_causal ? 0 : n - 1 - i};
        if (i < first) continue;
        engine_take_logits(head, &head->rows[i], logits + (i - first) * head->logits_stride);
    }
    CHECK(cpu_executor_run(head->executor, head->rows, n, &go_on) == 0);
    for (uint32_t i = 0; i < x->n_said && model_markov_of(head->model)->adds; i++) {
        draft_add_before(head, logits, NULL, 0, token);
        token = likeliest(head, logits);
        logits += head->logits_stride;
    }
}

/* A block after a context that was computed in passes of 64 rows and a row at a time; the second
 * time after another block, which leaves nothing. */
static void check_block(cerium_engine *head, const expected *x, uint32_t which, float *logits)
{
    const char *from = x->blocks + which * block_bytes_of(x);
    uint32_t at;
    int32_t token;
    char name[32];
    kv_sequence *sequence = NULL;
    cerium_error err;
    const uint32_t n = x->n_said, room = x->n_context + n + 1;
    memcpy(&at, from, 4);
    memcpy(&token, from + 4, 4);
    for (int k = 0; k < 2; k++) {
        CHECK(kv_sequence_open(&sequence, head->pool, room, 0, &err) == 0);
        CHECK(kv_sequence_reserve(sequence, room) == 0);
        run_context(head, x, sequence, at, k ? 1 : 64);
        float *to = logits + k * n * head->logits_stride;
        if (k) run_block(head, x, sequence, at, token / 2, to);
        run_block(head, x, sequence, at, token, to);
        kv_sequence_close(&sequence);
    }
    snprintf(name, sizeof name, "block after %u", at);
    check_rows(name, logits, head->logits_stride, (const float *)(const void *)(from + 8), n,
               x->n_vocab);
}

static void check_logits(const char *of, const char *name)
{
    char path[256], model_path[256];
    size_t len;
    expected x;
    snprintf(path, sizeof path, FIXTURES "%s.dflash", name);
    char *all = read_file(path, &len);
    read_expected(&x, all, len);
    snprintf(path, sizeof path, "%s%s.gguf", drafters, name);
    snprintf(model_path, sizeof model_path, FIXTURES "%s.gguf", of);
    cerium_engine *e = open_with(model_path, "always", path, 128), *head = e->draft->engine;
    float *logits = memory_zalloc(2 * x.n_said * head->logits_stride, sizeof *logits);
    printf("  %s\n", name);
    for (uint32_t i = 0; i < x.n_blocks; i++) check_block(head, &x, i, logits);
    memory_free(logits);
    cerium_engine_close(&e);
    memory_free(all);
}

static void test_logits(void)
{
    check_logits("llama", "dflash-llama");
    check_logits("qwen35", "dflash-qwen35");
    check_logits("qwen35", "dflash-window");
    check_logits("llama", "dflash-causal");
    check_logits("llama", "dspark-llama");
    check_logits("qwen35", "dspark-qwen35");
}

/* What the token before adds to some panels has the bits of what it adds to all. */
static void test_before(void)
{
    static const uint32_t panels[] = {0, 1, 2, 5, 7, 8, 16};
    cerium_engine *e = open_with(FIXTURES "qwen35.gguf", "always", FIXTURES "dspark-qwen35.gguf",
                                 128);
    cerium_engine *head = e->draft->engine;
    float *all = memory_zalloc(2 * head->logits_stride, sizeof *all);
    float *some = all + head->logits_stride;
    CHECK(head->n_vocab == 17 * KERNEL_PANEL_ROWS);
    draft_add_before(head, all, NULL, 0, 271);
    draft_add_before(head, some, panels, ARRAY_LEN(panels), 271);
    for (size_t i = 0; i < ARRAY_LEN(panels); i++)
        TEST_CHECK(!memcmp(some + i * KERNEL_PANEL_ROWS, all + panels[i] * KERNEL_PANEL_ROWS,
                           KERNEL_PANEL_ROWS * sizeof *all));
    TEST_CHECK(all[0] != 0 && some[ARRAY_LEN(panels) * KERNEL_PANEL_ROWS] == 0);
    memory_free(all);
    cerium_engine_close(&e);
}

/* ---- a planted drafter ---- */

/* It is right if the states are those of the tokens before the last, at their positions. */
static void test_planted(void)
{
    cerium_engine_stats s;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always",
                                 FIXTURES "dflash-planted.gguf", 512);
    const uint64_t passes = count(e, 7, &s);
    printf("  planted: %u tokens, %llu passes, %llu of its own, %llu drafted, %llu right\n", SAID,
           (unsigned long long)passes, (unsigned long long)s.draft_model_passes,
           (unsigned long long)s.model_drafted_tokens,
           (unsigned long long)s.model_accepted_tokens);
    TEST_CHECK(s.model_accepted_tokens == s.model_drafted_tokens);
    TEST_CHECK(s.model_drafted_tokens >= 150 && passes < SAID / 4);
    TEST_CHECK(s.draft_model_passes <= 2 * passes + 2); /* a context and a block for each */
    cerium_engine_close(&e);
}

static void test_described(void)
{
    cerium_engine_info info;
    cerium_engine *e = open_with(FIXTURES "llama.gguf", "auto", FIXTURES "dflash-llama.gguf", 128);
    cerium_engine_describe(e, &info);
    TEST_CHECK(!strcmp(info.draft_model, "dflash-llama"));
    TEST_CHECK(info.draft_model_bytes > taps_pool_bytes(&e->draft->states));
    cerium_engine_close(&e);
}

/* ---- damage ---- */

static const char *file_of = FIXTURES "dflash-llama.gguf";

/* The drafter for llama with bytes changed behind the first `text` in it. */
static void damaged(const char *text, long at, const void *put, size_t n_put, const char *of,
                    const char *why)
{
    char path[] = "/tmp/cerium-dflash-XXXXXX";
    cerium_engine_config config;
    cerium_engine *e = NULL;
    cerium_error err = {0};
    write_damaged(path, file_of, text, at, put, n_put);
    const long before = memory_live();
    cerium_engine_config_defaults(&config);
    config.model_path = of;
    config.context_tokens_max = 128;
    config.draft_model = path;
    const int status = cerium_engine_open(&e, &config, &err);
    TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && !e && strstr(err.message, why) &&
                        !strchr(err.message, '\n') && memory_live() == before,
                    "%s: %d, %s", text, status, err.message);
    if (e) cerium_engine_close(&e);
    unlink(path);
}

static void lacking(const char *tensor, const char *other, const char *of)
{
    char why[128];
    snprintf(why, sizeof why, "tensor %s is missing", tensor);
    damaged(tensor, -1, other, strlen(other), of, why);
}

static void test_damage(void)
{
    static const char of[] = FIXTURES "llama.gguf";
    const uint32_t one = 1, many = 9999, floats = 6;
    const uint64_t rows = 16;
    lacking("fc.weight", "fx", of);
    lacking("enc.output_norm.weight", "enx", of);
    lacking("blk.1.attn_q_norm.weight", "blk.1.attn_x", of);
    lacking("blk.0.attn_k_norm.weight", "blk.0.attn_x", of);
    lacking("blk.1.ffn_down.weight", "blk.1.ffn_x", of);
    damaged("fc.weight", 4 + 8, &rows, sizeof rows, of, "tensor fc.weight has shape");
    damaged("dflash.block_size", 4, &one, sizeof one, of, "block_size");
    damaged("dflash.block_size", 4, &many, sizeof many, of, "block_size");
    damaged("dflash.target_layers", 4 + 4 + 8, &many, sizeof many, of, "they must ascend");
    damaged("dflash.target_layers", 4 + 4 + 8 + 4, &many, sizeof many, of, "layer 9999");
    damaged("dflash.target_layers", 4, &floats, sizeof floats, of, "target_layers");
    damaged("dflash.target_layers", -1, "dflash.target_xayers", 20, of, "numbers of at most 8");
    damaged("tokenizer.ggml.mask_token_id", -1, "tokenizer.ggml.xask", 19, of,
            "key tokenizer.ggml.mask_token_id is missing");
    damaged("tokenizer.ggml.mask_token_id", 4, &many, sizeof many, of, "is 9999, of 272 tokens");
    file_of = FIXTURES "dspark-llama.gguf";
    const uint64_t wide = 2048;
    lacking("markov_w2.weight", "markov_x", of);
    damaged("markov_w1.weight", 4, &wide, sizeof wide, of, "markov_w1.weight");
    damaged("markov_w1.weight", 4 + 8, &rows, sizeof rows, of, "tensor markov_w1.weight has shape");
    damaged("markov_w2.weight", 4 + 8, &rows, sizeof rows, of, "tensor markov_w2.weight has shape");
    file_of = FIXTURES "dflash-llama.gguf";
    /* Of another model: its width, or its layers. */
    damaged("fc.weight", -1, "fc.weight", 9, FIXTURES "mtp-planted-state.gguf", "draft model: ");
    damaged("fc.weight", -1, "fc.weight", 9, "models/cerium-line.gguf", "draft model: ");
}

int main(int argc, char **argv)
{
    if (argc > 1) drafters = argv[1];
    TEST_RUN(test_logits);
    if (argc > 1) return unit_report("dflash");
    TEST_RUN(test_before);
    TEST_RUN(test_planted);
    TEST_RUN(test_described);
    TEST_RUN(test_damage);
    return unit_report("dflash");
}
