/* kv_events.h - reports which KV pages exist, as vLLM's KV events: a bounded ring from the engines'
 * threads to the loop, and batches of it in msgpack.
 *
 * An engine never waits: if the ring is full, events are dropped, and every model is then reported
 * empty, which is always correct. */
#ifndef SERVER_KV_EVENTS_H
#define SERVER_KV_EVENTS_H

#include "base/memory.h"

enum { KV_EVENTS_MODELS_MAX = 64, KV_EVENTS_RING = 16384, KV_EVENTS_BATCH_MAX = 256 };

typedef struct kv_events kv_events;
typedef struct kv_events_model kv_events_model;

/* CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int kv_events_open(kv_events **out, cerium_error *err);
/* Call it after closing all engines that report to it. */
void kv_events_close(kv_events **e);
/* The value of config.kv_watcher, with the n-th model's config.kv_watcher_user. */
extern const cerium_kv_watcher kv_events_watcher;
kv_events_model *kv_events_of(kv_events *e, uint32_t n);
/* Call wake on an engine's thread, with its lock, when the empty ring gets an event. */
void kv_events_wake(kv_events *e, void (*wake)(void *user), void *user);

/* Append the next batch, of one model: `[seconds, [event, ...], nil]`.  False: there is none. */
bool kv_events_take(kv_events *e, double seconds, uint32_t *model, bytes *out);

#endif
