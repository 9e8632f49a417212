/* lsp_snippets.c - lines of other files for the prompt of a completion: maintains the known files,
 * and decides when to choose lines again.
 *
 * They come first in a prompt, so new lines change it from its beginning: they stay while the user
 * types. */
#include "lsp/lsp_parts.h"

enum { STAYS_LINES = 16, STAYS_MS = 2000 };

/* ---- files ---- */

void lsp_server_file(lsp_server *s, snippet_file *file)
{
    bool is_wanted = !lsp_settings_exclude(&s->settings, file->path);
    for (uint32_t i = 0; i < s->n_documents; i++) /* the editor has a newer text */
        is_wanted = is_wanted && strcmp(s->documents[i]->path, file->path) != 0;
    if (!is_wanted) snippet_file_close(&file);
    else if (snippet_index_put(&s->files, file, false))
        lsp_log(s, "snippets are taken of %u files: there is no room for more", s->files.n);
}

/* The current text of a document. */
static void keep_document(lsp_server *s, lsp_document *d, bool is_open)
{
    snippet_file *f = NULL;
    if (!d->is_file || d->is_minified || lsp_settings_exclude(&s->settings, d->path)) return;
    if (snippet_file_open(&f, view_of(d->path), lsp_text_view(&d->text)) ||
        snippet_index_put(&s->files, f, is_open))
        snippet_index_drop(&s->files, view_of(d->path)); /* too large, or no room */
    d->kept_version = d->version;
}

size_t lsp_snippets_bytes(const lsp_server *s)
{
    const bool pays = s->settings.retrieval == LSP_AUTO && s->model.snippets_pay;
    return pays || s->settings.retrieval == LSP_ON ? s->model.snippet_bytes : 0;
}

static bool is_on(const lsp_server *s) { return lsp_snippets_bytes(s) > 0; }

void lsp_snippets_leave(lsp_server *s, lsp_document *d)
{
    if (is_on(s)) keep_document(s, d, false);
}

/* ---- folders ---- */

static size_t root_length(const char *root, const char *path)
{
    const size_t n = strlen(root);
    return !strncmp(path, root, n) && path[n] == '/' ? n + 1 : 0;
}

void lsp_snippets_add_root(lsp_server *s, view uri)
{
    bool is_file;
    char *path = uri.len && s->n_roots < LSP_ROOTS_MAX ? lsp_path_of(uri, &is_file) : NULL;
    if (!path) return;
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = 0;
    bool is_new = is_file && path[0] == '/' && path[1];
    for (uint32_t i = 0; i < s->n_roots; i++) is_new = is_new && strcmp(s->roots[i], path) != 0;
    if (is_new) s->roots[s->n_roots++] = path;
    else memory_free(path);
}

static void drop_root(lsp_server *s, uint32_t at)
{
    for (uint32_t i = s->files.n; i-- > 0;)
        if (root_length(s->roots[at], s->files.list[i]->path))
            snippet_index_drop(&s->files, view_of(s->files.list[i]->path));
    memory_free(s->roots[at]);
    s->roots[at] = s->roots[--s->n_roots];
}

void lsp_snippets_folders(lsp_server *s, const json_t *params)
{
    const json_t *event = json_object_get(params, "event"), *one;
    size_t i;
    json_array_foreach(json_object_get(event, "removed"), i, one) {
        bool is_file;
        char *path = lsp_path_of(lsp_read_string(one, "uri"), &is_file);
        for (uint32_t k = s->n_roots; path && k-- > 0;)
            if (!strcmp(s->roots[k], path)) drop_root(s, k);
        memory_free(path);
    }
    json_array_foreach(json_object_get(event, "added"), i, one)
        lsp_snippets_add_root(s, lsp_read_string(one, "uri"));
    lsp_snippets_read(s);
}

void lsp_snippets_read(lsp_server *s)
{
    for (uint32_t i = 0; i < s->n_roots && is_on(s) && s->host.read_folder; i++)
        s->host.read_folder(s->host.user, s->roots[i]);
}

void lsp_snippets_close(lsp_server *s)
{
    while (s->n_roots) drop_root(s, s->n_roots - 1);
    snippet_index_close(&s->files);
}

/* ---- choosing ---- */

void lsp_snippets_paused(lsp_document *d, uint64_t since_ns)
{
    if (since_ns > STAYS_MS * LSP_MS) d->found_is_old = true;
}

void lsp_snippets_choose(lsp_server *s, lsp_document *d, size_t at, view before, view after)
{
    const uint32_t line = lsp_text_line_at(&d->text, at);
    const uint32_t moved = line > d->found_line ? line - d->found_line : d->found_line - line;
    snippets found;
    if (!is_on(s)) {
        snippets_close(&d->found);
        return;
    }
    if (d->was_found && !d->found_is_old && moved < STAYS_LINES) return;
    for (uint32_t i = 0; i < s->n_documents; i++)
        if (s->documents[i] != d && s->documents[i]->kept_version != s->documents[i]->version)
            keep_document(s, s->documents[i], true);
    const snippet_query q = {.path = view_of(d->path), .before = before, .after = after,
                             .bytes_max = lsp_snippets_bytes(s)};
    d->was_found = true;
    d->found_is_old = false;
    d->found_line = line;
    if (snippets_find(&s->files, &q, &found)) return;
    for (uint32_t i = 0; i < found.n; i++) /* the name used in the project */
        for (uint32_t k = 0; k < s->n_roots; k++) {
            const size_t n = root_length(s->roots[k], found.files[i].path);
            found.files[i].path += n;
            if (n) break;
        }
    snippets_close(&d->found);
    d->found = found;
}
