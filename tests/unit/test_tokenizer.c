/* test_tokenizer.c - encoding and decoding with small vocabularies whose answers were worked out
 * by hand, and properties that hold for all.  Real vocabularies: test_tokenizer_vectors.c. */
#include "base/memory.h"
#include "tokenizer/chat.h"
#include "tokenizer/infill.h"
#include "tokenizer/merger.h"
#include "tokenizer/tokenizer.h"

#include <pthread.h>

#include "../random.h"
#include "merge_slowly.h"
#include "unit.h"
#include "vocab_file.h"

/* Words are named by their halves; ids are 256 and up in this order. */
static const char *const words[] = {
    "h", "e",     /* 256 he */
    "l", "l",     /* 257 ll */
    "he", "ll",   /* 258 hell */
    "hell", "o",  /* 259 hello */
    " ", "w",     /* 260 _w */
    "o", "r",     /* 261 or */
    " w", "or",   /* 262 _wor */
    "a", "a",     /* 263 aa */
    "aa", "aa",   /* 264 aaaa */
    " ", " ",     /* 265 two spaces */
    "\n", "\n",   /* 266 two newlines */
    "1", "2",     /* 267 12 */
    "12", "3",    /* 268 123 */
    "l", "o",     /* 269 lo: comes too late in "hello" */
};
enum { N_WORDS = ARRAY_LEN(words) / 2 };
static const char *const control[] = {
    "<|endoftext|>",  /* 270 */
    "<|im_start|>",   /* 271 */
    "<|im_end|>",     /* 272 */
    "<|fim_prefix|>", /* 273 */
    "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>",
};
enum { CONTROL = 256 + N_WORDS };

static void open_small(tokenizer **t, const char *pre)
{
    cerium_error err;
    vocab_file file;
    vocab_open(&file);
    vocab_bytes_model(&file, pre, words, N_WORDS, control, ARRAY_LEN(control));
    vocab_u32(&file, "tokenizer.ggml.bos_token_id", CONTROL);
    vocab_u32(&file, "tokenizer.ggml.eos_token_id", CONTROL + 2);
    int status = vocab_tokenizer(&file, t, &err);
    TEST_CHECK_THAT(!status, "%s", err.message);
    vocab_close(&file);
    CHECK(!status);
}

/* want: ids, ended by -1 */
static void expect(const tokenizer *t, view text, bool special, const int32_t *want)
{
    int32_t got[64];
    size_t n = 0, n_want = 0;
    cerium_error err;
    while (want[n_want] >= 0) n_want++;
    TEST_CHECK(tokenizer_encode(t, text, special, false, got, 64, &n, &err) == CERIUM_OK);
    bool same = n == n_want && memcmp(got, want, n * sizeof *got) == 0;
    TEST_CHECK_THAT(same, "\"%.*s\": %zu tokens, first %d", (int)text.len, text.ptr, n, got[0]);
}
#define EXPECT(t, text, special, ...) expect(t, VIEW(text), special, (int32_t[]){__VA_ARGS__, -1})

static void test_bytes(void)
{
    tokenizer *t;
    open_small(&t, "gpt-2");
    EXPECT(t, "hello", false, 259);
    EXPECT(t, "hello world", false, 259, 262, 'l', 'd');
    EXPECT(t, "hellp", false, 258, 'p');
    EXPECT(t, "hlo", false, 'h', 269);
    EXPECT(t, "aaa", false, 263, 'a');   /* of equal ranks the left one */
    EXPECT(t, "aaaaa", false, 264, 'a');
    EXPECT(t, "a  a", false, 'a', ' ', ' ', 'a'); /* the last space goes with the word */
    EXPECT(t, "a   a", false, 'a', 265, ' ', 'a');
    EXPECT(t, "123123", false, 268, 268);
    EXPECT(t, "<|im_end|>", true, 272);
    EXPECT(t, "a<|im_end|>a<|im_start|>", true, 'a', 272, 'a', 271);
    EXPECT(t, "<|im_end|", true, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|');
    EXPECT(t, "<|im_end|>", false, '<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>');
    EXPECT(t, "a\0a", false, 'a', 0, 'a');
    EXPECT(t, "\xFFhello\xC3", false, 0xFF, 259, 0xC3); /* invalid UTF-8: byte by byte */
    EXPECT(t, "\xED\xA0\x80", false, 0xED, 0xA0, 0x80);
    EXPECT(t, "\xC3\xA9", false, 0xC3, 0xA9);
    EXPECT(t, "", true, -1);
    tokenizer_close(&t);
    TEST_CHECK(t == NULL);
}

/* The same text under the pre-tokenizers that differ on it. */
static void test_families(void)
{
    tokenizer *t;
    open_small(&t, "qwen2"); /* digits alone, newlines together */
    EXPECT(t, "123", false, '1', '2', '3');
    EXPECT(t, "a\n\na", false, 'a', 266, 'a');
    tokenizer_close(&t);
    open_small(&t, "llama-bpe"); /* three digits, whole words */
    EXPECT(t, "1231", false, 268, '1');
    EXPECT(t, "\xE1\xA0\x8E", false, 0xE1, 0xA0, 0x8E); /* U+180E is no white space */
    tokenizer_close(&t);
    open_small(&t, "starcoder");
    EXPECT(t, "123", false, '1', '2', '3');
    EXPECT(t, "a\n\na", false, 'a', '\n', '\n', 'a');
    tokenizer_close(&t);
    static const char *const all[] = {
        "qwen35",  "gpt-4o",     "tekken",       "deepseek-coder", "deepseek-llm", "deepseek-v3",
        "smollm",  "seed-coder", "bailingmoe",   "falcon",         "default",      "refact",
        "mpt",     "command-r",  "smaug-bpe",    "llama4",         "roberta-bpe",  "mellum",
        "llama3",  "llama-v3",   "deepseek-r1-qwen", "exaone",     "codeshell",    "glm4",
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        open_small(&t, all[i]);
        EXPECT(t, "hello world", false, 259, 262, 'l', 'd');
        tokenizer_close(&t);
    }
}

static void test_facts(void)
{
    tokenizer *t;
    open_small(&t, "gpt-2");
    TEST_CHECK(tokenizer_n_tokens(t) == CONTROL + ARRAY_LEN(control));
    size_t len;
    const char *text = tokenizer_bytes(t, 259, &len);
    TEST_CHECK(len == 5 && memcmp(text, "hello", 5) == 0);
    text = tokenizer_bytes(t, 0xE9, &len);
    TEST_CHECK(len == 1 && (uint8_t)text[0] == 0xE9);
    text = tokenizer_bytes(t, 272, &len);
    TEST_CHECK(len == 10 && memcmp(text, "<|im_end|>", 10) == 0);
    TEST_CHECK(tokenizer_bytes(t, -1, &len) == NULL && len == 0);
    TEST_CHECK(tokenizer_bytes(t, 100000, &len) == NULL && len == 0);
    TEST_CHECK(tokenizer_is_control(t, 272) && !tokenizer_is_control(t, 259));
    TEST_CHECK(tokenizer_role(t, TOKEN_BOS) == CONTROL);
    TEST_CHECK(tokenizer_role(t, TOKEN_EOS) == 272);
    TEST_CHECK(tokenizer_role(t, TOKEN_EOT) == 272);
    TEST_CHECK(tokenizer_role(t, TOKEN_FIM_PRE) == 273 && tokenizer_role(t, TOKEN_FIM_SEP) == 278);
    TEST_CHECK(tokenizer_role(t, TOKEN_EOM) == TOKEN_NONE);
    /* <|endoftext|>, <|im_end|>, and the FIM tokens for padding, repository and file */
    int n_ends = 0;
    for (int32_t id = -1; id <= 300; id++) n_ends += tokenizer_is_end(t, id);
    TEST_CHECK(n_ends == 5 && tokenizer_is_end(t, 270) && tokenizer_is_end(t, 272));
    TEST_CHECK(tokenizer_find(t, VIEW("<|im_start|>")) == 271);
    TEST_CHECK(tokenizer_find(t, VIEW("hello")) == 259);
    TEST_CHECK(tokenizer_find(t, VIEW("nothing")) == TOKEN_NONE);
    TEST_CHECK(!tokenizer_adds_bos(t) && !tokenizer_adds_space(t));
    tokenizer_close(&t);
}

static void test_capacity(void)
{
    tokenizer *t;
    cerium_error err;
    open_small(&t, "llama-bpe"); /* begins with TOKEN_BOS */
    int32_t ids[4] = {-7, -7, -7, -7};
    size_t n = 0;
    TEST_CHECK(tokenizer_encode(t, VIEW("hello world"), false, true, ids, 4, &n, &err) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK(n == 5 && ids[0] == CONTROL && ids[3] == 'l');
    TEST_CHECK(strstr(err.message, "5 tokens") != NULL);
    TEST_CHECK(tokenizer_encode(t, VIEW("hello world"), false, true, NULL, 0, &n, NULL) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK(n == 5);
    TEST_CHECK(tokenizer_encode(t, (view){NULL, 0}, false, true, ids, 4, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == 1 && ids[0] == CONTROL);
    tokenizer_close(&t);
}

/* ---- SentencePiece ---- */

/* <unk> <s> </s>, 256 byte tokens, then these with their scores; the mark is U+2581. */
#define MARK "\xE2\x96\x81"
static const struct {
    const char *text;
    float score;
} pieces[] = {
    {MARK "a", -1},         /* 259 */
    {"bc", -2},             /* 260 */
    {MARK "abc", -3},       /* 261 */
    {"ab", -2},             /* 262: ties with bc */
    {MARK MARK, -4},        /* 263 */
    {MARK, -10},            /* 264 */
    {"a", -11},             /* 265 */
    {"b", -12},             /* 266 */
    {"c", -13},             /* 267 */
    {"\xC3\xA9" "b", -5},   /* 268: the letter itself is not a token */
};

/* scheme: cerium.space_prefix, or NULL. */
static int open_pieces(tokenizer **t, const char *scheme, cerium_error *err)
{
    enum { N = 259 + ARRAY_LEN(pieces) };
    vocab_file v;
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("llama"));
    vocab_bool(&v, "tokenizer.ggml.add_eos_token", true); /* for training: ignored */
    if (scheme) vocab_string(&v, "cerium.space_prefix", view_of(scheme));
    if (scheme) {
        vocab_array(&v, "cerium.end_token_ids", GGUF_INT32, 2);
        vocab_put_u32(&v, 2);
        vocab_put_u32(&v, 260);
    }
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, N);
    vocab_put_view(&v, VIEW("<unk>"));
    vocab_put_view(&v, VIEW("<s>"));
    vocab_put_view(&v, VIEW("</s>"));
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        vocab_put_view(&v, view_of(name));
    }
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) vocab_put_view(&v, view_of(pieces[i].text));
    vocab_array(&v, "tokenizer.ggml.scores", GGUF_FLOAT32, N);
    for (size_t i = 0; i < N; i++) {
        float score = i < 259 ? 0.0f : pieces[i - 259].score;
        vocab_put(&v, &score, 4);
    }
    vocab_array(&v, "tokenizer.ggml.token_type", GGUF_INT32, N);
    for (size_t i = 0; i < N; i++) vocab_put_u32(&v, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
    int status = vocab_tokenizer(&v, t, err);
    vocab_close(&v);
    return status;
}

/* Ways to put a space before text: `tokenizers` calls them always and first. */
static void test_space_schemes(void)
{
    cerium_error err;
    tokenizer *t = NULL;
    TEST_CHECK(open_pieces(&t, "always", &err) == CERIUM_OK);
    if (!t) return;
    EXPECT(t, "a", false, 259);
    EXPECT(t, " a", false, 259); /* there is one already */
    EXPECT(t, "\xE2\x96\x81" "a", false, 259); /* and so is its own sign */
    EXPECT(t, "</s>a", true, 2, 259);
    EXPECT(t, "</s> a", true, 2, 259);
    TEST_CHECK(tokenizer_is_end(t, 2) && tokenizer_is_end(t, 260) && !tokenizer_is_end(t, 261));
    tokenizer_close(&t);
    TEST_CHECK(open_pieces(&t, "first", &err) == CERIUM_OK);
    if (!t) return;
    EXPECT(t, "a", false, 259);
    EXPECT(t, " a", false, 259);
    EXPECT(t, "</s>a", true, 2, 265);
    EXPECT(t, "</s> a", true, 2, 259);
    tokenizer_close(&t);
}

static void test_pieces(void)
{
    enum { BYTE = 3 }; /* the token of byte 0 */
    cerium_error err;
    tokenizer *t = NULL;
    TEST_CHECK_THAT(open_pieces(&t, NULL, &err) == CERIUM_OK, "%s", err.message);
    if (!t) return;
    EXPECT(t, "a", false, 259);             /* a space is added */
    EXPECT(t, "abc", false, 261);           /* _a, bc, then both */
    EXPECT(t, " a", false, 264, 259);       /* one space more; _ _ a: _a first, alone left */
    EXPECT(t, "cabc", false, 264, 267, 262, 267); /* c a b c: ab and bc tie, the left one wins */
    EXPECT(t, "\n", false, 264, BYTE + '\n');
    EXPECT(t, "\xC3\xA9", false, 264, BYTE + 0xC3, BYTE + 0xA9);
    EXPECT(t, "\xC3\xA9" "b", false, 264, 268); /* merges over a letter that is not a token */
    EXPECT(t, "\xFF", false, 264, BYTE + 0xFF);
    EXPECT(t, "</s>a", true, 2, 259);       /* after a control token too */
    EXPECT(t, "", false, -1);
    int32_t ids[8];
    size_t n;
    TEST_CHECK(tokenizer_encode(t, VIEW("a"), false, true, ids, 8, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == 2 && ids[0] == 1 && ids[1] == 259);
    TEST_CHECK(tokenizer_encode_bare(t, VIEW("a"), ids, 8, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == 1 && ids[0] == 265);
    size_t len;
    const char *text = tokenizer_bytes(t, 261, &len);
    TEST_CHECK(len == 4 && memcmp(text, " abc", 4) == 0);
    text = tokenizer_bytes(t, BYTE + 10, &len);
    TEST_CHECK(len == 1 && text[0] == '\n');
    text = tokenizer_bytes(t, 2, &len);
    TEST_CHECK(len == 4 && memcmp(text, "</s>", 4) == 0);
    TEST_CHECK(tokenizer_is_end(t, 2) && !tokenizer_is_end(t, 1));
    TEST_CHECK(tokenizer_role(t, TOKEN_UNK) == 0 && tokenizer_role(t, TOKEN_EOS) == 2);
    tokenizer_close(&t);
}

/* ---- properties ---- */

static void check_round_trip(const tokenizer *t, view text, int32_t *ids)
{
    size_t n = 0, at = 0, len;
    TEST_CHECK(tokenizer_encode(t, text, false, false, ids, text.len, &n, NULL) == CERIUM_OK);
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_bytes(t, ids[i], &len);
        same = same && piece && at + len <= text.len && memcmp(piece, text.ptr + at, len) == 0;
        at += len;
    }
    TEST_CHECK_THAT(same && at == text.len, "%zu bytes, %zu came back", text.len, at);
}

static void test_round_trip(void)
{
    enum { MAX = 4000 };
    static const char *const pres[] = {"gpt-2", "qwen2", "llama-bpe", "gpt-4o", "deepseek-coder",
                                       "falcon", "default", "tekken", "deepseek-llm", "qwen35"};
    static char text[MAX];
    static int32_t ids[MAX];
    for (size_t i = 0; i < ARRAY_LEN(pres); i++) {
        tokenizer *t;
        open_small(&t, pres[i]);
        for (int round = 0; round < 100; round++) {
            size_t len = random_below(MAX);
            uint32_t alphabet = round % 3 == 0 ? 256 : round % 3 == 1 ? 128 : 5;
            for (size_t k = 0; k < len; k++)
                text[k] = alphabet == 5 ? " \na1'"[random_below(5)] : (char)random_below(alphabet);
            check_round_trip(t, (view){text, len}, ids);
        }
        tokenizer_close(&t);
    }
}

/* Random rules over few symbols, with equal ranks among them, on short and long pieces, in windows
 * that are far too small and in one. */
static void test_merger(void)
{
    enum { SYMBOLS = 12, MAX = 300 };
    for (int round = 0; round < 4000; round++) {
        merge_map pairs;
        CHECK(merge_map_open(&pairs, SYMBOLS * SYMBOLS) == CERIUM_OK);
        uint32_t n_rules = 1 + random_below(40), n_ranks = 1 + random_below(40);
        for (uint32_t i = 0; i < n_rules; i++)
            merge_map_add(&pairs, random_below(SYMBOLS), random_below(SYMBOLS),
                          random_below(n_ranks), (int32_t)random_below(SYMBOLS));
        merger m;
        merger_open(&m, &pairs);
        if (round % 4) m.window = 2 + random_below(MAX);
        size_t n = random_below(MAX), period = 1 + random_below(MAX);
        int32_t want[MAX];
        CHECK(merger_reserve(&m, n) == CERIUM_OK);
        for (size_t i = 0; i < n; i++)
            want[i] = m.ids[i] = i < period ? (int32_t)random_below(SYMBOLS) - 1 : want[i - period];
        m.n = n;
        size_t n_want = merge_slowly(want, n, &pairs);
        TEST_CHECK(merger_run(&m) == CERIUM_OK);
        TEST_CHECK_THAT(m.n_merged == n_want && memcmp(m.merged, want, n_want * sizeof *want) == 0,
                        "round %d, %zu symbols in windows of %zu", round, n, m.window);
        merger_close(&m);
        merge_map_close(&pairs);
    }
}

/* Work on one piece of n random symbols; of one kind, a run. */
static uint64_t count_work(const merge_map *pairs, size_t n, uint32_t n_symbols, size_t window)
{
    merger m;
    merger_open(&m, pairs);
    m.window = window;
    CHECK(merger_reserve(&m, n) == CERIUM_OK);
    for (size_t i = 0; i < n; i++) m.ids[i] = (int32_t)(random_u32() % n_symbols);
    m.n = n;
    CHECK(merger_run(&m) == CERIUM_OK);
    uint64_t work = m.n_moves + m.n_looked;
    merger_close(&m);
    return work;
}

/* Work on one long piece is linear, counted instead of timed: in windows, and in one. */
static void test_linear(void)
{
    enum { SYMBOLS = 64, N = 1 << 16 };
    merge_map runs, random;
    CHECK(merge_map_open(&runs, SYMBOLS * SYMBOLS) == CERIUM_OK);
    CHECK(merge_map_open(&random, SYMBOLS * SYMBOLS) == CERIUM_OK);
    for (uint32_t i = 0; i < SYMBOLS; i++) /* symbol i: i + 1 of a character */
        for (uint32_t k = 0; i + k + 1 < SYMBOLS; k++)
            merge_map_add(&runs, i, k, (i + k) * SYMBOLS + i, (int32_t)(i + k + 1));
    for (int i = 0; i < 2000; i++)
        merge_map_add(&random, random_below(SYMBOLS), random_below(SYMBOLS), random_below(4000),
                      (int32_t)random_below(SYMBOLS));
    static const struct {
        uint32_t n_symbols;
        size_t window;
    } kinds[] = {{1, MERGER_WINDOW}, {1, N * 4}, {SYMBOLS, MERGER_WINDOW}, {SYMBOLS, N * 4}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const merge_map *rules = kinds[i].n_symbols == 1 ? &runs : &random;
        uint64_t once = count_work(rules, N, kinds[i].n_symbols, kinds[i].window);
        uint64_t four = count_work(rules, N * 4, kinds[i].n_symbols, kinds[i].window);
        TEST_CHECK_THAT(once > N / 16 && once < (uint64_t)N * 16 && four < 5 * once,
                        "kind %zu: %llu and %llu", i, (unsigned long long)once,
                        (unsigned long long)four);
    }
    merge_map_close(&runs);
    merge_map_close(&random);
}

/* A megabyte of one character, alone and before another: no expression backtracks over it
 * repeatedly, no limit of PCRE2 is reached. */
static void test_long_runs(void)
{
    enum { LEN = 1 << 20 };
    static const char *const pres[] = {"qwen2", "deepseek-llm", "gpt-2", "gpt-4o",
                                       "deepseek-coder", "deepseek-v3", "falcon", "tekken"};
    static const char runs[] = "a \n7(A\xFF\t.";
    char *text = memory_alloc(LEN);
    for (size_t i = 0; i < ARRAY_LEN(pres); i++) {
        size_t len = i < 2 ? LEN : LEN / 8;
        tokenizer *t;
        open_small(&t, pres[i]);
        for (size_t r = 0; r < sizeof runs - 1; r++) {
            size_t n = 0;
            memset(text, runs[r], len);
            text[len - 1] = r % 2 ? 'x' : runs[r];
            TEST_CHECK(tokenizer_encode(t, (view){text, len}, true, false, NULL, 0, &n, NULL) ==
                       CERIUM_ERR_CAPACITY);
            TEST_CHECK(n > 0 && n <= len);
        }
        tokenizer_close(&t);
    }
    memory_free(text);
}

/* ---- failures ---- */

static void test_out_of_memory(void)
{
    static char text[2000];
    static int32_t ids[2000];
    memset(text, 'a', sizeof text); /* long enough for the heap */
    long live = memory_live();
    for (int which = 0; which < 2; which++) {
        int status = CERIUM_ERR_MEMORY;
        for (long n = 0; status; n++) {
            cerium_error err;
            tokenizer *t = NULL;
            vocab_file file;
            vocab_open(&file);
            vocab_bytes_model(&file, "gpt-2", words, N_WORDS, control, ARRAY_LEN(control));
            gguf_file *model = NULL;
            memcpy(file.file.ptr + 16, &file.n_values, 8);
            CHECK(!gguf_open_bytes(&model, (view){file.file.ptr, file.file.len}, "test", &err));
            size_t n_ids = 0;
            if (which == 0) memory_fail_at(n);
            status = tokenizer_open(&t, model, &err);
            if (which == 1) memory_fail_at(n);
            if (!status)
                status = tokenizer_encode(t, (view){text, sizeof text}, true, true, ids, 2000,
                                          &n_ids, &err);
            memory_fail_at(-1);
            TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
            TEST_CHECK(status || n_ids == 500);
            tokenizer_close(&t);
            gguf_close(&model);
            vocab_close(&file);
            TEST_CHECK_THAT(memory_live() == live, "%ld leaked, allocation %ld",
                            memory_live() - live, n);
            if (n > 1000) break;
        }
        TEST_CHECK(status == CERIUM_OK);
    }
}

static void expect_refused(vocab_file *v, const char *reason)
{
    cerium_error err = {0};
    tokenizer *t = NULL;
    TEST_CHECK(vocab_tokenizer(v, &t, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(strstr(err.message, reason) != NULL, "%s", err.message);
    TEST_CHECK(t == NULL);
    vocab_close(v);
}

static void test_refused(void)
{
    vocab_file v;
    vocab_open(&v);
    expect_refused(&v, "no tokenizer.ggml.model");
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("bert"));
    expect_refused(&v, "\"bert\" is not supported");
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("gpt2"));
    expect_refused(&v, "tokenizer.ggml.tokens");
    vocab_open(&v);
    vocab_bytes_model(&v, "no-such-thing", words, N_WORDS, control, 1);
    expect_refused(&v, "\"no-such-thing\" is not supported; supported are qwen2");
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("gpt2"));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, 1);
    vocab_put_view(&v, VIEW("a"));
    expect_refused(&v, "tokenizer.ggml.merges");
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("llama"));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, 1);
    vocab_put_view(&v, VIEW("a"));
    expect_refused(&v, "tokenizer.ggml.scores");
}

/* Work of several threads on one tokenizer at once: short texts and long ones, runs, a chat, a
 * infill prompt, names of tokens. */
enum { LONG = 20000, WORKERS = 4, ROUNDS = 20 };

typedef struct {
    const tokenizer *t;
    const char *text; /* [LONG] */
    int32_t *ids;     /* [2 * LONG] */
    uint64_t sum;     /* of all ids, in their order */
} worker;

static void add_ids(worker *w, size_t n)
{
    for (size_t i = 0; i < n; i++) w->sum = (w->sum ^ (uint32_t)w->ids[i]) * 0x100000001B3u;
    w->sum = (w->sum ^ n) * 0x100000001B3u;
}

static void *work(void *arg)
{
    worker *w = arg;
    const chat_form form = {.kind = CHAT_CHATML, .name = "chatml"};
    const infill_form fim = infill_detect(w->t);
    const cerium_message turns[] = {{.role = "system", .content = "hello"},
                                    {.role = "user", .content = "hello   world aaaa"}};
    const cerium_chat chat = {.messages = turns, .n_messages = 2};
    const cerium_infill hole = {.prefix = w->text, .prefix_len = 900, .suffix = w->text + 900,
                                .suffix_len = 900};
    const size_t cap = 2 * LONG;
    bool done = true;
    size_t n = 0;
    for (int i = 0; i < ROUNDS; i++) {
        for (size_t len = 1; len <= LONG; len = len * 3 + 7) {
            done = done && !tokenizer_encode(w->t, (view){w->text, len}, i % 2, true, w->ids, cap,
                                             &n, NULL);
            add_ids(w, n);
        }
        done = done && !chat_render(w->t, &form, &chat, w->ids, cap, &n, NULL);
        add_ids(w, n);
        done = done && !infill_render(w->t, &fim, &hole, w->ids, cap, &n, NULL);
        add_ids(w, n);
        size_t len = 0;
        const char *name = tokenizer_bytes(w->t, CONTROL + 1, &len);
        done = done && tokenizer_find(w->t, (view){name, len}) == CONTROL + 1;
    }
    if (!done) w->sum = 0;
    return NULL;
}

static void test_threads(void)
{
    static char text[LONG];
    static int32_t ids[WORKERS + 1][2 * LONG];
    static const char *const pres[] = {"qwen2", "gpt-4o", "deepseek-llm", "default"};
    for (size_t i = 0; i < LONG; i++)
        text[i] = i < LONG / 4 ? 'a' : i < LONG / 2 ? ' ' : (char)random_below(256);
    for (size_t p = 0; p < ARRAY_LEN(pres); p++) {
        tokenizer *t;
        pthread_t threads[WORKERS];
        worker workers[WORKERS + 1];
        open_small(&t, pres[p]);
        for (int i = 0; i <= WORKERS; i++)
            workers[i] = (worker){.t = t, .text = text, .ids = ids[i]};
        work(&workers[WORKERS]); /* alone */
        for (int i = 0; i < WORKERS; i++)
            CHECK(!pthread_create(&threads[i], NULL, work, &workers[i]));
        for (int i = 0; i < WORKERS; i++) {
            pthread_join(threads[i], NULL);
            TEST_CHECK(workers[i].sum == workers[WORKERS].sum && workers[i].sum != 0);
        }
        tokenizer_close(&t);
    }
}

static void test_nothing_is_left(void) { TEST_CHECK(memory_live() == 0); }

int main(void)
{
    TEST_RUN(test_bytes);
    TEST_RUN(test_families);
    TEST_RUN(test_facts);
    TEST_RUN(test_capacity);
    TEST_RUN(test_pieces);
    TEST_RUN(test_space_schemes);
    TEST_RUN(test_round_trip);
    TEST_RUN(test_merger);
    TEST_RUN(test_linear);
    TEST_RUN(test_long_runs);
    TEST_RUN(test_out_of_memory);
    TEST_RUN(test_refused);
    TEST_RUN(test_threads);
    TEST_RUN(test_nothing_is_left);
    return unit_report("tokenizer");
}
