/* ending.c - what unfinished code lacks to be a whole text of its language.
 *
 * A block without a statement gets one that refuses; strings, brackets and blocks are closed; a
 * last line that no closing completes is replaced by the refusal.  Each form is a guess, and the
 * grammar decides: the first with which all of the code parses is taken, with the signs that the
 * grammar says are missing. */
#include "guard/ending_parts.h"

enum { SIGNS_MAX = 8 }; /* that the grammar misses */

static const ending_form forms_words[] = {
    {"", true, false}, {"", false, false}, {":", true, false}, {NULL, false, false}};
static const ending_form forms_braces[] = {
    {"", true, false}, {"", false, false}, {";", false, false}, {" {", true, true},
    {" {", false, true}, {NULL, false, false}};

/* The code up to byte n.  cut: a line behind it was removed, with this indentation. */
static void begin(ending *e, uint32_t n, const view *cut)
{
    syntax_read(&e->b, e->s->language, (view){e->s->text, n});
    uint32_t at = e->b.last ? e->b.last - 1 : 0;
    view line = syntax_line_at(&e->b, at);
    e->indent = cut ? *cut : syntax_indent_at(&e->b, at);
    e->at_header = ending_is_head(e, line);
    if (e->b.last) line = ending_last_line(e);
    bool python = e->s->language == GUARD_PYTHON;
    e->matches = python && e->at_header && view_starts(line, VIEW("match "));
    e->is_type = e->at_header && !e->matches && ending_is_type(e, line);
    e->decorates = python && view_starts(line, VIEW("@"));
}

/* A sign that the grammar misses in the text, or before it. */
static bool put_missing(ending *e)
{
    const uint32_t shift = e->shift;
    const tree *t = &e->w->judge.tree;
    writing *w = &e->text, rest = {.fits = true};
    if (t->missing == UINT32_MAX || !t->missing_sign) return false;
    if (t->missing < shift + e->b.last) return false;
    size_t at = t->missing > shift + e->b.n ? t->missing - shift - e->b.n : 0;
    if (at < e->begun) at = e->begun;
    if (at > w->n) return false;
    repair_put(&rest, repair_part((view){w->text, w->n}, at, w->n));
    w->n = at;
    repair_put_text(w, t->missing_sign);
    repair_put(w, (view){rest.text, rest.n});
    return w->fits;
}

/* Does the code parse with the text?  The grammar accepts blocks of Python without a line. */
static bool parses(ending *e, bool closes)
{
    const guard_stream *s = e->s;
    char *window = e->w->window;
    writing said = e->text;
    if (!closes) ending_put_words(e);
    const uint32_t shift = e->shift = stream_opening(s, window);
    if (!e->text.fits || shift + e->b.n + e->text.n + 1 > sizeof e->w->window) return false;
    memcpy(window + shift, e->b.text, e->b.n);
    memcpy(window + shift + e->b.n, e->text.text, e->text.n);
    const view all = {window, shift + e->b.n + e->text.n};
    e->text = said;
    const tree *t = &e->w->judge.tree;
    return tree_read(&e->w->judge.tree, s->language, all, NULL, 0) && t->whole;
}

static bool is_whole(ending *e, bool closes)
{
    for (int i = 0; i < SIGNS_MAX; i++) {
        e->w->judge.tree.missing = UINT32_MAX;
        if (parses(e, closes)) return true;
        if (!put_missing(e)) return false;
    }
    return false;
}

/* A function that lacks its body, though the grammar does not miss it: it is a method, and only
 * "abstract" ones end without, with their sign. */
static bool lacks_body(const ending *e)
{
    const tree *t = &e->w->judge.tree;
    const uint32_t last = e->shift + e->b.last;
    bool braces = ending_has_braces(e) && e->b.text[e->b.last - 1] != ';';
    for (int32_t i = 0; i < t->n && braces; i++) {
        const node *f = &t->list[i];
        bool function = f->role == NODE_SIGNATURE ||
                        (f->role == NODE_FUNCTION && tree_field(t, i, FIELD_BODY) < 0);
        if (function && f->begin < last && f->end >= last) return true;
    }
    return false;
}

/* Outside of all blocks some languages have no statements. */
static bool can_refuse(const ending *e, const ending_form *f)
{
    const guard_language l = e->s->language;
    bool declares = l == GUARD_GO || l == GUARD_JAVA || l == GUARD_C || l == GUARD_CPP;
    return !declares || f->opens || e->b.lexer.n;
}

static bool is_fit(const ending *e, const ending_form *f, bool cut)
{
    bool filled = e->at_header || e->decorates;
    bool hole = e->at_header && !f->statement && e->s->language == GUARD_PYTHON;
    bool useless = f->statement && !*f->after && !e->at_header && !cut;
    if (hole || useless || (f->statement && e->is_type && ending_has_braces(e))) return false;
    if ((filled && *f->after) || (f->opens && ending_wants_name(e))) return false;
    return !f->statement || can_refuse(e, f);
}

static bool find_form(ending *e, bool closes, bool cut)
{
    const ending_form *f = ending_has_braces(e) ? forms_braces : forms_words, *without = NULL;
    if (!cut && ending_is_half(e)) return false;
    for (; f->after; f++) {
        if (!is_fit(e, f, cut)) continue;
        ending_write(e, f, closes, cut);
        if (!is_whole(e, closes)) continue;
        if (cut || !lacks_body(e)) return true;
        if (!without) without = f;
    }
    if (!without) return false;
    ending_write(e, without, closes, cut);
    return is_whole(e, closes);
}

/* ---- the stream ---- */

/* Code of which only a part is known, and texts that others read, stay as they are. */
static bool can_end(const guard_stream *s)
{
    const unwrap *u = &s->unwrap;
    guard_language around = s->carrier.segment.language;
    bool apart = u->mode == UNWRAP_DIFF || u->block != BLOCK_NONE || u->in_json || u->in_value;
    return guard_has_grammar(s->language) && !apart && !s->escaped && !s->added && !s->detect &&
           !s->continues && around != GUARD_HTML && around != GUARD_NOTEBOOK;
}

/* The lines of a list or a quotation have a margin. */
static void put_margins(const ending *e, bool at_margin, guard_ending *out)
{
    const unwrap *u = &e->s->unwrap;
    writing w = {.fits = true};
    bool begins = !at_margin && (!e->b.n || e->b.text[e->b.n - 1] == '\n');
    for (size_t i = 0; i < e->text.n; i++) {
        if (begins) repair_put(&w, (view){u->margin, u->n_margin});
        repair_put(&w, (view){e->text.text + i, 1});
        begins = e->text.text[i] == '\n';
    }
    out->n = w.fits && w.n <= sizeof out->text ? w.n : 0;
    memcpy(out->text, w.text, out->n);
}

bool guard_end_code(const guard_stream *s, guard_worker *w, guard_closing closing,
                    guard_ending *out)
{
    ending e = {.s = s, .w = w};
    uint32_t n = s->n, indent = window_indent((view){s->text + s->held, s->n - s->held});
    bool blank = n > s->held && s->held + indent == n, cut = blank;
    bool closes = closing != GUARD_CLOSE_NOTHING;
    uint64_t held = unwrap_held(&s->unwrap);
    const view before = {s->text + s->held, indent};
    if (!can_end(s)) return false;
    begin(&e, blank ? s->held : n, NULL);
    bool known = e.b.lexer.n == s->lexer.n && !e.b.lexer.over &&
                 !memcmp(e.b.lexer.stack, s->lexer.stack, s->lexer.n);
    if (!known) return false; /* what its beginning opened */
    if (!e.b.last || (closing != GUARD_CLOSE_ALL && !e.at_header)) return false;
    if (!closes && ending_has_braces(&e)) return false;
    e.text = (writing){.fits = true};
    bool braces = ending_has_braces(&e);
    bool owes = braces && e.b.closed == e.b.last && *ending_after_block(&e, e.b.closed_at);
    owes |= e.b.lexer.n && e.b.lexer.stack[e.b.lexer.n - 1] == 'H'; /* Ruby's grammar ends it */
    owes |= ending_owes_heredoc(&e.b.lexer);
    if (!e.at_header && !owes && !ending_is_half(&e) && parses(&e, true)) return false;
    bool found = find_form(&e, closes, false);
    if (!found && closing == GUARD_CLOSE_ALL && n > s->held && !blank && s->map[0].fresh) {
        begin(&e, s->held, &before);
        found = cut = e.b.last && find_form(&e, closes, true);
    }
    if (!found) return false;
    out->at = cut ? s->map[0].at : held < s->fed ? held : s->fed;
    out->refuses = memmem(e.text.text, e.text.n, "the answer ended", 16) != NULL;
    put_margins(&e, cut, out);
    return out->n > 0 || cut; /* the removed line may be all that was wrong */
}
