/* answer_keep.c - stores the conversation after an answer, and its usage. */
#include "server/answer_keep.h"

#include "server/admission.h"
#include "server/prompts.h"
#include "server/stored.h"
#include "server/tenant_quota.h"

/* ---- the conversation ---- */

/* The conversation after this answer, as the client will send it back. */
static chain chain_after(const answer *a, json_t *output)
{
    chain none = {{0, 0}}, c = a->chain;
    if (chain_none(c) || !output) return none;
    if (!json_array_size(output)) return c;
    const protocol_api api = a->request->api;
    protocol_request *parsed = NULL;
    protocol_error e;
    protocol_defaults defaults = a->model->defaults;
    protocol_body body = {.root = json_pack("{s:O}", api == PROTOCOL_RESPONSES ? "input"
                                                                              : "messages",
                                            output)};
    if (!body.root) return none;
    defaults.counts = true; /* the other needs of an answer are omitted */
    int status = protocol_body_parse(&parsed, api, &body, &defaults, &e);
    if (status) return none;
    for (size_t i = 0; i < parsed->n_messages; i++) c = chain_add(c, &parsed->messages[i]);
    protocol_request_free(&parsed);
    return c;
}

/* The output as part of a conversation: items, or the message of the first choice. */
static json_t *output_of(const answer *a)
{
    const protocol_api api = a->request->api;
    if (api == PROTOCOL_RESPONSES) return json_incref(protocol_writer_output(a->writer));
    json_t *object = protocol_writer_object(a->writer);
    json_t *first = json_array_get(json_object_get(object, "choices"), 0);
    json_t *message = json_object_get(api == PROTOCOL_CHAT ? first : object, "message");
    json_t *content = json_object_get(object, "content");
    json_t *output = NULL;
    if (api == PROTOCOL_MESSAGES && content)
        output = json_pack("[{s:s, s:O}]", "role", "assistant", "content", content);
    else if (message)
        output = json_pack("[O]", message);
    json_decref(object);
    return output;
}

/* APIs whose clients send the answer's text back. */
static bool continues(const protocol_request *r)
{
    switch (r->api) {
    case PROTOCOL_RESPONSES: return !r->compacts;
    case PROTOCOL_CHAT:
    case PROTOCOL_MESSAGES:
    case PROTOCOL_OLLAMA_CHAT: return true;
    case PROTOCOL_COMPLETIONS:
    case PROTOCOL_COMPLETION:
    case PROTOCOL_EMBEDDINGS:
    case PROTOCOL_OLLAMA_EMBED:
    case PROTOCOL_OLLAMA_GENERATE:
    case PROTOCOL_INFILL:
    case PROTOCOL_EDITS:
    case PROTOCOL_COMPACT: break;
    }
    return false;
}

bool answer_is_stored(const protocol_request *r)
{
    return r->api == PROTOCOL_RESPONSES && r->store && !r->compacts;
}

/* Text added after the model's own: the next turn reads it. */
static void add_verdict(const answer *a, int32_t **tokens, size_t *n)
{
    const view verdict = protocol_writer_verdict(a->writer, 0);
    int32_t *words = NULL;
    size_t n_words = 0;
    protocol_error e;
    if (!verdict.len ||
        prompts_tokenize(a->model, verdict, CERIUM_TOKENIZE_WITHIN, &words, &n_words,
                         &e))
        return;
    int32_t *all = memory_alloc((*n + n_words) * sizeof *all);
    if (all) {
        memcpy(all, *tokens, *n * sizeof *all);
        memcpy(all + *n, words, n_words * sizeof *all);
        memory_free(*tokens);
        *tokens = all;
        *n += n_words;
    }
    memory_free(words);
}

bool answer_keep_tokens(answer *a, view body)
{
    const choice *ch = &a->choices[0];
    const protocol_request *r = a->request;
    size_t n_sampled = ch->sampled.len / sizeof(int32_t);
    size_t n_prompt = ch->prompt ? ch->n_prompt : 0, n = n_prompt + n_sampled;
    int32_t *tokens = memory_alloc((n + 1) * sizeof *tokens);
    if (!tokens) return !answer_is_stored(r);
    if (n_prompt) memcpy(tokens, ch->prompt, n_prompt * sizeof *tokens);
    if (n_sampled) memcpy(tokens + n_prompt, ch->sampled.ptr, ch->sampled.len);
    add_verdict(a, &tokens, &n);
    json_t *output = output_of(a);
    history_turn turn = {.tenant = a->tenant,
                         .model = a->model->key_hash,
                         .connection = r->store ? 0 : a->serial,
                         .chain = chain_after(a, output),
                         .instructions = a->instructions,
                         .n_head = a->n_head,
                         .tokens = tokens,
                         .n_tokens = n,
                         .sampled_from = n_prompt,
                         .output = output};
    memcpy(turn.id, a->id, sizeof turn.id);
    bool kept = !answer_is_stored(r) || stored_keep(a, body, tokens, n);
    if (n_prompt && history_add(a->s->history, &turn))
        log_event(LOG_WARNING, "history", "id=%s reason=\"out of memory\"", a->id);
    json_decref(output);
    memory_free(tokens);
    return kept;
}

bool answer_keep(answer *a, view body)
{
    const protocol_request *r = a->request;
    return !continues(r) || a->source->keep(a, body);
}

/* ---- its usage ---- */

static void log_answer(const answer *a, const metrics_used *used, bool is_metered)
{
    log_event(a->failed ? LOG_ERROR : LOG_INFO, "answer",
              "id=%s requests=%d prompt=%llu cached=%llu tokens=%llu first_ms=%.3f ms=%.3f%s%s%s",
              a->id, is_metered, (unsigned long long)used->prompt,
              (unsigned long long)used->reused, (unsigned long long)used->generated,
              (double)a->choices[0].usage.first_token_ns / 1e6,
              (double)(clock_ns() - a->started_ns) / 1e6, a->canceled ? " canceled=" : "",
              a->canceled ? a->canceled : "", a->failed ? " failed=1" : "");
    if (a->failed) {
        char text[256];
        log_event(LOG_ERROR, "failure", "id=%s reason=%s", a->id,
                  log_quote(text, sizeof text, a->failure.message));
    }
}

/* The usage of an answer.  A prompt counts once, however many texts continue it, as its writer
 * counts; a failure of the server is not charged. */
static metrics_used used_by(const answer *a)
{
    metrics_used used = {0, 0, 0};
    for (uint32_t i = 0; i < a->n_choices && !a->failed; i++) {
        const cerium_usage *u = &a->choices[i].usage;
        used.generated += u->new_tokens;
        if (i % a->request->n_choices) continue;
        used.prompt += u->prompt_tokens;
        used.reused += u->reused_tokens;
    }
    return used;
}

void answer_meter(answer *a)
{
    const metrics_used used = used_by(a);
    const bool is_metered = used.prompt || used.generated;
    if (a->source->is_local) admission_ended(a->s, clock_ns() - a->started_ns);
    if (is_metered) {
        metrics_metered(&a->s->metrics, a->request->class_,
                        a->source->is_local ? METRICS_HERE : METRICS_UPSTREAM, &used);
        tenant_quota_meter(a, &used, a->source->model(a));
    }
    tenant_quota_leave(a);
    log_answer(a, &used, is_metered);
}
