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
    bool notes;                /* notes count as findings, too */
    view known;                /* the text that was there before */
    /* Called for findings in the order of the files and of their bytes, on one thread. */
    int (*found)(void *user, scan_place at, const guard_finding *f, cerium_error *err);
    /* One line about input that was not read or not fully judged: the scan continues. */
    void (*trouble)(void *user, const char *line);
    void *user;
    /* Written by scan_files(): */
    uint64_t n_binary;         /* files of folders that were skipped */
    uint64_t n_files, n_others; /* files that were read; of these, code without rules, such as
                                 * Rust */
    char other[200];           /* the name of one of those */
} scan_job;

/* Scan files, folders, and "-" for standard input, whose findings are reported at once.
 * CERIUM_ERR_MEMORY; what found() returns. */
CERIUM_CHECKED int scan_files(scan_job *job, int n, char **paths, cerium_error *err);

#endif
