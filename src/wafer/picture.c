/* picture.c - the map of a plan, and the path of one token. */
#include "wafer/picture.h"

#include <math.h>

#include "wafer/canvas.h"

enum {
    WAFERS_SHOWN = 8, /* of a long pipeline; the others are alike */
    MARGIN = 24,
    WAFER_WIDTH = 300,
    WIDTH = 1320,
    BAR = 46,
};

static const char *const spent_colours[WAFER_SPENT] = {"#8c6bb1", "#4575b4", "#d6604d",
                                                       "#f4a582", "#1b9e77", "#a6d96a"};
static const char *const step_names[] = {
    [STEP_EMBED] = "embed",
    [STEP_QKV] = "QKV",
    [STEP_ATTEND] = "attention",
    [STEP_OUT] = "out",
    [STEP_FFN_UP] = "up",
    [STEP_FFN_DOWN] = "down",
    [STEP_ROUTE] = "route",
    [STEP_EXPERTS_UP] = "experts up",
    [STEP_EXPERTS_DOWN] = "experts down",
    [STEP_HEAD] = "head",
};

typedef struct {
    canvas c;
    const plan_result *plan;
    const plan_request *r;
    wafer_placement placement;
    double scale;        /* pixels a core */
    double wafer_height; /* pixels */
} picture;

static double wafer_x(uint32_t wafer)
{
    return MARGIN + wafer % 4 * (WAFER_WIDTH + 24.0);
}
static double wafer_y(const picture *p, uint32_t wafer)
{
    return 84 + wafer / 4 * (p->wafer_height + 40);
}

static bool has_tables(const picture *p, const wafer_region *region)
{
    return p->r->program->ops[region->first_op].kind == STEP_HEAD;
}

/* Layers from dark to light blue, in the order of a token. */
static void region_colour(char out[8], const picture *p, const wafer_region *region)
{
    const double t = (double)region->first_layer / (p->r->program->shape.n_layers + 1);
    if (has_tables(p, region))
        snprintf(out, 8, "#d95f02");
    else
        snprintf(out, 8, "#%02x%02x%02x", (unsigned)(30 + 80 * t), (unsigned)(60 + 90 * t),
                 (unsigned)(130 + 80 * t));
}

static void role_text(char out[64], const picture *p, const wafer_region *region, bool is_short)
{
    if (has_tables(p, region))
        snprintf(out, 64, is_short ? "vocab" : "vocabulary");
    else if (region->n_layers == 1)
        snprintf(out, 64, is_short ? "%u" : "layer %u", region->first_layer);
    else
        snprintf(out, 64, is_short ? "%u-%u" : "layers %u-%u", region->first_layer,
                 region->first_layer + region->n_layers - 1);
    /* The vocabulary beside layers. */
    const plan_layout *l = &p->plan->layout;
    const uint32_t i = (uint32_t)(region - p->placement.regions);
    const char *more = i < l->embed_regions                            ? " + embedding"
                       : i + l->head_regions >= p->placement.n_regions ? " + head"
                                                                       : "";
    if (!is_short && !has_tables(p, region))
        snprintf(out + strlen(out), 64 - strlen(out), "%s", more);
}

/* A bar over the bottom of a region: the parts of a core's memory with weights, KV, buffers. */
static void draw_use(picture *p, const wafer_region *region, double x, double y, double w, double h)
{
    const double all = (double)p->plan->layout.usable_bytes;
    const double bar = h > 60 ? 10 : h / 6;
    const double part[] = {(double)region->weight_bytes / all, (double)region->kv_bytes / all,
                           (double)(region->core_bytes - region->weight_bytes - region->kv_bytes) /
                               all};
    static const char *const colour[] = {"#ffffff", "#ffd92f", "#bbbbbb"};
    double at = x;
    canvas_put(&p->c, "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#00000055'/>\n", x,
               y + h - bar, w, bar);
    for (int i = 0; i < 3; i++) {
        canvas_put(&p->c, "<rect x='%.2f' y='%.1f' width='%.2f' height='%.1f' fill='%s'/>\n", at,
                   y + h - bar, w * part[i], bar, colour[i]);
        at += w * part[i];
    }
}

typedef struct {
    double x, y, w, h, used; /* per cent of a core's memory */
} box;

static box box_of(const picture *p, const wafer_region *region)
{
    return (box){wafer_x(region->wafer) + region->x * p->scale,
                 wafer_y(p, region->wafer) + region->y * p->scale,
                 region->width * p->scale,
                 region->height * p->scale,
                 100.0 * (double)region->core_bytes / (double)p->plan->layout.usable_bytes};
}

static void draw_region(picture *p, const wafer_region *region)
{
    char colour[8], role[64];
    const box b = box_of(p, region);
    region_colour(colour, p, region);
    role_text(role, p, region, false);
    canvas_put(&p->c,
               "<g><title>%s: %u x %u cores at %u,%u; %llu bytes of weights, %llu of KV on each: "
               "%.0f %% of what is usable</title>\n"
               "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s' stroke='#fff'/>\n",
               role, region->width, region->height, region->x, region->y,
               (unsigned long long)region->weight_bytes, (unsigned long long)region->kv_bytes,
               b.used, b.x, b.y, b.w, b.h, colour);
    draw_use(p, region, b.x, b.y, b.w, b.h);
    canvas_put(&p->c, "</g>\n");
}

/* A region's role, and its fill: "layers 0-2 + embedding" on two lines if it is wider than the
 * region, and shorter if that is still too wide. */
static void label_region(picture *p, const wafer_region *region)
{
    const double letter = 6.2; /* of class w, about */
    const box b = box_of(p, region);
    const double x = b.x, y = b.y, w = b.w, h = b.h;
    char role[64], full[16], colour[8];
    region_colour(colour, p, region);
    role_text(role, p, region, false);
    char *more = strlen(role) * letter > w ? strstr(role, " + ") : NULL;
    if (more) *more++ = 0;
    if (strlen(role) * letter > w) role_text(role, p, region, true);
    if (more && strlen(more) * letter > w) more = NULL;
    const bool has_more = more && h > 62, has_full = h > 48;
    const size_t longest = has_more && strlen(more) > strlen(role) ? strlen(more) : strlen(role);
    const double wide = fmin((double)longest * letter + 4, w - 2);
    if (w <= 34 || h <= 22) return;
    snprintf(full, sizeof full, "%.0f %%", b.used);
    canvas_put(&p->c, "<rect x='%.1f' y='%.1f' width='%.1f' height='%d' fill='%s'/>\n",
               x + (w - wide) / 2, y + h / 2 - 11, wide, 15 + 14 * (has_more + has_full), colour);
    canvas_text(&p->c, x + w / 2, y + h / 2, "w", role);
    if (has_more) canvas_text(&p->c, x + w / 2, y + h / 2 + 14, "w", more);
    if (has_full) canvas_text(&p->c, x + w / 2, y + h / 2 + (has_more ? 28 : 14), "w", full);
}

static void draw_wafers(picture *p)
{
    const wafer_mesh *m = &p->r->machine->mesh;
    const uint32_t shown = p->placement.wafers < WAFERS_SHOWN ? p->placement.wafers : WAFERS_SHOWN;
    char text[96];
    for (uint32_t i = 0; i < shown; i++) {
        canvas_put(&p->c,
                   "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#e8e8e8' "
                   "stroke='#999'><title>idle cores</title></rect>\n",
                   wafer_x(i), wafer_y(p, i), m->width * p->scale, m->height * p->scale);
        snprintf(text, sizeof text, "wafer %u of %u: %u x %u cores", i + 1, p->placement.wafers,
                 m->width, m->height);
        canvas_text(&p->c, wafer_x(i), wafer_y(p, i) - 6, "s", text);
    }
    for (uint32_t i = 0; i < p->placement.n_regions; i++)
        if (p->placement.regions[i].wafer < shown) draw_region(p, &p->placement.regions[i]);
    for (uint32_t i = 0; i < m->n_dead; i++)
        canvas_put(&p->c, "<circle cx='%.2f' cy='%.2f' r='1.5' fill='#d00'/>\n",
                   wafer_x(0) + m->dead[i].x * p->scale, wafer_y(p, 0) + m->dead[i].y * p->scale);
}

/* The point where the path passes a region. */
static double way_x(const picture *p, const wafer_region *r)
{
    return wafer_x(r->wafer) + (r->x + r->width / 2.0) * p->scale;
}
static double way_y(const picture *p, const wafer_region *r)
{
    return wafer_y(p, r->wafer) + (r->y + r->height * 0.3) * p->scale;
}

/* The path of a token: from the middle of each region to the next; a dot where it enters a wafer,
 * an open one where it leaves. */
static void draw_way(picture *p)
{
    for (uint32_t i = 0; i < p->placement.n_regions; i++) {
        const wafer_region *a = &p->placement.regions[i], *b = a + 1;
        const bool is_last = i + 1 == p->placement.n_regions;
        if (a->wafer >= WAFERS_SHOWN) break;
        if (!i || a[-1].wafer != a->wafer)
            canvas_put(&p->c, "<circle cx='%.1f' cy='%.1f' r='4' fill='#fff'/>\n", way_x(p, a),
                       way_y(p, a));
        if (is_last || a->wafer != b->wafer)
            canvas_put(&p->c,
                       "<circle cx='%.1f' cy='%.1f' r='4' fill='none' stroke='#fff' "
                       "stroke-width='1.5'/>\n",
                       way_x(p, a), way_y(p, a));
        else
            canvas_put(&p->c,
                       "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ffffff' "
                       "stroke-opacity='0.7' stroke-width='1.5' stroke-dasharray='4 3'/>\n",
                       way_x(p, a), way_y(p, a), way_x(p, b), way_y(p, b));
    }
    const uint32_t shown = p->placement.wafers < WAFERS_SHOWN ? p->placement.wafers : WAFERS_SHOWN;
    for (uint32_t i = 0; i < p->placement.n_regions; i++)
        if (p->placement.regions[i].wafer < shown) label_region(p, &p->placement.regions[i]);
}

static double picture_draw_legend(picture *p, double y)
{
    static const struct {
        const char *colour, *text;
    } keys[] = {{"#d95f02", "vocabulary: embedding and head"},
                {"#1e3c82", "layers, first"},
                {"#6e96d2", "layers, last"},
                {"#e8e8e8", "idle"},
                {"#ffffff", "bar: weights"},
                {"#ffd92f", "KV cache"},
                {"#bbbbbb", "buffers"}};
    double x = MARGIN;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        canvas_put(&p->c,
                   "<rect x='%.1f' y='%.1f' width='12' height='12' fill='%s' stroke='#777'/>\n", x,
                   y - 10, keys[i].colour);
        canvas_text(&p->c, x + 17, y, "s", keys[i].text);
        x += 40 + 6.5 * (double)strlen(keys[i].text);
    }
    return y + 34;
}

/* One coloured piece of a bar of `full` cycles; returns where it ends. */
static double picture_piece(picture *p, double x, double y, double cycles, double full,
                            const char *colour, const char *what, const char *shorter)
{
    const double w = (WIDTH - 2 * MARGIN) * cycles / full;
    canvas_put(&p->c,
               "<g><title>%s: %.0f cycles</title><rect x='%.2f' y='%.1f' width='%.2f' height='%d' "
               "fill='%s' stroke='#fff' stroke-width='0.3'/></g>\n",
               what, cycles, x, y, w, BAR, colour);
    const char *text = w > 6.4 * (double)strlen(what) + 4 ? what : shorter;
    if (text && w > 6.4 * (double)strlen(text) + 4)
        canvas_text(&p->c, x + w / 2, y + BAR / 2.0 + 4, "w", text);
    return x + w;
}

static double draw_token(picture *p, double y)
{
    char text[200], role[64], less[64], colour[8], off[64] = "";
    const plan_result *plan = p->plan;
    double x = MARGIN;
    if (plan->off_wafer_us[1] > 0)
        snprintf(off, sizeof off, "; off the wafer%s %.1f µs more",
                 p->placement.wafers > 1 ? "s" : "", plan->off_wafer_us[1]);
    snprintf(text, sizeof text, "One token: %.0f cycles on the wafer%s, region by region%s",
             plan->cycles, p->placement.wafers > 1 ? "s" : "", off);
    canvas_text(&p->c, MARGIN, y, "", text);
    const double handoff = plan->handoff_cycles / (plan->layout.layer_regions + 1);
    x = picture_piece(p, x, y + 8, plan->embed.cycles, plan->cycles, "#d95f02", "embedding", NULL);
    for (uint32_t i = 0; i < p->placement.n_regions; i++) {
        const wafer_region *region = &p->placement.regions[i];
        double cycles = plan->detour_cycles * region->n_layers;
        if (has_tables(p, region)) continue;
        for (uint32_t l = region->first_layer; l < region->first_layer + region->n_layers; l++) {
            uint32_t first = 0, n = 0;
            CHECK(layer_ops(p->r->program, l, &first, &n));
            cycles += plan->layer[p->r->program->ops[first].window != 0].cycles;
        }
        region_colour(colour, p, region);
        role_text(role, p, region, false);
        role_text(less, p, region, true);
        x = picture_piece(p, x, y + 8, handoff, plan->cycles, "#1b9e77", "hand-off", NULL);
        x = picture_piece(p, x, y + 8, cycles, plan->cycles, colour, role, less);
    }
    x = picture_piece(p, x, y + 8, handoff, plan->cycles, "#1b9e77", "hand-off", NULL);
    picture_piece(p, x, y + 8, plan->head.cycles, plan->cycles, "#d95f02", "head", NULL);
    return y + BAR + 40;
}

/* The operations of one layer, each split by the parts of its time. */
static int draw_layer(picture *p, uint32_t layer, double *y)
{
    step_time ops[WAFER_LAYER_OPS_MAX];
    uint32_t first = 0, n = 0;
    char text[160];
    double all = 0, x = MARGIN;
    const step_cost cost = {.mesh = &p->r->machine->mesh,
                            .style = p->r->style,
                            .quant = p->r->quant,
                            .choice = p->plan->layout.choice,
                            .context = p->r->context,
                            .tokens = p->r->draft};
    CHECK(layer_ops(p->r->program, layer, &first, &n));
    RETURN_IF(time_layer_ops(ops, p->r->program, layer, p->plan->layout.width,
                             p->plan->layout.height, &cost));
    for (uint32_t i = 0; i < n; i++) all += ops[i].cycles;
    snprintf(text, sizeof text, "Layer %u%s: %.0f cycles, by operation and what they are spent on",
             layer, p->r->program->ops[first].window ? " (sliding window)" : "", all);
    canvas_text(&p->c, MARGIN, *y, "", text);
    double label_end = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = step_names[p->r->program->ops[first + i].kind];
        const double start = x;
        for (int s = 0; s < WAFER_SPENT; s++)
            if (ops[i].spent[s] > 0)
                x = picture_piece(p, x, *y + 8, ops[i].spent[s], all, spent_colours[s],
                                  wafer_spent_names[s], NULL);
        canvas_put(&p->c, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#000'/>\n", start,
                   *y + 4, start, *y + BAR + 24);
        if (start > label_end && ops[i].cycles > 0) {
            canvas_text(&p->c, start + 4, *y + BAR + 22, "s", name);
            label_end = start + 8 + 6.5 * (double)strlen(name);
        }
    }
    *y += BAR + 58;
    return CERIUM_OK;
}

static void draw_spent_legend(picture *p, double y)
{
    double x = MARGIN;
    for (int i = 0; i < WAFER_SPENT; i++) {
        canvas_put(&p->c, "<rect x='%.1f' y='%.1f' width='12' height='12' fill='%s'/>\n", x, y - 10,
                   spent_colours[i]);
        canvas_text(&p->c, x + 17, y, "s", wafer_spent_names[i]);
        x += 40 + 6.5 * (double)strlen(wafer_spent_names[i]);
    }
}

int picture_plan(const char *path, const plan_result *plan, const plan_request *r, const char *name,
                 cerium_error *err)
{
    picture p = {.plan = plan, .r = r};
    char title[256];
    RETURN_IF(canvas_check(path, err));
    if (plan_place(&p.placement, plan, r))
        return error_set(err, CERIUM_ERR_MEMORY, "%s: no memory for the picture", path);
    const wafer_mesh *m = &r->machine->mesh;
    p.scale = (double)WAFER_WIDTH / m->width;
    p.wafer_height = m->height * p.scale;
    const uint32_t shown = plan->layout.wafers < WAFERS_SHOWN ? plan->layout.wafers : WAFERS_SHOWN;
    double y = wafer_y(&p, (shown - 1) / 4 * 4) + p.wafer_height + 30;
    const int n_bars = 1 + (plan->n_layers[0] != 0) + (plan->n_layers[1] != 0);
    snprintf(title, sizeof title, "%s on %s, %s, %u tokens of context", name, r->machine->title,
             wafer_quant_names[r->quant], r->context);
    canvas_begin(&p.c, path, title, WIDTH, y + 60 + n_bars * (BAR + 60.0));
    canvas_text(&p.c, MARGIN, 34, "t", title);
    snprintf(title, sizeof title,
             "%u wafer%s, regions of %u x %u cores%s%s, sums in %u phase%s, %s collectives%s",
             plan->layout.wafers, plan->layout.wafers == 1 ? "" : "s", plan->layout.width,
             plan->layout.height, plan->layout.is_turned ? ", the wafer on its side" : "",
             plan->layout.table_regions ? "" : ", the vocabulary in what layers leave",
             plan->layout.choice.degree, plan->layout.choice.degree == 1 ? "" : "s",
             plan->layout.choice.is_fused ? "fused" : "separate",
             plan->layout.wafers > WAFERS_SHOWN ? "; the other wafers are alike" : "");
    canvas_text(&p.c, MARGIN, 54, "s", title);
    draw_wafers(&p);
    draw_way(&p);
    y = picture_draw_legend(&p, y);
    y = draw_token(&p, y);
    uint32_t seen[2] = {0};
    for (uint32_t layer = 0; layer < r->program->shape.n_layers && !p.c.status; layer++) {
        uint32_t first = 0, n = 0;
        CHECK(layer_ops(r->program, layer, &first, &n));
        if (!seen[r->program->ops[first].window != 0]++) p.c.status = draw_layer(&p, layer, &y);
    }
    draw_spent_legend(&p, y);
    placement_close(&p.placement);
    return canvas_finish(&p.c, path, err);
}
