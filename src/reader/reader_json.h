/* reader_json.h - JSON one byte at a time: where a value ends, and the decoded strings.
 *
 * Private to the reader.  Models write unescaped line feeds into strings; those are accepted. */
#ifndef READER_JSON_H
#define READER_JSON_H

#include "base/base.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define READER_NAME_BYTES_MAX   256u       /* name of a called tool: the API allows 64 */
#define READER_HEADER_BYTES_MAX 1024u      /* between two marks of a message's header */
#define READER_HELD_BYTES_MAX   (1u << 20) /* of a call, before it is certain to be one */
#define READER_JSON_DEPTH_MAX   512u       /* nesting of arrays and objects */
_Static_assert(READER_JSON_DEPTH_MAX % 64 == 0, "one bit a level");

typedef enum {
    SCAN_MORE = 0,   /* the byte belongs to the value, which continues */
    SCAN_DONE = 1,   /* the byte is the value's last */
    SCAN_BEFORE = 2, /* the value (a number) ended before this byte */
    SCAN_BAD = 3,    /* not JSON, or too deep */
} scan_result;

typedef struct {
    uint8_t state;
    bool key;         /* the string is a key */
    uint8_t left;     /* hexadecimal digits, or letters of a literal, still to come */
    const char *word; /* the rest of a literal */
    uint32_t depth;
    uint64_t objects[READER_JSON_DEPTH_MAX / 64]; /* a bit for each depth: object, not array */
} json_scan;

/* A zeroed json_scan expects one value; white space may come before it. */
scan_result json_scan_byte(json_scan *s, char c);
/* Inside a string: a control character here has to be escaped. */
bool json_scan_in_string(const json_scan *s);
/* Whether text is one whole value, with white space around it. */
bool json_is_whole(view text);

/* The inside of a string, after its first quote. */
typedef struct {
    bool escape;
    uint8_t left;  /* hexadecimal digits still to come */
    uint32_t code; /* of the digits so far */
    uint32_t high; /* first half of a surrogate pair, or 0 */
} json_text;

enum { JSON_TEXT_MAX = 8 }; /* bytes that one byte can produce */
typedef enum { TEXT_MORE = 0, TEXT_END = 1, TEXT_BAD = 2 } text_result;

/* Decodes into out [JSON_TEXT_MAX]; *n: how many bytes.  TEXT_END: c is the closing quote. */
text_result json_text_byte(json_text *t, char c, char *out, size_t *n);

/* c as written inside a JSON string: out [JSON_TEXT_MAX]; returns how many bytes. */
size_t json_escape_byte(char c, char *out);

#endif
