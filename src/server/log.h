/* log.h - one line of key=value pairs an event, on standard error.
 *
 * Values from outside are quoted, their control bytes replaced; text of clients and their keys are
 * never logged. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "base/base.h"

typedef enum { LOG_INFO = 0, LOG_WARNING = 1, LOG_ERROR = 2 } log_level;

/* The lowest level written; process-wide, any thread. */
void log_open(log_level least);

/* event: a word; format: more pairs, "route=%s status=%d".  Written at once, as one write. */
void log_event(log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* text in quotes, shortened to cap bytes, valid as a value.  Returns out. */
const char *log_quote(char *out, size_t cap, const char *text);

/* Log the beginning of a client's text, if enabled (--log-prompts), as one event. */
void log_body(const char *peer, view body);

#endif
