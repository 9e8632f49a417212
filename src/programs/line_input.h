/* line_input.h - lines that a person types: edited and remembered where libedit is there and the
 * terminal can show it, else as the terminal gives them. */
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
/* Show a prompt and read a line, without its end; *line is valid until the next call. */
line_result line_input_read(line_input *l, const char *prompt, view *line);
/* A whole line, or the end, waits to be read: somebody typed it since the last read.  False where
 * lines do not come from a terminal. */
bool line_input_waits(const line_input *l);
/* Remember what was typed, for the arrow keys and the next conversation: the last LINE_HISTORY_MAX,
 * in a file that its owner alone reads (CERIUM_HISTORY, "off" for none; else cerium/history in the
 * user's state folder).  Lines that begin with a blank are not kept. */
void line_input_remember(line_input *l, const char *text);

#endif
