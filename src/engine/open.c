/* open.c - opens an engine with KV on disk, a draft model and a workspace, and reports on it. */
#include "base/file.h"
#include "base/memory.h"
#include "engine/engine.h"

enum { CONFIG_BYTES_MAX = 65536 }; /* size that a caller of any version may give */

/* Open the workspace, if one is named and drafts are made. */
static int open_workspace(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const char *folder = config->workspace ? config->workspace : getenv("CERIUM_WORKSPACE");
    const char *cache = config->cache ? config->cache : getenv("CERIUM_CACHE");
    char kept[WORKSPACE_PATH_MAX];
    if (!folder || !*folder || !e->speculates) return CERIUM_OK;
    workspace_config around = {.folder = folder,
                               .kept_in = file_cache_folder_or(cache, kept, sizeof kept) ? kept
                                                                                         : NULL,
                               .tokens = e->tokens,
                               .n_vocab = e->n_vocab,
                               .notice = config->notice,
                               .user = config->notice_user};
    return workspace_open(&e->workspace, &around, err);
}

static int open_answer_cache(cerium_engine *e, cerium_error *err)
{
    if (!e->speculates) return CERIUM_OK;
    e->answers_given = answer_cache_open(ANSWER_CACHE_TENANTS_MAX, ANSWER_CACHE_TOKENS_MAX);
    if (e->answers_given) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the engine");
}

/* A model without all of its head serves without drafts by it. */
static void say_lacks(const cerium_engine *e, const cerium_engine_config *config)
{
    cerium_error line;
    if (!model_mtp_lacks(e->model) || !config->notice) return;
    error_set(&line, CERIUM_OK, "%s: its MTP head does not draft: %s",
              gguf_path(e->file), model_mtp_lacks(e->model));
    config->notice(config->notice_user, line.message);
}

static void say_unturned(const cerium_engine *e, const cerium_engine_config *config)
{
    cerium_error line;
    if (!model_is_unturned(e->model) || !config->notice) return;
    error_set(&line, CERIUM_OK, "%s: weights in PQ2_0 without keys prism.hadamard.*: files made so "
              "talk nonsense", gguf_path(e->file));
    config->notice(config->notice_user, line.message);
}

/* A file that somebody names, else the model's own head, where it has one. */
static int open_draft(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const char *name = engine_draft_name(config), *lacks = model_mtp_lacks(e->model);
    if (!e->speculates || !strcmp(name, ENGINE_DRAFT_OFF)) return CERIUM_OK;
    if (!strcmp(name, ENGINE_DRAFT_HEAD) && !model_mtp(e->model))
        return error_set(err, CERIUM_ERR_FORMAT, "draft model: %s: it has no MTP head of its own "
                         "that can draft%s%s", gguf_path(e->file), lacks ? ": " : "",
                         lacks ? lacks : "");
    if (!model_mtp(e->model) && !*name) {
        say_lacks(e, config);
        return CERIUM_OK;
    }
    if (model_mtp(e->model)) name = NULL;
    return draft_model_open(&e->draft, e, config, name, err);
}

static int open_rest(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    if (config->kv_watcher) kv_pool_watch(e->pool, config->kv_watcher, config->kv_watcher_user);
    RETURN_IF(engine_attach_disk(e, config, err));
    RETURN_IF(open_answer_cache(e, err));
    RETURN_IF(open_draft(e, config, err));
    say_unturned(e, config);
    return open_workspace(e, config, err);
}

int cerium_engine_open(cerium_engine **engine_out, const cerium_engine_config *config,
                       cerium_error *err)
{
    cerium_engine_config all;
    cerium_engine *e;
    if (!engine_out || !config) return error_set(err, CERIUM_ERR_ARGUMENT, "no engine or config");
    if (config->size < offsetof(cerium_engine_config, threads) || config->size > CONFIG_BYTES_MAX)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "config.size %zu: cerium_engine_config_defaults() sets it", config->size);
    cerium_engine_config_defaults(&all);
    memcpy(&all, config, config->size < sizeof all ? config->size : sizeof all);
    all.size = sizeof all;
    RETURN_IF(engine_open_alone(&e, &all, NULL, err));
    int status = all.vocab_only ? CERIUM_OK : open_rest(e, &all, err);
    if (status)
        cerium_engine_close(&e);
    else
        *engine_out = e;
    return status;
}

void cerium_engine_close(cerium_engine **engine)
{
    if (!engine || !*engine) return;
    cerium_engine *e = *engine;
    scheduler *sched = atomic_load(&e->scheduler);
    if (e->pool) kv_pool_detach_disk(e->pool); /* its threads wake the scheduler */
    scheduler_close(&sched);
    draft_model_close(&e->draft); /* it works with the same team */
    workspace_close(&e->workspace);
    answer_cache_close(&e->answers_given);
    engine_close_alone(engine);
}

void cerium_engine_measure_sized(const cerium_engine *e, cerium_engine_stats *out, size_t size)
{
    const engine_counts *c = &e->counts;
    kv_use pages = {0};
    if (e->pool) kv_pool_measure(e->pool, &pages);
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
        .shared_rows = atomic_load(&c->shared_rows),
        .answer_rows = atomic_load(&c->answer_rows),
        .kv_disk_pages = pages.disk_blocks,
        .kv_disk_written_pages = pages.written,
        .kv_disk_loaded_pages = pages.loaded,
        .kv_disk_waiting_pages = pages.waiting,
        .kv_disk_evicted_pages = pages.evicted,
        .kv_disk_damaged_pages = pages.damaged,
        .kv_disk_lookups = pages.lookups,
        .kv_disk_hits = pages.hits,
        .kv_disk_bytes = pages.disk_bytes,
        .kv_disk_bytes_max = pages.disk_bytes_max,
        .kv_disk_failed = pages.gave_up,
        .kv_disk_states = pages.disk_states,
        .kv_disk_written_states = pages.states_written,
        .kv_disk_loaded_states = pages.states_loaded,
        .kv_disk_evicted_states = pages.states_evicted,
        .kv_disk_damaged_states = pages.states_damaged,
        .drafting_ns = atomic_load(&c->drafting_ns),
        .workspace_tokens = e->workspace ? workspace_n_tokens(e->workspace) : 0,
        .workspace_drafted_tokens = atomic_load(&c->drafted[DRAFT_WORKSPACE]),
        .workspace_accepted_tokens = atomic_load(&c->accepted[DRAFT_WORKSPACE]),
        .recalled_tokens = e->answers_given ? answer_cache_n_tokens(e->answers_given) : 0,
        .recalled_drafted_tokens = atomic_load(&c->drafted[DRAFT_PAST_ANSWERS]),
        .recalled_accepted_tokens = atomic_load(&c->accepted[DRAFT_PAST_ANSWERS]),
        .model_drafted_tokens = atomic_load(&c->drafted[DRAFT_MODEL]),
        .model_accepted_tokens = atomic_load(&c->accepted[DRAFT_MODEL]),
        .draft_model_passes = e->draft ? atomic_load(&e->draft->passes) : 0,
        .draft_model_tokens = e->draft ? atomic_load(&e->draft->computed) : 0,
        .draft_model_ns = e->draft ? atomic_load(&e->draft->ns) : 0,
        .kv_bytes_used = pages.held_bytes,
    };
    for (int i = 0; i < DRAFT_SOURCES; i++) {
        stats.drafted_tokens += atomic_load(&c->drafted[i]);
        stats.accepted_tokens += atomic_load(&c->accepted[i]);
    }
    for (int i = 0; i < CERIUM_CLASSES; i++) {
        stats.waiting[i] = atomic_load(&c->waiting[i]); /* first: begin_requests() says why */
        stats.running[i] = atomic_load(&c->running[i]);
    }
    engine_hand_over(out, size, &stats, sizeof stats);
}

void cerium_engine_limit_kv(cerium_engine *e, uint64_t kv_bytes)
{
    CHECK(e);
    if (e->pool) kv_pool_limit(e->pool, kv_bytes);
    engine_has_room(e);
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
        .edit_format = e->edit_format,
        .call_form = e->chat.calls ? e->chat.calls : e->chat.name,
        .chat_refusal = e->chat.refusal ? e->chat.refusal : "",
        .threads = e->workers ? team_n_workers(e->workers) : 0,
        .n_vocab = e->n_vocab,
        .n_layers = model_program(e->model)->shape.n_layers,
        .context_tokens_max = e->context_tokens_max,
        .n_parameters = model_n_parameters(e->model),
        .weights_bytes = model_weights_bytes(e->model),
        .step_bytes = model_step_bytes(e->model),
        .kv_token_bytes = e->pool ? kv_token_bytes(e->pool) : 0,
        .token_bytes_max = tokenizer_drops_bytes(e->tokens) ? 0 : e->token_bytes_max,
        .cache_path = e->cache_path ? e->cache_path : "",
        .draft_model = e->draft ? e->draft->engine->name : "",
        .draft_model_bytes = e->draft ? draft_model_bytes(e->draft) : 0,
        .n_embedding = model_program(e->model)->shape.n_embd,
        .kv_bytes = e->kv_bytes,
        .pooling = e->pooling,
        .text_end = e->text_end,
        .state_bytes = cpu_state_floats(model_program(e->model)) * sizeof(float),
        .kv_bytes_min = e->kv_bytes_min,
        .fingerprint = e->fingerprint,
        .exact = e->exact,
    };
    engine_hand_over(out, size, &info, sizeof info);
}
