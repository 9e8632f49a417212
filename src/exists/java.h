/* java.h - the classes that a JDK has itself.
 *
 * The root has "vPACKAGE" ("vjava.util") with the names of classes, those within another with a
 * dollar ("Map$Entry"); "v!": they were read. */
#ifndef EXISTS_JAVA_H
#define EXISTS_JAVA_H

#include "exists/names.h"

/* What the text of a lib/modules has; false: it is none. */
bool java_image_read(name_table *b, view file);
/* Those of the JDK whose bin/java `program` is. */
void java_classes(name_table *b, const char *program);

#endif
