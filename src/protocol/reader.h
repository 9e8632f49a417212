/* reader.h - reads what a model samples, by its chat form: said, thought, or a tool called.
 *
 * The text is that of sessions with control_text, in any cuts; cuts change only when parts come
 * out, never which.  Whatever the model writes ends in parts: a call that is not in the form's
 * shape is text.  A call that the end of the answer cuts off is none: what was not yet certain to
 * be one is dropped, and one that was begun has no end.  Private to protocol/.  Fuzzed. */
#ifndef PROTOCOL_READER_H
#define PROTOCOL_READER_H

#include "base/base.h"
#include "base/memory.h"

typedef enum {
    READER_TEXT = 0,           /* more of what is said */
    READER_REASONING = 1,      /* more of a thought */
    READER_CALL = 2,           /* a tool is called: text is its name */
    READER_ARGUMENTS = 3,      /* more of the call's arguments: JSON, or free text for tools that
                                  take it */
    READER_CALL_END = 4,       /* the call is whole */
} reader_kind;

typedef struct {
    reader_kind kind;
    view text; /* valid during the call */
} reader_part;

/* Returns 0, or a negative cerium_status that ends the reading. */
typedef int reader_fn(void *user, const reader_part *part);

typedef struct reader reader;

/* chat_form: cerium_engine_info.chat_form, "" for the plain form.
 * tools: [n_tools] borrowed: types of parameters, and which take free text.  Where there are none,
 * nothing is a call: what looks like one is said. */
CERIUM_CHECKED int reader_open(reader **out, const char *chat_form, const cerium_tool *tools,
                               size_t n_tools);
void reader_free(reader **r);
/* The first of stops that is said ends the text before it, and the reading; in calls and thoughts
 * they are not looked for.  stops: [n_stops] borrowed, as cerium_sampling has them. */
void reader_set_stops(reader *r, const char *const *stops, uint32_t n_stops);
/* Which of them was said; NULL: none. */
const char *reader_stopped_by(const reader *r);

/* More text: parts that are certain now go to fn. */
CERIUM_CHECKED int reader_feed(reader *r, view text, reader_fn *fn, void *user);
/* No call is open, and none has begun. */
bool reader_is_outside(const reader *r);
/* No call is open, but a mark may have begun. */
bool reader_is_saying(const reader *r);
/* The answer ended: what was held back.  whole: the model ended it, and nothing else did. */
CERIUM_CHECKED int reader_end(reader *r, bool whole, reader_fn *fn, void *user);
/* After the end: it cut a call off, or what might have become one. */
bool reader_cut_call(const reader *r);

#endif
