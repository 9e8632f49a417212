/* verify.c - `cerium verify`: computes a recorded answer again in other ways; its tokens and digest
 * must be the same. */
#include "programs/programs.h"

#include "programs/download.h"
#include "programs/options.h"
#include "protocol/record.h"

typedef struct {
    options o;
} verify;

const command_table verify_command = {
    .name = "verify",
    .usage = "[OPTIONS] FILE|-",
    .about = "Repeat the answer that FILE records (cerium run --record, or an answer of the server "
             "to a request with \"cerium_digest\": \"record\") in other ways: another "
             "number of threads, passes of other sizes, with drafts and without, a narrower "
             "instruction set, a prompt from the cache. Exit status 0: all have its tokens and "
             "the bits of its logits. 1: one has not, and from which token on.",
    .groups = OPTIONS_ENGINE,
    .examples = "cerium run --quiet --record answer.json -p 'def f(x):'\n"
                "cerium verify answer.json\n"
                "curl -s localhost:8383/v1/responses/resp_... | cerium verify -",
};

/* How to repeat the answer.  Options of the command line have priority. */
typedef struct {
    const char *what;
    uint32_t threads, batch;
    bool drafts, cached;
    const char *cpu;
} way;

static const way ways[] = {
    {"one thread, passes of 16 tokens, no drafts", 1, 16, false, false, NULL},
    {"two threads, passes of 256 tokens, drafts", 2, 256, true, false, NULL},
    {"the same, its prompt from the cache", 2, 256, true, true, NULL},
#if defined(__x86_64__)
    {"one thread, AVX2", 1, 64, false, false, "avx2"},
#endif
};

static int print_difference(const way *w, const char *what, size_t at)
{
    printf("different  %s: %s %zu\n", w->what, what, at + 1);
    return 1;
}

/* *differs: the answers differ. */
static int repeat(cerium_session *s, const record *r, const way *w, int *differs,
                  cerium_error *err)
{
    const cerium_resume begin = {.heal_prefix = r->heal_prefix, .n_heal = r->n_heal};
    unsigned char digest[CERIUM_DIGEST_BYTES];
    RETURN_IF(cerium_session_resume(s, r->prompt, r->n_prompt, &begin, NULL, err));
    for (size_t n = 0; n < r->n_tokens;) {
        cerium_step step;
        cerium_sampling sampling = r->sampling;
        size_t left = r->n_tokens - n;
        sampling.step_tokens_max = left < CERIUM_STEP_TOKENS_MAX ? (uint32_t)left
                                                                 : CERIUM_STEP_TOKENS_MAX;
        RETURN_IF(cerium_session_step(s, &sampling, &step, err));
        for (uint32_t i = 0; i < step.n_tokens; i++, n++) {
            if (step.tokens[i] != r->tokens[n])
                *differs = print_difference(w, "another token,", n);
            else if (step.digests[i] != r->marks[n])
                *differs = print_difference(w, "other logits for token", n);
            if (*differs) return CERIUM_OK;
        }
        if (step.stop != CERIUM_STOP_NONE && n < r->n_tokens) {
            *differs = print_difference(w, "it ends after token", n - 1);
            return CERIUM_OK;
        }
    }
    RETURN_IF(cerium_session_digest(s, digest, err));
    if (memcmp(digest, r->digest, sizeof digest)) {
        printf("different  %s: the digest is not that of its tokens and marks\n", w->what);
        *differs = 1;
        return CERIUM_OK;
    }
    printf("equal      %s\n", w->what);
    return CERIUM_OK;
}

/* For a record that has no SHA-256. */
static int check_fingerprint(const cerium_engine *engine, const record *r, cerium_error *err)
{
    cerium_engine_info info;
    cerium_engine_describe(engine, &info);
    if (r->sha256[0] || info.fingerprint == r->fingerprint) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT, "the answer is of another model: the fingerprint of "
                     "%s is %016llx, that of the record %016llx; name the model with -m", info.name,
                     (unsigned long long)info.fingerprint, (unsigned long long)r->fingerprint);
}

static int try_way(const verify *v, const record *r, const way *w, int *differs, cerium_error *err)
{
    options o = v->o;
    cerium_engine *engine = NULL;
    cerium_session *s = NULL;
    o.kv = r->kv_type;
    o.exact = r->exact;
    if (!o.threads) o.threads = w->threads;
    if (!o.batch) o.batch = w->batch;
    if (!o.cpu) o.cpu = w->cpu;
    o.no_speculation |= !w->drafts;
    int status = options_engine(&o, &engine, 2, err);
    if (!status) status = check_fingerprint(engine, r, err);
    if (!status) status = cerium_session_open(&s, engine, NULL, err);
    if (!status && w->cached) status = cerium_session_sync(s, r->prompt, r->n_prompt, NULL, err);
    if (!status && w->cached) {
        cerium_session_close(&s);
        status = cerium_session_open(&s, engine, NULL, err);
    }
    if (!status) status = repeat(s, r, w, differs, err);
    cerium_session_close(&s);
    cerium_engine_close(&engine);
    return status;
}

static int check_model(const verify *v, const record *r, cerium_error *err)
{
    char sha256[DOWNLOAD_SHA_DIGITS + 1];
    const char *path = options_model(&v->o);
    if (!path)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no model: name one with -m FILE.gguf or CERIUM_MODEL");
    RETURN_IF(options_model_check(path, err));
    if (!r->sha256[0]) return CERIUM_OK;
    RETURN_IF(download_hash(path, sha256, err));
    if (strcmp(sha256, r->sha256) == 0) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT, "the answer is of another model: the SHA-256 of %s is "
                     "%s, that of the record %s; name the model with -m", path, sha256, r->sha256);
}

static int verify_one(const verify *v, const record *r, int *differs, cerium_error *err)
{
    int status = check_model(v, r, err);
    for (size_t i = 0; i < ARRAY_LEN(ways) && !status && !*differs; i++)
        status = try_way(v, r, &ways[i], differs, err);
    if (!status && !*differs) printf("%zu tokens, the same bits each time\n", r->n_tokens);
    return status;
}

static int read_records(record_list *out, const char *path, cerium_error *err)
{
    bytes text = {.max = RECORD_BYTES_MAX};
    const char *wrong;
    int status = read_file(path, &text, err);
    if (!status && record_read(out, (view){text.ptr ? text.ptr : "", text.len}, &wrong))
        status = error_set(err, CERIUM_ERR_FORMAT, "%s: no record: %s", path, wrong);
    bytes_free(&text);
    return status;
}

int program_verify(int argc, char **argv)
{
    verify v = {.o = {.n_tokens = 0}};
    record_list list = {.n = 0};
    cerium_error err;
    int differs = 0;
    RETURN_IF(command_parse(&verify_command, &v, argc, argv));
    if (argc - optind != 1) return usage_error("verify", "one FILE, or - for standard input");
    int status = read_records(&list, argv[optind], &err);
    for (size_t i = 0; i < list.n && !status && !differs; i++)
        status = verify_one(&v, &list.all[i], &differs, &err);
    record_list_free(&list);
    return status ? failed(&err) : differs;
}
