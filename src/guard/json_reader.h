/* json_reader.h - JSON one byte at a time: the string and its key, and the decoded escapes.
 * Input that is not JSON gives events too; nothing is rejected. */
#ifndef GUARD_JSON_READER_H
#define GUARD_JSON_READER_H

#include "base/base.h"

enum { JSON_READER_KEY = 32, JSON_READER_DEPTH = 64 };

typedef struct {
    char key[JSON_READER_KEY]; /* of the next or current value */
    uint32_t n_key, depth, n_unicode, unicode;
    uint64_t objects; /* bit i: the container open at depth i is an object */
    bool in_string, in_key, expects_key, escaped;
    uint64_t escape_at;
} json_reader;

typedef enum {
    JSON_NOTHING,
    JSON_OPEN,         /* an object or a list begins */
    JSON_CLOSE,        /* and ends */
    JSON_STRING,       /* a string begins, which is not a key */
    JSON_STRING_BYTES, /* bytes of it */
    JSON_STRING_END,
    JSON_KEY,          /* a key ended: it is in `key` */
} json_event_kind;

typedef struct {
    json_event_kind kind;
    char bytes[3];
    uint32_t n;
    uint64_t at; /* their positions: of an escape, its beginning */
    bool object; /* of OPEN and CLOSE */
} json_event;

json_event json_reader_step(json_reader *r, char c, uint64_t at);
/* The key, without '_' and '-', in lower case: out has JSON_READER_KEY bytes. */
view json_reader_plain_key(const json_reader *r, char *out);

#endif
