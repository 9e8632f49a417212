/* pattern.h - names of functions and values in rules: "subprocess.{run,call}", "*.execute",
 * "curl_*", "req.query".
 *
 * A name is a dotted path ("request.args.get"; "->" and "::" are dots too).  A pattern of one
 * segment is a whole name; one of several may have any path before it; one that begins with "*."
 * must have something before it.  A "*" at the end of a segment matches the rest of it, one at its
 * beginning the part before: "*_path". */
#ifndef GUARD_PATTERN_H
#define GUARD_PATTERN_H

#include "base/base.h"
#include "base/memory.h"

typedef struct {
    view text;       /* without a leading "*." */
    view last;       /* its last segment, without a "*" at the end */
    bool receiver;   /* it began with "*." */
    bool open;       /* the last segment ends with "*" */
    uint8_t n_segments;
    uint32_t hash; /* of last; 0 when open */
} pattern;

/* In the order of their hashes. */
typedef struct {
    pattern *list;
    uint32_t n, cap;
} pattern_list;

uint32_t pattern_hash(view name); /* of its last segment */
bool pattern_matches(const pattern *p, view name);
bool patterns_match(const pattern_list *l, view name);
/* Expand the braces of text into list; strings are taken from a. */
int pattern_add(pattern_list *l, arena *a, view text);
void pattern_list_close(pattern_list *l);

#endif
