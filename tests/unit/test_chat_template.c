/* test_chat_template.c - a model's own template as its chat form: rendering, continuing,
 * refusing, and the family that replaces it. */
#include "base/memory.h"
#include "tokenizer/chat.h"

#include "unit.h"
#include "vocab_file.h"

enum { TOKENS_MAX = 8192, TEXT_MAX = 32768 };

static tokenizer *open_template(view source, const char *const *names, size_t n)
{
    vocab_file v;
    cerium_error err;
    tokenizer *t = NULL;
    vocab_open(&v);
    vocab_bytes_model(&v, "gpt-2", NULL, 0, names, n);
    vocab_string(&v, "tokenizer.chat_template", source);
    vocab_u32(&v, "tokenizer.ggml.bos_token_id", 256);
    vocab_u32(&v, "tokenizer.ggml.eos_token_id", 257);
    CHECK(!vocab_tokenizer(&v, &t, &err));
    vocab_close(&v);
    return t;
}

static view read_file(const char *path, char *text)
{
    FILE *f = fopen(path, "r");
    CHECK(f);
    size_t n = fread(text, 1, TEXT_MAX, f);
    fclose(f);
    return (view){text, n};
}

/* Tokens as text, those that are control in brackets. */
static const char *show(const tokenizer *t, const int32_t *tokens, size_t n)
{
    static char text[TEXT_MAX];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *part = tokenizer_bytes(t, tokens[i], &len);
        at += (size_t)snprintf(text + at, sizeof text - at,
                               tokenizer_is_control(t, tokens[i]) ? "{%.*s}" : "%.*s", (int)len,
                               part);
    }
    text[at] = 0;
    return text;
}

static size_t tokens_of(const tokenizer *t, const chat_form *form, const cerium_chat *chat,
                        int32_t *tokens)
{
    cerium_error err = {0};
    size_t n = 0;
    int status = chat_render(t, form, chat, tokens, TOKENS_MAX, &n, &err);
    TEST_CHECK_THAT(!status, "%s", err.message);
    return status ? 0 : n;
}

static void check_text(const tokenizer *t, const chat_form *form, const cerium_message *list,
                       size_t n, const char *variables, const char *want)
{
    static int32_t tokens[TOKENS_MAX];
    const cerium_chat chat = {.messages = list, .n_messages = n, .variables = variables};
    const char *text = show(t, tokens, tokens_of(t, form, &chat, tokens));
    TEST_CHECK_THAT(!strcmp(text, want), "want %s\n    have %s", want, text);
}

#define BAR "\xEF\xBD\x9C"
#define BEGIN "<" BAR "begin\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">"
#define END "<" BAR "end\xE2\x96\x81of\xE2\x96\x81sentence" BAR ">"
#define ASKS "<" BAR "User" BAR ">"
#define SAYS "<" BAR "Assistant" BAR ">"

static void test_deepseek(void)
{
    static char source[TEXT_MAX];
    static const char *const names[] = {BEGIN, END, ASKS, SAYS};
    static const cerium_message talk[] = {
        {.role = "system", .content = "Be brief."},
        {.role = "user", .content = "Hi " SAYS},
        {.role = "assistant", .content = "<think>\nhm\n</think>\n\nHello."},
        {.role = "user", .content = "Why?"}};
    tokenizer *t = open_template(
        read_file("tests/template/deepseek-r1-distill-qwen-7b.jinja", source), names, 4);
    chat_form form;
    cerium_error err;
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    TEST_CHECK_THAT(form.runs && !strcmp(form.name, "template"), "%s", form.name);
    TEST_CHECK(!form.refusal && chat_end_token(&form) == 257);
    check_text(t, &form, talk + 3, 1, NULL, "{" BEGIN "}{" ASKS "}Why?{" SAYS "}");
    check_text(t, &form, talk, 4, NULL,
               "{" BEGIN "}Be brief.{" ASKS "}Hi " SAYS "{" SAYS "}\n\nHello.{" END "}{" ASKS
               "}Why?{" SAYS "}");
    chat_form_close(&form);
    tokenizer_close(&t);
}

static const char *const chatml_names[] = {"<|endoftext|>", "<|im_end|>", "<|im_start|>"};

static void test_default_system(void)
{
    static char source[TEXT_MAX];
    static const cerium_message talk[] = {{.role = "user", .content = "Who are you?"},
                                          {.role = "assistant", .content = "I."},
                                          {.role = "user", .content = "Who?"}};
    tokenizer *t = open_template(read_file("tests/template/smollm2-default-system.jinja", source),
                                 chatml_names, 3);
    chat_form form;
    cerium_error err;
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    check_text(t, &form, talk, 1, NULL,
               "{<|im_start|>}system\nYou are a helpful AI assistant{<|im_end|>}\n"
               "{<|im_start|>}user\nWho are you?{<|im_end|>}\n"
               "{<|im_start|>}assistant\n");
    chat_form_close(&form);
    tokenizer_close(&t);
}

/* A template of ours with every difficulty of incremental rendering: thoughts that a later
 * question drops, an opened thought, calls, results in a turn. */
static const char thinker[] =
    "{%- for m in messages %}\n"
    "{%- if m.role == 'system' %}{{- '<|im_start|>sys\\n' + m.content + '<|im_end|>\\n' }}\n"
    "{%- elif m.role == 'user' %}{{- '<|im_start|>you\\n' + m.content + '<|im_end|>\\n' }}\n"
    "{%- elif m.role == 'tool' %}{{- '<|im_start|>tool\\n' + m.content + '<|im_end|>\\n' }}\n"
    "{%- else %}{{- '<|im_start|>me\\n' }}\n"
    "{%- if m.reasoning_content and loop.last %}{{- '<think>' + m.reasoning_content + '</think>' }}"
    "{%- endif %}{{- m.content.split('</think>')[-1] }}\n"
    "{%- for c in m.tool_calls or [] %}{{- '<tool_call>\\n{\"name\": \"' + c.function.name + "
    "'\", \"arguments\": ' }}{{- c.function.arguments | tojson }}{{- '}\\n</tool_call>' }}"
    "{%- endfor %}{{- '<|im_end|>\\n' }}\n"
    "{%- endif %}{%- endfor %}\n"
    "{%- if tools %}{{- '<|im_start|>tools\\n' + tools | tojson + '<|im_end|>\\n' }}{% endif %}\n"
    "{%- if add_generation_prompt %}{{- '<|im_start|>me\\n' }}\n"
    "{%- if enable_thinking is defined and not enable_thinking %}{{- '<think></think>' }}"
    "{%- else %}{{- '<think>' }}{% endif %}{% endif %}";

static void test_goes_on(void)
{
    static int32_t whole[TOKENS_MAX], more[TOKENS_MAX], sampled[TOKENS_MAX];
    static const cerium_message first[] = {{.role = "system", .content = "S <|im_end|>"},
                                           {.role = "user", .content = "one"}};
    static const cerium_message next[] = {{.role = "user", .content = "two"}};
    static const cerium_message result[] = {
        {.role = "tool", .name = "f", .call_id = "c1", .content = "R"}};
    tokenizer *t = open_template(view_of(thinker), chatml_names, 3);
    chat_form form;
    cerium_error err;
    size_t n_sampled = 0;
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    TEST_CHECK_THAT(!strcmp(form.name, "template") && !strcmp(form.calls, "qwen3-open"), "%s %s",
                    form.name, form.calls ? form.calls : "-");
    cerium_chat chat = {.messages = first, .n_messages = 2};
    size_t n = tokens_of(t, &form, &chat, whole);
    const char *head = "{<|im_start|>}sys\nS <|im_end|>{<|im_end|>}\n{<|im_start|>}you\none"
                       "{<|im_end|>}\n{<|im_start|>}me\n<think>";
    TEST_CHECK_THAT(!strcmp(show(t, whole, n), head), "%s", show(t, whole, n));
    CHECK(!tokenizer_encode(t, VIEW("hm</think>ok<|im_end|>"), true, false, sampled, TOKENS_MAX,
                            &n_sampled, &err));
    for (int ended = 0; ended < 2; ended++) { /* with its end token and without */
        size_t n_turn = n_sampled - (size_t)!ended, all = n + n_turn;
        memcpy(whole + n, sampled, n_turn * sizeof *sampled);
        chat = (cerium_chat){.messages = next, .n_messages = 1, .continues = true, .after = whole,
                             .n_after = all};
        size_t n_more = tokens_of(t, &form, &chat, more);
        const char *want = ended ? "\n{<|im_start|>}you\ntwo{<|im_end|>}\n{<|im_start|>}me\n<think>"
                                 : "{<|im_end|>}\n{<|im_start|>}you\ntwo{<|im_end|>}\n"
                                   "{<|im_start|>}me\n<think>";
        TEST_CHECK_THAT(!strcmp(show(t, more, n_more), want), "%s", show(t, more, n_more));
        memcpy(whole + all, more, n_more * sizeof *more);
        /* Rendered again, with the turn as it was sampled: the same tokens. */
        const cerium_message again[] = {first[0], first[1], {.role = "assistant", .content = "",
                                        .tokens = sampled, .n_tokens = n_turn}, next[0]};
        chat = (cerium_chat){.messages = again, .n_messages = 4};
        size_t n_again = tokens_of(t, &form, &chat, more);
        TEST_CHECK_THAT(n_again == all + n_more && !memcmp(more, whole, n_again * sizeof *more),
                        "%s", show(t, more, n_again));
        /* Results after a call. */
        chat = (cerium_chat){.messages = result, .n_messages = 1, .continues = true, .after = whole,
                             .n_after = all};
        n_more = tokens_of(t, &form, &chat, more);
        want = ended ? "\n{<|im_start|>}tool\nR{<|im_end|>}\n{<|im_start|>}me\n<think>"
                     : "{<|im_end|>}\n{<|im_start|>}tool\nR{<|im_end|>}\n{<|im_start|>}me\n<think>";
        TEST_CHECK_THAT(!strcmp(show(t, more, n_more), want), "%s", show(t, more, n_more));
    }
    check_text(t, &form, next, 1, "{\"enable_thinking\": false}",
               "{<|im_start|>}you\ntwo{<|im_end|>}\n{<|im_start|>}me\n<think></think>");
    chat_form_close(&form);
    tokenizer_close(&t);
}

/* Opened and then continued: the tokens of the whole. */
static void test_open(void)
{
    static int32_t whole[TOKENS_MAX], parts[TOKENS_MAX];
    static const cerium_message talk[] = {{.role = "system", .content = "S"},
                                          {.role = "user", .content = "one"},
                                          {.role = "assistant", .content = "ok"},
                                          {.role = "user", .content = "two"}};
    tokenizer *t = open_template(view_of(thinker), chatml_names, 3);
    chat_form form;
    cerium_error err;
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    cerium_chat chat = {.messages = talk, .n_messages = 4};
    size_t n = tokens_of(t, &form, &chat, whole);
    for (size_t cut = 1; cut < 4; cut++) {
        chat = (cerium_chat){.messages = talk, .n_messages = cut, .open = true};
        size_t n_parts = tokens_of(t, &form, &chat, parts), more = 0;
        chat = (cerium_chat){.messages = talk + cut, .n_messages = 4 - cut, .continues = true,
                             .after = parts, .n_after = n_parts};
        TEST_CHECK(!chat_render(t, &form, &chat, parts + n_parts, TOKENS_MAX - n_parts, &more,
                                &err));
        TEST_CHECK_THAT(n_parts + more == n && !memcmp(whole, parts, n * sizeof *whole),
                        "cut at %zu: %s", cut, show(t, parts, n_parts + more));
    }
    chat_form_close(&form);
    tokenizer_close(&t);
}

static void check_refusal(const char *source, const char *why)
{
    tokenizer *t = open_template(view_of(source), chatml_names, 3);
    chat_form form;
    cerium_error err = {0};
    size_t n = 0;
    const cerium_message m = {.role = "user", .content = "x"};
    const cerium_chat chat = {.messages = &m, .n_messages = 1};
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    TEST_CHECK_THAT(form.refusal && strstr(form.refusal, why), "%s", form.refusal);
    TEST_CHECK(form.name[0] == 0);
    TEST_CHECK(chat_render(t, &form, &chat, NULL, 0, &n, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(strstr(err.message, why) && strstr(err.message, "cannot be run"), "%s",
                    err.message);
    chat_form_close(&form);
    /* A family that is named explicitly is used. */
    TEST_CHECK(!chat_form_open(&form, t, "chatml", &err) && !strcmp(form.name, "chatml"));
    TEST_CHECK(chat_render(t, &form, &chat, NULL, 0, &n, &err) == CERIUM_ERR_CAPACITY);
    chat_form_close(&form);
    TEST_CHECK(chat_form_open(&form, t, "nothing", &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "\"nothing\" is unknown"), "%s", err.message);
    tokenizer_close(&t);
}

static void test_refusals(void)
{
    check_refusal("<|im_start|>\n{{ messages | from_yaml }}", "line 2: no filter named");
    check_refusal("{% for m in messages %}\n\n{% if %}", "line 3: expected an expression");
    check_refusal("\n{{ nothing.at_all }}", "line 2: 'nothing' is undefined");
    check_refusal("hello", "does not show what the user says");
    check_refusal("{% for i in range(1000000000) %}{% endfor %}", "line 1: the template takes too");
    check_refusal("{{ raise_exception('not\nhere') }}", "line 1: not here");
}

/* What a template lacks, or declares as unsupported. */
static void test_lacks(void)
{
    static int32_t tokens[TOKENS_MAX];
    static const char source[] =
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for m in messages %}"
        "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('must alternate') }}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}";
    static const cerium_message talk[] = {{.role = "system", .content = "Be brief."},
                                          {.role = "user", .content = "one"},
                                          {.role = "user", .content = "two"}};
    static const cerium_tool tool = {"f", "does", "{\"type\": \"object\"}"};
    tokenizer *t = open_template(view_of(source), chatml_names, 3);
    chat_form form;
    cerium_error err;
    size_t n = 0;
    TEST_CHECK(!chat_form_open(&form, t, NULL, &err));
    TEST_CHECK(form.runs && !strcmp(form.calls, "qwen3"));
    check_text(t, &form, talk, 2, NULL,
               "{<|im_start|>}user\nBe brief.\n\none{<|im_end|>}\n{<|im_start|>}model\n");
    cerium_chat chat = {.messages = talk + 1, .n_messages = 2};
    TEST_CHECK(chat_render(t, &form, &chat, NULL, 0, &n, &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(!strcmp(err.message, "the chat template says: must alternate"), "%s",
                    err.message);
    /* It shows no tools: cerium puts them into the system message. */
    chat = (cerium_chat){.messages = talk, .n_messages = 2, .tools = &tool, .n_tools = 1};
    const char *text = show(t, tokens, tokens_of(t, &form, &chat, tokens));
    TEST_CHECK_THAT(strstr(text, "Be brief.\n\n# Tools\n\nYou may call") &&
                    strstr(text, "<tools>\n{\"type\": \"function\", \"function\": {\"name\"") &&
                    strstr(text, "</tool_call>\n\none{<|im_end|>}"), "%s", text);
    chat = (cerium_chat){.messages = talk, .n_messages = 2, .variables = "[1]"};
    TEST_CHECK(chat_render(t, &form, &chat, NULL, 0, &n, &err) == CERIUM_ERR_FORMAT);
    chat_form_close(&form);
    tokenizer_close(&t);
}

static const struct {
    const char *call, *want;
} ways[] = {
    {"<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}"
     "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}</arg_value>\n{% endfor %}</tool_call>\n",
     "{\"section\":\"\",\"open\":\"<tool_call>\",\"name_end\":\"\",\"key\":\"<arg_key>\","
     "\"key_end\":\"</arg_key>\\n<arg_value>\",\"json_key_end\":\"\",\"value_end\":\""
     "</arg_value>\","
     "\"end\":\"</tool_call>\",\"section_end\":\"\",\"opens_thought\":false}"},
    {"{% if loop.first %}<m:calls>\n{% endif %}<invoke name=\"{{ c.function.name }}\">\n"
     "{% for k, v in c.function.arguments.items() %}<p name=\"{{ k }}\">{{ v }}</p>\n"
     "{% endfor %}"
     "</invoke>\n{% if loop.last %}</m:calls>{% endif %}",
     "{\"section\":\"<m:calls>\",\"open\":\"<invoke name=\\\"\",\"name_end\":\"\\\">\","
     "\"key\":\"<p name=\\\"\",\"key_end\":\"\\\">\",\"json_key_end\":\"\",\"value_end\":"
     "\"</p>\","
     "\"end\":\"</invoke>\",\"section_end\":\"</m:calls>\",\"opens_thought\":false}"},
    {"{% for k, v in c.function.arguments.items() %}{% if loop.first %}<f n=\"{{ "
     "c.function.name }}\">{% endif %}<p n=\"{{ k }}\" text=\"{{ v is string }}\">{{ v | "
     "string "
     "if v is string else v | tojson }}</p>{% endfor %}</f>",
     "{\"section\":\"\",\"open\":\"<f n=\\\"\",\"name_end\":\"\\\">\",\"key\":\"<p n=\\\"\","
     "\"key_end\":\"\\\" text=\\\"True\\\">\",\"json_key_end\":\"\\\" text=\\\"False\\\">\","
     "\"value_end\":\"</p>\",\"end\":\"</f>\",\"section_end\":\"\",\"opens_thought\":false}"},
    {"{{ '<|calls|>' if loop.first }}<|call|>functions.{{ c.function.name }}:{{ loop.index0 }}"
     "<|args|>{{ c.function.arguments | tojson }}<|end|>{{ '<|ends|>' if loop.last }}",
     "{\"json\":true,\"section\":\"<|calls|>\",\"open\":\"<|call|>functions.\","
     "\"name_end\":\":\\u0001<|args|>\",\"end\":\"<|end|>\",\"between\":\"\","
     "\"section_end\":\"<|ends|>\",\"opens_thought\":false}"},
    {"{{ '<calls>[' if loop.first }}{\"id\": \"{{ c.id }}\", \"name\": \"{{ "
     "c.function.name }}\","
     " \"arguments\": {{ c.function.arguments | tojson }}}"
     "{{ ']</calls>' if loop.last else ', ' }}",
     "{\"json\":true,\"section\":\"<calls>[\",\"open\":\"{\\\"id\\\": \\\"\\u0001\\\", "
     "\\\"name\\\": \\\"\",\"name_end\":\"\\\", \\\"arguments\\\": \",\"end\":\"}\","
     "\"between\":\", \",\"section_end\":\"]</calls>\",\"opens_thought\":false}"},
    {"{% if loop.first %}<call>{\"{{ c.function.name }}\": {{ c.function.arguments | tojson }}}"
     "{% endif %}",
     "{\"json\":true,\"section\":\"\",\"open\":\"<call>{\\\"\",\"name_end\":\"\\\": \","
     "\"end\":\"}\",\"between\":\"\",\"section_end\":\"\",\"opens_thought\":false}"},
    {"{{ c.function.name }}:{{ c.function.arguments | tojson }}", "none"},
    {"call {{ c.function.name }}:{{ c.function.arguments | tojson }};", "none"},
    {"<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
     "{{ c.function.arguments | tojson }}}\n</tool_call>\n", "qwen3"},
    {"[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}",
     "mistral-v7-tekken"},
    {"<call {{ c.function.name }}>{% for k, v in c.function.arguments.items() %}"
     "<{{ k }}>{{ v }}"
     "</{{ k }}>{% endfor %}</call>", "none"},
    {"{{ c.function.name }}({{ c.function.arguments | string }})", "none"},
};

/* How a template writes calls, and the fallback if that cannot be found out. */
static void test_calls(void)
{
    static const char head[] = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
                               "{% for c in m.tool_calls or [] %}";
    static const char tail[] = "{% endfor %}<|im_end|>\n{% endfor %}{{ tools | tojson }}"
                               "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    static const cerium_tool tool = {"f", "does", "{\"type\": \"object\"}"};
    static const cerium_message m = {.role = "user", .content = "x"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        char source[2048];
        chat_form form;
        cerium_error err;
        size_t n = 0;
        int len = snprintf(source, sizeof source, "%s%s%s", head, ways[i].call, tail);
        tokenizer *t = open_template((view){source, (size_t)len}, chatml_names, 3);
        TEST_CHECK(!chat_form_open(&form, t, NULL, &err) && form.calls);
        TEST_CHECK_THAT(!strcmp(form.calls, ways[i].want), "want %s\n    have %s", ways[i].want,
                        form.calls);
        const cerium_chat chat = {.messages = &m, .n_messages = 1, .tools = &tool, .n_tools = 1};
        int status = chat_render(t, &form, &chat, NULL, 0, &n, &err);
        bool refused = !strcmp(ways[i].want, "none");
        TEST_CHECK(status == (refused ? CERIUM_ERR_FORMAT : CERIUM_ERR_CAPACITY));
        TEST_CHECK(!refused || strstr(err.message, "cannot read"));
        chat_form_close(&form);
        tokenizer_close(&t);
    }
}

static void test_out_of_memory(void)
{
    static const cerium_message talk[] = {
        {.role = "system", .content = "S"}, {.role = "user", .content = "one"},
        {.role = "reasoning", .content = "a"}, {.role = "reasoning", .content = "b"},
        {.role = "call", .name = "f", .call_id = "1", .content = "{\"a\": 1}"},
        {.role = "tool", .call_id = "1", .content = "R"}};
    static const cerium_tool tool = {"f", "does", "{\"type\": \"object\"}"};
    tokenizer *t = open_template(view_of(thinker), chatml_names, 3);
    chat_form form;
    cerium_error err;
    long live = memory_live(), n = 0;
    int status = CERIUM_ERR_MEMORY;
    for (; status && n < 20000; n++) {
        memory_fail_at(n);
        status = chat_form_open(&form, t, NULL, &err);
        memory_fail_at(-1);
        TEST_CHECK(!status || (status == CERIUM_ERR_MEMORY && memory_live() == live));
    }
    TEST_CHECK_THAT(!status && !strcmp(form.name, "template"), "%ld", n);
    const cerium_chat chat = {.messages = talk, .n_messages = ARRAY_LEN(talk), .tools = &tool,
                              .n_tools = 1};
    live = memory_live();
    status = CERIUM_ERR_MEMORY;
    for (n = 0; status && n < 20000; n++) {
        static int32_t tokens[TOKENS_MAX];
        size_t n_tokens = 0;
        memory_fail_at(n);
        status = chat_render(t, &form, &chat, tokens, TOKENS_MAX, &n_tokens, &err);
        memory_fail_at(-1);
        TEST_CHECK(!status || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(memory_live() == live);
    }
    TEST_CHECK_THAT(!status, "%s", err.message);
    chat_form_close(&form);
    tokenizer_close(&t);
}

int main(void)
{
    TEST_RUN(test_deepseek);
    TEST_RUN(test_default_system);
    TEST_RUN(test_goes_on);
    TEST_RUN(test_open);
    TEST_RUN(test_refusals);
    TEST_RUN(test_lacks);
    TEST_RUN(test_calls);
    TEST_RUN(test_out_of_memory);
    return unit_report("chat_template");
}
