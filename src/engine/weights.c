/* weights.c - panels for an engine: mapped from the file of an earlier start, or repacked and
 * stored.
 *
 * The compute team does the work: checking chunks of a mapped file, repacking, writing.  If other
 * engines use that team meanwhile, separate threads of low priority do it: such work waits for
 * files, and may take minutes. */
#include "engine/engine.h"

#include "base/memory.h"
#include "model/panel_file.h"

typedef struct {
    cerium_engine *e;
    const cerium_engine_config *config;
    team *workers;               /* that do the work */
    panel_places places;
    panel_key key;
    panel_map map;
    panel_writer writer;
    char found[PANEL_TEXT_MAX];  /* what was wrong with a kept file; "" */
    uint8_t *panels;             /* repacked ones */
    uint64_t total, done_before; /* of the progress: bytes */
    uint32_t n_units;            /* of the running phase */
    _Atomic uint32_t n_done, n_bad;
    _Atomic int status;          /* of repacking; of all, CERIUM_ERR_CANCELED */
    _Atomic uint32_t bad_item;   /* that CERIUM_ERR_FORMAT is of */
    int result;                  /* of load() on a thread of its own */
} loading;

static void notice(const loading *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void notice(const loading *l, const char *format, ...)
{
    cerium_error text; /* one clean line, as errors are */
    char line[sizeof text.message];
    va_list args;
    if (!l->config->notice) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    error_set(&text, CERIUM_OK, "%s", line);
    l->config->notice(l->config->notice_user, text.message);
}

/* ---- phases of the team ---- */

/* Reported by the caller's own thread alone. */
static void report(loading *l, uint32_t n, uint32_t worker)
{
    uint32_t done = atomic_fetch_add(&l->n_done, n) + n;
    if (worker != 0 || !l->config->progress) return;
    l->config->progress(l->config->progress_user,
                        l->done_before + l->key.bytes * done / l->n_units, l->total);
}

static void run_phase(loading *l, uint32_t n_units, team_fn *fn)
{
    /* A pass holds at most TEAM_UNITS_MAX units: 1M of half a megabyte. */
    team_phase phase = {.n_units = n_units, .chunk = 1};
    l->n_units = n_units;
    atomic_store(&l->n_done, 0);
    team_run(l->workers, &phase, 1, fn, l);
    l->done_before += l->key.bytes;
}

/* Loading was canceled: skip the rest of the phase. */
static bool is_canceled(loading *l)
{
    if (!l->config->canceled) return false;
    if (l->config->canceled(l->config->canceled_user))
        atomic_store(&l->status, CERIUM_ERR_CANCELED);
    return atomic_load(&l->status) == CERIUM_ERR_CANCELED;
}

static void check_chunks(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    loading *l = arg;
    (void)phase;
    for (uint32_t i = first; i < end && !atomic_load(&l->n_bad) && !is_canceled(l); i++)
        if (!panel_map_check(&l->map, i)) atomic_fetch_add(&l->n_bad, 1);
    report(l, end - first, worker);
}

static void repack_items(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    loading *l = arg;
    (void)phase;
    for (uint32_t i = first; i < end && !is_canceled(l); i++) {
        int status = model_repack(l->e->model, i);
        if (status == CERIUM_ERR_FORMAT) atomic_store(&l->bad_item, i);
        if (status) atomic_store(&l->status, status);
    }
    report(l, end - first, worker);
}

/* A written chunk is in the page cache: drop the copy in memory. */
static void write_chunks(void *arg, uint32_t phase, uint32_t first, uint32_t end, uint32_t worker)
{
    loading *l = arg;
    (void)phase;
    for (uint32_t i = first; i < end && !is_canceled(l); i++) {
        uint64_t at = (uint64_t)i * PANEL_CHUNK_BYTES, left = l->key.bytes - at;
        if (panel_writer_put(&l->writer, i, l->panels))
            memory_drop(l->panels + at, left < PANEL_CHUNK_BYTES ? left : PANEL_CHUNK_BYTES);
    }
    report(l, end - first, worker);
}

/* ---- the ways to panels ---- */

static int take_map(loading *l)
{
    if (!l->map.panels) return CERIUM_OK;
    atomic_store(&l->n_bad, 0);
    run_phase(l, (uint32_t)panel_n_chunks(l->key.bytes), check_chunks);
    if (is_canceled(l)) return CERIUM_ERR_CANCELED;
    if (atomic_load(&l->n_bad)) {
        snprintf(l->map.fault, sizeof l->map.fault, "%.300s: damaged", l->map.path);
        return CERIUM_OK;
    }
    l->e->cache_path = memory_copy(l->map.path, strlen(l->map.path));
    if (!l->e->cache_path) return CERIUM_ERR_MEMORY;
    model_set_panels(l->e->model, l->map.panels);
    l->map.panels = NULL;
    return CERIUM_OK;
}

/* Use a stored file if every chunk is right; else e->cache_path stays NULL. */
static int map_kept(loading *l)
{
    int status = panel_map_open(&l->map, &l->places, &l->key);
    if (!status) status = take_map(l);
    if (!l->found[0]) memcpy(l->found, l->map.fault, sizeof l->found);
    panel_map_close(&l->map);
    return status;
}

/* Into memory of our own. */
static int repack(loading *l)
{
    if (!l->panels) {
        l->panels = memory_map(l->key.bytes);
        if (!l->panels) return CERIUM_ERR_MEMORY;
        model_set_panels(l->e->model, l->panels);
    }
    run_phase(l, model_n_repack_items(l->e->model), repack_items);
    return atomic_load(&l->status);
}

/* Write the repacked panels to a file; true when it was written whole. */
static bool keep(loading *l)
{
    run_phase(l, (uint32_t)panel_n_chunks(l->key.bytes), write_chunks);
    return !is_canceled(l) && panel_writer_finish(&l->writer);
}

/* Repack, store, and map the stored file.  If storing failed half-way, repack the dropped part
 * again. */
static int make(loading *l)
{
    bool writing = panel_writer_open(&l->writer, &l->places, &l->key);
    l->total = l->key.bytes * (writing ? 3 : 1);
    l->done_before = 0;
    int status = repack(l);
    bool kept = writing && !status && keep(l);
    panel_writer_close(&l->writer);
    if (kept) status = map_kept(l);
    if (!status && is_canceled(l)) status = CERIUM_ERR_CANCELED;
    if (status || !writing || l->e->cache_path) return status;
    l->done_before = 0;
    return repack(l);
}

/* At most one notice about a bad file, or a failure to store. */
static void tell(const loading *l)
{
    if (l->e->cache_path) {
        if (l->found[0]) notice(l, "%s; made anew", l->found);
    } else if (l->writer.fault[0]) {
        notice(l, "%s; the repacked weights are not kept", l->writer.fault);
    } else if (l->found[0]) {
        notice(l, "%s; another process makes it anew", l->found);
    }
}

static int load(loading *l)
{
    const char *folder = l->config->cache ? l->config->cache : getenv("CERIUM_CACHE");
    RETURN_IF(panel_places_open(&l->places, l->config->model_path,
                                folder && *folder ? folder : NULL, l->key.bytes));
    l->total = l->key.bytes;
    RETURN_IF(map_kept(l));
    if (!l->e->cache_path) {
        RETURN_IF(make(l));
        tell(l);
    }
    if (l->config->progress)
        l->config->progress(l->config->progress_user, l->total, l->total);
    return CERIUM_OK;
}

/* ---- whose threads do it ---- */

/* Threads inherit the priority of their creator. */
static void *load_idly(void *arg)
{
    loading *l = arg;
    (void)thread_be_idle();
    l->workers = NULL; /* a team of all engines is not closed here */
    l->result = team_open(&l->workers, team_n_workers(l->e->workers), NULL);
    if (!l->result) l->result = load(l);
    team_close(&l->workers);
    return NULL;
}

static int load_beside(loading *l)
{
    pthread_t thread;
    if (thread_start(&thread, "weights", load_idly, l)) return CERIUM_ERR_MEMORY;
    pthread_join(thread, NULL);
    return l->result;
}

int engine_load_weights(cerium_engine *e, const cerium_engine_config *config, cerium_error *err)
{
    loading l = {.e = e, .config = config, .key = model_panel_key(e->model),
                 .workers = e->workers, .writer = {.fd = -1}};
    int status = config->threads_of ? load_beside(&l) : load(&l);
    panel_places_close(&l.places);
    if (status == CERIUM_ERR_CANCELED)
        return error_set(err, status, "%s: loading was canceled", gguf_path(e->file));
    if (status == CERIUM_ERR_FORMAT) {
        const view name = model_repack_tensor(e->model, atomic_load(&l.bad_item));
        return error_set(err, status, "%s: tensor %.*s has a value that is not a number",
                         gguf_path(e->file), (int)name.len, name.ptr);
    }
    if (status) return error_set(err, status, "%s: no memory for the weights", gguf_path(e->file));
    return CERIUM_OK;
}
