/* fuzz_lsp_remote.c - any bytes of a server to `cerium lsp --server`: to the request to upgrade, as
 * frames of the WebSocket, as messages in right frames, or as answers over HTTP, in any cuts.
 *
 * Bytes: what is said as it should be, the cut, then what the server says.  An editor completes,
 * changes, asks for the next edit, cancels and closes; each of its requests is answered once, and
 * the language server ends. */
#include "../lsp/remote_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    RIGHT_MODELS = 1, RIGHT_UPGRADE = 2, RIGHT_FRAMES = 4, RIGHT_INFILL = 8, HANG_UP = 16,
    SPLIT = 32, /* a piece of it for each message that comes, not all at once */
    ROUNDS = 400,
};

static struct {
    uint8_t how;
    view rest; /* yet to be said on the socket */
    view all;
} script;

static view next_part(void)
{
    const char *end = script.how & SPLIT && script.rest.len
                          ? memchr(script.rest.ptr, '\n', script.rest.len) : NULL;
    const size_t n = end ? (size_t)(end - script.rest.ptr) + 1 : script.rest.len;
    const view part = {script.rest.ptr, n};
    script.rest.ptr += n;
    script.rest.len -= n;
    return part;
}

/* As it is, or its lines as messages. */
static void say_part(peer *p, peer_link *l)
{
    view part = next_part();
    if (!(script.how & RIGHT_FRAMES)) peer_send(l, part);
    while (script.how & RIGHT_FRAMES && part.len) {
        const char *end = memchr(part.ptr, '\n', part.len);
        const size_t n = end ? (size_t)(end - part.ptr) : part.len;
        peer_frame(l, 0x81, (view){part.ptr, n});
        part.ptr += n + (end != NULL);
        part.len -= n + (end != NULL);
    }
    if (script.how & HANG_UP && !script.rest.len) l->is_last = true;
    (void)p;
}

static void on_message(peer *p, peer_link *l, view text)
{
    json_error_t why;
    json_t *m = json_read(text, JSON_ALLOW_NUL, &why);
    CHECK(json_is_string(json_object_get(m, "type")));
    json_decref(m);
    say_part(p, l);
}

static void on_request(peer *p, peer_link *l, view head, view body)
{
    static const char infill[] = "{\"content\":\"a, b)\","
                                 "\"stop_type\":\"eos\",\"tokens_predicted\":4}";
    (void)body;
    if (l->is_socket && script.how & RIGHT_UPGRADE) {
        peer_accept(l, head);
        if (!(script.how & SPLIT)) say_part(p, l);
    } else if (l->is_socket) {
        say_part(p, l);
    } else if (script.how & RIGHT_MODELS && peer_lists(l, head)) {
        return;
    } else if (script.how & RIGHT_INFILL) {
        peer_answer(l, 200, infill);
    } else { /* a body of its bytes, or they are all of the answer */
        static const char ok[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        if (script.how & RIGHT_FRAMES) peer_send(l, VIEW(ok));
        peer_send(l, script.all);
        l->is_last = true;
    }
}

static void edit(editor *e)
{
    static const char uri[] = "file:///w/a.py", other[] = "file:///w/b.py";
    editor_opens_file(e, uri, "def f(a):\n    return a\n\nf(");
    session_run(e, ROUNDS);
    (void)editor_completes(e, uri, 3, 2);
    session_run(e, ROUNDS);
    editor_changes(e, uri, "def f(a, b):\n    return a\n\nf(1");
    (void)editor_completes(e, uri, 3, 3);
    (void)editor_next_edit(e, uri, 3, 3);
    editor_opens_file(e, other, "x = (");
    int second = editor_completes(e, other, 0, 5);
    session_run(e, ROUNDS);
    editor_cancels(e, second);
    editor_shuts_file(e, other);
    editor_changes(e, uri, "def f(a, b):\n    return a\n\nf(1, ");
    (void)editor_completes(e, uri, 3, 5);
    (void)editor_next_edit(e, uri, 1, 3);
    session_run(e, ROUNDS);
    (void)editor_asks(e, "cerium/status", json_null());
    (void)editor_asks(e, "shutdown", json_null());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static peer p;
    static editor e;
    if (size < 2 || size > 1 << 16) return 0;
    if (!p.port) peer_open(&p);
    p.request = on_request;
    p.message = on_message;
    p.piece = data[1];
    script.how = data[0];
    script.all = script.rest = (view){(const char *)data + 2, size - 2};
    CHECK(!session_open(&e, &p));
    session_run(&e, ROUNDS);
    edit(&e);
    for (int i = 0; i < e.n_asked; i++) CHECK(e.n_answers[i] == 1);
    session_close(&e);
    peer_forget(&p);
    p.texts.max = p.posts.max = PEER_BYTES_MAX;
    return 0;
}
