/* wafer_compare.c - `cerium wafer compare`: one model on several machines, by context and draft. */
#include <errno.h>
#include <math.h>

#include "programs/output.h"
#include "programs/programs.h"
#include "programs/wafer.h"
#include "wafer/gpus.h"
#include "wafer/picture.h"

enum { POINTS_MAX = 4096, LIST_MAX = 32, SERIES_MAX = 256 };

/* The share of their rated power that GPUs draw while weights stream: assumed. */
static const wafer_band gpu_power_share = {0.4, 1};

typedef struct {
    char machine[WAFER_NAME_BYTES];
    char kind[16]; /* of kernels, or of a stack */
    uint32_t context, draft, users;
    wafer_band user_tokens_s, system_tokens_s, joules, usd;
    wafer_band served_tokens_s; /* tokens/s for the user, with the time around the model */
    bool fits;
    char why[300];
    const char *cause; /* of the bands */
} point;

typedef struct {
    const wafer_options *w;
    const wafer_model *net, *drafter; /* drafter: or NULL */
    point *points; /* [n], at most POINTS_MAX */
    uint32_t n;
} table;

static point *add_point(table *t, const wafer_machine *m, const char *kind, uint32_t context,
                        uint32_t draft)
{
    CHECK(t->n < POINTS_MAX);
    point *p = &t->points[t->n++];
    *p = (point){.context = context, .draft = draft, .fits = true};
    snprintf(p->machine, sizeof p->machine, "%s", m->name);
    snprintf(p->kind, sizeof p->kind, "%s", kind);
    return p;
}

static plan_request request_of(const table *t, const wafer_machine *m, uint32_t context,
                               uint32_t draft, bool sdk)
{
    return (plan_request){.machine = m,
                          .program = t->net->program,
                          .style = sdk ? wafer_style_sdk() : wafer_style_tuned(),
                          .is_sdk = sdk,
                          .quant = wafer_quant_of(t->w, t->net),
                          .context = context,
                          .draft = draft,
                          .host_sampling = t->w->host_sampling,
                          .wafers = t->w->wafers};
}

static void fill_mesh(const table *t, point *p, const draft_figures *f, double accepted, bool sdk)
{
    p->users = 1;
    p->user_tokens_s = f->tokens_s;
    p->served_tokens_s = wafer_served(t->w, f->tokens_s, accepted);
    p->system_tokens_s = f->tokens_s;
    p->joules = f->joules;
    p->usd = f->usd;
    p->cause = sdk ? "clock, links, power, price" : "clock, links, power, price, kernels";
}

static void refuse(point *p, const cerium_error *why)
{
    p->fits = false;
    snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, why->message);
}

/* With a model that drafts on idle cores: for one user, in turns and overlapped. */
static int add_drafted(table *t, const wafer_machine *m, uint32_t context, uint32_t draft, bool sdk,
                       cerium_error *err)
{
    const plan_request r = request_of(t, m, context, draft, sdk);
    const plan_request small = {.program = t->drafter->program,
                                .quant = wafer_quant_of(t->w, t->drafter)};
    draft_plan d;
    plan_result plan;
    draft_us us[2];
    draft_joules joules;
    cerium_error why = {0};
    point *p = add_point(t, m, sdk ? "sdk turns" : "tuned turns", context, draft);
    int status = draft_search(&d, &plan, &r, &small, &why);
    if (status == CERIUM_ERR_CAPACITY) {
        refuse(p, &why);
        return CERIUM_OK;
    }
    if (status) return error_set(err, status, "%s", why.message);
    status = draft_time(us, &d, &plan, &r, draft);
    if (!status) status = draft_energy(&joules, &d, &plan, &r, draft);
    if (status) return error_set(err, status, "no memory for the comparison");
    const double accepted = draft_yield(t->w->accepted, draft);
    for (int on = 0; on < 2; on++) {
        if (on) p = add_point(t, m, sdk ? "sdk overlap" : "tuned overlap", context, draft);
        const draft_figures f =
            draft_figure(us, &joules, &plan, &r, t->w->accepted, draft, on);
        fill_mesh(t, p, &f, accepted, sdk);
    }
    return CERIUM_OK;
}

static int add_mesh(table *t, const wafer_machine *m, uint32_t context, uint32_t draft, bool sdk,
                    cerium_error *err)
{
    const double accepted = draft_yield(t->w->accepted, draft);
    const plan_request r = request_of(t, m, context, draft, sdk);
    plan_result plan;
    plan_figures f;
    cerium_error why = {0};
    point *p = add_point(t, m, sdk ? "sdk" : "tuned", context, draft);
    if (plan_search(&plan, &r, &why)) {
        refuse(p, &why);
        return CERIUM_OK;
    }
    int status = plan_figure(&f, &plan, &r, accepted);
    if (status) return error_set(err, status, "no memory for the comparison");
    const draft_figures one = {f.user_tokens_s, f.joules_user, f.usd_user};
    fill_mesh(t, p, &one, accepted, sdk);
    if (plan.users < 2) return CERIUM_OK;
    point *all = add_point(t, m, p->kind, context, draft);
    *all = *p;
    all->users = plan.users;
    all->system_tokens_s = f.system_tokens_s;
    all->joules = f.joules_system;
    all->usd = f.usd_system;
    return CERIUM_OK;
}

static void add_gpu_users(table *t, const wafer_machine *m, int stack, gpu_work work)
{
    static const char *const names[WAFER_STACKS] = {"stock", "tuned", "floor"};
    const double accepted = draft_yield(t->w->accepted, work.draft);
    const double step_s = gpu_decode(&m->gpu, (wafer_stack)stack, &work).step_us * 1e-6;
    const double one = accepted / step_s, all = one * work.users;
    const wafer_band hour = machine_usd_hour(m);
    point *p = add_point(t, m, names[stack], work.context, work.draft);
    p->users = work.users;
    p->user_tokens_s = (wafer_band){one, one};
    p->served_tokens_s = wafer_served(t->w, p->user_tokens_s, accepted);
    p->system_tokens_s = (wafer_band){all, all};
    p->joules = (wafer_band){1e3 * m->power_kw.low * gpu_power_share.low / all,
                             1e3 * m->power_kw.high * gpu_power_share.high / all};
    p->usd = (wafer_band){hour.low * 1e6 / 3600 / all, hour.high * 1e6 / 3600 / all};
    p->cause = "power, price";
}

static void add_gpu(table *t, const wafer_machine *m, uint32_t context, uint32_t draft)
{
    static const uint32_t users[] = {1, 8, 64, 256};
    gpu_work work = {.program = t->net->program,
                     .quant = wafer_quant_of(t->w, t->net),
                     .context = context,
                     .draft = draft};
    if (t->drafter && draft > 1) {
        work.drafter = t->drafter->program;
        work.drafter_quant = wafer_quant_of(t->w, t->drafter);
    }
    const uint32_t most = gpu_users_max(&m->gpu, &work);
    if (!most) {
        point *p = add_point(t, m, "any", context, draft);
        p->fits = false;
        snprintf(p->why, sizeof p->why, "%.3g GB of weights and KV do not fit %u x %g GB",
                 ((double)plan_weight_bytes(work.program, work.quant) +
                  (double)plan_kv_bytes(work.program, context)) /
                     1e9,
                 m->gpu.devices, m->gpu.hbm_gbytes);
        return;
    }
    for (int stack = 0; stack < WAFER_STACKS; stack++)
        for (size_t i = 0; i < ARRAY_LEN(users) && users[i] <= most; i++) {
            work.users = users[i];
            add_gpu_users(t, m, stack, work);
        }
}

/* ---- output ---- */

static void print_point(const point *p, bool is_served)
{
    char a[64], b[64], c[64], d[64], served[64] = "";
    if (!p->fits) {
        printf("%-10s %-13s %8u %5u  does not fit: %s\n", p->machine, p->kind, p->context,
               p->draft, p->why);
        return;
    }
    if (is_served) {
        char band[64];
        snprintf(served, sizeof served, "%-18s ", wafer_band_text(band, p->served_tokens_s));
    }
    printf("%-10s %-13s %8u %5u %6u  %-18s %s%-18s %-18s %s\n", p->machine, p->kind, p->context,
           p->draft, p->users, wafer_band_text(a, p->user_tokens_s), served,
           wafer_band_text(b, p->system_tokens_s), wafer_band_text(c, p->joules),
           wafer_band_text(d, p->usd));
}

static void print_table(const table *t)
{
    const bool is_served = t->w->service_us > 0;
    printf("%-10s %-13s %8s %5s %6s  %-18s %s%-18s %-18s %s\n", "machine", "kind", "context",
           "draft", "users", "tokens/s a user", is_served ? "with service       " : "",
           "tokens/s, all", "joules a token", "$ a million");
    for (uint32_t i = 0; i < t->n; i++) print_point(&t->points[i], is_served);
    printf("Bands of a mesh: clock, links, power, price, and of tuned kernels what nobody has\n"
           "published; of GPUs: power and price.  docs/wafer.md says what stock, tuned and floor "
           "are.\n");
    if (is_served)
        printf("Service: %g us of each step, for network, queue and tokenizer.\n",
               t->w->service_us);
}

static int write_csv(const table *t, cerium_error *err)
{
    FILE *f = fopen(t->w->csv, "wb");
    if (!f) return error_set(err, CERIUM_ERR_IO, "%s: %s", t->w->csv, strerror(errno));
    fprintf(f, "machine,kind,context,draft,users,user_tokens_s_low,user_tokens_s_high,"
               "system_tokens_s_low,system_tokens_s_high,joules_low,joules_high,usd_million_low,"
               "usd_million_high,bands,why,service_us,served_tokens_s_low,served_tokens_s_high\n");
    for (uint32_t i = 0; i < t->n; i++) {
        const point *p = &t->points[i];
        if (p->fits)
            fprintf(f,
                    "%s,%s,%u,%u,%u,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,\"%s\",,%g,%.6g,"
                    "%.6g\n",
                    p->machine, p->kind, p->context, p->draft, p->users, p->user_tokens_s.low,
                    p->user_tokens_s.high, p->system_tokens_s.low, p->system_tokens_s.high,
                    p->joules.low, p->joules.high, p->usd.low, p->usd.high, p->cause,
                    t->w->service_us, p->served_tokens_s.low, p->served_tokens_s.high);
        else
            fprintf(f, "%s,%s,%u,%u,,,,,,,,,,,\"%s\",,,\n", p->machine, p->kind, p->context,
                    p->draft, p->why);
    }
    bool broken = ferror(f) != 0;
    if (fclose(f)) broken = true;
    return broken ? error_set(err, CERIUM_ERR_IO, "%s: cannot write", t->w->csv) : CERIUM_OK;
}

static json_t *json_point(const point *p)
{
    if (!p->fits)
        return json_pack("{s:o, s:s, s:i, s:i, s:b, s:o}", "machine", json_name(p->machine),
                         "kind", p->kind, "context", (int)p->context, "draft", (int)p->draft,
                         "fits", 0, "why", json_name(p->why));
    return json_pack("{s:o, s:s, s:i, s:i, s:i, s:b, s:o, s:o, s:o, s:o, s:o, s:s}", "machine",
                     json_name(p->machine), "kind", p->kind, "context", (int)p->context, "draft",
                     (int)p->draft, "users", (int)p->users, "fits", 1, "user_tokens_s",
                     wafer_json_band(p->user_tokens_s), "served_tokens_s",
                     wafer_json_band(p->served_tokens_s), "system_tokens_s",
                     wafer_json_band(p->system_tokens_s), "joules", wafer_json_band(p->joules),
                     "usd_million", wafer_json_band(p->usd), "bands", p->cause);
}

/* A chart has points of one context and draft, a series those of one machine and kind. */
static bool same_step(const point *a, const point *b)
{
    return a->context == b->context && a->draft == b->draft;
}

typedef struct {
    picture_chart charts[CHART_COLUMNS * LIST_MAX * LIST_MAX];
    chart_point points[CHART_COLUMNS * POINTS_MAX];
    char series[SERIES_MAX][CHART_NAME_BYTES];
} chart_space;

/* The last one counts all that do not fit. */
static uint32_t series_of(picture_sheet *sheet, chart_space *room, const point *p)
{
    char name[CHART_NAME_BYTES];
    uint32_t i = 0;
    snprintf(name, sizeof name, "%.40s %s", p->machine, p->kind);
    while (i < sheet->n_series && strcmp(room->series[i], name)) i++;
    if (i == SERIES_MAX) return i - 1;
    if (i == sheet->n_series) memcpy(room->series[sheet->n_series++], name, sizeof name);
    return i;
}

static void fill_charts(picture_sheet *sheet, const table *t, chart_space *room)
{
    uint32_t at = 0;
    for (uint32_t first = 0; first < t->n; first++) {
        const point *p = &t->points[first];
        bool seen = !p->fits;
        for (uint32_t i = 0; i < first && !seen; i++)
            seen = t->points[i].fits && same_step(&t->points[i], p);
        if (seen) continue;
        picture_chart *charts = &room->charts[sheet->n_charts];
        for (int y = 0; y < CHART_COLUMNS; y++) {
            snprintf(charts[y].title, sizeof charts[y].title, "%u tokens of context, draft %u",
                     p->context, p->draft);
            charts[y].y_title = y ? "joules a token" : "dollars a million tokens";
            charts[y].points = &room->points[at];
            for (uint32_t i = first; i < t->n; i++) {
                const point *q = &t->points[i];
                if (!q->fits || !same_step(q, p)) continue;
                chart_point *to = &room->points[at++];
                to->series = series_of(sheet, room, q);
                snprintf(to->label, sizeof to->label, "%.40s %s, %u user%s", q->machine, q->kind,
                         q->users, q->users == 1 ? "" : "s");
                to->x = q->served_tokens_s;
                to->y = y ? q->joules : q->usd;
                charts[y].n_points++;
            }
        }
        sheet->n_charts += CHART_COLUMNS;
    }
}

static int plot(const table *t, cerium_error *err)
{
    char title[200];
    chart_space *room = memory_zalloc(1, sizeof *room);
    if (!room) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the plots");
    picture_sheet sheet = {.title = title, .charts = room->charts, .series = room->series};
    fill_charts(&sheet, t, room);
    snprintf(title, sizeof title, "%s, %s", t->net->name,
             wafer_quant_names[wafer_quant_of(t->w, t->net)]);
    int status = picture_charts(t->w->plots, &sheet, err);
    memory_free(room);
    return status;
}

static int print_all(const table *t, cerium_error *err)
{
    if (t->w->csv) RETURN_IF(write_csv(t, err));
    if (t->w->plots) RETURN_IF(plot(t, err));
    if (!t->w->o.json) {
        print_table(t);
        return output_flush(err);
    }
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->n; i++) json_array_append_new(list, json_point(&t->points[i]));
    return wafer_print_json(json_pack("{s:o, s:s, s:f, s:f, s:o}", "model",
                                      json_name(t->net->name), "quant",
                                      wafer_quant_names[wafer_quant_of(t->w, t->net)], "accept",
                                      t->w->accepted, "service_us", t->w->service_us, "points",
                                      list),
                            err);
}

/* ---- the whole ---- */

static uint32_t numbers(const char *list, uint32_t *out)
{
    char item[32];
    uint32_t n = 0;
    while (n < LIST_MAX && wafer_next_item(&list, item, sizeof item))
        option_u32(item, 1, 1 << 24, &out[n++]);
    return n;
}

static int fill(table *t, const wafer_machine *m, cerium_error *err)
{
    uint32_t contexts[LIST_MAX] = {8192}, drafts[LIST_MAX], n_contexts = 1;
    const uint32_t most = t->net->program->shape.context_tokens;
    if (most < contexts[0]) contexts[0] = most;
    if (t->w->contexts) n_contexts = numbers(t->w->contexts, contexts);
    const uint32_t n_drafts = numbers(t->w->drafts, drafts);
    for (uint32_t c = 0; c < n_contexts; c++) {
        if (contexts[c] > most)
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "a context of %u is over the model's; the nearest is %u", contexts[c],
                             most);
        if (t->drafter)
            RETURN_IF(draft_agree(t->net->program, t->drafter->program, contexts[c], err));
        for (uint32_t d = 0; d < n_drafts; d++) {
            if (t->n + 16 > POINTS_MAX)
                return error_set(err, CERIUM_ERR_ARGUMENT, "over %d points: compare less at once",
                                 POINTS_MAX);
            if (m->is_gpu) {
                add_gpu(t, m, contexts[c], drafts[d]);
                continue;
            }
            for (int sdk = 0; sdk < 2; sdk++)
                RETURN_IF((t->drafter && drafts[d] > 1 ? add_drafted : add_mesh)(
                    t, m, contexts[c], drafts[d], sdk, err));
        }
    }
    return CERIUM_OK;
}

static bool any_guesses(const wafer_options *w)
{
    uint32_t drafts[LIST_MAX];
    const uint32_t n = numbers(w->drafts, drafts);
    for (uint32_t i = 0; i < n; i++)
        if (drafts[i] > 1) return true;
    return false;
}

static int add_machine(table *t, const char *name, bool *is_gpu, cerium_error *err)
{
    wafer_machine m;
    RETURN_IF(machine_open(&m, name, err));
    const int status = fill(t, &m, err);
    *is_gpu |= m.is_gpu;
    machine_close(&m);
    return status;
}

static int compare(table *t, cerium_error *err)
{
    const char *list = t->w->machines ? t->w->machines : "wse3,dgx-h100,dgx-b200";
    char name[1024];
    bool has_gpu = false;
    while (wafer_next_item(&list, name, sizeof name))
        RETURN_IF(add_machine(t, name, &has_gpu, err));
    bool any = false;
    for (uint32_t i = 0; i < t->n; i++) any |= t->points[i].fits;
    if (!any && t->n) /* nothing to compare: report the reason once */
        return error_set(err, CERIUM_ERR_CAPACITY, "%s", t->points[0].why);
    /* Meshes alone are hard to judge: three baselines are always shown. */
    if (!has_gpu) RETURN_IF(add_machine(t, "dgx-h100", &has_gpu, err));
    return print_all(t, err);
}

int wafer_compare_main(int argc, char **argv)
{
    wafer_options w;
    wafer_model net, drafter;
    cerium_error err = {0};
    int usage = wafer_options_parse(&wafer_compare_command, &w, argc, argv);
    if (usage) return usage;
    if (optind != argc) return usage_error(argv[0], "'%.40s' is too much", argv[optind]);
    const char *path = options_model(&w.o);
    if (!path) return usage_error(argv[0], "no model: name one with -m");
    if (w.draft_model && !any_guesses(&w))
        return usage_error(argv[0], "--draft-model needs --drafts with one of 2 or more");
    int status = wafer_model_open(&net, path, &err);
    if (!status && w.draft_model && wafer_model_open(&drafter, w.draft_model, &err)) {
        status = err.status;
        wafer_model_close(&net);
    }
    if (status) return failed(&err);
    table t = {.w = &w, .net = &net, .drafter = w.draft_model ? &drafter : NULL,
               .points = memory_zalloc(POINTS_MAX, sizeof *t.points)};
    status = t.points ? compare(&t, &err)
                      : error_set(&err, CERIUM_ERR_MEMORY, "no memory for the comparison");
    memory_free(t.points);
    if (w.draft_model) wafer_model_close(&drafter);
    wafer_model_close(&net);
    return status ? failed(&err) : 0;
}
