/* words.h - identifiers of code in any language, and lines that define or import them. */
#ifndef SNIPPETS_WORDS_H
#define SNIPPETS_WORDS_H

#include "base/base.h"

/* A byte of an identifier; those of letters beyond ASCII count. */
bool word_has(char c);
/* The next identifier of text from *at on; *at becomes its end; numbers do not count.  False: there
 * are no more. */
bool word_next(view text, size_t *at, view *word);

/* Does the identifier [at, at + n) of its line look like a definition? */
bool word_is_defined_at(view line, size_t at, size_t n);
/* Does the line import names of other files? */
bool line_imports(view line);

#endif
