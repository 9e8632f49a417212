/* json_out.h - writes JSON directly into one reused buffer.
 *
 * The first failure sticks: later writes are dropped and status has the reason, so that writers
 * need no checks in between.  Private to protocol/. */
#ifndef PROTOCOL_JSON_OUT_H
#define PROTOCOL_JSON_OUT_H

#include <jansson.h>

#include "base/base.h"
#include "base/memory.h"

typedef struct {
    bytes b;    /* zero-initialise and set b.max */
    int status; /* 0, CERIUM_ERR_MEMORY or CERIUM_ERR_CAPACITY */
} json_out;

void json_out_clear(json_out *t);
void json_out_free(json_out *t);
static inline view json_out_view(const json_out *t) { return (view){t->b.ptr, t->b.len}; }

void json_out_put(json_out *t, view raw);
/* Inside quotes that the caller writes.  Bytes that are not UTF-8 become U+FFFD. */
void json_out_escape(json_out *t, view text);
/* With its quotes; NULL is null. */
void json_out_string(json_out *t, const char *text);
void json_out_quoted(json_out *t, view text);
/* "name": where name needs no escapes. */
void json_out_key(json_out *t, const char *name);
void json_out_integer(json_out *t, int64_t value);
/* The shortest text that reads back as this double; JSON has no infinities: null. */
void json_out_number(json_out *t, double value);
/* At most nine digits, which read back as this float; a tenth of the cost. */
void json_out_float(json_out *t, float value);
void json_out_bool(json_out *t, bool value);
/* Compact; NULL is null. */
void json_out_value(json_out *t, const json_t *value);

/* {"deed":...,"weakness":...}: see protocol_finding. */
struct protocol_finding;
void json_out_finding(json_out *t, const struct protocol_finding *f);

#define json_out_literal(t, literal) json_out_put(t, VIEW(literal))

/* Length of the UTF-8 character at text[0], 1..4; 0 when there is none. */
size_t utf8_char_len(view text);
bool utf8_valid(view text);
/* Append text, with U+FFFD for bytes that are not UTF-8. */
CERIUM_CHECKED int utf8_repair(bytes *out, view text);

/* Bytes in base64, without quotes. */
void json_out_base64(json_out *t, view bytes);
/* Text that clients send back unread (encrypted_content): base64 with a mark of ours.  It is
 * opaque, not secret. */
void json_out_opaque(json_out *t, view text);
/* Append the text to *out; *ours is false, and nothing is appended, if we did not write it. */
CERIUM_CHECKED int opaque_read(bytes *out, view opaque, bool *ours);

#endif
