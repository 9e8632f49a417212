/* lsp_predict.c - next edits of `cerium lsp` by the model in this process, in the form that its
 * makers chose: one at a time; a newer question cancels the older. */
#include "programs/lsp_host.h"

enum { JUDGED_BEFORE_BYTES = 64 << 10 };

/* A question; owned. */
typedef struct {
    uint64_t document, serial; /* serial 0: nothing waits for it */
    next_edit_place place;
    next_edit_change changes[NEXT_EDIT_CHANGES_MAX];
    char *texts;
} question;

struct lsp_predictor {
    cerium_engine *engine;
    lsp_predicting how;
    watchdog *watchdog;
    lsp_bell *bell;
    size_t context_tokens;
    cerium_session *session;
    bool runs;
    question now, next; /* next: starts when the running one has ended; texts NULL: none */
    next_edit_prompt prompt;
    bytes answer;
};

/* ---- questions ---- */

static view put(char **at, view text)
{
    const view kept = {text.ptr ? *at : NULL, text.len};
    if (text.len) memcpy(*at, text.ptr, text.len);
    *at += text.len;
    return kept;
}

static void forget(question *q)
{
    memory_free(q->texts);
    *q = (question){.texts = NULL};
}

static bool keep(question *q, const lsp_predict_order *o)
{
    const next_edit_place *from = &o->place;
    size_t total = from->path.len + from->text.len + from->original.len + 1;
    if (from->n_changes > NEXT_EDIT_CHANGES_MAX) return false;
    for (size_t i = 0; i < from->n_changes; i++)
        total += from->changes[i].path.len + from->changes[i].diff.len;
    char *at = memory_alloc(total);
    if (!at) return false;
    forget(q);
    *q = (question){.document = o->document, .serial = o->serial, .texts = at};
    q->place = (next_edit_place){.path = put(&at, from->path), .text = put(&at, from->text),
                                 .caret = from->caret, .original = put(&at, from->original),
                                 .n_changes = from->n_changes};
    for (size_t i = 0; i < from->n_changes; i++)
        q->changes[i] = (next_edit_change){put(&at, from->changes[i].path),
                                           put(&at, from->changes[i].diff),
                                           from->changes[i].is_accepted};
    return true;
}

/* ---- asking ---- */

/* Owned tokens of a text; NULL: out of memory, or more than at most. */
static int32_t *tokens_of(const lsp_predictor *p, view text, unsigned flags, size_t most, size_t *n)
{
    cerium_error err;
    int32_t *tokens = NULL;
    int status = cerium_tokenize(p->engine, text.ptr, text.len, flags, NULL, 0, n, &err);
    if ((!status || status == CERIUM_ERR_CAPACITY) && *n && *n <= most)
        tokens = memory_alloc(*n * sizeof *tokens);
    if (tokens && cerium_tokenize(p->engine, text.ptr, text.len, flags, tokens, *n, n, &err)) {
        memory_free(tokens);
        tokens = NULL;
    }
    return tokens;
}

/* Tokens of a recorded answer; NULL: there is none. */
static int32_t *replayed(const lsp_predictor *p, size_t *n)
{
    cerium_error err;
    int32_t *tokens = NULL;
    bytes text = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    if (p->how.replay && !read_file(p->how.replay, &text, &err))
        tokens = tokens_of(p, (view){text.ptr ? text.ptr : "", text.len}, 0, NEXT_EDIT_NEW_TOKENS,
                           n);
    bytes_free(&text);
    return tokens;
}

static int start(lsp_predictor *p)
{
    const next_edit_place *place = &p->now.place;
    const view prompt = {p->prompt.text.ptr, p->prompt.text.len};
    const view window = {place->text.ptr + p->prompt.from, p->prompt.to - p->prompt.from};
    const cerium_sampling sampling = {.stops = p->prompt.stops, .n_stops = p->prompt.n_stops};
    cerium_error err;
    size_t n = 0, n_window = 0, n_script = 0;
    int32_t *tokens = tokens_of(p, prompt, CERIUM_TOKENIZE_SPECIAL | CERIUM_TOKENIZE_BEGIN,
                                p->context_tokens - NEXT_EDIT_NEW_TOKENS, &n);
    if (!tokens) return CERIUM_ERR_CAPACITY;
    int32_t *script = replayed(p, &n_script);
    int32_t *same = tokens_of(p, window, 0, NEXT_EDIT_NEW_TOKENS, &n_window); /* most of it stays */
    const cerium_request q = {.tokens = tokens, .n_tokens = n, .sampling = &sampling,
                              .new_tokens_max = NEXT_EDIT_NEW_TOKENS, .class_ = CERIUM_CLASS_EDIT,
                              .prediction = same, .n_prediction = same ? n_window : 0,
                              .script = script, .n_script = script ? n_script : 0,
                              .notify = lsp_bell_ring, .user = p->bell};
    int status = CERIUM_OK;
    if (!p->session) status = cerium_session_open(&p->session, p->engine, NULL, &err);
    if (!status) status = cerium_session_start(p->session, &q, &err);
    memory_free(tokens);
    memory_free(same);
    memory_free(script);
    return status;
}

/* False: no question is possible there. */
static bool begin(lsp_predictor *p)
{
    const char *why = NULL;
    p->answer.len = 0;
    p->now.place.changes = p->now.changes;
    next_edit_close(&p->prompt);
    if (next_edit_ask(&p->prompt, p->how.form, &p->now.place, &why) || why) return false;
    p->runs = !start(p);
    return p->runs;
}

bool lsp_predictor_ask(lsp_predictor *p, const lsp_predict_order *order)
{
    if (!keep(p->runs ? &p->next : &p->now, order)) return false;
    if (!p->runs) return begin(p);
    p->now.serial = 0;
    cerium_session_cancel(p->session);
    return true;
}

/* ---- answers ---- */

/* Does the watchdog block any of the new lines? */
static bool is_weak(const lsp_predictor *p, const next_edit *e)
{
    const view text = p->now.place.text, path = p->now.place.path;
    const guard_stream_config config = {.form = GUARD_CODE,
                                        .language = guard_language_of_path(path),
                                        .is_text = guard_path_is_text(path),
                                        .allow_comments = true, .path = path};
    cerium_error err;
    size_t end = 0;
    for (uint32_t line = 0; line < e->line && end < text.len; end++) line += text.ptr[end] == '\n';
    const size_t begin = end > JUDGED_BEFORE_BYTES ? end - JUDGED_BEFORE_BYTES : 0;
    return watchdog_judge(p->watchdog, &config, (view){text.ptr + begin, end - begin}, e->text,
                          "the edit", "is left out", &err) != CERIUM_OK;
}

static void tell(lsp_predictor *p, lsp_server *s, bool is_whole)
{
    const char *why = NULL;
    next_edits edits = {.n = 0};
    int status = next_edit_read(&edits, &p->now.place, &p->prompt,
                                (view){p->answer.ptr ? p->answer.ptr : "", p->answer.len}, is_whole,
                                &why);
    const bool says = !status && !why && edits.n && !is_weak(p, &edits.list[0]);
    lsp_server_predicted(s, p->now.document, p->now.serial, edits.list, says ? edits.n : 0);
    next_edits_close(&edits);
}

static void done(lsp_predictor *p, lsp_server *s, const cerium_event *event)
{
    const bool is_whole = !event->status && (event->stop == CERIUM_STOP_END ||
                                             event->stop == CERIUM_STOP_TEXT);
    p->runs = false;
    if (p->now.serial) tell(p, s, is_whole);
    forget(&p->now);
    if (!p->next.texts) return;
    p->now = p->next;
    p->next = (question){.texts = NULL};
    if (!begin(p)) lsp_server_predicted(s, p->now.document, p->now.serial, NULL, 0);
}

void lsp_predictor_look(lsp_predictor *p, lsp_server *s)
{
    cerium_event event = {0};
    while (p->runs) {
        cerium_session_poll(p->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return;
        if (event.kind == CERIUM_EVENT_DONE) done(p, s, &event);
        else if (bytes_append(&p->answer, event.step.text, event.step.text_len))
            cerium_session_cancel(p->session); /* an answer cut at its limit proposes nothing */
    }
}

/* ---- open and close ---- */

int lsp_predictor_open(lsp_predictor **out, cerium_engine *engine, lsp_predicting how,
                       watchdog *g, lsp_bell *bell)
{
    cerium_engine_info info;
    lsp_predictor *p = memory_zalloc(1, sizeof *p);
    if (!p) return CERIUM_ERR_MEMORY;
    cerium_engine_describe(engine, &info);
    p->engine = engine;
    p->how = how;
    p->watchdog = g;
    p->bell = bell;
    p->context_tokens = info.context_tokens_max > NEXT_EDIT_NEW_TOKENS
                            ? info.context_tokens_max : NEXT_EDIT_NEW_TOKENS;
    p->answer.max = 4 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX;
    *out = p;
    return CERIUM_OK;
}

void lsp_predictor_close(lsp_predictor **predictor)
{
    if (!predictor || !*predictor) return;
    lsp_predictor *p = *predictor;
    cerium_session_close(&p->session);
    next_edit_close(&p->prompt);
    forget(&p->now);
    forget(&p->next);
    bytes_free(&p->answer);
    memory_free(p);
    *predictor = NULL;
}
