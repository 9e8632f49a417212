/* convert_states.h - layers with a recurrent state: their keys, and the order of their heads.
 *
 * Private to this folder. */
#ifndef CONVERT_CONVERT_STATES_H
#define CONVERT_CONVERT_STATES_H

#include "convert/config_reader.h"

/* A block of MXFP4. */
enum { MXFP4_VALUES = 32, MXFP4_BYTES = 16 };

/* convert_tensors.c: is it [a][b][c]?  c, or b and c, are 0 if it has fewer dimensions. */
bool convert_has_shape(const safetensor *t, uint64_t a, uint64_t b, uint64_t c);

bool convert_has_states(const convert_config *c);
/* convert_families.c: files list the layers with a window. */
bool convert_lists_windows(const convert_config *c);
/* convert_layered.c: heads and widths, by layer if they differ. */
void convert_layered_read(config_reader *r, convert_config *c);
/* The number of first dense layers, if a list has it; else 1. */
void convert_dense_read(config_reader *r, convert_config *c);
void convert_layered_write(const config_writer *k, const convert_config *c);
/* convert_latents.c: attention by latents, and the experts beside it. */
void convert_latents_read(config_reader *r, convert_config *c);
void convert_latents_write(const config_writer *k, const convert_config *c);
void convert_states_read(config_reader *r, convert_config *c);
/* The sizes of states. */
void convert_state_sizes_write(const config_writer *k, const convert_config *c);
void convert_states_write(const config_writer *k, const convert_config *c);
/* convert_scans.c: the same of Mamba-2. */
bool convert_has_scans(const convert_config *c);
void convert_scans_read(config_reader *r, convert_config *c);
void convert_scans_write(const config_writer *k, const convert_config *c);
/* Refuses what states of Mamba-2 cannot have. */
void convert_scans_check(config_reader *r);
/* convert_nemotron.c: models whose layers have one part each. */
bool convert_is_nemotron(const convert_config *c);
uint32_t convert_nemotron_layers(config_reader *r);
void convert_nemotron_read(config_reader *r, convert_config *c);
void convert_nemotron_write(const config_writer *k, const convert_config *c);
/* Channels of q, k and v. */
uint32_t convert_state_channels(const convert_config *c);

/* The part of a tensor with heads of values, in another order than the source's. */
typedef enum {
    HEADS_OF_VALUES = 0,   /* all rows, or columns */
    HEADS_BEHIND_KEYS = 1, /* rows after those of q and k */
    HEADS_ONE_ROW = 2,     /* a row, or a value, for each */
    HEADS_APART = 3,       /* qwen3next: q, k and v, of a tensor that also has z; and */
    HEADS_APART_GATE = 4,  /* that z */
} convert_heads;

/* The source's row for row r of the file. */
uint64_t convert_state_row(const convert_config *c, convert_heads heads, uint64_t r);

#endif
