/* sample.c - documents that a model samples under a grammar: for outside validators.
 *
 *   build/release/grammar_sample MODEL
 *
 * Reads lines {"syntax": 0, "grammar": "...", "n": 10, "seed": 1} and answers each with a line
 * {"documents": ["..."], "cut": 2}, or {"error": "..."}, also if the grammar would be wider than
 * the request.  `documents` are those that
 * ended, `cut` counts those that had not after TOKENS_MAX.  Seeds also choose the sampling:
 * greedy, as the model would, or with a temperature at which its weights hardly matter. */
#include <jansson.h>

#include "base/memory.h"
#include "cerium.h"

enum { TOKENS_MAX = 400 };

static cerium_sampling sampling_of(uint64_t seed)
{
    cerium_sampling s = {.seed = seed, .temperature = 40};
    if (seed % 8 == 0) s.temperature = 0;
    if (seed % 8 == 1) s.temperature = 1;
    if (seed % 8 == 2) s.temperature = 4, s.top_k = 20, s.repetition_penalty = 1.3f;
    return s;
}

/* One document into out; *ended: whether it is whole. */
static int sample(cerium_engine *engine, const cerium_guide *guide, uint64_t seed, bytes *out,
                  bool *ended, cerium_error *err)
{
    static const int32_t prompt[] = {5, 17, 30, 41, 12};
    cerium_sampling sampling = sampling_of(seed);
    cerium_step step = {.stop = CERIUM_STOP_NONE};
    cerium_session *s = NULL;
    int status = cerium_session_open(&s, engine, NULL, err);
    if (!status) status = cerium_session_sync(s, prompt, ARRAY_LEN(prompt), NULL, err);
    if (!status) status = cerium_session_guide(s, guide, err);
    out->len = 0;
    for (uint32_t n = 0; !status && n < TOKENS_MAX && step.stop == CERIUM_STOP_NONE;) {
        status = cerium_session_step(s, &sampling, &step, err);
        if (!status && step.text_len) status = bytes_append(out, step.text, step.text_len);
        n += step.n_tokens;
    }
    *ended = step.stop == CERIUM_STOP_END;
    cerium_session_close(&s);
    return status;
}

static json_t *answer(cerium_engine *engine, const json_t *line)
{
    cerium_error err = {.status = 0};
    cerium_grammar *g = NULL;
    const json_t *text = json_object_get(line, "grammar");
    int syntax = (int)json_integer_value(json_object_get(line, "syntax"));
    json_int_t n = json_integer_value(json_object_get(line, "n")), cut = 0;
    uint64_t seed = (uint64_t)json_integer_value(json_object_get(line, "seed"));
    int status = cerium_grammar_compile(&g, (cerium_grammar_syntax)syntax, json_string_value(text),
                                        json_string_length(text), &err);
    if (!status && cerium_grammar_left_out(g, 0)) /* wider than requested */
        status = -1, snprintf(err.message, sizeof err.message, "left out: %s",
                              cerium_grammar_left_out(g, 0));
    cerium_guide guide = {.grammar = g};
    json_t *documents = json_array();
    bytes out = {.max = 1 << 20};
    for (json_int_t i = 0; i < n && !status; i++) {
        bool ended = false;
        status = sample(engine, &guide, seed + (uint64_t)i, &out, &ended, &err);
        json_t *one = ended && !status ? json_stringn(out.len ? out.ptr : "", out.len) : NULL;
        cut += !ended;
        if (ended && !one) /* a document is UTF-8 for any weights */
            status = -1, snprintf(err.message, sizeof err.message, "a document is not UTF-8");
        if (one) json_array_append_new(documents, one);
    }
    bytes_free(&out);
    cerium_grammar_close(&g);
    if (!status) return json_pack("{sosI}", "documents", documents, "cut", cut);
    json_decref(documents);
    return json_pack("{ss}", "error", err.message);
}

int main(int argc, char **argv)
{
    cerium_engine *engine = NULL;
    cerium_engine_config config;
    cerium_error err;
    json_error_t error;
    json_t *line;
    cerium_engine_config_defaults(&config);
    config.model_path = argc == 2 ? argv[1] : "";
    config.threads = 1;
    if (cerium_engine_open(&engine, &config, &err)) {
        fprintf(stderr, "grammar_sample: %s\n", err.message);
        return 1;
    }
    while ((line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error))) {
        json_t *out = answer(engine, line);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(line);
    }
    cerium_engine_close(&engine);
    return 0;
}
