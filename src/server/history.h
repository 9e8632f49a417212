/* history.h - token logs: the tokens that the engine read, so that no text is tokenized twice.
 *
 * An answer is stored as a turn: its whole timeline (prompt and sampled tokens).  It is found by
 * the answer's id (previous_response_id), and by the visible conversation that it ends (for a
 * client that sends everything again, the sampled tokens are spliced in, including hidden
 * reasoning).  Turns belong to a tenant; each tenant has its own bound, and loses its least
 * recently used turns.
 *
 * Callable from any thread.  A turn does not change, and lives as long as it is referenced. */
#ifndef SERVER_HISTORY_H
#define SERVER_HISTORY_H

#include <jansson.h>

#include "base/base.h"
#include "base/limits.h"
#include "base/memory.h"

/* Hash of a conversation as a client sees it; all zero = none. */
typedef struct {
    uint64_t h[2];
} chain;

static inline bool chain_none(chain c) { return !c.h[0] && !c.h[1]; }
static inline bool chain_equal(chain a, chain b) { return a.h[0] == b.h[0] && a.h[1] == b.h[1]; }
/* The chain after one more message.  It excludes reasoning, which clients may omit. */
chain chain_add(chain c, const cerium_message *message);

typedef struct history_turn {
    char id[SERVER_ID_BYTES];
    uint64_t tenant;
    uint64_t model;        /* model of the tokens: served_model.key_hash; 0 = no tokens */
    uint64_t connection;   /* the id is valid only on this connection; 0 = on all of the tenant */
    chain chain;           /* of the conversation up to and including this turn; none: not found by
                            * it */
    uint64_t instructions; /* hash of the instructions in force; 0 = none */
    size_t n_head;         /* tokens[0..] of the instructions and the tools, or CERIUM_NO_HEAD */
    const int32_t *tokens; /* [n_tokens] timeline at its end */
    size_t n_tokens;
    size_t sampled_from;   /* tokens[sampled_from..] were sampled */
    json_t *output;        /* items of the output, or NULL; a turn owns a reference */
    json_t *items;         /* the whole conversation, if another server answers it, and no tokens;
                              NULL: answered here.  Owns a reference */
    size_t items_bytes;    /* about how many bytes they take */
    uint32_t upstream;     /* the tenant that owns them */
} history_turn;

typedef struct history history;

CERIUM_CHECKED int history_open(history **out, size_t tenant_bytes_max, size_t tenant_turns_max);
void history_close(history **h);

/* Store a copy; replaces a turn with the same id.  A turn over the bound is dropped without an
 * error.  CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int history_add(history *h, const history_turn *turn);
/* NULL when there is none.  Held: release it with history_release(). */
const history_turn *history_find(history *h, uint64_t tenant, uint64_t connection, const char *id);
const history_turn *history_find_chain(history *h, uint64_t tenant, chain c);
/* Accepts NULL, and nulls it. */
void history_release(const history_turn **turn);
/* The output item with this id, as a new reference, or NULL. */
json_t *history_find_item(history *h, uint64_t tenant, const char *item_id);
/* Accepts unknown ids.  The second ignores a turn that is not valid on this connection. */
void history_forget(history *h, uint64_t tenant, const char *id);
void history_evict(history *h, uint64_t tenant, uint64_t connection, const char *id);
/* Turns that are valid only on this connection are no longer found by id. */
void history_drop_connection(history *h, uint64_t connection);

size_t history_turns(history *h);

#endif
