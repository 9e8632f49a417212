/* json.h - JSON from other programs. It accepts every number that RFC 8259 allows, including those
 * that fit neither a double nor an int64_t.
 *
 * An integer beyond int64_t becomes the nearest real, a real beyond double becomes the largest
 * finite double. So no number is infinite, and a huge number in an unused field does no harm.  A
 * NUL in the name of a member becomes U+FFFD: names are C strings here.  A byte-order mark before
 * the text is ignored (RFC 8259, 8.1). Thread-safe. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* An extra flag beside jansson's: accept NaN, Infinity and -Infinity, which Python writes, as null
 * and the largest finite numbers. For files, not for requests. */
#define JSON_READ_PYTHON ((size_t)1 << 32)

/* Like json_loadb(), with its errors; columns refer to the rewritten text. Cost: the text is copied
 * only if it has such a number or name. */
json_t *json_read(view text, size_t flags, json_error_t *error);

enum { JSON_NUMBER_BYTES = 32 };

/* The shortest text that reads back as this finite real. An integer beyond int64_t, which
 * json_read() made a real, is written as an integer below 1e21: exactly the nearest double, but
 * 2^64 as the largest number of 64 bits, which is meant. */
void json_real_text(char out[JSON_NUMBER_BYTES], double value);
void json_number_text(char out[JSON_NUMBER_BYTES], const json_t *number);

#endif
