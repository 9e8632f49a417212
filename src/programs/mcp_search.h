/* mcp_search.h - where a name is defined and used in the files of a folder. */
#ifndef PROGRAMS_MCP_SEARCH_H
#define PROGRAMS_MCP_SEARCH_H

#include "base/memory.h"

/* Places of the whole word, definitions first, each with the lines around it, at most `most` of
 * them; *n: how many there are.  Files that git ignores, long ones and those that are no text are
 * passed over. */
CERIUM_CHECKED int mcp_search(const char *folder, view name, uint32_t most, bytes *out,
                              uint32_t *n, cerium_error *err);

#endif
