/* remote_session.h - all of `cerium lsp --server` but its pipes, with a peer (peer.h) as its server
 * and an editor that counts answers; one thread, and no time but what the server itself waits. */
#ifndef TESTS_LSP_REMOTE_SESSION_H
#define TESTS_LSP_REMOTE_SESSION_H

#include "base/json.h"
#include "peer.h"
#include "programs/lsp_host.h"

enum { EDITOR_REQUESTS = 256 };

typedef struct {
    peer *peer;
    lsp_server *server;
    lsp_remote *remote;
    int n_asked;
    bool is_initialized;
    int n_answers[EDITOR_REQUESTS]; /* by id */
    char last[8192];                /* the newest answer */
    int n_notes;                    /* window/showMessage */
    json_int_t version;
} editor;

/* ---- what the language server says ---- */

static inline void editor_reads(void *user, view body, bool is_answer)
{
    editor *e = user;
    json_error_t why;
    json_t *m = json_read(body, JSON_ALLOW_NUL, &why);
    const json_int_t id = json_integer_value(json_object_get(m, "id"));
    const char *method = json_string_value(json_object_get(m, "method"));
    if (is_answer && m && !method && id >= 0 && id < EDITOR_REQUESTS) {
        e->n_answers[id]++;
        e->is_initialized |= json_object_get(json_object_get(m, "result"), "capabilities") != NULL;
        snprintf(e->last, sizeof e->last, "%.*s", (int)body.len, body.ptr);
    }
    if (method && !strcmp(method, "window/showMessage")) e->n_notes++;
    json_decref(m);
}

static inline void editor_logs(void *user, const char *line)
{
    (void)user;
    CHECK(line);
}

static inline bool editor_generate(void *user, const lsp_order *order)
{
    return lsp_remote_generate(((editor *)user)->remote, order);
}

static inline void editor_cancel(void *user, uint64_t document)
{
    lsp_remote_cancel(((editor *)user)->remote, document);
}

static inline void editor_forgets(void *user, uint64_t document)
{
    editor *e = user;
    if (e->remote) lsp_remote_forget(e->remote, document);
}

static inline bool editor_judge(void *user, uint64_t document, int64_t version, view text,
                                const char *path, guard_language language)
{
    (void)user, (void)document, (void)version, (void)text, (void)path, (void)language;
    return false;
}

static inline bool editor_predict(void *user, const lsp_predict_order *order)
{
    return lsp_remote_predict(((editor *)user)->remote, order);
}

/* ---- what the editor says ---- */

static inline void editor_says(editor *e, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    if (text) lsp_server_take(e->server, view_of(text), clock_ns());
    memory_release(text);
    json_decref(message);
}

static inline int editor_asks(editor *e, const char *method, json_t *params)
{
    const int id = e->n_asked++;
    CHECK(id < EDITOR_REQUESTS);
    editor_says(e, json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", id, "method", method,
                             "params", params));
    return id;
}

static inline void editor_tells(editor *e, const char *method, json_t *params)
{
    editor_says(e, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
                             params));
}

static inline void editor_opens_file(editor *e, const char *uri, const char *text)
{
    e->version = 1;
    editor_tells(e, "textDocument/didOpen",
                 json_pack("{s:{s:s, s:s, s:i, s:s}}", "textDocument", "uri", uri, "languageId",
                           "python", "version", 1, "text", text));
}

static inline void editor_shuts_file(editor *e, const char *uri)
{
    editor_tells(e, "textDocument/didClose", json_pack("{s:{s:s}}", "textDocument", "uri", uri));
}

/* The whole text anew. */
static inline void editor_changes(editor *e, const char *uri, const char *text)
{
    editor_tells(e, "textDocument/didChange",
                 json_pack("{s:{s:s, s:I}, s:[{s:s}]}", "textDocument", "uri", uri, "version",
                           ++e->version, "contentChanges", "text", text));
}

static inline int editor_completes(editor *e, const char *uri, int line, int character)
{
    return editor_asks(e, "textDocument/inlineCompletion",
                       json_pack("{s:{s:s}, s:{s:i, s:i}, s:{s:i}}", "textDocument", "uri", uri,
                                 "position", "line", line, "character", character, "context",
                                 "triggerKind", 1));
}

static inline int editor_next_edit(editor *e, const char *uri, int line, int character)
{
    return editor_asks(e, "textDocument/copilotInlineEdit",
                       json_pack("{s:{s:s, s:I}, s:{s:i, s:i}}", "textDocument", "uri", uri,
                                 "version", e->version, "position", "line", line, "character",
                                 character));
}

static inline void editor_cancels(editor *e, int id)
{
    editor_tells(e, "$/cancelRequest", json_pack("{s:i}", "id", id));
}

/* ---- both, until nothing happens ---- */

static inline void session_look(editor *e, int wait_ms)
{
    (void)lsp_remote_poll(e->remote, NULL, 0, wait_ms);
    lsp_remote_look(e->remote, e->server);
    lsp_server_tick(e->server, clock_ns());
    peer_look(e->peer);
}

/* Until all requests are answered, or nothing moves any more. */
static inline void session_run(editor *e, int rounds_max)
{
    size_t moved = e->peer->n_moved;
    for (int i = 0, still = 0; i < rounds_max && still < 6; i++) {
        session_look(e, still < 5 ? 0 : 1);
        still = moved == e->peer->n_moved ? still + 1 : 0;
        moved = e->peer->n_moved;
    }
}

/* Until that request is answered, for at most some seconds; false: it is not. */
static inline bool session_answers(editor *e, int id)
{
    for (int i = 0; i < 1000 && !e->n_answers[id]; i++) session_look(e, i < 50 ? 0 : 10);
    return e->n_answers[id] > 0;
}

/* *e and *p: open; CERIUM_ERR_MEMORY also leaves what session_close() closes. */
static inline int session_open(editor *e, peer *p)
{
    const lsp_host host = {.user = e, .send = editor_reads, .log = editor_logs,
                           .generate = editor_generate, .cancel = editor_cancel,
                           .forget = editor_forgets,
                           .judge = editor_judge, .predict = editor_predict};
    char url[64];
    cerium_error err;
    *e = (editor){.peer = p};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", p->port);
    RETURN_IF(lsp_server_open(&e->server, &host));
    RETURN_IF(lsp_remote_open(&e->remote, url, &err));
    (void)editor_asks(e, "initialize", json_pack("{s:{}, s:{s:b}}", "capabilities",
                                                 "initializationOptions", "retrieval", 0));
    editor_tells(e, "initialized", json_object());
    return CERIUM_OK;
}

static inline void session_close(editor *e)
{
    lsp_server_close(&e->server);
    lsp_remote_close(&e->remote);
}

#endif
