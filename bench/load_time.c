/* load_time.c - the time from opening a model to its first token, with weights repacked in memory
 * and mapped from the cache, and the decoding speed after each, in turn.
 *
 *   bench_load_time MODEL FOLDER [ROUNDS]     FOLDER keeps the repacked weights
 *
 * Minima: other work on the machine only ever adds to a time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"

enum { PROMPT = 10, DECODED = 16 };

typedef struct {
    double open_s, first_token_s, token_s;
} times;

static double now(void) { return (double)clock_ns() / 1e9; }

static void lower(double *least, double value)
{
    if (*least == 0 || value < *least) *least = value;
}

static void fail(const cerium_error *err)
{
    fprintf(stderr, "bench_load_time: %s\n", err->message);
    exit(1);
}

static void open_once(const char *model, const char *cache, times *t)
{
    int32_t prompt[PROMPT];
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_sampling sampling = {.ignore_end = true};
    cerium_step step;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = model;
    config.cache = cache;
    config.sessions_max = 1;
    config.context_tokens_max = 256;
    for (int i = 0; i < PROMPT; i++) prompt[i] = i;
    double start = now();
    if (cerium_engine_open(&engine, &config, &err)) fail(&err);
    lower(&t->open_s, now() - start);
    if (cerium_session_open(&session, engine, NULL, &err)) fail(&err);
    if (cerium_session_sync(session, prompt, PROMPT, NULL, &err)) fail(&err);
    if (cerium_session_step(session, &sampling, &step, &err)) fail(&err);
    lower(&t->first_token_s, now() - start);
    for (int i = 0; i < DECODED; i++) {
        start = now();
        if (cerium_session_step(session, &sampling, &step, &err)) fail(&err);
        lower(&t->token_s, now() - start);
    }
    cerium_session_close(&session);
    cerium_engine_close(&engine);
}

static void print(const char *what, const times *t)
{
    printf("%-10s open %8.1f ms, first token after %8.1f ms, then %8.3f ms a token\n", what,
           t->open_s * 1e3, t->first_token_s * 1e3, t->token_s * 1e3);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 10;
    times first = {0}, repacked = {0}, mapped = {0};
    if (argc < 3 || argc > 4 || (argc == 4 && !parse_u64(view_of(argv[3]), &rounds))) {
        fprintf(stderr, "usage: bench_load_time MODEL FOLDER [ROUNDS]\n");
        return 2;
    }
    open_once(argv[1], argv[2], &first);
    for (uint64_t i = 0; i < rounds; i++) {
        open_once(argv[1], "off", &repacked);
        open_once(argv[1], argv[2], &mapped);
    }
    print("first time", &first);
    print("repacked", &repacked);
    print("mapped", &mapped);
    return 0;
}
