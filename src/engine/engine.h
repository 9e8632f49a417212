/* engine.h - what is inside cerium_engine and cerium_session. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/kv.h"
#include "cpu/executor.h"
#include "gguf/gguf.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sampling/stop.h"
#include "tokenizer/chat.h"
#include "tokenizer/infill.h"
#include "tokenizer/tokenizer.h"

struct cerium_engine {
    gguf_file *file;
    model *model;
    tokenizer *tokens;
    kernel_cpu cpu;
    kernel_table kernels;
    kernel_kv_type kv_type;
    team *workers;
    cpu_executor *executor;
    kv_pool *pool;
    chat_form chat;
    infill_form infill;
    char *name;
    uint32_t n_vocab;            /* logits; the tokenizer may know fewer */
    uint32_t token_bytes_max;
    uint32_t context_tokens_max, batch_tokens_max;
    pthread_mutex_t lock;        /* the executor and the pool: one pass at a time */
    bool has_lock;
};

struct cerium_session {
    cerium_engine *engine;
    kv_sequence *sequence;
    sampler *sampler;
    cpu_row *rows;               /* [batch_tokens_max] */
    int32_t *tokens;             /* [context_tokens] the timeline */
    uint32_t n_tokens;
    uint32_t n_computed;         /* tokens whose KV is there; at most n_tokens */
    uint32_t context_tokens;
    float *logits;               /* [n_vocab rounded up to a panel] after token n_computed - 1 */
    bool has_logits;
    uint32_t score_tokens_max;
    float *score_logits;         /* [score_tokens_max][n_vocab rounded up] or NULL */
    stop_state stops;
    char *text;                  /* what the last step may show */
    _Atomic bool cancel;
};

#endif
