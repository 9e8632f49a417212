/* test_wafer_machines.c - descriptions of machines and models, and everything wrong with them. */
#include "base/memory.h"
#include "unit.h"
#include "wafer/machines.h"
#include "wafer/rows.h"
#include "wafer/shapes.h"

static char text[64 << 10];

static size_t load(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    return n;
}

static void test_all_machines(void)
{
    static const char *const names[] = {"wse2",  "wse3",     "cs3",      "cs4",
                                        "small", "dgx-h100", "dgx-h200", "dgx-b200"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char path[64];
        cerium_error err = {0};
        wafer_machine m;
        snprintf(path, sizeof path, "machines/%s.ini", names[i]);
        int status = machine_open(&m, path, &err);
        TEST_CHECK_THAT(!status, "%s", err.message);
        if (status) continue;
        TEST_CHECK(!strcmp(m.name, names[i]));
        TEST_CHECK(m.is_gpu == !strncmp(names[i], "dgx", 3));
        TEST_CHECK(m.price_usd.low <= m.price_usd.high && m.power_kw.low > 0);
        machine_close(&m);
    }
    TEST_CHECK(memory_live() == 0);
}

/* The description of `small` with one line changed: "key" becomes `line`. */
static int parse_with(const char *key, const char *line, cerium_error *err)
{
    char changed[64 << 10];
    wafer_machine m;
    size_t n = load("machines/small.ini"), used = 0;
    const size_t key_len = strlen(key);
    for (size_t at = 0; at < n;) {
        size_t len = strcspn(text + at, "\n") + 1;
        const bool hit = !strncmp(text + at, key, key_len) && text[at + key_len] == ' ';
        used += (size_t)snprintf(changed + used, sizeof changed - used, "%.*s",
                                 hit ? (int)strlen(line) : (int)len, hit ? line : text + at);
        if (hit) changed[used++] = '\n';
        at += len;
    }
    int status = machine_parse(&m, (view){changed, used}, "x.ini", err);
    if (!status) machine_close(&m);
    return status;
}

static void check_refused(const char *key, const char *line, const char *place, const char *why)
{
    cerium_error err = {0};
    int status = parse_with(key, line, &err);
    TEST_CHECK_THAT(status == CERIUM_ERR_FORMAT, "%s: accepted", line);
    TEST_CHECK_THAT(!strncmp(err.message, place, strlen(place)) && strstr(err.message, why),
                    "%s: %s", line, err.message);
}

static void test_impossible(void)
{
    check_refused("width", "width = 11", "x.ini:7: ", "the grid is 10 wide");
    check_refused("sram_bytes", "sram_bytes = 15504", "x.ini:19: ", "leaves nothing");
    check_refused("hop_cycles", "hop_cycles = 0", "x.ini:10: ", "is impossible; it must be 1 to");
    check_refused("clock_ghz", "clock_ghz = 1.1 .. 0.85", "x.ini:12: ", "lower end first");
    check_refused("clock_ghz", "clock_ghz = fast", "x.ini:12: ", "takes a number");
    check_refused("clock_ghz", "clock_ghz = nan", "x.ini:12: ", "");
    check_refused("colours", "colours = 24 blue", "x.ini:13: ", "whole number");
    check_refused("colours", "colors = 24", "x.ini:13: ", "there is no key colors");
    check_refused("colours", "colours = 1", "x.ini:16: ", "colours are reserved");
    check_refused("colours", "width = 8", "x.ini:13: ", "stands in line 7 already");
    check_refused("colours", "nothing", "x.ini:13: ", "neither");
    check_refused("pue", "", "x.ini:", "key pue of [cost] is missing");
    check_refused("height", "height = 8\ndead = 8,1", "x.ini:", "lies outside 8 x 8");
    check_refused("height", "height = 8\ndead = 1;1", "x.ini:9: ", "cores as x,y");
}

static void test_dead(void)
{
    cerium_error err = {0};
    wafer_machine m;
    load("machines/small.ini");
    char *at = strstr(text, "wafers = 4");
    CHECK(at);
    memcpy(at, "dead= 2,1 ", 10); /* in the place of a needed key */
    TEST_CHECK(machine_parse(&m, view_of(text), "x.ini", &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(err.message, "key wafers of [mesh] is missing") != NULL);
    load("machines/small.ini");
    snprintf(text + strlen(text), 64, "[mesh]\ndead = 2,1 0,1\n  7,7\n");
    int status = machine_parse(&m, view_of(text), "x.ini", &err);
    TEST_CHECK_THAT(!status, "%s", err.message);
    if (status) return;
    TEST_CHECK(m.mesh.n_dead == 3 && machine_is_dead(&m.mesh, 2, 1));
    TEST_CHECK(machine_is_dead(&m.mesh, 0, 1) && machine_is_dead(&m.mesh, 7, 7));
    TEST_CHECK(!machine_is_dead(&m.mesh, 1, 1) && !machine_is_dead(&m.mesh, 2, 2));
    machine_close(&m);
    TEST_CHECK(memory_live() == 0);
}

/* Public figures of the models: parameters of the whole. */
static void test_configs(void)
{
    static const struct {
        const char *name;
        double parameters, tolerance;
    } known[] = {{"llama-3-8b", 8.03e9, 0.003},
                 {"llama-3-70b", 70.6e9, 0.003},
                 {"qwen3-coder-30b-a3b", 30.5e9, 0.003},
                 {"gpt-oss-20b", 20.9e9, 0.005},
                 {"gpt-oss-120b", 116.8e9, 0.005}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        char path[96];
        cerium_error err = {0};
        wafer_model m;
        snprintf(path, sizeof path, "tests/wafer/configs/%s.json", known[i].name);
        int status = wafer_model_open(&m, path, &err);
        TEST_CHECK_THAT(!status, "%s", err.message);
        if (status) continue;
        const double off = (double)model_n_parameters(m.lowered) / known[i].parameters - 1;
        TEST_CHECK_THAT(off < known[i].tolerance && off > -known[i].tolerance, "%s: %+.4f",
                        known[i].name, off);
        TEST_CHECK(!strcmp(m.name, known[i].name));
        wafer_model_close(&m);
    }
    TEST_CHECK(memory_live() == 0);
}

static void check_config(const char *json, const char *why)
{
    cerium_error err = {0};
    shape_facts f;
    TEST_CHECK(shape_parse_config(&f, view_of(json), "c.json", &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(strstr(err.message, why) != NULL, "%s", err.message);
}

static void test_bad_configs(void)
{
    check_config("", "c.json:1: ");
    check_config("[1]", "not an object");
    check_config("{}", "model_type is missing");
    check_config("{\"model_type\": \"mamba\"}", "'mamba' is not supported");
    check_config("{\"model_type\": \"llama\"}", "num_hidden_layers is missing");
    check_config("{\"model_type\": \"llama\", \"num_hidden_layers\": -1}", "must be 0 to 512");
    check_config("{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
                 "\"num_attention_heads\": 4, \"vocab_size\": 9, \"max_position_embeddings\": 8}",
                 "intermediate_size is missing");
    check_config("{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
                 "\"num_attention_heads\": 4, \"vocab_size\": 9, \"max_position_embeddings\": 8, "
                 "\"intermediate_size\": 8, \"num_experts\": 2, \"num_experts_per_tok\": 3}",
                 "3 of 2 experts");
}

static void test_known_models(void)
{
    cerium_error err = {0};
    shape_facts f;
    size_t n = load("machines/models.ini");
    TEST_CHECK(!shape_parse_known(&f, (view){text, n}, "m", "qwen2-72b", &err));
    TEST_CHECK(f.n_layers == 80 && f.n_kv_heads == 8 && f.head_dim == 128);
    TEST_CHECK(!shape_parse_known(&f, (view){text, n}, "m", "LLaMA2 13B", &err));
    TEST_CHECK(f.n_layers == 40 && f.n_kv_heads == 40);
    TEST_CHECK(!shape_parse_known(&f, (view){text, n}, "m", "Meta-Llama-3.1-8B-Instruct", &err));
    TEST_CHECK(f.n_layers == 32 && f.context_tokens == 131072);
    TEST_CHECK(shape_parse_known(&f, (view){text, n}, "m", "GPT-9", &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK(strstr(err.message, "there is no model 'GPT-9'") != NULL);
    /* Every section lowers. */
    for (const char *at = strstr(text, "["); at; at = strstr(at + 1, "\n[")) {
        char name[64];
        wafer_model m;
        at += *at == '\n';
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "]"), at + 1);
        int status = shape_parse_known(&f, (view){text, n}, "m", name, &err);
        if (!status) status = wafer_model_of(&m, &f, name, &err);
        TEST_CHECK_THAT(!status, "%s: %s", name, err.message);
        if (!status) wafer_model_close(&m);
    }
    TEST_CHECK(memory_live() == 0);
}

static void test_memory(void)
{
    cerium_error err;
    load("machines/small.ini");
    snprintf(text + strlen(text), 64, "[mesh]\ndead = 2,1\n");
    for (long i = 0;; i++) {
        wafer_machine m;
        memory_fail_at(i);
        int status = machine_parse(&m, view_of(text), "x.ini", &err);
        memory_fail_at(-1);
        if (!status) machine_close(&m);
        TEST_CHECK(memory_live() == 0);
        if (!status || i > 100) break;
    }
    for (long i = 0;; i++) {
        wafer_model m;
        memory_fail_at(i);
        int status = wafer_model_open(&m, "tests/wafer/configs/gpt-oss-20b.json", &err);
        memory_fail_at(-1);
        if (!status) wafer_model_close(&m);
        TEST_CHECK_THAT(memory_live() == 0, "allocation %ld", i);
        if (!status) break;
        TEST_CHECK(err.status == CERIUM_ERR_MEMORY || err.status == CERIUM_ERR_FORMAT);
        CHECK(i < 10000);
    }
}

static void test_rows(void)
{
    cerium_error err = {0};
    published_rows r;
    view csv = VIEW("note,class,extra,model,metric,value,unit,id\r\n"
                    "\"a \"\"b\"\", c\nd\",x,1,\"m,1\",speed,2.5,tok/s,7\r\n\r\n"
                    ",y,,n,speed,3,ms,\n");
    TEST_CHECK(!rows_parse(&r, csv, "r.csv", &err));
    TEST_CHECK(r.n_rows == 2 && !strcmp(r.rows[0].note, "a \"b\", c\nd"));
    TEST_CHECK(!strcmp(r.rows[0].model, "m,1") && r.rows[0].value == 2.5);
    TEST_CHECK(!strcmp(r.rows[0].id, "7") && !strcmp(r.rows[1].id, "") && r.rows[1].value == 3);
    TEST_CHECK(r.rows[0].devices == 1 && !strcmp(r.rows[0].system, ""));
    rows_close(&r);
    TEST_CHECK(rows_parse(&r, VIEW("class,model,metric,unit\n"), "r", &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(err.message, "no column value") != NULL);
    TEST_CHECK(rows_parse(&r, VIEW("class,model,metric,value,unit\na,b,c,0,d\n"), "r", &err) ==
               CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(!strncmp(err.message, "r:2: ", 5), "%s", err.message);
    TEST_CHECK(rows_parse(&r, VIEW("class,model,metric,value,unit\na,b,c\n"), "r", &err) ==
               CERIUM_ERR_FORMAT);
    TEST_CHECK(memory_live() == 0);
}

int main(void)
{
    TEST_RUN(test_all_machines);
    TEST_RUN(test_impossible);
    TEST_RUN(test_dead);
    TEST_RUN(test_configs);
    TEST_RUN(test_bad_configs);
    TEST_RUN(test_known_models);
    TEST_RUN(test_memory);
    TEST_RUN(test_rows);
    return unit_report("wafer_machines");
}
