/* lsp_next_edit.c - repeats the user's last change in other places that need it: a rename by the
 * language's scopes, and any other change once it was made twice.
 *
 * Silence beats a guess: a name without a definition here, one that other files know, and a new
 * name that already exists are left alone. */
#include "lsp/bindings.h"
#include "lsp/edit_rules.h"
#include "lsp/lsp_parts.h"

enum {
    SETTLED_MS = 500,
    LOOK_MS = 250,   /* of rest: until it is settled the places are known */
    NEAR_LINES = 20, /* lines that a screen shows */
};

/* The proposed edits, in the current text. */
typedef struct {
    uint32_t from, to;
    bool is_short; /* {name} becomes {name: other} */
} next_place;

struct other_places {
    uint64_t document, changed_ns; /* the text that they are for */
    int64_t version;
    edit_rule rule;
    bytes was;
    bytes a, b; /* of the rule, owned */
    next_place list[RULE_PLACES_MAX]; /* [n] in order */
    size_t n;
    uint32_t n_made; /* edits of the user that made the change */
};

static view a_of(const other_places *e) { return (view){e->a.ptr ? e->a.ptr : "", e->a.len}; }
static view b_of(const other_places *e) { return (view){e->b.ptr ? e->b.ptr : "", e->b.len}; }

void lsp_next_edit_close(lsp_server *s)
{
    if (!s->places) return;
    bytes_free(&s->places->was);
    bytes_free(&s->places->a);
    bytes_free(&s->places->b);
    memory_free(s->places);
    s->places = NULL;
}

static void add(other_places *e, size_t from, size_t to, bool is_short)
{
    if (e->n < RULE_PLACES_MAX)
        e->list[e->n++] = (next_place){(uint32_t)from, (uint32_t)to, is_short};
}

/* ---- the text before the user's renames ---- */

/* A word of the current text that replaced another one. */
typedef struct {
    size_t at, old_at; /* in the current text, and in the old one */
} made_place;

/* The old text: undoes all edits that renamed a to b.  places: those words. */
static int undo_renames(const lsp_document *d, const other_places *e, bytes *old,
                        made_place *places, size_t *n_places)
{
    const view text = lsp_text_view(&d->text), a = a_of(e), b = b_of(e);
    bytes was = {0};
    size_t at = 0;
    int status = CERIUM_OK;
    *n_places = 0;
    old->max = 2 * (size_t)LSP_TEXT_BYTES_MAX;
    while (!status) { /* the edits in the order of their places */
        const edit_record *next = NULL;
        for (uint32_t i = 0; i < d->history.n; i++) {
            const edit_record *r = &d->history.list[i];
            edit_rule rule;
            if (r->from < at || (next && r->from >= next->from)) continue;
            if (edit_rule_of(&d->text, r, &was, &rule) && rule.is_rename &&
                view_equal(rule.a, a) && view_equal(rule.b, b) && rule.at >= at)
                next = r;
        }
        if (!next) break;
        size_t from = next->from, to = next->to; /* whole words */
        while (from > at && (code_is_name((view){text.ptr + from - 1, 1}) ||
                             (text.ptr[from - 1] >= '0' && text.ptr[from - 1] <= '9')))
            from--;
        while (to < text.len && (code_is_name((view){text.ptr + to, 1}) ||
                                 (text.ptr[to] >= '0' && text.ptr[to] <= '9')))
            to++;
        status = bytes_append(old, text.ptr + at, from - at);
        code_word words[RULE_WORDS_MAX];
        size_t n = code_words((view){text.ptr + from, to - from}, words, RULE_WORDS_MAX);
        size_t done = from;
        for (size_t i = 0; n != SIZE_MAX && i < n && !status; i++) {
            view word = {text.ptr + from + words[i].from, words[i].to - words[i].from};
            if (!view_equal(word, b)) continue;
            size_t place = from + words[i].from;
            status = bytes_append(old, text.ptr + done, place - done);
            if (*n_places < RULE_PLACES_MAX)
                places[(*n_places)++] = (made_place){place, old->len};
            if (!status) status = bytes_append(old, a.ptr, a.len);
            done = place + b.len;
        }
        if (!status) status = bytes_append(old, text.ptr + done, to - done);
        at = to > at ? to : at + 1;
    }
    if (!status && at <= text.len) status = bytes_append(old, text.ptr + at, text.len - at);
    bytes_free(&was);
    return status;
}

/* The place of byte `at` of the old text in the current one; false: it is within a renamed word. */
static bool to_now(const other_places *e, const made_place *made, size_t n, size_t at, size_t *now)
{
    *now = at;
    for (size_t i = 0; i < n; i++) {
        if (made[i].old_at == at) return false;
        if (made[i].old_at < at) *now = at + b_of(e).len * (i + 1) - a_of(e).len * (i + 1);
    }
    return true;
}

/* ---- a rename ---- */

/* Does the new name already exist in the file's code? */
static bool collides(view old, view b, guard_language language)
{
    lsp_text t = {.text = {.ptr = (char *)(uintptr_t)old.ptr, .len = old.len}};
    code_word found[1];
    const edit_context any = {.n_left = 0};
    return edit_places(&t, language, b, &any, found, 1) > 0;
}

static void find_renames(lsp_server *s, lsp_document *d, other_places *e)
{
    static made_place made[RULE_PLACES_MAX];
    bytes old = {0};
    size_t n_made, at = SIZE_MAX, now;
    binding *bound = memory_alloc(sizeof *bound);
    int status = bound ? undo_renames(d, e, &old, made, &n_made) : CERIUM_ERR_MEMORY;
    for (size_t i = 0; !status && i < n_made; i++)
        if (made[i].at == e->rule.at) at = made[i].old_at;
    const view text = {old.ptr ? old.ptr : "", old.len};
    if (!status && at != SIZE_MAX && !s->has_parser)
        s->has_parser = !tree_memory_open(&s->parser);
    if (!status && at != SIZE_MAX && s->has_parser &&
        binding_find(bound, &s->parser, d->language, text, at, e->a.len) && !bound->is_imported &&
        (bound->is_definition || n_made >= 2) &&
        !collides(text, b_of(e), d->language))
        for (uint32_t i = 0; i < bound->n; i++)
            if (to_now(e, made, n_made, bound->places[i].begin, &now))
                add(e, now, now + e->a.len, bound->places[i].is_short);
    e->n_made = status ? 0 : (uint32_t)n_made;
    bytes_free(&old);
    memory_free(bound);
}

/* ---- the same change again ---- */

/* The common context of all edits that made the same change; returns their number. */
static uint32_t common_context(const lsp_document *d, const other_places *e, edit_context *out)
{
    bytes was = {0};
    uint32_t n = 0;
    for (uint32_t i = d->history.n; i-- > 0;) {
        edit_rule rule;
        edit_context here;
        if (!edit_rule_of(&d->text, &d->history.list[i], &was, &rule) ||
            !view_equal(rule.a, a_of(e)) || !view_equal(rule.b, b_of(e)))
            continue;
        edit_context_at(&d->text, rule.at, rule.at + rule.b.len, &here);
        if (n++ == 0) *out = here;
        else edit_context_join(out, &here);
    }
    bytes_free(&was);
    return n;
}

static bool is_edited(const lsp_document *d, const code_word *w)
{
    for (uint32_t i = 0; i < d->history.n; i++)
        if (w->from < d->history.list[i].to && w->to > d->history.list[i].from) return true;
    return false;
}

static void find_alike(lsp_document *d, other_places *e)
{
    static code_word found[RULE_PLACES_MAX];
    edit_context around = {.n_left = 0};
    bool has_name = false;
    e->n_made = common_context(d, e, &around);
    if (e->n_made < 2 || !e->a.len) return; /* a pure insertion says too little about its place */
    code_word words[RULE_WORDS_MAX];
    size_t n = code_words(a_of(e), words, RULE_WORDS_MAX);
    for (size_t i = 0; n != SIZE_MAX && i < n; i++)
        has_name |= code_is_name((view){e->a.ptr + words[i].from, words[i].to - words[i].from});
    for (uint32_t i = 0; i < around.n_left; i++) has_name |= code_is_name(around.left[i]);
    for (uint32_t i = 0; i < around.n_right; i++) has_name |= code_is_name(around.right[i]);
    if (!has_name || n + around.n_left + around.n_right < 2) return;
    n = edit_places(&d->text, d->language, a_of(e), &around, found, RULE_PLACES_MAX);
    for (size_t i = 0; i < n; i++)
        if (!is_edited(d, &found[i])) add(e, found[i].from, found[i].to, false);
}

/* ---- edits that follow from the last one ---- */

static void find_places(lsp_server *s, lsp_document *d, other_places *e)
{
    const edit_record *last = &d->history.list[d->history.n - 1];
    if (!edit_rule_of(&d->text, last, &e->was, &e->rule) ||
        bytes_append(&e->a, e->rule.a.ptr ? e->rule.a.ptr : "", e->rule.a.len) ||
        bytes_append(&e->b, e->rule.b.ptr ? e->rule.b.ptr : "", e->rule.b.len))
        return;
    if (e->rule.is_rename) find_renames(s, d, e);
    if (!e->n && e->n_made != 1) find_alike(d, e);
}

/* Those of the last edit: looked for once for each text.  NULL: none. */
static const other_places *look(lsp_server *s, lsp_document *d)
{
    const other_places *kept = s->places;
    d->look_at_ns = 0;
    if (kept && kept->document == d->key && kept->version == d->version &&
        kept->changed_ns == d->changed_ns)
        return kept->n ? kept : NULL;
    lsp_next_edit_close(s);
    s->places = memory_zalloc(1, sizeof *s->places);
    if (!s->places) return NULL;
    *s->places = (other_places){.document = d->key,
                                .version = d->version,
                                .changed_ns = d->changed_ns,
                                .a = {.max = EDIT_HISTORY_BYTES_MAX},
                                .b = {.max = EDIT_HISTORY_BYTES_MAX}};
    find_places(s, d, s->places);
    return s->places->n ? s->places : NULL;
}

static bool is_off(const lsp_server *s, const lsp_document *d)
{
    return !d->history.n || d->is_minified || !s->settings.next_edit ||
           !lsp_settings_allow(&s->settings, d);
}

static const other_places *find(lsp_server *s, lsp_document *d, size_t caret, bool is_asked,
                                uint64_t now)
{
    s->asks_next = true;
    if (is_off(s, d)) return NULL;
    const edit_record *last = &d->history.list[d->history.n - 1];
    bool is_there = lsp_text_line_at(&d->text, caret) == lsp_text_line_at(&d->text, last->to);
    if (!is_asked && is_there && now - last->at_ns < SETTLED_MS * LSP_MS) return NULL;
    return look(s, d);
}

void lsp_next_edit_changed(const lsp_server *s, lsp_document *d, uint64_t now)
{
    d->look_at_ns = s->asks_next ? now + LOOK_MS * LSP_MS : 0;
}

void lsp_next_edit_tick(lsp_server *s, lsp_document *d, uint64_t now)
{
    if (!d->look_at_ns || now < d->look_at_ns) return;
    d->look_at_ns = 0;
    if (!is_off(s, d)) (void)look(s, d);
}

/* The text for a place. */
static json_t *text_for(const other_places *e, const next_place *p)
{
    bytes out = {.max = 2 * EDIT_HISTORY_BYTES_MAX + 8};
    int status = p->is_short ? bytes_append(&out, a_of(e).ptr, e->a.len) : CERIUM_OK;
    if (!status && p->is_short) status = bytes_append(&out, ": ", 2);
    if (!status) status = bytes_append(&out, b_of(e).ptr, e->b.len);
    json_t *text = status ? NULL : lsp_json_text((view){out.ptr ? out.ptr : "", out.len});
    bytes_free(&out);
    return text;
}

/* The next one below the caret, else the first above. */
static const next_place *nearest(const other_places *e, size_t caret)
{
    for (size_t i = 0; i < e->n; i++)
        if (e->list[i].from >= caret) return &e->list[i];
    return &e->list[e->n - 1];
}

void lsp_inline_edit(lsp_server *s, json_t *id, const json_t *params, uint64_t now)
{
    lsp_document *d = lsp_document_of(s, params);
    const json_t *version = json_object_get(json_object_get(params, "textDocument"), "version");
    const other_places *e;
    size_t caret;
    if (!d || !lsp_read_position(s, d, json_object_get(params, "position"), &caret)) {
        lsp_answer_error(s, id, LSP_INVALID_PARAMS, d ? "no position" : "no such document is open");
        return;
    }
    lsp_prediction_drop(s, d);
    json_t *list = json_array();
    bool is_new = !json_is_integer(version) || json_integer_value(version) == d->version;
    if (list && is_new && (e = find(s, d, caret, false, now))) {
        const next_place *p = nearest(e, caret);
        s->counts.next_edits++;
        json_array_append_new(list, lsp_next_edit_json(s, d, p->from, p->to, text_for(e, p),
                                                       e->b.len));
    }
    if (is_new && !json_array_size(list) && lsp_predict(s, d, id, caret)) {
        json_decref(list);
        return;
    }
    lsp_answer(s, id, json_pack("{s:o}", "edits", list));
}

static bool is_far(const lsp_document *d, size_t at, const next_place *p)
{
    const uint32_t here = lsp_text_line_at(&d->text, at);
    const uint32_t there = lsp_text_line_at(&d->text, p->from);
    return (here > there ? here - there : there - here) > NEAR_LINES;
}

static void add_go(const lsp_server *s, const lsp_document *d, size_t at, const next_place *p,
                   json_t *list)
{
    char title[64];
    snprintf(title, sizeof title, "Go to the next of these places: line %u",
             lsp_text_line_at(&d->text, p->from) + 1);
    json_array_append_new(list, json_pack("{s:s, s:s, s:{s:s, s:s, s:[{s:s, s:o}]}}", "title",
                                          title, "kind", "refactor.rewrite", "command", "title",
                                          title, "command", "cerium.server.next", "arguments",
                                          "uri", d->uri, "range", lsp_json_range(s, d, at, at)));
}

void lsp_next_edit_go(lsp_server *s, json_t *id, lsp_document *d, size_t at, uint64_t now)
{
    const other_places *e = find(s, d, at, true, now);
    json_t *range = NULL;
    if (e) {
        const next_place *p = nearest(e, at);
        range = lsp_json_range(s, d, p->from, p->to);
        if (range && s->can.shows)
            (void)lsp_request(s, "window/showDocument",
                              json_pack("{s:s, s:b, s:O}", "uri", d->uri, "takeFocus", 1,
                                        "selection", range));
    }
    lsp_answer(s, id, range ? range : json_null());
}

void lsp_next_edit_actions(lsp_server *s, lsp_document *d, size_t at, uint64_t now, json_t *list)
{
    const other_places *e = find(s, d, at, true, now);
    char title[200];
    if (e) {
        json_t *edits = json_array();
        for (size_t i = 0; edits && i < e->n; i++)
            json_array_append_new(edits, json_pack("{s:o, s:o}", "range",
                                                   lsp_json_range(s, d, e->list[i].from,
                                                                  e->list[i].to),
                                                   "newText", text_for(e, &e->list[i])));
        const view a = a_of(e), b = b_of(e);
        const int n_a = a.len < 60 ? (int)a.len : 60, n_b = b.len < 60 ? (int)b.len : 60;
        snprintf(title, sizeof title, "%s to %.*s in %zu more place%s: %.*s",
                 e->rule.is_rename ? "Rename" : "Change", n_b, b.ptr, e->n,
                 e->n == 1 ? "" : "s", n_a, a.ptr);
        lsp_whole_characters(title);
        json_array_append_new(list, json_pack("{s:s%, s:s, s:o}", "title", title, strlen(title),
                                              "kind", "refactor.rewrite", "edit",
                                              lsp_workspace_edit(s, d, edits)));
        const next_place *p = nearest(e, at);
        if (s->can.shows && is_far(d, at, p)) add_go(s, d, at, p, list);
    }
}
