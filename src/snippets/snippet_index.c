/* snippet_index.c - files as units and terms, and the list of files. */
#include "snippets/snippet_index.h"

#include <ctype.h>

#include "base/hash.h"
#include "base/text.h"
#include "snippets/words.h"

enum {
    UNIT_LINES_MIN = 8, UNIT_LINES_MAX = 25,
    WORD_BYTES_MAX = 64, /* longer ones are not names */
    PATH_BYTES_MAX = 4096,
    DEFINITION_LINE_MAX = 200,
};

/* ---- terms ---- */

typedef enum { TERM_WHOLE = 0, TERM_PART = 1, TERM_PREFIX = 2 } term_kind;

static uint32_t term_of(view text, term_kind kind)
{
    return (uint32_t)hash_bytes(text.ptr, text.len, (uint64_t)kind);
}

uint32_t term_of_word(view word) { return term_of(word, TERM_WHOLE); }

uint32_t term_of_prefix(view word)
{
    return term_of((view){word.ptr, TERM_PREFIX_BYTES}, TERM_PREFIX);
}

/* Does a part of the word begin at i? */
static bool begins_part(view word, size_t i)
{
    const unsigned char c = (unsigned char)word.ptr[i], last = (unsigned char)word.ptr[i - 1];
    return last == '_' || (isupper(c) && !isupper(last));
}

uint32_t terms_of_word(view word, word_term out[TERMS_OF_WORD_MAX])
{
    uint32_t n = 0;
    char part[WORD_BYTES_MAX];
    out[n++] = (word_term){term_of_word(word), false};
    if (word.len > TERM_PREFIX_BYTES) out[n++] = (word_term){term_of_prefix(word), true};
    if (word.len > WORD_BYTES_MAX) return n;
    for (size_t from = 0, i = 1; i <= word.len && n < TERMS_OF_WORD_MAX; i++) {
        if (i < word.len && !begins_part(word, i)) continue;
        size_t to = i;
        while (from < to && word.ptr[from] == '_') from++;
        while (to > from && word.ptr[to - 1] == '_') to--;
        if (to - from >= TERM_PREFIX_BYTES && to - from < word.len) {
            for (size_t k = from; k < to; k++)
                part[k - from] = (char)tolower((unsigned char)word.ptr[k]);
            out[n++] = (word_term){term_of((view){part, to - from}, TERM_PART), true};
        }
        from = i;
    }
    return n;
}

/* ---- a file ---- */

static view line_at(view text, size_t at)
{
    const char *end = memchr(text.ptr + at, '\n', text.len - at);
    return (view){text.ptr + at, end ? (size_t)(end - (text.ptr + at)) : text.len - at};
}

static bool is_blank(view line) { return !view_trim_start(line, TEXT_SPACE).len; }

static int add_unit(snippet_file *f, size_t from, size_t to)
{
    const snippet_unit u = {.from = (uint32_t)from, .to = (uint32_t)to};
    if (from == to) return CERIUM_OK;
    f->n_units++;
    return bytes_append(&f->units, &u, sizeof u);
}

/* Units end at blank lines if possible. */
static int cut_units(snippet_file *f)
{
    const view text = {f->text, f->n_text};
    size_t from = 0, lines = 0;
    f->units.max = (SNIPPETS_FILE_BYTES_MAX + 1) * sizeof(snippet_unit);
    for (size_t at = 0; at < text.len;) {
        const view line = line_at(text, at);
        const size_t next = at + line.len < text.len ? at + line.len + 1 : text.len;
        const bool blank = is_blank(line);
        lines++;
        if ((blank && lines >= UNIT_LINES_MIN) || lines == UNIT_LINES_MAX) {
            RETURN_IF(add_unit(f, from, next));
            from = next;
            lines = 0;
        } else if (blank && lines == 1) { /* no unit begins with a blank line */
            from = next;
            lines = 0;
        }
        at = next;
    }
    return add_unit(f, from, text.len);
}

static int by_term(const void *a, const void *b)
{
    const snippet_term *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (int)x->unit - (int)y->unit;
}

static int add_terms(snippet_file *f, uint32_t number)
{
    snippet_unit *u = (snippet_unit *)(void *)f->units.ptr + number;
    const view text = {f->text + u->from, u->to - u->from};
    word_term of_word[TERMS_OF_WORD_MAX];
    view word;
    for (size_t at = 0; word_next(text, &at, &word);) {
        if (word.len < 2 || word.len > WORD_BYTES_MAX) continue;
        const uint32_t n = terms_of_word(word, of_word);
        for (uint32_t i = 0; i < n; i++) {
            const snippet_term t = {of_word[i].hash, (uint16_t)number, 1};
            RETURN_IF(bytes_append(&f->terms, &t, sizeof t));
        }
        u->n_terms++;
    }
    return CERIUM_OK;
}

/* Merge equal terms of a unit, with their count. */
static void join_terms(snippet_file *f)
{
    snippet_term *t = (snippet_term *)(void *)f->terms.ptr;
    const size_t n = f->terms.len / sizeof *t;
    size_t kept = 0;
    if (n) qsort(t, n, sizeof *t, by_term);
    for (size_t i = 0; i < n; i++) {
        if (kept && t[kept - 1].hash == t[i].hash && t[kept - 1].unit == t[i].unit) {
            if (t[kept - 1].n < UINT16_MAX) t[kept - 1].n++;
        } else {
            t[kept++] = t[i];
        }
    }
    f->terms.len = kept * sizeof *t;
    f->n_terms = (uint32_t)kept;
}

static int by_name(const void *a, const void *b)
{
    const snippet_definition *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* The first name that a line defines. */
static int add_definition(snippet_file *f, size_t from, view line)
{
    view word;
    if (line.len > DEFINITION_LINE_MAX || is_blank(line)) return CERIUM_OK;
    for (size_t at = 0; word_next(line, &at, &word);) {
        if (word.len < 2 || !word_is_defined_at(line, (size_t)(word.ptr - line.ptr), word.len))
            continue;
        const snippet_definition d = {term_of_word(word), (uint32_t)from,
                                      (uint32_t)(from + line.len)};
        f->n_definitions++;
        return bytes_append(&f->definitions, &d, sizeof d);
    }
    return CERIUM_OK;
}

static int find_definitions(snippet_file *f)
{
    const view text = {f->text, f->n_text};
    f->definitions.max = (SNIPPETS_FILE_BYTES_MAX + 1) * sizeof(snippet_definition);
    for (size_t at = 0; at < text.len;) {
        const view line = line_at(text, at);
        RETURN_IF(add_definition(f, at, line));
        at += line.len + 1;
    }
    if (f->n_definitions)
        qsort(f->definitions.ptr, f->n_definitions, sizeof(snippet_definition), by_name);
    return CERIUM_OK;
}

/* "a/b/list.py": list; "a/b/__init__.py": b, as this is the imported name. */
static uint32_t stem_of(view path)
{
    static const char *const own[] = {"__init__", "index", "mod", "lib", "main"};
    size_t end = path.len, begin, dot;
    for (int up = 0; up < 2; up++) {
        for (begin = end; begin > 0 && path.ptr[begin - 1] != '/';) begin--;
        for (dot = begin; dot < end && path.ptr[dot] != '.';) dot++;
        const view stem = {path.ptr + begin, dot - begin};
        bool is_own = false;
        for (size_t i = 0; i < ARRAY_LEN(own); i++) is_own |= view_equal(stem, view_of(own[i]));
        if (!is_own || begin == 0) return term_of_word(stem);
        end = begin - 1;
    }
    return 0;
}

/* Release the unused part of the reserved memory. */
static int shrink(bytes *b)
{
    bytes exact = {.max = b->len};
    RETURN_IF(bytes_append(&exact, b->ptr ? b->ptr : "", b->len));
    bytes_free(b);
    *b = exact;
    return CERIUM_OK;
}

static int read_file_text(snippet_file *f)
{
    f->terms.max = (size_t)SNIPPETS_FILE_BYTES_MAX * TERMS_OF_WORD_MAX * sizeof(snippet_term);
    RETURN_IF(cut_units(f));
    for (uint32_t i = 0; i < f->n_units; i++) RETURN_IF(add_terms(f, i));
    join_terms(f);
    RETURN_IF(shrink(&f->terms));
    return find_definitions(f);
}

static void drop_cr(snippet_file *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_text; i++)
        if (f->text[i] != '\r' || i + 1 == f->n_text || f->text[i + 1] != '\n')
            f->text[n++] = f->text[i];
    f->n_text = n;
}

int snippet_file_open(snippet_file **out, view path, view text)
{
    if (path.len > PATH_BYTES_MAX || text.len > SNIPPETS_FILE_BYTES_MAX ||
        (text.len && memchr(text.ptr, 0, text.len)))
        return CERIUM_ERR_CAPACITY;
    snippet_file *f = memory_zalloc(1, sizeof *f);
    if (!f) return CERIUM_ERR_MEMORY;
    f->path = memory_copy(path.ptr, path.len);
    f->text = memory_copy(text.len ? text.ptr : "", text.len);
    f->n_text = text.len;
    f->stem = stem_of(path);
    if (f->text) drop_cr(f);
    int status = f->path && f->text ? read_file_text(f) : CERIUM_ERR_MEMORY;
    if (status) snippet_file_close(&f);
    else *out = f;
    return status;
}

void snippet_file_close(snippet_file **file)
{
    if (!file || !*file) return;
    snippet_file *f = *file;
    bytes_free(&f->units);
    bytes_free(&f->terms);
    bytes_free(&f->definitions);
    memory_free(f->path);
    memory_free(f->text);
    memory_free(f);
    *file = NULL;
}

/* ---- the list ---- */

static void drop_at(snippet_index *x, uint32_t i)
{
    x->n_bytes -= x->list[i]->n_text;
    snippet_file_close(&x->list[i]);
    x->list[i] = x->list[--x->n];
}

void snippet_index_drop(snippet_index *x, view path)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (view_equal(view_of(x->list[i]->path), path)) {
            drop_at(x, i);
            return;
        }
}

int snippet_index_put(snippet_index *x, snippet_file *f, bool is_open)
{
    snippet_index_drop(x, view_of(f->path));
    if (x->n == SNIPPETS_FILES_MAX || x->n_bytes + f->n_text > SNIPPETS_BYTES_MAX) {
        snippet_file_close(&f);
        return CERIUM_ERR_CAPACITY;
    }
    f->is_open = is_open;
    x->n_bytes += f->n_text;
    x->list[x->n++] = f;
    return CERIUM_OK;
}

void snippet_index_close(snippet_index *x)
{
    while (x->n) drop_at(x, x->n - 1);
}
