/* request.h - one started request: its settings, its progress, and the ring of its events.
 *
 * The ring has one writer, the scheduler, and one reader, the thread that owns the session.  A slot
 * is the reader's from the moment `tail` passed it until `head` does.  `armed`: the reader saw
 * nothing and wants to be woken; `parked`: the writer found no room and wants to be woken.  Each
 * side sets its flag before its last look at the other side's index, and takes the other's flag by
 * exchange after it moved its own index, all sequentially consistent: one of the two always sees
 * the other. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "base/memory.h"
#include "engine/engine.h"

/* Steps in the ring, the end, and the slot of the reader. */
enum { EVENT_SLOTS = CERIUM_EVENTS_MAX + 2 };

typedef struct {
    cerium_event_kind kind;
    int32_t token;
    float logprob;
    hash_name digest;
    cerium_stop stop;
    int status;
    uint32_t n_top;
    size_t text_at, text_len;
    uint32_t text_held;
    uint64_t duration_ns;
} event_slot;

struct request {
    arena memory; /* this struct and all that it points to */

    /* what was asked */
    cerium_sampling sampling;
    const char *stops[CERIUM_STOPS_MAX];
    uint32_t class_;
    uint32_t top_logprobs;
    const int32_t *script; /* or NULL */
    const int32_t *prediction; /* [n_prediction] or NULL */
    uint32_t n_prediction;
    void *prediction_index;
    uint32_t n_prompt;
    void (*notify)(void *user);
    bool notify_prompt;
    void *user;

    /* the scheduler's */
    cerium_session *next_submitted;
    uint64_t ticket, last_pass;
    double share_ns;          /* its key's virtual time: the least goes first */
    uint32_t share;           /* of its key, in scheduler.shares */
    bool begun, prompt_done, is_parked;
    uint64_t fetch;           /* of what the disk has of its prompt: see engine_fetch */
    uint32_t furthest;        /* computed of the timeline at its best */
    uint64_t token_ns;        /* when the last token was there */
    cerium_logprob *chosen_top; /* [CERIUM_STEP_TOKENS_MAX][top_logprobs] of the slot */

    /* the ring */
    event_slot slots[EVENT_SLOTS];
    cerium_logprob *top;      /* [EVENT_SLOTS][top_logprobs] */
    char *text;               /* [text_bytes] a ring too; a step's text is in one piece */
    size_t text_bytes, text_at;
    bool is_viewed;           /* the reader's: slot `head` was given out */
    _Alignas(64) _Atomic uint32_t head;
    _Alignas(64) _Atomic uint32_t tail;
    _Atomic bool armed, parked;
    _Atomic bool is_over;     /* the scheduler has finished with it */
};

/* ---- the writer's side ---- */

/* Is there room for a step?  False: its reader is slow, and will wake the scheduler. */
bool request_has_room(request *r);
/* How many more steps fit. */
uint32_t request_room(const request *r);
/* Where the next step's text goes: [answer_text_max()]. */
char *request_text(request *r, size_t text_max);
/* Publish a step whose text was written there, or the end. */
void request_push(request *r, const event_slot *event, const cerium_logprob *top);

#endif
