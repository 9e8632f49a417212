/* gate.h - whether an answer of this tenant may begin, and what is metered when it ends.
 *
 * An answer passes gate_enter() before its prompt is made, gate_charge() when its length is known,
 * gate_meter() before its client is told the end, where it used anything, and gate_leave() when it
 * is over.  Between them they count its requests, tokens and streams in the limits of its tier.  No
 * SQL, no lock, no system call but the clocks'. */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

#include "server/state.h"

/* Open what servers share; the server's policy is set. */
CERIUM_CHECKED int gate_open(server *s, cerium_error *err);
/* From now on, while there is an event loop to wake: keys are looked at, and usage is kept. */
CERIUM_CHECKED int gate_start(server *s, cerium_error *err);
void gate_stop(server *s);
void gate_close(server *s);

/* Keys are needed: there are some, or were. */
bool gate_needs_key(const server *s);
/* The tenant of a key of the store; 0 = it is none. */
uint64_t gate_tenant(server *s, view key);
/* Take the new keys, if they changed: s->keys_changed then, until the connections are closed whose
 * key was revoked.  Cheap when nothing changed. */
void gate_refresh(server *s);
/* The entry of a tenant, NULL without memory for it. */
tenant_state *gate_entry(server *s, uint64_t tenant_id);

/* Take a request and a stream from the limits of the answer's tenant, and hold the answer's class
 * to what the tier allows.
 * CERIUM_ERR_ARGUMENT with *e: 403, 429, 503; nothing was taken then. */
CERIUM_CHECKED int gate_enter(answer *a, protocol_error *e);
/* It entered, and is found to be for an upstream: as if it had not. */
CERIUM_CHECKED int gate_enter_deep(answer *a, protocol_error *e);
/* The same with tokens of its prompt. */
CERIUM_CHECKED int gate_charge(answer *a, uint64_t n_tokens, protocol_error *e);
/* What its client is told of what is left, and of a refusal; false: nothing. */
bool gate_told(const answer *a, rates_told *out);
/* What it used, settled with what was charged and put into the journal, once. */
void gate_meter(answer *a, const metrics_used *used, const char *model);
/* Give the stream back, and all that was taken of the limits for what was not metered.  No effect
 * on an answer that did not enter, or left. */
void gate_leave(answer *a);

#endif
