/* feedback.c - counts in a file of JSON: read whole, and written whole under a lock. */
#include "programs/feedback.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "programs/options.h"

enum { KEPT_EVERY_S = 60, FILE_BYTES_MAX = 1 << 20, VERSION = 1 };

/* Weight of the prior that the model's own confidence is right: as if completions with this sum of
 * probabilities had been seen. */
#define PRIOR 30.0
/* How far the least probability may move from the model's own. */
#define TIMES_MIN 0.5
#define TIMES_MAX 2.5
/* Above this nothing is certain enough. */
#define CONFIDENCE_MAX 0.95

/* ---- rows ---- */

static bool is_named(const char kept[FEEDBACK_NAME_BYTES], const char *name)
{
    return !strncmp(kept, name, FEEDBACK_NAME_BYTES - 1); /* longer ones are cut */
}

static const feedback_row *find_row(const feedback_row *rows, uint32_t n, const char *model,
                                    const char *language)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_named(rows[i].model, model) && is_named(rows[i].language, language)) return &rows[i];
    return NULL;
}

/* A new row if there is none; NULL: the table is full. */
static feedback_row *row_of(feedback_row *rows, uint32_t *n, const char *model,
                            const char *language)
{
    const feedback_row *found = find_row(rows, *n, model, language);
    if (found) return &rows[found - rows];
    if (*n == FEEDBACK_ROWS_MAX) return NULL;
    feedback_row *r = &rows[(*n)++];
    *r = (feedback_row){.shown = 0};
    snprintf(r->model, sizeof r->model, "%s", model);
    snprintf(r->language, sizeof r->language, "%s", language);
    return r;
}

static void add_row(feedback_row *to, const feedback_row *r)
{
    to->shown += r->shown;
    to->taken += r->taken;
    to->typed += r->typed;
    to->refused += r->refused;
    to->characters_shown += r->characters_shown;
    to->characters_taken += r->characters_taken;
    for (int i = 0; i < LSP_CANDIDATES_MAX; i++) to->chosen[i] += r->chosen[i];
    to->promised += r->promised;
    to->standard = r->standard;
}

/* ---- the file ---- */

static bool read_count(const json_t *o, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(o, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Files of older versions have none. */
static bool read_chosen(const json_t *o, feedback_row *r)
{
    const json_t *list = json_object_get(o, "chosen"), *one;
    size_t i;
    if (!list) return true;
    if (!json_is_array(list)) return false;
    json_array_foreach(list, i, one) {
        if (!json_is_integer(one) || json_integer_value(one) < 0) return false;
        if (i < LSP_CANDIDATES_MAX) r->chosen[i] = (uint64_t)json_integer_value(one);
    }
    return true;
}

json_t *feedback_chosen_json(const feedback_row *r)
{
    json_t *list = json_array();
    for (int i = 0; i < LSP_CANDIDATES_MAX && list; i++)
        json_array_append_new(list, json_integer((json_int_t)r->chosen[i]));
    return list;
}

static bool read_row(const json_t *o, feedback_row *r)
{
    const char *model = json_string_value(json_object_get(o, "model"));
    const char *language = json_string_value(json_object_get(o, "language"));
    const json_t *promised = json_object_get(o, "promised");
    const json_t *standard = json_object_get(o, "standard");
    if (!model || !language || strlen(model) >= sizeof r->model ||
        strlen(language) >= sizeof r->language || !json_is_number(promised) ||
        !json_is_number(standard))
        return false;
    *r = (feedback_row){.promised = json_number_value(promised),
                        .standard = json_number_value(standard)};
    snprintf(r->model, sizeof r->model, "%s", model);
    snprintf(r->language, sizeof r->language, "%s", language);
    return read_count(o, "shown", &r->shown) && read_count(o, "taken", &r->taken) &&
           read_count(o, "typed", &r->typed) && read_count(o, "refused", &r->refused) &&
           read_count(o, "characters_shown", &r->characters_shown) &&
           read_count(o, "characters_taken", &r->characters_taken) && r->promised >= 0 &&
           r->promised <= (double)r->shown && r->standard >= 0 && r->standard <= 1 &&
           read_chosen(o, r);
}

int feedback_read(view text, feedback_row *rows, uint32_t *n)
{
    json_error_t why;
    json_t *all = json_read(text, JSON_REJECT_DUPLICATES, &why);
    const json_t *list = json_object_get(all, "completions"), *one;
    const bool is_ours = json_is_array(list) &&
                         json_integer_value(json_object_get(all, "version")) == VERSION;
    size_t i;
    *n = 0;
    json_array_foreach(list, i, one) {
        feedback_row r;
        feedback_row *to = is_ours && read_row(one, &r) ? row_of(rows, n, r.model, r.language)
                                                        : NULL;
        if (to) add_row(to, &r);
    }
    json_decref(all);
    return is_ours ? CERIUM_OK : CERIUM_ERR_FORMAT;
}

static json_t *rows_json(const feedback *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < f->n_rows && list; i++) {
        const feedback_row *r = &f->rows[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "model",
                            r->model,
                            "language", r->language, "shown", (json_int_t)r->shown, "taken",
                            (json_int_t)r->taken, "typed", (json_int_t)r->typed, "refused",
                            (json_int_t)r->refused, "characters_shown",
                            (json_int_t)r->characters_shown, "characters_taken",
                            (json_int_t)r->characters_taken, "promised", r->promised,
                            "standard", r->standard, "chosen", feedback_chosen_json(r)));
    }
    return json_pack("{s:i, s:o}", "version", VERSION, "completions", list);
}

static bool find_path(feedback *f)
{
    static const char name[] = "/completions.json";
    const size_t room = sizeof f->path - sizeof name - 8; /* room for an ending, too */
    if (!file_state_folder(f->path, room)) {
        f->path[0] = 0;
        return false;
    }
    memcpy(f->path + strlen(f->path), name, sizeof name);
    return true;
}

/* A missing file counts as empty. */
static int load(feedback *f, cerium_error *err)
{
    bytes text = {.max = FILE_BYTES_MAX};
    f->n_rows = 0;
    if (access(f->path, F_OK) && errno == ENOENT) return CERIUM_OK;
    int status = read_file(f->path, &text, err);
    if (!status && feedback_read((view){text.ptr ? text.ptr : "", text.len}, f->rows, &f->n_rows))
        status = error_set(err, CERIUM_ERR_FORMAT, "%s: no counts of completions, as this version "
                           "writes them; it is left alone, and nothing is learned", f->path);
    bytes_free(&text);
    return status;
}

int feedback_open(feedback *f, cerium_error *err)
{
    *f = (feedback){.kept_ns = clock_ns()};
    int status = find_path(f) ? load(f, err) : CERIUM_OK; /* no place to store it */
    f->is_off = status || !f->path[0];
    return status;
}

/* The file is replaced as a whole or not at all. */
static int write_rows(const feedback *f)
{
    char path[sizeof f->path];
    snprintf(path, sizeof path, "%.*s.new", (int)sizeof path - 5, f->path);
    json_t *all = rows_json(f);
    char *text = all ? json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    int fd = text ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    int why = fd >= 0 ? file_write_at(fd, text, strlen(text), 0) : text ? errno : ENOMEM;
    if (fd >= 0 && close(fd) && !why) why = errno;
    if (!why && rename(path, f->path)) why = errno;
    memory_release(text);
    json_decref(all);
    return why;
}

int feedback_keep(feedback *f, cerium_error *err)
{
    char path[sizeof f->path];
    f->kept_ns = clock_ns();
    if (f->is_off || !f->n_since) return CERIUM_OK;
    file_make_folders(f->path);
    snprintf(path, sizeof path, "%.*s.lock", (int)sizeof path - 6, f->path);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX)) {
        int status = error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return status;
    }
    int status = load(f, err); /* with the changes of other processes */
    for (uint32_t i = 0; i < f->n_since && !status; i++) {
        feedback_row *r = row_of(f->rows, &f->n_rows, f->since[i].model, f->since[i].language);
        if (r) add_row(r, &f->since[i]);
    }
    int why = status ? 0 : write_rows(f);
    if (why) status = error_set(err, CERIUM_ERR_IO, "%s: %s", f->path, strerror(why));
    if (!status) f->n_since = 0;
    close(fd);
    return status;
}

/* ---- counting ---- */

void feedback_add(feedback *f, const lsp_outcome *o)
{
    const double p = o->probability >= 0 && o->probability <= 1 ? o->probability : 1;
    feedback_row r = {.shown = 1, .taken = o->kind == LSP_OUTCOME_TAKEN,
                            .typed = o->kind == LSP_OUTCOME_TYPED,
                            .refused = o->kind == LSP_OUTCOME_REFUSED,
                            .characters_shown = o->n_shown, .characters_taken = o->n_taken,
                            .promised = p, .standard = o->standard};
    cerium_error err;
    if (f->is_off || !*o->model) return;
    if (o->kind == LSP_OUTCOME_CHOSEN) {
        r = (feedback_row){.standard = o->standard};
        r.chosen[o->chosen < LSP_CANDIDATES_MAX ? o->chosen : LSP_CANDIDATES_MAX - 1] = 1;
    }
    feedback_row *all = row_of(f->rows, &f->n_rows, o->model, o->language);
    feedback_row *since = row_of(f->since, &f->n_since, o->model, o->language);
    if (all) add_row(all, &r);
    if (since) add_row(since, &r);
    if (clock_ns() - f->kept_ns >= KEPT_EVERY_S * UINT64_C(1000000000) && feedback_keep(f, &err)) {
        fprintf(stderr, "cerium: %s\n", err.message);
        f->is_off = true;
    }
}

double feedback_confidence_of(const feedback_row *r, double standard)
{
    if (!(standard > 0)) return standard;
    /* If as many are taken as promised, the model's own threshold stays. */
    double times = (r->promised + PRIOR) / ((double)(r->taken + r->typed) + PRIOR);
    if (times < TIMES_MIN) times = TIMES_MIN;
    if (times > TIMES_MAX) times = TIMES_MAX;
    const double most = standard < CONFIDENCE_MAX ? CONFIDENCE_MAX : standard;
    return standard * times < most ? standard * times : most;
}

double feedback_confidence(const feedback *f, const char *model, const char *language,
                           double standard)
{
    const feedback_row *r = f->is_off ? NULL : find_row(f->rows, f->n_rows, model, language);
    return r ? feedback_confidence_of(r, standard) : standard;
}
