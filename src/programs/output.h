/* output.h - standard output, of which nothing is lost unsaid, and text that is fit for JSON. */
#ifndef PROGRAMS_OUTPUT_H
#define PROGRAMS_OUTPUT_H

#include <jansson.h>

#include "base/base.h"

/* Called first of all: where a standard stream is closed, no file of ours takes its place. */
void output_begin(void);
/* Write out what waits.  CERIUM_ERR_IO with one line: also when something was lost before. */
CERIUM_CHECKED int output_flush(cerium_error *err);
/* The same at the end of a program whose exit status is `status`: `trouble`, after one line on
 * standard error, when output was lost and nothing was said of it yet. */
int output_finish(int status, int trouble);

/* One JSON value and a newline on standard output; takes the reference.  flags: of json_dumpf().
 * CERIUM_ERR_MEMORY also for NULL; CERIUM_ERR_IO. */
CERIUM_CHECKED int output_json(json_t *value, size_t flags, cerium_error *err);

/* text as a JSON string; bytes that are not UTF-8 become U+FFFD.  NULL when memory runs out. */
json_t *json_text(view text);
/* A file's name, or another that may have any bytes: those that are not UTF-8 are written as \xE9,
 * so that two names stay two. */
json_t *json_name(const char *name);

/* A file's name on standard output: nothing in it moves a terminal. */
void output_name(const char *name);

/* Length of the well-formed UTF-8 character at p[n], 0 when there is none; *code is its number. */
size_t utf8_at(const uint8_t *p, size_t n, uint32_t *code);

#endif
