/* serve_models.c - files and names of models from the command line. */
#include "programs/serve_models.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"

enum { TEXTS_BYTES_MAX = 1 << 20 }; /* never grown: pointers into it stay valid */

/* A copy that lives as long as the list; NULL: no room. */
static const char *keep(serve_models *m, const char *text, size_t len)
{
    m->texts.max = TEXTS_BYTES_MAX;
    if (!m->texts.cap && bytes_reserve(&m->texts, TEXTS_BYTES_MAX)) return NULL;
    if (m->texts.len + len + 1 > TEXTS_BYTES_MAX) return NULL;
    const char *out = m->texts.ptr + m->texts.len;
    CHECK(!bytes_append(&m->texts, text, len) && !bytes_append(&m->texts, "", 1));
    return out;
}

/* The entry of a file, a new one if needed; NULL: there is no room. */
static server_model *find(serve_models *m, const char *path)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->list[i].path, path)) return &m->list[i];
    if (m->n == SERVER_MODELS_MAX) return NULL;
    const char *kept = keep(m, path, strlen(path));
    if (!kept) return NULL;
    m->list[m->n] = (server_model){.path = kept, .names = m->names[m->n], .is_first = !m->n};
    return &m->list[m->n++];
}

static int too_many(cerium_error *err)
{
    return error_set(err, CERIUM_ERR_ARGUMENT, "at most %u models, each of at most %u names",
                     SERVER_MODELS_MAX, SERVER_MODEL_NAMES_MAX);
}

int serve_models_add(serve_models *m, const char *what, cerium_error *err)
{
    char path[OPTIONS_PATH_MAX];
    const char *equals = strchr(what, '='), *slash = strchr(what, '/');
    const bool has_name = equals && (!slash || equals < slash) && access(what, F_OK) != 0;
    if (has_name && (equals == what || !equals[1]))
        return error_set(err, CERIUM_ERR_ARGUMENT, "`%.100s`: a model is FILE or NAME=FILE", what);
    if (has_name && (size_t)(equals - what) >= SERVER_ID_BYTES)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%.100s: a name has at most %u bytes", what,
                         SERVER_ID_BYTES - 1);
    const char *file = options_find_model(has_name ? equals + 1 : what, path);
    RETURN_IF(options_model_check(file, err));
    server_model *of = find(m, file);
    if (!of || (has_name && of->n_names == SERVER_MODEL_NAMES_MAX)) return too_many(err);
    of->is_named = true;
    if (!has_name) return CERIUM_OK;
    const char *name = keep(m, what, (size_t)(equals - what));
    if (!name) return too_many(err);
    m->names[of - m->list][of->n_names++] = name;
    return CERIUM_OK;
}

/* Only the first part of split models; no projectors of images, which are not models. */
static int is_model(const struct dirent *entry)
{
    const char *name = entry->d_name, *part = strstr(name, "-of-");
    const size_t len = strlen(name);
    if (name[0] == '.' || len < 6 || strcmp(name + len - 5, ".gguf") != 0) return 0;
    if (strstr(name, "mmproj")) return 0;
    return !part || part - name < 6 || !strncmp(part - 6, "-00001", 6);
}

int serve_models_add_folder(serve_models *m, const char *folder, cerium_error *err)
{
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_model, alphasort), status = CERIUM_OK;
    if (n < 0)
        return error_set(err, CERIUM_ERR_IO, "%.200s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        char path[OPTIONS_PATH_MAX];
        const int len = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (!status && (size_t)len < sizeof path && !find(m, path)) status = too_many(err);
        memory_release(entries[i]);
    }
    memory_release(entries);
    if (!status && !n)
        return error_set(err, CERIUM_ERR_IO, "%.200s: there is no .gguf file in it", folder);
    return status;
}

void serve_models_free(serve_models *m) { bytes_free(&m->texts); }
