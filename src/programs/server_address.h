/* server_address.h - a server that a program uses: its address, and the headers of requests. */
#ifndef PROGRAMS_SERVER_ADDRESS_H
#define PROGRAMS_SERVER_ADDRESS_H

#include "base/base.h"

enum { SERVER_ADDRESS_BYTES = 1024 };

struct curl_slist;

/* Is it "http://HOST[:PORT][/...]", or https? */
bool server_address_is_url(const char *url);

/* The address given by --server, without slashes at its end, and the headers of JSON requests to
 * it, with the key of CERIUM_API_KEY if set; the caller frees them with curl_slist_free_all().
 * CERIUM_ERR_ARGUMENT: not an HTTP address, or not a key; CERIUM_ERR_MEMORY. */
CERIUM_CHECKED int server_address_take(char out[SERVER_ADDRESS_BYTES],
                                       struct curl_slist **headers, const char *url,
                                       cerium_error *err);

#endif
