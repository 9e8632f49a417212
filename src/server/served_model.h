/* served_model.h - a model that a server has: what it is called and what is known of it, loaded or
 * not.  model_list.h makes them, model_loader.h loads them.
 *
 * What is said of it does not change once it is in the server's list, and may be read by any
 * thread; what follows "the loop's" belongs to the loop. */
#ifndef SERVER_SERVED_MODEL_H
#define SERVER_SERVED_MODEL_H

#include <stdatomic.h>

#include "base/limits.h"
#include "protocol/protocol.h"
#include "server/server.h"
#include "server/workers.h"

typedef enum {
    MODEL_UNLOADED = 0,
    MODEL_LOADING = 1,
    MODEL_LOADED = 2,
    MODEL_UNLOADING = 3,
} model_state;

typedef struct served_model {
    job job;                    /* first: its load or end, while the state says so */
    server *s;                  /* whose it is */
    uint32_t index;             /* in its list */
    char names[SERVER_MODEL_NAMES_MAX][SERVER_ID_BYTES]; /* [n_names] the first is its id */
    uint32_t n_names;
    bool is_first;              /* what was said of one model was said of it */
    uint32_t context;           /* that it is to have, 0 = its own */
    const char *path;           /* of its file; "" if it has none */
    char *own_path;             /* owned, or NULL */
    cerium_engine *vocab;       /* reads and writes its text and tokens; always there */
    cerium_engine_info info;    /* of that */
    protocol_defaults defaults; /* of requests for it */
    protocol_model listed;
    char key[2 * SERVER_ID_BYTES]; /* which model's tokens stored timelines hold, */
    uint64_t key_hash;             /* and those in memory */
    uint64_t own_bytes;         /* of its weights, and of its draft model */
    uint64_t kv_bytes_min, kv_bytes_max; /* of its KV: one whole context; all that it can use */
    _Atomic bool is_deleted;    /* its file is gone, or goes: no request gets it */
    bool is_borrowed;           /* vocab is the engine, which is borrowed: never unloaded */

    /* the loop's */
    model_state state;
    cerium_engine *engine;      /* computes; NULL: not loaded */
    uint64_t kv_bytes;          /* bound of its KV while it is loaded: model_memory.h */
    uint32_t n_sessions;        /* choices that have one of it open */
    bool no_session;            /* it had none for what waits */
    uint64_t wanted_ns;         /* since when it is to be loaded; 0 = it is not */
    uint64_t used_ns;           /* when it was last asked for, or ended something */
    int64_t idle_s;             /* it goes when idle for so long; < 0: never */
    uint64_t failed_ns;         /* when it could not be loaded; 0 = it could, or was not tried */
    char failure[256];          /* and why */
    uint64_t n_loads;
    cerium_engine_stats past;   /* of its engines that are gone */

    /* of its load or end, the thread's meanwhile */
    uint64_t moves_ns;          /* since when */
    cerium_engine *beside;      /* the model whose threads it uses; NULL: its own threads */
    cerium_engine *moved;       /* was loaded, or is to be closed */
    cerium_error why;
    int status;
    _Atomic uint64_t done_bytes, total_bytes; /* of the load */
    _Atomic bool unwanted;      /* it need not come to its end */
} served_model;

#endif
