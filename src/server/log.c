/* log.c - structured lines on standard error. */
#include "server/log.h"

#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

static _Atomic log_level least_level = LOG_INFO;

void log_open(log_level least) { atomic_store(&least_level, least); }

void log_event(log_level level, const char *event, const char *format, ...)
{
    static const char *const names[] = {"info", "warning", "error"};
    char line[4096];
    struct timeval now;
    struct tm utc;
    if (level < atomic_load(&least_level)) return;
    gettimeofday(&now, NULL);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(line, sizeof line, "time=%Y-%m-%dT%H:%M:%S", &utc);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03dZ level=%s event=%s ",
                          (int)(now.tv_usec / 1000), names[level], event);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + n, sizeof line - n - 1, format, args);
    va_end(args);
    if (more > 0) n += (size_t)more < sizeof line - n - 1 ? (size_t)more : sizeof line - n - 2;
    n = view_trim_end((view){line, n}, " ").len;
    line[n++] = '\n';
    /* A log that fails must not stop the server. */
    if (write(STDERR_FILENO, line, n) < 0) return;
}

const char *log_quote(char *out, size_t cap, const char *text)
{
    size_t n = 0;
    CHECK(cap >= 8);
    out[n++] = '"';
    for (; *text && n + 4 < cap; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') out[n++] = '\\';
        out[n++] = byte < 32 || byte == 127 ? '?' : (char)byte;
    }
    out[n++] = '"';
    out[n] = 0;
    return out;
}

void log_body(const char *peer, view body)
{
    char text[3000], quoted[3600];
    snprintf(text, sizeof text, "%.*s", (int)(body.len < sizeof text ? body.len : sizeof text - 1),
             body.ptr);
    log_event(LOG_INFO, "said", "peer=%s bytes=%zu text=%s", peer, body.len,
              log_quote(quoted, sizeof quoted, text));
}
