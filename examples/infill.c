/* infill.c - fill in the middle: the text between two texts.
 *
 *   cc infill.c $(pkg-config --cflags --libs cerium) -o infill
 *   ./infill model.gguf "int max(int a, int b) { return " "; }" */
#include <cerium.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT_TOKENS_MAX = 4096, NEW_TOKENS_MAX = 64 };

/* Stop at the end of a line: one line is what an editor shows. */
static int stream_line(cerium_session *session, cerium_error *err)
{
    static const char *const stops[] = {"\n"};
    const cerium_sampling sampling = {.stops = stops, .n_stops = 1}; /* greedy */
    cerium_step step = {0};
    uint32_t n_new = 0; /* a step may give several tokens */
    for (; n_new < NEW_TOKENS_MAX && step.stop == CERIUM_STOP_NONE; n_new += step.n_tokens) {
        int status = cerium_session_step(session, &sampling, &step, err);
        if (status) return status;
        fwrite(step.text, 1, step.text_len, stdout);
    }
    return CERIUM_OK;
}

/* The hole in the form of the model's own fill-in-the-middle tokens. */
static int infill(const cerium_engine *engine, cerium_session *session, const char *prefix,
                  const char *suffix, cerium_error *err)
{
    int32_t tokens[PROMPT_TOKENS_MAX];
    size_t n_tokens;
    const cerium_infill hole = {
        .prefix = prefix,
        .prefix_len = strlen(prefix),
        .suffix = suffix,
        .suffix_len = strlen(suffix),
    };
    int status = cerium_infill_tokens(engine, &hole, tokens, PROMPT_TOKENS_MAX, &n_tokens, err);
    if (!status) status = cerium_session_sync(session, tokens, n_tokens, NULL, err);
    if (status) return status;
    fputs(prefix, stdout);
    status = stream_line(session, err);
    puts(suffix);
    return status;
}

int main(int argc, char **argv)
{
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_error err;
    if (argc != 4) {
        fprintf(stderr, "usage: infill MODEL PREFIX SUFFIX\n");
        return 2;
    }
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];

    int status = cerium_engine_open(&engine, &config, &err);
    if (!status) status = cerium_session_open(&session, engine, NULL, &err);
    if (!status) status = infill(engine, session, argv[2], argv[3], &err);
    if (status) fprintf(stderr, "infill: %s\n", err.message);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status != CERIUM_OK;
}
