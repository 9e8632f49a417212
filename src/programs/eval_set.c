/* eval_set.c - reads sets, draws lines. */
#include "programs/eval_set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/json.h"
#include "programs/eval_stats.h"

enum {
    SET_BYTES_MAX = 1 << 30,
    FILE_BYTES_MAX = 4 << 20,
    DOCUMENTS_MAX = 1 << 20,
    DEPTH_MAX = 32,
    LINE_LEAST = 4,     /* bytes of a hole's line */
    LINE_MOST = 200,
    LINES_BEFORE = 3,   /* of a document before it */
    TRIES_PER_LINE = 50,
};

static const struct {
    const char *end, *language;
} endings[] = {
    {".py", "python"},   {".c", "c"},     {".h", "c"},    {".js", "javascript"},
    {".mjs", "javascript"}, {".ts", "typescript"}, {".tsx", "typescript"}, {".go", "go"},
    {".rs", "rust"},     {".java", "java"}, {".sh", "shell"}, {".cc", "cpp"},
    {".cpp", "cpp"},     {".hpp", "cpp"},
};

static const char *language_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < ARRAY_LEN(endings); i++)
        if (!strcmp(dot, endings[i].end)) return endings[i].language;
    return NULL;
}

static int language_number(eval_set *set, const char *name, uint32_t *out, cerium_error *err)
{
    for (uint32_t i = 0; i < set->n_languages; i++) {
        if (strcmp(set->languages[i], name) != 0) continue;
        *out = i;
        return CERIUM_OK;
    }
    if (set->n_languages == EVAL_LANGUAGES_MAX || strlen(name) >= EVAL_NAME_BYTES)
        return error_set(err, CERIUM_ERR_CAPACITY, "more than %d languages, or a name as long as "
                         "%.40s", EVAL_LANGUAGES_MAX, name);
    *out = set->n_languages;
    snprintf(set->languages[set->n_languages++], EVAL_NAME_BYTES, "%s", name);
    return CERIUM_OK;
}

/* Takes text, which is owned. */
static int add(eval_set *set, const char *path, const char *package, char *text, size_t len,
               const char *language, eval_document **out, cerium_error *err)
{
    uint32_t number = 0;
    int status = language_number(set, language, &number, err);
    if (!status && set->n == set->cap) {
        size_t cap = set->cap ? 2 * set->cap : 64;
        eval_document *more = cap <= DOCUMENTS_MAX ? memory_zalloc(cap, sizeof *more) : NULL;
        if (!more) {
            status = error_set(err, CERIUM_ERR_MEMORY, "no room for more documents");
        } else {
            if (set->n) memcpy(more, set->documents, set->n * sizeof *more);
            memory_free(set->documents);
            set->documents = more;
            set->cap = cap;
        }
    }
    const char *slash = strrchr(path, '/');
    size_t n_package = package ? strlen(package) : slash ? (size_t)(slash - path) : 0;
    char *name = status ? NULL : memory_copy(path, strlen(path));
    char *home = status ? NULL : memory_copy(package ? package : path, n_package);
    if (!name || !home || !text) {
        memory_free(name);
        memory_free(home);
        memory_free(text);
        return status ? status : error_set(err, CERIUM_ERR_MEMORY, "no memory for documents");
    }
    eval_document *d = &set->documents[set->n++];
    *d = (eval_document){.path = name, .package = home, .text = text, .len = len,
                         .language = number};
    if (out) *out = d;
    return CERIUM_OK;
}

/* ---- JSON Lines ---- */

static const char *package_of(const json_t *line)
{
    return json_string_value(json_object_get(line, "package"));
}

static int add_hole(eval_set *set, const json_t *line, const char *where, cerium_error *err)
{
    const json_t *parts[3] = {json_object_get(line, "prompt"),
                              json_object_get(line, "canonical_solution"),
                              json_object_get(line, "suffix")};
    const char *id = json_string_value(json_object_get(line, "task_id"));
    const char *language = json_string_value(json_object_get(line, "language"));
    bytes all = {.max = FILE_BYTES_MAX};
    eval_document *d = NULL;
    size_t at[3] = {0};
    int status = CERIUM_OK;
    for (int i = 0; i < 3 && !status; i++) {
        if (!json_is_string(parts[i]))
            status = error_set(
                err, CERIUM_ERR_FORMAT,
                "%s: neither `text` nor `prompt`, `canonical_solution` and `suffix`", where);
        else if (bytes_append(&all, json_string_value(parts[i]), json_string_length(parts[i])))
            status = error_set(err, CERIUM_ERR_MEMORY, "%s: no room for it", where);
        at[i] = all.len;
    }
    if (status) {
        bytes_free(&all);
        return status;
    }
    char *text = memory_copy(all.ptr, all.len);
    bytes_free(&all);
    RETURN_IF(add(set, id ? id : "hole.py", package_of(line), text, at[2],
                  language ? language : "python", &d, err));
    d->is_hole = true;
    d->hole = at[0];
    d->hole_end = at[1];
    return CERIUM_OK;
}

static int add_line(eval_set *set, const json_t *line, const char *where, cerium_error *err)
{
    const json_t *text = json_object_get(line, "text");
    const char *path = json_string_value(json_object_get(line, "path"));
    const char *language = json_string_value(json_object_get(line, "language"));
    if (!text) return add_hole(set, line, where, err);
    if (!json_is_string(text) || !path)
        return error_set(err, CERIUM_ERR_FORMAT, "%s: `text` and `path` must be strings", where);
    if (!language) language = language_of(path);
    set->has_documents = true;
    return add(set, path, package_of(line),
               memory_copy(json_string_value(text), json_string_length(text)),
               json_string_length(text), language ? language : "other", NULL, err);
}

static int read_lines(eval_set *set, const char *path, cerium_error *err)
{
    bytes all = {.max = SET_BYTES_MAX};
    int status = read_file(path, &all, err);
    size_t number = 0;
    for (size_t at = 0, end; !status && at < all.len; at = end + 1) {
        json_error_t why;
        char where[4200];
        const char *newline = memchr(all.ptr + at, '\n', all.len - at);
        end = newline ? (size_t)(newline - all.ptr) : all.len;
        number++;
        if (eval_stripped((view){all.ptr + at, end - at}).len == 0) continue;
        snprintf(where, sizeof where, "%s:%zu", path, number);
        json_t *line = json_read((view){all.ptr + at, end - at}, 0, &why);
        status = json_is_object(line)
                     ? add_line(set, line, where, err)
                     : error_set(err, CERIUM_ERR_FORMAT, "%s: no JSON object", where);
        json_decref(line);
    }
    bytes_free(&all);
    return status;
}

/* ---- folders ---- */

static int visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int read_folder(eval_set *set, const char *folder, int depth, cerium_error *err);

static int read_entry(eval_set *set, const char *path, int depth, cerium_error *err)
{
    struct stat st;
    if (lstat(path, &st)) return CERIUM_OK; /* deleted meanwhile */
    if (S_ISDIR(st.st_mode)) return read_folder(set, path, depth + 1, err);
    if (!S_ISREG(st.st_mode) || !language_of(path) || st.st_size > FILE_BYTES_MAX)
        return CERIUM_OK;
    bytes text = {.max = FILE_BYTES_MAX};
    int status = read_file(path, &text, err);
    if (!status && text.len && !memchr(text.ptr, 0, text.len)) {
        set->has_documents = true;
        status = add(set, path, NULL, memory_copy(text.ptr, text.len), text.len, language_of(path),
                     NULL, err);
    }
    bytes_free(&text);
    return status;
}

static int read_folder(eval_set *set, const char *folder, int depth, cerium_error *err)
{
    struct dirent **names = NULL;
    int n = depth < DEPTH_MAX ? scandir(folder, &names, visible, alphasort) : 0;
    int status = n < 0 ? error_set(err, CERIUM_ERR_IO, "%s: %s", folder, strerror(errno))
                       : CERIUM_OK;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (!status) status = read_entry(set, path, depth, err);
        memory_release(names[i]);
    }
    memory_release(names);
    return status;
}

int eval_set_open(eval_set *set, const char *path, cerium_error *err)
{
    struct stat st;
    *set = (eval_set){0};
    if (stat(path, &st)) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    int status = S_ISDIR(st.st_mode) ? read_folder(set, path, 0, err) : read_lines(set, path, err);
    if (!status && set->n == 0)
        status = error_set(err, CERIUM_ERR_FORMAT, "%s: no source text in it", path);
    if (status) eval_set_close(set);
    return status;
}

const eval_document *eval_set_neighbour(const eval_set *set, size_t document)
{
    const eval_document *d = set->documents;
    for (size_t far = 1; far < set->n; far++) {
        if (far <= document && !strcmp(d[document - far].package, d[document].package))
            return &d[document - far];
        if (document + far < set->n && !strcmp(d[document + far].package, d[document].package))
            return &d[document + far];
    }
    return NULL;
}

void eval_set_close(eval_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        memory_free(set->documents[i].path);
        memory_free(set->documents[i].package);
        memory_free(set->documents[i].text);
    }
    memory_free(set->documents);
    memory_free(set->tasks);
    *set = (eval_set){0};
}

/* ---- lines ---- */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* A line with code in it: not a comment, not short, with some lines before it. */
static bool is_worth(const eval_document *d, size_t begin, size_t end)
{
    size_t lines = 0, first = begin;
    for (size_t i = 0; i < begin && lines < LINES_BEFORE; i++) lines += d->text[i] == '\n';
    while (first < end && isspace((unsigned char)d->text[first])) first++;
    if (lines < LINES_BEFORE || end - first < LINE_LEAST || end - first > LINE_MOST) return false;
    const char *p = d->text + first;
    return p[0] != '#' && p[0] != '*' && strncmp(p, "//", 2) != 0 && strncmp(p, "/*", 2) != 0;
}

/* Where line `number` of the text begins. */
static size_t line_begin(const eval_document *d, size_t number)
{
    size_t at = 0;
    for (; number > 0; number--) at = (size_t)((char *)memchr(d->text + at, '\n', d->len - at) -
                                               d->text) + 1;
    return at;
}

/* Within a document all lines are equally likely, long ones not more than others. */
static bool draw_line(const eval_set *set, uint32_t language, bool within, uint64_t *state,
                      eval_task *out)
{
    for (int i = 0; i < TRIES_PER_LINE; i++) {
        uint32_t n = (uint32_t)(draw(state) % set->n);
        const eval_document *d = &set->documents[n];
        if (d->language != language || d->is_hole || d->len == 0) continue;
        size_t n_breaks = 0;
        for (size_t k = 0; k < d->len; k++) n_breaks += d->text[k] == '\n';
        size_t begin = line_begin(d, (size_t)(draw(state) % (n_breaks + 1))), end = begin;
        while (end < d->len && d->text[end] != '\n') end++;
        if (!is_worth(d, begin, end)) continue;
        if (within) {
            while (isspace((unsigned char)d->text[begin])) begin++;
            while (isspace((unsigned char)d->text[end - 1])) end--;
            begin += 1 + (size_t)(draw(state) % (end - begin - 1));
        }
        *out = (eval_task){n, begin, end};
        return true;
    }
    return false;
}

int eval_set_draw(eval_set *set, uint32_t n_lines, bool within, uint64_t seed, cerium_error *err)
{
    size_t n_holes = 0;
    for (size_t i = 0; i < set->n; i++) n_holes += set->documents[i].is_hole;
    set->tasks = memory_zalloc(n_holes + (size_t)n_lines * set->n_languages, sizeof *set->tasks);
    if (!set->tasks) return error_set(err, CERIUM_ERR_MEMORY, "no memory for tasks");
    for (uint32_t language = 0; language < set->n_languages; language++) {
        uint64_t state = seed + language;
        for (uint32_t i = 0; i < n_lines; i++)
            set->n_tasks += draw_line(set, language, within, &state, &set->tasks[set->n_tasks]);
        for (uint32_t i = 0; i < set->n; i++) {
            const eval_document *d = &set->documents[i];
            if (d->is_hole && d->language == language)
                set->tasks[set->n_tasks++] = (eval_task){i, d->hole, d->hole_end};
        }
    }
    return CERIUM_OK;
}
