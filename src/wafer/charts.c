/* charts.c - tokens a second against the cost of a token, each point with its band. */
#include <math.h>

#include "wafer/canvas.h"
#include "wafer/picture.h"

/* Of one chart; and of the legend beside all. */
enum { WIDTH = 520, HEIGHT = 400, LEFT = 78, RIGHT = 22, TOP = 44, BOTTOM = 48, COLOURS = 10 };
enum { LEGEND = 200, LEGEND_LINE = 17, HEAD = 48 };

static const char *const colours[COLOURS] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd",
                                             "#8c564b", "#e377c2", "#17becf", "#7f7f7f", "#bcbd22"};

typedef struct {
    canvas *c;
    double x0, y0;                       /* of the chart in the picture */
    double x_low, x_high, y_low, y_high; /* decades, as logarithms */
} frame;

static double at_x(const frame *f, double x)
{
    return f->x0 + LEFT + (log10(x) - f->x_low) / (f->x_high - f->x_low) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const frame *f, double y)
{
    return f->y0 + HEIGHT - BOTTOM -
           (log10(y) - f->y_low) / (f->y_high - f->y_low) * (HEIGHT - TOP - BOTTOM);
}

/* Of all charts of the column. */
static void find_range(frame *f, const picture_sheet *sheet, uint32_t column)
{
    double x_low = INFINITY, x_high = 0, y_low = INFINITY, y_high = 0;
    for (uint32_t c = column; c < sheet->n_charts; c += CHART_COLUMNS)
        for (uint32_t i = 0; i < sheet->charts[c].n_points; i++) {
            const chart_point *p = &sheet->charts[c].points[i];
            x_low = fmin(x_low, p->x.low);
            x_high = fmax(x_high, p->x.high);
            y_low = fmin(y_low, p->y.low);
            y_high = fmax(y_high, p->y.high);
        }
    f->x_low = floor(log10(x_low));
    f->x_high = fmax(ceil(log10(x_high)), f->x_low + 1);
    f->y_low = floor(log10(y_low));
    f->y_high = fmax(ceil(log10(y_high)), f->y_low + 1);
}

static void draw_axes(const frame *f, const picture_chart *chart)
{
    char text[32];
    const double left = f->x0 + LEFT, right = f->x0 + WIDTH - RIGHT;
    const double bottom = f->y0 + HEIGHT - BOTTOM, title = f->x0 + 20;
    canvas_text(f->c, left, f->y0 + 28, "", chart->title);
    for (double d = f->x_low; d <= f->x_high; d++) {
        const double x = at_x(f, pow(10, d));
        canvas_put(f->c, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>\n", x,
                   f->y0 + TOP, x, bottom);
        snprintf(text, sizeof text, "%g", pow(10, d));
        canvas_text(f->c, x, bottom + 16, "m", text);
    }
    for (double d = f->y_low; d <= f->y_high; d++) {
        const double y = at_y(f, pow(10, d));
        canvas_put(f->c, "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='#ddd'/>\n", left, y,
                   right, y);
        snprintf(text, sizeof text, "%g", pow(10, d));
        canvas_text(f->c, left - 6, y + 4, "e", text);
    }
    canvas_text(f->c, (left + right) / 2, bottom + 34, "m", "tokens/s for one user");
    canvas_put(f->c,
               "<text x='%.1f' y='%.1f' class='m' transform='rotate(-90 %.1f %.1f)'>%s</text>\n",
               title, f->y0 + HEIGHT / 2.0, title, f->y0 + HEIGHT / 2.0, chart->y_title);
}

/* After the last colour, colours repeat and points are hollow. */
static const char *fill_of(uint32_t series)
{
    return series / COLOURS % 2 ? "#ffffff" : colours[series % COLOURS];
}

static void draw_point(const frame *f, const chart_point *p)
{
    char safe[200];
    const char *colour = colours[p->series % COLOURS];
    const double x = at_x(f, sqrt(p->x.low * p->x.high)), y = at_y(f, sqrt(p->y.low * p->y.high));
    canvas_escape(safe, sizeof safe, p->label);
    canvas_put(f->c,
               "<g stroke='%s' fill='%s'><title>%s: %.4g .. %.4g tokens/s, %.4g .. %.4g</title>\n",
               colour, colour, safe, p->x.low, p->x.high, p->y.low, p->y.high);
    canvas_put(f->c,
               "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f'/><line x1='%.1f' y1='%.1f' x2='%.1f' "
               "y2='%.1f'/><circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'/></g>\n",
               at_x(f, p->x.low), y, at_x(f, p->x.high), y, x, at_y(f, p->y.low), x,
               at_y(f, p->y.high), x, y, fill_of(p->series));
}

static void draw_chart(frame *f, const picture_chart *chart)
{
    draw_axes(f, chart);
    for (uint32_t i = 0; i < chart->n_points; i++) {
        const chart_point *p = &chart->points[i];
        draw_point(f, p);
        if (!i || p[-1].series != p->series) continue;
        canvas_put(f->c,
                   "<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' "
                   "stroke-opacity='0.35'/>\n",
                   at_x(f, sqrt(p[-1].x.low * p[-1].x.high)),
                   at_y(f, sqrt(p[-1].y.low * p[-1].y.high)), at_x(f, sqrt(p->x.low * p->x.high)),
                   at_y(f, sqrt(p->y.low * p->y.high)), colours[p->series % COLOURS]);
    }
}

static void charts_draw_legend(canvas *c, const picture_sheet *sheet, double x)
{
    for (uint32_t i = 0; i < sheet->n_series; i++) {
        const double y = HEAD + TOP + 8 + (double)i * LEGEND_LINE;
        canvas_put(c, "<circle cx='%.1f' cy='%.1f' r='4' stroke='%s' fill='%s'/>\n", x + 10, y - 4,
                   colours[i % COLOURS], fill_of(i));
        canvas_text(c, x + 20, y, "s", sheet->series[i]);
    }
}

int picture_charts(const char *path, const picture_sheet *sheet, cerium_error *err)
{
    canvas c = {0};
    RETURN_IF(canvas_check(path, err));
    const uint32_t rows = (sheet->n_charts + CHART_COLUMNS - 1) / CHART_COLUMNS;
    const double charts = HEAD + rows * (double)HEIGHT;
    const double legend = HEAD + TOP + 20 + sheet->n_series * (double)LEGEND_LINE;
    const double across = CHART_COLUMNS * (double)WIDTH;
    canvas_begin(&c, path, sheet->title, across + LEGEND, fmax(charts, legend));
    canvas_text(&c, LEFT, 34, "t", sheet->title);
    for (uint32_t i = 0; i < sheet->n_charts; i++) {
        frame f = {.c = &c,
                   .x0 = i % CHART_COLUMNS * (double)WIDTH,
                   .y0 = HEAD + i / CHART_COLUMNS * (double)HEIGHT};
        find_range(&f, sheet, i % CHART_COLUMNS);
        if (sheet->charts[i].n_points) draw_chart(&f, &sheet->charts[i]);
    }
    charts_draw_legend(&c, sheet, across);
    return canvas_finish(&c, path, err);
}
