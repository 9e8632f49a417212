/* complete.c - stream a completion.
 *
 *   cc complete.c $(pkg-config --cflags --libs cerium) -o complete
 *   ./complete model.gguf "int main(void)" */
#include <cerium.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT_TOKENS_MAX = 4096, NEW_TOKENS_MAX = 128 };

/* Make the timeline end with the prompt; the model continues from there. */
static int sync_prompt(const cerium_engine *engine, cerium_session *session, const char *prompt,
                       cerium_error *err)
{
    int32_t tokens[PROMPT_TOKENS_MAX];
    size_t n_tokens;
    int status = cerium_tokenize(engine, prompt, strlen(prompt), CERIUM_TOKENIZE_BEGIN, tokens,
                                 PROMPT_TOKENS_MAX, &n_tokens, err);
    return status ? status : cerium_session_sync(session, tokens, n_tokens, NULL, err);
}

/* Greedy, because sampling is NULL.  Text comes in whole characters. */
static int stream(cerium_session *session, cerium_error *err)
{
    cerium_step step = {0};
    uint32_t n_new = 0; /* a step may give several tokens */
    for (; n_new < NEW_TOKENS_MAX && step.stop == CERIUM_STOP_NONE; n_new += step.n_tokens) {
        int status = cerium_session_step(session, NULL, &step, err);
        if (status) return status;
        fwrite(step.text, 1, step.text_len, stdout);
        fflush(stdout);
    }
    putchar('\n');
    return CERIUM_OK;
}

int main(int argc, char **argv)
{
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: complete MODEL PROMPT\n");
        return 2;
    }
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];

    int status = cerium_engine_open(&engine, &config, &err);
    if (!status) status = cerium_session_open(&session, engine, NULL, &err);
    if (!status) status = sync_prompt(engine, session, argv[2], &err);
    if (!status) {
        fputs(argv[2], stdout);
        status = stream(session, &err);
    }
    if (status) fprintf(stderr, "complete: %s\n", err.message);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status != CERIUM_OK;
}
