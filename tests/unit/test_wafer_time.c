/* test_wafer_time.c - orders of sums, tiles, and clocks: folded, against every core on its own. */
#include <math.h>

#include "base/memory.h"
#include "unit.h"
#include "wafer/plan.h"

/* ---- geometry ---- */

static void check_adds(uint32_t n, uint32_t degree)
{
    static wafer_add adds[WAFER_LINE_MAX];
    static bool sent[WAFER_LINE_MAX];
    static uint32_t sum[WAFER_LINE_MAX]; /* how many values a core's holds */
    const wafer_reduction r = reduction_of(n, degree);
    const uint32_t root = reduction_adds(&r, adds);
    for (uint32_t i = 0; i < n; i++) sent[i] = false, sum[i] = 1;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const wafer_add a = adds[i];
        TEST_CHECK(a.from < n && a.to < n && a.from != a.to && a.phase < degree);
        TEST_CHECK_THAT(!sent[a.from] && !sent[a.to], "n %u degree %u add %u", n, degree, i);
        sent[a.from] = true;
        sum[a.to] += sum[a.from];
    }
    TEST_CHECK_THAT(root < n && !sent[root] && sum[root] == n, "n %u degree %u", n, degree);
}

static void test_reductions(void)
{
    for (uint32_t n = 1; n <= 130; n++)
        for (uint32_t degree = 1; degree <= WAFER_DEGREE_MAX; degree++) check_adds(n, degree);
    check_adds(750, 2);
    check_adds(1170, 3);
    check_adds(4096, 4);
    /* The depth of WaferLLM's groups: 420 is 20 x 21, 660 is 22 x 30. */
    wafer_reduction r = reduction_of(420, 2);
    TEST_CHECK(r.group[0] * r.group[1] == 420 && r.group[0] + r.group[1] == 41);
    r = reduction_of(660, 2);
    TEST_CHECK(r.group[0] * r.group[1] == 660 && r.group[0] / 2 + r.group[1] / 2 == 26);
    /* A prime has no divisors: uneven groups, still of square-root depth. */
    r = reduction_of(997, 2);
    TEST_CHECK(r.group[0] * r.group[1] >= 997 && r.group[0] + r.group[1] < 70);
}

/* Every channel of every head lies in exactly one column. */
static void check_strips(uint32_t heads, uint32_t kv, uint32_t dim, uint32_t width, uint32_t mult)
{
    static uint8_t owners[128][512];
    const step_shape s = {.n_heads = heads, .n_kv_heads = kv, .head_dim = dim};
    const wafer_strips t = strips_of(&s, width, mult);
    for (int part = 0; part < 3; part++) {
        const uint32_t n = part ? kv : heads;
        memset(owners, 0, sizeof owners);
        for (uint32_t x = 0; x < width; x++) {
            uint32_t first;
            wafer_range r;
            uint32_t have = strip_rows(&s, &t, x, part, &first, &r);
            TEST_CHECK(have <= t.heads * (part ? 1 : t.queries) && r.end - r.begin <= t.channels);
            for (uint32_t h = first; h < first + have; h++)
                for (uint32_t c = r.begin; c < r.end; c++) owners[h][c]++;
        }
        for (uint32_t h = 0; h < n; h++)
            for (uint32_t c = 0; c < dim; c++)
                TEST_CHECK_THAT(owners[h][c] == 1, "%u/%u heads of %u on %u: head %u channel %u",
                                heads, kv, dim, width, h, c);
    }
}

static void test_strips(void)
{
    for (uint32_t width = 1; width <= 70; width++) {
        check_strips(32, 8, 128, width, 1);
        check_strips(14, 2, 64, width, 32);
        check_strips(1, 1, 512, width, 1);
        check_strips(96, 96, 64, width, 1);
    }
    check_strips(64, 8, 64, 755, 1);
}

/* ---- clocks ---- */

static const shape_facts dense = {.architecture = "qwen3",
                                  .n_layers = 2,
                                  .n_embd = 200,
                                  .n_ff = 520,
                                  .n_heads = 8,
                                  .n_kv_heads = 2,
                                  .head_dim = 32,
                                  .n_vocab = 1000,
                                  .context_tokens = 4096};
static const shape_facts mixture = {.architecture = "gpt-oss",
                                    .n_layers = 2,
                                    .n_embd = 192,
                                    .n_heads = 8,
                                    .n_kv_heads = 4,
                                    .head_dim = 16,
                                    .n_vocab = 500,
                                    .context_tokens = 2048,
                                    .n_experts = 16,
                                    .n_experts_used = 3,
                                    .n_ff_expert = 96,
                                    .window = 128};

static const wafer_mesh mesh = {
    .width = 64, .height = 64, .hop_cycles = 1, .ramp_cycles = 2, .simd_fp16 = 8};

/* A sum of 15 wavelets over 720 cores, by the formula P + beta stages + c B + 4 T_R for dependent
 * adds of 25 cycles (published kernels) and of 6 (HPDC'24): chain, two phases, three. */
static void test_sums_are_the_formulas(void)
{
    static const struct {
        uint32_t degree;
        double stage, cycles;
    } sums[] = {{1, 21, 9750}, {1, 2, 2910},  {2, 21, 1436},
                {2, 2, 926},   {3, 21, 1116}, {3, 2, 861}};
    for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
        wafer_clocks c;
        const wafer_style style = {.stage = sums[i].stage}; /* and two ramps: 25 and 6 */
        const wafer_reduction sum = reduction_of(720, sums[i].degree);
        CHECK(!clocks_open(&c, 720, 1, true, message_cost(&mesh, &style)));
        clocks_reduce(&c, WAFER_AXIS_X, &sum, 15);
        const double cycles = (double)clocks_latest(&c) / WAFER_TICKS;
        TEST_CHECK_THAT(fabs(cycles / sums[i].cycles - 1) < 0.12, "%u phases, %g: %g, not %g",
                        sums[i].degree, sums[i].stage, cycles, sums[i].cycles);
        clocks_close(&c);
    }
}

static bool same_events(const wafer_events *a, const wafer_events *b)
{
    return a->vector_ops == b->vector_ops && a->vector_steps == b->vector_steps &&
           a->scalar_ops == b->scalar_ops && a->macs == b->macs && a->stages == b->stages &&
           a->ramps == b->ramps && a->hops == b->hops && a->sram_read_bits == b->sram_read_bits &&
           a->sram_write_bits == b->sram_write_bits && a->queue_ticks == b->queue_ticks;
}

static void check_folding(const shape_facts *facts, uint32_t width, uint32_t height, uint32_t which)
{
    cerium_error err;
    wafer_model m;
    step_time folded, every;
    CHECK(!wafer_model_of(&m, facts, "test", &err));
    const step_cost cost = {
        .mesh = &mesh,
        .style = which & 1 ? wafer_style_sdk() : wafer_style_tuned(),
        .quant = which & 2 ? QUANT_FP16 : QUANT_INT4,
        .choice = {.degree = 1 + which % 3,
                   .is_fused = which & 4,
                   .k_multiple = 1,
                   .kv = which & 8 ? WAFER_KV_SHIFT : WAFER_KV_ROUND_ROBIN,
                   .experts = which & 2 ? WAFER_EXPERTS_GROUPED : WAFER_EXPERTS_SHARDED,
                   .group_side = 4},
        .context = 700,
        .tokens = 1 + which % 5};
    for (uint32_t layer = 0; layer < 2; layer++) {
        CHECK(!time_layer(&folded, m.program, layer, width, height, &cost, true));
        CHECK(!time_layer(&every, m.program, layer, width, height, &cost, false));
        TEST_CHECK_THAT(folded.cycles == every.cycles, "%u x %u, %u: %.3f and %.3f", width, height,
                        which, folded.cycles, every.cycles);
        TEST_CHECK_THAT(same_events(&folded.events, &every.events), "%u x %u, %u", width, height,
                        which);
        double total = 0;
        for (int i = 0; i < WAFER_SPENT; i++) {
            TEST_CHECK(folded.spent[i] == every.spent[i]);
            total += folded.spent[i];
        }
        TEST_CHECK_THAT(fabs(total - folded.cycles) < 1, "%.3f of %.3f", total, folded.cycles);
    }
    CHECK(!time_range(&folded, m.program, 0, m.program->n_ops, width, height, &cost, true));
    CHECK(!time_range(&every, m.program, 0, m.program->n_ops, width, height, &cost, false));
    TEST_CHECK(folded.cycles == every.cycles && same_events(&folded.events, &every.events));
    wafer_model_close(&m);
}

static void test_folding(void)
{
    static const uint32_t sizes[][2] = {{1, 1}, {8, 8}, {7, 13}, {40, 9}, {64, 64}, {33, 64}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        for (uint32_t which = 0; which < 16; which++) {
            check_folding(&dense, sizes[i][0], sizes[i][1], which);
            if (sizes[i][0] >= 4 && sizes[i][1] >= 4)
                check_folding(&mixture, sizes[i][0], sizes[i][1], which);
        }
    TEST_CHECK(memory_live() == 0);
}

static double line_cycles(uint32_t n, uint32_t degree, uint32_t wavelets, const wafer_style *style)
{
    wafer_clocks c;
    const wafer_reduction sum = reduction_of(n, degree);
    CHECK(!clocks_open(&c, n, 1, true, message_cost(&mesh, style)));
    clocks_reduce(&c, WAFER_AXIS_X, &sum, wavelets);
    const double cycles = (double)clocks_latest(&c) / WAFER_TICKS;
    clocks_close(&c);
    return cycles;
}

/* HPDC'24: a chain of P cores takes B + (2 T_R + 2)(P - 1), a broadcast B + P + 2 T_R. Ours works
 * from both ends to the middle, which takes the second stream after the first. */
static void test_collectives(void)
{
    const wafer_style tuned = wafer_style_tuned();
    const double ramp = mesh.ramp_cycles;
    for (uint32_t n = 32; n <= 1024; n *= 2)
        for (uint32_t b = 1; b <= 256; b *= 4) {
            const double chain = b + (2 * ramp + 2) * (n / 2.0) + b;
            const double all = chain + n / 2.0 + 2 * ramp;
            const double got = line_cycles(n, 1, b, &tuned);
            TEST_CHECK_THAT(fabs(got / all - 1) < 0.04, "P %u B %u: %.0f, model %.0f", n, b, got,
                            all);
        }
    /* Two phases: 2 sqrt(P) - 2 deep over both halves, contention 2 B at each root. */
    const double p = 1024, depth = 2 * (sqrt(p) / 2);
    const double two = p / 2 + (2 * ramp + 1) * depth + p / 2 + 2 * ramp + 3 * 16;
    TEST_CHECK_THAT(fabs(line_cycles(1024, 2, 16, &tuned) / two - 1) < 0.04, "%.0f and %.0f",
                    line_cycles(1024, 2, 16, &tuned), two);
}

/* Longer chains of dependent adds are slower: a wrong order shows in the time. */
static void test_depth(void)
{
    const wafer_style sdk = wafer_style_sdk();
    TEST_CHECK(line_cycles(400, 1, 4, &sdk) > 3 * line_cycles(400, 2, 4, &sdk));
    TEST_CHECK(line_cycles(400, 2, 4, &sdk) > line_cycles(400, 3, 4, &sdk));
}

static void test_dead_cores(void)
{
    wafer_core cores[] = {{3, 0}, {9, 5}, {10, 5}};
    wafer_mesh broken = mesh;
    broken.dead = cores;
    broken.n_dead = ARRAY_LEN(cores);
    broken.width = 25; /* row 5 has 23 live cores */
    const wafer_style tuned = wafer_style_tuned();
    const wafer_message_cost message = message_cost(&mesh, &tuned);
    const wafer_reduction sum = reduction_of(24, 2);
    wafer_clocks c, whole;
    CHECK(!clocks_open(&c, 24, 24, false, message));
    TEST_CHECK(clocks_dead(&c, &broken, 0, 0) == CERIUM_ERR_CAPACITY);
    clocks_close(&c);
    CHECK(!clocks_open(&c, 24, 24, false, message) && !clocks_open(&whole, 24, 24, true, message));
    broken.width = 26;
    TEST_CHECK(!clocks_dead(&c, &broken, 0, 0));
    /* Row 5 steps over two: its cores are shifted by two against their neighbours from x = 9 on. */
    TEST_CHECK(c.extra_x[5 * 24 + 8] == 2 && c.extra_x[2] == 1 && c.extra_x[6 * 24 + 8] == 0);
    TEST_CHECK(c.extra_y[5 * 24 + 20] == 2 && c.extra_y[5 * 24 + 3] == 0);
    for (int i = 0; i < 4; i++) {
        clocks_reduce(&c, i % 2 ? WAFER_AXIS_X : WAFER_AXIS_Y, &sum, 8);
        clocks_reduce(&whole, i % 2 ? WAFER_AXIS_X : WAFER_AXIS_Y, &sum, 8);
    }
    const int64_t more = clocks_latest(&c) - clocks_latest(&whole);
    TEST_CHECK_THAT(more > 0 && more <= 4 * 8 * WAFER_TICKS, "%lld ticks", (long long)more);
    TEST_CHECK(c.events.hops > whole.events.hops);
    clocks_close(&c);
    clocks_close(&whole);
    /* A rectangle to the right of them is shifted as a whole: only rows differ. */
    CHECK(!clocks_open(&c, 8, 8, false, message));
    TEST_CHECK(!clocks_dead(&c, &broken, 16, 0));
    TEST_CHECK(c.extra_x[5 * 8] == 0 && c.extra_y[4 * 8 + 3] == 2 && c.extra_y[0] == 1);
    clocks_close(&c);
}

/* ---- plans ---- */

static int plan_of(plan_result *plan, const char *machine, const char *config, uint32_t context,
                   wafer_quant quant, cerium_error *err)
{
    wafer_machine m;
    wafer_model net;
    char path[2][96];
    snprintf(path[0], sizeof path[0], "machines/%s.ini", machine);
    snprintf(path[1], sizeof path[1], "tests/wafer/configs/%s.json", config);
    CHECK(!machine_open(&m, path[0], err) && !wafer_model_open(&net, path[1], err));
    const plan_request r = {.machine = &m,
                            .program = net.program,
                            .style = wafer_style_tuned(),
                            .quant = quant,
                            .context = context,
                            .draft = 1};
    int status = plan_search(plan, &r, err);
    wafer_placement placement;
    if (!status && !plan_place(&placement, plan, &r)) {
        uint32_t layers = 0;
        for (uint32_t i = 0; i < placement.n_regions; i++) {
            const wafer_region *a = &placement.regions[i];
            layers += a->n_layers;
            TEST_CHECK(a->x + a->width <= m.mesh.width && a->y + a->height <= m.mesh.height);
            TEST_CHECK_THAT(a->core_bytes <= plan->layout.usable_bytes, "%s: region %u", config, i);
            for (uint32_t k = 0; k < i; k++) {
                const wafer_region *b = &placement.regions[k];
                TEST_CHECK(a->wafer != b->wafer || a->x + a->width <= b->x ||
                           b->x + b->width <= a->x || a->y + a->height <= b->y ||
                           b->y + b->height <= a->y);
            }
        }
        TEST_CHECK(layers == net.program->shape.n_layers);
        const plan_layout *l = &plan->layout;
        const uint64_t rows =
            l->table_bytes * l->width / (2ull * tiles_of(net.program->shape.n_embd, l->height));
        TEST_CHECK(l->table_regions || (l->head_regions + l->embed_regions <= l->layer_regions &&
                                        rows * l->head_regions >= net.program->shape.n_vocab &&
                                        rows * l->embed_regions >= net.program->shape.n_vocab));
        placement_close(&placement);
    }
    wafer_model_close(&net);
    machine_close(&m);
    return status;
}

static void test_plans(void)
{
    cerium_error err = {0};
    plan_result p;
    TEST_CHECK(!plan_of(&p, "wse3", "llama-3-8b", 8192, QUANT_FP16, &err));
    TEST_CHECK(p.layout.wafers == 1 && p.context_max == 8192 && p.users >= 1);
    TEST_CHECK(!plan_of(&p, "cs3", "llama-3-70b", 8192, QUANT_FP16, &err));
    /* The vendor says four.  The vocabulary uses the room that ten layers per region leave. */
    TEST_CHECK(p.layout.wafers == 4 && p.layout.is_turned && !p.layout.table_regions);
    TEST_CHECK(!plan_of(&p, "wse3", "gpt-oss-20b", 8192, QUANT_MXFP4, &err));
    TEST_CHECK(!plan_of(&p, "cs3", "gpt-oss-120b", 32768, QUANT_MXFP4, &err));
    TEST_CHECK(!plan_of(&p, "cs3", "qwen3-coder-30b-a3b", 65536, QUANT_FP16, &err));
    TEST_CHECK(plan_of(&p, "wse3", "llama-3-70b", 8192, QUANT_FP16, &err) == CERIUM_ERR_CAPACITY);
    TEST_CHECK_THAT(strstr(err.message, "141 GB of weights") && strstr(err.message, "4 wafers"),
                    "%s", err.message);
    TEST_CHECK(plan_of(&p, "wse3", "llama-3-8b", 9000, QUANT_FP16, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "the nearest is 8192"), "%s", err.message);
    TEST_CHECK(plan_of(&p, "wse3", "qwen3-coder-30b-a3b", 262144, QUANT_INT4, &err) ==
               CERIUM_ERR_CAPACITY);
    TEST_CHECK_THAT(strstr(err.message, "a context of "), "%s", err.message);
    TEST_CHECK(memory_live() == 0);
}

typedef struct {
    wafer_machine m;
    wafer_model net;
    plan_request r;
} setting;

static void open_setting(setting *s, const char *machine, const char *config, wafer_quant quant)
{
    cerium_error err = {0};
    char path[96];
    snprintf(path, sizeof path, "machines/%s.ini", machine);
    CHECK(!machine_open(&s->m, path, &err));
    snprintf(path, sizeof path, "tests/wafer/configs/%s.json", config);
    CHECK(!wafer_model_open(&s->net, path, &err));
    s->r = (plan_request){.machine = &s->m,
                          .program = s->net.program,
                          .style = wafer_style_tuned(),
                          .quant = quant,
                          .context = 8192,
                          .draft = 1};
}

static void close_setting(setting *s)
{
    wafer_model_close(&s->net);
    machine_close(&s->m);
}

static plan_prompt prompt_of(setting *s, plan_result *plan, uint32_t tokens)
{
    cerium_error err = {0};
    plan_prompt p = {0};
    TEST_CHECK_THAT(!plan_search(plan, &s->r, &err), "%s", err.message);
    TEST_CHECK(!plan_prompt_time(&p, plan, &s->r, tokens));
    TEST_CHECK(p.pass_bytes <= p.room_bytes && p.pass_tokens <= p.pass_max);
    TEST_CHECK(p.n_passes == tiles_of(tokens, p.pass_tokens));
    TEST_CHECK(p.us[0] > 0 && p.us[0] < p.us[1]);
    return p;
}

/* A pass has the memory that weights, cache and tables leave on a core. */
static void test_room_for_prompts(void)
{
    setting s;
    plan_result plan;
    open_setting(&s, "wse3", "llama-3-8b", QUANT_FP16);
    const plan_prompt eight = prompt_of(&s, &plan, 8192);
    TEST_CHECK(eight.mesh_gemm_max == 8192 && !eight.is_mesh_gemm && eight.pass_tokens > 1);
    /* Weights are padded: one layer is 218,112,000 values and two norms. */
    const double tight = 2 * 218112000.0 / ((double)plan.layout.width * plan.layout.height) +
                         (double)plan.layout.layer_kv_bytes;
    TEST_CHECK((double)plan_pass_room(&plan, &s.r) <
               (double)plan.layout.usable_bytes - 11 * tight);
    /* Bytes of one more token a step, and of one more row a line, do not fit. */
    TEST_CHECK(plan_step_bytes(&s.r, &plan.layout, eight.pass_max + 1) > eight.room_bytes);
    TEST_CHECK(plan_pass_bytes(&plan, &s.r, 22) <= plan_pass_room(&plan, &s.r));
    TEST_CHECK(plan_pass_bytes(&plan, &s.r, 100) > plan_pass_room(&plan, &s.r));
    /* The same layout on cores with less memory. */
    s.m.mesh.sram_bytes -= 4096;
    plan.layout.usable_bytes -= 4096;
    plan_prompt less;
    TEST_CHECK(!plan_prompt_time(&less, &plan, &s.r, 8192));
    TEST_CHECK_THAT(less.mesh_gemm_max && less.mesh_gemm_max < 8192 &&
                        less.pass_max < eight.pass_max,
                    "%u, %u", less.mesh_gemm_max, less.pass_max);
    close_setting(&s);
    open_setting(&s, "cs3", "llama-3-70b", QUANT_FP16); /* full to the last byte */
    const plan_prompt seventy = prompt_of(&s, &plan, 8192);
    TEST_CHECK(seventy.pass_tokens == 1 && !seventy.is_mesh_gemm);
    close_setting(&s);
    open_setting(&s, "cs3", "qwen3-coder-30b-a3b", QUANT_FP16);
    /* Experts padded the other way round exceed a core's memory. */
    TEST_CHECK(!prompt_of(&s, &plan, 8192).mesh_gemm_max);
    close_setting(&s);
    TEST_CHECK(memory_live() == 0);
}

/* One region with room for all: MeshGEMM products in one pass over every layer. */
static void test_one_pass(void)
{
    setting s;
    plan_result plan;
    open_setting(&s, "wse3", "llama-3-8b", QUANT_FP16);
    s.m.mesh.width = s.m.mesh.height = 512;
    s.m.mesh.sram_bytes = 1 << 20;
    const plan_prompt p = prompt_of(&s, &plan, 4096);
    const plan_layout *l = &plan.layout;
    TEST_CHECK(l->layer_regions == 1 && p.mesh_gemm_max == 4096);
    TEST_CHECK_THAT(p.is_mesh_gemm && p.n_passes == 1, "%u passes", p.n_passes);
    const step_cost cost = {.mesh = &s.m.mesh, .style = s.r.style, .quant = s.r.quant,
                            .choice = l->choice, .context = 4096, .tokens = 1};
    step_time layer;
    TEST_CHECK(!time_prefill_layer(&layer, s.r.program, 0, l->width, l->height, &cost, 4096));
    const double us = 32 * layer.cycles / s.m.mesh.clock_ghz.high / 1e3;
    TEST_CHECK_THAT(p.us[0] > us && p.us[0] < 1.05 * us, "%.0f and %.0f", p.us[0], us);
    /* Two passes, the second after the first: the same attention in total. */
    step_cost later = cost;
    step_time half[2];
    later.position = 2048;
    TEST_CHECK(!time_prefill_layer(&half[0], s.r.program, 0, l->width, l->height, &cost, 2048));
    TEST_CHECK(!time_prefill_layer(&half[1], s.r.program, 0, l->width, l->height, &later, 2048));
    TEST_CHECK(half[1].cycles > half[0].cycles && half[0].cycles < layer.cycles &&
               half[0].cycles + half[1].cycles > layer.cycles);
    close_setting(&s);
    TEST_CHECK(memory_live() == 0);
}

/* Spreading tokens over the rows in turn costs nothing; passing them up does. */
static void test_kv_policy(void)
{
    setting s;
    plan_result plan, moved;
    cerium_error err = {0};
    open_setting(&s, "wse3", "gpt-oss-20b", QUANT_MXFP4);
    TEST_CHECK(!plan_search(&plan, &s.r, &err));
    TEST_CHECK(plan.layout.choice.kv == WAFER_KV_ROUND_ROBIN);
    moved = plan;
    moved.layout.choice.kv = WAFER_KV_SHIFT;
    TEST_CHECK(!plan_time(&moved, &s.r));
    TEST_CHECK(fabs(moved.cycles - plan.cycles - plan.kv_other_cycles) < 1e-6);
    TEST_CHECK(plan.kv_other_cycles > 0);
    close_setting(&s);
    TEST_CHECK(memory_live() == 0);
}

/* Every nth allocation fails: an error each time, and no leak. */
static void test_memory(void)
{
    static const long at[] = {0, 1, 2, 3, 5, 8, 13, 100, 1001, 3003};
    cerium_error err = {0};
    wafer_machine m;
    wafer_model net;
    CHECK(!machine_open(&m, "machines/wse3.ini", &err) &&
          !wafer_model_open(&net, "tests/wafer/configs/llama-3-8b.json", &err));
    const long live = memory_live();
    const plan_request r = {.machine = &m,
                            .program = net.program,
                            .style = wafer_style_tuned(),
                            .quant = QUANT_FP16,
                            .context = 4096,
                            .draft = 1};
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        plan_result plan;
        memory_fail_at(at[i]);
        const int status = plan_search(&plan, &r, &err);
        memory_fail_at(-1);
        TEST_CHECK_THAT(status == CERIUM_ERR_MEMORY, "allocation %ld: %d", at[i], status);
        TEST_CHECK(memory_live() == live);
    }
    plan_result plan;
    plan_prompt prompt;
    TEST_CHECK(!plan_search(&plan, &r, &err));
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        memory_fail_at(at[i]);
        const int status = plan_prompt_time(&prompt, &plan, &r, 4096);
        memory_fail_at(-1);
        TEST_CHECK_THAT(i > 6 || status == CERIUM_ERR_MEMORY, "allocation %ld: %d", at[i], status);
        TEST_CHECK(memory_live() == live);
    }
    wafer_model_close(&net);
    machine_close(&m);
    TEST_CHECK(memory_live() == 0);
}

int main(void)
{
    TEST_RUN(test_reductions);
    TEST_RUN(test_strips);
    TEST_RUN(test_sums_are_the_formulas);
    TEST_RUN(test_folding);
    TEST_RUN(test_collectives);
    TEST_RUN(test_depth);
    TEST_RUN(test_dead_cores);
    TEST_RUN(test_plans);
    TEST_RUN(test_room_for_prompts);
    TEST_RUN(test_one_pass);
    TEST_RUN(test_kv_policy);
    TEST_RUN(test_memory);
    return unit_report("wafer_time");
}
