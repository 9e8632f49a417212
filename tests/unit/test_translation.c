/* test_translation.c - a timeline read in another vocabulary has the same bytes, in the tokens of
 * the whole text, however it grew and was cut; guesses translate back to the same bytes; an
 * open end is spelled by the best possible token. */
#include "speculation/translation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "../random.h"
#include "unit.h"
#include "vocab_file.h"

enum { TEXT_MAX = 1 << 16, TOKENS_MAX = 1 << 15, KINDS = 3, CONTROL_TOKENS = 3 };

static tokenizer *all[KINDS]; /* the bundled model's, bytes with some words, pieces with bytes */
static const char *const names[KINDS] = {"bundled", "words", "pieces"};
static char text[TEXT_MAX];
static size_t text_len;

static void open_bundled(tokenizer **t)
{
    gguf_file *file = NULL;
    cerium_error err;
    CHECK(gguf_open(&file, "models/cerium-line.gguf", &err) == 0);
    CHECK(tokenizer_open(t, file, &err) == 0);
    gguf_close(&file);
}

static void open_words(tokenizer **t)
{
    static const char *const halves[] = {"i", "n", "in", "t", "e", "r", " ", "s", " s", "t",
                                         "re", "t", "r", "e", " ", " ", "  ", "  ", "o", "u",
                                         "\xc3", "\xa9", "_", "t", "s", "->"};
    static const char *const control[] = {"<begin>", "<|fim_middle|>", "<end>"};
    vocab_file v;
    cerium_error err;
    vocab_open(&v);
    vocab_bytes_model(&v, "qwen2", halves, ARRAY_LEN(halves) / 2, control, 3);
    vocab_u32(&v, "tokenizer.ggml.bos_token_id", 256 + ARRAY_LEN(halves) / 2);
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", 256 + ARRAY_LEN(halves) / 2 + 2);
    vocab_bool(&v, "tokenizer.ggml.add_bos_token", true);
    CHECK(vocab_tokenizer(&v, t, &err) == 0);
    vocab_close(&v);
}

/* SentencePiece, with the first n_bytes bytes. */
static int open_pieces(tokenizer **t, uint32_t n_bytes, cerium_error *err)
{
    static const char *const pieces[] = {
        "\xe2\x96\x81", "e", "t", "r", "in", "s", "n", "i", "in" "t", "re", "ret",
        "\xe2\x96\x81\xe2\x96\x81", "\xe2\x96\x81s", "st", "(", "\xe2\x82\xac"};
    uint32_t n = 3 + n_bytes + ARRAY_LEN(pieces);
    vocab_file v;
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("llama"));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, n);
    vocab_put_view(&v, VIEW("<unk>"));
    vocab_put_view(&v, VIEW("<s>"));
    vocab_put_view(&v, VIEW("</s>"));
    for (uint32_t b = 0; b < n_bytes; b++) {
        char name[16];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        vocab_put_view(&v, view_of(name));
    }
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) vocab_put_view(&v, view_of(pieces[i]));
    vocab_array(&v, "tokenizer.ggml.scores", GGUF_FLOAT32, n);
    for (uint32_t i = 0; i < n; i++) {
        float score = -(float)i;
        vocab_put(&v, &score, 4);
    }
    vocab_array(&v, "tokenizer.ggml.token_type", GGUF_INT32, n);
    for (uint32_t i = 0; i < n; i++)
        vocab_put_u32(&v, i == 0 ? 2 : i < 3 ? 3 : i < 3 + n_bytes ? 6 : 1);
    int status = vocab_tokenizer(&v, t, err);
    vocab_close(&v);
    return status;
}

/* Code of our own, with other letters in it. */
static void read_text(void)
{
    static const char *const strange[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff"};
    FILE *f = fopen("src/speculation/drafter.c", "rb");
    CHECK(f);
    for (int c; (c = getc(f)) != EOF && text_len + 8 < TEXT_MAX;) {
        text[text_len++] = (char)c;
        if (random_below(29)) continue;
        const char *more = strange[random_below(ARRAY_LEN(strange))];
        for (; *more; more++) text[text_len++] = *more;
    }
    fclose(f);
}

static view bytes_of(const tokenizer *t, int32_t token)
{
    view v;
    v.ptr = tokenizer_bytes(t, token, &v.len);
    return v;
}

/* Bytes of text tokens [n]. */
static size_t join(const tokenizer *t, const int32_t *tokens, uint32_t n, char *out)
{
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        view v = bytes_of(t, tokens[i]);
        if (tokenizer_is_control(t, tokens[i]) || v.len == 0) continue;
        memcpy(out + len, v.ptr, v.len);
        len += v.len;
    }
    return len;
}

static char want_bytes[TEXT_MAX], have_bytes[TEXT_MAX];
static int32_t tokens[TOKENS_MAX], read_tokens[TOKENS_MAX], before[TOKENS_MAX], whole[TOKENS_MAX];
static uint32_t places[TOKENS_MAX];

/* The draft model has the bytes of the model's tokens [begin, n), and in the usual case the tokens
 * of their encoding. */
static bool check_read(const translation *x, const tokenizer *model, const tokenizer *draft,
                       uint32_t n)
{
    cerium_error err;
    size_t n_whole = 0;
    size_t want = join(model, tokens + x->begin, n - x->begin, want_bytes);
    size_t have = join(draft, x->tokens, x->n, have_bytes), skip = 0;
    if (x->begin == 0 && tokenizer_adds_space(draft)) skip = 1;
    memcpy(have_bytes + have, x->open, x->n_open);
    have += x->n_open;
    TEST_CHECK_THAT(have == want + skip, "%zu, not %zu", have - skip, want);
    TEST_CHECK(!memcmp(have_bytes + skip, want_bytes, want));
    if (tokenizer_encode(draft, (view){want_bytes, want - x->n_open}, false, true, whole,
                         TOKENS_MAX, &n_whole, &err))
        return false;
    size_t a = 0, b = 0; /* bytes before place `at` of the model's, and before token i */
    for (uint32_t i = 0, at = x->begin; i < x->n; i++) {
        for (; x->places[i] != UINT32_MAX && at < x->places[i]; at++)
            a += join(model, tokens + at, 1, want_bytes);
        if (x->places[i] != UINT32_MAX)
            TEST_CHECK_THAT(a + (b > 0 ? skip : 0) == b, "place %u: %zu %zu", i, a, b);
        b += join(draft, x->tokens + i, 1, have_bytes);
    }
    return n_whole == x->n && !memcmp(whole, x->tokens, n_whole * sizeof *whole);
}

static void test_reading(int of, int by)
{
    const tokenizer *model = all[of], *draft = all[by];
    translator *t = NULL;
    cerium_error err;
    size_t n_all = 0;
    uint32_t n = 0, n_reads = 0, n_whole = 0;
    CHECK(tokenizer_encode_bare(model, (view){text, text_len / 2}, tokens, TOKENS_MAX, &n_all,
                                &err) == 0);
    TEST_CHECK_THAT(translator_open(&t, model, draft, &err) == 0, "%s", err.message);
    TEST_CHECK(!translator_copies(t));
    translation x = {.tokens = read_tokens, .places = places, .n_max = TOKENS_MAX};
    long n_allocated = memory_count();
    while (n < n_all) {
        n += 1 + random_below(random_below(4) ? 6 : 200);
        if (n > n_all) n = (uint32_t)n_all;
        if (random_below(5) == 0) { /* another continuation, then a rewind */
            uint32_t cut = n - random_below(n < 50 ? n : 50);
            translation_cut(&x, cut);
            TEST_CHECK(x.end <= cut);
            n = cut > 0 ? cut : 1;
        }
        uint32_t n_before = x.n_same;
        memcpy(before, read_tokens, n_before * sizeof *before);
        TEST_CHECK(translation_read(&x, t, tokens, n));
        TEST_CHECK(x.end == n && x.n > 0 && x.n_same <= n_before);
        TEST_CHECK(!memcmp(before, read_tokens, x.n_same * sizeof *before));
        n_allocated -= memory_count();
        n_whole += check_read(&x, model, draft, n);
        n_allocated += memory_count();
        n_reads++;
        x.n_same = x.n;
    }
    TEST_CHECK(memory_count() == n_allocated);
    printf("  %s by %s: %u of %u readings have the tokens of the whole\n", names[of], names[by],
           n_whole, n_reads);
    TEST_CHECK(n_whole * 10 >= n_reads * 9);
    translator_close(&t);
}

static void test_readings(void)
{
    for (int of = 0; of < KINDS; of++)
        for (int by = 0; by < KINDS; by++)
            if (of != by) test_reading(of, by);
}

/* A timeline that is too long begins later, at a place that does not depend on its history. */
static void test_long(void)
{
    translator *t = NULL;
    cerium_error err;
    size_t n_all = 0;
    CHECK(tokenizer_encode_bare(all[0], (view){text, text_len}, tokens, TOKENS_MAX, &n_all,
                                &err) == 0);
    for (int copies = 0; copies < 2; copies++) {
        CHECK(translator_open(&t, all[0], all[copies ? 0 : 1], &err) == 0);
        TEST_CHECK(translator_copies(t) == copies);
        translation x = {.tokens = read_tokens, .places = places, .n_max = 1024};
        uint32_t n_begins = 0, n_read = 0;
        for (uint32_t n = 1; n < n_all; n += 1 + random_below(9)) {
            uint32_t begin = x.begin;
            if (!translation_read(&x, t, tokens, n)) continue;
            n_read++;
            n_begins += x.begin != begin;
            TEST_CHECK(x.end == n && x.begin < n && x.begin % 128 == 0 && x.n <= 1024);
            if (copies)
                TEST_CHECK(x.n == n - x.begin &&
                           !memcmp(x.tokens, tokens + x.begin, x.n * sizeof *tokens));
            else
                check_read(&x, all[0], all[1], n);
            x.n_same = x.n;
        }
        TEST_CHECK_THAT(n_begins > 1 && n_begins < n_all / 128 && n_read > n_all / 40, "%u %u",
                        n_begins, n_read);
        translator_close(&t);
    }
}

/* Control tokens: by name, by role, or left out. */
static void test_control(void)
{
    translator *t = NULL;
    cerium_error err;
    char line[64] = "";
    size_t len = 0;
    CHECK(translator_open(&t, all[1], all[0], &err) == 0);
    int32_t begin = tokenizer_find(all[1], VIEW("<begin>")), end = begin + 2, middle = begin + 1;
    int32_t timeline[] = {begin, 'a', 'b', middle, 'c', end, 'd'};
    translation x = {.tokens = read_tokens, .places = places, .n_max = TOKENS_MAX};
    TEST_CHECK(translation_read(&x, t, timeline, ARRAY_LEN(timeline)));
    for (uint32_t i = 0; i < x.n; i++) {
        int32_t token = x.tokens[i];
        view v = bytes_of(all[0], token);
        if (tokenizer_is_control(all[0], token))
            v = token == tokenizer_role(all[0], TOKEN_FIM_MID) ? VIEW("M")
                : token == tokenizer_role(all[0], TOKEN_EOS)   ? VIEW("E")
                                                               : VIEW("");
        for (size_t k = 0; k < v.len && len + 1 < sizeof line; k++) line[len++] = v.ptr[k];
    }
    TEST_CHECK_THAT(!strcmp(line, "abMcEd"), "%s", line);
    translator_close(&t);
}

/* ---- back ---- */

static void test_guess(void)
{
    int32_t out[512];
    uint32_t ends[512];
    cerium_error err;
    for (int of = 0; of < KINDS; of++) {
        translator *t = NULL;
        CHECK(translator_open(&t, all[of], all[(of + 1) % KINDS], &err) == 0);
        long n_allocated = memory_count();
        for (int round = 0; round < 400; round++) {
            size_t at = random_below((uint32_t)text_len - 400), len = 1 + random_below(300);
            uint32_t cap = random_below(3) ? 512 : 1 + random_below(8);
            uint32_t n = translator_guess(t, (view){text + at, len}, out, ends, cap);
            size_t n_bytes = join(all[of], out, n, have_bytes);
            TEST_CHECK(n <= cap && n_bytes <= len && !memcmp(have_bytes, text + at, n_bytes));
            TEST_CHECK(n == cap || n_bytes + 3 >= len);
            for (uint32_t i = 0; i < n; i++)
                TEST_CHECK(ends[i] == join(all[of], out, i + 1, have_bytes));
        }
        TEST_CHECK(memory_count() == n_allocated);
        translator_close(&t);
    }
}

/* Against a search over all tokens. */
static void test_spell(void)
{
    static float logits[1 << 15];
    cerium_error err;
    translator *t = NULL;
    CHECK(translator_open(&t, all[1], all[0], &err) == 0);
    uint32_t n_vocab = tokenizer_n_tokens(all[0]), n_longer = 0;
    for (int round = 0; round < 2000; round++) {
        char c[8];
        uint32_t len = 1 + random_below(5);
        size_t at = random_below((uint32_t)text_len - 8);
        memcpy(c, text + at, len);
        for (uint32_t i = 0; i < n_vocab; i++)
            logits[i] = random_below(9) ? (float)random_below(100000) : -INFINITY;
        float margin = 0, most = -INFINITY, next = -INFINITY;
        for (uint32_t i = 0; i < n_vocab; i++) {
            view v = bytes_of(all[0], (int32_t)i);
            if (v.len == 0 || tokenizer_is_control(all[0], (int32_t)i) ||
                memcmp(v.ptr, c, v.len < len ? v.len : len))
                continue;
            if (logits[i] > most) {
                next = most;
                most = logits[i];
            } else if (logits[i] > next) {
                next = logits[i];
            }
        }
        int32_t have = translator_spell(t, (view){c, len}, logits, n_vocab, &margin);
        TEST_CHECK((have < 0) == (most == -INFINITY));
        if (have < 0) continue;
        TEST_CHECK(logits[have] == most);
        TEST_CHECK(next == -INFINITY ? isinf(margin) : margin == most - next);
        n_longer += bytes_of(all[0], have).len > len;
    }
    TEST_CHECK(n_longer > 100);
    translator_close(&t);
}

/* Bytes that a vocabulary lacks are not drafted, all others are. */
static void test_lacking(void)
{
    static const char *const texts[] = {"int return s(1)", "int \xc3\xa9 s(1)"};
    tokenizer *ascii = NULL;
    translator *to_ascii = NULL, *from_ascii = NULL;
    cerium_error err;
    CHECK(open_pieces(&ascii, 128, &err) == 0);
    TEST_CHECK(translator_open(&to_ascii, all[0], ascii, &err) == 0);
    TEST_CHECK(translator_open(&from_ascii, ascii, all[0], &err) == 0);
    for (int lacks = 0; lacks < 2 && to_ascii && from_ascii; lacks++) {
        int32_t ids[64], read[256], guess[64];
        uint32_t at[256], ends[64];
        size_t n = 0;
        view output = view_of(texts[lacks]);
        translation x = {.tokens = read, .places = at, .n_max = ARRAY_LEN(read)};
        CHECK(tokenizer_encode(all[0], output, false, false, ids, ARRAY_LEN(ids), &n,
                               NULL) == 0);
        TEST_CHECK(translation_read(&x, to_ascii, ids, (uint32_t)n) == !lacks);
        uint32_t n_guess = translator_guess(from_ascii, output, guess, ends, ARRAY_LEN(guess));
        TEST_CHECK(n_guess > 0 && ends[n_guess - 1] == (lacks ? strlen("int ") : output.len));
    }
    translator_close(&to_ascii);
    translator_close(&from_ascii);
    tokenizer_close(&ascii);
}

static void test_refused(void)
{
    tokenizer *without = NULL;
    translator *t = NULL;
    cerium_error err;
    CHECK(open_pieces(&without, 0, &err) == 0);
    TEST_CHECK(translator_open(&t, all[0], without, &err) == CERIUM_ERR_FORMAT && !t);
    TEST_CHECK_THAT(strstr(err.message, "the draft model's cannot say all of ASCII"), "%s",
                    err.message);
    TEST_CHECK(translator_open(&t, without, all[0], &err) == CERIUM_ERR_FORMAT && !t);
    TEST_CHECK_THAT(strstr(err.message, "the model's cannot say all of ASCII"), "%s", err.message);
    TEST_CHECK(translator_open(&t, without, without, &err) == 0); /* the same one needs none */
    translator_close(&t);
    for (long n = 0; n < 12; n++) { /* no memory, at any point */
        long live = memory_live();
        memory_fail_at(n);
        int status = translator_open(&t, all[0], all[1], &err);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || (status == CERIUM_ERR_MEMORY && !t));
        translator_close(&t);
        TEST_CHECK(memory_live() == live);
    }
    tokenizer_close(&without);
}

int main(void)
{
    cerium_error err;
    read_text();
    open_bundled(&all[0]);
    open_words(&all[1]);
    CHECK(open_pieces(&all[2], 256, &err) == 0);
    TEST_RUN(test_readings);
    TEST_RUN(test_long);
    TEST_RUN(test_control);
    TEST_RUN(test_guess);
    TEST_RUN(test_spell);
    TEST_RUN(test_lacking);
    TEST_RUN(test_refused);
    for (int i = 0; i < KINDS; i++) tokenizer_close(&all[i]);
    return unit_report("translation");
}
