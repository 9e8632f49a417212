/* java.h - the classes of a JDK.
 *
 * The root has "vPACKAGE" ("vjava.util") with the names of classes, nested ones with a dollar
 * ("Map$Entry"); "v!": they were read. */
#ifndef EXISTS_JAVA_H
#define EXISTS_JAVA_H

#include "exists/names.h"

/* The classes in the text of a lib/modules; false: it is not one. */
bool java_image_read(name_table *b, view file);
/* The classes of the JDK with bin/java `program`. */
void java_classes(name_table *b, const char *program);

#endif
