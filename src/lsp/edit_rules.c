/* edit_rules.c - compares words before and after an edit, and finds other places for it. */
#include "lsp/edit_rules.h"

#include <ctype.h>

#include "base/text.h"
#include "guard/lexer.h"

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The word or sign at `at`, which is not a blank; returns its end. */
static size_t word_end(view text, size_t at)
{
    size_t end = at + 1;
    if (is_letter(text.ptr[at]))
        while (end < text.len && is_letter(text.ptr[end])) end++;
    return end;
}

size_t code_words(view text, code_word *out, size_t max)
{
    size_t n = 0;
    for (size_t at = 0; at < text.len;) {
        if (byte_is_blank(text.ptr[at])) {
            at++;
            continue;
        }
        size_t end = word_end(text, at);
        if (n == max) return SIZE_MAX;
        out[n++] = (code_word){(uint32_t)at, (uint32_t)end};
        at = end;
    }
    return n;
}

bool code_is_name(view word)
{
    return word.len && is_letter(*word.ptr) && !isdigit((unsigned char)*word.ptr);
}

static view word_at(view text, code_word w) { return (view){text.ptr + w.from, w.to - w.from}; }

/* ---- the rule of an edit ---- */

/* Old and new text, from the beginning of a word to the end of one. */
static int whole_words(const lsp_text *t, const edit_record *e, bytes *was, view *now)
{
    const view text = lsp_text_view(t);
    size_t from = e->from, to = e->to;
    while (from && is_letter(text.ptr[from - 1])) from--;
    while (to < text.len && is_letter(text.ptr[to])) to++;
    was->max = 3 * EDIT_HISTORY_BYTES_MAX;
    was->len = 0;
    if (e->from - from > EDIT_HISTORY_BYTES_MAX || to - e->to > EDIT_HISTORY_BYTES_MAX)
        return CERIUM_ERR_CAPACITY;
    RETURN_IF(bytes_append(was, text.ptr + from, e->from - from));
    RETURN_IF(bytes_append(was, e->was.ptr ? e->was.ptr : "", e->was.len));
    RETURN_IF(bytes_append(was, text.ptr + e->to, to - e->to));
    *now = (view){text.ptr + from, to - from};
    return CERIUM_OK;
}

/* One name replaced by another, everywhere in it. */
static bool is_rename(view was, const code_word *a, view now, const code_word *b, size_t n,
                      edit_rule *out)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        view one = word_at(was, a[i]), other = word_at(now, b[i]);
        if (view_equal(one, other)) continue;
        if (!code_is_name(one) || !code_is_name(other)) return false;
        if (found && (!view_equal(one, out->a) || !view_equal(other, out->b))) return false;
        if (!found) *out = (edit_rule){.a = one, .b = other, .is_rename = true};
        found = true;
    }
    return found;
}

bool edit_rule_of(const lsp_text *t, const edit_record *e, bytes *was_text, edit_rule *out)
{
    code_word a[RULE_WORDS_MAX], b[RULE_WORDS_MAX];
    size_t same = 0, after = 0;
    view now;
    if (whole_words(t, e, was_text, &now)) return false;
    const view was = {was_text->ptr ? was_text->ptr : "", was_text->len};
    size_t n_a = code_words(was, a, RULE_WORDS_MAX), n_b = code_words(now, b, RULE_WORDS_MAX);
    if (n_a == SIZE_MAX || n_b == SIZE_MAX) return false;
    const char *begin = t->text.ptr ? t->text.ptr : "";
    if (n_a == n_b && is_rename(was, a, now, b, n_a, out)) {
        out->at = (size_t)(out->b.ptr - begin);
        return true;
    }
    while (same < n_a && same < n_b && view_equal(word_at(was, a[same]), word_at(now, b[same])))
        same++;
    while (after < n_a - same && after < n_b - same &&
           view_equal(word_at(was, a[n_a - 1 - after]), word_at(now, b[n_b - 1 - after])))
        after++;
    n_a -= after;
    n_b -= after;
    if (n_a == same && n_b == same) return false; /* only blanks */
    size_t place = same < n_b ? b[same].from : n_b ? b[n_b - 1].to : 0;
    *out = (edit_rule){.at = (size_t)(now.ptr - begin) + place};
    if (n_a > same) out->a = (view){was.ptr + a[same].from, a[n_a - 1].to - a[same].from};
    if (n_b > same) out->b = (view){now.ptr + b[same].from, b[n_b - 1].to - b[same].from};
    return true;
}

/* ---- the context of a place ---- */

void edit_context_at(const lsp_text *t, size_t from, size_t to, edit_context *out)
{
    const view text = lsp_text_view(t);
    *out = (edit_context){.n_left = 0};
    while (out->n_left < RULE_AROUND) {
        while (from && byte_is_blank(text.ptr[from - 1])) from--;
        if (!from) break;
        size_t end = from--;
        if (is_letter(text.ptr[from]))
            while (from && is_letter(text.ptr[from - 1])) from--;
        out->left[out->n_left++] = (view){text.ptr + from, end - from};
    }
    while (out->n_right < RULE_AROUND) {
        while (to < text.len && byte_is_blank(text.ptr[to])) to++;
        if (to == text.len) break;
        size_t end = word_end(text, to);
        out->right[out->n_right++] = (view){text.ptr + to, end - to};
        to = end;
    }
}

void edit_context_join(edit_context *a, const edit_context *b)
{
    uint32_t n = 0;
    while (n < a->n_left && n < b->n_left && view_equal(a->left[n], b->left[n])) n++;
    a->n_left = n;
    for (n = 0; n < a->n_right && n < b->n_right && view_equal(a->right[n], b->right[n]);) n++;
    a->n_right = n;
}

/* ---- looking for it ---- */

static bool fits(const edit_context *here, const edit_context *wanted)
{
    if (here->n_left < wanted->n_left || here->n_right < wanted->n_right) return false;
    for (uint32_t i = 0; i < wanted->n_left; i++)
        if (!view_equal(here->left[i], wanted->left[i])) return false;
    for (uint32_t i = 0; i < wanted->n_right; i++)
        if (!view_equal(here->right[i], wanted->right[i])) return false;
    return true;
}

/* Are the words at `at`?  *end: after them. */
static bool stands(view text, size_t at, view words, const code_word *list, size_t n, size_t *end)
{
    for (size_t i = 0; i < n; i++) {
        while (i && at < text.len && byte_is_blank(text.ptr[at])) at++;
        if (at >= text.len) return false;
        size_t to = word_end(text, at);
        if (!view_equal((view){text.ptr + at, to - at}, word_at(words, list[i]))) return false;
        at = to;
    }
    *end = at;
    return true;
}

size_t edit_places(const lsp_text *t, guard_language language, view a, const edit_context *around,
                   code_word *out, size_t n_max)
{
    code_word words[RULE_WORDS_MAX];
    const view text = lsp_text_view(t);
    size_t n_words = code_words(a, words, RULE_WORDS_MAX), n = 0;
    edit_context here;
    lexer x;
    if (n_words == SIZE_MAX) return 0;
    lexer_begin(&x, language);
    for (size_t at = 0; at < text.len && n < n_max; at++) {
        bool in_text = lexer_in_text(&x);
        size_t end = at;
        bool begins = !byte_is_blank(text.ptr[at]) &&
                      !(at && is_letter(text.ptr[at]) && is_letter(text.ptr[at - 1]));
        if (!in_text && begins && stands(text, at, a, words, n_words, &end)) {
            /* Inserted words come before the words that follow. */
            edit_context_at(t, at, end, &here);
            if (fits(&here, around)) out[n++] = (code_word){(uint32_t)at, (uint32_t)end};
        }
        (void)lexer_step(&x, text.ptr[at]);
    }
    return n;
}
