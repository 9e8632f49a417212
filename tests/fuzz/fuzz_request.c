/* fuzz_request.c - any body for any API: it is refused with a named reason, or it becomes a request
 * whose every string is whole; reading it with known tools gives the same.  The first byte chooses
 * the API; its high bits, the model's capabilities.  The body of POST /v1/solve becomes the
 * arguments of a command. */
#include "protocol/json_out.h"
#include "protocol/protocol.h"
#include "server/solve_order.h"

enum { SOLVE = 120, EDITS_FROM = 121 }; /* of the first byte: edits, in one of their forms */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_messages(const protocol_request *r)
{
    for (size_t i = 0; i < r->n_messages; i++) {
        const cerium_message *m = &r->messages[i];
        CHECK(m->role && m->content && utf8_valid(view_of(m->content)));
        CHECK(r->message_item[i] == -1 || !r->items ||
              (size_t)r->message_item[i] < json_array_size(r->items));
        if (!strcmp(m->role, "call")) CHECK(m->name && m->name[0]);
        if (!strcmp(m->role, "tool")) CHECK(m->name || (m->call_id && r->previous_response_id));
    }
    for (size_t i = 0; i < r->n_tools; i++) {
        CHECK(r->tools[i].name && r->tools[i].name[0]);
        for (size_t k = 0; k < i && i < 64; k++) CHECK(strcmp(r->tools[i].name, r->tools[k].name));
    }
}

static void check_request(protocol_request *r)
{
    const cerium_sampling *s = &r->sampling;
    CHECK(s->temperature >= 0 && s->top_p >= 0 && s->top_p <= 1 && s->min_p < 1);
    CHECK(s->n_stops <= CERIUM_STOPS_MAX && r->n_choices >= 1);
    for (uint32_t i = 0; i < s->n_stops; i++) CHECK(strlen(r->stops[i]) <= CERIUM_STOP_BYTES_MAX);
    for (size_t i = 0; i < r->n_prompts; i++)
        CHECK(strlen(r->prompts[i]) == r->prompt_lens[i]);
    check_messages(r);
    if (r->items) CHECK(!protocol_request_name_results(r, r->items));
    protocol_request_name_orphans(r);
    for (size_t i = 0; i < r->n_messages; i++)
        CHECK(strcmp(r->messages[i].role, "tool") || r->messages[i].name);
}

static bool same(const protocol_request *a, const protocol_request *b)
{
    if (a->n_messages != b->n_messages || a->n_tools != b->n_tools) return false;
    for (size_t i = 0; i < a->n_messages; i++)
        if (strcmp(a->messages[i].content, b->messages[i].content)) return false;
    for (size_t i = 0; i < a->n_tools; i++)
        if (strcmp(a->tools[i].name, b->tools[i].name)) return false;
    return json_equal(a->root, b->root);
}

/* ---- POST /v1/solve ---- */

/* No text from a client becomes an option, a folder, or a second place. */
static void check_words(const solve_order *o, const solve_words *w)
{
    CHECK(w->n >= 4 && w->n < SOLVE_WORDS_MAX && !w->all[w->n]);
    for (size_t i = 0; i < w->n; i++) CHECK(w->all[i] && utf8_valid(view_of(w->all[i])));
    CHECK(!strcmp(w->all[w->n - 2], "--") && w->all[w->n - 1] == w->place);
    const size_t n = strlen(o->file);
    CHECK(n && *o->file != '-' && *o->file != '.' && !strchr(o->file, '/') &&
          !strchr(o->file, ':'));
    CHECK(!strncmp(w->place, o->file, n) && strspn(w->place + n, ":-0123456789") ==
                                                strlen(w->place + n));
    CHECK(strlen(w->place) < sizeof w->place - 1 && strlen(w->makers) < sizeof w->makers - 1);
    CHECK(!o->function || *o->function != '-');
    CHECK(o->code && (o->doctest || o->tests || json_object_get(o->root, "examples")));
    CHECK(o->variants >= 1 && o->seconds > 0 && o->seed >= 0);
}

static bool same_words(const solve_words *a, const solve_words *b)
{
    bool is_same = a->n == b->n;
    for (size_t i = 0; is_same && i < a->n; i++) is_same = !strcmp(a->all[i], b->all[i]);
    return is_same;
}

static void check_solve(view body)
{
    protocol_error error = {0}, other = {0};
    solve_order o, again;
    solve_words w, others;
    int status = solve_order_read(&o, body, &error);
    CHECK(solve_order_read(&again, body, &other) == status);
    if (status) {
        CHECK(status == CERIUM_ERR_ARGUMENT && error.http_status >= 400 && *error.message);
        CHECK(!strcmp(error.message, other.message) && !strcmp(error.param, other.param));
        return;
    }
    solve_order_words(&o, &w);
    solve_order_words(&again, &others);
    check_words(&o, &w);
    CHECK(same_words(&w, &others));
    solve_order_free(&o);
    solve_order_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    const uint8_t choice = data[0] & 0x7F;
    const bool is_edits = choice >= EDITS_FROM;
    protocol_api api = is_edits ? PROTOCOL_EDITS : (protocol_api)(choice % PROTOCOL_EDITS);
    protocol_defaults defaults = {.fills_in = !(data[0] & 0x80), .has_chat_form = true,
                                  .n_embedding = 64};
    if (is_edits) defaults.edit_form = (next_edit_form)((choice - EDITS_FROM) % NEXT_EDIT_FORMS);
    protocol_error error = {0}, other = {0};
    protocol_request *first = NULL, *again[2] = {NULL, NULL};
    view body = {(const char *)data + 1, size - 1};
    if (choice == SOLVE) {
        check_solve(body);
        return 0;
    }
    int status = protocol_request_parse(&first, api, body, &defaults, &error);
    CHECK(status == CERIUM_OK || (status == CERIUM_ERR_ARGUMENT && error.http_status >= 400));
    CHECK(!protocol_cache_open(&defaults.cache));
    for (size_t i = 0; i < 2; i++) {
        CHECK(protocol_request_parse(&again[i], api, body, &defaults, &other) == status);
        if (status) CHECK(!strcmp(error.param, other.param));
        if (status) CHECK(!strcmp(error.message, other.message));
        if (!status) CHECK(same(first, again[i]));
    }
    protocol_request_free(&again[0]);
    protocol_cache_close(&defaults.cache);
    if (!status) check_request(first);
    if (!status) check_request(again[1]);
    protocol_request_free(&again[1]);
    protocol_request_free(&first);
    return 0;
}
