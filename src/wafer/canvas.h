/* canvas.h - SVG into memory, and into a file. */
#ifndef WAFER_CANVAS_H
#define WAFER_CANVAS_H

#include "base/memory.h"

typedef struct {
    bytes b;
    int status; /* the first failure sticks */
} canvas;

void canvas_put(canvas *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Text at (x, y), its special characters escaped; class is of canvas_begin()'s style sheet: t
 * title, s small, m in the middle, e at the end, w white in the middle. */
void canvas_text(canvas *c, double x, double y, const char *class_, const char *text);
void canvas_escape(char *out, size_t size, const char *text);

/* The opening of a picture, and a page around it if path ends with .html. */
void canvas_begin(canvas *c, const char *path, const char *title, double width, double height);
/* Write and free; CERIUM_ERR_IO, CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int canvas_finish(canvas *c, const char *path, cerium_error *err);
/* CERIUM_ERR_ARGUMENT unless path ends with .svg or .html. */
CERIUM_CHECKED int canvas_check(const char *path, cerium_error *err);

#endif
