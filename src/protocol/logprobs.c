/* logprobs.c - matches tokens with their text. */
#include "protocol/logprobs.h"

#include "base/limits.h"

void token_queue_free(token_queue *q)
{
    json_out_free(&q->json);
    json_out_free(&q->taken);
    json_out_free(&q->all);
    bytes_free(&q->texts);
    bytes_free(&q->marks);
}

static void put_token(json_out *t, view text, float logprob)
{
    json_out_literal(t, "{\"token\":");
    json_out_quoted(t, text);
    json_out_literal(t, ",\"bytes\":[");
    for (size_t i = 0; i < text.len; i++) {
        if (i) json_out_literal(t, ",");
        json_out_integer(t, (uint8_t)text.ptr[i]);
    }
    json_out_literal(t, "],\"logprob\":");
    json_out_float(t, logprob);
}

static const token_mark *mark_at(const token_queue *q, size_t i)
{
    return (const token_mark *)(const void *)q->marks.ptr + i;
}

static size_t count(const token_queue *q) { return q->marks.len / sizeof(token_mark); }

int token_queue_add(token_queue *q, const protocol_token *token, token_text_fn *text_of,
                    void *user)
{
    if (q->first == count(q) && q->fed == count(q)) { /* all gone: begin again at the front */
        q->first = q->fed = q->texts.len = q->marks.len = 0;
        json_out_clear(&q->json);
    }
    json_out *t = &q->json;
    q->texts.max = q->marks.max = t->b.max = q->taken.b.max = q->all.b.max =
        PROTOCOL_ANSWER_BYTES_MAX;
    token_mark mark = {q->texts.len, token->text.len, t->b.len, 0};
    put_token(t, token->text, token->logprob);
    json_out_literal(t, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < token->n_top; i++) {
        if (i) json_out_literal(t, ",");
        put_token(t, text_of ? text_of(user, token->top[i].token) : VIEW(""),
                  token->top[i].logprob);
        json_out_literal(t, "}");
    }
    json_out_literal(t, "]}");
    if (t->status) return t->status;
    mark.json_len = t->b.len - mark.json_at;
    RETURN_IF(bytes_append(&q->texts, token->text.ptr, token->text.len));
    return bytes_append(&q->marks, &mark, sizeof mark);
}

size_t token_queue_cut(token_queue *q, view text)
{
    size_t len = 0;
    while (q->fed < count(q) && !len) {
        size_t left = mark_at(q, q->fed)->text_len - q->fed_part;
        len = left < text.len ? left : text.len;
        q->fed_part += len;
        if (q->fed_part < mark_at(q, q->fed)->text_len) break;
        q->fed++;
        q->fed_part = 0;
    }
    if (!len) return text.len;
    /* A reader takes whole characters. */
    while (len < text.len && ((uint8_t)text.ptr[len] & 0xC0) == 0x80) {
        len++;
        if (q->fed < count(q) && ++q->fed_part >= mark_at(q, q->fed)->text_len) {
            q->fed++;
            q->fed_part = 0;
        }
    }
    return len;
}

static void keep_token(token_queue *q, const token_mark *m)
{
    view object = {q->json.b.ptr + m->json_at, m->json_len};
    if (q->taken.b.len) json_out_literal(&q->taken, ",");
    json_out_put(&q->taken, object);
    if (q->all.b.len) json_out_literal(&q->all, ",");
    json_out_put(&q->all, object);
}

int token_queue_take(token_queue *q, view text, bool keep)
{
    size_t at = 0;
    json_out_clear(&q->taken);
    while (at < text.len && q->first < count(q)) {
        const token_mark *m = mark_at(q, q->first);
        size_t left = m->text_len - q->part, len = text.len - at < left ? text.len - at : left;
        if (m->text_len && memcmp(q->texts.ptr + m->text_at + q->part, text.ptr + at, len) == 0) {
            if (!q->part && keep) keep_token(q, m);
            at += len;
            q->part += len;
            if (len < left) break;
        }
        q->first++;
        q->part = 0;
    }
    return q->taken.status ? q->taken.status : q->all.status;
}

void token_queue_drop(token_queue *q)
{
    q->first = count(q);
    q->part = 0;
}

/* ---- completions ---- */

void legacy_free(legacy_logprobs *l)
{
    for (size_t i = 0; i < LEGACY_LISTS; i++) json_out_free(&l->lists[i]);
}

uint64_t count_chars(view text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return n;
}

/* A part of a character has no text of its own: "bytes:\xe2\x82", as the API had it. */
static void put_name(json_out *t, view text)
{
    static const char hex[] = "0123456789abcdef";
    if (utf8_valid(text)) {
        json_out_quoted(t, text);
        return;
    }
    json_out_literal(t, "\"bytes:");
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        const char code[5] = {'\\', '\\', 'x', hex[c >> 4], hex[c & 15]};
        json_out_put(t, (view){code, 5});
    }
    json_out_literal(t, "\"");
}

int legacy_add(legacy_logprobs *l, const protocol_token *token, token_text_fn *text_of,
               void *user)
{
    json_out *tops = &l->lists[2];
    for (size_t i = 0; i < LEGACY_LISTS; i++) {
        l->lists[i].b.max = PROTOCOL_ANSWER_BYTES_MAX;
        if (l->lists[i].b.len) json_out_literal(&l->lists[i], ",");
    }
    put_name(&l->lists[0], token->text);
    json_out_float(&l->lists[1], token->logprob);
    json_out_integer(&l->lists[3], (int64_t)l->offset);
    l->offset += count_chars(token->text);
    json_out_literal(tops, "{");
    for (uint32_t i = 0; i < token->n_top; i++) {
        if (i) json_out_literal(tops, ",");
        put_name(tops, text_of ? text_of(user, token->top[i].token) : VIEW(""));
        json_out_literal(tops, ":");
        json_out_float(tops, token->top[i].logprob);
    }
    json_out_literal(tops, "}");
    for (size_t i = 0; i < LEGACY_LISTS; i++) RETURN_IF(l->lists[i].status);
    return CERIUM_OK;
}

void legacy_put(const legacy_logprobs *l, json_out *out, bool only_new)
{
    static const char *const names[LEGACY_LISTS] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                                    "],\"top_logprobs\":[",
                                                    "],\"text_offset\":["};
    for (size_t i = 0; i < LEGACY_LISTS; i++) {
        view list = json_out_view(&l->lists[i]);
        size_t from = only_new ? l->sent[i] : 0;
        if (from && from < list.len) from++; /* the comma */
        json_out_put(out, view_of(names[i]));
        if (list.len) json_out_put(out, (view){list.ptr + from, list.len - from});
    }
    json_out_literal(out, "]}");
}

void legacy_sent(legacy_logprobs *l)
{
    for (size_t i = 0; i < LEGACY_LISTS; i++) l->sent[i] = l->lists[i].b.len;
}
