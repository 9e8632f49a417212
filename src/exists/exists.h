/* exists.h - the names of a workspace's environment, read in the background and kept up to date.
 *
 * A thread reads the environment at once, and again when its names are taken and the installed
 * packages have changed, at most once in a few seconds.  Before the first read there are no names,
 * and nothing is reported. */
#ifndef EXISTS_EXISTS_H
#define EXISTS_EXISTS_H

#include "base/base.h"

typedef struct exists exists;
typedef struct names_index names_index; /* see exists/index.h */

typedef struct {
    const char *root;    /* the workspace; borrowed until exists_open() returns, like the others */
    const char *kept_in; /* the folder for the index; NULL: the index is not saved */
    void (*notice)(void *user, const char *line); /* or NULL; called on the thread */
    void *user;
} exists_config;

/* CERIUM_ERR_ARGUMENT: no such folder; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int exists_open(exists **out, const exists_config *config, cerium_error *err);
/* All names taken must have been given back.  Accepts NULL. */
void exists_close(exists **e);

/* The current names, or NULL.  Any thread; never waits for the disk. */
const names_index *exists_take(exists *e);
void exists_give(exists *e, const names_index *x); /* accepts NULL */

#endif
