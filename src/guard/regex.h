/* regex.h - PCRE2 expressions of rules: compiled once, shared; matched with a worker's data and
 * with a limit of steps, so that no input takes too long. */
#ifndef GUARD_REGEX_H
#define GUARD_REGEX_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/base.h"

typedef struct {
    pcre2_match_data *data;
    pcre2_match_context *limits;
} regex_scratch;

int regex_scratch_open(regex_scratch *s);
void regex_scratch_close(regex_scratch *s);
/* NULL, with the reason in why ([128]): the expression is invalid. */
pcre2_code *regex_compile(const char *text, char why[128]);
bool regex_found(const pcre2_code *code, const regex_scratch *s, view text);
/* The first match at or after from: group 1 if it took part, else the whole. */
bool regex_find(const pcre2_code *code, const regex_scratch *s, view text, size_t from,
                size_t *begin, size_t *end);

#endif
