/* scan_files.h - files and folders read by the watchdog on all cores, reported in their order. */
#ifndef PROGRAMS_SCAN_FILES_H
#define PROGRAMS_SCAN_FILES_H

#include "base/memory.h"
#include "guard/guard.h"
#include "programs/scan.h"

typedef struct {
    guard *guard;              /* borrowed */
    guard_form form;
    bool language_given;
    guard_language language;   /* GUARD_TEXT: by each file's name */
    bool notes;                /* notes are findings, too */
    view known;                /* what stood there before */
    /* Findings in the order of the files and of their bytes, one thread alone. */
    int (*found)(void *user, scan_place at, const guard_finding *f, cerium_error *err);
    /* One line about what was not read, or not judged as it should be: all else goes on. */
    void (*trouble)(void *user, const char *line);
    void *user;
    /* Written by scan_files(): */
    uint64_t n_binary;         /* files of folders that were passed over */
    uint64_t n_files, n_others; /* that were read; of these, code that has no rules, such as Rust */
    char other[200];           /* one of those */
} scan_job;

/* Files, folders, and "-" for standard input, of which findings are reported as they come.
 * CERIUM_ERR_MEMORY; what found() returns. */
CERIUM_CHECKED int scan_files(scan_job *job, int n, char **paths, cerium_error *err);

#endif
