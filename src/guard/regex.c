/* regex.c - expressions of rules, with PCRE2. */
#include "guard/regex.h"

#include "base/memory.h"

enum { STEPS_MAX = 100000, PAIRS = 4, HEAP_KB_MAX = 4096 };

int regex_scratch_open(regex_scratch *s)
{
    s->data = pcre2_match_data_create(PAIRS, NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (!s->data || !s->limits) {
        regex_scratch_close(s);
        return CERIUM_ERR_MEMORY;
    }
    pcre2_set_match_limit(s->limits, STEPS_MAX);
    pcre2_set_heap_limit(s->limits, HEAP_KB_MAX);
    return CERIUM_OK;
}

void regex_scratch_close(regex_scratch *s)
{
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->limits);
    *s = (regex_scratch){0};
}

pcre2_code *regex_compile(const char *text, char why[128])
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *re =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
    if (!re) pcre2_get_error_message(code, (PCRE2_UCHAR *)why, 128);
    /* Without JIT (not every processor has it) it is slower, but correct. */
    else (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    return re;
}

bool regex_find(const pcre2_code *code, const regex_scratch *s, view text, size_t from,
                size_t *begin, size_t *end)
{
    int n = pcre2_match(code, (PCRE2_SPTR)(text.ptr ? text.ptr : ""), text.len, from, 0, s->data,
                        s->limits);
    if (n < 0) return false;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->data);
    int group = n > 1 && at[2] != PCRE2_UNSET ? 1 : 0;
    *begin = at[2 * group];
    *end = at[2 * group + 1];
    return true;
}

bool regex_found(const pcre2_code *code, const regex_scratch *s, view text)
{
    size_t begin, end;
    return regex_find(code, s, text, 0, &begin, &end);
}
