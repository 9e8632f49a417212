/* inspect.h - the facts of a model file that `cerium inspect` reads, and how it shows them.
 *
 * Everything here may come from a hostile file: text is cleaned on its way out. */
#ifndef PROGRAMS_INSPECT_H
#define PROGRAMS_INSPECT_H

#include <jansson.h>

#include "gguf/gguf.h"

enum { INSPECT_ITEMS_SHOWN = 8 }; /* of an array */

typedef struct {
    uint64_t n_tensors, n_parameters, bytes;
} type_share;

enum { FIM_PREFIX, FIM_SUFFIX, FIM_MIDDLE, FIM_ROLES };

/* The state of a head for the token after the next (MTP). */
typedef enum {
    MTP_NONE = 0,    /* none, as usual for the architecture */
    MTP_LEFT_OUT = 1, /* the model has one, but the file lacks it */
    MTP_NOT_RUN = 2, /* several, or of an architecture whose heads are not run */
    MTP_PARTIAL = 3, /* tensors of it are missing */
    MTP_DRAFTS = 4,
} mtp_head;

typedef struct {
    const gguf_file *file;
    view name, arch, tokenizer, pre, chat_template;
    char chat_form[32];     /* "" where there is none, */
    char chat_calls[1024];  /* how tool calls are parsed, */
    char chat_refusal[320]; /* why the template cannot be run; "": it can */
    uint64_t n_parameters, weight_bytes, step_bytes;
    uint64_t n_mtp;         /* blocks after the layers, for later tokens */
    mtp_head mtp;
    uint64_t n_layers, n_embd, n_heads, n_kv_heads, n_ff, n_experts, n_used, context, n_vocab;
    uint64_t n_expert_latent; /* 0: experts are as wide as the model */
    type_share shares[BLOCK_TYPE_END];
    const gguf_value *tokens; /* NULL without a vocabulary */
    int64_t fim[FIM_ROLES];   /* token ids; -1 when there is none */
} facts;

extern const char *const facts_fim_names[FIM_ROLES];

/* The measured cost of a type (docs/quantization.md). */
typedef struct {
    block_type type;
    double nats, same;
} type_cost;

/* inspect_facts.c */
facts facts_of(const gguf_file *file);
/* The value of "<architecture>.<suffix>"; NULL: missing. */
const gguf_value *facts_value(const facts *f, const char *suffix);
bool facts_is_numbers(const gguf_value *value);
/* A file that drafts for one other model. */
bool facts_is_drafter(const facts *f);
/* "<architecture>.<suffix>", its maximum if it is an array by layer; 0 when absent. */
uint64_t facts_number(const facts *f, const char *suffix);
/* Does an array by layer have different numbers? */
bool facts_differ_by_layer(const facts *f, const char *suffix);
bool facts_name_has(view name, const char *part);
view facts_token_text(const facts *f, int64_t id);
/* NULL: not measured. */
const type_cost *facts_cost_of(uint32_t type);

/* inspect_print.c: for people, on standard output. */
void inspect_print_summary(const facts *f);
void inspect_print_tensors(const gguf_file *file);
void inspect_print_values(const gguf_file *file);

/* inspect_json.c: NULL when memory runs out. */
json_t *inspect_json(const facts *f, bool tensors, bool values);

#endif
