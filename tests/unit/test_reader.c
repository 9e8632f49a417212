/* test_reader.c - sampled text, read by its chat form, for any cuts. */
#include <jansson.h>

#include "base/memory.h"

#include "reader/reader_json.h"
#include "unit.h"

/* ---- reading into one line ---- */

typedef struct {
    bytes out;
    bool begun;
    cerium_part_kind kind;
} transcript;

/* Adjacent parts of a kind are joined: T:text R:thought C:name A:arguments E: */
static int write_part(void *user, const cerium_part *part)
{
    static const char *const names[] = {"T:", "R:", "C:", "A:", "E:"};
    transcript *t = user;
    bool joins = t->begun && t->kind == part->kind &&
                 (part->kind == CERIUM_PART_TEXT || part->kind == CERIUM_PART_REASONING ||
                  part->kind == CERIUM_PART_ARGUMENTS);
    if (!joins && t->begun) CHECK(!bytes_append(&t->out, "|", 1));
    if (!joins) CHECK(!bytes_append(&t->out, names[part->kind], 2));
    CHECK(!bytes_append(&t->out, part->text, part->text_len));
    t->begun = true;
    t->kind = part->kind;
    return CERIUM_OK;
}

static const cerium_tool tools[] = {
    {"exec", "run", "{\"type\":\"object\",\"properties\":{\"cmd\":{\"type\":\"string\"},"
                    "\"n\":{\"type\":\"integer\"},\"ok\":{\"type\":\"boolean\"},"
                    "\"o\":{\"type\":\"object\"},\"s\":{\"type\":[\"string\",\"null\"]},"
                    "\"u\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"null\"}]},\"any\":{}}}"},
    {"patch", "edit", NULL},
};

/* In two pieces, or byte by byte when cut is SIZE_MAX. */
static char *read_cut(const char *form, view text, size_t cut)
{
    transcript t = {.out = {.max = SIZE_MAX}};
    cerium_reader *r = NULL;
    CHECK(!cerium_reader_open(&r, form, tools, ARRAY_LEN(tools), NULL));
    for (size_t i = 0; i < text.len;) {
        size_t n = cut == SIZE_MAX ? 1 : i < cut ? cut - i : text.len - i;
        char *piece = memory_copy(text.ptr + i, n); /* so that a read past its end is seen */
        CHECK(piece && !cerium_reader_feed(r, piece, n, write_part, &t));
        memory_free(piece);
        i += n;
    }
    CHECK(!cerium_reader_end(r, true, write_part, &t));
    cerium_reader_close(&r);
    CHECK(!bytes_append(&t.out, "", 1));
    return t.out.ptr;
}

static void check(const char *form, const char *output, const char *want)
{
    view text = view_of(output);
    for (size_t cut = 0; cut <= text.len + 1; cut++) {
        char *got = read_cut(form, text, cut <= text.len ? cut : SIZE_MAX);
        TEST_CHECK_THAT(strcmp(got, want) == 0, "%s cut at %zu: %s\n want %s\n got  %s", form, cut,
                        output, want, got);
        bool same = strcmp(got, want) == 0;
        bytes_free(&(bytes){.ptr = got});
        if (!same) break;
    }
}

/* ---- calls in tags ---- */

#define CALL(name, arguments)                                                                      \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

static void test_text(void)
{
    check("", "", "");
    check("", "Hi\n\nthere \n", "T:Hi\n\nthere \n");
    check("", "a < b, <tool and <tool_call", "T:a < b, <tool and <tool_call");
    check("chatml", "<tool_cal <tool_call> is a tag", "T:<tool_cal <tool_call> is a tag");
    check("", "<think>x</think>", "T:<think>x</think>");
    check("deepseek-coder", "x" CALL("exec", "{}"), "T:x|C:exec|A:{}|E:");
}

static void test_hermes(void)
{
    check("chatml", CALL("exec", "{\"cmd\": \"ls\"}"), "C:exec|A:{\"cmd\": \"ls\"}|E:");
    check("", "Look:\n\n" CALL("exec", "{\"cmd\": \"}\\\"</tool_call>\"}") "\n",
          "T:Look:|C:exec|A:{\"cmd\": \"}\\\"</tool_call>\"}|E:");
    check("chatml", CALL("exec", "{}") "\n" CALL("patch", "{\"input\": \"a\\nb\"}") "\nDone",
          "C:exec|A:{}|E:|C:patch|A:a\nb|E:|T:Done");
    check("chatml", "<tool_call>{\"arguments\":{\"n\":1},\"name\":\"exec\"}</tool_call>",
          "C:exec|A:{\"n\":1}|E:");
    check("chatml",
          "<tool_call>{\"id\":7,\"name\":\"exec\",\"arguments\":{},\"x\":[1]}</tool_call>.",
          "C:exec|A:{}|E:|T:.");
    /* Arguments encoded twice in JSON; text for a tool that takes text; another type for it. */
    check("chatml", CALL("exec", "\"{\\\"n\\\": 1}\""), "C:exec|A:{\"n\": 1}|E:");
    check("chatml", CALL("patch", "\"\\u00e4\\ud83d\\ude00\\ud800x\""),
          "C:patch|A:\xC3\xA4\xF0\x9F\x98\x80\xEF\xBF\xBDx|E:");
    check("chatml", CALL("patch", "{ \"input\" : \"x\" }"), "C:patch|A:x|E:");
    check("chatml", CALL("patch", "{\"in\": 1}"), "C:patch|A:{\"in\": 1}|E:");
    check("chatml", CALL("other", "{\"a\": 1.5e3}"), "C:other|A:{\"a\": 1.5e3}|E:");
    /* A line feed in a string, as it is. */
    check("chatml", CALL("exec", "{\"cmd\": \"a\nb\"}"), "C:exec|A:{\"cmd\": \"a\\nb\"}|E:");
    check("chatml", CALL("exec", "12"), "C:exec|A:12|E:");
}

static void test_broken_calls(void)
{
    /* Text that is not a call stays text, also if that shows later; a call that the end of the
     * answer cuts off is dropped. */
    check("chatml", "<tool_call>\n{\"name\": 3}</tool_call>x",
          "T:<tool_call>\n{\"name\": 3}</tool_call>x");
    check("chatml", "<tool_call>\n{\"name\": \"exec\"}\n</tool_call>",
          "T:<tool_call>\n{\"name\": \"exec\"}\n</tool_call>");
    check("chatml", "<tool_call>{\"na", "");
    check("chatml", "<tool_call>{\"name\": \"exec\", \"arguments\": {\"cmd\": \"l",
          "C:exec|A:{\"cmd\": \"l");
    check("chatml", CALL("exec", "{\"cmd\": oops}") " and",
          "C:exec|A:{\"cmd\": oops}}\n|E:|T: and");
    check("chatml", CALL("exec", "{}") "<tool_call>" CALL("exec", "{}"),
          "C:exec|A:{}|E:|T:<tool_call>|C:exec|A:{}|E:");
    check("chatml", "<tool_call>{\"name\": \"exec\", \"arguments\": {}} oops",
          "C:exec|A:{}|E:|T: oops");
    check("chatml", "<tool_call>{\"name\": \"exec\", \"arguments\": {}}\n</tool_c",
          "C:exec|A:{}|E:");
}

static void test_thoughts(void)
{
    check("qwen3", "<think>\nhm\nso\n</think>\n\nHi", "R:hm\nso|T:Hi");
    check("qwen3", "\n<think>\n\n</think>\n\nHi", "T:Hi");
    check("qwen3", "Hi <think>x</think>", "T:Hi <think>x</think>");
    check("qwen3.5", "hm</thi\n</think>\n\n" CALL("exec", "{}"), "R:hm</thi|C:exec|A:{}|E:");
    check("qwen3.5", "never ends</th", "R:never ends</th");
    check("mistral-v7-tekken", "[THINK]hm[/THINK]Hi [THINK]", "R:hm|T:Hi [THINK]");
}

/* ---- XML ---- */

#define FUNCTION(name, parameters)                                                                 \
    "<tool_call>\n<function=" name ">\n" parameters "</function>\n</tool_call>"
#define PARAMETER(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

static void test_xml(void)
{
    check("qwen3-coder", "Ok.\n\n" FUNCTION("exec", PARAMETER("cmd", "echo \"a\"\n\nb")) "\n",
          "T:Ok.|C:exec|A:{\"cmd\": \"echo \\\"a\\\"\\n\\nb\"}|E:");
    check("qwen3-coder",
          FUNCTION("exec", PARAMETER("n", "5") PARAMETER("ok", "True") PARAMETER("cmd", "5")
                               PARAMETER("o", "{\"a\": [1]}") PARAMETER("s", "None")
                                   PARAMETER("u", "2.5") PARAMETER("any", "x y")),
          "C:exec|A:{\"n\": 5, \"ok\": true, \"cmd\": \"5\", \"o\": {\"a\": [1]}, \"s\": null, "
          "\"u\": 2.5, \"any\": \"x y\"}|E:");
    check("qwen3-coder", FUNCTION("exec", PARAMETER("s", "nuts") PARAMETER("n", "many")
                                              PARAMETER("x\"", "</param>")),
          "C:exec|A:{\"s\": \"nuts\", \"n\": \"many\", \"x\\\"\": \"</param>\"}|E:");
    check("qwen3.5",
          "</think>" FUNCTION("exec", "") "\n" FUNCTION("patch", PARAMETER("input", "\n a\n")),
          "C:exec|A:{}|E:|C:patch|A:\n a\n|E:");
    check("qwen3-coder", "<function=exec>" PARAMETER("cmd", "") "</function> and",
          "C:exec|A:{\"cmd\": \"\"}|E:|T: and");
    check("qwen3-coder", "<parameter=cmd>\nx</parameter> <function=> <function=a\n",
          "T:<parameter=cmd>\nx</parameter> <function=> <function=a\n");
    check("qwen3-coder", "<tool_call>\n<function=exec>\n<parameter=cmd>\nls -l\n</para",
          "C:exec|A:{\"cmd\": \"ls -l\\n</para");
    check("qwen3-coder", FUNCTION("exec", "oops " PARAMETER("cmd", "x")),
          "C:exec|A:{\"cmd\": \"x\"}|E:|T:oops ");
    check("chatml", FUNCTION("exec", ""), "C:exec|A:{}|E:");
}

/* ---- Mistral, Llama, Harmony ---- */

/* As the model's own template writes calls: marks that were found by probing. */
#define ARG_TAGS                                                                                   \
    "{\"open\":\"<tool_call>\",\"key\":\"<arg_key>\",\"key_end\":\"</arg_key>\\n<arg_value>\","    \
    "\"value_end\":\"</arg_value>\",\"end\":\"</tool_call>\"}"
#define INVOKE                                                                                     \
    "{\"section\":\"<m:tool_call>\",\"section_end\":\"</m:tool_call>\","                           \
    "\"open\":\"<invoke name=\\\"\",\"name_end\":\"\\\">\",\"key\":\"<parameter name=\\\"\","      \
    "\"key_end\":\"\\\">\",\"end\":\"</invoke>\","                                                 \
    "\"value_end\":\"</parameter>\",\"opens_thought\":true}"

static void test_marks(void)
{
    check(ARG_TAGS,
          "Let me see.\n<tool_call>exec\n<arg_key>cmd</arg_key>\n<arg_value>ls <b>\n</arg_value>\n"
          "<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
          "<tool_call>exec</tool_call>",
          "T:Let me see.|C:exec|A:{\"cmd\": \"ls <b>\\n\", \"n\": 3}|E:|C:exec|A:{}|E:");
    check(ARG_TAGS, "<tool_call>patch<arg_key>input</arg_key>\n<arg_value>a \"b\"</arg_value>"
          "</tool_call> done", "C:patch|A:a \"b\"|E:|T: done");
    check(ARG_TAGS, "a <tool_ca", "T:a <tool_ca");
    check(ARG_TAGS, "<tool_call></tool_call>x", "T:<tool_call></tool_call>x");
    check(ARG_TAGS, "<tool_call>exec<arg_key>cmd</arg_key>\n<arg_value>l",
          "C:exec|A:{\"cmd\": \"l");
    check(ARG_TAGS, "<think>hm</think>so", "R:hm|T:so");
    check(INVOKE, "hm</think>\n\n<m:tool_call>\n<invoke name=\"exec\">\n"
          "<parameter name=\"ok\">true</parameter>\n</invoke>\n<invoke name=\"exec\">\n</invoke>\n"
          "</m:tool_call>",
          "R:hm|C:exec|A:{\"ok\": true}|E:|C:exec|A:{}|E:");
}

/* The same with an object for arguments: an id after the name, before it, and at the end. */
#define KIMI                                                                                       \
    "{\"json\":true,\"section\":\"<|calls|>\",\"open\":\"<|call|>functions.\",\"name_end\":\":"    \
    "\\u0001"                                                                                      \
    "<|args|>\",\"end\":\"<|end|>\",\"between\":\"\",\"section_end\":\"<|ends|>\"}"
#define LISTED                                                                                     \
    "{\"json\":true,\"section\":\"<CALLS>[\",\"open\":\"{\\\"id\\\": \\\"\\u0001\\\", \\\""        \
    "name\\\": "                                                                                   \
    "\\\"\",\"name_end\":\"\\\", \\\"arguments\\\": \",\"end\":\"}\",\"between\":\", \",\""        \
    "section_end\":"                                                                               \
    "\"]</CALLS>\",\"opens_thought\":true}"
#define BARE                                                                                       \
    "{\"json\":true,\"open\":\"<function=\",\"name_end\":\">\",\"end\":\"</function>\"}"
/* Values that are not text, after a mark of their own. */
#define TYPED                                                                                      \
    "{\"section\":\"<calls>\",\"section_end\":\"</calls>\",\"open\":\"<f name=\\\"\",\""           \
    "name_end\":"                                                                                  \
    "\"\\\">\",\"key\":\"<p name=\\\"\",\"key_end\":\"\\\" string=\\\"true\\\">\",\""              \
    "json_key_end\":"                                                                              \
    "\"\\\" string=\\\"false\\\">\",\"value_end\":\"</p>\",\"end\":\"</f>\"}"

static void test_probed(void)
{
    check(KIMI, "Yes.<|calls|><|call|>functions.exec:0<|args|>{\"cmd\": \"ls\"}<|end|><|call|>"
                "functions.patch:12<|args|>{\"input\": \"x\"}<|end|><|ends|>Done",
          "T:Yes.|C:exec|A:{\"cmd\": \"ls\"}|E:|C:patch|A:x|E:|T:Done");
    check(KIMI, "<|calls|>\n <|call|> functions.exec:0 <|args|>\n{}", "C:exec|A:{}|E:");
    check(KIMI, "<|calls|><|call|>functions.exec<|args|>{}<|end|>",
          "T:<|calls|><|call|>functions.exec<|args|>{}<|end|>");
    check(KIMI, "<|calls|>then <|call|>functions.exec:0<|args|>{}",
          "T:<|calls|>then <|call|>functions.exec:0<|args|>{}");
    check(KIMI, "<|calls|><|call|>functions.exec:0<|args|>{\"cmd\": oops}<|end|><|call|>"
                "functions.exec:1<|args|>{}<|end|><|ends|>",
          "C:exec|A:{\"cmd\": oops}|E:|C:exec|A:{}|E:");
    check(KIMI, "<|call|>functions.exec:0<|args|>{}", "T:<|call|>functions.exec:0<|args|>{}");
    check(KIMI, "<|calls|><|call|>functions.exec:0<|args|>{\"cmd\": \"l",
          "C:exec|A:{\"cmd\": \"l");
    check(LISTED, "hm</think><CALLS>[{\"id\": \"a-1\", \"name\": \"exec\", \"arguments\": {\""
          "n\": 1}},"
                  "{\"id\":\"b\",\"name\":\"exec\",\"arguments\":{}}]</CALLS> ok",
          "R:hm|C:exec|A:{\"n\": 1}|E:|C:exec|A:{}|E:|T: ok");
    check(LISTED, "</think><CALLS>[\n  {\"id\": \"\", \"name\"", "T:<CALLS>[\n  {\"id\": \"\","
          " \"name\"");
    check(BARE, "<function=exec>{\"n\": 2}</function><function=exec>{}</function>.",
          "C:exec|A:{\"n\": 2}|E:|C:exec|A:{}|E:|T:.");
    check(BARE, "<function=>{}", "T:<function=>{}");
    check(BARE, "<think>a</think><function=no.such>{}</function>", "R:a|C:no.such|A:{}|E:");
    check(TYPED, "<calls><f name=\"exec\"><p name=\"cmd\" string=\"true\">3</p>"
                 "<p name=\"n\" string=\"false\">3</p></f></calls>",
          "C:exec|A:{\"cmd\": \"3\", \"n\": 3}|E:");
}

/* A mark that any text would match is refused. */
static void test_marks_that_are_none(void)
{
    static const char *const forms[] = {
        "{\"json\":true,\"open\":\"<a>\",\"name_end\":\" \"}",
        "{\"json\":true,\"open\":\"<a>\\u0001\",\"name_end\":\">\"}",
        "{\"json\":true,\"open\":\"<a>\",\"name_end\":\"\"}",
        "{\"json\":true,\"open\":\"\",\"name_end\":\">\"}",
        "{\"json\":true,\"open\":\"<a>\",\"name_end\":\">\",\"end\":\"\\n\"}"};
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        cerium_reader *r = NULL;
        int status = cerium_reader_open(&r, forms[i], tools, ARRAY_LEN(tools), NULL);
        TEST_CHECK_THAT(status != CERIUM_OK, "%s", forms[i]);
        cerium_reader_close(&r);
    }
}

static void test_inst(void)
{
    check("mistral-v3", "[TOOL_CALLS] [{\"name\": \"exec\", \"arguments\": {\"n\": 1}, \"id\": "
                        "\"abcdefghi\"}, {\"name\": \"patch\", \"arguments\": \"x\"}]",
          "C:exec|A:{\"n\": 1}|E:|C:patch|A:x|E:");
    check("mistral-v7-tekken", "Hi[TOOL_CALLS]exec[ARGS]{\"cmd\": \"[TOOL_CALLS]\"}[TOOL_CALLS]"
                               "patch[CALL_ID]123[ARGS]{\"input\": \"x\"}",
          "T:Hi|C:exec|A:{\"cmd\": \"[TOOL_CALLS]\"}|E:|C:patch|A:x|E:");
    check("mistral-v7-tekken", "[TOOL_CALLS]patch[ARGS]*** Begin",
          "C:patch|A:*** Begin|E:");
    check("mistral-v7-tekken", "[TOOL_CALLS] of x [TOOL_CALLS]a[ARG]", "T:[TOOL_CALLS] of x "
                                                                       "[TOOL_CALLS]a[ARG]");
    check("mistral-v7-tekken", "[TOOL_CALLS]exec{\"n\": 1}", "C:exec|A:{\"n\": 1}|E:");
    check("mistral-v3", "[TOOL_CALLS][1]", "T:[TOOL_CALLS][1]");
}

static void test_llama(void)
{
    check("llama3.1", "{\"name\": \"exec\", \"parameters\": {\"cmd\": \"ls\"}}",
          "C:exec|A:{\"cmd\": \"ls\"}|E:");
    check("llama3.1", "<|python_tag|>{\"name\": \"exec\", \"parameters\": {}}; "
                      "{\"name\": \"patch\", \"parameters\": {\"input\": \"x\"}}",
          "C:exec|A:{}|E:|C:patch|A:x|E:");
    check("llama3.1", "Ok\n{\"parameters\": {}, \"name\": \"exec\"}", "T:Ok|C:exec|A:{}|E:");
    check("llama3.1", "{\"name\": \"Bob\", \"parameters\": {}} or {\"name\": \"exec\"}",
          "T:{\"name\": \"Bob\", \"parameters\": {}} or {\"name\": \"exec\"}");
    check("llama3.1", "<|python_tag|>print(1)", "T:<|python_tag|>print(1)");
}

#define TO_EXEC "to=functions.exec"

static void test_harmony(void)
{
    check("harmony", "<|channel|>analysis<|message|>hm\n<|end|><|start|>assistant<|channel|>final"
                     "<|message|>Hi <|x|>",
          "R:hm|T:Hi <|x|>");
    check("harmony",
          "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary " TO_EXEC
          " <|constrain|>json<|message|>{\"n\": 1}",
          "R:a|C:exec|A:{\"n\": 1}|E:");
    check("harmony", " " TO_EXEC "<|channel|>commentary json<|message|>{}<|call|>",
          "C:exec|A:{}|E:");
    check("harmony",
          "<|channel|>commentary " TO_EXEC "<|channel|>commentary code<|message|>ls -l",
          "C:exec|A:ls -l|E:");
    check("harmony", "<|channel|>commentary<|message|>Look.<|end|><|start|>assistant " TO_EXEC
                     "<|channel|>commentary json<|message|>{\"cmd\":\"",
          "T:Look.|C:exec|A:{\"cmd\":\"");
    check("harmony", "<|channel|>commentary to=functions.patch json<|message|>{\"input\": \"x\"}",
          "C:patch|A:x|E:");
    check("harmony",
          "<|channel|>commentary<|message|>One.<|end|><|start|>assistant<|channel|>final"
          "<|message|>Two.",
          "T:One.\n\nTwo.");
    check("harmony", "<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>",
          "R:a|T:b");
    check("harmony", " " TO_EXEC "<|channel|>commentary json<|message|>{\"cmd\": \"<|end|>\"}"
                     "<|call|>", "C:exec|A:{\"cmd\": \"<|end|>\"}|E:");
    check("harmony", "Just text", "T:Just text");
    check("harmony", "<|channel|>anal", "");
}

/* ---- output of the forms' makers (call_oracles.txt) ---- */

enum { DEFINED_MAX = 4, PARTS_MAX = 8, LINE_MAX = 4096 };

typedef struct {
    cerium_part_kind kind;
    char *name; /* of a call */
    bytes text;
} found_part;

typedef struct {
    size_t n;
    found_part parts[PARTS_MAX];
} found;

static int find_part(void *user, const cerium_part *part)
{
    found *all = user;
    found_part *last = all->n ? &all->parts[all->n - 1] : NULL;
    if (part->kind == CERIUM_PART_CALL_END) return CERIUM_OK;
    if (part->kind != CERIUM_PART_ARGUMENTS && (!last || last->kind != part->kind ||
                                           part->kind == CERIUM_PART_CALL)) {
        CHECK(all->n < PARTS_MAX);
        last = &all->parts[all->n++];
        *last = (found_part){.kind = part->kind, .text.max = SIZE_MAX};
        if (part->kind == CERIUM_PART_CALL) last->name = memory_copy(part->text, part->text_len);
    }
    if (part->kind != CERIUM_PART_CALL)
        CHECK(!bytes_append(&last->text, part->text, part->text_len));
    return CERIUM_OK;
}

/* "call NAME ARGUMENTS", or "text - WORDS": thoughts end without white space. */
static bool is_part(const found_part *p, const char *want)
{
    const char *rest = strchr(strchr(want, ' ') + 1, ' ') + 1;
    if (strncmp(want, "call ", 5) == 0) {
        size_t len = (size_t)(rest - want) - 6;
        json_t *x = json_loadb(p->text.ptr, p->text.len, 0, NULL), *y = json_loads(rest, 0, NULL);
        bool same = p->kind == CERIUM_PART_CALL && strlen(p->name) == len &&
                    memcmp(p->name, want + 5, len) == 0 && json_equal(x, y);
        json_decref(x);
        json_decref(y);
        return same;
    }
    size_t len = strlen(rest);
    while (len && rest[len - 1] == '\n') len--;
    return p->kind == (*want == 'r' ? CERIUM_PART_REASONING : CERIUM_PART_TEXT) &&
           p->text.len == len && memcmp(p->text.ptr, rest, len) == 0;
}

static char *unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) *to++ = *p != '\\' ? *p : *++p == 'n' ? '\n' : *p;
    *to = 0;
    return text;
}

static void forget(found *all)
{
    for (size_t i = 0; i < all->n; i++) {
        memory_free(all->parts[i].name);
        bytes_free(&all->parts[i].text);
    }
    all->n = 0;
}

/* ---- ends ---- */

/* The output of an answer that was cut after n bytes, and whether a call was cut. */
static char *said_by(const char *form, const char *answer, size_t n, const char *stop, bool *cut)
{
    found all = {0};
    cerium_reader *r = NULL;
    bytes output = {.max = SIZE_MAX};
    CHECK(!cerium_reader_open(&r, form, tools, ARRAY_LEN(tools), NULL));
    if (stop) cerium_reader_set_stops(r, &stop, 1);
    CHECK(!cerium_reader_feed(r, answer, n, find_part, &all));
    CHECK(!cerium_reader_end(r, false, find_part, &all));
    *cut = cerium_reader_cut_call(r);
    for (size_t i = 0; i < all.n; i++)
        if (all.parts[i].kind == CERIUM_PART_TEXT)
            CHECK(!bytes_append(&output, all.parts[i].text.ptr, all.parts[i].text.len));
    CHECK(!bytes_append(&output, "", 1));
    forget(&all);
    cerium_reader_close(&r);
    return output.ptr;
}

/* An answer "Hi" and a call in each form: wherever it ends, "Hi" is the only text. */
static void test_cut_calls(void)
{
    static const struct {
        const char *form, *before, *call;
    } cases[] = {
        {"chatml", "Hi", "\n" CALL("exec", "{\"cmd\": \"ls\"}")},
        {"", "Hi", CALL("exec", "{\"cmd\": \"ls\"}")},
        {"chatml", "Hi",
         "<tool_call>{\"arguments\": {}, \"id\": 1, \"name\": \"exec\"}</tool_call>"},
        {"qwen3-coder", "Hi", "\n\n" FUNCTION("exec", PARAMETER("cmd", "ls") PARAMETER("n", "5"))},
        {"qwen3-coder", "Hi", "<function=exec>" PARAMETER("cmd", "") "</function>"},
        {"qwen3.5", "hm</think>\n\nHi", FUNCTION("patch", PARAMETER("input", "x"))},
        {"mistral-v3", "Hi", "[TOOL_CALLS] [{\"name\": \"exec\", \"arguments\": {\"n\": 1}, "
                             "\"id\": \"abcdefghi\"}]"},
        {"mistral-v7-tekken", "Hi", "[TOOL_CALLS]exec[CALL_ID]123[ARGS]{\"cmd\": \"x\"}"},
        {"mistral-v7-tekken", "Hi", "[TOOL_CALLS]patch[ARGS]*** Begin"},
        {"llama3.1", "Hi", "\n{\"name\": \"exec\", \"parameters\": {\"cmd\": \"ls\"}}"},
        {"llama3.1", "Hi", "\n{\"parameters\": {\"cmd\": \"ls\"}, \"name\": \"exec\"}"},
        {"llama3.1", "Hi", "<|python_tag|>{\"name\": \"exec\", \"parameters\": {}}"},
        {"harmony", "<|channel|>commentary<|message|>Hi",
         "<|end|><|start|>assistant<|channel|>commentary to=functions.exec <|constrain|>json"
         "<|message|>{\"cmd\": \"ls\"}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char answer[512];
        size_t head = strlen(cases[i].before);
        snprintf(answer, sizeof answer, "%s%s", cases[i].before, cases[i].call);
        for (size_t n = head; n <= strlen(answer); n++) {
            bool cut;
            char *output = said_by(cases[i].form, answer, n, NULL, &cut);
            /* Line feeds may belong to the text. */
            bool is_text = n - head <= strspn(cases[i].call, "\n");
            TEST_CHECK_THAT(!strcmp(output, "Hi") || (is_text && !strncmp(output, "Hi\n", 3)),
                            "%s: %.*s: says '%s'", cases[i].form, (int)n, answer, output);
            memory_free(output);
        }
    }
    /* Text that looks like a call without a mark, and can no longer be one, is text. */
    bool cut;
    char *output = said_by("llama3.1", "{\"result\": \"long te", 20, NULL, &cut);
    TEST_CHECK_THAT(!strcmp(output, "{\"result\": \"long te") && !cut, "%s", output);
    memory_free(output);
    output = said_by("llama3.1", "{\"name\": \"Bob", 13, NULL, &cut);
    TEST_CHECK_THAT(!strcmp(output, "{\"name\": \"Bob") && !cut, "%s", output);
    memory_free(output);
    output = said_by("chatml", "a < b", 3, NULL, &cut);
    TEST_CHECK_THAT(!strcmp(output, "a "), "%s", output);
    memory_free(output);
}

static void test_stops(void)
{
    static const struct {
        const char *form, *stop, *answer, *output;
    } cases[] = {
        {"chatml", "B\"", "Hi" CALL("exec", "{\"cmd\": \"B\"}"), "Hi"},
        {"chatml", "tool", "Hi" CALL("exec", "{}") "a tool b", "Hia "},
        {"chatml", "tool_call", "a tool_call b", "a "},
        {"chatml", "\n", "Hi\nthere", "Hi"},
        {"chatml", "END", "Hi\nEND", "Hi\n"},
        {"chatml", "ENDS", "Hi\nEND", "Hi\nEND"},
        {"chatml", "END", "HiEN" CALL("exec", "{}") "D", "HiEND"},
        {"qwen3", "so", "<think>so</think>\n\nso what", ""},
        {"qwen3", "\n", "<think>\nhm\n</think>\n\nso\nwhat", "so"},
        {"qwen3.5", "x", "x</think>a x", "a "},
        {"qwen3-coder", "ls", FUNCTION("exec", PARAMETER("cmd", "ls")) "\nls -l", ""},
        {"mistral-v3", "name", "[TOOL_CALLS] [{\"name\": \"exec\", \"arguments\": {}}]", ""},
        {"harmony", "hm",
         "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
         "ah hm",
         "ah "},
        {"harmony", "xy", "<|channel|>final<|message|>ax<|end|><|start|>assistant<|channel|>final"
                          "<|message|>y", "ax\n\ny"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        bool cut;
        char *output = said_by(cases[i].form, cases[i].answer, strlen(cases[i].answer),
                               cases[i].stop, &cut);
        TEST_CHECK_THAT(!strcmp(output, cases[i].output) && !cut, "%s, stop '%s': %s: says '%s'",
                        cases[i].form, cases[i].stop, cases[i].answer, output);
        memory_free(output);
    }
}

/* ---- all of call_oracles.txt ---- */

static void test_makers(void)
{
    FILE *f = fopen("tests/unit/call_oracles.txt", "r");
    static char line[LINE_MAX], form[32], answer[LINE_MAX];
    cerium_tool defined[DEFINED_MAX] = {{0}};
    json_t *definitions[DEFINED_MAX];
    size_t n_tools = 0, n_parts = 0, at = 0;
    found all = {0};
    TEST_CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "define ", 7) == 0) {
            json_t *one = definitions[n_tools] = json_loads(unescape(line + 7), 0, NULL);
            defined[n_tools++] = (cerium_tool){
                .name = json_string_value(json_object_get(one, "name")),
                .parameters = json_dumps(json_object_get(one, "parameters"), 0)};
        } else if (strncmp(line, "reads ", 6) == 0) {
            snprintf(form, sizeof form, "%.31s", line + 6);
        } else if (strncmp(line, "answer ", 7) == 0) {
            cerium_reader *r = NULL;
            snprintf(answer, sizeof answer, "%s", unescape(line + 7));
            forget(&all);
            at = 0;
            CHECK(!cerium_reader_open(&r, form, defined, n_tools, NULL));
            for (const char *p = answer; *p; p++)
                CHECK(!cerium_reader_feed(r, p, 1, find_part, &all));
            CHECK(!cerium_reader_end(r, true, find_part, &all));
            cerium_reader_close(&r);
        } else if (strncmp(line, "part ", 5) == 0) {
            bool is = at < all.n && is_part(&all.parts[at], unescape(line + 5));
            TEST_CHECK_THAT(is, "%s: %s: part %zu of %zu is not %s but %.*s", form, answer, at,
                            all.n, line + 5, at < all.n ? (int)all.parts[at].text.len : 0,
                            at < all.n ? all.parts[at].text.ptr : "");
            at++;
            n_parts++;
        } else if (!*line) {
            TEST_CHECK_THAT(at == all.n, "%s: %s: %zu parts too many", form, answer, all.n - at);
        }
    }
    TEST_CHECK_THAT(n_parts > 40, "%zu parts", n_parts);
    forget(&all);
    for (size_t i = 0; i < n_tools; i++) {
        json_decref(definitions[i]);
        memory_release((char *)(uintptr_t)defined[i].parameters);
    }
    if (f) fclose(f);
}

/* ---- limits ---- */

static int refuse(void *user, const cerium_part *part)
{
    (void)user;
    return part->kind == CERIUM_PART_CALL ? CERIUM_ERR_CANCELED : CERIUM_OK;
}

static void test_limits(void)
{
    /* A call that never becomes certain is held up to a bound. */
    transcript t = {.out = {.max = SIZE_MAX}};
    cerium_reader *r = NULL;
    static const char begin[] = "<tool_call>{\"arguments\": \"";
    static char long_text[READER_HELD_BYTES_MAX];
    memset(long_text, 'x', sizeof long_text);
    CHECK(!cerium_reader_open(&r, "chatml", tools, ARRAY_LEN(tools), NULL));
    TEST_CHECK(!cerium_reader_feed(r, begin, sizeof begin - 1, write_part, &t) && t.out.len == 0);
    TEST_CHECK(!cerium_reader_feed(r, long_text, sizeof long_text, write_part, &t));
    TEST_CHECK(!cerium_reader_end(r, true, write_part, &t));
    TEST_CHECK(t.out.len == 2 + sizeof begin - 1 + sizeof long_text);
    cerium_reader_close(&r);
    bytes_free(&t.out);
    /* The receiver of the parts may end it. */
    CHECK(!cerium_reader_open(&r, "chatml", tools, ARRAY_LEN(tools), NULL));
    TEST_CHECK(cerium_reader_feed(r, CALL("x", "{}"), sizeof CALL("x", "{}") - 1, refuse, NULL) ==
               CERIUM_ERR_CANCELED);
    TEST_CHECK(cerium_reader_end(r, true, refuse, NULL) == CERIUM_ERR_CANCELED);
    cerium_reader_close(&r);
    cerium_reader_close(&r);
}

static void test_out_of_memory(void)
{
    static const char *const texts[] = {
        CALL("exec", "{}"), "<tool_call>{\"arguments\": {}, \"name\": \"exec\"}",
        FUNCTION("exec", PARAMETER("o", "{}") "junk")};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        int status = CERIUM_ERR_MEMORY;
        long live = memory_live(), n = 0;
        for (; status && n < 100; n++) {
            transcript t = {.out = {.max = SIZE_MAX}};
            CHECK(!bytes_reserve(&t.out, 4096));
            cerium_reader *r = NULL;
            memory_fail_at(n);
            status = cerium_reader_open(&r, "qwen3-coder", tools, ARRAY_LEN(tools), NULL);
            if (!status) status = cerium_reader_feed(r, texts[i], strlen(texts[i]), write_part, &t);
            if (!status) status = cerium_reader_end(r, true, write_part, &t);
            memory_fail_at(-1);
            TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
            cerium_reader_close(&r);
            bytes_free(&t.out);
            TEST_CHECK(memory_live() == live);
        }
        TEST_CHECK(status == CERIUM_OK && n >= 2);
    }
}

int main(void)
{
    TEST_RUN(test_text);
    TEST_RUN(test_hermes);
    TEST_RUN(test_broken_calls);
    TEST_RUN(test_thoughts);
    TEST_RUN(test_xml);
    TEST_RUN(test_marks);
    TEST_RUN(test_probed);
    TEST_RUN(test_marks_that_are_none);
    TEST_RUN(test_inst);
    TEST_RUN(test_llama);
    TEST_RUN(test_harmony);
    TEST_RUN(test_cut_calls);
    TEST_RUN(test_stops);
    TEST_RUN(test_makers);
    TEST_RUN(test_limits);
    TEST_RUN(test_out_of_memory);
    return unit_report("reader");
}
