/* together.c - several completions at once, from one thread, each streamed.
 *
 *   cc together.c $(pkg-config --cflags --libs cerium) -o together
 *   ./together model.gguf "int main(void)" "def add(a, b):" */
#include <cerium.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PROMPT_TOKENS_MAX = 4096, NEW_TOKENS_MAX = 64, REQUESTS_MAX = 8 };

/* On a thread of the engine, when there are events to poll: only wakes the loop. */
static void wake(void *user)
{
    const uint64_t one = 1;
    if (write(*(const int *)user, &one, sizeof one) < 0) return; /* full: it is awake already */
}

static int start(const cerium_engine *engine, cerium_session *session, const char *prompt, int *fd,
                 cerium_error *err)
{
    int32_t tokens[PROMPT_TOKENS_MAX];
    cerium_request request = {
        .tokens = tokens, .new_tokens_max = NEW_TOKENS_MAX, .notify = wake, .user = fd};
    int status = cerium_tokenize(engine, prompt, strlen(prompt), CERIUM_TOKENIZE_BEGIN, tokens,
                                 PROMPT_TOKENS_MAX, &request.n_tokens, err);
    return status ? status : cerium_session_start(session, &request, err);
}

/* Handles all pending events.  Returns how many requests ended. */
static int take(cerium_session *session, int number)
{
    cerium_event event;
    for (;;) {
        cerium_session_poll(session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return 0;
        if (event.kind == CERIUM_EVENT_DONE) break;
        printf("%d: %.*s\n", number, (int)event.step.text_len, event.step.text);
    }
    printf("%d ended: %s\n", number, cerium_status_text(event.status));
    return 1;
}

int main(int argc, char **argv)
{
    cerium_engine_config config;
    cerium_engine *engine = NULL;
    cerium_session *sessions[REQUESTS_MAX] = {NULL};
    cerium_error err;
    int n = argc - 2, n_left = 0, fd = eventfd(0, EFD_NONBLOCK);
    if (n < 1 || n > REQUESTS_MAX || fd < 0) {
        fprintf(stderr, "usage: together MODEL PROMPT... (up to %d)\n", REQUESTS_MAX);
        return 2;
    }
    cerium_engine_config_defaults(&config);
    config.model_path = argv[1];
    int status = cerium_engine_open(&engine, &config, &err);
    for (int i = 0; !status && i < n; i++) {
        status = cerium_session_open(&sessions[i], engine, NULL, &err);
        if (!status) status = start(engine, sessions[i], argv[2 + i], &fd, &err);
        n_left += !status;
    }
    while (!status && n_left > 0) {
        uint64_t n_rings;
        struct pollfd waits = {.fd = fd, .events = POLLIN};
        if (poll(&waits, 1, -1) > 0 && read(fd, &n_rings, sizeof n_rings) < 0) continue;
        for (int i = 0; i < n; i++) n_left -= take(sessions[i], i + 1);
    }
    if (status) fprintf(stderr, "together: %s\n", err.message);
    for (int i = 0; i < n; i++) cerium_session_close(&sessions[i]); /* cancels running ones */
    cerium_engine_close(&engine);
    close(fd);
    return status != CERIUM_OK;
}
