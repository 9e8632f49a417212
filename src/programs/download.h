/* download.h - one file over HTTP, gone on with where an earlier try broke off. */
#ifndef PROGRAMS_DOWNLOAD_H
#define PROGRAMS_DOWNLOAD_H

#include "base/base.h"

typedef struct {
    const char *url, *path; /* path appears when the file is whole and right */
    const char *sha256;     /* 64 hexadecimal digits; NULL: the one that the server tells, if any */
    const char *token;      /* sent to the url's own host alone; or NULL */
    uint32_t stall_seconds; /* without a byte, after which a try has failed */
    void (*progress)(uint64_t done, uint64_t total); /* total 0: not known; or NULL */
} download;

/* What came so far stays at path.part (and what it is of, at path.part.tag) for the next call, but
 * not what turned out wrong.  One call at a time for each path, in all processes.
 * CERIUM_ERR_IO says what the server or the disk said; CERIUM_ERR_FORMAT: other bytes than were to
 * come. */
CERIUM_CHECKED int download_file(const download *d, cerium_error *err);

/* Has a whole file that SHA-256?  CERIUM_ERR_FORMAT: another; CERIUM_ERR_IO. */
CERIUM_CHECKED int download_check(const char *path, const char *sha256, cerium_error *err);

#endif
