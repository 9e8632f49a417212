/* snippet_files.c - chooses files, and reads one. */
#include "programs/snippet_files.h"

#include "guard/guard.h"
#include "programs/options.h"

bool snippet_file_is_wanted(const char *path, const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_size <= SNIPPETS_FILE_BYTES_MAX &&
           guard_language_of_path(view_of(path)) != GUARD_TEXT;
}

snippet_file *snippet_file_read(const char *path, bytes *buffer)
{
    cerium_error err;
    snippet_file *file = NULL;
    buffer->len = 0;
    buffer->max = SNIPPETS_FILE_BYTES_MAX + 1;
    if (read_file(path, buffer, &err)) return NULL;
    const view text = {buffer->ptr ? buffer->ptr : "", buffer->len};
    return snippet_file_open(&file, view_of(path), text) ? NULL : file;
}
