/* options.c - options, errors, files and the engine, the same for every program. */
#include "programs/options.h"

#include <float.h>
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "programs/output.h"
#include "programs/terminal.h"
#include "watch/watch.h"

enum {
    VAL_THREADS = 500,
    VAL_CONTEXT,
    VAL_BATCH,
    VAL_CPU,
    VAL_KV,
    VAL_KV_DISK,
    VAL_KV_DISK_MAX,
    VAL_NO_CACHE,
    VAL_NO_SPECULATION,
    VAL_HEAD,
    VAL_WORKSPACE,
    VAL_DRAFT_MODEL,
    VAL_TEMP,
    VAL_TOP_K,
    VAL_TOP_P,
    VAL_MIN_P,
    VAL_REPEAT,
    VAL_SEED,
    VAL_STOP,
    VAL_JSON,
    VAL_GUARD,
    VAL_GUARD_LATE,
    VAL_RULES,
    OPTIONS_MAX = 80,
    OPTIONS_PATH_MAX = 4096,
};

static const struct {
    unsigned group;
    struct option option;
} shared[] = {
    {OPTIONS_ENGINE | OPTIONS_MODEL, {"model", required_argument, NULL, 'm'}},
    {OPTIONS_ENGINE, {"threads", required_argument, NULL, VAL_THREADS}},
    {OPTIONS_ENGINE, {"context", required_argument, NULL, VAL_CONTEXT}},
    {OPTIONS_ENGINE, {"batch", required_argument, NULL, VAL_BATCH}},
    {OPTIONS_ENGINE, {"cpu", required_argument, NULL, VAL_CPU}},
    {OPTIONS_ENGINE, {"kv", required_argument, NULL, VAL_KV}},
    {OPTIONS_ENGINE, {"kv-disk", required_argument, NULL, VAL_KV_DISK}},
    {OPTIONS_ENGINE, {"kv-disk-max", required_argument, NULL, VAL_KV_DISK_MAX}},
    {OPTIONS_ENGINE, {"no-cache", no_argument, NULL, VAL_NO_CACHE}},
    {OPTIONS_ENGINE, {"no-speculation", no_argument, NULL, VAL_NO_SPECULATION}},
    {OPTIONS_ENGINE, {"workspace", required_argument, NULL, VAL_WORKSPACE}},
    {OPTIONS_ENGINE, {"draft-model", required_argument, NULL, VAL_DRAFT_MODEL}},
    {OPTIONS_ENGINE, {"head", required_argument, NULL, VAL_HEAD}},
    {OPTIONS_PROMPT, {"prompt", required_argument, NULL, 'p'}},
    {OPTIONS_PROMPT, {"file", required_argument, NULL, 'f'}},
    {OPTIONS_LENGTH, {"tokens", required_argument, NULL, 'n'}},
    {OPTIONS_CHOICE, {"temp", required_argument, NULL, VAL_TEMP}},
    {OPTIONS_CHOICE, {"top-k", required_argument, NULL, VAL_TOP_K}},
    {OPTIONS_CHOICE, {"top-p", required_argument, NULL, VAL_TOP_P}},
    {OPTIONS_CHOICE, {"min-p", required_argument, NULL, VAL_MIN_P}},
    {OPTIONS_CHOICE, {"repeat-penalty", required_argument, NULL, VAL_REPEAT}},
    {OPTIONS_CHOICE, {"seed", required_argument, NULL, VAL_SEED}},
    {OPTIONS_LENGTH, {"stop", required_argument, NULL, VAL_STOP}},
    {OPTIONS_GUARD, {"guard", required_argument, NULL, VAL_GUARD}},
    {OPTIONS_GUARD, {"guard-late", required_argument, NULL, VAL_GUARD_LATE}},
    {OPTIONS_GUARD, {"rules", required_argument, NULL, VAL_RULES}},
    {OPTIONS_JSON, {"json", no_argument, NULL, VAL_JSON}},
};

int usage_error(const char *program, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "cerium %s: %s; see cerium %s --help\n", program, text, program);
    return EXIT_USAGE;
}

int failed(const cerium_error *err)
{
    fprintf(stderr, "cerium: %s\n", err->message);
    return err->status == CERIUM_ERR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

/* ---- values ---- */

static char wanted[240]; /* what option_wants() said last; "" for nothing */

bool option_wants(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    return false;
}

const char *option_wanted(void) { return wanted; }

bool option_word(const char *value, const char *words, uint32_t *at)
{
    const size_t len = strlen(value);
    uint32_t i = 0;
    for (const char *word = words; *word; i++) {
        size_t n = strcspn(word, ",");
        if (n == len && !memcmp(word, value, n)) {
            *at = i;
            return true;
        }
        word += n;
        word += strspn(word, ", ");
    }
    return option_wants("one of %s", words);
}

const char *option_types(void)
{
    static char names[200];
    size_t n = 0;
    for (uint32_t type = 0; type < BLOCK_TYPE_END && n < sizeof names; type++)
        if (block_name(type))
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "",
                                  block_name(type));
    return names;
}

bool option_type(const char *value, block_type *out)
{
    return block_type_of_name(view_of(value), out) || option_wants("one of %s", option_types());
}

bool option_text(const char *value, const char **out)
{
    if (!*value) return option_wants("a text that is not empty");
    *out = value;
    return true;
}

bool option_u32(const char *value, uint32_t low, uint32_t high, uint32_t *out)
{
    uint64_t n;
    if (!parse_u64(view_of(value), &n) || n < low || n > high)
        return option_wants("a whole number, %u to %u", low, high);
    *out = (uint32_t)n;
    return true;
}

bool option_bytes(const char *value, uint64_t *out)
{
    static const char units[] = "KMGT";
    view number = view_of(value);
    const char *unit = number.len ? strchr(units, number.ptr[number.len - 1]) : NULL;
    uint64_t n, shift = unit ? 10 * (uint64_t)(unit - units + 1) : 0;
    if (unit) number.len--;
    if (!parse_u64(number, &n) || n == 0 || n > UINT64_MAX >> shift)
        return option_wants("bytes from 1 on, as in 4096, 512K, 300M, 20G or 1T");
    *out = n << shift;
    return true;
}

bool option_f64(const char *value, double low, double high, double *out)
{
    double x;
    if (!parse_f64(view_of(value), &x) || !(x >= low && x <= high))
        return option_wants("a number, %g to %g", low, high);
    *out = x;
    return true;
}

static bool option_f32(const char *value, double low, double high, float *out)
{
    double x = 0;
    if (!option_f64(value, low, high, &x)) return false;
    *out = (float)x;
    return true;
}

/* 0 is the likeliest token alone, as the API has it; of cerium_sampling it would be off. */
static bool option_top_p(const char *value, float *out)
{
    if (!option_f32(value, 0, 1, out)) return false;
    if (*out < FLT_MIN) *out = FLT_MIN;
    return true;
}

static bool take_guard(options *o, const char *value)
{
    watch_policy ignored = {0};
    if (o->n_guard == OPTIONS_GUARDS_MAX)
        return option_wants("given at most %d times", OPTIONS_GUARDS_MAX);
    if (!watch_policy_set(&ignored, view_of(value)))
        return option_wants("block, warn or off, or CLASS=WHAT: see cerium(1)");
    o->guard[o->n_guard++] = value;
    return true;
}

static bool take_shared(options *o, int val, const char *value)
{
    cerium_sampling *s = &o->sampling;
    switch (val) {
    case 'm': o->model = value; return true;
    case 'p': o->prompt = value; return true;
    case 'f': o->prompt_file = value; return true;
    case 'n': o->n_tokens_given = true; return option_u32(value, 1, 1 << 24, &o->n_tokens);
    case VAL_THREADS: return option_u32(value, 1, 256, &o->threads);
    case VAL_CONTEXT: return option_u32(value, 1, 1 << 24, &o->context);
    case VAL_BATCH: return option_u32(value, 1, 2048, &o->batch);
    case VAL_CPU: o->cpu = value; return true;
    case VAL_KV: o->kv = value; return true;
    case VAL_KV_DISK: return option_text(value, &o->kv_disk);
    case VAL_KV_DISK_MAX: return option_bytes(value, &o->kv_disk_bytes);
    case VAL_NO_CACHE: o->no_cache = true; return true;
    case VAL_NO_SPECULATION: o->no_speculation = true; return true;
    case VAL_WORKSPACE: return option_text(value, &o->workspace);
    case VAL_DRAFT_MODEL: return option_text(value, &o->draft_model);
    case VAL_HEAD: o->head = value; return true;
    case VAL_TEMP: return option_f32(value, 0, 100, &s->temperature);
    case VAL_TOP_K: return option_u32(value, 0, 1 << 24, &s->top_k);
    case VAL_TOP_P: return option_top_p(value, &s->top_p);
    case VAL_MIN_P: return option_f32(value, 0, 0.999999, &s->min_p);
    case VAL_REPEAT: return option_f32(value, 0, 100, &s->repetition_penalty);
    case VAL_SEED:
        return parse_u64(view_of(value), &s->seed) ||
               option_wants("a whole number, 0 to %llu", (unsigned long long)UINT64_MAX);
    case VAL_STOP:
        if (s->n_stops == CERIUM_STOPS_MAX || !*value || strlen(value) > CERIUM_STOP_BYTES_MAX)
            return option_wants("1 to %d bytes, given at most %d times", CERIUM_STOP_BYTES_MAX,
                                CERIUM_STOPS_MAX);
        o->stops[s->n_stops++] = value;
        s->stops = o->stops;
        return true;
    case VAL_JSON: o->json = true; return true;
    case VAL_GUARD: return take_guard(o, value);
    case VAL_GUARD_LATE:
        o->guard_late = value;
        return watch_policy_set_late(&(watch_policy){0}, view_of(value)) ||
               option_wants("hold or open");
    case VAL_RULES: return option_text(value, &o->rules);
    default: return false;
    }
}

/* ---- the command line ---- */

/* What is wrong with an option that getopt_long() does not know: argv[at]. */
static int unknown_option(const char *program, const char *typed, const struct option *all,
                          size_t n)
{
    const char *names[OPTIONS_MAX], *equals = strchr(typed, '=');
    char name[64];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - typed) : (int)strlen(typed), typed);
    for (size_t i = 0; i < n; i++) {
        names[i] = all[i].name;
        if (equals && !strncmp(name, "--", 2) && !strcmp(name + 2, names[i]))
            return usage_error(program, "%s takes no value", name);
    }
    const char *near = strncmp(name, "--", 2) ? NULL : nearest_name(name + 2, names, n);
    if (near) return usage_error(program, "option %s is unknown; did you mean --%s?", name, near);
    return usage_error(program, "option %s is unknown", typed);
}

static int bad_value(const char *program, const char *value, const char *dashes, const char *name)
{
    if (!value) value = "";
    if (!*wanted && !*value) option_wants("a text that is not empty");
    if (!*wanted) return usage_error(program, "'%s' is not a value for %s%s", value, dashes, name);
    return usage_error(program, "'%s' is not a value for %s%s: it takes %s", value, dashes, name,
                       wanted);
}

int options_parse(options *o, int argc, char **argv, unsigned groups, const struct option *own,
                  size_t n_own, option_fn *own_fn, void *arg, const char *help)
{
    struct option all[OPTIONS_MAX] = {{0}};
    size_t n = 0;
    CHECK(n_own + ARRAY_LEN(shared) + 2 <= OPTIONS_MAX);
    /* A program's own come first: they take the place of shared ones of the same name. */
    for (size_t i = 0; i < n_own; i++) all[n++] = own[i];
    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (groups & shared[i].group) all[n++] = shared[i].option;
    all[n++] = (struct option){"help", no_argument, NULL, 'h'};
    char letters[32];
    snprintf(letters, sizeof letters, ":h%s%s%s",
             groups & (OPTIONS_ENGINE | OPTIONS_MODEL) ? "m:" : "",
             groups & OPTIONS_PROMPT ? "p:f:" : "", groups & OPTIONS_LENGTH ? "n:" : "");
    optind = 1;
    opterr = 0;
    for (int val, index = -1; (val = getopt_long(argc, argv, letters, all, &index)) != -1;
         index = -1) {
        if (val == 'h') {
            fputs(help, stdout);
            exit(output_finish(0, EXIT_FAILED));
        }
        if (val == ':') return usage_error(argv[0], "%s needs a value", argv[optind - 1]);
        if (val == '?') return unknown_option(argv[0], argv[optind - 1], all, n);
        wanted[0] = 0;
        bool good = val >= OPTION_OWN ? own_fn(arg, val, optarg) : take_shared(o, val, optarg);
        if (!good && index >= 0) return bad_value(argv[0], optarg, "--", all[index].name);
        if (!good) return bad_value(argv[0], optarg, "-", (char[]){(char)val, 0});
    }
    return 0;
}

const char *options_near(unsigned groups, const struct option *own, size_t n_own, const char *name)
{
    const char *names[OPTIONS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(shared) && n < OPTIONS_MAX; i++)
        if (groups & shared[i].group) names[n++] = shared[i].option.name;
    for (size_t i = 0; i < n_own && n < OPTIONS_MAX; i++) names[n++] = own[i].name;
    return nearest_name(name, names, n);
}

option_result options_set(options *o, unsigned groups, const struct option *own, size_t n_own,
                          option_fn *own_fn, void *arg, const char *name, const char *value)
{
    const struct option *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(shared); i++)
        if (groups & shared[i].group && !strcmp(shared[i].option.name, name))
            found = &shared[i].option;
    for (size_t i = 0; i < n_own; i++)
        if (!strcmp(own[i].name, name)) found = &own[i];
    if (!found) return OPTION_UNKNOWN;
    if (!found->has_arg) {
        if (!strcmp(value, "no")) return OPTION_SET;
        if (strcmp(value, "yes") != 0) return OPTION_BAD;
    }
    wanted[0] = 0;
    bool good = found->val >= OPTION_OWN ? own_fn(arg, found->val, value)
                                         : take_shared(o, found->val, value);
    return good ? OPTION_SET : OPTION_BAD;
}

const char *shipped_file(const char *name)
{
    static char path[4096];
    static const char *const places[] = {"models", "../share/cerium/models"};
    char self[3900];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0) return NULL;
    self[len] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return NULL;
    slash[1] = 0;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s%s/%s", self, places[i], name);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

bool models_path(char *out, size_t size, const char *name)
{
    const char *own = getenv("CERIUM_MODELS"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (own && *own)
        n = snprintf(out, size, "%s/%s", own, name);
    else if (cache && cache[0] == '/')
        n = snprintf(out, size, "%s/cerium/models/%s", cache, name);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.cache/cerium/models/%s", home, name);
    return n > 0 && (size_t)n < size;
}

/* "qwen2.5-coder-0.5b" or its file's name, where that was pulled; else what was said. */
static const char *pulled_model(const char *model, char path[OPTIONS_PATH_MAX])
{
    char name[1024];
    if (strchr(model, '/') || !access(model, F_OK) || strlen(model) > 1000) return model;
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s%s", model, i ? ".gguf" : "");
        if (models_path(path, OPTIONS_PATH_MAX, name) && !access(path, R_OK)) return path;
    }
    return model;
}

const char *options_model(const options *o)
{
    static char path[OPTIONS_PATH_MAX];
    const char *env = getenv("CERIUM_MODEL");
    if (o->model) return pulled_model(o->model, path);
    return env && *env ? pulled_model(env, path) : shipped_file("cerium-line.gguf");
}

static void show_notice(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "cerium: %s\n", line);
}

static void show_progress(void *user, uint64_t done, uint64_t total)
{
    uint64_t *shown = user, percent = total ? done * 100 / total : 100;
    if (percent == *shown) return;
    *shown = percent;
    progress_show("loading %3llu %%", (unsigned long long)percent);
    if (done == total) progress_clear();
}

size_t model_names(bytes *text, const char **names, size_t n_max)
{
    const char *path = shipped_file("models.list");
    size_t n = 0;
    *text = (bytes){.max = 1 << 20};
    if (!path || read_file(path, text, NULL) || bytes_append(text, "\n", 2)) return 0;
    for (char *line = text->ptr, *end; n < n_max && (end = strchr(line, '\n')); line = end + 1) {
        size_t len = strcspn(line, " \t\n");
        if (len == 0 || *line == '#') continue;
        line[len] = 0; /* `end` is behind it, or is it */
        names[n++] = line;
    }
    return n;
}

int options_model_check(const char *path, cerium_error *err)
{
    enum { NAMES_MAX = 200 };
    const char *names[NAMES_MAX], *near = NULL;
    char name[256];
    bytes text = {0};
    if (!access(path, F_OK) || errno != ENOENT) return CERIUM_OK; /* who opens it says the rest */
    if (strchr(path, '/')) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(ENOENT));
    snprintf(name, sizeof name, "%s", path);
    char *end = strstr(name, ".gguf");
    if (end && !end[5]) *end = 0;
    size_t n = model_names(&text, names, NAMES_MAX), i = 0;
    while (i < n && strcmp(names[i], name) != 0) i++;
    if (i == n) near = nearest_name(name, names, n);
    if (i < n)
        error_set(err, CERIUM_ERR_IO, "%s is not on this machine: `cerium pull %s` fetches it",
                  path, name);
    else if (near)
        error_set(err, CERIUM_ERR_IO, "%s: no such file, and no model of that name; did you mean "
                  "`cerium pull %s`?", path, near);
    else
        error_set(err, CERIUM_ERR_IO, "%s: no such file, and no short name of a model; see "
                  "`cerium pull --list`", path);
    bytes_free(&text);
    return CERIUM_ERR_IO;
}

int options_engine(const options *o, cerium_engine **out, uint32_t sessions, cerium_error *err)
{
    uint64_t shown = 0;
    char draft_path[OPTIONS_PATH_MAX];
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = options_model(o);
    if (!config.model_path)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no model: name one with -m FILE.gguf or CERIUM_MODEL");
    RETURN_IF(options_model_check(config.model_path, err));
    config.threads = o->threads;
    config.context_tokens_max = o->context;
    config.cpu = o->cpu;
    config.kv_type = o->kv;
    config.exact = o->exact;
    config.cache = o->no_cache || o->exact ? "off" : NULL;
    config.notice = show_notice;
    config.head = o->head;
    config.kv_disk = o->kv_disk;
    config.kv_disk_bytes_max = o->kv_disk_bytes;
    config.workspace = o->workspace;
    config.draft_model = o->draft_model ? pulled_model(o->draft_model, draft_path) : NULL;
    if (config.draft_model) RETURN_IF(options_model_check(config.draft_model, err));
    config.speculation = o->no_speculation ? "off" : NULL;
    config.sessions_max = sessions;
    config.observe = o->observe;
    config.observe_user = o->observe_user;
    if (o->batch) config.batch_tokens_max = o->batch;
    if (progress_is_shown()) {
        config.progress = show_progress;
        config.progress_user = &shown;
    }
    return cerium_engine_open(out, &config, err);
}

void write_view(view text, FILE *to)
{
    if (text.len) fwrite(text.ptr, 1, text.len, to);
}

int read_file(const char *path, bytes *out, cerium_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    int status = CERIUM_OK;
    for (;;) {
        status = bytes_reserve(out, out->max - out->len < 65536 ? out->max - out->len : 65536);
        if (status || out->cap == out->len) break;
        size_t n = fread(out->ptr + out->len, 1, out->cap - out->len, f);
        out->len += n;
        if (n == 0) break;
    }
    bool broken = ferror(f), more = !broken && !feof(f) && fgetc(f) != EOF;
    if (!is_stdin) fclose(f);
    if (status) return error_set(err, status, "%s: no memory to read it", path);
    if (broken) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
    if (more)
        return error_set(err, CERIUM_ERR_CAPACITY, "%s: longer than %zu bytes", path, out->max);
    return CERIUM_OK;
}

int encode(const cerium_engine *engine, view text, unsigned flags, int32_t **tokens, size_t *n,
           cerium_error *err)
{
    size_t cap = text.len / 2 + 16;
    for (;;) {
        int32_t *out = memory_alloc(cap * sizeof *out);
        if (!out) return error_set(err, CERIUM_ERR_MEMORY, "no memory for %zu tokens", cap);
        int status = cerium_tokenize(engine, text.ptr, text.len, flags, out, cap, n, err);
        if (!status) {
            *tokens = out;
            return CERIUM_OK;
        }
        memory_free(out);
        if (status != CERIUM_ERR_CAPACITY) return status;
        cap = *n;
    }
}

const char *human_bytes(char out[32], double n)
{
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB"};
    size_t u = 0;
    while (n >= 1000 && u + 1 < ARRAY_LEN(unit)) n /= 1000, u++;
    snprintf(out, 32, u ? "%.3g %s" : "%.0f %s", n, unit[u]);
    return out;
}
