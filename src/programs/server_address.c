/* server_address.c - the address and the headers; a key is never printed. */
#include "programs/server_address.h"

#include <curl/curl.h>
#include <strings.h>

enum { KEY_BYTES_MAX = 4096 };

static bool add(struct curl_slist **headers, const char *line)
{
    struct curl_slist *more = curl_slist_append(*headers, line);
    if (more) *headers = more;
    return more != NULL;
}

bool server_address_is_url(const char *url)
{
    CURLU *parsed = curl_url();
    bool is_http = !strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8);
    const CURLUcode code = parsed ? curl_url_set(parsed, CURLUPART_URL, url, 0)
                                  : CURLUE_OUT_OF_MEMORY;
    curl_url_cleanup(parsed);
    return is_http && (!code || code == CURLUE_OUT_OF_MEMORY); /* it fails again where it is used */
}

int server_address_take(char out[SERVER_ADDRESS_BYTES], struct curl_slist **headers,
                        const char *url, cerium_error *err)
{
    const char *key = getenv("CERIUM_API_KEY");
    char line[KEY_BYTES_MAX + 64];
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    if (!server_address_is_url(url))
        return error_set(err, CERIUM_ERR_ARGUMENT, "--server %.100s: give an address, as "
                         "http://127.0.0.1:8383", url);
    if (n >= SERVER_ADDRESS_BYTES)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--server: the address is too long");
    if (key && (strpbrk(key, "\r\n") || strlen(key) > KEY_BYTES_MAX))
        return error_set(err, CERIUM_ERR_ARGUMENT, "CERIUM_API_KEY is no key");
    memcpy(out, url, n);
    out[n] = 0;
    snprintf(line, sizeof line, "Authorization: Bearer %s", key ? key : "");
    if (add(headers, "Content-Type: application/json") && add(headers, "Expect:") &&
        (!key || !*key || add(headers, line)))
        return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for a connection");
}
