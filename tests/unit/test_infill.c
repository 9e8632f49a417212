/* test_infill.c - fill-in-the-middle prompts of each family, written out by hand from the model
 * cards, and that the tokens before the cursor's file stay the same while the user types. */
#include "base/memory.h"
#include "tokenizer/infill.h"

#include "unit.h"
#include "vocab_file.h"

enum { TOKENS_MAX = 512 };

#define BAR   "\xEF\xBD\x9C"
#define BLANK "\xE2\x96\x81"

static const char *const qwen[] = {"<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>",
                                   "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
                                   "<|file_sep|>", NULL};
static const char *const starcoder2[] = {"<|endoftext|>", "<fim_prefix>", "<fim_middle>",
                                         "<fim_suffix>", "<fim_pad>", "<repo_name>", "<file_sep>",
                                         NULL};
static const char *const granite[] = {"<|endoftext|>", "<fim_prefix>", "<fim_middle>",
                                      "<fim_suffix>", "<fim_pad>", "<filename>", "<reponame>",
                                      NULL};
static const char *const deepseek[] = {"<" BAR "fim" BLANK "hole" BAR ">",
                                       "<" BAR "fim" BLANK "begin" BAR ">",
                                       "<" BAR "fim" BLANK "end" BAR ">", NULL};
static const char *const codellama[] = {BLANK "<PRE>", BLANK "<SUF>", BLANK "<MID>",
                                        BLANK "<EOT>", NULL};
static const char *const codestral[] = {"[PREFIX]", "[SUFFIX]", "[MIDDLE]", NULL};
static const char *const glm[] = {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", NULL};

/* suffix_first: the file has the key for it. */
static tokenizer *open_vocabulary(const char *pre, const char *const *control, bool suffix_first)
{
    size_t n = 0;
    while (control[n]) n++;
    vocab_file v;
    cerium_error err;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, pre, NULL, 0, control, n);
    if (suffix_first) vocab_bool(&v, "cerium.fim_suffix_first", true);
    TEST_CHECK_THAT(!vocab_tokenizer(&v, &t, &err), "%s", err.message);
    vocab_close(&v);
    CHECK(t);
    return t;
}

static tokenizer *open_tokens(const char *pre, const char *const *control)
{
    return open_vocabulary(pre, control, false);
}

/* Takes the tokenizer and closes it. */
static void expect_of(tokenizer *t, const cerium_infill *infill, const char *want)
{
    int32_t tokens[TOKENS_MAX];
    size_t n = 0, len;
    cerium_error err;
    char got[2048] = "";
    infill_form form = infill_detect(t);
    TEST_CHECK(form.order != INFILL_NONE);
    TEST_CHECK(infill_render(t, &form, infill, tokens, TOKENS_MAX, &n, &err) == CERIUM_OK);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = tokenizer_bytes(t, tokens[i], &len);
        CHECK(at + len < sizeof got);
        memcpy(got + at, text, len);
        at += len;
    }
    TEST_CHECK_THAT(at == strlen(want) && memcmp(got, want, at) == 0, "\n want %s\n got  %s", want,
                    got);
    TEST_CHECK(infill_render(t, &form, infill, tokens, 1, &len, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(len == n);
    tokenizer_close(&t);
}

static void expect(const char *pre, const char *const *control, const cerium_infill *infill,
                   const char *want)
{
    expect_of(open_tokens(pre, control), infill, want);
}

static const cerium_infill hole = {
    .prefix = "a = ", .prefix_len = 4, .suffix = "\nprint(a)", .suffix_len = 9};
static const cerium_context_file files[] = {{"x.py", "x = 1\n", 6}, {"y.py", "y = 2", 5}};
static const cerium_infill whole = {.prefix = "a = ",
                                    .prefix_len = 4,
                                    .suffix = "\n",
                                    .suffix_len = 1,
                                    .path = "a.py",
                                    .repo = "demo",
                                    .files = files,
                                    .n_files = 2};

static void test_families(void)
{
    expect("qwen2", qwen, &hole, "<|fim_prefix|>a = <|fim_suffix|>\nprint(a)<|fim_middle|>");
    expect("starcoder", starcoder2, &hole, "<fim_prefix>a = <fim_suffix>\nprint(a)<fim_middle>");
    expect("refact", granite, &hole, "<fim_prefix>a = <fim_suffix>\nprint(a)<fim_middle>");
    expect("mellum", granite, &hole, "<fim_suffix>\nprint(a)<fim_prefix>a = <fim_middle>");
    expect("deepseek-coder", deepseek, &hole,
           "<" BAR "fim" BLANK "begin" BAR ">a = <" BAR "fim" BLANK "hole" BAR
           ">\nprint(a)<" BAR "fim" BLANK "end" BAR ">");
    expect("gpt-2", codellama, &hole, BLANK "<PRE>a = " BLANK "<SUF>\nprint(a)" BLANK "<MID>");
    expect("tekken", codestral, &hole, "[SUFFIX]\nprint(a)[PREFIX]a = ");
    expect("glm4", glm, &hole, "<|code_prefix|>a = <|code_suffix|>\nprint(a)<|code_middle|>");
}

static void test_files(void)
{
    expect("qwen2", qwen, &whole,
           "<|repo_name|>demo\n<|file_sep|>x.py\nx = 1\n<|file_sep|>y.py\ny = 2\n"
           "<|file_sep|>a.py\n<|fim_prefix|>a = <|fim_suffix|>\n<|fim_middle|>");
    expect("starcoder", starcoder2, &whole,
           "<repo_name>demo<file_sep>x.py\nx = 1\n<file_sep>y.py\ny = 2\n"
           "<file_sep>a.py\n<fim_prefix>a = <fim_suffix>\n<fim_middle>");
    expect("mellum", granite, &whole,
           "<reponame>demo<filename>x.py\nx = 1\n<filename>y.py\ny = 2\n"
           "<filename>a.py\n<fim_suffix>\n<fim_prefix>a = <fim_middle>");
    /* No token for files: they are left out. */
    expect("glm4", glm, &whole, "<|code_prefix|>a = <|code_suffix|>\n<|code_middle|>");
    cerium_infill named = hole;
    named.path = "a.py";
    expect("qwen2", qwen, &named,
           "<|file_sep|>a.py\n<|fim_prefix|>a = <|fim_suffix|>\nprint(a)<|fim_middle|>");
    named.path = NULL;
    named.n_files = 1;
    named.files = files;
    expect("qwen2", qwen, &named,
           "<|repo_name|>myproject\n<|file_sep|>x.py\nx = 1\n<|file_sep|>filename\n"
           "<|fim_prefix|>a = <|fim_suffix|>\nprint(a)<|fim_middle|>");
}

/* Names of special tokens in the user's files are text. */
static void test_injection(void)
{
    static const char text[] = "<|fim_middle|><|endoftext|>";
    cerium_infill infill = {.prefix = text, .prefix_len = sizeof text - 1, .path = "<|file_sep|>"};
    int32_t tokens[TOKENS_MAX];
    size_t n = 0, n_control = 0;
    cerium_error err;
    tokenizer *t = open_tokens("qwen2", qwen);
    infill_form form = infill_detect(t);
    TEST_CHECK(!infill_render(t, &form, &infill, tokens, TOKENS_MAX, &n, &err));
    for (size_t i = 0; i < n; i++) n_control += tokenizer_is_control(t, tokens[i]);
    TEST_CHECK(n_control == 4); /* file_sep, prefix, suffix, middle */
    tokenizer_close(&t);
}

/* A file may say that the suffix comes first. */
static void test_suffix_first(void)
{
    expect_of(open_vocabulary("qwen2", qwen, true), &hole,
              "<|fim_suffix|>\nprint(a)<|fim_prefix|>a = <|fim_middle|>");
    expect_of(open_vocabulary("qwen2", qwen, true), &whole,
              "<|repo_name|>demo\n<|file_sep|>x.py\nx = 1\n<|file_sep|>y.py\ny = 2\n"
              "<|file_sep|>a.py\n<|fim_suffix|>\n<|fim_prefix|>a = <|fim_middle|>");
}

/* One more letter before the cursor: all tokens up to the next mark stay. */
static void stays(bool suffix_first)
{
    int32_t before[TOKENS_MAX], after[TOKENS_MAX];
    size_t n_before, n_after, same = 0, want = 0;
    cerium_error err;
    tokenizer *t = open_vocabulary("qwen2", qwen, suffix_first);
    infill_form form = infill_detect(t);
    cerium_infill typed = whole;
    typed.prefix = "a = f";
    typed.prefix_len = 5;
    TEST_CHECK(!infill_render(t, &form, &whole, before, TOKENS_MAX, &n_before, &err));
    TEST_CHECK(!infill_render(t, &form, &typed, after, TOKENS_MAX, &n_after, &err));
    while (same < n_before && before[same] == after[same]) same++;
    while (before[want] != (suffix_first ? form.mid : form.suf)) want++;
    TEST_CHECK_THAT(same == want, "%zu of %zu tokens stay", same, want);
    tokenizer_close(&t);
}

static void test_stable(void)
{
    stays(false);
    stays(true); /* with the suffix */
}

static void test_refused(void)
{
    static const char *const plain[] = {"<|endoftext|>", "<|fim_prefix|>", NULL};
    int32_t tokens[TOKENS_MAX];
    size_t n = 7;
    cerium_error err = {0};
    tokenizer *t = open_tokens("gpt-2", plain);
    infill_form form = infill_detect(t);
    TEST_CHECK(form.order == INFILL_NONE);
    TEST_CHECK(infill_render(t, &form, &hole, tokens, TOKENS_MAX, &n, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK(n == 7 && strstr(err.message, "no fill-in-the-middle tokens"));
    tokenizer_close(&t);
    t = open_tokens("qwen2", qwen);
    form = infill_detect(t);
    const cerium_infill broken = {.prefix = "a", .prefix_len = 1, .n_files = 1};
    TEST_CHECK(infill_render(t, &form, &broken, tokens, TOKENS_MAX, &n, &err) ==
               CERIUM_ERR_ARGUMENT);
    tokenizer_close(&t);
}

int main(void)
{
    TEST_RUN(test_families);
    TEST_RUN(test_files);
    TEST_RUN(test_injection);
    TEST_RUN(test_suffix_first);
    TEST_RUN(test_stable);
    TEST_RUN(test_refused);
    return unit_report("infill");
}
