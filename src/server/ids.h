/* ids.h - names of answers and requests. */
#ifndef SERVER_IDS_H
#define SERVER_IDS_H

#include "base/base.h"
#include "base/limits.h"

/* "prefix" and 32 random hexadecimal digits. */
void make_id(char out[SERVER_ID_BYTES], const char *prefix);

#endif
