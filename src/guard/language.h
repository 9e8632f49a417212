/* language.h - which language a text is in, from the text itself. */
#ifndef GUARD_LANGUAGE_H
#define GUARD_LANGUAGE_H

#include "guard/guard.h"

/* From what is in the first lines; GUARD_TEXT when nothing speaks for any. */
guard_language language_detect(view text);

/* Of code that gives itself away in nothing: what it most likely is. */
guard_language language_guess(view text);

#endif
