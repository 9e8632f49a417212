/* heads.h - engines whose drafter is a head of their model, and models that count. */
#ifndef TEST_HEADS_H
#define TEST_HEADS_H

#include <math.h>
#include <unistd.h>

#include "base/memory.h"
#include "engine/engine.h"

#include "../unit/unit.h"

#define FIXTURES "tests/golden/fixtures/"

static const float BOUND = 2e-3f; /* of logits, as for float files elsewhere */
static const char *kv_folder;     /* for keys and values; or NULL */
static const char *head_form = "full";

static inline cerium_engine *open_with(const char *path, const char *speculation, const char *by,
                                uint32_t context)
{
    cerium_engine *e = NULL;
    cerium_error err = {0};
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.threads = 2;
    config.kv_type = "f32";
    config.head = head_form;
    config.context_tokens_max = context;
    config.kv_disk = kv_folder ? kv_folder : "off";
    config.speculation = speculation;
    config.draft_model = by;
    TEST_CHECK_THAT(cerium_engine_open(&e, &config, &err) == 0, "%s", err.message);
    return e;
}

/* Owned. */
static inline char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    CHECK(f && fseek(f, 0, SEEK_END) == 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *all = memory_alloc(*n);
    CHECK(all && fread(all, 1, *n, f) == *n);
    fclose(f);
    return all;
}

/* A file of these bytes, at a path that mkstemp() makes of path. */
static inline void write_bytes(char *path, const char *all, size_t len)
{
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, all, len) == (ssize_t)len);
    close(fd);
}

/* The same of the file `of` with some bytes changed: those `at` after the first `text` in it, or
 * with at < 0 those of it. */
static inline void write_damaged(char *path, const char *of, const char *text, long at,
                                 const void *put, size_t n_put)
{
    size_t len;
    char *all = read_file(of, &len), *place = memmem(all, len, text, strlen(text));
    CHECK(place);
    memcpy(at < 0 ? place : place + strlen(text) + at, put, n_put);
    write_bytes(path, all, len);
    memory_free(all);
}

/* Logits [n][stride] of a head are those wanted, [n][n_vocab], and those after them, of other rows
 * a pass, have the same bits. */
static inline void check_rows(const char *name, const float *logits, size_t stride,
                              const float *wanted, uint32_t n, uint32_t n_vocab)
{
    float worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float *have = logits + i * stride, *want = wanted + (size_t)i * n_vocab;
        for (uint32_t k = 0; k < n_vocab; k++)
            worst = fabsf(have[k] - want[k]) > worst ? fabsf(have[k] - want[k]) : worst;
        TEST_CHECK(!memcmp(have, have + n * stride, n_vocab * sizeof *have));
    }
    printf("  %s: logits of the head are off by %.1e at most\n", name, (double)worst);
    TEST_CHECK_THAT(worst < BOUND, "%s: %g", name, (double)worst);
}

enum { FROM = 3, SAID = 200 };

/* The model counts from FROM on.  Returns the passes that it took. */
static inline uint64_t count(cerium_engine *e, uint32_t step_max, cerium_engine_stats *out)
{
    cerium_session *s = NULL;
    cerium_error err;
    cerium_step step;
    const int32_t prompt[] = {FROM - 3, FROM - 2, FROM - 1, FROM};
    int32_t next = FROM + 1;
    TEST_CHECK(cerium_session_open(&s, e, NULL, &err) == 0);
    TEST_CHECK(cerium_session_sync(s, prompt, ARRAY_LEN(prompt), NULL, &err) == 0);
    while (next <= FROM + SAID) {
        const uint32_t left = (uint32_t)(FROM + SAID + 1 - next);
        cerium_sampling sampling = {.ignore_end = true,
                                    .step_tokens_max = left < step_max ? left : step_max};
        TEST_CHECK(cerium_session_step(s, &sampling, &step, &err) == 0);
        for (uint32_t i = 0; i < step.n_tokens; i++, next++)
            TEST_CHECK_THAT(step.tokens[i] == next, "%d, not %d", step.tokens[i], next);
    }
    cerium_session_close(&s);
    cerium_engine_measure(e, out);
    return out->passes;
}

#endif
