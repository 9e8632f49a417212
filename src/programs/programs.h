/* programs.h - the subcommands: each takes its own argv (argv[0] is the subcommand's name) and
 * returns the exit status: 0, 1 for a failure, 2 for bad usage. */
#ifndef PROGRAMS_PROGRAMS_H
#define PROGRAMS_PROGRAMS_H

int program_inspect(int argc, char **argv);

#endif
