/* source.h - the producer of an answer: the engine here, or another server.
 *
 * A source reports by answers.h: answer_tell_begin(), text by the answer's writer, and choice_end()
 * or answer_end(). */
#ifndef SERVER_SOURCE_H
#define SERVER_SOURCE_H

#include "protocol/protocol.h"

typedef struct answer answer;
typedef struct choice choice;

typedef enum {
    LOOK_NOTHING = 0,
    LOOK_SOME = 1,
    LOOK_UNFINISHED = 2, /* the time was over; there may be more */
} look_result;

typedef struct {
    bool is_local;
    /* Its request, in place of prompts for the engine; NULL: prompts are made.  make() is called on
     * a thread, the store's if needs_store(); made() back on the loop.  CERIUM_ERR_ARGUMENT with
     * *e. */
    bool (*needs_store)(const answer *a);
    int (*make)(answer *a, bool *store_failed, protocol_error *e);
    int (*made)(answer *a, protocol_error *e);
    /* Its preparation is complete. */
    void (*start)(answer *a);
    /* Tell what came, at least one event, until end_ns. */
    look_result (*poll)(answer *a, uint64_t end_ns);
    /* A choice ended: what it used, into ch->usage. */
    void (*count)(choice *ch, protocol_end end);
    /* Keep what was said; false: the client wanted it stored and it could not be. */
    bool (*keep)(answer *a, view body);
    /* The model's name there, and the server's. */
    const char *(*model)(const answer *a);
    const char *(*name)(const answer *a);
    /* What it holds for the answer. */
    void (*release)(answer *a);
} source_type;

#endif
