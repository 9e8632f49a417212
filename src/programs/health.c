/* health.c - `cerium health`: asks a server whether it takes requests, for scripts, containers and
 * service managers. */
#include "programs/programs.h"

#include <curl/curl.h>
#include <jansson.h>
#include <time.h>

#include "base/memory.h"
#include "programs/options.h"
#include "programs/server_address.h"

enum { ANSWER_BYTES_MAX = 64 << 10, URL_BYTES = 2048, TRY_MS = 100 };
#define HEALTH_URL "http://127.0.0.1:8383"

typedef struct {
    options o;
    const char *ca_file;
    bool live, quiet;
    uint32_t timeout_s, wait_s;
} asking;

static const option_spec own[] = {
    {"live", NULL, "ask whether it answers at all (/health/live), not whether it takes requests",
     TAKES_FLAG(asking, live)},
    {"wait", "S", "ask again until it is ready, for at most S seconds (default 0: once)",
     TAKES_U32(asking, wait_s, 0, 86400)},
    {"timeout", "S", "seconds that an answer may take (default 3)",
     TAKES_U32(asking, timeout_s, 1, 3600)},
    {"ca", "FILE", "certificates to trust for https, PEM (default: those of this machine)",
     TAKES_TEXT(asking, ca_file)},
    {"quiet", NULL, "print nothing; the exit status says it", TAKES_FLAG(asking, quiet)},
};
const command_table health_command = {
    .name = "health",
    .usage = "[OPTIONS] [URL]",
    .about = "Ask a server whether it takes requests: exit status 0, or 1 when it is busy, shuts "
             "down, or does not answer. URL is where it listens (default " HEALTH_URL "), or where "
             "its metrics are (--metrics-listen); neither needs a key. No proxy is asked.",
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium health --wait 60 http://127.0.0.1:9383",
};

static size_t on_body(char *text, size_t size, size_t n, void *user)
{
    return bytes_append(user, text, size * n) ? 0 : size * n;
}

/* The word in the answer: "ok", "busy", "shutting down"; or the number of the status line. */
static void word_of(const bytes *body, long code, char out[64])
{
    json_t *root = body->len ? json_loadb(body->ptr, body->len, 0, NULL) : NULL;
    const char *word = json_string_value(json_object_get(root, "status"));
    if (word)
        snprintf(out, 64, "%s", word);
    else
        snprintf(out, 64, "status %ld", code);
    json_decref(root);
}

/* One request.  True: the server is ready; said: its answer or the error. */
static bool ask(const asking *a, const char *url, char why[CURL_ERROR_SIZE])
{
    bytes body = {.max = ANSWER_BYTES_MAX};
    CURL *easy = curl_easy_init();
    long code = 0;
    why[0] = 0;
    if (!easy) {
        snprintf(why, CURL_ERROR_SIZE, "out of memory");
        return false;
    }
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)a->timeout_s);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    if (a->ca_file) curl_easy_setopt(easy, CURLOPT_CAINFO, a->ca_file);
    CURLcode failed_with = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_cleanup(easy);
    if (failed_with && !why[0])
        snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(failed_with));
    if (!failed_with) word_of(&body, code, why);
    bytes_free(&body);
    return !failed_with && code == 200;
}

/* A URL without a path is a server's. */
static bool make_url(const asking *a, const char *why, char out[URL_BYTES])
{
    size_t len = strlen(why);
    if (!server_address_is_url(why)) return false;
    while (why[len - 1] == '/') len--;
    const char *host = strstr(why, "://") + 3;
    bool has_path = memchr(host, '/', (size_t)(why + len - host)) != NULL;
    int n = snprintf(out, URL_BYTES, "%.*s%s", (int)len, why,
                     has_path ? "" : a->live ? "/health/live" : "/health/ready");
    return n > 0 && n < URL_BYTES;
}

int program_health(int argc, char **argv)
{
    asking a = {.timeout_s = 3};
    char url[URL_BYTES], why[CURL_ERROR_SIZE];
    RETURN_IF(command_parse(&health_command, &a, argc, argv));
    if (argc - optind > 1)
        return usage_error("health", "'%s' is one too many", argv[optind + 1]);
    const char *where = optind < argc ? argv[optind] : HEALTH_URL;
    if (!make_url(&a, where, url))
        return usage_error("health", "'%s' is not an address: write http://HOST:PORT", where);
    const uint64_t end_ns = clock_ns() + a.wait_s * UINT64_C(1000000000);
    bool is_well = ask(&a, url, why);
    while (!is_well && clock_ns() < end_ns) {
        struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
        nanosleep(&pause, NULL);
        is_well = ask(&a, url, why);
    }
    if (a.quiet) return is_well ? 0 : EXIT_FAILED;
    if (is_well)
        printf("%s: %s\n", url, why);
    else
        fprintf(stderr, "cerium: %s: %s\n", url, why);
    return is_well ? 0 : EXIT_FAILED;
}
