/* call_marks.h - the form of calls in a model's own template, found by probing:
 * cerium_engine_info.call_form is a JSON object then.  With a tag for each
 * argument, or with an object for all:
 *
 *   section? (open NAME name_end? (key KEY key_end VALUE value_end)* end)+ section_end?
 *   section? open NAME name_end {...} end (between open NAME name_end {...} end)* section_end? */
#ifndef READER_CALL_MARKS_H
#define READER_CALL_MARKS_H

#include <jansson.h>

#include "base/base.h"

enum { CALL_MARK_BYTES_MAX = 64, CALL_MARK_ANY = '\1' };

/* Strings are never NULL and have at most CALL_MARK_BYTES_MAX bytes; those of white space and
 * those that may be missing are "". */
typedef struct {
    json_t *owner;
    const char *section, *open, *name_end, *end, *section_end;
    const char *key, *key_end, *value_end; /* of tags */
    const char *json_key_end; /* key_end of values that are not text; "": the same key_end */
    const char *between;      /* of objects */
    bool json;                /* arguments are an object; open, name_end and end may have
                                 CALL_MARK_ANY, an id */
    bool opens_thought; /* the prompt has begun one already */
} call_marks;

/* False: form is the name of a family, or has no marks.  Release *out with call_marks_free(). */
bool call_marks_read(call_marks *out, const char *form);
void call_marks_free(call_marks *marks);

#endif
