/* test_embedding.c - the vector of a text, checked through the output head.
 *
 * The head is one matrix: W state = logits, and logits are compared with the reference
 * implementation by test_golden.c.  So for an engine that computes in floats, W embedding equals
 * the logits up to a factor, the state's length, from which the mean over all tokens is recomputed
 * here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cerium.h"

#include "../unit/unit.h"

enum { N_TOKENS = 150, EMBEDDING_MAX = 512, VOCAB_MAX = 4096 };

static const char *const fixtures[][2] = {{"tests/golden/fixtures/qwen3.gguf", "qwen3"},
                                          {"tests/golden/fixtures/starcoder2.gguf", "starcoder2"}};
static char path[256];
static cerium_engine *engine;
static cerium_engine_info info;
static float *head; /* [n_vocab][n_embedding] of the fixture, in floats */
static int32_t tokens[N_TOKENS];

/* ---- a fixture that names a pooling ---- */

static void put(FILE *f, const void *from, size_t n) { TEST_CHECK(fwrite(from, 1, n, f) == n); }

static void put_key(FILE *f, const char *key, uint32_t type)
{
    uint64_t n = strlen(key);
    put(f, &n, 8);
    put(f, key, n);
    put(f, &type, 4);
}

/* Two more keys, together a multiple of the file's alignment. */
static void make_file(const char *from, const char *arch, uint32_t pooling)
{
    char key[64], data[4096], fill[64];
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    uint64_t n_kv;
    memset(fill, 'x', sizeof fill);
    snprintf(key, sizeof key, "%s.pooling_type", arch);
    TEST_CHECK(in && out && fread(data, 1, 24, in) == 24);
    memcpy(&n_kv, data + 16, 8);
    n_kv += 2;
    memcpy(data + 16, &n_kv, 8);
    put(out, data, 24);
    put_key(out, key, 4);
    put(out, &pooling, 4);
    const char *name = "test.fill";
    uint64_t n = 8 + strlen(key) + 4 + 4 + 8 + strlen(name) + 4 + 8, n_fill = (32 - n % 32) % 32;
    put_key(out, name, 8);
    put(out, &n_fill, 8);
    put(out, fill, n_fill);
    for (size_t got; (got = fread(data, 1, sizeof data, in)) > 0;) put(out, data, got);
    fclose(in);
    TEST_CHECK(fclose(out) == 0);
}

static void open_engine(int fixture, uint32_t pooling)
{
    cerium_engine_config config;
    cerium_error err;
    make_file(fixtures[fixture][0], fixtures[fixture][1], pooling);
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.batch_tokens_max = 40;
    config.context_tokens_max = 256;
    config.exact = true;
    config.kv_type = "f32";
    config.cache = "off";
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    cerium_engine_describe(engine, &info);
    TEST_CHECK((uint32_t)info.pooling == pooling && info.n_embedding <= EMBEDDING_MAX);
}

static cerium_session *open_session(void)
{
    cerium_session *s = NULL;
    cerium_error err;
    const cerium_session_config config = {.embeds = true};
    TEST_CHECK_THAT(cerium_session_open(&s, engine, &config, &err) == 0, "%s", err.message);
    return s;
}

static void embed(cerium_session *s, uint32_t n, float *out)
{
    cerium_error err;
    TEST_CHECK_THAT(cerium_session_sync(s, tokens, n, NULL, &err) == 0, "%s", err.message);
    TEST_CHECK_THAT(cerium_session_embedding(s, out, &err) == 0, "%s", err.message);
}

/* The state of the last of n tokens: its direction is the embedding, its length the factor that
 * makes the head's product the logits; returns their relative distance. */
static double state_of(cerium_session *s, uint32_t n, double *state)
{
    float e[EMBEDDING_MAX];
    size_t n_vocab;
    double up = 0, down = 0, apart = 0, whole = 0;
    static double product[VOCAB_MAX];
    embed(s, n, e);
    const float *logits = cerium_session_logits(s, &n_vocab);
    for (size_t v = 0; v < n_vocab; v++) {
        product[v] = 0;
        for (uint32_t i = 0; i < info.n_embedding; i++)
            product[v] += (double)head[v * info.n_embedding + i] * (double)e[i];
        up += product[v] * (double)logits[v];
        down += product[v] * product[v];
    }
    for (size_t v = 0; v < n_vocab; v++) {
        double d = (double)logits[v] - up / down * product[v];
        apart += d * d;
        whole += (double)logits[v] * (double)logits[v];
    }
    for (uint32_t i = 0; i < info.n_embedding; i++) state[i] = up / down * (double)e[i];
    return sqrt(apart / whole);
}

/* ---- the head's weights, from the file: an F32 tensor ---- */

static const char *after_text(const char *at)
{
    uint64_t n;
    memcpy(&n, at, 8);
    return at + 8 + n;
}

static const char *after_value(const char *at, uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return after_text(at);
    if (type != 9) return at + sizes[type];
    uint32_t of;
    uint64_t n;
    memcpy(&of, at, 4);
    memcpy(&n, at + 4, 8);
    at += 12;
    while (n-- > 0) at = after_value(at, of);
    return at;
}

static bool find_tensor(const char *file, const char *name, const char **data)
{
    uint64_t n_tensors, n_kv, offset = 0;
    memcpy(&n_tensors, file + 8, 8);
    memcpy(&n_kv, file + 16, 8);
    const char *at = file + 24;
    for (uint64_t i = 0; i < n_kv; i++) {
        uint32_t type;
        at = after_text(at);
        memcpy(&type, at, 4);
        at = after_value(at + 4, type);
    }
    bool found = false;
    for (uint64_t i = 0; i < n_tensors; i++) {
        uint64_t len;
        uint32_t dims, type;
        memcpy(&len, at, 8);
        bool is_it = len == strlen(name) && !memcmp(at + 8, name, len);
        at += 8 + len;
        memcpy(&dims, at, 4);
        memcpy(&type, at + 4 + 8 * dims, 4);
        if (is_it && type == 0) {
            memcpy(&offset, at + 8 + 8 * dims, 8);
            found = true;
        }
        at += 16 + 8 * dims;
    }
    *data = file + ((size_t)(at - file) + 31) / 32 * 32 + offset;
    return found;
}

static char *read_head(const char *from)
{
    FILE *f = fopen(from, "rb");
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *file = malloc((size_t)n);
    const char *data;
    TEST_CHECK(file && fread(file, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    bool found = find_tensor(file, "output.weight", &data) ||
                 find_tensor(file, "token_embd.weight", &data);
    TEST_CHECK(found);
    head = (float *)(void *)data;
    return file;
}

/* ---- tests ---- */

static void check_fixture(int fixture)
{
    float e[EMBEDDING_MAX], again[EMBEDDING_MAX];
    double state[EMBEDDING_MAX], mean[EMBEDDING_MAX] = {0}, worst = 0, length = 0;
    char *file = read_head(fixtures[fixture][0]);
    open_engine(fixture, CERIUM_POOLING_LAST);
    for (int32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)((uint32_t)(i * 7919 + 3) % info.n_vocab);
    cerium_session *s = open_session();
    for (uint32_t n = 1; n <= N_TOKENS; n++) {
        double apart = state_of(s, n, state);
        if (apart > worst) worst = apart;
        for (uint32_t i = 0; i < info.n_embedding; i++) mean[i] += state[i];
    }
    TEST_CHECK_THAT(worst < 1e-5, "%g", worst);
    /* However much of the prompt is cached. */
    embed(s, N_TOKENS, e);
    cerium_session_close(&s);
    s = open_session();
    embed(s, N_TOKENS, again);
    TEST_CHECK(!memcmp(e, again, info.n_embedding * sizeof *e));
    cerium_session_close(&s);
    cerium_engine_close(&engine);

    open_engine(fixture, CERIUM_POOLING_MEAN);
    for (uint32_t i = 0; i < info.n_embedding; i++) length += mean[i] * mean[i];
    for (int round = 0; round < 2; round++) { /* the second time all of it is in the cache */
        double sum = 0;
        worst = 0;
        s = open_session();
        embed(s, N_TOKENS, round ? again : e);
        for (uint32_t i = 0; i < info.n_embedding; i++) {
            double d = fabs((double)e[i] - mean[i] / sqrt(length));
            sum += (double)e[i] * (double)e[i];
            if (d > worst) worst = d;
        }
        TEST_CHECK_THAT(worst < 1e-5 && fabs(sum - 1) < 1e-5, "%g %g", worst, sum);
        cerium_session_close(&s);
    }
    TEST_CHECK(!memcmp(e, again, info.n_embedding * sizeof *e));
    cerium_engine_close(&engine);

    open_engine(fixture, CERIUM_POOLING_CLS);
    s = open_session();
    embed(s, N_TOKENS, e);
    embed(s, 1, again);
    TEST_CHECK(!memcmp(e, again, info.n_embedding * sizeof *e));
    cerium_session_close(&s);
    cerium_engine_close(&engine);
    free(file);
}

static void test_states(void)
{
    for (int i = 0; i < 2; i++) check_fixture(i);
}

static void test_refusals(void)
{
    float e[EMBEDDING_MAX];
    cerium_error err;
    cerium_session *s = NULL;
    const cerium_session_config config = {.embeds = true};
    open_engine(0, CERIUM_POOLING_NONE);
    TEST_CHECK(cerium_session_open(&s, engine, &config, &err) == CERIUM_ERR_ARGUMENT && !s);
    TEST_CHECK(cerium_session_open(&s, engine, NULL, &err) == 0);
    TEST_CHECK(cerium_session_embedding(s, e, &err) == CERIUM_ERR_ARGUMENT);
    cerium_session_close(&s);
    cerium_engine_close(&engine);
    open_engine(0, CERIUM_POOLING_LAST);
    s = open_session();
    TEST_CHECK(cerium_session_embedding(s, e, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(cerium_session_embedding(NULL, e, &err) == CERIUM_ERR_ARGUMENT);
    cerium_session_close(&s);
    cerium_engine_close(&engine);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/cerium-embedding-%d.gguf", (int)getpid());
    TEST_RUN(test_states);
    TEST_RUN(test_refusals);
    unlink(path);
    return unit_report("embedding");
}
