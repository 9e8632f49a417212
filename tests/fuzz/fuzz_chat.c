/* fuzz_chat.c - any conversation in any form: for any content the control tokens are those of
 * the form, the count is the size, and it can be continued.  The first byte chooses the
 * form; then, separated by newlines, a letter for the role (s, u, a, d, r, c, t; S a sampled turn;
 * F a tool that takes text, J one with this schema) and the content; in form 0 the rest is a chat
 * template. */
#include "base/memory.h"
#include "tokenizer/chat.h"

#include "../unit/vocab_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGES_MAX = 16, TOOLS_MAX = 4, SAMPLED_MAX = 64 };

static const char *const control[] = {
    "<s>",     "</s>",          "<|im_start|>",    "<|im_end|>",        "<|start_header_id|>",
    "[INST]",  "<|eot_id|>",    "[/INST]",         "<|end_header_id|>", "[SYSTEM_PROMPT]",
    "<|EOT|>", "<|endoftext|>", "[/SYSTEM_PROMPT]", "<|start|>",        "<|message|>",
    "<|end|>", "<|channel|>",   "<|call|>",        "[TOOL_CALLS]",      "[ARGS]"};

static tokenizer *open_template(view text)
{
    vocab_file v;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, "qwen2", NULL, 0, control, ARRAY_LEN(control));
    vocab_string(&v, "tokenizer.chat_template", text);
    CHECK(!vocab_tokenizer(&v, &t, NULL));
    vocab_close(&v);
    return t;
}

typedef struct {
    cerium_message messages[MESSAGES_MAX];
    cerium_tool tools[TOOLS_MAX];
    size_t n, n_tools;
    int32_t sampled[SAMPLED_MAX]; /* of all sampled turns */
    size_t n_sampled;
} conversation;

/* Tokens of a conversation, owned; 0 and NULL when it is refused. */
static size_t render(const tokenizer *t, const chat_form *form, const cerium_chat *chat,
                     int32_t **tokens)
{
    size_t n = 0, n_again = 0;
    *tokens = NULL;
    int status = chat_render(t, form, chat, NULL, 0, &n, NULL);
    CHECK(status == CERIUM_ERR_CAPACITY || status == CERIUM_ERR_FORMAT || n == 0);
    if (status != CERIUM_ERR_CAPACITY) return 0;
    *tokens = memory_alloc(n * sizeof **tokens);
    CHECK(*tokens && !chat_render(t, form, chat, *tokens, n, &n_again, NULL) && n_again == n);
    return n;
}

static size_t count_control(const tokenizer *t, const chat_form *form, const conversation *c)
{
    const cerium_chat chat = {.messages = c->messages, .n_messages = c->n, .tools = c->tools,
                              .n_tools = c->n_tools};
    int32_t *tokens;
    size_t n = render(t, form, &chat, &tokens), n_control = 0;
    for (size_t i = 0; i < n; i++) n_control += tokenizer_is_control(t, tokens[i]);
    memory_free(tokens);
    return n_control;
}

/* The same in two parts: after any end of the first, the second continues it. */
static void go_on(const tokenizer *t, const chat_form *form, const conversation *c, size_t split)
{
    cerium_chat chat = {.messages = c->messages, .n_messages = split, .tools = c->tools,
                        .n_tools = c->n_tools, .open = split % 2};
    int32_t *first, *second;
    chat.n_after = render(t, form, &chat, &first);
    chat.messages += split;
    chat.n_messages = c->n - split;
    chat.continues = true;
    chat.open = false;
    chat.after = first;
    render(t, form, &chat, &second);
    memory_free(first);
    memory_free(second);
}

static void add_sampled(conversation *c, cerium_message *m, const char *text)
{
    m->tokens = c->sampled + c->n_sampled;
    for (; *text && c->n_sampled < SAMPLED_MAX; text++, m->n_tokens++) {
        unsigned char byte = (unsigned char)*text; /* high ones are control tokens */
        c->sampled[c->n_sampled++] = byte < 128 ? byte : 256 + byte % (int)ARRAY_LEN(control);
    }
}

static void add_line(conversation *c, char *line)
{
    static const char letters[] = "sadrctSu";
    static const char *const roles[] = {"system", "assistant", "developer", "reasoning",
                                        "call",   "tool",      "assistant", "user"};
    const char *words = line[0] ? line + 1 : line;
    if ((line[0] == 'F' || line[0] == 'J') && c->n_tools < TOOLS_MAX) {
        c->tools[c->n_tools++] = (cerium_tool){
            .name = line[0] == 'F' ? "text" : "json", .description = words,
            .parameters = line[0] == 'J' ? words : NULL};
        return;
    }
    const char *letter = line[0] ? strchr(letters, line[0]) : NULL;
    cerium_message *m = &c->messages[c->n++];
    *m = (cerium_message){.role = roles[letter ? letter - letters : 7], .content = words};
    if (line[0] == 'c') m->name = words[0] == '{' ? "json" : "text";
    if (line[0] == 'S') add_sampled(c, m, words);
}

static void read_talk(char *text, conversation *c)
{
    for (char *line = text; line && c->n < MESSAGES_MAX;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        add_line(c, line);
        line = end ? end + 1 : NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tokenizer *plain;
    if (size < 1) return 0;
    if (!plain) plain = open_template(VIEW("none"));
    tokenizer *t = plain;
    chat_form form = {.kind = (chat_kind)(data[0] % CHAT_KINDS), .name = "fuzz"};
    char *text = memory_copy(data + 1, size - 1);
    CHECK(text);
    if (form.kind == CHAT_NONE) {
        t = open_template((view){text, size - 1});
        form = chat_detect(t);
    }
    static conversation words, other;
    words = (conversation){.n = 0};
    read_talk(text, &words);
    other = words;
    for (size_t i = 0; i < words.n; i++)
        if (words.messages[i].content[0]) other.messages[i].content = "x";
    CHECK(count_control(t, &form, &words) == count_control(t, &form, &other));
    go_on(t, &form, &words, words.n / 2);
    if (t != plain) tokenizer_close(&t);
    memory_free(text);
    return 0;
}
