/* mcp_related.c - finds the parts of a folder's files that are similar to a text. */
#include "programs/mcp_search.h"

#include "programs/snippet_files.h"
#include "programs/walk.h"

enum { RELATED_BYTES = 4096 };

typedef struct {
    snippet_index index;
    bytes text;
} reading;

static int read_one(void *user, const char *path, cerium_error *err)
{
    reading *r = user;
    struct stat st;
    if (stat(path, &st) || !snippet_file_is_wanted(path, &st)) return CERIUM_OK;
    snippet_file *file = snippet_file_read(path, &r->text);
    if (!file || snippet_index_put(&r->index, file, false) != CERIUM_ERR_MEMORY) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
}

/* The best first. */
static int put_places(bytes *out, const snippets *found, const char *folder)
{
    const size_t n = strlen(folder);
    for (uint32_t i = found->n; i-- > 0;) {
        const cerium_context_file *f = &found->files[i];
        const bool below = !strncmp(f->path, folder, n) && f->path[n] == '/';
        char head[4300];
        int len = found->lines[i]
                      ? snprintf(head, sizeof head, "%s:%u\n", f->path + (below ? n + 1 : 0),
                                 found->lines[i])
                      : snprintf(head, sizeof head, "%s (definitions)\n",
                                 f->path + (below ? n + 1 : 0));
        RETURN_IF(bytes_append(out, head, (size_t)len));
        RETURN_IF(bytes_append(out, f->text, f->text_len));
        RETURN_IF(bytes_append(out, "\n", 1));
    }
    return CERIUM_OK;
}

int mcp_related(const char *folder, view text, const char *path, bytes *out, uint32_t *n,
                cerium_error *err)
{
    reading *r = memory_zalloc(1, sizeof *r);
    const walk_visitor visitor = {.file = read_one, .user = r};
    snippets found = {.n = 0};
    char own[8192] = "";
    if (!r) return error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
    if (path) snprintf(own, sizeof own, "%.4090s%s%.4090s", path[0] == '/' ? "" : folder,
                       path[0] == '/' ? "" : "/", path);
    int status = walk_folder(folder, &visitor, err);
    const snippet_query q = {.path = view_of(own), .before = text, .bytes_max = RELATED_BYTES};
    if (!status && (snippets_find(&r->index, &q, &found) || put_places(out, &found, folder)))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for a search");
    *n = found.n;
    snippets_close(&found);
    snippet_index_close(&r->index);
    bytes_free(&r->text);
    memory_free(r);
    return status;
}
