/* honest.c - asks both models for each task, tests their answers, and reports the cost.
 *
 * A chat model sees the file and its tests and writes the file anew; when that fails, it sees the
 * failure.  A model that only completes fills the place, each time with another seed. */
#include "programs/honest.h"

#include "programs/options.h"
#include "programs/output.h"
#include "programs/solve_judge.h"
#include "programs/solve_model.h"
#include "programs/terminal.h"
#include "protocol/edit_answer.h"

enum {
    TASKS_BYTES_MAX = 64 << 20,
    FILL_TOKENS = 64,
    CHAT_TOKENS = 4096,
    LANGUAGES = WIRE_C + 1,
};
#define RETRY_TEMPERATURE 0.6

static const char *const tier_names[HONEST_TIERS] = {"fast", "deep"};

/* The cost of a task with one model. */
typedef struct {
    bool is_done;
    uint32_t n_tries;
    uint64_t n_tokens;
    uint64_t answer_ns, ns;    /* of the answers; with their tests, until solved or given up */
    char why[SOLVE_WHY_BYTES]; /* how the last try failed */
} outcome;

typedef struct {
    char id[80];
    outcome by[HONEST_TIERS];
} row;

typedef struct {
    const honest *asked;
    honest_server *server;
    bool chats[HONEST_TIERS];
    solve_judge judges[LANGUAGES]; /* opened for the first task in that language */
    honest_answer answer;
    bytes program;
    row *rows; /* [n] of [n_rows_max]; owned */
    uint32_t n;
} run;

/* ---- judging ---- */

static wire_language language_of(const honest_task *t)
{
    static const char *const names[LANGUAGES] = {
        [WIRE_PYTHON] = "python", [WIRE_JAVASCRIPT] = "javascript", [WIRE_C] = "c"};
    wire_language l = WIRE_C;
    while (l > WIRE_NOTHING && strcmp(names[l], t->language) != 0) l--;
    return l;
}

/* The verdict of the tests on a program; why: of a failure, borrowed until the next call. */
static int judge(run *r, const honest_task *t, view program, sandbox_result *out,
                 cerium_error *err)
{
    const wire_language language = language_of(t);
    solve_judge *j = &r->judges[language];
    const solve_tests tests = {.language = language,
                               .text = {.ptr = (char *)(uintptr_t)t->tests.ptr,
                                        .len = t->tests.len}};
    j->name = view_of(t->file);
    int status = tester_run(j, program, &tests, out, err);
    if (status || out->verdict != WIRE_PARSE || language != WIRE_C || j->flags) return status;
    j->flags = WIRE_USE_CC; /* tcc does not support all of C */
    return tester_run(j, program, &tests, out, err);
}

/* They must fail on the given file; that run sets the time limit. */
static int check_task(run *r, const honest_task *t, cerium_error *err)
{
    const wire_language language = language_of(t);
    solve_judge *j = &r->judges[language];
    sandbox_result result;
    if (language == WIRE_NOTHING)
        return error_set(err, CERIUM_ERR_FORMAT, "%.80s: `language` is python, javascript or c",
                         t->id);
    if (!j->n_slots) {
        j->config = (sandbox_config){.level = SANDBOX_STRICT, .python = language == WIRE_PYTHON};
        RETURN_IF(tester_open(j, err));
    }
    j->limits = sandbox_limits_of(language);
    j->flags = 0;
    RETURN_IF(judge(r, t, t->source, &result, err));
    tester_calibrate(j, &result);
    if (result.verdict == WIRE_PASS || result.verdict == WIRE_BROKEN)
        return error_set(err, CERIUM_ERR_FORMAT, "%.80s: its tests %s", t->id,
                         result.verdict == WIRE_PASS ? "pass already" : "cannot run");
    return CERIUM_OK;
}

/* ---- asking ---- */

static int put(bytes *to, view text) { return bytes_append(to, text.ptr, text.len); }

static int put_fenced(bytes *to, view text)
{
    RETURN_IF(put(to, VIEW("```\n")));
    RETURN_IF(put(to, text));
    if (text.len && text.ptr[text.len - 1] != '\n') RETURN_IF(put(to, VIEW("\n")));
    return put(to, VIEW("```\n"));
}

static int put_question(bytes *to, const honest_task *t)
{
    RETURN_IF(put(to, VIEW("This is the file ")));
    RETURN_IF(put(to, view_of(t->file)));
    RETURN_IF(put(to, VIEW(":\n\n")));
    RETURN_IF(put_fenced(to, t->source));
    RETURN_IF(put(to, VIEW("\nThese tests run after it, and fail:\n\n")));
    RETURN_IF(put_fenced(to, t->tests));
    return put(to, VIEW("\nA line of the file is wrong, or something is missing in it. Answer with "
                        "the whole file so that the tests pass, in one fenced block like the one "
                        "above, without the tests, and nothing else."));
}

static int add_message(json_t *messages, const char *role, view text)
{
    return json_array_append_new(
        messages, json_pack("{s:s, s:o}", "role", role, "content", json_text(text)));
}

/* Begin the conversation, or continue it with the last answer and its failure. */
static int grow(json_t *messages, const honest_task *t, const honest_answer *answer,
                const char *why)
{
    bytes text = {.max = 2 * SOLVE_TEXT_BYTES_MAX};
    int bad = 0;
    if (!json_array_size(messages)) {
        bad = put_question(&text, t);
    } else {
        bad = add_message(messages, "assistant", (view){answer->text.ptr, answer->text.len});
        if (!bad) bad = put(&text, VIEW("That fails: "));
        if (!bad) bad = put(&text, view_of(why));
        if (!bad) bad = put(&text, VIEW("\nAnswer with the whole file once more."));
    }
    if (!bad) bad = add_message(messages, "user", (view){text.ptr, text.len});
    bytes_free(&text);
    return bad;
}

static json_t *chat_body(const char *model, json_t *messages, uint32_t try)
{
    return json_pack("{s:s, s:O, s:i, s:f, s:i, s:b, s:{s:b}}", "model", model, "messages",
                     messages, "max_tokens", CHAT_TOKENS, "temperature",
                     try ? RETRY_TEMPERATURE : 0.0, "seed", (int)try, "stream", 1,
                     "stream_options", "include_usage", 1);
}

static json_t *fill_body(const char *model, const honest_task *t, uint32_t try)
{
    const view before = {t->source.ptr, t->begin};
    const view after = {t->source.ptr + t->end, t->source.len - t->end};
    json_t *body = json_pack(
        "{s:s, s:o, s:o, s:i, s:f, s:i, s:b, s:{s:b}, s:f}", "model", model, "prompt",
        json_text(before), "suffix", json_text(after), "max_tokens", FILL_TOKENS, "temperature",
        try ? RETRY_TEMPERATURE : 0.0, "seed", (int)try, "stream", 1, "stream_options",
        "include_usage", 1, "min_confidence", 0.0);
    const solve_span at = {t->begin, t->end};
    if (body && maker_is_one_line(t->source, at, FILL_TOKENS))
        json_object_set_new(body, "stop", json_string("\n"));
    return body;
}

static void take_why(outcome *o, view why)
{
    const int n = (int)sizeof o->why - 1;
    snprintf(o->why, sizeof o->why, "%.*s", why.len < (size_t)n ? (int)why.len : n, why.ptr);
}

/* The file that the answer makes; false: none, for the reason. */
static bool read_answer(run *r, const honest_task *t, bool chats, outcome *o)
{
    char fault[EDIT_FAULT_MAX] = "out of memory";
    const view answer = {r->answer.text.ptr ? r->answer.text.ptr : "", r->answer.text.len};
    view file;
    r->program.len = 0;
    r->program.max = 2 * SOLVE_TEXT_BYTES_MAX;
    bool is_good = !r->answer.was_cut || !chats;
    if (!is_good) snprintf(fault, sizeof fault, "the answer was cut off");
    else if (chats) is_good = edit_whole_read(answer, t->source, &file, fault) &&
                              !edit_whole_apply(file, t->source, &r->program, fault);
    else is_good = !put(&r->program, (view){t->source.ptr, t->begin}) &&
                   !put(&r->program, answer) &&
                   !put(&r->program, (view){t->source.ptr + t->end, t->source.len - t->end});
    if (!is_good) take_why(o, view_of(fault));
    return is_good;
}

static void count(outcome *o, const honest_answer *a)
{
    o->n_tries++;
    o->n_tokens += a->n_tokens;
    o->answer_ns += a->ns;
}

static int test_answer(run *r, const honest_task *t, bool chats, outcome *o, cerium_error *err)
{
    sandbox_result result;
    if (!read_answer(r, t, chats, o)) return CERIUM_OK;
    RETURN_IF(judge(r, t, (view){r->program.ptr, r->program.len}, &result, err));
    o->is_done = result.verdict == WIRE_PASS;
    const view why = solve_failure(&result);
    if (why.len) take_why(o, why);
    else take_why(o, view_of(sandbox_verdict_name(result.verdict)));
    return CERIUM_OK;
}

/* One more try. */
static int ask_once(run *r, const honest_task *t, int tier, json_t *messages, outcome *o,
                    cerium_error *err)
{
    const char *model = r->asked->models[tier];
    const bool chats = r->chats[tier];
    if (chats && grow(messages, t, &r->answer, o->why))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    json_t *body = chats ? chat_body(model, messages, o->n_tries) : fill_body(model, t, o->n_tries);
    int status = body ? honest_server_ask(r->server, chats ? "/v1/chat/completions"
                                                           : "/v1/completions",
                                          body, &r->answer, err)
                      : error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    json_decref(body);
    if (status) return status;
    count(o, &r->answer);
    if (!*r->answer.why) return test_answer(r, t, chats, o, err);
    take_why(o, view_of(r->answer.why));
    return CERIUM_OK;
}

/* Until it passes.  A request that the server refuses once is not repeated. */
static int do_task(run *r, const honest_task *t, int tier, outcome *o, cerium_error *err)
{
    const uint64_t begin_ns = clock_ns();
    json_t *messages = json_array();
    int status = messages ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory");
    *r->answer.why = 0;
    while (!status && !o->is_done && o->n_tries < r->asked->n_tries && !*r->answer.why)
        status = ask_once(r, t, tier, messages, o, err);
    o->ns = clock_ns() - begin_ns;
    json_decref(messages);
    return status;
}

/* ---- all tasks ---- */

/* So that no figure includes the time of loading a model. */
static int warm(run *r, int tier, cerium_error *err)
{
    json_t *body = json_pack("{s:s, s:s, s:i, s:b}", "model", r->asked->models[tier], "prompt",
                             "x", "max_tokens", 1, "stream", 1);
    int status = body ? honest_server_ask(r->server, "/v1/completions", body, &r->answer, err)
                      : error_set(err, CERIUM_ERR_MEMORY, "no memory for a request");
    json_decref(body);
    return status;
}

static int add_row(run *r, const honest_task *t, cerium_error *err)
{
    row *more = memory_zalloc(r->n + 1, sizeof *more);
    if (!more) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the figures");
    if (r->n) memcpy(more, r->rows, r->n * sizeof *more);
    memory_free(r->rows);
    r->rows = more;
    snprintf(more[r->n].id, sizeof more[0].id, "%s", t->id);
    return CERIUM_OK;
}

static int take_line(run *r, view line, cerium_error *err)
{
    honest_task t;
    RETURN_IF(honest_task_read(&t, line, err));
    int status = check_task(r, &t, err);
    if (!status) status = add_row(r, &t, err);
    for (int tier = 0; tier < HONEST_TIERS && !status; tier++) {
        progress_show("%s, %s ...", t.id, tier_names[tier]);
        status = do_task(r, &t, tier, &r->rows[r->n].by[tier], err);
    }
    r->n += !status;
    honest_task_free(&t);
    return status;
}

static int do_all(run *r, view text, cerium_error *err)
{
    cerium_error why;
    uint32_t n_line = 0;
    for (size_t at = 0; at < text.len;) {
        const char *feed = memchr(text.ptr + at, '\n', text.len - at);
        const view line = {text.ptr + at, (feed ? (size_t)(feed - text.ptr) : text.len) - at};
        at += line.len + 1;
        n_line++;
        if (!line.len) continue;
        int status = take_line(r, line, &why);
        if (status == CERIUM_ERR_FORMAT)
            return error_set(err, status, "%s:%u: %s", r->asked->path, n_line, why.message);
        if (status) *err = why;
        if (status) return status;
    }
    return r->n ? CERIUM_OK
                : error_set(err, CERIUM_ERR_FORMAT, "%s: no task in it", r->asked->path);
}

/* ---- the figures ---- */

typedef struct {
    uint32_t n_done, n_tries;
    uint64_t n_tokens, answer_ns, ns, both_ns; /* both: tasks that both solve */
} sums;

static double seconds(uint64_t ns) { return (double)ns / 1e9; }
static double ratio(double a, double b) { return b > 0 ? a / b : 0; }
static double tokens_per_s(const sums *s)
{
    return ratio((double)s->n_tokens, seconds(s->answer_ns));
}

static bool is_both(const row *one) { return one->by[0].is_done && one->by[1].is_done; }

static sums sum_of(const run *r, int tier)
{
    sums s = {0};
    for (uint32_t i = 0; i < r->n; i++) {
        const outcome *o = &r->rows[i].by[tier];
        s.n_done += o->is_done;
        s.n_tries += o->n_tries;
        s.n_tokens += o->n_tokens;
        s.answer_ns += o->answer_ns;
        s.ns += o->ns;
        if (is_both(&r->rows[i])) s.both_ns += o->ns;
    }
    return s;
}

/* The fast model, and the deep one for tasks that the fast one failed. */
static sums in_turn(const run *r)
{
    sums s = {0};
    for (uint32_t i = 0; i < r->n; i++) {
        const outcome *fast = &r->rows[i].by[0], *deep = &r->rows[i].by[1];
        s.n_done += fast->is_done || deep->is_done;
        s.ns += fast->ns + (fast->is_done ? 0 : deep->ns);
    }
    return s;
}

static uint32_t n_both(const run *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) n += is_both(&r->rows[i]);
    return n;
}

static void print_outcome(const outcome *o)
{
    printf("  %-4s %5u %7llu %8.2f", o->is_done ? "done" : "no", o->n_tries,
           (unsigned long long)o->n_tokens, seconds(o->ns));
}

static void print_text(const run *r)
{
    const sums s[HONEST_TIERS] = {sum_of(r, 0), sum_of(r, 1)}, turns = in_turn(r);
    printf("%-20s  %-27.27s  %-27.27s\n", "", r->asked->models[0], r->asked->models[1]);
    printf("%-20s", "task");
    for (int i = 0; i < HONEST_TIERS; i++) printf("  %-4s %5s %7s %8s", "", "tries", "tokens", "s");
    printf("\n");
    for (uint32_t i = 0; i < r->n; i++) {
        printf("%-20.20s", r->rows[i].id);
        for (int tier = 0; tier < HONEST_TIERS; tier++) print_outcome(&r->rows[i].by[tier]);
        printf("\n");
    }
    printf("\n%-32s %10s %10s\n", "", tier_names[0], tier_names[1]);
    printf("%-32s %10.1f %10.1f\n", "tokens/s of the answers", tokens_per_s(&s[0]),
           tokens_per_s(&s[1]));
    printf("%-23s of %5u %10u %10u\n", "tasks done", r->n, s[0].n_done, s[1].n_done);
    printf("%-32s %10u %10u\n", "tries", s[0].n_tries, s[1].n_tries);
    printf("%-32s %10llu %10llu\n", "tokens", (unsigned long long)s[0].n_tokens,
           (unsigned long long)s[1].n_tokens);
    printf("%-32s %10.2f %10.2f\n", "seconds", seconds(s[0].ns), seconds(s[1].ns));
    printf("%-23s %8u %10.2f %10.2f\n", "seconds, of those both", n_both(r), seconds(s[0].both_ns),
           seconds(s[1].both_ns));
    printf("\n");
    if (n_both(r))
        printf("the fast model says %.2f tokens for one of the deep one, and is %.2f times as fast "
               "at what both do\n",
               ratio(tokens_per_s(&s[0]), tokens_per_s(&s[1])),
               ratio(seconds(s[1].both_ns), seconds(s[0].both_ns)));
    else
        printf("no task is done by both: their times say nothing of each other\n");
    printf("the fast one, then the deep one for the rest: %u of %u in %.2f s\n", turns.n_done, r->n,
           seconds(turns.ns));
}

static json_t *outcome_json(const outcome *o)
{
    return json_pack("{s:b, s:i, s:I, s:f, s:o}", "done", o->is_done, "tries", (int)o->n_tries,
                     "tokens", (json_int_t)o->n_tokens, "seconds", seconds(o->ns), "failure",
                     o->is_done ? json_null() : json_text(view_of(o->why)));
}

static json_t *sums_json(const run *r, int tier)
{
    const sums s = sum_of(r, tier);
    return json_pack("{s:o, s:f, s:i, s:i, s:I, s:f, s:f}", "model",
                     json_name(r->asked->models[tier]), "tokens_per_s", tokens_per_s(&s), "done",
                     (int)s.n_done, "tries", (int)s.n_tries, "tokens", (json_int_t)s.n_tokens,
                     "seconds", seconds(s.ns), "seconds_of_both", seconds(s.both_ns));
}

static int print_json(const run *r, cerium_error *err)
{
    const sums turns = in_turn(r);
    json_t *tasks = json_array();
    int bad = tasks ? 0 : -1;
    for (uint32_t i = 0; i < r->n && !bad; i++)
        bad = json_array_append_new(
            tasks, json_pack("{s:o, s:o, s:o}", "id", json_name(r->rows[i].id), "fast",
                             outcome_json(&r->rows[i].by[0]), "deep",
                             outcome_json(&r->rows[i].by[1])));
    if (bad) {
        json_decref(tasks);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the figures");
    }
    return output_json(json_pack("{s:o, s:o, s:o, s:i, s:{s:i, s:f}}", "tasks", tasks, "fast",
                                 sums_json(r, 0), "deep", sums_json(r, 1), "done_by_both",
                                 (int)n_both(r), "in_turn", "done", (int)turns.n_done, "seconds",
                                 seconds(turns.ns)),
                       JSON_INDENT(2), err);
}

int honest_run(const honest *h, cerium_error *err)
{
    run r = {.asked = h};
    bytes text = {.max = TASKS_BYTES_MAX};
    int status = read_file(h->path, &text, err);
    if (!status) status = honest_server_open(&r.server, h->server, err);
    for (int i = 0; i < HONEST_TIERS && !status; i++)
        status = honest_server_model(r.server, h->models[i], &r.chats[i], err);
    for (int i = 0; i < HONEST_TIERS && !status; i++) status = warm(&r, i, err);
    if (!status) status = do_all(&r, (view){text.ptr, text.len}, err);
    progress_clear();
    if (!status && h->json) status = print_json(&r, err);
    else if (!status) print_text(&r);
    for (size_t i = 0; i < LANGUAGES; i++) tester_close(&r.judges[i]);
    honest_server_close(&r.server);
    bytes_free(&r.answer.text);
    bytes_free(&r.program);
    memory_free(r.rows);
    bytes_free(&text);
    return status;
}
