/* find.c - chooses the units of files, and their lines, to put before a hole. */
#include "snippets/snippet_index.h"

#include <ctype.h>
#include <math.h>

#include "snippets/words.h"

enum {
    TERMS_MAX = 256,      /* of a query */
    LINES_BEFORE = 12,    /* whose identifiers ask */
    LINES_AFTER = 4,
    IMPORTS_MAX = 512,    /* words of lines that import */
    CANDIDATES = 24,      /* units that are checked again */
    KNOWN_MAX = 1 << 15,  /* words already visible */
    DEFINITIONS_MAX = 12, /* lines of them in a snippet */
    FILES_DEFINING_MAX = 3, /* a name that more files define does not show where it is from */
};

/* BM25, as published, and the factor for near files. */
#define BM25_K1 1.2
#define BM25_B  0.5
#define PER_LINE 0.8         /* weight of lines farther away */
#define PART_WEIGHT 0.3
#define SAME_FOLDER 1.5
#define OPEN_FILE 2.0
#define IMPORTED 1.3
#define NOVEL_LINE 0.25      /* of the greatest weight, for a word that is new to the place */

typedef struct {
    uint32_t hash;
    double weight;
    double idf;     /* once it is known how many units have it; 0: none */
    bool is_name;   /* a whole word */
} query_term;

typedef struct {
    const snippet_file *file;
    uint32_t unit;
    double score;
} candidate;

typedef struct {
    const snippet_index *x;
    const snippet_query *q;
    query_term terms[TERMS_MAX]; /* [n_terms], those of the nearest lines first */
    uint32_t n_terms;
    uint64_t order[TERMS_MAX];   /* [n_terms] by hash: it, and which term that is */
    view begun;                  /* the word that ends at the place; empty: none */
    uint32_t imports[IMPORTS_MAX], n_imports;
    bytes known;                 /* uint32_t, by hash: words that are visible at the place */
    bytes defined;               /* those that it defines */
    uint32_t n_units;
    double words_mean, idf_max;
    candidate list[CANDIDATES];  /* [n], the best first */
    uint32_t n;
} search;

/* ---- the query ---- */

static void ask(search *s, uint32_t hash, double weight, bool is_name)
{
    for (uint32_t i = 0; i < s->n_terms; i++)
        if (s->terms[i].hash == hash) {
            if (s->terms[i].weight < weight) s->terms[i].weight = weight;
            return;
        }
    if (s->n_terms < TERMS_MAX)
        s->terms[s->n_terms++] = (query_term){hash, weight, 0, is_name};
}

static void ask_line(search *s, view line, double weight)
{
    word_term of_word[TERMS_OF_WORD_MAX];
    view word;
    for (size_t at = 0; word_next(line, &at, &word);) {
        const bool is_begun = word.ptr + word.len == s->begun.ptr + s->begun.len && s->begun.len;
        if (word.len < 2) continue;
        const uint32_t n = terms_of_word(word, of_word);
        ask(s, of_word[0].hash, weight, true);
        for (uint32_t i = 1; i < n; i++) {
            const bool is_prefix = word.len > TERM_PREFIX_BYTES && i == 1;
            if (!is_prefix) ask(s, of_word[i].hash, PART_WEIGHT * weight, false);
        }
        if (is_begun && word.len >= TERM_PREFIX_BYTES)
            ask(s, term_of_prefix(word), weight, false);
    }
}

static void ask_place(search *s)
{
    const view before = s->q->before, after = s->q->after;
    size_t end = before.len, begin = end;
    while (begin > 0 && word_has(before.ptr[begin - 1])) begin--;
    s->begun = (view){before.ptr + begin, end - begin};
    if (s->begun.len && isdigit((unsigned char)*s->begun.ptr)) s->begun.len = 0;
    for (int k = 0; k < LINES_BEFORE; k++) {
        for (begin = end; begin > 0 && before.ptr[begin - 1] != '\n';) begin--;
        ask_line(s, (view){before.ptr + begin, end - begin}, pow(PER_LINE, k));
        if (begin == 0) break;
        end = begin - 1;
    }
    begin = 0;
    for (int k = 0; k < LINES_AFTER && begin < after.len; k++) {
        for (end = begin; end < after.len && after.ptr[end] != '\n';) end++;
        ask_line(s, (view){after.ptr + begin, end - begin}, pow(PER_LINE, k + 1));
        begin = end + 1;
    }
}

/* ---- visible words ---- */

static int by_hash(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_hashes(bytes *b)
{
    if (b->len) qsort(b->ptr, b->len / sizeof(uint32_t), sizeof(uint32_t), by_hash);
}

static bool has_hash(const bytes *b, uint32_t hash)
{
    return b->len && bsearch(&hash, b->ptr, b->len / sizeof hash, sizeof hash, by_hash);
}

static int add_hash(bytes *b, uint32_t hash)
{
    if (b->len + sizeof hash > b->max) return CERIUM_OK; /* later units are unknown */
    return bytes_append(b, &hash, sizeof hash);
}

static int learn_line(search *s, view line)
{
    const bool imports = line_imports(line);
    view word;
    for (size_t at = 0; word_next(line, &at, &word);) {
        const uint32_t hash = term_of_word(word);
        const bool defines = word.len > 1 && word_is_defined_at(line, (size_t)(word.ptr - line.ptr),
                                                                word.len);
        RETURN_IF(add_hash(&s->known, hash));
        if (defines) RETURN_IF(add_hash(&s->defined, hash));
        if (imports && s->n_imports < IMPORTS_MAX) s->imports[s->n_imports++] = hash;
    }
    return CERIUM_OK;
}

static int learn(search *s, view text)
{
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.ptr + at, '\n', text.len - at);
        const size_t n = end ? (size_t)(end - (text.ptr + at)) : text.len - at;
        if (n) RETURN_IF(learn_line(s, (view){text.ptr + at, n}));
        at += n + 1;
    }
    return CERIUM_OK;
}

static bool is_imported(const search *s, const snippet_file *f)
{
    for (uint32_t i = 0; i < s->n_imports; i++)
        if (s->imports[i] == f->stem) return true;
    return false;
}

static view folder_of(view path)
{
    while (path.len && path.ptr[path.len - 1] != '/') path.len--;
    return path;
}

static bool is_own(const search *s, const snippet_file *f)
{
    return view_equal(view_of(f->path), s->q->path);
}

/* The factor for a file's units. */
static double nearness(const search *s, const snippet_file *f)
{
    double x = 1;
    if (view_equal(folder_of(view_of(f->path)), folder_of(s->q->path))) x *= SAME_FOLDER;
    if (f->is_open) x *= OPEN_FILE;
    if (is_imported(s, f)) x *= IMPORTED;
    return x;
}

/* ---- scores ---- */

static const snippet_term *terms_of(const snippet_file *f)
{
    return (const snippet_term *)(const void *)f->terms.ptr;
}

static const snippet_unit *units_of(const snippet_file *f)
{
    return (const snippet_unit *)(const void *)f->units.ptr;
}

/* The first of a file's terms from `low` on that is not less; searched near `low` first. */
static uint32_t find_term(const snippet_file *f, uint32_t low, uint32_t hash)
{
    const snippet_term *t = terms_of(f);
    uint32_t high = low;
    for (uint32_t step = 1; high < f->n_terms && t[high].hash < hash; step *= 2) {
        low = high + 1;
        high = f->n_terms - high > step ? high + step : f->n_terms;
    }
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (t[mid].hash < hash) low = mid + 1;
        else high = mid;
    }
    return low;
}

static int by_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The number of units with each term. */
static void count_units(search *s, uint32_t df[TERMS_MAX])
{
    for (uint32_t i = 0; i < s->n_terms; i++) s->order[i] = (uint64_t)s->terms[i].hash << 32 | i;
    if (s->n_terms) qsort(s->order, s->n_terms, sizeof *s->order, by_order);
    memset(df, 0, TERMS_MAX * sizeof *df);
    for (uint32_t k = 0; k < s->x->n; k++) {
        const snippet_file *f = s->x->list[k];
        for (uint32_t i = 0, t = 0; i < s->n_terms; i++) {
            const uint32_t which = (uint32_t)s->order[i], hash = s->terms[which].hash;
            for (t = find_term(f, t, hash); t < f->n_terms && terms_of(f)[t].hash == hash; t++)
                df[which]++;
        }
    }
}

static void weigh_terms(search *s)
{
    double n_words = 0;
    uint32_t df[TERMS_MAX];
    for (uint32_t k = 0; k < s->x->n; k++) {
        const snippet_file *f = s->x->list[k];
        s->n_units += f->n_units;
        for (uint32_t u = 0; u < f->n_units; u++) n_words += units_of(f)[u].n_terms;
    }
    s->words_mean = s->n_units ? n_words / s->n_units : 1;
    if (!(s->words_mean > 0)) s->words_mean = 1;
    s->idf_max = log(1 + s->n_units);
    count_units(s, df);
    for (uint32_t i = 0; i < s->n_terms; i++)
        if (df[i] > 0)
            s->terms[i].idf = log(1 + ((double)s->n_units - df[i] + 0.5) / (df[i] + 0.5));
}

static void propose(search *s, const snippet_file *f, uint32_t unit, double score)
{
    uint32_t at = s->n;
    if (at == CANDIDATES && s->list[at - 1].score >= score) return;
    if (at == CANDIDATES) at--;
    else s->n++;
    for (; at > 0 && s->list[at - 1].score < score; at--) s->list[at] = s->list[at - 1];
    s->list[at] = (candidate){f, unit, score};
}

static void score_file(search *s, const snippet_file *f, double *scores)
{
    const snippet_term *all = terms_of(f);
    memset(scores, 0, f->n_units * sizeof *scores);
    for (uint32_t i = 0, t = 0; i < s->n_terms; i++) {
        const query_term *q = &s->terms[(uint32_t)s->order[i]];
        for (t = find_term(f, t, q->hash); t < f->n_terms && all[t].hash == q->hash; t++) {
            const double len = units_of(f)[all[t].unit].n_terms / s->words_mean, n = all[t].n;
            scores[all[t].unit] += q->weight * q->idf * n * (BM25_K1 + 1) /
                                   (n + BM25_K1 * (1 - BM25_B + BM25_B * len));
        }
    }
    const double near = nearness(s, f);
    for (uint32_t u = 0; u < f->n_units; u++)
        if (scores[u] > 0) propose(s, f, u, near * scores[u]);
}

static int score_all(search *s)
{
    uint32_t most = 1;
    for (uint32_t k = 0; k < s->x->n; k++)
        if (s->x->list[k]->n_units > most) most = s->x->list[k]->n_units;
    double *scores = memory_alloc(most * sizeof *scores);
    if (!scores) return CERIUM_ERR_MEMORY;
    for (uint32_t k = 0; k < s->x->n; k++)
        if (!is_own(s, s->x->list[k])) score_file(s, s->x->list[k], scores);
    memory_free(scores);
    return CERIUM_OK;
}

/* ---- lines of a unit ---- */

static double weight_of(const search *s, view word)
{
    const uint32_t hash = term_of_word(word);
    uint32_t low = 0, high = s->n_terms;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (s->order[mid] >> 32 < hash) low = mid + 1;
        else high = mid;
    }
    if (low == s->n_terms || s->order[low] >> 32 != hash) return 0;
    const query_term *t = &s->terms[(uint32_t)s->order[low]];
    return t->weight * t->idf;
}

/* The score of a line for the place: names of it, and new ones, above all those that continue the
 * begun word.  *n_new: words that the place does not have. */
static double line_value(const search *s, view line, uint32_t *n_new, uint32_t *n_words)
{
    double value = 0;
    view word;
    for (size_t at = 0; word_next(line, &at, &word);) {
        if (word.len < 2) continue;
        const bool is_new = word.len > 2 && !has_hash(&s->known, term_of_word(word));
        ++*n_words;
        value += weight_of(s, word);
        if (!is_new) continue;
        ++*n_new;
        const bool continues = s->begun.len > 1 && word.len > s->begun.len &&
                             view_starts(word, s->begun);
        value += (continues ? 1 : NOVEL_LINE) * s->idf_max;
    }
    return value;
}

typedef struct {
    size_t from, to; /* of the file's text */
    double novel;    /* share of its words that are new */
} extract;

enum { UNIT_LINES = 64 };

/* The run of whole lines of at most `most` bytes with the highest score. */
static extract best_lines(const search *s, const candidate *c, size_t most)
{
    const snippet_unit u = units_of(c->file)[c->unit];
    size_t begin[UNIT_LINES + 1];
    double value[UNIT_LINES], best = -1, sum = 0;
    uint32_t n = 0, first = 0, n_new[UNIT_LINES], n_words[UNIT_LINES];
    extract out = {u.from, u.from, 0};
    for (size_t at = u.from; at < u.to && n < UNIT_LINES; n++) {
        const char *end = memchr(c->file->text + at, '\n', u.to - at);
        const size_t next = end ? (size_t)(end - c->file->text) + 1 : u.to;
        begin[n] = at;
        n_new[n] = n_words[n] = 0;
        value[n] = line_value(s, (view){c->file->text + at, next - at}, &n_new[n], &n_words[n]);
        at = next;
        begin[n + 1] = at;
    }
    for (uint32_t last = 0; last < n; last++) {
        sum += value[last];
        for (; first <= last && begin[last + 1] - begin[first] > most; first++) sum -= value[first];
        if (first > last || sum <= best) continue;
        uint32_t fresh = 0, all = 0;
        for (uint32_t i = first; i <= last; i++) fresh += n_new[i], all += n_words[i];
        best = sum;
        out = (extract){begin[first], begin[last + 1], all ? (double)fresh / all : 0};
    }
    return out;
}

/* ---- taking ---- */

/* line: see snippets.lines. */
static int add_text(snippets *out, const snippet_file *f, view text, uint32_t line, double score)
{
    const size_t at = out->text.len;
    int status = bytes_append(&out->text, text.ptr, text.len);
    if (!status && text.len && text.ptr[text.len - 1] != '\n')
        status = bytes_append(&out->text, "\n", 1);
    if (status) return status;
    out->files[out->n] = (cerium_context_file){.path = f->path, .text_len = out->text.len - at};
    out->lines[out->n] = line;
    out->scores[out->n++] = score;
    return CERIUM_OK;
}

static uint32_t line_number(const snippet_file *f, size_t at)
{
    uint32_t n = 1;
    for (size_t i = 0; i < at; i++) n += f->text[i] == '\n';
    return n;
}

/* The best of the candidates by what it adds to the known words; false: none adds anything. */
static bool take_best(search *s, size_t most, candidate *which, extract *lines)
{
    uint32_t best = CANDIDATES;
    double value = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const extract e = best_lines(s, &s->list[i], most);
        const double v = e.novel > 0 ? s->list[i].score * (0.25 + 0.75 * e.novel) : 0;
        if (v <= value) continue;
        value = v;
        best = i;
        *lines = e;
    }
    if (best == CANDIDATES) return false;
    *which = s->list[best];
    which->score = value;
    s->n--;
    memmove(&s->list[best], &s->list[best + 1], (s->n - best) * sizeof *s->list);
    return true;
}

static int take_alike(search *s, snippets *out, size_t left)
{
    candidate c = {0};
    extract e = {0};
    while (out->n < SNIPPETS_MAX && left > 0) {
        const size_t most = left / (SNIPPETS_MAX - out->n);
        if (!take_best(s, most, &c, &e)) return CERIUM_OK;
        const view text = {c.file->text + e.from, e.to - e.from};
        RETURN_IF(add_text(out, c.file, text, line_number(c.file, e.from), c.score));
        RETURN_IF(learn(s, text)); /* the next one must add other words */
        sort_hashes(&s->known);
        left -= text.len < left ? text.len : left;
    }
    return CERIUM_OK;
}

/* ---- definitions of names at the place ---- */

typedef struct {
    const snippet_definition *d;
    double weight;
} named_line;

static const snippet_definition *definition_of(const snippet_file *f, uint32_t hash)
{
    const snippet_definition *d = (const snippet_definition *)(const void *)f->definitions.ptr;
    uint32_t low = 0, high = f->n_definitions;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (d[mid].hash < hash) low = mid + 1;
        else high = mid;
    }
    return low < f->n_definitions && d[low].hash == hash ? &d[low] : NULL;
}

static uint32_t files_defining(const search *s, uint32_t hash)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->x->n; k++) n += definition_of(s->x->list[k], hash) != NULL;
    return n;
}

static int by_place(const void *a, const void *b)
{
    const named_line *x = a, *y = b;
    return x->d->from < y->d->from ? -1 : x->d->from > y->d->from;
}

static uint32_t lines_of(const search *s, const snippet_file *f, const bool *rare,
                         named_line out[DEFINITIONS_MAX], double *weight)
{
    uint32_t n = 0;
    *weight = 0;
    for (uint32_t i = 0; i < s->n_terms && n < DEFINITIONS_MAX; i++) {
        const query_term *t = &s->terms[i];
        const snippet_definition *d = rare[i] ? definition_of(f, t->hash) : NULL;
        if (!d) continue;
        out[n++] = (named_line){d, t->weight * t->idf};
        *weight += t->weight * t->idf;
    }
    *weight *= nearness(s, f);
    return n;
}

/* One snippet: lines of the file that defines most of the names used here, at most `most` bytes. */
static int take_definitions(search *s, snippets *out, size_t most)
{
    const snippet_file *best = NULL;
    named_line list[DEFINITIONS_MAX];
    double value = 0, weight;
    bool rare[TERMS_MAX];
    bytes text = {.max = SNIPPETS_FILE_BYTES_MAX};
    for (uint32_t i = 0; i < s->n_terms; i++) {
        const query_term *t = &s->terms[i];
        const uint32_t n = t->is_name && t->idf > 0 && !has_hash(&s->defined, t->hash)
                               ? files_defining(s, t->hash) : 0;
        rare[i] = n > 0 && n <= FILES_DEFINING_MAX;
    }
    for (uint32_t k = 0; k < s->x->n; k++) {
        const snippet_file *f = s->x->list[k];
        if (is_own(s, f) || !lines_of(s, f, rare, list, &weight) || weight <= value) continue;
        value = weight;
        best = f;
    }
    if (!best) return CERIUM_OK;
    uint32_t n = lines_of(s, best, rare, list, &weight);
    qsort(list, n, sizeof *list, by_place);
    int status = CERIUM_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        const size_t len = list[i].d->to - list[i].d->from;
        if (text.len + len + 1 > most || (i && list[i].d->from == list[i - 1].d->from)) continue;
        status = bytes_append(&text, best->text + list[i].d->from, len);
        if (!status) status = bytes_append(&text, "\n", 1);
    }
    const view lines = {text.ptr, text.len};
    if (!status && text.len) status = add_text(out, best, lines, 0, value);
    if (!status && text.len) status = learn(s, lines);
    sort_hashes(&s->known);
    bytes_free(&text);
    return status;
}

/* ---- all ---- */

/* The best comes last. */
static void order(snippets *out)
{
    size_t at = 0;
    for (uint32_t i = 0; i < out->n; i++) {
        out->files[i].text = out->text.ptr + at;
        at += out->files[i].text_len;
    }
    for (uint32_t i = 1; i < out->n; i++)
        for (uint32_t k = i; k > 0 && out->scores[k] < out->scores[k - 1]; k--) {
            const cerium_context_file f = out->files[k];
            const double score = out->scores[k];
            const uint32_t line = out->lines[k];
            out->files[k] = out->files[k - 1];
            out->scores[k] = out->scores[k - 1];
            out->lines[k] = out->lines[k - 1];
            out->files[k - 1] = f;
            out->scores[k - 1] = score;
            out->lines[k - 1] = line;
        }
}

static int find(search *s, snippets *out)
{
    RETURN_IF(learn(s, s->q->before));
    RETURN_IF(learn(s, s->q->after));
    sort_hashes(&s->known);
    sort_hashes(&s->defined);
    ask_place(s);
    weigh_terms(s);
    if (!s->q->only_alike) RETURN_IF(take_definitions(s, out, s->q->bytes_max / SNIPPETS_MAX));
    RETURN_IF(score_all(s));
    return take_alike(s, out, s->q->bytes_max - out->text.len);
}

int snippets_find(const snippet_index *x, const snippet_query *q, snippets *out)
{
    search *s = memory_zalloc(1, sizeof *s);
    if (!s) return CERIUM_ERR_MEMORY;
    s->x = x;
    s->q = q;
    s->known.max = s->defined.max = KNOWN_MAX * sizeof(uint32_t);
    *out = (snippets){.text = {.max = q->bytes_max + SNIPPETS_MAX}};
    int status = find(s, out);
    if (status) snippets_close(out);
    else order(out);
    bytes_free(&s->known);
    bytes_free(&s->defined);
    memory_free(s);
    return status;
}

void snippets_close(snippets *s)
{
    bytes_free(&s->text);
    *s = (snippets){.n = 0};
}
