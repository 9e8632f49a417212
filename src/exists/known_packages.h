/* known_packages.h - packages that many people use: one of them that is not installed is no
 * mistake of the name. */
#ifndef EXISTS_KNOWN_PACKAGES_H
#define EXISTS_KNOWN_PACKAGES_H

#include "base/base.h"

/* letter: p for modules of Python, j for packages of node, c for headers of C and C++. */
bool known_has(char letter, view name);
/* Is it one of them, but for one letter, or two that are exchanged?  reqeusts, matplotib. */
bool known_is_slip(char letter, view name);
void known_each(char letter, bool (*each)(void *user, view name), void *user);

#endif
