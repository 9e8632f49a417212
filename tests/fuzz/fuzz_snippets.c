/* fuzz_snippets.c - texts of a workspace, each ended by a byte 1, then the text of the file in
 * whose middle the user types. */
#include "snippets/snippet_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_of(const snippet_index *x, const cerium_context_file *f)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (!strcmp(x->list[i]->path, f->path)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static snippet_index x;
    static const char *const paths[] = {"a.py", "b/c.js", "b/__init__.py", "d/e/f.c", ""};
    size_t at = 0, n_files = 0;
    snippets s;
    char *exact = memory_alloc(size ? size : 1); /* a sanitizer sees an overread */
    CHECK(exact);
    if (size) memcpy(exact, data, size);
    view rest = {exact, size};
    for (const char *end; rest.len && (end = memchr(rest.ptr, 1, rest.len)); n_files++) {
        snippet_file *f = NULL;
        at = (size_t)(end - rest.ptr);
        int status = snippet_file_open(&f, view_of(paths[n_files % ARRAY_LEN(paths)]),
                                       (view){rest.ptr, at});
        CHECK(!status || status == CERIUM_ERR_CAPACITY);
        if (!status) CHECK(!snippet_index_put(&x, f, n_files % 2));
        rest = (view){rest.ptr + at + 1, rest.len - at - 1};
    }
    const size_t caret = rest.len / 2;
    const snippet_query q = {.path = view_of(paths[0]), .before = {rest.ptr, caret},
                             .after = {rest.ptr + caret, rest.len - caret},
                             .bytes_max = size % 3000, .only_alike = size % 2};
    CHECK(!snippets_find(&x, &q, &s));
    CHECK(s.n <= SNIPPETS_MAX && s.text.len <= q.bytes_max + SNIPPETS_MAX);
    for (uint32_t i = 0; i < s.n; i++)
        CHECK(is_of(&x, &s.files[i]) && strcmp(s.files[i].path, paths[0]) != 0 &&
              s.files[i].text_len && s.files[i].text[s.files[i].text_len - 1] == '\n');
    snippets_close(&s);
    snippet_index_close(&x);
    memory_free(exact);
    return 0;
}
