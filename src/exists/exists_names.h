/* exists_names.h - do imported and used names exist?  Names of an environment, kept up to date, and
 * checks of texts against them.
 *
 *   exists_open()            starts reading the environment of a workspace, in the background
 *   exists_take()            the current names; exists_give() when done
 *   exists_text()            a whole text's findings
 *   exists_describe()        the message of one, with the nearest existing names
 *
 * No code of the workspace is run or imported, and nothing is downloaded. */
#ifndef EXISTS_EXISTS_NAMES_H
#define EXISTS_EXISTS_NAMES_H

#include "exists/uses.h"

enum { EXISTS_NEAR_MAX = 5, EXISTS_SAID_BYTES = 512 };

/* Each finding of a whole text.  found returns a status; a nonzero one ends it. */
CERIUM_CHECKED int exists_text(const names_index *x, guard_language language, view text,
                               int (*found)(void *user, const exists_finding *f), void *user);

/* Two sentences for people and models: the missing name, and the existing ones: "numpy has no
 * "arr"", "arr, array".  elsewhere or not installed, too. */
void exists_describe(const names_index *x, const exists_finding *f, char what[EXISTS_SAID_BYTES],
                     char instead[EXISTS_SAID_BYTES]);

/* Calls for each name that could stand in place of the missing one, until it returns false; for
 * some twice.  Names with a bracket are not for code. */
void exists_each(const names_index *x, const exists_finding *f,
                 bool (*each)(void *user, view name), void *user);

const char *exists_kind_name(uint8_t kind);

#endif
