/* forms.c - prints the chat form of models with given templates, for the scripts of this folder: a
 * JSON object per line is read, {"template": ..., "tokens": [names of special tokens]}, and one
 * written: {"form": ..., "calls": ..., "refusal": ...}; with "messages" also "text", the
 * conversation as the names of its tokens; with "answer" also "read", the calls that the reader of
 * that form finds in it: [name, arguments, name, arguments, ...]. */
#include <jansson.h>

#include "base/memory.h"
#include "tokenizer/chat.h"
#include "../unit/vocab_file.h"

enum { NAMES_MAX = 512, MESSAGES_MAX = 64, TOKENS_MAX = 1 << 16 };

static tokenizer *open_vocabulary(const json_t *in)
{
    const char *names[NAMES_MAX];
    const json_t *list = json_object_get(in, "tokens");
    size_t n = json_array_size(list);
    vocab_file v;
    tokenizer *t = NULL;
    cerium_error err;
    CHECK(n >= 2 && n <= NAMES_MAX);
    for (size_t i = 0; i < n; i++) names[i] = json_string_value(json_array_get(list, i));
    vocab_open(&v);
    vocab_bytes_model(&v, "gpt-2", NULL, 0, names, n);
    vocab_string(&v, "tokenizer.chat_template",
                 view_of(json_string_value(json_object_get(in, "template"))));
    vocab_u32(&v, "tokenizer.ggml.bos_token_id", 256);
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", 257);
    CHECK(!vocab_tokenizer(&v, &t, &err));
    vocab_close(&v);
    return t;
}

static const char *text_of(const json_t *m, const char *key)
{
    return json_string_value(json_object_get(m, key));
}

static void render(const tokenizer *t, const chat_form *form, const json_t *in, json_t *out)
{
    static int32_t tokens[TOKENS_MAX];
    cerium_message messages[MESSAGES_MAX];
    const json_t *list = json_object_get(in, "messages");
    cerium_error err;
    size_t n = json_array_size(list), n_tokens = 0;
    CHECK(n <= MESSAGES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(list, i);
        messages[i] = (cerium_message){.role = text_of(m, "role"), .content = text_of(m, "content"),
                                       .name = text_of(m, "name"), .call_id = text_of(m, "id")};
    }
    cerium_chat chat = {.messages = messages, .n_messages = n,
                        .variables = text_of(in, "variables")};
    int status = chat_render(t, form, &chat, tokens, TOKENS_MAX, &n_tokens, &err);
    if (status) {
        json_object_set_new(out, "error", json_string(err.message));
        return;
    }
    bytes text = {.max = SIZE_MAX};
    for (size_t i = 0; i < n_tokens; i++) {
        size_t len;
        const char *part = tokenizer_bytes(t, tokens[i], &len);
        CHECK(!bytes_append(&text, part, len));
    }
    json_object_set_new(out, "text", json_stringn_nocheck(text.ptr ? text.ptr : "", text.len));
    json_object_set_new(out, "n_tokens", json_integer((json_int_t)n_tokens));
    bytes_free(&text);
}

static int write_part(void *user, const cerium_part *part)
{
    json_t *list = user;
    const size_t n = json_array_size(list);
    if (part->kind == CERIUM_PART_CALL) {
        CHECK(!json_array_append_new(list, json_stringn(part->text, part->text_len)));
        CHECK(!json_array_append_new(list, json_string("")));
    }
    if (part->kind == CERIUM_PART_ARGUMENTS) {
        const json_t *last = json_array_get(list, n - 1);
        CHECK(!json_array_set_new(list, n - 1,
                                  json_sprintf("%s%.*s", json_string_value(last),
                                               (int)part->text_len, part->text)));
    }
    return CERIUM_OK;
}

static json_t *read_calls(const char *form, view answer)
{
    static const cerium_tool tools[] = {
        {"get_weather", NULL, "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
                              "\"days\":{\"type\":\"integer\"},\"unit\":{\"type\":\"string\"},"
                              "\"where\":{\"type\":\"object\"}}}"},
        {"now", NULL, "{\"type\":\"object\"}"}};
    json_t *list = json_array();
    cerium_reader *r = NULL;
    CHECK(!cerium_reader_open(&r, form, tools, ARRAY_LEN(tools), NULL));
    CHECK(!cerium_reader_feed(r, answer.ptr, answer.len, write_part, list));
    CHECK(!cerium_reader_end(r, true, write_part, list));
    cerium_reader_close(&r);
    return list;
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        json_t *in = json_loadb(line, (size_t)n, 0, NULL);
        CHECK(in);
        tokenizer *t = open_vocabulary(in);
        chat_form form;
        cerium_error err;
        int status = chat_form_open(&form, t, text_of(in, "wanted"), &err);
        CHECK(!status);
        json_t *out = json_pack("{s:s, s:s, s:s}", "form", form.name, "calls",
                                form.calls ? form.calls : form.name, "refusal",
                                form.refusal ? form.refusal : "");
        if (json_object_get(in, "answer"))
            json_object_set_new(out, "read", read_calls(form.calls ? form.calls : form.name,
                                                        view_of(text_of(in, "answer"))));
        if (json_object_get(in, "messages")) render(t, &form, in, out);
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(out);
        json_decref(in);
        chat_form_close(&form);
        tokenizer_close(&t);
    }
    memory_release(line);
    return 0;
}
