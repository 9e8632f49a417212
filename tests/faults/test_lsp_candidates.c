/* test_lsp_candidates.c - several completions of one place by the model in the process, while every
 * allocation fails in turn: the question is answered once, nothing is lost, and when there is
 * memory again, the others come. */
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/memory.h"
#include "programs/lsp_host.h"

#include "../unit/unit.h"

enum { PROMPT_TOKENS = 256, ROUNDS = 2000 };

typedef struct {
    lsp_server *server;
    lsp_candidates *candidates;
    cerium_engine *engine;
    watchdog watchdog; /* off */
    lsp_bell bell;
    uint64_t document, serial, now; /* serial: of a line that is asked for; 0: none */
    bool was_several;
    uint32_t n_answers, n_items;    /* of the last question */
} editor;

static uint32_t count_of(view text, view word)
{
    uint32_t n = 0;
    for (size_t i = 0; i + word.len <= text.len; i++)
        n += !memcmp(text.ptr + i, word.ptr, word.len);
    return n;
}

static void on_body(void *user, view body, bool is_answer)
{
    editor *e = user;
    e->n_answers += is_answer;
    e->n_items = count_of(body, VIEW("\"insertText\""));
}

static void on_log(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static bool on_generate(void *user, const lsp_order *order)
{
    editor *e = user;
    cerium_error err;
    e->was_several |= order->n_candidates > 0;
    if (order->n_candidates) return !lsp_candidates_begin(e->candidates, order, &err);
    e->document = order->document;
    e->serial = order->serial;
    return true;
}

static void on_cancel(void *user, uint64_t document)
{
    editor *e = user;
    e->serial = 0;
    lsp_candidates_cancel(e->candidates, document);
}

static bool on_judge(void *user, uint64_t document, int64_t version, view text, const char *path,
                     guard_language language)
{
    (void)user, (void)document, (void)version, (void)text, (void)path, (void)language;
    return false;
}

static void say(editor *e, const char *body)
{
    lsp_server_take(e->server, view_of(body), e->now += 1000000);
}

/* The line comes at once; the others when the engine has them. */
static void run(editor *e)
{
    struct pollfd fd = {.fd = e->bell.fd, .events = POLLIN};
    for (int i = 0; i < ROUNDS && !e->n_answers; i++) {
        const uint64_t serial = e->serial;
        uint64_t rings;
        e->serial = 0;
        if (serial) {
            lsp_server_text(e->server, e->document, serial, VIEW("a"), -0.1, e->now);
            lsp_server_ended(e->server, e->document, serial, LSP_ENDED_STOP, e->now);
        }
        lsp_candidates_look(e->candidates, e->server);
        if (e->n_answers) return;
        (void)poll(&fd, 1, 100);
        if (fd.revents && read(fd.fd, &rings, sizeof rings) < 0) return;
    }
}

static uint32_t ask(editor *e)
{
    e->n_answers = e->n_items = 0;
    say(e, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"textDocument/inlineCompletion\",\"params\":{"
           "\"textDocument\":{\"uri\":\"file:///a.py\"},\"position\":{\"line\":1,\"character\":11},"
           "\"context\":{\"triggerKind\":1}}}");
    run(e);
    return e->n_items;
}

static void open_file(editor *e)
{
    say(e, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/didOpen\",\"params\":{\"textDocument\":{"
           "\"uri\":\"file:///a.py\",\"languageId\":\"python\",\"version\":1,\"text\":"
           "\"def add(a, b):\\n    return \\n\\n\\nadd(1, 2)\\n\"}}}");
}

static void close_file(editor *e)
{
    say(e, "{\"jsonrpc\":\"2.0\",\"method\":\"textDocument/didClose\",\"params\":{"
           "\"textDocument\":{\"uri\":\"file:///a.py\"}}}");
}

static void open_editor(editor *e)
{
    const lsp_host host = {.user = e, .send = on_body, .log = on_log, .generate = on_generate,
                           .cancel = on_cancel, .judge = on_judge};
    const lsp_model model = {.state = LSP_MODEL_READY, .model = "m", .before_bytes = 600,
                             .after_bytes = 200};
    cerium_engine_config config;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = "models/cerium-line.gguf";
    config.threads = 1;
    config.context_tokens_max = 1024;
    config.cache = "off";
    CHECK(!cerium_engine_open(&e->engine, &config, &err));
    e->bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(e->bell.fd >= 0);
    CHECK(!lsp_candidates_open(&e->candidates, e->engine, PROMPT_TOKENS, &e->watchdog, &e->bell,
                               &err));
    CHECK(!lsp_server_open(&e->server, &host));
    say(e, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
           "\"capabilities\":{},\"initializationOptions\":{\"retrieval\":false}}}");
    say(e, "{\"jsonrpc\":\"2.0\",\"method\":\"initialized\",\"params\":{}}");
    lsp_server_model(e->server, &model);
}

static void test_each_allocation(void)
{
    static editor e;
    const long live = memory_live();
    open_editor(&e);
    open_file(&e);
    const long before = memory_count();
    TEST_CHECK(ask(&e) > 1 && e.was_several);
    const long most = memory_count() - before;
    close_file(&e);
    TEST_CHECK_THAT(most > 50, "%ld", most);
    uint32_t n_fewer = 0;
    for (long n = 0; n < most; n++) {
        open_file(&e);
        memory_fail_at(n);
        n_fewer += ask(&e) < 2;
        memory_fail_at(-1);
        TEST_CHECK_THAT(e.n_answers == 1, "%ld: %u", n, e.n_answers);
        TEST_CHECK_THAT(ask(&e) > 1 && e.n_answers == 1, "%ld: %u", n, e.n_items);
        close_file(&e);
    }
    TEST_CHECK_THAT(n_fewer > 20, "%u", n_fewer); /* they failed, indeed */
    lsp_candidates_close(&e.candidates);
    lsp_server_close(&e.server);
    cerium_engine_close(&e.engine);
    close(e.bell.fd);
    TEST_CHECK_THAT(memory_live() == live, "%ld", memory_live() - live);
}

int main(void)
{
    TEST_RUN(test_each_allocation);
    return unit_report("faults lsp_candidates");
}
