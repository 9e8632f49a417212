/* edit_answer.c - reads edits, and applies them to the file. */
#include "protocol/edit_answer.h"

#include "protocol/diff.h"

static bool refuse(char fault[EDIT_FAULT_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(char fault[EDIT_FAULT_MAX], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(fault, EDIT_FAULT_MAX, format, args);
    va_end(args);
    return false;
}

/* ---- lines ---- */

/* The line at *at with its end, and *at after it; false at the end of the text. */
static bool next_line(view text, size_t *at, view *line)
{
    if (*at >= text.len) return false;
    const char *feed = memchr(text.ptr + *at, '\n', text.len - *at);
    size_t end = feed ? (size_t)(feed - text.ptr) + 1 : text.len;
    *line = (view){text.ptr + *at, end - *at};
    *at = end;
    return true;
}

/* 5 to 9 times c, then word, and nothing else. */
static bool is_mark(view line, char c, const char *word)
{
    size_t n = 0;
    line = diff_without_end(line);
    while (n < line.len && line.ptr[n] == c) n++;
    view rest = {line.ptr + n, line.len - n};
    while (rest.len && *word && rest.ptr[0] == ' ') rest.ptr++, rest.len--;
    return n >= 5 && n <= 9 && view_equal(rest, view_of(word));
}

/* ---- blocks ---- */

bool edit_blocks_read(view answer, edit_blocks *out, char fault[EDIT_FAULT_MAX])
{
    enum { OUTSIDE, SEARCH, REPLACE } where = OUTSIDE;
    edit_block b = {0};
    view line;
    out->n = 0;
    for (size_t at = 0, from = 0; next_line(answer, &at, &line);) {
        size_t begin = at - line.len;
        if (where == OUTSIDE && is_mark(line, '<', "SEARCH")) {
            where = SEARCH;
            from = at;
        } else if (where == SEARCH && is_mark(line, '=', "")) {
            b.search = (view){answer.ptr + from, begin - from};
            where = REPLACE;
            from = at;
        } else if (where == REPLACE && is_mark(line, '>', "REPLACE")) {
            b.replace = (view){answer.ptr + from, begin - from};
            where = OUTSIDE;
            if (out->n == EDIT_BLOCKS_MAX)
                return refuse(fault, "the answer has more than %u blocks", EDIT_BLOCKS_MAX);
            out->blocks[out->n++] = b;
        } else if (where != OUTSIDE && is_mark(line, '<', "SEARCH")) {
            return refuse(fault, "block %u is not closed", out->n + 1);
        }
    }
    if (where != OUTSIDE) return refuse(fault, "block %u is not closed", out->n + 1);
    return out->n > 0 || refuse(fault, "the answer has no search/replace block");
}

/* Does file have the lines of search from `at` on?  Returns their length in file, or 0. */
static size_t match(view file, size_t at, view search, bool is_loose)
{
    view want, have;
    size_t begin = at, at_search = 0;
    while (next_line(search, &at_search, &want)) {
        if (!next_line(file, &at, &have)) return 0;
        /* The last line of a file may lack its line break. */
        bool is_last = at == file.len && have.ptr[have.len - 1] != '\n';
        if (!diff_same(want, have, is_loose || is_last)) return 0;
    }
    return at - begin;
}

/* The number of places where search occurs; *at and *len of the first. */
static uint32_t find(view file, view search, bool is_loose, size_t *at, size_t *len)
{
    uint32_t n = 0;
    view line;
    for (size_t from = 0, next = 0; from < file.len; from = next) {
        size_t n_bytes = match(file, from, search, is_loose);
        if (n_bytes && n++ == 0) *at = from, *len = n_bytes;
        if (!next_line(file, &next, &line)) break;
    }
    return n;
}

/* For a message: the line at which a block begins. */
static int shown(view search, const char **text)
{
    size_t at = 0;
    view line = {"", 0};
    while (next_line(search, &at, &line) && diff_without_end(line).len == 0) continue;
    line = view_trim(line, " \t\r\n");
    *text = line.ptr;
    return line.len < 60 ? (int)line.len : 60;
}

static bool place(edit_block *b, uint32_t number, view file, char fault[EDIT_FAULT_MAX])
{
    const char *text;
    int len = shown(b->search, &text);
    if (b->search.len == 0) {
        b->at = b->len = 0;
        return file.len == 0 || refuse(fault, "block %u searches for nothing", number);
    }
    uint32_t n = find(file, b->search, false, &b->at, &b->len);
    if (n == 0) n = find(file, b->search, true, &b->at, &b->len);
    if (n == 1) return true;
    if (n == 0)
        return refuse(fault, "block %u searches for what is not in the file: '%.*s'", number, len,
                      text);
    return refuse(fault, "block %u fits %u places: '%.*s'", number, n, len, text);
}

static int compare_places(const void *a, const void *b)
{
    const edit_block *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->len < y->len ? -1 : x->len > y->len;
}

/* The replacement of lines: the last line of a file keeps its missing line break. */
static int put(bytes *out, const edit_block *b, view file)
{
    view text = b->replace;
    bool has_end = b->len == 0 || file.ptr[b->at + b->len - 1] == '\n';
    if (!has_end && text.len && text.ptr[text.len - 1] == '\n') text.len--;
    return bytes_append(out, text.ptr, text.len);
}

int edit_blocks_apply(edit_blocks *blocks, view file, bytes *out, char fault[EDIT_FAULT_MAX])
{
    size_t len_before = out->len, at = 0;
    for (uint32_t i = 0; i < blocks->n; i++)
        if (!place(&blocks->blocks[i], i + 1, file, fault)) return CERIUM_ERR_FORMAT;
    qsort(blocks->blocks, blocks->n, sizeof *blocks->blocks, compare_places);
    int status = CERIUM_OK;
    for (uint32_t i = 0; i < blocks->n && !status; i++) {
        const edit_block *b = &blocks->blocks[i];
        if (b->at < at || (i && b->len == 0)) {
            refuse(fault, "two blocks touch the same lines");
            status = CERIUM_ERR_FORMAT;
        }
        if (!status) status = bytes_append(out, file.ptr + at, b->at - at);
        if (!status) status = put(out, b, file);
        at = b->at + b->len;
    }
    if (!status) status = bytes_append(out, file.ptr + at, file.len - at);
    if (status == CERIUM_ERR_CAPACITY) refuse(fault, "the edited file would be too long");
    if (status) out->len = len_before;
    return status;
}

/* ---- the whole file ---- */

/* The number of backticks at a line's beginning, if three or more; *closes when nothing else
 * follows. */
static size_t fence(view line, bool *closes)
{
    size_t n = 0;
    line = diff_without_end(line);
    while (n < line.len && line.ptr[n] == '`') n++;
    *closes = n == line.len;
    return n >= 3 ? n : 0;
}

static bool has_fence(view text)
{
    view line;
    bool closes, has = false;
    for (size_t at = 0; !has && next_line(text, &at, &line);) has = fence(line, &closes) > 0;
    return has;
}

bool edit_whole_read(view answer, view file, view *out, char fault[EDIT_FAULT_MAX])
{
    size_t n_ticks = 0, from = 0, end = 0;
    uint32_t n_fences = 0;
    view line;
    for (size_t at = 0; next_line(answer, &at, &line);) {
        bool closes;
        size_t n = fence(line, &closes);
        if (!n) continue;
        n_fences++;
        if (n_fences == 1) {
            n_ticks = n;
            from = at;
        } else if (closes && n == n_ticks) {
            end = at - line.len;
        }
    }
    if (n_fences == 0) return refuse(fault, "the answer has no file in a fence");
    if (end == 0) return refuse(fault, "the file in the answer is not closed");
    if (n_fences > 2 && !has_fence(file))
        return refuse(fault, "the answer has several texts in fences");
    *out = (view){answer.ptr + from, end - from};
    return true;
}

static int append_lines(bytes *out, const view *lines, uint32_t from, uint32_t end)
{
    int status = CERIUM_OK;
    for (uint32_t i = from; i < end && !status; i++)
        status = bytes_append(out, lines[i].ptr, lines[i].len);
    return status;
}

int edit_whole_apply(view answer, view file, bytes *out, char fault[EDIT_FAULT_MAX])
{
    diff d;
    cerium_error err;
    size_t len_before = out->len;
    uint32_t a = 0;
    int status = diff_open(&d, file, answer, true, &err);
    if (status) {
        refuse(fault, "%.150s", err.message);
        return status;
    }
    for (uint32_t i = 0; i < d.n_changes && !status; i++) {
        const diff_change *c = &d.changes[i];
        status = append_lines(out, d.lines[0], a, c->a);
        /* The last line of the old file may lack its line break. */
        bool is_open = out->len > len_before && out->ptr[out->len - 1] != '\n';
        if (!status && c->n_b && is_open) status = bytes_append(out, "\n", 1);
        if (!status) status = append_lines(out, d.lines[1], c->b, c->b + c->n_b);
        a = c->a + c->n_a;
    }
    if (!status) status = append_lines(out, d.lines[0], a, d.n_lines[0]);
    bool had_end = file.len == 0 || file.ptr[file.len - 1] == '\n';
    bool has_end = out->len > len_before && out->ptr[out->len - 1] == '\n';
    if (!status && has_end && !had_end) out->len--;
    if (!status && !has_end && had_end && out->len > len_before)
        status = bytes_append(out, "\n", 1);
    diff_close(&d);
    if (status == CERIUM_ERR_CAPACITY) refuse(fault, "the edited file would be too long");
    if (status) out->len = len_before;
    return status;
}
