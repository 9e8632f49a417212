/* go.h - packages of Go: the library of its toolchain, and the modules that a workspace requires.
 *
 * The root has "gPATH" for each package that was read, and for modules
 *   "mgPATH"   a go.mod of the workspace defines it: its packages come and go
 *   "dgPATH"   a go.mod requires it
 *   "wgPATH"   it was read whole: a missing package is in no version of it that counts
 * "g!": the toolchain's library was read.  "gm": the workspace has a go.mod. */
#ifndef EXISTS_GO_H
#define EXISTS_GO_H

#include "exists/code_file.h"
#include "exists/folders.h"

/* The name that code uses for an import path, unless the package has another: "math/rand/v2":
 * rand. */
view go_package_of(view path);
/* One file of the package `path`. */
void go_read(name_table *b, uint32_t module, view path, view text);
/* Calls for each line of a go.mod: require, replace and so on; version: "" if it has none. */
void go_mod_each(view text, void (*each)(void *user, view directive, view module, view version),
                 void *user);
/* The library of the toolchain `program`, and the modules that the go.mod files of the workspace
 * require, if they are in vendor/ or in Go's own cache. */
void go_modules(folders *f, const char *program, const char *root);

#endif
