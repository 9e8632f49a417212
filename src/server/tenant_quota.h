/* tenant_quota.h - decides whether an answer of a tenant may begin, and meters it when it ends.
 *
 * An answer passes tenant_quota_enter() before its prompt is made, tenant_quota_charge() when its
 * length is known, tenant_quota_meter() before its client is sent the end, if it used anything, and
 * tenant_quota_leave() when it is over.  Between them they count its requests, tokens and streams
 * in the limits of its tier.  No SQL, no lock, no system call except for clocks. */
#ifndef SERVER_TENANT_QUOTA_H
#define SERVER_TENANT_QUOTA_H

#include "server/state.h"

/* Take a request and a stream from the limits of the answer's tenant, and limit the answer's class
 * to the tier's.
 * CERIUM_ERR_ARGUMENT with *e: 403, 429, 503; nothing was taken then. */
CERIUM_CHECKED int tenant_quota_enter(answer *a, protocol_error *e);
/* It entered, but will go to an upstream: undo the entry. */
CERIUM_CHECKED int tenant_quota_enter_deep(answer *a, protocol_error *e);
/* The same with tokens of its prompt. */
CERIUM_CHECKED int tenant_quota_charge(answer *a, uint64_t n_tokens, protocol_error *e);
/* The remaining limits for its client, and those of a refusal; false: none. */
bool tenant_quota_report(const answer *a, rates_report *out);
/* Settle its usage with the charged amount and write it to the journal, once. */
void tenant_quota_meter(answer *a, const metrics_used *used, const char *model);
/* Return the stream, and everything taken from the limits for an answer that was not metered.  No
 * effect on an answer that did not enter, or left. */
void tenant_quota_leave(answer *a);

#endif
