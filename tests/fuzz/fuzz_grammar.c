/* fuzz_grammar.c - any bytes as a schema, an expression or a grammar: it compiles or is
 * refused in one line, and the compiled grammar matches like the slow definition, byte by
 * byte, tokens by mask as bytes.  The first byte chooses the syntax; a zero byte ends the grammar,
 * and a text to match follows. */
#include "../grammar/recognize.h"
#include "sampling/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_MAX = 48, STATES_MAX = 4000 };

static const char *const words[] = {
    "\"", "a",    "b", "ab", "{\"", "\":",  "\": ", ",", ", \"", "}",    "]",
    "[",  "0",    "1", "12", "-",   "true", "null", "é", "\xc3", "\xa9", "\\n",
    "\\", "aé\"", " ", "\n", "+",   "x y",  "\"}",  "e", "abc",  "b\",",
};

static mask_vocabulary *make_vocabulary(void)
{
    static char singles[256];
    mask_token tokens[256 + ARRAY_LEN(words) + 2];
    mask_vocabulary *v = NULL;
    uint32_t n = 0;
    for (uint32_t c = 0; c < 256; c++) {
        singles[c] = (char)c;
        tokens[n++] = (mask_token){.text = {&singles[c], 1}};
    }
    for (uint32_t i = 0; i < ARRAY_LEN(words); i++)
        tokens[n++] = (mask_token){.text = view_of(words[i])};
    tokens[n++] = (mask_token){.text = VIEW("<call>"), .is_control = true};
    tokens[n++] = (mask_token){.text = VIEW("<end>"), .is_control = true, .is_end = true};
    CHECK(!mask_vocabulary_open(&v, tokens, n, NULL));
    return v;
}

/* At the place in slot 0: a token is in the mask if and only if its bytes can follow. */
static void check_mask(matcher *w, const mask_vocabulary *v)
{
    uint64_t *mask = memory_alloc(v->n_words * sizeof *mask);
    CHECK(mask);
    memcpy(mask, mask_of(w, 0, v, false), v->n_words * sizeof *mask);
    for (uint32_t i = 0; i < v->n_vocab; i++) {
        view text = mask_text(v, i);
        bool can = text.len > 0 && matcher_accept(w, 0, 1, text);
        bool is_end = mask_has(v->ends, i);
        CHECK(mask_has(mask, i) == (can || (is_end && matcher_is_complete(w, 0))));
    }
    memory_free(mask);
}

static void check_forced(matcher *w)
{
    char text[64];
    size_t n = matcher_forced(w, 0, text, sizeof text);
    CHECK(n <= sizeof text && (n == 0 || matcher_accept(w, 0, 1, (view){text, n})));
}

static void check_text(const grammar *g, view text)
{
    static mask_vocabulary *v;
    matcher *w = NULL;
    bool complete = false, slow_complete;
    if (!v) v = make_vocabulary();
    CHECK(!matcher_open(&w, g, v->token_bytes_max, v->n_words, MASKS_KEPT, NULL));
    CHECK(!mask_classes_open(w, v));
    matcher_begin(w, 0);
    size_t n = 0;
    for (; n < text.len; n++) {
        if (n < 6) check_mask(w, v);
        check_forced(w);
        if (!matcher_accept(w, 0, 0, (view){text.ptr + n, 1})) break;
    }
    complete = n == text.len && matcher_is_complete(w, 0);
    CHECK(recognize(g, text, &slow_complete) == n);
    CHECK(complete == slow_complete);
    matcher_close(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    grammar *g = NULL;
    cerium_error err = {.status = 0};
    if (size < 1 || size > 4096) return 0;
    const uint8_t *zero = memchr(data + 1, 0, size - 1);
    size_t n = zero ? (size_t)(zero - data - 1) : size - 1;
    view text = {(const char *)data + 1, n};
    int status = grammar_compile(&g, (cerium_grammar_syntax)(data[0] % 4), text, &err);
    CHECK(status <= 0 && (status == 0) == (g != NULL));
    CHECK(status == 0 || (err.message[0] && !memchr(err.message, '\n', strlen(err.message))));
    if (g && g->n_states < STATES_MAX) {
        view rest = {(const char *)data + 1 + n, size - 1 - n};
        if (rest.len) rest = (view){rest.ptr + 1, rest.len - 1};
        if (rest.len > TEXT_MAX) rest.len = TEXT_MAX;
        check_text(g, rest);
    }
    grammar_free(&g);
    return 0;
}
