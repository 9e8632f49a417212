/* wafer_simulate.h - the input and the figures of `cerium wafer simulate`. */
#ifndef PROGRAMS_WAFER_SIMULATE_H
#define PROGRAMS_WAFER_SIMULATE_H

#include "programs/options.h"
#include "wafer/machines.h"
#include "wafer/mesh_draft.h"

typedef struct {
    options o;
    mesh_layout layout;
    const char *machine;
    bool mesh_given, no_compare, show_events, is_overlapped;
    uint32_t verify;
    uint32_t draft; /* tokens of a pass; 0: one by one */
    const char *draft_model;
    mesh_layout draft_layout;
    uint32_t core_bytes; /* of the machine's cores, for weights and KV; 0: unknown */

    cerium_engine *engine;
    cerium_session *session;
    gguf_file *file, *draft_file;
    mesh *m;
    mesh_draft drafts;
    wafer_machine timed;  /* cores whose time is estimated */
    step_time step[2];    /* of the last new token alone: tuned kernels, SDK-style */
    draft_us us[MESH_ROWS_MAX];
    int32_t *tokens;     /* [n_prompt + n_tokens] */
    size_t n_prompt, n;  /* n: including the new ones */
    uint64_t prompt_ns, decode_ns;

    uint32_t n_places;   /* compared logits: all of a token */
    uint32_t n_equal, n_bounded, n_decided, n_same;
    double worst, widest; /* largest difference over its bound; largest finite bound */
    uint32_t n_verified;
    mesh_kind_events events[MESH_KIND_END]; /* of the new tokens */
    mesh_kind_events prompt_events[MESH_KIND_END];
} simulate;

/* Print figures of a run that has ended: to standard error; as JSON to standard output. */
void wafer_simulate_print(const simulate *s);
CERIUM_CHECKED int wafer_simulate_print_json(const simulate *s, cerium_error *err);

#endif
