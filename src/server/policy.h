/* policy.h - the configuration file: tiers, prices, upstreams, and options of the server.
 *
 * INI, read by libinih.  Pure: from bytes to a struct, without a file or a clock.  docs/service.md
 * describes the keys. */
#ifndef SERVER_POLICY_H
#define SERVER_POLICY_H

#include "base/base.h"
#include "base/limits.h"

enum { POLICY_TEXT_BYTES = POLICY_LINE_BYTES_MAX + 1 };

typedef char policy_name[POLICY_NAME_BYTES_MAX + 1];

/* The rights of a key.  A limit of 0 means none. */
typedef struct {
    policy_name name;
    uint32_t requests_per_minute, tokens_per_minute; /* of the local model */
    uint32_t deep_requests_per_minute, deep_tokens_per_minute; /* of upstreams */
    uint32_t streams;          /* concurrent answers */
    cerium_class ceiling;      /* the best class of its requests */
    char guard[POLICY_TEXT_BYTES]; /* actions on weak lines, as in `--guard`, words separated by
                                      commas; "" = the server's */
    bool guard_loosens;        /* its requests may be less strict */
    uint64_t price_input, price_cached, price_output; /* billionths of a dollar for a token, that
                                                         is thousandths of a dollar a million */
} tier;

/* Another server with an OpenAI API, and the requests to send there. */
typedef struct {
    policy_name name;
    char url[POLICY_TEXT_BYTES];      /* "https://host/v1", without a '/' at the end */
    char key_env[POLICY_TEXT_BYTES];  /* environment variable with its key, or "" */
    char key_file[POLICY_TEXT_BYTES]; /* file with its key, or "" */
    char model[POLICY_TEXT_BYTES];    /* its name for the model; "" = that of the request */
    char models[POLICY_NAMES_MAX][POLICY_TEXT_BYTES]; /* [n_models] requests for these are sent
                                                       * there */
    uint32_t n_models;
    policy_name efforts[POLICY_NAMES_MAX]; /* [n_efforts] reasoning.effort values sent there */
    uint32_t n_efforts;
    uint32_t context_over;            /* longer prompts are sent there; 0 = never */
    uint32_t queue_over_s;            /* requests with a longer predicted wait are sent there; 0 =
                                       * never */
    bool responses;                   /* it has the Responses API; else only Chat Completions */
    char budget[POLICY_TEXT_BYTES];   /* Chat's field for a budget of thoughts; "no": none */
    uint32_t connect_s, first_s, idle_s; /* to connect; to the first byte; between two */
    uint32_t retries;                 /* retries before the first byte */
    uint32_t failures, rest_s;        /* after this many failures in a row: it is skipped for so
                                       * long */
    uint32_t health_s;                /* between checks of its health; 0 = none */
} upstream_policy;

/* An option of `cerium serve`, by its long name. */
typedef struct {
    char name[POLICY_TEXT_BYTES], value[POLICY_TEXT_BYTES];
    uint32_t line;
} policy_setting;

typedef struct policy {
    policy_setting settings[POLICY_SETTINGS_MAX]; /* [n_settings] in their order */
    uint32_t n_settings;
    tier tiers[POLICY_TIERS_MAX];    /* [n_tiers]; the first three are pro, team and batch */
    uint32_t n_tiers;
    upstream_policy upstreams[POLICY_UPSTREAMS_MAX]; /* [n_upstreams] in their order */
    uint32_t n_upstreams;
    policy_name key_tier;            /* for the keys of --api-key, and for a server without keys; ""
                                        = no limits, the standard prices */
    uint32_t queue_s;                /* a request with a longer predicted wait is refused; 0 =
                                      * never */
    uint32_t replicas;               /* number of independent stores: limits of tiers are already
                                        divided by it */
    uint32_t load_s;                 /* this wait counts as full load, ... */
    uint32_t load_floor;             /* ... at which limits shrink to this many percent */
} policy;

/* The policy without a file: the three tiers, without limits, at the standard prices. */
void policy_defaults(policy *out);

/* Read `text`; name: of the file, for messages.  *out is overwritten, also on error.
 * CERIUM_ERR_FORMAT: "FILE:LINE: what, what to do". */
CERIUM_CHECKED int policy_parse(policy *out, view text, const char *name, cerium_error *err);

/* NULL when there is no such name. */
const tier *policy_tier(const policy *p, const char *name);
/* Letters, digits, '-', '_', '.', at most POLICY_NAME_BYTES_MAX. */
bool policy_name_is_good(const char *name);

#endif
