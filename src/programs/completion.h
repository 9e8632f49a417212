/* completion.h - what a shell completes after `cerium`: scripts for bash, zsh and fish, made of the
 * tables that --help and the man page are made of. */
#ifndef PROGRAMS_COMPLETION_H
#define PROGRAMS_COMPLETION_H

#include "programs/command_line.h"

/* A command as it is typed: "serve", "wafer plan". */
typedef struct {
    const char *name;
    const char *what; /* one line; NULL: of a command within a command */
    const command_table *table;
} completion_command;

/* To standard output: a script for that shell.  False for a shell that is not known. */
bool completion_print(const char *shell, const completion_command *commands, size_t n);

#endif
