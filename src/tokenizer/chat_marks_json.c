/* chat_marks_json.c - owns finding how a template writes calls whose arguments are a JSON object,
 * from renderings of probes.  src/reader/call_marks.c reads the record.
 *
 * Ids, and numbers that count calls, are CHAT_MARK_ANY in the marks. */
#include "base/text.h"
#include "tokenizer/chat_template.h"

enum { TEXT_MAX = 512 };

typedef struct {
    char text[TEXT_MAX];
    size_t n;
} piece_text;

typedef struct {
    piece_text before, mark, between, mark_again, after; /* around two calls; around one call there
                                                            is no between */
    bool one;
} calls_text;

typedef struct {
    view section, open, name_end, end, between, section_end;
} json_marks;

static view span(const piece_text *p, size_t from, size_t to)
{
    return (view){p->text + from, to - from};
}

/* ---- pieces ---- */

/* text with its ids replaced; after the calls no more than fits. */
static void take_piece(piece_text *out, const chat_call_probes *p, view text)
{
    out->n = 0;
    for (size_t i = 0; i < text.len && out->n < TEXT_MAX; out->n++) {
        const view rest = {text.ptr + i, text.len - i};
        const view *id = view_starts(rest, p->ids[0])   ? &p->ids[0]
                         : view_starts(rest, p->ids[1]) ? &p->ids[1] : NULL;
        out->text[out->n] = id ? CHAT_MARK_ANY : text.ptr[i];
        i += id ? id->len : 1;
    }
}

/* Do not cut a tag: if [0, n) of text ends inside one, it ends before the tag. */
static size_t whole_tags(const char *text, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (text[i] == '>') return n;
        if (text[i] == '<') return i;
    }
    return n;
}

/* How much of before any answer begins with: opens. */
static size_t opening(view before, view opens)
{
    size_t n = 0;
    while (n < before.len && n < opens.len && before.ptr[n] == opens.ptr[n]) n++;
    return n < opens.len ? whole_tags(before.ptr, n) : n;
}

/* The text before the calls of an answer that is not before its text; an empty thought is
 * omitted. */
static view begun(const chat_call_probes *p, view before)
{
    const size_t from = view_past(p->prompt, p->question);
    const size_t answered = view_past(p->answered, p->question);
    const size_t text = view_find(p->answered, answered, p->answer);
    size_t n = opening(before, (view){p->prompt.ptr + from, p->prompt.len - from});
    const size_t m = opening(before, (view){p->answered.ptr + answered, text - answered});
    if (n < m) n = m;
    view out = {before.ptr + n, before.len - n};
    const size_t thought = view_past(out, VIEW("</think>"));
    if (thought < out.len) out = (view){out.ptr + thought, out.len - thought};
    return chat_trim(out);
}

static bool take_pieces(const chat_call_probes *p, calls_text *c)
{
    view text = p->calls;
    const size_t from = view_past(text, p->question), name = view_find(text, from, p->name);
    const size_t mark = name + p->name.len, object = view_find(text, mark, p->arguments);
    const size_t rest_of = object + p->arguments.len;
    if (object >= text.len) return false;
    const size_t again = view_find(text, rest_of, p->name), mark_2 = again + p->name.len;
    const size_t object_2 = view_find(text, mark_2, p->arguments);
    c->one = again >= text.len || object_2 >= text.len;
    take_piece(&c->before, p, begun(p, (view){text.ptr + from, name - from}));
    take_piece(&c->mark, p, (view){text.ptr + mark, object - mark});
    const size_t end = c->one ? rest_of : object_2 + p->arguments.len;
    take_piece(&c->after, p, (view){text.ptr + end, text.len - end});
    if (c->one) return true;
    take_piece(&c->between, p, (view){text.ptr + rest_of, again - rest_of});
    take_piece(&c->mark_again, p, (view){text.ptr + mark_2, object_2 - mark_2});
    return true;
}

/* ---- common parts ---- */

static bool is_common(piece_text *a, size_t i, char b)
{
    if (a->text[i] == b) return true;
    if (b != CHAT_MARK_ANY && !(byte_is_digit(a->text[i]) && byte_is_digit(b))) return false;
    a->text[i] = CHAT_MARK_ANY; /* it counts calls */
    return true;
}

/* The common end of a and b, from the beginning of a tag or of an object. */
static view common_end(piece_text *a, const piece_text *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && is_common(a, a->n - 1 - n, b->text[b->n - 1 - n])) n++;
    view out = span(a, a->n - n, a->n);
    const char *open = memchr(out.ptr, '<', out.len), *close = memchr(out.ptr, '>', out.len);
    if (close && open && close < open) {
        out.len -= (size_t)(open - out.ptr);
        out.ptr = open;
    } else if (close && !open) {
        return (view){"", 0};
    }
    return view_trim_start(out, " \t\r\n");
}

static view common_begin(piece_text *a, const piece_text *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && is_common(a, n, b->text[n])) n++;
    if (n < a->n || n < b->n) n = whole_tags(a->text, n);
    return view_trim_end(span(a, 0, n), " \t\r\n");
}

/* ---- the marks ---- */

/* The text that closes all calls: the next tag, with the bracket before it, in the same turn. */
static view find_section_end(const chat_call_probes *p, const calls_text *c, size_t from)
{
    enum { BRACKETS_MAX = 4 };
    const view rest = chat_trim(span(&c->after, from, c->after.n)), none = {"", 0};
    const size_t tag = view_find(rest, 0, VIEW("<")), close = view_find(rest, tag, VIEW(">"));
    const size_t turn = p->end.len ? view_find(rest, 0, p->end) : rest.len;
    if (turn <= tag) return chat_trim((view){rest.ptr, turn <= BRACKETS_MAX ? turn : 0});
    return tag <= BRACKETS_MAX && close < rest.len ? (view){rest.ptr, close + 1} : none;
}

static bool find_marks(const chat_call_probes *p, calls_text *c, json_marks *m)
{
    m->between = m->section = m->section_end = (view){"", 0};
    if (c->one) {
        m->open = chat_trim(span(&c->before, 0, c->before.n));
        const view rest = span(&c->after, 0, c->after.n);
        const size_t end = p->end.len ? view_find(rest, 0, p->end) : rest.len;
        if (end == rest.len) return false;
        m->end = view_trim_end((view){rest.ptr, end}, " \t\r\n");
    } else {
        const view again = span(&c->mark_again, 0, c->mark_again.n);
        const size_t n = c->mark.n;
        if (n != c->mark_again.n) return false;
        for (size_t i = 0; i < n; i++)
            if (!is_common(&c->mark, i, again.ptr[i])) return false;
        m->open = common_end(&c->before, &c->between);
        c->between.n -= m->open.len;
        m->end = common_begin(&c->between, &c->after);
        m->between = span(&c->between, m->end.len, c->between.n);
        m->section = chat_trim(span(&c->before, 0, c->before.n - m->open.len));
        if (m->section.len) m->section_end = find_section_end(p, c, m->end.len);
    }
    m->name_end = span(&c->mark, 0, c->mark.n);
    return m->open.len && chat_trim(m->name_end).len;
}

static bool has_any(view text)
{
    return text.len && memchr(text.ptr, CHAT_MARK_ANY, text.len) != NULL;
}

static bool is_letter(char c)
{
    return byte_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == CHAT_MARK_ANY;
}

/* Text must not begin with the opening of calls by chance, names must end where their mark begins,
 * and no mark may contain the end of the turn. */
static bool is_usable(const chat_call_probes *p, const json_marks *m)
{
    const view all[] = {m->section, m->open, m->name_end, m->end, m->between, m->section_end};
    const view first = m->section.len ? m->section : m->open;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i].len > CHAT_MARK_TEXT_MAX || view_find(all[i], 0, p->name) < all[i].len)
            return false;
        if (p->end.len && view_find(all[i], 0, p->end) < all[i].len) return false;
    }
    return first.len >= 3 && strchr("<[", first.ptr[0]) && !has_any(first) &&
           !has_any(m->section_end) && !has_any(m->between) && !is_letter(m->name_end.ptr[0]) &&
           m->open.ptr[0] != CHAT_MARK_ANY && m->open.ptr[m->open.len - 1] != CHAT_MARK_ANY &&
           m->name_end.ptr[m->name_end.len - 1] != CHAT_MARK_ANY &&
           !(m->end.len && m->end.ptr[m->end.len - 1] == CHAT_MARK_ANY);
}

bool chat_find_json_marks(const chat_call_probes *p, char out[CHAT_CALLS_BYTES])
{
    calls_text c = {.one = false};
    json_marks m;
    out[0] = 0;
    if (!take_pieces(p, &c) || !find_marks(p, &c, &m) || !is_usable(p, &m)) return false;
    json_t *record = json_pack("{s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "json", 1, "section",
                               mark_json(m.section), "open", mark_json(m.open), "name_end",
                               mark_json(m.name_end), "end", mark_json(m.end), "between",
                               mark_json(m.between), "section_end", mark_json(m.section_end),
                               "opens_thought", p->opens_thought);
    size_t n = record ? json_dumpb(record, out, CHAT_CALLS_BYTES - 1, JSON_COMPACT) : 0;
    json_decref(record);
    out[n < CHAT_CALLS_BYTES ? n : 0] = 0;
    return n > 0 && n < CHAT_CALLS_BYTES;
}
