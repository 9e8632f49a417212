/* accounts.c - finds the store, reads and writes dates. */
#include "programs/accounts.h"

#include <unistd.h>

#include "programs/options.h"

int accounts_policy(policy **out, const char *path, cerium_error *err)
{
    bytes text = {.max = POLICY_BYTES_MAX + 1};
    policy *p = memory_zalloc(1, sizeof *p);
    int status = p ? read_file(path, &text, err)
                   : error_set(err, CERIUM_ERR_MEMORY, "no memory for %s", path);
    if (!status) status = policy_parse(p, (view){text.ptr, text.len}, path, err);
    bytes_free(&text);
    if (status)
        memory_free(p);
    else
        *out = p;
    return status;
}

int accounts_store(store **out, const char *path, const policy *p, bool makes, cerium_error *err)
{
    const char *env = getenv("CERIUM_STORE");
    for (uint32_t i = 0; p && !path && i < p->n_settings; i++)
        if (!strcmp(p->settings[i].name, "store")) path = p->settings[i].value;
    if (!path && env && *env) path = env;
    if (!path && p)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "the configuration names no store: give --store FILE");
    if (!path)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no store: name that of the server with --store FILE or --config FILE");
    if (!makes && access(path, F_OK) != 0)
        return error_set(err, CERIUM_ERR_IO, "%s: there is no such store; `cerium keys add` and "
                         "`cerium serve --store` make one", path);
    return store_open(out, path, err);
}

const char *accounts_date(char out[16], int64_t day)
{
    struct tm utc;
    time_t seconds = (time_t)(day * 86400);
    if (!gmtime_r(&seconds, &utc) || !strftime(out, 16, "%Y-%m-%d", &utc)) snprintf(out, 16, "-");
    return out;
}

bool accounts_day(const char *text, int64_t *day)
{
    struct tm utc = {.tm_isdst = 0};
    char back[16];
    const char *end = strptime(text, "%Y-%m-%d", &utc);
    if (!end || *end) return false;
    time_t seconds = timegm(&utc);
    *day = (int64_t)seconds / 86400;
    return seconds >= 0 && !strcmp(accounts_date(back, *day), text); /* no 30th of February */
}

void accounts_csv(const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}
