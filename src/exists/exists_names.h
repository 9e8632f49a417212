/* exists_names.h - whether what code imports and uses is there: names of an environment, kept up to
 * date, and texts that are read against them.
 *
 *   exists_open()            begins to read the environment of a workspace, in the background
 *   exists_take()            the names as they are known now; exists_give() when done
 *   exists_text()            a whole text's findings
 *   exists_describe()        what is to be said of one, with the nearest names that are there
 *
 * Nothing of the workspace is run, imported or fetched. */
#ifndef EXISTS_EXISTS_NAMES_H
#define EXISTS_EXISTS_NAMES_H

#include "exists/uses.h"

enum { EXISTS_NEAR_MAX = 5, EXISTS_SAID_BYTES = 512 };

/* Each finding of a text that is whole.  found returns a status; one that is not 0 ends it. */
CERIUM_CHECKED int exists_text(const names_index *x, guard_language language, view text,
                               int (*found)(void *user, const exists_finding *f), void *user);

/* Two sentences for people and models: what is not there, and what is: "numpy has no "arr"", "arr,
 * array".  elsewhere or not installed, too. */
void exists_describe(const names_index *x, const exists_finding *f, char what[EXISTS_SAID_BYTES],
                     char instead[EXISTS_SAID_BYTES]);

const char *exists_kind_name(uint8_t kind);

#endif
