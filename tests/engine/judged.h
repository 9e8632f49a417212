/* judged.h - sessions of recurrent models, with logits that are compared with those of a timeline
 * computed from its beginning. */
#ifndef TESTS_JUDGED_H
#define TESTS_JUDGED_H

#include "engine/engine.h"

#include "../unit/unit.h"

static cerium_engine *judge; /* its sessions share nothing */
static uint64_t fresh_tenant = 1000;
static uint32_t n_vocab;
static int32_t begins; /* a control token that begins a message */

static inline cerium_session *session_for(cerium_engine *e, uint64_t tenant)
{
    cerium_session *s = NULL;
    cerium_error err;
    cerium_session_config config = {.tenant = tenant};
    TEST_CHECK_THAT(cerium_session_open(&s, e, &config, &err) == 0, "%s", err.message);
    return s;
}

/* Logits after tokens [n], computed from the beginning, are those of the session. */
static inline bool is_as_from_the_beginning(const cerium_session *s, const int32_t *tokens,
                                            uint32_t n)
{
    cerium_session *fresh = session_for(judge, ++fresh_tenant);
    cerium_sync_result result;
    TEST_CHECK(cerium_session_sync(fresh, tokens, n, &result, NULL) == 0);
    TEST_CHECK(result.tokens_reused == 0);
    const float *a = cerium_session_logits(s, NULL), *b = cerium_session_logits(fresh, NULL);
    bool same = a && b && !memcmp(a, b, n_vocab * sizeof *a);
    cerium_session_close(&fresh);
    return same;
}

/* One more message, of n_more tokens. */
static inline void say(int32_t *tokens, uint32_t *n, uint32_t n_more, uint32_t seed)
{
    tokens[(*n)++] = begins;
    for (uint32_t i = 0; i < n_more; i++)
        tokens[(*n)++] = (int32_t)((i * 2654435761u + seed * 40503u) % 250);
}

#endif
