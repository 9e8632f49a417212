/* drafts.c - the quality of drafts, without a model: recorded edits, the real drafter, passes that
 * are counted and priced.
 *
 *   bench_drafts [-m MODEL] [-n] [-e] [-w FOLDER] EDITS.jsonl
 *
 * Texts are tokens of MODEL's vocabulary.  A pass of n rows costs 1.03 + c (n - 2) of one row's, as
 * the kernels do (docs/performance.md): c is 0.16 on AVX2.  The drafter's result is compared with
 * an ideal copyist, which knows in advance how far each piece of the file matches, pays for no
 * wrong row, and needs no tokens in between.  -n: each edit gets a new drafter, as in a session of
 * its own. -e: the file before the edit was an answer in another session, as were the edits before.
 * -w: drafts come from the workspace FOLDER/ID, too, where ID is the edit's `id`.
 *
 * The last columns show the gain of trees: an alternative to the first token of each draft,
 * or to each of its tokens, wherever the text so far has one.  An alternative that is right
 * where the draft is wrong is one more token in that pass. */
#include <jansson.h>
#include <unistd.h>

#include "base/memory.h"
#include "engine/engine.h"
#include "engine/workspace_files.h"

enum {
    TOKENS_MAX = 1 << 17,
    TEXT_TOKENS_MAX = TOKENS_MAX / 4,
    LINE_BYTES_MAX = 1 << 22,
    DRAFTS_MAX = PACE_ROWS_MAX - 1,
    COPY_MIN = 3, /* fewer matching tokens are chance */
};

typedef enum { BY_PREDICTION, BY_PROMPT, BY_NOTHING, WAYS } draft_way;
typedef enum { FIRST_TOKEN, EACH_TOKEN, TREES } tree_of;
static const char *const ways[WAYS] = {"prediction", "file in the prompt", "nothing"};
static const float row_costs[] = {0.16f, 0.05f, 0.01f};

typedef struct {
    double cost, wasted, copyist_cost;
    uint64_t n_tokens, n_passes, n_drafted, n_right, ns;
    uint64_t n_wrong;        /* passes whose draft was wrong somewhere */
    double tree_cost[TREES]; /* with alternatives */
    uint64_t n_more[TREES];  /* tokens, by alternatives that were right */
} sums;

typedef struct {
    cerium_engine *engine;
    drafter drafter;
    draft_pace pace;
    float row_cost;
    void *memory, *index;
    const char *workspaces; /* or NULL */
    corpus workspace;
    bool remembers;
    past_answers past;
    int32_t *tokens, *before, *after; /* [TOKENS_MAX] */
    uint32_t n, n_before, n_after;
} bench;

static void fail(const char *what)
{
    fprintf(stderr, "bench_drafts: %s\n", what);
    exit(1);
}

static void *need(void *memory)
{
    if (!memory) fail("no memory");
    return memory;
}

static double price(const bench *b, uint32_t n_rows)
{
    return n_rows < 2 ? 1 : 1.03 + (double)b->row_cost * (n_rows - 2);
}

static void learn_prices(bench *b)
{
    b->pace = (draft_pace){0};
    for (uint32_t i = 0; i < 8 * PACE_ROWS_MAX; i++) {
        uint32_t n = 1 + i % PACE_ROWS_MAX;
        pace_wants(&b->pace, n);
        pace_learn(&b->pace, n, (uint64_t)(1e6 * price(b, n)));
    }
}

static uint32_t encode(const bench *b, const char *text, int32_t *tokens)
{
    size_t n = 0;
    cerium_error err;
    if (!text) fail("an edit lacks its instruction, `before` or `after`");
    if (cerium_tokenize(b->engine, text, strlen(text), 0, tokens, TEXT_TOKENS_MAX, &n, &err))
        fail(err.message);
    return (uint32_t)n;
}

/* At each place the longest piece of the file that continues like the text. */
static double copyist_cost(const bench *b)
{
    double cost = 0;
    for (uint32_t i = 1, longest; i < b->n_after; i += 1 + longest) {
        uint32_t most = b->n_after - i - 1 < DRAFTS_MAX ? b->n_after - i - 1 : DRAFTS_MAX;
        longest = 0;
        for (uint32_t k = 0; k < b->n_before && longest < most; k++) {
            uint32_t same = 0;
            while (same < most && k + same < b->n_before &&
                   b->before[k + same] == b->after[i + same])
                same++;
            if (same > longest) longest = same;
        }
        if (longest < COPY_MIN) longest = 0;
        cost += price(b, 1 + longest);
    }
    return cost;
}

/* Another token than this one that the text had after two tokens like the last of tokens [n]: at
 * the newest such place.  -1 if there is none. */
static int32_t runner_up(const int32_t *tokens, uint32_t n, int32_t not_this)
{
    for (uint32_t i = n - 1; n > 2 && i >= 2; i--)
        if (tokens[i - 1] == tokens[n - 1] && tokens[i - 2] == tokens[n - 2] &&
            tokens[i] != not_this)
            return tokens[i];
    return -1;
}

/* The draft [n] comes after the b->tokens [at], k tokens of it are right, and `right` is the next
 * token. */
static void grow_trees(const bench *b, uint32_t at, uint32_t n, uint32_t k, int32_t right,
                       sums *all)
{
    uint32_t n_rows[TREES] = {1 + n, 1 + n};
    for (uint32_t i = 0; i < n; i++) {
        const int32_t other = runner_up(b->tokens, at + i, b->tokens[at + i]);
        for (int tree = i == 0 ? FIRST_TOKEN : EACH_TOKEN; other >= 0 && tree < TREES; tree++) {
            n_rows[tree]++;
            all->n_more[tree] += i == k && other == right;
        }
    }
    for (int tree = 0; tree < TREES; tree++) all->tree_cost[tree] += price(b, n_rows[tree]);
    all->n_wrong += k < n;
}

/* The first token comes with the prompt; the others by passes, drafts checked as an engine does. */
static void replay(bench *b, bool predicts, sums *all)
{
    drafter *d = &b->drafter;
    uint32_t at = b->n, done = 1;
    draft_hints hints = {.prediction = b->before, .memory = b->index};
    if (predicts) hints.n_prediction = b->n_before;
    if (b->workspace.n_tokens) hints.workspace = &b->workspace;
    d->past = b->remembers ? &b->past : NULL;
    drafter_begin(d, b->tokens, at, &hints);
    b->tokens[at++] = b->after[0];
    drafter_follow(d, b->tokens, at);
    while (done < b->n_after) {
        int32_t draft[DRAFTS_MAX];
        draft_source source;
        uint32_t left = b->n_after - done - 1, most = left < DRAFTS_MAX ? left : DRAFTS_MAX, k = 0;
        uint32_t n = drafter_draft(d, &b->pace, b->tokens, at, 1, most, draft, &source);
        while (k < n && draft[k] == b->after[done + k]) k++;
        memcpy(b->tokens + at, draft, n * sizeof *draft);
        const uint64_t start = clock_thread_ns();
        grow_trees(b, at, n, k, b->after[done + k], all);
        all->ns -= clock_thread_ns() - start; /* of drafting; the caller adds all of it */
        all->n_passes++;
        all->n_tokens += k + 1;
        all->n_drafted += n;
        all->n_right += k;
        all->cost += price(b, 1 + n);
        all->wasted += price(b, 1 + n) - price(b, 1 + k);
        memcpy(b->tokens + at, b->after + done, (k + 1) * sizeof *b->tokens);
        at += k + 1;
        done += k + 1;
        drafter_follow(d, b->tokens, at);
    }
    if (b->remembers) past_answers_add(&b->past, b->tokens, b->n, at);
    drafter_cut(d, b->tokens, 0);
}

/* The texts around an edit; returns their block [*size]. */
static void *read_workspace(bench *b, const char *id, size_t *size)
{
    static const _Atomic bool never;
    static char folder[4096];
    workspace_look look;
    cerium_error err;
    void *block;
    snprintf(folder, sizeof folder, "%s/%s", b->workspaces, id ? id : "");
    if (workspace_look_at(&look, folder, &err)) fail(err.message);
    if (workspace_build(&look, folder, b->engine->tokens, 1, NULL, &never, &block, size) ||
        corpus_read(&b->workspace, (view){block, *size}, 1, b->engine->n_vocab))
        fail("no memory for a workspace");
    workspace_look_close(&look);
    return block;
}

static void replay_line(bench *b, const char *line, draft_way way, sums *all)
{
    json_error_t problem;
    json_t *root = json_loads(line, 0, &problem);
    if (!root) fail(problem.text);
    b->n = encode(b, json_string_value(json_object_get(root, "instruction")), b->tokens);
    b->n_before = encode(b, json_string_value(json_object_get(root, "before")), b->before);
    b->n_after = encode(b, json_string_value(json_object_get(root, "after")), b->after);
    size_t size = 0;
    void *block = b->workspaces
                      ? read_workspace(b, json_string_value(json_object_get(root, "id")), &size)
                      : NULL;
    json_decref(root);
    if (way != BY_NOTHING) {
        memcpy(b->tokens + b->n, b->before, b->n_before * sizeof *b->tokens);
        b->n += b->n_before;
    }
    b->n += encode(b, "\n\n", b->tokens + b->n);
    if (b->remembers) past_answers_add(&b->past, b->before, 0, b->n_before);
    uint64_t start = clock_thread_ns();
    if (b->n_after > 0) replay(b, way == BY_PREDICTION, all);
    all->ns += clock_thread_ns() - start;
    memory_unmap(block, size);
    all->copyist_cost += copyist_cost(b);
}

static void replay_all(bench *b, FILE *edits, char *line, draft_way way, bool is_new)
{
    sums all = {0};
    learn_prices(b);
    rewind(edits);
    if (b->remembers) past_answers_clear(&b->past);
    drafter_open(&b->drafter, b->memory, TOKENS_MAX);
    while (fgets(line, LINE_BYTES_MAX, edits)) {
        if (is_new) drafter_open(&b->drafter, b->memory, TOKENS_MAX);
        replay_line(b, line, way, &all);
    }
    if (all.n_tokens == 0) fail("no edits");
    printf("| %s | %.2f | %.1f | %.2f | %.2f | %.1f %% | %.1f %% | %.2f | ", ways[way],
           (double)b->row_cost, (double)all.n_tokens / (double)all.n_passes,
           (double)all.n_tokens / all.cost, (double)all.n_tokens / all.copyist_cost,
           all.n_drafted ? 100.0 * (double)all.n_right / (double)all.n_drafted : 0.0,
           100 * all.wasted / all.cost, (double)all.ns / 1e3 / (double)all.n_tokens);
    for (int tree = 0; tree < TREES; tree++)
        printf("%.1f %%, %.2f |%s",
               all.n_wrong ? 100.0 * (double)all.n_more[tree] / (double)all.n_wrong : 0.0,
               (double)(all.n_tokens + all.n_more[tree]) / all.tree_cost[tree],
               tree + 1 < TREES ? " " : "\n");
}

int main(int argc, char **argv)
{
    bench b = {0};
    bool is_new = false;
    cerium_error err;
    cerium_engine_config config;
    cerium_engine_config_defaults(&config);
    config.model_path = "models/cerium-line.gguf";
    config.threads = config.sessions_max = 1;
    for (int c; (c = getopt(argc, argv, "m:new:")) != -1;) {
        if (c == 'm') config.model_path = optarg;
        if (c == 'n') is_new = true;
        if (c == 'e') b.remembers = true;
        if (c == 'w') b.workspaces = optarg;
    }
    FILE *edits = optind < argc ? fopen(argv[optind], "r") : NULL;
    if (!edits) fail("name a file of edits that can be read");
    if (cerium_engine_open(&b.engine, &config, &err)) fail(err.message);
    char *line = need(memory_alloc(LINE_BYTES_MAX));
    b.tokens = need(memory_alloc(TOKENS_MAX * sizeof *b.tokens));
    b.before = need(memory_alloc(TOKENS_MAX * sizeof *b.before));
    b.after = need(memory_alloc(TOKENS_MAX * sizeof *b.after));
    b.memory = need(memory_alloc(drafter_bytes(TOKENS_MAX)));
    b.index = need(memory_alloc(ngrams_bytes(TOKENS_MAX)));
    past_answers_lay_out(&b.past, need(memory_alloc(past_answers_bytes(ANSWER_CACHE_TOKENS_MAX))),
                    ANSWER_CACHE_TOKENS_MAX);
    printf("| drafts from | a row costs | tokens a pass | times plain | copyist | right | wasted | "
           "us a token | first alternatives: right where drafts are wrong, times plain | each |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < ARRAY_LEN(row_costs); i++) {
            b.row_cost = row_costs[i];
            replay_all(&b, edits, line, way, is_new);
        }
    }
    fclose(edits);
    memory_free(line);
    memory_free(b.tokens);
    memory_free(b.before);
    memory_free(b.after);
    memory_free(b.memory);
    memory_free(b.index);
    memory_free(b.past.index.heads[0]);
    cerium_engine_close(&b.engine);
    return 0;
}
