/* watched.c - stream a completion of Python whose weak lines are held back and corrected.
 *
 *   cc watched.c $(pkg-config --cflags --libs cerium-watch) -o watched
 *   ./watched model.gguf $(pkg-config --variable=rulesdir cerium-watch) "def run(command):" */
#include <cerium.h>
#include <stdio.h>
#include <string.h>

enum { PROMPT_TOKENS_MAX = 4096, NEW_TOKENS_MAX = 128 };

static void show(const cerium_watch_result *out)
{
    static const char *const what[] = {"written again", "rewritten", "weak", "ended before",
                                       "replaced", "withheld", "known"};
    fwrite(out->text, 1, out->text_len, stdout);
    for (const cerium_finding *f = out->findings; f < out->findings + out->n_findings; f++)
        fprintf(stderr, "line %u: %s: %s\n", f->line, what[f->action], f->message);
}

static int stream(cerium_session *session, cerium_watch *watch, cerium_error *err)
{
    for (size_t n_tokens = 0;; (void)cerium_watch_tokens(watch, &n_tokens)) {
        const cerium_sampling most = {.step_tokens_max = (uint32_t)(NEW_TOKENS_MAX - n_tokens)};
        cerium_step step;
        cerium_watch_result out;
        int status = cerium_session_step(session, &most, &step, err);
        if (!status) status = cerium_watch_step(watch, &step, NULL, 0, &out, err);
        if (status) return status;
        show(&out);
        (void)cerium_watch_tokens(watch, &n_tokens);
        const bool ends = step.stop || n_tokens >= NEW_TOKENS_MAX;
        if (out.order == CERIUM_WATCH_GO && ends) {
            if ((status = cerium_watch_finish(watch, &out, err)) != CERIUM_OK) return status;
            show(&out);
        }
        if (out.order == CERIUM_WATCH_GO && !ends) continue;
        if (out.order != CERIUM_WATCH_RETRY) return CERIUM_OK;
        cerium_request q = {.new_tokens_max = NEW_TOKENS_MAX};
        bool runs; /* the session has gone too far: it is rewound, and continues with a hint */
        if ((status = cerium_watch_retry(watch, &q, &runs, err)) || !runs) return status;
        status = cerium_session_resume(session, q.tokens, q.n_tokens, q.resume, NULL, err);
        if (status) return status;
    }
}

int main(int argc, char **argv)
{
    static int32_t tokens[PROMPT_TOKENS_MAX];
    cerium_engine_config config;
    cerium_watch_config how;
    cerium_engine *engine = NULL;
    cerium_session *session = NULL;
    cerium_watchdog *watchdog = NULL;
    cerium_watch *watch = NULL;
    cerium_error err;
    cerium_engine_config_defaults(&config);
    config.model_path = argc == 4 ? argv[1] : NULL;
    cerium_watch_config_defaults(&how);
    how.form = CERIUM_WATCH_CODE;
    how.language = "python";
    how.before = argc == 4 ? argv[3] : "";
    how.before_len = strlen(how.before);
    how.prompt = tokens;
    int status = cerium_watchdog_open(&watchdog, argc == 4 ? argv[2] : NULL, &err);
    if (!status) status = cerium_engine_open(&engine, &config, &err);
    if (!status) status = cerium_session_open(&session, engine, NULL, &err);
    if (!status) status = cerium_tokenize(engine, how.before, how.before_len, CERIUM_TOKENIZE_BEGIN,
                                          tokens, PROMPT_TOKENS_MAX, &how.n_prompt, &err);
    if (!status) status = cerium_session_sync(session, tokens, how.n_prompt, NULL, &err);
    how.engine = engine;
    if (!status) status = cerium_watch_open(&watch, watchdog, &how, &err);
    if (!status) status = stream(session, watch, &err);
    if (status) fprintf(stderr, "watched: %s\n", err.message);
    cerium_watch_close(&watch);
    cerium_watchdog_close(&watchdog);
    cerium_session_close(&session);
    cerium_engine_close(&engine);
    return status != CERIUM_OK;
}
