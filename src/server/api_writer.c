/* api_writer.c - answers that a protocol_writer writes. */
#include "server/api_writer.h"

#include "server/recording.h"

/* Name and data of an event, one after the other, with their lengths. */
typedef struct {
    size_t name_len, len;
} held_event;

static void hold(answer *a, const char *name, const char *json, size_t len)
{
    bytes *b = &a->ending.held;
    held_event head = {name ? strlen(name) + 1 : 0, len};
    int status = bytes_append(b, &head, sizeof head);
    if (!status && name) status = bytes_append(b, name, head.name_len);
    if (!status) status = bytes_append(b, json, len);
    if (status) a->ending.status = status;
}

void api_writer_tell_held(answer *a)
{
    const bytes *b = &a->ending.held;
    for (size_t at = 0; at < b->len;) {
        held_event head;
        memcpy(&head, b->ptr + at, sizeof head);
        const char *name = b->ptr + at + sizeof head, *json = name + head.name_len;
        recording_add(a->recording, head.name_len ? name : NULL, (view){json, head.len});
        sink_event(&a->sink, head.name_len ? name : NULL, (view){json, head.len});
        at += sizeof head + head.name_len + head.len;
    }
}

static void emit(void *user, const char *name, const char *json, size_t len)
{
    answer *a = user;
    if (a->ending.is_away) {
        hold(a, name, json, len);
        return;
    }
    recording_add(a->recording, name, (view){json, len});
    if (!a->sink.c && !recording_is_followed(a->recording)) return;
    a->quiet_since_ns = clock_ns();
    sink_event(&a->sink, name, (view){json, len});
}

static view token_text(void *user, int32_t token)
{
    const answer *a = user;
    view text;
    text.ptr = cerium_token_bytes(a->model->vocab, token, &text.len);
    return text;
}

static const char *served_tier(const protocol_request *r)
{
    if (!r->service_tier) return NULL;
    switch (r->class_) {
    case CERIUM_CLASS_EDIT: return "priority";
    case CERIUM_CLASS_BATCH: return "flex";
    case CERIUM_CLASS_COMPLETION: return "default";
    case CERIUM_CLASS_TURN: return "default";
    }
    return "default";
}

int api_writer_open(answer *a, protocol_error *e)
{
    protocol_answer how = {.request = a->request,
                           .id = a->id,
                           .model = a->source->model(a),
                           .chat_form = a->model->info.call_form,
                           .served_tier = served_tier(a->request),
                           .created_at = a->created_at,
                           .token_text = token_text,
                           .emit = a->sink.type->streams ? emit : NULL,
                           .user = a};
    protocol_writer_free(&a->writer);
    if (!protocol_writer_open(&a->writer, &how)) return CERIUM_OK;
    return protocol_error_memory(e);
}

int api_writer_text(choice *ch, view text, const cerium_watch_token *tokens, uint32_t n)
{
    answer *a = ch->a;
    if (!tokens) return protocol_writer_text(a->writer, ch->index, text, NULL, n);
    bytes list = {.max = SIZE_MAX / 2};
    int status = bytes_reserve(&list, n * sizeof(protocol_token));
    for (uint32_t i = 0; i < n && !status; i++) {
        protocol_token token = {.text = token_text(a, tokens[i].token),
                                .logprob = tokens[i].logprob,
                                .top = tokens[i].top,
                                .n_top = tokens[i].n_top};
        status = bytes_append(&list, &token, sizeof token);
    }
    if (!status)
        status = protocol_writer_text(a->writer, ch->index, text, (protocol_token *)list.ptr, n);
    bytes_free(&list);
    return status;
}
