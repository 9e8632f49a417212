/* writer_open.c - opens and closes the writer of an answer: its API, strings and choices. */
#include "protocol/writer.h"

#include "base/json.h"

static const writer_api *api_of(const protocol_request *r)
{
    switch (r->api) {
    case PROTOCOL_RESPONSES: return r->compacts ? &writer_compaction : &writer_responses;
    case PROTOCOL_CHAT: return &writer_chat;
    case PROTOCOL_COMPLETIONS: return &writer_completions;
    case PROTOCOL_INFILL: return r->inline_id ? &writer_inline : &writer_infill;
    case PROTOCOL_COMPACT: return &writer_compaction;
    case PROTOCOL_MESSAGES: return &writer_messages;
    case PROTOCOL_OLLAMA_CHAT:
    case PROTOCOL_OLLAMA_GENERATE: return &writer_ollama;
    case PROTOCOL_COMPLETION: return &writer_infill;
    case PROTOCOL_EMBEDDINGS:
    case PROTOCOL_OLLAMA_EMBED: return &writer_embeddings;
    case PROTOCOL_EDITS: return &writer_edits;
    }
    return &writer_responses;
}

static int copy_text(const char **text)
{
    if (!*text) return CERIUM_OK;
    *text = memory_copy(*text, strlen(*text));
    return *text ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

/* Copies the answer's strings; all or NULL when out of memory. */
static int copy_answer(protocol_writer *w, const protocol_answer *answer)
{
    w->answer = *answer;
    int id = copy_text(&w->answer.id);
    int model = copy_text(&w->answer.model);
    int tier = copy_text(&w->answer.served_tier);
    if (id || model || tier) return CERIUM_ERR_MEMORY;
    const char *cut = strpbrk(w->answer.id, "_-");
    w->suffix = cut ? cut + 1 : w->answer.id;
    return CERIUM_OK;
}

static int ignore_head(void *user, const cerium_part *part)
{
    (void)user;
    (void)part;
    return CERIUM_OK;
}

static int choices_open(protocol_writer *w)
{
    const protocol_request *r = w->r;
    size_t n = (r->n_prompts ? r->n_prompts : 1) * r->n_choices;
    w->choices = memory_zalloc(n, sizeof *w->choices);
    if (!w->choices) return CERIUM_ERR_MEMORY;
    static const view thought_end = VIEW("</think>");
    w->n_choices = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        writer_choice *c = &w->choices[i];
        c->index = i;
        c->blank.max = c->text.max = c->call_name.max = c->head.b.max = c->content.max =
            c->thought.max = c->calls.b.max = c->logprobs.b.max = c->digest.b.max =
                PROTOCOL_ANSWER_BYTES_MAX;
        if (!r->talks) continue;
        RETURN_IF(cerium_reader_open(&c->reader, w->answer.chat_form ? w->answer.chat_form : "",
                                     r->tools, r->tools_barred ? 0 : r->n_tools, NULL));
        /* The prompt already closed the thought. */
        if (protocol_ends_thought(r, w->answer.chat_form))
            RETURN_IF(cerium_reader_feed(c->reader, thought_end.ptr, thought_end.len,
                                         ignore_head, NULL));
        cerium_reader_set_stops(c->reader, r->stops, r->sampling.n_stops);
    }
    return CERIUM_OK;
}

int protocol_writer_open(protocol_writer **out, const protocol_answer *answer)
{
    CHECK(out && answer && answer->request && answer->id && answer->model);
    protocol_writer *w = memory_zalloc(1, sizeof *w);
    if (!w) return CERIUM_ERR_MEMORY;
    w->r = answer->request;
    w->api = api_of(w->r);
    w->event.b.max = w->echo.b.max = w->items.b.max = w->item.b.max = w->findings.b.max =
        PROTOCOL_ANSWER_BYTES_MAX;
    w->has_logprobs = w->r->sampling.logprobs;
    int status = copy_answer(w, answer);
    if (!status) status = choices_open(w);
    if (status)
        protocol_writer_free(&w);
    else
        *out = w;
    return status;
}

void protocol_writer_free(protocol_writer **writer)
{
    if (!writer || !*writer) return;
    protocol_writer *w = *writer;
    *writer = NULL;
    for (uint32_t i = 0; i < w->n_choices; i++) {
        writer_choice *c = &w->choices[i];
        cerium_reader_close(&c->reader);
        bytes_free(&c->blank);
        bytes_free(&c->text);
        bytes_free(&c->call_name);
        bytes_free(&c->verdict);
        bytes_free(&c->content);
        bytes_free(&c->thought);
        json_out_free(&c->head);
        json_out_free(&c->calls);
        json_out_free(&c->logprobs);
        json_out_free(&c->digest);
        token_queue_free(&c->tokens);
        legacy_free(&c->legacy);
    }
    memory_free(w->choices);
    json_out_free(&w->event);
    json_out_free(&w->echo);
    json_out_free(&w->items);
    json_out_free(&w->findings);
    json_out_free(&w->item);
    json_decref(w->output);
    memory_free((void *)w->answer.id);
    memory_free((void *)w->answer.model);
    memory_free((void *)w->answer.served_tier);
    memory_free(w);
}
