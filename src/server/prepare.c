/* prepare.c - the stages before an answer, on the loop and on threads. */
#include "server/prepare.h"

#include "protocol/steer.h"
#include "server/prompts.h"
#include "server/stored.h"
#include "server/tenant_quota.h"

typedef enum {
    STAGE_TURN,    /* the turn that it continues */
    STAGE_PROMPTS, /* and looks up its output_format */
    STAGE_ASK,     /* instead: makes the request to another server */
    STAGE_DRAFTS,
    STAGE_FORMAT,
    STAGE_READY,
} prepare_stage;

typedef struct {
    int32_t *tokens; /* [n] owned */
    size_t n;
    view heal_prefix;
} made_prompt;

struct preparation {
    job job; /* first */
    answer *a;
    const preparation_events *events;
    prepare_stage stage;
    bool is_away;       /* a thread runs it, or it waits for one */
    bool store_failed;
    int status;         /* of the last stage, */
    protocol_error why; /* and its error */
    const history_turn *previous; /* held, or NULL */
    protocol_request *whole; /* the request with all its earlier turns; owned, or NULL */
    made_prompt *made;  /* [n_made] owned */
    uint32_t n_made;
    prompt first;       /* for a conversation: its facts without tokens */
    format_order *order; /* NULL: the answer is unconstrained */
};

/* ---- the stages that a thread may run ---- */

static bool is_ours(const answer *a, const history_turn *turn)
{
    return turn && !turn->items && turn->model == a->model->key_hash;
}

/* Its tokens are another model's: render the whole conversation, as it is stored. */
static int read_whole(preparation *p)
{
    answer *a = p->a;
    const protocol_request *r = a->request;
    json_t *items = json_array();
    int status = items ? stored_conversation(a, r->previous_response_id, items, &p->store_failed,
                                             &p->why)
                       : protocol_error_memory(&p->why);
    if (!status)
        status = protocol_request_again(&p->whole, r, NULL, items, true, &a->model->defaults,
                                        &p->why);
    json_decref(items);
    return status;
}

static int run_turn(preparation *p)
{
    answer *a = p->a;
    const char *id = a->request->previous_response_id;
    if (!p->previous)
        RETURN_IF(stored_turn(a->model, a->tenant, a->serial, id, &p->previous, &p->store_failed,
                              &p->why));
    if (is_ours(a, p->previous)) return CERIUM_OK;
    /* A turn that another server continued has no tokens here: the client must send all of it. */
    if (p->previous && p->previous->items) return stored_no_turn(id, &p->why);
    history_release(&p->previous);
    return read_whole(p);
}

static int take_prompt(preparation *p, uint32_t i, const prompt *from)
{
    p->made[i] = (made_prompt){memory_copy(from->tokens, from->n * sizeof *from->tokens), from->n,
                               from->heal_prefix};
    return p->made[i].tokens ? CERIUM_OK : protocol_error_memory(&p->why);
}

static int make_prompts(preparation *p, const prompt_room *room)
{
    answer *a = p->a;
    protocol_request *r = a->request;
    if (r->talks) {
        RETURN_IF(prompts_chat(a->model, room, p->whole ? p->whole : r, a->tenant, p->previous,
                               &p->first, &p->why));
        return take_prompt(p, 0, &p->first);
    }
    for (uint32_t i = 0; i < p->n_made; i++) {
        prompt made;
        RETURN_IF(prompts_text(a->model, room, r, i, &made, &p->why));
        RETURN_IF(take_prompt(p, i, &made));
    }
    return CERIUM_OK;
}

static int run_prompts(preparation *p)
{
    answer *a = p->a;
    prompt_room room = {.cap = (size_t)a->model->info.context_tokens_max + 1};
    room.tokens = memory_alloc(room.cap * sizeof *room.tokens);
    p->n_made = a->n_choices / a->request->n_choices;
    p->made = memory_zalloc(p->n_made, sizeof *p->made);
    int status = room.tokens && p->made ? make_prompts(p, &room) : protocol_error_memory(&p->why);
    memory_free(room.tokens);
    if (!status && format_order_open(&p->order, a->s->grammars, a->request,
                                     a->model->info.call_form))
        status = protocol_error_memory(&p->why);
    return status;
}

/* Text beyond the whole context is not tokenized. */
static view as_far_as_fits(const served_model *m, view text)
{
    size_t most = prompts_bytes_max(m);
    return (view){text.ptr, text.len < most ? text.len : most};
}

/* The tokens of a recorded text, and of a predicted one. */
static int run_drafts(preparation *p)
{
    view output;
    answer *a = p->a;
    const protocol_request *r = a->request;
    const bool may_replay = a->s->replay && !a->warm_up && !r->embeds;
    if (may_replay && replay_take(a->s->replay, r, &output, &a->corrected)) {
        a->replayed = true;
        RETURN_IF(prompts_tokenize(a->model, as_far_as_fits(a->model, output),
                                   CERIUM_TOKENIZE_SPECIAL,
                                   &a->script, &a->n_script, &p->why));
        /* A script longer than the context is cut at the context's end. */
        if (a->n_script > a->model->info.context_tokens_max)
            a->n_script = a->model->info.context_tokens_max;
    }
    if (!r->prediction) return CERIUM_OK;
    const view predicted = {r->prediction, r->prediction_len};
    return prompts_tokenize(a->model, as_far_as_fits(a->model, predicted), 0,
                            &a->prediction, &a->n_prediction, &p->why);
}

/* True: it continues. */
static bool run_stage(preparation *p)
{
    p->status = CERIUM_OK;
    switch (p->stage) {
    case STAGE_TURN: p->status = run_turn(p); break;
    case STAGE_PROMPTS: p->status = run_prompts(p); break;
    case STAGE_ASK:
        p->status = p->a->source->make(p->a, &p->store_failed, &p->why);
        break;
    case STAGE_DRAFTS: p->status = run_drafts(p); break;
    case STAGE_FORMAT: return format_order_step(p->order);
    case STAGE_READY: break;
    }
    return false;
}

static bool run_job(job *j)
{
    return run_stage((preparation *)j);
}

/* ---- between the stages: the loop ---- */

/* Hand the prompts to the choices. */
static void give_prompts(preparation *p)
{
    answer *a = p->a;
    const uint32_t n_each = a->request->n_choices;
    for (uint32_t i = 0; i < p->n_made; i++) {
        a->prompts[i] = p->made[i].tokens;
        for (uint32_t k = 0; k < n_each; k++) {
            choice *ch = &a->choices[i * n_each + k];
            ch->prompt = p->made[i].tokens;
            ch->n_prompt = p->made[i].n;
            ch->begins.heal_prefix = p->made[i].heal_prefix.ptr;
            ch->begins.n_heal = p->made[i].heal_prefix.len;
        }
        p->made[i].tokens = NULL;
    }
    if (!a->request->talks) return;
    a->chain = p->first.chain;
    a->instructions = p->first.instructions;
    a->n_head = p->first.n_head;
}

/* The prompts are made, or are too long for this server. */
static int end_prompts(preparation *p, protocol_error *e)
{
    answer *a = p->a;
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_made && !p->status; i++) n += p->made[i].n;
    if (p->status) *e = p->why;
    RETURN_IF(p->events->made(a, n, p->status, e));
    p->stage = STAGE_ASK;
    if (a->source->make) return CERIUM_OK;
    give_prompts(p);
    RETURN_IF(tenant_quota_charge(a, n, e));
    p->stage = STAGE_DRAFTS;
    return CERIUM_OK;
}

/* The stage after the one that ended. */
static int end_stage(preparation *p, protocol_error *e)
{
    answer *a = p->a;
    if (p->store_failed) metrics_count(&a->s->metrics, METRICS_STORE_FAILED, 1);
    p->store_failed = false;
    if (p->stage == STAGE_PROMPTS) return end_prompts(p, e);
    if (p->status) {
        *e = p->why;
        return p->status;
    }
    switch (p->stage) {
    case STAGE_TURN: p->stage = STAGE_PROMPTS; break;
    case STAGE_PROMPTS: break;
    case STAGE_ASK:
        RETURN_IF(a->source->made(a, e));
        p->stage = STAGE_READY;
        break;
    case STAGE_DRAFTS:
        if (a->replayed) metrics_count(&a->s->metrics, METRICS_REPLAYED, 1);
        p->stage = p->order ? STAGE_FORMAT : STAGE_READY;
        break;
    case STAGE_FORMAT:
        RETURN_IF(format_order_take(p->order, &a->format, e));
        format_order_warn(p->order, a->request);
        p->stage = STAGE_READY;
        break;
    case STAGE_READY: break;
    }
    return CERIUM_OK;
}

static workers_lane lane_by_size(const answer *a)
{
    return a->n_bytes <= SERVER_SMALL_BYTES_MAX ? WORKERS_SMALL : WORKERS_LARGE;
}

/* Does the stage need a thread, and which one?  Turns in memory are found here. */
static bool is_for_worker(preparation *p, workers_lane *whose)
{
    answer *a = p->a;
    const bool is_small = a->n_bytes <= SERVER_INLINE_BYTES_MAX;
    *whose = lane_by_size(a);
    switch (p->stage) {
    case STAGE_TURN:
        *whose = WORKERS_STORE;
        p->previous = history_find(a->s->history, a->tenant, a->serial,
                                   a->request->previous_response_id);
        /* Only the store knows whether a stored turn still exists. */
        if (p->previous && (!p->previous->connection || !is_ours(a, p->previous)))
            history_release(&p->previous);
        return !p->previous;
    case STAGE_PROMPTS: return !is_small;
    case STAGE_ASK:
        if (a->source->needs_store(a)) *whose = WORKERS_STORE;
        return *whose == WORKERS_STORE || !is_small;
    case STAGE_DRAFTS: return !is_small && (a->s->replay || a->request->prediction);
    case STAGE_FORMAT: *whose = WORKERS_COMPILE; return !format_order_is_done(p->order);
    case STAGE_READY: break;
    }
    return false;
}

static int send_away(preparation *p, workers_lane whose, protocol_error *e)
{
    p->job.lane = whose;
    if (!workers_submit(p->a->s->workers, &p->job)) {
        p->is_away = true;
        return CERIUM_OK;
    }
    return protocol_error_overloaded(e, "requests are being read");
}

/* A canceled one ends with its prompts, which the next message of its lane continues. */
static bool is_enough(const preparation *p)
{
    return p->stage == STAGE_READY ||
           (p->a->canceled && (p->a->source->make || p->stage >= STAGE_DRAFTS));
}

/* Run stages up to one that needs a thread, or to the end. */
static int advance(preparation *p, protocol_error *e)
{
    workers_lane whose;
    while (!is_enough(p)) {
        if (is_for_worker(p, &whose)) return send_away(p, whose, e);
        while (run_stage(p)) {
        }
        RETURN_IF(end_stage(p, e));
    }
    return CERIUM_OK;
}

static void on_done(job *j)
{
    preparation *p = (preparation *)j;
    answer *a = p->a;
    protocol_error e;
    p->is_away = false;
    /* If its client left, nothing is sent; if it canceled, the beginning and the end. */
    int status = CERIUM_OK;
    const bool is_wanted = answer_is_wanted(a);
    if (is_wanted && !(a->canceled && p->stage == STAGE_FORMAT)) status = end_stage(p, &e);
    if (is_wanted && !status) status = advance(p, &e);
    if (p->is_away) return;
    const preparation_events *events = p->events;
    prepare_free(a);
    if (status)
        events->unprepared(a, &e);
    else
        events->prepared(a);
}

/* ---- from outside ---- */

int prepare_begin(answer *a, const preparation_events *events, protocol_error *e)
{
    preparation *p = memory_zalloc(1, sizeof *p);
    if (!p) return protocol_error_memory(e);
    *p = (preparation){.job = {.run = run_job, .done = on_done,
                               .client = client_of(a->tenant, a->serial)},
                       .a = a,
                       .events = events,
                       .stage = a->source->make                    ? STAGE_ASK
                                : a->request->previous_response_id ? STAGE_TURN
                                                                   : STAGE_PROMPTS};
    a->prepare = p;
    int status = advance(p, e);
    if (!p->is_away) prepare_free(a);
    return status;
}

bool prepare_stop(answer *a)
{
    preparation *p = a->prepare;
    if (!p) return true;
    /* Before its prompts are made an answer cannot send an end. */
    bool has_enough = !answer_is_wanted(a) || p->stage == STAGE_FORMAT;
    if (!has_enough || !workers_withdraw(a->s->workers, &p->job)) return false;
    p->is_away = false;
    prepare_free(a);
    return true;
}

void prepare_free(answer *a)
{
    preparation *p = a->prepare;
    if (!p) return;
    CHECK(!p->is_away);
    history_release(&p->previous);
    protocol_request_free(&p->whole);
    for (uint32_t i = 0; i < p->n_made; i++) memory_free(p->made[i].tokens);
    memory_free(p->made);
    format_order_free(&p->order);
    memory_free(p);
    a->prepare = NULL;
}
