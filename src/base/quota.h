/* quota.h - the processor time that control groups leave to this process (Linux's cpu.max, and
 * cpu.cfs_quota_us of the first version).
 *
 * More threads than that time feeds are worse than fewer: when it is used up, all of them stand
 * still until the next period, for tens of milliseconds. */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include "base/base.h"

#define QUOTA_NONE UINT64_MAX

/* Hundredths of a processor; QUOTA_NONE where nothing limits us.  The tightest limit of our group
 * and of those above it counts.  root stands before /proc and /sys: "" but in tests. */
uint64_t quota_percent(const char *root);

/* ---- the texts of the kernel's files ---- */

/* Our group in /proc/self/cgroup: of the unified hierarchy, or of the one that has the named
 * controller.  False when there is none. */
bool quota_group(view text, view controller, view *path);
/* cpu.max: "QUOTA PERIOD" or "max PERIOD", microseconds. */
uint64_t quota_of_max(view text);
/* cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 is none. */
uint64_t quota_of_pair(view quota, view period);

#endif
