/* imatrix.c - `cerium imatrix`: measures over a text which columns of each matrix matter. */
#include "programs/programs.h"

#include <pthread.h>
#include <unistd.h>

#include "gguf/write.h"
#include "programs/options.h"
#include "programs/terminal.h"

enum { TEXT_BYTES_MAX = 256 << 20, SCORE_TOKENS = 32, SUFFIX_BYTES = 16 };

/* What was measured of one tensor. */
typedef struct {
    const gguf_tensor *tensor;
    double *sums;   /* [n_matrices][columns]; NULL before the first token */
    double *counts; /* [n_matrices] */
} column_sums;

typedef struct {
    options o;
    uint32_t window, windows, n_windows;
    const char *text_path, *out_path;
    gguf_file *file;
    column_sums *all; /* [n_all], one for each tensor of the file */
    size_t n_all;
    pthread_mutex_t lock; /* of all, and the first failure */
    bool out_of_memory;
} imatrix;

static const option_spec own[] = {
    {"model", .help = "GGUF model, best F16, BF16 or F32 (default: CERIUM_MODEL, else the bundled "
                      "model)"},
    {"window", "N", "tokens of a window (default 512, at most the context)",
     TAKES_U32(imatrix, window, 2, 1 << 24)},
    {"windows", "N", "at most N windows (default: the whole text)",
     TAKES_U32(imatrix, windows, 1, 1 << 30)},
};
const command_table imatrix_command = {
    .name = "imatrix",
    .usage = "[OPTIONS] TEXT OUT.gguf",
    .about = "Run the model over a text and write how large the inputs of its matrices are, column "
             "by column, for cerium quantize --imatrix and llama-quantize --imatrix. A few hundred "
             "kilobytes of the code that the model is for are enough. OUT appears when it is "
             "whole.",
    .groups = OPTIONS_ENGINE,
    .own = own,
    .n_own = ARRAY_LEN(own),
    .examples = "cerium imatrix -m model-f16.gguf calibration.txt model.imatrix.gguf",
};

static uint64_t n_matrices(const gguf_tensor *t) { return t->dims[2] * t->dims[3]; }

/* ---- seeing: on compute threads ---- */

static column_sums *find(imatrix *m, const cerium_observation *seen)
{
    view name = {seen->tensor, seen->tensor_len};
    for (size_t i = 0; i < m->n_all; i++)
        if (view_equal(m->all[i].tensor->name, name)) return &m->all[i];
    return NULL;
}

static void add(imatrix *m, column_sums *c, const cerium_observation *seen)
{
    const uint64_t n = n_matrices(c->tensor), columns = c->tensor->dims[0];
    if (!c->sums) {
        c->sums = memory_zalloc(n, columns * sizeof *c->sums);
        c->counts = memory_zalloc(n, sizeof *c->counts);
    }
    if (!c->sums || !c->counts) {
        m->out_of_memory = true;
        return;
    }
    CHECK(seen->matrix < n && seen->first + seen->n <= columns);
    double *sums = c->sums + seen->matrix * columns + seen->first;
    for (uint32_t i = 0; i < seen->n; i++) {
        double x = (double)seen->input[i];
        sums[i] += x * x;
    }
    if (seen->first == 0) c->counts[seen->matrix]++;
}

static void observe(void *user, const cerium_observation *seen)
{
    imatrix *m = user;
    pthread_mutex_lock(&m->lock);
    column_sums *c = find(m, seen);
    if (c && !m->out_of_memory) add(m, c, seen);
    pthread_mutex_unlock(&m->lock);
}

/* ---- running ---- */

static int run_windows(imatrix *m, cerium_session *session, const int32_t *tokens, size_t n,
                       float *logprobs, cerium_error *err)
{
    for (size_t at = 0; at < n && (!m->windows || m->n_windows < m->windows); at += m->window) {
        size_t len = n - at < m->window ? n - at : m->window;
        if (len < m->window && at > 0) break; /* the rest has too little context */
        RETURN_IF(cerium_session_score(session, tokens + at, len, logprobs, err));
        m->n_windows++;
        if (m->out_of_memory) return error_set(err, CERIUM_ERR_MEMORY, "no memory for sums");
        progress_show("%zu of %zu tokens", at + len, n);
    }
    progress_clear();
    return CERIUM_OK;
}

static int run_text(imatrix *m, cerium_engine *engine, cerium_error *err)
{
    cerium_engine_info info;
    cerium_session *session = NULL;
    const cerium_session_config config = {.score_tokens_max = SCORE_TOKENS};
    int32_t *tokens = NULL;
    float *logprobs = NULL;
    size_t n = 0;
    bytes text = {.max = TEXT_BYTES_MAX};
    cerium_engine_describe(engine, &info);
    if (m->window > info.context_tokens_max) m->window = info.context_tokens_max;
    int status = read_file(m->text_path, &text, err);
    if (!status)
        status = encode(engine, (view){text.ptr, text.len}, CERIUM_TOKENIZE_BEGIN, &tokens, &n,
                        err);
    if (!status && n == 0)
        status = error_set(err, CERIUM_ERR_ARGUMENT, "%s: it has no text", m->text_path);
    if (!status) status = cerium_session_open(&session, engine, &config, err);
    if (!status && !(logprobs = memory_zalloc(m->window, sizeof *logprobs)))
        status = error_set(err, CERIUM_ERR_MEMORY, "no memory for scores");
    if (!status) status = run_windows(m, session, tokens, n, logprobs, err);
    cerium_session_close(&session);
    memory_free(logprobs);
    memory_free(tokens);
    bytes_free(&text);
    return status;
}

/* ---- writing ---- */

static void declare(gguf_writer *w, const gguf_tensor *t, const char *what, uint64_t columns)
{
    char name[GGUF_NAME_BYTES_MAX + SUFFIX_BYTES];
    const uint64_t dims[2] = {columns, n_matrices(t)};
    snprintf(name, sizeof name, "%.*s.%s", (int)t->name.len, t->name.ptr, what);
    gguf_write_tensor(w, view_of(name), BLOCK_F32, 2, dims);
}

static void write_floats(gguf_writer *w, const double *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x = (float)from[i];
        if (!gguf_write_data(w, &x, sizeof x)) return; /* gguf_writer_finish() reports the error */
    }
}

static int write_out(imatrix *m, cerium_error *err)
{
    gguf_writer *w;
    const view data_set = view_of(m->text_path);
    RETURN_IF(gguf_writer_open(&w, m->out_path, err));
    gguf_write_string(w, "general.type", VIEW("imatrix"));
    gguf_write_strings(w, "imatrix.datasets", &data_set, 1);
    gguf_write_u32(w, "imatrix.chunk_count", m->n_windows);
    gguf_write_u32(w, "imatrix.chunk_size", m->window);
    for (size_t i = 0; i < m->n_all; i++) {
        if (!m->all[i].sums) continue;
        declare(w, m->all[i].tensor, "in_sum2", m->all[i].tensor->dims[0]);
        declare(w, m->all[i].tensor, "counts", 1);
    }
    for (size_t i = 0; i < m->n_all; i++) {
        const column_sums *c = &m->all[i];
        if (!c->sums) continue;
        write_floats(w, c->sums, n_matrices(c->tensor) * c->tensor->dims[0]);
        write_floats(w, c->counts, n_matrices(c->tensor));
    }
    return gguf_writer_finish(&w, err);
}

/* ---- the command ---- */

static int open_sums(imatrix *m, cerium_error *err)
{
    const char *model = options_model(&m->o);
    if (!model) return CERIUM_OK; /* the engine's message says what to do */
    RETURN_IF(options_model_check(model, err));
    RETURN_IF(gguf_open(&m->file, model, err));
    m->n_all = gguf_n_tensors(m->file);
    m->all = memory_zalloc(m->n_all, sizeof *m->all);
    if (!m->all) return error_set(err, CERIUM_ERR_MEMORY, "no memory for sums");
    for (size_t i = 0; i < m->n_all; i++) m->all[i].tensor = gguf_tensor_at(m->file, i);
    return CERIUM_OK;
}

static void close_sums(imatrix *m)
{
    for (size_t i = 0; m->all && i < m->n_all; i++) {
        memory_free(m->all[i].sums);
        memory_free(m->all[i].counts);
    }
    memory_free(m->all);
    gguf_close(&m->file);
}

int program_imatrix(int argc, char **argv)
{
    static imatrix m = {.window = 512, .lock = PTHREAD_MUTEX_INITIALIZER};
    cerium_error err;
    cerium_engine *engine = NULL;
    RETURN_IF(command_parse(&imatrix_command, &m, argc, argv));
    if (argc - optind != 2) return usage_error("imatrix", "name a TEXT and OUT");
    m.text_path = argv[optind];
    m.out_path = argv[optind + 1];
    m.o.observe = observe;
    m.o.observe_user = &m;
    int status = open_sums(&m, &err);
    if (!status) status = options_engine(&m.o, &engine, 1, &err);
    if (!status) status = run_text(&m, engine, &err);
    cerium_engine_close(&engine);
    if (!status) status = write_out(&m, &err);
    close_sums(&m);
    return status ? failed(&err) : 0;
}
