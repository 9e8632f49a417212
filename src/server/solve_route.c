/* solve_route.c - connects the client, the process that tries variants, and the model. */
#include "server/solve_route.h"

#include "base/json.h"
#include "server/answer_open.h"
#include "server/answers.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/http_sinks.h"
#include "server/model_list.h"
#include "server/solve_start.h"

enum { LINE_BYTES_MAX = 16 << 20, RETRY_S = 5 };

struct solving {
    job job;             /* first; a thread owns it until the process runs */
    server *s;
    connection *c;       /* NULL: its client is gone */
    uint32_t place;      /* index in server.solves; SERVER_SOLVES_MAX: already returned */
    bytes asked;         /* the body, owned, until it is parsed */
    solve_process process;
    int status;          /* of its start */
    protocol_error error;
    stream io;           /* to the process */
    bytes line;          /* the received part of an incomplete line */
    bool begun, waits;   /* the client's stream has begun; it waits for the model */
};

/* ---- its end, on any thread ---- */

static void leave_place(solving *x)
{
    if (x->place < SERVER_SOLVES_MAX) atomic_store(&x->s->solves[x->place], 0);
    x->place = SERVER_SOLVES_MAX;
}

static void free_solving(void *thing)
{
    solving *x = thing;
    solve_end(&x->process);
    leave_place(x);
    bytes_free(&x->asked);
    bytes_free(&x->line);
    memory_free(x);
}

static void release(job *j) { free_solving(j); }

/* ---- on the loop ---- */

static void leave(solving *x)
{
    if (x->c) {
        x->c->http.solving = NULL;
        x->c->http.leaves = NULL;
    }
    x->c = NULL;
    solve_kill(&x->process);
    leave_place(x); /* the thread that frees this one begins the next one */
    stream_break(&x->io);
}

static void on_leave(connection *c) { leave(c->http.solving); }

/* The client gets the end, or the error. */
static void finish(solving *x, view end, const protocol_error *e)
{
    connection *c = x->c;
    const sink k = {.type = &http_stream_sink, .c = c};
    answers_leave(c); /* the model's variants are useless now */
    leave(x);
    if (e && x->begun) sink_fail(&k, e);
    else if (e) http_error(c, e);
    else if (!x->process.streams) http_answer(c, &(http_head){.status = 200}, end);
    else {
        sink_event(&k, "end", end);
        sink_finish(&k, end);
    }
    connection_flush(c);
}

static void fail(solving *x, const char *why)
{
    protocol_error e;
    (void)protocol_error_set(&e, 500, "server_error", "solve_failed", "", "%s", why);
    finish(x, VIEW(""), &e);
}

/* ---- the model ---- */

/* Write it to the process, as one line. */
static void answer_process(connection *c, view line)
{
    solving *x = c->http.solving;
    if (!x || !x->waits) return;
    x->waits = false;
    if (stream_put(&x->io, line, VIEW("\n"))) fail(x, "out of memory");
    else stream_flush(&x->io);
}

static void tell_body(const sink *k, view body) { answer_process(k->c, body); }

static void tell_failure(const sink *k, const protocol_error *e)
{
    bytes body = {.max = 16384};
    if (!protocol_error_body(&body, e)) answer_process(k->c, (view){body.ptr, body.len});
    bytes_free(&body);
}

static const sink_type model_sink = {
    .finish = tell_body, .fail = tell_failure, .refuse = tell_failure};

static const served_model *model_of(const solving *x, bool has_suffix)
{
    return models_choose(x->s, x->process.model[0] ? x->process.model : NULL,
                         models_use_of(PROTOCOL_COMPLETIONS, has_suffix));
}

static int read_request(const solving *x, view text, protocol_request **out, protocol_error *e)
{
    protocol_body body;
    const bool has_suffix = memmem(text.ptr, text.len, "\"suffix\":", 9) != NULL;
    const served_model *m = model_of(x, has_suffix);
    if (!m) return models_unknown(x->s, x->process.model, e);
    const protocol_defaults defaults = m->defaults;
    int status = protocol_body_load(&body, PROTOCOL_COMPLETIONS, text, &defaults, e);
    if (!status) status = protocol_body_parse(out, PROTOCOL_COMPLETIONS, &body, &defaults, e);
    return status == CERIUM_ERR_MEMORY ? protocol_error_memory(e) : status;
}

/* Background work: it waits for all interactive requests. */
static int ask_model(solving *x, view text, protocol_error *e)
{
    protocol_request *r = NULL;
    RETURN_IF(read_request(x, text, &r, e));
    r->class_ = CERIUM_CLASS_BATCH;
    const answer_order order = {.sink = {.type = &model_sink, .c = x->c},
                                .request = r,
                                .n_bytes = text.len,
                                .started_ns = clock_ns()};
    return answer_open(x->s, &order, e);
}

static void take_ask(solving *x, view line)
{
    protocol_error e;
    json_t *event = json_read(line, JSON_ALLOW_NUL, NULL);
    json_object_del(event, "event");
    if (x->process.model[0]) json_object_set_new(event, "model", json_string(x->process.model));
    char *text = event ? json_dumps(event, JSON_COMPACT) : NULL;
    json_decref(event);
    x->waits = true;
    if (!text) (void)protocol_error_memory(&e);
    if (!text || ask_model(x, view_of(text), &e)) {
        const sink k = {.type = &model_sink, .c = x->c};
        tell_failure(&k, &e);
    }
    memory_release(text);
}

/* ---- events of the process ---- */

static void take_error(solving *x, view line)
{
    protocol_error e;
    json_t *event = json_read(line, 0, NULL);
    const char *why = json_string_value(json_object_get(event, "message"));
    const bool refused = json_is_true(json_object_get(event, "refused"));
    (void)protocol_error_set(&e, refused ? 400 : 500,
                             refused ? "invalid_request_error" : "server_error",
                             refused ? "invalid_value" : "solve_failed", "", "%s",
                             why ? why : "solve failed");
    json_decref(event);
    finish(x, VIEW(""), &e);
}

/* Send progress and passing variants only to a stream whose reader keeps up. */
static void take_news(solving *x, const char *name, view line)
{
    const sink k = {.type = &http_stream_sink, .c = x->c};
    if (!x->process.streams || connection_parked(x->c)) return;
    if (!x->begun) sink_begin(&k);
    x->begun = true;
    sink_event(&k, name, line);
}

static bool is_event(view line, const char *name)
{
    char begins[40];
    snprintf(begins, sizeof begins, "{\"event\":\"%s\"", name);
    return view_starts(line, view_of(begins));
}

static void take_line(solving *x, view line)
{
    static const char *const news[] = {"begin", "progress", "pass"};
    for (size_t i = 0; i < ARRAY_LEN(news); i++)
        if (is_event(line, news[i])) take_news(x, news[i], line);
    if (is_event(line, "ask")) take_ask(x, line);
    else if (is_event(line, "error")) take_error(x, line);
    else if (is_event(line, "end")) finish(x, line, NULL);
}

static bool on_input(void *user)
{
    solving *x = user;
    const view in = stream_input(&x->io);
    int bad = bytes_append(&x->line, in.ptr, in.len);
    stream_use(&x->io, in.len);
    size_t at = 0;
    for (const char *end; !bad && x->c && at < x->line.len &&
                          (end = memchr(x->line.ptr + at, '\n', x->line.len - at));) {
        const view line = {x->line.ptr + at, (size_t)(end - (x->line.ptr + at))};
        at += line.len + 1;
        take_line(x, line);
    }
    if (at) memmove(x->line.ptr, x->line.ptr + at, x->line.len - at);
    x->line.len -= at;
    if (bad && x->c) fail(x, "solve says more than is taken");
    return false;
}

static void on_ended(void *user)
{
    solving *x = user;
    if (x->c) fail(x, "solve ended before its time");
}

static void on_sent(void *user) { (void)user; }

static void on_closed(void *user) { on_ended(user); }

static void on_released(void *user)
{
    solving *x = user;
    x->process.fd = -1;
    x->s->n_solving--;
    workers_bury(x->s->workers, free_solving, x);
}

/* ---- its beginning ---- */

static bool run(job *j)
{
    solving *x = (solving *)j;
    x->status = solve_start(&x->process, (view){x->asked.ptr, x->asked.len}, &x->error);
    bytes_free(&x->asked);
    return false;
}

static int open_stream(solving *x, protocol_error *e)
{
    static const stream_events events = {.input = on_input,
                                         .ended = on_ended,
                                         .sent = on_sent,
                                         .closed = on_closed,
                                         .released = on_released};
    const int fd = x->process.fd;
    x->process.fd = -1; /* the stream's */
    if (stream_open(&x->io, &x->s->loop, fd, NULL, &events, x)) return protocol_error_memory(e);
    x->s->n_solving++;
    x->c->http.solving = x;
    x->c->http.leaves = on_leave;
    return CERIUM_OK;
}

static void done(job *j)
{
    solving *x = (solving *)j;
    connection *c = x->c;
    c->http.job = NULL;
    if (!x->status && x->process.model[0] && !model_of(x, false))
        x->status = models_unknown(x->s, x->process.model, &x->error);
    if (!x->status) x->status = open_stream(x, &x->error);
    if (!x->status) return;
    http_error(c, &x->error);
    workers_bury(x->s->workers, free_solving, x);
}

/* A key has one at a time, so that none takes all places. */
static int take_place(const connection *c, uint32_t *out, protocol_error *e)
{
    server *s = c->s;
    const uint64_t client = client_of(c->tenant, c->serial);
    bool is_there = false;
    *out = SERVER_SOLVES_MAX;
    for (uint32_t i = SERVER_SOLVES_MAX; i-- > 0;) {
        const uint64_t has = atomic_load(&s->solves[i]);
        if (!has) *out = i;
        is_there |= has == client && c->tenant;
    }
    if (*out < SERVER_SOLVES_MAX && !is_there) {
        atomic_store(&s->solves[*out], client);
        return CERIUM_OK;
    }
    (void)protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                             is_there ? "this key has a solve that runs; please try again in %ds"
                                      : "solves run already; please try again in %ds", RETRY_S);
    e->retry_after_s = RETRY_S;
    return CERIUM_ERR_ARGUMENT;
}

static int begin(connection *c, protocol_error *e)
{
    server *s = c->s;
    uint32_t place;
    if (!s->config.solves)
        return protocol_error_set(e, 403, "invalid_request_error", "solve_not_allowed", "",
                                  "this server runs no code of clients: start it with --solve");
    RETURN_IF(take_place(c, &place, e));
    solving *x = memory_zalloc(1, sizeof *x);
    if (!x) {
        atomic_store(&s->solves[place], 0);
        return protocol_error_memory(e);
    }
    *x = (solving){.job = {.run = run, .done = done, .release = release, .lane = WORKERS_LARGE,
                           .client = client_of(c->tenant, c->serial)},
                   .s = s, .c = c, .place = place, .asked = c->http.body,
                   .process = {.fd = -1}, .line = {.max = LINE_BYTES_MAX}};
    c->http.body = (bytes){.max = PROTOCOL_BODY_BYTES_MAX};
    if (!workers_submit(s->workers, &x->job)) {
        c->http.job = &x->job;
        return CERIUM_OK;
    }
    free_solving(x);
    return protocol_error_overloaded(e, "requests are being read");
}

void solve_route(connection *c)
{
    protocol_error e;
    if (c->s->config.log_prompts)
        log_body(c->peer, (view){c->http.body.ptr, c->http.body.len});
    if (begin(c, &e)) http_error(c, &e);
}
