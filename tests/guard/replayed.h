/* replayed.h - a recorded answer with its watch, as the server replays it: nothing is recorded
 * after a halt, so that each weak line gets its safe form or a refusal. */
#ifndef GUARD_REPLAYED_H
#define GUARD_REPLAYED_H

#include "forced.h"

enum { AGAIN_MAX = 64 };

typedef struct {
    bytes text; /* released */
    void (*finding)(void *user, const cerium_finding *f); /* or NULL */
    void *user;
    bool ended;
} replayed;

static inline void replay_take(replayed *a, const watch_result *out)
{
    (void)bytes_append(&a->text, out->text.ptr, out->text.len);
    for (uint32_t i = 0; a->finding && i < out->n_findings; i++)
        a->finding(a->user, &out->findings[i]);
    a->ended |= out->order == CERIUM_WATCH_END;
}

/* Feeds the text, token by token, until the order changes; *used: bytes of it. */
static inline int replay_say(watch *w, view text, cerium_stop stop, size_t *used, replayed *a,
                             cerium_watch_order *order)
{
    watch_result out = {.order = CERIUM_WATCH_GO};
    int32_t *tokens = memory_alloc((text.len + 16) * sizeof *tokens);
    size_t n = 0;
    int status = tokens ? CERIUM_OK : CERIUM_ERR_MEMORY;
    *used = 0;
    if (!status)
        status = cerium_tokenize(engine, text.ptr, text.len, CERIUM_TOKENIZE_WITHIN, tokens,
                                 text.len + 16, &n, NULL);
    for (size_t i = 0; !status && i < n && out.order == CERIUM_WATCH_GO; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(engine, tokens[i], &len);
        cerium_step step = {.n_tokens = 1, .tokens = {tokens[i]}, .text = piece, .text_len = len,
                            .text_ends = {(uint32_t)len},
                            .stop = i + 1 == n ? stop : CERIUM_STOP_NONE};
        status = watch_step(w, &step, NULL, 0, &out);
        if (!status) replay_take(a, &out);
        *used += len;
    }
    memory_free(tokens);
    *order = out.order;
    return status;
}

/* After a repair comes the text that followed the line. */
static inline int replay_answer(watch *w, view code, cerium_stop stop, replayed *a)
{
    bytes rest = {.max = SIZE_MAX / 2};
    watch_plan plan;
    watch_result out;
    cerium_watch_order order;
    size_t used;
    int status = bytes_append(&rest, code.ptr, code.len);
    for (int i = 0; i < AGAIN_MAX && !a->ended && !status; i++) {
        status = replay_say(w, (view){rest.ptr, rest.len}, stop, &used, a, &order);
        bytes next = {.max = SIZE_MAX / 2};
        view left = {rest.ptr + used, rest.len - used};
        if (!status && order == CERIUM_WATCH_GO) {
            status = watch_finish(w, &out);
            if (status) break;
            replay_take(a, &out);
            order = out.order;
            if (order == CERIUM_WATCH_GO) a->ended = true;
        }
        watch_retry(w, &plan);
        if (!status && order == CERIUM_WATCH_RETRY && plan.repaired)
            status = bytes_append(&next, plan.after.ptr, plan.after.len);
        if (!status) status = bytes_append(&next, left.ptr, left.len);
        bytes_free(&rest);
        rest = next;
    }
    bytes_free(&rest);
    return status;
}

#endif
