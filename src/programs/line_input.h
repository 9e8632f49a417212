/* line_input.h - lines that a person types: with editing and a history if libedit is available and
 * the terminal supports it, else as the terminal gives them. */
#ifndef PROGRAMS_LINE_INPUT_H
#define PROGRAMS_LINE_INPUT_H

#include "base/base.h"

enum { LINE_HISTORY_MAX = 1000, LINE_BYTES_MAX = 1 << 20 };

typedef struct line_input line_input;

typedef enum {
    LINE_READ = 0,
    LINE_END = 1,         /* Ctrl-D on an empty line, or the terminal is gone */
    LINE_INTERRUPTED = 2, /* Ctrl-C: the line is discarded */
} line_result;

/* From standard input, on standard error.  CERIUM_ERR_MEMORY.  One at a time. */
CERIUM_CHECKED int line_input_open(line_input **out, cerium_error *err);
void line_input_close(line_input **l);
/* Show a prompt and read a line, without its end; *line is valid until the next call.  Text that is
 * pasted is one line, whatever it contains.  SIGTERM, SIGHUP and SIGQUIT are raised again when the
 * terminal is as it was before the first line. */
line_result line_input_read(line_input *l, const char *prompt, view *line);
/* Is a whole line, or the end, waiting to be read, typed since the last read?  False if lines do
 * not come from a terminal. */
bool line_input_waits(const line_input *l);
/* Add a line to the history, for the arrow keys and the next conversation: the last
 * LINE_HISTORY_MAX, in a file that only its owner can read (CERIUM_HISTORY, "off" for none; else
 * cerium/history in the user's state folder).  A file of another kind stays as it is.  Lines that
 * begin with a blank are not kept. */
void line_input_remember(line_input *l, const char *text);

#endif
