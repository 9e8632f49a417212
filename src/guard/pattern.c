/* pattern.c - matching dotted names against the patterns of rules. */
#include "guard/pattern.h"

#include "base/hash.h"

enum { SEGMENTS_MAX = 16, EXPANDED_BYTES_MAX = 256 };

static bool segment_matches(view want, view have)
{
    if (want.len && want.ptr[want.len - 1] == '*')
        return view_starts(have, (view){want.ptr, want.len - 1});
    if (want.len && want.ptr[0] == '*') /* *_path */
        return have.len >= want.len &&
               !memcmp(have.ptr + have.len - (want.len - 1), want.ptr + 1, want.len - 1);
    return view_equal(want, have);
}

/* The last segment of *rest, which is cut off; rest->ptr becomes NULL after the first segment. */
static view cut_last(view *rest)
{
    size_t at = rest->len;
    while (at && rest->ptr[at - 1] != '.') at--;
    view last = {rest->ptr + at, rest->len - at};
    *rest = at ? (view){rest->ptr, at - 1} : (view){NULL, 0};
    return last;
}

bool pattern_matches(const pattern *p, view name)
{
    view want = p->text, have = name;
    if (!name.len) return false;
    while (want.ptr) {
        if (!have.ptr) return false;
        if (!segment_matches(cut_last(&want), cut_last(&have))) return false;
    }
    if (p->receiver) return have.ptr != NULL;
    return p->n_segments > 1 || !have.ptr;
}

uint32_t pattern_hash(view name)
{
    if (!name.len) return 1;
    view last = cut_last(&name);
    return last.len ? (uint32_t)hash_bytes(last.ptr, last.len, 0) | 1 : 1;
}

/* The first pattern whose hash is not below. */
static uint32_t first_of(const pattern_list *l, uint32_t hash)
{
    uint32_t low = 0, high = l->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (l->list[mid].hash < hash) low = mid + 1;
        else high = mid;
    }
    return low;
}

bool patterns_match(const pattern_list *l, view name)
{
    if (!l->n || !name.len) return false;
    for (uint32_t i = 0; i < l->n && !l->list[i].hash; i++)
        if (pattern_matches(&l->list[i], name)) return true;
    uint32_t hash = pattern_hash(name);
    for (uint32_t i = first_of(l, hash); i < l->n && l->list[i].hash == hash; i++)
        if (pattern_matches(&l->list[i], name)) return true;
    return false;
}

static int push(pattern_list *l, pattern p)
{
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 8;
        pattern *list = memory_alloc(cap * sizeof *list);
        if (!list) return CERIUM_ERR_MEMORY;
        if (l->n) memcpy(list, l->list, l->n * sizeof *list);
        memory_free(l->list);
        l->list = list;
        l->cap = cap;
    }
    p.hash = p.open ? 0 : pattern_hash(p.last);
    uint32_t at = first_of(l, p.hash);
    memmove(l->list + at + 1, l->list + at, (l->n++ - at) * sizeof *l->list);
    l->list[at] = p;
    return CERIUM_OK;
}

static int add_one(pattern_list *l, arena *a, view text)
{
    char *copy = arena_take(a, text.len + 1, 1);
    if (!copy) return CERIUM_ERR_CAPACITY;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    pattern p = {.text = {copy, text.len}, .n_segments = 1};
    if (view_starts(p.text, VIEW("*."))) {
        p.receiver = true;
        p.text.ptr += 2;
        p.text.len -= 2;
    }
    for (size_t i = 0; i < p.text.len; i++) p.n_segments += p.text.ptr[i] == '.';
    view rest = p.text;
    if (!p.text.len || p.n_segments > SEGMENTS_MAX) return CERIUM_ERR_FORMAT;
    p.last = cut_last(&rest);
    p.open = p.last.len && p.last.ptr[p.last.len - 1] == '*';
    if (p.open) p.last.len--;
    else if (p.last.len > 1 && p.last.ptr[0] == '*') {
        p.open = true;
        p.last.ptr++;
        p.last.len--;
    }
    return push(l, p);
}

int pattern_add(pattern_list *l, arena *a, view text)
{
    const char *open = memchr(text.ptr, '{', text.len);
    if (!open) return add_one(l, a, text);
    const char *end = text.ptr + text.len, *close = memchr(open, '}', (size_t)(end - open));
    if (!close) return CERIUM_ERR_FORMAT;
    for (const char *at = open + 1, *next; at <= close; at = next + 1) {
        char out[EXPANDED_BYTES_MAX];
        for (next = at; *next != ',' && next != close;) next++;
        size_t head = (size_t)(open - text.ptr), mid = (size_t)(next - at);
        size_t tail = (size_t)(end - close - 1);
        if (head + mid + tail > sizeof out) return CERIUM_ERR_CAPACITY;
        memcpy(out, text.ptr, head);
        memcpy(out + head, at, mid);
        memcpy(out + head + mid, close + 1, tail);
        /* The part before the brace has no braces left, so each round has one brace less. */
        RETURN_IF(pattern_add(l, a, (view){out, head + mid + tail}));
    }
    return CERIUM_OK;
}

void pattern_list_close(pattern_list *l)
{
    memory_free(l->list);
    *l = (pattern_list){0};
}
