/* next_edit_zeta.c - the prompts of Zed's Zeta 1, 2 and 2.1, byte for byte as Zed writes them: the
 * user's changes, snippets, and an excerpt with a region to rewrite. */
#include "protocol/next_edit.h"
#include "protocol/next_edit_lines.h"

enum {
    TOKEN_BYTES = 3,        /* as Zed counts */
    PROMPT_TOKENS = 4096,   /* of all; the rest is for changes, the newest first, then for
                               snippets */
};

/* The names of a form's parts. */
typedef struct {
    uint32_t region_tokens, around_tokens;
    const char *file, *history; /* marks */
    const char *cursor;
} zeta_form;

static const zeta_form forms[NEXT_EDIT_FORMS] = {
    [NEXT_EDIT_ZETA] = {350, 150, NULL, NULL, "<|user_cursor_is_here|>"},
    [NEXT_EDIT_ZETA_2] = {180, 350, "<|file_sep|>", "edit history", "<|user_cursor|>"},
    [NEXT_EDIT_ZETA_21] = {350, 150, "<filename>", "edit_history", "<|user_cursor|>"},
};

/* The excerpt's parts; a region has no line end at its end. */
typedef struct {
    view before, region, after;
    size_t caret; /* of region */
    bool from_begin;
} excerpt;

static int put(bytes *out, view text) { return bytes_append(out, text.ptr, text.len); }

static int put_text(bytes *out, const char *text) { return put(out, view_of(text)); }

static int end_line(bytes *out)
{
    return out->len && out->ptr[out->len - 1] == '\n' ? CERIUM_OK : put_text(out, "\n");
}

/* ---- the excerpt of the file ---- */

/* Alternate whole lines below and above, as many more bytes as fit. */
static void grow(view text, size_t *from, size_t *to, size_t room)
{
    bool below = true, above = true;
    while (below || above) {
        size_t end = line_end(text, *to);
        below = below && end > *to && end - *to <= room;
        if (below) room -= end - *to, *to = end;
        size_t begin = *from ? line_begin(text, *from - 1) : 0;
        above = above && begin < *from && *from - begin <= room;
        if (above) room -= *from - begin, *from = begin;
    }
}

static excerpt cut(next_edit_prompt *p, const next_edit_place *place)
{
    const zeta_form *form = &forms[p->form];
    const view text = place->text;
    size_t from = line_begin(text, place->caret), to = line_end(text, place->caret);
    const size_t room = (size_t)form->region_tokens * TOKEN_BYTES;
    if (to - from < room) grow(text, &from, &to, room - (to - from));
    p->from = from;
    p->to = to;
    const size_t end = to > from && text.ptr[to - 1] == '\n' && to > place->caret ? to - 1 : to;
    size_t a = from, b = to;
    grow(text, &a, &b, (size_t)form->around_tokens * TOKEN_BYTES);
    return (excerpt){.before = {text.ptr + a, from - a},
                     .region = {text.ptr + from, end - from},
                     .after = {text.ptr + end, b - end},
                     .caret = place->caret - from,
                     .from_begin = !a};
}

static int put_region(bytes *out, const next_edit_prompt *p, const excerpt *e)
{
    RETURN_IF(put(out, (view){e->region.ptr, e->caret}));
    RETURN_IF(put_text(out, forms[p->form].cursor));
    return put(out, (view){e->region.ptr + e->caret, e->region.len - e->caret});
}

/* ---- changes ---- */

static view relative(view path)
{
    while (path.len && *path.ptr == '/') path.ptr++, path.len--;
    return path;
}

static int put_fenced(bytes *out, const next_edit_change *c)
{
    RETURN_IF(put_text(out, "User edited "));
    RETURN_IF(put(out, c->path));
    RETURN_IF(put_text(out, ":\n```diff\n"));
    RETURN_IF(put(out, c->diff));
    return put_text(out, "\n```");
}

static int put_diff(bytes *out, const next_edit_change *c)
{
    if (c->is_accepted) RETURN_IF(put_text(out, "// User accepted prediction:\n"));
    RETURN_IF(put_text(out, "--- a/"));
    RETURN_IF(put(out, relative(c->path)));
    RETURN_IF(put_text(out, "\n+++ b/"));
    RETURN_IF(put(out, relative(c->path)));
    RETURN_IF(put_text(out, "\n"));
    RETURN_IF(put(out, c->diff));
    return end_line(out);
}

/* The newest changes that fit; *room: tokens. */
static int put_changes(bytes *out, const next_edit_prompt *p, const next_edit_place *place,
                       size_t *room)
{
    const bool is_fenced = p->form == NEXT_EDIT_ZETA;
    bytes one = {.max = out->max}, head = {.max = out->max};
    size_t first = place->n_changes, used = 0;
    int status = CERIUM_OK;
    if (!is_fenced) {
        status = put_text(&head, forms[p->form].file);
        if (!status) status = put_text(&head, forms[p->form].history);
        if (!status) status = put_text(&head, "\n");
        used = head.len / TOKEN_BYTES;
    }
    for (size_t i = first; i-- > 0 && !status && used < *room;) {
        one.len = 0;
        status = is_fenced ? put_fenced(&one, &place->changes[i])
                           : put_diff(&one, &place->changes[i]);
        if (used + one.len / TOKEN_BYTES > *room) break;
        used += one.len / TOKEN_BYTES;
        first = i;
    }
    const bool any = first < place->n_changes;
    const size_t begin = out->len;
    if (any && !status) status = put(out, (view){head.ptr ? head.ptr : "", head.len});
    for (size_t i = first; i < place->n_changes && !status; i++) {
        if (is_fenced && i > first) status = put_text(out, "\n\n");
        if (!status)
            status = is_fenced ? put_fenced(out, &place->changes[i])
                               : put_diff(out, &place->changes[i]);
    }
    *room -= (out->len - begin) / TOKEN_BYTES < *room ? (out->len - begin) / TOKEN_BYTES : *room;
    bytes_free(&one);
    bytes_free(&head);
    return status;
}

/* ---- snippets ---- */

/* Adjacent snippets of one file share one heading. */
static int put_snippets(bytes *out, const next_edit_prompt *p, const next_edit_place *place,
                        size_t room)
{
    const char *mark = forms[p->form].file;
    size_t used = 0;
    for (size_t i = 0; i < place->n_snippets; i++) {
        const next_edit_snippet *s = &place->snippets[i];
        const bool is_same = i && view_equal(s->path, place->snippets[i - 1].path);
        size_t n = is_same ? 0 : (strlen(mark) + s->path.len + 1) / TOKEN_BYTES;
        n += (s->text.len + 1 + (s->is_part ? 4 : 0)) / TOKEN_BYTES;
        if (used + n > room) return CERIUM_OK;
        used += n;
        if (!is_same) {
            RETURN_IF(put_text(out, mark));
            RETURN_IF(put(out, s->path));
            RETURN_IF(put_text(out, "\n"));
        }
        RETURN_IF(put(out, s->text));
        RETURN_IF(end_line(out));
        if (s->is_part) RETURN_IF(put_text(out, "...\n"));
    }
    return CERIUM_OK;
}

/* ---- the three forms ---- */

static int ask_1(next_edit_prompt *p, const next_edit_place *place, const excerpt *e)
{
    bytes *out = &p->text;
    size_t room = PROMPT_TOKENS - (e->before.len + e->region.len + e->after.len) / TOKEN_BYTES;
    RETURN_IF(put_text(
        out, "### Instruction:\n"
             "You are a code completion assistant and your task is to analyze user edits and then "
             "rewrite an excerpt that the user provides, suggesting the appropriate edits within "
             "the excerpt, taking into account the cursor location.\n\n### User Edits:\n\n"));
    RETURN_IF(put_changes(out, p, place, &room));
    RETURN_IF(put_text(out, "\n\n### User Excerpt:\n\n```"));
    RETURN_IF(put(out, place->path));
    RETURN_IF(put_text(out, "\n"));
    if (e->from_begin) RETURN_IF(put_text(out, "<|start_of_file|>\n"));
    RETURN_IF(put(out, e->before));
    RETURN_IF(put_text(out, "<|editable_region_start|>\n"));
    RETURN_IF(put_region(out, p, e));
    RETURN_IF(put_text(out, "\n<|editable_region_end|>"));
    RETURN_IF(put(out, e->after));
    p->stops[p->n_stops++] = "<|editable_region_end|>";
    return put_text(out, "\n```\n\n### Response:\n");
}

static int put_excerpt_2(bytes *out, const next_edit_prompt *p, const next_edit_place *place,
                         const excerpt *e)
{
    RETURN_IF(put_text(out, "<|file_sep|>"));
    RETURN_IF(put(out, place->path));
    RETURN_IF(put_text(out, "\n<|fim_prefix|>\n"));
    RETURN_IF(put(out, e->before));
    RETURN_IF(end_line(out));
    RETURN_IF(put_text(out, "<|fim_middle|>current\n"));
    RETURN_IF(put_region(out, p, e));
    RETURN_IF(end_line(out));
    RETURN_IF(put_text(out, "<|fim_suffix|>\n"));
    RETURN_IF(put(out, e->after));
    RETURN_IF(end_line(out));
    return put_text(out, "<|fim_middle|>updated\n");
}

static int put_excerpt_21(bytes *out, const next_edit_prompt *p, const next_edit_place *place,
                          const excerpt *e)
{
    size_t at[NEXT_EDIT_BLOCKS_MAX + 1];
    const size_t n = next_edit_blocks(e->region, at);
    bool is_placed = false;
    char mark[32];
    RETURN_IF(put_text(out, "<filename>"));
    RETURN_IF(put(out, place->path));
    RETURN_IF(put_text(out, "\n"));
    RETURN_IF(put(out, e->before));
    for (size_t i = 0; i < n; i++) {
        snprintf(mark, sizeof mark, "<|marker_%zu|>", i + 1);
        RETURN_IF(put_text(out, mark));
        if (i + 1 == n) break;
        size_t from = at[i];
        if (!is_placed && e->caret >= from && e->caret <= at[i + 1]) {
            RETURN_IF(put(out, (view){e->region.ptr + from, e->caret - from}));
            RETURN_IF(put_text(out, forms[p->form].cursor));
            from = e->caret;
            is_placed = true;
        }
        RETURN_IF(put(out, (view){e->region.ptr + from, at[i + 1] - from}));
    }
    return end_line(out);
}

/* Zeta 2: snippets, changes, the excerpt.  2.1 begins with the text after the region, and separates
 * the present parts by empty lines. */
static int ask_2(next_edit_prompt *p, const next_edit_place *place, const excerpt *e)
{
    const bool is_21 = p->form == NEXT_EDIT_ZETA_21;
    bytes *out = &p->text, shown = {.max = out->max}, changes = shown, snippets = shown;
    int status = is_21 ? put_excerpt_21(&shown, p, place, e) : put_excerpt_2(&shown, p, place, e);
    size_t used = (shown.len + (is_21 ? e->after.len + 16 : 0)) / TOKEN_BYTES;
    size_t room = used < PROMPT_TOKENS ? PROMPT_TOKENS - used : 0;
    if (!status) status = put_changes(&changes, p, place, &room);
    if (!status) status = put_snippets(&snippets, p, place, room);
    if (!status && is_21) status = put_text(out, "<[fim-suffix]>");
    if (!status && is_21) status = put(out, e->after);
    if (!status && is_21) status = end_line(out);
    if (!status && is_21) status = put_text(out, "<[fim-prefix]>");
    const bytes *const parts[] = {&snippets, &changes, &shown};
    for (size_t i = 0; i < ARRAY_LEN(parts) && !status; i++) {
        status = put(out, (view){parts[i]->ptr ? parts[i]->ptr : "", parts[i]->len});
        if (!status && is_21 && i < 2 && parts[i]->len) status = put_text(out, "\n");
    }
    if (!status && is_21) status = put_text(out, "<[fim-middle]>");
    p->stops[p->n_stops++] = is_21 ? "<[end\xE2\x96\x81of\xE2\x96\x81sentence]>" : "<|fim_middle|>";
    p->stops[p->n_stops++] = is_21 ? "<filename>" : "<|file_sep|>";
    bytes_free(&shown);
    bytes_free(&changes);
    bytes_free(&snippets);
    return status;
}

int next_edit_ask_zeta(next_edit_prompt *p, const next_edit_place *place)
{
    const excerpt e = cut(p, place);
    return p->form == NEXT_EDIT_ZETA ? ask_1(p, place, &e) : ask_2(p, place, &e);
}
