/* file.h - positioned reads and writes, folders, the user's own folders, checks before writing. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/base.h"

/* Files of one kind in the cache folder, and the days after their last use. */
enum { FILE_CACHED_MAX = 32, FILE_CACHED_DAYS = 30 };

/* Read up to len bytes at offset `at`; returns the number of bytes read. */
size_t file_read_at(int fd, void *out, size_t len, uint64_t at);
/* Write all of len bytes; 0 or an errno. Beyond the limit on the size of files (RLIMIT_FSIZE) it
 * returns EFBIG; SIGXFSZ is not raised. */
int file_write_at(int fd, const void *from, size_t len, uint64_t at);
/* Make the folders above path, with mode 0700. Errors are not reported: opening the file will fail.
 * path is changed during the call and restored. */
void file_make_folders(char *path);
/* The user's cache folder, "$XDG_CACHE_HOME/cerium" or "~/.cache/cerium", into out [size]; false:
 * neither XDG_CACHE_HOME nor HOME is set. */
bool file_cache_folder(char *out, size_t size);
/* The same, or the folder that `chosen` names (NULL or "": none); false for "off", too. */
bool file_cache_folder_or(const char *chosen, char *out, size_t size);
/* The user's folder for a program's state: "$XDG_STATE_HOME/cerium" or "~/.local/state/cerium". */
bool file_state_folder(char *out, size_t size);
/* Marks an open file as used now, for file_bound(). */
void file_used(int fd);
/* Bounds the files of a cache: of the regular files in a folder whose names match a shell pattern,
 * removes those that were not used for `days`, and of the others all but the n_max used last.  What
 * cannot be removed stays. */
void file_bound(const char *folder, const char *pattern, size_t n_max, unsigned days);
/* 0, or an errno if a file of this many bytes should not be written there: EFBIG, or ENOSPC if less
 * than twice the size is free on the disk. */
int file_lacks_room(int fd, uint64_t bytes);

#endif
