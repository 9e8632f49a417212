/* tools.c - a model that may call a tool: its calls are read, made, and answered.
 *
 *   cc tools.c $(pkg-config --cflags --libs cerium) -o tools
 *   ./tools model.gguf "What time is it?" */
#include <cerium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS_MAX = 4, PROMPT_TOKENS_MAX = 8192, NEW_TOKENS_MAX = 256, TEXT_MAX = 1024 };

typedef struct {
    char name[TEXT_MAX], arguments[TEXT_MAX], result[TEXT_MAX];
    int is_whole;
} call;

static const cerium_tool tool = {.name = "local_time", .parameters = "{\"type\":\"object\"}"};

static int take(void *user, const cerium_part *part)
{
    call *c = user;
    char *to = part->kind == CERIUM_PART_CALL ? c->name : c->arguments;
    if (part->kind == CERIUM_PART_TEXT) fwrite(part->text, 1, part->text_len, stdout);
    else if (part->kind == CERIUM_PART_CALL_END) c->is_whole = 1;
    else if (part->kind != CERIUM_PART_REASONING)
        snprintf(to + strlen(to), TEXT_MAX - strlen(to), "%.*s", (int)part->text_len, part->text);
    return CERIUM_OK;
}

/* One turn of the assistant: to its end, or to the end of a call. */
static int answer(cerium_session *session, const char *call_form, call *c, cerium_error *err)
{
    cerium_reader *reader = NULL;
    cerium_step step = {0};
    int status = cerium_reader_open(&reader, call_form, &tool, 1, err);
    for (uint32_t n = 0; !status && !step.stop && !c->is_whole && n < NEW_TOKENS_MAX;) {
        status = cerium_session_step(session, NULL, &step, err);
        if (!status) status = cerium_reader_feed(reader, step.text, step.text_len, take, c);
        n += step.n_tokens;
    }
    if (!status) status = cerium_reader_end(reader, step.stop == CERIUM_STOP_END, take, c);
    cerium_reader_close(&reader);
    return status;
}

int main(int argc, char **argv)
{
    static int32_t tokens[PROMPT_TOKENS_MAX];
    static call calls[CALLS_MAX];
    cerium_engine_config config;
    cerium_engine_info info;
    const cerium_session_config reads = {.control_text = true};
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_error err = {0};
    cerium_message m[2 * CALLS_MAX + 1] = {{.role = "user", .content = argc > 2 ? argv[2] : ""}};
    cerium_chat chat = {.messages = m, .n_messages = 1, .tools = &tool, .n_tools = 1};
    size_t n;
    cerium_engine_config_defaults(&config);
    config.model_path = argc == 3 ? argv[1] : NULL;
    int status = cerium_engine_open(&engine, &config, &err);
    if (!status) status = cerium_session_open(&session, engine, &reads, &err);
    if (!status) cerium_engine_describe(engine, &info);
    for (call *c = calls; !status && c < calls + CALLS_MAX; c++, chat.n_messages += 2) {
        status = cerium_chat_tokens(engine, &chat, tokens, PROMPT_TOKENS_MAX, &n, &err);
        if (!status) status = cerium_session_sync(session, tokens, n, NULL, &err);
        if (!status) status = answer(session, info.call_form, c, &err);
        if (status || !c->is_whole) break;
        const time_t now = time(NULL);
        strftime(c->result, TEXT_MAX, "%H:%M", localtime(&now));
        printf("[%s %s: %s]\n", c->name, c->arguments, c->result);
        m[chat.n_messages] = (cerium_message){"call", c->arguments, c->name, NULL, NULL, 0};
        m[chat.n_messages + 1] = (cerium_message){"tool", c->result, c->name, NULL, NULL, 0};
    }
    if (status) fprintf(stderr, "tools: %s\n", err.message);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status != CERIUM_OK;
}
