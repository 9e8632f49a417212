/* accounts.h - shared by `cerium keys` and `cerium usage`: opens the store, reads and writes
 * dates. */
#ifndef PROGRAMS_ACCOUNTS_H
#define PROGRAMS_ACCOUNTS_H

#include "base/base.h"
#include "server/policy.h"
#include "store/store.h"

/* Read a configuration file (server/policy.h).  *out owned: memory_free(). */
int accounts_policy(policy **out, const char *path, cerium_error *err);

/* Open the named store, else the one of the policy (NULL = none), else CERIUM_STORE. makes: create
 * it if it does not exist. */
int accounts_store(store **out, const char *path, const policy *p, bool makes, cerium_error *err);

/* Convert between days since 1970 and "2026-11-21"; false for an invalid date. */
const char *accounts_date(char out[16], int64_t day);
bool accounts_day(const char *text, int64_t *day);

/* A field of CSV (RFC 4180) on standard output. */
void accounts_csv(const char *text);

#endif
