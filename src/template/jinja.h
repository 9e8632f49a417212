/* jinja.h - runs Jinja templates like the chat templates of models: jinja2 3.1 with trim_blocks,
 * lstrip_blocks, loop controls and without automatic escapes, as in transformers.
 *
 * A template comes from a model file and is not trusted: its size, its nesting, the steps of a
 * rendering and the memory of its values are bounded (below).  It sees only the given values, and
 * reaches no file and no clock.
 *
 * Strings record the origin of each of their bytes, so that text of a message never becomes a
 * special token, wherever the template moved it.  A template is immutable once compiled and may be
 * rendered by several threads; a jinja_run belongs to one. */
#ifndef TEMPLATE_JINJA_H
#define TEMPLATE_JINJA_H

#include <jansson.h>

#include "base/base.h"
#include "base/memory.h"

/* ---- limits: the most that a broken or hostile input can take ---- */

#define JINJA_SOURCE_BYTES_MAX (256u << 10) /* of a template; known: 40 KB */
#define JINJA_TREE_BYTES_MAX   (32u << 20)  /* its tree: known, 300 KB */
#define JINJA_SYMBOLS_MAX      4096u        /* names in it */
#define JINJA_NESTING_MAX      200u         /* of its blocks and expressions */
#define JINJA_DEPTH_MAX        1000u        /* of evaluation, macros in each other too */
#define JINJA_STEPS_MAX        10000000u    /* of a rendering; 64 bytes are one, too */
#define JINJA_OUTPUT_BYTES_MAX (64u << 20)
#define JINJA_VALUES_BYTES_MAX (256u << 20) /* of a rendering's values: each message is parsed
                                               anew */

_Static_assert(JINJA_NESTING_MAX < 255, "the depth of a node is a byte");

typedef enum {
    JINJA_TEMPLATE = 0, /* the bytes are of the template, or of a trusted value */
    JINJA_MESSAGE = 1,  /* the bytes are of a message or a tool: never control */
} jinja_origin;

typedef enum {
    JINJA_FAILED = 0,   /* the template cannot be run: line has the place */
    JINJA_RAISED = 1,   /* it called raise_exception(): the message is the template's */
    JINJA_EXCEEDED = 2, /* a limit: steps, memory, nesting, output */
} jinja_failure;

typedef struct {
    jinja_failure failure;
    uint32_t line;     /* of the template, from 1; 0: none */
    char message[240]; /* one line */
} jinja_error;

typedef struct jinja_template jinja_template;
typedef struct jinja_run jinja_run;

/* A value of a run: 24 bytes, passed by value.  jinja_value.h has its inside. */
typedef struct {
    uint8_t kind;
    uint8_t origin; /* of a string without marks */
    bool safe;      /* a string marked by |safe */
    uint32_t len;   /* of a string, in bytes */
    union {
        const char *text; /* [len] */
        void *at;
        int64_t integer;
        double real;
        bool truth;
    };
    const uint8_t *marks; /* [len] the origin of each byte, or NULL: all have `origin` */
} jinja_value;

/* A piece of the rendered text. */
typedef struct {
    size_t end; /* one past its last byte; it begins where the one before it ends */
    jinja_origin origin;
} jinja_piece;

typedef struct {
    view text;
    const jinja_piece *pieces; /* [n_pieces] */
    size_t n_pieces;
} jinja_output;

/* CERIUM_ERR_FORMAT with *err, or CERIUM_ERR_MEMORY.  source is copied. */
CERIUM_CHECKED int jinja_compile(jinja_template **out, view source, jinja_error *err);
/* Accepts NULL. */
void jinja_free(jinja_template **t);
/* Whether the template has a name of this spelling: a variable, an attribute, a literal. */
bool jinja_mentions(const jinja_template *t, view word);

/* Values are made for one run and live as long as it.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int jinja_open(jinja_run **out, const jinja_template *t);
void jinja_close(jinja_run **r);

/* text is borrowed until the run is closed. */
jinja_value jinja_text(view text, jinja_origin origin);
jinja_value jinja_bool(bool truth);
jinja_value jinja_none(void);
/* Without memory they are undefined, and the run fails. */
jinja_value jinja_list(jinja_run *r);
jinja_value jinja_map(jinja_run *r);
void jinja_append(jinja_run *r, jinja_value list, jinja_value item);
void jinja_put(jinja_run *r, jinja_value map, const char *key, jinja_value value);
/* Strings of it are borrowed. */
jinja_value jinja_of_json(jinja_run *r, const json_t *json, jinja_origin origin);

/* A variable of the template.  name is borrowed. */
void jinja_set(jinja_run *r, const char *name, jinja_value value);
/* The time of strftime_now(): seconds since 1970, in UTC. */
void jinja_set_time(jinja_run *r, int64_t seconds);

/* *out lives as long as the run, which can be rendered once.  CERIUM_ERR_FORMAT with *err, or
 * CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int jinja_render(jinja_run *r, jinja_output *out, jinja_error *err);

#endif
