/* solve_edit.c - the context of a token, and how an edit becomes a variant. */
#include "programs/solve_mutate.h"

enum { EDIT_BYTES = 400 };

view mutate_token(const mutator *m, uint32_t i)
{
    const solve_token *t = &m->tokens[i];
    return (view){m->set->text.ptr + t->begin, t->end - t->begin};
}

bool mutate_is(const mutator *m, uint32_t i, const char *word)
{
    return i < m->n && view_equal(mutate_token(m, i), view_of(word));
}

/* Is it one of the words "a b c"? */
bool mutate_among(view word, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (word.len == n && memcmp(word.ptr, words, n) == 0) return true;
    }
    return false;
}

/* The file with [begin, end) replaced; none if that changes nothing or there are enough. */
int mutate_edit(mutator *m, size_t begin, size_t end, view text)
{
    if (m->n_left == 0 || (end - begin == text.len &&
                           !memcmp(m->set->text.ptr + begin, text.ptr ? text.ptr : "", text.len)))
        return CERIUM_OK;
    uint32_t index = solve_set_plan(m->set, MAKER_MUTATE);
    if (index == SOLVE_NONE) return CERIUM_OK;
    RETURN_IF(solve_set_make(m->set, index, (solve_span){begin, end}, text, m->err));
    /* It equals an earlier one: it takes no place. */
    if (m->set->all[index].same_as != SOLVE_NONE) {
        m->set->all[m->set->all[index].same_as].n_same--;
        memory_free(m->set->all[index].text);
        m->set->n--;
        m->set->n_made--;
        return CERIUM_OK;
    }
    m->n_left--;
    return CERIUM_OK;
}

int mutate_parts(mutator *m, size_t begin, size_t end, const view *parts, uint32_t n)
{
    char text[EDIT_BYTES];
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (parts[i].len > sizeof text - len) return CERIUM_OK;
        memcpy(text + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    return mutate_edit(m, begin, end, (view){text, len});
}

/* ---- the context of a token ---- */

bool mutate_is_closer(const mutator *m, uint32_t i)
{
    return i < m->n && m->tokens[i].kind == TOKEN_OPERATOR &&
           strchr(")]}", m->set->text.ptr[m->tokens[i].begin]) != NULL;
}

static const char keywords[] =
    "if else elif for while return in not and or is def class lambda import from as with try "
    "except finally raise yield pass break continue global del assert function const let var new "
    "typeof instanceof switch case default do int char long short unsigned signed double float "
    "void static struct size_t bool async await of null undefined None True False true false print "
    "enum union extern inline goto sizeof typedef volatile export this self NULL";

bool mutate_is_keyword(view word) { return mutate_among(word, keywords); }

static const char plain_values[] = "None True False true false null undefined NULL self this";

bool mutate_is_operand(const mutator *m, uint32_t i)
{
    if (i >= m->n) return false;
    solve_token_kind kind = m->tokens[i].kind;
    if (kind == TOKEN_NUMBER || kind == TOKEN_STRING) return true;
    if (kind == TOKEN_NAME)
        return !mutate_among(mutate_token(m, i), keywords) ||
               mutate_among(mutate_token(m, i), plain_values);
    return mutate_is_closer(m, i);
}

/* The token after the bracket that opens at i; m->n if it stays open. */
uint32_t mutate_after_bracket(const mutator *m, uint32_t i)
{
    uint32_t depth = 0;
    for (; i < m->n; i++) {
        if (m->tokens[i].kind != TOKEN_OPERATOR) continue;
        char c = m->set->text.ptr[m->tokens[i].begin];
        depth += c == '(' || c == '[' || c == '{';
        if (mutate_is_closer(m, i) && --depth == 0) return i + 1;
    }
    return m->n;
}

/* After the operand that begins at i, with its calls, subscripts and members; i if there is
 * none. */
uint32_t mutate_operand_end(const mutator *m, uint32_t i)
{
    uint32_t at = i;
    while (at < m->n && mutate_among(mutate_token(m, at), "- ! * &"))
        at++;
    if (mutate_is(m, at, "(") || mutate_is(m, at, "["))
        at = mutate_after_bracket(m, at);
    else if (mutate_is_operand(m, at) && !mutate_is_closer(m, at))
        at++;
    else
        return i;
    while (at < m->n) {
        if (mutate_is(m, at, "(") || mutate_is(m, at, "[")) at = mutate_after_bracket(m, at);
        else if ((mutate_is(m, at, ".") || mutate_is(m, at, "->")) && at + 1 < m->n) at += 2;
        else break;
    }
    return at;
}

/* The beginning of the operand that ends before i; i if there is none. */
uint32_t mutate_operand_begin(const mutator *m, uint32_t i)
{
    for (uint32_t from = i; from-- > 0 && i - from < 64;) {
        bool opens = mutate_is(m, from, "(") || mutate_is(m, from, "[");
        bool can_begin = opens || (mutate_is_operand(m, from) && !mutate_is_closer(m, from));
        bool is_inner = from > 0 && (mutate_is(m, from - 1, ".") || mutate_is(m, from - 1, "->"));
        if (can_begin && !is_inner && mutate_operand_end(m, from) == i) {
            /* A call or a subscript begins with its callee. */
            if (opens && from > 0 && mutate_is_operand(m, from - 1)) continue;
            return from;
        }
        if (mutate_is(m, from, ";") || mutate_is(m, from, "=")) break;
    }
    return i;
}

/* Tokens [a, b) with the text between them. */
view mutate_span(const mutator *m, uint32_t a, uint32_t b)
{
    if (a >= b) return (view){"", 0};
    return (view){m->set->text.ptr + m->tokens[a].begin, m->tokens[b - 1].end - m->tokens[a].begin};
}

bool mutate_is_binary(const mutator *m, uint32_t i)
{
    static const char binary[] = "+ - * / // % ** < <= > >= == != === !== && || & | ^ << >> ?? "
                                 "and or";
    return i > 0 && mutate_is_operand(m, i - 1) && i + 1 < m->n &&
           mutate_among(mutate_token(m, i), binary);
}
