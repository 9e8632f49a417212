/* lsp_engine_candidates.c - several different texts for one place: the likeliest, whose tokens say
 * where others were likely, too, then those others (protocol/hole_branches.h), as rows of the same
 * passes.
 *
 * Their prompt is one, and computed already if it is that of what is shown.  The watch drops weak
 * lines; nothing is written again here. */
#include "programs/lsp_host.h"

#include "protocol/hole_branches.h"
#include "protocol/infill_stop.h"

enum { NEW_TOKENS = 64, TEXT_BYTES_MAX = 16 << 10, SENT_BYTES_MAX = 8 << 20 };

/* One text.  row[0] is the likeliest. */
typedef struct {
    lsp_candidates *all;
    cerium_session *session; /* NULL: not begun, or closed */
    bool runs, is_over;      /* over: it has all its text */
    bool is_cut, is_bad;     /* bad: weak, or failed */
    watch *watch;
    infill_stop stop;
    bytes text, pieces;      /* pieces: of lsp_piece */
    double logprob;          /* of tokens whose text is held back */
} row;

struct lsp_candidates {
    cerium_engine *engine;
    cerium_engine_info info;
    size_t prompt_tokens;
    watchdog *watchdog;
    lsp_bell *bell;
    uint64_t document, serial; /* serial 0: no order */
    uint32_t n_wanted;
    bool is_line;
    guard_language language;
    bytes before, after;
    int32_t *prompt;           /* [n_prompt] owned */
    size_t n_prompt, n_heal;
    branch_path path;
    branch branches[BRANCHES_MAX];
    row rows[LSP_CANDIDATE_ROWS]; /* [n] */
    uint32_t n;
};

int lsp_candidates_open(lsp_candidates **out, cerium_engine *engine, size_t prompt_tokens,
                        watchdog *g, lsp_bell *bell, cerium_error *err)
{
    lsp_candidates *c = memory_zalloc(1, sizeof *c);
    if (!c) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    c->engine = engine;
    c->prompt_tokens = prompt_tokens;
    c->watchdog = g;
    c->bell = bell;
    c->before.max = c->after.max = SENT_BYTES_MAX;
    cerium_engine_describe(engine, &c->info);
    *out = c;
    return CERIUM_OK;
}

/* A running session is canceled, and waited for: at most a layer of its pass. */
static void close_row(row *r)
{
    cerium_session_close(&r->session);
    watch_close(&r->watch);
    infill_stop_close(&r->stop);
    bytes_free(&r->text);
    bytes_free(&r->pieces);
    *r = (row){.runs = false};
}

static void end_order(lsp_candidates *c)
{
    for (uint32_t i = 0; i < c->n; i++) close_row(&c->rows[i]);
    if (c->n > 1) memory_trim();
    c->n = 0;
    c->serial = c->document = 0;
    memory_free(c->prompt);
    c->prompt = NULL;
}

void lsp_candidates_close(lsp_candidates **candidates)
{
    if (!candidates || !*candidates) return;
    lsp_candidates *c = *candidates;
    end_order(c);
    bytes_free(&c->before);
    bytes_free(&c->after);
    memory_free(c);
    *candidates = NULL;
}

void lsp_candidates_cancel(lsp_candidates *c, uint64_t document)
{
    if (c->serial && c->document == document) end_order(c);
}

/* ---- one row ---- */

static view view_in(const bytes *b) { return (view){b->ptr ? b->ptr : "", b->len}; }

/* b: what it does not begin with; NULL: the likeliest text, whose other tokens are asked for. */
static int begin_row(lsp_candidates *c, const branch *b, cerium_error *err)
{
    row *r = &c->rows[c->n++];
    const view before = view_in(&c->before);
    const view heal = {before.ptr + before.len - c->n_heal, c->n_heal};
    const cerium_sampling sampling = {.logprobs = true, .pointer = c->info.pointer};
    const cerium_resume resume = {.heal_prefix = heal.ptr, .n_heal = heal.len,
                                  .avoid = b ? b->avoid : NULL, .n_avoid = b ? b->n_avoid : 0};
    const cerium_request q = {.tokens = c->prompt, .n_tokens = c->n_prompt,
                              .new_tokens_max = NEW_TOKENS, .sampling = &sampling,
                              .class_ = CERIUM_CLASS_COMPLETION,
                              .top_logprobs = b ? 0 : BRANCH_TOP,
                              .resume = heal.len || b ? &resume : NULL,
                              .notify = lsp_bell_ring, .user = c->bell};
    const watch_config how = {.engine = c->engine, .form = GUARD_CODE, .language = c->language,
                              .before = before, .heal_prefix = heal, .logprobs = true};
    *r = (row){.all = c, .text = {.max = TEXT_BYTES_MAX}, .pieces = {.max = TEXT_BYTES_MAX}};
    if (infill_stop_open(&r->stop, before, view_in(&c->after), 0, true))
        return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    RETURN_IF(cerium_session_open(&r->session, c->engine, NULL, err));
    RETURN_IF(watchdog_watch(c->watchdog, &r->watch, how, err));
    RETURN_IF(cerium_session_start(r->session, &q, err));
    r->runs = true;
    return CERIUM_OK;
}

/* Text of the answer, maybe none yet. */
static int put(row *r, view text)
{
    const lsp_piece piece = {(uint32_t)text.len, (float)r->logprob};
    if (!text.len) return CERIUM_OK;
    r->logprob = 0;
    RETURN_IF(bytes_append(&r->pieces, &piece, sizeof piece));
    return bytes_append(&r->text, text.ptr, text.len);
}

static bool is_blank(const row *r)
{
    return !view_trim(view_in(&r->text), " \t\r\n").len;
}

static view view_to(view text, const char *end)
{
    return (view){text.ptr, (size_t)(end - text.ptr)};
}

/* A piece: what the hole's ends let through, and of a line that line. */
static void take_piece(void *user, view text, double logprob)
{
    row *r = user;
    bytes show = {.max = TEXT_BYTES_MAX};
    if (r->is_over || r->is_bad) return;
    r->logprob += logprob;
    int status = infill_stop_feed(&r->stop, text, &show);
    const view shown = view_in(&show);
    const char *end = shown.len ? memchr(shown.ptr, '\n', shown.len) : NULL;
    while (end && is_blank(r) && !view_trim(view_to(shown, end), " \t\n").len)
        end = memchr(end + 1, '\n', shown.len - (size_t)(end + 1 - shown.ptr));
    const bool is_whole = r->all->is_line && end;
    if (!status) status = put(r, is_whole ? view_to(shown, end) : shown);
    r->is_bad |= status != CERIUM_OK;
    r->is_over |= is_whole || r->stop.end != INFILL_STOP_NONE;
    bytes_free(&show);
}

static void take_watched(row *r, const watch_result *out)
{
    lsp_watched_pieces(r->all->engine, out, take_piece, r);
    if (out->order == CERIUM_WATCH_RETRY && !r->is_over) r->is_bad = true;
    if (out->order == CERIUM_WATCH_END) r->is_over = true;
}

static void take_step(row *r, const cerium_event *event)
{
    lsp_candidates *c = r->all;
    const cerium_step *step = &event->step;
    watch_result out;
    if (r->is_over || r->is_bad) return;
    if (r == c->rows)
        branch_path_add(&c->path, step->tokens[0], step->logprobs[0], event->top, event->n_top);
    if (!r->watch)
        take_piece(r, (view){step->text, step->text_len}, (double)step->logprobs[0]);
    else if (watch_step(r->watch, step, event->top, event->n_top, &out))
        r->is_bad = true;
    else
        take_watched(r, &out);
    if (r->is_over || r->is_bad) cerium_session_cancel(r->session);
}

static void take_done(row *r, const cerium_event *event)
{
    bytes show = {.max = TEXT_BYTES_MAX};
    watch_result out;
    r->runs = false;
    r->is_bad |= event->status && event->status != CERIUM_ERR_CANCELED;
    if (!r->is_over && !r->is_bad && r->watch) {
        if (watch_finish(r->watch, &out)) r->is_bad = true;
        else take_watched(r, &out);
    }
    r->is_cut = !r->is_over && event->stop == CERIUM_STOP_NONE;
    if (!r->is_over && !r->is_bad)
        r->is_bad = infill_stop_finish(&r->stop, &show) || put(r, view_in(&show));
    bytes_free(&show);
}

/* ---- all of them ---- */

int lsp_candidates_begin(lsp_candidates *c, const lsp_order *o, cerium_error *err)
{
    end_order(c);
    c->before.len = c->after.len = 0;
    c->path.n = 0;
    c->n_wanted = o->n_candidates;
    c->is_line = o->is_line;
    c->language = o->language;
    c->n_heal = lsp_prompt_heal(c->engine, &c->info, o);
    int status = bytes_append(&c->before, o->before.ptr, o->before.len);
    if (!status) status = bytes_append(&c->after, o->after.ptr, o->after.len);
    if (status) (void)error_set(err, status, "no memory for the text");
    if (!status)
        status = lsp_prompt_make(c->engine, &c->info, c->prompt_tokens, o, c->n_heal, &c->prompt,
                                 &c->n_prompt, err);
    if (!status) status = begin_row(c, NULL, err);
    if (status) {
        end_order(c);
        return status;
    }
    c->document = o->document;
    c->serial = o->serial;
    return CERIUM_OK;
}

/* Twice as many as are wanted, where rows allow it: some repeat another one.  Those that cannot
 * begin are left out. */
static void begin_branches(lsp_candidates *c)
{
    cerium_error unused;
    uint32_t n = 2 * (c->n_wanted - 1);
    if (n > LSP_CANDIDATE_ROWS - 1) n = LSP_CANDIDATE_ROWS - 1;
    n = branches_find(&c->path, c->branches, n);
    for (uint32_t i = 0; i < n; i++)
        if (begin_row(c, &c->branches[i], &unused)) close_row(&c->rows[--c->n]);
}

static void tell(lsp_candidates *c, lsp_server *s)
{
    lsp_candidate list[LSP_CANDIDATE_ROWS];
    size_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const row *r = &c->rows[i];
        if (r->is_bad || is_blank(r)) continue;
        list[n++] = (lsp_candidate){.text = view_in(&r->text),
                                    .pieces = (const lsp_piece *)(const void *)r->pieces.ptr,
                                    .n_pieces = r->pieces.len / sizeof(lsp_piece),
                                    .is_cut = r->is_cut};
    }
    const uint64_t document = c->document, serial = c->serial;
    c->serial = 0; /* the answer may begin another order */
    lsp_server_candidates(s, document, serial, list, n, clock_ns());
    if (!c->serial) end_order(c);
}

void lsp_candidates_look(lsp_candidates *c, lsp_server *s)
{
    bool runs = false;
    if (!c->serial) return;
    for (uint32_t i = 0; i < c->n; i++) {
        cerium_event event = {0};
        row *r = &c->rows[i];
        while (r->runs) {
            cerium_session_poll(r->session, &event);
            if (event.kind == CERIUM_EVENT_NONE) break;
            if (event.kind == CERIUM_EVENT_DONE) take_done(r, &event);
            else take_step(r, &event);
        }
        runs |= r->runs;
    }
    if (runs) return;
    const bool was_first = c->n == 1 && c->path.n;
    if (was_first) begin_branches(c);
    if (c->n == 1 || !was_first) tell(c, s);
}
