/* apply.h - a file that is read, and later replaced as a whole, unless it changed meanwhile. */
#ifndef PROGRAMS_APPLY_H
#define PROGRAMS_APPLY_H

#include <sys/stat.h>

#include "base/memory.h"

typedef struct {
    char *path;  /* the real path: links are followed; owned */
    struct stat st;
    bytes text;  /* owned */
} apply_file;

/* Read a regular file of at most EDIT_FILE_BYTES_MAX. */
CERIUM_CHECKED int apply_open(apply_file *out, const char *path, cerium_error *err);
void apply_close(apply_file *file);
/* Check before generating that the file may be replaced, so that no answer is lost at the end. A
 * read-only file is never replaced, even if its folder would allow it. */
CERIUM_CHECKED int apply_check(const apply_file *file, cerium_error *err);
/* Replace the file's text: write a temporary file with the same permissions and owner, and rename
 * it. It is an error, and the file is unchanged, when the file changed since it was read or has
 * other hard links, which would keep the old text. */
CERIUM_CHECKED int apply_write(apply_file *file, view text, cerium_error *err);

#endif
