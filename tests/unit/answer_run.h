/* answer_run.h - a writer that gets an answer in pieces, and a client that records its output; for
 * the including test alone. */
#ifndef ANSWER_RUN_H
#define ANSWER_RUN_H

#include "protocol/protocol.h"

#include "unit.h"

/* ---- a client that records the output ---- */

enum { EVENTS_MAX = 2048 };

typedef struct {
    size_t n;
    char names[EVENTS_MAX][64];
    json_t *events[EVENTS_MAX]; /* NULL: [DONE] */
    size_t n_comments;
} client;

static client got;

static inline void on_event(void *user, const char *name, const char *json, size_t len)
{
    client *c = user;
    if (!json) c->n_comments++;
    if (!json || c->n == EVENTS_MAX) return;
    json_error_t why;
    bool done = len == 6 && !memcmp(json, "[DONE]", 6);
    json_t *event = done ? NULL : json_loadb(json, len, JSON_ALLOW_NUL, &why);
    TEST_CHECK_THAT(done || event, "%s: %.*s", why.text, (int)len, json);
    snprintf(c->names[c->n], sizeof c->names[0], "%s", name ? name : "");
    c->events[c->n++] = event;
}

static inline void forget(void)
{
    for (size_t i = 0; i < got.n; i++) json_decref(got.events[i]);
    got.n = got.n_comments = 0;
}

static const json_t *at(const json_t *value, const char *path)
{
    char key[64];
    for (const char *p = path; value && *p;) {
        size_t len = strcspn(p, "/");
        snprintf(key, sizeof key, "%.*s", (int)len, p);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        p += len + (p[len] == '/');
    }
    return value;
}

static const char *text_at(const json_t *value, const char *path)
{
    const char *text = json_string_value(at(value, path));
    return text ? text : "";
}

static inline int64_t number_at(const json_t *value, const char *path)
{
    return (int64_t)json_integer_value(at(value, path));
}

static inline void text_is(const json_t *value, const char *path, const char *want)
{
    TEST_CHECK_THAT(!strcmp(text_at(value, path), want), "%s: \"%s\"", path, text_at(value, path));
}

static const json_t *event(size_t i) { return i < got.n ? got.events[i] : NULL; }

/* ---- a run of a writer ---- */

static const protocol_defaults defaults = {.fills_in = true};
static const protocol_usage usage = {.input_tokens = 100, .cached_tokens = 64, .output_tokens = 7,
                                     .reasoning_tokens = 2, .accepted_tokens = 3,
                                     .rejected_tokens = 1, .prompt_ns = 2000000,
                                     .predict_ns = 3500000000u};

typedef struct {
    protocol_api api;
    const char *body, *form, *words;
    size_t cut; /* bytes a time, at least; 0: all at once */
    protocol_end end;
    const protocol_error *error;
    const char *tier;
    bool beats; /* a keep-alive before each cut */
} run;

static inline size_t next_cut(const char *text, size_t len, size_t cut)
{
    size_t n = cut && cut < len ? cut : len;
    while (n < len && ((unsigned char)text[n] & 0xC0) == 0x80) n++;
    return n;
}

static const protocol_progress halfway = {.prompt_tokens = 100, .cached_tokens = 20,
                                           .done_tokens = 50, .prompt_ns = 7000000};

static inline view no_token(void *user, int32_t token)
{
    (void)user;
    return token == 1 ? VIEW("one") : VIEW("\xE2\x82");
}

/* Returns the whole object, owned. */
static inline json_t *answer(const run *r)
{
    forget();
    protocol_request *request = NULL;
    protocol_writer *w = NULL;
    protocol_error error;
    int status = protocol_request_parse(&request, r->api, view_of(r->body), &defaults, &error);
    TEST_CHECK_THAT(!status, "%s", error.message);
    if (status) return NULL;
    const protocol_answer a = {.request = request, .id = "resp_0123", .model = "spark",
                               .chat_form = r->form, .served_tier = r->tier,
                               .created_at = 1795227342, .token_text = no_token,
                               .emit = on_event, .user = &got};
    TEST_CHECK(!protocol_writer_open(&w, &a) && !protocol_writer_begin(w));
    uint32_t n = request->n_choices * (uint32_t)(request->n_prompts ? request->n_prompts : 1);
    for (uint32_t c = 0; c < n; c++) {
        for (size_t i = 0, len = strlen(r->words); i < len;) {
            size_t part = next_cut(r->words + i, len - i, r->cut);
            if (r->beats) TEST_CHECK(!protocol_writer_beat(w, &halfway));
            TEST_CHECK(!protocol_writer_text(w, c, (view){r->words + i, part}, NULL, 0));
            i += part;
        }
        TEST_CHECK(!protocol_writer_end(w, c, r->end, &usage, r->error));
    }
    size_t n_events = got.n, n_comments = got.n_comments;
    TEST_CHECK(!protocol_writer_beat(w, &halfway)); /* no keep-alive after the end */
    TEST_CHECK(!protocol_writer_progress(w, &halfway));
    TEST_CHECK(got.n == n_events && got.n_comments == n_comments);
    json_t *object = protocol_writer_object(w);
    TEST_CHECK(object);
    if (r->api == PROTOCOL_RESPONSES)
        TEST_CHECK(json_equal(protocol_writer_output(w), json_object_get(object, "output")));
    protocol_writer_free(&w);
    protocol_request_free(&request);
    return object;
}

static inline void names_are(const char *const *names, size_t n)
{
    TEST_CHECK_THAT(got.n == n, "%zu events, not %zu", got.n, n);
    for (size_t i = 0; i < n && i < got.n; i++) {
        TEST_CHECK_THAT(!strcmp(got.names[i], names[i]), "%zu: %s", i, got.names[i]);
        TEST_CHECK(!strcmp(got.names[i], text_at(event(i), "type")));
        TEST_CHECK(number_at(event(i), "sequence_number") == (int64_t)i);
    }
}

#endif
