/* tenant_quota.c - the limits of a tier on the event loop, and the journal. */
#include "server/tenant_quota.h"

#include <time.h>

#include "server/tenant_keys.h"
#include "server/admission.h"
#include "server/answers.h"
#include "store/metered.h"

enum {
    PROMPT_MINUTES_MAX = 5, /* a prompt may use the tokens of this many */
    SHARE_LEAST = 8,        /* an answer without a cap begins with this part of a minute */
};

/* For the local model; 0..1000.  An upstream's load is separate. */
static uint32_t load_of(const server *s)
{
    uint64_t full_ms = (uint64_t)s->config.policy->load_s * 1000;
    uint64_t wait_ms = admission_wait_ms(s, CERIUM_CLASS_TURN);
    return wait_ms >= full_ms ? 1000 : (uint32_t)(wait_ms * 1000 / full_ms);
}

static uint32_t rate_of(const server *s, uint32_t rate, bool deep)
{
    return deep ? rate : rates_under_load(rate, load_of(s), s->config.policy->load_floor);
}

static uint32_t request_rate(const answer *a)
{
    const tier *t = a->quota.tier;
    return rate_of(a->s, a->quota.deep ? t->deep_requests_per_minute : t->requests_per_minute,
                   a->quota.deep);
}

static uint32_t token_rate(const answer *a)
{
    const tier *t = a->quota.tier;
    return rate_of(a->s, a->quota.deep ? t->deep_tokens_per_minute : t->tokens_per_minute,
                   a->quota.deep);
}

static bucket *word(const answer *a, live_bucket which)
{
    return live_word(a->s->live, a->quota.place,
                     a->quota.deep ? which + (LIVE_DEEP_REQUESTS - LIVE_REQUESTS) : which);
}
_Static_assert(LIVE_DEEP_REQUESTS - LIVE_REQUESTS == LIVE_DEEP_TOKENS - LIVE_TOKENS, "as above");

bool tenant_quota_report(const answer *a, rates_report *out)
{
    uint64_t now = clock_ns();
    if (!a->quota.tier) return false;
    *out = (rates_report){.requests = rates_state(word(a, LIVE_REQUESTS), now, request_rate(a)),
                        .tokens = rates_state(word(a, LIVE_TOKENS), now, token_rate(a)),
                        .refused = a->quota.refused,
                        .plan = a->quota.tier->name,
                        .start_ms = a->quota.start_ms};
    return true;
}

/* 429: the exceeded limit, and the time to retry. */
static int refuse(answer *a, const char *what, uint32_t limit, uint64_t wait_ns, protocol_error *e)
{
    uint64_t wait_s = (wait_ns + UINT64_C(999999999)) / UINT64_C(1000000000);
    if (wait_s > UINT32_MAX) wait_s = UINT32_MAX;
    a->quota.refused = true;
    (void)protocol_error_set(e, 429, "rate_limit_error", "rate_limit_exceeded", "",
                             "Rate limit reached for %s in tier %s: limit %u; please try again in "
                             "%llus",
                             what, a->quota.tier->name, limit,
                             (unsigned long long)(wait_s ? wait_s : 1));
    e->retry_after_s = wait_s ? (uint32_t)wait_s : 1;
    metrics_count(&a->s->metrics, METRICS_LIMITED, 1);
    return CERIUM_ERR_ARGUMENT;
}

static int take(answer *a, live_bucket which, const char *what, uint32_t rate, uint64_t n,
                protocol_error *e)
{
    if (!rate) return CERIUM_OK;
    uint64_t wait = bucket_take(word(a, which), clock_ns(), bucket_cost(n, rate));
    return wait ? refuse(a, what, rate, wait, e) : CERIUM_OK;
}

static int find_tier(answer *a, protocol_error *e)
{
    tenant_state *t = tenant_keys_entry(a->s, a->tenant);
    if (!t) return protocol_error_memory(e);
    if (!t->tier)
        return protocol_error_set(e, 403, "invalid_request_error", "tier_not_configured", "",
                                  "the tier of this API key is not in the server's configuration");
    t->place = live_place(a->s->live, t->id, t->place, clock_ns());
    a->quota.tier = t->tier;
    a->quota.place = t->place;
    return CERIUM_OK;
}

/* In the order of how easily each is returned, the request last: once taken, it is not returned. */
static int take_all(answer *a, protocol_error *e)
{
    const tier *t = a->quota.tier;
    uint32_t rate = token_rate(a);
    if (!live_reserve(a->s->live)) {
        (void)protocol_error_set(e, 503, "server_error", "usage_not_recorded", "",
                                 "the store takes no usage; please try again in 5s");
        e->retry_after_s = 5;
        return CERIUM_ERR_ARGUMENT;
    }
    a->quota.reserved = true;
    if (!live_stream_begin(a->s->live, a->quota.place, t->streams))
        return refuse(a, "concurrent streams", t->streams, admission_answer_ns(a->s), e);
    a->quota.streaming = true;
    /* One token: an empty bucket is found before a prompt is made. */
    uint64_t wait = rate ? bucket_wait(word(a, LIVE_TOKENS), clock_ns(), bucket_cost(1, rate)) : 0;
    if (wait) return refuse(a, "tokens per minute", rate, wait, e);
    uint32_t requests = request_rate(a);
    RETURN_IF(take(a, LIVE_REQUESTS, "requests per minute", requests, 1, e));
    a->quota.counted = requests;
    return CERIUM_OK;
}

int tenant_quota_enter(answer *a, protocol_error *e)
{
    RETURN_IF(find_tier(a, e));
    if (a->request->class_ < a->quota.tier->ceiling) a->request->class_ = a->quota.tier->ceiling;
    if (!a->quota.deep) a->quota.start_ms = admission_wait_ms(a->s, a->request->class_);
    RETURN_IF(admission_check(a, e));
    int status = take_all(a, e);
    if (status) tenant_quota_leave(a);
    return status;
}

int tenant_quota_enter_deep(answer *a, protocol_error *e)
{
    bool deep = a->quota.deep;
    a->quota.deep = false; /* the amount is returned where it was taken */
    tenant_quota_leave(a);
    a->quota.deep = deep;
    return tenant_quota_enter(a, e);
}

/* The amount to take for an answer at admission, without its prompt. */
typedef struct {
    uint64_t tokens; /* of all of its texts together */
    uint64_t least;  /* the amount that must be available, if that is more */
    bool is_share;   /* it names no cap that can be kept: the granted amount becomes one */
} reservation;

/* Tokens that an answer's texts may have by its request; UINT64_MAX: no limit. */
static uint64_t asked_for(const answer *a, uint64_t n_prompt)
{
    uint64_t each = answer_cap(a);
    if (each == UINT32_MAX) return UINT64_MAX;
    /* An answer cannot exceed the context.  Other servers' contexts are not known. */
    uint64_t room = a->model->info.context_tokens_max;
    if (a->n_prompts == 1 && n_prompt < room) room -= n_prompt;
    return (!a->quota.deep && each > room ? room : each) * a->n_choices;
}

/* Grant the requested tokens, now or when they are available.  A request without a cap, or with
 * more than a minute allows beside the prompt, gets half of what is left, so that others of its key
 * can begin; but only if that is enough to begin with. */
static reservation reserve(const answer *a, uint64_t n_prompt)
{
    const uint64_t rate = a->quota.rate, n = a->n_choices, asked = asked_for(a, n_prompt);
    /* A prompt of more than a minute's tokens takes a full bucket, and so does its answer. */
    const bool indebted = n_prompt >= rate;
    const uint64_t minute = indebted ? rate : rate - n_prompt;
    if (asked <= minute) return (reservation){.tokens = asked};
    uint64_t left = rates_state(word(a, LIVE_TOKENS), clock_ns(), (uint32_t)rate).remaining;
    left = indebted ? rate : left > n_prompt ? left - n_prompt : 0;
    const uint64_t each = left / 2 / n;
    return (reservation){.tokens = (each ? each : 1) * n,
                         .least = minute / SHARE_LEAST,
                         .is_share = true};
}

int tenant_quota_charge(answer *a, uint64_t n_tokens, protocol_error *e)
{
    const uint32_t rate = a->quota.rate = token_rate(a);
    if (!rate) return CERIUM_OK;
    if (bucket_cost(n_tokens, rate) > PROMPT_MINUTES_MAX * BUCKET_NS)
        return protocol_error_set(e, 429, "rate_limit_error", "request_too_large", "",
                                  "Request too large for tokens per minute in tier %s: limit %u, "
                                  "requested %llu; at most five minutes' tokens are taken at once",
                                  a->quota.tier->name, rate, (unsigned long long)n_tokens);
    const reservation out = reserve(a, n_tokens);
    const uint64_t needed = n_tokens + (out.least > out.tokens ? out.least : out.tokens);
    uint64_t wait = bucket_wait(word(a, LIVE_TOKENS), clock_ns(), bucket_cost(needed, rate));
    if (wait) return refuse(a, "tokens per minute", rate, wait, e);
    RETURN_IF(take(a, LIVE_TOKENS, "tokens per minute", rate, n_tokens + out.tokens, e));
    a->quota.charged = n_tokens + out.tokens;
    if (out.is_share) a->request->new_tokens_max = (uint32_t)(out.tokens / a->n_choices);
    return CERIUM_OK;
}

/* It was refused, or never metered: nothing was used. */
static void refund(answer *a)
{
    if (a->quota.counted)
        bucket_settle(word(a, LIVE_REQUESTS), clock_ns(),
                      -(int64_t)bucket_cost(1, a->quota.counted));
    if (a->quota.charged && a->quota.rate)
        bucket_settle(word(a, LIVE_TOKENS), clock_ns(),
                      -(int64_t)bucket_cost(a->quota.charged, a->quota.rate));
}

void tenant_quota_leave(answer *a)
{
    if (a->quota.reserved) refund(a); /* tenant_quota_meter() settles the usage */
    if (a->quota.streaming) live_stream_end(a->s->live, a->quota.place);
    if (a->quota.reserved) live_unreserve(a->s->live);
    a->quota.streaming = a->quota.reserved = false;
    a->quota.charged = a->quota.counted = 0;
}

void tenant_quota_meter(answer *a, const metrics_used *u, const char *model)
{
    if (!a->quota.reserved) return;
    /* Cached tokens do not count against the limit: they cost almost nothing. */
    uint64_t used = u->prompt - u->reused + u->generated;
    if (a->quota.rate) {
        int64_t more = (int64_t)bucket_cost(used, a->quota.rate) -
                       (int64_t)bucket_cost(a->quota.charged, a->quota.rate);
        bucket_settle(word(a, LIVE_TOKENS), clock_ns(), more);
    }
    live_record record = {.tenant = a->tenant,
                          .day = (uint32_t)(time(NULL) / 86400),
                          .requests = 1,
                          .input_tokens = (uint32_t)u->prompt,
                          .cached_tokens = (uint32_t)u->reused,
                          .output_tokens = (uint32_t)u->generated,
                          .nanodollars = rates_price(a->quota.tier, u->prompt, u->reused,
                                                     u->generated)};
    snprintf(record.model, sizeof record.model, "%s", model);
    a->quota.reserved = false;
    live_add(a->s->live, &record);
    tenant_quota_leave(a);
}
