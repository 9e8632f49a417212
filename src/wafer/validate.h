/* validate.h - predicts published figures, each under the protocol of its measurement.
 *
 * docs/wafer-validation.md describes each protocol.  Nothing here depends on a particular row: the
 * figures come from the shapes, the mesh and the constants of timing.h, and from those of this
 * file's stacks. */
#ifndef WAFER_VALIDATE_H
#define WAFER_VALIDATE_H

#include "wafer/rows.h"
#include "wafer/timing.h"

typedef struct {
    bool is_modelled;
    bool is_input;    /* the figure is one of the constants: not a prediction, no error */
    bool has_error;   /* a prediction, and a published value beside it */
    double predicted; /* in the row's unit, or the usual one of its class */
    double host;      /* the same if the host launches each kernel, for GPUs whose software the row
                         does not name: the other end of a band; else 0 */
    double error;     /* predicted / value - 1; of times, for units of time, and of rates else */
    char why[128];    /* not modelled: the reason; else the protocol */
} validated_row;

/* style: that of SDK kernels, perhaps with a constant moved. */
validated_row validate_row(const published_row *row, const wafer_style *style);

typedef struct {
    char class_[48];
    uint32_t n_rows, n_modelled;              /* those with an error: inputs have none */
    double mean_absolute, mean_signed, worst; /* of these */
} validated_class;

/* By class, in the order of appearance; returns how many, at most max. */
uint32_t validate_classes(validated_class *out, uint32_t max, const published_rows *rows,
                          const validated_row *results);

#endif
