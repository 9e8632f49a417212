/* test_server_parts.c - the parts of the server that need no socket: token logs,
 * indentation, the type of a message, routes, and access. */
#include "server/access.h"
#include "server/history.h"
#include "server/log.h"
#include "server/routes.h"
#include "unit.h"

#include <pthread.h>

/* ---- history ---- */

static chain talk(const char *const *texts, size_t n)
{
    chain c = {{1, 1}};
    for (size_t i = 0; i < n; i++)
        c = chain_add(
            c, &(cerium_message){.role = i % 2 ? "assistant" : "user", .content = texts[i]});
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

/* history_find() takes a reference, which is released here at once. */
static bool has(history *h, uint64_t tenant, uint64_t serial, const char *id)
{
    const history_turn *turn = history_find(h, tenant, serial, id);
    bool found = turn != NULL;
    history_release(&turn);
    return found && !turn;
}

static bool has_chain(history *h, uint64_t tenant, chain c)
{
    const history_turn *turn = history_find_chain(h, tenant, c);
    bool found = turn != NULL;
    history_release(&turn);
    return found && !turn;
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
    history_release(&found);
    TEST_CHECK(!has(h, 8, 1, "a")); /* another tenant */
    TEST_CHECK(has_chain(h, 7, t.chain) && !has_chain(h, 8, t.chain));
    t = turn_of("b", 7, tokens, 4);
    t.connection = 3;
    TEST_CHECK(history_add(h, &t) == 0);
    TEST_CHECK(has(h, 7, 3, "b") && !has(h, 7, 4, "b"));
    TEST_CHECK(!history_find(h, 7, 4, "b"));
    history_evict(h, 7, 4, "b");
    TEST_CHECK(has(h, 7, 3, "b"));
    history_drop_connection(h, 3);
    TEST_CHECK(!has(h, 7, 3, "b"));
    for (const char *const *id = (const char *const[]){"c", "d", "e", NULL}; *id; id++) {
        t = turn_of(*id, 7, tokens, 4);
        TEST_CHECK(history_add(h, &t) == 0);
    }
    TEST_CHECK(!has(h, 7, 1, "a")); /* three are kept: the oldest went */
    TEST_CHECK(!has_chain(h, 7, (chain){{5, 6}}));
    TEST_CHECK(has(h, 7, 1, "c") && has(h, 7, 1, "e"));
    t = turn_of("f", 9, tokens, 4);
    TEST_CHECK(history_add(h, &t) == 0);
    TEST_CHECK(history_turns(h) == 4); /* another tenant has its own bound */
    history_forget(h, 7, "e");
    TEST_CHECK(!has(h, 7, 1, "e"));
    history_close(&h);
    TEST_CHECK(!h);
}

/* A held turn stays readable after it was forgotten or replaced, or the history closed. */
static void test_history_held(void)
{
    const int32_t tokens[] = {1, 2, 3, 4}, others[] = {9};
    long before = memory_live();
    history *h = NULL;
    TEST_CHECK(history_open(&h, 1 << 20, 3) == 0);
    history_turn t = turn_of("a", 7, tokens, 4);
    TEST_CHECK(history_add(h, &t) == 0);
    const history_turn *first = history_find(h, 7, 1, "a"), *again = history_find(h, 7, 1, "a");
    TEST_CHECK(first && first == again);
    history_forget(h, 7, "a");
    history_release(&again);
    TEST_CHECK(!again && first->n_tokens == 4 && !memcmp(first->tokens, tokens, sizeof tokens));
    t = turn_of("a", 7, others, 1);
    TEST_CHECK(history_add(h, &t) == 0);
    const history_turn *second = history_find(h, 7, 1, "a");
    TEST_CHECK(first->tokens[0] == 1 && second->tokens[0] == 9);
    history_close(&h);
    TEST_CHECK(second->tokens[0] == 9);
    history_release(&first);
    history_release(&second);
    history_release(&second);
    TEST_CHECK(memory_live() == before);
}

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct {
    history *h;
    uint64_t number;
    bool good;
} history_user;

/* Each thread adds turns of its own under shared names, and reads whatever it finds. */
static void *use_history(void *arg)
{
    history_user *u = arg;
    const int32_t mark = (int32_t)u->number;
    const int32_t tokens[] = {mark, mark, mark};
    u->good = true;
    for (int i = 0; i < ROUNDS; i++) {
        char id[8];
        snprintf(id, sizeof id, "r%d", i % 5);
        history_turn t = turn_of(id, 7, tokens, 3);
        t.chain = (chain){{1, (uint64_t)(i % 3) + 1}};
        if (history_add(u->h, &t)) u->good = false;
        const history_turn *found = i % 2 ? history_find(u->h, 7, 1, id)
                                          : history_find_chain(u->h, 7, t.chain);
        if (i % 7 == 0) history_forget(u->h, 7, id);
        if (found && (found->tokens[0] != found->tokens[2] || found->n_tokens != 3))
            u->good = false;
        history_release(&found);
    }
    return NULL;
}

static void test_history_threads(void)
{
    pthread_t threads[THREADS];
    history_user users[THREADS];
    history *h = NULL;
    long before = memory_live();
    TEST_CHECK(history_open(&h, 1 << 20, 4) == 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        users[i] = (history_user){.h = h, .number = i};
        TEST_CHECK(!pthread_create(&threads[i], NULL, use_history, &users[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        TEST_CHECK(users[i].good);
    }
    TEST_CHECK(history_turns(h) <= 4);
    history_close(&h);
    TEST_CHECK(memory_live() == before);
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
    json_t *item = history_find_item(h, 7, "fc_1");
    TEST_CHECK(!history_find_item(h, 7, "fc_2") && !history_find_item(h, 8, "fc_1"));
    history_close(&h);
    const char *id = json_string_value(json_object_get(item, "id"));
    TEST_CHECK(id && !strcmp(id, "fc_1")); /* a reference of our own */
    json_decref(item);
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

/* ---- routes, access ---- */

static void test_routes(void)
{
    char id[SERVER_ID_BYTES];
    TEST_CHECK(route_fits("/responses/{id}/cancel", "/responses/resp_1/cancel", id));
    TEST_CHECK(!strcmp(id, "resp_1"));
    TEST_CHECK(route_fits("/models/{id}", "/models/org%2Fname", id) && !strcmp(id, "org/name"));
    TEST_CHECK(!route_fits("/models/{id}", "/models/%zz", id));
    TEST_CHECK(!route_fits("/responses/{id}", "/responses/", id));
    TEST_CHECK(!route_fits("/responses/{id}", "/responses/a/b", id));
    TEST_CHECK(route_fits("/models", "/models", id) && !route_fits("/models", "/model", id));
    TEST_CHECK(route_find(METHOD_POST, "/v1/responses", id)->metric == METRICS_RESPONSES);
    TEST_CHECK(route_find(METHOD_POST, "/responses", id) ==
           route_find(METHOD_POST, "/v1/responses", id));
    TEST_CHECK(route_find(METHOD_GET, "/", id)->metric == METRICS_PAGE);
    TEST_CHECK(route_find(METHOD_GET, "/nothing", id)->metric == METRICS_OTHER);
}

static void test_access(void)
{
    TEST_CHECK(access_is_loopback(VIEW("localhost:8383")) && access_is_loopback(VIEW("127.0.0.1")));
    TEST_CHECK(access_is_loopback(VIEW("LocalHost:8383")));
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
    TEST_CHECK(http_decode(text, false) && !strcmp(text, "a b/c"));
    TEST_CHECK(!http_decode(bad, false) && !http_decode(zero, false));
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
    TEST_RUN(test_history_held);
    TEST_RUN(test_history_threads);
    TEST_RUN(test_history_items);
    TEST_RUN(test_history_memory);
    TEST_RUN(test_routes);
    TEST_RUN(test_access);
    TEST_RUN(test_log);
    return unit_report("server_parts");
}
