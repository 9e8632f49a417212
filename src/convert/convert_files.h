/* convert_files.h - the files of a model's folder, mapped.  Private to this folder. */
#ifndef CONVERT_CONVERT_FILES_H
#define CONVERT_CONVERT_FILES_H

#include "convert/convert.h"

enum { CONVERT_PATH_BYTES = 4096 };

/* A whole file, until convert_unmap().  CERIUM_ERR_IO names it: it is missing or empty. */
CERIUM_CHECKED int convert_map_file(view *out, const char *path, cerium_error *err);
/* A text in a folder.  optional: unchanged if there is none.  CERIUM_ERR_IO; CERIUM_ERR_CAPACITY:
 * it is longer than CONVERT_TEXT_BYTES_MAX (and mapped). */
CERIUM_CHECKED int convert_map_text(const char *folder, view *out, const char *name, bool optional,
                                    cerium_error *err);
/* *file is {0} if nothing was mapped, and then. */
void convert_unmap(view *file);

#endif
