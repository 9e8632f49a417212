/* machine.h - the caches that compute threads would use on this machine, by hwloc, and their
 * speed. */
#ifndef PROGRAMS_MACHINE_H
#define PROGRAMS_MACHINE_H

#include "programs/residency.h"

/* threads 0: one for each core available to the process.  Measures for about two seconds.
 * CERIUM_ERR_MEMORY when there is no memory to measure with. */
CERIUM_CHECKED int machine_measure(residency_machine *out, uint32_t threads, cerium_error *err);

#endif
