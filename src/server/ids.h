/* ids.h - names of answers and requests. */
#ifndef SERVER_IDS_H
#define SERVER_IDS_H

#include "base/base.h"
#include "base/limits.h"

/* "prefix" and 32 random hexadecimal digits. */
void make_id(char out[SERVER_ID_BYTES], const char *prefix);
/* The same, where a tag of at most 16 digits takes the place of the first ones. */
void make_tagged_id(char out[SERVER_ID_BYTES], const char *prefix, const char *tag);

#endif
