/* apply.h - a file that is read, and later replaced as a whole, unless it changed meanwhile. */
#ifndef PROGRAMS_APPLY_H
#define PROGRAMS_APPLY_H

#include <sys/stat.h>

#include "base/memory.h"

typedef struct {
    char *path;  /* where it really is: links are followed; owned */
    struct stat st;
    bytes text;  /* owned */
} apply_file;

/* Read a regular file of at most EDIT_FILE_BYTES_MAX. */
CERIUM_CHECKED int apply_open(apply_file *out, const char *path, cerium_error *err);
void apply_close(apply_file *file);
/* Whether it may be replaced, as far as one can tell before: so that nobody waits for an answer
 * that is not written then.  What is read-only stays as it is, though its folder would let us. */
CERIUM_CHECKED int apply_check(const apply_file *file, cerium_error *err);
/* Put text in its place: written beside it, with its permissions and owner, and renamed.  An error,
 * and the file as it was, when it is not what was read any more, or has other names (hard links),
 * which would keep the old text. */
CERIUM_CHECKED int apply_write(apply_file *file, view text, cerium_error *err);

#endif
