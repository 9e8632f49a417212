/* lsp_transfer.c - a request to the server of `cerium lsp --server`, its WebSocket and the names of
 * texts there, and the loss of the server. */
#include "programs/lsp_remote_parts.h"

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    transfer_slot *t = user;
    t->answer.max = ANSWER_BYTES_MAX;
    return bytes_append(&t->answer, data, size * n) ? 0 : size * n;
}

bool lsp_transfer_begin(lsp_remote *r, transfer_slot *t, const char *route)
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

void lsp_transfer_end(transfer_slot *t)
{
    if (t->runs) curl_multi_remove_handle(t->r->multi, t->easy);
    if (t->is_sent)
        (void)lsp_socket_send_json(t->r->socket, json_pack("{s:s, s:s}", "type",
                                                           "completion.cancel", "id", t->id));
    t->runs = t->is_sent = false;
}

void lsp_transfer_free(transfer_slot *t)
{
    bytes_free(&t->body);
    bytes_free(&t->answer);
    bytes_free(&t->before);
    bytes_free(&t->after);
    lsp_kept_forget(&t->kept);
    json_decref(t->files);
    t->files = NULL;
}

void lsp_remote_name(const lsp_remote *r, const transfer_slot *t, char out[LSP_NAME_BYTES])
{
    if (t == &r->edits) snprintf(out, LSP_NAME_BYTES, "edited");
    else snprintf(out, LSP_NAME_BYTES, "slot%d", (int)(t - r->slots));
}

void lsp_remote_open_socket(lsp_remote *r)
{
    if (r->socket || r->has_none) return;
    if (lsp_socket_open(&r->socket, r->multi, r->url, r->headers, &r->opening, r->message, r))
        r->socket = NULL; /* POST serves, too */
}

void lsp_remote_lose(lsp_remote *r, const char *why)
{
    r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_MS;
    if (r->retry_ms > RETRY_MS_MAX) r->retry_ms = RETRY_MS_MAX;
    r->retry_at_ns = clock_ns() + r->retry_ms * UINT64_C(1000000);
    r->is_news |= r->is_there || !r->why[0];
    r->is_there = false;
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why);
}
