/* test_policy.c - configuration files: their values, and one line with the place of each fault. */
#include "server/policy.h"

#include "base/memory.h"
#include "unit.h"

static policy p;
static cerium_error err;

static int parse(const char *text) { return policy_parse(&p, view_of(text), "f.ini", &err); }

static void test_defaults(void)
{
    TEST_CHECK(parse("") == CERIUM_OK);
    TEST_CHECK(p.n_tiers == 3 && p.n_upstreams == 0 && p.n_settings == 0 && !p.key_tier[0]);
    const tier *t = policy_tier(&p, "pro");
    TEST_CHECK(t && t->price_input == 5000 && t->price_cached == 500 && t->price_output == 15000);
    TEST_CHECK(t && !t->requests_per_minute && !t->streams);
    TEST_CHECK(t && t->ceiling == CERIUM_CLASS_COMPLETION);
    TEST_CHECK(policy_tier(&p, "batch")->ceiling == CERIUM_CLASS_BATCH);
    TEST_CHECK(!policy_tier(&p, "nobody"));
}

static void test_all_keys(void)
{
    TEST_CHECK(parse("# comment\n\n[server]\nport = 8384\n  host = 10.0.0.1 ; ours\n"
                     "[limits]\nkey-tier = gold\nqueue-seconds = 20\n"
                     "load-seconds=5\nload-floor=10\n"
                     "[tier gold]\r\nrequests-per-minute = 60\r\ntokens-per-minute = 7000\r\n"
                     "deep-requests-per-minute = 6\ndeep-tokens-per-minute = 700\nstreams = 2\n"
                     "priority = edit\nprice-input = 1.25\nprice-cached = 0\nprice-output = 0.001\n"
                     "[upstream big]\nurl = https://gpu.example/v1/\nkey-env = BIG_KEY\n"
                     "model = large\nmodels = large, larger\neffort = high,xhigh\n"
                     "context-over = 8000\nqueue-over = 4\nresponses = no\nconnect-time = 1\n"
                     "first-time = 2\nidle-time = 3\nretries = 0\nfailures = 5\nrest-time = 6\n"
                     "health-time = 0\n") == CERIUM_OK);
    TEST_CHECK(p.n_settings == 2 && !strcmp(p.settings[1].name, "host"));
    TEST_CHECK(!strcmp(p.settings[1].value, "10.0.0.1") && p.settings[1].line == 5);
    const tier *t = policy_tier(&p, "gold");
    TEST_CHECK(t && t->requests_per_minute == 60 && t->tokens_per_minute == 7000);
    TEST_CHECK(t && t->deep_requests_per_minute == 6 && t->deep_tokens_per_minute == 700);
    TEST_CHECK(t && t->streams == 2 && t->ceiling == CERIUM_CLASS_EDIT);
    TEST_CHECK(t && t->price_input == 1250 && t->price_cached == 0 && t->price_output == 1);
    TEST_CHECK(!strcmp(p.key_tier, "gold") && p.queue_s == 20);
    TEST_CHECK(p.load_s == 5 && p.load_floor == 10);
    const upstream_policy *u = &p.upstreams[0];
    TEST_CHECK(p.n_upstreams == 1 && !strcmp(u->url, "https://gpu.example/v1"));
    TEST_CHECK(u->n_models == 2 && !strcmp(u->models[1], "larger") && !strcmp(u->model, "large"));
    TEST_CHECK(u->n_efforts == 2 && !strcmp(u->efforts[1], "xhigh") && !u->responses);
    TEST_CHECK(u->context_over == 8000 && u->queue_over_s == 4 && u->connect_s == 1);
    TEST_CHECK(u->first_s == 2 && u->idle_s == 3 && !u->retries && u->failures == 5);
    TEST_CHECK(u->rest_s == 6 && !u->health_s && !strcmp(u->key_env, "BIG_KEY"));
}

/* With separate stores each admits a part, and no limit becomes zero or unlimited. */
static void test_replicas(void)
{
    TEST_CHECK(parse("") == CERIUM_OK && p.replicas == 1);
    TEST_CHECK(parse("[limits]\nreplicas = 3\n[tier pro]\nrequests-per-minute = 600\n"
                     "tokens-per-minute = 1000\ndeep-requests-per-minute = 2\nstreams = 4\n") ==
               CERIUM_OK);
    TEST_CHECK(p.replicas == 3);
    const tier *t = policy_tier(&p, "pro");
    TEST_CHECK(t->requests_per_minute == 200 && t->tokens_per_minute == 334);
    TEST_CHECK(t->deep_requests_per_minute == 1 && t->streams == 2);
    TEST_CHECK(!t->deep_tokens_per_minute && !policy_tier(&p, "team")->streams);
    TEST_CHECK(parse("[tier pro]\nstreams = 5\n[limits]\nreplicas = 5\n") == CERIUM_OK);
    TEST_CHECK(policy_tier(&p, "pro")->streams == 1);
    TEST_CHECK(parse("[limits]\nreplicas = 0\n") == CERIUM_ERR_FORMAT);
    TEST_CHECK(strstr(err.message, "from 1 to 1000") != NULL);
}

static void test_faults(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"[tier pro]\nrequests = 5\n", "f.ini:2: [tier pro] has no key 'requests'"},
        {"[tier pro]\nstreams = many\n", "f.ini:2: 'many' is not a value for streams"},
        {"[tier pro]\nstreams = -1\n", "f.ini:2: '-1' is not a value"},
        {"[tier pro]\n\n\nstreams = 1\nstreams = 1\n", "f.ini:5: streams is given twice"},
        {"[tier pro]\nprice-input = 0.0001\n", "f.ini:2: '0.0001' is not a price"},
        {"[tier pro]\nprice-input = -1\n", "is not a price"},
        {"[tier pro]\nprice-input = nan\n", "is not a price"},
        {"[tier pro]\npriority = high\n", "completion, edit, turn or batch"},
        {"[tier a b]\nstreams = 1\n", "f.ini:2: 'a b' is not a name"},
        {"[teir pro]\nstreams = 1\n", "there is no section [teir pro]"},
        {"streams = 1\n", "f.ini:1: a line before the first [section]"},
        {"[tier pro]\nstreams\n", "f.ini:2: not `[section]` or `key = value`"},
        {"[tier pro\nstreams = 1\n", "f.ini:1: not `[section]`"},
        {"[limits]\nload-floor = 0\n", "from 1 to 100"},
        {"[limits]\nkey-tier = gold\n", "there is no [tier gold]"},
        {"[upstream x]\nretries = 1\n", "[upstream x] has no url"},
        {"[upstream x]\nurl = ftp://x\n", "is not an address"},
        {"[upstream x]\nurl = http://\n", "is not an address"},
        {"[upstream x]\nurl = http://////\n", "is not an address"},
        {"[upstream x]\nurl = http://u:p@h/\n", "is not an address"},
        {"[upstream x]\nurl = http://h\nkey-env = A\nkey-file = b\n", "give one"},
        {"[upstream x]\nurl = http://h\nresponses = maybe\n", "yes or no"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        TEST_CHECK_THAT(parse(bad[i].text) == CERIUM_ERR_FORMAT, "%s", bad[i].text);
        TEST_CHECK_THAT(strstr(err.message, bad[i].says), "%s", err.message);
        TEST_CHECK(!strchr(err.message, '\n'));
    }
}

static void test_limits(void)
{
    bytes text = {.max = 1 << 22};
    char line[256];
    static const char head[] = "[server]\n";
    memset(line, 'x', sizeof line);
    TEST_CHECK(!bytes_append(&text, head, sizeof head - 1) && !bytes_append(&text, line, 200));
    TEST_CHECK(policy_parse(&p, (view){text.ptr, text.len}, "f.ini", &err) == CERIUM_ERR_FORMAT);
    TEST_CHECK_THAT(strstr(err.message, "f.ini:2: longer than"), "%s", err.message);
    TEST_CHECK(policy_parse(&p, (view){"[server]\na = \0b\n", 16}, "f.ini", &err) ==
                   CERIUM_ERR_FORMAT && strstr(err.message, "f.ini:2: a NUL"));
    /* The maximal number of tiers and settings, and one more. */
    for (uint32_t n = POLICY_TIERS_MAX - 3; n <= POLICY_TIERS_MAX - 2; n++) {
        text.len = 0;
        for (uint32_t i = 0; i < n; i++) {
            int len = snprintf(line, sizeof line, "[tier t%u]\nstreams = 1\n", i);
            TEST_CHECK(!bytes_append(&text, line, (size_t)len));
        }
        int status = policy_parse(&p, (view){text.ptr, text.len}, "f.ini", &err);
        TEST_CHECK(status == (n + 3 > POLICY_TIERS_MAX ? CERIUM_ERR_FORMAT : CERIUM_OK));
    }
    bytes_free(&text);
}

int main(void)
{
    TEST_RUN(test_defaults);
    TEST_RUN(test_all_keys);
    TEST_RUN(test_replicas);
    TEST_RUN(test_faults);
    TEST_RUN(test_limits);
    return unit_report("policy");
}
