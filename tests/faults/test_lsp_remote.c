/* test_lsp_remote.c - `cerium lsp --server` while every allocation fails in turn, those of curl,
 * too: nothing is lost, no request is answered twice, and when there is memory again, it completes.
 * (jansson 2.14 asserts where it cannot keep a string's bytes; test_answers.c has what it can.) */
#include "../lsp/remote_session.h"

#include <curl/curl.h>

#include "programs/lsp_remote_parts.h"

#include "../unit/unit.h"

enum { ROUNDS = 400 };

static const char uri[] = "file:///w/a.py";

/* ---- curl's memory: it fails in its turn, and is the C library's ---- */

static bool has_turn(void)
{
    void *probe = memory_alloc(1);
    memory_free(probe);
    return probe != NULL;
}

static void *other_alloc(size_t n) { return has_turn() ? (malloc)(n) : NULL; }
static void other_free(void *p) { (free)(p); }
static void *other_more(void *was, size_t n) { return has_turn() ? (realloc)(was, n) : NULL; }
static char *other_text(const char *text) { return has_turn() ? (strdup)(text) : NULL; }
static void *other_zeros(size_t n, size_t size) { return has_turn() ? (calloc)(n, size) : NULL; }

/* ---- its server ---- */

/* Lines do not look at it. */
#define OTHERS "\"candidates\":[{\"text\":\"3)\",\"confidence\":0.2}," \
               "{\"text\":\"a, b)\\n    x\",\"cut\":true},{\"text\":\"1, 2)\"}]"

static bool has_sockets;

static void on_message(peer *p, peer_link *l, view message)
{
    char out[400], id[40] = "";
    const char *at = memmem(message.ptr, message.len, "\"id\":\"", 6);
    (void)p;
    if (!at || !memmem(message.ptr, message.len, "completion.create", 17)) return;
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 6, "\""), at + 6);
    snprintf(out, sizeof out, "{\"type\":\"completion.delta\",\"id\":\"%s\",\"delta\":\"1, 2)\"}",
             id);
    peer_say(l, out);
    snprintf(out, sizeof out, "{\"type\":\"completion.done\",\"id\":\"%s\",\"reason\":\"stop\","
             "\"confidence\":0.9,\"usage\":{\"output_tokens\":4}," OTHERS "}", id);
    peer_say(l, out);
}

static void on_request(peer *p, peer_link *l, view head, view body)
{
    (void)p;
    (void)body;
    if (l->is_socket && has_sockets) peer_accept(l, head);
    else if (l->is_socket) peer_answer(l, 404, "{}");
    else if (!peer_lists(l, head))
        peer_answer(l, 200, "{\"content\":\"1, 2)\",\"stop_type\":\"eos\",\"tokens_predicted\":4,"
                    "\"confidence\":0.9," OTHERS "}");
}

/* ---- the editor ---- */

static void edit(editor *e)
{
    editor_opens_file(e, uri, "def f(a):\n    return a\n\nf(");
    session_run(e, ROUNDS);
    (void)editor_completes(e, uri, 3, 2);
    session_run(e, ROUNDS);
    editor_changes(e, uri, "def f(a, b):\n    return a\n\nf(");
    (void)editor_completes(e, uri, 3, 2);
    (void)editor_next_edit(e, uri, 1, 3);
    session_run(e, ROUNDS);
    editor_shuts_file(e, uri);
}

/* There is memory again; a server that was lost is found by itself. */
static bool recovers(editor *e)
{
    for (int i = 0; i < 40; i++) {
        editor_opens_file(e, uri, "def f(a):\n    return a\n\nf(");
        e->last[0] = 0;
        if (e->n_asked == EDITOR_REQUESTS) return false;
        int id = editor_completes(e, uri, 3, 2);
        session_run(e, ROUNDS);
        if (e->n_answers[id] == 1 && strstr(e->last, "1, 2)") && strstr(e->last, "\"3)\""))
            return true;
        if (e->remote->retry_at_ns) e->remote->retry_at_ns = 1; /* without the wait */
        session_look(e, 50);
    }
    return false;
}

static void meet(peer *p, long n)
{
    static editor e;
    const long live = memory_live();
    memory_fail_at(n);
    int status = session_open(&e, p);
    TEST_CHECK_THAT(!status || status == CERIUM_ERR_MEMORY, "%ld", n);
    if (!status) {
        session_run(&e, ROUNDS);
        edit(&e);
    }
    memory_fail_at(-1);
    if (!status && e.is_initialized) TEST_CHECK_THAT(recovers(&e), "%ld", n);
    for (int i = 0; i < e.n_asked; i++) TEST_CHECK_THAT(e.n_answers[i] <= 1, "%ld", n);
    session_close(&e);
    peer_forget(p);
    p->texts.max = p->posts.max = PEER_BYTES_MAX;
    TEST_CHECK_THAT(memory_live() == live, "%ld: %ld", n, memory_live() - live);
}

static void meet_all(bool sockets)
{
    static peer p;
    peer_open(&p);
    p.request = on_request;
    p.message = on_message;
    has_sockets = sockets;
    const long before = memory_count();
    meet(&p, -1);
    const long most = memory_count() - before;
    TEST_CHECK_THAT(most > 200, "%ld", most);
    for (long n = 0; n < most; n++) meet(&p, n);
    peer_close(&p);
}

static void test_socket(void) { meet_all(true); }
static void test_posts(void) { meet_all(false); }

int main(void)
{
    CHECK(!curl_global_init_mem(CURL_GLOBAL_DEFAULT, other_alloc, other_free, other_more,
                                other_text, other_zeros));
    TEST_RUN(test_socket);
    TEST_RUN(test_posts);
    return unit_report("faults lsp_remote");
}
