/* stored.c - conversation turns in the store.  Only on its thread. */
#include "server/stored.h"

#include "base/json.h"

enum { TURNS_MAX = 512 };

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
                          .model = a->model->key};
    int status = input ? store_put(s->store, &row, &err)
                       : error_set(&err, CERIUM_ERR_MEMORY, "out of memory");
    memory_release(input);
    if (!status) return true;
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

int stored_failed(const cerium_error *err, protocol_error *e)
{
    log_event(LOG_ERROR, "store", "reason=\"%s\"", err->message);
    return protocol_error_set(e, 500, "server_error", NULL, "", "the store failed");
}

/* A stored row becomes a turn in memory.  Its tokens are used if they are this model's. */
static int load_turn(const served_model *m, const store_response *row)
{
    json_t *response = json_read(row->response, 0, NULL);
    history_turn turn = {.tenant = row->tenant,
                         .model = m->key_hash,
                         .tokens = row->tokens,
                         .n_tokens = row->n_tokens,
                         .sampled_from = row->n_tokens,
                         .instructions = row->instructions,
                         .n_head = row->n_head,
                         .output = json_object_get(response, "output")};
    snprintf(turn.id, sizeof turn.id, "%s", row->id);
    int status = history_add(m->s->history, &turn);
    json_decref(response);
    return status;
}

int stored_turn(const served_model *m, uint64_t tenant, uint64_t serial, const char *id,
                const history_turn **out, bool *failed, protocol_error *e)
{
    const server *s = m->s;
    store_response row;
    bytes memory = {.max = STORE_RECORD_BYTES_MAX};
    cerium_error err;
    bool found = false;
    *out = NULL;
    if (strlen(id) >= SERVER_ID_BYTES) return CERIUM_OK;
    const history_turn *turn = history_find(s->history, tenant, serial, id);
    if (turn && (turn->connection || store_has(s->store, tenant, id, &found, &err) || found)) {
        *out = turn;
        return CERIUM_OK;
    }
    if (turn) { /* a stored turn lives as long as its row */
        history_release(&turn);
        history_forget(s->history, tenant, id);
        return CERIUM_OK;
    }
    if (store_get(s->store, tenant, id, &row, &memory, &found, &err)) {
        *failed = true;
        return stored_failed(&err, e);
    }
    int status = CERIUM_OK;
    if (found && row.n_tokens && !strcmp(row.model, m->key)) status = load_turn(m, &row);
    bytes_free(&memory);
    if (status) return protocol_error_memory(e);
    *out = history_find(s->history, tenant, serial, id);
    return CERIUM_OK;
}

int stored_conversation(const answer *a, const char *id, json_t *whole, bool *failed,
                        protocol_error *e)
{
    json_t *turns[TURNS_MAX];
    uint32_t n = 0;
    size_t n_bytes = 0;
    char next[SERVER_ID_BYTES];
    int status = CERIUM_OK;
    for (snprintf(next, sizeof next, "%s", id); next[0] && !status;) {
        store_response row;
        bytes memory = {.max = STORE_RECORD_BYTES_MAX};
        cerium_error err;
        bool found = false;
        status = n == TURNS_MAX ? CERIUM_ERR_CAPACITY
                                : store_get(a->s->store, a->tenant, next, &row, &memory, &found,
                                            &err);
        *failed |= status && n < TURNS_MAX;
        if (!status && !found) status = CERIUM_ERR_ARGUMENT;
        if (!status) {
            n_bytes += row.input.len + row.response.len;
            if (n_bytes > PROTOCOL_ANSWER_BYTES_MAX) status = CERIUM_ERR_CAPACITY;
            json_t *items = json_read(row.input, JSON_ALLOW_NUL, NULL);
            json_t *response = json_read(row.response, JSON_ALLOW_NUL, NULL);
            if (json_array_extend(items, json_object_get(response, "output")))
                status = CERIUM_ERR_IO;
            json_decref(response);
            turns[n++] = items;
            snprintf(next, sizeof next, "%s", row.previous_id ? row.previous_id : "");
        }
        bytes_free(&memory);
    }
    while (n) {
        if (!status && json_array_extend(whole, turns[n - 1])) status = CERIUM_ERR_MEMORY;
        json_decref(turns[--n]);
    }
    if (!status) return CERIUM_OK;
    /* Then the client sends all of it: Codex does so at once. */
    return stored_no_turn(id, e);
}
