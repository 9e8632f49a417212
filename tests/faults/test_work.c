/* test_work.c - every allocation fails in turn while requests are read: the cached tools, the
 * format of the answer, the turns of a conversation.  An error is returned, and nothing leaks. */
#include "server/history.h"
#include "server/output_format.h"

#include "faults.h"

/* jansson reads beyond its buffer if that cannot grow for the closing quote of a string: it has
 * grown before, within a long one. */
#define LONG_FIRST                                                                                 \
    "{\"user\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","

static const char body[] =
    LONG_FIRST "\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"},"
    "{\"type\":\"item_reference\",\"id\":\"msg_1\"}],"
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}},"
    "{\"type\":\"function\",\"name\":\"odd\",\"parameters\":{\"type\":\"object\",\"not\":"
    "{\"items\":{}}}}]}";

typedef struct {
    history *history;
    grammar_cache *grammars;
    protocol_defaults defaults;
} parts;

static json_t *find_item(void *user, const char *id)
{
    const parts *p = user;
    return history_find_item(p->history, 7, id);
}

static int add_turn(history *h)
{
    const int32_t tokens[] = {1, 2};
    history_turn turn = {.id = "resp_1", .tenant = 7, .tokens = tokens, .n_tokens = 2,
                         .chain = {{1, 2}}};
    turn.output = json_pack("[{s:s,s:s,s:s,s:s}]", "id", "msg_1", "type", "message", "role",
                            "assistant", "content", "kept");
    int status = turn.output ? history_add(h, &turn) : CERIUM_ERR_MEMORY;
    json_decref(turn.output);
    return status;
}

/* A guide that cannot be fully enforced: all three stages. */
static int make_shape(parts *p, const protocol_request *r)
{
    protocol_error e;
    output_format made;
    format_order *order = NULL;
    RETURN_IF(format_order_open(&order, p->grammars, r, "chatml"));
    while (format_order_step(order)) {
    }
    /* Here, too, jansson reports a failed allocation as bad syntax, and the tool is blamed. */
    int status = format_order_take(order, &made, &e) ? CERIUM_ERR_MEMORY : CERIUM_OK;
    format_order_free(&order);
    output_format_free(&made);
    return status;
}

static int use_parts(void)
{
    parts p = {.defaults = {.has_chat_form = true, .find_item = find_item, .user = &p}};
    protocol_error e;
    cerium_error err;
    protocol_request *r = NULL;
    int status = history_open(&p.history, 1 << 20, 4);
    if (!status) status = grammar_cache_open(&p.grammars, NULL, &err);
    if (!status) status = protocol_cache_open(&p.defaults.cache);
    protocol_cache *held = protocol_cache_hold(p.defaults.cache);
    if (!status) status = add_turn(p.history);
    for (int round = 0; round < 2 && !status; round++) {
        status = protocol_request_parse(&r, PROTOCOL_RESPONSES, view_of(body), &p.defaults, &e);
        /* jansson reports some failed allocations as syntax errors. */
        if (status == CERIUM_ERR_ARGUMENT) status = CERIUM_ERR_MEMORY;
        history_forget(p.history, 7, "resp_1"); /* referenced turns stay */
        if (!status) status = strcmp(r->messages[0].content, "kept") ? CERIUM_ERR_IO : CERIUM_OK;
        if (!status) status = make_shape(&p, r);
        protocol_request_free(&r);
        if (!status) status = add_turn(p.history);
    }
    protocol_cache_close(&p.defaults.cache);
    protocol_cache_close(&held);
    grammar_cache_close(&p.grammars);
    history_close(&p.history);
    return status;
}

/* A completion while the user types. */
static int use_inline(void)
{
    static const char message[] =
        LONG_FIRST "\"type\":\"completion.create\",\"id\":\"c1\",\"prefix\":\"a\","
                   "\"path\":\"p\",\"stop\":[\"x\"]}";
    protocol_error e = {.http_status = 0};
    protocol_request *r = NULL;
    const protocol_defaults defaults = {.fills_in = true};
    protocol_body loaded;
    int status = protocol_body_load(&loaded, PROTOCOL_RESPONSES, view_of(message), &defaults, &e);
    if (!status) status = protocol_inline_parse(&r, &loaded, &defaults, &e);
    bool right = status ? !r : !strcmp(r->inline_id, "c1") && !strcmp(r->infill.path, "p");
    protocol_request_free(&r);
    if (!right) return CERIUM_ERR_IO;
    return status ? CERIUM_ERR_MEMORY : CERIUM_OK;
}

/* Each allocation of a run that succeeds.  jansson survives some: then a string is shorter. */
static void fail_all(int (*use)(void), long n_least)
{
    long before = memory_live(), made = memory_count();
    CHECK_THAT(use() == CERIUM_OK, -1);
    made = memory_count() - made;
    CHECK_THAT(made > n_least, made);
    for (long n = 0; n < made; n++) {
        memory_fail_at(n);
        int status = use();
        memory_fail_at(-1);
        CHECK_THAT(memory_live() == before, n);
        CHECK_THAT(status == CERIUM_OK || status == CERIUM_ERR_MEMORY, n);
    }
    passed++;
}

int main(void)
{
    json_set_alloc_funcs(memory_alloc, memory_free);
    fail_all(use_parts, 100);
    fail_all(use_inline, 5);
    printf("work under failing allocations: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
