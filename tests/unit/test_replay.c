/* test_replay.c - scripts are read or refused with their line; requests get the line they match. */
#include "server/replay.h"

#include "base/limits.h"

#include "unit.h"

static cerium_error err;

static replay *parsed(const char *script)
{
    replay *r = NULL;
    TEST_CHECK_THAT(replay_parse(&r, view_of(script), "s.jsonl", &err) == CERIUM_OK, "%s",
                    err.message);
    return r;
}

static bool refused(const char *script, const char *text)
{
    replay *r = NULL;
    bool right = replay_parse(&r, view_of(script), "s.jsonl", &err) == CERIUM_ERR_FORMAT && !r &&
                 strstr(err.message, text);
    if (!right) printf("    %s\n    gives: %s\n", script, err.message);
    replay_free(&r);
    return right;
}

/* A chat with one message; NULL for none. */
static protocol_request chat(cerium_message *messages, const char *role, const char *content)
{
    messages[0] = (cerium_message){.role = "system", .content = "be brief"};
    messages[1] = (cerium_message){.role = role ? role : "assistant", .content = content};
    messages[2] = (cerium_message){.role = "assistant", .content = "list the files"};
    return (protocol_request){.api = PROTOCOL_CHAT, .messages = messages, .n_messages = 3,
                              .new_tokens_max = UINT32_MAX};
}

static bool gives(replay *r, const protocol_request *request, const char *want)
{
    view output = {"", 0};
    json_t *corrected = NULL;
    bool taken = replay_take(r, request, &output, &corrected);
    bool right = want ? taken && view_equal(output, view_of(want)) : !taken;
    if (!right)
        printf("    got %s\"%.*s\"\n", taken ? "" : "nothing ", (int)output.len, output.ptr);
    return right;
}

static void test_refused(void)
{
    TEST_CHECK(refused("{\"output\":\"a\"}\n\n{\"output\":", "s.jsonl:3: not JSON"));
    TEST_CHECK(refused("{\"output\":\"a\"} 5", "s.jsonl:1: not JSON"));
    TEST_CHECK(refused("[]", "s.jsonl:1: must be a JSON object"));
    TEST_CHECK(refused("{}", "\"output\" is missing"));
    TEST_CHECK(refused("{\"output\":5}", "\"output\" must be a string"));
    TEST_CHECK(refused("{\"output\":\"\",\"corrected\":\"x\"}", "\"corrected\" must be an array"));
    TEST_CHECK(refused("{\"output\":\"\",\"corrected\":[1]}", "\"corrected\" must be an array"));
    TEST_CHECK(refused("{\"output\":\"\",\"repeat\":1}", "\"repeat\" must be true or false"));
    TEST_CHECK(refused("{\"output\":\"\",\"outptu\":\"\"}", "a line has no \"outptu\""));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":\"x\"}", "\"when\" must be an object"));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"lats\":\"x\"}}", "\"when\" has no \"lats\""));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"last\":1}}", "\"when.last\" must be a"));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"role\":\"developer\"}}", "user or tool"));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"api\":\"chatt\"}}", "\"when.api\" must be"));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"nth\":0}}", "1 or more"));
    TEST_CHECK(refused("{\"output\":\"\",\"when\":{\"nth\":1.5}}", "1 or more"));
    TEST_CHECK(refused("{\"output\":\"\",\"output\":\"\"}", "duplicate"));
    TEST_CHECK(refused("{\"output\":\"\xff\"}", "s.jsonl:1: not JSON"));
}

static void test_in_order_and_once(void)
{
    cerium_message messages[3];
    protocol_request hello = chat(messages, "user", "please list the files here");
    replay *r = parsed("{\"when\":{\"last\":\"list the files\"},\"output\":\"one\"}\r\n"
                       "\n"
                       "{\"when\":{\"last\":\"other\"},\"output\":\"never\"}\n"
                       "{\"output\":\"two\"}\n"
                       "{\"output\":\"always\",\"repeat\":true}\n"
                       "{\"output\":\"hidden\"}");
    TEST_CHECK(replay_lines(r) == 5);
    TEST_CHECK(gives(r, &hello, "one") && gives(r, &hello, "two"));
    TEST_CHECK(gives(r, &hello, "always") && gives(r, &hello, "always"));
    replay_free(&r);
    r = parsed("{\"output\":\"\"}");
    TEST_CHECK(gives(r, &hello, "") && gives(r, &hello, NULL));
    replay_free(&r);
    r = parsed(" \n\n");
    TEST_CHECK(replay_lines(r) == 0 && gives(r, &hello, NULL));
    replay_free(&r);
}

static void test_conditions(void)
{
    cerium_message messages[3];
    cerium_tool tools[] = {{.name = "exec_command"}, {.name = "ns__look"}};
    protocol_request request = chat(messages, "tool", "exit code 0");
    request.tools = tools;
    request.n_tools = 2;
    request.model = "cerium-line";
    replay *r = parsed("{\"when\":{\"last\":\"exit code\",\"role\":\"user\"},\"output\":\"1\"}\n"
                       "{\"when\":{\"last\":\"be brief\"},\"output\":\"2\"}\n"
                       "{\"when\":{\"last\":\"list the files\"},\"output\":\"3\"}\n"
                       "{\"when\":{\"has_tool\":\"look\"},\"output\":\"4\"}\n"
                       "{\"when\":{\"model\":\"other\"},\"output\":\"5\"}\n"
                       "{\"when\":{\"api\":\"responses\"},\"output\":\"6\"}\n"
                       "{\"when\":{\"has_tool\":\"ns__look\",\"model\":\"cerium-line\","
                       "\"role\":\"tool\",\"last\":\"code 0\",\"api\":\"chat\"},\"output\":\"7\"}");
    TEST_CHECK(gives(r, &request, "7") && gives(r, &request, NULL));
    replay_free(&r);
    /* There is no message. */
    request = chat(messages, NULL, "hello");
    r = parsed("{\"when\":{\"last\":\"\"},\"output\":\"1\"}\n"
               "{\"when\":{\"role\":\"user\"},\"output\":\"2\"}\n"
               "{\"when\":{\"model\":\"\"},\"output\":\"3\"}");
    TEST_CHECK(gives(r, &request, NULL));
    replay_free(&r);
}

static void test_nth(void)
{
    cerium_message messages[3];
    protocol_request a = chat(messages, "user", "go on");
    replay *r = parsed("{\"when\":{\"nth\":2,\"last\":\"go\"},\"output\":\"second\"}\n"
                       "{\"when\":{\"nth\":4},\"output\":\"fourth\"}\n"
                       "{\"output\":\"else\",\"repeat\":true}");
    TEST_CHECK(gives(r, &a, "else") && gives(r, &a, "second") && gives(r, &a, "else"));
    TEST_CHECK(gives(r, &a, "fourth") && gives(r, &a, "else"));
    replay_free(&r);
}

static void test_other_requests(void)
{
    cerium_message messages[3];
    const char *prompts[] = {"int add(int a\0, int b)"};
    size_t lens[] = {21};
    protocol_request completion = {.api = PROTOCOL_COMPLETIONS, .prompts = prompts, .n_prompts = 1,
                                   .prompt_lens = lens, .new_tokens_max = 16};
    protocol_request infill = {.api = PROTOCOL_INFILL, .fill_in = true, .new_tokens_max = 16,
                               .infill = {.prefix = "static int b;", .prefix_len = 13}};
    protocol_request warm_up = chat(messages, "user", "int b");
    warm_up.warm_up = true;
    replay *r = parsed("{\"when\":{\"last\":\"int b\",\"api\":\"infill\"},\"output\":\"i\"}\n"
                       "{\"when\":{\"last\":\"int b\"},\"output\":\"c\"}");
    TEST_CHECK(gives(r, &warm_up, NULL));
    TEST_CHECK(gives(r, &completion, "c"));
    TEST_CHECK(gives(r, &infill, "i") && gives(r, &infill, NULL));
    replay_free(&r);
}

static void test_limits_and_memory(void)
{
    replay *r = NULL;
    static char lines[REPLAY_LINES_MAX + 1];
    memset(lines, '\n', sizeof lines);
    TEST_CHECK(replay_parse(&r, (view){lines, sizeof lines}, "s", &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK(replay_parse(&r, (view){lines, (size_t)REPLAY_BYTES_MAX + 1}, "s", &err) ==
               CERIUM_ERR_CAPACITY);
    long live = memory_live();
    int status = CERIUM_ERR_MEMORY;
    for (long n = 0; status && n < 10; n++) {
        memory_fail_at(n);
        status = replay_parse(&r, VIEW("{\"output\":\"x\"}"), "s", &err);
        memory_fail_at(-1);
        TEST_CHECK(!status || (status == CERIUM_ERR_MEMORY && memory_live() == live && n < 2));
    }
    TEST_CHECK(!status);
    replay_free(&r);
    TEST_CHECK(memory_live() == live);
    TEST_CHECK(replay_open(&r, "/nowhere.jsonl", &err) == CERIUM_ERR_IO &&
               strstr(err.message, "/nowhere.jsonl"));
    TEST_CHECK(replay_open(&r, "/", &err) == CERIUM_ERR_IO);
    TEST_CHECK(replay_open(&r, "/dev/zero", &err) == CERIUM_ERR_CAPACITY && !r);
    TEST_CHECK(replay_open(&r, "/dev/null", &err) == CERIUM_OK && replay_lines(r) == 0);
    replay_free(&r);
}

int main(void)
{
    TEST_RUN(test_refused);
    TEST_RUN(test_in_order_and_once);
    TEST_RUN(test_conditions);
    TEST_RUN(test_nth);
    TEST_RUN(test_other_requests);
    TEST_RUN(test_limits_and_memory);
    return unit_report("replay");
}
