/* replay_edits.c - the speed of recorded edits.
 *
 * The prompt is the instruction and the file, the prediction is the file, and the answer is forced
 * to be the recorded result (a script), whatever the logits are. Everything is computed and sampled
 * as usual, so random weights of a real shape will do. For each edit some of its tokens are also
 * decoded without drafts, in a session of the same engine, so that drift in the machine's speed
 * affects both. */
#include "programs/replay_edits.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "programs/bandwidth.h"
#include "programs/output.h"
#include "programs/terminal.h"

enum { FILE_BYTES_MAX = 256 << 20, EDITS_MAX = 10000, ANSWER_MIN = 8 };

typedef struct {
    uint32_t n_tokens, n_passes, n_drafted, n_accepted;
    double seconds, busy_s, drafting_s; /* from the first token to the last */
    double used_s;                      /* processor time of all threads, for the whole answer */
} replay_sums;

typedef struct {
    const replay_edits *asked;
    cerium_engine *engine, *tokenizer; /* the same, or an owned one opened only for its
                                        * vocabulary */
    cerium_engine_info info;
    cerium_session *fast, *plain;
    replay_sums fast_all, plain_all;
    double *ratios, *speeds; /* [n] of each edit: speed relative to plain decoding; tokens/s */
    uint32_t n, n_skipped;
    long n_allocated;        /* the engine's counters while it answered */
} replay;

typedef struct {
    int32_t *prompt, *before, *after; /* owned */
    size_t n_prompt, n_before, n_after;
} edit;

static void edit_free(edit *e)
{
    memory_free(e->prompt);
    memory_free(e->before);
    memory_free(e->after);
    *e = (edit){0};
}

static int edit_read(replay *r, json_t *line, edit *e, cerium_error *err)
{
    json_t *before = json_object_get(line, "before"), *after = json_object_get(line, "after");
    const char *instruction = json_string_value(json_object_get(line, "instruction"));
    if (!json_is_string(before) || !json_is_string(after))
        return error_set(err, CERIUM_ERR_FORMAT, "`before` and `after` must be strings");
    view old = {json_string_value(before), json_string_length(before)};
    view new = {json_string_value(after), json_string_length(after)};
    bytes prompt = {.max = FILE_BYTES_MAX};
    int status = CERIUM_OK;
    if (instruction) status = bytes_append(&prompt, instruction, strlen(instruction));
    if (!status) status = bytes_append(&prompt, "\n\n", 2);
    if (!status) status = bytes_append(&prompt, old.ptr, old.len);
    if (!status) status = bytes_append(&prompt, "\n\n", 2);
    if (status) error_set(err, status, "no memory for a prompt");
    if (!status)
        status = encode(r->tokenizer, (view){prompt.ptr, prompt.len}, CERIUM_TOKENIZE_BEGIN,
                        &e->prompt, &e->n_prompt, err);
    if (!status) status = encode(r->tokenizer, old, 0, &e->before, &e->n_before, err);
    if (!status) status = encode(r->tokenizer, new, 0, &e->after, &e->n_after, err);
    bytes_free(&prompt);
    return status;
}

static double processor_s(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

/* Run to its end; the time is that from the first token to the last. */
static int answer(replay *r, cerium_session *session, const edit *e, size_t n, replay_sums *sums,
                  cerium_error *err)
{
    cerium_engine_stats before, after;
    cerium_usage usage;
    double used = 0;
    cerium_event event = {.kind = CERIUM_EVENT_NONE};
    cerium_sampling sampling = {.ignore_end = true};
    cerium_request request = {.tokens = e->prompt, .n_tokens = e->n_prompt,
                              .sampling = &sampling, .class_ = CERIUM_CLASS_EDIT};
    /* The prompt first, alone: its passes are not counted. */
    for (int pass = 0; pass < 2; pass++) {
        request.new_tokens_max = pass ? UINT32_MAX : 0;
        request.script = pass ? e->after : NULL;
        request.n_script = pass ? n : 0;
        request.prediction = pass && !r->asked->no_prediction ? e->before : NULL;
        request.n_prediction = request.prediction ? e->n_before : 0;
        cerium_engine_measure(r->engine, &before);
        used = processor_s();
        RETURN_IF(cerium_session_start(session, &request, err));
        long n_allocated = memory_count();
        do {
            static const struct timespec nap = {0, 200000};
            cerium_session_poll(session, &event);
            if (event.kind == CERIUM_EVENT_NONE) nanosleep(&nap, NULL);
        } while (event.kind != CERIUM_EVENT_DONE);
        r->n_allocated += memory_count() - n_allocated;
        if (event.status) return error_set(err, event.status, "a replayed edit failed");
    }
    cerium_engine_measure(r->engine, &after);
    cerium_session_usage(session, &usage);
    sums->used_s += processor_s() - used;
    sums->n_tokens += usage.new_tokens - 1;
    sums->n_passes += (uint32_t)(after.passes - before.passes);
    sums->n_drafted += usage.drafted_tokens;
    sums->n_accepted += usage.accepted_tokens;
    sums->seconds += (double)(usage.duration_ns - usage.first_token_ns) / 1e9;
    sums->busy_s += (double)(after.busy_ns - before.busy_ns) / 1e9;
    sums->drafting_s += (double)(after.drafting_ns - before.drafting_ns) / 1e9;
    return CERIUM_OK;
}

static int replay_one(replay *r, const edit *e, cerium_error *err)
{
    replay_sums fast = r->fast_all, plain = r->plain_all;
    size_t n_plain = r->asked->n_plain < e->n_after ? r->asked->n_plain : e->n_after;
    if (e->n_after < ANSWER_MIN || e->n_prompt + e->n_after >= r->info.context_tokens_max) {
        r->n_skipped++;
        return CERIUM_OK;
    }
    if (n_plain) RETURN_IF(answer(r, r->plain, e, n_plain, &r->plain_all, err));
    RETURN_IF(answer(r, r->fast, e, e->n_after, &r->fast_all, err));
    double speed = (r->fast_all.n_tokens - fast.n_tokens) / (r->fast_all.seconds - fast.seconds);
    double plainly =
        (r->plain_all.n_tokens - plain.n_tokens) / (r->plain_all.seconds - plain.seconds);
    r->speeds[r->n] = speed;
    r->ratios[r->n++] = n_plain ? speed / plainly : 0;
    return CERIUM_OK;
}

static int replay_lines(replay *r, view text, cerium_error *err)
{
    uint32_t line = 0, n_max = r->asked->n_edits ? r->asked->n_edits : EDITS_MAX;
    while (text.len > 0 && r->n < n_max) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        json_error_t problem;
        edit e = {0};
        line++;
        if (len > 0) {
            json_t *root = json_read((view){text.ptr, len}, JSON_REJECT_DUPLICATES, &problem);
            int status = json_is_object(root) ? edit_read(r, root, &e, err)
                                              : error_set(err, CERIUM_ERR_FORMAT,
                                                          "must be a JSON object");
            cerium_error why = *err;
            json_decref(root);
            if (status)
                error_set(err, status, "%s:%u: %s", r->asked->path, line, why.message);
            else
                status = replay_one(r, &e, err);
            edit_free(&e);
            RETURN_IF(status);
            progress_show("%u edits", r->n);
        }
        text = (view){text.ptr + len + (end != NULL), text.len - len - (end != NULL)};
    }
    progress_clear();
    if (r->n == 0)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "%s: no edit fits into the context of %u tokens", r->asked->path,
                         r->info.context_tokens_max);
    return CERIUM_OK;
}

static double speed_of(const replay_sums *s)
{
    return s->seconds > 0 ? s->n_tokens / s->seconds : 0;
}

/* The ratio of tokens for the same processor time: a busy machine affects it less. */
static double used_ratio(const replay_sums *fast, const replay_sums *plain)
{
    if (plain->n_tokens == 0 || fast->used_s <= 0) return 0;
    return fast->n_tokens / fast->used_s / (plain->n_tokens / plain->used_s);
}

/* Microseconds from the end of a pass to the beginning of the next. */
static double gap_us(const replay_sums *s)
{
    return s->n_passes ? (s->seconds - s->busy_s) / s->n_passes * 1e6 : 0;
}

static int print_json(replay *r, cerium_error *err)
{
    const replay_sums *f = &r->fast_all, *p = &r->plain_all;
    double ratio = speed_of(p) > 0 ? speed_of(f) / speed_of(p) : 0;
    json_t *all = json_pack(
        "{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "model",
        json_name(r->info.name),
        "type", r->info.quantization, "cpu", r->info.cpu, "threads", (int)r->info.threads, "edits",
        (int)r->n, "skipped", (int)r->n_skipped, "tokens", (int)f->n_tokens, "tokens_per_s",
        speed_of(f), "plain_tokens_per_s", speed_of(p), "ratio", ratio, "tokens_per_pass",
        (double)f->n_tokens / f->n_passes, "acceptance",
        f->n_drafted ? (double)f->n_accepted / f->n_drafted : 0);
    json_t *more = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "processor_ratio", used_ratio(f, p),
        "median_tokens_per_s", median(r->speeds, r->n),
        "median_ratio", median(r->ratios, r->n), "gap_us", gap_us(f), "plain_gap_us", gap_us(p),
        "drafting_us_per_pass", f->drafting_s / f->n_passes * 1e6, "drafting_share",
        f->drafting_s / f->seconds, "allocations", (int)r->n_allocated);
    json_t *ratios = json_array();
    for (uint32_t i = 0; i < r->n; i++) json_array_append_new(ratios, json_real(r->ratios[i]));
    json_object_update(all, more);
    json_object_set_new(all, "ratios", ratios);
    json_decref(more);
    return output_json(all, JSON_INDENT(2), err);
}

static void print_text(replay *r)
{
    const replay_sums *f = &r->fast_all, *p = &r->plain_all;
    printf("%s (%s), %u threads, %s: %u edits, %u tokens", r->info.name, r->info.quantization,
           r->info.threads, r->info.cpu, r->n, f->n_tokens);
    if (r->n_skipped) printf("; %u did not fit into the context", r->n_skipped);
    printf("\nwith drafts %10.1f tokens/s, %.2f tokens a pass, %.1f %% of %u drafts right\n",
           speed_of(f), (double)f->n_tokens / f->n_passes,
           f->n_drafted ? 100.0 * f->n_accepted / f->n_drafted : 0, f->n_drafted);
    if (p->n_passes)
        printf("plain       %10.1f tokens/s: %.2f times as fast with drafts, median edit %.2f; "
               "%.2f times for the processor's time\n",
               speed_of(p), speed_of(f) / speed_of(p), median(r->ratios, r->n), used_ratio(f, p));
    printf("between passes %.1f us", gap_us(f));
    if (p->n_passes) printf(" (plain %.1f)", gap_us(p));
    printf("; drafting %.2f us a pass, the index of the prompt in it; %ld allocations\n",
           f->drafting_s / f->n_passes * 1e6, r->n_allocated);
}

/* Models with random weights have tokens that never occur in text. */
static int open_tokenizer(replay *r, cerium_error *err)
{
    cerium_engine_config config;
    cerium_engine_info info;
    r->tokenizer = r->engine;
    if (!r->asked->tokenizer) return CERIUM_OK;
    cerium_engine_config_defaults(&config);
    config.model_path = r->asked->tokenizer;
    config.threads = config.sessions_max = 1;
    config.cache = "off";
    int status = cerium_engine_open(&r->tokenizer, &config, err);
    if (status) {
        r->tokenizer = NULL;
        return status;
    }
    cerium_engine_describe(r->tokenizer, &info);
    if (info.n_vocab <= r->info.n_vocab) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_ARGUMENT, "%s has %u tokens, the model only %u",
                     r->asked->tokenizer, info.n_vocab, r->info.n_vocab);
}

static int open_all(replay *r, cerium_error *err)
{
    static const cerium_session_config plainly = {.no_speculation = true};
    cerium_engine_describe(r->engine, &r->info);
    r->ratios = memory_zalloc(EDITS_MAX, sizeof *r->ratios);
    r->speeds = memory_zalloc(EDITS_MAX, sizeof *r->speeds);
    if (!r->ratios || !r->speeds)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the measurement");
    RETURN_IF(open_tokenizer(r, err));
    RETURN_IF(cerium_session_open(&r->fast, r->engine, NULL, err));
    return cerium_session_open(&r->plain, r->engine, &plainly, err);
}

int replay_edits_run(const replay_edits *asked, cerium_engine *engine, bool json,
                     cerium_error *err)
{
    replay r = {.asked = asked, .engine = engine};
    bytes text = {.max = FILE_BYTES_MAX};
    int status = read_file(asked->path, &text, err);
    if (!status) status = open_all(&r, err);
    if (!status) status = replay_lines(&r, (view){text.ptr, text.len}, err);
    if (!status && json) status = print_json(&r, err);
    if (!status && !json) print_text(&r);
    cerium_session_close(&r.fast);
    cerium_session_close(&r.plain);
    if (r.tokenizer != r.engine) cerium_engine_close(&r.tokenizer);
    memory_free(r.ratios);
    memory_free(r.speeds);
    bytes_free(&text);
    return status;
}
