/* solve_failure.c - the reason and the place of a failed run, in one line. */
#include "programs/solve.h"

#include <ctype.h>

static view line_at(view text, size_t at)
{
    size_t end = at;
    while (end < text.len && text.ptr[end] != '\n') end++;
    return (view){text.ptr + at, end - at};
}

static bool has(view text, const char *word)
{
    return text.len && memmem(text.ptr, text.len, word, strlen(word));
}

/* If the harness gives no reason, the line of standard error that names an error; else its
 * first. */
view solve_failure(const sandbox_result *r)
{
    view first = {NULL, 0};
    if (r->why.len) return r->why;
    for (size_t at = 0; at < r->err.len;) {
        const view line = line_at(r->err, at);
        at += line.len + 1;
        if (has(line, "Error") || has(line, "ssertion")) return line;
        if (!first.len) first = line;
    }
    return first;
}

uint32_t solve_line_of(view text, const char *name)
{
    uint32_t found = 0;
    size_t n = strlen(name);
    for (size_t at = 0; at + n < text.len; at++) {
        uint32_t line = 0;
        if (memcmp(text.ptr + at, name, n) || text.ptr[at + n] != ':') continue;
        for (size_t i = at + n + 1; i < text.len && isdigit((unsigned char)text.ptr[i]); i++)
            if (line < 1u << 24) line = line * 10 + (uint32_t)(text.ptr[i] - '0');
        if (line) found = line;
    }
    return found;
}

uint32_t solve_failed_line(const sandbox_result *r, wire_language language)
{
    if (language == WIRE_JAVASCRIPT) return solve_line_of(r->err, ".js");
    return language == WIRE_C ? solve_line_of(r->err, ".c") : 0;
}
