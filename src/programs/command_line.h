/* command_line.h - the options of a command, as a table.  The parser, --help, the keys of a
 * configuration file and the man page are made from it. */
#ifndef PROGRAMS_COMMAND_LINE_H
#define PROGRAMS_COMMAND_LINE_H

#include <stdio.h>

#include "base/base.h"
#include "gguf/blocks.h"

/* 1: it failed; 2: bad usage. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum {
    OPTION_SHARED = 0, /* an option of the groups; the command has only its own help for it */
    OPTION_FLAG = 1,   /* bool */
    OPTION_TEXT = 2,   /* const char *, not empty; borrowed from argv */
    OPTION_ANY = 3,    /* const char *, may be empty */
    OPTION_U32 = 4,    /* uint32_t from low to high */
    OPTION_U64 = 5,    /* uint64_t */
    OPTION_F32 = 6,    /* float from low to high */
    OPTION_F64 = 7,    /* double from low to high */
    OPTION_BYTES = 8,  /* uint64_t: 4096, 512K, 20G */
    OPTION_WORD = 9,   /* uint32_t: which of `words` */
    OPTION_TYPE = 10,  /* block_type by its name */
    OPTION_CALL = 11,  /* call() reads the value */
} option_kind;

/* One option.  Offsets are into the command's struct (see command_parse). */
typedef struct {
    const char *name;  /* long name, without its dashes */
    const char *value; /* the value's name in --help; NULL for a flag, or to list `words` */
    const char *help;  /* plain sentences; wrapped where they are printed */
    option_kind kind;
    char letter;       /* short form; 0: none */
    size_t offset;     /* of the member to set */
    size_t given;      /* of a bool that is set, too; 0: none */
    double low, high;
    const char *words; /* "a, b, c" */
    /* Reads a value, NULL for one that takes none.  False for a bad one: see option_wants(). */
    bool (*call)(void *command, const char *value);
    unsigned groups;   /* for shared options: the groups that take it */
    const char *needs; /* another option that this one needs to have an effect; or NULL */
} option_spec;

/* offsetof() that compiles only if the member has the type. */
#define OPTION_MEMBER(struct_type, member, member_type) \
    (offsetof(struct_type, member) + \
     0 * sizeof(_Generic(&((struct_type *)0)->member, member_type *: 1)))
#define TAKES_FLAG(struct_type, member) \
    .kind = OPTION_FLAG, .offset = OPTION_MEMBER(struct_type, member, bool)
#define TAKES_TEXT(struct_type, member) \
    .kind = OPTION_TEXT, .offset = OPTION_MEMBER(struct_type, member, const char *)
#define TAKES_ANY(struct_type, member) \
    .kind = OPTION_ANY, .offset = OPTION_MEMBER(struct_type, member, const char *)
#define TAKES_U32(struct_type, member, least, most) \
    .kind = OPTION_U32, .offset = OPTION_MEMBER(struct_type, member, uint32_t), .low = (least), \
    .high = (most)
#define TAKES_U64(struct_type, member) \
    .kind = OPTION_U64, .offset = OPTION_MEMBER(struct_type, member, uint64_t)
#define TAKES_F32(struct_type, member, least, most) \
    .kind = OPTION_F32, .offset = OPTION_MEMBER(struct_type, member, float), .low = (least), \
    .high = (most)
#define TAKES_F64(struct_type, member, least, most) \
    .kind = OPTION_F64, .offset = OPTION_MEMBER(struct_type, member, double), .low = (least), \
    .high = (most)
#define TAKES_BYTES(struct_type, member) \
    .kind = OPTION_BYTES, .offset = OPTION_MEMBER(struct_type, member, uint64_t)
#define TAKES_WORD(struct_type, member, list) \
    .kind = OPTION_WORD, .offset = OPTION_MEMBER(struct_type, member, uint32_t), .words = (list)
#define TAKES_TYPE(struct_type, member) \
    .kind = OPTION_TYPE, .offset = OPTION_MEMBER(struct_type, member, block_type)
#define TAKES_CALL(function) .kind = OPTION_CALL, .call = (function)
/* Beside a kind: a bool that is true if the option was given. */
#define GIVEN(struct_type, member) .given = OPTION_MEMBER(struct_type, member, bool)

/* A command.  Texts are paragraphs with an empty line between them; lines that begin with a blank
 * are shown as they are. */
typedef struct {
    const char *name;     /* "serve" */
    const char *usage;    /* "[OPTIONS] FILE"; one form a line */
    const char *about;
    unsigned groups;      /* of shared options: programs/options.h */
    const option_spec *own;
    size_t n_own;
    const option_spec *also; /* more options, shared with other commands; or NULL */
    size_t n_also;
    const char *notes;    /* after the options; or NULL */
    const char *examples; /* one command a line */
} command_table;

/* Read argv into the struct `program`, whose first member is an `options`.  --help prints and
 * exits.  Returns 0, or EXIT_USAGE after one line on standard error; optind is at the operands. */
int command_parse(const command_table *c, void *program, int argc, char **argv);

/* The same for one option by its long name, as a file gives it; a flag is "yes" or "no".  The value
 * is borrowed. */
typedef enum { OPTION_SET = 0, OPTION_UNKNOWN = 1, OPTION_BAD = 2 } option_result;
option_result command_set(const command_table *c, void *program, const char *name,
                          const char *value);

/* The option probably meant by an unknown name; NULL when none is close. */
const char *command_near_option(const command_table *c, const char *name);

/* The options that commands share, [n]; borrowed.  Called once, before any other function here. */
void command_share(const option_spec *options, size_t n);

/* Find an option by its long name; a command's own option replaces a shared one.  NULL: unknown. */
const option_spec *command_option(const command_table *c, const char *name);

/* The options of a command in the order of --help: of its own tables, then of its groups.
 * Returns their number; out: [COMMAND_OPTIONS_MAX]. */
enum { COMMAND_OPTIONS_MAX = 96 };
size_t command_options(const command_table *c, const option_spec *out[COMMAND_OPTIONS_MAX]);

/* The help of an option; the command's own text replaces the shared one. */
const char *command_help_of(const command_table *c, const option_spec *option);

/* --help, 80 columns wide. */
void command_print_help(const command_table *c, FILE *to);
/* The same as mdoc(7), for man/cerium.1; shared options are left to command_print_shared_mdoc(). */
void command_print_mdoc(const command_table *c, FILE *to);
void command_print_shared_mdoc(FILE *to);

/* One line on standard error: "cerium NAME: text; see cerium NAME --help".  Returns EXIT_USAGE. */
int usage_error(const char *program, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- values ---- */

/* Set the description of a valid value, such as "1 to 256", which is printed with the bad one.
 * Returns false.  The functions below call it when they return false. */
bool option_wants(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text of the last call since the last option was read; "" for none. */
const char *option_wanted(void);
/* Is it one of `words`, a list as "a, b, c"?  *at: which. */
bool option_word(const char *value, const char *words, uint32_t *at);
/* Bytes: a number, or one with K, M, G or T (powers of 1024), from 1 on. */
bool option_u32(const char *value, uint32_t low, uint32_t high, uint32_t *out);
bool option_f64(const char *value, double low, double high, double *out);
/* A type of tensors by its name. */
bool option_type(const char *value, block_type *out);
/* The names of all types, for people.  Not thread-safe. */
const char *option_types(void);
/* The main type of a mixture's name as llama.cpp has them (Q4_K_M: Q4_K), or NULL. */
const char *option_near_type(const char *value);
/* Any text but an empty one. */
bool option_text(const char *value, const char **out);

#endif
