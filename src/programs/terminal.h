/* terminal.h - colors and the progress line of a terminal.
 *
 * NO_COLOR (not empty), CLICOLOR=0 and TERM=dumb (or none) mean no escapes; CLICOLOR_FORCE (neither
 * empty nor 0) means colors even without a terminal. */
#ifndef PROGRAMS_TERMINAL_H
#define PROGRAMS_TERMINAL_H

#include <stdio.h>

#include "base/base.h"

/* May text be colored there? */
bool terminal_colors(FILE *to);
/* May a line be overwritten on standard error, where progress is shown? */
bool progress_is_shown(void);
/* Replace the last line, without a line break; does nothing if progress is not shown. */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_clear(void);

/* The closest of names [n] to the typed word; NULL when none is close. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
