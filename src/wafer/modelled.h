/* modelled.h - whether a program has only steps that the simulated machines support. */
#ifndef WAFER_MODELLED_H
#define WAFER_MODELLED_H

#include "model/program.h"

/* Operations that wafer_check_modelled() rejects, for a switch over all of them. */
#define WAFER_CASES_NOT_MODELLED                                                                   \
    case STEP_LINEAR_IN:                                                                           \
    case STEP_LAYER_INPUTS:                                                                        \
    case STEP_LAYER_GATE:                                                                          \
    case STEP_LATENT:                                                                              \
    case STEP_LATENT_Q:                                                                            \
    case STEP_LATENT_QUERY:                                                                        \
    case STEP_LATENT_VALUE:                                                                        \
    case STEP_EXPERTS_IN:                                                                          \
    case STEP_CONV:                                                                                \
    case STEP_DELTA

/* CERIUM_ERR_FORMAT: "name: not modelled: " and the unsupported part. */
CERIUM_CHECKED int wafer_check_modelled(const step_program *p, const char *name,
                                        cerium_error *err);

#endif
