/* schema.h - JSON schemas as grammars: shared by the parts of the front end.
 *
 * A value may have to fit several schemas at once (allOf, $ref beside others, a property that two
 * of them name): they are compiled together, as a set of *conjuncts*.  Each set is a rule, so
 * recursion is one of rules.  JSON is compact, or has one blank, or a line break and an indent,
 * where JSON may have white space; strings are spelled in the shortest way if a pattern or a name
 * constrains them, else in any.  Source: JSON Schema 2020-12, and those keys of earlier drafts with
 * another meaning (items as an array, definitions). */
#ifndef SAMPLING_SCHEMA_H
#define SAMPLING_SCHEMA_H

#include <jansson.h>

#include "sampling/grammar_codes.h"

/* The parts of a schema that are done already, if it is compiled again with a branch of its own. */
enum { CONJUNCT_ANY_DONE = 1, CONJUNCT_ONE_DONE = 2 };

typedef struct {
    const json_t *schema;
    uint32_t done;
} conjunct;

typedef struct {
    uint32_t n;
    conjunct of[GRAMMAR_CONJUNCTS_MAX];
} conjuncts;

/* A choice between schemas: the list that conjunct `which` has under key; then it is `done`. */
typedef struct {
    uint32_t which;
    const char *key;
    uint32_t done;
} schema_chosen;

enum { SCHEMA_WHOLE_DIGITS = 20 }; /* of a number before its point: those of any 64 bits */

/* Types of values, as bits. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_OBJECT = 4,
    TYPE_ARRAY = 8,
    TYPE_STRING = 16,
    TYPE_INTEGER = 32,
    TYPE_FRACTION = 64, /* a number that is not an integer */
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ALL = 127,
};

/* Keys and a type of generated schemas; see schema_not.c. */
#define SCHEMA_NOT_IN      "\x01notIn"      /* a list of values, none of which is allowed */
#define SCHEMA_NOT_PATTERN "\x01notPattern" /* a string does not match it */
#define SCHEMA_FRACTION    "\x01fraction"   /* numbers that are not integers */

/* A schema made for a key of another one. */
typedef struct {
    const json_t *of;
    const char *key; /* compared as a pointer */
    json_t *made;    /* owned */
} schema_made;

typedef struct {
    grammar_builder *b;
    const json_t *root;
    bytes made;       /* schema_made */
    bytes jobs;       /* schema_job: rules that were made, and those still to be compiled */
    bytes paths;      /* char: their places, NUL-terminated */
    const char *path; /* of the schema being compiled */
    char lacking[96]; /* of schema_not.c's current work: the key without opposite; "": none */
    uint64_t n_counted; /* characters and items that the schemas count one by one */
    uint32_t blank, string, character, number, integer, value; /* rules */
} schema_compiler;

typedef struct {
    conjuncts schemas;
    uint32_t rule, path; /* path: offset in paths */
} schema_job;

/* schema.c */
/* A value that no standard allows under a key is rejected, or omitted and noted if the builder
 * forgives: then the caller continues as if the key were not there. */
void schema_refuse(schema_compiler *s, const char *key, const char *what);
/* An unsupported part is omitted, and noted; the caller continues likewise. */
void schema_lack(schema_compiler *s, const char *key, const char *what);
/* Add a schema; returns whether any value can still fit. */
void conjuncts_add(schema_compiler *s, conjuncts *to, const json_t *schema);
/* Add the schemas that these refer to, until nothing is new: the list grows during the walk. */
void schema_expand(schema_compiler *s, conjuncts *of);
/* The next choice to make; equivalent choices are added. */
bool schema_choice(schema_compiler *s, conjuncts *of, schema_chosen *out);
bool schema_is_never(const conjuncts *of); /* one of them is false */
unsigned schema_types(schema_compiler *s, const json_t *schema);
/* The target of its $ref; NULL: none. */
const json_t *schema_target(schema_compiler *s, const json_t *schema);
/* The rule of a value that fits all; `key` and `name` give its place below s->path. */
uint32_t schema_rule(schema_compiler *s, const conjuncts *of, const char *key, const char *name);
/* The demands of a schema's key (not, if, oneOf, dependentRequired, ...), in other keys; key is a
 * literal of schema.c's.  NULL: nothing, or an error. */
const json_t *schema_made_of(schema_compiler *s, const json_t *schema, const char *key);
/* The same if it was made before, else NULL. */
const json_t *schema_found(const schema_compiler *s, const json_t *schema, const char *key);
/* schema_applied.c: the conjuncts, as bits, that conjunct `which` applies to the same value:
 * itself, and those that it refers to or chooses.  Not those below `not`.  Members named by these
 * are *evaluated* (unevaluatedProperties, -Items). */
uint32_t schema_applied(schema_compiler *s, const conjuncts *of, uint32_t which);
/* An expression for the schema in text; for a front end whose own grammar contains one. */
uint32_t expr_schema(grammar_builder *b, view text, const char *place);

/* A bound that several schemas may set: the greatest of a key's numbers (least with is_max). False:
 * none does. Counts: whole, not negative. */
bool schema_count(schema_compiler *s, const conjuncts *of, const char *key, bool is_max,
                  uint32_t *out);
bool schema_has(const conjuncts *of, const char *const *keys, size_t n);

uint32_t schema_blank(schema_compiler *s);
uint32_t schema_comma(schema_compiler *s);
uint32_t schema_enclosed(schema_compiler *s, const char *open, uint32_t inside, const char *close);

/* One type each: expressions for values that fit all schemas. */
uint32_t schema_object(schema_compiler *s, const conjuncts *of);
uint32_t schema_array(schema_compiler *s, const conjuncts *of);
uint32_t schema_string(schema_compiler *s, const conjuncts *of);
/* The inside of a string, if something constrains it. */
uint32_t schema_string_body(schema_compiler *s, const conjuncts *of);
/* schema_format.c: the expression of a format; NULL: it is an annotation. */
const char *schema_format(const char *name);
bool schema_string_is_any(const conjuncts *of);
/* The insides of all strings that fit, without calls: names of members. */
uint32_t schema_names(schema_compiler *s, const conjuncts *of);
uint32_t schema_number(schema_compiler *s, const conjuncts *of, unsigned types);
bool schema_number_is_any(const conjuncts *of);
/* The values of types that const and enum leave; *is_some: there is such a key. */
uint32_t schema_values(schema_compiler *s, const conjuncts *of, unsigned types, bool *is_some);
/* A rule for each of the values that fit, all different; false: they are not known to be finite.
 *   rules: uint32_t, appended */
bool schema_finite(schema_compiler *s, const conjuncts *of, bytes *rules);
/* Whether no schema forbids this value: null, true or false. */
bool schema_word_fits(const conjuncts *of, const char *word);
/* The first value of these types from *at on that some schema forbids (SCHEMA_NOT_IN), and *at
 * after it; NULL: there is none left. */
const json_t *schema_forbidden(const conjuncts *of, unsigned types, size_t *at);
unsigned schema_type_of(const json_t *value);
/* Whether no value fits both; false also if this is unknown. */
bool schema_apart(schema_compiler *s, const json_t *x, const json_t *y);

#endif
