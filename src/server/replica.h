/* replica.h - identifies one of several equal servers: in a header and in the ids of answers. */
#ifndef SERVER_REPLICA_H
#define SERVER_REPLICA_H

#include "base/base.h"

enum {
    REPLICA_NAME_BYTES = 65,
    REPLICA_TAG_BYTES = 9,
    REPLICA_FIELD_BYTES = REPLICA_NAME_BYTES + 32,
};

/* Each is "" if the server has no name. */
typedef struct {
    char tag[REPLICA_TAG_BYTES];     /* the first 8 digits of the name's SHA-256, so that others can
                                        compute it; ids of answers begin with it */
    char field[REPLICA_FIELD_BYTES]; /* "x-cerium-replica: NAME\r\n" */
} replica;

/* Valid are 1 to 64 letters, digits, '.', '_' and '-'. */
bool replica_name_is_good(const char *name);

/* name: NULL is this machine's name, "none" means no name. */
void replica_name(replica *out, const char *name);

#endif
