/* quality.h - the error of a model's arithmetic: the same weights computed by the kernels and in
 * floats, token by token on one text. */
#ifndef PROGRAMS_QUALITY_H
#define PROGRAMS_QUALITY_H

#include <jansson.h>

#include "programs/options.h"

typedef struct {
    uint64_t n_tokens;
    double nats, nats_error; /* nats a token above the float model; its standard error */
    double same;  /* share of tokens where the likeliest one is the float model's */
    double apart; /* mean error of a log-probability */
} quality;

/* Measures on the text at path: at most its first 1,024 tokens, in windows of 512.  Opens the model
 * twice, one after the other; the second time its weights take four bytes each. */
CERIUM_CHECKED int quality_measure(const options *o, const char *path, quality *out,
                                   cerium_error *err);
void quality_print(const quality *q);
json_t *quality_json(const quality *q);

#endif
