/* owned.h - checks that a file is the store's own before it is written to.
 *
 * Names beside the database (FILE-live, FILE-wal, FILE-shm, FILE-journal) are derived by us and by
 * SQLite, so a foreign file or link may already have one of them. A foreign file is never opened
 * for writing; its content, mode, owner and times stay unchanged. */
#ifndef STORE_OWNED_H
#define STORE_OWNED_H

#include <sys/stat.h>

#include "base/base.h"

/* The reason for not writing to a file, or NULL.  It must be a regular file of this user, with one
 * link, and not writable by others. */
const char *owned_fault(const struct stat *st);

/* Check that each file that SQLite puts beside `path` is SQLite's or missing. CERIUM_ERR_IO, or
 * CERIUM_ERR_FORMAT with the file's name and kind. */
CERIUM_CHECKED int owned_sides(const char *path, cerium_error *err);

/* Whether the write-ahead log of `path` has a first page with this application_id. A database never
 * changes its id, so any version of the page will do. */
bool owned_log_names(const char *path, uint32_t application_id);

#endif
