/* solve.h - what the files of `cerium solve` share: places, variants, and their verdicts. */
#ifndef PROGRAMS_SOLVE_H
#define PROGRAMS_SOLVE_H

#include "base/hash.h"
#include "base/memory.h"
#include "sandbox/sandbox.h"

enum {
    SOLVE_VARIANTS_MAX = 1 << 17,
    SOLVE_TEXT_BYTES_MAX = 1 << 20, /* of a file: a variant of it is sent to the sandbox for each
                                     * test */
    SOLVE_HOLES_MAX = 64,
    SOLVE_SLOTS_MAX = 64,
    SOLVE_WHY_BYTES = 200,
};

typedef enum { MAKER_MUTATE = 0, MAKER_MODEL = 1, MAKER_REPAIR = 2, MAKERS = 3 } solve_maker;
const char *solve_maker_name(solve_maker maker);

/* Bytes of the file's text. */
typedef struct {
    size_t begin, end;
} solve_span;

typedef enum {
    VARIANT_PLANNED = 0, /* has an index, but no text yet */
    VARIANT_MADE = 1,
    VARIANT_RUNNING = 2,
    VARIANT_DECIDED = 3,
} variant_state;

/* The file with one span of it replaced. */
typedef struct {
    solve_span span;
    char *text;           /* [n_text] in the span's place; owned */
    uint32_t n_text;
    solve_maker maker;
    variant_state state;
    uint64_t seed;
    float temperature;
    uint32_t same_as;     /* an earlier variant that is the same program; SOLVE_NONE */
    bool dropped;         /* its text has no end: it is not a variant */
    wire_verdict verdict; /* DECIDED */
    uint32_t failed_line; /* solve_failed_line() */
    uint32_t n_passed, n_same; /* n_same: how often it was made */
    char *why;            /* of the failure; owned, or NULL */
} solve_variant;

enum { SOLVE_NONE = UINT32_MAX };

/* All variants of one call, by index. */
typedef struct {
    view text;                        /* the file */
    wire_language language;           /* of the file: decides how it is parsed */
    solve_variant *all;               /* [n] of [cap] */
    uint32_t n, cap;
    uint32_t *table;                  /* [n_table] index + 1 by key, open addressing */
    hash_name *keys;                  /* [cap] keys of variants that are made */
    uint32_t n_table;
    uint32_t n_made, n_different, n_tested, n_passed, n_dropped;
    uint32_t verdicts[WIRE_VERDICTS]; /* counts of different variants */
    uint64_t n_tokens;                /* that the model sampled */
} solve_set;

/* ---- solve_set.c ---- */

CERIUM_CHECKED int solve_set_open(solve_set *s, view text, wire_language language, uint32_t cap,
                                  cerium_error *err);
void solve_set_close(solve_set *s);
/* Plan one more variant; returns its index.  SOLVE_NONE if there are enough. */
uint32_t solve_set_plan(solve_set *s, solve_maker maker);
/* Set its text; it is copied. */
CERIUM_CHECKED int solve_set_make(solve_set *s, uint32_t index, solve_span span, view text,
                                  cerium_error *err);
/* It will get no text. */
void solve_set_drop(solve_set *s, uint32_t index);
void solve_set_decide(solve_set *s, uint32_t index, const sandbox_result *r);
/* The verdict of the variant, or of the one that it equals.  False while it is undecided. */
bool solve_set_verdict(const solve_set *s, uint32_t index, wire_verdict *out);
/* Write the whole file with the variant in its place into out. */
CERIUM_CHECKED int solve_set_program(const solve_set *s, uint32_t index, bytes *out);

/* ---- solve_place.c ---- */

typedef struct {
    char path[4096];
    uint32_t line, last, column; /* 0: not given */
} solve_place;

/* FILE, FILE:LINE, FILE:LINE-LINE, FILE:LINE:COLUMN; if a file has the whole text as its name, it
 * is that file.  False: a number is out of range. */
bool solve_place_read(const char *text, bool is_file, solve_place *out);
/* The span to rewrite.  CERIUM_ERR_ARGUMENT. */
CERIUM_CHECKED int solve_place_span(const solve_place *p, view text, solve_span *out,
                                    cerium_error *err);
/* The body of a function, after its docstring.  CERIUM_ERR_ARGUMENT: there is no such function. */
CERIUM_CHECKED int solve_function_span(view text, wire_language language, const char *name,
                                       solve_span *out, cerium_error *err);
/* The text of line n (from 1) without indentation and line break; empty beyond the last. */
solve_span solve_line_span(view text, uint32_t n);
view solve_line_span_text(view text, uint32_t n);

/* ---- solve_failure.c ---- */

/* The reason why a run failed, in one line; may be empty, and of any bytes. */
view solve_failure(const sandbox_result *r);
/* The outermost line of a program with its tests after it that failed; 0: not known. */
uint32_t solve_failed_line(const sandbox_result *r, wire_language language);
/* The number in the last "NAME:NUMBER" of text; 0: there is none. */
uint32_t solve_line_of(view text, const char *name);

/* ---- solve_tokens.c ---- */

typedef enum {
    TOKEN_NAME = 0, TOKEN_NUMBER = 1, TOKEN_STRING = 2, TOKEN_COMMENT = 3, TOKEN_OPERATOR = 4,
    TOKEN_BLANK = 5, TOKEN_BREAK = 6,
} solve_token_kind;

typedef struct {
    solve_token_kind kind;
    size_t begin, end;
} solve_token;

/* Read the token at *at and move after it; false at the end.  Tokens cover the text. */
bool solve_token_next(view text, wire_language language, size_t *at, solve_token *out);
/* A key of a program for comparison: its tokens without comments and blanks, except Python's
 * indentation.  Only [begin, end) is read: the rest is equal. */
hash_name solve_key(view text, wire_language language, size_t begin, size_t end);

/* ---- solve_mutate.c ---- */

/* Plan and make at most n edits of the spans, the likeliest first. */
CERIUM_CHECKED int solve_mutate(solve_set *s, const solve_span *spans, uint32_t n_spans, uint32_t n,
                                cerium_error *err);

#endif
