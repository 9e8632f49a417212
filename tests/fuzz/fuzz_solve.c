/* fuzz_solve.c - places, functions, tokens and edits of any bytes: up to the first NUL the place,
 * then a letter for the language, then the file.  Every variant is the file with one span replaced,
 * no two are the same program, and there are no reads past the end. */
#include "programs/solve.h"

enum { VARIANTS = 300 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Tokens cover the text, each once. */
static void check_tokens(view text, wire_language language)
{
    solve_token t;
    size_t end = 0;
    for (size_t at = 0; solve_token_next(text, language, &at, &t); end = t.end)
        CHECK(t.begin == end && t.end == at && at <= text.len);
    CHECK(end == text.len);
}

static void check_edits(view text, wire_language language, solve_span span)
{
    solve_set s;
    cerium_error err;
    bytes program = {.max = 4 * SOLVE_TEXT_BYTES_MAX};
    CHECK(!solve_set_open(&s, text, language, VARIANTS, &err));
    CHECK(!solve_mutate(&s, &span, 1, VARIANTS - 10, &err));
    CHECK(s.n <= VARIANTS - 10 && s.n_different == s.n);
    for (uint32_t i = 0; i < s.n; i++) {
        const solve_variant *v = &s.all[i];
        CHECK(v->span.begin <= v->span.end && v->span.end <= text.len);
        CHECK(v->state == VARIANT_MADE && v->same_as == SOLVE_NONE);
        CHECK(!solve_set_program(&s, i, &program));
        CHECK(program.len == text.len - (v->span.end - v->span.begin) + v->n_text);
    }
    if (s.n) { /* generated again, it is the same */
        uint32_t i = solve_set_plan(&s, MAKER_MODEL);
        CHECK(!solve_set_make(&s, i, s.all[0].span, (view){s.all[0].text, s.all[0].n_text}, &err));
        CHECK(s.all[i].same_as == 0 && s.all[0].n_same == 2);
    }
    bytes_free(&program);
    solve_set_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const wire_language languages[] = {WIRE_PYTHON, WIRE_JAVASCRIPT, WIRE_C, WIRE_COMMAND};
    char place[256];
    solve_place p;
    solve_span span = {0, 0};
    cerium_error err;
    const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
    size_t n = cut ? (size_t)(cut - data) : 0;
    if (!cut || n >= sizeof place || size - n < 2 || size > 1 << 14) return 0;
    memcpy(place, data, n);
    place[n] = 0;
    /* In memory of its exact size, so that a read past its end is seen. */
    const size_t len = size - n - 2;
    char *copy = memory_copy(data + n + 2, len);
    CHECK(copy);
    const view text = {copy, len};
    wire_language language = languages[data[n + 1] % ARRAY_LEN(languages)];
    check_tokens(text, language);
    if (!solve_function_span(text, language, place, &span, &err)) {
        CHECK(span.begin <= span.end && span.end <= len);
        check_edits(text, language, span);
    }
    if (solve_place_read(place, false, &p) && p.line && !solve_place_span(&p, text, &span, &err)) {
        CHECK(span.begin <= span.end && span.end <= len);
        check_edits(text, language, span);
    }
    memory_free(copy);
    return 0;
}
