/* ids.c - 128 random bits each. */
#include "server/ids.h"

#include <string.h>
#include <sys/random.h>

void make_id(char out[SERVER_ID_BYTES], const char *prefix)
{
    unsigned char random[16];
    size_t n = strlen(prefix);
    CHECK(n + 33 <= SERVER_ID_BYTES);
    CHECK(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
    memcpy(out, prefix, n);
    for (size_t i = 0; i < sizeof random; i++) {
        out[n + 2 * i] = "0123456789abcdef"[random[i] >> 4];
        out[n + 2 * i + 1] = "0123456789abcdef"[random[i] & 15];
    }
    out[n + 2 * sizeof random] = 0;
}

void make_tagged_id(char out[SERVER_ID_BYTES], const char *prefix, const char *tag)
{
    const size_t n = strlen(tag);
    CHECK(n <= 16); /* half of the digits stay random */
    make_id(out, prefix);
    memcpy(out + strlen(prefix), tag, n);
}
