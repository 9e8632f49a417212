/* chat.c - talk with a model in the terminal, one line at a time.
 *
 *   cc chat.c $(pkg-config --cflags --libs cerium) -o chat
 *   ./chat model.gguf
 *
 * Each turn renders the whole conversation; the session computes only what is new in it. */
#include <cerium.h>
#include <stdio.h>
#include <string.h>

enum { TURNS_MAX = 32, LINE_BYTES = 1024, REPLY_BYTES = 4096, PROMPT_TOKENS_MAX = 32768 };

static char lines[TURNS_MAX][LINE_BYTES], replies[TURNS_MAX][REPLY_BYTES];

/* Stream the answer to the terminal and into reply, as far as it fits. */
static int answer(cerium_session *session, char *reply, cerium_error *err)
{
    const cerium_sampling sampling = {.temperature = 0.7f, .top_p = 0.9f, .seed = 1};
    cerium_step step = {0};
    size_t len = 0;
    while (step.stop == CERIUM_STOP_NONE && len + 1 < REPLY_BYTES) {
        int status = cerium_session_step(session, &sampling, &step, err);
        if (status) return status;
        size_t room = REPLY_BYTES - 1 - len, n = step.text_len < room ? step.text_len : room;
        fwrite(step.text, 1, step.text_len, stdout);
        fflush(stdout);
        memcpy(reply + len, step.text, n);
        reply[len += n] = 0;
    }
    putchar('\n');
    return CERIUM_OK;
}

static int chat(const cerium_engine *engine, cerium_session *session, cerium_error *err)
{
    static cerium_message messages[2 * TURNS_MAX];
    static int32_t tokens[PROMPT_TOKENS_MAX];
    size_t n_tokens;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        printf("> ");
        fflush(stdout);
        if (!fgets(lines[turn], LINE_BYTES, stdin)) break;
        messages[2 * turn] = (cerium_message){.role = "user", .content = lines[turn]};
        cerium_chat talk = {.messages = messages, .n_messages = 2 * (size_t)turn + 1};
        int status = cerium_chat_tokens(engine, &talk, tokens, PROMPT_TOKENS_MAX, &n_tokens, err);
        if (!status) status = cerium_session_sync(session, tokens, n_tokens, NULL, err);
        if (!status) status = answer(session, replies[turn], err);
        if (status) return status;
        messages[2 * turn + 1] = (cerium_message){.role = "assistant",
                                                      .content = replies[turn]};
    }
    return CERIUM_OK;
}

int main(int argc, char **argv)
{
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_error err;
    if (argc != 2) {
        fprintf(stderr, "usage: chat MODEL\n");
        return 2;
    }
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];
    int status = cerium_engine_open(&engine, &config, &err);
    if (!status) status = cerium_session_open(&session, engine, NULL, &err);
    if (!status) status = chat(engine, session, &err);
    if (status) fprintf(stderr, "chat: %s\n", err.message);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status != CERIUM_OK;
}
