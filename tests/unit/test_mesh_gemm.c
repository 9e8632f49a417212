/* test_mesh_gemm.c - prompts as MeshGEMM products: within the bound of the CPU's logits, in the
 * order of the rings, and with the counts of the plan. */
#include "wafer/timing.h"

#include "mesh_beside.h"

static const char *const fixtures[] = {
    "llama", "qwen2-yarn", "qwen3", "qwen3moe", "gpt-oss", "starcoder2", "qwen2-f16",
    "qwen2-q8_0", "qwen2-q4_1", "qwen2-iq4_nl", "llama-q4_k", "llama-q6_k", "qwen3moe-q4_0",
    "gpt-oss-mxfp4",
};
enum { N_FLOAT = 7 }; /* the first of them have float matrices */

/* Square, wide and tall ones, of more cores than rows; passes that end in the middle of a line. */
static const struct {
    uint32_t width, height, multiple, rows;
    wafer_kv_policy kv;
} meshes[] = {
    {8, 8, 1, 64, WAFER_KV_ROUND_ROBIN}, {5, 3, 1, 16, WAFER_KV_SHIFT},
    {3, 11, 32, 90, WAFER_KV_ROUND_ROBIN}, {12, 1, 1, 7, WAFER_KV_ROUND_ROBIN},
    {1, 4, 8, 33, WAFER_KV_SHIFT},
};

static mesh_layout mesh_gemm_layout(uint32_t width, uint32_t height, kernel_kv_type kv)
{
    mesh_layout l = layout_of(width, height, MESH_ORDER, kv);
    l.mesh_gemm = true;
    return l;
}

static void test_prompts_are_within_the_bound(void)
{
    for (size_t f = 0; f < ARRAY_LEN(fixtures); f++)
        for (int k = 0; k < 2; k++) {
            truth t = {0};
            const char *path = path_of(fixtures[f]);
            const kernel_kv_type kv = k ? KERNEL_KV_F32 : KERNEL_KV_I8;
            if (!ask_cpu(&t, path, kv, PROMPT, NULL)) continue;
            for (size_t i = (size_t)k; i < ARRAY_LEN(meshes); i += f < N_FLOAT ? 1 : 2) {
                mesh_layout l = mesh_gemm_layout(meshes[i].width, meshes[i].height, kv);
                l.choice.k_multiple = meshes[i].multiple;
                l.choice.kv = meshes[i].kv;
                l.choice.is_fused = i % 2 && f != 5; /* for the tokens after the prompt */
                l.rows_max = meshes[i].rows;
                const distance d = run(path, &l, MESH_SOUND, &t);
                TEST_CHECK_THAT(d.worst <= 1, "%s, mesh %zu: %g bounds", fixtures[f], i,
                                (double)d.worst);
                if (f >= N_FLOAT || !k) continue;
                TEST_CHECK_THAT(d.n_bounded == NEW && d.widest < 2e-4f, "%s, mesh %zu: %u, to %g",
                                fixtures[f], i, d.n_bounded, (double)d.widest);
                TEST_CHECK(d.n_decided == NEW && d.same_tokens && !d.same_bits);
            }
            memory_free(t.logits);
        }
}

static void test_a_step_too_few_is_found(void)
{
    truth t = {0};
    const mesh_layout l = mesh_gemm_layout(4, 4, KERNEL_KV_F32);
    if (!ask_cpu(&t, path_of("llama"), KERNEL_KV_F32, PROMPT, NULL)) return;
    TEST_CHECK(run(path_of("llama"), &l, MESH_SOUND, &t).worst <= 1);
    TEST_CHECK(run(path_of("llama"), &l, MESH_FAULT_STEP, &t).worst > 1);
    memory_free(t.logits);
}

/* On 4 x 4 cores the ring is 0 2 3 1.  Core (x, y) begins at the sum of both places. */
static void test_order_of_a_product(void)
{
    static const uint32_t place[4] = {0, 3, 1, 2};
    gguf_file *file = NULL;
    const mesh_layout l = mesh_gemm_layout(4, 4, KERNEL_KV_F32);
    mesh *m = open_mesh(path_of("llama"), &l, false, MESH_SOUND, &file);
    if (!m) return;
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t s = 0; s < 4; s++)
            TEST_CHECK(place[mesh_ring_core(4, i, s)] == (place[i] + s) % 4);
    for (uint32_t op = 0; op < m->program->n_ops; op++) {
        const mesh_tiles *t = m->op_tiles[op][0];
        if (m->program->ops[op].kind != STEP_FFN_DOWN) continue;
        const uint32_t rows = t->w->rows, cols = t->w->cols, out = rows / 4, k = cols / 4;
        TEST_CHECK(rows % 4 == 0 && cols % 4 == 0);
        for (uint32_t i = 0; i < cols; i++)
            m->hidden.f[i] = (float)((i * 2654435761u) % 1000) / 500.0f - 1.0f;
        for (uint32_t line = 0; line < 4; line++) {
            mesh_gemm_row(m, m->y, t, 0, &m->hidden, 0, line);
            for (uint32_t i = 0; i < rows; i++) {
                float sum = 0;
                for (uint32_t s = 0; s < 4; s++)
                    for (uint32_t j = 0; j < k; j++) {
                        const uint32_t at = (place[i / out] + place[line] + s) % 4 * k + j;
                        sum = fmaf(t->f[(size_t)i * cols + at], m->hidden.f[at], sum);
                    }
                TEST_CHECK(m->y[i] == sum);
            }
        }
    }
    mesh_close(&m);
    gguf_close(&file);
}

/* With even tiles: instructions and steps, links and ramps equal those of the plan's
 * product, beside the turn of lines and the residual stream.  The plan sends halves, two in a
 * wavelet. */
static void check_counts(uint32_t width, uint32_t height)
{
    enum { ROWS = 16 };
    const wafer_mesh machine = {.width = width, .height = height, .simd_fp16 = 8, .hop_cycles = 1,
                                .ramp_cycles = 2};
    gguf_file *file = NULL;
    mesh_layout l = mesh_gemm_layout(width, height, KERNEL_KV_F32);
    l.rows_max = ROWS;
    mesh *m = open_mesh(path_of("qwen2"), &l, false, MESH_SOUND, &file);
    int32_t tokens[ROWS];
    if (!m) return;
    for (int32_t i = 0; i < ROWS; i++) tokens[i] = 60 + i;
    mesh_prompt(m, tokens, ROWS, 0, 0);
    const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(), .quant = QUANT_FP16,
                            .choice = l.choice, .context = ROWS, .tokens = 1};
    const uint32_t parts = width > height ? width : height, lanes = l.lanes;
    uint64_t hops[MESH_KIND_END] = {0}, ramps[MESH_KIND_END] = {0}, issues[MESH_KIND_END] = {0},
             steps[MESH_KIND_END] = {0};
    for (uint32_t i = 0; i < m->program->n_ops; i++) {
        const step_kind kind = m->program->ops[i].kind;
        const model_matrix *w = m->program->ops[i].w[0];
        if (kind != STEP_OUT && kind != STEP_FFN_DOWN) continue;
        TEST_CHECK(w->rows % width == 0 && w->cols % parts == 0);
        const step_time g = time_gemm(width, height, &cost, ROWS, w->cols, w->rows);
        uint64_t turned = 0; /* values over each link of a ring */
        for (uint32_t y = 0; y < height; y++) { /* place by place, each the shorter way */
            const uint32_t place = y * parts / height, way = place < parts - place ? place
                                                                                   : parts - place;
            turned += (uint64_t)way * (w->cols / parts) * (ROWS / height);
        }
        hops[kind] += 2 * g.events.hops + turned * 2 * (width - 1);
        ramps[kind] += 2 * g.events.ramps + turned * 2 * width;
        issues[kind] += g.events.vector_ops + ROWS * width; /* plus x += y */
        steps[kind] += g.events.vector_steps +
                       (uint64_t)ROWS * width * ((w->rows / width + lanes - 1) / lanes);
    }
    for (int kind = STEP_OUT; kind <= STEP_FFN_DOWN; kind += STEP_FFN_DOWN - STEP_OUT) {
        const mesh_kind_events *k = &mesh_kinds(m)[kind];
        TEST_CHECK_THAT(k->hops == hops[kind], "%u x %u: hops %llu, not %llu", width, height,
                        (unsigned long long)k->hops, (unsigned long long)hops[kind]);
        TEST_CHECK_THAT(k->up + k->down == ramps[kind], "%u x %u: ramps %llu, not %llu", width,
                        height, (unsigned long long)(k->up + k->down),
                        (unsigned long long)ramps[kind]);
        TEST_CHECK_THAT(k->issues == issues[kind] && k->steps == steps[kind],
                        "%u x %u: %llu and %llu, not %llu and %llu", width, height,
                        (unsigned long long)k->issues, (unsigned long long)k->steps,
                        (unsigned long long)issues[kind], (unsigned long long)steps[kind]);
    }
    mesh_close(&m);
    gguf_close(&file);
}

static void test_counts_are_the_plans(void)
{
    check_counts(4, 4);
    check_counts(4, 2);
    check_counts(2, 8);
}

static bool near(uint64_t have, uint64_t want, double slack)
{
    return have <= want && (double)(want - have) <= slack * (double)want;
}

/* After a prompt without logits: all of the embedding's values over the links of both axes; and
 * with one row of them that row to the head. */
static void check_turns(mesh *m, const int32_t *tokens, uint32_t n_rows, const char *name)
{
    const uint64_t values = (uint64_t)mesh_shape(m)->n_embd * n_rows;
    uint64_t links = m->layout.width - 1 + 2 * (m->layout.height - 1); /* broadcast, and around */
    for (uint32_t i = 0; i < m->sum[WAFER_AXIS_X].n_adds; i++) {
        const wafer_add add = m->sum[WAFER_AXIS_X].adds[i];
        links += add.from > add.to ? add.from - add.to : add.to - add.from;
    }
    const uint64_t turned = values * links;
    const uint64_t embed = mesh_kinds(m)[STEP_EMBED].hops;
    TEST_CHECK_THAT(embed == turned, "%s, %u x %u: %llu, not %llu", name,
                    m->layout.width, m->layout.height,
                    (unsigned long long)embed, (unsigned long long)turned);
    TEST_CHECK(mesh_kinds(m)[STEP_HEAD].hops == 0);
    mesh_events_clear(m);
    mesh_prompt(m, tokens, n_rows, 0, 1);
    TEST_CHECK(mesh_kinds(m)[STEP_HEAD].hops > 2 * (values / n_rows) * (m->layout.width - 1));
}

/* The ring of attention, and rows from the embedding and to the head: links and ramps
 * equal those of the plan, and so do instructions, except the softmax, which the plan counts
 * element by element. */
static void check_ring(const char *name, uint32_t width, uint32_t height, uint32_t before,
                       uint32_t n_rows, double slack)
{
    const wafer_mesh machine = {.width = width, .height = height, .simd_fp16 = 8, .hop_cycles = 1,
                                .ramp_cycles = 2};
    gguf_file *file = NULL;
    mesh_layout l = mesh_gemm_layout(width, height, KERNEL_KV_F32);
    l.rows_max = before > n_rows ? before : n_rows;
    mesh *m = open_mesh(path_of(name), &l, false, MESH_SOUND, &file);
    int32_t tokens[MESH_ROWS_MAX];
    if (!m) return;
    for (uint32_t i = 0; i < n_rows; i++) tokens[i] = 60 + (int32_t)i % 90;
    if (before) mesh_prompt(m, tokens, before, 0, 0);
    mesh_events_clear(m);
    mesh_prompt(m, tokens, n_rows, before, 0);
    const step_cost cost = {.mesh = &machine, .style = wafer_style_tuned(), .quant = QUANT_FP16,
                            .choice = l.choice, .context = before + n_rows, .tokens = 1,
                            .position = before};
    const step_shape *s = mesh_shape(m);
    const uint32_t line = (n_rows + height - 1) / height;
    wafer_events want = {0};
    uint64_t exps = 0, macs = 0, pairs = 0, blocks = 0;
    TEST_CHECK(s->n_kv_heads % m->strips.strips == 0 && s->head_dim % m->strips.channels == 0);
    for (uint32_t i = 0; i < m->program->n_ops; i++) {
        const uint32_t window = m->program->ops[i].window;
        if (m->program->ops[i].kind != STEP_ATTEND) continue;
        step_time fullest; /* that a plan takes */
        TEST_CHECK(!time_prompt_fullest(&fullest, m->program, i, width, height, &cost, n_rows));
        for (uint32_t y = 0; y < height; y++) {
            step_time t;
            TEST_CHECK(!time_prompt_attend(&t, m->program, i, width, height, &cost, n_rows, y));
            events_add(&want, &t.events, 1, 1);
            TEST_CHECK_THAT(t.cycles <= fullest.cycles, "%s behind %u, line %u: %.0f of %.0f", name,
                            before, y, t.cycles, fullest.cycles);
        }
        const uint32_t past = before + 1; /* what the first row sees */
        const uint32_t unseen = window && past > window ? past - window : 0;
        time_prompt_ring(&want, m->program, width, height, &cost, before + n_rows - unseen);
        for (uint32_t r = 0; r < n_rows; r++) /* row by row, as it would be without lines */
            for (uint32_t y = 0; y < 2 * height; y++) {
                const bool is_old = y < height; /* what row y keeps; what it has of the pass */
                const uint32_t first = before + (y - height) * line;
                uint32_t n = 0;
                for (uint32_t k = is_old ? y : first;
                     k < (is_old ? before : first + line) && k <= before + r;
                     k += is_old ? height : 1)
                    n += !window || k + window > before + r;
                exps += n ? s->n_heads : 0;
                blocks += n != 0;
                pairs += n;
            }
    }
    macs = 2 * pairs * s->n_heads * s->head_dim + blocks * s->n_heads * s->head_dim;
    TEST_CHECK_THAT(want.macs == macs, "%llu, not %llu", (unsigned long long)want.macs,
                    (unsigned long long)macs);
    /* Halves, which the plan rounds up to a wavelet in each sum of a strip. */
    const mesh_kind_events *k = &mesh_kinds(m)[STEP_ATTEND];
    TEST_CHECK_THAT(near(k->hops, 2 * want.hops, slack), "%s, %u x %u: hops %llu, not %llu", name,
                    width, height, (unsigned long long)k->hops,
                    2 * (unsigned long long)want.hops);
    TEST_CHECK_THAT(near(k->up + k->down, 2 * want.ramps, slack),
                    "%s, %u x %u: ramps %llu, not %llu", name, width, height,
                    (unsigned long long)(k->up + k->down), 2 * (unsigned long long)want.ramps);
    TEST_CHECK_THAT(k->issues == want.vector_ops + exps, "%s, %u x %u: %llu, not %llu + %llu",
                    name, width, height, (unsigned long long)k->issues,
                    (unsigned long long)want.vector_ops, (unsigned long long)exps);
    check_turns(m, tokens, n_rows, name);
    mesh_close(&m);
    gguf_close(&file);
}

static void test_the_ring_is_the_plans(void)
{
    check_ring("qwen2", 4, 4, 0, 16, 0);
    check_ring("qwen2", 4, 2, 0, 64, 0);
    check_ring("qwen2", 2, 8, 0, 48, 0);
    check_ring("llama", 4, 4, 0, 32, 0);
    check_ring("gpt-oss", 4, 4, 0, 64, 2e-4); /* with a window */
    check_ring("qwen2", 4, 4, 32, 16, 0);     /* after other passes */
    check_ring("qwen2", 2, 8, 40, 24, 0);
    check_ring("llama", 4, 4, 21, 16, 0);
    check_ring("gpt-oss", 4, 4, 48, 32, 2e-3);
}

static void test_colours(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32};
    cerium_error err = {0};
    uint32_t n;
    for (uint32_t w = 1; w <= 20; w++)
        for (uint32_t h = 1; h <= 20; h++)
            for (uint32_t degree = 1; degree <= 2; degree++) {
                mesh_layout l = mesh_gemm_layout(w, h, KERNEL_KV_I8);
                l.choice.degree = degree;
                TEST_CHECK_THAT(mesh_routes_check(&l, &shape, false, &n, &err) == 0, "%u x %u: %s",
                                w, h, err.message);
                TEST_CHECK(n == (degree == 1 ? 14 : 20));
            }
    mesh_layout l = mesh_gemm_layout(8, 8, KERNEL_KV_I8);
    l.choice.degree = 1;
    l.colours = 12; /* as many as decoding takes */
    TEST_CHECK(mesh_routes_check(&l, &shape, false, &n, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "need 14 colours"), "%s", err.message);
}

static void test_what_cannot_be(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32, .n_experts = 4,
                                     .context_tokens = 100};
    mesh_layout l = mesh_gemm_layout(4, 4, KERNEL_KV_I8);
    cerium_error err;
    TEST_CHECK(mesh_layout_validate(&l, &shape, &err) == 0);
    l.choice.experts = WAFER_EXPERTS_GROUPED;
    l.choice.group_side = 2;
    TEST_CHECK(mesh_layout_validate(&l, &shape, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "no expert groups"), "%s", err.message);
    l = mesh_gemm_layout(4, 4, KERNEL_KV_I8);
    l.order = MESH_EQUAL;
    TEST_CHECK(mesh_layout_validate(&l, &shape, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "take mesh order"), "%s", err.message);
}

int main(void)
{
    TEST_RUN(test_prompts_are_within_the_bound);
    TEST_RUN(test_a_step_too_few_is_found);
    TEST_RUN(test_order_of_a_product);
    TEST_RUN(test_counts_are_the_plans);
    TEST_RUN(test_the_ring_is_the_plans);
    TEST_RUN(test_colours);
    TEST_RUN(test_what_cannot_be);
    return unit_report("mesh_gemm");
}
