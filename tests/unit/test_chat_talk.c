/* test_chat_talk.c - promises of every chat form: a continued conversation equals the one
 * in one piece, a sampled turn equals its rendered text, and a reader reads what was rendered. */
#include "base/memory.h"
#include "tokenizer/chat.h"

#include "unit.h"
#include "vocab_file.h"

enum { TOKENS_MAX = 8192 };

/* ---- a vocabulary with the tokens of every form ---- */

static const char *const control[] = {
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|python_tag|>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "<|EOT|>", "<|endoftext|>", "<|start|>", "<|message|>",
    "<|end|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"};
/* Tokens across the places where timelines might meet. */
static const char *const halves[] = {"\n", "\n", ".", "\n", ">", "\n", "}", "\n", ".", "#"};

static tokenizer *open_vocabulary(void)
{
    vocab_file v;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, "qwen2", halves, ARRAY_LEN(halves) / 2, control, ARRAY_LEN(control));
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", 256 + ARRAY_LEN(halves) / 2 + 1);
    CHECK(!vocab_tokenizer(&v, &t, NULL));
    vocab_close(&v);
    return t;
}

#define KIND_NAME(symbol, name) name,
static const char *const names[CHAT_KINDS] = {CHAT_KIND_MAP(KIND_NAME)};

static chat_form form_of(int kind)
{
    return (chat_form){.kind = (chat_kind)kind, .name = names[kind],
                       .default_system = kind == CHAT_CHATML ? VIEW("Default.") : VIEW("")};
}

static size_t render(const tokenizer *t, int kind, const cerium_chat *chat, int32_t *tokens)
{
    chat_form form = form_of(kind);
    cerium_error err = {0};
    size_t n = 0;
    int status = chat_render(t, &form, chat, tokens, TOKENS_MAX, &n, &err);
    TEST_CHECK_THAT(status == CERIUM_OK, "%s: %s", names[kind], err.message);
    return n;
}

static char *decode(const tokenizer *t, const int32_t *tokens, size_t n, bool ends)
{
    bytes out = {.max = SIZE_MAX};
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *text = tokenizer_bytes(t, tokens[i], &len);
        if (ends || !tokenizer_is_end(t, tokens[i])) CHECK(!bytes_append(&out, text, len));
    }
    CHECK(!bytes_append(&out, "", 1));
    return out.ptr;
}

static void check_same(const tokenizer *t, const char *what, int kind, size_t at,
                       const int32_t *got, size_t n, const int32_t *want, size_t n_want)
{
    if (n == n_want && memcmp(got, want, n * sizeof *got) == 0) return;
    char *a = decode(t, got, n, true), *b = decode(t, want, n_want, true);
    TEST_CHECK_THAT(false, "%s of %s at %zu\n want %s\n got  %s", what, names[kind], at, b, a);
    memory_free(a);
    memory_free(b);
}

/* ---- continuing ---- */

static const cerium_tool tools[] = {
    {"exec", "Run it.", "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"},"
                        "\"n\":{\"type\":\"integer\"},\"ok\":{\"type\":\"boolean\"},"
                        "\"o\":{\"type\":\"object\"}}}"},
    {"patch", NULL, NULL},
};

#define EXEC_ARGUMENTS                                                                             \
    "{\"cmd\": \"echo \\\"<tool_call>\\\"\\n[ARGS]\", \"n\": -1, \"ok\": true, \"o\": "            \
    "{\"a\": [1.5, null]}}"
#define PATCH_TEXT "*** Begin\n+\"x\\n\"\n"

static const cerium_message turns[] = {
    {.role = "system", .content = "Be brief."},
    {.role = "developer", .content = "\nVery."},
    {.role = "user", .content = "One."},
    {.role = "user", .content = "\nTwo?\n"},
    {.role = "assistant", .content = "Look."},
    {.role = "call", .content = EXEC_ARGUMENTS, .name = "exec", .call_id = "call_1"},
    {.role = "call", .content = PATCH_TEXT, .name = "patch", .call_id = "abcDEF012"},
    {.role = "tool", .content = "ok", .name = "exec", .call_id = "call_1"},
    {.role = "tool", .content = "not ok\n", .call_id = "abcDEF012"},
    {.role = "assistant", .content = "Done.\n"},
    {.role = "developer", .content = "Late."},
    {.role = "user", .content = "#More."},
    {.role = "assistant", .content = "Fine."},
    {.role = "assistant", .content = "#Really."},
    {.role = "user", .content = "."},
    {.role = "call", .content = "", .name = "exec", .call_id = "x"},
    {.role = "tool", .content = "", .name = "nobody"},
    {.role = "developer", .content = "End."},
};
enum { TURNS = ARRAY_LEN(turns) };

static bool is(size_t i, const char *role) { return strcmp(turns[i].role, role) == 0; }
static bool is_system(size_t i) { return is(i, "system") || is(i, "developer"); }
static bool of_assistant(size_t i) { return is(i, "assistant") || is(i, "call"); }

/* Whether a turn may end before said[i]. */
static bool may_split(int kind, size_t i)
{
    bool carries = kind == CHAT_LLAMA2 || (kind >= CHAT_MISTRAL_V0 &&
                                           kind <= CHAT_MISTRAL_V3_TEKKEN);
    bool thinks = kind == CHAT_QWEN35;
    if (i == 0 || i == TURNS) return true;
    if ((of_assistant(i - 1) && of_assistant(i)) || (is(i - 1, "tool") && is(i, "tool")))
        return false;
    if (carries && is_system(i - 1)) return false; /* rendered with the next user message */
    if (thinks && (is(i - 1, "call") || is(i - 1, "tool")))
        for (size_t j = i; j < TURNS; j++)
            if (is(j, "user")) return false; /* a question drops the thoughts before it */
    return true;
}

static void check_split(const tokenizer *t, int kind, size_t i, bool open)
{
    static int32_t whole[TOKENS_MAX], parts[TOKENS_MAX];
    cerium_chat chat = {.messages = turns, .n_messages = TURNS, .tools = tools,
                        .n_tools = ARRAY_LEN(tools), .open = open};
    size_t n_whole = render(t, kind, &chat, whole);
    chat.n_messages = i;
    chat.open = true;
    size_t n = render(t, kind, &chat, parts);
    chat.messages = turns + i;
    chat.n_messages = TURNS - i;
    chat.open = open;
    chat.continues = true;
    chat.after = parts;
    chat.n_after = n;
    n += render(t, kind, &chat, parts + n);
    check_same(t, open ? "open parts" : "parts", kind, i, parts, n, whole, n_whole);
}

static void test_going_on(void)
{
    tokenizer *t = open_vocabulary();
    size_t n = 0;
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        for (size_t i = 0; i <= TURNS; i++) {
            if (!may_split(kind, i)) continue;
            check_split(t, kind, i, true);
            n++;
            /* These have tools, or system messages, with the last user message, if they can. */
            bool moves = kind == CHAT_MISTRAL_V3 || kind == CHAT_MISTRAL_V3_TEKKEN ||
                         kind == CHAT_MISTRAL_V7;
            if (!moves && !(kind == CHAT_QWEN35 && i == TURNS)) check_split(t, kind, i, false);
        }
    }
    TEST_CHECK(n > 150);
    tokenizer_close(&t);
}

/* ---- sampled turns ---- */

/* The tokens of "Fine." after a form's generation prompt, and those that end a turn. */
static const char *sampled_text(int kind)
{
    return kind == CHAT_QWEN3     ? "<think>\n\n</think>\n\nFine."
           : kind == CHAT_QWEN35  ? "\n</think>\n\nFine."
           : kind == CHAT_HARMONY ? "<|channel|>final<|message|>Fine."
           : kind == CHAT_LLAMA2 || kind == CHAT_MISTRAL_V1 || kind == CHAT_MISTRAL_V3 ||
                   kind == CHAT_MISTRAL_V7
               ? " Fine."
               : "Fine.";
}

static const char *end_text(int kind)
{
    switch (kind) {
    case CHAT_NONE: return "";
    case CHAT_CHATML:
    case CHAT_QWEN3:
    case CHAT_QWEN3_CODER:
    case CHAT_QWEN35: return "<|im_end|>";
    case CHAT_HARMONY: return "<|end|>";
    case CHAT_LLAMA3:
    case CHAT_LLAMA31: return "<|eot_id|>";
    case CHAT_DEEPSEEK_CODER: return "\n<|EOT|>";
    case CHAT_STARCODER2: return "<|endoftext|>";
    case CHAT_LLAMA2: return " </s>";
    default: return "</s>";
    }
}

static size_t encode(const tokenizer *t, const char *a, const char *b, int32_t *tokens)
{
    char text[128];
    size_t n;
    snprintf(text, sizeof text, "%s%s", a, b);
    CHECK(!tokenizer_encode(t, view_of(text), true, false, tokens, 64, &n, NULL));
    return n;
}

static void check_sampled(const tokenizer *t, int kind, const char *end)
{
    static int32_t want[TOKENS_MAX], got[TOKENS_MAX], sampled[64];
    cerium_message talk[3] = {{.role = "user", .content = "Hi"},
                              {.role = "assistant", .content = "Fine."},
                              {.role = "user", .content = "Next."}};
    cerium_chat chat = {.messages = talk, .n_messages = 2};
    size_t n_want = render(t, kind, &chat, want), n;
    size_t n_sampled = encode(t, sampled_text(kind), end, sampled);
    talk[1].tokens = sampled;
    talk[1].n_tokens = n_sampled;
    n = render(t, kind, &chat, got);
    char *a = decode(t, got, n, true), *b = decode(t, want, n_want, true);
    TEST_CHECK_THAT(strcmp(a, b) == 0, "%s, end \"%s\"\n want %s\n got  %s", names[kind], end, b,
                    a);
    memory_free(a);
    memory_free(b);
    /* The sampled timeline, continued. */
    chat.n_messages = 3;
    n_want = render(t, kind, &chat, want);
    chat.n_messages = 1;
    n = render(t, kind, &chat, got);
    memcpy(got + n, sampled, n_sampled * sizeof *got);
    n += n_sampled;
    cerium_chat on = {.messages = talk + 2, .n_messages = 1, .continues = true, .after = got,
                      .n_after = n};
    n += render(t, kind, &on, got + n);
    check_same(t, "a sampled turn", kind, strlen(end), got, n, want, n_want);
}

static void test_sampled(void)
{
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        check_sampled(t, kind, "");
        check_sampled(t, kind, end_text(kind));
    }
    tokenizer_close(&t);
}

/* Harmony: an unfinished turn may be a call, or have no message yet. */
static void check_harmony(const tokenizer *t, const char *sampled, const char *want)
{
    int32_t tokens[64], out[256];
    size_t n = encode(t, sampled, "", tokens);
    cerium_message next = {.role = "tool", .content = "5", .name = "exec"};
    cerium_chat chat = {.messages = &next, .n_messages = 1, .continues = true, .after = tokens,
                        .n_after = n, .open = true};
    n = render(t, CHAT_HARMONY, &chat, out);
    char *got = decode(t, out, n, true);
    TEST_CHECK_THAT(strncmp(got, want, strlen(want)) == 0 &&
                        strncmp(got + strlen(want), "<|start|>functions.exec to=", 27) == 0,
                    "%s: %s", sampled, got);
    memory_free(got);
}

static void test_harmony_ends(void)
{
    tokenizer *t = open_vocabulary();
    check_harmony(t, "<|start|>assistant<|channel|>commentary to=functions.exec json<|message|>{}",
                  "<|call|>");
    check_harmony(t, "<|start|>assistant to=functions.exec<|channel|>commentary<|message|>",
                  "<|call|>");
    check_harmony(t, "<|start|>assistant to=x<|message|>a<|call|>", "");
    check_harmony(t, "<|start|>assistant<|channel|>final<|message|> to=x", "<|end|>");
    check_harmony(t, "<|start|>assistant<|channel|>ana", "<|message|><|end|>");
    check_harmony(t, "<|start|>assistant", "<|message|><|end|>");
    /* A <|return|> is never in a prompt. */
    int32_t tokens[64], out[256];
    size_t n = encode(t, "<|channel|>final<|message|>Fine.<|return|>", "", tokens);
    cerium_message turn = {.role = "assistant", .tokens = tokens, .n_tokens = n};
    cerium_chat chat = {.messages = &turn, .n_messages = 1, .open = true};
    n = render(t, CHAT_HARMONY, &chat, out);
    TEST_CHECK(out[n - 1] == tokenizer_find(t, VIEW("<|end|>")));
    TEST_CHECK(out[n - 2] == '.');
    tokenizer_close(&t);
}

/* ---- there and back ---- */

typedef struct {
    bytes out;
    int kind;
} transcript;

static int write_part(void *user, const cerium_part *part)
{
    transcript *t = user;
    char mark[] = {"TRCAE"[part->kind], ':'};
    if ((int)part->kind != t->kind) CHECK(!bytes_append(&t->out, mark, 2));
    CHECK(!bytes_append(&t->out, part->text, part->text_len));
    t->kind = (int)part->kind;
    return CERIUM_OK;
}

static void check_reading(const tokenizer *t, int kind)
{
    static int32_t tokens[TOKENS_MAX];
    const char *want = "T:Look.C:execA:" EXEC_ARGUMENTS "E:C:patchA:" PATCH_TEXT "E:";
    cerium_chat chat = {.messages = turns + 3, .n_messages = 1, .tools = tools,
                        .n_tools = ARRAY_LEN(tools)};
    size_t from = render(t, kind, &chat, tokens);
    chat.n_messages = 4;
    chat.open = true;
    size_t n = render(t, kind, &chat, tokens);
    char *text = decode(t, tokens + from, n - from, false);
    if (kind == CHAT_LLAMA2) text[strlen(text) - 1] = 0; /* the space before the end */
    transcript out = {.out = {.max = SIZE_MAX}, .kind = -1};
    cerium_reader *r = NULL;
    CHECK(!cerium_reader_open(&r, names[kind], tools, ARRAY_LEN(tools), NULL));
    CHECK(!cerium_reader_feed(r, text, strlen(text), write_part, &out));
    CHECK(!cerium_reader_end(r, true, write_part, &out));
    cerium_reader_close(&r);
    CHECK(!bytes_append(&out.out, "", 1));
    const char *got = strstr(out.out.ptr, "T:");
    TEST_CHECK_THAT(got && strcmp(got, want) == 0, "%s: %s\n want %s\n got  %s", names[kind], text,
                    want, out.out.ptr);
    memory_free(text);
    bytes_free(&out.out);
}

static void test_reading(void)
{
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) check_reading(t, kind);
    tokenizer_close(&t);
}

/* ---- refusals ---- */

static void check_refused(const tokenizer *t, const cerium_chat *chat, int want, const char *why)
{
    chat_form form = form_of(CHAT_CHATML);
    cerium_error err = {0};
    size_t n = 7;
    int status = chat_render(t, &form, chat, NULL, 0, &n, &err);
    TEST_CHECK_THAT(status == want && strstr(err.message, why) && n == 7, "%d %s", status,
                    err.message);
}

static void test_refused(void)
{
    tokenizer *t = open_vocabulary();
    const int32_t far = 100000;
    const cerium_message bad[] = {
        {.role = "call", .content = "{}"},
        {.role = "user"},
        {.role = "assistant", .tokens = &far, .n_tokens = 1},
        {.role = "user", .tokens = &far, .n_tokens = 0},
    };
    const char *const why[] = {"without the name", "no content", "vocabulary", "may be tokens"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_refused(t, &(cerium_chat){.messages = &bad[i], .n_messages = 1}, CERIUM_ERR_ARGUMENT,
                      why[i]);
    const cerium_tool broken = {"x", NULL, "{"}, nameless = {NULL, NULL, NULL};
    check_refused(t, &(cerium_chat){.tools = &broken, .n_tools = 1}, CERIUM_ERR_FORMAT, "not JSON");
    check_refused(t, &(cerium_chat){.tools = &nameless, .n_tools = 1}, CERIUM_ERR_ARGUMENT,
                  "no name");
    tokenizer_close(&t);
}

/* Every allocation fails in turn. */
static void check_memory(const tokenizer *t, int kind, bool continues)
{
    static int32_t tokens[TOKENS_MAX], after[TOKENS_MAX];
    chat_form form = form_of(kind);
    cerium_chat chat = {.messages = turns, .n_messages = TURNS, .tools = tools,
                        .n_tools = ARRAY_LEN(tools)};
    size_t n_after = render(t, kind, &chat, after);
    if (continues) chat = (cerium_chat){.messages = turns + 5, .n_messages = TURNS - 5,
                                        .continues = true, .after = after, .n_after = n_after};
    int status = CERIUM_ERR_MEMORY;
    long live = memory_live(), n = 0;
    for (; status && n < 2000; n++) {
        size_t n_tokens = 0;
        cerium_error err;
        memory_fail_at(n);
        status = chat_render(t, &form, &chat, tokens, TOKENS_MAX, &n_tokens, &err);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK_THAT(status == CERIUM_OK && n > 3, "%s: %ld", names[kind], n);
}

static void test_out_of_memory(void)
{
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        check_memory(t, kind, false);
        check_memory(t, kind, true);
    }
    tokenizer_close(&t);
}

/* ---- heads ---- */

/* Whether its system message has a turn of its own. */
static bool has_head(int kind)
{
    return kind != CHAT_LLAMA2 && (kind < CHAT_MISTRAL_V0 || kind > CHAT_MISTRAL_V3_TEKKEN);
}

/* One head in the place of another gives the conversation that has it from the beginning. */
static void test_heads(void)
{
    static const char *const systems[] = {"Be brief.", "Be long.\n\nAnd thorough."};
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++)
        for (size_t n_tools = 0; n_tools <= ARRAY_LEN(tools); n_tools += ARRAY_LEN(tools)) {
            int32_t tokens[2][TOKENS_MAX], joined[TOKENS_MAX];
            size_t n[2], head[2] = {0};
            for (int i = 0; i < 2; i++) {
                cerium_message messages[TURNS];
                memcpy(messages, turns, sizeof turns);
                messages[0].content = systems[i];
                cerium_chat chat = {.messages = messages, .n_messages = TURNS, .tools = tools,
                                    .n_tools = n_tools, .n_head = &head[i]};
                n[i] = render(t, kind, &chat, tokens[i]);
            }
            TEST_CHECK_THAT((head[0] != CERIUM_NO_HEAD) == has_head(kind), "%s", names[kind]);
            if (head[0] == CERIUM_NO_HEAD) continue;
            TEST_CHECK(head[0] > 0 && head[0] < n[0] && head[1] < n[1] && head[0] != head[1]);
            size_t tail = n[0] - head[0];
            memcpy(joined, tokens[1], head[1] * sizeof *joined);
            memcpy(joined + head[1], tokens[0] + head[0], tail * sizeof *joined);
            check_same(t, "another head", kind, n_tools, joined, head[1] + tail, tokens[1], n[1]);
        }
    tokenizer_close(&t);
}

int main(void)
{
    TEST_RUN(test_going_on);
    TEST_RUN(test_sampled);
    TEST_RUN(test_harmony_ends);
    TEST_RUN(test_heads);
    TEST_RUN(test_reading);
    TEST_RUN(test_refused);
    TEST_RUN(test_out_of_memory);
    return unit_report("chat_talk");
}
