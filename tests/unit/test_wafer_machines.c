/* test_wafer_machines.c - descriptions of machines and models, and every fault in them. */
#include <math.h>

#include "base/memory.h"
#include "unit.h"
#include "wafer/machines.h"
#include "wafer/rows.h"
#include "wafer/shapes.h"
#include "wafer/validate.h"

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
    check_refused("colours", "colors = 24", "x.ini:13: ", "unknown key colors");
    check_refused("colours", "colours = 1", "x.ini:16: ", "colours are reserved");
    check_refused("colours", "width = 8", "x.ini:13: ", "is already set in line 7");
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
    memcpy(at, "dead= 2,1 ", 10); /* in place of a required key */
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
    TEST_CHECK(strstr(err.message, "unknown model 'GPT-9'") != NULL);
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
    TEST_CHECK(r.rows[0].devices == 0 && !strcmp(r.rows[0].system, ""));
    rows_close(&r);
    TEST_CHECK(rows_parse(&r, VIEW("model,metric,value,unit\n"), "r", &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(err.message, "no column class") != NULL);
    TEST_CHECK(rows_parse(&r, VIEW("class,model,metric,value,unit\na,b,c\n"), "r", &err) ==
               CERIUM_ERR_FORMAT);
    TEST_CHECK(memory_live() == 0);
}

/* The prediction for a row in any notation, in the row's unit. */
static double predict(const char *fields, bool *is_modelled)
{
    char csv[400];
    cerium_error err = {0};
    published_rows r;
    const wafer_style style = wafer_style_sdk();
    snprintf(csv, sizeof csv,
             "\xef\xbb\xbf Class ,system,devices,MODEL,precision,context,Value,unit\n"
             "%s\n",
             fields);
    TEST_CHECK_THAT(!rows_parse(&r, view_of(csv), "r", &err), "%s: %s", fields, err.message);
    const validated_row v = validate_row(&r.rows[0], &style);
    TEST_CHECK(v.has_error == (v.is_modelled && r.rows[0].value > 0));
    rows_close(&r);
    *is_modelled = v.is_modelled;
    return v.predicted;
}

static void test_spellings(void)
{
    static const struct {
        const char *one, *other;
        double factor; /* prediction for one / for other */
    } same[] = {
        {"wse_decode,WSE-2 420x420 PEs,1,LLaMA3-8B,fp16,4K,,tok/s",
         "wse_decode,Cerebras WSE2 (420 \xc3\x97 420),,meta-llama/Meta-Llama-3-8B-Instruct,,,~1,",
         1},
        {"wse_decode,WSE-2 P=420,1,LLaMA3-8B,fp16,4K,1,cycles/layer",
         "wse_decode,WSE-2 420x420,1,Llama 3 8B,fp16,4096 tokens,\"2,699\",cycles", 1.0 / 32},
        {"gpu_decode,8x H200 SGLang,,Qwen3-Coder-30B-A3B,fp8,short,5,ms",
         "gpu_decode,H200 SGLang "
         "TP8,n/a,Qwen/Qwen3-Coder-30B-A3B-Instruct-2507-FP8,FP8,-,x,\xc2\xb5s",
         1e-3},
        {"gpu_decode,H100,1,Llama-3.1-8B,W4A16,1K in / 2K out,>1,tokens/s/user",
         "gpu_decode,H100,1,Llama-3.1-8B-AWQ,int4,2K,1,TPS", 1},
        {"wse_gemv,WSE-2 600x600,1,GEMV 16K,,,,ms", "wse_gemv,WSE-2 600 * 600,1,GEMV,,16Kx16K,,us",
         1e-3},
    };
    static const char *const unknown[] = {
        "gpu_decode,GPU-9000,1,Llama-3.1-8B,fp16,4K,1,tok/s",
        "gpu_decode,H100,1,Mixtral-9x9B,fp16,4K,1,tok/s",
        "gpu_decode,H100,1,Llama-3.1-8B,fp16,4K,1,furlongs",
        "gpu_decode,H100,1,,fp16,4K,1,tok/s",
        "wse_decode,WSE-2,1,LLaMA3-8B,fp16,4K,1,tok/s",
        "wse_collective,CS-2 8x8,1,AllReduce scalar,,,1,cycles/layer",
    };
    bool is_modelled;
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        const double a = predict(same[i].one, &is_modelled);
        TEST_CHECK_THAT(is_modelled && a > 0, "%s", same[i].one);
        const double b = predict(same[i].other, &is_modelled) * same[i].factor;
        TEST_CHECK_THAT(is_modelled && fabs(a / b - 1) < 1e-9, "%s: %g and %g", same[i].one, a, b);
    }
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        (void)predict(unknown[i], &is_modelled);
        TEST_CHECK_THAT(!is_modelled, "%s", unknown[i]);
    }
}

/* Published figures that no constant was fitted to, each within its stated error. */
static void test_figures_apart(void)
{
    static const struct {
        const char *fields;
        double low, high;
    } figures[] = {
        /* SC20: below 1.5 us over about 380,000 cores, a tenth above the diameter */
        {"wse_collective,CS-1 602x595,1,AllReduce scalar,,,1.5,us", 1.4, 1.55},
        /* SC24: around a microsecond from edge to edge */
        {"wse_collective,CS-2,1,edge-to-edge,,,1,us", 0.8, 1.2},
        /* HPDC'24: 2-D broadcast B + M + N - 2 + 2 T_R + 1 */
        {"wse_collective,CS-2 512x512,1,\"Broadcast, 64 wavelets\",,,1,cycles", 1091, 1091},
        /* a megakernel reaches 78 % of the bandwidth on a 1B model */
        {"gpu_decode,H100 megakernel,1,Llama-3.2-1B,bf16,short,78,%", 77, 79},
        /* an H100 serves an 8B model at 100 to 200 tokens/s, and 70B in fp8 at about 50 */
        {"gpu_decode,H100,1,Llama-3.1-8B,bf16,short,150,tok/s", 100, 200},
        {"gpu_decode,H200,1,Llama-3.3-70B,fp8,short,50,tok/s", 46, 54},
        /* NCCL on 4 x H100: 22.7 to 23.1 us, in a graph 11.8 to 13.6, up to 64 KB */
        {"gpu_collective,4x H100 NCCL eager,4,AllReduce 64 KB,,,23,us", 22.7, 23.2},
        {"gpu_collective,4x H100 NCCL in CUDA graph,4,AllReduce 1 KB,,,12,us", 11.8, 13.6},
        /* few rows of a prompt: 15 GB of weights at 80 % of 3.35 TB/s */
        {"gpu_prefill,H100,1,Llama-3.1-8B,fp16,16,6,ms", 5.5, 6.0},
        /* many: 66 TFLOP at 60 % of 8 x 312 TFLOPS, and 64 sums of 34 MB at 80 % of 300 GB/s */
        {"gpu_prefill,8x A100 SGLang,8,LLaMA3-8B,fp16,4K,60,ms", 43 + 15.6, 47 + 15.7},
    };
    bool is_modelled;
    for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
        const double x = predict(figures[i].fields, &is_modelled);
        TEST_CHECK_THAT(is_modelled && x >= figures[i].low && x <= figures[i].high, "%s: %g",
                        figures[i].fields, x);
    }
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
    TEST_RUN(test_spellings);
    TEST_RUN(test_figures_apart);
    return unit_report("wafer_machines");
}
