/* writer.c - the model's text becomes pieces, and pieces become the events of an API. */
#include "protocol/writer.h"

#include "base/json.h"

/* ---- pieces ---- */

/* Emit the text of the open piece up to end. */
static void send_until(protocol_writer *w, writer_choice *c, size_t end)
{
    if (end == c->sent || w->status) return;
    view text = {c->text.ptr + c->sent, end - c->sent};
    c->sent = end;
    if (w->api->delta) w->api->delta(w, c, text);
}

static void piece_close(protocol_writer *w, writer_choice *c, bool whole)
{
    if (c->piece != PIECE_NONE) {
        send_until(w, c, c->text.len);
        c->n_whole += c->piece == PIECE_CALL && whole;
        if (w->api->close) w->api->close(w, c, whole);
    }
    c->piece = c->waiting = PIECE_NONE;
    w->steered_from = 0;
    c->blank.len = c->text.len = c->sent = 0;
    json_out_clear(&c->tokens.all);
}

static void piece_open(protocol_writer *w, writer_choice *c, piece_kind kind)
{
    c->piece = kind;
    if (w->api->open) w->api->open(w, c);
}

/* Bytes of an unfinished character at the end of text, 0..3: a reader's parts may end in one. */
static size_t cut_off_char(view text)
{
    for (size_t n = 1; n <= 3 && n <= text.len; n++) {
        uint8_t c = (uint8_t)text.ptr[text.len - n];
        if (c >= 0xC0) return n < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) ? n : 0;
        if (c < 0x80) return 0;
    }
    return 0;
}

static void piece_delta(protocol_writer *w, writer_choice *c, view text)
{
    if (!w->status) w->status = bytes_append(&c->text, text.ptr, text.len);
    if (!w->status) send_until(w, c, c->text.len - cut_off_char((view){c->text.ptr, c->text.len}));
}

static bool is_blank(view text) { return !view_trim_start(text, " \t\r\n").len; }

/* A run of blanks alone, as models put between thoughts and calls, is not a piece. */
static int piece_text(protocol_writer *w, writer_choice *c, piece_kind kind, view text)
{
    if (c->piece != kind && c->waiting != kind) {
        piece_close(w, c, true);
        c->waiting = kind;
    }
    if (c->piece == PIECE_NONE) {
        RETURN_IF(bytes_append(&c->blank, text.ptr, text.len));
        if (is_blank(text)) return CERIUM_OK;
        text = (view){c->blank.ptr, c->blank.len};
        piece_open(w, c, kind);
    }
    if (w->has_logprobs)
        RETURN_IF(token_queue_take(&c->tokens, text, kind == PIECE_TEXT));
    piece_delta(w, c, text);
    return w->status;
}

static const struct protocol_tool *tool_named(const protocol_request *r, view name)
{
    for (size_t i = 0; i < r->n_tools; i++)
        if (view_equal(view_of(r->tools[i].name), name)) return &r->tool_set->facts[i];
    return NULL;
}

static int call_open(protocol_writer *w, writer_choice *c, view name)
{
    piece_close(w, c, true);
    c->call_name.len = 0;
    RETURN_IF(bytes_append(&c->call_name, name.ptr, name.len));
    c->tool = tool_named(w->r, name);
    uint32_t n = c->n_calls++;
    if (w->n_choices > 1)
        snprintf(c->call_id, sizeof c->call_id, "call_%.64s_%u_%u", w->suffix, c->index, n);
    else
        snprintf(c->call_id, sizeof c->call_id, "call_%.64s_%u", w->suffix, n);
    piece_open(w, c, PIECE_CALL);
    return w->status;
}

typedef struct {
    protocol_writer *w;
    writer_choice *c;
} reading;

/* Text after the only allowed call is dropped. */
static int ignore_part(reading *r, const cerium_part *part)
{
    if (part->kind == CERIUM_PART_CALL) r->c->enough = true;
    if (r->w->has_logprobs) token_queue_drop(&r->c->tokens);
    return r->w->status;
}

static int on_part(void *user, const cerium_part *part)
{
    reading *r = user;
    if (r->w->r->one_call && r->c->n_calls && r->c->piece != PIECE_CALL)
        return ignore_part(r, part);
    const view text = {part->text, part->text_len};
    bool is_text = part->kind == CERIUM_PART_TEXT || part->kind == CERIUM_PART_REASONING;
    if (r->w->has_logprobs && !is_text) token_queue_drop(&r->c->tokens);
    if (is_text && !text.len) return r->w->status;
    switch (part->kind) {
    case CERIUM_PART_TEXT: return piece_text(r->w, r->c, PIECE_TEXT, text);
    case CERIUM_PART_REASONING: return piece_text(r->w, r->c, PIECE_REASONING, text);
    case CERIUM_PART_CALL: return call_open(r->w, r->c, text);
    case CERIUM_PART_ARGUMENTS:
        if (r->c->piece == PIECE_CALL && text.len) piece_delta(r->w, r->c, text);
        return r->w->status;
    case CERIUM_PART_CALL_END:
        if (r->c->piece == PIECE_CALL) piece_close(r->w, r->c, true);
        return r->w->status;
    }
    return r->w->status;
}

/* ---- the answer ---- */

void protocol_writer_input(protocol_writer *w, uint32_t n_tokens) { w->input_tokens = n_tokens; }

int protocol_writer_begin(protocol_writer *w)
{
    if (!w->status && w->api->begin) w->api->begin(w);
    return w->status;
}

void protocol_writer_runs(protocol_writer *w)
{
    if (!w || w->runs) return;
    w->runs = true;
    if (!w->status && w->api->runs && w->n_ended < w->n_choices) w->api->runs(w);
}

/* All is text.  The engine looks for the stop strings of Completions and infill. */
static int feed_bare(protocol_writer *w, writer_choice *c, view text)
{
    bytes shown = {.max = SIZE_MAX};
    bool hit = false;
    if (c->piece == PIECE_NONE) piece_open(w, c, PIECE_TEXT);
    if (!protocol_writer_stops(w->r) || !w->r->sampling.n_stops) {
        piece_delta(w, c, text);
        return w->status;
    }
    RETURN_IF(bytes_reserve(&shown, STOP_HELD_MAX + text.len));
    size_t n = c->stopped_by ? 0
                             : stop_feed(&c->stop, w->r->stops, w->r->sampling.n_stops, text,
                                         shown.ptr, &hit);
    if (n) piece_delta(w, c, (view){shown.ptr, n});
    if (hit) c->stopped_by = w->r->stops[c->stop.which];
    bytes_free(&shown);
    return w->status;
}

static int feed(protocol_writer *w, writer_choice *c, view text)
{
    reading r = {w, c};
    if (!c->reader) return feed_bare(w, c, text);
    RETURN_IF(cerium_reader_feed(c->reader, text.ptr, text.len, on_part, &r));
    c->stopped_by = cerium_reader_stopped_by(c->reader);
    return CERIUM_OK;
}

/* With logprobs the reader is fed token by token, so that the caller's cuts, which may hold back
 * text, do not decide which tokens go together. */
static int feed_tokens(protocol_writer *w, writer_choice *c, view text,
                       const protocol_token *tokens, size_t n_tokens)
{
    for (size_t i = 0; i < n_tokens; i++) {
        token_text_fn *name = w->answer.token_text;
        RETURN_IF(c->reader ? token_queue_add(&c->tokens, &tokens[i], name, w->answer.user)
                            : legacy_add(&c->legacy, &tokens[i], name, w->answer.user));
    }
    if (!c->reader) return feed(w, c, text);
    while (text.len) {
        size_t len = token_queue_cut(&c->tokens, text);
        RETURN_IF(feed(w, c, (view){text.ptr, len}));
        text = (view){text.ptr + len, text.len - len};
    }
    return CERIUM_OK;
}

int protocol_writer_text(protocol_writer *w, uint32_t choice, view text,
                         const protocol_token *tokens, size_t n_tokens)
{
    CHECK(choice < w->n_choices);
    writer_choice *c = &w->choices[choice];
    if (w->status || c->ended) return w->status;
    bytes repaired = {.max = PROTOCOL_ANSWER_BYTES_MAX};
    int status = CERIUM_OK;
    if (!utf8_valid(text)) {
        status = utf8_repair(&repaired, text);
        text = (view){repaired.ptr, repaired.len};
    }
    if (!status && w->has_logprobs)
        status = feed_tokens(w, c, text, tokens, n_tokens);
    else if (!status && text.len)
        status = feed(w, c, text);
    bytes_free(&repaired);
    if (c->piece == PIECE_REASONING || c->waiting == PIECE_REASONING)
        w->reasoning_tokens += n_tokens ? (uint32_t)n_tokens : 1;
    if (status && !w->status) w->status = status;
    return w->status;
}

bool protocol_writer_stops(const protocol_request *r)
{
    return r->api != PROTOCOL_COMPLETIONS && r->api != PROTOCOL_INFILL &&
           r->api != PROTOCOL_EDITS;
}

bool protocol_writer_thinks(const protocol_writer *w, uint32_t choice)
{
    CHECK(choice < w->n_choices);
    const writer_choice *c = &w->choices[choice];
    return c->reader && cerium_reader_is_thinking(c->reader);
}

bool protocol_writer_enough(const protocol_writer *w, uint32_t choice)
{
    CHECK(choice < w->n_choices);
    const writer_choice *c = &w->choices[choice];
    bool called = w->r->one_call && c->n_calls && c->piece != PIECE_CALL;
    return c->stopped_by || c->enough || (called && cerium_reader_is_saying(c->reader));
}

int protocol_writer_part(protocol_writer *w, uint32_t choice, protocol_part kind, view text)
{
    _Static_assert((int)PROTOCOL_PART_CALL_END == (int)CERIUM_PART_CALL_END &&
                   (int)PROTOCOL_PART_CALL == (int)CERIUM_PART_CALL, "one set of kinds");
    CHECK(choice < w->n_choices);
    writer_choice *c = &w->choices[choice];
    reading r = {w, c};
    if (w->status || c->ended) return w->status;
    int status = on_part(&r, &(cerium_part){.kind = (cerium_part_kind)kind,
                                        .text = text.ptr,
                                        .text_len = text.len});
    if (status && !w->status) w->status = status;
    return w->status;
}

int protocol_writer_beat(protocol_writer *w, const protocol_progress *p)
{
    if (!w->status && w->n_ended < w->n_choices && w->api->beat) w->api->beat(w, p);
    return w->status;
}

int protocol_writer_progress(protocol_writer *w, const protocol_progress *p)
{
    if (!w->status && w->n_ended < w->n_choices && w->api->progress) w->api->progress(w, p);
    return w->status;
}

/* Prompts are counted once, however many answers they have. */
static void add_usage(protocol_writer *w, const writer_choice *c, const protocol_usage *usage)
{
    protocol_usage *sum = &w->usage;
    if (c->index % w->r->n_choices == 0) {
        sum->input_tokens += usage->input_tokens;
        sum->cached_tokens += usage->cached_tokens;
    }
    sum->output_tokens += usage->output_tokens;
    sum->reasoning_tokens += usage->reasoning_tokens;
    sum->accepted_tokens += usage->accepted_tokens;
    sum->rejected_tokens += usage->rejected_tokens;
    sum->logprob += usage->logprob;
    if (!sum->first_ns) sum->first_ns = usage->first_ns;
    if (usage->reason) sum->reason = usage->reason;
    if (usage->prompt_ns > sum->prompt_ns) sum->prompt_ns = usage->prompt_ns;
    if (usage->predict_ns > sum->predict_ns) sum->predict_ns = usage->predict_ns;
    if (usage->queue_ns > sum->queue_ns) sum->queue_ns = usage->queue_ns;
}

/* Emit text that was held back.  whole: the model ended it. */
static int end_text(protocol_writer *w, writer_choice *c, bool whole)
{
    char held[STOP_HELD_MAX];
    reading r = {w, c};
    if (c->reader) return cerium_reader_end(c->reader, whole && !c->stopped_by, on_part, &r);
    size_t n = stop_flush(&c->stop, held);
    if (n) piece_delta(w, c, (view){held, n});
    return w->status;
}

/* The watchdog ends the answer: its last words are added, and then it ends like any other. */
static int tell_verdict(protocol_writer *w, writer_choice *c)
{
    bytes text = {.max = PROTOCOL_ANSWER_BYTES_MAX};
    int status = verdict_words(c, &text);
    c->sent_verdict = true;
    json_out_clear(&c->tokens.taken);
    if (!status && c->piece != PIECE_TEXT) {
        piece_close(w, c, false);
        piece_open(w, c, PIECE_TEXT);
    }
    if (!status) piece_delta(w, c, (view){text.ptr, text.len});
    if (status || w->status) {
        bytes_free(&text);
        return status ? status : w->status;
    }
    bytes_free(&c->verdict);
    c->verdict = text; /* for the log of tokens */
    return CERIUM_OK;
}

/* The model ended within a call, which is dropped: the answer is incomplete. */
static bool cut_call(const writer_choice *c)
{
    return c->piece == PIECE_CALL || (c->reader && cerium_reader_cut_call(c->reader));
}

int protocol_writer_end(protocol_writer *w, uint32_t choice, protocol_end end,
                        const protocol_usage *usage, const protocol_error *error)
{
    CHECK(choice < w->n_choices && usage);
    writer_choice *c = &w->choices[choice];
    if (w->status || c->ended) return w->status;
    /* The only allowed call is complete, even if more text began after it. */
    const bool has_all = w->r->one_call && c->n_whole && c->piece == PIECE_NONE;
    const bool is_whole = has_all || protocol_writer_enough(w, choice);
    if (has_all && (end == PROTOCOL_END_LENGTH || end == PROTOCOL_END_CONTEXT))
        end = PROTOCOL_END_STOP;
    w->status = end_text(w, c, end == PROTOCOL_END_STOP);
    if (w->status) return w->status;
    bool is_cut = end == PROTOCOL_END_STOP && !is_whole && cut_call(c);
    if (verdict_is_sent(w, c, end)) {
        w->status = tell_verdict(w, c);
        end = PROTOCOL_END_STOP;
    }
    piece_close(w, c, end == PROTOCOL_END_STOP && c->piece != PIECE_CALL);
    c->ended = true;
    c->end = is_cut ? PROTOCOL_END_LENGTH : end;
    c->logprob = usage->logprob;
    c->score = usage->output_tokens ? usage->logprob / usage->output_tokens : 0;
    if (end == PROTOCOL_END_FAILED && error) w->error = *error;
    add_usage(w, c, usage);
    if (w->api->end_choice) w->api->end_choice(w, c);
    if (++w->n_ended < w->n_choices) return w->status;
    if (!w->usage.reasoning_tokens) w->usage.reasoning_tokens = w->reasoning_tokens;
    if (w->api->end) w->api->end(w);
    return w->status;
}

/* ---- the whole object ---- */

int protocol_writer_body(const protocol_writer *w, bytes *out)
{
    json_out t = {.b = *out};
    if (w->status) return w->status;
    w->api->body(w, &t);
    *out = t.b;
    return t.status;
}

json_t *protocol_writer_object(const protocol_writer *w)
{
    bytes body = {.max = 4u * PROTOCOL_ANSWER_BYTES_MAX};
    json_t *object = NULL;
    if (!protocol_writer_body(w, &body))
        object = json_read((view){body.ptr, body.len}, JSON_ALLOW_NUL, NULL);
    bytes_free(&body);
    return object;
}

json_t *protocol_writer_output(protocol_writer *w)
{
    if (w->output && w->output_bytes == w->items.b.len) return w->output;
    json_out list = {.b.max = 2u * PROTOCOL_ANSWER_BYTES_MAX};
    json_out_literal(&list, "[");
    json_out_put(&list, json_out_view(&w->items));
    json_out_literal(&list, "]");
    json_decref(w->output);
    w->output = list.status ? NULL : json_read(json_out_view(&list), JSON_ALLOW_NUL, NULL);
    w->output_bytes = w->items.b.len;
    json_out_free(&list);
    return w->output;
}
