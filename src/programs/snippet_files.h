/* snippet_files.h - files on the disk that snippets are taken of. */
#ifndef PROGRAMS_SNIPPET_FILES_H
#define PROGRAMS_SNIPPET_FILES_H

#include <sys/stat.h>

#include "snippets/snippet_index.h"

/* Is it code of a language that is known, and not too large? */
bool snippet_file_is_wanted(const char *path, const struct stat *st);
/* NULL: it is gone, not ours to read, or no text.  buffer: its bytes, used again. */
snippet_file *snippet_file_read(const char *path, bytes *buffer);

#endif
