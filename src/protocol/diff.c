/* diff.c - Myers' greedy algorithm over lines, and the unified form. */
#include "protocol/diff.h"

#include "base/memory.h"

enum { AROUND = 3 }; /* equal lines shown before and after a change */

/* ---- lines ---- */

static uint32_t count_lines(view text)
{
    uint32_t n = 0;
    for (size_t i = 0; i < text.len; i++) n += text.ptr[i] == '\n';
    return n + (text.len > 0 && text.ptr[text.len - 1] != '\n');
}

static int split(diff *d, int side, view text)
{
    uint32_t n = count_lines(text);
    if (text.len > DIFF_BYTES_MAX || n > DIFF_LINES_MAX) return CERIUM_ERR_CAPACITY;
    d->lines[side] = memory_alloc((n + 1) * sizeof(view));
    if (!d->lines[side]) return CERIUM_ERR_MEMORY;
    for (size_t at = 0, end; at < text.len; at = end) {
        const char *feed = memchr(text.ptr + at, '\n', text.len - at);
        end = feed ? (size_t)(feed - text.ptr) + 1 : text.len;
        d->lines[side][d->n_lines[side]++] = (view){text.ptr + at, end - at};
    }
    return CERIUM_OK;
}

/* ---- changes ---- */

/* Between the equal lines at both ends. */
typedef struct {
    const view *a, *b;
    bool is_loose;
    int32_t n_a, n_b, first; /* lines, and the number of equal ones before them */
} middle;

static void add_change(diff *d, uint32_t a, uint32_t n_a, uint32_t b, uint32_t n_b)
{
    diff_change *last = d->n_changes ? &d->changes[d->n_changes - 1] : NULL;
    if (last && last->a + last->n_a == a && last->b + last->n_b == b) {
        last->n_a += n_a;
        last->n_b += n_b;
        return;
    }
    d->changes[d->n_changes++] = (diff_change){a, n_a, b, n_b};
}

/* How far each diagonal k = x - y gets with d changes, for d = 0, 1, ... until one reaches the end:
 * reach[d*d + d + k] = x, -d <= k <= d.  Returns d, or -1 beyond the limit. */
static int32_t walk(const middle *m, int32_t *reach)
{
    for (int32_t d = 0; d <= DIFF_CHANGES_MAX; d++) {
        const int32_t *before = d ? reach + (d - 1) * (d - 1) + (d - 1) : NULL;
        int32_t *now = reach + d * d + d;
        for (int32_t k = -d; k <= d; k += 2) {
            bool down = d && (k == -d || (k != d && before[k - 1] < before[k + 1]));
            int32_t x = !d ? 0 : down ? before[k + 1] : before[k - 1] + 1;
            int32_t y = x - k;
            while (x < m->n_a && y < m->n_b && diff_same(m->a[x], m->b[y], m->is_loose)) x++, y++;
            now[k] = x;
            if (x >= m->n_a && y >= m->n_b) return d;
        }
    }
    return -1;
}

/* Mark the lines of each side that are part of a change, from the end back. */
static void trace(const middle *m, const int32_t *reach, int32_t d, uint8_t *gone, uint8_t *come)
{
    int32_t x = m->n_a, y = m->n_b;
    for (; d > 0; d--) {
        const int32_t *before = reach + (d - 1) * (d - 1) + (d - 1);
        int32_t k = x - y;
        bool down = k == -d || (k != d && before[k - 1] < before[k + 1]);
        x = before[down ? k + 1 : k - 1];
        y = x - (down ? k + 1 : k - 1);
        if (down)
            come[y] = 1;
        else
            gone[x] = 1;
    }
}

static void gather(diff *d, const middle *m, const uint8_t *gone, const uint8_t *come)
{
    int32_t x = 0, y = 0;
    while (x < m->n_a || y < m->n_b) {
        int32_t from_x = x, from_y = y;
        while (x < m->n_a && gone[x]) x++;
        while (y < m->n_b && come[y]) y++;
        if (x > from_x || y > from_y)
            add_change(d, (uint32_t)(m->first + from_x), (uint32_t)(x - from_x),
                       (uint32_t)(m->first + from_y), (uint32_t)(y - from_y));
        else
            x++, y++;
    }
}

static int compare(diff *d, const middle *m)
{
    size_t n_reach = (size_t)(DIFF_CHANGES_MAX + 1) * (DIFF_CHANGES_MAX + 1);
    int32_t *reach = memory_alloc(n_reach * sizeof *reach);
    uint8_t *gone = memory_zalloc((size_t)m->n_a + 1, 1);
    uint8_t *come = memory_zalloc((size_t)m->n_b + 1, 1);
    int status = reach && gone && come ? CERIUM_OK : CERIUM_ERR_MEMORY;
    if (!status) {
        int32_t n = walk(m, reach);
        if (n >= 0) {
            trace(m, reach, n, gone, come);
            gather(d, m, gone, come);
        } else {
            add_change(d, (uint32_t)m->first, (uint32_t)m->n_a, (uint32_t)m->first,
                       (uint32_t)m->n_b);
        }
    }
    memory_free(reach);
    memory_free(gone);
    memory_free(come);
    return status;
}

static int find_changes(diff *d)
{
    uint32_t n = d->n_lines[0] < d->n_lines[1] ? d->n_lines[0] : d->n_lines[1], head = 0, tail = 0;
    while (head < n && diff_same(d->lines[0][head], d->lines[1][head], d->is_loose)) head++;
    while (tail < n - head &&
           diff_same(d->lines[0][d->n_lines[0] - 1 - tail], d->lines[1][d->n_lines[1] - 1 - tail],
                   d->is_loose))
        tail++;
    middle m = {.a = d->lines[0] + head,
                .b = d->lines[1] + head,
                .is_loose = d->is_loose,
                .n_a = (int32_t)(d->n_lines[0] - head - tail),
                .n_b = (int32_t)(d->n_lines[1] - head - tail),
                .first = (int32_t)head};
    d->changes = memory_alloc(((size_t)n + 1) * sizeof *d->changes);
    if (!d->changes) return CERIUM_ERR_MEMORY;
    return m.n_a || m.n_b ? compare(d, &m) : CERIUM_OK;
}

int diff_open(diff *out, view a, view b, bool is_loose, cerium_error *err)
{
    diff d = {.is_loose = is_loose};
    int status = split(&d, 0, a);
    if (!status) status = split(&d, 1, b);
    if (!status) status = find_changes(&d);
    if (!status) {
        *out = d;
        return CERIUM_OK;
    }
    diff_close(&d);
    if (status == CERIUM_ERR_MEMORY) return error_set(err, status, "no memory to compare texts");
    return error_set(err, status, "texts of more than %u lines or %u bytes are not compared",
                     DIFF_LINES_MAX, DIFF_BYTES_MAX);
}

void diff_close(diff *d)
{
    memory_free(d->lines[0]);
    memory_free(d->lines[1]);
    memory_free(d->changes);
    *d = (diff){0};
}

/* ---- showing ---- */

/* The first change after `first` that is not shown with it. */
static uint32_t hunk_end(const diff *d, uint32_t first)
{
    uint32_t end = first + 1;
    while (end < d->n_changes &&
           d->changes[end].a - (d->changes[end - 1].a + d->changes[end - 1].n_a) <= 2 * AROUND)
        end++;
    return end;
}

uint32_t diff_hunks(const diff *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n_changes; i = hunk_end(d, i)) n++;
    return n;
}

void diff_count(const diff *d, uint32_t *added, uint32_t *removed)
{
    *added = *removed = 0;
    for (uint32_t i = 0; i < d->n_changes; i++) {
        *added += d->changes[i].n_b;
        *removed += d->changes[i].n_a;
    }
}

static void print_lines(const view *lines, uint32_t from, uint32_t end, char mark, FILE *to)
{
    for (uint32_t i = from; i < end; i++) {
        fputc(mark, to);
        fwrite(lines[i].ptr, 1, lines[i].len, to);
        if (lines[i].ptr[lines[i].len - 1] != '\n')
            fputs("\n\\ No newline at end of file\n", to);
    }
}

static void print_range(char mark, uint32_t from, uint32_t n, FILE *to)
{
    fprintf(to, " %c%u", mark, n ? from + 1 : from);
    if (n != 1) fprintf(to, ",%u", n);
}

static void print_hunk(const diff *d, uint32_t first, uint32_t end, FILE *to)
{
    const diff_change *c = &d->changes[first], *last = &d->changes[end - 1];
    uint32_t before = c->a < AROUND ? c->a : AROUND;
    uint32_t left = d->n_lines[0] - last->a - last->n_a, after = left < AROUND ? left : AROUND;
    uint32_t a = c->a - before, b = c->b - before;
    fputs("@@", to);
    print_range('-', a, last->a + last->n_a + after - a, to);
    print_range('+', b, last->b + last->n_b + after - b, to);
    fputs(" @@\n", to);
    for (; c <= last; c++) {
        print_lines(d->lines[0], a, c->a, ' ', to);
        print_lines(d->lines[0], c->a, c->a + c->n_a, '-', to);
        print_lines(d->lines[1], c->b, c->b + c->n_b, '+', to);
        a = c->a + c->n_a;
    }
    print_lines(d->lines[0], a, a + after, ' ', to);
}

void diff_print(const diff *d, const char *path, FILE *to)
{
    if (d->n_changes == 0) return;
    const char *from = path[0] == '/' ? path + 1 : path;
    fprintf(to, "--- a/%s\n+++ b/%s\n", from, from);
    for (uint32_t i = 0, end; i < d->n_changes; i = end) {
        end = hunk_end(d, i);
        print_hunk(d, i, end, to);
    }
}
