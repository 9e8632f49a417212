#!/bin/sh
# make_man.sh - the man page: man/cerium.1.in with the tables of the commands, as printed by the
# program.
#
#   tools/make_man.sh CERIUM >man/cerium.1
"$1" --mdoc | sed -e '/^@COMMANDS@$/{
r /dev/stdin
d
}' "$(dirname "$0")/../man/cerium.1.in"
