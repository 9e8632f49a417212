/* fuzz_policy.c - a configuration file of any bytes.
 *
 * It is refused in one line that names it, or its values are within their bounds; read again, it
 * gives the same. */
#include "server/policy.h"

#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const policy *p)
{
    CHECK(p->n_tiers >= 3 && p->n_tiers <= POLICY_TIERS_MAX);
    CHECK(p->n_upstreams <= POLICY_UPSTREAMS_MAX && p->n_settings <= POLICY_SETTINGS_MAX);
    CHECK(p->load_s && p->load_floor && p->load_floor <= 100);
    CHECK(!p->key_tier[0] || policy_tier(p, p->key_tier));
    for (uint32_t i = 0; i < p->n_tiers; i++) {
        CHECK(policy_name_is_good(p->tiers[i].name));
        CHECK(policy_tier(p, p->tiers[i].name) == &p->tiers[i]);
        CHECK(p->tiers[i].ceiling < CERIUM_CLASSES && p->tiers[i].price_input <= 1000000000);
    }
    for (uint32_t i = 0; i < p->n_upstreams; i++) {
        const upstream_policy *u = &p->upstreams[i];
        CHECK(policy_name_is_good(u->name) && !strncmp(u->url, "http", 4) &&
              strlen(u->url) > 7);
        CHECK(u->url[strlen(u->url) - 1] != '/' && u->connect_s && u->n_models <= POLICY_NAMES_MAX);
        for (uint32_t k = 0; k < u->n_models; k++) CHECK(u->models[k][0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static policy first, second;
    cerium_error err = {0}, again = {0};
    view text = {(const char *)data, size};
    int status = policy_parse(&first, text, "fuzz.ini", &err);
    if (status)
        CHECK(view_starts(view_of(err.message), VIEW("fuzz.ini:")) && !strchr(err.message, '\n'));
    else
        check(&first);
    CHECK(policy_parse(&second, text, "fuzz.ini", &again) == status);
    CHECK(status ? !strcmp(err.message, again.message) : !memcmp(&first, &second, sizeof first));
    return 0;
}
