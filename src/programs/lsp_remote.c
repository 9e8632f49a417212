/* lsp_remote.c - the server of `cerium lsp --server URL`: its connections, and whether it is there.
 *
 * A server that does not answer is asked for its models again, at growing intervals; the list shows
 * that it is up. */
#include "programs/lsp_remote_parts.h"

#include "base/json.h"

/* ---- is the server up? ---- */

static void say_hello(lsp_remote *r)
{
    r->retry_at_ns = 0;
    if (!r->hello.runs && !lsp_transfer_begin(r, &r->hello, "/v1/models"))
        lsp_remote_lose(r, "no memory for a connection");
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
        lsp_remote_open_socket(r);
    } else if (code) {
        snprintf(why, sizeof why, "no server at %s (%s): start it with `cerium serve`", r->url,
                 curl_easy_strerror(code));
        lsp_remote_lose(r, why);
    } else if (status == 401 || status == 403) {
        snprintf(why, sizeof why, "%s wants another key: put it into CERIUM_API_KEY", r->url);
        lsp_remote_lose(r, why);
    } else {
        snprintf(why, sizeof why, "%s is no cerium server: it says HTTP %ld", r->url, status);
        lsp_remote_lose(r, why);
    }
    json_decref(all);
}

/* ---- for the loop ---- */

int lsp_remote_poll(lsp_remote *r, struct pollfd *fds, uint32_t n, int timeout_ms)
{
    struct curl_waitfd extra[9];
    uint32_t at[8], n_extra = 0;
    CHECK(n <= ARRAY_LEN(at));
    const uint64_t due = lsp_remote_due(r);
    if (due < UINT64_MAX) {
        uint64_t now = clock_ns(), left = due > now ? due - now : 0;
        int ms = (int)((left + 999999) / 1000000);
        if (timeout_ms < 0 || ms < timeout_ms) timeout_ms = ms;
    }
    if (lsp_socket_has_more(r->socket)) timeout_ms = 0;
    for (uint32_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd < 0) continue;
        extra[n_extra] = (struct curl_waitfd){.fd = fds[i].fd,
                                              .events = fds[i].events == POLLOUT
                                                            ? CURL_WAIT_POLLOUT
                                                            : CURL_WAIT_POLLIN};
        at[n_extra++] = i;
    }
    const int fd = lsp_socket_fd(r->socket);
    extra[n_extra] = (struct curl_waitfd){.fd = fd, .events = CURL_WAIT_POLLIN};
    if (fd >= 0 && lsp_socket_writes(r->socket)) extra[n_extra].events |= CURL_WAIT_POLLOUT;
    int code = curl_multi_poll(r->multi, extra, n_extra + (fd >= 0),
                               timeout_ms < 0 ? INT32_MAX : timeout_ms,
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
        if (t == &r->opening) { /* the handle keeps its connection */
            if (r->socket) lsp_socket_connected(r->socket, code);
            continue;
        }
        lsp_transfer_end(t);
        if (t == &r->hello) hello_answered(r, code, status);
        else if (t == &r->edits) lsp_remote_edits_answered(r, s, code, status);
        else lsp_remote_line_answered(r, t, s, code, status);
    }
    lsp_remote_look_at_socket(r, s);
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
    r->message = lsp_remote_message;
    r->silence_ns = ANSWER_MS * UINT64_C(1000000);
    r->idle_ns = KEPT_MS * UINT64_C(1000000);
    RETURN_IF(server_address_take(r->url, &r->headers, url, err));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(r->multi = curl_multi_init()))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a connection");
    say_hello(r);
    return CERIUM_OK;
}

double lsp_remote_speed(const lsp_remote *r) { return lsp_pace_speed(&r->pace); }

static void close_slot(transfer_slot *t)
{
    lsp_transfer_end(t);
    if (t->easy) curl_easy_cleanup(t->easy);
    lsp_transfer_free(t);
}

void lsp_remote_close(lsp_remote **remote)
{
    if (!remote || !*remote) return;
    lsp_remote *r = *remote;
    lsp_socket_close(&r->socket);
    for (uint32_t i = 0; i < SLOTS; i++) {
        r->slots[i].is_sent = false;
        close_slot(&r->slots[i]);
    }
    r->edits.is_sent = false;
    close_slot(&r->edits);
    close_slot(&r->hello);
    bytes_free(&r->original);
    lsp_kept_forget(&r->opened);
    if (r->multi) curl_multi_cleanup(r->multi);
    curl_slist_free_all(r->headers);
    memory_free(r);
    *remote = NULL;
}
