/* answers.c - the beginning of an answer: admission, prompts, drafts, and its place in line. */
#include "server/answers.h"

#include "server/admission.h"
#include "server/connection.h"
#include "server/ending.h"
#include "server/forward.h"
#include "server/gate.h"
#include "server/guarded.h"
#include "server/http.h"
#include "server/prompts.h"
#include "server/socket.h"
#include "server/stored.h"
#include "server/voice.h"

/* Where its text comes from a script, or is predicted. */
static int take_drafts(answer *a, protocol_error *e)
{
    view output;
    const protocol_request *r = a->request;
    if (a->s->replay && !a->warm_up && replay_take(a->s->replay, r, &output, &a->corrected)) {
        a->replayed = true;
        metrics_count(&a->s->metrics, METRICS_REPLAYED, 1);
        RETURN_IF(prompts_tokenize(a->s, output, CERIUM_TOKENIZE_SPECIAL, &a->script, &a->n_script,
                                   e));
        /* A script may say more than the context holds: then that is its end. */
        if (a->n_script > a->s->info.context_tokens_max)
            a->n_script = a->s->info.context_tokens_max;
    }
    if (r->prediction)
        return prompts_tokenize(a->s, (view){r->prediction, r->prediction_len}, 0, &a->prediction,
                               &a->n_prediction, e);
    return CERIUM_OK;
}

static int take_prompt(answer *a, uint32_t i, const prompt *p, protocol_error *e)
{
    a->prompts[i] = memory_copy(p->tokens, p->n * sizeof *p->tokens);
    if (!a->prompts[i]) return answer_no_memory(e);
    for (uint32_t k = 0; k < a->request->n_choices; k++) {
        choice *ch = &a->choices[i * a->request->n_choices + k];
        *ch = (choice){.a = a,
                       .index = i * a->request->n_choices + k,
                       .prompt = a->prompts[i],
                       .n_prompt = p->n,
                       .begins = {.opening = p->opening.ptr, .n_opening = p->opening.len},
                       .sampled = {.max = SIZE_MAX / 2},
                       .unsure = {.max = PROTOCOL_ANSWER_BYTES_MAX}};
    }
    return CERIUM_OK;
}

static int make_prompts(answer *a, const connection *c, protocol_error *e)
{
    const protocol_request *r = a->request;
    bool talks = r->api != PROTOCOL_COMPLETIONS && r->api != PROTOCOL_INFILL;
    const history_turn *previous = NULL;
    prompt p;
    uint32_t n = talks || !r->n_prompts ? 1 : (uint32_t)r->n_prompts;
    a->n_choices = n * r->n_choices;
    a->prompts = memory_zalloc(n, sizeof *a->prompts);
    a->choices = memory_zalloc(a->n_choices, sizeof *a->choices);
    if (!a->prompts || !a->choices) return answer_no_memory(e);
    a->n_prompts = n;
    if (r->previous_response_id)
        RETURN_IF(stored_turn(a->s, a->tenant, c->serial, r->previous_response_id, &previous, e));
    if (talks) {
        RETURN_IF(prompts_chat(a->s, a->request, a->tenant, previous, &p, e));
        a->chain = p.chain;
        a->instructions = p.instructions;
        a->n_head = p.n_head;
        return take_prompt(a, 0, &p, e);
    }
    for (uint32_t i = 0; i < n; i++) {
        RETURN_IF(prompts_text(a->s, r, i, &p, e));
        RETURN_IF(take_prompt(a, i, &p, e));
    }
    return CERIUM_OK;
}

static uint64_t prompt_tokens(const answer *a)
{
    uint64_t n = 0;
    for (uint32_t i = 0; a->choices && i < a->n_choices; i += a->request->n_choices)
        n += a->choices[i].n_prompt;
    return n;
}

/* Older answers that complete the same document for the same client are of no use any more. */
static void supersede(answer *a)
{
    for (answer *b = a->s->answers; b; b = b->next) {
        if (b == a || b->finished || !b->document || b->tenant != a->tenant) continue;
        if (strcmp(b->document, a->document) != 0 || strcmp(b->client, a->client) != 0) continue;
        b->superseded = true;
        metrics_count(&a->s->metrics, METRICS_STALE, 1);
        answer_cancel(b, "superseded");
    }
}

static int take_order(answer *a, server *s, const answer_order *order, protocol_error *e)
{
    static const char *const prefixes[] = {"resp_", "chatcmpl-", "cmpl-", "infill-", "resp_"};
    connection *c = order->c;
    a->s = s;
    a->c = c;
    a->lane = order->lane;
    a->lane_of = order->lane ? c : NULL;
    a->voice = order->voice ? order->voice : &voice_writer;
    a->tenant = c->tenant;
    a->serial = c->serial;
    a->warm_up = a->request->warm_up;
    a->streams = c->socket || a->request->stream;
    a->started_ns = order->started_ns;
    a->created_at = (int64_t)time(NULL);
    if (order->id)
        snprintf(a->id, sizeof a->id, "%s", order->id);
    else
        make_id(a->id, prefixes[a->request->api]);
    if (!order->document) return CERIUM_OK;
    a->document = memory_copy(order->document, strlen(order->document));
    if (!a->document) return answer_no_memory(e);
    /* A WebSocket is one client; over HTTP an address is, for clients open a connection a time. */
    if (c->socket)
        snprintf(a->client, sizeof a->client, "socket %llu", (unsigned long long)c->serial);
    else
        snprintf(a->client, sizeof a->client, "%s", c->peer);
    return CERIUM_OK;
}

static void link_answer(answer *a)
{
    server *s = a->s;
    a->next = s->answers;
    if (a->next) a->next->previous = a;
    s->answers = a;
    answer_count_waiting(a, (int32_t)a->n_choices);
    if (a->lane) lane_take(a->lane, a);
}

/* A warm-up is over for the client at once; the engine computes it behind that. */
void answer_tell_begin(answer *a)
{
    if (a->c && !a->c->socket && a->streams) http_stream(a->c);
    if (a->voice->begin(a)) {
        protocol_error e;
        (void)answer_no_memory(&e);
        answer_fail(a, &e);
        answer_cancel(a, "out_of_memory");
        return;
    }
    /* Heard before the engine wakes its threads, and before the books are kept. */
    if (a->c) connection_flush(a->c);
    if (a->warm_up) {
        for (uint32_t i = 0; i < a->n_choices; i++) choice_end(&a->choices[i], PROTOCOL_END_STOP);
    }
}

int answer_begin(server *s, const answer_order *order, protocol_error *e)
{
    answer *a = memory_zalloc(1, sizeof *a);
    protocol_request *request = order->request;
    if (!a) {
        protocol_request_free(&request);
        return answer_no_memory(e);
    }
    a->request = request;
    connection *c = order->c;
    int status = take_order(a, s, order, e);
    if (!status) status = forward_route(a, e);
    if (!status) status = gate_enter(a, e);
    if (!status && !a->forward) {
        status = make_prompts(a, c, e);
        status = forward_route_long(a, prompt_tokens(a), status, e);
    }
    if (!status && a->forward) status = forward_prepare(a, e);
    if (!status) status = guarded_policy(a, e);
    if (!status)
        status = gate_charge(a, a->forward ? forward_tokens(a) : prompt_tokens(a), e);
    if (!status && !a->forward) status = take_drafts(a, e);
    if (!status && a->voice == &voice_writer) status = voice_open(a, e);
    if (!status && !a->forward)
        status = shapes_of(s->shapes, request, s->info.chat_form, a->tenant, &a->kept_to,
                           &a->order, e);
    if (status) {
        answer_free(a);
        return status;
    }
    if (a->document) supersede(a);
    gate_tell(a);
    link_answer(a);
    if (a->forward)
        forward_start(a);
    else if (!a->order)
        answer_tell_begin(a);
    answers_start(s);
    if (a->c) connection_flush(a->c);
    return CERIUM_OK;
}
