/* grammar_around.c - owns marks of places, and the languages of their bad surroundings. */
#include "sampling/grammar_around.h"

_Static_assert(MARK_FIRST + MARKS_MAX - 1 < GRAMMAR_CONTROL_MARK, "marks are not control tokens");

void around_open(around *a, grammar_builder *b, code_form form)
{
    *a = (around){.b = b, .form = form};
}

static uint32_t any_text(const around *a, uint32_t min)
{
    uint32_t any = expr_code_range(a->b, 0, CODE_MAX, a->form);
    return expr_repeat(a->b, any, min, GRAMMAR_NO_MAX);
}

static uint32_t around_mark(const around *a, uint32_t i)
{
    return expr_bytes(a->b, (uint8_t)(MARK_FIRST + i), (uint8_t)(MARK_FIRST + i));
}

static uint32_t new_mark(around *a)
{
    return a->n < MARKS_MAX ? a->n++ : GRAMMAR_NONE;
}

/* One character that is, or is not, a letter of a word (\w). */
static uint32_t around_word(const around *a, bool is)
{
    code_set set = {.n = 0};
    code_add(&set, '0', '9');
    code_add(&set, 'A', 'Z');
    code_add(&set, '_', '_');
    code_add(&set, 'a', 'z');
    if (!is) code_invert(&set);
    return expr_codes(a->b, &set, a->form);
}

static uint32_t no_line_break(const around *a)
{
    code_set set = {.n = 0};
    code_add(&set, '\n', '\n');
    code_invert(&set);
    return expr_codes(a->b, &set, a->form);
}

/* Texts with letter i of a word (or not one, or none) at both sides of the mark. */
static uint32_t around_sides(const around *a, uint32_t m, bool left, bool right)
{
    grammar_builder *b = a->b;
    uint32_t any = any_text(a, 0), before = EXPR_SEQ(b, any, around_word(a, left));
    uint32_t after = EXPR_SEQ(b, around_word(a, right), any);
    if (!left) before = EXPR_ALT(b, before, EXPR_EMPTY);
    if (!right) after = EXPR_ALT(b, after, EXPR_EMPTY);
    return EXPR_SEQ(b, before, m, after);
}

static uint32_t bad_place(const around *a, uint32_t m, around_place place, bool is_line)
{
    grammar_builder *b = a->b;
    uint32_t any = any_text(a, 0), some = any_text(a, 1);
    switch (place) {
    case PLACE_BEGIN:
        return EXPR_SEQ(b, is_line ? EXPR_SEQ(b, any, no_line_break(a)) : some, m, any);
    case PLACE_END:
        return EXPR_SEQ(b, any, m, is_line ? EXPR_SEQ(b, no_line_break(a), any) : some);
    case PLACE_WORD:
        return EXPR_ALT(b, around_sides(a, m, true, true), around_sides(a, m, false, false));
    case PLACE_INNER:
        return EXPR_ALT(b, around_sides(a, m, true, false), around_sides(a, m, false, true));
    case PLACES:
        break;
    }
    return EXPR_NEVER;
}

uint32_t around_at(around *a, around_place place, bool is_line)
{
    uint32_t *known = &a->known[place][is_line];
    if (*known > a->floor) return around_mark(a, *known - 1);
    uint32_t i = new_mark(a);
    if (i == GRAMMAR_NONE) return GRAMMAR_NONE;
    *known = i + 1;
    a->bad[i] = bad_place(a, around_mark(a, i), place, is_line);
    return around_mark(a, i);
}

uint32_t around_begin(around *a)
{
    uint32_t i = new_mark(a);
    if (i == GRAMMAR_NONE) return i;
    a->bad[i] = EXPR_NEVER;
    a->outer[i] = a->floor;
    a->floor = i + 1;
    return i;
}

/* Marks from `first` on: e loses their bad surroundings, then the marks.  Earlier marks may be
 * anywhere. */
static uint32_t around_settle(around *a, uint32_t e, uint32_t first)
{
    grammar_builder *b = a->b;
    for (uint32_t i = first; i < a->n; i++)
        e = expr_minus(b, e, expr_sprinkled(b, a->bad[i], MARK_FIRST, MARK_FIRST + MARKS_MAX - 1));
    if (a->n > first)
        e = expr_without(b, e, (uint8_t)(MARK_FIRST + first), (uint8_t)(MARK_FIRST + a->n - 1));
    a->n = first;
    for (uint32_t place = 0; place < PLACES; place++)
        for (uint32_t line = 0; line < 2; line++)
            if (a->known[place][line] > first) a->known[place][line] = 0;
    return e;
}

uint32_t around_look(around *a, uint32_t begun, uint32_t e, bool is_ahead, bool is_not)
{
    grammar_builder *b = a->b;
    uint32_t any = any_text(a, 0), m = around_mark(a, begun);
    uint32_t fits = is_ahead ? EXPR_SEQ(b, any, m, e, any) : EXPR_SEQ(b, any, e, m, any);
    fits = around_settle(a, fits, begun + 1);
    a->floor = a->outer[begun];
    a->bad[begun] = is_not ? fits : expr_minus(b, EXPR_SEQ(b, any, m, any), fits);
    return m;
}

uint32_t around_close(around *a, uint32_t e) { return around_settle(a, e, 0); }
