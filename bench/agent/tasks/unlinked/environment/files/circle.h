/* circle.h - the area of a circle. */
double circle_area(double radius);
