/* engine.c - opening a model: the file, its tokens, kernels, threads, weights and KV pool. */
#include "engine/engine.h"

#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/quota.h"

enum {
    SESSIONS_MAX = 1024,
    BATCH_TOKENS_MAX = 2048,
    KV_MEMORY_PART = 8, /* part of the memory for KV pages, by default */
};

const char *cerium_version(void) { return CERIUM_VERSION; }

const char *cerium_status_text(int status)
{
#define STATUS_CASE(symbol, value, text)                                                           \
    case value: return text;
    switch (status) {
        CERIUM_STATUS_MAP(STATUS_CASE)
    }
#undef STATUS_CASE
    return "unknown status";
}

static void set_defaults(cerium_engine_config *config)
{
    *config = (cerium_engine_config){.sessions_max = 8, .batch_tokens_max = 256};
}

void engine_hand_over(void *to, size_t size, const void *from, size_t own)
{
    memcpy(to, from, size < own ? size : own);
    if (size > own) memset((char *)to + own, 0, size - own); /* a newer caller's fields */
}

void cerium_engine_config_defaults_sized(cerium_engine_config *config, size_t size)
{
    cerium_engine_config all;
    set_defaults(&all);
    all.size = size;
    engine_hand_over(config, size, &all, sizeof all);
}

int engine_broken(const cerium_engine *e, cerium_error *err)
{
    return error_set(err, CERIUM_ERR_NUMBERS,
                     "%s computed values that are not numbers: its file is damaged; fetch or "
                     "convert it again", e->name);
}

static int check_config(const cerium_engine_config *config, cerium_error *err)
{
    if (!config->model_path)
        return error_set(err, CERIUM_ERR_ARGUMENT, "model_path is not set");
    if (config->threads > TEAM_WORKERS_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%u threads: at most %d", config->threads,
                         TEAM_WORKERS_MAX);
    if (config->sessions_max < 1 || config->sessions_max > SESSIONS_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "sessions_max is %u; it must be 1 to %d",
                         config->sessions_max, SESSIONS_MAX);
    if (config->batch_tokens_max < 1 || config->batch_tokens_max > BATCH_TOKENS_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT, "batch_tokens_max is %u; it must be 1 to %d",
                         config->batch_tokens_max, BATCH_TOKENS_MAX);
    return CERIUM_OK;
}

static int choose_cpu(cerium_engine *e, const char *name, cerium_error *err)
{
    kernel_cpu have = kernel_cpu_detect();
    e->cpu = have;
    if (!name) name = getenv("CERIUM_CPU");
    if (name && *name) {
        if (!kernel_cpu_of_name(name, &e->cpu))
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "instruction set '%s' is unknown; there are ref, avx2, avx512vnni, "
                             "amx, neon, neondot",
                             name);
        if (!kernel_cpu_has(e->cpu))
            return error_set(err, CERIUM_ERR_ARGUMENT, "this machine has no %s; its best is %s",
                             name, kernel_cpu_name(have));
    }
    kernel_table_init(&e->kernels, e->cpu);
    return CERIUM_OK;
}

static int choose_kv_type(cerium_engine *e, const char *name, cerium_error *err)
{
    if (!name) name = getenv("CERIUM_KV");
    e->kv_type = kernel_kv_default(e->program->shape.head_dim);
    if (name && *name && !kernel_kv_of_name(name, &e->kv_type))
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "keys and values cannot be kept in '%s'; there are i8, f16, f32", name);
    return CERIUM_OK;
}

/* One thread for each usable core, at most as many as the CPU quota feeds. */
static uint32_t threads_by_default(void)
{
    uint32_t cpus[THREAD_CPUS_MAX], n_cores;
    uint64_t quota = quota_percent("") / 100;
    thread_cpus(cpus, &n_cores);
    if (n_cores > TEAM_WORKERS_MAX) n_cores = TEAM_WORKERS_MAX;
    if (quota < 1) quota = 1;
    return quota < n_cores ? (uint32_t)quota : n_cores;
}

static int choose_head(const char *name, model_options *out, cerium_error *err)
{
    *out = (model_options){.head = MODEL_HEAD_AUTO};
    if (!name) name = getenv("CERIUM_HEAD");
    if (!name || !*name || !strcmp(name, "auto")) return CERIUM_OK;
    if (!strcmp(name, "full"))
        out->head = MODEL_HEAD_FULL;
    else if (!strcmp(name, "search"))
        out->head = MODEL_HEAD_SEARCH;
    else if (block_type_of_name(view_of(name), &out->head_type) && block_is_written(out->head_type))
        out->head = MODEL_HEAD_TYPE;
    else
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "an output head '%s' is unknown; there are auto, full, search, and types "
                         "of tensors, for example q6_k", name);
    return CERIUM_OK;
}

static int choose_speculation(cerium_engine *e, const char *name, cerium_error *err)
{
    if (!name) name = getenv("CERIUM_SPECULATION");
    if (!name || !*name) name = "auto";
    e->speculates = strcmp(name, "off") != 0;
    e->drafts_always = !strcmp(name, "always");
    if (e->speculates && !e->drafts_always && strcmp(name, "auto"))
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "speculation '%s' is unknown; there are auto, off, always", name);
    return CERIUM_OK;
}

static int start_team(cerium_engine *e, uint32_t threads, const cerium_engine *with,
                      cerium_error *err)
{
    if (with)
        e->shared = shared_team_hold(with->shared);
    else
        RETURN_IF(shared_team_open(&e->shared, threads ? threads : threads_by_default(), err));
    e->workers = shared_team_threads(e->shared);
    return CERIUM_OK;
}

/* ---- open ---- */

/* The position at which attention costs as many multiplications as the weights: the cost of
 * evicting a page depends on it. */
static uint32_t even_tokens(const cerium_engine *e)
{
    const model *m = e->model;
    const step_shape *s = &e->program->shape;
    double read = (double)model_step_bytes(m) / (double)model_weights_bytes(m); /* of experts */
    double attention = 2.0 * s->n_kv_layers * s->n_heads * s->head_dim;
    double even = attention > 0 ? (double)model_n_parameters(m) * read / attention : 0;
    return even < UINT32_MAX ? (uint32_t)even : UINT32_MAX;
}

static int open_pool(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const step_program *program = e->program;
    const step_shape *s = &program->shape;
    uint32_t windows[512] = {0};
    kv_heads heads[ARRAY_LEN(windows)];
    CHECK(s->n_kv_layers <= ARRAY_LEN(windows));
    cpu_kv_windows(program, windows);
    cpu_kv_heads(program, heads);
    if (config->context_tokens_max > s->context_tokens)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "a context of %u tokens: the model was made for %u",
                         config->context_tokens_max, s->context_tokens);
    e->context_tokens_max =
        config->context_tokens_max ? config->context_tokens_max : s->context_tokens;
    if (e->beside && e->context_tokens_max > DRAFT_CONTEXT_MAX)
        e->context_tokens_max = DRAFT_CONTEXT_MAX;
    e->batch_tokens_max = config->batch_tokens_max;
    e->sessions_max = config->sessions_max;
    long n_pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    uint64_t memory = n_pages > 0 && page_bytes > 0 ? (uint64_t)n_pages * (uint64_t)page_bytes : 0;
    kv_layout layout = {
        .type = e->kv_type,
        .n_layers = s->n_kv_layers,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .heads = heads,
        .windows = windows,
        .context_tokens = e->context_tokens_max,
        .batch_tokens = e->batch_tokens_max,
        .sequences_max = config->sessions_max,
        .bytes = config->kv_bytes_max,
        .bytes_max = memory / KV_MEMORY_PART,
        .state_bytes = size_round_up(cpu_state_floats(program) * sizeof(float), MEMORY_ALIGN),
        .even_tokens = even_tokens(e),
    };
    e->has_states = layout.state_bytes > 0;
    e->kv_bytes = kv_layout_bytes(&layout);
    kv_layout least = layout;
    least.bytes = 1;
    e->kv_bytes_min = kv_layout_bytes(&least);
    return config->vocab_only ? CERIUM_OK : kv_pool_open(&e->pool, &layout, err);
}

/* For embedding models: how states are pooled, and the token that ends a text. */
static void read_pooling(cerium_engine *e)
{
    char key[128];
    uint64_t type = 0;
    bool adds_end = false;
    snprintf(key, sizeof key, "%s.pooling_type", model_architecture(e->model));
    if (gguf_get_u64(e->file, key, &type) && type <= CERIUM_POOLING_LAST)
        e->pooling = (cerium_pooling)type;
    e->text_end = -1;
    if (gguf_get_bool(e->file, "tokenizer.ggml.add_eos_token", &adds_end) && adds_end)
        e->text_end = tokenizer_role(e->tokens, TOKEN_EOS);
}

/* Keys of our own: docs/formats.md. */
static void read_own_keys(cerium_engine *e)
{
    view format;
    gguf_get_f32(e->file, "cerium.pointer", &e->pointer);
    if (!(e->pointer > 0 && e->pointer <= 1)) e->pointer = 0; /* and not-a-number */
    gguf_get_f32(e->file, "cerium.confidence", &e->confidence);
    if (!(e->confidence > 0 && e->confidence <= 1)) e->confidence = 0;
    gguf_get_bool(e->file, "cerium.completes_only", &e->completes_only);
    if (gguf_get_string(e->file, "cerium.edit_format", &format) &&
        format.len < sizeof e->edit_format) /* a longer name is unknown */
        memcpy(e->edit_format, format.ptr, format.len);
}

static void size_logits(cerium_engine *e)
{
    e->n_vocab = e->program->shape.n_vocab;
    e->tops_at = size_round_up(e->n_vocab, KERNEL_PANEL_ROWS);
    e->logits_stride = e->tops_at + size_round_up(size_round_up(e->n_vocab, CPU_PIECE) / CPU_PIECE,
                                                  KERNEL_PANEL_ROWS);
}

static int read_vocabulary(cerium_engine *e, cerium_error *err)
{
    RETURN_IF(tokenizer_open(&e->tokens, e->file, err));
    size_logits(e);
    if (tokenizer_n_tokens(e->tokens) > e->n_vocab)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: the vocabulary has %u tokens and the weights know %u",
                         gguf_path(e->file), tokenizer_n_tokens(e->tokens), e->n_vocab);
    for (uint32_t i = 0; i < tokenizer_n_tokens(e->tokens); i++) {
        size_t len;
        tokenizer_bytes(e->tokens, (int32_t)i, &len);
        if (len > e->token_bytes_max) e->token_bytes_max = (uint32_t)len;
    }
    RETURN_IF(chat_form_open(&e->chat, e->tokens, e->chat_wanted, err));
    if (chat_end_token(&e->chat) >= 0) tokenizer_end_also(e->tokens, chat_end_token(&e->chat));
    e->infill = infill_detect(e->tokens);
    read_own_keys(e);
    read_pooling(e);
    return CERIUM_OK;
}

static int take_name(cerium_engine *e, cerium_error *err)
{
    view name;
    if (!gguf_get_string(e->file, "general.name", &name) || name.len == 0) {
        const char *path = gguf_path(e->file), *slash = strrchr(path, '/');
        name = view_of(slash ? slash + 1 : path);
    }
    e->name = memory_copy(name.ptr, name.len);
    return e->name ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
}

/* Memory that a decode loop will touch, within reason, so that it meets no page fault. */
static void touch_logits(cerium_engine *e)
{
    size_t size = CERIUM_STEP_TOKENS_MAX * e->logits_stride * sizeof *e->logits;
    memory_populate(e->logits, size < LOGITS_POPULATE_BYTES ? size : LOGITS_POPULATE_BYTES);
}

/* Rows of a pass: a piece of a prompt, and the next token of every other request. */
static int open_passes(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    uint32_t rows_max = e->batch_tokens_max + ENGINE_STREAMS_MAX, n = team_n_workers(e->workers);
    RETURN_IF(cpu_executor_open(&e->executor, e->program, &e->kernels, e->workers, rows_max, err));
    cpu_executor_observe(e->executor, config->observe, config->observe_user);
    e->rows = memory_zalloc(rows_max, sizeof *e->rows);
    e->samplers = memory_zalloc(n, sizeof *e->samplers);
    e->logits_bytes = ENGINE_LOGITS_MAX * e->logits_stride * sizeof *e->logits;
    e->logits = memory_map(e->logits_bytes);
    if (e->logits) touch_logits(e);
    if (!e->rows || !e->samplers || !e->logits)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
    for (uint32_t i = 0; i < n; i++) RETURN_IF(sampler_open(&e->samplers[i], e->n_vocab, err));
    return CERIUM_OK;
}

/* A draft model that reads as many bytes a token as the main model saves no time. */
static int check_size(const cerium_engine *e, cerium_error *err)
{
    if (!e->beside || model_step_bytes(e->model) <= model_step_bytes(e->beside->model))
        return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: it reads %llu MB for a token, more than the model that it would help",
                     gguf_path(e->file), (unsigned long long)(model_step_bytes(e->model) >> 20));
}

const char *engine_draft_name(const cerium_engine_config *config)
{
    const char *name = config->draft_model ? config->draft_model : getenv("CERIUM_DRAFT_MODEL");
    return name ? name : "";
}

/* Its weights are loaded where nothing else is to draft. */
static bool wants_head(const cerium_engine *e, const cerium_engine_config *config)
{
    const char *name = engine_draft_name(config);
    return e->speculates && !e->beside && (!*name || !strcmp(name, ENGINE_DRAFT_HEAD));
}

static int open_locks(cerium_engine *e, cerium_error *err)
{
    e->has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
    e->has_pass = thread_turn_open(&e->pass);
    if (e->has_lock && e->has_pass) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for a lock");
}

static int open_parts(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    RETURN_IF(open_locks(e, err));
    e->chat_wanted = config->chat_form;
    RETURN_IF(choose_cpu(e, config->cpu, err));
    RETURN_IF(choose_speculation(e, config->speculation, err));
    RETURN_IF(gguf_open(&e->file, config->model_path, err));
    e->fingerprint = gguf_content_fingerprint(e->file);
    RETURN_IF(take_name(e, err));
    model_options options;
    RETURN_IF(choose_head(config->head, &options, err));
    options.exact = e->exact = config->exact;
    options.mtp = wants_head(e, config);
    RETURN_IF(model_open(&e->model, e->file, &options, err));
    e->program = model_program(e->model);
    RETURN_IF(choose_kv_type(e, config->kv_type, err));
    RETURN_IF(read_vocabulary(e, err));
    RETURN_IF(check_size(e, err));
    RETURN_IF(open_pool(e, config, err));
    if (config->vocab_only) return CERIUM_OK;
    RETURN_IF(start_team(e, config->threads, e->beside ? e->beside : config->threads_of, err));
    RETURN_IF(open_passes(e, config, err));
    return engine_load_weights(e, config, err);
}

static int borrow_head(cerium_engine *e, cerium_error *err)
{
    static const char name[] = "the model's MTP head";
    e->file = e->beside->file;
    e->model = e->beside->model;
    e->program = model_mtp(e->model);
    e->name = memory_copy(name, sizeof name - 1);
    return e->name ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
}

static int open_head_file(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    model_options options;
    RETURN_IF(gguf_open(&e->file, config->model_path, err));
    RETURN_IF(take_name(e, err));
    RETURN_IF(choose_head(NULL, &options, err));
    options.exact = e->beside->exact;
    options.of = e->beside->program;
    RETURN_IF(model_open(&e->model, e->file, &options, err));
    e->program = model_program(e->model);
    return CERIUM_OK;
}

static int open_head_parts(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const cerium_engine *of = e->beside;
    const bool has_file = config->model_path != NULL;
    RETURN_IF(open_locks(e, err));
    e->tokens = of->tokens;
    e->cpu = of->cpu;
    e->kernels = of->kernels;
    e->kv_type = of->kv_type;
    RETURN_IF(has_file ? open_head_file(e, config, err) : borrow_head(e, err));
    size_logits(e);
    RETURN_IF(open_pool(e, config, err));
    RETURN_IF(start_team(e, 0, of, err));
    RETURN_IF(open_passes(e, config, err));
    return has_file ? engine_load_weights(e, config, err) : CERIUM_OK;
}

typedef int open_fn(cerium_engine *e, const cerium_engine_config *config, cerium_error *err);

static int open_engine(cerium_engine **out, open_fn *parts, const cerium_engine_config *config,
                       const cerium_engine *beside, cerium_error *err)
{
    cerium_engine *e = memory_zalloc(1, sizeof *e);
    if (!e) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
    e->beside = beside;
    e->is_head = parts == open_head_parts;
    int status = parts(e, config, err);
    if (status)
        engine_close_alone(&e);
    else
        *out = e;
    return status;
}

int engine_open_head(cerium_engine **out, const cerium_engine_config *config,
                     const cerium_engine *of, cerium_error *err)
{
    return open_engine(out, open_head_parts, config, of, err);
}

int engine_open_alone(cerium_engine **out, const cerium_engine_config *config,
                      const cerium_engine *beside, cerium_error *err)
{
    RETURN_IF(check_config(config, err));
    return open_engine(out, open_parts, config, beside, err);
}

void engine_close_alone(cerium_engine **engine)
{
    if (!engine || !*engine) return;
    cerium_engine *e = *engine;
    mask_vocabulary *sorted = atomic_load(&e->vocabulary);
    pointer_vocabulary *words = atomic_load(&e->words);
    CHECK(!e->claims);
    for (uint32_t i = 0; e->samplers && i < team_n_workers(e->workers); i++)
        sampler_close(&e->samplers[i]);
    memory_free(e->samplers);
    memory_free(e->rows);
    memory_unmap(e->logits, e->logits_bytes);
    kept_rows_close(e);
    cpu_executor_close(&e->executor);
    shared_team_release(&e->shared);
    kv_pool_close(&e->pool);
    mask_vocabulary_close(&sorted);
    pointer_vocabulary_close(&words);
    chat_form_close(&e->chat);
    if (!e->is_head) tokenizer_close(&e->tokens);
    if (!e->is_head || e->file != e->beside->file) {
        model_close(&e->model);
        gguf_close(&e->file);
    }
    memory_free(e->name);
    memory_free(e->cache_path);
    if (e->has_lock) pthread_mutex_destroy(&e->lock);
    if (e->has_pass) thread_turn_close(&e->pass);
    memory_free(e);
    *engine = NULL;
}

/* ---- passes ---- */

void engine_begin_pass(cerium_engine *e, uint32_t class_)
{
    thread_turn_take(&e->pass);
    shared_team_take(e->shared, &e->turn, class_);
}

void engine_end_pass(cerium_engine *e, bool continues)
{
    shared_team_give(e->shared, &e->turn, continues);
    thread_turn_give(&e->pass);
}

void engine_leave_threads(cerium_engine *e)
{
    thread_turn_take(&e->pass); /* a call of another thread may be using them */
    shared_team_leave(e->shared, &e->turn);
    thread_turn_give(&e->pass);
}

/* ---- what others wait for ---- */

void engine_wake(cerium_engine *e) { thread_bell_ring(&e->bell); }

/* A request that is submitted after this look finds the room. */
void engine_has_room(cerium_engine *e)
{
    for (int i = 0; i < CERIUM_CLASSES; i++)
        if (atomic_load(&e->counts.waiting[i]) || atomic_load(&e->counts.running[i])) {
            engine_wake(e);
            return;
        }
}
