/* next_edit.h - the prompt for a model that predicts edits, in the form that it was trained on, and
 * its answer: the lines around the caret, rewritten.
 *
 * Forms: Sweep's, as its makers' server sweep-autocomplete 0.1.1 writes it, and Zed's Zeta 1, 2 and
 * 2.1, as Zed writes them.  Text has LF alone at its lines' ends.  Pure; fuzzed. */
#ifndef PROTOCOL_NEXT_EDIT_H
#define PROTOCOL_NEXT_EDIT_H

#include "base/base.h"
#include "base/memory.h"

/* ---- limits: bounds for broken or hostile input ---- */

enum {
    NEXT_EDIT_TEXT_BYTES_MAX = 4 << 20, /* the file */
    NEXT_EDIT_LINE_BYTES_MAX = 1000,    /* a rewritten line */
    NEXT_EDIT_CHANGES_MAX = 64,         /* changes of the user that are read; Sweep's form shows
                                         * six */
    NEXT_EDIT_SNIPPETS_MAX = 16,
    NEXT_EDIT_NEW_LINES_MAX = 20,       /* more lines than before */
    NEXT_EDIT_NEW_TOKENS = 1024,
    NEXT_EDIT_BLOCKS_MAX = 512,         /* Zeta 2.1's, between its marks */
};

typedef enum {
    NEXT_EDIT_NONE = 0,
    NEXT_EDIT_FIM = 1, /* no such form: a completion at the caret */
    NEXT_EDIT_SWEEP = 2,
    NEXT_EDIT_ZETA = 3,
    NEXT_EDIT_ZETA_2 = 4,
    NEXT_EDIT_ZETA_21 = 5,
    NEXT_EDIT_FORMS,
} next_edit_form;

/* "sweep", "zeta", "zeta2", "zeta2.1", "fim"; "" for none. */
const char *next_edit_name(next_edit_form form);
/* False: there is no form of that name. */
bool next_edit_named(view name, next_edit_form *out);
/* By the model's name in its file (general.name); NEXT_EDIT_NONE: it has none of these forms. */
next_edit_form next_edit_of_model(const char *model);

/* A change by the user: hunks of `diff -u`, without the lines that name files. */
typedef struct {
    view path, diff;
    bool is_accepted; /* it was predicted and accepted */
} next_edit_change;

/* Text of another file; is_part: the file continues after it. */
typedef struct {
    view path, text;
    bool is_part;
} next_edit_snippet;

/* Borrowed. */
typedef struct {
    view path, text;
    size_t caret;   /* of text */
    view original;  /* the text when the file was opened; ptr NULL: not known */
    const next_edit_change *changes;   /* [n_changes], the oldest first */
    size_t n_changes;
    const next_edit_snippet *snippets; /* [n_snippets] */
    size_t n_snippets;
} next_edit_place;

/* A prompt; owned. */
typedef struct {
    next_edit_form form;
    size_t from, to;  /* of the text: the whole lines that the answer rewrites */
    bytes text;       /* the prompt */
    const char *stops[3];
    uint32_t n_stops;
} next_edit_prompt;

/* Append text without CR before LF; *at moves with it.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int next_edit_take_lf(bytes *out, view text, size_t *at);

/* *why, if no prompt is made, is the reason, static text, and the status is OK: text that contains
 * a mark of the form, lines that are too long, only blank lines.  CERIUM_ERR_MEMORY,
 * CERIUM_ERR_CAPACITY: the text is larger than NEXT_EDIT_TEXT_BYTES_MAX. */
CERIUM_CHECKED int next_edit_ask(next_edit_prompt *out, next_edit_form form,
                                 const next_edit_place *place, const char **why);
void next_edit_close(next_edit_prompt *prompt);

/* Lines [line, line + n_lines) of the file, and their replacement: whole lines, or none. */
typedef struct {
    uint32_t line, n_lines;
    view text;
} next_edit;

typedef struct {
    bytes window;    /* the new lines; the views point into it */
    next_edit *list; /* [n] owned: the one at or next after the caret's line first, then those after
                        it, then those before */
    uint32_t n;
} next_edits;

/* The changes of an answer; is_whole: the model ended it.  *why: the reason, static text, for no
 * proposal: no change, a change that the user just undid, ... */
CERIUM_CHECKED int next_edit_read(next_edits *out, const next_edit_place *place,
                                  const next_edit_prompt *prompt, view answer, bool is_whole,
                                  const char **why);
void next_edits_close(next_edits *edits);

/* ---- private to next_edit*.c ---- */

int next_edit_ask_sweep(next_edit_prompt *out, const next_edit_place *place);
int next_edit_ask_zeta(next_edit_prompt *out, const next_edit_place *place);
/* The beginnings of Zeta 2.1's blocks of a window, and its end; returns their number. */
size_t next_edit_blocks(view window, size_t out[NEXT_EDIT_BLOCKS_MAX + 1]);
/* The window, from Zeta 2.1's answer; false: the answer has none. */
bool next_edit_from_blocks(view window, view answer, bytes *out, int *status);

/* A hunk of a change, in the form of Sweep's server: a line with its file, then the hunk. */
typedef struct {
    view path, hunk; /* from its @@ on, without the end of its last line */
} edit_hunk;

/* The last hunks of all changes, at most max, without those that only change blanks; returns how
 * many. */
size_t edit_hunks(const next_edit_place *place, edit_hunk *out, size_t max);
/* The old and the new text: the changed lines and n_around lines around them. */
int edit_hunk_parts(const edit_hunk *h, size_t n_around, bool with_path, bytes *was, bytes *is);
/* Undoes the hunk in a text; false: the hunk is not found. */
bool edit_hunk_undo(const edit_hunk *h, bytes *text, int *status);

#endif
