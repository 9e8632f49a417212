/* run.c - `cerium run`: a completion, one chat turn, or a conversation in the terminal. */
#include "programs/programs.h"

#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "programs/accounts.h"
#include "programs/download.h"
#include "programs/generate.h"
#include "programs/output.h"
#include "programs/talk.h"
#include "programs/variants.h"
#include "protocol/record.h"
#include "server/upstream_ask.h"

enum { PROMPT_BYTES_MAX = 64 << 20, TOP_MAX = 100 };

typedef struct {
    options o;
    bool chat, raw, quiet, deep, whole_tokens;
    const char *record;
    const char *system, *upstream, *policy_path;
    uint32_t top, best_of;
    watchdog watchdog;
} run;

static bool take_upstream(void *program, const char *value)
{
    run *r = program;
    r->deep = true;
    return option_text(value, &r->upstream);
}

/* clang-format off */
static const option_spec own[] = {
    {"tokens", .help = "generate at most N tokens (default 256)"},
    {"chat", NULL, "use the chat form; the default where the model has one", TAKES_FLAG(run, chat)},
    {"raw", NULL, "continue the text as it is", TAKES_FLAG(run, raw)},
    {"system", "TEXT", "system message of a chat", TAKES_ANY(run, system)},
    {"no-healing", NULL,
     "continue after the last token of the prompt. Without this a prompt may end within a token: "
     "its last token is taken off, and the first new one must spell it (token healing)",
     TAKES_FLAG(run, whole_tokens)},
    {"best-of", "N",
     "sample N answers at once (up to 64, seeds count up from --seed) and show the one with the "
     "highest mean log-probability; needs --temp above 0. With --json all of them, best first",
     TAKES_U32(run, best_of, 1, VARIANTS_MAX)},
    {"ignore-end", NULL, "continue after tokens that end a text",
     TAKES_FLAG(run, o.sampling.ignore_end)},
    {"quiet", NULL, "print no figures at the end, and no findings of the watchdog",
     TAKES_FLAG(run, quiet)},
    {"json", .help = "print the text, why it ended, and each token with its log-probability"},
    {"top", "N", "with --json: the N most likely tokens at each place",
     TAKES_U32(run, top, 0, TOP_MAX), .needs = "json"},
    {"digest", NULL,
     "print 16 bytes over the answer's tokens and the bits of their logits, on standard error: "
     "they depend on neither threads, drafts, caches nor the instruction set",
     TAKES_FLAG(run, o.sampling.digest)},
    {"record", "FILE", "write the answer with its digest as JSON, for cerium verify",
     TAKES_TEXT(run, record)},
    {"deep", NULL, "ask the deeper tier: the first upstream of the configuration",
     TAKES_FLAG(run, deep)},
    {"upstream", "NAME", "ask this upstream", TAKES_CALL(take_upstream)},
    {"config", "FILE", "the server's configuration (default: CERIUM_CONFIG)",
     TAKES_TEXT(run, policy_path)},
};
/* clang-format on */
const command_table run_command = {
    .name = "run",
    .usage = "[OPTIONS] [PROMPT]",
    .about = "Stream a completion of PROMPT, or the answer of a model that has a chat form. The "
             "prompt is PROMPT, -p TEXT, -f FILE or standard input (also as -); without one, a "
             "terminal starts a conversation.",
    .groups = OPTIONS_ENGINE | OPTIONS_PROMPT | OPTIONS_SAMPLING | OPTIONS_JSON | OPTIONS_GUARD,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .notes = "Ctrl-C stops the answer and keeps what was generated. In a conversation a line that "
             "is typed while an answer comes redirects it: the answer ends after its line, and "
             "what was typed is the next message. /help lists the commands: /clear forgets the "
             "conversation, /system TEXT begins another, /again answers once more, /save FILE "
             "writes it to a file, /bye ends. Three quotation marks begin and end a message of "
             "several lines; a line that ends with a backslash continues in the next one. What "
             "is pasted is one message, with its lines and tabs. Lines are edited and remembered "
             "where libedit was there when cerium was built.",
    .examples = "cerium run --workspace . -p 'def quicksort(items):' -n 100",
};

/* ---- --json: the text and every token, gathered while they arrive ---- */

typedef struct {
    const cerium_engine *engine;
    json_t *tokens;
    FILE *text;
} transcript;

/* A token is often a part of a character: it is not UTF-8 then, and null in JSON. */
static json_t *token_json(const cerium_engine *engine, int32_t token, float logprob)
{
    size_t len;
    const char *text = cerium_token_bytes(engine, token, &len);
    json_t *string = json_stringn(text, len);
    return json_pack("{s:i, s:o, s:f}", "id", (int)token, "text", string ? string : json_null(),
                     "logprob", (double)logprob);
}

static void keep_token(void *user, const cerium_watch_token *t)
{
    transcript *all = user;
    json_t *token = token_json(all->engine, t->token, t->logprob);
    json_t *best = t->n_top ? json_array() : NULL;
    for (size_t k = 0; k < t->n_top; k++)
        json_array_append_new(best, token_json(all->engine, t->top[k].token, t->top[k].logprob));
    if (best) json_object_set_new(token, "top", best);
    json_array_append_new(all->tokens, token);
}

static int keep_text(void *user, view text, cerium_error *err)
{
    transcript *all = user;
    return generate_to_file(all->text, text, err);
}

static int print_json(const transcript *t, const char *text, size_t len, const generation *g,
                      cerium_error *err)
{
    json_t *string = json_text((view){text, len});
    double speed = g->rest_ns ? (g->new_tokens - 1) * 1e9 / (double)g->rest_ns : 0;
    const char *stop = *stop_name(g->stop) ? stop_name(g->stop) : "tokens";
    if (g->guarded) stop = "guard";
    json_t *all =
        json_pack("{s:o, s:s, s:i, s:i, s:f, s:f, s:O}", "text", string ? string : json_null(),
                  "stop", g->interrupted ? "interrupt" : stop, "prompt_tokens",
                  (int)g->prompt_tokens, "n_tokens", (int)g->new_tokens, "first_token_ms",
                  (double)g->first_ns / 1e6, "tokens_per_second", speed, "tokens", t->tokens);
    return output_json(all, JSON_INDENT(2), err);
}

/* The settings of an answer whose text goes to standard output. */
static generation_order order_of(run *r, const int32_t *tokens, size_t n, bool chat, view before)
{
    return (generation_order){.tokens = tokens,
                              .n_tokens = n,
                              .n_new = r->o.n_tokens,
                              .sampling = &r->o.sampling,
                              .text = generate_to_file,
                              .user = stdout,
                              .watchdog = &r->watchdog,
                              .form = chat ? GUARD_TURN : GUARD_CODE,
                              .before = before};
}

static int answer_json(run *r, cerium_engine *engine, cerium_session *session,
                       generation_order *order, cerium_error *err)
{
    generation g;
    char *text = NULL;
    size_t len = 0;
    transcript t = {.engine = engine, .tokens = json_array(), .text = open_memstream(&text, &len)};
    r->o.sampling.logprobs = true;
    if (r->top) r->o.sampling.step_tokens_max = 1; /* the most likely tokens of the last one are
                                                    * known */
    order->text = keep_text;
    order->seen = keep_token;
    order->n_top = r->top;
    order->user = &t;
    int status = t.text && t.tokens ? generate(session, engine, order, &g, err)
                                    : error_set(err, CERIUM_ERR_MEMORY, "no memory for the answer");
    if (t.text) fclose(t.text);
    if (!status) status = print_json(&t, text, len, &g, err);
    json_decref(t.tokens);
    memory_release(text);
    return status;
}

static int write_file(const char *path, view text, cerium_error *err)
{
    FILE *f = fopen(path, "w");
    bool good = f && fwrite(text.ptr, 1, text.len, f) == text.len;
    if (f && fclose(f)) good = false;
    return good ? CERIUM_OK : error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(errno));
}

/* The sampled tokens, from the session. */
static int write_record(const run *r, cerium_engine *engine, cerium_session *session,
                        const generation_order *order, const generation *g, cerium_error *err)
{
    record out = {.prompt = (int32_t *)order->tokens,
                  .n_prompt = order->n_tokens,
                  .n_tokens = g->n_sampled,
                  .marks = order->marks,
                  .sampling = *order->sampling,
                  .exact = r->o.exact,
                  .n_heal = order->heal_prefix.len};
    cerium_engine_info info;
    bytes text = {.max = PROMPT_BYTES_MAX}, file = {.max = RECORD_BYTES_MAX};
    size_t n, len;
    cerium_engine_describe(engine, &info);
    snprintf(out.kv_type, sizeof out.kv_type, "%s", info.kv_type);
    memcpy(out.heal_prefix, order->heal_prefix.ptr, out.n_heal);
    memcpy(out.digest, g->digest, sizeof out.digest);
    out.tokens = (int32_t *)cerium_session_tokens(session, &n) + (n - g->n_sampled);
    RETURN_IF(download_hash(options_model(&r->o), out.sha256, err));
    int status = CERIUM_OK;
    for (size_t i = 0; i < out.n_tokens && !status; i++) {
        const char *piece = cerium_token_bytes(engine, out.tokens[i], &len);
        status = bytes_append(&text, piece, len);
    }
    if (!status) status = record_write(&out, (view){text.ptr, text.len}, &file);
    if (status) status = error_set(err, status, "no memory for the record");
    if (!status) status = write_file(r->record, (view){file.ptr, file.len}, err);
    bytes_free(&text);
    bytes_free(&file);
    return status;
}

/* Print the digest and the record of an answer, if requested. */
static int tell_digest(const run *r, cerium_engine *engine, cerium_session *session,
                       const generation_order *order, const generation *g, cerium_error *err)
{
    char digest[RECORD_DIGEST_DIGITS + 1];
    if (!r->o.sampling.digest) return CERIUM_OK;
    if (g->discarded_tokens || g->n_sampled == 0)
        return error_set(err, CERIUM_ERR_FORMAT, g->n_sampled == 0
                             ? "no digest: there is no answer"
                             : "no digest: the watchdog had lines written again; --guard off");
    record_digest_text(g->digest, digest);
    fflush(stdout);
    fprintf(stderr, "digest %s of %u tokens\n", digest, g->n_sampled);
    return r->record ? write_record(r, engine, session, order, g, err) : CERIUM_OK;
}

static int answer_best(run *r, cerium_engine *engine, const generation_order *order,
                       cerium_error *err)
{
    static variants all;
    all = (variants){.n = r->best_of};
    int status = variants_sample(&all, engine, order, err);
    if (!status) status = variants_judge(&all, &r->watchdog, order->form, order->before, err);
    if (!status) write_view(order->echo, stdout);
    if (!status) status = variants_print(&all, r->quiet, r->o.json, err);
    variants_free(&all);
    return status;
}

static int answer_once(run *r, cerium_engine *engine, cerium_session *session, view prompt,
                       bool chat, cerium_error *err)
{
    view heal_prefix = {"", 0};
    int32_t *tokens = NULL;
    size_t n = 0;
    generation g;
    if (chat) {
        char *content = memory_copy(prompt.ptr, prompt.len);
        if (!content) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the prompt");
        cerium_message messages[2] = {{.role = "system", .content = r->system},
                                      {.role = "user", .content = content}};
        int status = talk_tokens(engine, r->system ? messages : messages + 1, r->system ? 2 : 1,
                                 &tokens, &n, err);
        memory_free(content);
        RETURN_IF(status);
    } else {
        if (!r->whole_tokens) heal_prefix.len = cerium_heal_prefix(engine, prompt.ptr, prompt.len);
        heal_prefix.ptr = prompt.ptr + prompt.len - heal_prefix.len;
        view whole = {prompt.ptr, prompt.len - heal_prefix.len};
        RETURN_IF(encode(engine, whole, CERIUM_TOKENIZE_BEGIN, &tokens, &n, err));
        if (n == 0) {
            memory_free(tokens);
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "the prompt is empty and the model has no begin token");
        }
    }
    generation_order order = order_of(r, tokens, n, chat, prompt);
    order.heal_prefix = heal_prefix;
    if (!chat && !r->o.json) order.echo = prompt;
    if (r->record && !(order.marks = memory_alloc(r->o.n_tokens * sizeof *order.marks))) {
        memory_free(tokens);
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the record");
    }
    if (r->o.json || r->best_of > 1) {
        int status = r->best_of > 1 ? answer_best(r, engine, &order, err)
                                    : answer_json(r, engine, session, &order, err);
        memory_free(tokens);
        return status;
    }
    int status = generate(session, engine, &order, &g, err);
    if (!status) printf("\n");
    if (!status && !r->quiet) print_generation(&g, stderr);
    if (!status) status = tell_digest(r, engine, session, &order, &g, err);
    memory_free(order.marks);
    memory_free(tokens);
    return status;
}

static int converse(run *r, cerium_engine *engine, cerium_session *session, cerium_error *err)
{
    const talk_config config = {.engine = engine,
                                .session = session,
                                .order = order_of(r, NULL, 0, true, (view){NULL, 0}),
                                .system = r->system,
                                .quiet = r->quiet};
    return talk(&config, err);
}

static int with_session(run *r, cerium_engine *engine, const char *prompt, cerium_error *err)
{
    cerium_engine_info info;
    cerium_session *session = NULL;
    cerium_engine_describe(engine, &info);
    bool has_form = *info.chat_form, chat = !r->raw && (has_form || r->chat);
    if (r->chat && !has_form)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%s has no chat form; leave out --chat",
                         info.name);
    if (*info.chat_refusal && !r->raw)
        return error_set(err, CERIUM_ERR_FORMAT, "the chat template of %s cannot be run: %s; "
                         "--chat-form NAME takes another form, --raw none",
                         info.name, info.chat_refusal);
    bytes text = {.max = PROMPT_BYTES_MAX};
    bool talk = !prompt && !r->o.prompt_file && isatty(STDIN_FILENO);
    if (talk && r->best_of > 1)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "--best-of answers one prompt: give it one, as in -p 'def f(x):'");
    if (talk && !chat)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "%s does not chat: give it a text to continue, as in -p 'def f(x):'",
                         info.name);
    if (!prompt && !talk) {
        RETURN_IF(read_file(r->o.prompt_file ? r->o.prompt_file : "-", &text, err));
        prompt = text.ptr;
    }
    int status = cerium_session_open(&session, engine, NULL, err);
    view whole = text.ptr ? (view){text.ptr, text.len} : view_of(prompt);
    if (!status)
        status = talk ? converse(r, engine, session, err)
                      : answer_once(r, engine, session, whole, chat && whole.len, err);
    cerium_session_close(&session);
    bytes_free(&text);
    return status;
}

/* ---- the deeper tier ---- */

typedef struct {
    bool json, failed;
    bytes text; /* for --json */
} telling;

static void tell(void *user, view text)
{
    telling *t = user;
    if (t->json) {
        t->failed |= bytes_append(&t->text, text.ptr, text.len) != CERIUM_OK;
    } else {
        write_view(text, stdout);
        fflush(stdout);
    }
}

static int print_deep(const run *r, const telling *t, const upstream_reply *a, cerium_error *err)
{
    if (!r->o.json) {
        printf("\n");
        if (!r->quiet)
            fprintf(stderr, "%s (%s): %u tokens in, %u of them cached, %u out; first after %.0f "
                    "ms, %.1f tokens/s\n", a->served_by, a->model, a->input_tokens,
                    a->cached_tokens, a->output_tokens, (double)a->first_ns / 1e6,
                    a->duration_ns > a->first_ns
                        ? a->output_tokens * 1e9 / (double)(a->duration_ns - a->first_ns) : 0);
        return CERIUM_OK;
    }
    json_t *all = t->failed ? NULL
                            : json_pack("{s:o, s:s, s:s, s:s, s:i, s:i, s:i, s:f}", "text",
                                        json_text((view){t->text.ptr, t->text.len}), "stop",
                                        a->cut ? "tokens" : "end", "served_by", a->served_by,
                                        "model", a->model, "prompt_tokens", (int)a->input_tokens,
                                        "cached_tokens", (int)a->cached_tokens, "n_tokens",
                                        (int)a->output_tokens, "first_token_ms",
                                        (double)a->first_ns / 1e6);
    return output_json(all, JSON_INDENT(2), err);
}

/* This needs no engine. */
static int ask_deep(run *r, const char *prompt, cerium_error *err)
{
    const char *env = getenv("CERIUM_CONFIG");
    const char *path = r->policy_path ? r->policy_path : env && *env ? env : NULL;
    policy *p = NULL;
    bytes text = {.max = PROMPT_BYTES_MAX};
    telling t = {.json = r->o.json, .text.max = PROMPT_BYTES_MAX};
    upstream_reply answer;
    if (!path)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "no configuration names the deeper tier: give --config FILE");
    RETURN_IF(accounts_policy(&p, path, err));
    int status = prompt ? CERIUM_OK
                        : read_file(r->o.prompt_file ? r->o.prompt_file : "-", &text, err);
    upstream_question question = {.upstream = r->upstream,
                                  .prompt = prompt ? view_of(prompt) : (view){text.ptr, text.len},
                                  .system = r->system,
                                  .new_tokens_max = r->o.n_tokens_given ? r->o.n_tokens : 0,
                                  .text = tell,
                                  .user = &t};
    if (!status) status = upstream_ask(p, &question, &answer, err);
    if (!status) status = print_deep(r, &t, &answer, err);
    bytes_free(&t.text);
    bytes_free(&text);
    memory_free(p);
    return status;
}

int program_run(int argc, char **argv)
{
    run r = {.o = {.n_tokens = 256}};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(command_parse(&run_command, &r, argc, argv));
    if (argc - optind > 1)
        return usage_error("run", "one prompt, not %d; put it in quotes", argc - optind);
    if (optind < argc && r.o.prompt) return usage_error("run", "PROMPT and -p exclude each other");
    const char *prompt = optind < argc ? argv[optind++] : r.o.prompt;
    if (prompt && prompt != r.o.prompt && !strcmp(prompt, "-") && !r.o.prompt_file) {
        r.o.prompt_file = prompt;
        prompt = NULL;
    }
    if (prompt && r.o.prompt_file)
        return usage_error("run", "a prompt by itself or by -f, not both");
    if (r.best_of > 1 && (r.deep || r.top))
        return usage_error("run", "--best-of goes without --deep, --upstream and --top");
    if (r.best_of > 1 && r.o.sampling.temperature <= 0)
        return usage_error("run", "--best-of needs a temperature, as in --temp 0.8: greedy answers "
                           "are all the same");
    const bool digests = r.record || r.o.sampling.digest;
    if (digests && (r.best_of > 1 || r.deep || r.o.json))
        return usage_error("run", "--digest and --record go without --best-of, --json, --deep and "
                           "--upstream");
    r.o.sampling.digest = digests;
    if (r.deep) return ask_deep(&r, prompt, &err) ? failed(&err) : 0;
    int status = watchdog_open(&r.watchdog, &r.o, &err);
    r.watchdog.quiet = r.quiet;
    if (!status) status = options_engine(&r.o, &engine, r.best_of > 1 ? r.best_of + 1 : 1, &err);
    if (!status) status = watchdog_check(&r.watchdog, &err);
    if (!status) status = with_session(&r, engine, prompt, &err);
    cerium_engine_close(&engine);
    watchdog_close(&r.watchdog);
    return status ? failed(&err) : 0;
}
