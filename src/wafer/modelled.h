/* modelled.h - whether a program has only steps that the simulated machines do. */
#ifndef WAFER_MODELLED_H
#define WAFER_MODELLED_H

#include "model/program.h"

/* CERIUM_ERR_FORMAT: "name: not modelled: " and what is not. */
CERIUM_CHECKED int wafer_check_modelled(const step_program *p, const char *name,
                                        cerium_error *err);

#endif
