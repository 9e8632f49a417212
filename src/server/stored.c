/* stored.c - responses by id: what runs, and what the store keeps. */
#include "server/stored.h"

#include "server/answers.h"
#include "server/http.h"

enum { LIST_MAX = 100, LIST_DEFAULT = 20 };

static void not_found(connection *c)
{
    protocol_error e;
    (void)protocol_error_set(&e, 404, "invalid_request_error", "not_found", "response_id",
                             "there is no response '%.*s'", (int)SERVER_ID_BYTES - 1, c->http.id);
    http_error(c, &e);
}

static void store_failed(connection *c, const cerium_error *err)
{
    protocol_error e;
    metrics_count(&c->s->metrics, METRICS_STORE_FAILED, 1);
    log_event(LOG_ERROR, "store", "reason=\"%s\"", err->message);
    (void)protocol_error_set(&e, 500, "server_error", NULL, "", "the store failed");
    http_error(c, &e);
}

bool stored_keep(answer *a, view response, const int32_t *tokens, size_t n_tokens)
{
    server *s = a->s;
    cerium_error err;
    char *input = json_dumps(a->request->items, JSON_COMPACT);
    store_response row = {.id = a->id,
                          .previous_id = a->request->previous_response_id,
                          .tenant = a->tenant,
                          .created_at = a->created_at,
                          .response = response,
                          .input = view_of(input ? input : "[]"),
                          .tokens = tokens,
                          .n_tokens = n_tokens,
                          .instructions = a->instructions,
                          .n_head = a->n_head,
                          .model = s->model_key};
    int status = input ? store_put(s->store, &row, &err)
                       : error_set(&err, CERIUM_ERR_MEMORY, "out of memory");
    memory_release(input);
    if (!status) return true;
    metrics_count(&s->metrics, METRICS_STORE_FAILED, 1);
    log_event(LOG_ERROR, "store", "id=%s reason=\"%s\"", a->id, err.message);
    return false;
}

/* ---- going on from a turn ---- */

int stored_no_turn(const char *id, protocol_error *e)
{
    return protocol_error_set(e, 400, "invalid_request_error", "previous_response_not_found",
                              "previous_response_id",
                              "Previous response with id '%.100s' not found.", id);
}

/* A stored row becomes a turn in memory.  Its tokens serve when they are this model's. */
static int load_turn(server *s, const store_response *row, protocol_error *e)
{
    json_t *response = json_loadb(row->response.ptr, row->response.len, 0, NULL);
    history_turn turn = {.tenant = row->tenant,
                         .tokens = row->tokens,
                         .n_tokens = row->n_tokens,
                         .sampled_from = row->n_tokens,
                         .instructions = row->instructions,
                         .n_head = row->n_head,
                         .output = json_object_get(response, "output")};
    snprintf(turn.id, sizeof turn.id, "%s", row->id);
    int status = history_add(s->history, &turn);
    json_decref(response);
    return status ? protocol_error_set(e, 500, "server_error", NULL, "", "out of memory")
                  : CERIUM_OK;
}

int stored_turn(server *s, uint64_t tenant, uint64_t serial, const char *id,
                const history_turn **out, protocol_error *e)
{
    store_response row;
    bytes memory = {.max = STORE_RECORD_BYTES_MAX};
    cerium_error err;
    bool found = false;
    const history_turn *turn = history_find(s->history, tenant, serial, id);
    if (!turn && strlen(id) < SERVER_ID_BYTES) {
        int status = store_get(s->store, tenant, id, &row, &memory, &found, &err);
        if (status) {
            metrics_count(&s->metrics, METRICS_STORE_FAILED, 1);
            log_event(LOG_ERROR, "store", "reason=\"%s\"", err.message);
            return protocol_error_set(e, 500, "server_error", NULL, "", "the store failed");
        }
        status = CERIUM_OK;
        if (found && row.n_tokens && !strcmp(row.model, s->model_key))
            status = load_turn(s, &row, e);
        bytes_free(&memory);
        if (status) return status;
        turn = history_find(s->history, tenant, serial, id);
    }
    /* One that another server went on with has no tokens here: the client sends all of it. */
    if (!turn || turn->items) return stored_no_turn(id, e);
    *out = turn;
    return CERIUM_OK;
}

/* ---- routes ---- */

/* The stored row of the path's id; false when the request was answered with an error. */
static bool get_row(connection *c, store_response *row, bytes *memory)
{
    cerium_error err;
    bool found = false;
    *memory = (bytes){.max = STORE_RECORD_BYTES_MAX};
    if (store_get(c->s->store, c->tenant, c->http.id, row, memory, &found, &err)) {
        bytes_free(memory);
        store_failed(c, &err);
        return false;
    }
    if (!found) not_found(c);
    return found;
}

void stored_get(connection *c)
{
    store_response row;
    bytes memory;
    answer *a = answers_find(c->s, c->tenant, c->http.id);
    if (a && a->writer) {
        http_json(c, 200, protocol_writer_object(a->writer));
        return;
    }
    if (!get_row(c, &row, &memory)) return;
    http_answer(c, &(http_head){.status = 200}, row.response);
    bytes_free(&memory);
}

void stored_delete(connection *c)
{
    cerium_error err;
    bool found = false;
    if (store_delete(c->s->store, c->tenant, c->http.id, &found, &err)) {
        store_failed(c, &err);
        return;
    }
    history_forget(c->s->history, c->tenant, c->http.id);
    if (found)
        http_json(c, 200, json_pack("{s:s, s:s, s:b}", "id", c->http.id, "object", "response",
                                    "deleted", 1));
    else
        not_found(c);
}

void stored_cancel(connection *c)
{
    store_response row;
    bytes memory;
    answer *a = answers_find(c->s, c->tenant, c->http.id);
    if (a && a->writer) {
        answer_cancel(a, "cancel");
        http_json(c, 200, protocol_writer_object(a->writer));
        return;
    }
    /* It ended before: that is what it is. */
    if (!get_row(c, &row, &memory)) return;
    http_answer(c, &(http_head){.status = 200}, row.response);
    bytes_free(&memory);
}

void stored_input_items(connection *c)
{
    store_response row;
    bytes memory;
    answer *a = answers_find(c->s, c->tenant, c->http.id);
    json_t *items = NULL;
    if (a && a->request->items) {
        items = json_incref(a->request->items);
    } else {
        if (!get_row(c, &row, &memory)) return;
        items = json_loadb(row.input.ptr, row.input.len, 0, NULL);
        bytes_free(&memory);
    }
    size_t n = json_array_size(items);
    json_t *first = json_array_get(items, 0);
    json_t *last = n ? json_array_get(items, n - 1) : NULL;
    http_json(c, 200,
              json_pack("{s:s, s:o, s:O?, s:O?, s:b}", "object", "list", "data", items, "first_id",
                        json_object_get(first, "id"), "last_id", json_object_get(last, "id"),
                        "has_more", 0));
}

/* The list is written as text: the rows are JSON already. */
typedef struct {
    bytes body;
    uint32_t n;
    int status;
} listing;

static bool add_row(void *arg, const store_response *row)
{
    listing *l = arg;
    if (l->n++) l->status = bytes_append(&l->body, ",", 1);
    if (!l->status) l->status = bytes_append(&l->body, row->response.ptr, row->response.len);
    return !l->status;
}

void stored_list(connection *c)
{
    char text[16];
    uint64_t n = LIST_DEFAULT;
    cerium_error err;
    protocol_error e;
    listing l = {.body = {.max = SERVER_OUT_BYTES_MAX / 2}};
    http_argument(c, "limit=", text, sizeof text);
    if (text[0] && (!parse_u64(view_of(text), &n) || n < 1 || n > LIST_MAX)) {
        (void)protocol_error_set(&e, 400, "invalid_request_error", "invalid_value", "limit",
                                 "limit is 1 to %d", LIST_MAX);
        http_error(c, &e);
        return;
    }
    static const char head[] = "{\"object\":\"list\",\"data\":[", tail[] = "]}";
    l.status = bytes_append(&l.body, head, sizeof head - 1);
    if (!l.status && store_list(c->s->store, c->tenant, (uint32_t)n, add_row, &l, &err)) {
        bytes_free(&l.body);
        store_failed(c, &err);
        return;
    }
    if (!l.status) l.status = bytes_append(&l.body, tail, sizeof tail - 1);
    if (l.status) {
        (void)protocol_error_set(&e, 500, "server_error", NULL, "", "the list is too long");
        http_error(c, &e);
    } else {
        http_answer(c, &(http_head){.status = 200}, (view){l.body.ptr, l.body.len});
    }
    bytes_free(&l.body);
}
