/* sandbox_parts.h - what the files of this folder share. */
#ifndef SANDBOX_SANDBOX_PARTS_H
#define SANDBOX_SANDBOX_PARTS_H

#include "sandbox/sandbox.h"

/* The program that is inside, and its parts: see guest/. */
typedef struct {
    const char *place; /* where it is in the sandbox */
    view content;
} guest_file;

enum { GUEST_FILES = 4 };
void guest_files(guest_file out[GUEST_FILES]);

/* The system calls that a variant may make, as a program of the kernel's, into a file in memory.
 * Returns its descriptor; -1 with *err. */
int filter_open(cerium_error *err);
/* A file in memory with these bytes, at its beginning; -1 when there is no memory. */
int memory_file(view content);

#endif
