/* engine.c - opening a model: the file, its tokens, kernels, threads, weights and KV pool. */
#include "engine/engine.h"

#include <unistd.h>

#include "base/file.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/quota.h"

enum {
    SESSIONS_MAX = 1024,
    BATCH_TOKENS_MAX = 2048,
    KV_MEMORY_PART = 8, /* of the memory, for KV pages where nobody says how much */
};

const char *cerium_version(void)
{
#define TEXT_OF(x) #x
#define VERSION_OF(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
    return VERSION_OF(CERIUM_VERSION_MAJOR, CERIUM_VERSION_MINOR, CERIUM_VERSION_PATCH);
#undef VERSION_OF
#undef TEXT_OF
}

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

enum { CONFIG_BYTES_MAX = 65536 }; /* that a caller of any version may claim */

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
    if (name && *name && !kernel_kv_of_name(name, &e->kv_type))
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "keys and values cannot be kept in '%s'; there are i8, f16, f32", name);
    return CERIUM_OK;
}

/* One thread a core that we may use, and no more than our share of the time feeds. */
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
    else if (block_type_of_name(view_of(name), &out->head_type))
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

static int start_team(cerium_engine *e, uint32_t threads, cerium_error *err)
{
    if (e->beside) {
        e->workers = e->beside->workers;
        return CERIUM_OK;
    }
    return team_open(&e->workers, threads ? threads : threads_by_default(), err);
}

/* ---- open ---- */

/* Where in a timeline attending to what stands before costs as many multiplications as the weights:
 * what is lost with a page depends on it. */
static uint32_t even_tokens(const model *m)
{
    const step_shape *s = &model_program(m)->shape;
    double read = (double)model_step_bytes(m) / (double)model_weights_bytes(m); /* of experts */
    double attention = 2.0 * s->n_layers * s->n_heads * s->head_dim;
    double even = attention > 0 ? (double)model_n_parameters(m) * read / attention : 0;
    return even < UINT32_MAX ? (uint32_t)even : UINT32_MAX;
}

static int open_pool(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const step_shape *s = &model_program(e->model)->shape;
    uint32_t windows[512] = {0};
    CHECK(s->n_layers <= ARRAY_LEN(windows));
    cpu_kv_windows(model_program(e->model), windows);
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
        .n_layers = s->n_layers,
        .n_kv_heads = s->n_kv_heads,
        .head_dim = s->head_dim,
        .windows = windows,
        .context_tokens = e->context_tokens_max,
        .batch_tokens = e->batch_tokens_max,
        .sequences_max = config->sessions_max,
        .bytes = config->kv_bytes_max,
        .bytes_max = memory / KV_MEMORY_PART,
        .even_tokens = even_tokens(e->model),
    };
    return kv_pool_open(&e->pool, &layout, err);
}

static int read_vocabulary(cerium_engine *e, cerium_error *err)
{
    RETURN_IF(tokenizer_open(&e->tokens, e->file, err));
    e->n_vocab = model_program(e->model)->shape.n_vocab;
    e->tops_at = size_round_up(e->n_vocab, KERNEL_PANEL_ROWS);
    e->logits_stride = e->tops_at + size_round_up(size_round_up(e->n_vocab, CPU_PIECE) / CPU_PIECE,
                                                  KERNEL_PANEL_ROWS);
    if (tokenizer_n_tokens(e->tokens) > e->n_vocab)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "%s: the vocabulary has %u tokens and the weights know %u",
                         gguf_path(e->file), tokenizer_n_tokens(e->tokens), e->n_vocab);
    for (uint32_t i = 0; i < tokenizer_n_tokens(e->tokens); i++) {
        size_t len;
        tokenizer_bytes(e->tokens, (int32_t)i, &len);
        if (len > e->token_bytes_max) e->token_bytes_max = (uint32_t)len;
    }
    e->chat = chat_detect(e->tokens);
    e->infill = infill_detect(e->tokens);
    gguf_get_f32(e->file, "cerium.pointer", &e->pointer);
    if (!(e->pointer > 0 && e->pointer <= 1)) e->pointer = 0; /* and not-a-number */
    gguf_get_f32(e->file, "cerium.confidence", &e->confidence);
    if (!(e->confidence > 0 && e->confidence <= 1)) e->confidence = 0;
    gguf_get_bool(e->file, "cerium.completes_only", &e->completes_only);
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

/* What a decode loop will touch, within reason: it meets no page fault then. */
static void touch_logits(cerium_engine *e)
{
    size_t size = CERIUM_STEP_TOKENS_MAX * e->logits_stride * sizeof *e->logits;
    memory_populate(e->logits, size < LOGITS_POPULATE_BYTES ? size : LOGITS_POPULATE_BYTES);
}

/* Rows of a pass: a piece of prompt, and the next token of everybody else. */
static int open_passes(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    uint32_t rows_max = e->batch_tokens_max + ENGINE_STREAMS_MAX, n = team_n_workers(e->workers);
    RETURN_IF(cpu_executor_open(&e->executor, model_program(e->model), &e->kernels, e->workers,
                                rows_max, err));
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

/* The texts around, where somebody names them and drafts are made. */
static int open_workspace(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const char *folder = config->workspace ? config->workspace : getenv("CERIUM_WORKSPACE");
    const char *cache = config->cache ? config->cache : getenv("CERIUM_CACHE");
    char users[WORKSPACE_PATH_MAX];
    if (!folder || !*folder || !e->speculates) return CERIUM_OK;
    if (!cache || !*cache) cache = file_cache_folder(users, sizeof users) ? users : "off";
    workspace_config around = {.folder = folder,
                               .kept_in = strcmp(cache, "off") ? cache : NULL,
                               .tokens = e->tokens,
                               .n_vocab = e->n_vocab,
                               .notice = config->notice,
                               .user = config->notice_user};
    return workspace_open(&e->workspace, &around, err);
}

static int open_recall(cerium_engine *e, cerium_error *err)
{
    if (!e->speculates) return CERIUM_OK;
    e->recall = recall_open(RECALL_TENANTS_MAX, RECALL_TOKENS_MAX);
    return e->recall ? CERIUM_OK : error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
}

static int open_draft(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const char *path = config->draft_model ? config->draft_model : getenv("CERIUM_DRAFT_MODEL");
    if (!path || !*path || !e->speculates) return CERIUM_OK;
    return draft_model_open(&e->draft, e, config, path, err);
}

/* A model that reads as much for a token as the one it drafts for could not save time. */
static int check_size(const cerium_engine *e, cerium_error *err)
{
    if (!e->beside || model_step_bytes(e->model) <= model_step_bytes(e->beside->model))
        return CERIUM_OK;
    return error_set(err, CERIUM_ERR_FORMAT,
                     "%s: it reads %llu MB for a token, more than the model that it would help",
                     gguf_path(e->file), (unsigned long long)(model_step_bytes(e->model) >> 20));
}

static int open_parts(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    e->has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
    e->has_pass = thread_turn_open(&e->pass);
    if (!e->has_lock || !e->has_pass)
        return error_set(err, CERIUM_ERR_MEMORY, "no memory for a lock");
    RETURN_IF(choose_cpu(e, config->cpu, err));
    RETURN_IF(choose_kv_type(e, config->kv_type, err));
    RETURN_IF(choose_speculation(e, config->speculation, err));
    RETURN_IF(gguf_open(&e->file, config->model_path, err));
    RETURN_IF(take_name(e, err));
    model_options options;
    RETURN_IF(choose_head(config->head, &options, err));
    options.exact = config->exact;
    RETURN_IF(model_open(&e->model, e->file, &options, err));
    RETURN_IF(read_vocabulary(e, err));
    RETURN_IF(check_size(e, err));
    RETURN_IF(start_team(e, config->threads, err));
    RETURN_IF(open_pool(e, config, err));
    RETURN_IF(open_passes(e, config, err));
    RETURN_IF(engine_load_weights(e, config, err));
    RETURN_IF(engine_keep_kv(e, config, err));
    RETURN_IF(open_recall(e, err));
    RETURN_IF(open_draft(e, config, err));
    return open_workspace(e, config, err);
}

int engine_open_beside(cerium_engine **engine_out, const cerium_engine_config *config,
                       const cerium_engine *beside, cerium_error *err)
{
    RETURN_IF(check_config(config, err));
    cerium_engine *e = memory_zalloc(1, sizeof *e);
    if (!e) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
    e->beside = beside;
    int status = open_parts(e, config, err);
    if (status) {
        cerium_engine_close(&e);
        return status;
    }
    *engine_out = e;
    return CERIUM_OK;
}

int cerium_engine_open(cerium_engine **engine_out, const cerium_engine_config *config,
                       cerium_error *err)
{
    cerium_engine_config all;
    if (!engine_out || !config) return error_set(err, CERIUM_ERR_ARGUMENT, "no engine or config");
    if (config->size < offsetof(cerium_engine_config, threads) || config->size > CONFIG_BYTES_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "config.size %zu: cerium_engine_config_defaults() sets it", config->size);
    set_defaults(&all);
    memcpy(&all, config, config->size < sizeof all ? config->size : sizeof all);
    all.size = sizeof all;
    return engine_open_beside(engine_out, &all, NULL, err);
}

void cerium_engine_close(cerium_engine **engine)
{
    if (!engine || !*engine) return;
    cerium_engine *e = *engine;
    scheduler *sched = atomic_load(&e->scheduler);
    mask_vocabulary *sorted = atomic_load(&e->vocabulary);
    pointer_vocabulary *words = atomic_load(&e->words);
    CHECK(!e->sessions);
    if (e->pool) kv_pool_stop_keeping(e->pool); /* its threads ring the scheduler */
    scheduler_close(&sched);
    draft_model_close(&e->draft); /* it works with the same team */
    for (uint32_t i = 0; e->samplers && i < team_n_workers(e->workers); i++)
        sampler_close(&e->samplers[i]);
    memory_free(e->samplers);
    memory_free(e->rows);
    memory_unmap(e->logits, e->logits_bytes);
    cpu_executor_close(&e->executor);
    if (!e->beside) team_close(&e->workers);
    kv_pool_close(&e->pool);
    mask_vocabulary_close(&sorted);
    pointer_vocabulary_close(&words);
    workspace_close(&e->workspace);
    recall_close(&e->recall);
    tokenizer_close(&e->tokens);
    model_close(&e->model);
    gguf_close(&e->file);
    memory_free(e->name);
    memory_free(e->cache_path);
    if (e->has_lock) pthread_mutex_destroy(&e->lock);
    if (e->has_pass) thread_turn_close(&e->pass);
    memory_free(e);
    *engine = NULL;
}

void cerium_engine_measure_sized(const cerium_engine *e, cerium_engine_stats *out, size_t size)
{
    const engine_counts *c = &e->counts;
    kv_use pages;
    kv_pool_measure(e->pool, &pages);
    cerium_engine_stats stats = {
        .kv_pages_max = pages.blocks_max,
        .kv_pages_used = pages.held,
        .kv_pages_cached = pages.idle,
        .prompt_tokens = atomic_load(&c->prompt_tokens),
        .reused_tokens = atomic_load(&c->reused_tokens),
        .new_tokens = atomic_load(&c->new_tokens),
        .passes = atomic_load(&c->passes),
        .preempted_passes = atomic_load(&c->preempted_passes),
        .busy_ns = atomic_load(&c->busy_ns),
        .head_bytes = atomic_load(&c->head_bytes),
        .kv_disk_pages = pages.kept,
        .kv_disk_written_pages = pages.written,
        .kv_disk_loaded_pages = pages.loaded,
        .kv_disk_waiting_pages = pages.waiting,
        .kv_disk_evicted_pages = pages.evicted,
        .kv_disk_damaged_pages = pages.damaged,
        .kv_disk_lookups = pages.lookups,
        .kv_disk_hits = pages.hits,
        .kv_disk_bytes = pages.kept_bytes,
        .kv_disk_bytes_max = pages.kept_bytes_max,
        .kv_disk_failed = pages.gave_up,
        .drafting_ns = atomic_load(&c->drafting_ns),
        .workspace_tokens = e->workspace ? workspace_n_tokens(e->workspace) : 0,
        .workspace_drafted_tokens = atomic_load(&c->drafted[DRAFT_WORKSPACE]),
        .workspace_accepted_tokens = atomic_load(&c->accepted[DRAFT_WORKSPACE]),
        .recalled_tokens = e->recall ? recall_n_tokens(e->recall) : 0,
        .recalled_drafted_tokens = atomic_load(&c->drafted[DRAFT_EARLIER]),
        .recalled_accepted_tokens = atomic_load(&c->accepted[DRAFT_EARLIER]),
        .model_drafted_tokens = atomic_load(&c->drafted[DRAFT_MODEL]),
        .model_accepted_tokens = atomic_load(&c->accepted[DRAFT_MODEL]),
        .draft_model_passes = e->draft ? atomic_load(&e->draft->passes) : 0,
        .draft_model_tokens = e->draft ? atomic_load(&e->draft->computed) : 0,
        .draft_model_ns = e->draft ? atomic_load(&e->draft->ns) : 0,
    };
    for (int i = 0; i < DRAFT_SOURCES; i++) {
        stats.drafted_tokens += atomic_load(&c->drafted[i]);
        stats.accepted_tokens += atomic_load(&c->accepted[i]);
    }
    for (int i = 0; i < CERIUM_CLASSES; i++) {
        stats.running[i] = atomic_load(&c->running[i]);
        stats.waiting[i] = atomic_load(&c->waiting[i]);
    }
    engine_hand_over(out, size, &stats, sizeof stats);
}

void cerium_engine_describe_sized(const cerium_engine *e, cerium_engine_info *out, size_t size)
{
    cerium_engine_info info = {
        .name = e->name,
        .architecture = model_architecture(e->model),
        .quantization = block_name(model_main_type(e->model)),
        .cpu = kernel_cpu_name(e->cpu),
        .kv_type = kernel_kv_name(e->kv_type),
        .chat_form = e->chat.name,
        .fill_in_middle = e->infill.order != INFILL_NONE,
        .pointer = e->pointer,
        .confidence = e->confidence,
        .completes_only = e->completes_only,
        .threads = team_n_workers(e->workers),
        .n_vocab = e->n_vocab,
        .n_layers = model_program(e->model)->shape.n_layers,
        .context_tokens_max = e->context_tokens_max,
        .n_parameters = model_n_parameters(e->model),
        .weights_bytes = model_weights_bytes(e->model),
        .step_bytes = model_step_bytes(e->model),
        .kv_token_bytes = kv_token_bytes(e->pool),
        .token_bytes_max = tokenizer_drops_bytes(e->tokens) ? 0 : e->token_bytes_max,
        .cache_path = e->cache_path ? e->cache_path : "",
        .draft_model = e->draft ? e->draft->engine->name : "",
        .draft_model_bytes = e->draft ? draft_model_bytes(e->draft) : 0,
    };
    engine_hand_over(out, size, &info, sizeof info);
}
