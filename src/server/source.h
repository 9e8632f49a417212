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
    LOOK_UNFINISHED = 2, /* the time is over; there may be more events */
} look_result;

typedef struct {
    bool is_local;
    /* Makes its request, instead of prompts for the engine; NULL: prompts are made.  make() is
     * called on a thread, the store's if needs_store(); made() then on the loop.
     * CERIUM_ERR_ARGUMENT with *e. */
    bool (*needs_store)(const answer *a);
    int (*make)(answer *a, bool *store_failed, protocol_error *e);
    int (*made)(answer *a, protocol_error *e);
    /* Its preparation is complete. */
    void (*start)(answer *a);
    /* Handle new events, at least one, until end_ns. */
    look_result (*poll)(answer *a, uint64_t end_ns);
    /* A choice ended: write its usage to ch->usage. */
    void (*count)(choice *ch, protocol_end end);
    /* Store the turn; false: the client wanted it stored, and that failed. */
    bool (*keep)(answer *a, view body);
    /* The model's name at the source, and the server's. */
    const char *(*model)(const answer *a);
    const char *(*name)(const answer *a);
    /* Free its data of the answer. */
    void (*release)(answer *a);
} source_type;

#endif
