/* test_eagle3.c - a head in a file of its own that drafts for a model (EAGLE-3): its logits are
 * those of the formulas, whatever the rows of a pass; what it reads of the model are the inputs of
 * the layers that it names; one that knows what comes is accepted; files that are damaged, of
 * another model, or no heads are refused in one line.  That no head changes an answer:
 * test_draft_model.c. */
#include "heads.h"

/* The folder of the heads whose logits are looked at: another may be the argument. */
static const char *heads = FIXTURES;

/* ---- its logits ---- */

typedef struct {
    uint32_t n, n_tapped, n_vocab;
    const int32_t *tokens;
    const float *taps, *logits; /* [n - 1][3][n_tapped], [n][n_vocab] */
} expected;

static void read_expected(expected *x, const char *from, size_t len)
{
    CHECK(len > 20 && !memcmp(from, "CEEAG001", 8));
    memcpy(&x->n, from + 8, 4);
    memcpy(&x->n_tapped, from + 12, 4);
    memcpy(&x->n_vocab, from + 16, 4);
    const size_t n = x->n, tapped = (n - 1) * 3 * x->n_tapped, logits = n * x->n_vocab;
    CHECK(len == 20 + 4 * (n + tapped + logits));
    x->tokens = (const int32_t *)(const void *)(from + 20);
    x->taps = (const float *)(const void *)(from + 20 + 4 * n);
    x->logits = x->taps + tapped;
}

/* Rows in passes of n_pass; the last one by itself, with the state after the one before. */
static void run_head(cerium_engine *head, const expected *x, uint32_t n_pass, float *logits)
{
    static const _Atomic bool go_on;
    float own[256];
    kv_sequence *sequence = NULL;
    cerium_error err;
    const uint32_t width = head->program->shape.n_embd;
    CHECK(width <= ARRAY_LEN(own));
    CHECK(kv_sequence_open(&sequence, head->pool, x->n, 0, &err) == 0);
    CHECK(kv_sequence_reserve(sequence, x->n) == 0);
    for (uint32_t first = 0, n; first < x->n; first += n) {
        const uint32_t left = x->n - 1 - first;
        n = left < n_pass ? left : n_pass;
        if (left == 0) n = 1;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t at = first + i;
            const float *given = x->taps + (size_t)at * 3 * x->n_tapped;
            head->rows[i] = (cpu_row){.token = x->tokens[at],
                                      .position = at,
                                      .sequence = sequence,
                                      .is_own = left == 0,
                                      .last_state = left == 0 ? own : at ? given : NULL};
            engine_take_logits(head, &head->rows[i], logits + at * head->logits_stride);
        }
        CHECK(cpu_executor_run(head->executor, head->rows, n, &go_on) == 0);
        cpu_executor_state(head->executor, n - 1, own);
    }
    kv_sequence_close(&sequence);
}

static void check_logits(const char *of, const char *name)
{
    char path[256];
    size_t len;
    expected x;
    snprintf(path, sizeof path, FIXTURES "%s.eagle3", name);
    char *all = read_file(path, &len);
    read_expected(&x, all, len);
    snprintf(path, sizeof path, "%s%s.gguf", heads, name);
    cerium_engine *e = open_with(of, "always", path, 128), *head = e->draft->engine;
    const size_t stride = head->logits_stride;
    TEST_CHECK(head->n_vocab == x.n_vocab);
    float *logits = memory_zalloc(2 * x.n * stride, sizeof *logits);
    run_head(head, &x, 64, logits);
    run_head(head, &x, 1, logits + x.n * stride);
    check_rows(name, logits, stride, x.logits, x.n, x.n_vocab);
    memory_free(logits);
    cerium_engine_close(&e);
    memory_free(all);
}

static void test_logits(void)
{
    check_logits(FIXTURES "llama.gguf", "eagle3-llama");
    check_logits(FIXTURES "qwen35.gguf", "eagle3-qwen35");
    check_logits(FIXTURES "qwen35.gguf", "eagle3-wide");
    check_logits(FIXTURES "llama.gguf", "eagle3-norms");
    check_logits(FIXTURES "qwen35.gguf", "eagle3-layers");
}

/* ---- what it reads ---- */

enum { READ = 9, WIDTH_MAX = 256 };

static void run_tokens(cerium_engine *e)
{
    static const _Atomic bool go_on;
    kv_sequence *sequence = NULL;
    cerium_error err;
    CHECK(kv_sequence_open(&sequence, e->pool, READ, 0, &err) == 0);
    CHECK(kv_sequence_reserve(sequence, READ) == 0);
    for (uint32_t i = 0; i < READ; i++)
        e->rows[i] = (cpu_row){.token = (int32_t)(i * 31 + 5), .position = i, .sequence = sequence};
    CHECK(cpu_executor_run(e->executor, e->rows, READ, &go_on) == 0);
    kv_sequence_close(&sequence);
}

/* The input of layer n is what a file of n layers has at its end: this fixture is of two, and of
 * one if its key says so.  Both ends are compared after the last norm. */
static void check_tap(cerium_engine *e, uint32_t tap, const char *shorter)
{
    float all[3 * WIDTH_MAX], want[WIDTH_MAX], have[WIDTH_MAX];
    const step_shape *s = &e->program->shape;
    const uint32_t n = s->n_embd;
    cerium_engine *of = shorter ? open_with(shorter, "off", NULL, 128) : e;
    CHECK(n <= WIDTH_MAX);
    if (of != e) run_tokens(of);
    for (uint32_t row = 0; row < READ; row++) {
        cpu_executor_tapped(e->executor, row, all);
        cpu_executor_state(of->executor, row, want);
        e->kernels.rms_norm(have, all + tap * n, e->program->ops[e->program->n_ops - 1].norm, n,
                            s->norm_eps);
        TEST_CHECK_THAT(!memcmp(have, want, n * sizeof *have), "tap %u of row %u", tap, row);
    }
    if (of != e) cerium_engine_close(&of);
}

static void test_taps(void)
{
    char shorter[] = "/tmp/cerium-eagle3-XXXXXX";
    static const char key[] = "llama.block_count";
    const uint32_t one = 1;
    size_t len;
    char *all = read_file(FIXTURES "llama.gguf", &len), *place = memmem(all, len, key, strlen(key));
    CHECK(place);
    memcpy(place + strlen(key) + 4, &one, sizeof one);
    const int fd = mkstemp(shorter);
    CHECK(fd >= 0 && write(fd, all, len) == (ssize_t)len);
    close(fd);
    memory_free(all);
    cerium_engine *e = open_with(FIXTURES "llama.gguf", "always", FIXTURES "eagle3-llama.gguf",
                                 128);
    float tapped[3 * WIDTH_MAX], first[WIDTH_MAX];
    const model_matrix *w = e->program->ops[0].w[0];
    run_tokens(e);
    for (uint32_t row = 0; row < READ; row++) {
        const uint32_t token = row * 31 + 5;
        cpu_executor_tapped(e->executor, row, tapped);
        kernel_panel_row(w->type, first, model_matrix_panels(w, 0, token / KERNEL_PANEL_ROWS),
                         token % KERNEL_PANEL_ROWS, w->cols);
        TEST_CHECK(!memcmp(tapped, first, w->cols * sizeof *tapped));
    }
    check_tap(e, 1, shorter);
    check_tap(e, 2, NULL);
    unlink(shorter);
    cerium_engine_close(&e);
}

/* ---- a planted head ---- */

/* It is right if each state is that of the token before, if its layer is the middle one, and if
 * the rows of its output are the tokens that its table says. */
static void test_planted(void)
{
    cerium_engine_stats s;
    cerium_engine *e = open_with(FIXTURES "mtp-planted-state.gguf", "always",
                                 FIXTURES "eagle3-planted.gguf", 512);
    uint64_t passes = count(e, 7, &s);
    printf("  planted: %u tokens, %llu passes, %llu drafted, %llu right\n", SAID,
           (unsigned long long)passes, (unsigned long long)s.model_drafted_tokens,
           (unsigned long long)s.model_accepted_tokens);
    TEST_CHECK(s.model_accepted_tokens == s.model_drafted_tokens);
    TEST_CHECK(s.model_drafted_tokens > 100 && passes < SAID / 5);
    cerium_engine_close(&e);
}

static void test_described(void)
{
    cerium_engine_info info;
    const long before = memory_live();
    cerium_engine *e = open_with(FIXTURES "llama.gguf", "auto", FIXTURES "eagle3-llama.gguf", 128);
    cerium_engine_describe(e, &info);
    TEST_CHECK(!strcmp(info.draft_model, "eagle3-llama") && info.draft_model_bytes > 100000);
    cerium_engine_close(&e);
    e = open_with(FIXTURES "llama.gguf", "off", FIXTURES "eagle3-llama.gguf", 128);
    TEST_CHECK(!e->draft);
    cerium_engine_close(&e);
    TEST_CHECK(memory_live() == before);
}

/* ---- damage ---- */

static int open_status(const char *of, const char *head, cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine *e = NULL;
    const long before = memory_live();
    cerium_engine_config_defaults(&config);
    config.model_path = of;
    config.context_tokens_max = 256;
    config.draft_model = head;
    int status = cerium_engine_open(&e, &config, err);
    TEST_CHECK((status == 0) == (e != NULL));
    if (e) cerium_engine_close(&e);
    TEST_CHECK(memory_live() == before);
    return status;
}

static void refused(const char *of, const char *head, const char *why)
{
    cerium_error err = {0};
    int status = open_status(of, head, &err);
    TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT && strstr(err.message, why) &&
                        !strchr(err.message, '\n'), "%s: %s", why, err.message);
}

/* As a head of llama.gguf; frees all. */
static void refused_bytes(char *all, size_t len, const char *why)
{
    char path[] = "/tmp/cerium-eagle3-XXXXXX";
    write_bytes(path, all, len);
    refused(FIXTURES "llama.gguf", path, why);
    unlink(path);
    memory_free(all);
}

/* A key or a tensor by its whole name, before which is its length. */
static char *find_name(char *all, size_t len, const char *name)
{
    const uint64_t n = strlen(name);
    char *at = all;
    while ((at = memmem(at + 1, len - (size_t)(at + 1 - all), name, n)) != NULL)
        if (!memcmp(at - sizeof n, &n, sizeof n)) return at;
    CHECK(at);
    return NULL;
}

/* A head of llama.gguf with some bytes changed: those `at` after the end of a name, or with
 * at < 0 those of it. */
static void damage(const char *head, const char *name, long at, const void *put, size_t n_put,
                   const char *why)
{
    size_t len;
    char *all = read_file(head, &len);
    char *place = find_name(all, len, name);
    memcpy(at < 0 ? place : place + strlen(name) + at, put, n_put);
    refused_bytes(all, len, why);
}

static void damaged(const char *name, long at, const void *put, size_t n_put, const char *why)
{
    damage(FIXTURES "eagle3-llama.gguf", name, at, put, n_put, why);
}

static void lacking(const char *tensor, const char *other)
{
    char why[128];
    snprintf(why, sizeof why, "tensor %s is missing", tensor);
    damaged(tensor, -1, other, strlen(other), why);
}

/* A number in the table of tokens. */
static void wrong_token(uint64_t place, int64_t token, const char *why)
{
    gguf_file *file = NULL;
    cerium_error err;
    size_t len;
    char *all = read_file(FIXTURES "eagle3-llama.gguf", &len);
    CHECK(gguf_open_bytes(&file, (view){all, len}, "head", &err) == 0);
    const gguf_tensor *t = gguf_find_tensor(file, "d2t");
    CHECK(t && t->type == BLOCK_I64 && t->dims[0] == 100);
    const size_t at = (size_t)((const char *)t->data - all);
    if (token == -2) memcpy(&token, all + at, sizeof token); /* that of the first */
    memcpy(all + at + place * sizeof token, &token, sizeof token);
    gguf_close(&file);
    refused_bytes(all, len, why);
}

static void test_damage(void)
{
    const uint32_t two = 2, far = 40, wide = 99;
    const uint64_t short_list = 2, rows = 16;
    const int32_t deep = 77, same = 0;
    const uint32_t f32 = 0;
    lacking("fc.weight", "xc.weight");
    lacking("blk.0.attn_norm_2.weight", "blk.0.attn_xorm_2");
    lacking("blk.0.attn_norm.weight", "blk.0.attn_xorm.w");
    lacking("blk.0.attn_q.weight", "blk.0.attn_x");
    lacking("blk.0.ffn_down.weight", "blk.0.ffn_xown");
    lacking("output_norm.weight", "output_xorm");
    damaged("fc.weight", 4 + 8, &rows, sizeof rows, "tensor fc.weight has shape");
    damaged("output.weight", -1, "outxut.weight", 13,
            "tensor output.weight is missing, and the model's has");
    damaged("eagle3.block_count", 4, &two, sizeof two, "tensor blk.1.attn_norm.weight is missing");
    damaged("eagle3.target_hidden_size", 4, &wide, sizeof wide, "made for a model 99 wide");
    damaged("eagle3.target_layers", 4 + 4, &short_list, sizeof short_list, "");
    damaged("eagle3.target_layers", 4 + 4 + 8, &deep, sizeof deep, "layer 77: they must ascend");
    damaged("eagle3.target_layers", 4 + 4 + 8 + 4, &same, sizeof same, "layer 0: they must ascend");
    damaged("eagle3.target_layers", 4 + 4 + 8 + 8, &far, sizeof far, "and the model has 2");
    damaged("eagle3.target_layers", -1, "eagle3.target_xayers", 20,
            "key eagle3.target_layers must");
    damage(FIXTURES "eagle3-norms.gguf", "fc_norm.1.weight", -1, "fc_norx.1.weight", 16,
           "tensor fc_norm.1.weight is missing");
    damage(FIXTURES "eagle3-norms.gguf", "fc_norm.2.weight", 4, &rows, sizeof rows,
           "tensor fc_norm.2.weight has 16 values");
    damaged("d2t", 4 + 8, &f32, sizeof f32, "tensor d2t must have");
    wrong_token(7, -1, "tensor d2t: token -1, and the model has");
    wrong_token(7, 1 << 20, "tensor d2t: token 1048576, and the model has");
    wrong_token(7, -2, "twice");
}

/* Of another model, and no model itself. */
static void test_refused(void)
{
    cerium_error err = {0};
    refused(FIXTURES "llama.gguf", FIXTURES "eagle3-planted.gguf", "draft model: ");
    refused(FIXTURES "qwen35.gguf", FIXTURES "eagle3-llama.gguf", "made for a model ");
    refused(FIXTURES "eagle3-llama.gguf", "off", "an EAGLE-3 head drafts for another model");
    TEST_CHECK_THAT(open_status(FIXTURES "llama.gguf", FIXTURES "eagle3-llama.gguf", &err) == 0,
                    "%s", err.message);
}

int main(int argc, char **argv)
{
    if (argc > 1) heads = argv[1];
    TEST_RUN(test_logits);
    if (argc > 1) return unit_report("eagle3");
    TEST_RUN(test_taps);
    TEST_RUN(test_planted);
    TEST_RUN(test_described);
    TEST_RUN(test_damage);
    TEST_RUN(test_refused);
    return unit_report("eagle3");
}
