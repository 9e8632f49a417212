/* test_guide.c - grammars of answers with tools, in every chat form: they accept what the
 * renderer writes for the same calls, and no invalid arguments. */
#include "protocol/tool_guide.h"
#include "sampling/matcher.h"
#include "tokenizer/chat.h"

#include "unit.h"
#include "vocab_file.h"

enum { TOKENS_MAX = 8192 };

static const char *const control[] = {
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|python_tag|>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "<|EOT|>", "<|endoftext|>", "<|start|>", "<|message|>", "<|end|>",
    "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"};

#define KIND_NAME(symbol, name) name,
static const char *const names[CHAT_KINDS] = {CHAT_KIND_MAP(KIND_NAME)};

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"},\"n\":{\"type\":"          \
    "\"integer\"},\"ok\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},\"mode\":{\"enum\":["  \
    "\"fast\",\"safe\"]},\"at\":{\"$ref\":\"#/$defs/at\"}},\"$defs\":{\"at\":{\"type\":"           \
    "\"array\",\"items\":{\"type\":\"integer\"}}},\"required\":[\"cmd\"],"                         \
    "\"additionalProperties\":false}"
#define LARK "start: \\\"*** Begin\\\" LF /\\\\+(.*)/ LF\\n%import common.LF\\n"
#define REQUEST(rest)                                                                              \
    "{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"exec\",\"strict\":true,"        \
    "\"parameters\":" SCHEMA "},{\"type\":\"custom\",\"name\":\"patch\",\"format\":{\"type\":"     \
    "\"grammar\",\"syntax\":\"lark\",\"definition\":\"" LARK "\"}},{\"type\":\"custom\","          \
    "\"name\":\"say\"},{\"type\":\"function\",\"name\":\"any\",\"parameters\":{}}]" rest "}"

/* ---- asking a grammar ---- */

typedef struct {
    grammar *g;
    matcher *w;
} asked;

static asked ask(view text)
{
    asked a = {NULL, NULL};
    cerium_error err = {0};
    int status = grammar_compile(&a.g, CERIUM_GRAMMAR_LARK, text, &err);
    TEST_CHECK_THAT(!status, "%s in\n%.*s", err.message, (int)text.len, text.ptr);
    if (!status) CHECK(!matcher_open(&a.w, a.g, 0, 0, 0, &err));
    return a;
}

static bool takes(const asked *a, view text)
{
    if (!a->w) return false;
    matcher_begin(a->w, 0);
    return matcher_accept(a->w, 0, 0, text) && matcher_is_complete(a->w, 0);
}

static void forget(asked *a)
{
    matcher_close(&a->w);
    grammar_free(&a->g);
}

static protocol_guide guide_of(const char *body, const char *form, protocol_request **r)
{
    const protocol_defaults defaults = {.has_chat_form = true};
    protocol_error error;
    protocol_guide guide;
    int status = protocol_request_parse(r, PROTOCOL_RESPONSES, view_of(body), &defaults, &error);
    TEST_CHECK_THAT(!status, "%s", error.message);
    CHECK(!status && !protocol_guide_make(&guide, *r, form, false));
    return guide;
}

/* Whether a whole answer is accepted. */
static bool allows(const char *rest_of_request, const char *form, const char *output)
{
    protocol_request *r = NULL;
    protocol_guide guide = guide_of(rest_of_request, form, &r);
    asked a = ask(guide.grammar);
    bool is = takes(&a, view_of(output));
    forget(&a);
    protocol_guide_free(&guide);
    protocol_request_free(&r);
    return is;
}

/* ---- output of renderers ---- */

static tokenizer *open_vocabulary(void)
{
    vocab_file v;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, "qwen2", NULL, 0, control, ARRAY_LEN(control));
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", 257);
    CHECK(!vocab_tokenizer(&v, &t, NULL));
    vocab_close(&v);
    return t;
}

/* The sampled part of a turn with these calls, up to a token that ends it: text, and control tokens
 * between marks. */
static bytes render(const tokenizer *t, int kind, const cerium_message *talk, size_t n,
                    const protocol_request *r, bool marks)
{
    static int32_t tokens[TOKENS_MAX];
    static const char mark[] = {(char)GRAMMAR_CONTROL_MARK};
    chat_form form = {.kind = (chat_kind)kind, .name = names[kind]};
    cerium_chat chat = {.messages = talk, .n_messages = 1, .tools = r->tools,
                        .n_tools = r->n_tools};
    size_t from = 0, to = 0;
    bytes out = {.max = SIZE_MAX};
    CHECK(!chat_render(t, &form, &chat, tokens, TOKENS_MAX, &from, NULL));
    chat.n_messages = n;
    chat.open = true;
    CHECK(!chat_render(t, &form, &chat, tokens, TOKENS_MAX, &to, NULL));
    for (size_t i = from; i < to; i++) {
        size_t len;
        const char *text = tokenizer_bytes(t, tokens[i], &len);
        bool is_control = marks && tokenizer_is_control(t, tokens[i]);
        if (tokenizer_is_end(t, tokens[i])) break;
        if (is_control) CHECK(!bytes_append(&out, mark, 1));
        CHECK(!bytes_append(&out, text, len));
        if (is_control) CHECK(!bytes_append(&out, mark, 1));
    }
    while (out.len && strchr(" \n", out.ptr[out.len - 1])) out.len--;
    return out;
}

#define EXEC "{\"cmd\": \"echo \\\"a\\\"\\n</tool>\", \"n\": -1, \"ok\": true, \"o\": "            \
             "{\"a\": [1.5, null]}, \"mode\": \"safe\", \"at\": [1, 2]}"
static const cerium_message talk[] = {
    {.role = "user", .content = "Do it."},
    {.role = "call", .content = EXEC, .name = "exec", .call_id = "abcDEF012"},
    {.role = "call", .content = "*** Begin\n+\"x\\\"\n", .name = "patch", .call_id = "abcDEF013"},
    {.role = "call", .content = "<say> \"it\"\n", .name = "say", .call_id = "abcDEF014"},
    {.role = "call", .content = "{}", .name = "any", .call_id = "abcDEF015"},
};

static void test_whole_answers(void)
{
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        protocol_request *r = NULL;
        protocol_guide guide = guide_of(REQUEST(",\"tool_choice\":\"required\""), names[kind], &r);
        asked a = ask(guide.grammar);
        TEST_CHECK(!guide.n_triggers);
        for (size_t i = 1; i < ARRAY_LEN(talk); i++) {
            cerium_message alone[] = {talk[0], talk[i]};
            bytes output = render(t, kind, alone, 2, r, true);
            TEST_CHECK_THAT(takes(&a, (view){output.ptr, output.len}), "%s: not %.*s in\n%.*s",
                            names[kind], (int)output.len, output.ptr, (int)guide.grammar.len,
                            guide.grammar.ptr);
            TEST_CHECK_THAT(!takes(&a, (view){output.ptr, output.len - 1}), "%s", names[kind]);
            bytes_free(&output);
        }
        bytes all = render(t, kind, talk, ARRAY_LEN(talk), r, true);
        view text = {all.ptr, all.len};
        TEST_CHECK_THAT(takes(&a, text), "%s: %.*s", names[kind], (int)all.len, all.ptr);
        bytes_free(&all);
        forget(&a);
        protocol_guide_free(&guide);
        protocol_request_free(&r);
    }
    tokenizer_close(&t);
}

/* In free text, the part after the mark of a call. */
static void test_triggers(void)
{
    static const char mark[] = {(char)GRAMMAR_CONTROL_MARK, 0};
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        protocol_request *r = NULL;
        protocol_guide guide = guide_of(REQUEST(""), names[kind], &r);
        TEST_CHECK_THAT(guide.n_triggers > 0, "%s", names[kind]);
        asked beginning = {NULL, NULL};
        if (guide.grammar.len) beginning = ask(guide.grammar);
        bytes shown = render(t, kind, talk, 2, r, false);
        bytes output = render(t, kind, talk, 2, r, true);
        bool found = beginning.w && takes(&beginning, (view){output.ptr, output.len});
        CHECK(!bytes_append(&shown, "", 1) && !bytes_append(&output, "", 1));
        for (size_t i = 0; i < guide.n_triggers; i++) {
            asked a = ask(guide.triggers[i].grammar);
            const char *at = strstr(shown.ptr, guide.triggers[i].text);
            /* The rest of the rendered text equals that of the sampled text, except for marks. */
            size_t rest = at ? strlen(at + strlen(guide.triggers[i].text)) : 0, skipped = 0;
            const char *from = output.ptr + output.len - 1;
            while (at && skipped < rest && from > output.ptr) skipped += *--from != mark[0];
            if (at && takes(&a, view_of(from))) found = true;
            TEST_CHECK(!takes(&a, VIEW("")) && !takes(&a, VIEW("x")));
            forget(&a);
        }
        TEST_CHECK_THAT(found, "%s: %s", names[kind], shown.ptr);
        bytes_free(&shown);
        bytes_free(&output);
        forget(&beginning);
        protocol_guide_free(&guide);
        protocol_request_free(&r);
    }
    tokenizer_close(&t);
}

/* ---- refusals ---- */

#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"
#define MUST REQUEST(",\"tool_choice\":\"required\"")

static void test_refused(void)
{
    TEST_CHECK(allows(MUST, "chatml", CALL("exec", "{\"cmd\": \"ls\"}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("nobody", "{\"cmd\": \"ls\"}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("exec", "{}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("exec", "{\"cmd\": 7}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("exec", "{\"cmd\": \"ls\", \"x\": 1}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("exec", "{\"cmd\": \"ls\", \"mode\": \"slow\"}")));
    TEST_CHECK(!allows(MUST, "chatml", "Hi."));
    TEST_CHECK(!allows(MUST, "chatml", CALL("any", "[]")));
    TEST_CHECK(allows(MUST, "chatml", CALL("any", "{\"x\": [1]}")));
    /* A custom tool's grammar, in JSON and in XML. */
    TEST_CHECK(allows(MUST, "chatml", CALL("patch", "{\"input\": \"*** Begin\\n+\\\"x\\n\"}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("patch", "{\"input\": \"*** Begin\\n-x\\n\"}")));
    TEST_CHECK(!allows(MUST, "chatml", CALL("patch", "{\"input\": \"*** Begin\\n+x\"}")));
#define PATCH(text)                                                                                \
    "<tool_call>\n<function=patch>\n<parameter=input>\n" text                                      \
    "\n</parameter>\n</function>\n</tool_call>"
    TEST_CHECK(allows(MUST, "qwen3-coder", PATCH("*** Begin\n+\"x\n")));
    TEST_CHECK(!allows(MUST, "qwen3-coder", PATCH("*** Begin\n-x\n")));
#define XML(parameters) "<tool_call>\n<function=exec>\n" parameters "</function>\n</tool_call>"
#define PARAMETER(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
    TEST_CHECK(allows(MUST, "qwen3-coder", XML(PARAMETER("cmd", "a </parame </para\n<<b"))));
    TEST_CHECK(!allows(MUST, "qwen3-coder", XML("")));
    TEST_CHECK(!allows(MUST, "qwen3-coder", XML(PARAMETER("cmd", "a</parameter>b"))));
    TEST_CHECK(!allows(MUST, "qwen3-coder", XML(PARAMETER("cmd", "a") PARAMETER("n", "b"))));
    TEST_CHECK(allows(MUST, "qwen3-coder", XML(PARAMETER("cmd", "a") PARAMETER("n", "-3")
                                                   PARAMETER("mode", "fast"))));
    TEST_CHECK(!allows(MUST, "qwen3-coder", XML(PARAMETER("cmd", "a") PARAMETER("mode", "x"))));
}

#define MARKS                                                                                      \
    "{\"open\":\"<tool_call>\",\"key\":\"<k>\",\"key_end\":\"</k>\\n<v>\","                        \
    "\"value_end\":\"</v>\",\"end\":\"</tool_call>\"}"
#define SECTION                                                                                    \
    "{\"section\":\"<calls>\",\"section_end\":\"</calls>\","                                       \
    "\"open\":\"<f name=\\\"\",\"name_end\":\"\\\">\",\"key\":\"<k>\",\"key_end\":\"</k>\","       \
    "\"value_end\":\"</v>\",\"end\":\"</f>\"}"
#define ARGUMENT(key, value) "<k>" key "</k>\n<v>" value "</v>\n"

/* As the model's own template writes calls. */
static void test_marks(void)
{
    protocol_request *r = NULL;
    TEST_CHECK(allows(MUST, MARKS, "<tool_call>exec\n" ARGUMENT("cmd", "a < b") "</tool_call>"));
    TEST_CHECK(allows(MUST, MARKS, "<tool_call>exec" ARGUMENT("cmd", "a") ARGUMENT("n", "-3")
                                   ARGUMENT("mode", "fast") "</tool_call>"));
    TEST_CHECK(!allows(MUST, MARKS, "<tool_call>exec\n</tool_call>"));
    TEST_CHECK(!allows(MUST, MARKS, "<tool_call>nobody\n" ARGUMENT("cmd", "a") "</tool_call>"));
    TEST_CHECK(!allows(MUST, MARKS, "<tool_call>exec" ARGUMENT("cmd", "a") ARGUMENT("n", "b")
                                    "</tool_call>"));
    TEST_CHECK(!allows(MUST, MARKS, "<tool_call>exec" ARGUMENT("cmd", "a</v>b") "</tool_call>"));
    TEST_CHECK(allows(MUST, MARKS, "<tool_call>any" ARGUMENT("x", "[1]") "</tool_call>\n"
                                   "<tool_call>any\n</tool_call>"));
    TEST_CHECK(allows(MUST, MARKS, "<think>hm</think>\n<tool_call>patch" ARGUMENT(
                                       "input", "*** Begin\n+\"x\n") "</tool_call>"));
    TEST_CHECK(!allows(MUST, MARKS, "<tool_call>patch" ARGUMENT("input", "*** Begin\n-x\n")
                                    "</tool_call>"));
    TEST_CHECK(allows(MUST, SECTION, "<calls>\n<f name=\"exec\">\n<k>cmd</k>a</v>\n</f>\n"
                                     "<f name=\"any\"></f>"));
    TEST_CHECK(!allows(MUST, SECTION, "<f name=\"any\"></f>"));
    protocol_guide guide = guide_of(REQUEST(""), SECTION, &r);
    TEST_CHECK(guide.n_triggers == 2 && !strcmp(guide.triggers[0].text, "<calls>") &&
               !strcmp(guide.triggers[1].text, "<think>"));
    asked a = ask(guide.triggers[0].grammar);
    TEST_CHECK(takes(&a, VIEW("\n<f name=\"exec\">\n<k>cmd</k>a</v>\n</f>")));
    TEST_CHECK(!takes(&a, VIEW("\n<f name=\"none\">")));
    forget(&a);
    protocol_guide_free(&guide);
    protocol_request_free(&r);
}

#define LISTED                                                                                     \
    "{\"json\":true,\"section\":\"<calls>[\",\"open\":\"{\\\"id\\\": \\\"\\u0001\\\", \\\""        \
    "name\\\": "                                                                                   \
    "\\\"\",\"name_end\":\"\\\", \\\"arguments\\\": \",\"end\":\"}\",\"between\":\", \",\""        \
    "section_end\":"                                                                               \
    "\"]</calls>\"}"
#define BARE                                                                                       \
    "{\"json\":true,\"open\":\"<function=\",\"name_end\":\">\",\"end\":\"</function>\"}"
#define ONE(id, name, arguments)                                                                   \
    "{\"id\": \"" id "\", \"name\": \"" name "\", \"arguments\": " arguments "}"

static void test_probed(void)
{
    protocol_request *r = NULL;
    TEST_CHECK(allows(MUST, LISTED, "<calls>[" ONE("a1", "exec", "{\"cmd\": \"a\"}") ", "
                                    ONE("b", "any", "{}") "]</calls>"));
    TEST_CHECK(allows(MUST, LISTED, "<think>hm</think>\n<calls>[\n    " ONE("0", "any", "{}")
                                    "\n]</calls>"));
    TEST_CHECK(!allows(MUST, LISTED, "<calls>[" ONE("a1", "any", "{}")));
    TEST_CHECK(!allows(MUST, LISTED, "<calls>[" ONE("", "any", "{}") "]</calls>"));
    TEST_CHECK(!allows(MUST, LISTED, "<calls>[" ONE("a", "nobody", "{}") "]</calls>"));
    TEST_CHECK(!allows(MUST, LISTED, "<calls>[" ONE("a", "exec", "{\"n\": 1}") "]</calls>"));
    TEST_CHECK(!allows(MUST, LISTED, "<calls>[" ONE("a", "any", "{}") ONE("b", "any", "{}")
                                     "]</calls>"));
    TEST_CHECK(allows(MUST, BARE, "<function=any>{}</function><function=exec>{\"cmd\": \"\"}"
                                  "</function>"));
    TEST_CHECK(!allows(MUST, BARE, "<function=any></function>"));
    protocol_guide guide = guide_of(REQUEST(""), LISTED, &r);
    TEST_CHECK(guide.n_triggers == 2 && !strcmp(guide.triggers[0].text, "<calls>["));
    asked a = ask(guide.triggers[0].grammar);
    TEST_CHECK(takes(&a, VIEW(ONE("a", "any", "{}") ", " ONE("b", "any", "{}") "]</calls>")));
    TEST_CHECK(!takes(&a, VIEW(ONE("a", "any", "{}"))));
    forget(&a);
    protocol_guide_free(&guide);
    protocol_request_free(&r);
}

/* Values that are not text have a mark of their own before them. */
#define TYPED                                                                                      \
    "{\"open\":\"<f>\",\"key\":\"<k>\",\"key_end\":\"<s>\",\"json_key_end\":\"<j>\",\""            \
    "value_end\":"                                                                                 \
    "\"</v>\",\"end\":\"</f>\"}"

static void test_typed_marks(void)
{
    TEST_CHECK(allows(MUST, TYPED, "<f>exec<k>cmd<s>a</v><k>n<j>3</v><k>ok<j>true</v>"
                                   "<k>mode<s>fast</v></f>"));
    TEST_CHECK(!allows(MUST, TYPED, "<f>exec<k>cmd<j>\"a\"</v></f>"));
    TEST_CHECK(!allows(MUST, TYPED, "<f>exec<k>cmd<s>a</v><k>n<s>3</v></f>"));
}

#define SHAPED                                                                                     \
    REQUEST(",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"strict\":true,"      \
            "\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"       \
            "\"required\":[\"a\"],\"additionalProperties\":false}}}")

/* In every form, with tools and a schema, an answer is a document or a call as the renderer writes
 * it; where answers begin with a blank, documents may. */
static void test_document_or_call(void)
{
    tokenizer *t = open_vocabulary();
    for (int kind = 0; kind < CHAT_KINDS; kind++) {
        protocol_request *r = NULL;
        bool is_harmony = !strcmp(names[kind], "harmony"), thinks = !strcmp(names[kind], "qwen3.5");
        bool has_blank = kind == CHAT_LLAMA2 || kind == CHAT_MISTRAL_V1 ||
                         kind == CHAT_MISTRAL_V3 || kind == CHAT_MISTRAL_V7;
        const char *before = is_harmony ? "\xff<|channel|>\xff" "final" "\xff<|message|>\xff"
                             : thinks   ? "hm\n</think>\n\n"
                                        : "";
        static const char *const documents[] = {"{\"a\": 1}", " {\"a\":-2}", "{\"a\": \"1\"}",
                                                "Sure.", ""};
        protocol_guide guide = guide_of(SHAPED, names[kind], &r);
        asked a = ask(guide.grammar);
        for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
            char output[128];
            snprintf(output, sizeof output, "%s%s", before, documents[i]);
            bool is = takes(&a, view_of(output));
            TEST_CHECK_THAT(is == (i == 0 || (i == 1 && has_blank)), "%s: %d %s", names[kind], is,
                            output);
        }
        const cerium_message one[] = {talk[0], talk[4]};
        bytes call = render(t, kind, one, ARRAY_LEN(one), r, true);
        TEST_CHECK_THAT(takes(&a, (view){call.ptr, call.len}), "%s: %.*s", names[kind],
                        (int)call.len, call.ptr);
        bytes_free(&call);
        forget(&a);
        protocol_guide_free(&guide);
        protocol_request_free(&r);
    }
    tokenizer_close(&t);
}

static void test_choices(void)
{
    static const char one[] = REQUEST(",\"tool_choice\":{\"type\":\"function\",\"name\":\"any\"}");
    static const char single[] = REQUEST(",\"tool_choice\":\"required\","
                                         "\"parallel_tool_calls\":false");
    TEST_CHECK(allows(one, "chatml", CALL("any", "{}")));
    TEST_CHECK(!allows(one, "chatml", CALL("exec", "{\"cmd\": \"ls\"}")));
    TEST_CHECK(allows(MUST, "chatml", CALL("any", "{}") "\n" CALL("any", "{}")));
    TEST_CHECK(!allows(single, "chatml", CALL("any", "{}") "\n" CALL("any", "{}")));
    TEST_CHECK(allows(MUST, "qwen3", "<think>\nhm </thin\n</think>\n\n" CALL("any", "{}")));
    TEST_CHECK(!allows(MUST, "qwen3", "<think>\nhm</think></think>\n\n" CALL("any", "{}")));
    TEST_CHECK(allows(MUST, "qwen3.5", "hm\n</think>\n\n<tool_call>\n<function=any>\n</function>\n"
                                       "</tool_call>"));
    /* A schema's answer may come after a thought. */
    TEST_CHECK(allows(SHAPED, "qwen3", "<think>\nhm\n</think>\n\n{\"a\": 1}"));
    TEST_CHECK(allows(SHAPED, "chatml", CALL("any", "{}")));
    TEST_CHECK(!allows(SHAPED, "chatml", "{\"a\": \"1\"}"));
    TEST_CHECK(!allows(SHAPED, "chatml", "Sure."));
}

static void test_free(void)
{
    static const char *const bodies[] = {
        "{\"input\":\"x\"}", REQUEST(",\"tool_choice\":\"none\""),
        REQUEST(",\"tool_choice\":{\"type\":\"allowed_tools\",\"tools\":[]}")};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        protocol_request *r = NULL;
        protocol_guide guide = guide_of(bodies[i], "qwen3.5", &r);
        TEST_CHECK(!guide.grammar.len && !guide.n_triggers && !guide.text.ptr);
        protocol_guide_free(&guide);
        protocol_request_free(&r);
    }
}

static void test_out_of_memory(void)
{
    protocol_request *r = NULL;
    protocol_guide guide = guide_of(MUST, "qwen3-coder", &r);
    protocol_guide_free(&guide);
    int status = CERIUM_ERR_MEMORY;
    long live = memory_live(), n = 0;
    for (; status && n < 1000; n++) {
        memory_fail_at(n);
        status = protocol_guide_make(&guide, r, "qwen3-coder", false);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        protocol_guide_free(&guide);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK_THAT(status == CERIUM_OK && n > 1, "%d after %ld", status, n);
    protocol_request_free(&r);
}

int main(void)
{
    TEST_RUN(test_whole_answers);
    TEST_RUN(test_triggers);
    TEST_RUN(test_refused);
    TEST_RUN(test_document_or_call);
    TEST_RUN(test_marks);
    TEST_RUN(test_probed);
    TEST_RUN(test_typed_marks);
    TEST_RUN(test_choices);
    TEST_RUN(test_free);
    TEST_RUN(test_out_of_memory);
    return unit_report("guide");
}
