/* quality.c - measures the error of a model's arithmetic: see quality.h. */
#include "programs/quality.h"

#include <math.h>

enum { TEXT_BYTES_MAX = 1 << 20, WINDOW = 512, TOKENS_MAX = 1024, SCORE_TOKENS = 32 };

typedef struct {
    int32_t tokens[TOKENS_MAX], likeliest[TOKENS_MAX];
    float logprobs[TOKENS_MAX];
    size_t n;
} scores;

static int score_windows(cerium_session *session, size_t window, scores *s, cerium_error *err)
{
    for (size_t at = 0; at < s->n; at += window)
        RETURN_IF(cerium_session_score_top(session, s->tokens + at,
                                           s->n - at < window ? s->n - at : window,
                                           s->logprobs + at, s->likeliest + at, err));
    return CERIUM_OK;
}

static int score_by(cerium_engine *engine, view text, size_t *window, scores *s, cerium_error *err)
{
    const cerium_session_config config = {.score_tokens_max = SCORE_TOKENS};
    cerium_engine_info info;
    cerium_session *session = NULL;
    int32_t *tokens = NULL;
    cerium_engine_describe(engine, &info);
    *window = info.context_tokens_max < WINDOW ? info.context_tokens_max : WINDOW;
    RETURN_IF(encode(engine, text, CERIUM_TOKENIZE_BEGIN, &tokens, &s->n, err));
    if (s->n > TOKENS_MAX) s->n = TOKENS_MAX;
    memcpy(s->tokens, tokens, s->n * sizeof *tokens);
    memory_free(tokens);
    int status = cerium_session_open(&session, engine, &config, err);
    if (!status) status = score_windows(session, *window, s, err);
    cerium_session_close(&session);
    return status;
}

static int score(const options *o, view text, size_t *window, scores *s, cerium_error *err)
{
    cerium_engine *engine = NULL;
    int status = options_engine(o, &engine, 1, err);
    if (!status) status = score_by(engine, text, window, s, err);
    cerium_engine_close(&engine);
    return status;
}

/* Of all tokens except the first of a window, which has no context. */
static quality compare(const scores *have, const scores *exact, size_t window)
{
    quality q = {.n_tokens = 0};
    double squares = 0;
    for (size_t i = 0; i < have->n; i++) {
        if (i % window == 0) continue;
        const double above = (double)exact->logprobs[i] - (double)have->logprobs[i];
        q.n_tokens++;
        q.nats += above;
        squares += above * above;
        q.apart += fabs(above);
        q.same += have->likeliest[i] == exact->likeliest[i];
    }
    const double n = (double)q.n_tokens;
    q.nats /= n, q.apart /= n, q.same /= n;
    q.nats_error = sqrt(fmax(0, squares / n - q.nats * q.nats) / n);
    return q;
}

int quality_measure(const options *o, const char *path, quality *out, cerium_error *err)
{
    options floats = *o;
    bytes text = {.max = TEXT_BYTES_MAX};
    size_t window = 0;
    scores *s = memory_zalloc(2, sizeof *s);
    floats.exact = true;
    floats.kv = "f32";
    int status = s ? read_file(path, &text, err)
                   : error_set(err, CERIUM_ERR_MEMORY, "no memory for scores");
    if (!status) status = score(o, (view){text.ptr, text.len}, &window, &s[0], err);
    if (!status && (s->n < 2 || window < 2))
        status = error_set(err, CERIUM_ERR_ARGUMENT, "%s: too short to score", path);
    if (!status) status = score(&floats, (view){text.ptr, text.len}, &window, &s[1], err);
    if (!status) *out = compare(&s[0], &s[1], window);
    bytes_free(&text);
    memory_free(s);
    return status;
}

void quality_print(const quality *q)
{
    printf("quality        %+9.4f nats a token above floats (+- %.4f), the likeliest token the "
           "same in %.1f %%,\n                         log-probabilities %.4f apart, over %llu "
           "tokens\n",
           q->nats, q->nats_error, 100 * q->same, q->apart, (unsigned long long)q->n_tokens);
}

json_t *quality_json(const quality *q)
{
    return json_pack("{s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)q->n_tokens,
                     "nats_above_floats", q->nats, "nats_standard_error", q->nats_error,
                     "likeliest_the_same", q->same, "logprob_error", q->apart);
}
