/* test_golden.c - compares the engine with golden logits, through include/cerium.h alone.
 *
 *   test_golden [FIXTURES [DATA]]      tests/golden/fixtures and ../shared/data by default
 *
 * Owns the rule for equality; the bounds themselves are in each NAME.expect, whose format and
 * derivation README.md gives.  Besides that rule, a sequence computed token by token must give the
 * same bits as when computed at once.  Prints one line per fixture. */
#include "cerium.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC       "CEXPECT" /* and the number of references, a digit */
#define REFERENCES  2         /* at most; of two, only the first has an F16 cache */
#define SCORES      4         /* one for each reference, one with an F32 cache, one with 8 bits */
#define I8_ERROR    0.5f /* allowed for keys and values in 8 bits: README.md */
#define I8_KL       0.01f
#define STORY_MAGIC "CSTORY01"
#define PATH_BYTES  1024
#define STORY_IDS   512
#define STORY_VOCAB 512
#define STORY_TEXT  4096
#define STORY_BOUND 1e-3f /* of transformers with a cache of the same type */
#define STORY_LOOSE 2e-2f /* three times the cost of rounding K and V to F16; logits reach 17 */

static int n_passed, n_failed;

static void verdict(bool ok, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void verdict(bool ok, const char *name, const char *format, ...)
{
    va_list args;
    printf("%-4s %-16s ", ok ? "ok" : "FAIL", name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    if (ok)
        n_passed++;
    else
        n_failed++;
}

/* ---- files ---- */

typedef struct {
    unsigned char *data;
    size_t len, at;
    bool bad; /* something was past the end */
} file_bytes;

/* The whole file and a NUL after it; false when it cannot be read. */
static bool file_read(file_bytes *file, const char *path)
{
    FILE *in = fopen(path, "rb");
    *file = (file_bytes){0};
    if (!in) return false;
    long len = fseek(in, 0, SEEK_END) ? -1 : ftell(in);
    if (len >= 0 && !fseek(in, 0, SEEK_SET)) file->data = malloc((size_t)len + 1);
    if (file->data) {
        file->len = fread(file->data, 1, (size_t)len, in);
        file->data[file->len] = 0;
    }
    fclose(in);
    return file->data && file->len == (size_t)len;
}

/* The next n bytes, 4-aligned as everything in the format is; NULL past the end. */
static const void *file_take(file_bytes *file, size_t n)
{
    if (n > file->len - file->at) {
        file->bad = true;
        return NULL;
    }
    const void *p = file->data + file->at;
    file->at += n;
    return p;
}

static uint32_t file_u32(file_bytes *file)
{
    const void *p = file_take(file, 4);
    uint32_t v = 0;
    if (p) memcpy(&v, p, 4);
    return v;
}

static float file_f32(file_bytes *file)
{
    const void *p = file_take(file, 4);
    float v = 0;
    if (p) memcpy(&v, p, 4);
    return v;
}

static bool path_join(char out[PATH_BYTES], const char *dir, const char *name, size_t name_len,
                      const char *suffix)
{
    int n = snprintf(out, PATH_BYTES, "%s/%.*s%s", dir, (int)name_len, name, suffix);
    return n > 0 && n < PATH_BYTES;
}

/* ---- the rule ---- */

typedef struct {
    const char *name;            /* of the comparison, if there are several */
    uint32_t reference;          /* number of the file's reference */
    float error_bound, kl_bound; /* of this file */
    float error, kl;             /* worst so far */
    uint32_t rows, wrong_best;   /* rows with a clear winner that did not win */
} score;

/* A NaN is the worst error, and stays. */
static float worse_of(float worst, float error)
{
    if (isnan(error)) return INFINITY;
    return error > worst ? error : worst;
}

static size_t best_of(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double log_sum_exp(const float *x, size_t n)
{
    double top = x[best_of(x, n)], sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp(x[i] - top);
    return top + log(sum);
}

/* KL = sum_i p_i (log p_i - log q_i), p the reference. */
static void score_row(score *s, const float *want, const float *got, size_t n)
{
    double want_norm = log_sum_exp(want, n), got_norm = log_sum_exp(got, n), kl = 0;
    size_t best = best_of(want, n);
    float second = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        s->error = worse_of(s->error, fabsf(want[i] - got[i]));
        if (i != best && want[i] > second) second = want[i];
        kl += exp(want[i] - want_norm) * ((want[i] - want_norm) - (got[i] - got_norm));
    }
    s->kl = worse_of(s->kl, (float)kl);
    if (want[best] - second > 2 * s->error_bound && best_of(got, n) != best) s->wrong_best++;
    s->rows++;
}

static bool score_passes(const score *s)
{
    return s->rows && s->error <= s->error_bound && s->kl <= s->kl_bound && !s->wrong_best;
}

/* ---- fixtures ---- */

typedef struct {
    file_bytes file;
    uint32_t n_references, n_sequences;
    float error_bound[REFERENCES], kl_bound[REFERENCES];
    size_t sequences_at; /* where the first one begins */
} expectation;

static bool expect_open(expectation *x, const char *path)
{
    size_t n = strlen(MAGIC);
    *x = (expectation){0};
    const char *head =
        file_read(&x->file, path) && x->file.len > n ? file_take(&x->file, n + 1) : NULL;
    x->n_references = head && !memcmp(head, MAGIC, n) ? (uint32_t)(head[n] - '0') : 0;
    if (x->n_references < 1 || x->n_references > REFERENCES) return false;
    x->n_sequences = file_u32(&x->file);
    for (uint32_t r = 0; r < x->n_references; r++) {
        x->error_bound[r] = file_f32(&x->file);
        x->kl_bound[r] = file_f32(&x->file);
    }
    x->sequences_at = x->file.at;
    return !x->file.bad;
}

static int open_model(cerium_engine **engine, const char *path, const char *kv_type,
                      cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = path;
    config.kv_type = kv_type;
    config.sessions_max = 2;
    return cerium_engine_open(engine, &config, err);
}

/* The last logits of tokens computed at once have the bits in `stepped`. */
static int same_at_once(cerium_engine *engine, const int32_t *tokens, uint32_t n,
                        const float *stepped, size_t n_vocab, bool *same, cerium_error *err)
{
    cerium_session *session;
    size_t n_got;
    int status = cerium_session_open(&session, engine, NULL, err);
    if (status) return status;
    status = cerium_session_sync(session, tokens, n, NULL, err);
    if (!status) {
        const float *got = cerium_session_logits(session, &n_got);
        *same = n_got == n_vocab && !memcmp(got, stepped, n_vocab * sizeof *got);
    }
    cerium_session_close(&session);
    return status;
}

/* One sequence: for each reference, logits [n - first_row][n_vocab] follow its tokens. */
static int score_sequence(score *s, uint32_t n_scores, cerium_engine *engine, expectation *x,
                          bool *same, cerium_error *err)
{
    file_bytes *file = &x->file;
    uint32_t n = file_u32(file), n_vocab = file_u32(file), first = file_u32(file);
    const int32_t *tokens = file_take(file, (size_t)n * 4);
    if (file->bad || !n || first >= n || !n_vocab) return file->bad = true, 0;
    size_t n_want = (size_t)(n - first) * n_vocab; /* of one reference */
    const float *want = file_take(file, x->n_references * n_want * sizeof *want);
    if (!want) return 0;
    cerium_session *session;
    int status = cerium_session_open(&session, engine, NULL, err);
    if (status) return status;
    for (uint32_t i = first; i < n && !status; i++) {
        size_t n_got;
        status = cerium_session_sync(session, tokens, i + 1, NULL, err);
        if (status) break;
        const float *got = cerium_session_logits(session, &n_got);
        file->bad |= n_got != n_vocab;
        for (uint32_t k = 0; k < n_scores && n_got == n_vocab; k++)
            score_row(&s[k], want + s[k].reference * n_want + (size_t)(i - first) * n_vocab, got,
                      n_vocab);
        if (i == n - 1 && n_got == n_vocab)
            status = same_at_once(engine, tokens, n, got, n_vocab, same, err);
    }
    cerium_session_close(&session);
    return status;
}

/* All sequences, by an engine with a cache of kv_type; *cut_free becomes false if bits depend
 * on the cuts of a prompt. */
static int score_model(score *s, uint32_t n_scores, expectation *x, const char *path,
                       const char *kv_type, bool *cut_free, cerium_error *err)
{
    cerium_engine *engine = NULL;
    int status = open_model(&engine, path, kv_type, err);
    x->file.at = x->sequences_at;
    for (uint32_t i = 0; i < x->n_sequences && !status && !x->file.bad; i++) {
        bool same = true;
        status = score_sequence(s, n_scores, engine, x, &same, err);
        *cut_free = *cut_free && same;
    }
    cerium_engine_close(&engine);
    return status;
}

/* An engine with an F16 cache against each reference; if the other one has no F16 cache, an
 * engine with an F32 cache against that, to the bounds of the first: both compute the same.  Last,
 * an engine with keys and values in 8 bits against the reference without a cache of its own. */
static uint32_t plan_scores(score s[SCORES], const expectation *x)
{
    static const struct {
        const char *name;
        uint32_t reference, bounds;
    } plan[SCORES - 1] = {{"F16 cache", 0, 0}, {"without F16 cache", 1, 1}, {"F32 cache", 1, 0}};
    uint32_t n = x->n_references == 1 ? 1 : SCORES - 1, last = x->n_references - 1;
    for (uint32_t k = 0; k < n; k++)
        s[k] = (score){.name = plan[k].name,
                       .reference = plan[k].reference,
                       .error_bound = x->error_bound[plan[k].bounds],
                       .kl_bound = x->kl_bound[plan[k].bounds]};
    s[n] = (score){.name = "8 bits",
                   .reference = last,
                   .error_bound = I8_ERROR + x->error_bound[last],
                   .kl_bound = I8_KL + x->kl_bound[last]};
    return n + 1;
}

/* "error E of BOUND, KL K of BOUND" for each score, and the verdict over all. */
static bool score_describe(const score *s, uint32_t n_scores, char *out, size_t cap)
{
    bool passes = true;
    size_t at = 0;
    *out = 0;
    for (uint32_t k = 0; k < n_scores; k++) {
        int n = snprintf(out + at, cap - at, "%s%s%serror %.5f of %.5f, KL %.2e of %.2e%s",
                         k ? "; " : "", n_scores > 1 ? s[k].name : "", n_scores > 1 ? " " : "",
                         (double)s[k].error, (double)s[k].error_bound, (double)s[k].kl,
                         (double)s[k].kl_bound, s[k].wrong_best ? ", a clear best token lost" : "");
        if (n > 0 && (size_t)n < cap - at) at += (size_t)n;
        passes = passes && score_passes(&s[k]);
    }
    return passes;
}

static void run_fixture(const char *dir, const char *file_name)
{
    size_t stem = strlen(file_name) - strlen(".expect");
    char name[64], path[PATH_BYTES], text[512];
    snprintf(name, sizeof name, "%.*s", (int)stem, file_name);
    expectation x = {0};
    if (!path_join(path, dir, file_name, stem, ".expect") || !expect_open(&x, path)) {
        verdict(false, name, "%s: not an expectation", path);
        free(x.file.data);
        return;
    }
    cerium_error err = {0};
    score s[SCORES];
    uint32_t n_scores = plan_scores(s, &x), n = x.n_references;
    bool cut_free = true;
    int status = CERIUM_ERR_ARGUMENT;
    if (path_join(path, dir, file_name, stem, ".gguf"))
        status = score_model(s, n, &x, path, "f16", &cut_free, &err);
    if (!status && n_scores > n + 1)
        status = score_model(s + n, n_scores - n - 1, &x, path, "f32", &cut_free, &err);
    if (!status)
        status = score_model(s + n_scores - 1, 1, &x, path, "i8", &cut_free, &err);
    bool passes = score_describe(s, n_scores, text, sizeof text);
    if (status)
        verdict(false, name, "%s", err.message);
    else if (x.file.bad)
        verdict(false, name, "the expectation is cut or of another vocabulary");
    else
        verdict(passes && cut_free, name, "%s; %u rows%s", text, s[0].rows,
                cut_free ? "" : ", bits depend on how the prompt is cut");
    free(x.file.data);
}

static int is_expect(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name), suffix = strlen(".expect");
    return n > suffix && !strcmp(entry->d_name + n - suffix, ".expect");
}

/* ---- stories260K: a trained model, outside the repository ---- */

typedef struct {
    int32_t ids[STORY_IDS];
    size_t n_ids;
    float wanted[2][STORY_VOCAB]; /* after the begin token; those that the last id is chosen by */
    float half[2][STORY_VOCAB]; /* the same with an F16 cache, from stories260K.logits */
    char text[STORY_TEXT];
    size_t text_len;
} story;

/* The text after "key": in a flat JSON object. */
static const char *json_value(const char *json, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(json, quoted);
    return at ? at + strlen(quoted) : NULL;
}

static size_t json_floats(const char *json, const char *key, double *out, size_t cap)
{
    const char *at = json_value(json, key);
    size_t n = 0;
    if (!at || !(at = strchr(at, '['))) return 0;
    for (at++; n < cap && *at && *at != ']'; n++) {
        char *end;
        out[n] = strtod(at, &end);
        if (end == at) return 0;
        at = end + strspn(end, ", \n");
    }
    return n;
}

/* The text has no escapes except \n and quoted quotes. */
static size_t json_text(const char *json, const char *key, char *out, size_t cap)
{
    const char *at = json_value(json, key);
    size_t n = 0;
    if (!at || !(at = strchr(at, '"'))) return 0;
    for (at++; *at && *at != '"' && n < cap; at++) {
        if (*at == '\\' && at[1])
            out[n++] = *++at == 'n' ? '\n' : *at;
        else
            out[n++] = *at;
    }
    return n;
}

static bool story_read(story *s, const char *json)
{
    static double numbers[STORY_VOCAB];
    s->n_ids = json_floats(json, "ids", numbers, STORY_IDS);
    for (size_t i = 0; i < s->n_ids; i++) s->ids[i] = (int32_t)numbers[i];
    if (json_floats(json, "logits_after_bos", numbers, STORY_VOCAB) != STORY_VOCAB) return false;
    for (size_t i = 0; i < STORY_VOCAB; i++) s->wanted[0][i] = (float)numbers[i];
    if (json_floats(json, "logits_last", numbers, STORY_VOCAB) != STORY_VOCAB) return false;
    for (size_t i = 0; i < STORY_VOCAB; i++) s->wanted[1][i] = (float)numbers[i];
    s->text_len = json_text(json, "text", s->text, sizeof s->text);
    return s->n_ids > 2 && s->text_len > 0;
}

static bool story_read_half(story *s, const char *path)
{
    file_bytes file;
    size_t n = strlen(STORY_MAGIC);
    bool ok = file_read(&file, path) && file.len == n + sizeof s->half &&
              !memcmp(file.data, STORY_MAGIC, n);
    if (ok) memcpy(s->half, file.data + n, sizeof s->half);
    free(file.data);
    return ok;
}

static void story_error(const float *want, const float *got, size_t n_got, float *worst)
{
    for (size_t i = 0; i < STORY_VOCAB; i++) {
        float error = n_got == STORY_VOCAB ? fabsf(got[i] - want[i]) : INFINITY;
        *worst = worse_of(*worst, error);
    }
}

/* Errors of the logits at both ends: [0] of those with an F16 cache, [1] of expected.json's. */
static int story_errors(const story *s, cerium_session *session, float worst[2], cerium_error *err)
{
    for (int end = 0; end < 2; end++) {
        size_t n_got;
        int status = cerium_session_sync(session, s->ids, end ? s->n_ids - 1 : 1, NULL, err);
        if (status) return status;
        const float *got = cerium_session_logits(session, &n_got);
        story_error(s->half[end], got, n_got, &worst[0]);
        story_error(s->wanted[end], got, n_got, &worst[1]);
    }
    return 0;
}

/* Greedy from the begin token; counts the ids that agree and gathers the text. */
static int story_tell(const story *s, cerium_session *session, size_t *n_equal, char *text,
                      size_t *text_len, cerium_error *err)
{
    size_t n = 1;
    cerium_step step = {0};
    int status = cerium_session_sync(session, s->ids, 1, NULL, err);
    *n_equal = 1;
    *text_len = 0;
    while (!status && n < s->n_ids && step.stop == CERIUM_STOP_NONE) {
        const cerium_sampling sampling = {.step_tokens_max = (uint32_t)(s->n_ids - n)};
        status = cerium_session_step(session, &sampling, &step, err);
        if (status) break;
        for (uint32_t i = 0; i < step.n_tokens && n < s->n_ids; i++, n++)
            if (*n_equal == n && step.tokens[i] == s->ids[n]) ++*n_equal;
        if (step.text_len <= STORY_TEXT - *text_len) {
            memcpy(text + *text_len, step.text, step.text_len);
            *text_len += step.text_len;
        }
    }
    return status;
}

/* The begin token's word may keep its space; a step may hold a last partial character back. */
static bool story_text_equal(const story *s, const char *text, size_t len)
{
    if (len && *text == ' ' && s->text[0] != ' ') text++, len--;
    size_t n = len < s->text_len ? len : s->text_len;
    return n + 4 >= s->text_len && !memcmp(text, s->text, n);
}

/* Generates the story with a cache of kv_type: compares ids and text, then the errors. */
static int story_compare(const story *s, const char *path, const char *kv_type, cerium_error *err)
{
    static char text[STORY_TEXT];
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    size_t n_equal = 0, text_len = 0;
    float worst[2] = {0};
    int status = open_model(&engine, path, kv_type, err);
    if (!status) status = cerium_session_open(&session, engine, NULL, err);
    if (!status) status = story_tell(s, session, &n_equal, text, &text_len, err);
    if (!status) status = story_errors(s, session, worst, err);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    if (status) return status;
    bool text_ok = story_text_equal(s, text, text_len);
    int like = strcmp(kv_type, "f16") ? 1 : 0; /* the reference with a like cache */
    verdict(n_equal == s->n_ids && text_ok && worst[like] <= STORY_BOUND &&
                worst[!like] <= STORY_LOOSE,
            "stories260K",
            "%s cache error %.5f of %.5f; against the other cache error %.5f of %.5f; "
            "%zu of %zu tokens, text %s",
            like ? "F32" : "F16", (double)worst[like], (double)STORY_BOUND, (double)worst[!like],
            (double)STORY_LOOSE, n_equal, s->n_ids, text_ok ? "equal" : "differs");
    return 0;
}

static void run_story(const char *fixtures, const char *data)
{
    static story s;
    char path[PATH_BYTES], logits[PATH_BYTES];
    file_bytes file = {0};
    const char *dir = "weights/stories260K/";
    if (!path_join(path, data, dir, strlen(dir), "expected.json") || !file_read(&file, path)) {
        printf("skipped: no ../shared/data\n");
        free(file.data);
        return;
    }
    cerium_error err = {0};
    path_join(path, data, dir, strlen(dir), "stories260K.gguf");
    if (!story_read(&s, (const char *)file.data))
        verdict(false, "stories260K", "expected.json is not as it was");
    else if (!path_join(logits, fixtures, "stories260K", strlen("stories260K"), ".logits") ||
             !story_read_half(&s, logits))
        verdict(false, "stories260K", "%s: not two rows of logits", logits);
    else if (story_compare(&s, path, "f16", &err) || story_compare(&s, path, "f32", &err))
        verdict(false, "stories260K", "%s", err.message);
    free(file.data);
}

int main(int argc, char **argv)
{
    const char *fixtures = argc > 1 ? argv[1] : "tests/golden/fixtures";
    struct dirent **entries = NULL;
    int n = scandir(fixtures, &entries, is_expect, alphasort);
    for (int i = 0; i < n; i++) {
        run_fixture(fixtures, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (n <= 0) verdict(false, "fixtures", "none in %s; run from the repository's root", fixtures);
    run_story(fixtures, argc > 2 ? argv[2] : "../shared/data");
    printf("golden: %d passed, %d failed\n", n_passed, n_failed);
    return n_failed > 0;
}
