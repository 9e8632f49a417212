/* solve_repair.c - uses a failure: which lines to edit first, what to show a model, and which
 * variants to edit again. */
#include "programs/solve_run.h"

#include <ctype.h>

#include "programs/solve_mutate.h"

enum { PARENTS = 4, TEST_BYTES_MAX = 120, HINT_BYTES_MAX = 240 };

/* ---- how the file fails ---- */

static uint32_t count_lines(view text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '\n';
    return n;
}

void solve_read_failure(solve *s, const sandbox_result *r)
{
    const view failure = solve_failure(r), tests = {s->tests.text.ptr, s->tests.text.len};
    char name[WIRE_NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%.*s", (int)s->judge.name.len, s->judge.name.ptr);
    solve_failed *f = &s->failed;
    *f = (solve_failed){.n_passed = r->n_passed,
                        .outer = solve_failed_line(r, s->tests.language)};
    uint32_t line = solve_line_of(r->why.len ? r->why : r->err, name), of_tests = 0;
    if (line <= count_lines(s->text) + 1) f->line = line;
    if (r->why.len) of_tests = solve_line_of(r->why, "tests");
    const view test = of_tests ? solve_line_span_text(tests, of_tests) : (view){"", 0};
    const int n_test = (int)(test.len < TEST_BYTES_MAX ? test.len : TEST_BYTES_MAX);
    const int n_failure = (int)(failure.len < HINT_BYTES_MAX ? failure.len : HINT_BYTES_MAX);
    snprintf(f->text, sizeof f->text, "%.*s%s%.*s", n_test, test.ptr, n_test ? ": " : "", n_failure,
             failure.ptr ? failure.ptr : "");
    for (char *c = f->text; *c; c++)
        if (!isprint((unsigned char)*c)) *c = ' ';
}

/* ---- where to look first ---- */

/* Is it in a function named in the failing test? */
static bool is_named(const solve *s, solve_span at)
{
    const view text = view_of(s->failed.text);
    solve_token t;
    char name[128];
    for (size_t i = 0; solve_token_next(text, s->language, &i, &t);) {
        solve_span body;
        cerium_error ignored;
        if (t.kind != TOKEN_NAME || t.end - t.begin >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)(t.end - t.begin), text.ptr + t.begin);
        if (mutate_is_keyword(view_of(name))) continue;
        if (solve_function_span(s->text, s->language, name, &body, &ignored)) continue;
        if (at.begin >= body.begin && at.end <= body.end) return true;
    }
    return false;
}

void solve_sort_places(solve *s)
{
    const solve_span failed = solve_line_span(s->text, s->failed.line);
    solve_span sorted[SOLVE_HOLES_MAX];
    uint32_t n = 0, ranks[SOLVE_HOLES_MAX];
    for (uint32_t i = 0; i < s->n_spans; i++) {
        bool here = s->failed.line && s->spans[i].begin == failed.begin;
        ranks[i] = here ? 0 : is_named(s, s->spans[i]) ? 1 : 2;
    }
    for (uint32_t rank = 0; rank < 3; rank++)
        for (uint32_t i = 0; i < s->n_spans; i++)
            if (ranks[i] == rank) sorted[n++] = s->spans[i];
    memcpy(s->spans, sorted, n * sizeof *sorted);
}

/* ---- edits of variants that nearly pass ---- */

/* Did it get further than the unchanged file?  More tests pass; if they are not counted, a later
 * one fails, or the failure text differs. */
static uint32_t progress_of(const solve *s, const solve_variant *v)
{
    if (v->state != VARIANT_DECIDED || v->dropped || v->same_as != SOLVE_NONE) return 0;
    if (v->verdict != WIRE_FAIL && v->verdict != WIRE_ERROR) return 0;
    if (v->n_passed > s->failed.n_passed) return 1 + v->n_passed - s->failed.n_passed;
    if (v->failed_line > s->failed.outer) return 1 + v->failed_line - s->failed.outer;
    bool counted = s->tests.language == WIRE_PYTHON || v->failed_line;
    return !counted && v->verdict == WIRE_FAIL && v->why && *v->why &&
           !strstr(s->failed.text, v->why);
}

/* The place that a variant changes. */
static solve_span place_of(const solve *s, const solve_variant *v)
{
    for (uint32_t i = 0; i < s->n_spans; i++)
        if (s->spans[i].begin <= v->span.begin && s->spans[i].end >= v->span.end)
            return s->spans[i];
    return v->span;
}

static int take_edit(solve *s, view program, solve_span was, solve_span now,
                     const solve_variant *edit, bytes *text, cerium_error *err)
{
    text->len = 0;
    if (edit->span.begin < now.begin || edit->span.end > now.end) return CERIUM_OK;
    if (bytes_append(text, program.ptr + now.begin, edit->span.begin - now.begin) ||
        bytes_append(text, edit->text, edit->n_text) ||
        bytes_append(text, program.ptr + edit->span.end, now.end - edit->span.end))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a variant");
    uint32_t index = solve_set_plan(&s->set, MAKER_REPAIR);
    if (index == SOLVE_NONE) return CERIUM_OK;
    return solve_set_make(&s->set, index, was, (view){text->ptr, text->len}, err);
}

static int edit_again(solve *s, uint32_t parent, uint32_t n, cerium_error *err)
{
    const solve_variant *v = &s->set.all[parent];
    const solve_span was = place_of(s, v);
    const size_t end = was.end + v->n_text - (v->span.end - v->span.begin);
    const solve_span now = {was.begin, end};
    bytes program = {.max = 2 * SOLVE_TEXT_BYTES_MAX}, text = {.max = SOLVE_TEXT_BYTES_MAX};
    solve_set edits = {0};
    int status = solve_set_program(&s->set, parent, &program);
    if (status) status = error_set(err, status, "no memory for a variant");
    const view all = {program.ptr, program.len};
    if (!status) status = solve_set_open(&edits, all, s->language, n, err);
    if (!status) status = solve_mutate(&edits, &now, 1, n, err);
    for (uint32_t i = 0; i < edits.n && !status; i++)
        status = take_edit(s, all, was, now, &edits.all[i], &text, err);
    solve_set_close(&edits);
    bytes_free(&program);
    bytes_free(&text);
    return status;
}

int solve_repair(solve *s, uint32_t n, cerium_error *err)
{
    uint32_t best[PARENTS], n_best = 0;
    for (uint32_t i = 0; i < s->set.n; i++) {
        uint32_t far = progress_of(s, &s->set.all[i]), at = n_best;
        if (!far || s->set.all[i].maker == MAKER_REPAIR) continue;
        while (at > 0 && progress_of(s, &s->set.all[best[at - 1]]) < far) at--;
        if (at == PARENTS) continue;
        if (n_best < PARENTS) n_best++;
        memmove(best + at + 1, best + at, (n_best - at - 1) * sizeof *best);
        best[at] = i;
    }
    for (uint32_t i = 0; i < n_best; i++) RETURN_IF(edit_again(s, best[i], n / n_best, err));
    return CERIUM_OK;
}

/* ---- the prompt ---- */

int solve_hint(const solve *s, bytes *out, cerium_error *err)
{
    const char *mark = s->language == WIRE_JAVASCRIPT || s->language == WIRE_C ? "// " : "# ";
    out->len = 0;
    if (!s->failed.text[0]) return CERIUM_OK;
    if (bytes_append(out, mark, strlen(mark)) || bytes_append(out, "fails: ", 7) ||
        bytes_append(out, s->failed.text, strlen(s->failed.text)) || bytes_append(out, "\n", 1))
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a prompt");
    return CERIUM_OK;
}
