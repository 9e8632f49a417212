/* prompts.c - conversations and texts as tokens.
 *
 * A conversation that continues a turn adds its new messages to that turn's tokens; one that is
 * sent whole gets the sampled tokens of each earlier turn that it still contains (history.h).
 * Either way the engine finds its pages. */
#include "server/prompts.h"

#include "protocol/tool_guide.h"

static int failed_call(const cerium_error *err, protocol_error *e)
{
    bool ours = err->status == CERIUM_ERR_MEMORY || err->status == CERIUM_ERR_IO;
    return protocol_error_set(e, ours ? 500 : 400, ours ? "server_error" : "invalid_request_error",
                              ours ? NULL : "invalid_value", "", "%s", err->message);
}

static int too_long(const served_model *m, size_t n, const char *how, protocol_error *e)
{
    (void)protocol_error_set(e, 400, "invalid_request_error", "context_length_exceeded", "input",
                             "the input has %s%zu tokens; the model's context window has %u", how,
                             n, m->info.context_tokens_max);
    e->n_tokens = n;
    e->n_tokens_max = m->info.context_tokens_max;
    return CERIUM_ERR_ARGUMENT;
}

size_t prompts_bytes_max(const served_model *m)
{
    uint64_t most = (uint64_t)m->info.context_tokens_max * m->info.token_bytes_max;
    return most ? (size_t)most : SIZE_MAX;
}

/* Text that cannot fit is refused before it is tokenized: many megabytes take seconds. */
static int check_bytes(const served_model *m, size_t n_bytes, protocol_error *e)
{
    if (n_bytes <= prompts_bytes_max(m)) return CERIUM_OK;
    return too_long(m, n_bytes / m->info.token_bytes_max, "at least ", e);
}

/* With truncation only the newest message must fit. */
static size_t request_bytes(const protocol_request *request)
{
    size_t n = 0, i = request->truncate && request->n_messages ? request->n_messages - 1 : 0;
    for (; i < request->n_messages; i++)
        n += request->messages[i].content ? strlen(request->messages[i].content) : 0;
    return n;
}

/* Hash of the instructions, 0 without any. */
static uint64_t hash_instructions(const protocol_request *request)
{
    chain c = {{0, 0}};
    bool any = false;
    for (size_t i = 0; i < request->n_messages; i++)
        if (request->message_item[i] < 0) {
            c = chain_add(c, &request->messages[i]);
            any = true;
        }
    return any ? c.h[0] | 1 : 0;
}

static bool instructs(const cerium_message *m)
{
    return !strcmp(m->role, "system") || !strcmp(m->role, "developer");
}

static bool of_assistant(const cerium_message *m)
{
    return !strcmp(m->role, "assistant") || !strcmp(m->role, "reasoning") ||
           !strcmp(m->role, "call");
}

/* Messages to tokenize, and the turns that some of them contain. */
typedef struct {
    cerium_message *list; /* [n] */
    size_t n;
    const history_turn **turns; /* [n_turns] held */
    size_t n_turns;
} conversation;

static int conversation_open(conversation *t, size_t n_max)
{
    *t = (conversation){.list = memory_alloc((n_max + 1) * sizeof *t->list),
                        .turns = memory_alloc((n_max + 1) * sizeof *t->turns)};
    return t->list && t->turns ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static void conversation_close(conversation *t)
{
    while (t->n_turns) history_release(&t->turns[--t->n_turns]);
    memory_free(t->list);
    memory_free(t->turns);
}

/* The request's messages, with the turns that we sampled as tokens; *c follows the conversation. */
static void splice_turns(history *h, const protocol_request *request, uint64_t tenant,
                         bool skip_answers, conversation *out, chain *c)
{
    for (size_t i = 0, end; i < request->n_messages; i = end) {
        const cerium_message *m = &request->messages[i];
        end = i + 1;
        if (request->message_item[i] < 0) {
            if (!skip_answers) out->list[out->n++] = *m;
            continue;
        }
        *c = chain_add(*c, m);
        if (!of_assistant(m)) {
            out->list[out->n++] = *m;
            continue;
        }
        for (; end < request->n_messages && of_assistant(&request->messages[end]); end++)
            *c = chain_add(*c, &request->messages[end]);
        const history_turn *turn = history_find_chain(h, tenant, *c);
        if (turn) out->turns[out->n_turns++] = turn;
        if (turn && turn->n_tokens > turn->sampled_from)
            out->list[out->n++] =
                (cerium_message){.role = "assistant",
                                 .content = "",
                                 .tokens = turn->tokens + turn->sampled_from,
                                 .n_tokens = turn->n_tokens - turn->sampled_from};
        else
            for (; i < end; i++) out->list[out->n++] = request->messages[i];
    }
}

/* Append the tokens of the conversation after n_base tokens in the buffer. */
static int render(const served_model *m, const prompt_room *room, const protocol_request *request,
                  const conversation *t, size_t n_base, size_t *total, size_t *n_head,
                  cerium_error *err)
{
    cerium_chat chat = {.messages = t->list,
                        .n_messages = t->n,
                        .tools = request->tools,
                        .n_tools = request->tools_barred ? 0 : request->n_tools,
                        .continues = n_base > 0,
                        .after = room->tokens,
                        .n_after = n_base,
                        .open = request->warm_up || request->no_opening,
                        .n_head = n_base ? NULL : n_head,
                        .variables = request->template_variables};
    size_t added = 0;
    int status = cerium_chat_tokens(m->vocab, &chat, room->tokens + n_base,
                                    room->cap - n_base, &added, err);
    *total = n_base + added;
    return status;
}

/* Drop the oldest messages after `kept`; the rest keeps its order. */
static void drop_oldest(conversation *t, size_t kept, size_t n)
{
    t->n -= n;
    memmove(t->list + kept, t->list + kept + n, (t->n - kept) * sizeof *t->list);
}

/* Messages that cannot fit, by their bytes, are dropped before tokenizing; the newest stays. */
static void drop_by_bytes(const served_model *m, conversation *t, size_t kept)
{
    const size_t most = prompts_bytes_max(m);
    size_t n_bytes = 0, first = t->n;
    while (first > kept) {
        const char *text = t->list[first - 1].content;
        n_bytes += text ? strlen(text) : 0;
        if (n_bytes > most && first < t->n) break;
        first--;
    }
    drop_oldest(t, kept, first - kept);
}

/* truncation "auto": drop the oldest messages until the rest fits.  Instructions stay. */
static int render_fitting(const served_model *m, const prompt_room *room,
                          const protocol_request *request, conversation *t, size_t n_base,
                          size_t *total, size_t *n_head, cerium_error *err)
{
    size_t kept = 0; /* leading messages with instructions */
    while (kept < t->n && instructs(&t->list[kept])) kept++;
    if (request->truncate && !n_base) drop_by_bytes(m, t, kept);
    for (;;) {
        int status = render(m, room, request, t, n_base, total, n_head, err);
        bool long_ = status == CERIUM_ERR_CAPACITY ||
                     (!status && *total >= m->info.context_tokens_max);
        if (!long_ || n_base || !request->truncate || t->n - kept < 2) return status;
        /* As large a part as exceeds the bound, but never the newest message. */
        size_t drop = (t->n - kept) * (*total - m->info.context_tokens_max) / *total + 1;
        if (drop > t->n - kept - 1) drop = t->n - kept - 1;
        drop_oldest(t, kept, drop);
    }
}

/* Copy the timeline of a turn into the buffer; *n_head, *in_force: of its head.  New instructions
 * (`said` is their hash) replace those of the turn, if it has any.  CERIUM_ERR_CAPACITY: longer
 * than the context. */
static int take_turn(const served_model *m, const prompt_room *room,
                     const protocol_request *request, uint64_t hash,
                     const history_turn *turn, size_t *n_base, size_t *n_head,
                     uint64_t *in_force, cerium_error *err)
{
    size_t skipped = 0, head = 0, unused;
    *n_head = turn->n_head;
    *in_force = turn->instructions;
    /* Without an old head, a new one might lack the text that joins it to the rest. */
    if (hash != turn->instructions && turn->n_head && turn->n_head != CERIUM_NO_HEAD) {
        cerium_message messages[] = {{.role = "system", .content = ""},
                                     {.role = "user", .content = "."}};
        if (hash) messages[0] = request->messages[0];
        cerium_chat chat = {.messages = hash ? messages : messages + 1,
                            .n_messages = hash ? 2 : 1,
                            .tools = request->tools,
                            .n_tools = request->tools_barred ? 0 : request->n_tools,
                            .open = true,
                            .n_head = &head};
        RETURN_IF(cerium_chat_tokens(m->vocab, &chat, room->tokens, room->cap, &unused,
                                     err));
        if (head != CERIUM_NO_HEAD) {
            skipped = turn->n_head;
            *n_head = head;
            *in_force = hash;
        } else {
            head = 0;
        }
    }
    *n_base = head + turn->n_tokens - skipped;
    if (*n_base >= room->cap) return CERIUM_ERR_CAPACITY;
    memcpy(room->tokens + head, turn->tokens + skipped,
           (turn->n_tokens - skipped) * sizeof *room->tokens);
    return CERIUM_OK;
}

static int add_text(const served_model *m, const prompt_room *room, view text, unsigned flags,
                    size_t *total, cerium_error *err)
{
    size_t n = 0;
    if (!text.len) return CERIUM_OK;
    if (*total >= room->cap) return CERIUM_ERR_CAPACITY;
    int status = cerium_tokenize(m->vocab, text.ptr, text.len, flags,
                                 room->tokens + *total, room->cap - *total, &n, err);
    *total += n;
    return status;
}

/* The beginning of the answer, if the client gives it. */
static int add_prefill(const served_model *m, const prompt_room *room,
                       const protocol_request *request, size_t *total, cerium_error *err)
{
    const view head = protocol_answer_head(request, m->info.chat_form);
    if (request->warm_up) return CERIUM_OK;
    RETURN_IF(add_text(m, room, head, CERIUM_TOKENIZE_SPECIAL, total, err));
    if (!request->prefill) return CERIUM_OK;
    return add_text(m, room, view_of(request->prefill), CERIUM_TOKENIZE_WITHIN, total, err);
}

static int chat_failed(const served_model *m, int status, size_t n, const cerium_error *err,
                       protocol_error *e)
{
    if (status == CERIUM_ERR_CAPACITY || (!status && n >= m->info.context_tokens_max))
        return too_long(m, n, "", e);
    return status ? failed_call(err, e) : CERIUM_OK;
}

int prompts_chat(const served_model *m, const prompt_room *room, protocol_request *request,
                 uint64_t tenant, const history_turn *previous, prompt *out, protocol_error *e)
{
    cerium_error err;
    conversation talk;
    size_t n_base = 0, total = 0, n_head = CERIUM_NO_HEAD;
    uint64_t hash = hash_instructions(request), in_force = hash;
    /* Another model's tokens cannot be found in either of these. */
    chain c = previous ? previous->chain : (chain){{1, m->key_hash}};
    RETURN_IF(check_bytes(m, request_bytes(request), e));
    if (previous && protocol_request_name_results(request, previous->output))
        return protocol_error_memory(e);
    RETURN_IF(protocol_request_check_results(request, e));
    if (previous) {
        int status = take_turn(m, room, request, hash, previous, &n_base, &n_head, &in_force, &err);
        RETURN_IF(chat_failed(m, status, n_base, &err, e));
    }
    bool known = !previous || !chain_none(previous->chain);
    int status = conversation_open(&talk, request->n_messages);
    if (status) {
        (void)error_set(&err, status, "out of memory");
    } else {
        splice_turns(m->s->history, request, tenant, previous && hash == in_force, &talk, &c);
        status = render_fitting(m, room, request, &talk, n_base, &total, &n_head, &err);
        if (!status) status = add_prefill(m, room, request, &total, &err);
    }
    /* A first system message that is not the instructions stays in its place. */
    if (!previous && !hash && talk.n && instructs(&request->messages[0])) n_head = CERIUM_NO_HEAD;
    conversation_close(&talk);
    RETURN_IF(chat_failed(m, status, total, &err, e));
    *out = (prompt){.tokens = room->tokens,
                    .n = total,
                    .chain = known ? c : (chain){{0, 0}},
                    .instructions = hash ? hash : in_force,
                    .n_head = n_head};
    return CERIUM_OK;
}

/* Files that cannot fit, by their bytes, are dropped before tokenizing, the oldest first. */
static void cut_by_bytes(const served_model *m, cerium_infill *in)
{
    const size_t most = prompts_bytes_max(m);
    size_t n_bytes = 0, n = 0;
    if (in->prefix_len > most) {
        in->prefix += in->prefix_len - most;
        in->prefix_len = most;
    }
    if (in->suffix_len > most) in->suffix_len = most;
    for (; n < in->n_files; n++) {
        n_bytes += in->files[in->n_files - 1 - n].text_len;
        if (n_bytes > most) break;
    }
    if (n == in->n_files) return; /* an empty list may have no array */
    in->files += in->n_files - n;
    in->n_files = n;
}

/* Drop the oldest files until about max of n tokens are left. */
static void drop_files(cerium_infill *in, size_t n, size_t max)
{
    size_t n_bytes = in->prefix_len + in->suffix_len, gone = 0;
    for (size_t i = 0; i < in->n_files; i++) n_bytes += in->files[i].text_len;
    const double over = (double)n_bytes * (double)(n - max) / (double)n;
    do {
        gone += in->files->text_len;
        in->files++;
        in->n_files--;
    } while (in->n_files && (double)(gone + in->files->text_len) < over);
}

/* Drop the other files first, the oldest first; then text far from the hole, three bytes of the
 * prefix for one of the suffix. */
static int fit_infill(const served_model *m, const prompt_room *room, cerium_infill in, size_t max,
                      size_t *n, cerium_error *err)
{
    cut_by_bytes(m, &in);
    for (;;) {
        int status = cerium_infill_tokens(m->vocab, &in, room->tokens, max, n, err);
        if (status != CERIUM_ERR_CAPACITY) return status;
        size_t total = in.prefix_len + in.suffix_len;
        if (in.n_files) {
            drop_files(&in, *n, max);
        } else if (!total) {
            return status;
        } else {
            size_t keep = (size_t)((double)total * (double)max / (double)*n * 0.95);
            size_t suffix = keep / 4 < in.suffix_len ? keep / 4 : in.suffix_len;
            size_t prefix = keep - suffix < in.prefix_len ? keep - suffix : in.prefix_len;
            in.prefix += in.prefix_len - prefix;
            in.prefix_len = prefix;
            in.suffix_len = suffix;
        }
    }
}

static int infill_tokens(const served_model *m, const prompt_room *room, const protocol_request *r,
                         view prefix, size_t max, size_t *n, cerium_error *err)
{
    cerium_infill in = r->infill;
    in.prefix = prefix.ptr;
    in.prefix_len = prefix.len;
    if (m->info.fill_in_middle) return fit_infill(m, room, in, max, n, err);
    /* A model that cannot fill in continues the text before the hole. */
    return cerium_tokenize(m->vocab, prefix.ptr, prefix.len, CERIUM_TOKENIZE_BEGIN,
                           room->tokens, room->cap, n, err);
}

/* The text that the answer continues, as tokens; *heal_prefix: the rest, as it may end within a
 * token.  It is empty if tokens were given, or recorded. */
static view text_of(const served_model *m, const protocol_request *r, size_t i, view *heal_prefix)
{
    view text = r->n_prompts ? (view){r->prompts[i], r->prompt_lens[i]}
                             : (view){r->infill.prefix, r->infill.prefix_len};
    *heal_prefix = (view){NULL, 0};
    bool fills = r->fill_in && m->info.fill_in_middle;
    if (r->whole_tokens || r->sampling.logprobs || m->s->replay || protocol_has_format(r))
        return text;
    heal_prefix->len = fills ? cerium_infill_heal_prefix(m->vocab, text.ptr, text.len)
                         : cerium_heal_prefix(m->vocab, text.ptr, text.len);
    text.len -= heal_prefix->len;
    heal_prefix->ptr = text.ptr + text.len;
    return text;
}

/* A text to embed: it ends as the model's file says, and is cut if allowed and too long. */
static int embedded_text(const served_model *m, const prompt_room *room, const protocol_request *r,
                         view text, size_t *n, cerium_error *err)
{
    const bool ends = m->info.text_end >= 0;
    const size_t most = m->info.context_tokens_max - 1 - ends;
    const size_t bytes_max = prompts_bytes_max(m);
    int status;
    if (r->truncate && text.len > bytes_max) text.len = bytes_max;
    for (;;) {
        status = cerium_tokenize(m->vocab, text.ptr, text.len, CERIUM_TOKENIZE_BEGIN,
                                 room->tokens, room->cap, n, err);
        if (status != CERIUM_ERR_CAPACITY || !r->truncate) break;
        text.len = (size_t)((double)text.len * (double)most / (double)*n * 0.95);
    }
    if (!status && *n > most && r->truncate) *n = most;
    if (!status && ends && *n < room->cap) room->tokens[(*n)++] = m->info.text_end;
    return status;
}

static int unknown_token(json_int_t token, const char *param, protocol_error *e)
{
    return protocol_error_set(e, 400, "invalid_request_error", "invalid_value", param,
                              "Invalid token: %" JSON_INTEGER_FORMAT " is not in the vocabulary.",
                              token);
}

static int check_tokens(const served_model *m, const int32_t *tokens, size_t n, const char *param,
                        protocol_error *e)
{
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)tokens[i] >= m->info.n_vocab) return unknown_token(tokens[i], param, e);
    return CERIUM_OK;
}

/* Texts and ids, one after the other; only the first one begins like a prompt. */
static int mixed_tokens(const served_model *m, const prompt_room *room, const json_t *pieces,
                        size_t *n, protocol_error *e)
{
    const json_t *piece;
    size_t i, more = 0;
    cerium_error err;
    json_array_foreach(pieces, i, piece) {
        unsigned flags = CERIUM_TOKENIZE_SPECIAL | (i ? 0 : CERIUM_TOKENIZE_BEGIN);
        if (*n >= room->cap) return too_long(m, *n, "", e);
        if (json_is_integer(piece)) {
            json_int_t token = json_integer_value(piece);
            if (token < 0 || token >= (json_int_t)m->info.n_vocab)
                return unknown_token(token, "prompt", e);
            room->tokens[(*n)++] = (int32_t)token;
            continue;
        }
        RETURN_IF(check_bytes(m, json_string_length(piece), e));
        int status = cerium_tokenize(m->vocab, json_string_value(piece), json_string_length(piece),
                                     flags, room->tokens + *n, room->cap - *n, &more, &err);
        if (status == CERIUM_ERR_CAPACITY) return too_long(m, *n + more, "", e);
        if (status) return failed_call(&err, e);
        *n += more;
    }
    return CERIUM_OK;
}

int prompts_text(const served_model *m, const prompt_room *room, const protocol_request *r,
                 size_t i, prompt *out, protocol_error *e)
{
    cerium_error err;
    size_t n = 0, context = m->info.context_tokens_max;
    size_t wanted = r->new_tokens_max < context / 2 ? r->new_tokens_max : context / 2;
    int status = CERIUM_OK;
    view heal_prefix = {NULL, 0};
    if (r->mixed_prompt) {
        RETURN_IF(mixed_tokens(m, room, r->mixed_prompt, &n, e));
    } else if (r->prompt_tokens && r->prompt_tokens[i]) {
        n = r->prompt_n_tokens[i];
        RETURN_IF(check_tokens(m, r->prompt_tokens[i], n, r->embeds ? "input" : "prompt", e));
        if (n < room->cap) memcpy(room->tokens, r->prompt_tokens[i], n * sizeof *room->tokens);
    } else {
        view text = text_of(m, r, i, &heal_prefix);
        bool cut = r->fill_in && m->info.fill_in_middle;
        if (!cut && !r->truncate) RETURN_IF(check_bytes(m, text.len, e));
        if (r->embeds)
            status = embedded_text(m, room, r, text, &n, &err);
        else if (r->fill_in)
            status = infill_tokens(m, room, r, text, context - wanted - 1, &n, &err);
        else
            status = cerium_tokenize(m->vocab, text.ptr, text.len,
                                     CERIUM_TOKENIZE_SPECIAL | CERIUM_TOKENIZE_BEGIN, room->tokens,
                                     room->cap, &n, &err);
    }
    if (status == CERIUM_ERR_CAPACITY || (!status && n >= context)) return too_long(m, n, "", e);
    if (status) return failed_call(&err, e);
    if (!n)
        return protocol_error_set(e, 400, "invalid_request_error", "invalid_value",
                                  r->embeds ? "input" : "prompt", "the %s is empty",
                                  r->embeds ? "text" : "prompt");
    *out = (prompt){.tokens = room->tokens, .n = n, .heal_prefix = heal_prefix};
    return CERIUM_OK;
}

int prompts_tokenize(const served_model *m, view text, unsigned flags, int32_t **out, size_t *n,
                    protocol_error *e)
{
    cerium_error err;
    size_t cap = text.len / 2 + 16;
    for (;;) {
        int32_t *tokens = memory_alloc(cap * sizeof *tokens);
        if (!tokens) return protocol_error_memory(e);
        int status =
            cerium_tokenize(m->vocab, text.ptr, text.len, flags, tokens, cap, n, &err);
        if (!status) {
            *out = tokens;
            return CERIUM_OK;
        }
        memory_free(tokens);
        if (status != CERIUM_ERR_CAPACITY) return failed_call(&err, e);
        cap = *n;
    }
}
