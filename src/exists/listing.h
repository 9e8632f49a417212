/* listing.h - the built-in names of an interpreter, listed by itself: one isolated run over its own
 * modules.  No code of a workspace is run or imported. */
#ifndef EXISTS_LISTING_H
#define EXISTS_LISTING_H

#include "exists/names.h"

#define LISTING_BYTES_MAX (32u << 20)
#define LISTING_SECONDS   30

/* Run the Python or Node at `path`, and add its names.  library: [4096] if Python has its own
 * sources.
 * CERIUM_ERR_IO: it cannot be run or its output is useless; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int listing_python(name_table *b, const char *path, char *library,
                                  cerium_error *err);
CERIUM_CHECKED int listing_node(name_table *b, const char *path, cerium_error *err);

/* Read the output of such a run; false: it is not a listing. */
bool listing_read(name_table *b, view text, char *library);

/* The interpreter that may be run: a plain file that is not below `root` and that no other user may
 * write; first in `folder` (or NULL), then in the system's folders of programs.  Into out
 * [4096]. */
bool listing_find(const char *folder, const char *const *names_of, const char *root, char *out);

#endif
