/* metrics.c - counts, and writes the Prometheus text. */
#include "server/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/limits.h"
#include "watch/watch.h"

_Static_assert((int)METRICS_KINDS == (int)WATCH_KINDS_MAX, "a counter for each weakness");

/* Status codes with a series; 0 stands for every other. */
static const int statuses[METRICS_STATUSES] = {101, 200, 201, 204, 206, 301, 304, 400,
                                               401, 403, 404, 405, 408, 409, 413, 415,
                                               422, 426, 429, 499, 500, 501, 503, 0};

/* Seconds: from one token of a small model to an hour of agent work, about 2.5 apart. */
static const double bounds[METRICS_BUCKETS] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25,   0.5,     1,      2.5,   5,      10,    30,   60,    300,  3600};

static const char *const routes[METRICS_ROUTES] = {
#define ROUTE_LABEL(symbol, value, label) [value] = label,
    METRICS_ROUTE_MAP(ROUTE_LABEL)
#undef ROUTE_LABEL
};

static const struct {
    const char *name, *help;
} counters[METRICS_COUNTERS] = {
#define COUNTER_NAME(symbol, value, name, help) [value] = {name, help},
    METRICS_COUNTER_MAP(COUNTER_NAME)
#undef COUNTER_NAME
};

/* The histograms, by our name and by vLLM's. */
static const struct {
    const char *name, *alias, *help;
} histograms[METRICS_HISTOGRAMS] = {
    {"cerium_first_token_seconds", "vllm:time_to_first_token_seconds",
     "From a request to its first token."},
    {"cerium_token_gap_seconds", "vllm:inter_token_latency_seconds",
     "From one token to the next, as the mean of each answer."},
    {"cerium_queue_seconds", "vllm:request_queue_time_seconds",
     "From a request to its first pass."},
    {"cerium_prompt_seconds", "vllm:request_prefill_time_seconds",
     "From the first pass to the whole prompt computed."},
    {"cerium_answer_seconds", "vllm:e2e_request_latency_seconds",
     "From a request to the end of its answer."},
};

static const char *const classes[CERIUM_CLASSES] = {"completion", "edit", "turn", "batch"};
static const char *const ends[4] = {"stop", "length", "abort", "error"};

void metrics_request(metrics *m, metrics_route route, int http_status)
{
    size_t i = 0;
    while (i < METRICS_STATUSES - 1 && statuses[i] != http_status) i++;
    m->requests[route][i]++;
}

void metrics_time(metrics *m, metrics_histogram which, uint64_t ns, uint64_t n_times)
{
    metrics_times *t = &m->times[which];
    double seconds = (double)ns * 1e-9;
    size_t i = 0;
    while (i < METRICS_BUCKETS && seconds > bounds[i]) i++;
    t->buckets[i] += n_times;
    t->n += n_times;
    t->sum_s += seconds * (double)n_times;
}

void metrics_metered(metrics *m, cerium_class class_, metrics_served_by who,
                     const metrics_used *used)
{
    m->answers[class_]++;
    m->used[who].prompt += used->prompt;
    m->used[who].reused += used->reused;
    m->used[who].generated += used->generated;
}

void metrics_ended(metrics *m, metrics_end end, const cerium_usage *usage)
{
    m->ends[end]++;
    metrics_time(m, METRICS_QUEUE, usage->queue_ns, 1);
    metrics_time(m, METRICS_ANSWER, usage->duration_ns, 1);
    if (usage->computed_tokens + usage->reused_tokens >= usage->prompt_tokens)
        metrics_time(m, METRICS_PROMPT, usage->prompt_ns, 1);
    if (!usage->first_token_ns) return;
    metrics_time(m, METRICS_FIRST_TOKEN, usage->first_token_ns, 1);
    uint32_t gaps = usage->new_tokens ? usage->new_tokens - 1 : 0;
    if (gaps && usage->duration_ns >= usage->first_token_ns)
        metrics_time(m, METRICS_TOKEN_GAP, (usage->duration_ns - usage->first_token_ns) / gaps,
                     gaps);
}

/* ---- text ---- */

typedef struct {
    bytes *out;
    int status;              /* the first failure; later writes are dropped */
    char model[3 * METRICS_LABEL_BYTES_MAX]; /* label of every vllm:* sample, quoted */
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...)
{
    char line[4 * METRICS_LABEL_BYTES_MAX + 256];
    va_list args;
    if (w->status) return;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof line);
    w->status = bytes_append(w->out, line, (size_t)len);
}

/* Text for a label's value: backslash, quote and newline escaped, of limited length. */
static void quote(char *to, size_t cap, const char *from)
{
    size_t len = 0;
    for (size_t i = 0; from[i] && i < METRICS_LABEL_BYTES_MAX && len + 3 < cap; i++) {
        if (from[i] == '\\' || from[i] == '"' || from[i] == '\n') to[len++] = '\\';
        to[len++] = from[i] == '\n' ? 'n' : from[i];
    }
    to[len] = 0;
}

static void head(writer *w, const char *name, const char *type, const char *help)
{
    put(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_requests(writer *w, const metrics *m)
{
    for (size_t i = 0; i < METRICS_COUNTERS; i++) {
        char name[64];
        snprintf(name, sizeof name, "cerium_%s_total", counters[i].name);
        head(w, name, "counter", counters[i].help);
        put(w, "%s %" PRIu64 "\n", name, m->counters[i]);
    }
    head(w, "cerium_requests_total", "counter", "Requests by route and HTTP status.");
    for (size_t r = 0; r < METRICS_ROUTES; r++)
        for (size_t s = 0; s < METRICS_STATUSES; s++)
            if (m->requests[r][s] && statuses[s])
                put(w, "cerium_requests_total{route=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                    routes[r], statuses[s], m->requests[r][s]);
            else if (m->requests[r][s])
                put(w, "cerium_requests_total{route=\"%s\",status=\"other\"} %" PRIu64 "\n",
                    routes[r], m->requests[r][s]);
    head(w, "cerium_answers_total", "counter", "Answers that were metered, by class.");
    for (size_t c = 0; c < CERIUM_CLASSES; c++)
        put(w, "cerium_answers_total{class=\"%s\"} %" PRIu64 "\n", classes[c], m->answers[c]);
    head(w, "cerium_open", "gauge", "What is open now.");
    put(w, "cerium_open{what=\"connections\"} %" PRIu32 "\n", m->connections_open);
    put(w, "cerium_open{what=\"websockets\"} %" PRIu32 "\n", m->sockets_open);
    put(w, "cerium_open{what=\"streams\"} %" PRIu32 "\n", m->streams_open);
    head(w, "vllm:request_success_total", "counter", "Answers by how they ended.");
    for (size_t e = 0; e < ARRAY_LEN(ends); e++)
        put(w, "vllm:request_success_total{model_name=\"%s\",finished_reason=\"%s\"} %" PRIu64 "\n",
            w->model, ends[e], m->ends[e]);
}

static void put_guard(writer *w, const metrics *m)
{
    head(w, "cerium_guard_findings_total", "counter", "Weaknesses by class and what was done.");
    for (uint32_t k = 0; k < METRICS_KINDS; k++) {
        const char *name = guard_weakness_name(k);
        for (size_t d = 0; d < METRICS_DEEDS; d++)
            if (m->guard_findings[k][d])
                put(w, "cerium_guard_findings_total{class=\"%s\",action=\"%s\"} %" PRIu64 "\n",
                    name ? name : "late", watch_action_name((cerium_finding_action)d),
                    m->guard_findings[k][d]);
    }
    head(w, "cerium_guard_bytes_total", "counter", "Bytes that the watchdog read.");
    put(w, "cerium_guard_bytes_total %" PRIu64 "\n", m->guard_bytes);
    head(w, "cerium_guard_lines_total", "counter", "Lines that it judged; in prose, words.");
    put(w, "cerium_guard_lines_total %" PRIu64 "\n", m->guard_lines);
    head(w, "cerium_guard_microseconds_total", "counter", "Time that it took.");
    put(w, "cerium_guard_microseconds_total %" PRIu64 "\n", m->guard_ns / 1000);
    head(w, "cerium_guard_discarded_tokens_total", "counter", "Tokens of lines taken back.");
    put(w, "cerium_guard_discarded_tokens_total %" PRIu64 "\n", m->guard_discarded);
    head(w, "cerium_guard_held_bytes_max", "gauge", "Bytes held back at once, at most.");
    put(w, "cerium_guard_held_bytes_max %" PRIu64 "\n", m->guard_held);
}

static void put_times(writer *w, const char *name, const char *help, bool alias,
                      const metrics_times *t)
{
    char labels[3 * METRICS_LABEL_BYTES_MAX + 32] = "";
    uint64_t below = 0;
    if (alias) snprintf(labels, sizeof labels, "model_name=\"%s\"", w->model);
    head(w, name, "histogram", help);
    for (size_t i = 0; i < METRICS_BUCKETS; i++) {
        below += t->buckets[i];
        put(w, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name, labels, alias ? "," : "",
            bounds[i], below);
    }
    put(w, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, alias ? "," : "", t->n);
    put(w, alias ? "%s_sum{%s} %.9g\n" : "%s_sum%s %.9g\n", name, labels, t->sum_s);
    put(w, alias ? "%s_count{%s} %" PRIu64 "\n" : "%s_count%s %" PRIu64 "\n", name, labels, t->n);
}

static void put_value(writer *w, const char *name, const char *type, const char *help,
                      double value)
{
    head(w, name, type, help);
    if (strncmp(name, "vllm:", 5) == 0) {
        put(w, "%s{model_name=\"%s\"} %.17g\n", name, w->model, value);
    } else {
        put(w, "%s %.17g\n", name, value);
    }
}

/* These show a client that blocks the loop. */
static void put_loop(writer *w, const metrics *m)
{
    const net_turns *t = &m->turns;
    head(w, "cerium_waiting_bytes", "gauge", "Bytes of requests and answers in memory.");
    put(w, "cerium_waiting_bytes{way=\"in\"} %" PRIu64 "\n", m->input_bytes);
    put(w, "cerium_waiting_bytes{way=\"out\"} %" PRIu64 "\n", m->output_bytes);
    put_value(w, "cerium_recorded_bytes", "gauge", "Events that streams can be resumed from.",
              (double)m->recorded_bytes);
    head(w, "cerium_loop_turn_seconds", "histogram", "Work of the event loop between two waits.");
    for (size_t i = 0; i < NET_TURN_BUCKETS; i++)
        put(w, "cerium_loop_turn_seconds_bucket{le=\"%g\"} %" PRIu64 "\n", net_turn_bounds[i],
            t->n_within[i]);
    put(w, "cerium_loop_turn_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", t->n);
    put(w, "cerium_loop_turn_seconds_sum %.9g\n", t->seconds);
    put(w, "cerium_loop_turn_seconds_count %" PRIu64 "\n", t->n);
    put_value(w, "cerium_loop_turn_seconds_max", "gauge", "The longest one.", t->longest);
}

/* Usage of answers, as shown to their clients. */
static void put_used(writer *w, const metrics *m)
{
    static const char counter[] = "counter";
    const metrics_used *here = &m->used[METRICS_HERE], *there = &m->used[METRICS_UPSTREAM];
    put_value(w, "cerium_prompt_tokens_total", counter, "Tokens of prompts.",
              (double)(here->prompt + there->prompt));
    put_value(w, "cerium_reused_tokens_total", counter, "Tokens of prompts found in a cache.",
              (double)(here->reused + there->reused));
    put_value(w, "cerium_new_tokens_total", counter, "Tokens of answers.",
              (double)(here->generated + there->generated));
    put_value(w, "cerium_forwarded_prompt_tokens_total", counter,
              "Tokens of prompts that upstreams answered.", (double)there->prompt);
    put_value(w, "cerium_forwarded_new_tokens_total", counter, "Tokens of answers of upstreams.",
              (double)there->generated);
    put_value(w, "vllm:prompt_tokens_total", counter, "Tokens of prompts.", (double)here->prompt);
    put_value(w, "vllm:generation_tokens_total", counter, "Tokens of answers.",
              (double)here->generated);
}

static void put_by_class(writer *w, const char *name, const char *help,
                         const uint32_t values[CERIUM_CLASSES])
{
    head(w, name, "gauge", help);
    for (size_t c = 0; c < CERIUM_CLASSES; c++)
        put(w, "%s{class=\"%s\"} %" PRIu32 "\n", name, classes[c], values[c]);
}

static void put_engine(writer *w, const metrics_engine *e)
{
    const cerium_engine_stats *s = &e->stats;
    static const char counter[] = "counter";
    put_by_class(w, "cerium_requests_running", "Requests that had their first pass, by class.",
                 s->running);
    put_by_class(w, "cerium_requests_waiting", "Requests without a first pass, by class.",
                 s->waiting);
    head(w, "cerium_kv_pages", "gauge", "Pages of the KV cache, by use.");
    put(w, "cerium_kv_pages{use=\"sessions\"} %" PRIu64 "\n", s->kv_pages_used);
    put(w, "cerium_kv_pages{use=\"cached\"} %" PRIu64 "\n", s->kv_pages_cached);
    head(w, "cerium_kv_pages_max", "gauge", "Pages that the KV cache can have.");
    put(w, "cerium_kv_pages_max %" PRIu64 "\n", s->kv_pages_max);
    head(w, "cerium_kv_page_bytes", "gauge", "Memory of a page, taken when it is first used.");
    put(w, "cerium_kv_page_bytes %" PRIu64 "\n", e->page_bytes);
    put_value(w, "cerium_engine_prompt_tokens_total", counter,
              "Tokens of prompts that the engine was given: of each text, tries included.",
              (double)s->prompt_tokens);
    put_value(w, "cerium_engine_reused_tokens_total", counter,
              "Tokens of prompts that it found in a cache.",
              (double)s->reused_tokens);
    put_value(w, "cerium_engine_new_tokens_total", counter,
              "Tokens that the engine sampled, sent or not.", (double)s->new_tokens);
    put_value(w, "cerium_drafted_tokens_total", counter, "Draft tokens that were tried.",
              (double)s->drafted_tokens);
    put_value(w, "cerium_accepted_tokens_total", counter, "Draft tokens that were accepted.",
              (double)s->accepted_tokens);
    put_value(w, "cerium_draft_model_drafted_tokens_total", counter,
              "Tokens of a draft model that were tried.", (double)s->model_drafted_tokens);
    put_value(w, "cerium_draft_model_accepted_tokens_total", counter,
              "Tokens of a draft model that were accepted.",
              (double)s->model_accepted_tokens);
    put_value(w, "cerium_draft_model_passes_total", counter, "Passes of the draft model.",
              (double)s->draft_model_passes);
    put_value(w, "cerium_draft_model_seconds_total", counter,
              "Processor time of one thread of the draft model.", (double)s->draft_model_ns * 1e-9);
    put_value(w, "cerium_passes_total", counter, "Passes through the model.", (double)s->passes);
    put_value(w, "cerium_preempted_passes_total", counter,
              "Passes cut short for a higher class.", (double)s->preempted_passes);
    put_value(w, "cerium_shared_rows_total", counter,
              "Tokens of requests that another's row was computed for.", (double)s->shared_rows);
    put_value(w, "cerium_busy_seconds_total", counter, "Time in passes.",
              (double)s->busy_ns * 1e-9);
}

/* For KV on disk. */
static void put_disk(writer *w, const cerium_engine_stats *s)
{
    const struct {
        const char *name, *type, *help;
        uint64_t value;
    } all[] = {
        {"cerium_kv_disk_bytes", "gauge", "Bytes of the files of KV.", s->kv_disk_bytes},
        {"cerium_kv_disk_bytes_max", "gauge", "As many as they may have.", s->kv_disk_bytes_max},
        {"cerium_kv_disk_pages", "gauge", "Pages that can be found on disk.", s->kv_disk_pages},
        {"cerium_kv_disk_waiting_pages", "gauge", "Pages that wait to be written.",
         s->kv_disk_waiting_pages},
        {"cerium_kv_disk_failed", "gauge", "1 after a file could not be written.",
         s->kv_disk_failed},
        {"cerium_kv_disk_written_pages_total", "counter", "Pages written.",
         s->kv_disk_written_pages},
        {"cerium_kv_disk_read_pages_total", "counter", "Pages read.", s->kv_disk_loaded_pages},
        {"cerium_kv_disk_evicted_pages_total", "counter", "Pages given up for others.",
         s->kv_disk_evicted_pages},
        {"cerium_kv_disk_damaged_pages_total", "counter", "Pages that were not as written.",
         s->kv_disk_damaged_pages},
        {"cerium_kv_disk_states", "gauge", "States of recurrent layers that are on disk.",
         s->kv_disk_states},
        {"cerium_kv_disk_written_states_total", "counter", "States written.",
         s->kv_disk_written_states},
        {"cerium_kv_disk_read_states_total", "counter", "States read.", s->kv_disk_loaded_states},
        {"cerium_kv_disk_evicted_states_total", "counter", "States given up for others.",
         s->kv_disk_evicted_states},
        {"cerium_kv_disk_damaged_states_total", "counter", "States that were not as written.",
         s->kv_disk_damaged_states},
        {"cerium_kv_disk_lookups_total", "counter", "Prompts that were looked up on disk.",
         s->kv_disk_lookups},
        {"cerium_kv_disk_hits_total", "counter", "Prompts of which the disk had more than memory.",
         s->kv_disk_hits},
    };
    for (size_t i = 0; s->kv_disk_bytes_max && i < ARRAY_LEN(all); i++)
        put_value(w, all[i].name, all[i].type, all[i].help, (double)all[i].value);
}

static void put_each(writer *w, const metrics_engine *e, const char *name, const char *type,
                     const char *help, double (*value)(const metrics_model *m))
{
    head(w, name, type, help);
    for (uint32_t i = 0; i < e->n_models; i++) {
        char label[3 * METRICS_LABEL_BYTES_MAX];
        quote(label, sizeof label, e->models[i].name);
        put(w, "%s{model=\"%s\"} %.17g\n", name, label, value(&e->models[i]));
    }
}

static double is_loaded(const metrics_model *m) { return m->is_loaded; }
static double bytes_of(const metrics_model *m) { return (double)m->bytes; }
static double loads_of(const metrics_model *m) { return (double)m->n_loads; }
static double prompt_of(const metrics_model *m) { return (double)m->stats.prompt_tokens; }
static double new_of(const metrics_model *m) { return (double)m->stats.new_tokens; }
static double busy_of(const metrics_model *m) { return (double)m->stats.busy_ns * 1e-9; }
static double pages_of(const metrics_model *m) { return (double)m->stats.kv_pages_used; }

static double running_of(const metrics_model *m)
{
    double n = 0;
    for (size_t c = 0; c < CERIUM_CLASSES; c++) n += m->stats.running[c];
    return n;
}

/* The sums over all engines are in the series of engines. */
static void put_models(writer *w, const metrics_engine *e)
{
    static const char counter[] = "counter", gauge[] = "gauge";
    put_each(w, e, "cerium_model_loaded", gauge, "1 where the model is in memory.", is_loaded);
    put_each(w, e, "cerium_model_bytes", gauge, "Memory that it takes when it is.", bytes_of);
    put_value(w, "cerium_models_bytes_max", gauge, "Memory that models may take.",
              (double)e->models_bytes_max);
    put_each(w, e, "cerium_model_loads_total", counter, "How often it was loaded.", loads_of);
    put_each(w, e, "cerium_model_requests_running", gauge, "Its requests that run.", running_of);
    put_each(w, e, "cerium_model_kv_pages", gauge, "Its pages that sessions use.", pages_of);
    put_each(w, e, "cerium_model_prompt_tokens_total", counter, "Tokens of its prompts.",
             prompt_of);
    put_each(w, e, "cerium_model_new_tokens_total", counter, "Tokens that it sampled.", new_of);
    put_each(w, e, "cerium_model_busy_seconds_total", counter, "Time in its passes.", busy_of);
}

static void put_store(writer *w, const metrics_engine *e)
{
    head(w, "cerium_store_bytes", "gauge", "Bytes that stored responses take.");
    put(w, "cerium_store_bytes %" PRIu64 "\n", e->store_bytes);
    head(w, "cerium_store_responses", "gauge", "Responses that are stored.");
    put(w, "cerium_store_responses %" PRIu64 "\n", e->store_responses);
    head(w, "cerium_store_expired_total", "counter",
         "Stored responses removed for age or for room.");
    put(w, "cerium_store_expired_total %" PRIu64 "\n", e->store_expired);
}

/* The metrics that the inference extension's endpoint picker scrapes.  Cached pages that no session
 * holds can be had at once, so they are not usage, as in vLLM. */
static void put_protocol(writer *w, const metrics_engine *e)
{
    const cerium_engine_stats *s = &e->stats;
    double running = 0, waiting = 0;
    double used = s->kv_pages_max ? (double)s->kv_pages_used / (double)s->kv_pages_max : 0;
    for (size_t c = 0; c < CERIUM_CLASSES; c++) running += s->running[c];
    for (size_t c = 0; c < CERIUM_CLASSES; c++) waiting += s->waiting[c];
    put_value(w, "vllm:num_requests_running", "gauge", "Requests being computed.", running);
    put_value(w, "vllm:num_requests_waiting", "gauge", "Requests in the queue.", waiting);
    put_value(w, "vllm:kv_cache_usage_perc", "gauge", "Used share of the KV cache, 0 to 1.", used);
    put_value(w, "vllm:gpu_cache_usage_perc", "gauge",
              "The same by the name that older versions read.", used);
    head(w, "vllm:cache_config_info", "gauge", "Size of the KV cache.");
    put(w, "vllm:cache_config_info{model_name=\"%s\",block_size=\"%" PRIu32
           "\",num_gpu_blocks=\"%" PRIu64 "\",enable_prefix_caching=\"True\"} 1\n",
        w->model, e->page_tokens, s->kv_pages_max);
    head(w, "vllm:lora_requests_info", "gauge", "Adapters: there are none.");
    put(w, "vllm:lora_requests_info{max_lora=\"0\",running_lora_adapters=\"\","
           "waiting_lora_adapters=\"\"} %" PRId64 "\n", e->started_at);
    put_value(w, "vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the cache.",
              (double)s->prompt_tokens);
    put_value(w, "vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in tokens.",
              (double)s->reused_tokens);
    put_value(w, "vllm:num_preemptions_total", "counter", "Passes cut short.",
              (double)s->preempted_passes);
}

/* Number `field` (from 1) of a /proc file whose fields are numbers; 0 when missing. */
static double proc_field(const char *path, int field)
{
    char text[512];
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[len] = 0;
    const char *at = text;
    for (int i = 1; i < field && at; i++) at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    return at ? strtod(at, NULL) : 0;
}

static double open_files(void)
{
    double n = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *e; folder && (e = readdir(folder));) n += e->d_name[0] != '.';
    if (folder) closedir(folder);
    return n ? n - 1 : 0; /* without the folder itself */
}

static void put_process(writer *w, const metrics_engine *e)
{
    put_value(w, "process_cpu_seconds_total", "counter", "Processor time used.",
              (double)clock_process_ns() * 1e-9);
    put_value(w, "process_resident_memory_bytes", "gauge", "Memory in use.",
              proc_field("/proc/self/statm", 2) * (double)sysconf(_SC_PAGESIZE));
    put_value(w, "process_open_fds", "gauge", "Open files and sockets.", open_files());
    put_value(w, "process_start_time_seconds", "gauge", "When the server started.",
              (double)e->started_at);
}

int metrics_text(bytes *out, const metrics *m, const metrics_engine *engine)
{
    writer w = {.out = out};
    CHECK(out && m && engine && engine->model);
    size_t before = out->len;
    quote(w.model, sizeof w.model, engine->model);
    head(&w, "cerium_build_info", "gauge", "This program and its model.");
    put(&w, "cerium_build_info{version=\"%s\",model=\"%s\",replay=\"%s\"} 1\n", cerium_version(),
        w.model, engine->replay ? "on" : "off");
    put_value(&w, "cerium_context_tokens_max", "gauge", "Tokens of one context.",
              engine->context_tokens_max);
    put_requests(&w, m);
    put_loop(&w, m);
    put_guard(&w, m);
    for (size_t i = 0; i < METRICS_HISTOGRAMS; i++) {
        put_times(&w, histograms[i].name, histograms[i].help, false, &m->times[i]);
        put_times(&w, histograms[i].alias, histograms[i].help, true, &m->times[i]);
    }
    put_used(&w, m);
    put_engine(&w, engine);
    put_models(&w, engine);
    put_disk(&w, &engine->stats);
    put_store(&w, engine);
    put_protocol(&w, engine);
    put_process(&w, engine);
    if (w.status) out->len = before;
    return w.status;
}
