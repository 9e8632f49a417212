/* solve_run.c - the loop: makes and tests variants, decides by index. */
#include "programs/solve_run.h"

#include <unistd.h>

#include "base/thread.h"
#include "programs/generate.h"
#include "programs/terminal.h"
#include "protocol/diff.h"

enum { TICK_MS = 100, SLOTS_DEFAULT_MAX = 8, LOOK_ON = 128 };

static thread_bell bell; /* Ctrl-C */

typedef struct {
    solve *s;
    uint32_t frontier;  /* all below it are decided and checked */
    uint32_t next;      /* the lowest that may still need a test */
    uint64_t shown_ns;
    bool over;
} loop;

static double seconds(const solve *s) { return (double)(clock_ns() - s->begin_ns) / 1e9; }

/* ---- a passing variant ---- */

/* Would the watchdog refuse the lines that the variant adds? */
static int is_weak(solve *s, view program, bool *weak, cerium_error *err)
{
    char *text = NULL;
    size_t len = 0;
    diff d;
    *weak = false;
    if (!s->watchdog.on) return CERIUM_OK;
    FILE *out = open_memstream(&text, &len);
    if (!out) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the diff");
    int status = diff_open(&d, s->text, program, false, err);
    if (!status) {
        fprintf(out, "diff --git a/%s b/%s\n", s->place.path, s->place.path);
        diff_print(&d, s->place.path, out);
        diff_close(&d);
    }
    fclose(out);
    const guard_stream_config config = {.form = GUARD_ANSWER};
    cerium_error why;
    if (!status)
        status = watchdog_judge(&s->watchdog, &config, (view){NULL, 0}, (view){text, len},
                                s->place.path, "is unchanged", &why);
    memory_release(text);
    *weak = status == CERIUM_ERR_FORMAT;
    if (status && !*weak) *err = why;
    return *weak ? CERIUM_OK : status;
}

static uint32_t leaving_names(view text, wire_language language)
{
    static const char *const names[] = {"exit", "_exit", "_Exit", "quick_exit", "quit",
                                        "SystemExit", "reallyExit", "exitCode", "atexit", "abort",
                                        "kill", "raise_signal", "execv", "execve", "execl",
                                        "execlp", "execvp"};
    uint32_t n = 0;
    solve_token t;
    for (size_t at = 0; solve_token_next(text, language, &at, &t);)
        for (size_t i = 0; t.kind == TOKEN_NAME && i < ARRAY_LEN(names); i++)
            n += view_equal((view){text.ptr + t.begin, t.end - t.begin}, view_of(names[i]));
    return n;
}

/* A command has only its status, and a program that ends it early may give it one. */
static bool is_leaving(const solve *s, uint32_t index)
{
    const solve_variant *v = &s->set.all[index];
    const view was = {s->text.ptr + v->span.begin, v->span.end - v->span.begin};
    return s->tests.language == WIRE_COMMAND &&
           leaving_names((view){v->text, v->n_text}, s->language) > leaving_names(was, s->language);
}

/* Hidden tests, the watchdog. */
static int look_at_pass(solve *s, uint32_t index, cerium_error *err)
{
    bool weak;
    if (solve_set_program(&s->set, index, &s->solved))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
    const view program = {s->solved.ptr, s->solved.len};
    if (s->hidden.text.len) {
        wire_verdict verdict = WIRE_FAIL;
        RETURN_IF(tester_confirm(&s->judge, program, &s->hidden, &verdict, err));
        s->n_hidden_failed += verdict != WIRE_PASS;
        if (verdict != WIRE_PASS) return CERIUM_OK;
    }
    RETURN_IF(is_weak(s, program, &weak, err));
    weak |= is_leaving(s, index);
    s->n_weak += weak;
    if (weak) return CERIUM_OK;
    s->survivors[s->n_found++] = index;
    return s->o.json ? solve_show_pass(s, index, err) : CERIUM_OK;
}

/* After the first pass, check as many as were before it, and some more: what passes weak tests by
 * chance then competes with a right one. */
static uint32_t enough(const solve *s)
{
    return s->survivors_given || s->all ? UINT32_MAX : 2 * s->survivors[0] + LOOK_ON;
}

/* Everything below the frontier is known: so the order of verdicts does not matter. */
static int advance(loop *l, cerium_error *err)
{
    solve *s = l->s;
    wire_verdict verdict;
    while (l->frontier < s->set.n && !l->over &&
           solve_set_verdict(&s->set, l->frontier, &verdict)) {
        const solve_variant *v = &s->set.all[l->frontier];
        if (verdict == WIRE_PASS && !v->dropped && v->same_as == SOLVE_NONE)
            RETURN_IF(look_at_pass(s, l->frontier, err));
        l->frontier++;
        l->over = s->n_found >= s->n_survivors || (s->n_found && l->frontier >= enough(s));
    }
    return CERIUM_OK;
}

/* ---- tests ---- */

static int feed(loop *l, cerium_error *err)
{
    solve *s = l->s;
    while (tester_has_room(&s->judge)) {
        uint32_t i = l->next;
        while (i < s->set.n &&
               (s->set.all[i].state != VARIANT_MADE || s->set.all[i].same_as != SOLVE_NONE))
            i++;
        if (i == s->set.n) return CERIUM_OK;
        RETURN_IF(tester_start(&s->judge, &s->set, i, err));
        s->set.all[i].state = VARIANT_RUNNING;
        while (l->next < s->set.n && s->set.all[l->next].state >= VARIANT_RUNNING) l->next++;
    }
    return CERIUM_OK;
}

static bool has_to_stop(loop *l)
{
    solve *s = l->s;
    s->stopped = interrupt_came() || (s->budget_s > 0 && seconds(s) > s->budget_s);
    return s->stopped;
}

/* Run until all planned variants are decided, or enough pass. */
static int run_all(loop *l, cerium_error *err)
{
    solve *s = l->s;
    bool sampling = s->model.n_streams > 0;
    while (!l->over && l->frontier < s->set.n && !has_to_stop(l)) {
        if (sampling) RETURN_IF(maker_pump(&s->model, err));
        if (s->asked.n) RETURN_IF(asked_pump(&s->asked, err));
        RETURN_IF(feed(l, err));
        int news = sampling ? s->model.bell : s->asked.n_asked ? STDIN_FILENO : -1;
        RETURN_IF(tester_wait(&s->judge, &s->set, news, TICK_MS, err));
        RETURN_IF(advance(l, err));
        solve_show_progress(s, &l->shown_ns);
    }
    return CERIUM_OK;
}

/* Wait for the tests that still run; their results are ignored. */
static int settle(solve *s, cerium_error *err)
{
    while (!tester_is_idle(&s->judge)) RETURN_IF(tester_wait(&s->judge, &s->set, -1, TICK_MS, err));
    return CERIUM_OK;
}

/* The model is the caller's. */
static int use_asked(loop *l, cerium_error *err)
{
    solve *s = l->s;
    solve_asked *a = &s->asked;
    a->set = &s->set;
    a->seed = s->o.sampling.seed;
    a->n_tokens_max = s->n_tokens;
    a->temperature = s->temperature;
    for (uint32_t i = 0; i < s->n_spans; i++) a->places[a->n_places++] = s->spans[i];
    asked_plan(a, s->n_variants - s->set.n);
    return run_all(l, err);
}

static int use_model(loop *l, cerium_error *err)
{
    solve *s = l->s;
    options o = s->o;
    solve_model *m = &s->model;
    RETURN_IF(options_engine(&o, &s->engine, MODEL_STREAMS, err));
    m->engine = s->engine;
    m->o = &s->o;
    m->set = &s->set;
    m->n_tokens_max = s->n_tokens;
    m->temperature = s->temperature;
    if (s->makers[MAKER_REPAIR]) {
        s->hint.max = 4096;
        RETURN_IF(solve_hint(s, &s->hint, err));
        m->hint = (view){s->hint.ptr, s->hint.len};
    }
    m->n_places = 0;
    for (uint32_t i = 0; i < s->n_spans; i++) m->places[m->n_places++] = s->spans[i];
    RETURN_IF(maker_open(m, err));
    maker_plan(m, s->n_variants - s->set.n);
    return run_all(l, err);
}

/* With a model, half of them are its own. */
static uint32_t n_mutations(const solve *s)
{
    return s->makers[MAKER_MODEL] ? (s->n_variants + 1) / 2 : s->n_variants;
}

/* With a model, an eighth of all. */
static uint32_t n_repairs(const solve *s)
{
    uint32_t left = s->n_variants - s->set.n, most = s->n_variants / 8;
    return s->makers[MAKER_MODEL] && left > most ? most : left;
}

int solve_run(solve *s, cerium_error *err)
{
    loop l = {.s = s, .shown_ns = clock_ns()};
    uint32_t n_slots = s->n_slots;
    uint32_t cpus[THREAD_CPUS_MAX], n_cores;
    s->begin_ns = clock_ns();
    s->solved.max = 2 * SOLVE_TEXT_BYTES_MAX;
    if (!n_slots) n_slots = thread_cpus(cpus, &n_cores);
    if (!s->n_slots && n_slots > SLOTS_DEFAULT_MAX) n_slots = SLOTS_DEFAULT_MAX;
    interrupt_rings(&bell);
    int status = tester_open_slots(&s->judge, n_slots, err);
    if (!status && s->makers[MAKER_MUTATE])
        status = solve_mutate(&s->set, s->spans, s->n_spans, n_mutations(s), err);
    if (!status) status = run_all(&l, err);
    bool continues = !l.over && !s->stopped && !s->n_found && s->makers[MAKER_REPAIR];
    if (!status && continues) status = solve_repair(s, n_repairs(s), err);
    if (!status && continues) status = run_all(&l, err);
    bool found = s->n_found && !s->survivors_given && !s->all;
    bool more = !l.over && !s->stopped && !found && s->makers[MAKER_MODEL] &&
                s->set.n < s->n_variants;
    if (!status && more) status = s->asks ? use_asked(&l, err) : use_model(&l, err);
    progress_clear();
    maker_close(&s->model);
    asked_close(&s->asked);
    if (!status) status = settle(s, err);
    if (!status) status = solve_choose(s, err);
    interrupt_restore();
    return status;
}
