/* language.h - which language a text is in, from the text itself. */
#ifndef GUARD_LANGUAGE_H
#define GUARD_LANGUAGE_H

#include "guard/guard.h"

/* From the first lines; GUARD_TEXT if nothing suggests a language. */
guard_language language_detect(view text);

/* For code without any mark: the most likely language. */
guard_language language_guess(view text);

#endif
