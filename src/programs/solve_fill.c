/* solve_fill.c - texts for an empty place, without a model: the missing text is often elsewhere in
 * the file, or is a small form of nearby names. */
#include "programs/solve_mutate.h"

#include <ctype.h>

enum {
    PIECES_MAX = 96,  /* expressions of the file, names among them */
    NEAREST = 4,      /* names that are tried first */
    NEAR_NAMES = 9,   /* pieces used in forms of two, */
    NEAR_PIECES = 16, /* in forms of one */
    LINES_MAX = 48,
};

typedef struct {
    mutator *m;
    solve_span at;
    view pieces[PIECES_MAX]; /* names first */
    uint32_t n_pieces;
} filler;

static int fill(filler *f, view text) { return mutate_edit(f->m, f->at.begin, f->at.end, text); }

/* A form as "max(A, B)", "A.get(B, 0) + 1". */
static int fill_form(filler *f, const char *form, view a, view b)
{
    view parts[16];
    uint32_t n = 0;
    for (const char *at = form; *at && n < ARRAY_LEN(parts);) {
        size_t len = strcspn(at, "AB");
        if (len == 0) {
            parts[n++] = *at == 'A' ? a : b;
            at++;
        } else {
            parts[n++] = (view){at, len};
            at += len;
        }
    }
    return mutate_parts(f->m, f->at.begin, f->at.end, parts, n);
}

static void add_piece(filler *f, view piece)
{
    for (uint32_t i = 0; i < f->n_pieces; i++)
        if (view_equal(f->pieces[i], piece)) return;
    bool small = piece.len <= 60 && !memchr(piece.ptr, '\n', piece.len);
    if (f->n_pieces < PIECES_MAX && small) f->pieces[f->n_pieces++] = piece;
}

/* An operand and its parts: a.b, a.b[c]. */
static void add_operand(filler *f, uint32_t i)
{
    const mutator *m = f->m;
    uint32_t end = mutate_operand_end(m, i);
    for (uint32_t at = i + 1; at < end;) {
        bool member = mutate_is(m, at, ".") || mutate_is(m, at, "->");
        bool opens = mutate_is(m, at, "(") || mutate_is(m, at, "[");
        if (!member && !opens) break;
        at = member ? at + 2 : mutate_after_bracket(m, at);
        if (at <= end) add_piece(f, mutate_span(m, i, at));
    }
    if (end > i + 1) add_piece(f, mutate_span(m, i, end));
}

/* Names, and then operands with their calls and subscripts, those near the place first. */
static void read_pieces(filler *f)
{
    const mutator *m = f->m;
    for (uint32_t i = 0; i < m->n_names && i < NEAREST; i++) add_piece(f, m->names[i]);
    uint32_t near = 0;
    while (near < m->n && m->tokens[near].begin < f->at.begin) near++;
    for (uint32_t step = 0; step < 2 * m->n; step++) {
        /* Alternately one after the place and one before it. */
        uint32_t far = step / 2, i = step % 2 ? near + far : near - far - 1;
        if ((step % 2 ? i >= m->n : far >= near)) continue;
        bool inner = i > 0 && (mutate_is(m, i - 1, ".") || mutate_is(m, i - 1, "->"));
        if (!inner) add_operand(f, i);
        if (f->n_pieces == PIECES_MAX / 2) break;
    }
    for (uint32_t i = NEAREST; i < m->n_names; i++) add_piece(f, m->names[i]);
}

/* Statements of the file: lines, and the text after a head on the same line. */
static int fill_lines(filler *f)
{
    const view text = f->m->set->text;
    uint32_t n = 0;
    for (size_t at = 0; at < text.len && n < LINES_MAX;) {
        const char *feed = memchr(text.ptr + at, '\n', text.len - at);
        size_t end = feed ? (size_t)(feed - text.ptr) : text.len, next = end + 1;
        while (at < end && isspace((unsigned char)text.ptr[at])) at++;
        while (end > at && isspace((unsigned char)text.ptr[end - 1])) end--;
        bool opens = end > at && strchr("{:", text.ptr[end - 1]);
        if (end > at + 2 && !opens) {
            RETURN_IF(fill(f, (view){text.ptr + at, end - at}));
            n++;
        }
        at = next;
    }
    return CERIUM_OK;
}

static const char *const forms_of_one[][12] = {
    [WIRE_PYTHON] = {"A + 1", "A - 1", "len(A)", "not A", "-A", "sorted(A)", "zip(*A)", "A[-1]",
                     "A[0]", "A()", "str(A)", "reversed(A)"},
    [WIRE_JAVASCRIPT] = {"A + 1", "A - 1", "A.length", "!A", "Object.keys(A)", "A[0]", "A()",
                         "String(A)", "A.length - 1", "Object.values(A)", "A.slice(1)",
                         "A.slice()"},
    [WIRE_C] = {"A + 1", "A - 1", "*A", "!A", "&A", "A[0]", "-A", "strlen(A)", "A->next", "++A",
                "sizeof(A)", "*A++"},
};
static const char *const statements_of_one[][10] = {
    [WIRE_PYTHON] = {"return A", "del A", "A += 1", "A -= 1", "A = []", "A = 0", "continue",
                     "break", "A.clear()", "A.pop()"},
    [WIRE_JAVASCRIPT] = {"return A;", "return;", "A++;", "A--;", "A += 1;", "continue;", "break;",
                         "A = 0;", "A();", "A.clear();"},
    [WIRE_C] = {"A++;", "A--;", "return A;", "return;", "continue;", "break;", "A = 0;",
                "A = NULL;", "free(A);", "A += 1;"},
};
static const char *const forms_of_two[][16] = {
    [WIRE_PYTHON] = {"A + B", "A - B", "A[B]", "A(B)", "max(A, B)", "min(A, B)", "A * B",
                     "(A + B) // 2", "A.get(B, 0) + 1", "A in B", "A not in B", "A < B", "A // B",
                     "A.get(B)", "A.B", "A % B"},
    [WIRE_JAVASCRIPT] = {"A + B", "A - B", "A[B]", "A(B)", "A.B", "Math.max(A, B)",
                         "Math.min(A, B)", "A.slice(B)", "A * B", "A.slice(0, B)", "A.has(B)",
                         "A.get(B)", "A < B", "A === B", "A.B()", "A % B"},
    [WIRE_C] = {"A + B", "A - B", "A[B]", "A->B", "A * B", "A / B", "A % B", "A < B", "A >= B",
                "A == B", "A = B", "A(B)", "A = A->B", "A && B", "(A + B) / 2", "A > B"},
};
static const char *const statements_of_two[][8] = {
    [WIRE_PYTHON] = {"A = B", "A += B", "A.append(B)", "A.add(B)", "A.pop(B)", "del A[B]",
                     "A -= B", "A(B)"},
    [WIRE_JAVASCRIPT] = {"A = B;", "A += B;", "A.push(B);", "A(B);", "A.add(B);", "A.delete(B);",
                         "A -= B;", "A.set(A, B);"},
    [WIRE_C] = {"A = B;", "A += B;", "A = A->B;", "A(B);", "A->B = NULL;", "A[B] = 0;", "A -= B;",
                "*A = B;"},
};

static int fill_ones(filler *f, const char *const *forms, uint32_t n_forms)
{
    for (uint32_t i = 0; i < n_forms; i++)
        for (uint32_t a = 0; a < f->n_pieces && a < NEAR_PIECES; a++)
            RETURN_IF(fill_form(f, forms[i], f->pieces[a], f->pieces[a]));
    return CERIUM_OK;
}

static int fill_twos(filler *f, const char *const *forms, uint32_t n_forms)
{
    for (uint32_t i = 0; i < n_forms; i++)
        for (uint32_t a = 0; a < f->n_pieces && a < NEAR_NAMES; a++)
            for (uint32_t b = 0; b < f->n_pieces && b < NEAR_NAMES; b++)
                if (a != b) RETURN_IF(fill_form(f, forms[i], f->pieces[a], f->pieces[b]));
    return CERIUM_OK;
}

/* Does a statement begin here: at a line's beginning, after a head or another statement? */
static bool is_statement(const filler *f)
{
    const view text = f->m->set->text;
    size_t at = f->at.begin;
    while (at > 0 && (text.ptr[at - 1] == ' ' || text.ptr[at - 1] == '\t')) at--;
    if (at == 0 || strchr("\n;{}", text.ptr[at - 1])) return true;
    size_t end = f->at.end;
    while (end < text.len && (text.ptr[end] == ' ' || text.ptr[end] == '\t')) end++;
    bool ends = end == text.len || text.ptr[end] == '\n' || text.ptr[end] == '\r';
    return text.ptr[at - 1] == ')' && ends && f->m->set->language != WIRE_PYTHON;
}

int mutate_fill(mutator *m, solve_span at)
{
    static const char *const plain[] = {"0", "1", "-1", "None", "True", "False", "[]", "{}",
                                        "\"\""};
    filler f = {.m = m, .at = at};
    wire_language language = m->set->language;
    read_pieces(&f);
    if (is_statement(&f)) {
        RETURN_IF(fill_lines(&f));
        if (language != WIRE_COMMAND) {
            RETURN_IF(fill_ones(&f, statements_of_one[language],
                                ARRAY_LEN(statements_of_one[language])));
            return fill_twos(&f, statements_of_two[language],
                             ARRAY_LEN(statements_of_two[language]));
        }
    }
    for (uint32_t i = 0; i < f.n_pieces; i++) RETURN_IF(fill(&f, f.pieces[i]));
    for (size_t i = 0; i < ARRAY_LEN(plain) && (language == WIRE_PYTHON || i < 3); i++)
        RETURN_IF(fill(&f, view_of(plain[i])));
    for (uint32_t i = 0; i + 1 < m->n; i++) { /* sums and comparisons in the file */
        uint32_t end = mutate_operand_end(m, i);
        uint32_t to = end > i && mutate_is_binary(m, end) ? mutate_operand_end(m, end + 1) : end;
        if (to > end + 1) RETURN_IF(fill(&f, mutate_span(m, i, to)));
    }
    if (language == WIRE_COMMAND) return CERIUM_OK;
    RETURN_IF(fill_ones(&f, forms_of_one[language], ARRAY_LEN(forms_of_one[language])));
    return fill_twos(&f, forms_of_two[language], ARRAY_LEN(forms_of_two[language]));
}
