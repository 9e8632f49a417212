/* mcp_search.h - searches of agents in the files of a folder: where a name is defined and used, and
 * which code is similar to a text. */
#ifndef PROGRAMS_MCP_SEARCH_H
#define PROGRAMS_MCP_SEARCH_H

#include "base/memory.h"

/* Places of the whole word, definitions first, each with the lines around it, at most `most` of
 * them; *n: how many there are.  Ignored files, long ones and binary ones are skipped. */
CERIUM_CHECKED int mcp_search(const char *folder, view name, uint32_t most, bytes *out,
                              uint32_t *n, cerium_error *err);
/* The pieces of code files that share most of the text's rare identifiers and add to it, with the
 * definitions of its names; nothing from `path` (or NULL).  Files as above. */
CERIUM_CHECKED int mcp_related(const char *folder, view text, const char *path, bytes *out,
                               uint32_t *n, cerium_error *err);

#endif
