/* guest_main.c - the runner as a program: serves jobs that are separate programs. */
#include "sandbox/guest/guest.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    guest_job g;
    const char *at = argc > 1 ? argv[1] : "/sandbox/filter";
    if (!walls_open(at)) return 2;
    if (!exec_open_folder(argc > 2 ? argv[2] : "/sandbox/folder")) return 3;
    int got = guest_next(&g);
    return got == 1 ? exec_job(&g) : got ? 4 : 0;
}
