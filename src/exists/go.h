/* go.h - packages of Go: the library of its toolchain, and the modules that a workspace requires.
 *
 * The root has "gPATH" for each package that was read, and of modules
 *   "mgPATH"   a go.mod of the workspace is of it: its packages come and go
 *   "dgPATH"   a go.mod requires it
 *   "wgPATH"   it was read whole: a package that is not there is in no version of it that counts
 * "g!": the toolchain's library was read.  "gm": the workspace has a go.mod. */
#ifndef EXISTS_GO_H
#define EXISTS_GO_H

#include "exists/code_file.h"
#include "exists/folders.h"

/* The name that code uses for an import path if the package has no other: "math/rand/v2": rand. */
view go_package_of(view path);
/* One file of the package `path`. */
void go_read(name_table *b, uint32_t module, view path, view text);
/* Each line of a go.mod: require, replace and so on; version: "" where there is none. */
void go_mod_each(view text, void (*each)(void *user, view directive, view module, view version),
                 void *user);
/* The library of the toolchain `program`, and what the go.mod files of the workspace require, as
 * far as it lies in vendor/ or in Go's own cache. */
void go_modules(folders *f, const char *program, const char *root);

#endif
