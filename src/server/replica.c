/* replica.c - the name of a server and values derived from it. */
#include "server/replica.h"

#include <openssl/sha.h>
#include <unistd.h>

static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool replica_name_is_good(const char *name)
{
    size_t n = strlen(name);
    return n && n < REPLICA_NAME_BYTES && strspn(name, good) == n;
}

/* A character not allowed in a header becomes '-'. */
static void machine_name(char out[REPLICA_NAME_BYTES])
{
    if (gethostname(out, REPLICA_NAME_BYTES)) out[0] = 0;
    out[REPLICA_NAME_BYTES - 1] = 0;
    for (char *at = out; *at; at++)
        if (!strchr(good, *at)) *at = '-';
}

void replica_name(replica *out, const char *name)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char machine[REPLICA_NAME_BYTES];
    *out = (replica){.tag = ""};
    if (!name) {
        machine_name(machine);
        name = machine;
    }
    if (!*name || !strcmp(name, "none")) return;
    CHECK(replica_name_is_good(name));
    SHA256((const unsigned char *)name, strlen(name), digest);
    for (int i = 0; i < REPLICA_TAG_BYTES / 2; i++)
        snprintf(out->tag + 2 * i, 3, "%02x", digest[i]);
    snprintf(out->field, sizeof out->field, "x-cerium-replica: %s\r\n", name);
}
