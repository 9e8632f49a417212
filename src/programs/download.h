/* download.h - downloads one file over HTTP, and resumes an interrupted download. */
#ifndef PROGRAMS_DOWNLOAD_H
#define PROGRAMS_DOWNLOAD_H

#include "base/base.h"

typedef struct {
    const char *url, *path; /* path appears only once the file is complete and verified */
    const char *sha256;     /* 64 hexadecimal digits; NULL: the one that the server reports, if
                             * any */
    const char *token;      /* sent only to the url's own host; or NULL */
    uint32_t stall_seconds; /* without a byte, after which a try fails */
    void (*progress)(void *user, uint64_t done, uint64_t total); /* total 0: not known; or NULL */
    bool (*canceled)(void *user); /* polled; true cancels; or NULL */
    void *user;
} download;

/* A partial download stays at path.part (its source at path.part.tag) for the next call, unless its
 * content is wrong.  One call at a time for each path, in all processes. CERIUM_ERR_IO has the
 * error of the server or the disk; CERIUM_ERR_CANCELED; CERIUM_ERR_FORMAT: the bytes are not the
 * expected ones. */
CERIUM_CHECKED int download_file(const download *d, cerium_error *err);

enum { DOWNLOAD_SHA_DIGITS = 64 };
/* The SHA-256 of a file.  CERIUM_ERR_IO. */
CERIUM_CHECKED int download_hash(const char *path, char out[DOWNLOAD_SHA_DIGITS + 1],
                                 cerium_error *err);
/* Does a complete file have that SHA-256?  CERIUM_ERR_FORMAT: it differs; CERIUM_ERR_IO. */
CERIUM_CHECKED int download_check(const char *path, const char *sha256, cerium_error *err);

#endif
