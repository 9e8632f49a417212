/* tenant_quota.h - whether an answer of this tenant may begin, and what is metered when it ends.
 *
 * An answer passes tenant_quota_enter() before its prompt is made, tenant_quota_charge() when its
 * length is known, tenant_quota_meter() before its client is sent the end, where it used anything,
 * and tenant_quota_leave() when it is over.  Between them they count its requests, tokens and
 * streams in the limits of its tier.  No SQL, no lock, no system call but the clocks'. */
#ifndef SERVER_TENANT_QUOTA_H
#define SERVER_TENANT_QUOTA_H

#include "server/state.h"

/* Take a request and a stream from the limits of the answer's tenant, and hold the answer's class
 * to what the tier allows.
 * CERIUM_ERR_ARGUMENT with *e: 403, 429, 503; nothing was taken then. */
CERIUM_CHECKED int tenant_quota_enter(answer *a, protocol_error *e);
/* It entered, and is found to be for an upstream: as if it had not. */
CERIUM_CHECKED int tenant_quota_enter_deep(answer *a, protocol_error *e);
/* The same with tokens of its prompt. */
CERIUM_CHECKED int tenant_quota_charge(answer *a, uint64_t n_tokens, protocol_error *e);
/* What its client hears of what is left, and of a refusal; false: nothing. */
bool tenant_quota_report(const answer *a, rates_report *out);
/* What it used, settled with what was charged and put into the journal, once. */
void tenant_quota_meter(answer *a, const metrics_used *used, const char *model);
/* Give the stream back, and all that was taken of the limits for what was not metered.  No effect
 * on an answer that did not enter, or left. */
void tenant_quota_leave(answer *a);

#endif
