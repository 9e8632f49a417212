/* words.h - identifiers of code, whatever its language, and lines that define or import them. */
#ifndef SNIPPETS_WORDS_H
#define SNIPPETS_WORDS_H

#include "base/base.h"

/* A byte of an identifier; those of letters beyond ASCII count. */
bool word_has(char c);
/* The next identifier of text from *at on, which goes behind it; numbers are none.  False: there
 * is none any more. */
bool word_next(view text, size_t *at, view *word);

/* Does the identifier [at, at + n) of its line look like one that is defined there? */
bool word_is_defined_at(view line, size_t at, size_t n);
/* Does the line name what the file takes from others? */
bool line_imports(view line);

#endif
