/* owned.h - files of the store are ours, or they are left alone.
 *
 * Names beside the database (FILE-live, FILE-wal, FILE-shm, FILE-journal) are made up by us and by
 * SQLite, so somebody else's file may have one of them, or a link to it.  What is not a file of our
 * own is never opened for writing; its content, mode, owner and times stay. */
#ifndef STORE_OWNED_H
#define STORE_OWNED_H

#include <sys/stat.h>

#include "base/base.h"

/* What is wrong with a file that we would write to, or NULL: it must be a regular file of ours, of
 * one name, which nobody else may write. */
const char *owned_fault(const struct stat *st);

/* See whether the files that SQLite puts beside `path` are its own, or not there.
 * CERIUM_ERR_IO, CERIUM_ERR_FORMAT with which one and what it is. */
CERIUM_CHECKED int owned_sides(const char *path, cerium_error *err);

/* Whether the write-ahead log of `path` brings a first page with this application_id.  A database
 * keeps its own, so any page does. */
bool owned_log_names(const char *path, uint32_t application_id);

#endif
