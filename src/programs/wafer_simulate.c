/* wafer_simulate.c - `cerium wafer simulate`: a model run on a mesh of cores, beside the CPU. */
#include <math.h>

#include "programs/programs.h"
#include "programs/wafer.h"
#include "programs/wafer_simulate.h"

static const char name[] = "wafer simulate";

enum { PROMPT_BYTES_MAX = 1 << 20 };

static bool take_size(mesh_layout *l, const char *value)
{
    const char *x = strchr(value, 'x');
    uint64_t width, height;
    if (!x || !parse_u64((view){value, (size_t)(x - value)}, &width) ||
        !parse_u64(view_of(x + 1), &height))
        return option_wants("WIDTHxHEIGHT, as in 16x16");
    l->width = width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
    l->height = height < UINT32_MAX ? (uint32_t)height : UINT32_MAX;
    return true;
}

static bool take_mesh(void *program, const char *value)
{
    simulate *s = program;
    s->mesh_given = true;
    return take_size(&s->layout, value);
}

static bool take_draft_mesh(void *program, const char *value)
{
    return take_size(&((simulate *)program)->draft_layout, value);
}

static bool take_order(void *program, const char *value)
{
    simulate *s = program;
    uint32_t which;
    if (!option_word(value, "equal, mesh", &which)) return false;
    s->layout.order = which ? MESH_ORDER : MESH_EQUAL;
    return true;
}

static bool take_expert_groups(void *program, const char *value)
{
    simulate *s = program;
    s->layout.choice.experts = WAFER_EXPERTS_GROUPED;
    return option_u32(value, 1, MESH_SIDE_MAX, &s->layout.choice.group_side);
}

static bool take_kv_policy(void *program, const char *value)
{
    simulate *s = program;
    uint32_t which;
    if (!option_word(value, "round-robin, shift", &which)) return false;
    s->layout.choice.kv = which ? WAFER_KV_SHIFT : WAFER_KV_ROUND_ROBIN;
    return true;
}

/* clang-format off */
static const option_spec own[] = {
    {"tokens", .help = "generate N tokens (default 32)"},
    {"mesh", "WxH", "cores along x and y, at most 256 of each (default 32x32)",
     TAKES_CALL(take_mesh)},
    {"machine", "NAME",
     "mesh, colours and lanes of machines/NAME.ini, or of a file; without it cycles are those of "
     "wse3's cores. A model that its cores have no memory for is refused",
     TAKES_ANY(simulate, machine)},
    {"order", "equal|mesh",
     "equal, the default: sums in the order of the CPU, with the same bits. mesh: partial sums "
     "meet as on silicon, within a bound that is computed beside them; exit status 1 when a logit "
     "is outside its bound",
     TAKES_CALL(take_order)},
    {"degree", "N", "phases in which partial sums meet, 1 to 4 (default 2)",
     TAKES_U32(simulate, layout.choice.degree, 1, WAFER_DEGREE_MAX)},
    {"fused", NULL, "norms travel with the sums of products; needs --order mesh",
     TAKES_FLAG(simulate, layout.choice.is_fused)},
    {"expert-groups", "N", "each expert on a group of N x N cores (default: over all cores)",
     TAKES_CALL(take_expert_groups)},
    {"mesh-gemm", NULL, "compute the prompt as MeshGEMM products (Cannon); needs --order mesh",
     TAKES_FLAG(simulate, layout.mesh_gemm)},
    {"kv-policy", "WHICH",
     "round-robin, the default, or shift: rows of cores keep neighbouring tokens, and pass their "
     "oldest one up as the text grows",
     TAKES_CALL(take_kv_policy)},
    {"verify", "N", "afterwards verify the text again, N tokens in a pass, as a draft",
     TAKES_U32(simulate, verify, 1, MESH_ROWS_MAX)},
    {"draft", "N",
     "passes of N tokens, all but the first drafted by --draft-model, which runs on cores of its "
     "own",
     TAKES_U32(simulate, draft, 1, MESH_ROWS_MAX)},
    {"draft-model", "FILE", "the model that drafts, of the same vocabulary",
     TAKES_ANY(simulate, draft_model)},
    {"draft-mesh", "WxH", "its cores (default 8x8)", TAKES_CALL(take_draft_mesh),
     .needs = "draft-model"},
    {"overlap", NULL, "with --draft: draft on while a pass is verified",
     TAKES_FLAG(simulate, is_overlapped)},
    {"no-compare", NULL, "run the mesh alone, without the CPU's logits",
     TAKES_FLAG(simulate, no_compare)},
    {"events", NULL,
     "print counts by kind of step: vector instructions, wavelets times links, wavelets between "
     "cores and routers, collectives",
     TAKES_FLAG(simulate, show_events)},
    {"json", .help = "print figures for programs, and no text"},
    {"batch", .help = "tokens of a pass (default 16)"},
};
/* clang-format on */
const command_table wafer_simulate_command = {
    .name = "wafer simulate",
    .usage = "[OPTIONS] [-p TEXT]",
    .about = "Run a model on a simulated mesh of cores: every core has its tile of the weights and "
             "its share of the KV cache, and sums travel from core to core as they would there. "
             "The text streams to standard output; every logit is compared with the CPU's.",
    .groups = OPTIONS_ENGINE | OPTIONS_PROMPT | OPTIONS_SAMPLING | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium wafer simulate --mesh 32x32 --order mesh -p 'int main(void)' -n 16",
};

/* ---- opening ---- */

/* Colours, lanes and memory of the named machine. */
static int take_machine(simulate *s, cerium_error *err)
{
    const wafer_mesh *m = &s->timed.mesh;
    RETURN_IF(machine_open(&s->timed, s->machine ? s->machine : "wse3", err));
    if (!s->machine) return CERIUM_OK;
    if (s->timed.is_gpu)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s: has no mesh of cores", s->machine);
    if (!s->mesh_given) {
        s->layout.width = m->width;
        s->layout.height = m->height;
        if (s->layout.width > MESH_SIDE_MAX || s->layout.height > MESH_SIDE_MAX)
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "%s: has %u x %u cores, and each core's work is done here: take a "
                             "part of at most %d x %d with --mesh", s->machine, s->layout.width,
                             s->layout.height, MESH_SIDE_MAX, MESH_SIDE_MAX);
    }
    s->layout.colours = m->colours - m->reserved_colours;
    s->layout.lanes = m->simd_fp32;
    const uint32_t taken = m->code_bytes_tuned + m->buffer_bytes;
    if (m->sram_bytes > taken) s->core_bytes = m->sram_bytes - taken;
    return CERIUM_OK;
}

static int check_fit(const simulate *s, cerium_error *err)
{
    const uint64_t need = mesh_core_weight_bytes(s->m) + mesh_core_kv_bytes(s->m);
    const mesh_layout *l = mesh_layout_of(s->m);
    if (!s->core_bytes || need <= s->core_bytes) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_CAPACITY,
                     "%s: the fullest of %u x %u cores needs %llu bytes for weights and %u tokens "
                     "of KV, and has %u: take a larger --mesh or a smaller --context", s->machine,
                     l->width, l->height, (unsigned long long)need, l->choice.context,
                     s->core_bytes);
}

static int open_prompt(simulate *s, cerium_error *err)
{
    bytes text = {.max = PROMPT_BYTES_MAX};
    const char *path = s->o.prompt_file ? s->o.prompt_file : "-";
    int32_t *prompt = NULL;
    view v = view_of(s->o.prompt);
    int status = CERIUM_OK;
    if (!s->o.prompt) {
        status = read_file(path, &text, err);
        v = (view){text.ptr, text.len};
    }
    if (!status) status = encode(s->engine, v, CERIUM_TOKENIZE_BEGIN, &prompt, &s->n_prompt, err);
    bytes_free(&text);
    const uint32_t context = mesh_layout_of(s->m)->choice.context;
    if (!status && s->n_prompt == 0)
        status = error_set(err, CERIUM_ERR_ARGUMENT, "the prompt has no tokens: give some with -p");
    if (!status && s->n_prompt + s->o.n_tokens > context)
        status = error_set(err, CERIUM_ERR_ARGUMENT,
                           "%zu tokens of prompt and %u new ones: the context has %u", s->n_prompt,
                           s->o.n_tokens, context);
    if (!status) {
        s->tokens = memory_alloc((s->n_prompt + s->o.n_tokens) * sizeof *s->tokens);
        if (!s->tokens) status = error_set(err, CERIUM_ERR_MEMORY, "no memory for the tokens");
    }
    if (!status) memcpy(s->tokens, prompt, s->n_prompt * sizeof *prompt);
    memory_free(prompt);
    return status;
}

/* The region of a separate mesh whose sums are in mesh order. */
static draft_region region_of(const simulate *s, const mesh *m, const wafer_style *style)
{
    const mesh_layout *l = mesh_layout_of(m);
    return (draft_region){.program = mesh_program(m),
                          .width = l->width,
                          .height = l->height,
                          .cost = {.mesh = &s->timed.mesh,
                                   .style = *style,
                                   .quant = QUANT_FILE,
                                   .choice = l->choice,
                                   .context = (uint32_t)s->n_prompt + s->o.n_tokens,
                                   .tokens = 1}};
}

/* With tuned kernels, at the slow end of the clock. */
static int time_drafts(simulate *s, cerium_error *err)
{
    const wafer_style tuned = wafer_style_tuned();
    const draft_region large = region_of(s, s->m, &tuned);
    for (uint32_t n = 1; n <= s->draft; n++) {
        const draft_region small = region_of(s, s->drafts.m, &tuned);
        const double ghz = s->timed.mesh.clock_ghz.low;
        if (draft_time_beside(&s->us[n - 1], &large, &small, n, ghz))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for the time of drafts");
    }
    s->drafts.us = s->us;
    s->drafts.is_overlapped = s->is_overlapped;
    return CERIUM_OK;
}

/* Of the last new token. */
static int time_step(simulate *s, cerium_error *err)
{
    const wafer_style styles[2] = {wafer_style_tuned(), wafer_style_sdk()};
    for (int i = 0; i < 2; i++) {
        const draft_region r = region_of(s, s->m, &styles[i]);
        if (time_range(&s->step[i], r.program, 0, r.program->n_ops, r.width, r.height, &r.cost,
                       true))
            return error_set(err, CERIUM_ERR_MEMORY, "no memory for the time of a step");
    }
    return CERIUM_OK;
}

static int open_drafts(simulate *s, cerium_error *err)
{
    const mesh_layout *l = mesh_layout_of(s->m);
    mesh_layout *mine = &s->draft_layout;
    if (!s->draft) return CERIUM_OK;
    mine->colours = l->colours;
    mine->lanes = l->lanes;
    mine->kv_type = l->kv_type;
    mine->choice.context = l->choice.context;
    RETURN_IF(gguf_open(&s->draft_file, s->draft_model, err));
    RETURN_IF(mesh_open(&s->drafts.m, s->draft_file, mine, false, MESH_SOUND, err));
    const uint32_t have = mesh_shape(s->drafts.m)->n_vocab, want = mesh_shape(s->m)->n_vocab;
    if (have == want) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_ARGUMENT,
                     "%s: has %u tokens and the model %u: a draft is of the same vocabulary",
                     s->draft_model, have, want);
}

static int open_all(simulate *s, cerium_error *err)
{
    RETURN_IF(take_machine(s, err));
    if (!mesh_layout_name_kv(&s->layout, &s->o.kv))
        return error_set(err, CERIUM_ERR_ARGUMENT, "--kv %s: there are i8, f16, f32", s->o.kv);
    s->o.head = "full"; /* every logit is compared */
    s->layout.choice.context = s->o.context;
    if (s->o.batch) s->layout.rows_max = s->o.batch;
    if (s->layout.rows_max < s->verify) s->layout.rows_max = s->verify;
    if (s->layout.rows_max < s->draft) s->layout.rows_max = s->draft;
    RETURN_IF(options_engine(&s->o, &s->engine, 1, err));
    RETURN_IF(gguf_open(&s->file, options_model(&s->o), err));
    RETURN_IF(mesh_open(&s->m, s->file, &s->layout,
                        s->layout.order == MESH_ORDER && !s->no_compare, MESH_SOUND, err));
    RETURN_IF(check_fit(s, err));
    RETURN_IF(open_drafts(s, err));
    RETURN_IF(open_prompt(s, err));
    if (s->draft) RETURN_IF(time_drafts(s, err));
    return s->no_compare ? CERIUM_OK : cerium_session_open(&s->session, s->engine, NULL, err);
}

static void close_all(simulate *s)
{
    cerium_session_close(&s->session);
    mesh_close(&s->m);
    mesh_close(&s->drafts.m);
    gguf_close(&s->file);
    gguf_close(&s->draft_file);
    machine_close(&s->timed);
    cerium_engine_close(&s->engine);
    memory_free(s->tokens);
}

/* ---- comparing ---- */

static uint32_t best_of(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Do the bounds leave no other token the chance to be the best? */
static bool is_decided(const float *logits, const float *bounds, uint32_t best, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (i != best && !(logits[best] - logits[i] > bounds[best] + bounds[i])) return false;
    return true;
}

static int compare_bounded(simulate *s, const float *have, const float *want, uint32_t row,
                           uint32_t n, cerium_error *err)
{
    const float *bounds = mesh_logit_bounds(s->m, row);
    double worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double off = fabs((double)have[i] - (double)want[i]) / (double)bounds[i];
        if (off > worst) worst = off;
        if (isfinite(bounds[i]) && (double)bounds[i] > s->widest) s->widest = (double)bounds[i];
    }
    const uint32_t best = best_of(have, n);
    s->n_bounded += isfinite(bounds[0]);
    s->n_same += best == best_of(want, n);
    s->n_decided += is_decided(have, bounds, best, n);
    if (worst > s->worst) s->worst = worst;
    if (worst > 1)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "token %zu: a logit is %.3g bounds from the CPU's", s->n, worst);
    return CERIUM_OK;
}

/* Logits of a row, which follow all tokens so far, and the CPU's after the same tokens. */
static int compare(simulate *s, uint32_t row, cerium_error *err)
{
    size_t n = 0;
    if (s->no_compare) return CERIUM_OK;
    RETURN_IF(cerium_session_sync(s->session, s->tokens, s->n, NULL, err));
    const float *want = cerium_session_logits(s->session, &n), *have = mesh_logits(s->m, row);
    s->n_places++;
    if (memcmp(have, want, n * sizeof *have) == 0) s->n_equal++;
    else if (s->layout.order == MESH_EQUAL)
        return error_set(err, CERIUM_ERR_FORMAT, "token %zu: the mesh has other logits than the "
                         "CPU", s->n);
    if (s->layout.order == MESH_EQUAL) return CERIUM_OK;
    return compare_bounded(s, have, want, row, (uint32_t)n, err);
}

/* ---- running ---- */

static void show(const simulate *s, int32_t token)
{
    size_t len;
    const char *text = cerium_token_bytes(s->engine, token, &len);
    if (s->o.json) return;
    write_view((view){text, len}, stdout);
    fflush(stdout);
}

static uint32_t prefill(simulate *s)
{
    const uint32_t most = s->layout.rows_max;
    uint32_t n = 0;
    const uint64_t begin = clock_ns();
    for (size_t at = 0; at < s->n_prompt; at += n) {
        n = s->n_prompt - at < most ? (uint32_t)(s->n_prompt - at) : most;
        (s->layout.mesh_gemm ? mesh_prompt : mesh_run)(s->m, s->tokens + at, n, (uint32_t)at,
                                                       at + n == s->n_prompt);
    }
    s->prompt_ns = clock_ns() - begin;
    return n - 1;
}

/* Tokens by passes over guesses, after the first token; every logit that they compute is
 * compared. */
static int decode_drafts(simulate *s, cerium_error *err)
{
    int32_t out[MESH_ROWS_MAX];
    const size_t end = s->n_prompt + s->o.n_tokens;
    while (s->n < end) {
        const uint32_t most = end - s->n < s->draft ? (uint32_t)(end - s->n) : s->draft;
        const uint64_t begin = clock_ns();
        const uint32_t found =
            mesh_draft_pass(&s->drafts, s->m, s->tokens, (uint32_t)s->n, most, out);
        s->decode_ns += clock_ns() - begin;
        for (uint32_t i = 0; i < found; i++) {
            RETURN_IF(compare(s, i, err));
            s->tokens[s->n++] = out[i];
            if (cerium_token_is_end(s->engine, out[i])) return CERIUM_OK;
            show(s, out[i]);
        }
    }
    return CERIUM_OK;
}

static int decode(simulate *s, cerium_error *err)
{
    uint32_t row = prefill(s);
    s->n = s->n_prompt;
    for (size_t i = 0; !s->o.json && i < s->n_prompt; i++) show(s, s->tokens[i]);
    memcpy(s->prompt_events, mesh_kinds(s->m), sizeof s->prompt_events);
    mesh_events_clear(s->m);
    for (uint32_t i = 0; i < s->o.n_tokens; i++) {
        RETURN_IF(compare(s, row, err));
        const uint64_t begin = clock_ns();
        const int32_t token = mesh_sample(s->m, row, &s->o.sampling, s->tokens, s->n, s->n);
        s->tokens[s->n++] = token;
        if (cerium_token_is_end(s->engine, token)) break;
        show(s, token);
        if (s->draft) {
            RETURN_IF(decode_drafts(s, err));
            break;
        }
        if (i + 1 < s->o.n_tokens)
            mesh_run(s->m, &s->tokens[s->n - 1], 1, (uint32_t)s->n - 1, 1);
        s->decode_ns += clock_ns() - begin;
        row = 0;
    }
    memcpy(s->events, mesh_kinds(s->m), sizeof s->events);
    if (!s->o.json) printf("\n");
    return CERIUM_OK;
}

/* The text once more, as a draft from elsewhere: every guess must be accepted. */
static int verify(simulate *s, cerium_error *err)
{
    int32_t out[MESH_ROWS_MAX];
    for (size_t at = s->n_prompt - 1; at + 1 < s->n;) {
        const size_t left = s->n - 1 - at;
        const uint32_t n = left < s->verify ? (uint32_t)left : s->verify;
        const uint32_t found = mesh_verify(s->m, s->tokens + at, n, (uint32_t)at, out);
        if (found < n || memcmp(out, s->tokens + at + 1, n * sizeof *out))
            return error_set(err, CERIUM_ERR_FORMAT,
                             "token %zu: verified in a pass of %u it is another", at + found, n);
        s->n_verified += n;
        at += n;
    }
    return CERIUM_OK;
}

int wafer_simulate_main(int argc, char **argv)
{
    simulate s = {.layout = mesh_layout_default(), .draft_layout = mesh_layout_default()};
    cerium_error err;
    s.layout.width = s.layout.height = 32;
    s.o.n_tokens = 32;
    RETURN_IF(command_parse(&wafer_simulate_command, &s, argc, argv));
    if (optind < argc) return usage_error(name, "'%s': a prompt is given with -p", argv[optind]);
    if (s.o.prompt && s.o.prompt_file) return usage_error(name, "a text by -p or -f, not both");
    if ((s.verify || s.draft) &&
        (s.o.sampling.temperature > 0 || s.o.sampling.repetition_penalty > 0))
        return usage_error(name, "--verify is of greedy text, and so is --draft: leave out --temp "
                           "and --repeat-penalty");
    if ((s.draft != 0) != (s.draft_model != NULL))
        return usage_error(name, "--draft N and --draft-model FILE go together");
    if (s.is_overlapped && !s.draft)
        return usage_error(name, "--overlap is of drafts: give --draft N and --draft-model FILE");
    int status = open_all(&s, &err);
    if (!status) status = decode(&s, &err);
    if (!status && s.verify) status = verify(&s, &err);
    if (!status) status = time_step(&s, &err);
    if (!status) {
        if (s.o.json) status = wafer_simulate_print_json(&s, &err);
        else wafer_simulate_print(&s);
    }
    close_all(&s);
    return status ? failed(&err) : 0;
}
