/* test_mesh_expert_groups.c - experts on groups of cores: the CPU's logits for any groups;
 * lost rows and missing answers are found; counts equal those of the clocks.
 */
#include "wafer/timing.h"

#include "mesh_beside.h"

static const char *const mixtures[] = {"qwen3moe", "gpt-oss", "qwen3moe-q4_0", "gpt-oss-mxfp4"};
enum { N_FLOAT = 2 }; /* the first of them have float matrices */

/* More groups than experts, and fewer; spare cores at the edges; slices and parts that are
 * uneven or empty. */
static const struct {
    uint32_t width, height, group, multiple;
} meshes[] = {{8, 8, 2, 1}, {11, 9, 3, 1}, {5, 7, 5, 1}, {3, 2, 1, 1}, {16, 15, 7, 8}};

static mesh_layout expert_groups_layout(uint32_t width, uint32_t height, uint32_t group,
                                        mesh_order order, kernel_kv_type kv)
{
    mesh_layout l = layout_of(width, height, order, kv);
    l.choice.experts = WAFER_EXPERTS_GROUPED;
    l.choice.group_side = group;
    return l;
}

static void test_equal_order_is_the_cpu(void)
{
    for (size_t f = 0; f < ARRAY_LEN(mixtures); f++) {
        truth t = {0};
        const char *path = path_of(mixtures[f]);
        if (!ask_cpu(&t, path, KERNEL_KV_I8, PROMPT, NULL)) continue;
        for (size_t i = 0; i < ARRAY_LEN(meshes); i++) {
            mesh_layout l = expert_groups_layout(meshes[i].width, meshes[i].height, meshes[i].group,
                                                 MESH_EQUAL, KERNEL_KV_I8);
            l.choice.k_multiple = meshes[i].multiple;
            const distance d = run(path, &l, MESH_SOUND, &t);
            TEST_CHECK_THAT(d.same_bits && d.same_tokens, "%s on %u x %u, groups of %u",
                            mixtures[f], l.width, l.height, l.choice.group_side);
        }
        memory_free(t.logits);
    }
}

static void test_mesh_order_is_within_its_bound(void)
{
    for (size_t f = 0; f < ARRAY_LEN(mixtures); f++) {
        truth t = {0};
        const char *path = path_of(mixtures[f]);
        if (!ask_cpu(&t, path, KERNEL_KV_F32, PROMPT, NULL)) continue;
        for (size_t i = 0; i < ARRAY_LEN(meshes); i++) {
            mesh_layout l = expert_groups_layout(meshes[i].width, meshes[i].height, meshes[i].group,
                                                 MESH_ORDER, KERNEL_KV_F32);
            l.choice.is_fused = (f + i) % 2;
            const distance d = run(path, &l, MESH_SOUND, &t);
            TEST_CHECK_THAT(d.worst <= 1, "%s, mesh %zu: %g bounds", mixtures[f], i,
                            (double)d.worst);
            if (f >= N_FLOAT) continue;
            TEST_CHECK_THAT(d.n_bounded == NEW && d.widest < 2e-4f, "%s, mesh %zu: %u, up to %g",
                            mixtures[f], i, d.n_bounded, (double)d.widest);
            TEST_CHECK(d.n_decided == NEW && d.same_tokens);
        }
        memory_free(t.logits);
    }
}

static void test_faults_are_found(void)
{
    static const mesh_fault faults[] = {MESH_SOUND, MESH_FAULT_GROUP, MESH_FAULT_ANSWER};
    truth t = {0};
    const char *path = path_of("qwen3moe");
    if (!ask_cpu(&t, path, KERNEL_KV_F32, PROMPT, NULL)) return;
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        const bool sound = faults[i] == MESH_SOUND;
        mesh_layout l = expert_groups_layout(8, 8, 3, MESH_EQUAL, KERNEL_KV_F32);
        TEST_CHECK_THAT(run(path, &l, faults[i], &t).same_bits == sound, "fault %zu, equal", i);
        l.order = MESH_ORDER;
        TEST_CHECK_THAT((run(path, &l, faults[i], &t).worst <= 1) == sound, "fault %zu, mesh", i);
    }
    memory_free(t.logits);
}

/* Each value of a slice is in one part, and a core stores what the plan counts for it. */
static void test_groups_are_the_placements(void)
{
    for (size_t i = 0; i < ARRAY_LEN(meshes); i++) {
        gguf_file *file = NULL;
        mesh_layout l = expert_groups_layout(meshes[i].width, meshes[i].height, meshes[i].group,
                                             MESH_EQUAL, KERNEL_KV_I8);
        l.choice.k_multiple = meshes[i].multiple;
        mesh *m = open_mesh(path_of("qwen3moe"), &l, false, MESH_SOUND, &file);
        if (!m) continue;
        uint32_t at = 0, held = 0;
        for (uint32_t p = 0; p < m->expert_group_part.n_pieces; p++) {
            TEST_CHECK(m->expert_group_part.pieces[p].begin == at);
            at = m->expert_group_part.pieces[p].end;
        }
        TEST_CHECK(at == m->program->shape.n_embd);
        for (uint32_t op = 0; op < m->program->n_ops; op++) {
            const step_kind kind = m->program->ops[op].kind;
            if (kind != STEP_EXPERTS_UP && kind != STEP_EXPERTS_DOWN) continue;
            const wafer_tiles t = expert_group_tiles(m->program, op, &l.choice);
            for (int j = 0; j < 3 && m->op_tiles[op][j]; j++) {
                const mesh_tiles *have = m->op_tiles[op][j];
                TEST_CHECK(have->k_axis == t.reduce && have->k->most == t.k_tile &&
                           have->n->most == t.n_tile[j]);
            }
        }
        for (uint32_t y = 0; y < l.height; y++)
            for (uint32_t x = 0; x < l.width; x++) held += mesh_expert_groups_held(m, x, y, 8);
        TEST_CHECK(held == 8 * l.choice.group_side * l.choice.group_side);
        mesh_close(&m);
        gguf_close(&file);
    }
}

/* One token on 8 x 8 cores of 16 groups, so that no two experts share one: sums as the clocks
 * count them, of halves two in a wavelet; and of instructions those of products and sums. */
static void test_counts_agree_with_the_clocks(void)
{
    static const wafer_mesh machine = {.width = 8, .height = 8, .simd_fp16 = 8, .hop_cycles = 1,
                                       .ramp_cycles = 2};
    gguf_file *file = NULL;
    mesh_layout l = expert_groups_layout(8, 8, 2, MESH_ORDER, KERNEL_KV_F32);
    mesh *m = open_mesh(path_of("qwen3moe"), &l, false, MESH_SOUND, &file);
    if (!m) return;
    const int32_t token = 65;
    mesh_run(m, &token, 1, 0, 0);
    const step_shape *s = mesh_shape(m);
    const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(), .quant = QUANT_FP16,
                            .choice = mesh_layout_of(m)->choice, .context = 1, .tokens = 1};
    uint64_t hops = 0, vectors = 0;
    for (uint32_t i = 0; i < m->program->n_ops; i++) {
        step_time folded, every;
        if (m->program->ops[i].kind != STEP_EXPERTS_UP) continue; /* both halves */
        TEST_CHECK(time_range(&folded, m->program, i, 1, 8, 8, &cost, true) == 0);
        TEST_CHECK(time_range(&every, m->program, i, 1, 8, 8, &cost, false) == 0);
        TEST_CHECK(folded.cycles == every.cycles && folded.events.hops == every.events.hops);
        hops += 2 * folded.events.hops;
        vectors += folded.events.vector_ops;
    }
    const mesh_kind_events *up = &mesh_kinds(m)[STEP_EXPERTS_UP];
    const mesh_kind_events *down = &mesh_kinds(m)[STEP_EXPERTS_DOWN];
    TEST_CHECK_THAT(up->hops + down->hops == hops, "%llu, not %llu",
                    (unsigned long long)(up->hops + down->hops), (unsigned long long)hops);
    /* The clocks sum gate and up together and activate element by element: here sums are apart, in
     * each column of a group one add, and activations are eight instructions a core. */
    const uint64_t cores = 4ull * s->n_experts_used * s->n_layers;
    const uint64_t apart = 2ull * s->n_experts_used * s->n_layers + 8 * cores;
    TEST_CHECK_THAT(up->issues + down->issues == vectors + apart, "%llu, not %llu",
                    (unsigned long long)(up->issues + down->issues),
                    (unsigned long long)(vectors + apart));
    mesh_close(&m);
    gguf_close(&file);
}

static void test_colours(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32, .n_experts = 4};
    cerium_error err = {0};
    uint32_t n;
    for (uint32_t side = 1; side <= 9; side++)
        for (uint32_t more = 0; more <= 13; more += 6)
            for (int order = 0; order < 2; order++) {
                const mesh_layout l = expert_groups_layout(2 * side + more, side + more, side,
                                                           (mesh_order)order, KERNEL_KV_I8);
                TEST_CHECK_THAT(mesh_routes_check(&l, &shape, false, &n, &err) == 0, "%u, %u: %s",
                                side, more, err.message);
                TEST_CHECK(n == 8u * (order ? 2 : 1) + 6);
            }
    mesh_layout l = expert_groups_layout(8, 8, 2, MESH_ORDER, KERNEL_KV_I8);
    l.colours = 20; /* the number for sums of two phases without groups */
    TEST_CHECK(mesh_routes_check(&l, &shape, false, &n, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "and expert groups, need 22 colours"), "%s", err.message);
}

static void test_no_experts(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32,
                                     .context_tokens = 100};
    const mesh_layout l = expert_groups_layout(8, 8, 2, MESH_EQUAL, KERNEL_KV_I8);
    cerium_error err;
    TEST_CHECK(mesh_layout_validate(&l, &shape, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "this model has none"), "%s", err.message);
}

static void test_memory_runs_out(void)
{
    check_memory_runs_out("qwen3moe", expert_groups_layout(3, 2, 2, MESH_ORDER, KERNEL_KV_I8));
}

int main(void)
{
    TEST_RUN(test_equal_order_is_the_cpu);
    TEST_RUN(test_mesh_order_is_within_its_bound);
    TEST_RUN(test_faults_are_found);
    TEST_RUN(test_groups_are_the_placements);
    TEST_RUN(test_counts_agree_with_the_clocks);
    TEST_RUN(test_colours);
    TEST_RUN(test_no_experts);
    TEST_RUN(test_memory_runs_out);
    return unit_report("mesh_expert_groups");
}
