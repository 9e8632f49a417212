/* scan.h - how findings of `cerium scan` are written. */
#ifndef PROGRAMS_SCAN_H
#define PROGRAMS_SCAN_H

#include <jansson.h>

#include "guard/guard.h"

/* The place of a finding: line (from 1) of a file, by its name; in a diff, of the file that it
 * changes (the finding's byte offsets are those of the diff). */
typedef struct {
    const char *path;
    uint32_t line;
    bool in_diff;
    bool in_project; /* a file of a folder, in a project */
} scan_place;

/* Write one finding.  NULL when out of memory. */
json_t *scan_json(scan_place at, const guard_finding *f);

/* A SARIF 2.1.0 log that grows by findings.  Returns owned; NULL without memory. */
json_t *sarif_begin(void);
int sarif_add(json_t *log, scan_place at, const guard_finding *f);
/* Was all of the input read? */
int sarif_end(json_t *log, bool whole);

/* The rules' folder: named, CERIUM_RULES, beside the program, or where it was installed; into out.
 * False when there is none. */
bool scan_rules(const char *named, char *out, size_t size);

#endif
