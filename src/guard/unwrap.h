/* unwrap.h - finds the code in what a model writes: Markdown fences, diffs, patches, the strings
 * of JSON arguments.  Bytes go in one by one; code comes out with where each byte stood. */
#ifndef GUARD_UNWRAP_H
#define GUARD_UNWRAP_H

#include "base/limits.h"
#include "guard/guard.h"

enum { UNWRAP_HEAD_BYTES = GUARD_LINE_BYTES_MAX, UNWRAP_DEPTH = 64 };

/* What the bytes are for. */
typedef struct {
    void *arg;
    /* Another text begins.  detect: its language is not known and may be found. */
    void (*segment)(void *arg, guard_language language, bool detect);
    /* A byte of it, and where it stands in the stream; `fresh` when it is written now, not merely
     * shown as what stands around a change. */
    void (*byte)(void *arg, char c, uint64_t at, bool fresh);
} unwrap_sink;

typedef struct {
    guard_form form;
    guard_language language; /* as the stream was opened, or of the path that was named */
    /* lines */
    enum { UNWRAP_PLAIN, UNWRAP_PROSE, UNWRAP_FENCED, UNWRAP_DIFF } mode;
    enum { LINE_HEAD, LINE_CODE, LINE_CONTEXT, LINE_DROPPED, LINE_HEADER } line;
    char fence;       /* of the block that we are in; 0 */
    uint8_t n_fence;
    bool detect;
    char head[UNWRAP_HEAD_BYTES]; /* of a line; in a block, it is withheld while it may be a mark */
    uint64_t head_at[UNWRAP_HEAD_BYTES];
    uint32_t n_head, n_sent;
    /* JSON */
    char key[32], path[UNWRAP_HEAD_BYTES];
    uint32_t n_key, n_path, depth, n_unicode, unicode;
    uint64_t objects; /* bit i: what is open at depth i is an object */
    bool in_string, in_key, in_path, expects_key, escaped;
    /* a turn */
    char before;      /* the last byte of its line that is no blank; 0 */
    bool in_json, in_value;
    bool after_old; /* the last line of prose may be the first one of a diff */
    uint64_t escape_at;
} unwrap;

/* detect: where code is of no language that is known, it is looked for. */
void unwrap_begin(unwrap *u, guard_form form, guard_language language, bool detect,
                  const unwrap_sink *to);
void unwrap_step(unwrap *u, char c, uint64_t at, const unwrap_sink *to);
/* What was withheld comes out. */
void unwrap_finish(unwrap *u, const unwrap_sink *to);
/* The first byte of the stream that is withheld; UINT64_MAX when none is. */
uint64_t unwrap_held(const unwrap *u);

#endif
