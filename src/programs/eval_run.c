/* eval_run.c - bits a byte, lines, and likeliest tokens of one model. */
#include "programs/eval_run.h"
#include "programs/terminal.h"

#include <math.h>
#include <unistd.h>

enum { SCORE_TOKENS = 32, BYTES_PER_TOKEN = 4 };

typedef struct {
    eval_run *run;
    const eval_set *set;
    const eval_options *o;
    const cerium_engine *engine;
    cerium_session *session;
    eval_retriever *retriever; /* NULL: no snippets */
    float *logprobs; /* [window] */
    float pointer;
    cerium_error *err;
} runner;

cerium_session_config eval_session_config(void)
{
    return (cerium_session_config){.score_tokens_max = SCORE_TOKENS};
}

static void show(const char *what, size_t done, size_t n)
{
    progress_show("%s %zu of %zu", what, done, n);
}

/* ---- bits a byte ---- */

static size_t token_bytes(const runner *r, int32_t token)
{
    size_t len;
    cerium_token_bytes(r->engine, token, &len);
    return len;
}

/* As cerium perplexity: windows that advance by half, so that scored tokens have half a window
 * before them. */
static int score_document(runner *r, size_t number)
{
    const eval_document *d = &r->set->documents[number];
    int32_t *tokens = NULL;
    size_t n = 0, scored = 1;
    RETURN_IF(encode(r->engine, (view){d->text, d->len}, CERIUM_TOKENIZE_BEGIN, &tokens, &n,
                     r->err));
    int status = CERIUM_OK;
    for (size_t at = 0; !status && scored < n; at += r->o->window / 2) {
        size_t len = n - at < r->o->window ? n - at : r->o->window;
        status = cerium_session_score(r->session, tokens + at, len, r->logprobs, r->err);
        for (; !status && scored < at + len; scored++) {
            r->run->bits[number] -= (double)r->logprobs[scored - at] / M_LN2;
            r->run->bytes[number] += (double)token_bytes(r, tokens[scored]);
        }
    }
    memory_free(tokens);
    return status;
}

/* Every k-th document in turn, so that no early package uses all of the bytes. */
static int score_documents(runner *r)
{
    uint64_t used[EVAL_LANGUAGES_MAX] = {0};
    const size_t n = r->set->n, step = 64;
    for (size_t first = 0; first < step; first++) {
        for (size_t i = first; i < n; i += step) {
            const eval_document *d = &r->set->documents[i];
            if (d->is_hole || used[d->language] + d->len > r->o->bytes) continue;
            used[d->language] += d->len;
            RETURN_IF(score_document(r, i));
        }
        show("texts", first + 1, step);
    }
    return CERIUM_OK;
}

/* ---- lines ---- */

/* The text before at, cut at a line's beginning. */
static view before(const eval_document *d, size_t at, size_t max)
{
    size_t begin = at > max ? at - max : 0;
    while (begin > 0 && begin < at && d->text[begin - 1] != '\n') begin++;
    return (view){d->text + begin, at - begin};
}

static view after(const eval_document *d, size_t at, size_t max)
{
    return (view){d->text + at, d->len - at < max ? d->len - at : max};
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The beginning of another file of the package; at most max bytes of it. */
static cerium_context_file neighbour(const runner *r, size_t document, size_t max)
{
    const eval_document *d = eval_set_neighbour(r->set, document);
    if (!d) return (cerium_context_file){0};
    if (max > r->o->neighbour_bytes) max = r->o->neighbour_bytes;
    return (cerium_context_file){d->path, d->text, d->len < max ? d->len : max};
}

/* Snippets for a hole, by what the model may see of its file. */
static int find_snippets(runner *r, const eval_task *t, size_t size, snippets *out)
{
    const eval_document *d = &r->set->documents[t->document];
    if (!r->retriever) return CERIUM_OK;
    return eval_retrieve(r->retriever, t, before(d, t->begin, size * 3 / 4),
                         after(d, t->end, size / 4), r->o->retrieval,
                         (size_t)r->o->retrieve_bytes, r->o->seed, out);
}

/* The snippets that fit into half of the bytes; the worst are dropped. */
static void add_snippets(cerium_infill *in, const snippets *found, size_t size)
{
    uint32_t first = found->n;
    for (size_t n = 0; first > 0 && (n += found->files[first - 1].text_len) <= size / 2;) first--;
    if (first == found->n) return;
    in->files = found->files + first;
    in->n_files = found->n - first;
}

/* The prompt of the task as owned tokens, at most max; the text is shortened until they fit.  The
 * text before the hole may end within a token: *heal_prefix, as in `cerium run` and `complete`. */
static int make_prompt(runner *r, const eval_task *t, eval_form form, size_t max,
                       const snippets *found, int32_t **tokens, size_t *n, view *heal_prefix)
{
    const eval_document *d = &r->set->documents[t->document];
    for (size_t size = max * BYTES_PER_TOKEN;; size = size * 3 / 4) {
        view prefix = before(d, t->begin, form == EVAL_MIDDLE ? size * 3 / 4 : size);
        view suffix = after(d, t->end, size / 4);
        int status;
        heal_prefix->len = r->o->unhealed ? 0
                       : form == EVAL_PREFIX
                           ? cerium_heal_prefix(r->engine, prefix.ptr, prefix.len)
                           : cerium_infill_heal_prefix(r->engine, prefix.ptr, prefix.len);
        prefix.len -= heal_prefix->len;
        heal_prefix->ptr = prefix.ptr + prefix.len;
        const cerium_context_file file = neighbour(r, t->document, size / 2);
        cerium_infill in = {.prefix = prefix.ptr, .prefix_len = prefix.len, .suffix = suffix.ptr,
                            .suffix_len = suffix.len, .path = base_name(d->path),
                            .repo = file.text_len || found->n ? base_name(d->package) : NULL,
                            .files = &file, .n_files = file.text_len > 0};
        add_snippets(&in, found, size);
        if (form == EVAL_PREFIX) {
            RETURN_IF(encode(r->engine, prefix, CERIUM_TOKENIZE_BEGIN, tokens, n, r->err));
            if (*n >= 1 && *n <= max) return CERIUM_OK;
            memory_free(*tokens);
            if (*n == 0)
                return error_set(r->err, CERIUM_ERR_ARGUMENT, "%s: nothing before a line", d->path);
            continue;
        }
        status = cerium_infill_tokens(r->engine, &in, NULL, 0, n, r->err);
        if (status && status != CERIUM_ERR_CAPACITY) return status;
        if (*n > max && size > 0) continue;
        *tokens = memory_alloc(*n * sizeof **tokens);
        if (!*tokens) return error_set(r->err, CERIUM_ERR_MEMORY, "no memory for a prompt");
        return cerium_infill_tokens(r->engine, &in, *tokens, *n, n, r->err);
    }
}

/* Greedy, to the end of the first line that is not blank. */
static int write_line(runner *r, const int32_t *tokens, size_t n, view heal_prefix,
                      eval_result *out)
{
    const cerium_resume begin = {.heal_prefix = heal_prefix.ptr, .n_heal = heal_prefix.len};
    const cerium_sampling sampling = {.logprobs = true, .step_tokens_max = 1,
                                      .pointer = r->pointer};
    cerium_step step = {0};
    double logprob = 0;
    bool over = false;
    RETURN_IF(cerium_session_resume(r->session, tokens, n, &begin, NULL, r->err));
    for (uint32_t i = 0; i < r->o->line_tokens && !over && step.stop == CERIUM_STOP_NONE; i++) {
        RETURN_IF(cerium_session_step(r->session, &sampling, &step, r->err));
        for (uint32_t k = 0; k < step.n_tokens; k++) logprob += (double)step.logprobs[k];
        for (size_t k = 0; k < step.text_len && !over; k++) {
            bool blank = eval_stripped((view){out->text, out->len}).len == 0;
            if (step.text[k] == '\n' && blank)
                out->len = 0;
            else if (step.text[k] == '\n' || out->len == sizeof out->text)
                over = true;
            else
                out->text[out->len++] = step.text[k];
        }
    }
    out->confidence = (float)exp(logprob);
    return CERIUM_OK;
}

/* Which of several candidates is the missing line. */
static int write_candidates(runner *r, const int32_t *tokens, size_t n, view heal_prefix, view want,
                            eval_result *out)
{
    const eval_hole hole = {tokens, n, heal_prefix, r->pointer, r->o->line_tokens};
    eval_candidate all[EVAL_CANDIDATES_MAX];
    uint32_t n_all;
    RETURN_IF(eval_candidates(r->session, &hole, all, r->o->n_candidates, &n_all, r->err));
    for (uint32_t i = 0; i < n_all && !out->right_at; i++)
        if (view_equal(eval_stripped((view){all[i].text, all[i].len}), want))
            out->right_at = i + 1;
    return CERIUM_OK;
}

static int run_task(runner *r, size_t number, eval_form form)
{
    const eval_task *t = &r->set->tasks[number];
    const eval_document *d = &r->set->documents[t->document];
    eval_result *out = &r->run->results[form][number];
    int32_t *tokens = NULL;
    size_t n = 0;
    view heal_prefix = {NULL, 0};
    snippets found = {.n = 0};
    const size_t max = r->o->window - r->o->line_tokens;
    int status = form == EVAL_MIDDLE ? find_snippets(r, t, max * BYTES_PER_TOKEN, &found)
                                     : CERIUM_OK;
    if (status) error_set(r->err, status, "%s: no memory for snippets", d->path);
    if (!status) status = make_prompt(r, t, form, max, &found, &tokens, &n, &heal_prefix);
    snippets_close(&found);
    RETURN_IF(status);
    if (form == EVAL_MIDDLE) r->run->n_prompt_tokens += n;
    status = write_line(r, tokens, n, heal_prefix, out);
    view want = eval_stripped((view){d->text + t->begin, t->end - t->begin});
    if (!status && r->o->n_candidates && form == EVAL_MIDDLE)
        status = write_candidates(r, tokens, n, heal_prefix, want, out);
    memory_free(tokens);
    view got = eval_stripped((view){out->text, out->len});
    out->similarity = (float)eval_similarity(got, want);
    out->right = view_equal(got, want);
    return status;
}

static int run_tasks(runner *r)
{
    cerium_engine_info info;
    cerium_engine_describe(r->engine, &info);
    if (!r->set->n_tasks) return CERIUM_OK;
    for (eval_form form = EVAL_PREFIX; form < EVAL_FORMS; form++) {
        if (form == EVAL_MIDDLE && !info.fill_in_middle) continue;
        if (form == EVAL_PREFIX && r->o->only_holes) continue;
        r->run->results[form] = memory_zalloc(r->set->n_tasks, sizeof *r->run->results[form]);
        if (!r->run->results[form])
            return error_set(r->err, CERIUM_ERR_MEMORY, "no memory for answers");
        for (size_t i = 0; i < r->set->n_tasks; i++) {
            RETURN_IF(run_task(r, i, form));
            show(form == EVAL_PREFIX ? "lines" : "holes", i + 1, r->set->n_tasks);
        }
    }
    return CERIUM_OK;
}

/* ---- likeliest tokens ---- */

/* One window at the beginning of each document in turn, one token after the other. */
static int note_document(runner *r, const eval_document *d, size_t n_max)
{
    int32_t *tokens = NULL;
    size_t n = 0;
    RETURN_IF(encode(r->engine, (view){d->text, d->len}, CERIUM_TOKENIZE_BEGIN, &tokens, &n,
                     r->err));
    int status = CERIUM_OK;
    if (n > r->o->window) n = r->o->window;
    for (size_t i = 1; i < n && i <= n_max && !status; i++) {
        cerium_logprob top = {0};
        status = cerium_session_sync(r->session, tokens, i, NULL, r->err);
        if (!status) cerium_session_top(r->session, &top, 1);
        if (!status) r->run->likeliest[r->run->n_likeliest++] = top.token;
    }
    memory_free(tokens);
    return status;
}

static int note_likeliest(runner *r)
{
    const size_t n = r->o->n_likeliest;
    r->run->likeliest = memory_zalloc(n + 1, sizeof *r->run->likeliest);
    if (!r->run->likeliest) return error_set(r->err, CERIUM_ERR_MEMORY, "no memory for tokens");
    for (size_t i = 0; i < r->set->n && r->run->n_likeliest < n; i++) {
        const eval_document *d = &r->set->documents[(i * 37) % r->set->n];
        size_t left = n - r->run->n_likeliest;
        if (!d->is_hole) RETURN_IF(note_document(r, d, left < 100 ? left : 100));
        show("tokens", r->run->n_likeliest, n);
    }
    return CERIUM_OK;
}

/* ---- all ---- */

int eval_run_model(eval_run *run, const eval_set *set, const eval_options *o,
                   const cerium_engine *engine, cerium_session *session, cerium_error *err)
{
    cerium_engine_info info;
    cerium_engine_describe(engine, &info);
    runner r = {run, set, o, engine, session, NULL, NULL,
                o->pointer < 0 ? info.pointer : (float)o->pointer, err};
    *run = (eval_run){0};
    r.logprobs = memory_zalloc(o->window, sizeof *r.logprobs);
    run->bits = memory_zalloc(set->n, sizeof *run->bits);
    run->bytes = memory_zalloc(set->n, sizeof *run->bytes);
    int status = r.logprobs && run->bits && run->bytes
                     ? CERIUM_OK
                     : error_set(err, CERIUM_ERR_MEMORY, "no memory for figures");
    if (!status && o->retrieve_bytes && eval_retriever_open(&r.retriever, set))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for an index");
    if (!status && !o->only_holes) status = score_documents(&r);
    if (!status) status = run_tasks(&r);
    if (!status && o->n_likeliest) status = note_likeliest(&r);
    progress_clear();
    eval_retriever_close(&r.retriever);
    memory_free(r.logprobs);
    if (status) eval_run_close(run);
    return status;
}

void eval_run_close(eval_run *run)
{
    memory_free(run->bits);
    memory_free(run->bytes);
    memory_free(run->likeliest);
    for (int form = 0; form < EVAL_FORMS; form++) memory_free(run->results[form]);
    *run = (eval_run){0};
}
