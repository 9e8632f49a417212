/* kv_disk.c - KV pages and states on disk for an engine: its folder, and the key of both. */
#include "engine/engine.h"

#include <limits.h>

#include "base/hash.h"
#include "base/memory.h"

enum { PROBE_TOKENS = 4 };

/* The pages and the next state of a sequence that was just computed, to its last token. */
static uint64_t hash_numbers(const cerium_engine *e, kv_sequence *seq)
{
    const step_program *p = model_program(e->model);
    uint64_t hash = PROBE_TOKENS;
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const step_op *op = &p->ops[i];
        if (!step_writes_kv(op)) continue;
        size_t size = kernel_kv_bytes(e->kv_type, op->head_dim);
        for (uint32_t head = 0; head < op->n_kv_heads; head++) {
            kv_page page = kv_sequence_page(seq, op->layer, head, 0);
            hash = hash_bytes(page.keys, size, hash);
            if (page.values) hash = hash_bytes(page.values, size, hash);
        }
    }
    if (!e->has_states) return hash;
    const size_t size = cpu_state_floats(p) * sizeof(float);
    return hash_bytes(kv_sequence_next_state(seq), size, hash);
}

/* A hash of the KV of a few tokens on this machine: it shows a change of the arithmetic without a
 * new version number.  Pages are fresh, so the bytes after the tokens are zero. */
static int probe(cerium_engine *e, uint64_t *numbers, cerium_error *err)
{
    kv_sequence *seq = NULL;
    RETURN_IF(kv_sequence_open(&seq, e->pool, e->context_tokens_max, 0, err));
    uint32_t n = PROBE_TOKENS;
    if (n > e->context_tokens_max) n = e->context_tokens_max;
    if (n > e->batch_tokens_max) n = e->batch_tokens_max;
    int status = kv_sequence_reserve(seq, n);
    for (uint32_t i = 0; i < n && !status; i++)
        e->rows[i] = (cpu_row){.token = (int32_t)((i + 1) * 7919 % e->n_vocab),
                               .position = i,
                               .sequence = seq};
    if (!status && e->has_states) e->rows[n - 1].next_state = kv_sequence_next_state(seq);
    const _Atomic bool never = false;
    engine_begin_pass(e, 0);
    if (!status) status = cpu_executor_run(e->executor, e->rows, n, &never);
    engine_end_pass(e, false);
    if (!status) *numbers = hash_bytes(CERIUM_VERSION, strlen(CERIUM_VERSION),
                                       hash_u64(e->cpu, hash_numbers(e, seq)));
    kv_sequence_close(&seq);
    return status ? error_set(err, status, "no memory for KV on disk") : CERIUM_OK;
}

/* The folder of this model in a shared folder: its file's name, a hash of its real path, and the
 * type of the pages.  Owned; NULL: too long, or out of memory. */
static char *folder_of(const cerium_engine *e, const char *parent)
{
    char real[PATH_MAX];
    const char *path = gguf_path(e->file), *slash = strrchr(path, '/');
    if (!realpath(path, real)) snprintf(real, sizeof real, "%s", path);
    char *out = memory_alloc(DISK_PATH_MAX);
    if (!out) return NULL;
    int n = snprintf(out, DISK_PATH_MAX, "%s/%.200s-%016llx-%s.kv", parent,
                     slash ? slash + 1 : path,
                     (unsigned long long)hash_bytes(real, strlen(real), 0),
                     kernel_kv_name(e->kv_type));
    if (n > 0 && n < (int)DISK_PATH_MAX - 64) return out;
    memory_free(out);
    return NULL;
}

/* Wake the requests that wait for pages from disk. */
static void loaded(void *user)
{
    engine_wake(user);
}

static void notice(void *user, const char *line)
{
    cerium_engine *e = user;
    if (e->notice) e->notice(e->notice_user, line);
}

int engine_attach_disk(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    const char *parent = config->kv_disk ? config->kv_disk : getenv("CERIUM_KV_DISK");
    if (!parent || !*parent || strcmp(parent, "off") == 0) return CERIUM_OK;
    e->notice = config->notice;
    e->notice_user = config->notice_user;
    kv_disk_config disk = {
        .model = gguf_fingerprint(e->file),
        .bytes_max = config->kv_disk_bytes_max ? config->kv_disk_bytes_max : DISK_BYTES_DEFAULT,
        .warm_bytes = KV_POPULATE_BYTES, /* touch the memory of these pages first */
        .notice = notice,
        .loaded = loaded,
        .user = e,
    };
    RETURN_IF(probe(e, &disk.numbers, err));
    char *folder = folder_of(e, parent);
    if (!folder)
        return error_set(err, CERIUM_ERR_ARGUMENT, "%.200s: a folder for KV with too long a name",
                         parent);
    disk.folder = folder;
    int status = kv_pool_attach_disk(e->pool, &disk, err);
    memory_free(folder);
    return status;
}

/* ---- what is on disk of a timeline ---- */

bool engine_fetch(cerium_session *s, uint64_t *ticket)
{
    if (*ticket == 0) {
        *ticket = kv_pool_fetch(s->engine->pool, s->pages.tenant, s->tokens, s->n_tokens - 1,
                                kv_sequence_length(s->pages.sequence));
        if (*ticket == 0) *ticket = ENGINE_FETCH_NONE;
    }
    if (*ticket == ENGINE_FETCH_NONE) return true;
    return kv_pool_is_fetched(s->engine->pool, *ticket);
}

bool engine_fetch_now(cerium_session *s)
{
    uint64_t ticket = 0;
    thread_spin wait = {0};
    while (!engine_fetch(s, &ticket) && !atomic_load(&s->cancel)) thread_wait_step(&wait);
    return ticket != ENGINE_FETCH_NONE;
}
