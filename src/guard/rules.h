/* rules.h - compiled files of rules.  docs/watchdog.md is the format. */
#ifndef GUARD_RULES_H
#define GUARD_RULES_H

#include "base/memory.h"
#include "guard/guard.h"
#include "guard/pattern.h"
#include "guard/regex.h"

/* Each one is a bit in value.clean. */
typedef enum {
    WEAK_SECRET, WEAK_SQL, WEAK_NOSQL, WEAK_LDAP, WEAK_XPATH, WEAK_COMMAND, WEAK_CODE, WEAK_PATH,
    WEAK_XSS, WEAK_SSRF, WEAK_REDIRECT, WEAK_DESERIALIZE, WEAK_CRYPTO, WEAK_TLS, WEAK_JWT,
    WEAK_XXE, WEAK_TEMP, WEAK_PERMISSIONS, WEAK_MEMORY, WEAK_FORMAT,
    WEAK_EXISTS, /* reported by a guard_reader, by no rule */
    WEAK_COUNT,
} weakness;

extern const char *const weakness_names[WEAK_COUNT];

typedef enum {
    RULE_CALL,      /* a call of one of the names */
    RULE_ASSIGN,    /* a value given to one of the names */
    RULE_PAIR,      /* a key of a literal, a keyword argument */
    RULE_REFERENCE, /* the mere mention of a name */
    RULE_STRING,    /* a literal */
    RULE_CREDENTIAL, /* a literal that looks secret, given to a name that matches */
    RULE_LINE,      /* the text of a line, whatever its language */
    RULE_KINDS,
} rule_kind;

/* How far from constant a value must be. */
typedef enum {
    LEVEL_ANY = 0,       /* constant too */
    LEVEL_DYNAMIC = 1,   /* not constant */
    LEVEL_PARAMETER = 2, /* a parameter of the function, or worse */
    LEVEL_SOURCE = 3,    /* from outside */
    LEVEL_FORMATTED = 4, /* constant text with parts that are not constant */
    LEVEL_TAINTED_FORMAT = 5, /* the same with a parameter, or worse */
} rule_level;

enum { RULE_READ_LEAST = 10 }; /* fewer findings say nothing of a rule */
enum { RULE_NEAR = 3 }; /* note, warn, block */
enum { RULE_TIERS = 4 }; /* constant, unknown, parameter, source */
enum { ARG_RECEIVER = -1, ARG_ANY = -2, ARG_NONE = -3, RULE_ARGS_MAX = 12, RULE_IFS_MAX = 6 };

typedef struct {
    int index;        /* of an argument, or ARG_* */
    const char *name; /* of a keyword argument; NULL */
} rule_arg;

typedef struct {
    rule_arg arg;
    pcre2_code *is, *is_not;  /* of its text: the constant or its beginning, else its source */
    bool missing, given;      /* it must not, must be there */
    bool dynamic, constant;   /* it must (not) be constant */
    bool literal;               /* it must be a text literal */
    bool exceeds;             /* as a length it must exceed a buffer among the arguments before
                                 it */
} rule_if;

/* Findings in clean code that were read, and how many were right. */
typedef struct {
    uint32_t n, n_right;
} rule_read;

typedef struct {
    const char *id, *message, *idiom, *file;
    const char *needs; /* a line that its safe forms require before them, or NULL */
    uint32_t line, cwe, languages; /* languages: a bit each */
    weakness weak;
    int8_t tiers[RULE_TIERS]; /* guard_severity by how far from constant; -1: by class */
    rule_read read;           /* all that were read */
    rule_read read_of[RULE_TIERS]; /* of them, by how far from constant; a few are not known */
    bool firm;                /* a test or a document does not soften it */
    rule_kind kind;
    rule_level level;
    pattern_list names;
    rule_arg args[RULE_ARGS_MAX];
    uint32_t n_args, n_ifs;
    rule_if ifs[RULE_IFS_MAX];
    pcre2_code *match;         /* RULE_STRING, RULE_LINE */
    pcre2_code *unless;        /* RULE_LINE: the match must not look like this */
    pcre2_code *seen, *unseen; /* in the text before, in the window; of a line, with it */
    pcre2_code *near[RULE_NEAR]; /* guard_severity if that is around the use */
    bool secret;               /* the match must look like a secret */
    bool live;                 /* and like a generated one */
    view *literals;            /* RULE_STRING, RULE_LINE: the words that wake it */
    view *bad, *good, *fixes;
    uint32_t n_literals, n_bad, n_good, n_fixes;
} rule;

/* Name and the argument that it fills (fgets) or copies the others into (strcpy). */
typedef struct {
    pattern_list names;
    int to;
} rule_flow;

enum { RULE_FLOWS_MAX = 24 };

/* Properties of a language, beside its rules. */
typedef struct {
    pattern_list sources, own, cleaners, cleaners_of[WEAK_COUNT], guards, formatters, mutators;
    rule_flow fills[RULE_FLOWS_MAX], copies[RULE_FLOWS_MAX];
    uint32_t n_fills, n_copies;
    pcre2_code *handler;   /* a function with such a header has parameters from outside */
    pcre2_code *parameter; /* such a parameter is from outside */
    pcre2_code *loose;     /* a cleaner or guard, called like this, does nothing */
} language_facts;

typedef struct {
    arena strings;
    rule *list;
    uint32_t n;
    language_facts facts[GUARD_LANGUAGES];
} rule_set;

/* Errors as of guard_open(). */
int rules_open(rule_set *rules, const char *folder, cerium_error *err);
/* One file's text into the set; a pure function of it: name is only for messages. */
int rules_read(rule_set *rules, const char *name, view text, cerium_error *err);
int rules_begin(rule_set *rules);
void rules_close(rule_set *rules);

#endif
