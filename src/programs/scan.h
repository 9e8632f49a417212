/* scan.h - how findings of `cerium scan` are written. */
#ifndef PROGRAMS_SCAN_H
#define PROGRAMS_SCAN_H

#include <jansson.h>

#include "guard/guard.h"

/* One finding, and the file that it is in. */
json_t *scan_json(const char *path, const guard_finding *f);

/* A SARIF 2.1.0 log that grows by findings.  Returns owned; NULL without memory. */
json_t *sarif_begin(void);
int sarif_add(json_t *log, const char *path, const guard_finding *f);

/* The rules' folder: named, CERIUM_RULES, beside the program, or where it was installed; into out.
 * False when there is none. */
bool scan_rules(const char *named, char *out, size_t size);

#endif
