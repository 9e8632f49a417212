/* test_mesh.c - the mesh gives the CPU's logits: to the bit in the order of the contract, within
 * the bound that it states for its own; and planted faults are found. */
#include "wafer/timing.h"

#include "mesh_beside.h"

static const char *const fixtures[] = {
    "llama", "llama-rope3", "llama-linear", "qwen2", "qwen2-yarn", "qwen3", "qwen3moe", "gpt-oss",
    "starcoder2", "qwen2-f16", "qwen2-bf16", "qwen2-q8_0", "qwen2-q4_0", "qwen2-q4_1",
    "qwen2-q5_0", "qwen2-q5_1", "qwen2-iq4_nl", "qwen2-mxfp4", "llama-q4_k", "llama-q5_k",
    "llama-q6_k", "llama-iq4_xs", "qwen3moe-q4_0", "gpt-oss-mxfp4",
};

enum { N_FLOAT = 9 }; /* the first of them have float matrices */

/* Meshes of few cores and of more than there are channels, tall and wide ones; whole pages of
 * tokens in one row and neighbours in different ones. */
static const struct {
    uint32_t width, height, degree, multiple;
    wafer_kv_policy kv;
} meshes[] = {
    {1, 1, 1, 1, WAFER_KV_ROUND_ROBIN}, {5, 3, 1, 1, WAFER_KV_SHIFT},
    {8, 8, 2, 1, WAFER_KV_ROUND_ROBIN}, {3, 11, 2, 32, WAFER_KV_ROUND_ROBIN},
};

static void test_equal_order_is_the_cpu(void)
{
    for (size_t f = 0; f < ARRAY_LEN(fixtures); f++) {
        truth t = {0};
        const char *path = path_of(fixtures[f]);
        const kernel_kv_type kv = (kernel_kv_type)(f % KERNEL_KV_TYPE_END);
        /* Two of them span more than one chunk of attention. */
        const uint32_t n = f == 0 || f == 7 ? PROMPT_MAX : PROMPT;
        if (!ask_cpu(&t, path, kv, n, NULL)) continue;
        for (size_t i = 0; i < ARRAY_LEN(meshes); i++) {
            if (f >= N_FLOAT && i % 2 == f % 2) continue; /* two meshes for each further type */
            mesh_layout layout = layout_of(meshes[i].width, meshes[i].height, MESH_EQUAL, kv);
            layout.choice.kv = meshes[i].kv;
            layout.choice.k_multiple = meshes[i].multiple;
            const distance d = run(path, &layout, MESH_SOUND, &t);
            TEST_CHECK_THAT(d.same_bits && d.same_tokens, "%s on %u x %u", fixtures[f],
                            layout.width, layout.height);
        }
        memory_free(t.logits);
    }
}

static void test_mesh_order_is_within_its_bound(void)
{
    for (size_t f = 0; f < ARRAY_LEN(fixtures); f++) {
        truth t = {0};
        const char *path = path_of(fixtures[f]);
        for (int k = 0; k < 2; k++) {
            const kernel_kv_type kv = k ? KERNEL_KV_F32 : KERNEL_KV_I8;
            const size_t i = (f + (size_t)k) % 3 + 1;
            mesh_layout layout = layout_of(meshes[i].width, meshes[i].height, MESH_ORDER, kv);
            layout.choice.degree = meshes[i].degree;
            layout.choice.kv = meshes[i].kv;
            /* Norms ride on products, but those of starcoder2, which subtract a mean. */
            layout.choice.is_fused = (f / 3 + (size_t)k) % 2 == 0 && f != 8;
            if (!ask_cpu(&t, path, kv, PROMPT, NULL)) continue;
            const distance d = run(path, &layout, MESH_SOUND, &t);
            TEST_CHECK_THAT(d.worst <= 1, "%s: %g bounds", fixtures[f], (double)d.worst);
            /* Where nothing is rounded but sums, the bound is as small as that, experts too. */
            if (f >= N_FLOAT || !k) continue;
            TEST_CHECK_THAT(d.n_bounded == NEW && d.widest < 2e-4f, "%s: %u places, up to %g",
                            fixtures[f], d.n_bounded, (double)d.widest);
            TEST_CHECK(d.n_decided == NEW && d.same_tokens && !d.same_bits);
        }
        memory_free(t.logits);
    }
}

/* The bundled model on 32 x 32 cores. */
static void test_bundled_model(void)
{
    static const char path[] = "models/cerium-line.gguf";
    /* A text whose next tokens are nearly certain: the bound is that of the worst case. */
    static const char text[] = "    def __init__(self, a, b):\n        super().__init__(a, b)\n"
                               "        self.a = a\n        self.b = b\n";
    truth t = {0};
    if (!ask_cpu(&t, path, KERNEL_KV_I8, PROMPT, text)) return;
    mesh_layout layout = layout_of(32, 32, MESH_EQUAL, KERNEL_KV_I8);
    distance d = run(path, &layout, MESH_SOUND, &t);
    TEST_CHECK(d.same_bits && d.same_tokens);
    layout.order = MESH_ORDER;
    d = run(path, &layout, MESH_SOUND, &t);
    TEST_CHECK_THAT(d.worst <= 1 && d.n_bounded == NEW, "%g bounds", (double)d.worst);
    TEST_CHECK_THAT(d.widest < 5 && d.n_decided > 0, "%u decided", d.n_decided);
    memory_free(t.logits);
}

/* ---- placement, and order of sums ---- */

/* Pieces cover a vector once, in order, and each core has the piece of its placement. */
static void check_split(const mesh_split *s, uint32_t n, uint32_t tile, bool even)
{
    uint32_t at = 0, share[MESH_SIDE_MAX] = {0};
    for (uint32_t i = 0; i < s->n_pieces; i++) {
        TEST_CHECK(s->pieces[i].begin == at && s->pieces[i].end > at);
        TEST_CHECK(s->pieces[i].core < s->n_cores);
        at = s->pieces[i].end;
        share[s->pieces[i].core] += at - s->pieces[i].begin;
    }
    TEST_CHECK(at == n && s->n == n && s->most <= tile);
    for (uint32_t c = 0; c < s->n_cores; c++) {
        const wafer_range r = tile_range(n, tile, c);
        TEST_CHECK(share[c] == s->share[c] && (!even || share[c] == r.end - r.begin));
    }
}

static void test_tiles_are_the_placements(void)
{
    for (size_t f = 0; f < N_FLOAT; f++)
        for (size_t i = 0; i < ARRAY_LEN(meshes); i++) {
            gguf_file *file = NULL;
            mesh_layout l = layout_of(meshes[i].width, meshes[i].height, MESH_EQUAL, KERNEL_KV_I8);
            l.choice.k_multiple = meshes[i].multiple;
            mesh *m = open_mesh(path_of(fixtures[f]), &l, false, MESH_SOUND, &file);
            if (!m) continue;
            for (uint32_t op = 0; op < m->program->n_ops; op++) {
                const wafer_tiles t = tiles_of_op(m->program, op, l.width, l.height, &l.choice);
                const step_kind kind = m->program->ops[op].kind;
                for (int j = 0; j < 3; j++) {
                    const mesh_tiles *have = m->op_tiles[op][j];
                    if (!have) continue;
                    TEST_CHECK(have->k_axis == t.reduce && have->k->n_cores == t.n_k &&
                               have->n->n_cores == t.n_n);
                    check_split(have->k, have->w->cols, t.k_tile, kind != STEP_OUT);
                    check_split(have->n, have->w->rows, t.n_tile[j], kind != STEP_QKV);
                }
            }
            mesh_close(&m);
            gguf_close(&file);
        }
}

/* Two ways to the middle: 0 to 1 and both to 2, then 4 to 3 and both to 2.  The right side first
 * would give 0: in floats, 1e8 + 2 is 1e8. */
static void test_order_of_a_sum(void)
{
    gguf_file *file = NULL;
    mesh_layout l = layout_of(5, 1, MESH_ORDER, KERNEL_KV_I8);
    float partials[] = {1, 1e8f, -1e8f, 1, 1}, chain[] = {1, 1e8f, -1e8f, 1, 1};
    l.choice.degree = 1;
    mesh *m = open_mesh(path_of("llama"), &l, false, MESH_SOUND, &file);
    if (!m) return;
    TEST_CHECK(m->sum[WAFER_AXIS_X].root == 2 && m->sum[WAFER_AXIS_X].depth == 3);
    TEST_CHECK(*mesh_meet(&m->sum[WAFER_AXIS_X], partials, 1) == 2);
    mesh_schedule wrong = m->sum[WAFER_AXIS_X];
    wafer_add adds[4];
    for (uint32_t i = 0; i < 4; i++) adds[i] = wrong.adds[(i + 2) % 4]; /* the right side first */
    wrong.adds = adds;
    TEST_CHECK(*mesh_meet(&wrong, chain, 1) != 2);
    mesh_close(&m);
    gguf_close(&file);
}

/* ---- tokens that move ---- */

/* Every visible token is in one row, and rows are balanced; the first tokens go down the
 * rows one by one, so rows are balanced only as far as a row of one has come. */
static void check_rows(const mesh *m, uint32_t layer, uint32_t low, uint32_t n, bool is_even)
{
    const uint32_t h = m->layout.height;
    uint32_t at = low;
    for (uint32_t y = 0; y < h; y++) {
        const mesh_kv_range r = mesh_kv_tokens(m, layer, y, low, n);
        if (r.begin == r.end) continue;
        TEST_CHECK(r.begin == at && r.end > at);
        TEST_CHECK_THAT(!is_even || r.end - r.begin <= tiles_of(n - low, h) + 1,
                        "row %u: %u of %u", y, r.end - r.begin, n - low);
        at = r.end;
    }
    TEST_CHECK(at == n);
}

static void check_moves(const char *model)
{
    enum { H = 5, N = 12 * H };
    gguf_file *file = NULL;
    mesh_layout l = layout_of(4, H, MESH_ORDER, KERNEL_KV_F32);
    l.choice.kv = WAFER_KV_SHIFT;
    mesh *m = open_mesh(path_of(model), &l, false, MESH_SOUND, &file);
    if (!m) return;
    const uint32_t n_layers = m->program->shape.n_layers;
    uint64_t moves = 0;
    uint32_t full = 0;
    for (uint32_t n = 1; n <= N; n++) {
        const int32_t token = (int32_t)n;
        mesh_run(m, &token, 1, n - 1, 0);
        full = 0;
        for (uint32_t i = 0; i < m->program->n_ops; i++) {
            const step_op *op = &m->program->ops[i];
            if (op->kind != STEP_QKV) continue;
            const bool is_cut = op->window && n > op->window;
            check_rows(m, op->layer, is_cut ? n - op->window : 0, n, true);
            full += is_cut;
        }
        if (n == N - H) moves = m->kv_moves;
    }
    /* In the steady state the boundary above row y moves y times in H tokens, in a full window
     * H times. */
    const uint64_t each = H * (H - 1) / 2;
    TEST_CHECK_THAT(m->kv_moves - moves == each * (n_layers - full) + 2 * each * full, "%s: %llu",
                    model, (unsigned long long)(m->kv_moves - moves));
    /* Retracted tokens leave; their successors move up as there is room. */
    const int32_t again[3] = {7, 8, 9};
    mesh_run(m, again, 3, N - 9, 0);
    const uint32_t window = m->program->ops[1].window, n = N - 6;
    check_rows(m, 0, window && n > window ? n - window : 0, n, false);
    mesh_close(&m);
    gguf_close(&file);
}

static void test_tokens_move_up(void)
{
    check_moves("llama");
    check_moves("gpt-oss");
}

/* ---- faults ---- */

static void test_faults_are_found(void)
{
    static const struct {
        const char *model;
        kernel_kv_type kv;
    } cases[] = {
        {"llama", KERNEL_KV_F32}, {"qwen2-q8_0", KERNEL_KV_I8}, {"gpt-oss", KERNEL_KV_F16}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        truth t = {0};
        const char *path = path_of(cases[i].model);
        if (!ask_cpu(&t, path, cases[i].kv, PROMPT, NULL)) continue;
        mesh_layout layout = layout_of(2, 2, MESH_EQUAL, cases[i].kv);
        for (mesh_fault f = MESH_SOUND; f <= MESH_FAULT_EXP; f++) {
            const distance d = run(path, &layout, f, &t);
            TEST_CHECK_THAT(d.same_bits == (f == MESH_SOUND), "%s: fault %d", cases[i].model, f);
        }
        /* A wrong order is no fault in MESH order; wrong values leave its bound. */
        layout.order = MESH_ORDER;
        if (i == 0) {
            TEST_CHECK(run(path, &layout, MESH_FAULT_TILE, &t).worst > 1);
            TEST_CHECK(run(path, &layout, MESH_FAULT_EXP, &t).worst > 1);
            layout.choice.kv = WAFER_KV_SHIFT;
            TEST_CHECK(run(path, &layout, MESH_SOUND, &t).worst <= 1);
            TEST_CHECK(run(path, &layout, MESH_FAULT_SHIFT, &t).worst > 1);
        }
        memory_free(t.logits);
    }
}

/* ---- routes ---- */

static void test_colours(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32};
    cerium_error err = {0};
    uint32_t n;
    for (uint32_t degree = 1; degree <= 3; degree++)
        for (uint32_t w = 1; w <= 40; w += 3)
            for (uint32_t h = 1; h <= 40; h += 3)
                for (int order = 0; order < 2; order++) {
                    mesh_layout l = layout_of(w, h, (mesh_order)order, KERNEL_KV_I8);
                    l.choice.degree = degree;
                    l.choice.kv = w % 2 ? WAFER_KV_SHIFT : WAFER_KV_ROUND_ROBIN;
                    l.colours = 28;
                    TEST_CHECK_THAT(mesh_routes_check(&l, &shape, false, &n, &err) == 0,
                                    "%u x %u, degree %u: %s", w, h, degree, err.message);
                    TEST_CHECK(n == 8 * (order ? degree : 1) + 4);
                }
    /* Two operations on one colour, and more phases than a router has colours for. */
    mesh_layout l = layout_of(6, 6, MESH_ORDER, KERNEL_KV_I8);
    TEST_CHECK(mesh_routes_check(&l, &shape, true, &n, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "collides at core") &&
                    strstr(err.message, "the broadcast along y"), "%s", err.message);
    l.choice.degree = 3;
    TEST_CHECK(mesh_routes_check(&l, &shape, false, &n, &err) == CERIUM_ERR_ARGUMENT);
    TEST_CHECK_THAT(strstr(err.message, "need 28 colours and a router has 24"), "%s", err.message);
}

/* ---- speculation and sampling ---- */

static void test_verify(void)
{
    truth t = {0};
    gguf_file *file = NULL;
    const char *path = path_of("qwen2-q4_0");
    if (!ask_cpu(&t, path, KERNEL_KV_I8, PROMPT, NULL)) return;
    mesh_layout layout = layout_of(4, 4, MESH_EQUAL, KERNEL_KV_I8);
    mesh *m = open_mesh(path, &layout, false, MESH_SOUND, &file);
    if (!m) return;
    int32_t draft[NEW], out[NEW];
    prefill(m, t.tokens, PROMPT);
    for (uint32_t wrong = 1; wrong <= NEW; wrong++) {
        memcpy(draft, t.tokens + PROMPT - 1, sizeof draft);
        if (wrong < NEW) draft[wrong] = (draft[wrong] + 1) % (int32_t)t.n_vocab;
        const uint32_t n = mesh_verify(m, draft, NEW, PROMPT - 1, out);
        TEST_CHECK_THAT(n == wrong, "%u, not %u", n, wrong);
        TEST_CHECK(!memcmp(out, t.tokens + PROMPT, wrong * sizeof *out));
    }
    mesh_close(&m);
    gguf_close(&file);
    memory_free(t.logits);
}

static void test_sampling_is_that_over_all_logits(void)
{
    static const cerium_sampling choices[] = {
        {.temperature = 0}, {.repetition_penalty = 1.3f},
        {.repetition_penalty = 0.8f, .repetition_tokens = 20},
        {.temperature = 0.8f, .top_k = 4, .seed = 1},
        {.temperature = 1.0f, .top_k = 40, .top_p = 0.9f, .repetition_penalty = 1.2f, .seed = 3},
        {.temperature = 1.0f, .top_k = 200, .seed = 5}, {.temperature = 1.0f, .top_p = 0.9f},
    };
    gguf_file *file = NULL;
    sampler *s = NULL;
    cerium_error err;
    int32_t tokens[64] = {1};
    mesh_layout layout = layout_of(7, 2, MESH_ORDER, KERNEL_KV_I8);
    mesh *m = open_mesh(path_of("qwen2-yarn"), &layout, false, MESH_SOUND, &file);
    if (!m) return;
    const uint32_t n_vocab = mesh_shape(m)->n_vocab;
    TEST_CHECK(sampler_open(&s, n_vocab, &err) == 0);
    for (uint32_t i = 0; s && i + 1 < ARRAY_LEN(tokens); i++) {
        mesh_run(m, tokens + i, 1, i, 1);
        for (size_t c = 0; c < ARRAY_LEN(choices); c++) {
            const int32_t want = sampler_choose(s, mesh_logits(m, 0), n_vocab, &choices[c], tokens,
                                                i + 1, i + 1);
            const int32_t have = mesh_sample(m, 0, &choices[c], tokens, i + 1, i + 1);
            TEST_CHECK_THAT(have == want, "choice %zu at %u: %d, not %d", c, i, have, want);
            tokens[i + 1] = have;
        }
    }
    sampler_close(&s);
    mesh_close(&m);
    gguf_close(&file);
}

/* ---- events ---- */

/* The timing model's counts for a sum equal those counted here. */
static void test_counts_agree_with_the_clocks(void)
{
    gguf_file *file = NULL;
    for (uint32_t degree = 1; degree <= 2; degree++) {
        mesh_layout layout = layout_of(9, 14, MESH_ORDER, KERNEL_KV_I8);
        layout.choice.degree = degree;
        mesh *m = open_mesh(path_of("llama"), &layout, false, MESH_SOUND, &file);
        if (!m) return;
        for (wafer_axis axis = WAFER_AXIS_X; axis <= WAFER_AXIS_Y; axis++) {
            wafer_clocks c;
            const uint32_t n = axis == WAFER_AXIS_X ? 9 : 14, lines = axis == WAFER_AXIS_X ? 14 : 9;
            const wafer_reduction sum = reduction_of(n, degree);
            const wafer_message_cost cost = {.hop = WAFER_TICKS, .ramp = 1, .stage = 1};
            TEST_CHECK(clocks_open(&c, 9, 14, false, cost) == 0);
            clocks_reduce(&c, axis, &sum, 7);
            mesh_events_clear(m);
            mesh_count_collective(m, axis, NULL, 7, 1);
            const mesh_kind_events *k = &mesh_kinds(m)[m->kind];
            TEST_CHECK_THAT(k->hops == c.events.hops, "degree %u, axis %d: %llu, not %llu", degree,
                            axis, (unsigned long long)k->hops, (unsigned long long)c.events.hops);
            TEST_CHECK(k->issues == c.events.stages && k->issues == (uint64_t)(n - 1) * lines);
            TEST_CHECK(k->down == 7ull * 2 * (n - 1) * lines && k->up == 7ull * n * lines);
            clocks_close(&c);
        }
        mesh_close(&m);
        gguf_close(&file);
    }
}

/* What moves up by a row within as many tokens as there are rows. */
static void test_moves_agree_with_the_clocks(void)
{
    static const wafer_mesh machine = {.width = 4, .height = 4, .simd_fp16 = 8, .hop_cycles = 1,
                                       .ramp_cycles = 2};
    uint64_t hops[2] = {0}, clocks[2] = {0};
    for (int moves = 0; moves < 2; moves++) {
        gguf_file *file = NULL;
        mesh_layout layout = layout_of(4, 4, MESH_ORDER, KERNEL_KV_F32);
        layout.choice.kv = moves ? WAFER_KV_SHIFT : WAFER_KV_ROUND_ROBIN;
        mesh *m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file);
        if (!m) return;
        for (uint32_t n = 0; n < 24; n++) {
            const int32_t token = 65;
            if (n == 20) mesh_events_clear(m);
            mesh_run(m, &token, 1, n, 0);
        }
        const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(), .quant = QUANT_FP16,
                                .choice = mesh_layout_of(m)->choice, .context = 24, .tokens = 1};
        for (uint32_t i = 0; i < m->program->n_ops; i++) {
            step_time t;
            if (m->program->ops[i].kind != STEP_QKV) continue;
            TEST_CHECK(time_range(&t, m->program, i, 1, 4, 4, &cost, true) == 0);
            clocks[moves] += 4 * 2 * t.events.hops; /* of halves, two in a wavelet */
        }
        hops[moves] = mesh_kinds(m)[STEP_QKV].hops;
        mesh_close(&m);
        gguf_close(&file);
    }
    TEST_CHECK_THAT(hops[1] > hops[0] && hops[1] - hops[0] == clocks[1] - clocks[0],
                    "%llu, not %llu", (unsigned long long)(hops[1] - hops[0]),
                    (unsigned long long)(clocks[1] - clocks[0]));
}

/* A norm that rides on a product saves one sum along each column. */
static void test_fused_sums_agree_with_the_clocks(void)
{
    static const wafer_mesh machine = {.width = 4, .height = 4, .simd_fp16 = 8, .hop_cycles = 1,
                                       .ramp_cycles = 2};
    uint64_t adds[2] = {0}, stages[2] = {0}, collectives[2] = {0};
    for (int fused = 0; fused < 2; fused++) {
        gguf_file *file = NULL;
        mesh_layout layout = layout_of(4, 4, MESH_ORDER, KERNEL_KV_F32);
        layout.choice.is_fused = fused;
        mesh *m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file);
        if (!m) return;
        const int32_t token = 65;
        mesh_run(m, &token, 1, 0, 1);
        const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(), .quant = QUANT_FP16,
                                .choice = mesh_layout_of(m)->choice, .context = 1, .tokens = 1};
        uint32_t n_ops = 0;
        for (uint32_t i = 0; i < m->program->n_ops; i++) {
            const step_kind kind = m->program->ops[i].kind;
            step_time t;
            if (kind != STEP_QKV && kind != STEP_FFN_UP) continue;
            TEST_CHECK(time_range(&t, m->program, i, 1, 4, 4, &cost, true) == 0);
            stages[fused] += t.events.stages;
            n_ops++;
        }
        for (int kind = STEP_QKV; kind <= STEP_FFN_UP; kind += STEP_FFN_UP - STEP_QKV) {
            const mesh_kind_events *k = &mesh_kinds(m)[kind];
            adds[fused] += k->issues;
            collectives[fused] += k->collectives;
        }
        /* Except for adds: a row is scaled in one instruction less before the product, and one
         * more after it; and so is each of its outputs, three of QKV and two of UP. */
        if (fused) adds[1] -= 16ull * n_ops / 2 * (3 + 2);
        mesh_close(&m);
        gguf_close(&file);
        if (fused) TEST_CHECK(collectives[0] - collectives[1] == n_ops);
    }
    TEST_CHECK_THAT(adds[0] > adds[1] && adds[0] - adds[1] == stages[0] - stages[1],
                    "%llu, not %llu", (unsigned long long)(adds[0] - adds[1]),
                    (unsigned long long)(stages[0] - stages[1]));
}

/* And their counts for whole operations with even tiles: a product and its sum.  The
 * clocks send two halves in a wavelet, the mesh one float. */
static void test_operations_agree_with_the_clocks(void)
{
    static const wafer_mesh machine = {.width = 4, .height = 4, .simd_fp16 = 8, .hop_cycles = 1,
                                       .ramp_cycles = 2};
    gguf_file *file = NULL;
    mesh_layout layout = layout_of(4, 4, MESH_ORDER, KERNEL_KV_F32);
    mesh *m = open_mesh(path_of("qwen2"), &layout, false, MESH_SOUND, &file);
    uint32_t n_compared = 0;
    if (!m) return;
    const int32_t token = 65;
    mesh_run(m, &token, 1, 0, 0);
    const step_cost cost = {.mesh = &machine, .style = wafer_style_sdk(), .quant = QUANT_FP16,
                            .choice = mesh_layout_of(m)->choice, .context = 1, .tokens = 1};
    uint64_t hops[MESH_KIND_END] = {0}, vectors[MESH_KIND_END] = {0};
    for (uint32_t i = 0; i < m->program->n_ops; i++) {
        const step_kind kind = m->program->ops[i].kind;
        const model_matrix *w = m->program->ops[i].w[0];
        step_time t;
        if (kind != STEP_OUT && kind != STEP_FFN_DOWN) continue;
        TEST_CHECK(w->rows % 8 == 0 && w->cols % 4 == 0);
        TEST_CHECK(time_range(&t, m->program, i, 1, 4, 4, &cost, false) == 0);
        hops[kind] += 2 * t.events.hops;
        vectors[kind] += t.events.vector_ops;
        n_compared++;
    }
    for (int kind = STEP_OUT; kind <= STEP_FFN_DOWN; kind += STEP_FFN_DOWN - STEP_OUT) {
        const mesh_kind_events *k = &mesh_kinds(m)[kind];
        TEST_CHECK_THAT(k->hops == hops[kind], "%llu, not %llu", (unsigned long long)k->hops,
                        (unsigned long long)hops[kind]);
        /* And, besides theirs, one on each core that adds to the residual stream. */
        TEST_CHECK_THAT(k->issues == vectors[kind] + 16ull * k->collectives, "%llu, not %llu",
                        (unsigned long long)k->issues, (unsigned long long)vectors[kind]);
    }
    TEST_CHECK(n_compared == 2 * mesh_shape(m)->n_layers);
    mesh_close(&m);
    gguf_close(&file);
}

/* Sums by core equal those by kind, and nothing leaves the mesh at its edges. */
static void test_counts_of_a_token(void)
{
    gguf_file *file = NULL;
    mesh_layout layout = layout_of(6, 5, MESH_ORDER, KERNEL_KV_I8);
    mesh *m = open_mesh(path_of("qwen3moe"), &layout, false, MESH_SOUND, &file);
    if (!m) return;
    const step_shape *s = mesh_shape(m);
    const int32_t token = 65;
    mesh_run(m, &token, 1, 0, 1);
    mesh_kind_events by_kind = {0}, by_core = {0};
    for (int i = 0; i < MESH_KIND_END; i++) {
        const mesh_kind_events *k = &mesh_kinds(m)[i];
        by_kind.issues += k->issues, by_kind.steps += k->steps, by_kind.hops += k->hops;
        by_kind.up += k->up, by_kind.down += k->down;
    }
    for (uint32_t y = 0; y < 5; y++)
        for (uint32_t x = 0; x < 6; x++) {
            const mesh_core_events *c = &mesh_events(m)[y * 6 + x];
            by_core.issues += c->issues, by_core.steps += c->steps;
            by_core.up += c->up, by_core.down += c->down;
            for (int i = 0; i < 4; i++) by_core.hops += c->link[i];
            TEST_CHECK((x < 5 || !c->link[MESH_EAST]) && (x > 0 || !c->link[MESH_WEST]));
            TEST_CHECK((y < 4 || !c->link[MESH_SOUTH]) && (y > 0 || !c->link[MESH_NORTH]));
        }
    TEST_CHECK(!memcmp(&by_kind, &by_core, sizeof by_kind));
    /* The head: every core one instruction for each of its values of K, and the norm. */
    uint64_t products = 0;
    for (uint32_t y = 0; y < 5; y++) products += 6ull * m->split_e.share[y];
    TEST_CHECK(products == 6ull * s->n_embd && mesh_kinds(m)[STEP_HEAD].issues > products);
    mesh_events_clear(m);
    TEST_CHECK(mesh_kinds(m)[STEP_HEAD].issues == 0 && mesh_events(m)[0].steps == 0);
    mesh_close(&m);
    gguf_close(&file);
}

/* ---- impossible layouts ---- */

static void test_bad_layouts(void)
{
    static const step_shape shape = {.n_heads = 8, .n_kv_heads = 4, .head_dim = 32, .n_experts = 4,
                                     .context_tokens = 100};
    struct {
        mesh_layout l;
        const char *says;
    } cases[] = {
        {layout_of(0, 4, MESH_EQUAL, KERNEL_KV_I8), "width 0"},
        {layout_of(4, 257, MESH_EQUAL, KERNEL_KV_I8), "height 257"},
        {mesh_layout_default(), "degree 5"}, {mesh_layout_default(), "context 101"},
        {mesh_layout_default(), "group 9"}, {mesh_layout_default(), "fused"},
        {mesh_layout_default(), "tokens in a pass 0"},
    };
    cerium_error err;
    cases[2].l.choice.degree = 5;
    cases[3].l.choice.context = 101;
    cases[4].l.choice.experts = WAFER_EXPERTS_GROUPED;
    cases[4].l.choice.group_side = 9;
    cases[5].l.choice.is_fused = true;
    cases[6].l.rows_max = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        TEST_CHECK(mesh_layout_validate(&cases[i].l, &shape, &err) == CERIUM_ERR_ARGUMENT);
        TEST_CHECK_THAT(strstr(err.message, cases[i].says), "%s", err.message);
    }
}

static void test_memory_runs_out(void)
{
    check_memory_runs_out("qwen3moe", layout_of(3, 2, MESH_ORDER, KERNEL_KV_I8));
}

int main(void)
{
    TEST_RUN(test_equal_order_is_the_cpu);
    TEST_RUN(test_mesh_order_is_within_its_bound);
    TEST_RUN(test_bundled_model);
    TEST_RUN(test_tiles_are_the_placements);
    TEST_RUN(test_order_of_a_sum);
    TEST_RUN(test_tokens_move_up);
    TEST_RUN(test_moves_agree_with_the_clocks);
    TEST_RUN(test_fused_sums_agree_with_the_clocks);
    TEST_RUN(test_faults_are_found);
    TEST_RUN(test_colours);
    TEST_RUN(test_verify);
    TEST_RUN(test_sampling_is_that_over_all_logits);
    TEST_RUN(test_counts_agree_with_the_clocks);
    TEST_RUN(test_operations_agree_with_the_clocks);
    TEST_RUN(test_counts_of_a_token);
    TEST_RUN(test_bad_layouts);
    TEST_RUN(test_memory_runs_out);
    return unit_report("mesh");
}
