/* walk.c - traverses a folder with fts(3); applies to each path the rules that hold there. */
#include "programs/walk.h"

#include <errno.h>
#include <fts.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "programs/ignore.h"

enum { DEPTH_MAX = 1000, PATH_BYTES = 8192 };

typedef struct {
    const walk_visitor *v;
    ignore_rules rules;
    tracked_files tracked;
    bool in_repository;
    size_t n_rules[DEPTH_MAX]; /* rules in force before each folder on the way was entered */
    char prefix[PATH_BYTES];   /* the folder, from its repository's root: "" or "src/" */
    size_t n_folder;           /* bytes of its name as given */
    int only_tracked;          /* depth of an ignored folder with tracked files; or -1 */
} walker;

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat at;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           !lstat(path, &at);
}

/* A worktree's .git is a file that names the folder; the parts common to all worktrees are beside
 * that. */
static void git_folders(const char *root, char own[PATH_BYTES], char common[PATH_BYTES])
{
    char path[PATH_BYTES], line[PATH_BYTES / 2];
    snprintf(own, PATH_BYTES, "%s/.git", root);
    snprintf(common, PATH_BYTES, "%s", own);
    FILE *f = fopen(own, "r");
    bool named = f && fgets(line, sizeof line, f) && !strncmp(line, "gitdir: ", 8);
    if (f) fclose(f);
    if (!named) return;
    line[strcspn(line, "\n")] = 0;
    if (line[8] == '/') snprintf(own, PATH_BYTES, "%s", line + 8);
    else snprintf(own, PATH_BYTES, "%.4000s/%.4000s", root, line + 8);
    snprintf(common, PATH_BYTES, "%s", own);
    snprintf(path, sizeof path, "%.8000s/commondir", own);
    f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '/') snprintf(common, PATH_BYTES, "%s", line);
        else snprintf(common, PATH_BYTES, "%.4000s/%.4000s", own, line);
    }
    if (f) fclose(f);
}

static int read_users_rules(walker *w)
{
    char path[PATH_BYTES];
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && *config) n = snprintf(path, sizeof path, "%s/git/ignore", config);
    else if (home && *home) n = snprintf(path, sizeof path, "%s/.config/git/ignore", home);
    return n > 0 && n < (int)sizeof path ? ignore_read(&w->rules, path, "") : CERIUM_OK;
}

/* The rules of the repository that the folder is in, from its root down to the folder's parent. */
static int open_repository(walker *w, const char *folder)
{
    char whole[PATH_MAX], root[PATH_MAX], path[PATH_BYTES + 32], own[PATH_BYTES];
    char common[PATH_BYTES];
    if (!realpath(folder, whole)) return CERIUM_OK; /* fts reports the error */
    snprintf(root, sizeof root, "%s", whole);
    while (!is_there(root, ".git")) {
        char *slash = strrchr(root, '/');
        if (!slash || slash == root) return read_users_rules(w);
        *slash = 0;
    }
    w->in_repository = true;
    git_folders(root, own, common);
    RETURN_IF(read_users_rules(w));
    snprintf(path, sizeof path, "%s/info/exclude", common);
    RETURN_IF(ignore_read(&w->rules, path, ""));
    snprintf(path, sizeof path, "%s/index", own);
    RETURN_IF(tracked_read(&w->tracked, path));
    const char *inside = whole + strlen(root);
    while (*inside == '/') inside++;
    snprintf(w->prefix, sizeof w->prefix, "%s%s", inside, *inside ? "/" : "");
    for (char *at = w->prefix; *at; at++) {
        if (at != w->prefix && at[-1] != '/') continue;
        char kept = *at; /* rules from here on are below this folder */
        *at = 0;
        snprintf(path, sizeof path, "%.4000s/%.4000s.gitignore", root, w->prefix);
        int status = ignore_read(&w->rules, path, w->prefix);
        *at = kept;
        RETURN_IF(status);
    }
    return CERIUM_OK;
}

/* The path of an entry from the root of the repository; false when it is too long. */
static bool path_of(const walker *w, const FTSENT *e, char out[PATH_BYTES])
{
    const char *rest = e->fts_path + w->n_folder;
    while (*rest == '/') rest++;
    return snprintf(out, PATH_BYTES, "%s%s", w->prefix, rest) < PATH_BYTES;
}

static int enter(walker *w, const FTSENT *e, const char *path)
{
    char file[PATH_BYTES + 16], base[PATH_BYTES + 2];
    size_t len = strlen(path);
    snprintf(file, sizeof file, "%.8000s/.gitignore", e->fts_accpath);
    snprintf(base, sizeof base, "%s%s", path, len && path[len - 1] != '/' ? "/" : "");
    return ignore_read(&w->rules, file, base);
}

/* Is the folder to be entered?  An ignored one only for tracked files in it. */
static bool is_wanted(walker *w, const FTSENT *e, const char *path)
{
    if (!strcmp(e->fts_name, ".git") || e->fts_level >= DEPTH_MAX) return false;
    if (w->in_repository && is_there(e->fts_accpath, ".git")) return false;
    if (w->only_tracked >= 0) return tracked_has(&w->tracked, path, true);
    if (!ignore_matches(&w->rules, path, true)) return true;
    if (!tracked_has(&w->tracked, path, true)) return false;
    w->only_tracked = e->fts_level;
    return true;
}

static void pass_over(const walker *w, const char *path, int code)
{
    if (w->v->trouble) w->v->trouble(w->v->user, path, code);
}

static int visit(walker *w, FTS *tree, FTSENT *e, cerium_error *err)
{
    char path[PATH_BYTES];
    int status = CERIUM_OK;
    if (!path_of(w, e, path)) return pass_over(w, e->fts_path, ENAMETOOLONG), 0;
    switch (e->fts_info) {
    case FTS_D:
        if (e->fts_level < DEPTH_MAX) w->n_rules[e->fts_level] = w->rules.n; /* FTS_DP restores
                                                                              * it */
        if (e->fts_level >= DEPTH_MAX) pass_over(w, e->fts_path, ENAMETOOLONG);
        if (e->fts_level > 0 && !is_wanted(w, e, path)) {
            fts_set(tree, e, FTS_SKIP);
            return CERIUM_OK;
        }
        status = enter(w, e, path);
        break;
    case FTS_DP:
        if (e->fts_level >= DEPTH_MAX) break;
        ignore_cut(&w->rules, w->n_rules[e->fts_level]);
        if (w->only_tracked == e->fts_level) w->only_tracked = -1;
        break;
    case FTS_F:
        if (!tracked_has(&w->tracked, path, false) &&
            (w->only_tracked >= 0 || ignore_matches(&w->rules, path, false)))
            break;
        return w->v->file(w->v->user, e->fts_path, err);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS: pass_over(w, e->fts_path, e->fts_errno); break;
    default: break; /* links, sockets, devices */
    }
    return status ? error_set(err, status, "no memory for %s", e->fts_path) : CERIUM_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

int walk_folder(const char *folder, const walk_visitor *v, cerium_error *err)
{
    walker *w = memory_zalloc(1, sizeof *w);
    char name[PATH_BYTES], *roots[] = {name, NULL};
    if (!w || snprintf(name, sizeof name, "%s", folder) >= (int)sizeof name) {
        memory_free(w);
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: too long a name", folder);
    }
    w->v = v;
    w->n_folder = strlen(name);
    w->only_tracked = -1;
    int status = open_repository(w, folder);
    if (status) error_set(err, status, "no memory for %s", folder);
    const int how = FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW;
    FTS *tree = status ? NULL : fts_open(roots, how, by_name);
    if (!status && !tree) status = error_set(err, CERIUM_ERR_IO, "%s: %s", folder, strerror(errno));
    for (FTSENT *e; !status && (e = fts_read(tree));) status = visit(w, tree, e, err);
    if (tree) fts_close(tree);
    ignore_free(&w->rules);
    tracked_free(&w->tracked);
    memory_free(w);
    return status;
}
