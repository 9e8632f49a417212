/* lsp_diagnostics.c - the watchdog's findings: pulled by the editor, or sent when the text rests.
 *
 * The line under the caret is unfinished: its findings are reported when it rests. */
#include "lsp/lsp_parts.h"

#include "base/hash.h"

enum { SEND_MS = 250, TYPED_MS = 1000 };

static size_t n_findings(const lsp_document *d) { return d->findings.len / sizeof(lsp_judged); }

static const lsp_judged *findings_of(const lsp_document *d)
{
    return (const lsp_judged *)(const void *)d->findings.ptr;
}

static bool is_off(const lsp_server *s) { return !s->settings.watchdog; }

json_t *lsp_diagnostic_of(const lsp_server *s, const lsp_document *d, const lsp_judged *f)
{
    const guard_finding *g = &f->finding;
    const bool is_secret = g->cwe == 798 || g->cwe == 321 || g->cwe == 259;
    char text[1024];
    snprintf(text, sizeof text, "%s (CWE-%u). Instead: %s", g->message, g->cwe,
             *g->fix ? g->fix : g->idiom);
    lsp_whole_characters(text);
    size_t from = (size_t)g->begin, to = (size_t)g->end;
    if (to > d->text.text.len) to = d->text.text.len;
    if (from > to) from = to;
    return json_pack("{s:o, s:i, s:s, s:s, s:s, s:{s:s, s:b}}", "range",
                     lsp_json_range(s, d, from, to), "severity",
                     is_secret && g->severity == GUARD_BLOCK ? 1 : 2, "code", g->rule, "source",
                     "cerium", "message", text, "data", "rule", g->rule, "fix",
                     (int)(f->n_line || *g->fix));
}

/* The findings to report now. */
static json_t *list_of(const lsp_server *s, const lsp_document *d, uint64_t now)
{
    json_t *list = json_array();
    /* A client that pulls, and cannot be asked to refresh, gets everything at once. */
    const bool is_typed = now < d->typed_until_ns && (!s->can.pulls || s->can.refreshes);
    for (size_t i = 0; list && i < n_findings(d) && !is_off(s); i++) {
        const lsp_judged *f = &findings_of(d)[i];
        size_t begin = (size_t)f->finding.begin, end = (size_t)f->finding.end;
        if (f->finding.severity == GUARD_NOTE) continue;
        if (is_typed && lsp_text_line_at(&d->text, begin) <= d->typed_line &&
            lsp_text_line_at(&d->text, end) >= d->typed_line)
            continue;
        if (json_array_append_new(list, lsp_diagnostic_of(s, d, f))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool judge(lsp_server *s, lsp_document *d)
{
    if (d->is_judged && d->judged_version == d->version) return false;
    if (d->is_judging) return true;
    if (is_off(s)) return false;
    const view text = {d->text.text.ptr ? d->text.text.ptr : "", d->text.text.len};
    d->is_judging = s->host.judge(s->host.user, d->key, d->version, text, d->path, d->language);
    return d->is_judging;
}

static void publish(lsp_server *s, lsp_document *d, json_t *list)
{
    lsp_notify(s, "textDocument/publishDiagnostics",
               list ? json_pack("{s:s, s:I, s:o}", "uri", d->uri, "version",
                                (json_int_t)d->version, "diagnostics", list)
                    : NULL);
}

static void answer_pull(lsp_server *s, lsp_document *d, uint64_t now)
{
    char id[32];
    json_t *list = list_of(s, d, now), *report = NULL;
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    if (text) {
        snprintf(id, sizeof id, "%016llx",
                 (unsigned long long)hash_bytes(text, strlen(text), (uint64_t)n_findings(d)));
        if (d->previous && !strcmp(d->previous, id))
            report = json_pack("{s:s, s:s}", "kind", "unchanged", "resultId", id);
        else
            report = json_pack("{s:s, s:s, s:O}", "kind", "full", "resultId", id, "items", list);
    }
    lsp_answer(s, d->pull, report);
    memory_release(text);
    memory_free(d->previous);
    d->previous = NULL;
    json_decref(list);
    json_decref(d->pull);
    d->pull = NULL;
}

void lsp_diagnostics_changed(lsp_server *s, lsp_document *d, uint64_t now)
{
    if (d->typed_line != UINT32_MAX) d->typed_until_ns = now + TYPED_MS * LSP_MS;
    if (is_off(s)) return;
    if (!s->can.pulls) d->judge_at_ns = now + (d->is_judged ? SEND_MS * LSP_MS : 0);
    else if (s->can.refreshes && d->is_judged) d->judge_at_ns = now + TYPED_MS * LSP_MS;
}

void lsp_diagnostics_pull(lsp_server *s, json_t *id, const json_t *params, uint64_t now)
{
    lsp_document *d = lsp_document_of(s, params);
    view previous = lsp_read_string(params, "previousResultId");
    if (!d) {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, "no such document is open");
        return;
    }
    if (d->pull) {
        lsp_answer_error(s, d->pull, LSP_SERVER_CANCELLED, "a newer one was asked for");
        json_decref(d->pull);
    }
    d->pull = json_incref(id);
    memory_free(d->previous);
    d->previous = previous.ptr ? memory_copy(previous.ptr, previous.len) : NULL;
    if (!judge(s, d)) answer_pull(s, d, now);
}

bool lsp_diagnostics_cancel(lsp_server *s, const json_t *id)
{
    for (uint32_t i = 0; i < s->n_documents; i++) {
        lsp_document *d = s->documents[i];
        if (!d->pull || !json_equal(d->pull, id)) continue;
        lsp_answer_error(s, d->pull, LSP_REQUEST_CANCELLED, "canceled");
        json_decref(d->pull);
        d->pull = NULL;
        return true;
    }
    return false;
}

void lsp_server_judged(lsp_server *s, uint64_t document, int64_t version,
                       const lsp_judged *findings, size_t n, uint64_t now)
{
    lsp_document *d = lsp_document_by_key(s, document);
    if (!d) return;
    d->is_judging = false;
    d->findings.max = (size_t)LSP_FINDINGS_MAX * sizeof *findings;
    d->findings.len = 0;
    if (n > LSP_FINDINGS_MAX) n = LSP_FINDINGS_MAX;
    if (n && bytes_append(&d->findings, findings, n * sizeof *findings))
        lsp_log(s, "%s: no memory for findings", d->path);
    d->is_judged = true;
    d->judged_version = version;
    if (version != d->version) { /* the text changed since */
        d->findings.len = 0;
        if (d->pull && !judge(s, d)) answer_pull(s, d, now);
        /* Its time may have passed while the older text was judged. */
        if (!s->can.pulls && !d->judge_at_ns) (void)judge(s, d);
        return;
    }
    if (d->pull) answer_pull(s, d, now);
    if (!s->can.pulls && d->sent_version != version) {
        publish(s, d, list_of(s, d, now));
        d->sent_version = version;
        if (now < d->typed_until_ns) d->judge_at_ns = d->typed_until_ns; /* once more, with all
                                                                          * lines */
    }
}

uint64_t lsp_diagnostics_due(const lsp_document *d)
{
    return d->judge_at_ns ? d->judge_at_ns : UINT64_MAX;
}

void lsp_diagnostics_tick(lsp_server *s, lsp_document *d, uint64_t now)
{
    if (!d->judge_at_ns || now < d->judge_at_ns) return;
    d->judge_at_ns = 0;
    if (s->can.pulls) {
        (void)lsp_request(s, "workspace/diagnostic/refresh", NULL);
        return;
    }
    if (!judge(s, d) && d->is_judged) publish(s, d, list_of(s, d, now));
}

void lsp_diagnostics_close(lsp_server *s, lsp_document *d)
{
    if (d->pull) lsp_answer_error(s, d->pull, LSP_SERVER_CANCELLED, "the document was closed");
    json_decref(d->pull);
    d->pull = NULL;
    if (!s->can.pulls && n_findings(d)) publish(s, d, json_array());
    bytes_free(&d->findings);
    memory_free(d->previous);
}
