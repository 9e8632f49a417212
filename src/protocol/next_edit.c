/* next_edit.c - the form of a model, requests that are not sent, and answers that are edits. */
#include "protocol/next_edit.h"

#include <strings.h>

#include "protocol/diff.h"

static const char *const names[NEXT_EDIT_FORMS] = {
    [NEXT_EDIT_NONE] = "",       [NEXT_EDIT_FIM] = "fim",       [NEXT_EDIT_SWEEP] = "sweep",
    [NEXT_EDIT_ZETA] = "zeta",   [NEXT_EDIT_ZETA_2] = "zeta2",  [NEXT_EDIT_ZETA_21] = "zeta2.1",
};

const char *next_edit_name(next_edit_form form) { return names[form]; }

bool next_edit_named(view name, next_edit_form *out)
{
    for (int i = NEXT_EDIT_FIM; i < NEXT_EDIT_FORMS; i++)
        if (view_equal(name, view_of(names[i]))) {
            *out = (next_edit_form)i;
            return true;
        }
    return false;
}

next_edit_form next_edit_of_model(const char *model)
{
    const char *zeta = strcasestr(model, "zeta");
    if (strcasestr(model, "sweep") && strcasestr(model, "edit")) return NEXT_EDIT_SWEEP;
    if (!zeta) return NEXT_EDIT_NONE;
    for (zeta += 4; *zeta && strchr(" -_v", *zeta);) zeta++;
    if (!strncmp(zeta, "2.1", 3)) return NEXT_EDIT_ZETA_21;
    return *zeta == '2' ? NEXT_EDIT_ZETA_2 : NEXT_EDIT_ZETA;
}

/* ---- asking ---- */

int next_edit_take_lf(bytes *out, view text, size_t *at)
{
    const size_t caret = *at;
    RETURN_IF(bytes_reserve(out, text.len));
    for (size_t i = 0; i < text.len; i++) {
        const bool goes = text.ptr[i] == '\r' && i + 1 < text.len && text.ptr[i + 1] == '\n';
        if (!goes) out->ptr[out->len++] = text.ptr[i];
        else if (i < caret) (*at)--;
    }
    return CERIUM_OK;
}

static const char *const marks[NEXT_EDIT_FORMS][8] = {
    [NEXT_EDIT_SWEEP] = {"<|file_sep|>", "<|endoftext|>", "<|cursor|>"},
    [NEXT_EDIT_ZETA] = {"<|start_of_file|>", "<|editable_region_start|>",
                        "<|editable_region_end|>", "<|user_cursor_is_here|>"},
    [NEXT_EDIT_ZETA_2] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>",
                          "<|user_cursor|>"},
    [NEXT_EDIT_ZETA_21] = {"<[fim-suffix]>", "<[fim-prefix]>", "<[fim-middle]>", "<filename>",
                           "<|user_cursor|>", "<|marker_"},
};

static bool has_mark(next_edit_form form, view text)
{
    for (size_t i = 0; i < ARRAY_LEN(marks[form]) && marks[form][i]; i++)
        if (text.len && memmem(text.ptr, text.len, marks[form][i], strlen(marks[form][i])))
            return true;
    return false;
}

static bool has_marks(next_edit_form form, const next_edit_place *place)
{
    bool has = has_mark(form, place->text) || has_mark(form, place->path) ||
               has_mark(form, place->original);
    for (size_t i = 0; i < place->n_changes && !has; i++)
        has = has_mark(form, place->changes[i].diff) || has_mark(form, place->changes[i].path);
    for (size_t i = 0; i < place->n_snippets && !has; i++)
        has = has_mark(form, place->snippets[i].text) || has_mark(form, place->snippets[i].path);
    return has;
}

static bool has_long_line(view window)
{
    size_t n = 0;
    for (size_t i = 0; i < window.len; i++) {
        n = window.ptr[i] == '\n' ? 0 : n + 1;
        if (n > NEXT_EDIT_LINE_BYTES_MAX) return true;
    }
    return false;
}

static void take_line(next_edit_prompt *p, const next_edit_place *place)
{
    const view text = place->text;
    p->from = p->to = place->caret;
    while (p->from && text.ptr[p->from - 1] != '\n') p->from--;
    while (p->to < text.len && text.ptr[p->to++] != '\n') continue;
}

int next_edit_ask(next_edit_prompt *out, next_edit_form form, const next_edit_place *place,
                  const char **why)
{
    next_edit_prompt p = {.form = form, .text = {.max = 4 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX}};
    int status = CERIUM_OK;
    CHECK(form > NEXT_EDIT_NONE && form < NEXT_EDIT_FORMS && place->caret <= place->text.len);
    *why = NULL;
    if (place->text.len > NEXT_EDIT_TEXT_BYTES_MAX ||
        place->original.len > NEXT_EDIT_TEXT_BYTES_MAX)
        return CERIUM_ERR_CAPACITY;
    if (has_marks(form, place)) {
        *why = "the text holds a mark of the model's form";
        return CERIUM_OK;
    }
    if (form == NEXT_EDIT_FIM) take_line(&p, place);
    else if (form == NEXT_EDIT_SWEEP) status = next_edit_ask_sweep(&p, place);
    else status = next_edit_ask_zeta(&p, place);
    if (!status && form != NEXT_EDIT_FIM && p.from == p.to)
        *why = "there are only blank lines";
    else if (!status && has_long_line((view){place->text.ptr + p.from, p.to - p.from}))
        *why = "a line is too long";
    if (status || *why) next_edit_close(&p);
    else *out = p;
    return status;
}

void next_edit_close(next_edit_prompt *p)
{
    bytes_free(&p->text);
    *p = (next_edit_prompt){.form = NEXT_EDIT_NONE};
}

/* ---- answers ---- */

static view window_of(const next_edit_place *place, const next_edit_prompt *p)
{
    return (view){place->text.ptr + p->from, p->to - p->from};
}

static bool ends_line(view text) { return text.len && text.ptr[text.len - 1] == '\n'; }

/* Its last lines' ends become those of the window. */
static int put_lines(bytes *out, view window, view answer)
{
    if (ends_line(answer) && !ends_line(window)) answer.len--;
    RETURN_IF(bytes_append(out, answer.ptr, answer.len));
    const bool wants_end = ends_line(window) && answer.len && !ends_line(answer);
    return wants_end ? bytes_append(out, "\n", 1) : CERIUM_OK;
}

/* The answer without a mark, which a model may repeat. */
static int drop_mark(view *answer, const char *mark, bytes *kept)
{
    view rest = *answer;
    const size_t n = strlen(mark);
    if (!memmem(rest.ptr, rest.len, mark, n)) return CERIUM_OK;
    kept->max = NEXT_EDIT_TEXT_BYTES_MAX;
    for (const char *at; (at = memmem(rest.ptr, rest.len, mark, n));) {
        const size_t before = (size_t)(at - rest.ptr);
        RETURN_IF(bytes_append(kept, rest.ptr, before));
        rest = (view){at + n, rest.len - before - n};
    }
    RETURN_IF(bytes_append(kept, rest.ptr, rest.len));
    *answer = (view){kept->ptr ? kept->ptr : "", kept->len};
    return CERIUM_OK;
}

/* Empty lines at the beginning do not belong to Sweep's answer; a window has none there. */
static view from_first_line(view text)
{
    size_t at = 0, line = 0;
    for (; at < text.len && memchr(" \t\r\n", text.ptr[at], 4); at++)
        if (text.ptr[at] == '\n') line = at + 1;
    return (view){text.ptr + line, text.len - line};
}

static view between(view text, view begin, view end)
{
    const char *at = memmem(text.ptr, text.len, begin.ptr, begin.len);
    if (at) {
        at += begin.len;
        text = (view){at, text.len - (size_t)(at - text.ptr)};
        if (text.len && *text.ptr == '\n') text.ptr++, text.len--;
    }
    at = memmem(text.ptr, text.len, end.ptr, end.len);
    if (at) text.len = (size_t)(at - text.ptr);
    return text;
}

/* The window in the answer; *why: the reason for none. */
static int read_window(bytes *out, const next_edit_place *place, const next_edit_prompt *p,
                       view answer, const char **why)
{
    const view window = window_of(place, p);
    const size_t caret = place->caret - (place->caret < p->from ? place->caret : p->from);
    bytes kept = {0};
    int status = CERIUM_OK;
    view region = window;
    switch (p->form) {
    case NEXT_EDIT_FIM:
        status = bytes_append(out, window.ptr, caret);
        if (!status) status = bytes_append(out, answer.ptr, answer.len);
        if (!status) status = bytes_append(out, window.ptr + caret, window.len - caret);
        break;
    case NEXT_EDIT_SWEEP:
        status = drop_mark(&answer, "<|cursor|>", &kept);
        answer = from_first_line(answer);
        if (view_starts(answer, VIEW("<|"))) *why = "the answer is not code";
        if (!status) status = put_lines(out, window, answer.len ? answer : window);
        break;
    case NEXT_EDIT_ZETA:
        status = drop_mark(&answer, "<|user_cursor_is_here|>", &kept);
        answer = between(answer, VIEW("<|editable_region_start|>"),
                         VIEW("<|editable_region_end|>"));
        if (!status) status = put_lines(out, window, answer);
        break;
    case NEXT_EDIT_ZETA_2:
        status = drop_mark(&answer, "<|user_cursor|>", &kept);
        if (!status) status = put_lines(out, window, answer);
        break;
    case NEXT_EDIT_ZETA_21:
        status = drop_mark(&answer, "<|user_cursor|>", &kept);
        if (ends_line(window) && place->caret < p->to) region.len--;
        if (!status && !next_edit_from_blocks(region, answer, out, &status) && !status)
            *why = "the answer has no marks that fit";
        if (!status && !*why && region.len < window.len) status = bytes_append(out, "\n", 1);
        break;
    case NEXT_EDIT_NONE:
    case NEXT_EDIT_FORMS: break;
    }
    bytes_free(&kept);
    return status;
}

/* ---- refused edits ---- */

/* Runs of line ends count as one. */
static bool same_lines(view a, view b)
{
    size_t i = 0, k = 0;
    while (i < a.len && k < b.len) {
        if (a.ptr[i] != b.ptr[k]) return false;
        if (a.ptr[i] == '\n') {
            while (i < a.len && a.ptr[i] == '\n') i++;
            while (k < b.len && b.ptr[k] == '\n') k++;
        } else {
            i++;
            k++;
        }
    }
    while (i < a.len && a.ptr[i] == '\n') i++;
    while (k < b.len && b.ptr[k] == '\n') k++;
    return i == a.len && k == b.len;
}

/* Would the edit return to an earlier state of the text? */
static bool is_revert(const next_edit_place *place, view window, view now)
{
    edit_hunk hunks[NEXT_EDIT_CHANGES_MAX];
    size_t n = edit_hunks(place, hunks, NEXT_EDIT_CHANGES_MAX);
    bytes was = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    int status = bytes_append(&was, window.ptr, window.len);
    bool is = false;
    while (!status && !is && n-- > 0 && edit_hunk_undo(&hunks[n], &was, &status))
        is = same_lines((view){was.ptr ? was.ptr : "", was.len}, now);
    bytes_free(&was);
    return is;
}

static uint32_t count_lines(view text, size_t to)
{
    uint32_t n = 0;
    for (size_t i = 0; i < to; i++) n += text.ptr[i] == '\n';
    return n;
}

static const char *refusal(const next_edit_place *place, const next_edit_prompt *p, const diff *d,
                           view now)
{
    const view window = window_of(place, p);
    const size_t caret = place->caret < p->from ? 0 : place->caret - p->from;
    const uint32_t line = count_lines(window, caret < window.len ? caret : window.len);
    uint32_t added, removed;
    if (!d->n_changes) return "no change";
    if (p->form == NEXT_EDIT_FIM) return NULL;
    if (is_revert(place, window, now)) return "it takes back what the user changed";
    diff_count(d, &added, &removed);
    const diff_change *last = &d->changes[d->n_changes - 1];
    const bool is_above = last->a + last->n_a <= line;
    if (is_above && !removed) return "it only puts lines in above the caret";
    if (d->changes[0].a < line && added > 5 && removed > 5)
        return "it changes too much above the caret";
    if (added > removed + NEXT_EDIT_NEW_LINES_MAX) return "it is too long";
    return NULL;
}

/* ---- edits ---- */

static next_edit edit_of(const diff *d, const diff_change *c, uint32_t first)
{
    size_t n = 0;
    for (uint32_t k = 0; k < c->n_b; k++) n += d->lines[1][c->b + k].len;
    return (next_edit){.line = first + c->a, .n_lines = c->n_a,
                       .text = {c->n_b ? d->lines[1][c->b].ptr : "", n}};
}

/* Edits at and below the caret in order, then those above. */
static int list_edits(next_edits *out, const next_edit_place *place, const next_edit_prompt *p,
                      const diff *d)
{
    const uint32_t first = count_lines(place->text, p->from);
    const uint32_t line = count_lines(place->text, place->caret);
    uint32_t begin = 0;
    out->list = memory_alloc(d->n_changes * sizeof *out->list);
    if (!out->list) return CERIUM_ERR_MEMORY;
    while (begin < d->n_changes) {
        const diff_change *c = &d->changes[begin];
        if (first + c->a + c->n_a > line || (!c->n_a && first + c->a >= line)) break;
        begin++;
    }
    for (uint32_t i = 0; i < d->n_changes; i++)
        out->list[out->n++] = edit_of(d, &d->changes[(begin + i) % d->n_changes], first);
    return CERIUM_OK;
}

static int take_edits(next_edits *out, const next_edit_place *place, const next_edit_prompt *p,
                      view now, const char **why)
{
    cerium_error err;
    diff d;
    RETURN_IF(diff_open(&d, window_of(place, p), now, false, &err));
    *why = refusal(place, p, &d, now);
    int status = *why ? CERIUM_OK : list_edits(out, place, p, &d);
    diff_close(&d);
    return status;
}

int next_edit_read(next_edits *out, const next_edit_place *place, const next_edit_prompt *prompt,
                   view answer, bool is_whole, const char **why)
{
    next_edits e = {.window = {.max = 2 * (size_t)NEXT_EDIT_TEXT_BYTES_MAX}};
    *why = is_whole || prompt->form == NEXT_EDIT_FIM ? NULL : "the answer has no end";
    int status = *why ? CERIUM_OK : read_window(&e.window, place, prompt, answer, why);
    const view now = {e.window.ptr ? e.window.ptr : "", e.window.len};
    if (!status && !*why) status = take_edits(&e, place, prompt, now, why);
    if (status || *why) next_edits_close(&e);
    *out = e;
    return status;
}

void next_edits_close(next_edits *e)
{
    bytes_free(&e->window);
    memory_free(e->list);
    *e = (next_edits){.n = 0};
}
