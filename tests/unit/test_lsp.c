/* test_lsp.c - the language server's text against a naive one, its frames, and its proposals. */
#include "lsp/frames.h"
#include "lsp/ghost_item.h"

#include <math.h>

#include "../random.h"
#include "unit.h"

/* ---- a naive text: UTF-16 units in an array, scanned from the start for every position ---- */

enum { UNITS_MAX = 1 << 16 };

typedef struct {
    uint16_t list[UNITS_MAX];
    size_t n;
} units;

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) return out[0] = (char)c, 1;
    if (c < 0x800) return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

static size_t put_units(uint16_t *out, uint32_t c)
{
    if (c < 0x10000) return out[0] = (uint16_t)c, 1;
    out[0] = (uint16_t)(0xD800 | (c - 0x10000) >> 10);
    out[1] = (uint16_t)(0xDC00 | ((c - 0x10000) & 0x3FF));
    return 2;
}

static bool is_low(uint16_t u) { return (u & 0xFC00) == 0xDC00; }

/* Where a line of the naive text begins and ends; past the last: the end. */
static void find_line(const units *t, uint32_t line, size_t *from, size_t *to)
{
    size_t i = 0;
    for (uint32_t n = 0; n < line; n++) {
        while (i < t->n && t->list[i] != '\n' && t->list[i] != '\r') i++;
        if (i == t->n) {
            *from = *to = t->n;
            return;
        }
        i += t->list[i] == '\r' && i + 1 < t->n && t->list[i + 1] == '\n' ? 2 : 1;
    }
    *from = i;
    while (i < t->n && t->list[i] != '\n' && t->list[i] != '\r') i++;
    *to = i;
}

/* In UTF-16 units, or with bytes: in bytes of UTF-8. */
static size_t find_place(const units *t, lsp_position p, bool in_bytes)
{
    size_t from, to, i;
    uint32_t left = p.character;
    find_line(t, p.line, &from, &to);
    for (i = from; i < to;) {
        bool pair = i + 1 < to && is_low(t->list[i + 1]);
        uint32_t c = t->list[i];
        uint32_t width = !in_bytes ? 1 + pair : pair ? 4 : c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
        if (width > left) break;
        left -= width;
        i += 1 + pair;
    }
    return i;
}

static size_t bytes_of(const units *t, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        bool pair = i + 1 < t->n && is_low(t->list[i + 1]);
        uint32_t c = t->list[i];
        len += pair ? 4 : c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
        i += pair;
    }
    return len;
}

static bool same_text(const units *t, const lsp_text *text)
{
    static char out[4 * UNITS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        uint32_t c = t->list[i];
        if (i + 1 < t->n && is_low(t->list[i + 1]))
            c = 0x10000 + ((c & 0x3FF) << 10 | (t->list[++i] & 0x3FF));
        n += put_utf8(out + n, c);
    }
    return n == text->text.len && !memcmp(out, text->text.ptr ? text->text.ptr : "", n);
}

static const uint32_t letters[] = {'a', 'b', ' ', '\n', '\r', '\r', '\n', 0xB0, 0x4E2D, 0x1F600,
                                   0x1F468, 0x200D, 0x301, 'x', '(', 0xFFFD, 0};

static void test_random_edits(void)
{
    static units naive, with;
    random_state = 77;
    lsp_text text = {0};
    const int n_edits = UNIT_TIMES(1000000, 60000);
    int n_wrong = 0;
    naive.n = 0;
    for (int i = 0; i < n_edits && n_wrong < 5; i++) {
        const lsp_encoding encoding = random_below(2) ? LSP_UTF16 : LSP_UTF8;
        char new[64];
        size_t n_new = 0;
        with.n = 0;
        for (uint32_t k = random_below(6); k-- > 0;) {
            uint32_t c = letters[random_below(ARRAY_LEN(letters))];
            n_new += put_utf8(new + n_new, c);
            with.n += put_units(with.list + with.n, c);
        }
        lsp_position a = {random_below(40), random_below(14)}, b = a;
        if (random_below(3) == 0) b.character += random_below(5);
        if (naive.n > 300) b.line += random_below(10);
        size_t from = find_place(&naive, a, encoding == LSP_UTF8);
        size_t to = find_place(&naive, b, encoding == LSP_UTF8);
        size_t from_byte = lsp_text_offset(&text, a, encoding);
        size_t to_byte = lsp_text_offset(&text, b, encoding);
        n_wrong += from_byte != bytes_of(&naive, from) || to_byte != bytes_of(&naive, to);
        if (to < from) to = from, to_byte = from_byte;
        TEST_CHECK(lsp_text_replace(&text, from_byte, to_byte, (view){new, n_new}) == 0);
        memmove(naive.list + from + with.n, naive.list + to, (naive.n - to) * sizeof *naive.list);
        memcpy(naive.list + from, with.list, with.n * sizeof *with.list);
        naive.n = naive.n + with.n - (to - from);
        if (i % 16 == 0) n_wrong += !same_text(&naive, &text);
        lsp_position back = lsp_text_position(&text, from_byte, encoding);
        size_t again = lsp_text_offset(&text, back, encoding);
        /* A place between CR and LF is reported as the one before them. */
        n_wrong += again != from_byte && again + 1 != from_byte;
    }
    n_wrong += !same_text(&naive, &text);
    TEST_CHECK_THAT(n_wrong == 0, "%d differences", n_wrong);
    lsp_text_close(&text);
}

/* ---- frames ---- */

static void test_frames(void)
{
    static const char stream[] = "Content-Length: 2\r\n\r\n{}"
                                 "content-length:3\r\nContent-Type: x\r\n\r\n{ }\r\n"
                                 "X: 1\r\n\r\n"
                                 "Content-Type: y\r\nCONTENT-LENGTH :  1 \r\n\r\n1"
                                 "Content-Length: 99999999999\r\n\r\n";
    for (size_t piece = 1; piece < sizeof stream; piece += 3) {
        lsp_frames f = {0};
        static const lsp_frame_kind want[] = {LSP_FRAME_BODY, LSP_FRAME_BODY, LSP_FRAME_NO_LENGTH,
                                              LSP_FRAME_BODY, LSP_FRAME_TOO_LONG};
        static const size_t lens[] = {2, 3, 0, 1, 0};
        size_t n = 0;
        for (size_t at = 0; at < sizeof stream - 1; at += piece) {
            size_t len = sizeof stream - 1 - at < piece ? sizeof stream - 1 - at : piece;
            view body = {NULL, 0};
            TEST_CHECK(lsp_frames_add(&f, (view){stream + at, len}) == 0);
            for (lsp_frame_kind k; (k = lsp_frames_next(&f, &body)) != LSP_FRAME_NONE; n++)
                TEST_CHECK(n < ARRAY_LEN(want) && k == want[n] &&
                           (k != LSP_FRAME_BODY || body.len == lens[n]));
        }
        TEST_CHECK_THAT(n == ARRAY_LEN(want), "pieces of %zu: %zu", piece, n);
        lsp_frames_close(&f);
    }
}

static void test_long_head(void)
{
    lsp_frames f = {0};
    view body;
    char junk[1000];
    int n_long = 0;
    memset(junk, 'x', sizeof junk);
    for (int i = 0; i < 20; i++) {
        TEST_CHECK(lsp_frames_add(&f, (view){junk, sizeof junk}) == 0);
        n_long += lsp_frames_next(&f, &body) == LSP_FRAME_HEAD_LONG;
    }
    TEST_CHECK(n_long >= 1);
    TEST_CHECK(lsp_frames_add(&f, VIEW("\n\nContent-Length: 2\n\n{}")) == 0);
    TEST_CHECK(lsp_frames_next(&f, &body) == LSP_FRAME_NO_LENGTH);
    TEST_CHECK(lsp_frames_next(&f, &body) == LSP_FRAME_BODY && body.len == 2);
    /* One that ends, and the next message in the same piece. */
    for (int i = 0; i < 9; i++) TEST_CHECK(lsp_frames_add(&f, (view){junk, sizeof junk}) == 0);
    TEST_CHECK(lsp_frames_add(&f, VIEW("\r\n\r\nContent-Length: 2\r\n\r\n{}")) == 0);
    TEST_CHECK(lsp_frames_next(&f, &body) == LSP_FRAME_HEAD_LONG);
    TEST_CHECK(lsp_frames_next(&f, &body) == LSP_FRAME_BODY && body.len == 2);
    TEST_CHECK(lsp_frames_next(&f, &body) == LSP_FRAME_NONE);
    lsp_frames_close(&f);
}

/* ---- proposals ---- */

static lsp_text text_of(const char *s)
{
    lsp_text t = {0};
    TEST_CHECK(lsp_text_set(&t, view_of(s)) == 0);
    return t;
}

static void test_typing_along(void)
{
    static lsp_proposals all;
    lsp_text t = text_of("x = \ny = 2\n");
    lsp_fit fit;
    lsp_proposal *p = lsp_proposals_begin(&all, &t, 4, 4, VIEW(""));
    TEST_CHECK(p && lsp_proposal_add(p, VIEW("f(1)"), -0.5) == 0);
    for (size_t i = 0; i < 3; i++) {
        TEST_CHECK(lsp_proposals_find(&all, &t, 4 + i, &fit) == p && fit.typed == i);
        TEST_CHECK(lsp_text_replace(&t, 4 + i, 4 + i, (view){"f(1)" + i, 1}) == 0);
        lsp_proposals_move(&all, 4 + i, 4 + i, 1);
    }
    /* Another letter ends it, and deleting letters brings it back. */
    TEST_CHECK(lsp_text_replace(&t, 7, 7, VIEW("q")) == 0);
    TEST_CHECK(!lsp_proposals_find(&all, &t, 8, &fit));
    TEST_CHECK(lsp_text_replace(&t, 6, 8, VIEW("")) == 0);
    TEST_CHECK(lsp_proposals_find(&all, &t, 6, &fit) == p && fit.typed == 2);
    /* A bracket that the editor closes. */
    TEST_CHECK(lsp_text_replace(&t, 6, 6, VIEW(")")) == 0);
    TEST_CHECK(lsp_proposals_find(&all, &t, 6, &fit) == p && fit.n_closers == 1);
    lsp_proposals_close(&all);
    lsp_text_close(&t);
}

static lsp_item item_in(const char *before, const char *text, const char *after, bool is_block,
                        double least)
{
    static lsp_proposals all;
    lsp_text t = text_of("");
    lsp_proposal *p = lsp_proposals_begin(&all, &t, 0, 0, VIEW(""));
    TEST_CHECK(p && lsp_proposal_add(p, view_of(text), -1) == 0);
    p->ended = true;
    const lsp_place place = {.is_block = is_block, .after = view_of(after)};
    const lsp_item_limits limits = {.lines_max = 3, .logprob_min = least};
    lsp_item item = lsp_item_of(p, (lsp_fit){0, 0}, &place, view_of(before), &limits);
    lsp_proposals_close(&all);
    lsp_text_close(&t);
    return item;
}

static void test_items(void)
{
    static const struct {
        const char *before, *text, *after;
        bool is_block;
        size_t len, replaces;
    } cases[] = {
        {"x = ", "f(1)  \ny = 3", "", false, 4, 0},          /* a line, without blanks */
        {"x = ", "\ny = 3", "", false, 0, 0},                /* nothing on this line */
        {"f(", "a, b)", ")", false, 5, 1},                   /* the editor's closer is replaced */
        {"f(", "a, b)", "", false, 5, 0},                    /* the line's own is closed */
        {"x", " = 1)", "", false, 4, 0},                     /* a bracket that was never opened */
        {"f(g(", "a))", "))", false, 3, 2},
        {"f(", "a[1])", ")", false, 5, 1},
        {"print(", "\")\")", ")", false, 4, 1},              /* in a string it closes nothing */
        {"def f(w", "):", ", h):", false, 0, 0},             /* its closer exists already */
        {"f(", ")", ")", false, 0, 0},
        {"x = [", "1]", ", 2]", false, 1, 0},
        {"x = ", "None", " None", false, 0, 0},              /* the line has it already */
        {"if x:", "\n    a()\n    b()\n    c()\n    d()", "", true, 24, 0}, /* three lines */
        {"{", "\n  a();\n}", "", true, 9, 0},                /* the block's own end */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        lsp_item item = item_in(cases[i].before, cases[i].text, cases[i].after,
                                cases[i].is_block, -INFINITY);
        TEST_CHECK_THAT(item.len == cases[i].len && item.replaces == cases[i].replaces,
                        "case %zu: %zu, %zu", i, item.len, item.replaces);
    }
    TEST_CHECK(item_in("x = ", "f(1)", "", false, -0.5).len == 0); /* unsure */
    TEST_CHECK(item_in("x = ", "f(1)", "", false, -1.5).len == 4);
}

/* ---- silence ---- */

static lsp_silence silence_at(const char *text, guard_language language, bool invoked)
{
    const char *caret = strchr(text, '|');
    lsp_text t = {0};
    size_t at = (size_t)(caret - text);
    TEST_CHECK(lsp_text_set(&t, (view){text, at}) == 0);
    TEST_CHECK(lsp_text_replace(&t, at, at, view_of(caret + 1)) == 0);
    lsp_place p = lsp_place_at(&t, language, at, lsp_text_is_minified(&t), invoked);
    lsp_text_close(&t);
    return p.silence;
}

static void test_silence(void)
{
    TEST_CHECK(silence_at("x = |\n", GUARD_PYTHON, false) == LSP_SPEAKS);
    TEST_CHECK(silence_at("f(|)\n", GUARD_PYTHON, false) == LSP_SPEAKS);
    TEST_CHECK(silence_at("x = ab|cd\n", GUARD_PYTHON, false) == LSP_SILENT_WORD);
    TEST_CHECK(silence_at("x = ab|\xC3\xA9\n", GUARD_PYTHON, true) == LSP_SILENT_WORD);
    TEST_CHECK(silence_at("x = | + something(1)\n", GUARD_PYTHON, false) == LSP_SILENT_BEHIND);
    TEST_CHECK(silence_at("x = | + something(1)\n", GUARD_PYTHON, true) == LSP_SPEAKS);
    TEST_CHECK(silence_at("x = 'a |'\n", GUARD_PYTHON, false) == LSP_SILENT_TEXT);
    TEST_CHECK(silence_at("x = 1 # a |\n", GUARD_PYTHON, false) == LSP_SILENT_TEXT);
    TEST_CHECK(silence_at("int x; // a |\n", GUARD_C, false) == LSP_SILENT_TEXT);
    TEST_CHECK(silence_at("int x; /* a\n |*/\n", GUARD_C, false) == LSP_SILENT_TEXT);
    TEST_CHECK(silence_at("x = '''\n\n |\n'''\n", GUARD_PYTHON, false) == LSP_SILENT_TEXT);
    TEST_CHECK(silence_at("x = '''\n\n |\n'''\n", GUARD_PYTHON, true) == LSP_SPEAKS);
    static char wide[40000];
    memset(wide, 'a', sizeof wide - 1);
    wide[sizeof wide - 2] = '|';
    for (size_t i = 400; i < sizeof wide - 2; i += 400) wide[i] = '\n';
    TEST_CHECK(silence_at(wide, GUARD_JAVASCRIPT, true) == LSP_SILENT_MINIFIED);
    TEST_CHECK(!strcmp(lsp_silence_name(LSP_SILENT_WORD), "in the middle of a word"));
}

int main(void)
{
    TEST_RUN(test_random_edits);
    TEST_RUN(test_frames);
    TEST_RUN(test_long_head);
    TEST_RUN(test_typing_along);
    TEST_RUN(test_items);
    TEST_RUN(test_silence);
    return unit_report("lsp");
}
