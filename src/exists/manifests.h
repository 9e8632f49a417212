/* manifests.h - declared requirements of a workspace, and its own modules. */
#ifndef EXISTS_MANIFESTS_H
#define EXISTS_MANIFESTS_H

#include "exists/folders.h"

/* package.json, requirements.txt, pyproject.toml and the like of a folder: "dpNAME", "djNAME". */
void manifests_read(folders *f, const char *folder);
/* Files of Python below the workspace: modules from its root and from src/; others are only known
 * names. */
void workspace_modules(folders *f, const char *root);

#endif
