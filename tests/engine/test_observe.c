/* test_observe.c - cerium_engine_config.observe: it shows every input of every matrix once,
 * for any cuts of the text and any threads.
 *
 * The first layer's input is known without the engine: the norm of the embedding's rows. */
#include <math.h>
#include <pthread.h>

#include "base/memory.h"
#include "gguf/gguf.h"
#include "../unit/unit.h"

#define FIXTURES "tests/golden/fixtures/"

enum { N_TOKENS = 75, TENSORS_MAX = 64, COLUMNS_MAX = 4096, EXPERTS_MAX = 16 };

typedef struct {
    char name[64];
    uint32_t n_columns, counts[EXPERTS_MAX];
    double sums[COLUMNS_MAX]; /* over all matrices of the tensor */
} seen_tensor;

typedef struct {
    seen_tensor all[TENSORS_MAX];
    size_t n;
    pthread_mutex_t lock;
} seen_all;

static seen_all seen[2];

static void observe(void *user, const cerium_observation *o)
{
    seen_all *s = user;
    size_t i = 0;
    pthread_mutex_lock(&s->lock);
    while (i < s->n && (strlen(s->all[i].name) != o->tensor_len ||
                        memcmp(s->all[i].name, o->tensor, o->tensor_len) != 0))
        i++;
    CHECK(i < TENSORS_MAX && o->n_columns <= COLUMNS_MAX && o->matrix < EXPERTS_MAX);
    seen_tensor *t = &s->all[i];
    if (i == s->n) {
        s->n++;
        snprintf(t->name, sizeof t->name, "%.*s", (int)o->tensor_len, o->tensor);
        t->n_columns = o->n_columns;
    }
    if (o->first == 0) t->counts[o->matrix]++;
    for (uint32_t c = 0; c < o->n; c++)
        t->sums[o->first + c] += (double)o->input[c] * (double)o->input[c];
    pthread_mutex_unlock(&s->lock);
}

static const seen_tensor *of(const seen_all *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->all[i].name, name)) return &s->all[i];
    return NULL;
}

static void run(seen_all *s, const char *path, uint32_t threads, uint32_t batch)
{
    int32_t tokens[N_TOKENS];
    float logprobs[N_TOKENS];
    cerium_error err;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_engine_config config;
    const cerium_session_config scores = {.score_tokens_max = 16};
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = threads;
    config.batch_tokens_max = batch;
    config.cache = "off";
    config.observe = observe;
    config.observe_user = s;
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 37 + 11) % 250;
    TEST_CHECK(!cerium_engine_open(&engine, &config, &err));
    TEST_CHECK(engine && !cerium_session_open(&session, engine, &scores, &err));
    TEST_CHECK(session && !cerium_session_score(session, tokens, N_TOKENS, logprobs, &err));
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    pthread_mutex_destroy(&s->lock);
}

static bool near(const seen_tensor *a, const seen_tensor *b, double share)
{
    if (!a || !b || a->n_columns != b->n_columns) return false;
    for (uint32_t i = 0; i < a->n_columns; i++)
        if (fabs(a->sums[i] - b->sums[i]) > share * (fabs(a->sums[i]) + 1e-9)) return false;
    return !memcmp(a->counts, b->counts, sizeof a->counts);
}

/* Sums of squares of norm(embedding) over the tokens of run(). */
static void first_input(const char *path, seen_tensor *out)
{
    cerium_error err;
    gguf_file *file = NULL;
    TEST_CHECK(!gguf_open(&file, path, &err));
    const gguf_tensor *embd = gguf_find_tensor(file, "token_embd.weight");
    const gguf_tensor *norm = gguf_find_tensor(file, "blk.0.attn_norm.weight");
    const size_t n = (size_t)embd->dims[0];
    float *row = memory_zalloc(n, sizeof *row), eps = 0;
    TEST_CHECK(gguf_get_f32(file, "llama.attention.layer_norm_rms_epsilon", &eps) ||
               gguf_get_f32(file, "qwen2.attention.layer_norm_rms_epsilon", &eps) ||
               gguf_get_f32(file, "qwen3moe.attention.layer_norm_rms_epsilon", &eps));
    out->n_columns = (uint32_t)n;
    out->counts[0] = N_TOKENS;
    for (int i = 0; i < N_TOKENS; i++) {
        double mean = 0;
        size_t token = (size_t)((i * 37 + 11) % 250), size = embd->size / (size_t)embd->dims[1];
        block_decode(embd->type, row, (const uint8_t *)embd->data + token * size, n);
        for (size_t c = 0; c < n; c++) mean += (double)row[c] * (double)row[c] / (double)n;
        for (size_t c = 0; c < n; c++) {
            double x = (double)row[c] * (double)((const float *)norm->data)[c];
            out->sums[c] += x * x / (mean + (double)eps);
        }
    }
    memory_free(row);
    gguf_close(&file);
}

/* With activations in 8 bits, a column's mean square is known to a fraction of the row's
 * largest. */
static void check_model(const char *path, double share)
{
    static seen_tensor expected;
    memset(&expected, 0, sizeof expected);
    first_input(path, &expected);
    run(&seen[0], path, 1, 256);
    run(&seen[1], path, 3, 7);
    TEST_CHECK_THAT(seen[0].n == seen[1].n && seen[0].n > 8, "%zu tensors", seen[0].n);
    for (size_t i = 0; i < seen[0].n; i++)
        TEST_CHECK_THAT(near(&seen[0].all[i], of(&seen[1], seen[0].all[i].name), 1e-9), "%s: %s",
                        path, seen[0].all[i].name);
    TEST_CHECK_THAT(near(&expected, of(&seen[0], "blk.0.attn_q.weight"), share), "%s", path);
    TEST_CHECK(near(of(&seen[0], "blk.1.attn_q.weight"), of(&seen[0], "blk.1.attn_v.weight"), 0));
}

static void test_floats(void)
{
    check_model(FIXTURES "llama.gguf", 1e-5);
    check_model(FIXTURES "qwen2-f16.gguf", 1e-5);
    TEST_CHECK(of(&seen[0], "blk.0.ffn_down.weight") && of(&seen[0], "blk.0.attn_output.weight"));
}

static void test_eight_bits(void)
{
    check_model(FIXTURES "qwen2-q8_0.gguf", 0.1);
}

static void test_experts(void)
{
    uint64_t n_up = 0, n_down = 0;
    check_model(FIXTURES "qwen3moe.gguf", 1e-5);
    const seen_tensor *up = of(&seen[0], "blk.0.ffn_up_exps.weight");
    const seen_tensor *down = of(&seen[0], "blk.0.ffn_down_exps.weight");
    TEST_CHECK(up && down);
    for (int e = 0; up && down && e < EXPERTS_MAX; e++) {
        n_up += up->counts[e];
        n_down += down->counts[e];
    }
    TEST_CHECK_THAT(n_up == n_down && n_up >= 2 * N_TOKENS && n_up % N_TOKENS == 0, "%llu",
                    (unsigned long long)n_up);
}

int main(void)
{
    TEST_RUN(test_floats);
    TEST_RUN(test_eight_bits);
    TEST_RUN(test_experts);
    return unit_report("observe");
}
