/* model_stats.h - statistics over the engines of all models. */
#ifndef SERVER_MODEL_STATS_H
#define SERVER_MODEL_STATS_H

#include "server/state.h"

/* Adds counters; and gauges if `now`. */
void stats_add(cerium_engine_stats *sum, const cerium_engine_stats *of, bool now);
/* Everything since the server was opened, including closed engines.  out [models_n()]. */
void models_measure(const server *s, metrics_engine *all, metrics_model *out);

#endif
