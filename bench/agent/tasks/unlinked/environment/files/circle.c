/* circle.c - the area of a circle. */
#include "circle.h"

#include <math.h>

double circle_area(double radius) { return acos(-1) * pow(radius, 2); }
