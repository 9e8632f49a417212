/* places.c - follows the headers and hunks of a diff, line by line. */
#include "programs/places.h"

enum { BYTES_MAX = 1 << 30 };

typedef struct {
    uint32_t line;  /* of the text, from 1 */
    uint32_t name;  /* in files */
} place_file;

/* The quoted name "\303\251" or "\"" that git wrote, up to its closing quote. */
static size_t unquote(view from, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < from.len && from.ptr[i] != '"'; i++) {
        static const char codes[] = "abtnvfr", bytes_of[] = "\a\b\t\n\v\f\r";
        char c = from.ptr[i];
        if (c == '\\' && i + 1 < from.len) {
            c = from.ptr[++i];
            const char *code = strchr(codes, c);
            if (c >= '0' && c <= '3' && i + 2 < from.len) {
                c = (char)((c - '0') << 6 | (from.ptr[i + 1] - '0') << 3 | (from.ptr[i + 2] - '0'));
                i += 2;
            } else if (code && c) {
                c = bytes_of[code - codes];
            }
        }
        out[n++] = c;
    }
    return n;
}

/* From this line on, the text belongs to that file. */
static int begin_file(diff_places *p, view name)
{
    char plain[PLACES_PATH_MAX];
    const place_file begin = {.line = (uint32_t)(p->lines.len / sizeof(uint32_t)),
                              .name = (uint32_t)p->files.len};
    size_t n = name.len;
    if (name.len && *name.ptr == '"') {
        n = unquote((view){name.ptr + 1, name.len - 1}, plain);
    } else {
        const char *tab = memchr(name.ptr, '\t', name.len); /* a date follows */
        if (tab) n = (size_t)(tab - name.ptr);
        memcpy(plain, name.ptr, n);
    }
    while (n && (plain[n - 1] == '\r' || plain[n - 1] == ' ')) n--;
    size_t skip = p->has_prefix && n > 2 && plain[1] == '/' ? 2 : 0;
    RETURN_IF(bytes_append(&p->files, plain + skip, n - skip));
    RETURN_IF(bytes_append(&p->files, "", 1));
    return bytes_append(&p->begins, &begin, sizeof begin);
}

static bool take_number(view *rest, uint32_t *out)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < rest->len && rest->ptr[i] >= '0' && rest->ptr[i] <= '9' && n <= UINT32_MAX; i++)
        n = n * 10 + (uint64_t)(rest->ptr[i] - '0');
    *rest = (view){rest->ptr + i, rest->len - i};
    *out = (uint32_t)n;
    return i && n < UINT32_MAX;
}

/* "12,7" or "12": first line and count. */
static bool take_range(view *rest, char sign, uint32_t *first, uint32_t *n)
{
    *n = 1;
    if (!rest->len || *rest->ptr != sign) return false;
    *rest = (view){rest->ptr + 1, rest->len - 1};
    if (!take_number(rest, first)) return false;
    if (!rest->len || *rest->ptr != ',') return true;
    *rest = (view){rest->ptr + 1, rest->len - 1};
    return take_number(rest, n);
}

/* "@@ -12,7 +12,9 @@ what it is in" */
static void begin_hunk(diff_places *p, view line)
{
    uint32_t first, n_old, n_new, next;
    view rest = {line.ptr + 3, line.len - 3};
    if (!take_range(&rest, '-', &first, &n_old) || !rest.len || *rest.ptr != ' ') return;
    rest = (view){rest.ptr + 1, rest.len - 1};
    if (!take_range(&rest, '+', &next, &n_new)) return;
    p->n_old = n_old;
    p->n_new = n_new;
    p->next = next;
    p->by_words = diff_places_by_words(p);
    p->hunk = (uint32_t)(p->lines.len / sizeof(uint32_t)) - 1;
    p->has_lines = p->has_signs = false;
}

uint32_t diff_places_by_words(const diff_places *p)
{
    if (p->by_words) return p->by_words;
    return p->has_lines && !p->has_signs ? p->hunk : 0;
}

/* The marks of --word-diff within a line, and the ends of lines of --word-diff=porcelain. */
static bool is_by_words(view line)
{
    if (view_equal(line, VIEW("~"))) return true;
    if (!line.len || strchr(" +-\\", *line.ptr)) return false;
    return (memmem(line.ptr, line.len, "{+", 2) && memmem(line.ptr, line.len, "+}", 2)) ||
           (memmem(line.ptr, line.len, "[-", 2) && memmem(line.ptr, line.len, "-]", 2));
}

static void end_line(diff_places *p)
{
    view line = {p->head, p->n_head};
    if (p->by_words || !p->hunk) return;
    if (is_by_words(line) && (!p->in_line || line.len == 1)) p->by_words = p->hunk;
}

static int end_header(diff_places *p)
{
    static const char *const names[] = {"+++ ", "*** Update File: ", "*** Add File: ",
                                        "*** Move to: "};
    view line = {p->head, p->n_head};
    if (view_starts(line, VIEW("diff --git ")) || view_starts(line, VIEW("--- a/")) ||
        view_starts(line, VIEW("--- \"a/")))
        p->has_prefix = true;
    if (view_starts(line, VIEW("@@ "))) begin_hunk(p, line);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        view head = view_of(names[i]), name = {line.ptr + head.len, line.len - head.len};
        if (!view_starts(line, head) || view_starts(name, VIEW("/dev/null"))) continue;
        if (i) p->has_prefix = false;
        RETURN_IF(begin_file(p, name));
        /* A whole new file follows, with a + before each line. */
        if (i == 2) p->n_new = UINT32_MAX, p->next = 1;
    }
    return CERIUM_OK;
}

/* The first byte of a line decides its kind: only then is its number known. */
static int begin_line(diff_places *p, char c)
{
    uint32_t number = 0;
    bool in_new_file = p->n_new > UINT32_MAX / 2;
    p->n_head = 0;
    p->in_line = true;
    if (in_new_file && c != '+') p->n_new = 0;
    if ((p->n_new || p->n_old) && c != '\\') {
        p->has_lines = true;
        p->has_signs |= c == '+' || c == '-';
        bool old = c != '+', added = c != '-';
        if (old && p->n_old) p->n_old--;
        if (added && p->n_new) {
            number = p->next++;
            p->n_new--;
        }
        p->in_line = false; /* not a header */
    }
    return bytes_append(&p->lines, &number, sizeof number);
}

int diff_places_feed(diff_places *p, view text)
{
    p->lines.max = p->files.max = p->begins.max = BYTES_MAX;
    if (!p->lines.len) RETURN_IF(bytes_append(&p->lines, &(uint32_t){0}, sizeof(uint32_t)));
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (p->n_head == 0) RETURN_IF(begin_line(p, c));
        if (c == '\n') {
            end_line(p);
            if (p->in_line) RETURN_IF(end_header(p));
            p->n_head = 0;
            continue;
        }
        if (p->n_head < sizeof p->head) p->head[p->n_head++] = c;
    }
    return CERIUM_OK;
}

const char *diff_places_find(const diff_places *p, uint32_t line, uint32_t *number)
{
    const place_file *files = (const place_file *)(const void *)p->begins.ptr;
    size_t n = p->begins.len / sizeof *files;
    if (line >= p->lines.len / sizeof(uint32_t)) return NULL;
    memcpy(number, p->lines.ptr + (size_t)line * sizeof *number, sizeof *number);
    if (!*number) return NULL;
    while (n && files[n - 1].line > line) n--;
    return n ? p->files.ptr + files[n - 1].name : NULL;
}

void diff_places_free(diff_places *p)
{
    bytes_free(&p->lines);
    bytes_free(&p->files);
    bytes_free(&p->begins);
    *p = (diff_places){0};
}
