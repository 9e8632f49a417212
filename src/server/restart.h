/* restart.h - a text whose session is started again: what it used before, and what is left of a
 * recorded text. */
#ifndef SERVER_RESTART_H
#define SERVER_RESTART_H

#include "server/state.h"

/* Before it is started again: what it used is kept. */
void choice_keep_usage(choice *ch);
/* What it used in all, of what it used since then. */
void choice_whole_usage(const choice *ch, cerium_usage *usage);

/* The text of what is left of its script, appended. */
CERIUM_CHECKED int choice_script_text(const choice *ch, bytes *out);
/* This is its script from now on; with no text it has none. */
CERIUM_CHECKED int choice_say(choice *ch, view text);
/* The part of a script after the end of its open thought. */
CERIUM_CHECKED int choice_skip_thought(choice *ch, view end);

#endif
