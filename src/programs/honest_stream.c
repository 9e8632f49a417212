/* honest_stream.c - reading an answer as it is streamed: server-sent events of Chat Completions or
 * Completions. */
#include "programs/honest.h"

#include "base/json.h"

/* Text of a chat, or of a completion. */
static void take_text(honest_answer *a, const json_t *choice)
{
    static const char *const names[] = {"content", "text"};
    const json_t *delta = json_object_get(choice, "delta");
    const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
    if (reason && !strcmp(reason, "length")) a->was_cut = true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const json_t *text = json_object_get(delta ? delta : choice, names[i]);
        const size_t n = json_string_length(text);
        if (n && bytes_append(&a->text, json_string_value(text), n)) a->was_cut = true;
    }
}

static void take_line(honest_answer *a, view line)
{
    if (!view_starts(line, VIEW("data:"))) return;
    json_t *event = json_read((view){line.ptr + 5, line.len - 5}, JSON_ALLOW_NUL, NULL);
    const json_t *n = json_object_get(json_object_get(event, "usage"), "completion_tokens");
    const char *why = json_string_value(
        json_object_get(json_object_get(event, "error"), "message"));
    if (json_is_integer(n) && json_integer_value(n) >= 0)
        a->n_tokens = (uint64_t)json_integer_value(n);
    if (why) snprintf(a->why, sizeof a->why, "%s", why);
    take_text(a, json_array_get(json_object_get(event, "choices"), 0));
    json_decref(event);
}

int honest_stream_feed(honest_stream *s, view data)
{
    size_t at = 0;
    RETURN_IF(bytes_append(&s->line, data.ptr, data.len));
    for (const char *end; s->answer && at < s->line.len &&
                          (end = memchr(s->line.ptr + at, '\n', s->line.len - at));) {
        const view line = {s->line.ptr + at, (size_t)(end - (s->line.ptr + at))};
        if (view_starts(line, VIEW("{"))) break; /* not a stream: the reason is kept */
        take_line(s->answer, line);
        at += line.len + 1;
    }
    if (at) memmove(s->line.ptr, s->line.ptr + at, s->line.len - at);
    s->line.len -= at;
    return CERIUM_OK;
}
