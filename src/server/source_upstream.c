/* source_upstream.c - routing, requests and answers, and conversations continued elsewhere. */
#include "server/source_upstream.h"

#include "base/json.h"
#include "protocol/upstream_api.h"
#include "server/admission.h"
#include "server/answers.h"
#include "server/api_writer.h"
#include "server/connection.h"
#include "server/stored.h"
#include "server/tenant_quota.h"
#include "server/upstream.h"
#include "server/wake.h"

enum { REFUSAL_BYTES_MAX = 64 << 10 };

struct upstream_state {
    uint32_t which;
    const upstream_policy *policy;
    json_t *items;      /* Responses: the whole conversation, owned */
    bytes body;         /* to send; later the received and not yet parsed part */
    transfer *transfer; /* NULL: a warm-up, or not yet sent */
    upstream_reader reader;
    bool reading;       /* reader is open */
    bool began;         /* the other server accepted it: its stream follows */
    uint64_t n_out;     /* received bytes, if the server counts no tokens */
    uint64_t n_in;      /* sent bytes */
};

int source_upstream_open(server *s, cerium_error *err)
{
    if (!s->config.policy->n_upstreams) return CERIUM_OK;
    return upstreams_open(&s->upstreams, s->config.policy, wake_to_look, s, err);
}

void source_upstream_close(server *s) { upstreams_close(&s->upstreams); }

/* ---- where to ---- */

static bool names(const char *name, const char *list, size_t size, uint32_t n)
{
    for (uint32_t i = 0; name && i < n; i++)
        if (!strcmp(list + i * size, name)) return true;
    return false;
}

static bool wants_model(const upstream_policy *u, const protocol_request *r)
{
    return names(r->model, u->models[0], sizeof u->models[0], u->n_models);
}

static bool wants_effort(const upstream_policy *u, const protocol_request *r)
{
    const char *holder = r->api == PROTOCOL_MESSAGES ? "output_config" : "reasoning";
    const json_t *effort = r->api == PROTOCOL_CHAT
                               ? json_object_get(r->root, "reasoning_effort")
                               : json_object_get(json_object_get(r->root, holder), "effort");
    return names(json_string_value(effort), u->efforts[0], sizeof u->efforts[0], u->n_efforts);
}

static bool may_go(const answer *a)
{
    const protocol_request *r = a->request;
    return a->s->upstreams && !r->compacts && r->n_choices == 1 &&
           (r->api == PROTOCOL_RESPONSES || r->api == PROTOCOL_CHAT ||
            r->api == PROTOCOL_MESSAGES || r->api == PROTOCOL_OLLAMA_CHAT);
}

static const source_type source_upstream;

static int go(answer *a, uint32_t which, protocol_error *e)
{
    a->upstream = memory_zalloc(1, sizeof *a->upstream);
    if (!a->upstream) return protocol_error_memory(e);
    a->upstream->which = which;
    a->upstream->policy = &a->s->config.policy->upstreams[which];
    a->upstream->body.max = PROTOCOL_ANSWER_BYTES_MAX;
    a->source = &source_upstream;
    a->quota.deep = true;
    return CERIUM_OK;
}

/* The upstream that has the conversation which this one continues; -1 = none. */
static int went_to(const answer *a)
{
    const char *id = a->request->previous_response_id;
    const history_turn *turn = id ? history_find(a->s->history, a->tenant, a->serial, id) : NULL;
    int which = turn && turn->items ? (int)turn->upstream : -1;
    history_release(&turn);
    return which;
}

int source_upstream_route(answer *a, protocol_error *e)
{
    const policy *p = a->s->config.policy;
    if (!may_go(a)) return CERIUM_OK;
    int before = went_to(a);
    if (before >= 0 && upstream_is_up(a->s->upstreams, (uint32_t)before))
        return go(a, (uint32_t)before, e);
    uint64_t wait_ms = admission_wait_ms(a->s, a->request->class_);
    const upstream_policy *down = NULL;
    for (uint32_t i = 0; i < p->n_upstreams; i++) {
        const upstream_policy *u = &p->upstreams[i];
        bool model = wants_model(u, a->request);
        bool late = u->queue_over_s && wait_ms > (uint64_t)u->queue_over_s * 1000;
        if (!model && !late && !wants_effort(u, a->request)) continue;
        if (upstream_is_up(a->s->upstreams, i)) return go(a, i, e);
        if (model) down = u; /* others can be answered here */
    }
    if (!down) return CERIUM_OK;
    (void)protocol_error_set(e, 503, "server_error", "upstream_down", "model",
                             "%s, which has this model, does not answer; please try again in %us",
                             down->name, down->rest_s);
    e->retry_after_s = down->rest_s;
    return CERIUM_ERR_ARGUMENT;
}

int source_upstream_route_long(answer *a, uint64_t n_tokens, int status, protocol_error *e)
{
    const policy *p = a->s->config.policy;
    bool full = status && e->code && !strcmp(e->code, "context_length_exceeded");
    if ((status && !full) || !may_go(a)) return status;
    for (uint32_t i = 0; i < p->n_upstreams; i++) {
        uint32_t over = p->upstreams[i].context_over;
        if (!over || (!full && n_tokens <= over)) continue;
        if (!upstream_is_up(a->s->upstreams, i)) continue;
        RETURN_IF(go(a, i, e));
        choice_closed(&a->choices[0]); /* it needs no place here */
        RETURN_IF(tenant_quota_enter_deep(a, e));
        return a->begun ? CERIUM_OK : api_writer_open(a, e);
    }
    return status;
}

static const char *model_of(const answer *a)
{
    const upstream_policy *u = a->upstream->policy;
    if (u->model[0]) return u->model;
    if (a->request->model && wants_model(u, a->request)) return a->request->model;
    return u->n_models ? u->models[0] : a->request->model ? a->request->model : u->name;
}

static const char *name_of(const answer *a) { return a->upstream->policy->name; }

/* ---- the whole conversation ---- */

static int make_items(answer *a, bool *store_failed, protocol_error *e)
{
    const protocol_request *r = a->request;
    const char *id = r->previous_response_id;
    json_t *whole = a->upstream->items = json_array();
    const history_turn *turn = id ? history_find(a->s->history, a->tenant, a->serial, id) : NULL;
    int status = whole ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status && turn && turn->items) {
        status = json_array_extend(whole, turn->items);
    } else if (!status && id && stored_conversation(a, id, whole, store_failed, e)) {
        history_release(&turn);
        return CERIUM_ERR_ARGUMENT;
    }
    history_release(&turn);
    if (!status) status = json_array_extend(whole, r->items);
    if (status) return protocol_error_memory(e);
    return CERIUM_OK;
}

static bool needs_store(const answer *a)
{
    return a->request->api == PROTOCOL_RESPONSES && a->request->previous_response_id;
}

/* Many servers refuse unknown fields. */
static const char *budget_of(answer *a)
{
    const char *field = a->upstream->policy->budget;
    if (strcmp(field, "no") != 0) return field;
    if (a->request->thought_tokens_max != UINT32_MAX)
        protocol_warn(a->request, "thinking",
                      "a budget of thoughts is not kept to: %s has no field for it", name_of(a));
    return NULL;
}

static int make(answer *a, bool *store_failed, protocol_error *e)
{
    struct upstream_state *f = a->upstream;
    if (a->request->api == PROTOCOL_RESPONSES) RETURN_IF(make_items(a, store_failed, e));
    upstream_order order = {.request = a->request,
                            .items = f->items,
                            .model = model_of(a),
                            .budget = budget_of(a),
                            .responses = f->policy->responses};
    if (!upstream_body(&f->body, &order)) return CERIUM_OK;
    return protocol_error_memory(e);
}

/* ---- the request ---- */

/* The response names the server, beside the client's metadata. */
static int sign(answer *a)
{
    json_t *root = a->request->root, *metadata = json_object_get(root, "metadata");
    json_t *own = json_is_object(metadata) ? json_copy(metadata) : json_object();
    if (json_object_set_new(own, "served_by", json_string(name_of(a)))) {
        json_decref(own);
        return CERIUM_ERR_MEMORY;
    }
    return json_object_set_new(root, "metadata", own) ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

/* The smaller of the client's limit and the rest of its key's; none if neither exists. */
static int cap(answer *a, protocol_error *e)
{
    const uint32_t most = answer_cap(a);
    const upstream_order order = {.request = a->request,
                                  .responses = a->upstream->policy->responses};
    if (a->warm_up || most == UINT32_MAX || !upstream_cap(&a->upstream->body, &order, most))
        return CERIUM_OK;
    return protocol_error_memory(e);
}

static int made(answer *a, protocol_error *e)
{
    a->upstream->n_in = a->upstream->body.len;
    choice_closed(&a->choices[0]); /* it has no engine session */
    if (a->request->api == PROTOCOL_RESPONSES && sign(a)) return protocol_error_memory(e);
    /* Four bytes a token, until the other server counts them. */
    RETURN_IF(tenant_quota_charge(a, a->upstream->n_in / 4 + 1, e));
    return cap(a, e);
}

static void start(answer *a)
{
    struct upstream_state *f = a->upstream;
    protocol_error e;
    metrics_count(&a->s->metrics, METRICS_FORWARDED, 1);
    if (a->warm_up) {
        f->began = true;
        answer_tell_begin(a);
        return;
    }
    upstream_order order = {.request = a->request, .responses = f->policy->responses};
    f->transfer = transfer_begin(a->s->upstreams, f->which, upstream_path(&order),
                                 (view){f->body.ptr, f->body.len});
    f->body.len = 0;
    if (f->transfer) {
        upstream_reader_open(&f->reader, a->request, a->writer,
                             f->policy->responses && a->request->api == PROTOCOL_RESPONSES);
        f->reading = true;
        return;
    }
    (void)protocol_error_set(&e, 503, "server_error", "upstream_busy", "",
                             "%s has too many requests of ours; please try again in 5s",
                             f->policy->name);
    e.retry_after_s = 5;
    answer_refuse(a, &e);
}

/* ---- the answer ---- */

static void refuse(answer *a, const transfer_state *state)
{
    struct upstream_state *f = a->upstream;
    protocol_error e;
    if (state->failed || state->status < 400)
        (void)protocol_error_set(&e, 502, "server_error", "upstream_failed", "", "%s: %s",
                                 f->policy->name,
                                 state->failed ? state->error : "this is not an answer");
    else upstream_refusal((view){f->body.ptr, f->body.len}, state->status, f->policy->name, &e);
    e.retry_after_s = state->retry_after_s;
    if (!a->begun) {
        answer_refuse(a, &e);
        return;
    }
    transfer_end(&f->transfer); /* a refused request is not counted as used */
    metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    answer_end(a, PROTOCOL_END_FAILED, &e);
}

static void fail(answer *a, const char *what)
{
    protocol_error e;
    metrics_count(&a->s->metrics, METRICS_FAILED, 1);
    (void)protocol_error_set(&e, 502, "server_error", "server_error", "",
                             "%s failed in the middle: %s", a->upstream->policy->name, what);
    answer_end(a, PROTOCOL_END_FAILED, &e);
}

/* The stream continues, or ends. */
static void read_on(answer *a, const transfer_state *state)
{
    struct upstream_state *f = a->upstream;
    int status = upstream_reader_feed(&f->reader, (view){f->body.ptr, f->body.len});
    f->n_out += f->body.len;
    f->body.len = 0;
    if (answer_is_over(a)) return;
    if (status) {
        fail(a, status == CERIUM_ERR_MEMORY ? "out of memory" : "this is not a stream of events");
    } else if (f->reader.ended && (f->reader.has_usage || state->ended)) {
        answer_end(a, f->reader.end, &f->reader.error);
    } else if (state->ended && !f->reader.ended) {
        fail(a, state->failed ? state->error : "the stream ended early");
    }
}

static look_result poll(answer *a, uint64_t end_ns)
{
    struct upstream_state *f = a->upstream;
    transfer_state state;
    (void)end_ns; /* the bytes handled at once are bounded */
    if (!f->transfer || answer_is_over(a)) return LOOK_NOTHING;
    if (connection_parked(a->sink.c)) {
        a->sink.c->has_parked = true;
        return LOOK_NOTHING;
    }
    size_t before = f->body.len;
    if (transfer_take(f->transfer, &f->body, &state)) {
        state = (transfer_state){.ended = true, .failed = true, .error = "out of memory"};
        transfer_end(&f->transfer);
    }
    bool news = f->body.len > before || state.ended;
    if (!news) return LOOK_NOTHING;
    bool good = state.status == 200 && (f->body.len || !state.failed);
    if (!f->began && !good) {
        bool whole = state.ended || f->body.len > REFUSAL_BYTES_MAX;
        if (whole) refuse(a, &state);
        return LOOK_SOME;
    }
    if (!f->began) {
        f->began = true;
        answer_tell_begin(a);
    }
    if (!answer_is_over(a)) read_on(a, &state);
    if (answer_is_over(a)) transfer_end(&f->transfer);
    return LOOK_SOME;
}

/* ---- afterwards ---- */

static bool keep_items(answer *a, view body)
{
    static const int32_t none;
    struct upstream_state *f = a->upstream;
    bool keep = a->request->api == PROTOCOL_RESPONSES && a->request->store;
    bool kept = !keep || stored_keep(a, body, &none, 0);
    json_t *output = protocol_writer_output(a->writer);
    if (!f->items || !output || json_array_extend(f->items, output)) return kept;
    history_turn turn = {.tenant = a->tenant,
                         .connection = a->request->store ? 0 : a->serial,
                         .tokens = &none,
                         .output = output,
                         .items = f->items,
                         .items_bytes = 2 * (f->n_in + f->n_out),
                         .upstream = f->which};
    memcpy(turn.id, a->id, sizeof turn.id);
    if (history_add(a->s->history, &turn))
        log_event(LOG_WARNING, "history", "id=%s reason=\"out of memory\"", a->id);
    return kept;
}

static void count(choice *ch, protocol_end end)
{
    const answer *a = ch->a;
    cerium_usage *usage = &ch->usage;
    const struct upstream_state *f = a->upstream;
    const protocol_usage *u = &f->reader.usage;
    *usage = (cerium_usage){.prompt_tokens = u->input_tokens,
                            .reused_tokens = u->cached_tokens,
                            .new_tokens = u->output_tokens};
    (void)end;
    if (f->reader.has_usage || !f->transfer) return;
    /* It failed, was canceled, or counts no tokens: count the bytes on the wire, at four bytes a
     * token; an event adds some hundred bytes to each. */
    usage->prompt_tokens = (uint32_t)(f->n_in / 4);
    usage->new_tokens = (uint32_t)(f->n_out / 200);
}

static void free_state(answer *a)
{
    struct upstream_state *f = a->upstream;
    transfer_end(&f->transfer);
    if (f->reading) upstream_reader_close(&f->reader);
    bytes_free(&f->body);
    json_decref(f->items);
    memory_free(f);
    a->upstream = NULL;
}

static const source_type source_upstream = {.needs_store = needs_store,
                                            .make = make,
                                            .made = made,
                                            .start = start,
                                            .poll = poll,
                                            .count = count,
                                            .keep = keep_items,
                                            .model = model_of,
                                            .name = name_of,
                                            .release = free_state};
