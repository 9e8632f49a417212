/* test_metrics.c - all counts are in the text, and Prometheus can parse it. */
#include "server/metrics.h"

#include "base/limits.h"

#include "unit.h"

static const metrics_engine engine = {
    .model = "cerium \"first\"\\\n", .page_tokens = 64, .page_bytes = 98304,
    .context_tokens_max = 2048,
    .started_at = 1795227342,
    .stats = {.running = {1, 2, 3, 4}, .waiting = {0, 5, 0, 1}, .kv_pages_max = 200,
              .kv_pages_used = 50, .kv_pages_cached = 100, .prompt_tokens = 9007199254740993,
              .reused_tokens = 640, .new_tokens = 77, .busy_ns = 1500000000},
};

static bytes text_of(const metrics *m)
{
    bytes out = {.max = METRICS_TEXT_BYTES_MAX};
    TEST_CHECK(metrics_text(&out, m, &engine) == CERIUM_OK);
    TEST_CHECK(bytes_append(&out, "", 1) == CERIUM_OK); /* for strstr */
    return out;
}

static bool has_line(const bytes *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = text->ptr; (at = strstr(at, line)); at++)
        if ((at == text->ptr || at[-1] == '\n') && at[len] == '\n') return true;
    printf("    no line: %s\n", line);
    return false;
}

static void test_counts(void)
{
    static metrics m;
    m.sockets_open = 12;
    metrics_count(&m, METRICS_CONNECTIONS, 3);
    metrics_count(&m, METRICS_CONNECTIONS, 1);
    metrics_request(&m, METRICS_CHAT, 200);
    metrics_request(&m, METRICS_CHAT, 200);
    metrics_request(&m, METRICS_RESPONSES_SOCKET, 101);
    metrics_request(&m, METRICS_OTHER, 418);
    metrics_request(&m, METRICS_OTHER, 0);
    bytes text = text_of(&m);
    TEST_CHECK(has_line(&text, "cerium_connections_total 4"));
    TEST_CHECK(has_line(&text, "cerium_requests_total{route=\"/v1/chat/completions\","
                               "status=\"200\"} 2"));
    TEST_CHECK(has_line(&text, "cerium_requests_total{route=\"/v1/responses (websocket)\","
                               "status=\"101\"} 1"));
    TEST_CHECK(has_line(&text, "cerium_requests_total{route=\"other\",status=\"other\"} 2"));
    TEST_CHECK(has_line(&text, "cerium_open{what=\"websockets\"} 12"));
    TEST_CHECK(has_line(&text, "cerium_busy_seconds_total 1.5"));
    TEST_CHECK(has_line(&text, "cerium_kv_page_bytes 98304"));
    TEST_CHECK(!strstr(text.ptr, "status=\"400\""));
    bytes_free(&text);
}

/* Metrics of the disk, if there is one. */
static void test_disk(void)
{
    static metrics m;
    metrics_engine kept = engine;
    bytes text = text_of(&m);
    TEST_CHECK(!strstr(text.ptr, "kv_disk"));
    bytes_free(&text);
    kept.stats.kv_disk_bytes_max = 4096, kept.stats.kv_disk_bytes = 1024;
    kept.stats.kv_disk_pages = 3, kept.stats.kv_disk_waiting_pages = 4;
    kept.stats.kv_disk_written_pages = 5, kept.stats.kv_disk_loaded_pages = 6;
    kept.stats.kv_disk_evicted_pages = 7, kept.stats.kv_disk_damaged_pages = 8;
    kept.stats.kv_disk_states = 11, kept.stats.kv_disk_written_states = 12;
    kept.stats.kv_disk_loaded_states = 13, kept.stats.kv_disk_evicted_states = 14;
    kept.stats.kv_disk_damaged_states = 15;
    kept.stats.kv_disk_lookups = 10, kept.stats.kv_disk_hits = 9;
    kept.stats.kv_disk_failed = true;
    text = (bytes){.max = METRICS_TEXT_BYTES_MAX};
    TEST_CHECK(metrics_text(&text, &m, &kept) == CERIUM_OK && !bytes_append(&text, "", 1));
    static const char *const lines[] = {
        "cerium_kv_disk_bytes 1024", "cerium_kv_disk_bytes_max 4096", "cerium_kv_disk_pages 3",
        "cerium_kv_disk_waiting_pages 4", "cerium_kv_disk_written_pages_total 5",
        "cerium_kv_disk_read_pages_total 6", "cerium_kv_disk_evicted_pages_total 7",
        "cerium_kv_disk_damaged_pages_total 8", "cerium_kv_disk_hits_total 9",
        "cerium_kv_disk_states 11", "cerium_kv_disk_written_states_total 12",
        "cerium_kv_disk_read_states_total 13", "cerium_kv_disk_evicted_states_total 14",
        "cerium_kv_disk_damaged_states_total 15", "cerium_kv_disk_lookups_total 10",
        "cerium_kv_disk_failed 1",
        "# TYPE cerium_kv_disk_hits_total counter"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        TEST_CHECK(has_line(&text, lines[i]));
    bytes_free(&text);
}

/* The names of the Gateway API inference extension's model server protocol. */
static void test_gateway_names(void)
{
    static metrics m;
    bytes text = text_of(&m);
    const char *label = "{model_name=\"cerium \\\"first\\\"\\\\\\n\"}";
    char line[256];
    snprintf(line, sizeof line, "vllm:num_requests_waiting%s 6", label);
    TEST_CHECK(has_line(&text, line));
    snprintf(line, sizeof line, "vllm:num_requests_running%s 10", label);
    TEST_CHECK(has_line(&text, line));
    snprintf(line, sizeof line, "vllm:kv_cache_usage_perc%s 0.25", label);
    TEST_CHECK(has_line(&text, line));
    snprintf(line, sizeof line, "vllm:gpu_cache_usage_perc%s 0.25", label);
    TEST_CHECK(has_line(&text, line));
    TEST_CHECK(strstr(text.ptr, "block_size=\"64\",num_gpu_blocks=\"200\""));
    TEST_CHECK(strstr(text.ptr, "vllm:lora_requests_info{max_lora=\"0\""));
    bytes_free(&text);
}

/* Usage is counted once, wherever an answer was computed. */
static void test_used(void)
{
    static metrics m;
    const metrics_used here = {.prompt = 100, .reused = 64, .generated = 11};
    const metrics_used there = {.prompt = 20, .reused = 0, .generated = 3};
    metrics_metered(&m, CERIUM_CLASS_TURN, METRICS_HERE, &here);
    metrics_metered(&m, CERIUM_CLASS_BATCH, METRICS_UPSTREAM, &there);
    bytes text = text_of(&m);
    TEST_CHECK(has_line(&text, "cerium_answers_total{class=\"turn\"} 1"));
    TEST_CHECK(has_line(&text, "cerium_answers_total{class=\"batch\"} 1"));
    TEST_CHECK(has_line(&text, "cerium_prompt_tokens_total 120"));
    TEST_CHECK(has_line(&text, "cerium_reused_tokens_total 64"));
    TEST_CHECK(has_line(&text, "cerium_new_tokens_total 14"));
    TEST_CHECK(has_line(&text, "cerium_forwarded_prompt_tokens_total 20"));
    TEST_CHECK(has_line(&text, "cerium_forwarded_new_tokens_total 3"));
    bytes_free(&text);
}

static void test_times(void)
{
    static metrics m;
    cerium_usage usage = {.prompt_tokens = 100, .reused_tokens = 64, .computed_tokens = 36,
                          .new_tokens = 11, .queue_ns = 50000, .prompt_ns = 20000000,
                          .first_token_ns = 30000000, .duration_ns = 130000000};
    metrics_ended(&m, METRICS_END_STOP, &usage);
    /* Canceled before its prompt was computed: no times of prompt, token or gap. */
    usage = (cerium_usage){.prompt_tokens = 100, .computed_tokens = 3, .queue_ns = UINT64_MAX,
                           .duration_ns = 1};
    metrics_ended(&m, METRICS_END_ABORT, &usage);
    bytes text = text_of(&m);
    TEST_CHECK(has_line(&text, "cerium_first_token_seconds_bucket{le=\"0.025\"} 0"));
    TEST_CHECK(has_line(&text, "cerium_first_token_seconds_bucket{le=\"0.05\"} 1"));
    TEST_CHECK(has_line(&text, "cerium_first_token_seconds_count 1"));
    TEST_CHECK(has_line(&text, "cerium_first_token_seconds_sum 0.03"));
    /* Ten gaps of 10 ms. */
    TEST_CHECK(has_line(&text, "cerium_token_gap_seconds_bucket{le=\"0.005\"} 0"));
    TEST_CHECK(has_line(&text, "cerium_token_gap_seconds_bucket{le=\"0.01\"} 10"));
    TEST_CHECK(has_line(&text, "cerium_token_gap_seconds_sum 0.1"));
    TEST_CHECK(has_line(&text, "cerium_queue_seconds_bucket{le=\"3600\"} 1"));
    TEST_CHECK(has_line(&text, "cerium_queue_seconds_bucket{le=\"+Inf\"} 2"));
    TEST_CHECK(has_line(&text, "cerium_prompt_seconds_count 1"));
    TEST_CHECK(strstr(text.ptr, "finished_reason=\"abort\"} 1"));
    bytes_free(&text);
}

/* Every sample belongs to the family of the head before it; buckets never decrease. */
static void test_form(void)
{
    static metrics m;
    for (int route = 0; route < METRICS_ROUTES; route++)
        for (int status = 0; status < 600; status++) metrics_request(&m, route, status);
    for (int i = 0; i < 1000; i++) metrics_time(&m, i % METRICS_HISTOGRAMS, 1ull << i % 63, 1);
    bytes text = text_of(&m);
    char family[128] = "", seen[8192] = "";
    unsigned long long last = 0;
    for (char *line = text.ptr, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        TEST_CHECK(end);
        if (!end) break;
        *end = 0;
        if (sscanf(line, "# HELP %127s", family) == 1) {
            char again[140];
            snprintf(again, sizeof again, "|%s|", family);
            TEST_CHECK_THAT(!strstr(seen, again), "%s twice", family);
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s", again);
            last = 0;
        } else if (line[0] == '#') {
            TEST_CHECK(!strncmp(line, "# TYPE ", 7) && strstr(line, family));
        } else {
            size_t name = strcspn(line, "{ ");
            char *value = strrchr(line, ' '), *rest;
            TEST_CHECK_THAT(!strncmp(line, family, strlen(family)), "%s in %s", line, family);
            TEST_CHECK(value && (strtod(value, &rest), !*rest) && name >= strlen(family));
            if (!strstr(line, "_bucket{")) continue;
            unsigned long long n = strtoull(value, NULL, 10);
            TEST_CHECK_THAT(n >= last, "%s", line);
            last = n;
        }
    }
    bytes_free(&text);
}

/* It fits with everything in it, and without room it leaves the buffer unchanged. */
static void test_room(void)
{
    static metrics m;
    memset(&m, 0x77, sizeof m);
    bytes out = {.max = METRICS_TEXT_BYTES_MAX};
    TEST_CHECK(metrics_text(&out, &m, &engine) == CERIUM_OK);
    TEST_CHECK(out.len < METRICS_TEXT_BYTES_MAX / 2);
    bytes_free(&out);
    bytes small = {.max = 5000};
    TEST_CHECK(!bytes_append(&small, "abc", 3));
    TEST_CHECK(metrics_text(&small, &m, &engine) == CERIUM_ERR_CAPACITY && small.len == 3);
    memory_fail_at(1);
    TEST_CHECK(metrics_text(&small, &m, &engine) != CERIUM_OK && small.len == 3);
    memory_fail_at(-1);
    bytes_free(&small);
}

int main(void)
{
    TEST_RUN(test_counts);
    TEST_RUN(test_disk);
    TEST_RUN(test_gateway_names);
    TEST_RUN(test_used);
    TEST_RUN(test_times);
    TEST_RUN(test_form);
    TEST_RUN(test_room);
    return unit_report("metrics");
}
