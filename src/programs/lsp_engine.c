/* lsp_engine.c - completions of `cerium lsp` by the model in this process: a session for each open
 * document that is edited, and a watch for each answer. */
#include "programs/lsp_host.h"

#include <pthread.h>
#include <sys/stat.h>

#include "base/thread.h"

enum {
    SLOTS = 4,              /* documents with a running answer at the same time */
    NEW_TOKENS = 64,
    PROMPT_TOKENS_SMALL = 1024, /* for a model with fewer parameters than SMALL */
    PROMPT_TOKENS_MAX = 4096,
    TOKEN_BYTES = 3,        /* estimate for code */
    SNIPPET_SHARE = 4,      /* one in so many tokens of a prompt goes to lines of other files */
};
#define SMALL_PARAMETERS UINT64_C(100000000)
#define SMALL_BYTES (64 << 20) /* of the file of a model that is small in any case */

typedef struct {
    uint64_t document, serial, used; /* serial 0: no answer is wanted */
    cerium_session *session;
    bool runs, is_warm_up;
    watch_drive drive;
    int32_t *prompt;        /* owned; the drive and the request borrow it */
    size_t n_prompt;
    char heal[CERIUM_HEAL_PREFIX_MAX];
    size_t n_heal;
    /* starts when this one has ended */
    bool waits;
    lsp_order next;
    char *texts;            /* of next, owned: before, after, path, then those of its files */
    cerium_context_file files[SNIPPETS_MAX];
} slot;

struct lsp_engine {
    const options *o;
    watchdog *watchdog;
    lsp_judge *judge; /* knows when the rules are loaded */
    lsp_bell *bell;
    pthread_t thread;
    bool was_started, is_reported;
    _Atomic bool is_loaded, stops;
    int status;
    cerium_error error;
    cerium_engine *engine;
    cerium_engine_info info;
    size_t prompt_tokens;
    lsp_predicting predicting; /* from the options */
    lsp_candidates *candidates; /* made at the first order of some */
    lsp_predictor *predictor; /* NULL: the model has no form for edits */
    slot slots[SLOTS];
    uint64_t n_used;
    lsp_pace pace;
};

/* ---- loading ---- */

static bool is_stopped(void *user) { return atomic_load(&((lsp_engine *)user)->stops); }

static int load(lsp_engine *e)
{
    cerium_engine_config config;
    struct stat at;
    const char *path = options_model(e->o);
    if (!path)
        return error_set(&e->error, CERIUM_ERR_ARGUMENT,
                         "no model: name one with cerium lsp -m FILE.gguf, or CERIUM_MODEL");
    RETURN_IF(options_model_check(path, &e->error));
    RETURN_IF(options_engine_config(e->o, SLOTS + 2 + LSP_CANDIDATE_ROWS, &config, &e->error));
    config.model_path = path;
    /* One whole context holds the windows of all slots. */
    if (!e->o->context && !stat(path, &at) && at.st_size < SMALL_BYTES) config.kv_bytes_max = 1;
    config.canceled = is_stopped;
    config.canceled_user = e;
    RETURN_IF(cerium_engine_open(&e->engine, &config, &e->error));
    return e->judge ? lsp_judge_ready(e->judge, &e->error) : CERIUM_OK;
}

static void *run_load(void *user)
{
    lsp_engine *e = user;
    e->status = load(e);
    atomic_store(&e->is_loaded, true);
    lsp_bell_ring(e->bell);
    return NULL;
}

int lsp_engine_open(lsp_engine **out, const options *o, lsp_predicting how, watchdog *g,
                    lsp_judge *judge, lsp_bell *bell, cerium_error *err)
{
    lsp_engine *e = memory_zalloc(1, sizeof *e);
    if (!e) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    e->o = o;
    e->predicting = how;
    e->watchdog = g;
    e->judge = judge;
    e->bell = bell;
    int code = thread_start(&e->thread, "load", run_load, e);
    e->was_started = !code;
    *out = e;
    if (!code) return CERIUM_OK;
    lsp_engine_close(out);
    return error_set(err, CERIUM_ERR_IO, "no thread to load the model: %s", strerror(code));
}

/* ---- one completion ---- */

static void end_answer(slot *l)
{
    watch_drive_close(&l->drive);
    l->drive = (watch_drive){.watch = NULL};
    memory_free(l->prompt);
    l->prompt = NULL;
    l->serial = 0;
    l->runs = false;
}

static int start_session(lsp_engine *e, slot *l, const cerium_request *more, cerium_error *err)
{
    const cerium_sampling sampling = {.logprobs = true, .pointer = e->info.pointer};
    const cerium_resume begin = {.heal_prefix = l->heal, .n_heal = l->n_heal};
    cerium_request q = {.tokens = l->prompt, .n_tokens = l->n_prompt,
                        .resume = l->n_heal ? &begin : NULL};
    if (more) q = *more;
    else q.new_tokens_max = l->is_warm_up ? 0 : NEW_TOKENS;
    q.sampling = &sampling;
    q.class_ = CERIUM_CLASS_COMPLETION;
    q.notify = lsp_bell_ring;
    q.user = e->bell;
    int status = cerium_session_start(l->session, &q, err);
    l->runs = !status;
    return status;
}

static int begin(lsp_engine *e, slot *l, const lsp_order *o)
{
    cerium_error err;
    l->is_warm_up = o->warm_up;
    l->n_heal = e->info.fill_in_middle
                    ? cerium_infill_heal_prefix(e->engine, o->before.ptr, o->before.len)
                    : cerium_heal_prefix(e->engine, o->before.ptr, o->before.len);
    if (o->warm_up) l->n_heal = 0;
    memcpy(l->heal, o->before.ptr + o->before.len - l->n_heal, l->n_heal);
    int status = lsp_prompt_make(e->engine, &e->info, e->prompt_tokens, o, l->n_heal, &l->prompt,
                                 &l->n_prompt, &err);
    if (!status && !l->session) status = cerium_session_open(&l->session, e->engine, NULL, &err);
    if (!status && !o->warm_up) {
        const watch_config how = {.engine = e->engine, .form = GUARD_CODE,
                                  .language = o->language, .before = o->before,
                                  .has_after = true,
                                  .heal_prefix = {l->heal, l->n_heal}, .logprobs = true};
        l->drive = (watch_drive){.prompt = l->prompt, .n_prompt = l->n_prompt};
        status = watchdog_watch(e->watchdog, &l->drive.watch, how, &err);
    }
    if (!status) status = start_session(e, l, NULL, &err);
    if (status) {
        fprintf(stderr, "cerium lsp: %s\n", err.message);
        end_answer(l);
        return status;
    }
    l->document = o->document;
    l->serial = o->serial;
    return CERIUM_OK;
}

/* ---- orders ---- */

/* The document's own slot, else a free one, else the least recently used. */
static slot *slot_for(lsp_engine *e, uint64_t document)
{
    slot *found = &e->slots[0];
    for (uint32_t i = 0; i < SLOTS; i++)
        if (e->slots[i].document == document) return &e->slots[i];
    for (uint32_t i = 1; i < SLOTS; i++)
        if (e->slots[i].used < found->used) found = &e->slots[i];
    return found;
}

/* Cancels an answer; the session ends by itself. */
static void stop(slot *l)
{
    memory_free(l->texts);
    l->texts = NULL;
    l->waits = false;
    if (l->runs) cerium_session_cancel(l->session);
    l->serial = 0;
}

static const char *put(char **at, view text)
{
    char *here = *at;
    memcpy(here, text.ptr, text.len);
    *at += text.len;
    return here;
}

static bool keep_order(slot *l, const lsp_order *o)
{
    size_t total = o->before.len + o->after.len + strlen(o->path) + 1;
    for (uint32_t i = 0; i < o->n_files; i++)
        total += strlen(o->files[i].path) + 1 + o->files[i].text_len;
    char *at = memory_alloc(total);
    if (!at) return false;
    l->texts = at;
    l->next = *o;
    l->next.before.ptr = put(&at, o->before);
    l->next.after.ptr = put(&at, o->after);
    l->next.path = put(&at, (view){o->path, strlen(o->path) + 1});
    l->next.files = l->files;
    for (uint32_t i = 0; i < o->n_files; i++) {
        const cerium_context_file *f = &o->files[i];
        l->files[i].path = put(&at, (view){f->path, strlen(f->path) + 1});
        l->files[i].text = put(&at, (view){f->text, f->text_len});
        l->files[i].text_len = f->text_len;
    }
    l->waits = true;
    l->document = o->document;
    return true;
}

/* The document's own answer is superseded by them. */
static bool begin_candidates(lsp_engine *e, const lsp_order *order)
{
    cerium_error err;
    lsp_engine_cancel(e, order->document);
    int status = e->candidates ? CERIUM_OK
                               : lsp_candidates_open(&e->candidates, e->engine, e->prompt_tokens,
                                                     e->watchdog, e->bell, &err);
    if (!status) status = lsp_candidates_begin(e->candidates, order, &err);
    if (status) fprintf(stderr, "cerium lsp: %s\n", err.message);
    return !status;
}

bool lsp_engine_generate(lsp_engine *e, const lsp_order *order)
{
    if (!e->is_reported || !e->engine) return false;
    if (order->n_candidates) return begin_candidates(e, order);
    slot *l = slot_for(e, order->document);
    l->used = ++e->n_used;
    stop(l);
    if (l->runs) return keep_order(l, order);
    return !begin(e, l, order);
}

void lsp_engine_cancel(lsp_engine *e, uint64_t document)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (e->slots[i].document == document) stop(&e->slots[i]);
    if (e->candidates) lsp_candidates_cancel(e->candidates, document);
}

/* ---- events ---- */

static void tell(lsp_server *s, const slot *l, view text, double logprob)
{
    if (l->serial && (text.len || logprob < 0))
        lsp_server_text(s, l->document, l->serial, text, logprob, clock_ns());
}

typedef struct {
    lsp_server *server;
    const slot *slot;
} listener;

static void tell_piece(void *user, view text, double logprob)
{
    const listener *l = user;
    tell(l->server, l->slot, text, logprob);
}

/* False: the answer has ended. */
static bool tell_watched(const lsp_engine *e, lsp_server *s, const slot *l,
                         const watch_result *out)
{
    listener to = {s, l};
    lsp_watched_pieces(e->engine, out, tell_piece, &to);
    return out->order != CERIUM_WATCH_END;
}

static void ended(lsp_server *s, slot *l, lsp_end how)
{
    const uint64_t document = l->document, serial = l->serial;
    end_answer(l);
    if (serial) lsp_server_ended(s, document, serial, how, clock_ns());
}

static void take_step(const lsp_engine *e, lsp_server *s, slot *l, const cerium_event *event)
{
    watch_result out;
    const cerium_step *step = &event->step;
    if (!l->serial || l->drive.retries) return;
    if (!l->drive.watch) {
        tell(s, l, (view){step->text, step->text_len}, (double)step->logprobs[0]);
        return;
    }
    if (watch_drive_step(&l->drive, step, event->top, event->n_top, &out) ||
        !tell_watched(e, s, l, &out)) {
        const uint64_t serial = l->serial;
        cerium_session_cancel(l->session);
        l->serial = 0;
        lsp_server_ended(s, l->document, serial, LSP_ENDED_STOP, clock_ns());
    } else if (l->drive.retries) {
        cerium_session_cancel(l->session);
    }
}

/* Generates the weak line again: true when the session runs for it. */
static bool starts_again(lsp_engine *e, slot *l)
{
    cerium_request q = {.new_tokens_max = NEW_TOKENS};
    cerium_error err;
    bool runs = false;
    return !watch_drive_retry(&l->drive, &q, &runs) && runs && !start_session(e, l, &q, &err);
}

/* Adds the answer's tokens after its first one, which waits for the prompt. */
static void count_pace(lsp_engine *e, const slot *l)
{
    cerium_usage u;
    cerium_session_usage(l->session, &u);
    if (u.new_tokens < 2) return;
    e->pace.n += u.new_tokens - 1;
    e->pace.ns += u.duration_ns - u.first_token_ns;
}

static void take_done(lsp_engine *e, lsp_server *s, slot *l, const cerium_event *event)
{
    watch_result out;
    count_pace(e, l);
    lsp_end how = event->stop == CERIUM_STOP_NONE ? LSP_ENDED_LENGTH : LSP_ENDED_STOP;
    l->runs = false;
    bool failed = event->status && event->status != CERIUM_ERR_CANCELED;
    if (l->serial && l->drive.watch && !failed) {
        if (!l->drive.retries && event->status != CERIUM_ERR_CANCELED &&
            !watch_drive_finish(&l->drive, &out))
            (void)tell_watched(e, s, l, &out);
        if (l->drive.retries && l->serial && starts_again(e, l)) return;
    }
    if (failed) how = LSP_ENDED_FAILED;
    ended(s, l, how);
    if (!l->waits || l->runs) return; /* the sent text may have begun another answer */
    lsp_order order = l->next;
    char *texts = l->texts;
    l->waits = false;
    l->texts = NULL;
    if (begin(e, l, &order))
        lsp_server_ended(s, order.document, order.serial, LSP_ENDED_FAILED, clock_ns());
    memory_free(texts);
}

static void look_at(lsp_engine *e, lsp_server *s, slot *l)
{
    cerium_event event = {0};
    while (l->runs) {
        cerium_session_poll(l->session, &event);
        if (event.kind == CERIUM_EVENT_NONE) return;
        if (event.kind == CERIUM_EVENT_DONE) take_done(e, s, l, &event);
        else take_step(e, s, l, &event);
    }
}

/* A model that only completes at the caret has no edits to propose beyond a completion. */
static void open_predictor(lsp_engine *e)
{
    lsp_predicting how = e->predicting;
    if (!how.form && !next_edit_named(view_of(e->info.edit_format), &how.form))
        how.form = next_edit_of_model(e->info.name);
    if (how.form > NEXT_EDIT_FIM &&
        lsp_predictor_open(&e->predictor, e->engine, how, e->watchdog, e->bell))
        fprintf(stderr, "cerium lsp: no memory for edits\n");
}

bool lsp_engine_predict(lsp_engine *e, const lsp_predict_order *order)
{
    return e->predictor && lsp_predictor_ask(e->predictor, order);
}

static void tell_loaded(lsp_engine *e, lsp_server *s)
{
    pthread_join(e->thread, NULL);
    e->was_started = false;
    e->is_reported = true;
    lsp_model m = {.state = LSP_MODEL_FAILED, .why = e->error.message};
    if (!e->status) {
        cerium_engine_describe(e->engine, &e->info);
        e->prompt_tokens = e->info.n_parameters < SMALL_PARAMETERS ? PROMPT_TOKENS_SMALL
                                                                    : PROMPT_TOKENS_MAX;
        size_t room = e->info.context_tokens_max - NEW_TOKENS;
        if (e->prompt_tokens > room) e->prompt_tokens = room;
        m = (lsp_model){.state = LSP_MODEL_READY, .model = e->info.name,
                        .confidence = (double)e->info.confidence,
                        .before_bytes = e->prompt_tokens * TOKEN_BYTES * 3 / 4,
                        .after_bytes = e->prompt_tokens * TOKEN_BYTES / 4,
                        .snippet_bytes = e->info.fill_in_middle
                                             ? e->prompt_tokens * TOKEN_BYTES / SNIPPET_SHARE : 0,
                        .snippets_pay = e->info.pointer > 0};
        open_predictor(e);
    } else {
        cerium_engine_close(&e->engine);
    }
    memory_trim(); /* what loading left */
    lsp_server_model(s, &m);
}

void lsp_engine_look(lsp_engine *e, lsp_server *s)
{
    if (e->was_started && atomic_load(&e->is_loaded)) tell_loaded(e, s);
    for (uint32_t i = 0; i < SLOTS; i++) look_at(e, s, &e->slots[i]);
    if (e->candidates) lsp_candidates_look(e->candidates, s);
    if (e->predictor) lsp_predictor_look(e->predictor, s);
}

double lsp_engine_speed(const lsp_engine *e) { return lsp_pace_speed(&e->pace); }

void lsp_engine_close(lsp_engine **engine)
{
    if (!engine || !*engine) return;
    lsp_engine *e = *engine;
    atomic_store(&e->stops, true);
    if (e->was_started) pthread_join(e->thread, NULL);
    for (uint32_t i = 0; i < SLOTS; i++) {
        slot *l = &e->slots[i];
        memory_free(l->texts);
        cerium_session_close(&l->session);
        end_answer(l);
    }
    lsp_candidates_close(&e->candidates);
    lsp_predictor_close(&e->predictor);
    cerium_engine_close(&e->engine);
    memory_free(e);
    *engine = NULL;
}
