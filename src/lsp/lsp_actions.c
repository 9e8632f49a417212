/* lsp_actions.c - code actions, and the commands that they and completions run. */
#include "lsp/lsp_parts.h"

enum { TITLE_BYTES = 72, SNOOZE_MINUTES_MAX = 24 * 60 };

static const char *const kinds[] = {"quickfix", "refactor.rewrite"};
typedef enum { ACTION_FIX = 0, ACTION_REWRITE = 1 } action_kind;

/* context.only may name a kind or one above it. */
static bool is_wanted(const json_t *only, const char *kind)
{
    size_t i;
    const json_t *one;
    if (!json_is_array(only)) return true;
    json_array_foreach(only, i, one)
    {
        view word = {json_string_value(one), json_string_length(one)};
        if (!word.len || (view_starts(view_of(kind), word) &&
                          (kind[word.len] == 0 || kind[word.len] == '.')))
            return true;
    }
    return false;
}

static json_t *text_edit(const lsp_server *s, const lsp_document *d, size_t from, size_t to,
                         view with)
{
    return json_pack("{s:o, s:o}", "range", lsp_json_range(s, d, from, to), "newText",
                     lsp_json_text(with));
}

/* ---- weak lines ---- */

static const char *comment_mark(const lsp_document *d)
{
    switch (d->language) {
    case GUARD_TEXT:
    case GUARD_PYTHON:
    case GUARD_RUBY:
    case GUARD_SHELL:
    case GUARD_NOTEBOOK: return "#";
    case GUARD_HTML: return "<!--";
    case GUARD_JAVASCRIPT:
    case GUARD_TYPESCRIPT:
    case GUARD_TSX:
    case GUARD_JAVA:
    case GUARD_GO:
    case GUARD_C:
    case GUARD_CPP:
    case GUARD_PHP: break;
    case GUARD_LANGUAGES: break;
    }
    return "//";
}

static void add_fix(const lsp_server *s, const lsp_document *d, const lsp_judged *f, json_t *list)
{
    const guard_finding *g = &f->finding;
    char title[TITLE_BYTES];
    json_t *edit;
    if (!f->n_line && !*g->fix) return;
    snprintf(title, sizeof title, "Write it safely: %s", *g->fix ? g->fix : g->idiom);
    for (char *c = title; *c; c++)
        if ((unsigned char)*c < ' ') *c = ' ';
    lsp_whole_characters(title);
    if (f->n_line)
        edit = text_edit(s, d, (size_t)g->line_begin, (size_t)g->line_end,
                         (view){f->line, f->n_line});
    else
        edit = text_edit(s, d, (size_t)g->begin, (size_t)g->end, view_of(g->fix));
    json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:[o], s:o}", "title", title, "kind",
                                          kinds[ACTION_FIX], "isPreferred", 1, "diagnostics",
                                          lsp_diagnostic_of(s, d, f), "edit",
                                          lsp_workspace_edit(s, d, json_pack("[o]", edit))));
}

/* The comment that `cerium scan` accepts, on a separate line before the finding's. */
static void add_allow(const lsp_server *s, const lsp_document *d, const lsp_judged *f,
                      json_t *list)
{
    char title[TITLE_BYTES + 64], line[512];
    size_t from, to, indent;
    lsp_text_line(&d->text, lsp_text_line_at(&d->text, (size_t)f->finding.begin), &from, &to);
    for (indent = from; indent < to && strchr(" \t", d->text.text.ptr[indent]);) indent++;
    if (indent - from > 200) return;
    snprintf(title, sizeof title, "Allow %s here", f->finding.rule);
    snprintf(line, sizeof line, "%.*s%s cerium: allow %s reviewed%s%s", (int)(indent - from),
             d->text.text.ptr + from, comment_mark(d), f->finding.rule,
             d->language == GUARD_HTML ? " -->" : "", d->has_cr ? "\r\n" : "\n");
    json_t *edits = json_pack("[o]", text_edit(s, d, from, from, view_of(line)));
    json_array_append_new(list, json_pack("{s:s, s:s, s:[o], s:o}", "title", title, "kind",
                                          kinds[ACTION_FIX], "diagnostics",
                                          lsp_diagnostic_of(s, d, f), "edit",
                                          lsp_workspace_edit(s, d, edits)));
}

static void add_findings(const lsp_server *s, const lsp_document *d, size_t from, size_t to,
                         json_t *list)
{
    const lsp_judged *all = (const lsp_judged *)(const void *)d->findings.ptr;
    const uint32_t first = lsp_text_line_at(&d->text, from), last = lsp_text_line_at(&d->text, to);
    if (d->judged_version != d->version) return; /* their places are of an older text */
    for (size_t i = 0; i < d->findings.len / sizeof *all; i++) {
        const guard_finding *g = &all[i].finding;
        if (g->severity == GUARD_NOTE || g->begin > d->text.text.len) continue;
        if (lsp_text_line_at(&d->text, (size_t)g->end) < first ||
            lsp_text_line_at(&d->text, (size_t)g->begin) > last)
            continue;
        add_fix(s, d, &all[i], list);
        add_allow(s, d, &all[i], list);
    }
}

static void add_instruction(const lsp_server *s, const lsp_document *d, size_t at, json_t *list)
{
    view instruction;
    size_t from, to;
    if (!s->can.applies || !lsp_instruction_at(d, at, &instruction, &from, &to)) return;
    json_array_append_new(
        list, json_pack("{s:s, s:s, s:{s:s, s:s, s:[{s:s, s:o, s:o, s:I}]}}", "title",
                        "Do what the comment says", "kind", kinds[ACTION_REWRITE], "command",
                        "title", "Do what the comment says", "command", "cerium.server.edit",
                        "arguments", "uri", d->uri, "range", lsp_json_range(s, d, at, at),
                        "instruction", lsp_json_text(instruction), "version",
                        (json_int_t)d->version));
}

void lsp_code_actions(lsp_server *s, json_t *id, const json_t *params, uint64_t now)
{
    lsp_document *d = lsp_document_of(s, params);
    const json_t *only = json_object_get(json_object_get(params, "context"), "only");
    json_t *list;
    size_t from, to;
    if (!d || !lsp_read_range(s, d, json_object_get(params, "range"), &from, &to)) {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, d ? "no range" : "no such document is open");
        return;
    }
    list = json_array();
    if (list && is_wanted(only, kinds[ACTION_FIX])) add_findings(s, d, from, to, list);
    if (list && is_wanted(only, kinds[ACTION_REWRITE])) {
        add_instruction(s, d, from, list);
        if (s->settings.next_edit) lsp_next_edit_actions(s, d, from, now, list);
    }
    if (from == to) lsp_caret_rests(s, d, from, now);
    lsp_answer(s, id, list);
}

/* ---- commands ---- */

static void count_accepted(lsp_server *s, const json_t *arguments)
{
    s->counts.accepted++;
    json_int_t n = json_integer_value(json_array_get(arguments, 2));
    if (n > 0 && n < LSP_PROPOSAL_BYTES_MAX) s->counts.accepted_characters += (uint64_t)n;
}

static void snooze(lsp_server *s, const json_t *arguments, uint64_t now)
{
    const json_t *given = json_array_get(arguments, 0);
    json_int_t minutes = json_is_integer(given) ? json_integer_value(given) : 5;
    if (minutes < 0) minutes = 0;
    if (minutes > SNOOZE_MINUTES_MAX) minutes = SNOOZE_MINUTES_MAX;
    s->snoozed_until_ns = minutes ? now + (uint64_t)minutes * 60000 * LSP_MS : 0;
    for (uint32_t i = 0; i < s->n_documents; i++) lsp_completion_drop(s, s->documents[i]);
}

static void edit_by_command(lsp_server *s, json_t *id, const json_t *arguments, uint64_t now)
{
    const json_t *a = json_array_get(arguments, 0);
    lsp_document *d = lsp_document_by_uri(s, lsp_read_string(a, "uri"));
    view instruction = lsp_read_string(a, "instruction");
    const json_t *version = json_object_get(a, "version");
    size_t from, to;
    if (!d || !instruction.len ||
        !lsp_read_range(s, d, json_object_get(a, "range"), &from, &to)) {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS,
                         "cerium.server.edit takes {uri, range, instruction, version}");
    } else if (json_is_integer(version) && json_integer_value(version) != d->version) {
        lsp_show(s, 2, "cerium: the text changed since: ask again");
        lsp_answer(s, id, json_null());
    } else {
        lsp_edit_begin(s, id, d, from, instruction, now);
    }
}

static void next_by_command(lsp_server *s, json_t *id, const json_t *arguments, uint64_t now)
{
    const json_t *a = json_array_get(arguments, 0);
    lsp_document *d = lsp_document_by_uri(s, lsp_read_string(a, "uri"));
    size_t from, to;
    if (!d || !lsp_read_range(s, d, json_object_get(a, "range"), &from, &to))
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, "cerium.server.next takes {uri, range}");
    else
        lsp_next_edit_go(s, id, d, from, now);
}

void lsp_execute_command(lsp_server *s, json_t *id, const json_t *params, uint64_t now)
{
    view name = lsp_read_string(params, "command");
    const json_t *arguments = json_object_get(params, "arguments");
    if (view_equal(name, VIEW("cerium.server.edit"))) {
        edit_by_command(s, id, arguments, now);
        return;
    }
    if (view_equal(name, VIEW("cerium.server.next"))) {
        next_by_command(s, id, arguments, now);
        return;
    }
    if (view_equal(name, VIEW("cerium.server.accepted"))) {
        count_accepted(s, arguments);
    } else if (view_equal(name, VIEW("cerium.server.snooze"))) {
        snooze(s, arguments, now);
    } else {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, "no such command");
        return;
    }
    lsp_answer(s, id, json_null());
}
