/* test_chat.c - chat forms against the published templates (chat_vectors.txt, written by
 * make_chat_vectors.py) and the libraries of the forms' makers (chat_oracles.txt, by
 * make_chat_oracles.py), and one property that no template has: content never becomes control. */
#include <jansson.h>

#include "base/memory.h"
#include "tokenizer/chat.h"

#include "unit.h"
#include "vocab_file.h"

enum { MESSAGES_MAX = 12, TOOLS_MAX = 4, TOKENS_MAX = 8192, NAMES_MAX = 16, LINE_MAX = 16384 };

static int render(const tokenizer *t, const chat_form *form, const cerium_message *messages,
                  size_t n, int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err)
{
    const cerium_chat chat = {.messages = messages, .n_messages = n};
    return chat_render(t, form, &chat, tokens, cap, n_tokens, err);
}

/* ---- the vectors ---- */

static char *unescape(char *text)
{
    char *to = text;
    for (const char *p = text; *p; p++) {
        if (*p == '\\') {
            p++;
            *to++ = *p == 'n' ? '\n' : *p;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return text;
}

/* A vocabulary of bytes and the form's tokens, of which the first begins a text and the second
 * ends one, with a template that identifies the form. */
static tokenizer *open_form(char *template, char *names)
{
    const char *tokens[NAMES_MAX];
    size_t n = 0;
    for (char *save = NULL, *name = strtok_r(names, " ", &save); name;
         name = strtok_r(NULL, " ", &save)) {
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || strcmp(tokens[i], name) == 0;
        CHECK(n < NAMES_MAX);
        if (!known) tokens[n++] = name;
    }
    vocab_file v;
    vocab_open(&v);
    vocab_bytes_model(&v, "gpt-2", NULL, 0, tokens, n);
    vocab_string(&v, "tokenizer.chat_template", view_of(template));
    vocab_u32(&v, "tokenizer.ggml.bos_token_id", 256);
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", n > 1 ? 257 : 256);
    tokenizer *t = NULL;
    cerium_error err;
    TEST_CHECK_THAT(!vocab_tokenizer(&v, &t, &err), "%s", err.message);
    vocab_close(&v);
    CHECK(t);
    return t;
}

static void decode(const tokenizer *t, const int32_t *tokens, size_t n, bytes *out, size_t *control)
{
    *out = (bytes){.max = 1 << 20};
    *control = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *text = tokenizer_bytes(t, tokens[i], &len);
        CHECK(bytes_append(out, text, len) == CERIUM_OK);
        *control += tokenizer_is_control(t, tokens[i]);
    }
    CHECK(bytes_append(out, "", 1) == CERIUM_OK);
}

/* How often names of special tokens occur in text. */
static size_t count_names(const tokenizer *t, view text)
{
    size_t n = 0, at = 0, len = 0;
    while (tokenizer_find_special(t, text, &at, &len) >= 0) {
        text = (view){text.ptr + at + len, text.len - at - len};
        n++;
    }
    return n;
}

/* One conversation of the vectors; its strings are in text. */
typedef struct {
    cerium_message messages[MESSAGES_MAX];
    cerium_tool tools[TOOLS_MAX];
    size_t n, n_tools;
    json_t *definitions[TOOLS_MAX];
    char *schemas[TOOLS_MAX];
    char *lines[MESSAGES_MAX];
} conversation;

static void forget(conversation *c)
{
    for (size_t i = 0; i < c->n; i++) memory_free(c->lines[i]);
    for (size_t i = 0; i < c->n_tools; i++) {
        json_decref(c->definitions[i]);
        memory_release(c->schemas[i]);
    }
    *c = (conversation){0};
}

static void read_tool(conversation *c, const char *text)
{
    size_t i = c->n_tools++;
    CHECK(i < TOOLS_MAX);
    c->definitions[i] = json_loads(text, 0, NULL);
    CHECK(c->definitions[i]);
    json_t *parameters = json_object_get(c->definitions[i], "parameters");
    c->schemas[i] = json_dumps(parameters, JSON_ENCODE_ANY);
    c->tools[i] = (cerium_tool){
        .name = json_string_value(json_object_get(c->definitions[i], "name")),
        .description = json_string_value(json_object_get(c->definitions[i], "description")),
        .parameters = c->schemas[i]};
}

/* "role content", and for calls and results "role id name content". */
static void read_message(conversation *c, const char *line)
{
    CHECK(c->n < MESSAGES_MAX);
    char *role = memory_copy(line, strlen(line)), *rest = strchr(role, ' ');
    c->lines[c->n] = role;
    *rest++ = 0;
    cerium_message *m = &c->messages[c->n++];
    *m = (cerium_message){.role = role};
    if (strcmp(role, "call") == 0 || strcmp(role, "tool") == 0) {
        m->call_id = rest;
        rest = strchr(rest, ' ');
        *rest++ = 0;
        m->name = rest;
        rest = strchr(rest, ' ');
        *rest++ = 0;
    }
    m->content = unescape(rest);
}

static size_t count_in_talk(const tokenizer *t, const conversation *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += count_names(t, view_of(c->messages[i].content));
    return n;
}

static void check_talk(const tokenizer *t, const chat_form *form, const conversation *c,
                       const char *want)
{
    static int32_t tokens[TOKENS_MAX], again[TOKENS_MAX];
    size_t n_tokens = 0, n_again = 0, n_control, n_want = count_names(t, view_of(want));
    cerium_error err = {0};
    bytes got;
    const cerium_chat chat = {.messages = c->messages, .n_messages = c->n, .tools = c->tools,
                              .n_tools = c->n_tools};
    n_want -= count_in_talk(t, c);
    int status = chat_render(t, form, &chat, tokens, TOKENS_MAX, &n_tokens, &err);
    TEST_CHECK_THAT(status == CERIUM_OK, "%s", err.message);
    decode(t, tokens, n_tokens, &got, &n_control);
    TEST_CHECK_THAT(strcmp(got.ptr, want) == 0, "%s\n want %s\n got  %s", form->name, want,
                    got.ptr);
    TEST_CHECK_THAT(n_control == n_want, "%s: %zu control tokens, not %zu in %s", form->name,
                    n_control, n_want, want);
    bytes_free(&got);
    /* Too little room: returns the needed number, and fills the room. */
    status = chat_render(t, form, &chat, again, 3, &n_again, &err);
    TEST_CHECK(status == CERIUM_ERR_CAPACITY && n_again == n_tokens);
    TEST_CHECK(memcmp(again, tokens, 3 * sizeof *tokens) == 0);
    status = chat_render(t, form, &chat, NULL, 0, &n_again, NULL);
    TEST_CHECK(status == CERIUM_ERR_CAPACITY && n_again == n_tokens);
}

static void check_file(const char *path, size_t n_forms_want, size_t n_talks_min)
{
    FILE *f = fopen(path, "r");
    TEST_CHECK(f != NULL);
    if (!f) return;
    static char line[LINE_MAX], name[64], template[1024];
    conversation c = {0};
    size_t n_talks = 0, n_forms = 0;
    tokenizer *t = NULL;
    chat_form form = {0};
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *rest = strchr(line, ' ');
        if (line[0] == '#' || !rest) continue;
        *rest++ = 0;
        if (strcmp(line, "form") == 0) {
            snprintf(name, sizeof name, "%s", rest);
        } else if (strcmp(line, "template") == 0) {
            snprintf(template, sizeof template, "%s", unescape(rest));
        } else if (strcmp(line, "tokens") == 0) {
            tokenizer_close(&t);
            t = open_form(template, rest);
            form = chat_detect(t);
            const char *known = strcmp(name, "qwen2.5") == 0 ? "chatml" : name;
            TEST_CHECK_THAT(strcmp(form.name, known) == 0, "%s is not %s", form.name, name);
            n_forms++;
        } else if (strcmp(line, "define") == 0) {
            read_tool(&c, unescape(rest));
        } else if (strcmp(line, "want") == 0) {
            check_talk(t, &form, &c, unescape(rest));
            n_talks++;
            forget(&c);
        } else {
            rest[-1] = ' ';
            read_message(&c, line);
        }
    }
    fclose(f);
    tokenizer_close(&t);
    printf("  %zu conversations in %zu forms\n", n_talks, n_forms);
    TEST_CHECK(n_forms == n_forms_want && n_talks > n_talks_min);
}

static void test_templates(void)
{
    check_file("tests/unit/chat_vectors.txt", 15, 130);
}

static void test_makers(void)
{
    check_file("tests/unit/chat_oracles.txt", 5, 45);
}

/* ---- by hand ---- */

static void test_seams(void)
{
    /* Text from both sides of a seam is encoded together: "user\n" and "\nHi" share "\n\n". */
    static const char *const halves[] = {"\n", "\n"};
    static const char *const control[] = {"<|im_start|>", "<|im_end|>"};
    vocab_file v;
    cerium_error err;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, "qwen2", halves, 1, control, 2);
    TEST_CHECK(!vocab_tokenizer(&v, &t, &err));
    vocab_close(&v);
    chat_form form = chat_detect(t); /* by its tokens alone */
    TEST_CHECK(form.kind == CHAT_CHATML && form.default_system.len == 0);
    int32_t tokens[64];
    size_t n;
    static const int32_t want[] = {257, 'u', 's', 'e', 'r', 256, 'H', 'i', 258, '\n', 257,
                                   'a', 's', 's', 'i', 's', 't', 'a', 'n', 't', '\n'};
    cerium_message message = {.role = "user", .content = "\nHi"};
    TEST_CHECK(render(t, &form, &message, 1, tokens, 64, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == ARRAY_LEN(want) && memcmp(tokens, want, sizeof want) == 0);
    /* No messages: the assistant begins. */
    TEST_CHECK(render(t, &form, NULL, 0, tokens, 64, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == 11 && tokens[0] == 257);
    tokenizer_close(&t);
}

/* SentencePiece adds the space that a template writes out; there is one either way. */
static void test_spaces(void)
{
    vocab_file v;
    cerium_error err;
    tokenizer *t = NULL;
    static const char *const texts[] = {"<unk>", "<s>", "</s>", "[INST]", "[/INST]",
                                        "\xE2\x96\x81", "H", "i", "\xE2\x96\x81H"};
    enum { N = ARRAY_LEN(texts) };
    vocab_open(&v);
    vocab_string(&v, "tokenizer.ggml.model", VIEW("llama"));
    vocab_array(&v, "tokenizer.ggml.tokens", GGUF_STRING, N);
    for (int i = 0; i < N; i++) vocab_put_view(&v, view_of(texts[i]));
    vocab_array(&v, "tokenizer.ggml.scores", GGUF_INT32, N);
    for (int i = 0; i < N; i++) vocab_put_u32(&v, 0);
    vocab_array(&v, "tokenizer.ggml.token_type", GGUF_INT32, N);
    for (int i = 0; i < N; i++) vocab_put_u32(&v, i == 0 ? 2 : i < 5 ? 3 : 1);
    vocab_string(&v, "tokenizer.chat_template", VIEW("\"[INST] \" [AVAILABLE_TOOLS]"));
    TEST_CHECK(!vocab_tokenizer(&v, &t, &err));
    vocab_close(&v);
    chat_form form = chat_detect(t);
    TEST_CHECK(form.kind == CHAT_MISTRAL_V3);
    cerium_message talk[] = {{.role = "user", .content = "Hi"},
                             {.role = "assistant", .content = " Hi "},
                             {.role = "user", .content = "H"}};
    static const int32_t want[] = {1, 3, 8, 7, 4, 8, 7, 2, 3, 8, 4}; /* <s>[INST] Hi[/INST] ... */
    int32_t tokens[16];
    size_t n;
    TEST_CHECK(render(t, &form, talk, 3, tokens, 16, &n, &err) == CERIUM_OK);
    TEST_CHECK(n == ARRAY_LEN(want) && memcmp(tokens, want, sizeof want) == 0);
    tokenizer_close(&t);
}

static void test_refused(void)
{
    char names[] = "<s> </s>", other[] = "<s> </s>", template[] = "'[INST] '", none[] = "{{ x }}";
    cerium_error err = {0};
    cerium_message message = {.role = "wizard", .content = "Hi"};
    size_t n = 7;
    tokenizer *t = open_form(template, names);
    chat_form form = chat_detect(t);
    TEST_CHECK(render(t, &form, &message, 1, NULL, 0, &n, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(err.message, "\"wizard\" is unknown") != NULL && n == 7);
    tokenizer_close(&t);
    t = open_form(none, other);
    form = chat_detect(t);
    TEST_CHECK(form.kind == CHAT_NONE && form.name[0] == 0);
    message.role = "user";
    TEST_CHECK(render(t, &form, &message, 1, NULL, 0, &n, &err) == CERIUM_ERR_CAPACITY);
    tokenizer_close(&t);
}

static void test_out_of_memory(void)
{
    char names[] = "<s> </s>", template[] = "'[INST] '";
    tokenizer *t = open_form(template, names);
    chat_form form = chat_detect(t);
    cerium_message talk[] = {{.role = "system", .content = "Be brief."},
                             {.role = "user", .content = "Hi"},
                             {.role = "assistant", .content = "Hi"}};
    int status = CERIUM_ERR_MEMORY;
    long live = memory_live(), n = 0;
    for (; status && n < 100; n++) {
        int32_t tokens[64];
        size_t n_tokens = 0;
        cerium_error err;
        memory_fail_at(n);
        status = render(t, &form, talk, 3, tokens, 64, &n_tokens, &err);
        memory_fail_at(-1);
        TEST_CHECK(status == CERIUM_OK || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK(status == CERIUM_OK && n > 2);
    tokenizer_close(&t);
}

int main(void)
{
    TEST_RUN(test_templates);
    TEST_RUN(test_makers);
    TEST_RUN(test_seams);
    TEST_RUN(test_spaces);
    TEST_RUN(test_refused);
    TEST_RUN(test_out_of_memory);
    return unit_report("chat");
}
