/* bench.c - `cerium bench`: speed, and the share of what the machine's memory allows. */
#include "programs/programs.h"

#include <jansson.h>
#include <unistd.h>

#include "programs/bandwidth.h"
#include "programs/bench_parallel.h"
#include "programs/honest.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/quality.h"
#include "programs/replay_edits.h"
#include "programs/terminal.h"

enum { RUNS_MAX = 64, GAPS_MAX = 1 << 16, DRAM_BYTES = 512 << 20, SET_BYTES_MAX = 1 << 30 };

/* Decoding, in turns with reading as many bytes as a token of it reads. */
typedef struct {
    double speed, roofline;       /* tokens/s, and how many the machine's memory allows */
    double share;                 /* of the roofline beside each run; 0: no memory to measure it */
    double read;                  /* bytes/s of the working set, all threads */
    uint64_t weights_bytes, kv_bytes; /* that a token reads, beside its state (info) */
} decoding;

typedef struct {
    options o;
    uint32_t prefill, decode, depth, parallel, runs;
    bool depth_given;
    replay_edits replay;
    const char *quality_path; /* a text, or NULL */
    quality quality;
    honest honest;
    cerium_engine *engine;
    cerium_session *session;
    cerium_engine_info info;
    int32_t *tokens;          /* [context] a prompt of arbitrary tokens */
    double *gaps;             /* [GAPS_MAX] seconds */
    size_t n_gaps;

    double load_s, first_token_s;
    size_t l2_bytes, l3_bytes;
    double read_l2[2], read_l3[2], read_dram[2]; /* bytes/s: of one thread, of all */
    decoding from_1, at_depth;
    double prefill_speed, parallel_speed; /* tokens/s; of all sessions together */
    double gap_p50_s, gap_p99_s;
} bench;

/* clang-format off */
static const option_spec own[] = {
    {"prefill", "N", "tokens of the prompt (default 512)", TAKES_U32(bench, prefill, 1, 1 << 24)},
    {"decode", "N", "tokens decoded in one run (default 128)",
     TAKES_U32(bench, decode, 1, GAPS_MAX / RUNS_MAX)},
    {"depth", "N",
     "tokens in the context for decoding at a depth (default 4096, at most what the model holds; "
     "0: leave it out)",
     TAKES_U32(bench, depth, 0, 1 << 24), GIVEN(bench, depth_given)},
    {"parallel", "N", "also decode N sequences at once, at most 64 (default 0)",
     TAKES_U32(bench, parallel, 0, BENCH_PARALLEL_MAX)},
    {"runs", "N", "runs of each measurement (default 5)", TAKES_U32(bench, runs, 1, RUNS_MAX)},
    {"quality", "FILE",
     "also what the arithmetic costs: the first 1,024 tokens of a text, computed as usual and in "
     "floats; slow, four bytes a weight",
     TAKES_ANY(bench, quality_path)},
    {"replay", "FILE",
     "instead: the speed of edits whose results are known, JSON lines with `before`, `after` and "
     "maybe `instruction`. The result is forced, all else is computed, with drafts and without "
     "in turn",
     TAKES_ANY(bench, replay.path)},
    {"edits", "N", "replay at most N edits (default: all)",
     TAKES_U32(bench, replay.n_edits, 1, 1 << 24), .needs = "replay"},
    {"plain", "N", "tokens of each edit that are also decoded without drafts (default 48; 0: none)",
     TAKES_U32(bench, replay.n_plain, 0, 1 << 24), .needs = "replay"},
    {"tokenizer", "MODEL",
     "tokenize with this model's vocabulary, for random weights (default: -m)",
     TAKES_ANY(bench, replay.tokenizer), .needs = "replay"},
    {"no-prediction", NULL, "the old text is in the prompt and not given as a prediction",
     TAKES_FLAG(bench, replay.no_prediction), .needs = "replay"},
    {"honest", "TASKS",
     "instead: tasks with tests, JSON lines as in bench/solve/tasks.jsonl, done by two models of a "
     "running server: tokens a second, tries, and the time until the tests pass",
     TAKES_TEXT(bench, honest.path)},
    {"server", "URL", "of --honest (default " HONEST_URL "); CERIUM_API_KEY is its key",
     TAKES_TEXT(bench, honest.server), .needs = "honest"},
    {"fast", "NAME", "the model of --honest that is quick", TAKES_TEXT(bench, honest.models[0]),
     .needs = "honest"},
    {"deep", "NAME", "the model of --honest that knows more", TAKES_TEXT(bench, honest.models[1]),
     .needs = "honest"},
    {"tries", "N", "of --honest: ask for a task at most N times (default 4)",
     TAKES_U32(bench, honest.n_tries, 1, HONEST_TRIES_MAX), .needs = "honest"},
};
/* clang-format on */
const command_table bench_command = {
    .name = "bench",
    .usage = "[OPTIONS]",
    .about = "Measure prefill, decoding, decoding at a depth, the time to the first token and the "
             "gaps between tokens, beside the memory bandwidth of this machine, in one run. "
             "Figures are medians.",
    .groups = OPTIONS_ENGINE | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium bench -m qwen2.5-coder-0.5b-q4_0.gguf --json\n"
                "cerium bench --replay bench/edits/edits.jsonl\n"
                "cerium bench --honest bench/solve/tasks.jsonl --fast small --deep large",
};

static double since(uint64_t start) { return (double)(clock_ns() - start) / 1e9; }

static void note(const char *what)
{
    progress_show("%s%s", what, *what ? " ..." : "");
}

static void measure_machine(bench *b)
{
    uint32_t n = b->info.threads;
    note("memory bandwidth");
    bandwidth_caches(&b->l2_bytes, &b->l3_bytes);
    for (int all = 0; all < 2; all++) {
        uint32_t threads = all ? n : 1;
        if (b->l2_bytes) b->read_l2[all] = bandwidth_read(b->l2_bytes / 2 * threads, threads, 5);
        if (b->l3_bytes) b->read_l3[all] = bandwidth_read(b->l3_bytes / 4, threads, 5);
        b->read_dram[all] = bandwidth_read(DRAM_BYTES, threads, 5);
    }
}

/* A prompt whose first token differs from run to run, so that nothing can be reused. */
static int sync_fresh(bench *b, uint32_t n, uint32_t run, cerium_error *err)
{
    b->tokens[0] = (int32_t)((run * 7 + 3) % b->info.n_vocab);
    return cerium_session_sync(b->session, b->tokens, n, NULL, err);
}

static int measure_prefill(bench *b, cerium_error *err)
{
    double speed[RUNS_MAX];
    note("prefill");
    /* Caches and code are warm after less than a long prompt. */
    RETURN_IF(sync_fresh(b, b->prefill < 1024 ? b->prefill : 1024, 1000, err));
    for (uint32_t run = 0; run < b->runs; run++) {
        uint64_t start = clock_ns();
        RETURN_IF(sync_fresh(b, b->prefill, run, err));
        speed[run] = b->prefill / since(start);
    }
    b->prefill_speed = median(speed, b->runs);
    return CERIUM_OK;
}

static uint64_t head_bytes(const bench *b)
{
    cerium_engine_stats stats;
    cerium_engine_measure(b->engine, &stats);
    return stats.head_bytes;
}

/* Decode n tokens after the first `before` of the timeline; the first step's logits are available.
 *   head: receives the bytes of the head that a token read beyond those of every step */
static int decode_run(bench *b, uint32_t before, uint32_t n, bool keep_gaps, double *speed,
                      double *head, cerium_error *err)
{
    cerium_sampling sampling = {.ignore_end = true};
    cerium_step step;
    RETURN_IF(cerium_session_sync(b->session, b->tokens, before, NULL, err));
    RETURN_IF(cerium_session_step(b->session, &sampling, &step, err));
    const uint64_t head_before = head_bytes(b);
    uint64_t start = clock_ns(), last = start;
    for (uint32_t i = 0; i < n; i++) {
        RETURN_IF(cerium_session_step(b->session, &sampling, &step, err));
        uint64_t now = clock_ns();
        if (keep_gaps && b->n_gaps < GAPS_MAX) b->gaps[b->n_gaps++] = (double)(now - last) / 1e9;
        last = now;
    }
    *speed = n / ((double)(last - start) / 1e9);
    *head = (double)(head_bytes(b) - head_before) / n;
    return CERIUM_OK;
}

/* A token reads a state and writes the next. */
static uint64_t all_bytes(const bench *b, const decoding *d)
{
    return d->weights_bytes + d->kv_bytes + 2 * b->info.state_bytes;
}

/* Memory to be read beside a model that needs its own: what no cache holds is enough. */
static size_t set_bytes(const bench *b, uint64_t of_token)
{
    const uint64_t most = b->l3_bytes * 4 > SET_BYTES_MAX ? b->l3_bytes * 4 : SET_BYTES_MAX;
    return of_token < most ? of_token : most;
}

/* Runs that decode n tokens after the first `before`.  Memory is shared with others, and its speed
 * changes within seconds: it is measured between two runs, each time. */
static int decode_runs(bench *b, uint32_t before, uint32_t n, bool keep_gaps, decoding *out,
                       cerium_error *err)
{
    double speeds[RUNS_MAX], heads[RUNS_MAX], reads[RUNS_MAX], shares[RUNS_MAX];
    bandwidth_set set;
    int status = CERIUM_OK;
    RETURN_IF(decode_run(b, before, n, false, speeds, heads, err));
    /* How much of a head is searched depends on the model and on its tokens.  Layers with a window
     * read less KV than this counts. */
    out->weights_bytes = b->info.step_bytes + (uint64_t)heads[0];
    out->kv_bytes = b->info.kv_token_bytes * (before + n / 2);
    bandwidth_open(&set, set_bytes(b, all_bytes(b, out)), b->info.threads);
    double read = bandwidth_measure(&set, 1);
    for (uint32_t run = 0; !status && run < b->runs; run++) {
        status = decode_run(b, before, n, keep_gaps, &speeds[run], &heads[run], err);
        const double next = bandwidth_measure(&set, 1);
        reads[run] = (read + next) / 2;
        read = next;
    }
    bandwidth_close(&set);
    RETURN_IF(status);
    out->weights_bytes = b->info.step_bytes + (uint64_t)median(heads, b->runs);
    for (uint32_t run = 0; run < b->runs; run++)
        shares[run] = reads[run] > 0 ? speeds[run] * (double)all_bytes(b, out) / reads[run] : 0;
    out->share = median(shares, b->runs);
    out->speed = median(speeds, b->runs);
    out->read = median(reads, b->runs);
    out->roofline = out->read / (double)all_bytes(b, out);
    return CERIUM_OK;
}

static int measure_decode(bench *b, cerium_error *err)
{
    note("decode");
    RETURN_IF(decode_runs(b, 1, b->decode, true, &b->from_1, err));
    median(b->gaps, b->n_gaps); /* sorts */
    b->gap_p50_s = percentile(b->gaps, b->n_gaps, 0.5);
    b->gap_p99_s = percentile(b->gaps, b->n_gaps, 0.99);
    return CERIUM_OK;
}

static int measure_depth(bench *b, cerium_error *err)
{
    if (b->depth == 0) return CERIUM_OK;
    note("decode at a depth");
    RETURN_IF(sync_fresh(b, b->depth, 0, err));
    return decode_runs(b, b->depth, b->decode < 32 ? b->decode : 32, false, &b->at_depth, err);
}

static int measure_parallel(bench *b, cerium_error *err)
{
    double speed[RUNS_MAX];
    if (b->parallel == 0) return CERIUM_OK;
    note("continuations beside each other");
    for (uint32_t run = 0; run < b->runs; run++)
        RETURN_IF(bench_parallel(b->engine, b->parallel, b->decode, &speed[run], err));
    b->parallel_speed = median(speed, b->runs);
    return CERIUM_OK;
}

/* Opening again, with the file in the page cache, up to the first of ten tokens. */
static int open_and_warm(bench *b, cerium_error *err)
{
    static const cerium_session_config plain = {.no_speculation = true};
    cerium_sampling sampling = {.ignore_end = true};
    cerium_step step;
    int32_t prompt[10];
    for (int i = 0; i < 10; i++) prompt[i] = i;
    RETURN_IF(options_engine(&b->o, &b->engine, 1 + b->parallel, err));
    cerium_engine_close(&b->engine);
    uint64_t start = clock_ns();
    RETURN_IF(options_engine(&b->o, &b->engine, 1 + b->parallel, err));
    b->load_s = since(start);
    RETURN_IF(cerium_session_open(&b->session, b->engine, &plain, err));
    RETURN_IF(cerium_session_sync(b->session, prompt, 10, NULL, err));
    RETURN_IF(cerium_session_step(b->session, &sampling, &step, err));
    b->first_token_s = since(start);
    cerium_engine_describe(b->engine, &b->info);
    return CERIUM_OK;
}

static int fit(bench *b, cerium_error *err)
{
    uint32_t context = b->info.context_tokens_max, room = b->decode + 2;
    if (context <= room || b->prefill > context)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the model's context of %u tokens holds neither --prefill %u nor "
                         "--decode %u; lower them",
                         context, b->prefill, b->decode);
    if (b->depth + room > context) {
        if (b->depth_given)
            return error_set(err, CERIUM_ERR_ARGUMENT, "--depth %u: the context has %u tokens",
                             b->depth, context);
        b->depth = context - room;
    }
    b->tokens = memory_alloc(context * sizeof *b->tokens);
    b->gaps = memory_alloc(GAPS_MAX * sizeof *b->gaps);
    if (!b->tokens || !b->gaps)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the measurement");
    for (uint32_t i = 0; i < context; i++)
        b->tokens[i] = (int32_t)((uint64_t)i * 2654435761u % b->info.n_vocab);
    return CERIUM_OK;
}

static int measure(bench *b, cerium_error *err)
{
    RETURN_IF(open_and_warm(b, err));
    RETURN_IF(fit(b, err));
    measure_machine(b);
    RETURN_IF(measure_prefill(b, err));
    RETURN_IF(measure_decode(b, err));
    RETURN_IF(measure_depth(b, err));
    RETURN_IF(measure_parallel(b, err));
    note("");
    return CERIUM_OK;
}

/* Bytes that a token reads, and whose they are. */
static const char *print_bytes(const bench *b, const decoding *d, char *out, size_t size)
{
    char text[3][32];
    const uint64_t state = 2 * b->info.state_bytes;
    snprintf(out, size, "%s of weights%s%s%s, %s of KV",
             human_bytes(text[0], (double)d->weights_bytes),
             state ? ", " : "", state ? human_bytes(text[1], (double)state) : "",
             state ? " of states (read and written)" : "",
             human_bytes(text[2], (double)d->kv_bytes));
    return out;
}

static void print_share(const decoding *d)
{
    if (d->share > 0) printf(", %.0f %% of the roofline", 100 * d->share);
}

static void print_text(const bench *b)
{
    char size[32], all[160];
    const cerium_engine_info *i = &b->info;
    printf("%s (%s, %s, %.3g M parameters, %s), %u threads, %s, KV in %s\n", i->name,
           i->architecture, i->quantization, (double)i->n_parameters / 1e6,
           human_bytes(size, (double)i->weights_bytes), i->threads, i->cpu, i->kv_type);
    printf("read bandwidth, GB/s         1 thread   %u threads\n", i->threads);
    if (b->l2_bytes)
        printf("  L2   (half of %5zu kB)    %8.1f     %8.1f\n", b->l2_bytes >> 10,
               b->read_l2[0] / 1e9, b->read_l2[1] / 1e9);
    if (b->l3_bytes)
        printf("  L3   (quarter of %5zu MB) %8.1f     %8.1f\n", b->l3_bytes >> 20,
               b->read_l3[0] / 1e9, b->read_l3[1] / 1e9);
    printf("  DRAM (512 MB)             %8.1f     %8.1f\n", b->read_dram[0] / 1e9,
           b->read_dram[1] / 1e9);
    printf("  this model's working set               %8.1f\n", b->from_1.read / 1e9);
    printf("one token takes %s: at most %.1f tokens/s\n",
           print_bytes(b, &b->from_1, all, sizeof all), b->from_1.roofline);
    printf("prefill %5u      %9.1f tokens/s\n", b->prefill, b->prefill_speed);
    printf("decode %6u      %9.1f tokens/s", b->decode, b->from_1.speed);
    print_share(&b->from_1);
    printf("\ngap between tokens %8.2f ms p50, %.2f ms p99\n", b->gap_p50_s * 1e3,
           b->gap_p99_s * 1e3);
    if (b->depth) {
        printf("at depth %5u     %9.1f tokens/s", b->depth, b->at_depth.speed);
        print_share(&b->at_depth);
        printf(", with %s of KV\n", human_bytes(size, (double)b->at_depth.kv_bytes));
    }
    if (b->parallel)
        printf("%3u in parallel   %9.1f tokens/s, %.1f times one alone\n", b->parallel,
               b->parallel_speed, b->parallel_speed / b->from_1.speed);
    printf("opened again in %.3f s; first token of a ten-token prompt after %.3f s\n", b->load_s,
           b->first_token_s);
    if (b->quality_path) quality_print(&b->quality);
}

static int print_json(const bench *b, cerium_error *err)
{
    const cerium_engine_info *i = &b->info;
    json_t *all = json_pack(
        "{s:o, s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
        "model", json_name(i->name), "architecture", i->architecture, "type", i->quantization,
        "cpu", i->cpu,
        "kv", i->kv_type, "threads", (int)i->threads, "parameters", (json_int_t)i->n_parameters,
        "weights_bytes", (json_int_t)i->weights_bytes, "token_bytes",
        (json_int_t)b->from_1.weights_bytes,
        "read_l2_1", b->read_l2[0], "read_l2_all", b->read_l2[1], "read_l3_1", b->read_l3[0],
        "read_l3_all", b->read_l3[1], "read_dram_1", b->read_dram[0], "read_dram_all",
        b->read_dram[1], "read_model_all", b->from_1.read);
    json_t *speeds = json_pack(
        "{s:i, s:f, s:i, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:i, s:f, s:f, s:f}", "prefill",
        (int)b->prefill, "prefill_tokens_per_s", b->prefill_speed, "decode", (int)b->decode,
        "decode_tokens_per_s", b->from_1.speed, "roofline_tokens_per_s", b->from_1.roofline,
        "roofline_share", b->from_1.share, "state_bytes", (json_int_t)b->info.state_bytes,
        "kv_bytes", (json_int_t)b->from_1.kv_bytes, "gap_p50_s",
        b->gap_p50_s, "gap_p99_s", b->gap_p99_s, "depth", (int)b->depth, "depth_tokens_per_s",
        b->at_depth.speed, "open_s", b->load_s, "open_to_first_token_s", b->first_token_s);
    if (b->depth) {
        json_object_set_new(all, "depth_bytes",
                            json_integer((json_int_t)all_bytes(b, &b->at_depth)));
        json_object_set_new(all, "depth_roofline_tokens_per_s", json_real(b->at_depth.roofline));
        json_object_set_new(all, "depth_roofline_share", json_real(b->at_depth.share));
    }
    if (b->parallel) {
        json_object_set_new(all, "parallel", json_integer((json_int_t)b->parallel));
        json_object_set_new(all, "parallel_tokens_per_s", json_real(b->parallel_speed));
    }
    if (b->quality_path) json_object_set_new(all, "quality", quality_json(&b->quality));
    json_object_update(all, speeds);
    json_decref(speeds);
    return output_json(all, JSON_INDENT(2), err);
}

/* Only edits are measured. */
static int replay(bench *b)
{
    cerium_error err;
    int status = options_engine(&b->o, &b->engine, 2, &err);
    if (!status) status = replay_edits_run(&b->replay, b->engine, b->o.json, &err);
    cerium_engine_close(&b->engine);
    return status ? failed(&err) : 0;
}

/* Another program opens the models. */
static int be_honest(bench *b)
{
    cerium_error err;
    b->honest.json = b->o.json;
    if (!b->honest.models[0] || !b->honest.models[1])
        return usage_error("bench", "--honest needs --fast and --deep, two models of the server");
    return honest_run(&b->honest, &err) ? failed(&err) : 0;
}

int program_bench(int argc, char **argv)
{
    bench b = {.prefill = 512, .decode = 128, .depth = 4096, .runs = 5, .replay = {.n_plain = 48},
               .honest = {.server = HONEST_URL, .n_tries = 4}};
    cerium_error err;
    RETURN_IF(command_parse(&bench_command, &b, argc, argv));
    if (optind < argc) return usage_error("bench", "'%s' is not an option", argv[optind]);
    if ((b.replay.path != NULL) + (b.quality_path != NULL) + (b.honest.path != NULL) > 1)
        return usage_error("bench", "--replay, --quality and --honest exclude each other");
    if (b.honest.path) return be_honest(&b);
    if (b.replay.path) return replay(&b);
    int status = b.quality_path ? quality_measure(&b.o, b.quality_path, &b.quality, &err) : 0;
    if (!status) status = measure(&b, &err);
    if (!status && b.o.json) status = print_json(&b, &err);
    if (!status && !b.o.json) print_text(&b);
    cerium_session_close(&b.session);
    cerium_engine_close(&b.engine);
    memory_free(b.tokens);
    memory_free(b.gaps);
    return status ? failed(&err) : 0;
}
