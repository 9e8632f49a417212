/* options.h - the options that commands share; opens what they name: models, files, the engine. */
#ifndef PROGRAMS_OPTIONS_H
#define PROGRAMS_OPTIONS_H

#include <getopt.h> /* optind */
#include <stdio.h>

#include "base/base.h"
#include "base/memory.h"
#include "programs/command_line.h"

enum { OPTIONS_GUARDS_MAX = 32 };

/* The struct of every command begins with this one. */
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
    bool no_cache;            /* neither store repacked weights nor use stored ones */
    const char *workspace;
    const char *draft_model;
    const char *chat_form;    /* instead of the file's; see cerium_engine_config */
    bool no_speculation;
    bool json;
    const char *guard[OPTIONS_GUARDS_MAX]; /* [n_guard] actions on weaknesses, in order */
    uint32_t n_guard;
    const char *guard_late, *rules; /* NULL when not given */
    void (*observe)(void *user, const cerium_observation *seen); /* see cerium_engine_config */
    void *observe_user;
    const cerium_kv_watcher *kv_watcher;
    void *kv_watcher_user;
} options;

/* Groups of shared options that a program takes. */
enum {
    OPTIONS_ENGINE = 1,   /* -m --threads --context --batch --cpu --kv --kv-disk --kv-disk-max
                             --no-cache --no-speculation --head --chat-form */
    OPTIONS_PROMPT = 2,   /* -p -f */
    OPTIONS_LENGTH = 4,   /* -n --stop */
    OPTIONS_CHOICE = 16,  /* --temp --top-k --top-p --min-p --repeat-penalty --seed */
    OPTIONS_SAMPLING = OPTIONS_LENGTH | OPTIONS_CHOICE,
    OPTIONS_JSON = 8,
    OPTIONS_MODEL = 32,   /* -m alone */
    OPTIONS_GUARD = 64,   /* --guard --guard-late --rules: see programs/watchdog.h */
};

extern const option_spec options_shared[];
extern const size_t options_n_shared;

/* One line on standard error for a failed call.  Returns the exit status: EXIT_USAGE for
 * CERIUM_ERR_ARGUMENT, else EXIT_FAILED. */
int failed(const cerium_error *err);

/* A file of models/ in the source tree, or where `make install` put it; NULL if missing. Valid
 * until the next call. */
const char *shipped_file(const char *name);
/* The path for that file name in the user's folder of models, whether or not it exists; false if
 * there is no such folder. */
bool models_path(char *out, size_t size, const char *name);

/* The named model (a file, else a pulled one), else CERIUM_MODEL, else the bundled one; NULL when
 * there is none. */
const char *options_model(const options *o);
/* The file of a short name as "qwen2.5-coder-0.5b" or of a file name, if it was pulled (in path, or
 * model itself); else model unchanged. */
enum { OPTIONS_PATH_MAX = 4096 };
const char *options_find_model(const char *model, char path[OPTIONS_PATH_MAX]);
/* Does the file exist?  CERIUM_ERR_IO, with advice: `cerium pull NAME` if it is a short name of
 * models.list, or close to one. */
CERIUM_CHECKED int options_model_check(const char *path, cerium_error *err);
/* The short names of models.list.  *text owned; names [n_max] borrow it; returns how many. */
size_t model_names(bytes *text, const char **names, size_t n_max);

/* The engine's configuration from the options, without its model's file.  Borrows their strings. */
CERIUM_CHECKED int options_engine_config(const options *o, uint32_t sessions,
                                         cerium_engine_config *out, cerium_error *err);
/* Open what the options name, with progress on a terminal. */
int options_engine(const options *o, cerium_engine **out, uint32_t sessions, cerium_error *err);

/* Print arbitrary bytes, also none of them (fwrite() must not be given NULL). */
void write_view(view text, FILE *to);

/* Whole file (or standard input for "-") into *out, at most out->max bytes; out is owned. */
int read_file(const char *path, bytes *out, cerium_error *err);
/* The same, but CERIUM_ERR_FORMAT for a text with NUL bytes. */
int read_text(const char *path, bytes *out, cerium_error *err);

/* Encode into an owned array, released with memory_free(). */
int encode(const cerium_engine *engine, view text, unsigned flags, int32_t **tokens, size_t *n,
           cerium_error *err);

/* "12.3 MB", "4.56 GB" into a static buffer of the caller. */
const char *human_bytes(char out[32], double n);

#endif
