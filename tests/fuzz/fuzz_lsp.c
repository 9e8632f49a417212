/* fuzz_lsp.c - bytes from an editor: frames, messages, documents, completions.  For any input
 * each request is answered once, at the latest at shutdown. */
#include "base/json.h"
#include "lsp/frames.h"
#include "lsp/lsp_server.h"
#include "protocol/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ORDERS_MAX = 64 };

typedef struct {
    lsp_server *server;
    uint64_t now;
    json_t *left; /* by the text of an id: questions without an answer; below 0: too many */
    struct {
        uint64_t document, serial;
        bool is_judging, is_edit;
        uint32_t n_candidates;
    } orders[ORDERS_MAX];
    uint32_t n_orders;
} editor;

static void count(editor *e, const json_t *id, int more)
{
    if (json_is_null(id)) return; /* of what could not be read */
    char *name = json_dumps(id, JSON_ENCODE_ANY);
    CHECK(name);
    const json_int_t n = json_integer_value(json_object_getn(e->left, name, strlen(name))) + more;
    CHECK(n >= 0 && !json_object_setn_new(e->left, name, strlen(name), json_integer(n)));
    memory_release(name);
}

/* Several completions of a place differ. */
static void check_items(const json_t *items)
{
    const size_t n = json_array_size(items);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            const json_t *a = json_object_get(json_array_get(items, i), "insertText");
            const json_t *b = json_object_get(json_array_get(items, k), "insertText");
            CHECK(!a || !b || !json_equal(a, b));
        }
    CHECK(n <= LSP_CANDIDATES_MAX || !json_object_get(json_array_get(items, 0), "insertText"));
}

static void on_body(void *user, view body, bool is_answer)
{
    editor *e = user;
    json_error_t why;
    json_t *m = json_read(body, JSON_ALLOW_NUL, &why);
    CHECK(m && json_is_object(m));
    if (json_object_get(m, "result") || json_object_get(m, "error")) {
        CHECK(is_answer);
        check_items(json_object_get(json_object_get(m, "result"), "items"));
        count(e, json_object_get(m, "id"), -1);
    }
    json_decref(m);
}

static void on_log(void *user, const char *line)
{
    (void)user;
    CHECK(line);
}

static bool keep(editor *e, uint64_t document, uint64_t serial, bool is_judging, bool is_edit)
{
    if (e->n_orders == ORDERS_MAX) return false;
    e->orders[e->n_orders].document = document;
    e->orders[e->n_orders].serial = serial;
    e->orders[e->n_orders].n_candidates = 0;
    e->orders[e->n_orders].is_judging = is_judging;
    e->orders[e->n_orders++].is_edit = is_edit;
    return true;
}

static bool on_generate(void *user, const lsp_order *o)
{
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < o->n_files; i++) n_bytes += o->files[i].text_len;
    CHECK(o->n_files <= SNIPPETS_MAX && n_bytes <= 200 + SNIPPETS_MAX);
    editor *e = user;
    CHECK(o->n_candidates <= LSP_CANDIDATES_MAX && !(o->n_candidates && o->warm_up));
    if (!keep(user, o->document, o->serial, false, false)) return false;
    e->orders[e->n_orders - 1].n_candidates = o->n_candidates;
    return true;
}

static void on_outcome(void *user, const lsp_outcome *o)
{
    (void)user;
    CHECK(o->language && o->model && o->chosen < LSP_CANDIDATES_MAX);
    if (o->kind == LSP_OUTCOME_CHOSEN) return;
    CHECK(o->n_taken <= o->n_shown && o->n_shown);
    CHECK(o->probability >= 0 && o->probability <= 1);
    CHECK((o->kind == LSP_OUTCOME_TAKEN) == (o->n_taken > 0));
}

static double on_confidence(void *user, const char *model, const char *language, double standard)
{
    (void)user;
    CHECK(model && language);
    return standard / 2;
}

/* A folder has one file. */
static void on_folder(void *user, const char *path)
{
    editor *e = user;
    bytes name = {.max = 1 << 16};
    snippet_file *f;
    CHECK(path[0] == '/' && !bytes_append(&name, path, strlen(path)) &&
          !bytes_append(&name, "/other.py", 9));
    int status = snippet_file_open(&f, (view){name.ptr, name.len},
                                   VIEW("def foo_bar(a, b):\n    return other(a)\n"));
    CHECK(!status || status == CERIUM_ERR_CAPACITY);
    bytes_free(&name);
    if (!status) lsp_server_file(e->server, f);
}

static void on_cancel(void *user, uint64_t document)
{
    (void)user;
    (void)document; /* running answers may still come */
}

static bool on_judge(void *user, uint64_t document, int64_t version, view text, const char *path,
                     guard_language language)
{
    CHECK(text.ptr && path && language < GUARD_LANGUAGES);
    return keep(user, document, (uint64_t)version, true, false);
}

static bool on_edit(void *user, const lsp_edit_order *o, const char **why)
{
    *why = "too much";
    return keep(user, o->document, o->serial, false, true);
}

static void on_cancel_edit(void *user) { (void)user; }

static void answer_orders(editor *e)
{
    uint32_t n = e->n_orders;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t document = e->orders[i].document, serial = e->orders[i].serial;
        if (e->orders[i].is_edit) {
            lsp_server_edited(e->server, serial, VIEW("x = 1\n"), i % 2 ? "why" : NULL, e->now);
        } else if (e->orders[i].is_judging) {
            static lsp_judged f;
            f.finding = (guard_finding){.rule = "r", .message = "m", .idiom = "i", .begin = i,
                                        .end = 3 * i, .line_end = 9, .severity = GUARD_BLOCK};
            lsp_server_judged(e->server, document, (int64_t)serial, &f, 1, e->now);
        } else if (e->orders[i].n_candidates) {
            static const lsp_piece pieces[] = {{3, -0.5F}, {2, -1}, {90, -2}};
            const lsp_candidate all[] = {{VIEW("foo(a, b)\n    c()"), pieces, 3, false},
                                         {VIEW("foo(b)"), pieces, serial % 4, serial % 2},
                                         {VIEW(""), pieces, 1, false},
                                         {VIEW("\n\nreturn \xc3\xa9\n"), pieces, 3, true},
                                         {VIEW("foo(b)"), pieces, 3, false}};
            lsp_server_candidates(e->server, document, serial, all, 5 - serial % 4, e->now);
        } else {
            lsp_server_text(e->server, document, serial, VIEW("foo(a, b"), -0.1, e->now);
            lsp_server_text(e->server, document, serial, VIEW(")\n    bar()\n"), -0.1, e->now);
            lsp_server_ended(e->server, document, serial, (lsp_end)(i % 5), e->now);
        }
    }
    e->n_orders -= n;
    memmove(e->orders, e->orders + n, e->n_orders * sizeof e->orders[0]);
}

static void take(editor *e, view body)
{
    /* As the server reads it: halves of characters are no fault. */
    const protocol_defaults defaults = {.cache = NULL};
    protocol_body m = {.root = NULL};
    protocol_error why = {0};
    const bool is_read = !protocol_body_load(&m, PROTOCOL_INFILL, body, &defaults, &why);
    const json_t *id = is_read ? json_object_get(m.root, "id") : NULL;
    if (is_read && json_is_string(json_object_get(m.root, "method")) &&
        (json_is_integer(id) || json_is_string(id)))
        count(e, id, 1);
    if (is_read) protocol_body_free(&m);
    lsp_server_take(e->server, body, e->now += 1000000);
    if (e->now / 1000000 % 3 == 0) answer_orders(e);
    /* Others are ordered when the first is there: they come at once, later, or too late. */
    if (e->n_orders && e->orders[e->n_orders - 1].n_candidates && e->now / 1000000 % 4) {
        if (e->now / 1000000 % 4 == 3) answer_orders(e);
        answer_orders(e);
    }
    if (lsp_server_due(e->server) <= e->now + 500000000)
        lsp_server_tick(e->server, e->now += 500000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    editor e = {.now = 1000000000, .left = json_object()};
    const lsp_host host = {.user = &e, .send = on_body, .log = on_log, .generate = on_generate,
                           .cancel = on_cancel, .judge = on_judge, .edit = on_edit,
                           .cancel_edit = on_cancel_edit, .outcome = on_outcome,
                           .confidence = on_confidence, .read_folder = on_folder};
    const lsp_model model = {.state = LSP_MODEL_READY, .model = "m", .before_bytes = 600,
                             .after_bytes = 200, .snippet_bytes = 200, .confidence = 0.01};
    lsp_frames f = {0};
    view body;
    int status;
    CHECK(lsp_server_open(&e.server, &host) == 0);
    lsp_server_model(e.server, &model);
    for (size_t at = 0; at < size && !lsp_server_is_over(e.server, &status);) {
        size_t n = size - at < 61 ? size - at : 61;
        CHECK(lsp_frames_add(&f, (view){(const char *)data + at, n}) == 0);
        at += n;
        for (lsp_frame_kind k; (k = lsp_frames_next(&f, &body)) != LSP_FRAME_NONE;)
            if (k == LSP_FRAME_BODY) take(&e, body);
    }
    answer_orders(&e);
    take(&e, VIEW("{\"jsonrpc\":\"2.0\",\"id\":\"end\",\"method\":\"shutdown\"}"));
    const char *id;
    json_t *n;
    json_object_foreach(e.left, id, n) CHECK(!json_integer_value(n)); /* each exactly once */
    json_decref(e.left);
    lsp_frames_close(&f);
    lsp_server_close(&e.server);
    return 0;
}
