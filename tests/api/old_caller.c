/* old_caller.c - a program that seems to be compiled when public structs had fewer fields: the
 * library neither reads nor writes beyond the old fields. */
#include <cerium.h>
#include <stdio.h>
#include <string.h>

enum { LATER = 24 }; /* bytes of fields that came after this program */

typedef struct {
    unsigned char own[sizeof(cerium_engine_config) - LATER];
    unsigned char after[64];
} old_config;

typedef struct {
    unsigned char own[sizeof(cerium_watch_config) - LATER];
    unsigned char after[64];
} old_watch;

typedef struct {
    unsigned char own[sizeof(cerium_engine_info) - 4 * sizeof(uint64_t)];
    unsigned char after[64];
} old_info;

static int overwritten(const unsigned char after[64])
{
    int n = 0;
    for (int i = 0; i < 64; i++) n += after[i] != 0xAA;
    return n;
}

/* Of a watch's configuration: the bytes after it would be read as a missing text. */
static int watch_is_good(const cerium_engine *engine)
{
    static old_watch config;
    cerium_watchdog *watchdog = NULL;
    cerium_watch *watch = NULL;
    cerium_error err = {0};
    memset(&config, 0xAA, sizeof config);
    cerium_watch_config *c = (cerium_watch_config *)(void *)&config;
    cerium_watch_config_defaults_sized(c, sizeof config.own);
    c->engine = engine;
    int status = cerium_watchdog_open(&watchdog, "rules", &err);
    if (!status) status = cerium_watch_open(&watch, watchdog, c, &err);
    if (status) fprintf(stderr, "%s\n", err.message);
    cerium_watch_close(&watch);
    cerium_watchdog_close(&watchdog);
    return !status && c->size == sizeof config.own && !overwritten(config.after);
}

int main(int argc, char **argv)
{
    static old_config config;
    static old_info info;
    cerium_engine *engine;
    cerium_error err;
    memset(&config, 0xAA, sizeof config);
    memset(&info, 0xAA, sizeof info);
    cerium_engine_config *c = (cerium_engine_config *)(void *)&config;
    cerium_engine_config_defaults_sized(c, sizeof config.own);
    if (argc != 2 || c->size != sizeof config.own || overwritten(config.after)) return 1;
    c->model_path = argv[1];
    c->cache = "off";
    /* The bytes after it are no field of ours: they would be a function to call. */
    if (cerium_engine_open(&engine, c, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    cerium_engine_describe_sized(engine, (cerium_engine_info *)(void *)&info, sizeof info.own);
    const cerium_engine_info *old = (const cerium_engine_info *)(const void *)&info;
    printf("%s: %d and %d bytes overwritten\n", old->architecture, overwritten(config.after),
           overwritten(info.after));
    int is_good = watch_is_good(engine) && overwritten(info.after) == 0;
    cerium_engine_close(&engine);
    return !is_good;
}
