/* completion.h - completion scripts of `cerium` for bash, zsh and fish, made from the same tables
 * as --help and the man page. */
#ifndef PROGRAMS_COMPLETION_H
#define PROGRAMS_COMPLETION_H

#include "programs/command_line.h"

/* A command as it is typed: "serve", "wafer plan". */
typedef struct {
    const char *name;
    const char *what; /* one line; NULL: of a command within a command */
    const command_table *table;
} completion_command;

/* Print the script for a shell to standard output.  False for an unknown shell. */
bool completion_print(const char *shell, const completion_command *commands, size_t n);

#endif
