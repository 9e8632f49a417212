/* options.h - the command-line options that programs share, and how they are said. */
#ifndef PROGRAMS_OPTIONS_H
#define PROGRAMS_OPTIONS_H

#include <getopt.h>
#include <stdio.h>

#include "base/base.h"
#include "base/memory.h"
#include "gguf/blocks.h"

/* 1: it could not be done; 2: it was asked for in a way that cannot be. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2, OPTIONS_GUARDS_MAX = 32 };

typedef struct {
    const char *model;
    const char *prompt;       /* -p; NULL when not given */
    const char *prompt_file;  /* -f */
    uint32_t n_tokens;        /* -n; the program's default when not given */
    bool n_tokens_given;
    cerium_sampling sampling;
    const char *stops[CERIUM_STOPS_MAX];
    uint32_t threads;
    uint32_t context;         /* 0 = the model's */
    uint32_t batch;           /* 0 = the engine's default */
    const char *cpu, *kv, *head;
    bool exact;               /* see cerium_engine_config */
    const char *kv_disk;
    uint64_t kv_disk_bytes;
    bool no_cache;            /* do not keep repacked weights, nor use kept ones */
    const char *workspace;
    const char *draft_model;
    bool no_speculation;
    bool json;
    const char *guard[OPTIONS_GUARDS_MAX]; /* [n_guard] what is done about weaknesses, in order */
    uint32_t n_guard;
    const char *guard_late, *rules; /* NULL when not given */
    void (*observe)(void *user, const cerium_observation *seen); /* see cerium_engine_config */
    void *observe_user;
} options;

/* Groups of shared options that a program takes. */
enum {
    OPTIONS_ENGINE = 1,   /* -m --threads --context --batch --cpu --kv --kv-disk --kv-disk-max
                             --no-cache --no-speculation --head */
    OPTIONS_PROMPT = 2,   /* -p -f */
    OPTIONS_LENGTH = 4,   /* -n --stop */
    OPTIONS_CHOICE = 16,  /* --temp --top-k --top-p --min-p --repeat-penalty --seed */
    OPTIONS_SAMPLING = OPTIONS_LENGTH | OPTIONS_CHOICE,
    OPTIONS_JSON = 8,
    OPTIONS_MODEL = 32,   /* -m alone */
    OPTIONS_GUARD = 64,   /* --guard --guard-late --rules: see programs/guarding.h */
};

/* Read argv with getopt_long: shared options of groups into *o, the program's own ([n_own], each
 * with a val of its own at or above OPTION_OWN) through own(arg, val, optarg), which returns false
 * for a bad value, and says by option_wants() what a good one is.  Prints help (and exits the
 * program) for --help.
 * Returns 0, or EXIT_USAGE after one line on standard error; optind is at the operands. */
enum { OPTION_OWN = 1000 };
typedef bool option_fn(void *arg, int val, const char *value);
int options_parse(options *o, int argc, char **argv, unsigned groups, const struct option *own,
                  size_t n_own, option_fn *own_fn, void *arg, const char *help);

/* The same for one option by its long name, as a file gives it; one without a value is "yes" or
 * "no".  The value is borrowed. */
typedef enum { OPTION_SET = 0, OPTION_UNKNOWN = 1, OPTION_BAD = 2 } option_result;
option_result options_set(options *o, unsigned groups, const struct option *own, size_t n_own,
                          option_fn *own_fn, void *arg, const char *name, const char *value);

/* The option that was probably meant by a name that is none; NULL when none is near. */
const char *options_near(unsigned groups, const struct option *own, size_t n_own, const char *name);

/* One line on standard error: "cerium NAME: text". Returns EXIT_USAGE. */
int usage_error(const char *program, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* One line on standard error for a failed call.  Returns the exit status: EXIT_USAGE for
 * CERIUM_ERR_ARGUMENT, else EXIT_FAILED. */
int failed(const cerium_error *err);

/* What a value should have been, as in "1 to 256": said with the value that was bad.  Returns
 * false, as the functions below do, which say it themselves. */
bool option_wants(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What was said so last, since the last option was looked at; "" for nothing. */
const char *option_wanted(void);
/* Is it one of the words, of which there are "a, b, c"?  *at: which. */
bool option_word(const char *value, const char *words, uint32_t *at);
/* Bytes: a number, or one with K, M, G or T (powers of 1024), from 1 on. */
bool option_bytes(const char *value, uint64_t *out);
bool option_u32(const char *value, uint32_t low, uint32_t high, uint32_t *out);
bool option_f64(const char *value, double low, double high, double *out);
/* A type of tensors by its name. */
bool option_type(const char *value, block_type *out);
/* The names of all, for people.  Not thread-safe. */
const char *option_types(void);
/* Any text but an empty one. */
bool option_text(const char *value, const char **out);

/* A file of models/ in the source tree, or where `make install` put it; NULL when it is not there.
 * Valid until the next call. */
const char *shipped_file(const char *name);
/* Where the user's model of that file name is or would be; false where there is no such folder. */
bool models_path(char *out, size_t size, const char *name);

/* The model that is named (a file, else one that was pulled), else CERIUM_MODEL, else the bundled
 * one; NULL when there is none. */
const char *options_model(const options *o);
/* Is there such a file?  CERIUM_ERR_IO, with what to do: `cerium pull NAME` where it is a short
 * name of models.list, or one that is near. */
CERIUM_CHECKED int options_model_check(const char *path, cerium_error *err);
/* The short names of models.list.  *text owned; names [n_max] borrow it; returns how many. */
size_t model_names(bytes *text, const char **names, size_t n_max);

/* Open what the options name, with progress on a terminal. */
int options_engine(const options *o, cerium_engine **out, uint32_t sessions, cerium_error *err);

/* Any bytes, none of them too (where fwrite() may not be given NULL). */
void write_view(view text, FILE *to);

/* Whole file (or standard input for "-") into *out, at most out->max bytes; out is owned. */
int read_file(const char *path, bytes *out, cerium_error *err);

/* Encode into an owned array, released with memory_free(). */
int encode(const cerium_engine *engine, view text, unsigned flags, int32_t **tokens, size_t *n,
           cerium_error *err);

/* "12.3 MB", "4.56 GB" into a static buffer of the caller. */
const char *human_bytes(char out[32], double n);

#endif
