/* json.h - JSON of others: every number that RFC 8259 allows is read, also those that a double or
 * an int64_t does not hold.
 *
 * An integer beyond int64_t becomes the nearest real, a real beyond double the greatest finite one:
 * so a number is never infinite, and one that nobody looks at never matters.  A byte-order mark
 * before the text says nothing (RFC 8259, 8.1).  Thread-safe; knows jansson and nothing of ours. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Beside jansson's flags: NaN, Infinity and -Infinity, which Python writes, are read: as null, and
 * as the greatest finite numbers.  For files, not for requests. */
#define JSON_READ_PYTHON ((size_t)1 << 32)

/* As json_loadb(), with its errors; columns are those of the text as it was understood.
 * Cost: the text is copied where it has such a number, else not looked at twice. */
json_t *json_read(view text, size_t flags, json_error_t *error);

#endif
