/* python.h - what the files that read Python share. */
#ifndef EXISTS_PYTHON_H
#define EXISTS_PYTHON_H

#include "exists/code_file.h"

/* The module's __getattr__, whose name is token i and whose head ends at `end`: does it answer
 * only to names that can be read off it?  Then those are added. */
bool python_lazy(const code_file *s, uint32_t module, uint32_t i, uint32_t end);

#endif
