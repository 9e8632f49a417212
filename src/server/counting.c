/* counting.c - prompts that are only counted, by a thread. */
#include "server/counting.h"

#include "protocol/json_out.h"
#include "server/answers.h"
#include "server/http.h"
#include "server/model_list.h"
#include "server/prompts.h"
#include "server/stored.h"

typedef struct {
    job job; /* first */
    connection *c;
    const server *s;
    const served_model *m;
    uint64_t tenant, serial;
    protocol_request *request; /* owned */
    size_t n_bytes;
    count_what what;
    int status;
    protocol_error error;
    bool store_failed;
    json_out out; /* the answer */
} counting;

static int turn_of(counting *k, const history_turn **turn)
{
    const char *id = k->request->previous_response_id;
    *turn = NULL;
    if (!id) return CERIUM_OK;
    RETURN_IF(stored_turn(k->m, k->tenant, k->serial, id, turn, &k->store_failed, &k->error));
    const bool is_ours = *turn && !(*turn)->items && (*turn)->model == k->m->key_hash;
    return is_ours ? CERIUM_OK : stored_no_turn(id, &k->error);
}

static void put_text(json_out *t, const served_model *m, const prompt *made)
{
    json_out_literal(t, "{\"prompt\":\"");
    for (size_t i = 0; i < made->n && !t->status; i++) {
        view text;
        text.ptr = cerium_token_bytes(m->vocab, made->tokens[i], &text.len);
        json_out_escape(t, text);
    }
    json_out_literal(t, "\"}");
}

static void put_count(json_out *t, protocol_api api, size_t n)
{
    json_out_literal(t, "{");
    if (api != PROTOCOL_MESSAGES)
        json_out_literal(t, "\"object\":\"response.input_tokens\",");
    json_out_literal(t, "\"input_tokens\":");
    json_out_integer(t, (int64_t)n);
    json_out_literal(t, "}");
}

static void put_tokens(json_out *t, const prompt *made)
{
    json_out_literal(t, "{\"token_ids\":[");
    for (size_t i = 0; i < made->n && !t->status; i++) {
        if (i) json_out_literal(t, ",");
        json_out_integer(t, made->tokens[i]);
    }
    json_out_literal(t, "]}");
}

/* For Completions. */
static int render_texts(counting *k, const prompt_room *room)
{
    prompt made;
    json_out_literal(&k->out, "[");
    for (size_t i = 0; i < k->request->n_prompts && !k->out.status; i++) {
        RETURN_IF(prompts_text(k->m, room, k->request, i, &made, &k->error));
        if (i) json_out_literal(&k->out, ",");
        put_tokens(&k->out, &made);
    }
    json_out_literal(&k->out, "]");
    return CERIUM_OK;
}

static int count_chat(counting *k, const prompt_room *room)
{
    prompt made;
    const history_turn *turn = NULL;
    int status = turn_of(k, &turn);
    if (!status) status = prompts_chat(k->m, room, k->request, k->tenant, turn, &made, &k->error);
    if (!status && k->what == COUNT_TEMPLATE) put_text(&k->out, k->m, &made);
    if (!status && k->what == COUNT_TOKENS) put_count(&k->out, k->request->api, made.n);
    if (!status && k->what == COUNT_RENDER) put_tokens(&k->out, &made);
    history_release(&turn);
    return status;
}

static int count(counting *k)
{
    prompt_room room = {.cap = (size_t)k->m->info.context_tokens_max + 1};
    room.tokens = memory_alloc(room.cap * sizeof *room.tokens);
    if (!room.tokens) return protocol_error_memory(&k->error);
    k->out.b.max = SERVER_OUT_BYTES_MAX / 2;
    int status = k->request->talks ? count_chat(k, &room) : render_texts(k, &room);
    if (!status && k->out.status == CERIUM_ERR_CAPACITY)
        status = protocol_error_set(&k->error, 413, "invalid_request_error", NULL, "",
                                    "the tokens are too many for one answer");
    else if (!status && k->out.status)
        status = protocol_error_memory(&k->error);
    memory_free(room.tokens);
    return status;
}

static bool run(job *j)
{
    counting *k = (counting *)j;
    k->status = count(k);
    return false;
}

static void release(job *j)
{
    counting *k = (counting *)j;
    protocol_request_free(&k->request);
    json_out_free(&k->out);
    memory_free(k);
}

static void done(job *j)
{
    counting *k = (counting *)j;
    k->c->http.job = NULL;
    if (k->store_failed) metrics_count(&k->c->s->metrics, METRICS_STORE_FAILED, 1);
    if (k->status)
        http_error(k->c, &k->error);
    else
        http_answer(k->c, &(http_head){.status = 200}, json_out_view(&k->out));
    release(j);
}

void counting_begin(connection *c, protocol_request *request, count_what what, size_t n_bytes)
{
    protocol_error e;
    const served_model *m =
        models_choose(c->s, request->model, models_use_of(request->api, request->fill_in));
    counting *k = m ? memory_zalloc(1, sizeof *k) : NULL;
    if (!k) {
        (void)(m ? protocol_error_memory(&e) : models_unknown(c->s, request->model, &e));
        request_bury(c->s, &request, n_bytes);
        http_error(c, &e);
        return;
    }
    *k = (counting){.job = {.run = run, .done = done, .release = release,
                            .client = client_of(c->tenant, c->serial)},
                    .c = c, .s = c->s, .m = m, .tenant = c->tenant, .serial = c->serial,
                    .request = request, .n_bytes = n_bytes, .what = what};
    k->job.lane = request->previous_response_id      ? WORKERS_STORE
                  : n_bytes > SERVER_SMALL_BYTES_MAX ? WORKERS_LARGE : WORKERS_SMALL;
    if (!workers_submit(c->s->workers, &k->job)) {
        c->http.job = &k->job;
        return;
    }
    release(&k->job);
    (void)protocol_error_overloaded(&e, "requests are being read");
    http_error(c, &e);
}
