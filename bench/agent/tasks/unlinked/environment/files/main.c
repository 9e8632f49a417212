/* main.c - prints the area of a circle of a radius. */
#include <stdio.h>
#include <stdlib.h>

#include "circle.h"

int main(int argc, char **argv)
{
    printf("%.2f\n", circle_area(argc > 1 ? atof(argv[1]) : 1));
    return 0;
}
