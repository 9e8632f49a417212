/* sandbox_parts.h - shared by the files of this folder. */
#ifndef SANDBOX_SANDBOX_PARTS_H
#define SANDBOX_SANDBOX_PARTS_H

#include "sandbox/sandbox.h"

/* The program inside, and its parts: see guest/. */
typedef struct {
    const char *place; /* its path in the sandbox */
    view content;
} guest_file;

enum { GUEST_FILES = 5 };
void guest_files(guest_file out[GUEST_FILES]);

/* The allowed system calls of a variant, as a BPF program, in a file in memory.
 * Returns its descriptor; -1 with *err. */
int filter_open(cerium_error *err);
/* A file in memory with these bytes, positioned at its beginning; -1: there is no memory. */
int memory_file(view content);

#endif
