/* served_model.h - a model of a server: its names and its facts, loaded or not.  model_list.h makes
 * them, model_loader.h loads them.
 *
 * Its description does not change once it is in the server's list, and any thread may read it; the
 * members after "the loop's" belong to the loop. */
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
    job job;                    /* first: its load or unload, while the state says so */
    server *s;                  /* the server that owns it */
    uint32_t index;             /* in the server's list */
    char names[SERVER_MODEL_NAMES_MAX][SERVER_ID_BYTES]; /* [n_names] the first is its id */
    uint32_t n_names;
    bool is_first;              /* options for one model apply to this one */
    uint32_t context;           /* configured, 0 = its own */
    const char *path;           /* of its file; "" if it has none */
    char *own_path;             /* owned, or NULL */
    cerium_engine *vocab;       /* reads and writes its text and tokens; never NULL */
    cerium_engine_info info;    /* of that */
    protocol_defaults defaults; /* of requests for it */
    protocol_model listed;
    char key[2 * SERVER_ID_BYTES]; /* identifies the model of stored timelines' tokens, */
    uint64_t key_hash;             /* and of those in memory */
    uint64_t own_bytes;         /* of its weights, and of its draft model */
    uint64_t kv_bytes_min, kv_bytes_max; /* bounds of its KV: one whole context; all that it can
                                          * use */
    _Atomic bool is_deleted;    /* its file is deleted, or will be: requests do not get it */
    bool is_borrowed;           /* vocab is the engine, which is borrowed: never unloaded */

    /* the loop's */
    model_state state;
    cerium_engine *engine;      /* computes; NULL: not loaded */
    uint64_t kv_bytes;          /* bound of its KV while it is loaded: model_memory.h */
    uint32_t n_sessions;        /* choices with an open session of it */
    bool no_session;            /* it had no session for a waiting choice */
    uint64_t wanted_ns;         /* since when it should be loaded; 0 = it should not */
    uint64_t used_ns;           /* when it was last requested, or something in it ended */
    int64_t idle_s;             /* unloaded after so long idle; < 0: never */
    uint64_t failed_ns;         /* time of a failed load; 0 = it did not fail */
    char failure[256];          /* and the reason */
    uint64_t n_loads;
    cerium_engine_stats past;   /* of its closed engines */

    /* for its load or unload; the thread's meanwhile */
    uint64_t moves_ns;          /* since when */
    cerium_engine *beside;      /* the model whose threads it uses; NULL: its own threads */
    cerium_engine *moved;       /* was loaded, or will be closed */
    cerium_error why;
    int status;
    _Atomic uint64_t done_bytes, total_bytes; /* of the load */
    _Atomic bool unwanted;      /* the load may stop early */
} served_model;

#endif
