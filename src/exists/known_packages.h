/* known_packages.h - widely used packages: one that is not installed is not a mistake in the
 * name. */
#ifndef EXISTS_KNOWN_PACKAGES_H
#define EXISTS_KNOWN_PACKAGES_H

#include "base/base.h"

/* letter: p for modules of Python, j for packages of node, c for headers of C and C++. */
bool known_has(char letter, view name);
/* Is it one of them but for one wrong letter, or two exchanged ones?  reqeusts, matplotib. */
bool known_is_slip(char letter, view name);
void known_each(char letter, bool (*each)(void *user, view name), void *user);

#endif
