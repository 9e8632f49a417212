/* judge.h - follows values through one window and checks them against the rules.
 *
 * One pass over the tree, in the order of the text: it keeps what each name holds, joins branches,
 * and shows every call, assignment and pair to the rules with what is known of its arguments.  Text
 * after the held line does not exist yet. */
#ifndef GUARD_JUDGE_H
#define GUARD_JUDGE_H

#include "guard/rules.h"
#include "guard/tree.h"

/* How much of a value comes from outside, in ascending order. */
typedef enum {
    TAINT_CONST = GUARD_CONSTANT,
    TAINT_UNKNOWN = GUARD_UNKNOWN,
    TAINT_PARAMETER = GUARD_PARAMETER,
    TAINT_SOURCE = GUARD_SOURCE,
} taint;

enum {
    VALUE_STRING = 1, /* a literal */
    VALUE_FORMAT = 2, /* literal text with values in it */
    VALUE_LIST = 4,
    VALUE_PENDING = 8, /* the result of a function that is not written yet */
    VALUE_NAMES = 16,  /* a format whose values are all where SQL has a name */
    VALUE_LEADS = 32,  /* a format that begins with its only value */
    VALUE_FIELDS = 64, /* all values in it are fields of the object itself, or settings */
    VALUE_MADE = 128,  /* the result of an unknown function of its arguments */
    VALUE_AFTER_HOST = 256, /* the program wrote the host before the worst value */
};

typedef struct {
    uint8_t level;
    uint16_t flags;
    uint32_t clean; /* a bit for each weakness that it can no longer cause */
    view name;      /* dotted path of its origin */
    view raw;       /* the same as written */
    view text;      /* the literal, or the literal beginning of a format */
    view tail;      /* the text of a format after its last value */
} value;

/* In value.clean: the program's user gave it; it was not cleaned. */
#define VALUE_GIVEN (1u << 31)

#define VALUE_NONE ((value){.level = TAINT_CONST, .clean = ~0u})

typedef struct {
    view name;
    value v;
} variable;

typedef struct {
    view name; /* of a keyword argument; {NULL, 0} */
    value v;
    int32_t node;
} argument;

enum { CALL_ARGS_MAX = 16, JUDGE_NAMES_BYTES = 256 << 10, JUDGE_SAVED_BYTES = 1 << 20 };

/* A call, an assignment (one argument) or a pair (the same). */
typedef struct {
    int32_t node, receiver_node;
    value callee, receiver;
    argument args[CALL_ARGS_MAX];
    uint32_t n_args;
} use;

typedef struct {
    const rule *rule;
    guard_severity severity;
    uint32_t begin, end; /* in the window */
    taint level;         /* of the worst value */
    view fix;            /* the safe form, or empty */
} hit;

/* A use that waits for a function further down. */
typedef struct {
    uint32_t begin, end; /* in the window */
} deferral;

enum { JUDGE_DEFERRED_MAX = 8, JUDGE_INLINE_MAX = 2 };

typedef struct rule_index rule_index;

typedef struct judge {
    const rule_set *rules;
    const rule_index *index;
    const language_facts *facts;
    tree tree;
    regex_scratch re;
    arena names, saved;
    variable *vars; /* [GUARD_VARIABLES_MAX] */
    uint32_t n_vars, depth;
    uint32_t from;  /* hits that end before it were judged with an earlier line */
    value block;    /* the arguments of a callback */
    bool alias;     /* a name holds a function that rules check */
    hit hits[GUARD_FINDINGS_MAX];
    uint32_t n_hits;
    deferral deferred[JUDGE_DEFERRED_MAX];
    uint32_t n_deferred;
    bool final;          /* the end: waiting uses are decided */
    uint32_t inlined;    /* calls that are being followed into their function */
    value returned;      /* of the followed function */
} judge;

int judge_open(judge *j, const rule_set *rules, const rule_index *index);
void judge_close(judge *j);
/* Judge text[from..], without the holes.  False: there is no tree to judge by.
 * Uses that depend on a function that is not written yet are in j->deferred, unless final: the text
 * has ended. */
bool judge_window(judge *j, guard_language language, view text, uint32_t from, bool final,
                  const outline_hole *holes, uint32_t n_holes);

/* ---- evaluate.c ---- */
value judge_value(judge *j, int32_t n);
value judge_children(judge *j, int32_t n);
value value_union(value a, value b);
/* Numbers and comparisons of constants: a op b, if both are constant. */
bool judge_fold(judge *j, int32_t n, value a, value b, value *out);
value judge_not(value v);
view judge_join(judge *j, view a, view b);
view judge_plain_name(judge *j, view text); /* with dots between its parts */
variable *judge_find(judge *j, view name);
void judge_set(judge *j, view name, value v);
/* c of a.b.c. */
static inline view judge_last(view name)
{
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;
    return dot ? (view){dot + 1, name.len - (size_t)(dot + 1 - name.ptr)} : name;
}
value judge_named(judge *j, value v); /* a source, if its name is one */
bool judge_is_set_before(view object); /* the object itself, settings */
value judge_plus(judge *j, value a, value b);
value judge_string_value(judge *j, int32_t n);
view judge_string(const judge *j, int32_t n); /* the text between its quotes */

/* ---- fold.c ---- */
/* Lists of known items: list names the variable. */
void judge_list_add(judge *j, view list, value v);
void judge_list_remove(judge *j, view list, value index);
bool judge_list_get(judge *j, view list, value index, value *out);
bool judge_char_at(value text, value index, value *out);

/* ---- tables.c ---- */
/* Set.of("a", "b"), LIST.freeze: a table of constants. */
bool judge_makes_table(const use *u, value *out);
/* Looked up in a table of constants: a constant. */
bool judge_looks_up(const use *u, value *out);
/* Is value n of a printf-like format printed as a number; are all of them? */
bool judge_prints_number(view format, uint32_t n);
bool judge_prints_numbers(view format);

/* ---- calls.c ---- */
value judge_call(judge *j, int32_t n);
/* C++'s "std::ifstream in(path);": type(arguments), in declaration n. */
value judge_construct(judge *j, int32_t n, view type, int32_t arguments);
value judge_echo(judge *j, int32_t n); /* PHP's <?= n ?> */
value judge_pair(judge *j, int32_t n, view *key);
void judge_return(judge *j, int32_t n, value v); /* rules see it as a call of "return" */

/* ---- assign.c ---- */
bool judge_is_name(node_role role);
/* The first name below n: inside C's stars and brackets, Python's targets.  -1: none. */
int32_t judge_name_below(const judge *j, int32_t n);
value judge_assign(judge *j, int32_t n);
void judge_assign_to(judge *j, int32_t target, value v, int32_t from);
void judge_show_assign(judge *j, int32_t target, value v, int32_t from); /* to the rules */

/* ---- branches.c ---- */
/* The values of all names at one point; in j->saved. */
typedef struct {
    variable *list;
    uint32_t n;
    bool reached;
} judge_state;

bool judge_save(judge *j, judge_state *s);
void judge_restore(judge *j, const judge_state *s);
value judge_if(judge *j, int32_t n);
value judge_switch(judge *j, int32_t n);
value judge_choice(judge *j, int32_t condition, int32_t yes, int32_t no);
value judge_optional(judge *j, int32_t n);
value judge_foreach(judge *j, int32_t n);

/* ---- functions.c ---- */
value judge_function(judge *j, int32_t n);
bool judge_is_defined(const judge *j, view name); /* as a function of this window */
/* Follow a call into a function of this window: its result.  False: there is no such function. */
bool judge_inline(judge *j, view name, const use *u, value *out);

/* ---- sql_names.c ---- */
/* Does SQL expect the name of a table or a column after text?  after: text follows a name. */
bool judge_before_name(view text, bool after);
/* Are all values of a printf-like or {} format where SQL has a name? */
bool judge_formats_names(view format);
/* A statement that can bind nothing: PRAGMA, SET, ALTER and the like. */
bool judge_binds_nothing(view text);
/* What a program's user may choose comes after it: ORDER BY, EXPLAIN and a statement. */
bool judge_is_chosen(view text);

/* ---- imports.c ---- */
void judge_import(judge *j, int32_t n);

/* ---- match.c ---- */
int rule_index_open(rule_index **out, const rule_set *rules);
void rule_index_close(rule_index **index);
/* In a folder's files a rule that was wrong in most of its findings in libraries only warns, unless
 * the value is from outside: who calls a function, and with what, is not in its file. */
bool rule_only_warns(const rule *u, taint level);
/* Is a finding of the rule with such a value probably wrong?  By the findings with such a value
 * that were read: fewer than half were right; of those with a value from outside, which was seen to
 * be there, none.  If too few were read, a parameter and an unknown value are. */
bool rule_is_unlikely(const rule *u, taint level);
/* What a finding of the rule is, where text[begin..end) is the use. */
guard_severity rule_severity_near(const rule *u, taint level, regex_scratch *re, view text,
                                  uint32_t begin, uint32_t end);
void match_use(judge *j, rule_kind kind, const use *u);
void match_reference(judge *j, int32_t n, const value *v);
void match_string(judge *j, int32_t n, const value *v);
bool match_names_function(judge *j, view name);
/* Does a cleaner or a guard, called like this, clean nothing? */
bool match_loose(judge *j, int32_t call);

/* ---- fix.c ---- */
/* The safe form of a use, or empty; until the next window. */
view fix_of(judge *j, const rule *r, const use *u);

/* ---- secret.c ---- */
/* Does it look like a secret, rather than a label, a path, a placeholder? */
bool secret_value(view text);
bool secret_credential(view name, view text);
/* Does it look like one that was generated, and is in use? */
bool secret_is_live(view text);

#endif
