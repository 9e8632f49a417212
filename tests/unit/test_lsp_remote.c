/* test_lsp_remote.c - `cerium lsp --server` with servers that vanish at every byte, say what they
 * must not, or say nothing: each completion is answered, by POST where the WebSocket fails, and the
 * language server rests when there is nothing to do. */
#include "../lsp/remote_session.h"

#include <sys/ioctl.h>

#include "programs/lsp_remote_parts.h"

#include "unit.h"

enum { ROUNDS = 2000 };

static const char uri[] = "file:///w/a.py", text[] = "def f(a):\n    return a\n\nf(";

/* What the server does on its WebSockets. */
static struct {
    const char *frames; /* [n_frames] after the handshake, before any answer; NULL: none */
    size_t n_frames;
    const char *upgrade; /* in place of the right answer */
    size_t sent_max;     /* then it vanishes; SIZE_MAX: never */
    bool is_silent;      /* it answers nothing */
    const char *reason;  /* an answer ends so, and says nothing; NULL: it is whole */
    bool goes_on;        /* the frames are right; else many bytes follow them */
    int n_upgrades;      /* so far */
} plan;

#define EDITS \
    "\"form\":\"sweep\",\"edits\":[{\"start_line\":1,\"end_line\":2,\"text\":\"EDIT\\n\"}]"

static peer_link *only_socket(peer *p)
{
    for (int i = 0; i < PEER_LINKS; i++)
        if (p->links[i].fd >= 0 && p->links[i].is_socket) return &p->links[i];
    return NULL;
}

static void limit(peer_link *l)
{
    if (l->out.len < plan.sent_max) return;
    l->out.len = plan.sent_max;
    l->is_last = true;
}

static void on_message(peer *p, peer_link *l, view message)
{
    char out[300], id[40] = "";
    json_error_t why;
    json_t *m = json_read(message, JSON_ALLOW_NUL, &why);
    const char *type = json_string_value(json_object_get(m, "type"));
    snprintf(id, sizeof id, "%s", type && json_object_get(m, "id")
                                      ? json_string_value(json_object_get(m, "id")) : "");
    const bool is_create = type && !strcmp(type, "completion.create");
    const bool is_predict = type && !strcmp(type, "edit.predict");
    json_decref(m);
    (void)p;
    if (plan.is_silent || l->is_last) return;
    if (is_predict) {
        snprintf(out, sizeof out, "{\"type\":\"edit.prediction\",\"id\":\"%s\"," EDITS "}", id);
        peer_say(l, out);
        limit(l);
    }
    if (!is_create) return;
    snprintf(out, sizeof out, "{\"type\":\"completion.delta\",\"id\":\"%s\",\"delta\":\"%s\"}",
             id, plan.reason ? "" : "1, 2)");
    peer_say(l, out);
    snprintf(out, sizeof out, "{\"type\":\"completion.done\",\"id\":\"%s\",\"reason\":\"%s\","
             "\"confidence\":0.9,\"usage\":{\"output_tokens\":4}}", id,
             plan.reason ? plan.reason : "stop");
    peer_say(l, out);
    limit(l);
}

static void on_request(peer *p, peer_link *l, view head, view body)
{
    (void)p;
    (void)body;
    static const char more[8192];
    if (l->is_socket) {
        plan.n_upgrades++;
        if (plan.upgrade) peer_send(l, view_of(plan.upgrade));
        else peer_accept(l, head);
        if (plan.frames) peer_send(l, (view){plan.frames, plan.n_frames});
        if (plan.frames && !plan.goes_on) peer_send(l, (view){more, sizeof more});
        limit(l);
    } else if (strstr(head.ptr, "/v1/edit-predictions")) {
        peer_answer(l, 200, "{" EDITS "}");
    } else if (!peer_lists(l, head)) {
        peer_answer(l, 200, "{\"content\":\"1, 2)\",\"stop_type\":\"eos\",\"tokens_predicted\":4,"
                    "\"confidence\":0.9}");
    }
}

static void begin(peer *p, editor *e)
{
    peer_open(p);
    p->request = on_request;
    p->message = on_message;
    CHECK(!session_open(e, p));
    for (int i = 0; i < 1000 && !e->remote->is_there; i++) session_look(e, i < 50 ? 0 : 10);
    session_run(e, ROUNDS);
    editor_opens_file(e, uri, text);
}

static void end(peer *p, editor *e)
{
    session_close(e);
    peer_close(p);
}

static bool has_line(const bytes *all, const char *what)
{
    return all->len && memmem(all->ptr, all->len, what, strlen(what));
}

/* For at most some seconds. */
static void until(editor *e, const bytes *all, const char *what)
{
    for (int i = 0; i < 1000 && !has_line(all, what); i++) session_look(e, i < 50 ? 0 : 10);
}

/* Is it completed, once? */
static bool completes(editor *e)
{
    e->last[0] = 0;
    int id = editor_completes(e, uri, 3, 2);
    if (plan.is_silent) until(e, &e->peer->texts, "completion.create");
    else session_answers(e, id);
    session_run(e, ROUNDS);
    return e->n_answers[id] == 1 && strstr(e->last, "1, 2)");
}

/* The text is another one, so that nothing is known of it. */
static bool completes_again(editor *e)
{
    editor_changes(e, uri, "def g(a):\n    return a\n\nf(");
    return completes(e);
}

/* It waits where nothing can happen: a loop that finds something each time never does. */
static bool rests(editor *e)
{
    for (int i = 0; i < 50; i++) {
        const uint64_t from = clock_ns();
        session_look(e, 20);
        if (clock_ns() - from >= UINT64_C(19000000)) return true;
    }
    return false;
}

static void test_right(void)
{
    peer p;
    editor e;
    plan.sent_max = SIZE_MAX;
    begin(&p, &e);
    TEST_CHECK(completes(&e));
    TEST_CHECK(completes_again(&e));
    TEST_CHECK(has_line(&p.texts, "completion.create") && !has_line(&p.posts, "/infill"));
    TEST_CHECK(rests(&e));
    end(&p, &e);
}

/* Is there a next edit, once? */
static bool predicts(editor *e, const char *now)
{
    editor_changes(e, uri, now);
    e->last[0] = 0;
    int id = editor_next_edit(e, uri, 0, 5);
    session_answers(e, id);
    session_run(e, ROUNDS);
    return e->n_answers[id] == 1 && strstr(e->last, "EDIT");
}

static const char *const texts[] = {"def g(a):\n    return a\n\nf(",
                                    "def gg(a):\n    return a\n\nf("};

static void test_edits(void)
{
    size_t whole = 0;
    peer p;
    editor e;
    plan.sent_max = SIZE_MAX;
    begin(&p, &e);
    TEST_CHECK(predicts(&e, texts[0]) && predicts(&e, texts[1]) && only_socket(&p));
    TEST_CHECK(has_line(&p.texts, "edit.predict") && !has_line(&p.posts, "/v1/edit-predictions"));
    TEST_CHECK(has_line(&p.texts, "original_document") && !has_line(&p.texts, "prefix"));
    if (only_socket(&p)) whole = only_socket(&p)->sent;
    end(&p, &e);
    for (size_t n = 0; n < whole; n++) {
        plan.sent_max = n;
        begin(&p, &e);
        TEST_CHECK_THAT(predicts(&e, texts[0]) && predicts(&e, texts[1]), "after %zu bytes: %s",
                        n, e.last);
        TEST_CHECK_THAT(has_line(&p.posts, "/v1/edit-predictions"), "after %zu bytes", n);
        end(&p, &e);
    }
    plan.sent_max = SIZE_MAX;
}

/* What is kept at the server is closed with its document, or when it rests. */
static void test_closing(void)
{
    peer p;
    editor e;
    begin(&p, &e);
    const long live = memory_live();
    TEST_CHECK(completes(&e) && predicts(&e, texts[0]));
    TEST_CHECK(lsp_remote_due(e.remote) < UINT64_MAX && !has_line(&p.texts, "document.close"));
    editor_shuts_file(&e, uri);
    until(&e, &p.texts, "close\",\"path\":\"opened\"}");
    TEST_CHECK(has_line(&p.texts, "{\"type\":\"document.close\",\"path\":\"slot0\"}"));
    TEST_CHECK(has_line(&p.texts, "{\"type\":\"document.close\",\"path\":\"edited\"}"));
    TEST_CHECK(has_line(&p.texts, "{\"type\":\"document.close\",\"path\":\"opened\"}"));
    TEST_CHECK(lsp_remote_due(e.remote) == UINT64_MAX && memory_live() < live);
    editor_opens_file(&e, uri, text);
    TEST_CHECK(completes(&e) && predicts(&e, texts[0]));
    p.texts.len = 0;
    e.remote->idle_ns = 1;
    until(&e, &p.texts, "close\",\"path\":\"opened\"}");
    TEST_CHECK(has_line(&p.texts, "slot0") && has_line(&p.texts, "edited") &&
               has_line(&p.texts, "opened") && !has_line(&p.texts, "open\""));
    TEST_CHECK(lsp_remote_due(e.remote) == UINT64_MAX);
    e.remote->idle_ns = UINT64_C(1) << 60;
    TEST_CHECK(completes(&e) && predicts(&e, texts[1]) && has_line(&p.texts, "document.open"));
    TEST_CHECK(!has_line(&p.posts, "/infill") && !has_line(&p.posts, "/v1/edit-predictions"));
    end(&p, &e);
}

static void test_vanishes(void)
{
    size_t whole = 0;
    peer p;
    editor e;
    plan.sent_max = SIZE_MAX;
    begin(&p, &e);
    TEST_CHECK(completes(&e) && only_socket(&p));
    if (only_socket(&p)) whole = only_socket(&p)->sent;
    end(&p, &e);
    TEST_CHECK(whole > 200);
    for (size_t n = 0; n < whole; n++) {
        plan.sent_max = n;
        begin(&p, &e);
        TEST_CHECK_THAT(completes(&e), "after %zu bytes: %s", n, e.last);
        TEST_CHECK_THAT(has_line(&p.posts, "/infill"), "after %zu bytes", n);
        TEST_CHECK_THAT(completes_again(&e), "again, after %zu bytes: %s", n, e.last);
        TEST_CHECK_THAT(!e.n_notes, "after %zu bytes", n);
        end(&p, &e);
    }
    plan.sent_max = SIZE_MAX;
}

/* ---- what a server must not send, and what it may ---- */

#define FRAME(s) s, sizeof s - 1
static const struct {
    const char *name, *frames;
    size_t n;
    bool goes_on; /* the connection is right */
} sayings[] = {
    {"a frame of 2^63 - 1 bytes", FRAME("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff" "abc"), false},
    {"a frame of 2^64 - 1 bytes", FRAME("\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff" "abc"), false},
    {"a frame beyond the limit", FRAME("\x81\x7f\0\0\0\0\0\x50\0\0" "abc"), false},
    {"a length that takes more bytes than it needs", FRAME("\x81\x7e\0\x02{}"), false},
    {"a masked frame", FRAME("\x81\x82" "abcd" "{}"), false},
    {"a reserved bit", FRAME("\xc1\x02{}"), false},
    {"an unknown opcode", FRAME("\x83\x02{}"), false},
    {"a continuation of nothing", FRAME("\x80\x02{}"), false},
    {"a message within a message", FRAME("\x01\x01{\x81\x02{}"), false},
    {"a ping of 126 bytes", FRAME("\x89\x7e\0\x7e" "abc"), false},
    {"a ping in parts", FRAME("\x09\x01p"), false},
    {"no UTF-8", FRAME("\x81\x02\xc0\x80"), false},
    {"half of a character at the end", FRAME("\x01\x02\xf0\x9f\x80\x01\x98"), false},
    {"a surrogate", FRAME("\x81\x03\xed\xa0\x80"), false},
    {"a close", FRAME("\x88\0"), false},
    {"a close with a code", FRAME("\x88\x05\x03\xe8" "bye"), false},
    {"a close with a code that does not exist", FRAME("\x88\x02\0\x01"), false},
    {"a close of one byte", FRAME("\x88\x01\x03"), false},
    {"a close, then more", FRAME("\x88\0\x81\x02{}\x81\x02{}"), false},
    {"a ping", FRAME("\x89\x01p"), true},
    {"pongs that nobody asked for", FRAME("\x8a\x01p\x8a\0"), true},
    {"a message in parts, a ping between",
     FRAME("\x01\x01{\x89\x01p\0\x03\"a\"\x8a\0\x80\x03:1}"), true},
    {"an empty message", FRAME("\x81\0"), true},
    {"a binary message", FRAME("\x82\x03\0\1\2"), true},
    {"no JSON", FRAME("\x81\x05" "[[[[["), true},
    {"JSON of another kind", FRAME("\x81\x02[]\x81\x01" "7\x81\x04null\x81\x02{}"), true},
    {"an answer to nobody",
     FRAME("\x81\x29{\"type\":\"completion.done\",\"id\":\"c777777\"}"), true},
    {"a refusal of nobody",
     FRAME("\x81\x29{\"type\":\"error\",\"id\":\"c99\",\"status\":500 }"), true},
    {"an id that is no text", FRAME("\x81\x21{\"type\":\"completion.done\",\"id\":7}"), true},
};

static void test_sayings(void)
{
    plan.sent_max = SIZE_MAX;
    for (size_t i = 0; i < ARRAY_LEN(sayings); i++) {
        peer p;
        editor e;
        plan.n_upgrades = 0;
        plan.goes_on = sayings[i].goes_on;
        plan.frames = sayings[i].frames;
        plan.n_frames = sayings[i].n;
        begin(&p, &e);
        TEST_CHECK_THAT(completes(&e), "%s: %s", sayings[i].name, e.last);
        TEST_CHECK_THAT(has_line(&p.posts, "/infill") != sayings[i].goes_on, "%s",
                        sayings[i].name);
        TEST_CHECK_THAT(completes_again(&e), "%s, again: %s", sayings[i].name, e.last);
        TEST_CHECK_THAT(sayings[i].goes_on == (plan.n_upgrades == 1), "%s: %d connections",
                        sayings[i].name, plan.n_upgrades);
        TEST_CHECK_THAT(!e.n_notes, "%s", sayings[i].name);
        TEST_CHECK_THAT(rests(&e), "%s", sayings[i].name);
        end(&p, &e);
    }
    plan.frames = NULL;
}

static const char *const upgrades[] = {
    "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\n\r\n",
    "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x81\x02{}",
    "HTTP/1.1 101\r\n\r\n",
    "\r\n\r\n",
    "nothing that is HTTP\r\n\r\n",
};

static void test_upgrades(void)
{
    for (size_t i = 0; i < ARRAY_LEN(upgrades); i++) {
        peer p;
        editor e;
        plan.upgrade = upgrades[i];
        begin(&p, &e);
        TEST_CHECK_THAT(completes(&e) && has_line(&p.posts, "/infill"), "%zu: %s", i, e.last);
        TEST_CHECK_THAT(completes_again(&e) && rests(&e), "%zu: %s", i, e.last);
        end(&p, &e);
    }
    plan.upgrade = NULL;
}

/* Nothing is heard of a server that took a request: it is asked by POST. */
static void test_silence(void)
{
    peer p;
    editor e;
    plan.is_silent = true;
    begin(&p, &e);
    TEST_CHECK(!completes(&e) && has_line(&p.texts, "completion.create"));
    TEST_CHECK(lsp_remote_due(e.remote) < UINT64_MAX && !has_line(&p.posts, "/infill"));
    e.remote->silence_ns = 1;
    until(&e, &p.posts, "/infill");
    session_answers(&e, e.n_asked - 1);
    session_run(&e, ROUNDS);
    TEST_CHECK(has_line(&p.posts, "/infill") && strstr(e.last, "1, 2)"));
    TEST_CHECK(lsp_remote_due(e.remote) == UINT64_MAX && !e.n_notes && rests(&e));
    end(&p, &e);
    plan.is_silent = false;
}

/* What the server gave up is asked for again: its place does not stay silent. */
static void test_given_up(void)
{
    static const char *const reasons[] = {"superseded", "canceled", "failed"};
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        peer p;
        editor e;
        plan.reason = reasons[i];
        begin(&p, &e);
        TEST_CHECK_THAT(!completes(&e), "%s", e.last);
        plan.reason = NULL;
        TEST_CHECK_THAT(completes(&e), "%s: %s", reasons[i], e.last);
        TEST_CHECK(!has_line(&p.posts, "/infill"));
        end(&p, &e);
    }
}

/* Of a crowd of pings a look reads a part. */
static void test_part(void)
{
    static char many[2 << 20];
    const int size = 4 << 20;
    plan.n_upgrades = 0;
    int n = 0, left = 0, most = 0;
    peer p;
    editor e;
    for (size_t i = 0; i + 127 <= sizeof many; i += 127) memcpy(many + i, "\x89\x7d", 2);
    begin(&p, &e);
    if (only_socket(&p))
        peer_send(only_socket(&p), (view){many, sizeof many / 127 * 127});
    const int fd = lsp_socket_fd(e.remote->socket);
    TEST_CHECK(fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    for (int i = 0; i < 200 && only_socket(&p); i++) {
        for (int k = 0; k < 8; k++) peer_look(&p);
        TEST_CHECK(!ioctl(fd, FIONREAD, &n));
        lsp_remote_look(e.remote, e.server);
        TEST_CHECK(!ioctl(fd, FIONREAD, &left));
        if (n - left > most) most = n - left;
        TEST_CHECK((left > 0) <= lsp_socket_has_more(e.remote->socket));
    }
    TEST_CHECK_THAT(most > 0 && most <= (256 << 10) + 4096, "%d", most);
    TEST_CHECK(completes(&e) && rests(&e) && plan.n_upgrades == 1);
    end(&p, &e);
}

/* A server that pings without end, or whose head has no end, does not hold the editor up. */
static void test_floods(void)
{
    static char many[4 << 20];
    peer p;
    editor e;
    for (size_t i = 0; i < sizeof many; i += 2) memcpy(many + i, "\x89", 2);
    plan.goes_on = true;
    plan.frames = many;
    plan.n_frames = 64 << 10;
    begin(&p, &e);
    TEST_CHECK(completes(&e) && rests(&e));
    end(&p, &e);
    memset(many, 'x', sizeof many - 1);
    many[sizeof many - 1] = 0;
    plan.frames = NULL;
    plan.upgrade = many;
    begin(&p, &e);
    TEST_CHECK(completes(&e) && rests(&e));
    end(&p, &e);
    plan.upgrade = NULL;
}

int main(void)
{
    TEST_RUN(test_right);
    TEST_RUN(test_edits);
    TEST_RUN(test_closing);
    TEST_RUN(test_vanishes);
    TEST_RUN(test_sayings);
    TEST_RUN(test_upgrades);
    TEST_RUN(test_silence);
    TEST_RUN(test_given_up);
    TEST_RUN(test_part);
    TEST_RUN(test_floods);
    return unit_report("lsp_remote");
}
