/* fuzz_replay.c - a replay script, and requests made from its own text.
 *
 * An accepted script gives each line at most once unless it repeats, and the same answers when
 * it is read again. */
#include "server/replay.h"

#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t answers(view script, uint32_t *n_lines)
{
    replay *r = NULL;
    cerium_error err = {0};
    uint64_t sum = 1;
    if (replay_parse(&r, script, "script", &err)) {
        CHECK(!r && err.message[0] && !strchr(err.message, '\n'));
        return 0;
    }
    *n_lines = replay_lines(r);
    CHECK(*n_lines <= REPLAY_LINES_MAX);
    /* The script itself is the message: it has every text that a line looks for without escapes. */
    char *copy = memory_copy(script.ptr, script.len);
    CHECK(copy);
    cerium_message message = {.role = "user", .content = copy};
    cerium_tool tool = {.name = "exec_command"};
    protocol_request request = {.messages = &message, .n_messages = 1, .tools = &tool,
                                .n_tools = 1, .model = "m", .new_tokens_max = 9};
    for (int i = 0; i < 16; i++) {
        json_t *corrected = NULL;
        view output = {NULL, 0};
        request.api = (protocol_api)(i / 2 % 2);
        message.role = i % 2 ? "tool" : "user";
        if (!replay_take(r, &request, &output, &corrected)) continue;
        CHECK(output.ptr);
        for (size_t k = 0; k < output.len; k++) sum = sum * 31 + (uint8_t)output.ptr[k];
        sum++;
    }
    memory_free(copy);
    replay_free(&r);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t n_lines = 0, again = 0;
    view script = {(const char *)data, size};
    uint64_t sum = answers(script, &n_lines);
    CHECK(answers(script, &again) == sum && n_lines == again);
    return 0;
}
