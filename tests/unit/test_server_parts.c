/* test_server_parts.c - the parts of the server that need no socket: token logs, bodies in chunks,
 * indentation, the type of a message, routes, and who may ask. */
#include "server/access.h"
#include "server/chunks.h"
#include "server/history.h"
#include "server/log.h"
#include "server/routes.h"
#include "server/socket.h"
#include "unit.h"

/* ---- history ---- */

static chain talk(const char *const *said, size_t n)
{
    chain c = {{1, 1}};
    for (size_t i = 0; i < n; i++)
        c = chain_add(
            c, &(cerium_message){.role = i % 2 ? "assistant" : "user", .content = said[i]});
    return c;
}

static void test_chain(void)
{
    const char *const a[] = {"hello", "hi"}, *const b[] = {"hell", "ohi"};
    chain c = talk(a, 2);
    TEST_CHECK(chain_equal(c, talk(a, 2)));
    TEST_CHECK(!chain_equal(c, talk(b, 2)));
    TEST_CHECK(!chain_equal(c, talk(a, 1)));
    chain thought = chain_add(c, &(cerium_message){.role = "reasoning", .content = "hm"});
    TEST_CHECK(chain_equal(c, thought));
    cerium_message call = {.role = "call", .content = "{}", .name = "f", .call_id = "1"};
    chain called = chain_add(c, &call);
    call.call_id = "2";
    TEST_CHECK(!chain_equal(called, chain_add(c, &call)));
}

static history_turn turn_of(const char *id, uint64_t tenant, const int32_t *tokens, size_t n)
{
    history_turn t = {.tenant = tenant, .tokens = tokens, .n_tokens = n, .sampled_from = n / 2};
    snprintf(t.id, sizeof t.id, "%s", id);
    return t;
}

static void test_history(void)
{
    const int32_t tokens[] = {1, 2, 3, 4};
    history *h = NULL;
    TEST_CHECK(history_open(&h, 1 << 20, 3) == 0);
    history_turn t = turn_of("a", 7, tokens, 4);
    t.chain = (chain){{5, 6}};
    TEST_CHECK(history_add(h, &t) == 0);
    const history_turn *found = history_find(h, 7, 1, "a");
    TEST_CHECK(found && found->n_tokens == 4 && !memcmp(found->tokens, tokens, sizeof tokens));
    TEST_CHECK(!history_find(h, 8, 1, "a")); /* another tenant */
    TEST_CHECK(history_find_chain(h, 7, t.chain) != NULL);
    TEST_CHECK(!history_find_chain(h, 8, t.chain));
    t = turn_of("b", 7, tokens, 4);
    t.connection = 3;
    TEST_CHECK(history_add(h, &t) == 0);
    TEST_CHECK(history_find(h, 7, 3, "b") && !history_find(h, 7, 4, "b"));
    history_drop_connection(h, 3);
    TEST_CHECK(!history_find(h, 7, 3, "b"));
    for (const char *const *id = (const char *const[]){"c", "d", "e", NULL}; *id; id++) {
        t = turn_of(*id, 7, tokens, 4);
        TEST_CHECK(history_add(h, &t) == 0);
    }
    TEST_CHECK(!history_find(h, 7, 1, "a")); /* three are kept: the oldest went */
    TEST_CHECK(!history_find_chain(h, 7, (chain){{5, 6}}));
    TEST_CHECK(history_find(h, 7, 1, "c") && history_find(h, 7, 1, "e"));
    t = turn_of("f", 9, tokens, 4);
    TEST_CHECK(history_add(h, &t) == 0);
    TEST_CHECK(history_turns(h) == 4); /* another tenant has a bound of its own */
    history_forget(h, 7, "e");
    TEST_CHECK(!history_find(h, 7, 1, "e"));
    history_close(&h);
    TEST_CHECK(!h);
}

static void test_history_items(void)
{
    const int32_t tokens[] = {1, 2};
    history *h = NULL;
    TEST_CHECK(history_open(&h, 1 << 20, 8) == 0);
    history_turn t = turn_of("a", 7, tokens, 2);
    t.output = json_pack("[{s:s},{s:s}]", "id", "msg_1", "id", "fc_1");
    TEST_CHECK(history_add(h, &t) == 0);
    json_decref(t.output);
    TEST_CHECK(history_find_item(h, 7, "fc_1") != NULL);
    TEST_CHECK(!history_find_item(h, 7, "fc_2") && !history_find_item(h, 8, "fc_1"));
    history_close(&h);
}

static void test_history_memory(void)
{
    const int32_t tokens[] = {1, 2};
    long before = memory_live();
    for (long n = 0;; n++) {
        history *h = NULL;
        history_turn t = turn_of("a", 7, tokens, 2);
        memory_fail_at(n);
        int status = history_open(&h, 1 << 20, 8);
        if (!status) status = history_add(h, &t);
        memory_fail_at(-1);
        history_close(&h);
        TEST_CHECK(memory_live() == before);
        if (!status) break;
        TEST_CHECK(status == CERIUM_ERR_MEMORY);
    }
}

/* ---- chunks ---- */

/* The whole body whatever the cuts; *status of the first that fails. */
static bytes read_chunks(view text, size_t cut, chunks *c, int *status)
{
    bytes body = {.max = 64};
    *c = (chunks){0};
    *status = 0;
    for (size_t i = 0; i < text.len && !*status; i += cut)
        *status = chunks_read(
            c, (view){text.ptr + i, text.len - i < cut ? text.len - i : cut}, &body);
    return body;
}

static void test_chunks(void)
{
    static const view good =
        VIEW("4;name=value\r\nwiki\r\n005\r\npedia\r\n0\r\nTrailer: x\r\n\r\n");
    static const view bad[] = {VIEW("\r\n"), VIEW("g\r\n"), VIEW("1\r\nab\r\n0\r\n\r\n"),
                               VIEW("ffffffffffffffff\r\n"), VIEW(";x\r\n"), VIEW("-1\r\n")};
    chunks c;
    int status;
    for (size_t cut = 1; cut <= good.len; cut++) {
        bytes body = read_chunks(good, cut, &c, &status);
        TEST_CHECK(!status && c.done && view_equal((view){body.ptr, body.len}, VIEW("wikipedia")));
        bytes_free(&body);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        bytes body = read_chunks(bad[i], 1, &c, &status);
        TEST_CHECK(status == CERIUM_ERR_FORMAT);
        TEST_CHECK(!c.done);
        bytes_free(&body);
    }
    static char long_[100] = "50\r\n"; /* 80 bytes: more than the body may have */
    bytes body = read_chunks((view){long_, sizeof long_}, sizeof long_, &c, &status);
    TEST_CHECK(status == CERIUM_ERR_CAPACITY);
    bytes_free(&body);
}

/* ---- messages, routes, access ---- */

static void expect_type(const char *message, const char *type)
{
    view found = socket_message_type(view_of(message));
    TEST_CHECK(view_equal(found, view_of(type)));
}

static void test_message_type(void)
{
    expect_type("{\"type\":\"response.create\"}", "response.create");
    expect_type(" { \"a\" : {\"type\":\"x\"}, \"type\" : \"y\" }", "y");
    expect_type("{\"a\":[1,{\"b\":\"}\"},\"\\\"\"],\"type\":\"z\",\"q\":", "z");
    expect_type("{\"a\":\"\\\\\",\"type\":\"w\"}", "w");
    expect_type("{\"type\":5}", "");
    expect_type("{\"type\":\"a\\u0062\"}", "");
    expect_type("{\"type\":\"abc", "");
    expect_type("{\"typ", "");
    expect_type("[\"type\"]", "");
    expect_type("{\"a\"}", "");
    expect_type("", "");
}

static void test_routes(void)
{
    char id[SERVER_ID_BYTES];
    TEST_CHECK(route_fits("/responses/{id}/cancel", "/responses/resp_1/cancel", id));
    TEST_CHECK(!strcmp(id, "resp_1"));
    TEST_CHECK(!route_fits("/responses/{id}", "/responses/", id));
    TEST_CHECK(!route_fits("/responses/{id}", "/responses/a/b", id));
    TEST_CHECK(route_fits("/models", "/models", id) && !route_fits("/models", "/model", id));
    TEST_CHECK(route_find(LWSHUMETH_POST, "/v1/responses", id)->metric == METRICS_RESPONSES);
    TEST_CHECK(route_find(LWSHUMETH_POST, "/responses", id) ==
           route_find(LWSHUMETH_POST, "/v1/responses", id));
    TEST_CHECK(route_find(LWSHUMETH_GET, "/", id)->metric == METRICS_PAGE);
    TEST_CHECK(route_find(LWSHUMETH_GET, "/nothing", id)->metric == METRICS_OTHER);
}

static void test_access(void)
{
    TEST_CHECK(access_is_loopback(VIEW("localhost:8383")) && access_is_loopback(VIEW("127.0.0.1")));
    TEST_CHECK(access_is_loopback(VIEW("[::1]:8383")) && access_is_loopback(VIEW("::1")));
    TEST_CHECK(!access_is_loopback(VIEW("127.0.0.1.evil.example")));
    TEST_CHECK(!access_is_loopback(VIEW("localhost.evil.example")));
    TEST_CHECK(!access_is_loopback(VIEW("10.0.0.1")) && !access_is_loopback(VIEW("[::1")));
    TEST_CHECK(access_same_host(VIEW("http://a:1"), VIEW("a:1")));
    TEST_CHECK(access_same_host(VIEW("https://A"), VIEW("a")));
    TEST_CHECK(!access_same_host(VIEW("http://a:1"), VIEW("a:12")));
    TEST_CHECK(!access_same_host(VIEW("http://"), VIEW("")));
    TEST_CHECK(!access_same_host(VIEW("null"), VIEW("")));
    char text[] = "a%20b%2fc", bad[] = "%zz", zero[] = "%00";
    TEST_CHECK(access_decode(text) && !strcmp(text, "a b/c"));
    TEST_CHECK(!access_decode(bad) && !access_decode(zero));
}

static void test_log(void)
{
    char out[16];
    TEST_CHECK(!strcmp(log_quote(out, sizeof out, "a\"b\n"), "\"a\\\"b?\""));
    TEST_CHECK(strlen(log_quote(out, sizeof out, "0123456789012345678901234567890")) < sizeof out);
}

int main(void)
{
    TEST_RUN(test_chain);
    TEST_RUN(test_history);
    TEST_RUN(test_history_items);
    TEST_RUN(test_history_memory);
    TEST_RUN(test_chunks);
    TEST_RUN(test_message_type);
    TEST_RUN(test_routes);
    TEST_RUN(test_access);
    TEST_RUN(test_log);
    return unit_report("server_parts");
}
