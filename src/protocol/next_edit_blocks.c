/* next_edit_blocks.c - Zeta 2.1 names blocks of the region by marks, and answers with the marks
 * around the rewritten text. */
#include "base/text.h"
#include "protocol/next_edit.h"

enum { LINES_MIN = 3, LINES_MAX = 8, LOOK_LINES = 5 };

#define MARK "<|marker_"

/* One line of the region, from `at` on. */
typedef struct {
    size_t at, end; /* without its line end */
} region_line;

static view trimmed(view text, region_line l)
{
    return view_trim((view){text.ptr + l.at, l.end - l.at}, " \t\r\f\v");
}

/* No block begins with a closing line. */
static bool may_begin(view line)
{
    static const char *const tails[] = {"break", "continue", "return", "throw", "end"};
    if (!line.len || memchr("}])", *line.ptr, 3)) return false;
    line = view_trim_end(line, ";");
    return !view_is_one_of(line, tails, ARRAY_LEN(tails));
}

static region_line line_at(view text, size_t at)
{
    const char *end = memchr(text.ptr + at, '\n', text.len - at);
    return (region_line){at, end ? (size_t)(end - text.ptr) : text.len};
}

/* The first line from `from` on, nearby, that may begin a block; else that one.  *n: its number. */
static size_t good_begin(view text, size_t from, size_t *n)
{
    size_t at = from;
    for (size_t i = 0; i < LOOK_LINES && at < text.len; i++) {
        const region_line l = line_at(text, at);
        if (may_begin(trimmed(text, l))) {
            *n += i;
            return at;
        }
        at = l.end + 1;
    }
    return from;
}

static size_t lines_from(view text, size_t at)
{
    size_t n = 0;
    for (; at < text.len; n++) at = line_at(text, at).end + 1;
    return n;
}

size_t next_edit_blocks(view text, size_t out[NEXT_EDIT_BLOCKS_MAX + 1])
{
    size_t n = 0, begin = 0, line = 0;
    bool after_blank = false;
    out[n++] = 0;
    for (size_t at = 0; at < text.len && n < NEXT_EDIT_BLOCKS_MAX;) {
        const region_line l = line_at(text, at);
        const size_t gap = line - begin;
        const bool is_empty = !trimmed(text, l).len;
        size_t target = line, place = at;
        bool splits = false;
        if (gap >= LINES_MIN && !is_empty && after_blank) {
            place = good_begin(text, at, &target);
            splits = lines_from(text, place) >= LINES_MIN && place > out[n - 1];
        }
        if (!splits && gap >= LINES_MAX) {
            target = line;
            place = good_begin(text, at, &target);
            splits = place > out[n - 1];
        }
        if (splits) {
            out[n++] = place;
            begin = target;
            line = target + 1;
            at = line_at(text, place).end + 1;
            after_blank = !trimmed(text, line_at(text, place)).len;
        } else {
            after_blank = is_empty;
            line++;
            at = l.end + 1;
        }
    }
    if (!text.len || out[n - 1] != text.len) out[n++] = text.len;
    return n;
}

/* ---- answers ---- */

/* The mark at or after *at: its number and beginning; *at moves after it. */
static bool next_mark(view answer, size_t *at, size_t *number, size_t *begin)
{
    static const view mark = VIEW(MARK);
    while (*at < answer.len) {
        const char *found = memmem(answer.ptr + *at, answer.len - *at, mark.ptr, mark.len);
        if (!found) return false;
        size_t i = (size_t)(found - answer.ptr) + mark.len, n = 0, digits = 0;
        for (; i < answer.len && answer.ptr[i] >= '0' && answer.ptr[i] <= '9' && digits < 6; i++) {
            n = n * 10 + (size_t)(answer.ptr[i] - '0');
            digits++;
        }
        *at = (size_t)(found - answer.ptr) + mark.len;
        if (!digits || i + 2 > answer.len || memcmp(answer.ptr + i, "|>", 2) != 0) continue;
        *begin = (size_t)(found - answer.ptr);
        *number = n;
        *at = i + 2;
        return true;
    }
    return false;
}

bool next_edit_from_blocks(view window, view answer, bytes *out, int *status)
{
    size_t blocks[NEXT_EDIT_BLOCKS_MAX + 1], at = 0, first, last = 0, begin, end;
    const size_t n = next_edit_blocks(window, blocks);
    bytes inner = {.max = NEXT_EDIT_TEXT_BYTES_MAX};
    bool found = next_mark(answer, &at, &first, &begin);
    for (end = at; found && !*status && next_mark(answer, &at, &last, &begin); end = at)
        *status = bytes_append(&inner, answer.ptr + end, begin - end);
    bool fits = found && !*status && last && first && first <= n && last <= n;
    if (fits && first == last) {
        *status = bytes_append(out, window.ptr, window.len); /* nothing changes */
    } else if (fits && first < last) {
        *status = bytes_append(out, window.ptr, blocks[first - 1]);
        if (!*status) *status = bytes_append(out, inner.ptr ? inner.ptr : "", inner.len);
        if (!*status)
            *status = bytes_append(out, window.ptr + blocks[last - 1],
                                   window.len - blocks[last - 1]);
    }
    bytes_free(&inner);
    return fits && first <= last && !*status;
}
