/* options.c - the options that commands share; files and the engine, the same for all. */
#include "programs/options.h"

#include <float.h>
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/file.h"
#include "programs/output.h"
#include "programs/terminal.h"
#include "watch/watch.h"


int failed(const cerium_error *err)
{
    fprintf(stderr, "cerium: %s\n", err->message);
    return err->status == CERIUM_ERR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

/* ---- shared options ---- */

/* 0 means greedy sampling, as in the API; in cerium_sampling 0 is off. */
static bool take_top_p(void *program, const char *value)
{
    options *o = program;
    double x;
    if (!option_f64(value, 0, 1, &x)) return false;
    o->sampling.top_p = x < FLT_MIN ? FLT_MIN : (float)x;
    return true;
}

static bool take_stop(void *program, const char *value)
{
    options *o = program;
    cerium_sampling *s = &o->sampling;
    if (s->n_stops == CERIUM_STOPS_MAX || !*value || strlen(value) > CERIUM_STOP_BYTES_MAX)
        return option_wants("1 to %d bytes, given at most %d times", CERIUM_STOP_BYTES_MAX,
                            CERIUM_STOPS_MAX);
    o->stops[s->n_stops++] = value;
    s->stops = o->stops;
    return true;
}

static bool take_guard_late(void *program, const char *value)
{
    options *o = program;
    o->guard_late = value;
    return watch_policy_set_late(&(watch_policy){0}, view_of(value)) ||
           option_wants("hold or open");
}

static bool take_guard(void *program, const char *value)
{
    options *o = program;
    watch_policy ignored = {0};
    if (o->n_guard == OPTIONS_GUARDS_MAX)
        return option_wants("given at most %d times", OPTIONS_GUARDS_MAX);
    if (!watch_policy_set(&ignored, view_of(value)))
        return option_wants("block, warn or off, or CLASS=WHAT: see cerium(1)");
    o->guard[o->n_guard++] = value;
    return true;
}

/* clang-format off: one option a paragraph */
const option_spec options_shared[] = {
    {"model", "FILE",
     "GGUF model, or the name of a pulled one (default: CERIUM_MODEL, else the bundled model)",
     TAKES_TEXT(options, model), .letter = 'm', .groups = OPTIONS_ENGINE | OPTIONS_MODEL},
    {"prompt", "TEXT", "the prompt; an empty one is only the begin-of-sequence token",
     TAKES_ANY(options, prompt), .letter = 'p', .groups = OPTIONS_PROMPT},
    {"file", "FILE", "read the prompt from a file; - is standard input",
     TAKES_ANY(options, prompt_file), .letter = 'f', .groups = OPTIONS_PROMPT},
    {"tokens", "N", "generate at most N tokens",
     TAKES_U32(options, n_tokens, 1, 1 << 24), GIVEN(options, n_tokens_given), .letter = 'n',
     .groups = OPTIONS_LENGTH},
    {"stop", "TEXT", "end before TEXT; may be given up to 16 times",
     TAKES_CALL(take_stop), .groups = OPTIONS_LENGTH},
    {"temp", "X", "sampling temperature; 0, the default, is greedy",
     TAKES_F32(options, sampling.temperature, 0, 100), .groups = OPTIONS_CHOICE},
    {"top-k", "N", "sample from the N most likely tokens; 0 is off",
     TAKES_U32(options, sampling.top_k, 0, 1 << 24), .groups = OPTIONS_CHOICE},
    {"top-p", "X", "sample from the fewest most likely tokens whose probabilities add up to X",
     TAKES_CALL(take_top_p), .groups = OPTIONS_CHOICE},
    {"min-p", "X", "sample from tokens at least X times as likely as the best one",
     TAKES_F32(options, sampling.min_p, 0, 0.999999), .groups = OPTIONS_CHOICE},
    {"repeat-penalty", "X", "make tokens of the last 64 less likely; 1 is off",
     TAKES_F32(options, sampling.repetition_penalty, 0, 100), .groups = OPTIONS_CHOICE},
    {"seed", "N", "seed of the sampler; the same seed gives the same text on every machine",
     TAKES_U64(options, sampling.seed), .groups = OPTIONS_CHOICE},
    {"guard", "WHAT",
     "what the watchdog does about a weak line: block (retract it and generate it again; the "
     "default), warn (show it and say so) or off. CLASS=WHAT sets one class, as in sql=block; "
     "may be given several times. exists=off|warn|block: what is done about names that are not in "
     "the --workspace",
     TAKES_CALL(take_guard), .groups = OPTIONS_GUARD},
    {"guard-late", "hold|open",
     "a line that cannot be judged is held like a weak one (the default), or shown with a warning",
     TAKES_CALL(take_guard_late), .groups = OPTIONS_GUARD},
    {"rules", "DIR", "read the watchdog's rules from this folder",
     TAKES_TEXT(options, rules), .groups = OPTIONS_GUARD},
    {"context", "N", "tokens of context (default: as many as the model was trained for)",
     TAKES_U32(options, context, 1, 1 << 24), .groups = OPTIONS_ENGINE},
    {"batch", "N", "prompt tokens computed in one pass (default 256)",
     TAKES_U32(options, batch, 1, 2048), .groups = OPTIONS_ENGINE},
    {"threads", "N",
     "compute threads (default: one for each physical core that the process may use, within "
     "its limit of processor time)",
     TAKES_U32(options, threads, 1, 256), .groups = OPTIONS_ENGINE},
    {"cpu", "LEVEL",
     "use no better instruction set than this: ref, avx2, avx512vnni or amx; on Arm ref, neon or "
     "neondot. The text is the same",
     TAKES_ANY(options, cpu), .groups = OPTIONS_ENGINE},
    {"kv", "TYPE",
     "type of the KV cache: i8, f16 (twice the memory) or f32 (four times, slow; to check "
     "numbers). The default is i8, or f16 for heads of more than 128 channels",
     TAKES_ANY(options, kv), .groups = OPTIONS_ENGINE},
    {"kv-disk", "DIR",
     "keep the KV cache, and states of recurrent layers, in files of this folder, so that "
     "prompts survive a restart; off, the default, keeps none. One process at a time uses the "
     "files of a model",
     TAKES_TEXT(options, kv_disk), .groups = OPTIONS_ENGINE},
    {"kv-disk-max", "SIZE", "size of these files for one model, as in 500M or 20G (default 4G)",
     TAKES_BYTES(options, kv_disk_bytes), .groups = OPTIONS_ENGINE},
    {"no-cache", NULL, "repack the weights in memory; neither read nor write a .panels file",
     TAKES_FLAG(options, no_cache), .groups = OPTIONS_ENGINE},
    {"no-speculation", NULL, "no speculative decoding: the same text, slower",
     TAKES_FLAG(options, no_speculation), .groups = OPTIONS_ENGINE},
    {"workspace", "DIR",
     "draft from the source files of DIR, too: the same text, sooner where it repeats them. An "
     "index is built in the background and follows changes; hidden files, links, binary files, "
     "files over 512 kB and build folders are left out. Names that code uses are looked up in what "
     "is installed there: see --guard",
     TAKES_TEXT(options, workspace), .groups = OPTIONS_ENGINE},
    {"chat-form", "NAME",
     "use this chat form of docs/chat.md, not the chat template of the model file",
     TAKES_TEXT(options, chat_form), .groups = OPTIONS_ENGINE},
    {"draft-model", "FILE|mtp|off",
     "a smaller model, of the same vocabulary or another, or an EAGLE-3 or DFlash file made for "
     "this one, drafts where no text does: the same text, sooner. Without it, or with mtp, the "
     "model's own head for further tokens does, where the file has one; off: nothing",
     TAKES_ANY(options, draft_model), .groups = OPTIONS_ENGINE},
    {"head", "NAME",
     "the output head: full computes every logit; search skips tokens that provably cannot be "
     "chosen; auto, the default, searches where that is faster. A type such as q6_k makes the "
     "head smaller and changes the text",
     TAKES_ANY(options, head), .groups = OPTIONS_ENGINE},
    {"json", NULL, "print JSON for programs", TAKES_FLAG(options, json), .groups = OPTIONS_JSON},
};
/* clang-format on */
const size_t options_n_shared = ARRAY_LEN(options_shared);

/* ---- models, files and the engine ---- */

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
    const char *own = getenv("CERIUM_MODELS");
    char folder[OPTIONS_PATH_MAX];
    int n = -1;
    if (own && *own)
        n = snprintf(out, size, "%s/%s", own, name);
    else if (file_cache_folder(folder, sizeof folder))
        n = snprintf(out, size, "%s/models/%s", folder, name);
    return n > 0 && (size_t)n < size;
}

const char *options_find_model(const char *model, char path[OPTIONS_PATH_MAX])
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
    if (o->model) return options_find_model(o->model, path);
    return env && *env ? options_find_model(env, path) : shipped_file("cerium-line.gguf");
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
        line[len] = 0; /* `end` is after it, or the same */
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
    if (!access(path, F_OK) || errno != ENOENT) return CERIUM_OK; /* its opening reports the
                                                                   * error */
    if (strstr(path, "://"))
        return error_set(err, CERIUM_ERR_IO, "%s: a model is a file of this machine: `cerium pull` "
                         "fetches one", path);
    const char *slash = strchr(path, '/'); /* of OWNER/NAME, or of a path */
    if (slash && (slash == path || *path == '.' || strchr(slash + 1, '/')))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(ENOENT));
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
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
    else if (slash)
        error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(ENOENT));
    else
        error_set(err, CERIUM_ERR_IO, "%s: no such file, and no short name of a model; see "
                  "`cerium pull --list`", path);
    bytes_free(&text);
    return CERIUM_ERR_IO;
}

/* A word of cerium_engine_config.draft_model, or a file. */
static int choose_drafter(const options *o, cerium_engine_config *config, cerium_error *err)
{
    static char path[OPTIONS_PATH_MAX];
    const char *name = o->draft_model;
    config->draft_model = name;
    if (!name || !strcmp(name, "mtp") || !strcmp(name, "off")) return CERIUM_OK;
    config->draft_model = options_find_model(name, path);
    return options_model_check(config->draft_model, err);
}

int options_engine_config(const options *o, uint32_t sessions, cerium_engine_config *out,
                          cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
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
    RETURN_IF(choose_drafter(o, &config, err));
    config.chat_form = o->chat_form;
    config.speculation = o->no_speculation ? "off" : NULL;
    config.sessions_max = sessions;
    config.observe = o->observe;
    config.observe_user = o->observe_user;
    config.kv_watcher = o->kv_watcher;
    config.kv_watcher_user = o->kv_watcher_user;
    if (o->batch) config.batch_tokens_max = o->batch;
    *out = config;
    return CERIUM_OK;
}

int options_engine(const options *o, cerium_engine **out, uint32_t sessions, cerium_error *err)
{
    uint64_t shown = 0;
    cerium_engine_config config;
    const char *path = options_model(o);
    if (!path)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no model: name one with -m FILE.gguf or CERIUM_MODEL");
    RETURN_IF(options_model_check(path, err));
    RETURN_IF(options_engine_config(o, sessions, &config, err));
    config.model_path = path;
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

int read_text(const char *path, bytes *out, cerium_error *err)
{
    RETURN_IF(read_file(path, out, err));
    if (!out->len || !memchr(out->ptr, 0, out->len)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: not a text: it has NUL bytes (UTF-16? write it as UTF-8)", path);
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
