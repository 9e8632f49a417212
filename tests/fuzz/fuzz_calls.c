/* fuzz_calls.c - round trip of calls: what a chat form's renderer writes for any calls, its reader
 * reads as the same calls, in any cuts.
 *
 * The first byte chooses the form, the second the cuts.  Then lines: E begins a call of a tool that
 * takes JSON, and c (a string), s (one that may be null), n (a number), b (a boolean), o (an
 * object) and a (a list) give it members; P is a call of a tool that takes text; T is the text
 * before the calls.  A byte 1 stands for a line feed. */
#include <jansson.h>

#include "base/memory.h"
#include "protocol/json_out.h"
#include "tokenizer/chat.h"

#include "../unit/vocab_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS_MAX = 8, TOKENS_MAX = 1 << 16, INPUT_MAX = 4096 };

static const char *const control[] = {
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|python_tag|>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "<|EOT|>", "<|endoftext|>", "<|start|>", "<|message|>", "<|end|>",
    "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>"};

#define KIND_NAME(symbol, name) name,
static const char *const names[CHAT_KINDS] = {CHAT_KIND_MAP(KIND_NAME)};

static const cerium_tool tools[] = {
    {"exec", NULL, "{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"string\"},"
                   "\"s\":{\"type\":[\"string\",\"null\"]},\"n\":{\"type\":\"number\"},"
                   "\"b\":{\"type\":\"boolean\"},\"o\":{\"type\":\"object\"},"
                   "\"a\":{\"type\":\"array\"}}}"},
    {"patch", NULL, NULL},
};

typedef struct {
    bool is_xml;
    bool says;                      /* text before the calls */
    cerium_message messages[CALLS_MAX + 2]; /* a question, the text, and the calls */
    json_t *arguments[CALLS_MAX];   /* owned; NULL: text */
    char *texts[CALLS_MAX];         /* owned: as the message has them */
    size_t n;                       /* calls */
} talk;

/* ---- calls from bytes ---- */

/* In XML a value cannot have its own end tag; the text "null" alone would be read as null. */
static void defuse(const talk *k, char *text)
{
    static const char mark[] = "</parameter>";
    for (char *p = text; *p; p++) {
        if (*p == 1) *p = '\n';
        if (k->is_xml && strncmp(p, mark, sizeof mark - 1) == 0) *p = '(';
    }
}

static json_t *value_of(talk *k, char kind, const char *text)
{
    char *end;
    double number = strtod(text, &end);
    json_t *value = NULL;
    if (kind == 'c') return json_string(text);
    if (kind == 'b') return json_boolean(strlen(text) % 2);
    if (kind == 's') {
        bool null = !strcmp(text, "null") || (k->is_xml && !strcmp(text, "None"));
        return null ? json_null() : json_string(text);
    }
    if (kind == 'n')
        return end > text && number > -1e9 && number < 1e9
                   ? json_integer((json_int_t)number) : json_real(0.5);
    value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (kind == 'o' ? json_is_object(value) : json_is_array(value)) return value;
    json_decref(value);
    return kind == 'o' ? json_pack("{s:s}", "text", text) : json_pack("[s]", text);
}

static void add_call(talk *k, char kind, const char *text)
{
    if (k->n == CALLS_MAX) return;
    size_t i = k->n++;
    k->arguments[i] = kind == 'E' ? json_object() : NULL;
    if (kind == 'P') k->texts[i] = memory_copy(text, strlen(text));
    k->messages[2 + i] = (cerium_message){.role = "call", .name = kind == 'E' ? "exec" : "patch",
                                          .call_id = "call_1"};
}

static void add_line(talk *k, char *line)
{
    json_t *arguments = k->n ? k->arguments[k->n - 1] : NULL;
    char key[2] = {line[0], 0};
    if (!line[0]) return;
    defuse(k, line + 1);
    if (line[0] == 'E' || line[0] == 'P') {
        add_call(k, line[0], line + 1);
    } else if (line[0] == 'T') {
        k->says = line[1] != 0;
    } else if (arguments && strchr("csnboa", line[0])) {
        json_t *value = value_of(k, line[0], line + 1);
        if (value) CHECK(!json_object_set_new(arguments, key, value));
    }
}

static void read_talk(talk *k, char *text)
{
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        add_line(k, line);
        line = end ? end + 1 : NULL;
    }
    k->messages[0] = (cerium_message){.role = "user", .content = "Do it."};
    k->messages[1] = (cerium_message){.role = "assistant", .content = k->says ? "Look." : ""};
    for (size_t i = 0; i < k->n; i++) {
        if (k->arguments[i]) k->texts[i] = json_dumps(k->arguments[i], 0);
        k->messages[2 + i].content = k->texts[i];
        CHECK(k->texts[i]);
    }
}

static void forget(talk *k)
{
    for (size_t i = 0; i < k->n; i++) {
        if (k->arguments[i]) memory_release(k->texts[i]);
        else memory_free(k->texts[i]);
        json_decref(k->arguments[i]);
    }
}

/* ---- rendering ---- */

/* The turn as a session outputs it: everything after the prompt, without end tokens. */
static char *render(const tokenizer *t, int kind, const talk *k)
{
    static int32_t tokens[TOKENS_MAX];
    chat_form form = {.kind = (chat_kind)kind, .name = names[kind]};
    cerium_chat chat = {.messages = k->messages, .n_messages = 1, .tools = tools,
                        .n_tools = ARRAY_LEN(tools)};
    size_t from = 0, n = 0;
    bytes out = {.max = SIZE_MAX};
    CHECK(!chat_render(t, &form, &chat, tokens, TOKENS_MAX, &from, NULL));
    chat.n_messages = 2 + k->n;
    chat.open = true;
    CHECK(!chat_render(t, &form, &chat, tokens, TOKENS_MAX, &n, NULL));
    for (size_t i = from; i < n; i++) {
        size_t len;
        const char *text = tokenizer_bytes(t, tokens[i], &len);
        if (!tokenizer_is_end(t, tokens[i])) CHECK(!bytes_append(&out, text, len));
    }
    CHECK(!bytes_append(&out, "", 1));
    return out.ptr;
}

/* ---- reading ---- */

typedef struct {
    bytes output, name, arguments;
    const talk *k;
    size_t n; /* calls that ended */
} reading;

static void check_call(const reading *r)
{
    CHECK(r->n < r->k->n);
    const cerium_message *want = &r->k->messages[2 + r->n];
    view name = {r->name.ptr, r->name.len}, got = {r->arguments.ptr, r->arguments.len};
    CHECK(view_equal(name, view_of(want->name)));
    if (!r->k->arguments[r->n]) {
        CHECK(view_equal(got, view_of(want->content)));
        return;
    }
    json_t *value = json_loadb(got.ptr ? got.ptr : "", got.len, JSON_ALLOW_NUL, NULL);
    CHECK(value && json_equal(value, r->k->arguments[r->n]));
    json_decref(value);
}

static int take_part(void *user, const cerium_part *part)
{
    reading *r = user;
    switch (part->kind) {
    case CERIUM_PART_TEXT: CHECK(!bytes_append(&r->output, part->text, part->text_len)); break;
    case CERIUM_PART_REASONING: break; /* a form may open an empty thought */
    case CERIUM_PART_CALL:
        r->arguments.len = r->name.len = 0;
        CHECK(!bytes_append(&r->name, part->text, part->text_len));
        break;
    case CERIUM_PART_ARGUMENTS:
        CHECK(!bytes_append(&r->arguments, part->text, part->text_len));
        break;
    case CERIUM_PART_CALL_END:
        check_call(r);
        r->n++;
        break;
    }
    return CERIUM_OK;
}

static void read_back(const char *form, const talk *k, view text, uint32_t seed)
{
    reading out = {.output.max = SIZE_MAX, .name.max = SIZE_MAX, .arguments.max = SIZE_MAX, .k = k};
    cerium_reader *r = NULL;
    CHECK(!cerium_reader_open(&r, form, tools, ARRAY_LEN(tools), NULL));
    for (size_t i = 0, n; i < text.len; i += n) {
        seed = seed * 1664525 + 1013904223;
        n = 1 + (seed >> 24) % 23;
        if (n > text.len - i) n = text.len - i;
        CHECK(!cerium_reader_feed(r, text.ptr + i, n, take_part, &out));
    }
    CHECK(!cerium_reader_end(r, true, take_part, &out));
    cerium_reader_close(&r);
    CHECK(out.n == k->n);
    view output = {out.output.ptr, out.output.len};
    while (output.len && strchr(" \n", output.ptr[output.len - 1])) output.len--;
    if (k->n) CHECK(view_equal(output, k->says ? VIEW("Look.") : VIEW("")));
    bytes_free(&out.output);
    bytes_free(&out.name);
    bytes_free(&out.arguments);
}

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tokenizer *t;
    if (size < 2 || size > INPUT_MAX) return 0;
    if (!t) t = open_vocabulary();
    int kind = data[0] % CHAT_KINDS;
    view raw = {(const char *)data + 2, size - 2};
    bytes text = {.max = SIZE_MAX};
    CHECK(!(utf8_valid(raw) ? bytes_append(&text, raw.ptr, raw.len) : utf8_repair(&text, raw)));
    CHECK(!bytes_append(&text, "", 1));
    talk k = {.is_xml = kind == CHAT_QWEN3_CODER || kind == CHAT_QWEN35};
    read_talk(&k, text.ptr);
    char *output = render(t, kind, &k);
    read_back(names[kind], &k, view_of(output), data[1]);
    memory_free(output);
    forget(&k);
    bytes_free(&text);
    return 0;
}
