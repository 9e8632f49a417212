/* lsp_workspace.c - a thread that reads the files of an editor's folders: those that git tracks or
 * would, in known languages.  Unchanged files are not read again. */
#include "programs/lsp_host.h"

#include <errno.h>
#include <pthread.h>

#include "base/hash.h"
#include "base/thread.h"
#include "programs/snippet_files.h"
#include "programs/walk.h"

enum {
    FOLDERS_MAX = 16,
    AGAIN_SECONDS = 60,
    ENTRIES_MAX = 4 * SNIPPETS_FILES_MAX,
    ENTRIES_SLOTS = 2 * ENTRIES_MAX, /* a power of two */
};

/* A file as last read. */
typedef struct {
    hash_name path;
    int64_t changed_ns;
    uint64_t size;
    bool is_used;
} entry;

typedef struct found_file {
    struct found_file *next;
    snippet_file *file;
} found_file;

typedef struct {
    char *path; /* owned */
    bool is_asked;
    uint64_t read_ns; /* when it was last checked; 0: never */
} folder;

struct lsp_workspace {
    lsp_bell *bell;
    pthread_t thread;
    bool was_started;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    folder folders[FOLDERS_MAX]; /* [n_folders] under the lock, as are: */
    uint32_t n_folders;
    found_file *found;           /* the newest first */
    bool stops;
    entry *entries;              /* [ENTRIES_SLOTS] of the thread: a hash table by path */
    uint32_t n_entries;
    bytes text;
};

/* ---- the thread ---- */

static bool is_stopped(lsp_workspace *w)
{
    pthread_mutex_lock(&w->lock);
    const bool stops = w->stops;
    pthread_mutex_unlock(&w->lock);
    return stops;
}

/* The entry of a path, a new one if needed; NULL: there is no room. */
static entry *entry_of(lsp_workspace *w, const char *path)
{
    const hash_name name = hash_name_of(path, strlen(path));
    entry *e = &w->entries[name.low % ENTRIES_SLOTS];
    while (e->is_used && !hash_name_equal(e->path, name))
        e = e + 1 < w->entries + ENTRIES_SLOTS ? e + 1 : w->entries;
    if (e->is_used) return e;
    if (w->n_entries == ENTRIES_MAX) return NULL;
    w->n_entries++;
    *e = (entry){.path = name, .size = UINT64_MAX, .is_used = true};
    return e;
}

static void hand_over(lsp_workspace *w, snippet_file *file)
{
    found_file *f = memory_zalloc(1, sizeof *f);
    if (!f) {
        snippet_file_close(&file);
        return;
    }
    f->file = file;
    pthread_mutex_lock(&w->lock);
    f->next = w->found;
    w->found = f;
    pthread_mutex_unlock(&w->lock);
    lsp_bell_ring(w->bell);
}

static int read_one(void *user, const char *path, cerium_error *err)
{
    lsp_workspace *w = user;
    struct stat st;
    if (is_stopped(w)) return error_set(err, CERIUM_ERR_CANCELED, "it is over");
    if (stat(path, &st) || !snippet_file_is_wanted(path, &st)) return CERIUM_OK;
    const int64_t changed = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    entry *e = entry_of(w, path);
    if (!e) return error_set(err, CERIUM_ERR_CAPACITY, "too many files"); /* a home folder, or a
                                                                           * disk */
    if (e->changed_ns == changed && e->size == (uint64_t)st.st_size) return CERIUM_OK;
    snippet_file *file = snippet_file_read(path, &w->text);
    if (!file) return CERIUM_OK;
    e->changed_ns = changed;
    e->size = (uint64_t)st.st_size;
    hand_over(w, file);
    return CERIUM_OK;
}

static void read_folder(lsp_workspace *w, const char *path)
{
    const walk_visitor visitor = {.file = read_one, .user = w};
    cerium_error err;
    if (walk_folder(path, &visitor, &err)) return; /* the files read so far are kept */
}

static void *serve(void *user)
{
    lsp_workspace *w = user;
    thread_be_nicer(10); /* not idle priority: beside a build that would never run */
    pthread_mutex_lock(&w->lock);
    while (!w->stops) {
        uint32_t i = 0;
        while (i < w->n_folders && !w->folders[i].is_asked) i++;
        if (i == w->n_folders) {
            pthread_cond_wait(&w->asked, &w->lock);
            continue;
        }
        w->folders[i].is_asked = false;
        w->folders[i].read_ns = clock_ns();
        pthread_mutex_unlock(&w->lock);
        read_folder(w, w->folders[i].path); /* it stays */
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the loop's side ---- */

int lsp_workspace_open(lsp_workspace **out, lsp_bell *bell, cerium_error *err)
{
    lsp_workspace *w = memory_zalloc(1, sizeof *w);
    if (!w) return error_set(err, CERIUM_ERR_MEMORY, "out of memory");
    w->bell = bell;
    w->entries = memory_zalloc(ENTRIES_SLOTS, sizeof *w->entries);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->asked, NULL);
    int code = w->entries ? thread_start(&w->thread, "files", serve, w) : ENOMEM;
    w->was_started = !code;
    *out = w;
    if (!code) return CERIUM_OK;
    lsp_workspace_close(out);
    return error_set(err, CERIUM_ERR_IO, "no thread to read files: %s", strerror(code));
}

void lsp_workspace_read(lsp_workspace *w, const char *path)
{
    pthread_mutex_lock(&w->lock);
    uint32_t i = 0;
    while (i < w->n_folders && strcmp(w->folders[i].path, path) != 0) i++;
    char *copy = i == w->n_folders && i < FOLDERS_MAX ? memory_copy(path, strlen(path)) : NULL;
    if (copy) w->folders[w->n_folders++].path = copy;
    if (i < w->n_folders) {
        folder *f = &w->folders[i];
        const uint64_t now = clock_ns(), pause = AGAIN_SECONDS * UINT64_C(1000000000);
        f->is_asked |= !f->read_ns || now - f->read_ns > pause;
        pthread_cond_signal(&w->asked);
    }
    pthread_mutex_unlock(&w->lock);
}

void lsp_workspace_look(lsp_workspace *w, lsp_server *s)
{
    pthread_mutex_lock(&w->lock);
    found_file *found = w->found;
    w->found = NULL;
    pthread_mutex_unlock(&w->lock);
    for (found_file *next; found; found = next) {
        next = found->next;
        if (s) lsp_server_file(s, found->file);
        else snippet_file_close(&found->file);
        memory_free(found);
    }
}

void lsp_workspace_close(lsp_workspace **workspace)
{
    if (!workspace || !*workspace) return;
    lsp_workspace *w = *workspace;
    pthread_mutex_lock(&w->lock);
    w->stops = true;
    pthread_cond_signal(&w->asked);
    pthread_mutex_unlock(&w->lock);
    if (w->was_started) pthread_join(w->thread, NULL);
    lsp_workspace_look(w, NULL);
    for (uint32_t i = 0; i < w->n_folders; i++) memory_free(w->folders[i].path);
    bytes_free(&w->text);
    memory_free(w->entries);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->asked);
    memory_free(w);
    *workspace = NULL;
}
