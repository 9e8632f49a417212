/* model_stats.h - what the engines of all models did. */
#ifndef SERVER_MODEL_STATS_H
#define SERVER_MODEL_STATS_H

#include "server/state.h"

/* Adds counters; and gauges if `now`. */
void stats_add(cerium_engine_stats *sum, const cerium_engine_stats *of, bool now);
/* Everything since the server was opened, also of engines that are gone.  out [models_n()]. */
void models_measure(const server *s, metrics_engine *all, metrics_model *out);

#endif
