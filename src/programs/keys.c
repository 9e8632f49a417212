/* keys.c - `cerium keys`: API keys of a server, whether it runs or not. */
#include "programs/programs.h"

#include <jansson.h>
#include <openssl/crypto.h>

#include "programs/accounts.h"
#include "programs/options.h"
#include "programs/output.h"
#include "programs/terminal.h"
#include "store/key.h"

typedef struct {
    options o;
    const char *tier, *store_path, *config_path;
    policy *policy; /* owned, or NULL */
    store *store;
} account;

static const option_spec own[] = {
    {"tier", "TIER", "pro, team (the default), batch, or one of the configuration",
     TAKES_ANY(account, tier)},
    {"store", "FILE", "the server's store (default: that of the configuration, or CERIUM_STORE)",
     TAKES_TEXT(account, store_path)},
    {"config", "FILE", "the server's configuration", TAKES_TEXT(account, config_path)},
    {"json", .help = "print one JSON object"},
};
const command_table keys_command = {
    .name = "keys",
    .usage = "add NAME [--tier TIER]\nlist\nrevoke NAME\nrotate NAME",
    .about = "API keys of the servers that share a store, running or not. A change holds for all "
             "of them within a second. A server whose store has or had a key lets nobody in "
             "without one.\n\n"
             "  add NAME       make a key and print it, once\n"
             "  list           names, tiers, prefixes and dates; never keys\n"
             "  revoke NAME    the key stops working\n"
             "  rotate NAME    a new key in place of the old one, with its responses and usage",
    .groups = OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium keys add anna --tier pro --store cerium.db",
};

static json_t *key_json(const store_key *key)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", key->name, "tier", key->tier, "prefix",
                     key->prefix, "created_at", (json_int_t)key->created_at, "revoked_at",
                     key->revoked_at ? json_integer(key->revoked_at) : json_null());
}

/* Takes the reference; NULL = out of memory. */
static int print_json(json_t *object, cerium_error *err)
{
    RETURN_IF(output_json(object, JSON_COMPACT, err));
    return output_flush(err);
}

/* Print before storing: a key that could not be shown must not be stored. */
static int print_key(void *user, const store_key *key, const char *text, cerium_error *err)
{
    const account *a = user;
    if (a->o.json) {
        json_t *object = key_json(key);
        if (object) json_object_set_new(object, "key", json_string(text));
        return print_json(object, err);
    }
    printf("%s\n", text);
    RETURN_IF(output_flush(err));
    fprintf(stderr, "cerium: key '%s', tier %s; it is shown this once\n", key->name, key->tier);
    return CERIUM_OK;
}

/* A missing or existing key is not a usage error: exit status 1, not 2. */
static int refused(int status, cerium_error *err)
{
    if (status == CERIUM_ERR_ARGUMENT) err->status = CERIUM_ERR_IO;
    return status;
}

/* ---- commands: name is NULL for those without one ---- */

static int add(account *a, const char *name, cerium_error *err)
{
    policy standard, *p = a->policy;
    store_key key;
    char text[KEY_TEXT_BYTES];
    if (!p) policy_defaults(p = &standard);
    if (!policy_tier(p, a->tier))
        return error_set(err, CERIUM_ERR_ARGUMENT, "there is no tier '%s'%s", a->tier,
                         a->policy ? " in the configuration"
                                   : ": pro, team, batch, or one of --config FILE");
    const store_key_hearer hearer = {print_key, a};
    int status = store_key_add(a->store, name, a->tier, (int64_t)time(NULL), &hearer, &key, text,
                               err);
    OPENSSL_cleanse(text, sizeof text);
    return refused(status, err);
}

static int rotate(account *a, const char *name, cerium_error *err)
{
    store_key key;
    char text[KEY_TEXT_BYTES];
    const store_key_hearer hearer = {print_key, a};
    int status = store_key_rotate(a->store, name, &hearer, &key, text, err);
    OPENSSL_cleanse(text, sizeof text);
    return refused(status, err);
}

static int revoke(account *a, const char *name, cerium_error *err)
{
    RETURN_IF(refused(store_key_revoke(a->store, name, (int64_t)time(NULL), err), err));
    if (a->o.json) return print_json(json_pack("{s:s, s:b}", "name", name, "revoked", 1), err);
    fprintf(stderr, "cerium: key '%s' is revoked\n", name);
    return CERIUM_OK;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const store_key *)a)->id, y = ((const store_key *)b)->id;
    return (x > y) - (x < y);
}

static int list(account *a, const char *name, cerium_error *err)
{
    store_key *keys = NULL;
    size_t n = 0;
    (void)name;
    RETURN_IF(store_keys_read(a->store, &keys, &n, err));
    qsort(keys, n, sizeof *keys, by_id);
    int status = CERIUM_OK;
    if (a->o.json) {
        json_t *all = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(all, key_json(&keys[i]));
        status = print_json(json_pack("{s:o}", "keys", all), err);
    } else {
        printf("%-24s %-12s %-12s  %-10s  %s\n", "NAME", "TIER", "PREFIX", "CREATED", "REVOKED");
        for (size_t i = 0; i < n; i++) {
            char created[16], revoked[16] = "-";
            if (keys[i].revoked_at) accounts_date(revoked, keys[i].revoked_at / 86400);
            printf("%-24s %-12s %-12s  %-10s  %s\n", keys[i].name, keys[i].tier, keys[i].prefix,
                   accounts_date(created, keys[i].created_at / 86400), revoked);
        }
    }
    memory_free(keys);
    return status;
}

static const struct {
    const char *name;
    bool named, makes;
    int (*run)(account *a, const char *name, cerium_error *err);
} commands[] = {
    {"add", true, true, add},
    {"list", false, false, list},
    {"revoke", true, false, revoke},
    {"rotate", true, false, rotate},
};

static int run(account *a, int argc, char **argv, cerium_error *err)
{
    const char *names[ARRAY_LEN(commands)];
    if (argc < 1) return usage_error("keys", "say add, list, revoke or rotate");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        names[i] = commands[i].name;
        if (strcmp(commands[i].name, argv[0]) != 0) continue;
        if (commands[i].named && argc < 2)
            return usage_error("keys", "%s needs the NAME of a key", argv[0]);
        if (commands[i].named && !store_key_name_is_good(argv[1]))
            return usage_error("keys", "'%s' is not a key name: use 1 to %u letters, digits, and "
                               "-_.@+", argv[1], STORE_LABEL_BYTES_MAX);
        if (argc > 1 + commands[i].named)
            return usage_error("keys", "'%s' is one too many", argv[1 + commands[i].named]);
        int status = CERIUM_OK;
        if (a->config_path) status = accounts_policy(&a->policy, a->config_path, err);
        if (!status)
            status = accounts_store(&a->store, a->store_path, a->policy, commands[i].makes, err);
        if (!status) status = commands[i].run(a, argv[1], err);
        store_close(&a->store);
        memory_free(a->policy);
        return status ? failed(err) : 0;
    }
    const char *near = nearest_name(argv[0], names, ARRAY_LEN(names));
    if (near) return usage_error("keys", "there is no '%s'; did you mean %s?", argv[0], near);
    return usage_error("keys", "'%s' is not one of add, list, revoke and rotate", argv[0]);
}

int program_keys(int argc, char **argv)
{
    account a = {.tier = "team"};
    cerium_error err;
    RETURN_IF(command_parse(&keys_command, &a, argc, argv));
    return run(&a, argc - optind, argv + optind, &err);
}
