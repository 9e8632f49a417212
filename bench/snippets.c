/* snippets.c - the cost of an index of files, and of a search at the middle of some of them.
 *
 *   make build/release/bench_snippets && build/release/bench_snippets FILE... */
#include "snippets/snippet_index.h"

enum { SEARCHES = 100, BEFORE_BYTES = 2304, AFTER_BYTES = 768, SNIPPET_BYTES = 768 };

static double ms(void) { return (double)clock_process_ns() / 1e6; }

static size_t add(snippet_index *x, const char *path)
{
    static char text[SNIPPETS_FILE_BYTES_MAX + 1];
    snippet_file *file;
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    if (!f || snippet_file_open(&file, view_of(path), (view){text, n})) return 0;
    const size_t n_terms = file->n_terms;
    return snippet_index_put(x, file, false) ? 0 : n_terms;
}

static double search(const snippet_index *x, const snippet_file *f)
{
    const size_t at = f->n_text / 2, from = at > BEFORE_BYTES ? at - BEFORE_BYTES : 0;
    const size_t after = f->n_text - at < AFTER_BYTES ? f->n_text - at : AFTER_BYTES;
    const snippet_query q = {.path = view_of(f->path), .before = {f->text + from, at - from},
                             .after = {f->text + at, after}, .bytes_max = SNIPPET_BYTES};
    snippets s;
    const double began = ms();
    CHECK(!snippets_find(x, &q, &s));
    const double took = ms() - began;
    snippets_close(&s);
    return took;
}

int main(int argc, char **argv)
{
    static snippet_index x;
    size_t n_terms = 0;
    double began = ms(), sum = 0, most = 0;
    for (int i = 1; i < argc; i++) n_terms += add(&x, argv[i]);
    printf("%u files, %zu bytes, %zu terms: %.0f ms of processor time\n", x.n, x.n_bytes, n_terms,
           ms() - began);
    uint32_t n = 0;
    for (uint32_t i = 0; i < x.n; i += x.n / SEARCHES + 1, n++) {
        const double took = search(&x, x.list[i]);
        sum += took;
        if (took > most) most = took;
    }
    if (n) printf("%u searches: %.1f ms each, at most %.1f\n", n, sum / n, most);
    snippet_index_close(&x);
    return 0;
}
