/* unwrap.h - finds the code in a model's output: Markdown fences, diffs, patches, search/replace
 * blocks, answers that are nothing but code, the strings of JSON arguments.  Bytes go in one by
 * one; code comes out with the position of each byte, and whether it is new. */
#ifndef GUARD_UNWRAP_H
#define GUARD_UNWRAP_H

#include "guard/guard.h"
#include "guard/json_reader.h"

enum { UNWRAP_HEAD_BYTES = GUARD_LINE_BYTES_MAX, UNWRAP_PROSE_BYTES = 200, UNWRAP_NAME_BYTES = 256,
       UNWRAP_MARGIN_BYTES = GUARD_MARGIN_BYTES };

typedef enum {
    UNWRAP_FRESH,  /* written now */
    UNWRAP_AROUND, /* is around a change, before it and after it */
    UNWRAP_OLD,    /* removed by a change */
} unwrap_side;

typedef struct {
    guard_language language;
    bool detect; /* its language is unknown and may be detected */
    bool guess;  /* it is code, whatever its language */
    bool soft;   /* a test, a document, an example; or it is marked as bad */
} unwrap_segment;

/* The role of the bytes. */
typedef struct {
    void *arg;
    /* Another text begins. */
    void (*segment)(void *arg, unwrap_segment s);
    /* A byte of it, and its position in the stream. */
    void (*byte)(void *arg, char c, uint64_t at, unwrap_side side);
    /* A change begins or is complete: the text removed before belongs to another change. */
    void (*edit)(void *arg);
} unwrap_sink;

typedef struct {
    guard_form form;
    guard_language language; /* as the stream was opened, or of the path that was named */
    /* lines */
    enum { UNWRAP_PLAIN, UNWRAP_PROSE, UNWRAP_FENCED, UNWRAP_DIFF } mode;
    enum { LINE_HEAD, LINE_CODE, LINE_CONTEXT, LINE_DROPPED, LINE_HEADER } line;
    enum { BLOCK_NONE, BLOCK_SEARCH, BLOCK_REPLACE } block; /* of a search/replace block */
    char margin[UNWRAP_MARGIN_BYTES]; /* that its lines have before them: of a list, a quotation */
    uint8_t n_margin, at_margin;
    bool in_heredoc;  /* a patch in a shell's script */
    char fence;       /* of the current block; 0 */
    uint8_t n_fence;
    bool detect;
    bool first;       /* no line of this text was read yet: it may turn out to be a diff */
    bool guessed;     /* that it is a diff; until a line has a sign, its lines are new */
    bool signs;
    bool start;       /* only blanks were read of an answer so far: it may be code without a
                         fence */
    bool bare;        /* it is */
    bool blank;       /* the last line of it was blank */
    bool in_prose;    /* the search/replace block is in prose */
    bool soft_path, soft_prose;
    char head[UNWRAP_HEAD_BYTES]; /* of a line; in a block, it is withheld while it may be a mark */
    uint64_t head_at[UNWRAP_HEAD_BYTES];
    uint32_t n_head, n_sent;
    char prose[UNWRAP_PROSE_BYTES]; /* the end of the prose so far */
    uint32_t n_prose;
    char last[UNWRAP_NAME_BYTES]; /* the last line of prose that is not blank */
    uint32_t n_last;
    /* JSON */
    json_reader json;
    char path[UNWRAP_NAME_BYTES];
    uint32_t n_path;
    bool in_path, in_old, is_new, is_diff; /* the kind of the string */
    bool had_old; /* the object has named the text it removes */
    /* a turn */
    char before;      /* the last byte of its line that is not blank; 0 */
    bool in_json, in_value;
    bool after_old; /* the last line of prose may be the first one of a diff */
} unwrap;

/* path: of the text's file, or empty.  detect: for code of an unknown language, detect it. */
void unwrap_begin(unwrap *u, guard_form form, guard_language language, view path, bool detect,
                  const unwrap_sink *to);
void unwrap_step(unwrap *u, char c, uint64_t at, const unwrap_sink *to);
/* Release the withheld bytes. */
void unwrap_finish(unwrap *u, const unwrap_sink *to);
/* The first withheld byte of the stream; UINT64_MAX: none. */
uint64_t unwrap_held(const unwrap *u);
/* The current text depends on something that is not known yet: it is the new side of an edit that
 * came before its old one. */
bool unwrap_awaits_old(const unwrap *u);

/* ---- unwrap_lines.c ---- */

void unwrap_set_mode(unwrap *u, int mode, guard_language language, bool detect,
                     const unwrap_sink *to);
void unwrap_line_byte(unwrap *u, char c, uint64_t at, const unwrap_sink *to);
void unwrap_begin_line(unwrap *u);
/* The key of JSON, or the name of a parameter, in lower case. */
bool unwrap_key_is_path(view key);
bool unwrap_key_is_old(view key);
bool unwrap_key_is_new(view key);
bool unwrap_key_is_diff(view key);

/* ---- unwrap_marks.c: the kind of a line by its look ---- */

typedef enum { MARK_NO, MARK_MAYBE, MARK_YES } mark;

/* Does the line begin a diff? */
bool mark_diff(view line);
/* Does a text with this beginning begin a diff, also without a header? */
mark mark_first_line(view head, bool *header);
/* Does it begin a patch within a script: apply_patch <<'EOF'? */
mark mark_heredoc(view head);
/* The marks of a search/replace block: the last mark decides which may come next. */
mark mark_block(const unwrap *u, view head);
/* Is an answer that begins so code?  head: its first two lines that are not blank, or less. */
mark mark_bare(view head, bool whole);
/* Does the line of prose say that the following code is bad? */
bool mark_says_bad(view text);
/* Is a word of the line a path of a test, a document, an example? */
bool mark_soft_path(view line);

#endif
