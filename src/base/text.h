/* text.h - owns small queries on bytes and views of text that many folders need. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/base.h"

/* isspace() of the C locale, as a set for view_trim(). */
#define TEXT_SPACE " \t\n\v\f\r"

/* White space of JSON. */
static inline bool byte_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool byte_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Of a word of ASCII: a letter, a digit or '_'. */
static inline bool byte_is_word(char c)
{
    return byte_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static inline bool view_is(view text, const char *word) { return view_equal(text, view_of(word)); }

static inline bool view_ends_with(view text, view end)
{
    return text.len >= end.len && view_equal((view){text.ptr + text.len - end.len, end.len}, end);
}

static inline bool text_ends_with(const char *text, const char *end)
{
    return view_ends_with(view_of(text), view_of(end));
}

static inline bool view_has(view text, const char *part)
{
    return text.len && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

static inline bool view_is_one_of(view word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((!word.len || *list[i] == *word.ptr) && view_is(word, list[i])) return true;
    return false;
}

/* Does it begin like one of them?  None of them is empty. */
static inline bool view_starts_one_of(view text, const char *const *list, size_t n)
{
    for (size_t i = 0; text.len && i < n; i++)
        if (*list[i] == *text.ptr && view_starts(text, view_of(list[i]))) return true;
    return false;
}

/* The beginning of the next `part` at or after `from`; text.len: there is none. */
static inline size_t view_find(view text, size_t from, view part)
{
    const char *at = from < text.len ? memmem(text.ptr + from, text.len - from, part.ptr, part.len)
                                     : NULL;
    return at ? (size_t)(at - text.ptr) : text.len;
}

/* The end of the last `part`; text.len: there is none. */
static inline size_t view_past(view text, view part)
{
    size_t out = text.len;
    for (size_t at = 0; (at = view_find(text, at, part)) < text.len; at++) out = at + part.len;
    return out;
}

/* The length of their common beginning. */
static inline size_t view_common(view a, view b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

#endif
