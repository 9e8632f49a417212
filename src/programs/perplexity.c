/* perplexity.c - `cerium perplexity`: how well a model predicts a text. */
#include "programs/programs.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <unistd.h>

#include "programs/options.h"
#include "programs/output.h"
#include "programs/terminal.h"

enum { TEXT_BYTES_MAX = 256 << 20, SCORE_TOKENS = 32 };

typedef struct {
    options o;
    uint32_t window, windows;
    const char *scores; /* file, or NULL */
    FILE *to;           /* it, open */
    uint64_t n_scored, bytes_scored, n_windows;
    double sum, sum_squares; /* of -logprob */
} perplexity;

static bool take_exact(void *program, const char *value)
{
    perplexity *p = program;
    (void)value;
    p->o.exact = true;
    if (!p->o.kv) p->o.kv = "f32";
    return true;
}

static const option_spec own[] = {
    {"window", "N", "tokens of a window (default 512, at most the context)",
     TAKES_U32(perplexity, window, 2, 1 << 24)},
    {"windows", "N", "at most N windows (default: the whole text)",
     TAKES_U32(perplexity, windows, 1, 1 << 30)},
    {"exact", NULL,
     "compute in floats, KV cache included: slow, four bytes a weight. The difference to the "
     "default is what 8-bit arithmetic costs",
     TAKES_CALL(take_exact)},
    {"scores", "FILE",
     "write every scored token as a line: its id, its log-probability, and the id of the likeliest "
     "token",
     TAKES_TEXT(perplexity, scores)},
    {"prompt", .help = "the text itself"},
    {"file", .help = "the text; - is standard input"},
};
const command_table perplexity_command = {
    .name = "perplexity",
    .usage = "[OPTIONS] [-f FILE | FILE]",
    .about = "Cut a text into windows, score the second half of each given the first (the first "
             "window is scored whole), and print the perplexity with its standard error, and bits "
             "a byte.",
    .groups = OPTIONS_ENGINE | OPTIONS_PROMPT | OPTIONS_JSON,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium perplexity -f src/base/memory.c",
};

static void count(perplexity *p, const cerium_engine *engine, int32_t token, float logprob,
                  int32_t likeliest)
{
    size_t len;
    if (p->to) fprintf(p->to, "%d %.9g %d\n", token, (double)logprob, likeliest);
    cerium_token_bytes(engine, token, &len);
    p->n_scored++;
    p->bytes_scored += len;
    p->sum -= (double)logprob;
    p->sum_squares += (double)logprob * (double)logprob;
}

/* Windows advance by half their length, so that every scored token has half a window of context. */
static int score_all(perplexity *p, const cerium_engine *engine, cerium_session *session,
                     const int32_t *tokens, size_t n, float *logprobs, cerium_error *err)
{
    int32_t *likeliest = (int32_t *)(void *)(logprobs + p->window);
    size_t scored = 1; /* the first token has nothing before it */
    for (size_t at = 0; scored < n; at += p->window / 2) {
        size_t len = n - at < p->window ? n - at : p->window;
        RETURN_IF(cerium_session_score_top(session, tokens + at, len, logprobs,
                                           p->to ? likeliest : NULL, err));
        for (; scored < at + len; scored++)
            count(p, engine, tokens[scored], logprobs[scored - at], likeliest[scored - at]);
        p->n_windows++;
        progress_show("%zu of %zu tokens, perplexity %.3f", scored, n,
                    exp(p->sum / (double)p->n_scored));
        if (p->windows && p->n_windows == p->windows) break;
    }
    progress_clear();
    return CERIUM_OK;
}

static int print_result(const perplexity *p, cerium_error *err)
{
    double n = (double)p->n_scored, mean = p->sum / n;
    double deviation = sqrt(fmax(0, p->sum_squares / n - mean * mean) / n);
    double bits = p->bytes_scored ? p->sum / log(2) / (double)p->bytes_scored : 0;
    if (p->o.json) {
        json_t *all = json_pack("{s:f, s:f, s:f, s:f, s:I, s:I, s:i}", "perplexity", exp(mean),
                                "standard_error", exp(mean) * deviation, "nats_per_token", mean,
                                "bits_per_byte", bits, "tokens", (json_int_t)p->n_scored, "bytes",
                                (json_int_t)p->bytes_scored, "window", (int)p->window);
        return output_json(all, JSON_INDENT(2), err);
    }
    printf("perplexity %.4f +- %.4f, %.4f bits a byte over %llu tokens in windows of %u\n",
           exp(mean), exp(mean) * deviation, bits, (unsigned long long)p->n_scored, p->window);
    return CERIUM_OK;
}

static int open_scores(perplexity *p, cerium_error *err)
{
    if (p->scores && !(p->to = fopen(p->scores, "w")))
        return error_set(err, CERIUM_ERR_IO, "%s: %s", p->scores, strerror(errno));
    return CERIUM_OK;
}

static int run(perplexity *p, const char *path, cerium_engine *engine, cerium_error *err)
{
    cerium_engine_info info;
    cerium_session *session = NULL;
    int32_t *tokens = NULL;
    float *logprobs = NULL;
    size_t n = 0;
    bytes text = {.max = TEXT_BYTES_MAX};
    cerium_engine_describe(engine, &info);
    if (p->window > info.context_tokens_max)
        return error_set(err, CERIUM_ERR_ARGUMENT, "--window %u: the context has %u tokens",
                         p->window, info.context_tokens_max);
    cerium_session_config config = {.score_tokens_max = SCORE_TOKENS};
    const size_t n_prompt = p->o.prompt ? strlen(p->o.prompt) : 0;
    int status = p->o.prompt ? bytes_append(&text, p->o.prompt, n_prompt)
                             : read_file(path, &text, err);
    if (!status)
        status = encode(engine, (view){text.ptr, text.len}, CERIUM_TOKENIZE_BEGIN, &tokens, &n,
                        err);
    if (!status && n < 2)
        status = error_set(err, CERIUM_ERR_ARGUMENT, "%s: too short to score",
                           p->o.prompt ? "the text" : path);
    if (!status) status = cerium_session_open(&session, engine, &config, err);
    /* Log-probabilities, then the likeliest tokens. */
    if (!status && !(logprobs = memory_zalloc(2 * (size_t)p->window, sizeof *logprobs)))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for scores");
    if (!status) status = open_scores(p, err);
    if (!status) status = score_all(p, engine, session, tokens, n, logprobs, err);
    if (p->to && (ferror(p->to) | fclose(p->to)) && !status)
        status = error_set(err, CERIUM_ERR_IO, "%s: not written", p->scores);
    if (!status) status = print_result(p, err);
    cerium_session_close(&session);
    memory_free(logprobs);
    memory_free(tokens);
    bytes_free(&text);
    return status;
}

int program_perplexity(int argc, char **argv)
{
    perplexity p = {.window = 512};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(command_parse(&perplexity_command, &p, argc, argv));
    if (optind < argc && p.o.prompt_file)
        return usage_error("perplexity", "FILE and -f exclude each other");
    const char *path = optind < argc ? argv[optind++] : p.o.prompt_file;
    if (path && p.o.prompt) return usage_error("perplexity", "a text by -p or a file, not both");
    if (!path) path = "-";
    if (optind < argc) return usage_error("perplexity", "one text at a time");
    int status = options_engine(&p.o, &engine, 1, &err);
    if (!status) status = run(&p, path, engine, &err);
    cerium_engine_close(&engine);
    return status ? failed(&err) : 0;
}
