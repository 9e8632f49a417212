/* terminal.c - colors, progress, and suggestions for mistyped names. */
#include "programs/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 64 };

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

/* Does the terminal on fd support escapes, and does the user want them? */
static bool takes_escapes(int fd)
{
    const char *term = getenv("TERM"), *color = getenv("CLICOLOR");
    if (is_set("NO_COLOR") || (color && !strcmp(color, "0"))) return false;
    return term && *term && strcmp(term, "dumb") != 0 && isatty(fd);
}

bool terminal_colors(FILE *to)
{
    const char *force = getenv("CLICOLOR_FORCE");
    if (!is_set("NO_COLOR") && force && *force && strcmp(force, "0") != 0) return true;
    return takes_escapes(fileno(to));
}

bool progress_is_shown(void) { return takes_escapes(STDERR_FILENO); }

void progress_show(const char *format, ...)
{
    va_list args;
    if (!progress_is_shown()) return;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
}

void progress_clear(void)
{
    if (progress_is_shown()) fputs("\r\033[K", stderr);
}

/* Letters to add, drop, change, or swap with their neighbour to turn a into b. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t row[3][NAME_MAX_BYTES + 1];
    for (size_t k = 0; k <= n_b; k++) row[0][k] = k;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *now = row[i % 3], *above = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= n_b; k++) {
            size_t best = above[k - 1] + (a[i - 1] != b[k - 1]);
            if (above[k] + 1 < best) best = above[k] + 1;
            if (now[k - 1] + 1 < best) best = now[k - 1] + 1;
            bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
            if (swapped && two[k - 2] + 1 < best) best = two[k - 2] + 1;
            now[k] = best;
        }
    }
    return row[n_a % 3][n_b];
}

const char *nearest_name(const char *typed, const char *const *names, size_t n)
{
    const size_t len = strlen(typed);
    const char *best = NULL;
    /* Up to a third of the typed word may be wrong. */
    size_t least = len / 3 + 1 > 3 ? 4 : len / 3 + 2;
    if (!len || len > NAME_MAX_BYTES) return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t n_name = strlen(names[i]);
        if (n_name > NAME_MAX_BYTES) continue;
        size_t apart = distance(typed, len, names[i], n_name);
        bool begins = n_name > len && len >= 3 && !strncmp(typed, names[i], len);
        if (begins) apart = 1;
        if (apart >= least || apart >= n_name || apart >= len) continue;
        least = apart;
        best = names[i];
    }
    return best;
}
