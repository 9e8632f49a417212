/* lsp_instruction.c - edits by instruction: the comment, the order, and the resulting change. */
#include "lsp/lsp_parts.h"

#include "protocol/diff.h"

enum { INSTRUCTION_BYTES_MAX = 4096 };

bool lsp_instruction_at(const lsp_document *d, size_t at, view *instruction, size_t *from,
                        size_t *to)
{
    static const char *const marks[] = {"#", "//", "--", "/*", "<!--", ";", "%", "\""};
    static const char *const ends[] = {"*/", "-->"};
    const uint32_t line = lsp_text_line_at(&d->text, at);
    size_t end;
    lsp_text_line(&d->text, line, from, &end);
    view text = {d->text.text.ptr ? d->text.text.ptr + *from : "", end - *from};
    bool is_marked = false;
    text = view_trim_start(text, " \t");
    for (size_t i = 0; i < ARRAY_LEN(marks) && !is_marked; i++)
        if (view_starts(text, view_of(marks[i]))) {
            text.ptr += strlen(marks[i]);
            text.len -= strlen(marks[i]);
            is_marked = true;
        }
    text = view_trim_start(text, " \t");
    if (!is_marked || !view_starts(text, VIEW("cerium:"))) return false;
    text = (view){text.ptr + 7, text.len - 7};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        text = view_trim_end(text, " \t");
        if (text.len >= n && !memcmp(text.ptr + text.len - n, ends[i], n)) text.len -= n;
    }
    text = view_trim(text, " \t");
    if (!text.len || text.len > INSTRUCTION_BYTES_MAX || view_starts(text, VIEW("allow ")))
        return false;
    *instruction = text;
    size_t next, unused;
    lsp_text_line(&d->text, line + 1, &next, &unused);
    *to = line + 1 < lsp_text_lines(&d->text) ? next : end;
    return true;
}

/* ---- progress ---- */

static void tell_progress(lsp_server *s, json_t *value)
{
    char token[40];
    snprintf(token, sizeof token, "cerium-edit-%llu", (unsigned long long)s->edit.serial);
    if (!s->edit.has_progress) {
        json_decref(value);
        return;
    }
    lsp_notify(s, "$/progress", json_pack("{s:s, s:o}", "token", token, "value", value));
}

static void begin_progress(lsp_server *s, view instruction)
{
    char token[40];
    s->edit.has_progress = s->can.progress;
    if (!s->can.progress) return;
    snprintf(token, sizeof token, "cerium-edit-%llu", (unsigned long long)s->edit.serial);
    (void)lsp_request(s, "window/workDoneProgress/create", json_pack("{s:s}", "token", token));
    tell_progress(s, json_pack("{s:s, s:s, s:o, s:b}", "kind", "begin", "title", "cerium: edit",
                               "message", lsp_json_text(instruction), "cancellable", 1));
}

/* ---- one edit ---- */

static void close_edit(lsp_server *s)
{
    tell_progress(s, json_pack("{s:s}", "kind", "end"));
    json_decref(s->edit.id);
    bytes_free(&s->edit.before);
    s->edit.id = NULL;
    s->edit.serial = 0;
    s->edit.has_progress = false;
}

static void refuse(lsp_server *s, const char *why)
{
    char line[600];
    snprintf(line, sizeof line, "cerium: %s", why);
    lsp_show(s, 2, line);
}

/* The text without the comment's line. */
static int gather(lsp_server *s, const lsp_document *d, size_t at, bytes *out)
{
    view instruction;
    const view text = lsp_text_view(&d->text);
    size_t from = text.len, to = text.len;
    if (!lsp_instruction_at(d, at, &instruction, &from, &to)) from = to = text.len;
    s->edit.before.max = out->max = 2 * (size_t)LSP_TEXT_BYTES_MAX;
    RETURN_IF(bytes_append(&s->edit.before, text.ptr, text.len));
    RETURN_IF(bytes_append(out, text.ptr, from));
    return bytes_append(out, text.ptr ? text.ptr + to : "", text.len - to);
}

void lsp_edit_begin(lsp_server *s, json_t *id, lsp_document *d, size_t at, view instruction,
                    uint64_t now)
{
    const char *why = "out of memory";
    char *words = memory_copy(instruction.ptr, instruction.len);
    bytes text = {0};
    bool runs = false;
    (void)now;
    if (s->edit.serial) {
        why = "another edit is under way";
    } else if (words && !gather(s, d, at, &text)) {
        const char *slash = strrchr(d->path, '/');
        const lsp_edit_order order = {.document = d->key, .serial = ++s->last_serial,
                                      .text = {text.ptr ? text.ptr : "", text.len},
                                      .path = slash ? slash + 1 : d->path, .instruction = words};
        runs = s->host.edit(s->host.user, &order, &why);
        s->edit.serial = runs ? order.serial : 0;
    }
    if (!runs) {
        refuse(s, why);
        lsp_answer(s, id, json_null());
        if (!s->edit.serial) bytes_free(&s->edit.before);
    } else {
        s->edit.document = d->key;
        s->edit.version = d->version;
        s->edit.id = json_incref(id);
        begin_progress(s, instruction);
    }
    memory_free(words);
    bytes_free(&text);
}

bool lsp_edit_cancel(lsp_server *s, const json_t *id)
{
    if (!s->edit.serial || (id && !json_equal(s->edit.id, id))) return false;
    s->host.cancel_edit(s->host.user);
    if (id) lsp_answer_error(s, s->edit.id, LSP_REQUEST_CANCELLED, "canceled");
    else lsp_answer(s, s->edit.id, json_null());
    close_edit(s);
    return true;
}

/* One replacement of lines for each change. */
static json_t *edits_of(const lsp_server *s, const lsp_document *d, const diff *changes)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < changes->n_changes; i++) {
        const diff_change *c = &changes->changes[i];
        const view *old = changes->lines[0], *new = changes->lines[1];
        const char *text = d->text.text.ptr;
        size_t from = c->a < changes->n_lines[0] ? (size_t)(old[c->a].ptr - text)
                                                 : d->text.text.len;
        size_t to = from, n = 0;
        for (uint32_t k = 0; k < c->n_a; k++) to += old[c->a + k].len;
        for (uint32_t k = 0; k < c->n_b; k++) n += new[c->b + k].len;
        view with = {c->n_b ? new[c->b].ptr : "", n};
        if (json_array_append_new(list, json_pack("{s:o, s:o}", "range",
                                                  lsp_json_range(s, d, from, to), "newText",
                                                  lsp_json_text(with)))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static void apply(lsp_server *s, lsp_document *d, view text)
{
    diff changes;
    cerium_error err;
    const view was = {d->text.text.ptr ? d->text.text.ptr : "", d->text.text.len};
    if (diff_open(&changes, was, text, false, &err)) {
        refuse(s, err.message);
        return;
    }
    json_t *edit = lsp_workspace_edit(s, d, edits_of(s, d, &changes));
    diff_close(&changes);
    s->edit.apply_id = lsp_request(s, "workspace/applyEdit",
                                   json_pack("{s:s, s:o}", "label", "cerium: edit", "edit", edit));
}

void lsp_server_edited(lsp_server *s, uint64_t serial, view text, const char *why, uint64_t now)
{
    if (!s->edit.serial || s->edit.serial != serial) return;
    lsp_document *d = lsp_document_by_key(s, s->edit.document);
    (void)now;
    if (why) refuse(s, why);
    else if (!d) refuse(s, "the file was closed: nothing is changed");
    else if (d->version != s->edit.version) refuse(s, "the text changed meanwhile: ask again");
    else if (!s->can.applies) refuse(s, "this editor takes no edits from a language server");
    else apply(s, d, text);
    lsp_answer(s, s->edit.id, json_null());
    close_edit(s);
}

void lsp_edit_applied(lsp_server *s, const json_t *answer)
{
    const json_t *result = json_object_get(answer, "result");
    char line[400];
    if (json_is_true(json_object_get(result, "applied"))) return;
    view why = lsp_read_string(result, "failureReason");
    snprintf(line, sizeof line, "the editor did not take the edit: %.*s",
             why.len < 300 ? (int)why.len : 300, why.ptr ? why.ptr : "");
    refuse(s, line);
}
