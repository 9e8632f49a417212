/* quota.h - the processor time that control groups leave to this process (Linux's cpu.max, and
 * cpu.cfs_quota_us of the first version).
 *
 * More threads than the quota allows are slower than fewer: once it is used up, the kernel stops
 * all of them until the next period, for tens of milliseconds. */
#ifndef BASE_QUOTA_H
#define BASE_QUOTA_H

#include "base/base.h"

#define QUOTA_NONE UINT64_MAX

/* Hundredths of a processor; QUOTA_NONE without a limit. The tightest limit of this process's group
 * and its parents counts. root is a prefix of /proc and /sys: "" except in tests. */
uint64_t quota_percent(const char *root);

/* ---- the texts of the kernel's files ---- */

/* This process's group in /proc/self/cgroup: in the unified hierarchy, or in the one that has the
 * named controller. False: not found. */
bool quota_group(view text, view controller, view *path);
/* cpu.max: "QUOTA PERIOD" or "max PERIOD", microseconds. */
uint64_t quota_of_max(view text);
/* cpu.cfs_quota_us and cpu.cfs_period_us; a quota of -1 means no limit. */
uint64_t quota_of_pair(view quota, view period);

#endif
