/* picture.h - a plan as SVG, alone or in a page: the wafers by layer and role with the use of each
 * core's memory, and the way of one token through them. */
#ifndef WAFER_PICTURE_H
#define WAFER_PICTURE_H

#include "wafer/plan.h"

/* path ends with .svg or .html.  CERIUM_ERR_ARGUMENT, CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int picture_plan(const char *path, const plan_result *plan, const plan_request *r,
                                const char *name, cerium_error *err);

/* One point of a chart, with its band; x is tokens a second for one user. */
typedef struct {
    char label[96];
    uint32_t series; /* points of one machine are joined */
    wafer_band x, y;
} chart_point;

typedef struct {
    const char *title, *y_title;
    const chart_point *points; /* [n_points], those of a series beside each other */
    uint32_t n_points;
} picture_chart;

/* Both axes logarithmic, one chart above the other. */
CERIUM_CHECKED int picture_charts(const char *path, const char *title, const picture_chart *charts,
                                  uint32_t n_charts, cerium_error *err);

#endif
