/* fuzz_mcp.c - lines from an agent: every request is answered at most once, the output is lines
 * of JSON, and calls begin, continue, end and are canceled in any order.  A line that begins with a
 * digit is an act of the host on that call. */
#include "base/json.h"
#include "programs/mcp_server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    bool runs[MCP_CALLS_MAX];
    uint32_t n_sent;
} agent;

static void on_send(void *user, view line)
{
    json_error_t why;
    json_t *m = json_read(line, 0, &why);
    CHECK(m && json_is_object(m) && !memchr(line.ptr, '\n', line.len));
    CHECK(!strcmp(json_string_value(json_object_get(m, "jsonrpc")), "2.0"));
    json_decref(m);
    ((agent *)user)->n_sent++;
}

static const char *on_call(void *user, uint32_t call, const char *tool, const json_t *arguments)
{
    agent *a = user;
    CHECK(call < MCP_CALLS_MAX && !a->runs[call]);
    const char *needed = !strcmp(tool, "solve")    ? "path"
                         : !strcmp(tool, "search") ? "name"
                                                   : "text";
    CHECK(needed[0] != 't' || !strcmp(tool, "related"));
    CHECK(json_is_string(json_object_get(arguments, needed)));
    a->runs[call] = json_object_size(arguments) != 2;
    return a->runs[call] ? NULL : "no";
}

static void on_cancel(void *user, uint32_t call)
{
    agent *a = user;
    CHECK(call < MCP_CALLS_MAX && a->runs[call]);
    a->runs[call] = false;
}

static void act(mcp_server *s, agent *a, view line)
{
    uint32_t call = (uint32_t)(line.ptr[0] - '0') % MCP_CALLS_MAX;
    if (!a->runs[call]) return;
    mcp_server_progress(s, call, 1, 2, "some");
    if (line.len < 2) return;
    a->runs[call] = false;
    mcp_server_end(s, call, line, line.len > 2 ? json_object() : NULL, line.len > 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    agent a = {0};
    mcp_server *s = NULL;
    const mcp_host host = {.user = &a, .send = on_send, .call = on_call, .cancel = on_cancel};
    CHECK(!mcp_server_open(&s, &host));
    for (const char *at = (const char *)data, *end = at + size; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const view line = {at, (size_t)((stop ? stop : end) - at)};
        uint32_t before = a.n_sent;
        if (line.len && line.ptr[0] >= '0' && line.ptr[0] <= '9') {
            act(s, &a, line);
        } else if (line.len) {
            mcp_server_take(s, line);
            CHECK(a.n_sent <= before + 1);
        }
        at = stop ? stop + 1 : end;
    }
    mcp_server_close(&s);
    return 0;
}
