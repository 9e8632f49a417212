/* snippet_files.h - files on the disk that snippets come from. */
#ifndef PROGRAMS_SNIPPET_FILES_H
#define PROGRAMS_SNIPPET_FILES_H

#include <sys/stat.h>

#include "snippets/snippet_index.h"

/* Is it code of a known language, and not too large? */
bool snippet_file_is_wanted(const char *path, const struct stat *st);
/* NULL: it is deleted, not readable, or not text.  buffer: holds its bytes, reused. */
snippet_file *snippet_file_read(const char *path, bytes *buffer);

#endif
