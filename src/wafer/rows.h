/* rows.h - published figures as rows of a CSV file: columns by name, unknown ones ignored. */
#ifndef WAFER_ROWS_H
#define WAFER_ROWS_H

#include "base/memory.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define WAFER_ROWS_BYTES_MAX    (16u << 20)  /* a file of published figures */
#define WAFER_ROWS_MAX          65536u       /* and its rows */

/* All NUL-terminated, empty if the file has no such column or field; in published_rows.text. */
typedef struct {
    const char *id, *class_, *system, *model, *precision, *context, *metric, *unit, *note, *source;
    const char *published; /* the value as written */
    double devices;        /* 0: it is not a number */
    double batch;          /* 1: it is not a number */
    double value;          /* 0: there is none: the row is predicted and has no error */
    uint32_t line;
} published_row;

typedef struct {
    char *text;          /* owned */
    published_row *rows; /* [n_rows], owned */
    uint32_t n_rows;
} published_rows;

/* RFC 4180, the first line names the columns, including class.
 * CERIUM_ERR_FORMAT: "file:line: error". */
CERIUM_CHECKED int rows_parse(published_rows *out, view csv, const char *file, cerium_error *err);
void rows_close(published_rows *r);

#endif
