/* solve_model.h - variants by a model: one request each, as many at a time as a pass has rows; the
 * next starts as soon as one ends. */
#ifndef PROGRAMS_SOLVE_MODEL_H
#define PROGRAMS_SOLVE_MODEL_H

#include "programs/options.h"
#include "programs/solve.h"
#include "protocol/infill_stop.h"

enum {
    MODEL_STREAMS = 64,
    MODEL_FORMS = 3,
    MODEL_TEXT_BYTES_MAX = 1 << 16,
    MODEL_PREFIX_BYTES = 6000, /* most of it around a place; nearby text decides a line */
    MODEL_SUFFIX_BYTES = 2000,
};
#define MODEL_TOP_P 0.98f /* without the tail, which is garbage */

/* A place's prompt: the text around it, only the text before it, or the text around it with a
 * comment that describes the failure. */
typedef struct {
    int32_t *tokens; /* owned; NULL: the model has no such form */
    size_t n, n_heal;
    const char *heal;  /* [n_heal] the end of the text before; borrowed */
} maker_prompt;

typedef struct {
    cerium_session *session;
    uint32_t index, place; /* index: SOLVE_NONE: the stream is free */
    bytes text;
    infill_stop stop;
    bool is_over;          /* its text is complete; the request may still run */
} maker_stream;

typedef struct {
    cerium_engine *engine; /* borrowed */
    const options *o;
    solve_set *set;
    uint32_t first, n, n_started; /* indices of the model's variants */
    solve_span places[SOLVE_HOLES_MAX];
    maker_prompt prompts[SOLVE_HOLES_MAX][MODEL_FORMS];
    bytes hinted[SOLVE_HOLES_MAX]; /* the text before a place, with the comment */
    view hint;             /* borrowed; empty: there is none */
    uint32_t n_places, n_tokens_max;
    float temperature;     /* below 0: by the variant's index */
    float pointer;
    maker_stream streams[MODEL_STREAMS];
    uint32_t n_streams, n_running;
    int bell;              /* readable when results are available */
} solve_model;

/* Open sessions of an engine that allows MODEL_STREAMS of them.  Set before: engine, o, set,
 * places, n_places, n_tokens_max, temperature; zero the rest.  Close it in any case. */
CERIUM_CHECKED int maker_open(solve_model *m, cerium_error *err);
/* Plan n more variants, whose requests maker_pump() starts. */
void maker_plan(solve_model *m, uint32_t n);
/* Take results, start requests. */
CERIUM_CHECKED int maker_pump(solve_model *m, cerium_error *err);
void maker_close(solve_model *m);

/* For any model: the last whole lines of text before `at`, at most max bytes; */
view maker_before(view text, size_t at, size_t max);
/* includes the line's indentation in the place: models write it, too, and saw no holes after it; */
void maker_begin_line(view text, solve_span *place);
/* and the answer, without blanks at its end, and without the rest of the line, which exists. */
view maker_trim(view all, size_t place_end, view text);
bool maker_is_one_line(view text, solve_span place, uint32_t n_tokens_max);
/* The temperature of the k-th variant: the first is greedy. */
float maker_heat(uint32_t k);

#endif
