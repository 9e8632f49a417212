/* scan_files.c - one reader thread per core; the main thread reports findings file by file. */
#include "programs/scan_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "programs/combined.h"
#include "programs/places.h"
#include "programs/project.h"
#include "programs/walk.h"

enum { PROJECT_FILES_MIN = 20, READ_BYTES = 65536, READERS_MAX = 16, LIST_BYTES_MAX = 1 << 30 };
enum { BINARY_BYTES = 8000 }; /* first bytes of a file; a NUL in them means binary, as in git */

typedef struct {
    guard_finding finding;
    size_t path;     /* in `names`, of a line in a diff */
    uint32_t line;
    bool in_diff;
} found;

/* The result of reading one file. */
typedef struct {
    size_t path;     /* in the job's names */
    bool in_folder;  /* it was not named itself */
    bool in_project; /* and is part of a project */
    bool done, binary, empty;
    int code;        /* errno, or 0 */
    int status;      /* CERIUM_ERR_MEMORY */
    guard_form form; /* a diff and a document are answers */
    guard_language language; /* by its name, then as the last result reported */
    uint64_t n_late, n_blind; /* pieces with such lines */
    uint32_t unjudged_line;  /* the first of them */
    guard_language blind;    /* of it */
    uint32_t by_words;       /* a line of a diff: its hunk was made by words */
    bytes list;      /* of found */
    bytes names;
} file_scan;

typedef struct {
    scan_job *job;
    bytes names, files;   /* files: of file_scan, [n]; neither moves while readers run */
    uint64_t n;
    bool in_folder;
    project project; /* if in_folder */
    _Atomic uint64_t next;
    _Atomic bool stops;
    pthread_mutex_t lock; /* over `done` */
    pthread_cond_t one_done;
} scanning;

/* ---- reading one file ---- */

static int keep(file_scan *r, const diff_places *places, const guard_finding *f)
{
    found one = {.finding = *f, .line = f->line};
    uint32_t number;
    const char *path = places ? diff_places_find(places, f->line, &number) : NULL;
    if (path) {
        one.in_diff = true;
        one.line = number;
        one.path = r->names.len;
        RETURN_IF(bytes_append(&r->names, path, strlen(path) + 1));
    }
    return bytes_append(&r->list, &one, sizeof one);
}

static int keep_all(file_scan *r, const diff_places *places, const guard_result *result)
{
    bool blind = result->blind && r->form != GUARD_CODE; /* for a file its name decides that */
    if ((result->late || blind) && !r->unjudged_line) r->unjudged_line = result->unjudged_line;
    if (blind && !r->n_blind) r->blind = result->language;
    r->n_late += result->late;
    r->n_blind += blind;
    r->language = result->language;
    for (uint32_t i = 0; i < result->n_findings; i++)
        RETURN_IF(keep(r, places, &result->findings[i]));
    return CERIUM_OK;
}

static int scan_piece(file_scan *r, diff_places *places, guard_stream *stream,
                      guard_worker *worker, view text)
{
    enum { CALL_BYTES = 512 }; /* findings have room for one call: a few lines at a time */
    guard_result result;
    for (size_t i = 0; i < text.len; i += CALL_BYTES) {
        size_t n = text.len - i < CALL_BYTES ? text.len - i : CALL_BYTES;
        if (places) RETURN_IF(diff_places_feed(places, (view){text.ptr + i, n}));
        guard_feed(stream, worker, text.ptr + i, n, &result);
        RETURN_IF(keep_all(r, places, &result));
    }
    return CERIUM_OK;
}

static bool is_binary(const char *text, size_t n)
{
    return n && memchr(text, 0, n < BINARY_BYTES ? n : BINARY_BYTES);
}

/* `git diff --color=always`: removes the colors, which would hide the kind of a line.  *state: of
 * an escape that the previous piece ended in.  Returns how much is left. */
static size_t without_colors(char *text, size_t n, int *state)
{
    enum { TEXT = 0, ESCAPE = 1, SEQUENCE = 2 };
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        if (*state == ESCAPE) *state = c == '[' ? SEQUENCE : TEXT;
        else if (*state == SEQUENCE) *state = c >= '@' && c <= '~' ? TEXT : SEQUENCE;
        else if (c == '\033') *state = ESCAPE;
        else text[kept++] = c;
    }
    return kept;
}

/* What is read of a diff: without colors, and merges as plain diffs. */
typedef struct {
    diff_places places;
    combined merges;
    int color;
} diff_reading;

static int scan_diff(file_scan *r, diff_reading *d, guard_stream *stream, guard_worker *worker,
                     char *text, size_t n, bool last)
{
    view plain = {text, without_colors(text, n, &d->color)};
    d->merges.out.max = LIST_BYTES_MAX;
    RETURN_IF(combined_feed(&d->merges, plain, last));
    return scan_piece(r, &d->places, stream, worker, (view){d->merges.out.ptr, d->merges.out.len});
}

/* A text that was named itself and begins as a diff is one.  In a folder it would report files
 * that are not those of the folder. */
static bool is_diff(const scan_job *job, const file_scan *r, const char *text, size_t n)
{
    return job->form == GUARD_CODE && !job->language_given && r->language == GUARD_TEXT &&
           !r->in_folder && guard_text_is_diff((view){text, n});
}

/* Read to the end, or to an error; the findings of each piece go to tell() unless they must
 * wait. */
static int read_all(const scan_job *job, file_scan *r, guard_stream_config *config,
                    guard_worker *worker, int fd,
                    int (*tell)(const scan_job *, file_scan *, cerium_error *), cerium_error *err)
{
    char text[READ_BYTES];
    diff_reading d = {.color = 0};
    guard_stream *stream = NULL;
    guard_result result;
    int status = CERIUM_OK;
    bool follow = job->form == GUARD_ANSWER;
    for (ssize_t n = 1; n > 0 && !status && !r->binary;) {
        n = read(fd, text, sizeof text);
        if (n < 0) r->code = errno;
        if (!stream) {
            r->empty = n == 0;
            r->binary = n > 0 && is_binary(text, (size_t)n);
            if (n > 0 && is_diff(job, r, text, (size_t)n))
                follow = true, config->form = GUARD_ANSWER, config->path = (view){"", 0};
            r->form = config->form;
            status = guard_stream_open(&stream, job->guard, config, err);
            if (status) break;
        }
        if (!r->binary && follow)
            status = scan_diff(r, &d, stream, worker, text, n > 0 ? (size_t)n : 0, n <= 0);
        else if (n > 0 && !r->binary)
            status = scan_piece(r, NULL, stream, worker, (view){text, (size_t)n});
        if (!status && tell) status = tell(job, r, err);
    }
    if (!status && !r->binary) {
        guard_finish(stream, worker, &result);
        status = keep_all(r, follow ? &d.places : NULL, &result);
    }
    guard_stream_close(&stream);
    r->by_words = diff_places_by_words(&d.places);
    diff_places_free(&d.places);
    combined_free(&d.merges);
    return status;
}

static int scan_open(const scan_job *job, file_scan *r, const char *path, guard_worker *worker,
                     int fd, int (*tell)(const scan_job *, file_scan *, cerium_error *),
                     cerium_error *err)
{
    guard_stream_config config = {.form = job->form,
                                  .allow_comments = job->form != GUARD_JSON,
                                  .notes = job->notes,
                                  .is_existing = r->in_folder,
                                  .path = job->form == GUARD_CODE ? view_of(path) : (view){"", 0},
                                  .request = &job->known,
                                  .n_request = 1};
    if (job->form == GUARD_CODE && !job->language_given && guard_path_is_markdown(view_of(path)))
        config.form = GUARD_ANSWER;
    config.language = job->language_given ? job->language : guard_language_of_path(view_of(path));
    config.is_text = job->language_given || guard_path_is_text(view_of(path));
    r->language = config.language;
    r->list.max = r->names.max = LIST_BYTES_MAX;
    return read_all(job, r, &config, worker, fd, tell, err);
}

static void scan_named(const scanning *s, file_scan *r, guard_worker *worker)
{
    const char *path = s->names.ptr + r->path;
    cerium_error ignored;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        r->code = errno;
        return;
    }
    r->status = scan_open(s->job, r, path, worker, fd, NULL, &ignored);
    close(fd);
}

static file_scan *file_at(const scanning *s, uint64_t i)
{
    return (file_scan *)(void *)s->files.ptr + i;
}

static void read_files(scanning *s, guard_worker *worker, uint64_t until)
{
    for (uint64_t i; !atomic_load(&s->stops) && (i = atomic_fetch_add(&s->next, 1)) < until;) {
        file_scan *r = file_at(s, i);
        scan_named(s, r, worker);
        pthread_mutex_lock(&s->lock);
        r->done = true;
        pthread_cond_broadcast(&s->one_done);
        pthread_mutex_unlock(&s->lock);
    }
}

static void *run_reader(void *arg)
{
    scanning *s = arg;
    guard_worker *worker;
    if (guard_worker_open(&worker, s->job->guard, NULL)) return NULL; /* other threads read the
                                                                       * rest */
    read_files(s, worker, s->n);
    guard_worker_close(&worker);
    return NULL;
}

/* ---- telling ---- */

static int tell_found(const scan_job *job, file_scan *r, const char *path, cerium_error *err)
{
    const found *list = (const found *)(const void *)r->list.ptr;
    int status = CERIUM_OK;
    for (size_t i = 0; i < r->list.len / sizeof *list && !status; i++) {
        scan_place at = {path, list[i].line, list[i].in_diff, r->in_project};
        if (at.in_diff) at.path = r->names.ptr + list[i].path;
        status = job->found(job->user, at, &list[i].finding, err);
    }
    r->list.len = r->names.len = 0;
    return status;
}

static void tell_trouble(const scan_job *job, const char *path, const char *why)
{
    enum { PATH_SHOWN = 380 }; /* so that the message has a place, too */
    cerium_error line;
    const size_t len = strlen(path);
    const char *shown = len > PATH_SHOWN ? path + len - PATH_SHOWN : path;
    error_set(&line, CERIUM_ERR_IO, "%s%s: %s", shown == path ? "" : "...", shown, why);
    job->trouble(job->user, line.message);
}

/* An unreadable file is an error, not a clean file. */
static void tell_unjudged(scan_job *job, const file_scan *r, const char *path)
{
    cerium_error at;
    char why[128];
    error_set(&at, CERIUM_OK, "%s:%u", path, r->unjudged_line);
    snprintf(why, sizeof why, "not judged: this build has no grammar for %s",
             guard_language_name(r->blind));
    if (r->n_blind) tell_trouble(job, at.message, why);
    snprintf(why, sizeof why, "not judged: lines in %llu places are too much to parse",
             (unsigned long long)r->n_late);
    if (r->n_late) tell_trouble(job, at.message, why);
    error_set(&at, CERIUM_OK, "%s:%u", path, r->by_words);
    if (r->by_words) tell_trouble(job, at.message, "not judged: changes by words; want a diff of "
                                                   "lines, without --word-diff");
    if (job->form != GUARD_CODE) return;
    job->n_files++;
    if (!r->empty && r->form == GUARD_CODE && r->language == GUARD_TEXT &&
        guard_path_is_other_code(view_of(path))) {
        job->n_others++;
        if (!*job->other) snprintf(job->other, sizeof job->other, "%s", path);
    }
    if (guard_is_read_by_lines(r->language) || guard_has_grammar(r->language)) return;
    snprintf(why, sizeof why, "not judged, but for secrets: this build has no grammar for %s",
             guard_language_name(r->language));
    tell_trouble(job, path, why);
}

/* An image need not be judged; a file named as code must be, and UTF-16 is not supported. */
static void tell_binary(scan_job *job, const file_scan *r, const char *path)
{
    if (job->form == GUARD_CODE && r->language != GUARD_TEXT)
        tell_trouble(job, path, "not judged: it has NUL bytes (UTF-16? write it as UTF-8)");
    else if (r->in_folder)
        job->n_binary++;
    else
        fprintf(stderr, "cerium scan: %s: a binary file: passed over\n", path);
}

static int tell_file(scan_job *job, file_scan *r, const char *path, cerium_error *err)
{
    int status = tell_found(job, r, path, err);
    if (r->status) status = error_set(err, r->status, "%s: no memory to read it", path);
    bytes_free(&r->list);
    bytes_free(&r->names);
    if (r->code) tell_trouble(job, path, strerror(r->code));
    if (r->binary) tell_binary(job, r, path);
    if (!r->binary && !r->code) tell_unjudged(job, r, path);
    return status;
}

/* As soon as each is done, and those before it. */
static int tell_files(scanning *s, cerium_error *err)
{
    int status = CERIUM_OK;
    for (uint64_t i = 0; i < s->n && !status; i++) {
        pthread_mutex_lock(&s->lock);
        while (!file_at(s, i)->done) pthread_cond_wait(&s->one_done, &s->lock);
        pthread_mutex_unlock(&s->lock);
        file_scan *r = file_at(s, i);
        status = tell_file(s->job, r, s->names.ptr + r->path, err);
    }
    return status;
}

/* Read the listed files. If no reader thread can be started, this thread reads them all. */
static int scan_listed(scanning *s, guard_worker *worker, cerium_error *err)
{
    pthread_t threads[READERS_MAX];
    uint32_t cpus[THREAD_CPUS_MAX], n_cores = 1, n = 0;
    thread_cpus(cpus, &n_cores);
    if (n_cores > READERS_MAX) n_cores = READERS_MAX;
    s->n = s->files.len / sizeof(file_scan);
    atomic_store(&s->next, 0);
    while (n_cores > 1 && n < n_cores && n < s->n &&
           !thread_start(&threads[n], "scan", run_reader, s))
        n++;
    if (!n) read_files(s, worker, s->n);
    int status = tell_files(s, err);
    atomic_store(&s->stops, true);
    for (uint32_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < s->n; i++) {
        bytes_free(&file_at(s, i)->list);
        bytes_free(&file_at(s, i)->names);
    }
    atomic_store(&s->stops, false);
    s->files.len = s->names.len = 0;
    return status;
}

/* ---- files to read ---- */

static int add_file(void *user, const char *path, cerium_error *err)
{
    scanning *s = user;
    file_scan r = {.path = s->names.len, .in_folder = s->in_folder};
    r.in_project = s->in_folder && project_has(&s->project, path);
    int status = bytes_append(&s->names, path, strlen(path) + 1);
    if (!status) status = bytes_append(&s->files, &r, sizeof r);
    return status ? error_set(err, status, "no memory for the names of files") : CERIUM_OK;
}

static void on_trouble(void *user, const char *path, int code)
{
    tell_trouble(((scanning *)user)->job, path, strerror(code));
}

static bool is_folder(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0 && S_ISDIR(at.st_mode);
}

static int add_path(scanning *s, const char *path, cerium_error *err)
{
    const walk_visitor v = {add_file, on_trouble, s};
    size_t before = s->files.len;
    s->in_folder = is_folder(path);
    if (!s->in_folder) return add_file(s, path, err);
    project_begin(&s->project, path);
    RETURN_IF(walk_folder(path, &v, err));
    /* Who has written a few files wants to read all that is said of them. */
    file_scan *files = (file_scan *)(void *)(s->files.ptr + before);
    const size_t n = (s->files.len - before) / sizeof *files;
    for (size_t i = 0; i < n && n < PROJECT_FILES_MIN; i++) files[i].in_project = false;
    if (s->files.len == before)
        fprintf(stderr, "cerium scan: %s: no file in it that git would list\n", path);
    return CERIUM_OK;
}

static int tell_stdin(const scan_job *job, file_scan *r, cerium_error *err)
{
    return tell_found(job, r, "stdin", err);
}

static int scan_stdin(scanning *s, guard_worker *worker, cerium_error *err)
{
    file_scan r = {.in_folder = false};
    int status = scan_open(s->job, &r, "stdin", worker, STDIN_FILENO, tell_stdin, err);
    if (status == CERIUM_ERR_MEMORY) r.status = status;
    int reported = tell_file(s->job, &r, "stdin", err);
    return status ? status : reported;
}

int scan_files(scan_job *job, int n, char **paths, cerium_error *err)
{
    scanning s = {.job = job,
                  .names = {.max = LIST_BYTES_MAX},
                  .files = {.max = LIST_BYTES_MAX},
                  .lock = PTHREAD_MUTEX_INITIALIZER,
                  .one_done = PTHREAD_COND_INITIALIZER};
    guard_worker *worker;
    RETURN_IF(guard_worker_open(&worker, job->guard, err));
    int status = CERIUM_OK;
    for (int i = 0; i < n && !status; i++) {
        bool from_stdin = !strcmp(paths[i], "-");
        if (!from_stdin) status = add_path(&s, paths[i], err);
        /* Standard input has its turn. */
        if (!status && (from_stdin || i + 1 == n)) status = scan_listed(&s, worker, err);
        if (!status && from_stdin) status = scan_stdin(&s, worker, err);
    }
    guard_worker_close(&worker);
    bytes_free(&s.names);
    bytes_free(&s.files);
    return status;
}
