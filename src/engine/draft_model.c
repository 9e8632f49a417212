/* draft_model.c - opening a model or a head that drafts for another model. */
#include "engine/draft_model.h"

#include "base/memory.h"
#include "engine/engine.h"

/* One line that names the draft model. */
static int refuse(int status, const cerium_error *why, cerium_error *err)
{
    return error_set(err, status, "draft model: %s", why->message);
}

/* An engine with few pages: an eighth of those of the main engine, or one context. */
static int open_engine(draft_model *m, cerium_engine *e, const cerium_engine_config *config,
                       const char *path, cerium_error *err)
{
    kv_use pages;
    kv_pool_measure(e->pool, &pages);
    cerium_engine_config own;
    cerium_engine_config_defaults(&own);
    own.model_path = path;
    own.sessions_max = e->sessions_max;
    own.batch_tokens_max = DRAFT_BATCH_TOKENS;
    own.kv_bytes_max = kv_token_bytes(e->pool) * KERNEL_PAGE * pages.blocks_max / DRAFT_KV_PART;
    own.cpu = kernel_cpu_name(e->cpu);
    own.kv_type = config->kv_type;
    own.cache = config->cache;
    own.kv_disk = "off";
    own.speculation = "off";
    own.notice = config->notice;
    own.notice_user = config->notice_user;
    own.progress = config->progress;
    own.progress_user = config->progress_user;
    if (own.kv_bytes_max == 0) own.kv_bytes_max = 1;
    if (m->is_head) return engine_open_head(&m->engine, &own, e, err);
    return engine_open_alone(&m->engine, &own, e, err);
}

/* Is it the model's own head, or a file of one?  Opening as a model tells what is wrong with a file
 * that cannot be opened. */
static int find_kind(draft_model *m, const char *path, cerium_error *err)
{
    gguf_file *file = NULL;
    m->is_head = path == NULL;
    if (!path) return CERIUM_OK;
    int status = gguf_open(&file, path, err);
    if (status) return status == CERIUM_ERR_MEMORY ? status : CERIUM_OK;
    m->is_head = model_is_drafter(file);
    gguf_close(&file);
    return CERIUM_OK;
}

/* The model keeps what the head reads of each row. */
static int open_taps(draft_model *m, cerium_engine *e, cerium_error *err)
{
    const step_shape *s = &m->engine->program->shape;
    uint32_t ops[8];
    CHECK(s->n_taps <= ARRAY_LEN(ops));
    m->said = model_said_tokens(m->engine->model);
    for (uint32_t i = 0; i < s->n_taps; i++)
        ops[i] = model_layer_begins(e->program, model_taps(m->engine->model)[i]);
    if (!cpu_executor_tap(e->executor, ops, s->n_taps)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the draft model");
}

/* Small vocabularies cost less than a set of their tokens. */
static int choose_vocabulary(draft_model *m, cerium_engine *e, cerium_error *err)
{
    const uint32_t n = tokenizer_n_tokens(e->tokens), n_draft = m->engine->n_vocab;
    const uint32_t n_first = VOCABULARY_FIRST * VOCABULARY_PANEL;
    _Static_assert((int)VOCABULARY_PANEL == (int)KERNEL_PANEL_ROWS, "of the matrix");
    m->n_tokens = (int32_t)(m->said || n > n_draft ? n_draft : n);
    if (m->said || !translator_copies(m->translator) || m->n_tokens < (int32_t)(2 * n_first))
        return CERIUM_OK;
    if (!draft_vocabulary_open(&m->vocabulary, e->tokens, (uint32_t)m->n_tokens, VOCABULARY_FIRST))
        return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the draft model");
}

/* A head reads states of the model: rings for those of sessions. */
static int open_states(draft_model *m, const cerium_engine *e, cerium_error *err)
{
    const step_shape *s = &m->engine->program->shape;
    const uint32_t n = s->n_taps ? s->n_taps * s->n_tapped : s->n_embd;
    if (!m->is_head || !taps_pool_open(&m->states, e->sessions_max, n)) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_MEMORY, "no memory for the draft model");
}

int draft_model_open(draft_model **out, cerium_engine *e, const cerium_engine_config *config,
                     const char *path, cerium_error *err)
{
    cerium_error why = {0};
    draft_model *m = memory_zalloc(1, sizeof *m);
    if (!m) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the draft model");
    int status = find_kind(m, path, &why);
    if (!status) status = open_engine(m, e, config, path, &why);
    if (!status && m->engine->has_states)
        status = error_set(&why, CERIUM_ERR_FORMAT,
                           "%s: a model with recurrent layers cannot draft", path);
    if (!status && m->engine->program->shape.n_taps) status = open_taps(m, e, &why);
    if (!status) status = open_states(m, e, &why);
    if (!status) status = translator_open(&m->translator, e->tokens, m->engine->tokens, &why);
    if (!status) status = choose_vocabulary(m, e, &why);
    if (status) {
        draft_model_close(&m);
        return refuse(status, &why, err);
    }
    budget_init(&m->budget);
    *out = m;
    return CERIUM_OK;
}

void draft_model_close(draft_model **m)
{
    if (!m || !*m) return;
    taps_pool_close(&(*m)->states);
    translator_close(&(*m)->translator);
    draft_vocabulary_close(&(*m)->vocabulary);
    engine_close_alone(&(*m)->engine);
    memory_free(*m);
    *m = NULL;
}

uint64_t draft_model_bytes(const draft_model *m)
{
    kv_use pages;
    kv_pool_measure(m->engine->pool, &pages);
    const bool borrows = m->engine->file == m->engine->beside->file;
    return (borrows ? 0 : model_weights_bytes(m->engine->model)) +
           kv_token_bytes(m->engine->pool) * KERNEL_PAGE * pages.blocks_max +
           taps_pool_bytes(&m->states) + cpu_executor_tap_bytes(m->engine->beside->executor);
}
