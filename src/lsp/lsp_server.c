/* lsp_server.c - the life of a server, and the dispatch of messages. */
#include "lsp/lsp_parts.h"

#include "protocol/protocol.h"

int lsp_server_open(lsp_server **out, const lsp_host *host)
{
    lsp_server *s = memory_zalloc(1, sizeof *s);
    if (!s) return CERIUM_ERR_MEMORY;
    s->host = *host;
    s->encoding = LSP_UTF16;
    lsp_settings_begin(&s->settings);
    *out = s;
    return CERIUM_OK;
}

void lsp_server_close(lsp_server **server)
{
    if (!server || !*server) return;
    lsp_server *s = *server;
    lsp_documents_close(s);
    lsp_snippets_close(s);
    lsp_settings_close(&s->settings);
    json_decref(s->edit.id);
    bytes_free(&s->edit.before);
    if (s->has_parser) tree_memory_close(&s->parser);
    memory_free(s);
    *server = NULL;
}

/* ---- initialize ---- */

static const json_t *at_path(const json_t *object, const char *path)
{
    while (object && *path) {
        size_t n = strcspn(path, ".");
        object = json_object_getn(object, path, n);
        path += n + (path[n] == '.');
    }
    return object;
}

static bool has(const json_t *capabilities, const char *path)
{
    const json_t *value = at_path(capabilities, path);
    return value && !json_is_false(value) && !json_is_null(value);
}

static void read_capabilities(lsp_server *s, const json_t *c)
{
    const json_t *encodings = at_path(c, "general.positionEncodings"), *one;
    size_t i;
    s->encoding = LSP_UTF16;
    json_array_foreach(encodings, i, one)
        if (view_equal((view){json_string_value(one), json_string_length(one)}, VIEW("utf-8")))
            s->encoding = LSP_UTF8;
    s->can.pulls = has(c, "textDocument.diagnostic");
    s->can.refreshes = has(c, "workspace.diagnostics.refreshSupport");
    s->can.applies = has(c, "workspace.applyEdit");
    s->can.changes = has(c, "workspace.workspaceEdit.documentChanges");
    s->can.progress = has(c, "window.workDoneProgress");
    s->can.shows = has(c, "window.showDocument.support");
    s->can.configuration = has(c, "workspace.configuration");
    s->can.registers = has(c, "workspace.didChangeConfiguration.dynamicRegistration");
}

static json_t *capabilities_of(const lsp_server *s)
{
    json_t *c = json_pack(
        "{s:s, s:{s:b, s:i, s:{s:b}}, s:b, s:{s:[s, s], s:b}, s:{s:[s, s, s, s]},"
        " s:{s:{s:b, s:b}}}",
        "positionEncoding", s->encoding == LSP_UTF8 ? "utf-8" : "utf-16", "textDocumentSync",
        "openClose", 1, "change", 2, "save", "includeText", 0, "inlineCompletionProvider", 1,
        "codeActionProvider", "codeActionKinds", "quickfix", "refactor.rewrite", "resolveProvider",
        0, "executeCommandProvider", "commands", "cerium.server.accepted", "cerium.server.edit",
        "cerium.server.next", "cerium.server.snooze", "workspace", "workspaceFolders", "supported",
        1, "changeNotifications", 1);
    if (!c) return NULL;
    if (s->can.pulls)
        json_object_set_new(c, "diagnosticProvider",
                            json_pack("{s:s, s:b, s:b}", "identifier", "cerium",
                                      "interFileDependencies", 0, "workspaceDiagnostics", 0));
    return c;
}

/* Older clients have one root, or none. */
static void read_roots(lsp_server *s, const json_t *params)
{
    const json_t *folders = json_object_get(params, "workspaceFolders"), *one;
    size_t i;
    json_array_foreach(folders, i, one) lsp_snippets_add_root(s, lsp_read_string(one, "uri"));
    if (!s->n_roots) lsp_snippets_add_root(s, lsp_read_string(params, "rootUri"));
}

static void initialize(lsp_server *s, json_t *id, const json_t *params)
{
    if (s->is_initialized) {
        lsp_answer_error(s, id, LSP_INVALID_REQUEST, "it is initialized already");
        return;
    }
    const json_t *process = json_object_get(params, "processId");
    if (json_is_integer(process)) s->parent = json_integer_value(process);
    read_capabilities(s, json_object_get(params, "capabilities"));
    lsp_settings_read(s, json_object_get(params, "initializationOptions"));
    read_roots(s, params);
    s->is_initialized = true;
    lsp_answer(s, id, json_pack("{s:o, s:{s:s, s:s}}", "capabilities", capabilities_of(s),
                                "serverInfo", "name", "cerium", "version", cerium_version()));
}

static void ask_settings(lsp_server *s)
{
    if (s->can.configuration)
        s->configuration_id = lsp_request(s, "workspace/configuration",
                                          json_pack("{s:[{s:s}]}", "items", "section", "cerium"));
}

static void initialized(lsp_server *s)
{
    if (s->can.registers)
        (void)lsp_request(s, "client/registerCapability",
                          json_pack("{s:[{s:s, s:s}]}", "registrations", "id", "cerium-settings",
                                    "method", "workspace/didChangeConfiguration"));
    ask_settings(s);
}

/* ---- status, and a failure once ---- */

static json_t *status_of(const lsp_server *s)
{
    static const char *const kinds[] = {"Normal", "Normal", "Error"};
    const lsp_counts *c = &s->counts;
    size_t findings = 0;
    for (uint32_t i = 0; i < s->n_documents; i++)
        findings += s->documents[i]->findings.len / sizeof(lsp_judged);
    json_t *counts = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "requests", (json_int_t)c->requests,
        "answers", (json_int_t)c->answers, "shown", (json_int_t)c->shown, "superseded",
        (json_int_t)c->superseded, "canceled", (json_int_t)c->canceled, "accepted",
        (json_int_t)c->accepted, "accepted_characters", (json_int_t)c->accepted_characters,
        "generated", (json_int_t)c->generated, "next_edits", (json_int_t)c->next_edits);
    return json_pack("{s:b, s:s, s:s, s:s, s:I, s:I, s:o}", "busy",
                     s->model.state == LSP_MODEL_LOADING, "message", s->model_why, "kind",
                     kinds[s->model.state], "model", s->model_name, "findings",
                     (json_int_t)findings, "files", (json_int_t)s->files.n, "counts", counts);
}

static void tell_model(lsp_server *s)
{
    char line[640];
    bool failed = s->model.state == LSP_MODEL_FAILED;
    if (!s->is_greeted) return; /* reported at that time */
    if (failed && !s->reported_failure) {
        snprintf(line, sizeof line, "cerium: %s", s->model_why);
        lsp_show(s, 1, line);
    }
    s->reported_failure = failed;
    if (s->settings.status) lsp_notify(s, "didChangeStatus", status_of(s));
}

void lsp_server_model(lsp_server *s, const lsp_model *m)
{
    s->model = *m;
    snprintf(s->model_name, sizeof s->model_name, "%s", m->model ? m->model : "");
    snprintf(s->model_why, sizeof s->model_why, "%s", m->why ? m->why : "");
    s->model.model = s->model_name;
    s->model.why = s->model_why;
    lsp_snippets_read(s);
    tell_model(s);
}

/* ---- messages ---- */

static void take_response(lsp_server *s, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    uint64_t n = json_is_integer(id) ? (uint64_t)json_integer_value(id) : 0;
    if (n && n == s->configuration_id) {
        s->configuration_id = 0;
        lsp_settings_read(s, json_array_get(json_object_get(message, "result"), 0));
        lsp_snippets_read(s);
    } else if (n && n == s->edit.apply_id) {
        s->edit.apply_id = 0;
        lsp_edit_applied(s, message);
    }
}

static void cancel(lsp_server *s, const json_t *params)
{
    const json_t *id = json_object_get(params, "id");
    if (!id || lsp_completion_cancel(s, id) || lsp_diagnostics_cancel(s, id) ||
        lsp_prediction_cancel(s, id))
        return;
    (void)lsp_edit_cancel(s, id);
}

static void take_notification(lsp_server *s, view method, const json_t *params, uint64_t now)
{
    if (view_equal(method, VIEW("textDocument/didChange"))) lsp_did_change(s, params, now);
    else if (view_equal(method, VIEW("$/cancelRequest"))) cancel(s, params);
    else if (view_equal(method, VIEW("textDocument/didOpen"))) lsp_did_open(s, params, now);
    else if (view_equal(method, VIEW("textDocument/didClose"))) lsp_did_close(s, params);
    else if (view_equal(method, VIEW("textDocument/didSave"))) lsp_snippets_read(s);
    else if (view_equal(method, VIEW("workspace/didChangeWorkspaceFolders")))
        lsp_snippets_folders(s, params);
    else if (view_equal(method, VIEW("initialized"))) {
        initialized(s);
        s->is_greeted = true;
        lsp_snippets_read(s);
        if (s->model.state != LSP_MODEL_LOADING) tell_model(s);
    } else if (view_equal(method, VIEW("workspace/didChangeConfiguration"))) {
        lsp_settings_read(s, json_object_get(params, "settings"));
        ask_settings(s);
    } else if (view_equal(method, VIEW("textDocument/didPartiallyAcceptCompletion"))) {
        s->counts.partly_accepted++;
    } else if (view_equal(method, VIEW("window/workDoneProgress/cancel"))) {
        (void)lsp_edit_cancel(s, NULL);
    }
}

static void take_request(lsp_server *s, view method, json_t *id, const json_t *params,
                         uint64_t now)
{
    if (view_equal(method, VIEW("textDocument/inlineCompletion")))
        lsp_inline_completion(s, id, params, now);
    else if (view_equal(method, VIEW("textDocument/diagnostic")))
        lsp_diagnostics_pull(s, id, params, now);
    else if (view_equal(method, VIEW("textDocument/codeAction")))
        lsp_code_actions(s, id, params, now);
    else if (view_equal(method, VIEW("textDocument/copilotInlineEdit")))
        lsp_inline_edit(s, id, params, now);
    else if (view_equal(method, VIEW("workspace/executeCommand")))
        lsp_execute_command(s, id, params, now);
    else if (view_equal(method, VIEW("cerium/status")))
        lsp_answer(s, id, status_of(s));
    else
        lsp_answer_error(s, id, LSP_METHOD_NOT_FOUND, "no such method");
}

static void shut(lsp_server *s, json_t *id)
{
    (void)lsp_edit_cancel(s, NULL);
    lsp_documents_close(s);
    s->is_shut = true;
    lsp_answer(s, id, json_null());
}

static void route(lsp_server *s, json_t *message, uint64_t now)
{
    json_t *id = json_object_get(message, "id"), *method = json_object_get(message, "method");
    const json_t *params = json_object_get(message, "params");
    const view name = {json_string_value(method), json_string_length(method)};
    if (!method && id) {
        take_response(s, message);
    } else if (!json_is_string(method) ||
               (id && !json_is_integer(id) && !json_is_string(id))) {
        lsp_answer_error(s, NULL, LSP_INVALID_REQUEST, "no method, or an id that is none");
    } else if (!id && view_equal(name, VIEW("exit"))) {
        s->is_over = true;
    } else if (!id) {
        if (s->is_initialized && !s->is_shut) take_notification(s, name, params, now);
    } else if (view_equal(name, VIEW("initialize"))) {
        initialize(s, id, params);
    } else if (!s->is_initialized) {
        lsp_answer_error(s, id, LSP_NOT_INITIALIZED, "initialize comes first");
    } else if (s->is_shut) {
        lsp_answer_error(s, id, LSP_INVALID_REQUEST, "it was shut down");
    } else if (view_equal(name, VIEW("shutdown"))) {
        shut(s, id);
    } else {
        take_request(s, name, id, params, now);
    }
}

void lsp_server_take(lsp_server *s, view body, uint64_t now)
{
    protocol_body message;
    protocol_error e = {0};
    const protocol_defaults defaults = {.cache = NULL};
    int status = protocol_body_load(&message, PROTOCOL_INFILL, body, &defaults, &e);
    if (status) {
        bool is_batch = body.len && *body.ptr == '[';
        lsp_answer_error(s, NULL, is_batch ? LSP_INVALID_REQUEST : LSP_PARSE_ERROR,
                         status == CERIUM_ERR_MEMORY ? "out of memory"
                         : is_batch                  ? "one message at a time"
                                                     : "not JSON, or too much of it");
        return;
    }
    route(s, message.root, now);
    protocol_body_free(&message);
}

/* ---- time ---- */

uint64_t lsp_server_due(const lsp_server *s)
{
    uint64_t due = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_documents; i++) {
        uint64_t a = lsp_completion_due(s->documents[i]);
        uint64_t b = lsp_diagnostics_due(s->documents[i]);
        if (b < a) a = b;
        if (a < due) due = a;
    }
    return due;
}

void lsp_server_tick(lsp_server *s, uint64_t now)
{
    for (uint32_t i = 0; i < s->n_documents; i++) {
        lsp_completion_tick(s, s->documents[i], now);
        lsp_diagnostics_tick(s, s->documents[i], now);
    }
}

bool lsp_server_is_over(const lsp_server *s, int *status)
{
    *status = s->is_shut || !s->is_initialized ? 0 : 1;
    return s->is_over;
}

int64_t lsp_server_parent(const lsp_server *s) { return s->parent; }
