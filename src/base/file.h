/* file.h - files at places: whole reads and writes, folders, and whom to trust. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/base.h"

/* Up to len bytes from `at` on; returns how many there were. */
size_t file_read_at(int fd, void *out, size_t len, uint64_t at);
/* All of len bytes: 0 or an errno.  Beyond the limit on the size of files (RLIMIT_FSIZE) EFBIG, and
 * not the signal that ends processes. */
int file_write_at(int fd, const void *from, size_t len, uint64_t at);
/* The folders above path, for us alone; what fails shows when the file is opened.  Writes into path
 * and puts it back. */
void file_make_folders(char *path);
/* The user's folder for what can be made again, "$XDG_CACHE_HOME/cerium" or "~/.cache/cerium", into
 * out [size]; false when nobody says where that is. */
bool file_cache_folder(char *out, size_t size);
/* 0, or why a file of bytes must not be written there: an errno (EFBIG, or ENOSPC when the disk
 * would not have as much again free). */
int file_lacks_room(int fd, uint64_t bytes);

#endif
