/* lsp_remote_lines.c - completions of `cerium lsp --server URL`, a line at a time, so that the
 * server decides for each whether it is sure: over a WebSocket, where the server keeps the text and
 * gets what changed; by POST /infill while there is none, or if the server does not keep texts. */
#include "programs/lsp_remote_parts.h"

#include <math.h>

#include "base/json.h"
#include "base/text.h"

/* ---- one line ---- */

static int make_body(transfer_slot *t)
{
    json_t *all = json_pack("{s:o, s:o, s:s, s:I, s:i, s:[s], s:b}", "input_prefix",
                            json_stringn(t->before.ptr ? t->before.ptr : "", t->before.len),
                            "input_suffix", json_stringn(t->after.ptr ? t->after.ptr : "",
                                                         t->after.len),
                            "filename", t->path, "id_slot",
                            (json_int_t)(t->document & INT32_MAX), "n_predict",
                            (int)(NEW_TOKENS - t->n_tokens), "stop", "\n", "stream", 0);
    lsp_remote_ask_candidates(t, all);
    if (all && t->confidence >= 0)
        json_object_set_new(all, "min_confidence", json_real(t->confidence));
    if (all && t->files) json_object_set(all, "input_extra", t->files);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    t->body.len = 0;
    t->body.max = 4 << 20;
    int status = text ? bytes_append(&t->body, text, strlen(text)) : CERIUM_ERR_MEMORY;
    memory_release(text);
    json_decref(all);
    return status;
}

/* The same over the socket: the server gets what differs in the text, and the place. */
static bool ask_socket(lsp_remote *r, transfer_slot *t)
{
    char name[LSP_NAME_BYTES];
    lsp_position at;
    if (!lsp_socket_is_open(r->socket)) return false;
    lsp_remote_name(r, t, name);
    snprintf(t->id, sizeof t->id, "c%llu", (unsigned long long)++r->n_asked);
    const view before = {t->before.ptr ? t->before.ptr : "", t->before.len};
    const view after = {t->after.ptr ? t->after.ptr : "", t->after.len};
    t->r = r;
    t->answer.len = 0;
    if (!lsp_kept_send(&t->kept, r->socket, name, before, after, &at)) return false;
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:I, s:{s:I, s:I}, s:i, s:[s]}", "type",
                            "completion.create", "id", t->id, "document", name, "path", t->path,
                            "version", t->kept.version, "position", "line", (json_int_t)at.line,
                            "character", (json_int_t)at.character, "max_tokens",
                            (int)(NEW_TOKENS - t->n_tokens), "stop", "\n");
    lsp_remote_ask_candidates(t, all);
    if (all && t->confidence >= 0)
        json_object_set_new(all, "min_confidence", json_real(t->confidence));
    if (all && t->files) json_object_set(all, "files", t->files);
    t->is_sent = lsp_socket_send_json(r->socket, all);
    t->heard_at_ns = clock_ns();
    return t->is_sent;
}

bool lsp_remote_ask_line(lsp_remote *r, transfer_slot *t)
{
    if (r->is_there) lsp_remote_open_socket(r); /* it may have been lost */
    return ask_socket(r, t) || (!make_body(t) && lsp_transfer_begin(r, t, "/infill"));
}

void lsp_remote_line_ended(transfer_slot *t, lsp_server *s, lsp_end how)
{
    const uint64_t serial = t->serial;
    t->serial = 0;
    if (serial) lsp_server_ended(s, t->document, serial, how, clock_ns());
}

/* An answer of either way. */
typedef struct {
    view text;
    bool is_line;    /* the line's end came */
    bool is_limit;   /* it is not whole */
    bool is_dropped; /* the server did not finish it: it is asked for again */
    double sure;     /* its probability; 0: unknown */
    uint32_t n_tokens;
    double ms;
} line_answer;

/* Of an answer; what it cannot be is what is asked for. */
static uint32_t tokens_of(const json_t *n)
{
    const json_int_t value = json_integer_value(n);
    return json_is_integer(n) && value >= 0 && value <= NEW_TOKENS ? (uint32_t)value : NEW_TOKENS;
}

static double within(const json_t *number, double max)
{
    const double value = json_number_value(number);
    return value > 0 ? value < max ? value : max : 0;
}

/* Takes the received line, then asks for the next one. */
static void take_line(lsp_remote *r, transfer_slot *t, lsp_server *s, const line_answer *a)
{
    const uint64_t serial = t->serial;
    r->pace.n += a->n_tokens;
    r->pace.ns += (uint64_t)(a->ms * 1e6);
    t->n_tokens += a->n_tokens + !a->n_tokens; /* lines of nothing end, too */
    bool is_unsure = !a->text.len && a->sure > 0 && a->n_tokens > 1;
    bytes text = {.max = ANSWER_BYTES_MAX};
    int status = bytes_append(&text, a->text.ptr, a->text.len);
    if (!status && a->is_line && !is_unsure) status = bytes_append(&text, "\n", 1);
    if (!status) status = bytes_append(&t->before, text.ptr ? text.ptr : "", text.len);
    if (!status && text.len)
        lsp_server_text(s, t->document, serial, (view){text.ptr, text.len},
                        a->sure > 0 ? log(a->sure) : 0, clock_ns());
    bytes_free(&text);
    if (t->serial != serial || !serial) return; /* it has enough text */
    if (status || a->is_dropped) lsp_remote_line_ended(t, s, LSP_ENDED_FAILED);
    else if (is_unsure) lsp_remote_line_ended(t, s, LSP_ENDED_UNSURE);
    else if (!a->is_line)
        lsp_remote_line_ended(t, s, a->is_limit ? LSP_ENDED_LENGTH : LSP_ENDED_STOP);
    else if (t->n_tokens >= NEW_TOKENS) lsp_remote_line_ended(t, s, LSP_ENDED_LENGTH);
    else if (!lsp_remote_ask_line(r, t)) lsp_remote_line_ended(t, s, LSP_ENDED_FAILED);
}

static void take_infill(lsp_remote *r, transfer_slot *t, lsp_server *s, const json_t *answer)
{
    const json_t *content = json_object_get(answer, "content");
    const json_t *timings = json_object_get(answer, "timings");
    const char *type = json_string_value(json_object_get(answer, "stop_type"));
    const line_answer a = {
        .text = {json_string_value(content), json_string_length(content)},
        .is_line = type && !strcmp(type, "word"),
        .is_limit = type && !strcmp(type, "limit"),
        .sure = within(json_object_get(answer, "confidence"), 1),
        .n_tokens = tokens_of(json_object_get(answer, "tokens_predicted")),
        .ms = within(json_object_get(timings, "predicted_ms"), ANSWER_MS)};
    if (t->n_candidates) lsp_remote_candidates_done(t, s, a.text, a.is_limit, answer);
    else take_line(r, t, s, &a);
}

void lsp_remote_line_done(lsp_remote *r, transfer_slot *t, lsp_server *s, const json_t *done)
{
    const json_t *usage = json_object_get(done, "usage");
    const json_t *timings = json_object_get(done, "timings");
    const char *reason = json_string_value(json_object_get(done, "reason"));
    static const char *const dropped[] = {"superseded", "canceled", "failed"};
    const line_answer a = {
        .text = {t->answer.ptr ? t->answer.ptr : "", t->answer.len},
        .is_line = json_object_get(done, "stop") != NULL,
        .is_limit = reason && !strcmp(reason, "length"),
        .is_dropped = reason && view_is_one_of(view_of(reason), dropped, ARRAY_LEN(dropped)),
        .sure = within(json_object_get(done, "confidence"), 1),
        .n_tokens = tokens_of(json_object_get(usage, "output_tokens")),
        .ms = within(json_object_get(timings, "predict_ms"), ANSWER_MS)};
    t->is_sent = false;
    if (t->n_candidates) lsp_remote_candidates_done(t, s, a.text, a.is_limit, done);
    else take_line(r, t, s, &a);
}

void lsp_remote_line_answered(lsp_remote *r, transfer_slot *t, lsp_server *s, CURLcode code,
                          long status)
{
    json_error_t unused;
    char why[1300];
    json_t *answer = code ? NULL : json_read((view){t->answer.ptr, t->answer.len}, JSON_ALLOW_NUL,
                                             &unused);
    if (!code && status == 200 && json_is_object(answer)) {
        take_infill(r, t, s, answer);
    } else {
        const char *message = json_string_value(
            json_object_get(json_object_get(answer, "error"), "message"));
        lsp_remote_line_ended(t, s, LSP_ENDED_FAILED);
        snprintf(why, sizeof why, "%.300s: %.800s", r->url,
                 code   ? curl_easy_strerror(code)
                 : message ? message
                        : "an answer that cannot be read");
        /* Refused for a newer request of the same document, or too many at a time: not an error. */
        if (code || (status != 409 && status != 429)) lsp_remote_lose(r, why);
    }
    json_decref(answer);
}

/* ---- orders ---- */

/* Of both ways: /infill reads `filename`, completion.create `path`. */
static json_t *files_json(const lsp_order *o)
{
    json_t *list = o->n_files ? json_array() : NULL;
    for (uint32_t i = 0; i < o->n_files && list; i++) {
        const cerium_context_file *f = &o->files[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "filename", f->path, "path",
                                              f->path, "text",
                                              json_stringn(f->text, f->text_len)));
    }
    return list;
}

bool lsp_remote_generate(lsp_remote *r, const lsp_order *o)
{
    transfer_slot *t = NULL;
    if (!r->is_there || o->warm_up) return false;
    for (uint32_t i = 0; i < SLOTS && !t; i++)
        if (r->slots[i].document == o->document) t = &r->slots[i];
    for (uint32_t i = 0; i < SLOTS && (!t || t->document != o->document); i++) {
        transfer_slot *l = &r->slots[i]; /* else the one that rests the longest */
        if (!l->runs && !l->is_sent && (!t || l->used < t->used)) t = l;
    }
    if (!t) return false;
    t->used = ++r->n_used;
    t->used_ns = clock_ns();
    lsp_transfer_end(t);
    t->document = o->document;
    t->serial = o->serial;
    t->confidence = o->confidence;
    t->n_tokens = 0;
    t->n_candidates = o->n_candidates ? lsp_remote_rows(o->n_candidates) : 0;
    t->is_line = o->is_line;
    t->was_refused = false;
    t->before.max = t->after.max = 1 << 20;
    t->before.len = t->after.len = 0;
    snprintf(t->path, sizeof t->path, "%s", o->path);
    json_decref(t->files);
    t->files = files_json(o);
    if (bytes_append(&t->before, o->before.ptr, o->before.len) ||
        bytes_append(&t->after, o->after.ptr, o->after.len) || !lsp_remote_ask_line(r, t)) {
        t->serial = 0;
        return false;
    }
    return true;
}

void lsp_remote_cancel(lsp_remote *r, uint64_t document)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (r->slots[i].document == document) {
            r->slots[i].serial = 0;
            lsp_transfer_end(&r->slots[i]);
        }
}

