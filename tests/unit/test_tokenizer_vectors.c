/* test_tokenizer_vectors.c - real vocabularies against the ids that their own tokenizers give:
 * llama.cpp's pairs, Qwen2.5 from vocab.json and merges.txt, and tiktoken's encodings.  The files
 * are not part of the project; without them there is nothing to compare. */
#include "base/memory.h"
#include "tokenizer/tokenizer.h"

#include "unit.h"
#include "vocab_file.h"

#define DATA "../shared/data/vocabs/"

/* ---- files ---- */

static view read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return (view){0};
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = memory_alloc((size_t)size + 1);
    CHECK(text && fread(text, 1, (size_t)size, f) == (size_t)size);
    text[size] = 0;
    fclose(f);
    return (view){text, (size_t)size};
}

static void free_file(view *file)
{
    memory_free((void *)(uintptr_t)file->ptr);
    *file = (view){0};
}

/* The first separator in text, or NULL.  Not memmem(), for which sanitizers check all of text each
 * time: a vocabulary cut into its lines so takes minutes. */
static const char *find(view text, const char *separator)
{
    const char *at;
    while (text.len && (at = memchr(text.ptr, *separator, text.len))) {
        text = (view){at, text.len - (size_t)(at - text.ptr)};
        if (view_starts(text, view_of(separator))) return at;
        text = (view){at + 1, text.len - 1};
    }
    return NULL;
}

/* Cut text at separator: returns what is before it and moves text after it. */
static view cut(view *text, const char *separator)
{
    const char *found = find(*text, separator);
    view part = {text->ptr, found ? (size_t)(found - text->ptr) : text->len};
    size_t used = part.len + (found ? strlen(separator) : 0);
    *text = (view){text->ptr + used, text->len - used};
    return part;
}

/* Numbers separated by anything but digits. */
static size_t read_ids(view line, int32_t *ids, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < line.len;) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9') {
            i++;
            continue;
        }
        int32_t id = 0;
        for (; i < line.len && line.ptr[i] >= '0' && line.ptr[i] <= '9'; i++)
            id = id * 10 + (line.ptr[i] - '0');
        CHECK(n < cap);
        ids[n++] = id;
    }
    return n;
}

/* ---- comparing ---- */

static bool encodes_to(const tokenizer *t, view text, view want_line)
{
    enum { MAX = 20000 };
    static int32_t want[MAX], got[MAX];
    size_t n_want = read_ids(want_line, want, MAX), n = 0, at = 0, len;
    if (tokenizer_encode(t, text, false, false, got, MAX, &n, NULL)) return false;
    if (n != n_want || memcmp(got, want, n * sizeof *got) != 0) return false;
    if (tokenizer_adds_space(t)) return true;
    for (size_t i = 0; i < n; i++) {
        const char *piece = tokenizer_bytes(t, got[i], &len);
        if (at + len > text.len || memcmp(piece, text.ptr + at, len) != 0) return false;
        at += len;
    }
    return at == text.len;
}

static void report(const char *name, int n_same, int n)
{
    printf("  %-18s %d of %d\n", name, n_same, n);
    TEST_CHECK_THAT(n > 0 && n_same == n, "%s: %d of %d", name, n_same, n);
}

static void compare_pairs(const tokenizer *t, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, DATA "llamacpp/ggml-vocab-%s.gguf.inp", name);
    view inputs = read_file(path);
    snprintf(path, sizeof path, DATA "llamacpp/ggml-vocab-%s.gguf.out", name);
    view outputs = read_file(path);
    int n = 0, n_same = 0;
    view in = inputs, out = outputs;
    static const char separator[] = "\n__ggml_vocab_test__\n";
    for (bool more = in.ptr && out.ptr; more;) {
        more = find(in, separator) != NULL;
        view text = cut(&in, separator), ids = cut(&out, "\n");
        bool same = encodes_to(t, text, ids);
        if (!same) printf("  %s, case %d: \"%.*s\"\n", name, n, (int)text.len, text.ptr);
        n_same += same;
        n++;
    }
    report(name, n_same, n);
    free_file(&inputs);
    free_file(&outputs);
}

static void test_llama_cpp(void)
{
    static const char *const names[] = {"deepseek-coder", "deepseek-llm", "falcon", "gpt-2",
                                        "llama-spm",      "mpt",          "phi-3",  "refact",
                                        "starcoder"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[256];
        cerium_error err;
        gguf_file *file = NULL;
        tokenizer *t = NULL;
        snprintf(path, sizeof path, DATA "llamacpp/ggml-vocab-%s.gguf", names[i]);
        int status = gguf_open(&file, path, &err);
        if (!status) status = tokenizer_open(&t, file, &err);
        gguf_close(&file);
        TEST_CHECK_THAT(!status, "%s", err.message);
        if (!status) compare_pairs(t, names[i]);
        tokenizer_close(&t);
    }
}

/* ---- Qwen2.5 ---- */

enum { QWEN_TOKENS = 151643 };

/* Strings of JSON with the escapes that vocab.json has; returns the end of the string. */
static const char *read_json_string(const char *p, char *out, size_t *len)
{
    size_t n = 0;
    for (p++; *p != '"'; p++) {
        if (*p != '\\') {
            out[n++] = *p;
        } else if (*++p == 'u') {
            unsigned code = (unsigned)strtoul((char[]){p[1], p[2], p[3], p[4], 0}, NULL, 16);
            CHECK(code >= 0x80 && code < 0x800);
            out[n++] = (char)(0xC0 | code >> 6);
            out[n++] = (char)(0x80 | (code & 0x3F));
            p += 4;
        } else {
            out[n++] = *p;
        }
    }
    *len = n;
    return p + 1;
}

static void put_qwen_tokens(vocab_file *v, view json)
{
    view *tokens = memory_zalloc(QWEN_TOKENS, sizeof *tokens);
    char *texts = memory_alloc(json.len), *to = texts;
    for (const char *p = strchr(json.ptr, '"'); p; p = strchr(p, '"')) {
        size_t len;
        p = read_json_string(p, to, &len);
        long id = strtol(strchr(p, ':') + 1, NULL, 10);
        CHECK(id >= 0 && id < QWEN_TOKENS);
        tokens[id] = (view){to, len};
        to += len;
    }
    vocab_array(v, "tokenizer.ggml.tokens", GGUF_STRING, QWEN_TOKENS);
    for (int i = 0; i < QWEN_TOKENS; i++) vocab_put_view(v, tokens[i]);
    memory_free(tokens);
    memory_free(texts);
}

static void test_qwen(void)
{
    view json = read_file(DATA "qwen2.5/vocab.json"), lines = read_file(DATA "qwen2.5/merges.txt");
    CHECK(json.ptr && lines.ptr);
    vocab_file v;
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("gpt2"));
    vocab_string(&v, "tokenizer.ggml.pre", VIEW("qwen2"));
    put_qwen_tokens(&v, json);
    size_t n = 0;
    view rest = lines;
    while (rest.len) {
        view line = cut(&rest, "\n");
        n += line.len && !view_starts(line, VIEW("#version"));
    }
    vocab_array(&v, "tokenizer.ggml.merges", GGUF_STRING, n);
    for (rest = lines; rest.len;) {
        view line = cut(&rest, "\n");
        if (line.len && !view_starts(line, VIEW("#version"))) vocab_put_view(&v, line);
    }
    cerium_error err;
    tokenizer *t = NULL;
    TEST_CHECK_THAT(!vocab_tokenizer(&v, &t, &err), "%s", err.message);
    if (t) {
        compare_pairs(t, "qwen2");
        compare_pairs(t, "deepseek-r1-qwen");
    }
    tokenizer_close(&t);
    vocab_close(&v);
    free_file(&json);
    free_file(&lines);
}

/* ---- tiktoken ---- */

enum { RANKS_MAX = 200100, SLOTS = 1 << 19 };

/* The rank file as views of its decoded tokens, and a table from text to rank. */
typedef struct {
    view tokens[RANKS_MAX]; /* by rank; a hole has no text */
    uint32_t slots[SLOTS];  /* rank + 1; 0: free */
    uint32_t n;
    char *texts;
} rank_file;

static uint32_t *rank_slot(rank_file *r, view text)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < text.len; i++) hash = (hash ^ (uint8_t)text.ptr[i]) * 16777619u;
    uint32_t i = (hash ^ hash >> 15) & (SLOTS - 1);
    while (r->slots[i] && !view_equal(r->tokens[r->slots[i] - 1], text)) i = (i + 1) & (SLOTS - 1);
    return &r->slots[i];
}

static size_t decode_base64(view from, char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < from.len && from.ptr[i] != '='; i++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, from.ptr[i]) - digits);
        n_bits += 6;
        if (n_bits >= 8) to[n++] = (char)(bits >> (n_bits -= 8));
    }
    return n;
}

static rank_file *read_ranks(view file)
{
    rank_file *r = memory_zalloc(1, sizeof *r);
    CHECK(r && (r->texts = memory_alloc(file.len)));
    char *to = r->texts;
    while (file.len) {
        view line = cut(&file, "\n"), number = line;
        if (!line.len) continue;
        view code = cut(&number, " ");
        uint64_t rank;
        CHECK(parse_u64(number, &rank) && rank < RANKS_MAX);
        view token = {to, decode_base64(code, to)};
        to += token.len;
        r->tokens[rank] = token;
        *rank_slot(r, token) = (uint32_t)rank + 1;
        if (rank >= r->n) r->n = (uint32_t)rank + 1;
    }
    return r;
}

/* Where the two halves of a token meet: merge its bytes by rank, as long as the rank is below its
 * own, and two parts are left.  0 for a single byte. */
static size_t find_seam(rank_file *r, uint32_t rank)
{
    view token = r->tokens[rank];
    size_t ends[256], n = token.len; /* where each part ends */
    CHECK(n <= ARRAY_LEN(ends));
    for (size_t i = 0; i < n; i++) ends[i] = i + 1;
    while (n > 2) {
        uint32_t best = rank;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t from = i ? ends[i - 1] : 0;
            uint32_t found = *rank_slot(r, (view){token.ptr + from, ends[i + 1] - from});
            if (found && found - 1 < best) best = found - 1, at = i;
        }
        if (best == rank) return 0;
        memmove(ends + at, ends + at + 1, (n - at - 1) * sizeof *ends);
        n--;
    }
    return n == 2 ? ends[0] : 0;
}

static void put_rank_merges(vocab_file *v, rank_file *r)
{
    uint64_t n = 0;
    uint16_t *seams = memory_zalloc(r->n, sizeof *seams);
    CHECK(seams);
    for (uint32_t i = 0; i < r->n; i++)
        if (r->tokens[i].len > 1) n += (seams[i] = (uint16_t)find_seam(r, i)) != 0;
    vocab_array(v, "tokenizer.ggml.merges", GGUF_STRING, n);
    for (uint32_t i = 0; i < r->n; i++) {
        if (!seams[i]) continue;
        char line[1024];
        size_t len = 0;
        for (size_t k = 0; k < r->tokens[i].len; k++) {
            if (k == seams[i]) line[len++] = ' ';
            len += vocab_alphabet((uint8_t)r->tokens[i].ptr[k], line + len);
        }
        vocab_put_view(v, (view){line, len});
    }
    memory_free(seams);
}

static int open_ranks(tokenizer **t, const char *name, const char *pre, cerium_error *err)
{
    char path[256];
    snprintf(path, sizeof path, DATA "tiktoken/%s.tiktoken", name);
    view file = read_file(path);
    CHECK(file.ptr);
    rank_file *r = read_ranks(file);
    vocab_file v;
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("gpt2"));
    vocab_string(&v, "tokenizer.ggml.pre", view_of(pre));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, r->n);
    for (uint32_t i = 0; i < r->n; i++) vocab_put_alphabet(&v, r->tokens[i]);
    put_rank_merges(&v, r);
    int status = vocab_tokenizer(&v, t, err);
    vocab_close(&v);
    memory_free(r->texts);
    memory_free(r);
    free_file(&file);
    return status;
}

/* "EncodingName: X\nSample: TEXT\nEncoded: [IDS]\n\n" */
static void compare_plans(const tokenizer *t, view plans, const char *name)
{
    int n = 0, n_same = 0;
    cut(&plans, "EncodingName: ");
    while (plans.len) {
        view plan = cut(&plans, "EncodingName: ");
        view encoding = cut(&plan, "\n");
        cut(&plan, "Sample: ");
        view sample = cut(&plan, "\nEncoded: ["), ids = cut(&plan, "]");
        if (encoding.len && encoding.ptr[encoding.len - 1] == '\r') encoding.len--;
        if (sample.len && sample.ptr[sample.len - 1] == '\r') sample.len--;
        if (!view_equal(encoding, view_of(name))) continue;
        n_same += encodes_to(t, sample, ids);
        n++;
    }
    report(name, n_same, n);
}

static void test_tiktoken(void)
{
    static const struct {
        const char *file, *pre, *encodings[2], *pairs[2];
    } all[] = {
        {"r50k_base", "gpt-2", {"r50k_base"}, {NULL}},
        {"p50k_base", "gpt-2", {"p50k_base", "p50k_edit"}, {NULL}},
        {"cl100k_base", "dbrx", {"cl100k_base"}, {NULL}},
        {"o200k_base", "gpt-4o", {"o200k_base"}, {"gpt-4o"}},
    };
    view plans = read_file(DATA "tests/gpt-tokenizer/TestPlans.txt");
    CHECK(plans.ptr);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        cerium_error err;
        tokenizer *t = NULL;
        TEST_CHECK_THAT(!open_ranks(&t, all[i].file, all[i].pre, &err), "%s", err.message);
        for (int k = 0; t && k < 2; k++) {
            if (all[i].encodings[k]) compare_plans(t, plans, all[i].encodings[k]);
            if (all[i].pairs[k]) compare_pairs(t, all[i].pairs[k]);
        }
        tokenizer_close(&t);
    }
    free_file(&plans);
}

int main(void)
{
    view there = read_file(DATA "README.md");
    if (!there.ptr) {
        printf("skipped: vectors of public vocabularies: there is no ../shared/data\n");
        return unit_report("tokenizer_vectors");
    }
    free_file(&there);
    TEST_RUN(test_llama_cpp);
    TEST_RUN(test_qwen);
    TEST_RUN(test_tiktoken);
    return unit_report("tokenizer_vectors");
}
