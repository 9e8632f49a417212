/* c-number-format.c - a number in a command. */
#include <stdio.h>
#include <stdlib.h>
void compress(int level)
{
    char cmd[64];
    snprintf(cmd, sizeof cmd, "gzip -%d out.tar", level);
    system(cmd);
}
