/* scan_exists.c - checks files and lines of JSON against the names of an environment. */
#include "programs/scan_exists.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "exists/environment.h"
#include "exists/exists_names.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/scan_batch.h"
#include "programs/walk.h"

enum { FILE_BYTES_MAX = 4 << 20 };

typedef struct {
    scan_exists_job *job;
    names_index *names;
    const char *path; /* current file */
    json_t *list;     /* of a line of a batch */
    bool shows_progress;
    bool named;       /* the file itself was named, not its folder */
    cerium_error *err;
} scanning;

static void show_progress(void *user, uint32_t n_files)
{
    scanning *s = user;
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\rreading the environment: %u files", n_files);
    s->shows_progress = true;
}

static int open_names(scanning *s, const char *root, cerium_error *err)
{
    char kept[4096];
    environment_config c = {.root = root, .progress = show_progress, .user = s};
    if (file_cache_folder_or(getenv("CERIUM_CACHE"), kept, sizeof kept)) c.kept_in = kept;
    int status = environment_read(&s->names, &c, err);
    if (s->shows_progress) fputs("\r\033[K", stderr);
    return status;
}

static int add_to_list(void *user, const exists_finding *f)
{
    scanning *s = user;
    s->job->n_found++;
    json_t *one = json_pack("{s:i, s:o, s:s}", "line", (int)f->line, "name",
                            json_text(view_of(f->name)), "kind", exists_kind_name(f->kind));
    return one && !json_array_append_new(s->list, one) ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

static int show(void *user, const exists_finding *f)
{
    scanning *s = user;
    char what[EXISTS_SAID_BYTES], instead[EXISTS_SAID_BYTES];
    exists_describe(s->names, f, what, instead);
    s->job->n_found++;
    if (s->job->json)
        return output_json(json_pack("{s:o, s:i, s:s, s:o, s:o, s:o}", "file", json_name(s->path),
                                     "line", (int)f->line, "kind", exists_kind_name(f->kind),
                                     "name", json_text(view_of(f->name)), "message",
                                     json_text(view_of(what)), "instead",
                                     json_text(view_of(instead))),
                           JSON_COMPACT, s->err);
    output_name(s->path);
    printf(":%u: %s (%s)\n    instead: %s\n", f->line, what, exists_kind_name(f->kind), instead);
    return output_flush(s->err);
}

/* ---- batch ---- */

static int judge_names(void *user, guard_language language, view code, json_t *findings,
                       cerium_error *err)
{
    scanning *s = user;
    s->list = findings;
    if (!exists_text(s->names, language, code, add_to_list, s)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for findings");
}

static void on_unread(void *user, const char *why)
{
    const scanning *s = user;
    s->job->trouble(s->job->user, why);
}

/* ---- files ---- */

/* The go command passes over such folders: what they import may be anywhere. */
static bool is_passed_over(guard_language language, const char *path)
{
    if (language != GUARD_GO) return false;
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
        if (p[1] == '_' || !strncmp(p + 1, "testdata/", 9)) return true;
    return false;
}

static int scan_file(void *user, const char *path, cerium_error *err)
{
    scanning *s = user;
    guard_language language = s->job->language ? guard_language_named(view_of(s->job->language))
                                               : guard_language_of_path(view_of(path));
    bytes file = {.max = FILE_BYTES_MAX};
    size_t n = strlen(path);
    bool stub = n > 4 && !strcmp(path + n - 4, ".pyi"); /* its names exist only for type checkers */
    if (!uses_reads(language) || stub || is_passed_over(language, path)) return CERIUM_OK;
    int status = read_file(path, &file, err);
    if (status && status != CERIUM_ERR_MEMORY) {
        s->job->trouble(s->job->user, err->message);
        status = CERIUM_OK;
    } else if (!status) {
        s->path = strcmp(path, "-") ? path : "stdin";
        s->err = err;
        status = exists_text(s->names, language, (view){file.ptr, file.len}, show, s);
    }
    bytes_free(&file);
    return status;
}

static void on_trouble(void *user, const char *path, int code)
{
    char line[4200];
    const scanning *s = user;
    snprintf(line, sizeof line, "%s: %s", path, strerror(code));
    s->job->trouble(s->job->user, line);
}

static int scan_path(scanning *s, const char *path, cerium_error *err)
{
    struct stat at;
    const walk_visitor v = {scan_file, on_trouble, s};
    bool folder = !stat(path, &at) && S_ISDIR(at.st_mode);
    return folder ? walk_folder(path, &v, err) : scan_file(s, path, err);
}

int scan_exists(scan_exists_job *job, int n, char **paths, cerium_error *err)
{
    scanning s = {.job = job};
    int first = job->batch && !job->root ? 1 : 0;
    const char *root = job->root ? job->root : first ? paths[0] : ".";
    if (first >= n)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--exists --batch wants a folder and files");
    const scan_batch_events batch = {.judge = judge_names, .trouble = on_unread, .user = &s};
    int status = open_names(&s, root, err);
    for (int i = first; i < n && !status; i++)
        status = job->batch ? scan_batch(paths[i], &batch, err) : scan_path(&s, paths[i], err);
    index_close(&s.names);
    return status;
}
