/* output.h - standard output, whose errors are always reported, and text that is valid in JSON. */
#ifndef PROGRAMS_OUTPUT_H
#define PROGRAMS_OUTPUT_H

#include <jansson.h>

#include "base/base.h"

/* Call it first: if a standard stream is closed, this keeps our files from taking its number. */
void output_begin(void);
/* Flush standard output.  CERIUM_ERR_IO with one line: also for earlier losses. */
CERIUM_CHECKED int output_flush(cerium_error *err);
/* The same at the end of a program whose exit status is `status`: `trouble`, after one line on
 * standard error, when output was lost and not reported yet. */
int output_finish(int status, int trouble);

/* One JSON value and a newline on standard output; takes the reference.  flags: of json_dumpf().
 * CERIUM_ERR_MEMORY also for NULL; CERIUM_ERR_IO. */
CERIUM_CHECKED int output_json(json_t *value, size_t flags, cerium_error *err);

/* text as a JSON string; bytes that are not UTF-8 become U+FFFD.  NULL when memory runs out. */
json_t *json_text(view text);
/* A name of arbitrary bytes, such as a file's: those that are not UTF-8 are written as \xE9, so
 * that different names stay different. */
json_t *json_name(const char *name);

/* Print a file's name to standard output, without control characters. */
void output_name(const char *name);

/* Length of the valid UTF-8 character at p[n], 0 when there is none; *code is its number. */
size_t utf8_at(const uint8_t *p, size_t n, uint32_t *code);

#endif
