/* repair_bound.c - refusals that leave names bound and used, so that the code around them compiles:
 * Java, Go, TypeScript, C. */
#include <ctype.h>

#include "guard/repair_parts.h"

/* "Type name = weak": the position after the sign; 0: the line binds nothing. */
static size_t after_binding(const repair *r, const repair_depths *d)
{
    for (size_t i = r->indent + 1; i + 1 < r->from && i + 1 < d->n; i++) {
        char before = r->line.ptr[i - 1], next = r->line.ptr[i + 1];
        if (r->line.ptr[i] != '=' || d->at[i].text || next == '=' || next == '>') continue;
        if (!strchr("=!<>", before)) return i + 1;
    }
    return 0;
}

/* Uses the names of the text, so that none of them is declared and unused. */
static void put_uses(writing *w, view text)
{
    char names[GUARD_FIX_BYTES];
    size_t n = 0, count = 0;
    for (size_t i = 0, end; i < text.len; i = end + 1) {
        end = i;
        if (strchr("\"`'", text.ptr[i])) { /* a literal */
            for (end = i + 1; end < text.len && text.ptr[end] != text.ptr[i]; end++)
                end += text.ptr[end] == '\\';
            continue;
        }
        if (!isalpha((unsigned char)text.ptr[i]) && text.ptr[i] != '_') continue;
        while (end < text.len && (isalnum((unsigned char)text.ptr[end]) ||
                                  strchr("_.", text.ptr[end])))
            end++;
        view name = {text.ptr + i, end - i};
        bool after = i && strchr(").]", text.ptr[i - 1]);
        bool type = view_equal(name, VIEW("string")) || view_equal(name, VIEW("byte")) ||
                    view_equal(name, VIEW("len")) || view_equal(name, VIEW("nil"));
        end--;
        if (after || type || n + name.len + 2 > sizeof names) continue;
        if (count++) memcpy(names + n, ", ", 2), n += 2;
        memcpy(names + n, name.ptr, name.len);
        n += name.len;
    }
    for (size_t i = 0; i < count; i++) repair_put_text(w, i ? ", _" : "_");
    if (!count) return;
    repair_put_text(w, " = ");
    repair_put(w, (view){names, n});
    repair_put_text(w, "; ");
}

/* Go: the argument that makes the call weak refuses, and the call stays. */
static bool write_argument(const repair *r, const repair_depths *d, writing *w)
{
    size_t open = r->from, from = 0, to = 0;
    while (open < r->to && open < d->n && (r->line.ptr[open] != '(' || d->at[open].text)) open++;
    if (open >= r->to || open >= d->n || repair_after_bracket(d, open) > r->to) return false;
    size_t close = repair_after_bracket(d, open) - 1;
    for (size_t at = open + 1, i = at; i <= close && i < d->n; i++) {
        bool comma = r->line.ptr[i] == ',' && !d->at[i].text && d->at[i].n == d->at[open].n;
        if (!comma && i != close) continue;
        view text = repair_part(r->line, repair_skip_blanks(r->line, at), i);
        bool made = text.len && (memchr(text.ptr, '+', text.len) ||
                                 memmem(text.ptr, text.len, "Sprint", 6));
        bool literal = text.len && strchr("\"`", text.ptr[0]) && !made;
        if (text.len && !literal && (made || !to)) {
            from = (size_t)(text.ptr - r->line.ptr);
            to = i;
        }
        if (made) break;
        at = i + 1;
    }
    if (to <= from) return false;
    repair_put(w, repair_part(r->line, 0, from));
    repair_put_text(w, "func() string { ");
    put_uses(w, repair_part(r->line, from, to));
    (void)repair_put_statement(w, r, false);
    repair_put_text(w, " }()");
    repair_put(w, repair_part(r->line, to, r->line.len));
    return true;
}

bool repair_write_bound(const repair *r, const repair_depths *d, writing *w)
{
    guard_language l = r->f->language;
    bool c = l == GUARD_C || l == GUARD_CPP;
    if (l == GUARD_GO) return write_argument(r, d, w);
    if (!c && l != GUARD_JAVA && l != GUARD_TYPESCRIPT && l != GUARD_TSX) return false;
    size_t begin = after_binding(r, d), end = begin;
    if (!begin || r->outside) return false;
    for (uint16_t base = d->at[begin - 1].n; end < d->n; end++) {
        bool ends = d->at[end].n == base && strchr(";,", r->line.ptr[end]);
        if (!d->at[end].text && (ends || d->at[end].n < base)) break;
    }
    if (end < r->to || end >= r->line.len) return false;
    begin = repair_skip_blanks(r->line, begin);
    view before = repair_part(r->line, 0, begin), declared = repair_part(r->line, r->indent, begin);
    if (l == GUARD_JAVA && view_starts(declared, VIEW("var "))) return false;
    repair bound = *r;
    bound.pointer = c && memchr(before.ptr, '*', before.len);
    repair_put(w, before);
    bool waits = repair_is_script(l) && repair_word_at(r->line, begin, "await");
    if (waits) repair_put_text(w, "await ");
    if (!repair_put_expression(w, &bound, false)) return false;
    repair_put(w, repair_part(r->line, end, r->line.len));
    return true;
}
