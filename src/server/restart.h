/* restart.h - a text whose session is restarted: its earlier usage, and the rest of a recorded
 * text. */
#ifndef SERVER_RESTART_H
#define SERVER_RESTART_H

#include "server/state.h"

/* Before a restart: add the usage so far. */
void choice_keep_usage(choice *ch);
/* The total usage, from the usage since the last restart. */
void choice_whole_usage(const choice *ch, cerium_usage *usage);

/* Append the text of the rest of its script. */
CERIUM_CHECKED int choice_script_text(const choice *ch, bytes *out);
/* Set its script; an empty text means none. */
CERIUM_CHECKED int choice_say(choice *ch, view text);
/* The part of a script after the end of its open thought. */
CERIUM_CHECKED int choice_skip_thought(choice *ch, view end);

#endif
