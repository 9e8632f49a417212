/* picture.h - a plan as SVG, alone or in a page: the wafers by layer and role with the use of each
 * core's memory, and the path of one token through them. */
#ifndef WAFER_PICTURE_H
#define WAFER_PICTURE_H

#include "wafer/plan.h"

/* path ends with .svg or .html.  CERIUM_ERR_ARGUMENT, CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int picture_plan(const char *path, const plan_result *plan, const plan_request *r,
                                const char *name, cerium_error *err);

/* One point of a chart, with its band; x is tokens a second for one user. */
typedef struct {
    char label[96];
    uint32_t series; /* points of one machine are joined; its colour, and its name in the legend */
    wafer_band x, y;
} chart_point;

typedef struct {
    char title[96];
    const char *y_title;
    const chart_point *points; /* [n_points], those of a series adjacent */
    uint32_t n_points;
} picture_chart;

/* All axes logarithmic, CHART_COLUMNS charts in a row, those of a column over the same range; one
 * legend for all.
 *   series: [n_series][CHART_NAME_BYTES] */
enum { CHART_COLUMNS = 2, CHART_NAME_BYTES = 64 };
typedef struct {
    const char *title;
    const picture_chart *charts;
    uint32_t n_charts;
    const char (*series)[CHART_NAME_BYTES];
    uint32_t n_series;
} picture_sheet;
CERIUM_CHECKED int picture_charts(const char *path, const picture_sheet *sheet, cerium_error *err);

#endif
