/* fuzz_tokenizer.c - encode any bytes: the first chooses a pre-tokenizer, SentencePiece, or that
 * the rest is a model file, or rules and symbols to merge.  Output of byte-level BPE decodes to
 * the same bytes, twice; merging, in windows and at once, equals the definition. */
#include "base/memory.h"
#include "tokenizer/chat.h"
#include "tokenizer/infill.h"
#include "tokenizer/merger.h"

#include "../unit/merge_slowly.h"
#include "../unit/vocab_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pres[] = {"gpt-2",        "qwen2",       "llama-bpe", "gpt-4o",
                                   "tekken",       "starcoder",   "falcon",    "deepseek-coder",
                                   "deepseek-llm", "deepseek-v3", "qwen35",    "default"};
enum { N_PRES = ARRAY_LEN(pres), PIECES = N_PRES, FILES, MERGES, MODES };

static const char *const words[] = {"a", "b", "ab", "c", " ", " ", "  ", "  ", "\n", "\n",
                                    "e", "r", "er", " ", "1", "2", "i",  "f",  "\xC3", "\xA9"};
static const char *const control[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};

static tokenizer *open_pieces(void)
{
    static const char *const texts[] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a", "b", "ab",
                                        "\xE2\x96\x81" "a", "\xC3\xA9" "b", "  ", "ba", "bab"};
    enum { N = ARRAY_LEN(texts) };
    vocab_file v;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("llama"));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, N);
    for (int i = 0; i < N; i++) vocab_put_view(&v, view_of(texts[i]));
    vocab_array(&v, "tokenizer.ggml.scores", GGUF_INT32, N);
    for (int i = 0; i < N; i++) vocab_put_u32(&v, (uint32_t)(i % 5));
    vocab_array(&v, "tokenizer.ggml.token_type", GGUF_INT32, N);
    for (int i = 0; i < N; i++) vocab_put_u32(&v, i == 0 ? 2 : i < 3 ? 3 : i == 9 ? 4 : 1);
    CHECK(!vocab_tokenizer(&v, &t, NULL));
    vocab_close(&v);
    return t;
}

static tokenizer *open_mode(int mode)
{
    if (mode == PIECES) return open_pieces();
    vocab_file v;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, pres[mode], words, ARRAY_LEN(words) / 2, control, 3);
    CHECK(!vocab_tokenizer(&v, &t, NULL));
    vocab_close(&v);
    return t;
}

static void encode(const tokenizer *t, view text, bool special, bool whole)
{
    size_t n = 0, again = 0, at = 0, len, cap = 2 * text.len + 8;
    int32_t *ids = memory_alloc(cap * sizeof *ids), *other = memory_alloc(cap * sizeof *ids);
    CHECK(ids && other);
    int status = tokenizer_encode(t, text, special, false, ids, cap, &n, NULL);
    if (status == CERIUM_OK) {
        CHECK(!tokenizer_encode(t, text, special, false, other, n, &again, NULL) && again == n);
        CHECK(memcmp(ids, other, n * sizeof *ids) == 0);
        for (size_t i = 0; i < n; i++) {
            const char *piece = tokenizer_bytes(t, ids[i], &len);
            CHECK(piece || !len);
            if (!whole) continue;
            CHECK(at + len <= text.len && memcmp(piece, text.ptr + at, len) == 0);
            CHECK(special || !tokenizer_is_control(t, ids[i]));
            at += len;
        }
        CHECK(!whole || at == text.len);
    }
    memory_free(ids);
    memory_free(other);
}

static void open_file(view file)
{
    gguf_file *model = NULL;
    tokenizer *t = NULL;
    if (gguf_open_bytes(&model, file, "fuzz", NULL)) return;
    int status = tokenizer_open(&t, model, NULL);
    gguf_close(&model);
    if (status) return;
    size_t n = 0;
    encode(t, VIEW("hello <s> w\xC3\xA9rld\n\t 123 \xFF"), true, false);
    encode(t, VIEW("hello <s> w\xC3\xA9rld\n\t 123 \xFF"), false, false);
    chat_form form = chat_detect(t);
    cerium_message message = {.role = "user", .content = "hi"};
    cerium_chat chat = {.messages = &message, .n_messages = 1};
    int status_chat = chat_render(t, &form, &chat, NULL, 0, &n, NULL);
    infill_form fim = infill_detect(t);
    cerium_infill infill = {.prefix = "a", .prefix_len = 1, .path = "b"};
    int status_infill = infill_render(t, &fim, &infill, NULL, 0, &n, NULL);
    CHECK(status_chat <= 0 && status_infill <= 0);
    tokenizer_close(&t);
}

/* A window, the number of rules, the rules (left, right, rank, result), the symbols. */
static void merge(view text)
{
    enum { SYMBOLS = 16, RULES_MAX = 64, MAX = 600 };
    if (text.len < 2) return;
    const uint8_t *data = (const uint8_t *)text.ptr, *end = data + text.len;
    size_t window = 2 + data[0], n_rules = data[1] % RULES_MAX, n = 0;
    merge_map pairs;
    merger m;
    CHECK(!merge_map_open(&pairs, RULES_MAX));
    for (data += 2; n_rules-- && end - data >= 4; data += 4)
        merge_map_add(&pairs, data[0] % SYMBOLS, data[1] % SYMBOLS, data[2], data[3] % SYMBOLS);
    merger_open(&m, &pairs);
    m.window = window;
    CHECK(!merger_reserve(&m, MAX));
    int32_t want[MAX];
    for (; n < MAX && data < end; n++) want[n] = m.ids[n] = *data++ % SYMBOLS;
    m.n = n;
    size_t n_want = merge_slowly(want, n, &pairs);
    CHECK(!merger_run(&m) && m.n_merged == n_want);
    CHECK(memcmp(m.merged, want, n_want * sizeof *want) == 0);
    merger_close(&m);
    merge_map_close(&pairs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tokenizer *opened[MODES];
    if (size < 1) return 0;
    int mode = data[0] % MODES;
    view text = {(const char *)data + 1, size - 1};
    if (mode == FILES) {
        open_file(text);
        return 0;
    }
    if (mode == MERGES) {
        merge(text);
        return 0;
    }
    if (!opened[mode]) opened[mode] = open_mode(mode);
    encode(opened[mode], text, false, mode != PIECES);
    encode(opened[mode], text, true, mode != PIECES);
    return 0;
}
