/* lsp_remote.c - completions of `cerium lsp --server URL`: POST /infill, a line at a time, so that
 * the server decides for each whether it is sure.
 *
 * A server that does not answer is asked for its models again, at growing intervals; the list shows
 * that it is up. */
#include "programs/lsp_host.h"

#include <curl/curl.h>
#include <jansson.h>
#include <math.h>

#include "base/json.h"
#include "programs/server_address.h"

enum {
    SLOTS = 8,                 /* documents with a running answer at the same time */
    NEW_TOKENS = 64,
    ANSWER_BYTES_MAX = 1 << 20,
    BEFORE_BYTES = 6 << 10, AFTER_BYTES = 2 << 10, SNIPPET_BYTES = 768,
    CONNECT_MS = 3000, ANSWER_MS = 60000,
    RETRY_MS = 250, RETRY_MS_MAX = 10000,
};

typedef struct {
    lsp_remote *r;
    CURL *easy;          /* made at first use, and kept */
    bool runs;
    bytes body, answer;
    uint64_t document, serial, used;
    uint32_t n_tokens;   /* used by this order */
    double confidence;
    bytes before, after; /* of the order; before grows by the received lines */
    json_t *files;       /* of the order, as input_extra; NULL: none */
    char path[256];
} transfer_slot;

struct lsp_remote {
    CURLM *multi;
    struct curl_slist *headers;
    char url[SERVER_ADDRESS_BYTES], why[512], model[256];
    double confidence;      /* from the model's file, and its pointer: 0 where unknown */
    double pointer;
    transfer_slot slots[SLOTS], hello; /* hello: checks whether the server is up */
    transfer_slot edits;    /* one prediction of edits at a time */
    bool predicts;          /* the model has a form for edits, as far as known */
    uint64_t n_used, retry_at_ns;
    uint32_t retry_ms;
    bool is_there, is_news, is_refused; /* refused: another key is needed */
};

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    transfer_slot *t = user;
    t->answer.max = ANSWER_BYTES_MAX;
    return bytes_append(&t->answer, data, size * n) ? 0 : size * n;
}

static bool begin(lsp_remote *r, transfer_slot *t, const char *route)
{
    char url[1100];
    if (!t->easy) t->easy = curl_easy_init();
    if (!t->easy) return false;
    snprintf(url, sizeof url, "%s%s", r->url, route);
    t->r = r;
    t->answer.len = 0;
    int bad = curl_easy_setopt(t->easy, CURLOPT_URL, url);
    bad |= curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
    bad |= curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(t->easy, CURLOPT_TCP_NODELAY, 1L);
    bad |= curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    bad |= curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)ANSWER_MS);
    bad |= curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, r->headers);
    bad |= curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
    bad |= curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
    if (t != &r->hello) {
        bad |= curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.len);
        bad |= curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, t->body.ptr);
    }
    t->runs = !bad && curl_multi_add_handle(r->multi, t->easy) == CURLM_OK;
    return t->runs;
}

static void end(transfer_slot *t)
{
    if (t->runs) curl_multi_remove_handle(t->r->multi, t->easy);
    t->runs = false;
}

/* ---- is the server up? ---- */

static void say_hello(lsp_remote *r)
{
    r->retry_at_ns = 0;
    if (!r->hello.runs) (void)begin(r, &r->hello, "/v1/models");
}

static void lose(lsp_remote *r, const char *why)
{
    r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_MS;
    if (r->retry_ms > RETRY_MS_MAX) r->retry_ms = RETRY_MS_MAX;
    r->retry_at_ns = clock_ns() + r->retry_ms * UINT64_C(1000000);
    r->is_news |= r->is_there || !r->why[0];
    r->is_there = false;
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why);
}

static void hello_answered(lsp_remote *r, CURLcode code, long status)
{
    json_error_t unused;
    char why[1300];
    json_t *all = code || status != 200 ? NULL
                                        : json_read((view){r->hello.answer.ptr,
                                                           r->hello.answer.len}, 0, &unused);
    const json_t *first = json_array_get(json_object_get(all, "data"), 0);
    const char *id = json_string_value(json_object_get(first, "id"));
    if (id) {
        snprintf(r->model, sizeof r->model, "%s", id);
        r->confidence = json_number_value(json_object_get(first, "min_confidence"));
        r->pointer = json_number_value(json_object_get(first, "pointer"));
        r->is_there = r->is_news = r->predicts = true;
        r->retry_ms = 0;
        r->why[0] = 0;
    } else if (code) {
        snprintf(why, sizeof why, "no server at %s (%s): start it with `cerium serve`", r->url,
                 curl_easy_strerror(code));
        lose(r, why);
    } else if (status == 401 || status == 403) {
        snprintf(why, sizeof why, "%s wants another key: put it into CERIUM_API_KEY", r->url);
        lose(r, why);
    } else {
        snprintf(why, sizeof why, "%s is no cerium server: it says HTTP %ld", r->url, status);
        lose(r, why);
    }
    json_decref(all);
}

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

static bool ask(lsp_remote *r, transfer_slot *t)
{
    return !make_body(t) && begin(r, t, "/infill");
}

static void report_end(transfer_slot *t, lsp_server *s, lsp_end how)
{
    const uint64_t serial = t->serial;
    t->serial = 0;
    if (serial) lsp_server_ended(s, t->document, serial, how, clock_ns());
}

/* Takes the received line, then asks for the next one. */
static void take_line(lsp_remote *r, transfer_slot *t, lsp_server *s, const json_t *answer)
{
    const json_t *content = json_object_get(answer, "content");
    const json_t *n = json_object_get(answer, "tokens_predicted");
    const char *type = json_string_value(json_object_get(answer, "stop_type"));
    const uint64_t serial = t->serial;
    bool is_line = type && !strcmp(type, "word");
    size_t len = json_string_length(content);
    double sure = json_number_value(json_object_get(answer, "confidence"));
    t->n_tokens += json_is_integer(n) ? (uint32_t)json_integer_value(n) : NEW_TOKENS;
    bool is_unsure = !len && sure > 0 && json_integer_value(n) > 1;
    bytes text = {.max = ANSWER_BYTES_MAX};
    int status = bytes_append(&text, json_string_value(content), len);
    if (!status && is_line && !is_unsure) status = bytes_append(&text, "\n", 1);
    if (!status) status = bytes_append(&t->before, text.ptr ? text.ptr : "", text.len);
    if (!status && text.len)
        lsp_server_text(s, t->document, serial, (view){text.ptr, text.len},
                        sure > 0 ? log(sure) : 0, clock_ns());
    bytes_free(&text);
    if (t->serial != serial || !serial) return; /* it has enough text */
    if (status) report_end(t, s, LSP_ENDED_FAILED);
    else if (is_unsure) report_end(t, s, LSP_ENDED_UNSURE);
    else if (!is_line)
        report_end(t, s, type && !strcmp(type, "limit") ? LSP_ENDED_LENGTH : LSP_ENDED_STOP);
    else if (t->n_tokens >= NEW_TOKENS) report_end(t, s, LSP_ENDED_LENGTH);
    else if (!ask(r, t)) report_end(t, s, LSP_ENDED_FAILED);
}

static void line_answered(lsp_remote *r, transfer_slot *t, lsp_server *s, CURLcode code,
                          long status)
{
    json_error_t unused;
    char why[1300];
    json_t *answer = code ? NULL : json_read((view){t->answer.ptr, t->answer.len}, JSON_ALLOW_NUL,
                                             &unused);
    if (!code && status == 200 && json_is_object(answer)) {
        take_line(r, t, s, answer);
    } else {
        const char *message = json_string_value(
            json_object_get(json_object_get(answer, "error"), "message"));
        report_end(t, s, LSP_ENDED_FAILED);
        snprintf(why, sizeof why, "%.300s: %.800s", r->url,
                 code   ? curl_easy_strerror(code)
                 : message ? message
                        : "an answer that cannot be read");
        /* Refused for a newer request of the same document, or too many at a time: not an error. */
        if (code || (status != 409 && status != 429)) lose(r, why);
    }
    json_decref(answer);
}

/* ---- predictions of edits ---- */

static json_t *place_json(const next_edit_place *at)
{
    json_t *changes = json_array();
    for (size_t i = 0; i < at->n_changes && changes; i++) {
        const next_edit_change *c = &at->changes[i];
        json_array_append_new(changes, json_pack("{s:o, s:o}", "path",
                                                 json_stringn(c->path.ptr, c->path.len), "diff",
                                                 json_stringn(c->diff.ptr, c->diff.len)));
    }
    json_t *all = json_pack("{s:o, s:o, s:o, s:o}", "path",
                            json_stringn(at->path.ptr, at->path.len), "prefix",
                            json_stringn(at->text.ptr, at->caret), "suffix",
                            json_stringn(at->text.ptr + at->caret, at->text.len - at->caret),
                            "changes", changes);
    if (all && at->original.ptr)
        json_object_set_new(all, "original", json_stringn(at->original.ptr, at->original.len));
    return all;
}

bool lsp_remote_predict(lsp_remote *r, const lsp_predict_order *o)
{
    transfer_slot *t = &r->edits;
    if (!r->is_there || !r->predicts) return false;
    end(t);
    json_t *all = place_json(&o->place);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    t->body.len = 0;
    t->body.max = 8 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX;
    int status = text ? bytes_append(&t->body, text, strlen(text)) : CERIUM_ERR_MEMORY;
    memory_release(text);
    json_decref(all);
    t->document = o->document;
    t->serial = o->serial;
    return !status && begin(r, t, "/v1/edit-predictions");
}

/* The first edit is the nearest; one that is only a completion is dropped. */
static void edits_answered(lsp_remote *r, const transfer_slot *t, lsp_server *s, CURLcode code,
                           long status)
{
    json_error_t unused;
    json_t *answer = code || status != 200
                         ? NULL : json_read((view){t->answer.ptr, t->answer.len}, JSON_ALLOW_NUL,
                                            &unused);
    const char *form = json_string_value(json_object_get(answer, "form"));
    const json_t *one = json_array_get(json_object_get(answer, "edits"), 0);
    const json_t *text = json_object_get(one, "text");
    const json_int_t from = json_integer_value(json_object_get(one, "start_line"));
    const json_int_t to = json_integer_value(json_object_get(one, "end_line"));
    const bool is_edit = json_is_string(text) && from >= 0 && to >= from && to < UINT32_MAX;
    const next_edit e = {(uint32_t)from, (uint32_t)(to - from),
                         {json_string_value(text), json_string_length(text)}};
    if ((form && !strcmp(form, "fim")) || status == 404 || status == 501) r->predicts = false;
    lsp_server_predicted(s, t->document, t->serial, &e, is_edit && r->predicts);
    json_decref(answer);
}

/* ---- for the loop ---- */

static json_t *files_json(const lsp_order *o)
{
    json_t *list = o->n_files ? json_array() : NULL;
    for (uint32_t i = 0; i < o->n_files && list; i++) {
        const cerium_context_file *f = &o->files[i];
        json_array_append_new(list, json_pack("{s:s, s:o}", "filename", f->path, "text",
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
    for (uint32_t i = 0; i < SLOTS && !t; i++)
        if (!r->slots[i].runs) t = &r->slots[i];
    if (!t) return false;
    end(t);
    t->document = o->document;
    t->serial = o->serial;
    t->confidence = o->confidence;
    t->n_tokens = 0;
    t->before.max = t->after.max = 1 << 20;
    t->before.len = t->after.len = 0;
    snprintf(t->path, sizeof t->path, "%s", o->path);
    json_decref(t->files);
    t->files = files_json(o);
    if (bytes_append(&t->before, o->before.ptr, o->before.len) ||
        bytes_append(&t->after, o->after.ptr, o->after.len) || !ask(r, t)) {
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
            end(&r->slots[i]);
        }
}

int lsp_remote_poll(lsp_remote *r, struct pollfd *fds, uint32_t n, int timeout_ms)
{
    struct curl_waitfd extra[8];
    uint32_t at[8], n_extra = 0;
    CHECK(n <= ARRAY_LEN(extra));
    if (r->retry_at_ns) {
        uint64_t now = clock_ns(), left = r->retry_at_ns > now ? r->retry_at_ns - now : 0;
        int ms = (int)((left + 999999) / 1000000);
        if (timeout_ms < 0 || ms < timeout_ms) timeout_ms = ms;
    }
    for (uint32_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd < 0) continue;
        extra[n_extra] = (struct curl_waitfd){.fd = fds[i].fd,
                                              .events = fds[i].events == POLLOUT
                                                            ? CURL_WAIT_POLLOUT
                                                            : CURL_WAIT_POLLIN};
        at[n_extra++] = i;
    }
    int code = curl_multi_poll(r->multi, extra, n_extra, timeout_ms < 0 ? INT32_MAX : timeout_ms,
                               NULL);
    for (uint32_t i = 0; i < n_extra; i++) fds[at[i]].revents = extra[i].revents;
    return code ? -1 : 0;
}

void lsp_remote_look(lsp_remote *r, lsp_server *s)
{
    int running, left;
    if (r->retry_at_ns && clock_ns() >= r->retry_at_ns) say_hello(r);
    curl_multi_perform(r->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(r->multi, &left));) {
        transfer_slot *t = NULL;
        long status = 0;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
        curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE, &status);
        end(t);
        if (t == &r->hello) hello_answered(r, code, status);
        else if (t == &r->edits) edits_answered(r, t, s, code, status);
        else line_answered(r, t, s, code, status);
    }
    if (!r->is_news) return;
    r->is_news = false;
    const lsp_model m = {.state = r->is_there ? LSP_MODEL_READY : LSP_MODEL_FAILED,
                         .model = r->model, .why = r->why, .before_bytes = BEFORE_BYTES,
                         .after_bytes = AFTER_BYTES,
                         .snippet_bytes = SNIPPET_BYTES, .snippets_pay = r->pointer > 0,
                         .confidence = r->confidence};
    lsp_server_model(s, &m);
}

int lsp_remote_open(lsp_remote **out, const char *url, cerium_error *err)
{
    lsp_remote *r = memory_zalloc(1, sizeof *r);
    if (!r) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    *out = r;
    RETURN_IF(server_address_take(r->url, &r->headers, url, err));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(r->multi = curl_multi_init()))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a connection");
    say_hello(r);
    return CERIUM_OK;
}

static void close_slot(transfer_slot *t)
{
    end(t);
    if (t->easy) curl_easy_cleanup(t->easy);
    bytes_free(&t->body);
    bytes_free(&t->answer);
    bytes_free(&t->before);
    bytes_free(&t->after);
    json_decref(t->files);
}

void lsp_remote_close(lsp_remote **remote)
{
    if (!remote || !*remote) return;
    lsp_remote *r = *remote;
    for (uint32_t i = 0; i < SLOTS; i++) close_slot(&r->slots[i]);
    close_slot(&r->hello);
    close_slot(&r->edits);
    if (r->multi) curl_multi_cleanup(r->multi);
    curl_slist_free_all(r->headers);
    memory_free(r);
    *remote = NULL;
}
