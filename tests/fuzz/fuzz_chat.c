/* fuzz_chat.c - any conversation in any form: whatever is said, the control tokens are those of
 * the form, and what fits is what was counted.  The first byte chooses the form; then, separated
 * by newlines, a letter for the role (s, u, a, d) and what is said; in form 0 the rest is a chat
 * template. */
#include "base/memory.h"
#include "tokenizer/chat.h"

#include "../unit/vocab_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGES_MAX = 16 };

static const char *const control[] = {
    "<s>",     "</s>",          "<|im_start|>",    "<|im_end|>",        "<|start_header_id|>",
    "[INST]",  "<|eot_id|>",    "[/INST]",         "<|end_header_id|>", "[SYSTEM_PROMPT]",
    "<|EOT|>", "<|endoftext|>", "[/SYSTEM_PROMPT]", "<|start|>",        "<|message|>",
    "<|end|>", "<|channel|>"};

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

static size_t count_control(const tokenizer *t, const chat_form *form, const cerium_message *list,
                            size_t n)
{
    size_t n_tokens = 0, n_again = 0, n_control = 0;
    if (chat_render(t, form, list, n, NULL, 0, &n_tokens, NULL) != CERIUM_ERR_CAPACITY) return 0;
    int32_t *tokens = memory_alloc(n_tokens * sizeof *tokens);
    CHECK(tokens && !chat_render(t, form, list, n, tokens, n_tokens, &n_again, NULL));
    CHECK(n_again == n_tokens);
    for (size_t i = 0; i < n_tokens; i++) n_control += tokenizer_is_control(t, tokens[i]);
    memory_free(tokens);
    return n_control;
}

static size_t read_talk(char *text, cerium_message *list)
{
    size_t n = 0;
    for (char *line = text; line && n < MESSAGES_MAX;) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        const char *role = line[0] == 's'   ? "system"
                           : line[0] == 'a' ? "assistant"
                           : line[0] == 'd' ? "developer"
                                            : "user";
        list[n++] = (cerium_message){.role = role, .content = line[0] ? line + 1 : line};
        line = end ? end + 1 : NULL;
    }
    return n;
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
    cerium_message said[MESSAGES_MAX], other[MESSAGES_MAX];
    size_t n = read_talk(text, said);
    for (size_t i = 0; i < n; i++) other[i] = (cerium_message){said[i].role, "x"};
    CHECK(count_control(t, &form, said, n) == count_control(t, &form, other, n));
    if (t != plain) tokenizer_close(&t);
    memory_free(text);
    return 0;
}
