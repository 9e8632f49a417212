/* jinja_value.h - values while a template runs.  Private to this folder.
 *
 * The first failure of a run sticks: functions that fail return an undefined value, and loops check
 * the status. */
#ifndef TEMPLATE_JINJA_VALUE_H
#define TEMPLATE_JINJA_VALUE_H

#include "template/jinja_tree.h"

typedef enum {
    KIND_UNDEFINED, /* text: the name that was not found */
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_REAL,
    KIND_STRING,
    KIND_LIST,      /* at: jinja_items */
    KIND_TUPLE,     /* at: jinja_items */
    KIND_MAP,       /* at: jinja_entries */
    KIND_NAMESPACE, /* at: jinja_entries */
    KIND_MACRO,     /* at: jinja_macro */
    KIND_METHOD,    /* at: jinja_method */
    KIND_FUNCTION,  /* integer: its symbol */
    KIND_LOOP,      /* at: jinja_loop */
} jinja_kind;

typedef struct {
    jinja_value *items; /* [cap] */
    size_t n, cap;
} jinja_items;

typedef struct {
    jinja_value key, value;
} jinja_entry;

typedef struct {
    jinja_entry *entries; /* [cap] in the order of insertion */
    size_t n, cap;
} jinja_entries;

typedef struct {
    uint16_t symbol;
    jinja_value value;
} jinja_binding;

typedef struct {
    const jinja_node *node;
    jinja_binding *bindings; /* [n] the variables visible at its definition, except those at the
                                top */
    size_t n;
} jinja_macro;

typedef struct {
    jinja_value self;
    uint16_t method;
} jinja_method;

typedef struct {
    const jinja_node *node;
    jinja_value list;       /* the items of the loop */
    size_t i, n;
    uint32_t depth;
    jinja_value changed;    /* last argument of changed() */
} jinja_loop;

/* Text that grows, with origins. */
typedef struct {
    bytes text;
    jinja_piece *pieces; /* [cap] */
    size_t n, cap;
} jinja_sink;

typedef enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } jinja_flow;

struct jinja_run {
    const jinja_template *t;
    jinja_pool pool;
    int status;
    jinja_error err;
    uint64_t steps;
    uint32_t depth;       /* of evaluation */
    jinja_flow flow;
    jinja_value *globals; /* [n_symbols]; kind 0xFF: never set */
    jinja_binding *bindings; /* [cap] a stack */
    size_t n_bindings, cap_bindings;
    size_t base;          /* of the running macro: entries below it are not visible */
    size_t scope;         /* of the innermost loop, macro or with */
    jinja_sink *sink;
    jinja_sink out;
    int64_t time;
};

typedef struct {
    const jinja_value *list;    /* [n] */
    size_t n;
    const jinja_entry *named;   /* [n_named]: keys are strings */
    size_t n_named;
    uint32_t line;
} jinja_args;

/* ---- jinja_value.c ---- */

void jinja_fail(jinja_run *r, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void jinja_exceed(jinja_run *r, uint32_t line, const char *what);
void jinja_no_memory(jinja_run *r);
/* Counts n steps; false: the run has failed or there were too many. */
bool jinja_step(jinja_run *r, uint64_t n);
/* Of the run's memory; NULL with the run failed. */
void *jinja_room(jinja_run *r, size_t size);
/* A list [n] with room for one more of [*cap]: itself, or a copy; NULL: the run has failed. */
void *jinja_grow(jinja_run *r, void *list, size_t n, size_t *cap, size_t size);

jinja_value jinja_undefined(view name);
static inline jinja_value jinja_missing(void) { return jinja_undefined(VIEW("")); }
jinja_value jinja_int(int64_t integer);
jinja_value jinja_real(double real);
jinja_value jinja_tuple_of(jinja_run *r, const jinja_value *items, size_t n);
/* Text of the program itself. */
jinja_value jinja_literal(const char *text);
void jinja_put_value(jinja_run *r, jinja_value map, jinja_value key, jinja_value value);
/* NULL: it is not there. */
const jinja_value *jinja_find(jinja_run *r, jinja_value map, jinja_value key);

const char *jinja_kind_name(jinja_value v);
static inline bool jinja_is(jinja_value v, jinja_kind kind) { return v.kind == kind; }
static inline view jinja_view(jinja_value v) { return (view){v.text, v.len}; }
static inline jinja_items *jinja_items_of(jinja_value v) { return v.at; }
static inline jinja_entries *jinja_entries_of(jinja_value v) { return v.at; }
bool jinja_is_sequence(jinja_value v); /* a list or a tuple */
bool jinja_is_number(jinja_value v);   /* bool too, as in Python */
bool jinja_truth(jinja_value v);
bool jinja_equal(jinja_run *r, jinja_value a, jinja_value b);
/* < 0, 0, > 0; fails if there is no order. */
int jinja_compare(jinja_run *r, jinja_value a, jinja_value b);
bool jinja_contains(jinja_run *r, jinja_value in, jinja_value what);
double jinja_as_real(jinja_value v);
/* Items for a loop: of lists themselves, keys of maps, characters of strings. */
jinja_value jinja_iterate(jinja_run *r, jinja_value v);
/* -1: it has none. */
int64_t jinja_length(jinja_value v);
jinja_value jinja_item(jinja_run *r, jinja_value v, jinja_value key);
jinja_value jinja_attribute(jinja_run *r, jinja_value v, view name, uint16_t method);
jinja_value jinja_slice(jinja_run *r, jinja_value v, const jinja_value bounds[3]);

jinja_value jinja_arg(const jinja_args *args, size_t i, const char *name, jinja_value otherwise);
bool jinja_has_arg(const jinja_args *args, size_t i, const char *name);

/* ---- jinja_string.c ---- */

/* Bytes from, length len of a string; no copy. */
jinja_value jinja_part(jinja_value s, size_t from, size_t len);
/* v in the form of str(). */
jinja_value jinja_string(jinja_run *r, jinja_value v);
size_t jinja_characters(view text);
/* Bytes of the character that begins text. */
size_t jinja_character(view text);
/* The byte at which character i begins. */
size_t jinja_offset(view text, size_t i);
jinja_value jinja_concat(jinja_run *r, const jinja_value *list, size_t n);
jinja_value jinja_strip(jinja_value s, const jinja_value *chars, bool left, bool right);
/* a + b */
jinja_value jinja_join(jinja_run *r, jinja_value a, jinja_value b);
bool jinja_is_space(view character);

void jinja_sink_put(jinja_run *r, jinja_sink *sink, view text, jinja_origin origin);
void jinja_sink_value(jinja_run *r, jinja_sink *sink, jinja_value v);
/* Its text as a value; the sink is empty afterwards. */
jinja_value jinja_sink_take(jinja_run *r, jinja_sink *sink);
void jinja_sink_free(jinja_sink *sink);
/* v in the form of Python's repr(). */
void jinja_sink_repr(jinja_run *r, jinja_sink *sink, jinja_value v);
enum { JINJA_NUMBER_BYTES = 40 };
/* In Python's form. */
void jinja_write_real(char out[JINJA_NUMBER_BYTES], double x);

/* ---- jinja_json.c ---- */

typedef struct {
    int64_t indent;      /* -1: one line */
    view indent_text;    /* instead of blanks, or empty */
    view item, key;      /* separators */
    bool sort_keys, ascii;
} jinja_json_style;
jinja_value jinja_to_json(jinja_run *r, jinja_value v, const jinja_args *args, size_t first);
jinja_value jinja_from_json(jinja_run *r, jinja_value text, uint32_t line);

/* ---- jinja_filters.c, jinja_tests.c, jinja_methods.c, jinja_format.c ---- */

jinja_value jinja_run_filter(jinja_run *r, uint16_t filter, jinja_value v, const jinja_args *args);
bool jinja_run_test(jinja_run *r, uint16_t test, jinja_value v, const jinja_args *args);
jinja_value jinja_run_method(jinja_run *r, uint16_t method, jinja_value v,
                             const jinja_args *args);
/* The kinds that have the method. */
bool jinja_has_method(jinja_value v, uint16_t method);
jinja_value jinja_replace(jinja_run *r, jinja_value s, jinja_value from, jinja_value to,
                          int64_t count);
jinja_value jinja_change_case(jinja_run *r, jinja_value s, char how);
/* s % args */
jinja_value jinja_percent(jinja_run *r, jinja_value s, const jinja_value *list, size_t n,
                          uint32_t line);
jinja_value jinja_braces(jinja_run *r, jinja_value s, const jinja_args *args);
jinja_value jinja_strftime(jinja_run *r, jinja_value format);

/* ---- jinja_eval.c ---- */

jinja_value jinja_eval(jinja_run *r, const jinja_node *node);
/* Positional and named arguments of a call, evaluated. */
jinja_args jinja_eval_args(jinja_run *r, const jinja_node *node);
/* Functions of the environment: namespace, range, raise_exception, ... */
jinja_value jinja_binary(jinja_run *r, const jinja_node *node, jinja_value a, jinja_value b);

/* ---- jinja_render.c ---- */

jinja_value jinja_look_up(jinja_run *r, const jinja_node *name);
jinja_value jinja_call_macro(jinja_run *r, const jinja_macro *macro, const jinja_args *args,
                             const jinja_value *caller);
jinja_value jinja_call_loop(jinja_run *r, const jinja_loop *loop, const jinja_args *args);

#endif
