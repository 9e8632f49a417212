/* python.h - declarations shared by the readers of Python. */
#ifndef EXISTS_PYTHON_H
#define EXISTS_PYTHON_H

#include "exists/code_file.h"

/* The module's __getattr__, whose name is token i and whose head ends at `end`: does it accept only
 * names that can be read from its text?  Then add those. */
bool python_lazy(const code_file *s, uint32_t module, uint32_t i, uint32_t end);

#endif
