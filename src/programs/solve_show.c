/* solve_show.c - what `cerium solve` prints: progress, events, the diff, the figures. */
#include "programs/solve_run.h"

#include <errno.h>
#include <jansson.h>

#include "programs/output.h"
#include "programs/terminal.h"
#include "protocol/diff.h"

static const uint64_t PROGRESS_NS = 100000000;

static double seconds(const solve *s) { return (double)(clock_ns() - s->begin_ns) / 1e9; }

/* ---- events ---- */

static int put_event(json_t *event, cerium_error *err)
{
    RETURN_IF(output_json(event, JSON_COMPACT, err));
    return output_flush(err);
}

int solve_show_begin(const solve *s, cerium_error *err)
{
    if (!s->o.json) return CERIUM_OK;
    return put_event(json_pack("{s:s, s:o, s:{s:s, s:f}, s:s, s:I}", "event", "begin", "file",
                               json_name(s->place.path), "tests", "before",
                               sandbox_verdict_name(s->before), "ms", s->before_ms, "sandbox",
                               s->level ? "basic" : "strict", "variants",
                               (json_int_t)s->n_variants), err);
}

static json_t *figures(const solve *s, const char *event)
{
    const solve_set *v = &s->set;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", "event", event, "made",
                     (json_int_t)v->n_made, "different", (json_int_t)v->n_different, "tested",
                     (json_int_t)v->n_tested, "passed", (json_int_t)v->n_passed, "tokens",
                     (json_int_t)v->n_tokens, "seconds", seconds(s));
}

void solve_show_progress(const solve *s, uint64_t *shown_ns)
{
    const solve_set *v = &s->set;
    uint64_t now = clock_ns();
    cerium_error ignored;
    if (now - *shown_ns < PROGRESS_NS || s->quiet) return;
    *shown_ns = now;
    if (s->o.json) (void)!put_event(figures(s, "progress"), &ignored);
    double t = seconds(s);
    progress_show("solve: %u made, %u different, %u tested, %u pass; %.1fk tokens/s, %.0f tests/s; "
                  "%.1f s", v->n_made, v->n_different, v->n_tested, v->n_passed,
                  (double)v->n_tokens / t / 1e3, v->n_tested / t, t);
}

int solve_show_pass(const solve *s, uint32_t index, cerium_error *err)
{
    const solve_variant *v = &s->set.all[index];
    return put_event(json_pack("{s:s, s:I, s:I, s:f, s:s, s:b}", "event", "pass", "index",
                               (json_int_t)index, "seed", (json_int_t)v->seed, "temperature",
                               (double)v->temperature, "maker", solve_maker_name(v->maker),
                               "hidden", (int)(s->hidden.text.len > 0)), err);
}

/* ---- the end ---- */

/* The diff between the unchanged and the changed file; owned. */
static char *diff_text(const solve *s, view now, size_t *len)
{
    char *text = NULL;
    diff d;
    cerium_error err;
    FILE *out = open_memstream(&text, len);
    if (!out) return NULL;
    if (!diff_open(&d, s->text, now, false, &err)) {
        diff_print(&d, s->place.path, out);
        diff_close(&d);
    }
    fclose(out);
    return text;
}

static const char *status_name(const solve *s)
{
    if (s->winner != SOLVE_NONE) return "found";
    return s->stopped ? "stopped" : "none";
}

static json_t *verdicts_json(const solve *s)
{
    json_t *all = json_object();
    for (wire_verdict v = WIRE_PASS; v < WIRE_VERDICTS; v++)
        if (s->set.verdicts[v])
            json_object_set_new(all, sandbox_verdict_name(v),
                                json_integer((json_int_t)s->set.verdicts[v]));
    return all;
}

void solve_show_error(const cerium_error *err)
{
    cerium_error ignored;
    (void)!put_event(json_pack("{s:s, s:b, s:o}", "event", "error", "refused",
                               (int)(err->status == CERIUM_ERR_ARGUMENT ||
                                     err->status == CERIUM_ERR_FORMAT ||
                                     err->status == CERIUM_ERR_CAPACITY),
                               "message", json_text(view_of(err->message))), &ignored);
}

/* The variant that got furthest, if none passes. */
static json_t *nearest_json(const solve *s)
{
    const uint32_t near = s->winner == SOLVE_NONE ? solve_nearest(s) : SOLVE_NONE;
    if (near == SOLVE_NONE) return json_null();
    const solve_variant *v = &s->set.all[near];
    return json_pack("{s:I, s:I, s:o}", "index", (json_int_t)near, "passed",
                     (json_int_t)v->n_passed, "why",
                     json_text(view_of(v->why && *v->why ? v->why
                                                         : sandbox_verdict_name(v->verdict))));
}

static int print_json(const solve *s, view shown, bool is_applied, cerium_error *err)
{
    json_t *all = figures(s, "end");
    json_t *text = json_text(shown);
    int status = all ? 0 : -1;
    if (s->engine) {
        cerium_engine_stats did;
        cerium_engine_measure(s->engine, &did);
        status |= json_object_set_new(all, "rows", json_integer((json_int_t)did.answer_rows));
    }
    status |= json_object_set_new(all, "nearest", nearest_json(s));
    if (s->asks && s->winner != SOLVE_NONE)
        status |= json_object_set_new(all, "text", json_text((view){s->solved.ptr, s->solved.len}));
    if (s->asks) status |= json_object_set_new(all, "model", asked_state(&s->asked));
    status |= json_object_set_new(all, "status", json_string(status_name(s)));
    status |= json_object_set_new(all, "diff", text);
    status |= json_object_set_new(all, "applied", json_boolean(is_applied));
    status |= json_object_set_new(all, "verdicts", verdicts_json(s));
    if (s->winner != SOLVE_NONE)
        status |= json_object_set_new(all, "index", json_integer((json_int_t)s->winner));
    if (!status) return put_event(all, err);
    json_decref(all);
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the output");
}

static void tell_winner(const solve *s)
{
    const solve_variant *v = &s->set.all[s->winner];
    fprintf(stderr, "variant %u of %u (%s", s->winner, s->set.n, solve_maker_name(v->maker));
    if (v->maker == MAKER_MODEL || v->temperature > 0)
        fprintf(stderr, ", seed %llu, temperature %.1f", (unsigned long long)v->seed,
                (double)v->temperature);
    fprintf(stderr, ") passes the tests%s", s->hidden.text.len ? " and the hidden ones" : "");
    bool compared = s->tests.language == WIRE_PYTHON && s->tests.mode == WIRE_TESTS;
    if (s->n_found > 1) fprintf(stderr, "; %u others pass", s->n_found - 1);
    if (s->n_found > 1 && compared)
        fprintf(stderr, ", %u of them do the same on other inputs", s->n_alike);
    fprintf(stderr, "\n");
}

static void tell_nearest(const solve *s)
{
    uint32_t near = solve_nearest(s);
    if (near == SOLVE_NONE) return;
    const solve_variant *v = &s->set.all[near];
    fprintf(stderr, "nearest: variant %u passes %u, then %s\n", near, v->n_passed,
            v->why && *v->why ? v->why : sandbox_verdict_name(v->verdict));
}

static void tell_none(const solve *s)
{
    const solve_set *v = &s->set;
    uint32_t slow = v->verdicts[WIRE_TIMEOUT] + v->verdicts[WIRE_CPU];
    uint32_t greedy = v->verdicts[WIRE_MEMORY] + v->verdicts[WIRE_OUTPUT];
    uint32_t failed_ = v->verdicts[WIRE_FAIL] + v->verdicts[WIRE_ERROR];
    fprintf(stderr, "solve: none of %u variants (%u different) passes%s: %u do not parse, %u ran "
            "too long, %u took too much, %u fail", v->n_made, v->n_different,
            s->stopped ? " so far" : "", v->verdicts[WIRE_PARSE], slow, greedy, failed_);
    if (v->n_dropped) fprintf(stderr, ", %u were empty or had no end", v->n_dropped);
    if (s->n_hidden_failed)
        fprintf(stderr, ", %u pass but not the hidden tests", s->n_hidden_failed);
    if (s->n_weak) fprintf(stderr, ", %u pass but are weak", s->n_weak);
    if (s->n_flaky) fprintf(stderr, ", %u passed only once", s->n_flaky);
    fprintf(stderr, "\n");
}

static void tell_cost(const solve *s)
{
    const solve_set *v = &s->set;
    double t = seconds(s);
    fprintf(stderr, "%u made, %u different, %u tested, %u pass; %llu tokens; %.1f s, %.0f tests/s, "
            "%.2f s of processor time in tests\n", v->n_made, v->n_different, v->n_tested,
            v->n_passed, (unsigned long long)v->n_tokens, t, v->n_tested / t,
            (double)s->judge.cpu_ns / 1e9);
}

int solve_show_end(solve *s, bool is_applied)
{
    cerium_error err;
    size_t len = 0;
    char *text = NULL;
    uint32_t shown = s->winner == SOLVE_NONE && s->show_nearest ? solve_nearest(s) : s->winner;
    int status = CERIUM_OK;
    if (shown != SOLVE_NONE && !solve_set_program(&s->set, shown, &s->solved))
        text = diff_text(s, (view){s->solved.ptr, s->solved.len}, &len);
    const view made = {text, text ? len : 0};
    if (s->o.json) status = print_json(s, made, is_applied, &err);
    else write_view(made, stdout);
    if (!status) status = output_flush(&err);
    memory_release(text);
    if (status) return failed(&err);
    if (!s->o.json && s->winner == SOLVE_NONE) {
        tell_none(s);
        tell_nearest(s);
    } else if (!s->o.json && !s->quiet) {
        tell_winner(s);
    }
    if (!s->o.json && !s->quiet) tell_cost(s);
    return s->winner == SOLVE_NONE ? EXIT_FAILED : 0;
}

int solve_keep(const solve *s, cerium_error *err)
{
    FILE *out = s->keep ? fopen(s->keep, "wx") : NULL;
    int bad = 0;
    if (!s->keep) return CERIUM_OK;
    if (!out) return error_set(err, CERIUM_ERR_IO, "%s: %s", s->keep, strerror(errno));
    for (uint32_t i = 0; i < s->set.n && !bad; i++) {
        const solve_variant *v = &s->set.all[i];
        wire_verdict verdict;
        bool known = solve_set_verdict(&s->set, i, &verdict) && !v->dropped;
        json_t *line = json_pack("{s:I, s:s, s:o, s:[I, I], s:s, s:I, s:f}", "index",
                                 (json_int_t)i, "maker", solve_maker_name(v->maker), "text",
                                 json_text((view){v->text, v->n_text}), "at",
                                 (json_int_t)v->span.begin, (json_int_t)v->span.end, "verdict",
                                 known ? sandbox_verdict_name(verdict) : "", "seed",
                                 (json_int_t)v->seed, "temperature", (double)v->temperature);
        bad = !line || json_dumpf(line, out, JSON_COMPACT) || fputc('\n', out) == EOF;
        json_decref(line);
    }
    bad |= fclose(out) != 0;
    return bad ? error_set(err, CERIUM_ERR_IO, "%s: not all of it could be written", s->keep)
               : CERIUM_OK;
}
