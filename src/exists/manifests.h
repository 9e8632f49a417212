/* manifests.h - what a workspace says that it needs, and the modules that it has itself. */
#ifndef EXISTS_MANIFESTS_H
#define EXISTS_MANIFESTS_H

#include "exists/folders.h"

/* package.json, requirements.txt, pyproject.toml and the like of a folder: "dpNAME", "djNAME". */
void manifests_read(folders *f, const char *folder);
/* Files of Python below the workspace: modules from its root and from src/, and else names that are
 * there. */
void workspace_modules(folders *f, const char *root);

#endif
