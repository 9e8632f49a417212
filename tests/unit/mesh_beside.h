/* mesh_beside.h - a mesh beside the CPU engine: the same tokens through both, and the difference of
 * their logits. */
#ifndef TESTS_UNIT_MESH_BESIDE_H
#define TESTS_UNIT_MESH_BESIDE_H

#include <math.h>

#include "base/memory.h"
#include "wafer/mesh_core.h"

#include "unit.h"

enum { PROMPT_MAX = 560, PROMPT = 90, NEW = 6 };

/* ---- the CPU ---- */

/* Logits after the prompt and after each greedy token after it. */
typedef struct {
    float *logits; /* [NEW][n_vocab] */
    int32_t tokens[PROMPT_MAX + NEW];
    uint32_t n_prompt, n_vocab;
} truth;

/* A text, or arbitrary tokens if there is none. */
static void prompt_of(truth *t, const cerium_engine *engine, uint32_t n, const char *text)
{
    cerium_error err;
    size_t len = 0;
    t->n_prompt = n;
    for (uint32_t i = 0; i < n; i++)
        t->tokens[i] = (int32_t)((i * 2654435761u + 12345) % 100003 % t->n_vocab);
    if (!text) return;
    TEST_CHECK(cerium_tokenize(engine, text, strlen(text), 0, t->tokens, n, &len, &err) == 0);
    t->n_prompt = (uint32_t)len;
}

static int32_t best_of(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static bool ask_cpu(truth *t, const char *path, kernel_kv_type kv, uint32_t n_prompt,
                    const char *text)
{
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_engine_config config;
    cerium_engine_info info;
    cerium_error err = {0};
    size_t n_vocab = 0;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 1;
    config.kv_type = kernel_kv_name(kv);
    config.head = "full";
    config.sessions_max = 1;
    config.cache = "off";
    TEST_CHECK_THAT(cerium_engine_open(&engine, &config, &err) == 0, "%s", err.message);
    if (!engine) return false;
    cerium_engine_describe(engine, &info);
    t->n_vocab = info.n_vocab;
    if (t->logits) memory_free(t->logits);
    t->logits = memory_alloc((size_t)NEW * t->n_vocab * sizeof(float));
    prompt_of(t, engine, n_prompt, text);
    TEST_CHECK(cerium_session_open(&session, engine, NULL, &err) == 0);
    for (uint32_t i = 0; i < NEW; i++) {
        TEST_CHECK(cerium_session_sync(session, t->tokens, t->n_prompt + i, NULL, &err) == 0);
        float *to = t->logits + (size_t)i * t->n_vocab;
        memcpy(to, cerium_session_logits(session, &n_vocab), t->n_vocab * sizeof *to);
        t->tokens[t->n_prompt + i] = best_of(to, t->n_vocab);
    }
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return true;
}

/* ---- the mesh ---- */

static mesh *open_mesh(const char *path, const mesh_layout *layout, bool with_bound,
                       mesh_fault fault, gguf_file **file)
{
    cerium_error err = {0};
    mesh *m = NULL;
    TEST_CHECK_THAT(gguf_open(file, path, &err) == 0, "%s", err.message);
    if (!*file) return NULL;
    TEST_CHECK_THAT(mesh_open(&m, *file, layout, with_bound, fault, &err) == 0, "%s: %s", path,
                    err.message);
    if (!m) gguf_close(file);
    return m;
}

/* The prompt in passes of rows_max. */
static void prefill(mesh *m, const int32_t *tokens, uint32_t n)
{
    const uint32_t most = mesh_layout_of(m)->rows_max;
    for (uint32_t i = 0; i < n; i += most)
        (mesh_layout_of(m)->mesh_gemm ? mesh_prompt : mesh_run)(
            m, tokens + i, n - i < most ? n - i : most, i, i + most >= n);
}

/* The difference between the mesh and the CPU. */
typedef struct {
    bool same_bits, same_tokens;
    float worst, widest; /* the largest difference in bounds; the largest finite bound */
    uint32_t n_bounded, n_decided; /* places with a bound, and with a certain best token */
} distance;

/* Whether the bounds exclude any other token as the best. */
static bool is_decided(const float *logits, const float *bounds, uint32_t best, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (i != best && !(logits[best] - logits[i] > bounds[best] + bounds[i])) return false;
    return true;
}

static void measure(distance *d, const mesh *m, uint32_t row, const truth *t, uint32_t i)
{
    const float *have = mesh_logits(m, row), *bound = mesh_logit_bounds(m, row);
    const float *want = t->logits + (size_t)i * t->n_vocab;
    const int32_t best = best_of(have, t->n_vocab);
    for (uint32_t v = 0; v < t->n_vocab; v++) {
        const float off = fabsf(have[v] - want[v]) / bound[v];
        if (!(off <= d->worst)) d->worst = off;
        if (isfinite(bound[v]) && bound[v] > d->widest) d->widest = bound[v];
    }
    d->n_bounded += isfinite(bound[0]);
    if (!is_decided(have, bound, (uint32_t)best, t->n_vocab)) return;
    d->n_decided++;
    TEST_CHECK(best == best_of(want, t->n_vocab) || d->worst > 1);
}

static inline distance run(const char *path, const mesh_layout *layout, mesh_fault fault,
                           const truth *t)
{
    gguf_file *file = NULL;
    const bool bounded = layout->order == MESH_ORDER;
    mesh *m = open_mesh(path, layout, bounded, fault, &file);
    distance d = {.same_bits = m != NULL, .same_tokens = m != NULL};
    if (!m) return (distance){.worst = INFINITY};
    prefill(m, t->tokens, t->n_prompt);
    const long made = memory_count();
    for (uint32_t i = 0; i < NEW; i++) {
        const uint32_t at = t->n_prompt + i - 1, row = i ? 0 : at % layout->rows_max;
        if (i) mesh_run(m, t->tokens + at, 1, at, 1);
        d.same_bits &= !memcmp(mesh_logits(m, row), t->logits + (size_t)i * t->n_vocab,
                               t->n_vocab * sizeof(float));
        d.same_tokens &= mesh_sample(m, row, NULL, NULL, 0, 0) == t->tokens[t->n_prompt + i];
        if (bounded) measure(&d, m, row, t, i);
    }
    TEST_CHECK(memory_count() == made); /* no allocation per token */
    mesh_close(&m);
    gguf_close(&file);
    return d;
}

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "tests/golden/fixtures/%s.gguf", name);
    return path;
}

static mesh_layout layout_of(uint32_t width, uint32_t height, mesh_order order, kernel_kv_type kv)
{
    mesh_layout l = mesh_layout_default();
    l.width = width;
    l.height = height;
    l.order = order;
    l.kv_type = kv;
    return l;
}

/* Every allocation of opening a model on a mesh fails in turn: the error is reported, and nothing
 * is left. */
static inline void check_memory_runs_out(const char *name, mesh_layout layout)
{
    gguf_file *file = NULL;
    cerium_error err;
    TEST_CHECK(gguf_open(&file, path_of(name), &err) == 0);
    if (!file) return;
    const long live = memory_live();
    for (long n = 0;; n++) {
        mesh *m = NULL;
        memory_fail_at(n);
        const int status = mesh_open(&m, file, &layout, true, MESH_SOUND, &err);
        memory_fail_at(-1);
        TEST_CHECK_THAT(status == 0 || (status == CERIUM_ERR_MEMORY && !m), "allocation %ld: %d", n,
                        status);
        mesh_close(&m);
        TEST_CHECK_THAT(memory_live() == live, "allocation %ld: %ld left", n, memory_live() - live);
        if (!status || n > 10000) break;
    }
    gguf_close(&file);
}

#endif
