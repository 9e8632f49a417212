/* workspace.h - the files around a user's work as a source of drafts, kept up to date by a thread.
 *
 * The thread reads the folder when its texts are wanted, at most once in a few seconds, and makes a
 * new index if files changed.  A taken index stays valid until it is given back. */
#ifndef ENGINE_WORKSPACE_H
#define ENGINE_WORKSPACE_H

#include "speculation/corpus.h"
#include "tokenizer/tokenizer.h"

/* ---- limits: what a broken or hostile input can make us take ---- */

#define WORKSPACE_FILE_BYTES_MAX (512u << 10) /* a longer one is data, or generated */
#define WORKSPACE_NAMES_MAX      (1u << 19)   /* that are looked at */
#define WORKSPACE_DEPTH_MAX      32u          /* folders in each other */
#define WORKSPACE_PATH_MAX       4096u        /* length of a path */

typedef struct workspace workspace;

typedef struct {
    const char *folder;   /* borrowed until workspace_open() returns, as is */
    const char *kept_in;  /* the folder for the index; NULL: not stored */
    const tokenizer *tokens;
    uint32_t n_vocab;
    void (*notice)(void *user, const char *line); /* or NULL; on the thread */
    void *user;
} workspace_config;

/* CERIUM_ERR_IO: the folder cannot be read; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int workspace_open(workspace **out, const workspace_config *config,
                                  cerium_error *err);
/* All taken indexes must have been given back. */
void workspace_close(workspace **w);

/* Take the newest index, or NULL.  Any thread; never waits for the disk. */
const corpus *workspace_take(workspace *w);
void workspace_give(workspace *w, const corpus *texts); /* NULL is nothing */

/* Tokens of the newest index; 0 before there is one.  Any thread. */
uint32_t workspace_n_tokens(const workspace *w);

#endif
