/* chat_marks.c - owns finding how a template writes calls with a tag for each argument, from the
 * differences between probes.  src/reader/call_marks.c reads the record. */
#include "base/text.h"
#include "tokenizer/chat_template.h"

static const view none = {"", 0};

static view part(view text, size_t from, size_t to)
{
    return from <= to && to <= text.len ? (view){text.ptr + from, to - from} : none;
}

/* The common end of both, from its first tag on: text before that does not belong to the mark. */
static view common_tag(view a, view b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[a.len - 1 - n] == b.ptr[b.len - 1 - n]) n++;
    view out = {a.ptr + a.len - n, n};
    const char *tag = n ? memchr(out.ptr, '<', n) : NULL;
    return tag ? part(out, (size_t)(tag - out.ptr), n) : none;
}

static view trim_end(view text)
{
    view all = chat_trim(text);
    return all.len ? (view){text.ptr, (size_t)(all.ptr - text.ptr) + all.len} : all;
}

typedef struct {
    view section, open, name_end, key, key_end, json_key_end, value_end, end, section_end;
} marks;

/* From a call with two arguments: name, key, value, second key. */
static bool find_argument(const chat_call_probes *p, marks *m)
{
    view text = p->other;
    size_t name = view_find(text, view_past(text, p->question), p->name), n = name + p->name.len;
    size_t key = view_find(text, n, p->key), k = key + p->key.len;
    size_t value = view_find(text, k, p->value), v = value + p->value.len;
    size_t second = view_find(text, v, p->second);
    if (second == text.len || second < v) return false;
    view before = part(text, n, key), between = part(text, v, second);
    m->key = common_tag(before, between);
    m->key_end = part(text, k, value);
    m->name_end = chat_trim(part(before, 0, before.len - m->key.len));
    m->value_end = trim_end(part(between, 0, between.len - m->key.len));
    return m->key.len && m->key_end.len && m->value_end.len;
}

/* <tag ...> and </tag>. */
static bool is_pair(view open, view close)
{
    size_t n = 1;
    if (!open.len || open.ptr[open.len - 1] != '>' || close.len < 3) return false;
    while (n < open.len && open.ptr[n] != ' ' && open.ptr[n] != '>') n++;
    return view_equal(part(open, 1, n), part(close, 2, close.len - 1));
}

/* From two calls: the text that opens one, and the text that ends it. */
static bool find_call(const chat_call_probes *p, marks *m)
{
    view text = p->two;
    size_t from = view_past(text, p->question), name = view_find(text, from, p->name);
    size_t value = view_find(text, name, p->value), v = value + p->value.len;
    size_t again = view_find(text, v, p->name);
    if (again == text.len) return false;
    view before = part(text, from, name), between = part(text, v, again);
    m->open = common_tag(before, between);
    if (!m->open.len || !view_starts(between, m->value_end)) return false;
    m->end = chat_trim(part(between, m->value_end.len, between.len - m->open.len));
    /* The text around all calls: a tag before the first, and its end after the last. */
    size_t last = view_find(text, again, p->value) + p->value.len;
    size_t rest = view_find(text, last, m->end) + m->end.len;
    view tail = chat_trim(part(text, rest, text.len)), head = none;
    before = trim_end(part(before, 0, before.len - m->open.len));
    size_t close = view_find(tail, 0, VIEW(">"));
    if (!view_starts(tail, VIEW("</")) || close == tail.len) return m->end.len != 0;
    m->section_end = part(tail, 0, close + 1);
    if (p->end.len && view_starts(m->section_end, p->end)) m->section_end = none;
    for (size_t i = before.len; m->section_end.len && i-- > 0;)
        if (before.ptr[i] == '<') {
            head = part(before, i, before.len);
            break;
        }
    if (is_pair(head, m->section_end)) m->section = head;
    else m->section_end = none;
    return m->end.len != 0;
}

/* The text between the key and a value that is not text; false: it is not there. */
static bool find_json_key_end(const chat_call_probes *p, const marks *m, view text, view value,
                              view *out)
{
    size_t name = view_find(text, view_past(text, p->question), p->name);
    size_t key = view_find(text, name, p->key) + p->key.len;
    size_t at = view_find(text, key, value);
    if (at == text.len || !view_starts(part(text, at + value.len, text.len), m->value_end))
        return false;
    *out = part(text, key, at);
    return true;
}

/* Text may have its own mark before it, and all other types another; the record cannot hold more
 * kinds than these two. */
static bool find_types(const chat_call_probes *p, marks *m)
{
    view number, truth;
    m->json_key_end = none;
    if (!find_json_key_end(p, m, p->number, p->figure, &number)) return false;
    if (view_equal(number, m->key_end)) return true;
    if (!find_json_key_end(p, m, p->truth, p->yes, &truth) || !view_equal(number, truth) ||
        view_starts(number, m->key_end) || view_starts(m->key_end, number))
        return false;
    m->json_key_end = number;
    return true;
}

/* The first byte of the text that ends a value must not be in its rest: the grammar of values
 * requires it. */
static bool is_usable(const chat_call_probes *p, const marks *m)
{
    const view all[] = {m->section, m->open, m->name_end, m->key, m->key_end, m->json_key_end,
                        m->value_end, m->end, m->section_end};
    /* A mark that contains a name differs for each tool, or each key. */
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].len > CHAT_MARK_TEXT_MAX || view_find(all[i], 0, p->name) < all[i].len ||
            view_find(all[i], 0, p->key) < all[i].len ||
            view_find(all[i], 0, p->second) < all[i].len)
            return false;
    return !memchr(m->value_end.ptr + 1, m->value_end.ptr[0], m->value_end.len - 1);
}

bool chat_find_marks(const chat_call_probes *p, char out[CHAT_CALLS_BYTES])
{
    marks m = {none, none, none, none, none, none, none, none, none};
    out[0] = 0;
    if (!find_argument(p, &m) || !find_call(p, &m) || !find_types(p, &m) || !is_usable(p, &m))
        return false;
    json_t *record = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "section",
                               mark_json(m.section), "open", mark_json(m.open), "name_end",
                               mark_json(m.name_end), "key", mark_json(m.key), "key_end",
                               mark_json(m.key_end), "json_key_end", mark_json(m.json_key_end),
                               "value_end", mark_json(m.value_end), "end",
                               mark_json(m.end), "section_end", mark_json(m.section_end),
                               "opens_thought", p->opens_thought);
    size_t n = record ? json_dumpb(record, out, CHAT_CALLS_BYTES - 1, JSON_COMPACT) : 0;
    json_decref(record);
    out[n < CHAT_CALLS_BYTES ? n : 0] = 0;
    return n > 0 && n < CHAT_CALLS_BYTES;
}
