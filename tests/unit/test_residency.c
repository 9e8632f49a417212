/* test_residency.c - where weights and KV are placed on described machines, and the plan as it
 * is printed for one. */
#include "programs/residency.h"

#include "base/memory.h"
#include "unit.h"

/* Two cores of a desktop, in round numbers. */
static const residency_machine desktop = {
    .levels = {{"L2", 2 << 20, 100e9}, {"L3", 32 << 20, 50e9}, {"memory", 16ull << 30, 20e9}},
    .n_levels = 3,
    .threads = 2,
};
static const residency_machine bare = {.levels = {{"memory", 1ull << 30, 10e9}}, .n_levels = 1,
                                       .threads = 1, .assumed = "nothing is known"};

/* 30 MB in 4.5 bits, of which the head is 10, wider; 4 layers, KV of 1 kB a token. */
static const residency_model model = {
    .held = {[ROLE_ATTENTION] = 5000000, [ROLE_FFN] = 15000000, [ROLE_HEAD] = 10000000,
             [ROLE_OTHER] = 4000},
    .read = {[ROLE_ATTENTION] = 5000000, [ROLE_FFN] = 15000000, [ROLE_HEAD] = 10000000,
             [ROLE_OTHER] = 4000},
    .values = {[ROLE_ATTENTION] = 8888888, [ROLE_FFN] = 26666666, [ROLE_HEAD] = 9411764},
    .n_layers = 4,
    .kv_values = 128,
    .kv_vectors = 2,
};

static void test_bytes(void)
{
    TEST_CHECK(residency_step_bytes(&model) == 30004000);
    TEST_CHECK(residency_kv_bytes(&model, 2, 0) == 0);
    TEST_CHECK(residency_kv_bytes(&model, 2, 1000) == 1024000);
    TEST_CHECK(residency_kv_bytes(&model, 4, 1000) == 2048000);
    TEST_CHECK(residency_kv_bytes(&model, 1, 1000) == 4000 * (128 + 2 * 4));
    residency_model windowed = model;
    windowed.n_windowed = 2;
    windowed.window = 128;
    TEST_CHECK(residency_kv_bytes(&windowed, 2, 100) == 102400);
    TEST_CHECK(residency_kv_bytes(&windowed, 2, 1000) == (2 * 1000 + 2 * 128) * 256);
}

static void test_places(void)
{
    const uint64_t l2 = (2 << 20) / 4 * 3, l3 = (32 << 20) / 4 * 3;
    TEST_CHECK(residency_place(&desktop, 0) == 0);
    TEST_CHECK(residency_place(&desktop, l2) == 0);
    TEST_CHECK(residency_place(&desktop, l2 + 1) == 1);
    TEST_CHECK(residency_place(&desktop, l3) == 1);
    TEST_CHECK(residency_place(&desktop, l3 + 1) == 2);
    TEST_CHECK(residency_place(&desktop, UINT64_MAX) == 2); /* the last level is unbounded */
    TEST_CHECK(residency_place(&bare, UINT64_MAX) == 0);
    TEST_CHECK(residency_speed(&desktop, 1000000) == 100e9 / 1e6);
    TEST_CHECK(residency_speed(&desktop, 1000000000) == 20);
    TEST_CHECK(residency_speed(&desktop, 0) == 0);
}

static void test_advice(void)
{
    residency_advice a[RESIDENCY_ADVICE_MAX];
    uint32_t n = residency_advise(&desktop, &model, 2, 0, a);
    TEST_CHECK(n == 1 && !strcmp(a[0].what, "the head in Q4_0") && a[0].level == 2);
    TEST_CHECK(a[0].step_bytes == 20004000 + (uint64_t)(9411764 * 4.5 / 8));
    /* A smaller head makes the whole fit into the next smaller cache. */
    residency_model small = model;
    small.read[ROLE_FFN] = 14000000;
    residency_machine machine = desktop;
    machine.levels[1].size = 33 << 20;
    n = residency_advise(&machine, &small, 2, 0, a);
    TEST_CHECK(n == 1 && a[0].level == 1);
    TEST_CHECK(a[0].speed == 50e9 / (double)a[0].step_bytes);
    /* Weights in L3 that KV would evict: the longest context that does not, and no byte more. */
    small = model;
    small.read[ROLE_HEAD] = small.values[ROLE_HEAD] = 0;
    n = residency_advise(&desktop, &small, 4, 100000, a);
    TEST_CHECK(n == 2 && a[0].level == 1 && a[0].depth > 1000);
    TEST_CHECK(residency_place(&desktop, a[0].step_bytes) == 1);
    TEST_CHECK(residency_place(&desktop, 20004000 +
                               residency_kv_bytes(&small, 4, a[0].depth + 1)) == 2);
    TEST_CHECK(!strcmp(a[1].what, "keys and values in 8 bits"));
    TEST_CHECK(residency_advise(&bare, &small, 2, 0, a) == 0);
}

static void test_of_files(void)
{
    gguf_file *file;
    cerium_error err;
    CHECK(gguf_open(&file, "tests/golden/fixtures/gpt-oss-mxfp4.gguf", &err) == 0);
    residency_model m = residency_of(file);
    uint64_t held = 0, all = 0, used = 0;
    for (int role = 0; role < RESIDENCY_ROLES; role++) held += m.held[role];
    for (size_t i = 0; i < gguf_n_tensors(file); i++) all += gguf_tensor_at(file, i)->size;
    TEST_CHECK(held == all);
    CHECK(gguf_get_u64(file, "gpt-oss.expert_count", &all));
    CHECK(gguf_get_u64(file, "gpt-oss.expert_used_count", &used) && used < all);
    TEST_CHECK(m.held[ROLE_EXPERTS] && m.read[ROLE_EXPERTS] == m.held[ROLE_EXPERTS] / all * used);
    TEST_CHECK(m.read[ROLE_EMBEDDING] < m.held[ROLE_EMBEDDING] / 100);
    TEST_CHECK(m.read[ROLE_HEAD] == m.held[ROLE_HEAD] && m.held[ROLE_HEAD]);
    TEST_CHECK(m.n_windowed == m.n_layers - m.n_layers / 2 && m.window);
    gguf_close(&file);
    CHECK(gguf_open(&file, "tests/golden/fixtures/qwen2-q8_0.gguf", &err) == 0);
    m = residency_of(file);
    TEST_CHECK(m.n_windowed == 0 && m.held[ROLE_FFN] && m.held[ROLE_ATTENTION] && m.kv_values);
    gguf_close(&file);
    CHECK(gguf_open(&file, "tests/golden/fixtures/deepseek2-yarn.gguf", &err) == 0);
    m = residency_of(file);
    TEST_CHECK(m.kv_vectors == 1 && m.kv_values == 24 + 8); /* a latent, for any number of heads */
    gguf_close(&file);
}

static const char wanted[] =
    "a model on this machine, 2 threads\n"
    "  L2                2.1 MB     100 GB/s\n"
    "  L3               33.6 MB      50 GB/s\n"
    "  memory           17.2 GB      20 GB/s  <- weights and KV\n"
    "One token reads, 4 layers of 5 MB\n"
    "  attention           5 MB  #############\n"
    "  feed-forward       15 MB  ########################################\n"
    "  head               10 MB  ###########################\n"
    "  other               4 kB\n"
    "  KV at the end    10.2 MB  ###########################\n"
    "  depth 0            30 MB  in memory: at most 666.6 tokens/s\n"
    "  depth 10000      40.2 MB  in memory: at most 497.0 tokens/s\n"
    "What would be faster\n"
    "  the head in Q4_0: 25.3 MB in memory at depth 0, at most 790.6 tokens/s\n"
    "  keys and values in 8 bits: 35.4 MB in memory at depth 10000, at most 564.3 tokens/s\n";

static void test_text(void)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    CHECK(out);
    residency_print(out, &desktop, &model, "a model", 2, 10000);
    fclose(out);
    TEST_CHECK_THAT(strcmp(text, wanted) == 0, "\n%s", text);
    memory_release(text);
}

int main(void)
{
    TEST_RUN(test_bytes);
    TEST_RUN(test_places);
    TEST_RUN(test_advice);
    TEST_RUN(test_of_files);
    TEST_RUN(test_text);
    return unit_report("residency");
}
