/* honest_ask.c - requests one answer of a server at a time. */
#include "programs/honest.h"

#include <curl/curl.h>

#include "base/json.h"
#include "programs/server_address.h"

enum {
    URL_BYTES = 1100,
    CONNECT_MS = 10000,
    SILENT_S = 900, /* a deep model may read a prompt for minutes */
};

struct honest_server {
    CURL *easy;
    struct curl_slist *headers;
    char url[SERVER_ADDRESS_BYTES];
    honest_stream in;
};

int honest_server_open(honest_server **out, const char *url, cerium_error *err)
{
    honest_server *s = memory_zalloc(1, sizeof *s);
    int status = s ? server_address_take(s->url, &s->headers, url, err) : CERIUM_ERR_MEMORY;
    if (!status && !curl_global_init(CURL_GLOBAL_DEFAULT)) s->easy = curl_easy_init();
    if (!s || (!status && !s->easy))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for a connection");
    if (status) {
        honest_server_close(&s);
        return status;
    }
    s->in.line.max = HONEST_ANSWER_BYTES_MAX;
    *out = s;
    return CERIUM_OK;
}

void honest_server_close(honest_server **server)
{
    honest_server *s = *server;
    if (!s) return;
    curl_easy_cleanup(s->easy);
    curl_slist_free_all(s->headers);
    bytes_free(&s->in.line);
    memory_free(s);
    *server = NULL;
}

static size_t on_data(char *data, size_t size, size_t n, void *user)
{
    honest_server *s = user;
    return honest_stream_feed(&s->in, (view){data, size * n}) ? 0 : size * n;
}

/* ---- asking ---- */

static int perform(honest_server *s, const char *route, const char *body, long *code,
                   cerium_error *err)
{
    char url[URL_BYTES], why[CURL_ERROR_SIZE] = "";
    CURL *e = s->easy;
    snprintf(url, sizeof url, "%s%s", s->url, route);
    s->in.line.len = 0;
    curl_easy_reset(e); /* keeps its connection */
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, s);
    if (body) curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    if (body) curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
    const CURLcode failed = curl_easy_perform(e);
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, code);
    return failed ? error_set(err, CERIUM_ERR_IO, "%.300s: %.400s", s->url,
                              *why ? why : curl_easy_strerror(failed))
                  : CERIUM_OK;
}

/* The reason for a missing stream: the server's own words if it has any. */
static void take_refusal(honest_server *s, long code)
{
    honest_answer *a = s->in.answer;
    json_t *all = json_read((view){s->in.line.ptr, s->in.line.len}, JSON_ALLOW_NUL, NULL);
    const char *why = json_string_value(
        json_object_get(json_object_get(all, "error"), "message"));
    if (why) snprintf(a->why, sizeof a->why, "%s", why);
    else snprintf(a->why, sizeof a->why, "HTTP %ld", code);
    json_decref(all);
}

int honest_server_ask(honest_server *s, const char *route, const json_t *body, honest_answer *out,
                      cerium_error *err)
{
    long code = 0;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    bytes_free(&out->text);
    *out = (honest_answer){.text = {.max = HONEST_ANSWER_BYTES_MAX}};
    s->in.answer = out;
    const uint64_t begin_ns = clock_ns();
    int status = perform(s, route, text, &code, err);
    out->ns = clock_ns() - begin_ns;
    if (!status && code != 200) take_refusal(s, code);
    s->in.answer = NULL;
    memory_release(text);
    return status;
}

static int find_model(const json_t *list, const char *model, bool *chats, cerium_error *err)
{
    char names[400] = "";
    const json_t *one;
    size_t i, n = 0;
    json_array_foreach(list, i, one) {
        const char *id = json_string_value(json_object_get(one, "id"));
        if (!id) continue;
        *chats = !json_is_true(json_object_get(one, "completes_only"));
        if (!strcmp(id, model)) return CERIUM_OK;
        if (n < sizeof names)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", id);
    }
    return error_set(err, CERIUM_ERR_ARGUMENT, "the server has no model %.100s; it has: %s", model,
                     names);
}

int honest_server_model(honest_server *s, const char *model, bool *chats, cerium_error *err)
{
    long code = 0;
    RETURN_IF(perform(s, "/v1/models", NULL, &code, err));
    json_t *all = json_read((view){s->in.line.ptr, s->in.line.len}, JSON_ALLOW_NUL, NULL);
    int status = code == 200 && all
                     ? find_model(json_object_get(all, "data"), model, chats, err)
                     : error_set(err, CERIUM_ERR_IO, "%.300s: no list of models: HTTP %ld%s",
                                 s->url, code, code == 401 ? "; put its key into CERIUM_API_KEY"
                                                           : "");
    json_decref(all);
    return status;
}
