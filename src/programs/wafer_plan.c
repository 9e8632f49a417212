/* wafer_plan.c - `cerium wafer plan`: the placement of a model on a mesh, as text, JSON and a
 * picture. */
#include "programs/output.h"
#include "programs/programs.h"
#include "programs/wafer.h"
#include "wafer/picture.h"

typedef struct {
    bool fits;
    cerium_error err; /* unless it fits already */
    plan_request request;
    plan_result plan;
    plan_figures figures;
    wafer_band served_tokens_s; /* with the time around the model */
    plan_prompt prompt; /* of the whole context */
    wafer_drafting drafting;
} styled;

static const char *const style_names[2] = {"tuned kernels", "SDK-style kernels"};

/* The layout, and that of the drafting model if there is one. */
static int place(styled *s, const wafer_options *w, const wafer_model *drafter)
{
    if (!drafter) return plan_search(&s->plan, &s->request, &s->err);
    const plan_request small = {.program = drafter->program, .quant = wafer_quant_of(w, drafter)};
    return draft_search(&s->drafting.draft, &s->plan, &s->request, &small, &s->err);
}

static int make(styled *s, const wafer_options *w, const wafer_machine *machine,
                const wafer_model *net, const wafer_model *drafter, uint32_t context,
                uint32_t draft, bool sdk)
{
    *s = (styled){.request = {.machine = machine,
                              .program = net->program,
                              .style = sdk ? wafer_style_sdk() : wafer_style_tuned(),
                              .is_sdk = sdk,
                              .quant = wafer_quant_of(w, net),
                              .context = context,
                              .draft = draft,
                              .host_sampling = w->host_sampling,
                              .wafers = w->wafers}};
    if (place(s, w, drafter)) return 0;
    s->fits = true;
    const double accepted = draft_yield(w->accepted, draft);
    int status = plan_figure(&s->figures, &s->plan, &s->request, accepted);
    s->served_tokens_s = wafer_served(w, s->figures.user_tokens_s, accepted);
    if (!status && drafter) status = wafer_draft_take_time(&s->drafting, &s->plan, &s->request);
    if (!status) status = plan_prompt_time(&s->prompt, &s->plan, &s->request, context);
    return status ? error_set(&s->err, status, "no memory for the plan") : 0;
}

/* ---- text ---- */

static void line(const char *what, const styled s[2], void (*show)(char out[64], const styled *s))
{
    char text[2][64] = {"-", "-"};
    for (int i = 0; i < 2; i++)
        if (s[i].fits) show(text[i], &s[i]);
    printf("  %-34s %-26s %s\n", what, text[0], text[1]);
}

static void show_wafers(char out[64], const styled *s)
{
    snprintf(out, 64, "%u of %u", s->plan.layout.wafers, s->request.machine->mesh.wafers);
}
static void show_grid(char out[64], const styled *s)
{
    const plan_layout *l = &s->plan.layout;
    snprintf(out, 64, "%u x %u of %u x %u%s", l->columns, l->rows, l->width, l->height,
             l->is_turned ? ", turned" : "");
}
static void show_regions(char out[64], const styled *s)
{
    const plan_layout *l = &s->plan.layout;
    if (l->table_regions)
        snprintf(out, 64, "%u + %u", l->table_regions, l->layer_regions);
    else
        snprintf(out, 64, "%u, sharing", l->layer_regions);
}
static void show_layers(char out[64], const styled *s)
{
    snprintf(out, 64, "%u", s->plan.layout.layers_a_region);
}
static void show_choice(char out[64], const styled *s)
{
    const wafer_choice *c = &s->plan.layout.choice;
    snprintf(out, 64, "%u phase%s, %s", c->degree, c->degree == 1 ? "" : "s",
             c->is_fused ? "fused" : "separate");
}
static void show_experts(char out[64], const styled *s)
{
    const wafer_choice *c = &s->plan.layout.choice;
    if (c->experts == WAFER_EXPERTS_GROUPED)
        snprintf(out, 64, "on groups of %u x %u", c->group_side, c->group_side);
    else
        snprintf(out, 64, "over the whole region");
}
static void show_kv(char out[64], const styled *s)
{
    const bool shifts = s->plan.layout.choice.kv == WAFER_KV_SHIFT;
    snprintf(out, 64, "%s; %s +%.0f", shifts ? "shift" : "round-robin",
             shifts ? "round-robin" : "shift", s->plan.kv_other_cycles);
}
static void show_windows(char out[64], const styled *s)
{
    const uint32_t *n = s->plan.n_layers;
    snprintf(out, 64, "%u of %u layers", n[1], n[0] + n[1]);
}
static void show_core(char out[64], const styled *s)
{
    snprintf(out, 64, "%llu of %llu", (unsigned long long)s->plan.layout.core_bytes,
             (unsigned long long)s->plan.layout.usable_bytes);
}
static void show_cores(char out[64], const styled *s)
{
    snprintf(out, 64, "%llu", (unsigned long long)s->plan.layout.cores);
}
static void show_context(char out[64], const styled *s)
{
    snprintf(out, 64, "%u", s->plan.context_max);
}
static void show_cycles(char out[64], const styled *s)
{
    snprintf(out, 64, "%.0f", s->plan.cycles);
}
static void show_off(char out[64], const styled *s)
{
    wafer_band_text(out, (wafer_band){s->plan.off_wafer_us[0], s->plan.off_wafer_us[1]});
}
static void show_step(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.step_us);
}
static void show_user(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.user_tokens_s);
}
static void show_served(char out[64], const styled *s)
{
    wafer_band_text(out, s->served_tokens_s);
}
static void show_system(char out[64], const styled *s)
{
    char band[64];
    wafer_band_text(band, s->figures.system_tokens_s);
    snprintf(out, 64, "%.40s (%u)", band, s->plan.users);
}
static void show_joules(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.joules_user);
}
static void show_joules_shared(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.joules_system);
}
static void show_rated(char out[64], const styled *s)
{
    snprintf(out, 64, "%.3g", s->figures.rated_joules_user);
}
static void show_usd(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.usd_user);
}
static void show_usd_shared(char out[64], const styled *s)
{
    wafer_band_text(out, s->figures.usd_system);
}
static void show_prefill(char out[64], const styled *s)
{
    wafer_band_text(out, (wafer_band){s->prompt.us[0] / 1e3, s->prompt.us[1] / 1e3});
}
static void show_passes(char out[64], const styled *s)
{
    snprintf(out, 64, "%u (%u)%s", s->prompt.pass_tokens, s->prompt.pass_max,
             s->prompt.is_mesh_gemm ? "" : ", as decoding");
}

static void print_spent(const styled s[2])
{
    for (int i = 0; i < WAFER_SPENT; i++) {
        char text[2][16] = {"-", "-"};
        bool any = false;
        for (int k = 0; k < 2; k++) {
            if (!s[k].fits) continue;
            double share = s[k].plan.cycles > 0 ? s[k].plan.spent[i] / s[k].plan.cycles : 0;
            any |= share > 0;
            snprintf(text[k], sizeof text[k], "%.0f %%", 100 * share);
        }
        if (any) printf("    %-32s %-26s %s\n", wafer_spent_names[i], text[0], text[1]);
    }
}

/* The prompt's keys and values, computed elsewhere. */
static double kv_arrival_ms(const wafer_options *w, const plan_request *r)
{
    return (double)plan_kv_bytes(r->program, r->context) / w->prefill_gbytes_s / 1e6;
}

static void print_plan(const wafer_options *w, const styled s[2], const wafer_model *net,
                       const wafer_model *drafter)
{
    const plan_request *r = &s[0].request;
    printf("%s on %s (%s), %s, %u tokens of context\n", net->name, r->machine->name,
           r->machine->title, wafer_quant_names[r->quant], r->context);
    printf("  %-34s %-26s %s\n", "", style_names[0], style_names[1]);
    line("wafers", s, show_wafers);
    line("regions, columns x rows of cores", s, show_grid);
    line("regions: vocabulary + layers", s, show_regions);
    line("layers a region", s, show_layers);
    line("sums", s, show_choice);
    if (r->program->shape.n_experts) line("experts", s, show_experts);
    line("KV cache; the other, cycles", s, show_kv);
    if (s[0].plan.n_layers[1] || s[1].plan.n_layers[1])
        line("  of a window only", s, show_windows);
    line("bytes on the fullest core", s, show_core);
    line("cores used", s, show_cores);
    line("largest context", s, show_context);
    line("cycles a step", s, show_cycles);
    line("microseconds a step", s, show_step);
    if (s[0].plan.off_wafer_us[1] > 0 || s[1].plan.off_wafer_us[1] > 0)
        line("  of them off the wafer", s, show_off);
    line("tokens/s, one user", s, show_user);
    if (w->service_us > 0) line("  with the service around it", s, show_served);
    line("tokens/s, all (users that fit)", s, show_system);
    line("joules a token, one user", s, show_joules);
    line("joules a token, shared", s, show_joules_shared);
    line("  rated power times time", s, show_rated);
    line("dollars a million, one user", s, show_usd);
    line("dollars a million, shared", s, show_usd_shared);
    line("prompt of that context, ms", s, show_prefill);
    line("  tokens a pass (room for)", s, show_passes);
    if (w->prefill_gbytes_s > 0)
        printf("  %-34s %.3g\n", "its KV from elsewhere, ms", kv_arrival_ms(w, r));
    printf("  where the time goes\n");
    print_spent(s);
    const wafer_drafting drafting[2] = {s[0].drafting, s[1].drafting};
    if (drafter) wafer_draft_print(drafting, drafter->name);
    printf("Bands: clock, links, power, price, and of tuned kernels what nobody has published.\n");
    for (int i = 0; i < 2; i++)
        if (!s[i].fits) printf("%s: %s\n", style_names[i], s[i].err.message);
}

/* ---- jSON ---- */

static json_t *json_layout(const plan_result *p)
{
    const plan_layout *l = &p->layout;
    const wafer_choice *c = &l->choice;
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:i, s:i, s:b, s:s, s:f, s:i, s:s, s:i, s:I, s:I,"
        "s:I}",
        "wafers", (int)l->wafers, "columns", (int)l->columns, "rows", (int)l->rows, "width",
        (int)l->width, "height", (int)l->height, "turned", l->is_turned, "layers_a_region",
        (int)l->layers_a_region, "table_regions", (int)l->table_regions, "layer_regions",
        (int)l->layer_regions, "degree", (int)c->degree, "fused", c->is_fused, "kv_policy",
        c->kv == WAFER_KV_SHIFT ? "shift" : "round-robin", "kv_other_cycles", p->kv_other_cycles,
        "window_layers", (int)p->n_layers[1], "experts",
        c->experts == WAFER_EXPERTS_GROUPED ? "expert-groups" : "sharded", "expert_group",
        (int)c->group_side, "core_bytes", (json_int_t)l->core_bytes, "usable_bytes",
        (json_int_t)l->usable_bytes, "cores", (json_int_t)l->cores);
}

static json_t *json_prompt(const plan_prompt *p)
{
    return json_pack("{s:b, s:i, s:i, s:i, s:i, s:I, s:I}", "mesh_gemm", p->is_mesh_gemm,
                     "pass_tokens", (int)p->pass_tokens, "pass_tokens_max", (int)p->pass_max,
                     "mesh_gemm_tokens_max", (int)p->mesh_gemm_max, "passes", (int)p->n_passes,
                     "pass_bytes", (json_int_t)p->pass_bytes, "room_bytes",
                     (json_int_t)p->room_bytes);
}

static json_t *json_styled(const styled *s, const wafer_model *drafter, int style)
{
    const plan_figures *f = &s->figures;
    json_t *out = json_pack("{s:s, s:b}", "kernels", style ? "sdk" : "tuned", "fits", s->fits);
    if (!s->fits) {
        json_object_set_new(out, "why", json_string(s->err.message));
        return out;
    }
    json_t *spent = json_object();
    for (int i = 0; i < WAFER_SPENT; i++)
        json_object_set_new(spent, wafer_spent_names[i], json_real(s->plan.spent[i]));
    json_object_update_new(
        out,
        json_pack("{s:o, s:i, s:i, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, "
                  "s:o}",
                  "layout", json_layout(&s->plan), "users", (int)s->plan.users, "context_max",
                  (int)s->plan.context_max, "cycles", s->plan.cycles, "period_cycles",
                  s->plan.period_cycles, "spent_cycles", spent, "step_us",
                  wafer_json_band(f->step_us), "user_tokens_s", wafer_json_band(f->user_tokens_s),
                  "system_tokens_s", wafer_json_band(f->system_tokens_s), "joules_user",
                  wafer_json_band(f->joules_user), "joules_system",
                  wafer_json_band(f->joules_system), "rated_joules_user", f->rated_joules_user,
                  "usd_million_user", wafer_json_band(f->usd_user), "usd_million_system",
                  wafer_json_band(f->usd_system), "prefill_us",
                  json_pack("[f, f]", s->prompt.us[0], s->prompt.us[1]),
                  "prompt", json_prompt(&s->prompt)));
    json_object_set_new(out, "served_tokens_s", wafer_json_band(s->served_tokens_s));
    json_object_set_new(out, "off_wafer_us",
                        json_pack("[f, f]", s->plan.off_wafer_us[0], s->plan.off_wafer_us[1]));
    if (drafter)
        json_object_set_new(out, "drafting", wafer_draft_json(&s->drafting, drafter->name));
    return out;
}

static int print_json(const wafer_options *w, const styled s[2], const wafer_model *net,
                      const wafer_model *drafter, cerium_error *err)
{
    const plan_request *r = &s[0].request;
    json_t *root = json_pack("{s:o, s:o, s:s, s:i, s:i, s:[o, o]}", "model",
                             json_name(net->name), "machine", json_name(r->machine->name),
                             "quant", wafer_quant_names[r->quant], "context",
                             (int)r->context, "draft", (int)r->draft, "plans",
                             json_styled(&s[0], drafter, 0), json_styled(&s[1], drafter, 1));
    if (w->prefill_gbytes_s > 0)
        json_object_set_new(root, "kv_arrival_us", json_real(kv_arrival_ms(w, r) * 1e3));
    return wafer_print_json(root, err);
}

/* ---- the whole ---- */

static int plan(const wafer_options *w, const wafer_machine *machine, const wafer_model *net,
                const wafer_model *drafter, cerium_error *err)
{
    uint32_t context = 8192, draft = 1;
    styled s[2];
    if (net->program->shape.context_tokens < context) context = net->program->shape.context_tokens;
    if (w->contexts) option_u32(w->contexts, 1, 1 << 24, &context);
    option_u32(w->drafts, 1, WAFER_DRAFT_MAX, &draft);
    for (int i = 0; i < 2; i++) {
        int status = make(&s[i], w, machine, net, drafter, context, draft, i == 1);
        if (status) {
            *err = s[i].err;
            return status;
        }
    }
    if (!s[0].fits && !s[1].fits) {
        *err = s[0].err;
        return err->status;
    }
    const styled *best = s[0].fits ? &s[0] : &s[1];
    if (w->picture)
        RETURN_IF(picture_plan(w->picture, &best->plan, &best->request, net->name, err));
    if (w->o.json) return print_json(w, s, net, drafter, err);
    print_plan(w, s, net, drafter);
    return output_flush(err);
}

int wafer_plan_main(int argc, char **argv)
{
    wafer_options w;
    wafer_machine machine;
    wafer_model net, drafter = {0};
    cerium_error err = {0};
    uint32_t draft = 1;
    int usage = wafer_options_parse(&wafer_plan_command, &w, argc, argv);
    if (usage) return usage;
    if (optind != argc) return usage_error(argv[0], "'%.40s' is too much", argv[optind]);
    const char *path = options_model(&w.o);
    if (!path) return usage_error(argv[0], "no model: name one with -m");
    option_u32(w.drafts, 1, WAFER_DRAFT_MAX, &draft);
    if (w.draft_model && draft < 2)
        return usage_error(argv[0], "--draft-model needs --draft N of 2 or more");
    if (machine_open(&machine, w.machines ? w.machines : "wse3", &err)) return failed(&err);
    int status = CERIUM_OK;
    if (machine.is_gpu)
        status = error_set(&err, CERIUM_ERR_ARGUMENT,
                           "%s is not a mesh; `cerium wafer compare` accepts it beside a mesh",
                           machine.name);
    if (!status) status = wafer_model_open(&net, path, &err);
    if (!status) {
        if (w.draft_model) status = wafer_model_open(&drafter, w.draft_model, &err);
        if (!status) status = plan(&w, &machine, &net, w.draft_model ? &drafter : NULL, &err);
        if (w.draft_model) wafer_model_close(&drafter);
        wafer_model_close(&net);
    }
    machine_close(&machine);
    return status ? failed(&err) : 0;
}
