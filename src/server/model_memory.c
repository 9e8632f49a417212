/* model_memory.c - the memory bound of all models, and its distribution. */
#include "server/model_memory.h"

#include "server/model_list.h"
#include "server/state.h"

/* ---- of the machine ---- */

/* A number of bytes in a file of one line, or after a name in one of many; 0: missing. */
static uint64_t number_in(const char *path, const char *name, uint64_t unit)
{
    char text[4096];
    uint64_t n = 0;
    FILE *f = fopen(path, "re");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[len] = 0;
    const char *at = strstr(text, name);
    if (!at) return 0;
    at += strlen(name);
    at += strspn(at, " \t");
    return parse_u64((view){at, strspn(at, "0123456789")}, &n) ? n * unit : 0;
}

uint64_t models_memory_available(void)
{
    uint64_t all = number_in("/proc/meminfo", "MemAvailable:", 1024);
    uint64_t most = number_in("/sys/fs/cgroup/memory.max", "", 1); /* "max": no limit */
    uint64_t used = number_in("/sys/fs/cgroup/memory.current", "", 1);
    if (most && used < most && (!all || most - used < all)) all = most - used;
    return all / 10 * 9;
}

/* ---- of one model ---- */

uint64_t model_bytes_min(const served_model *m) { return m->own_bytes + m->kv_bytes_min; }

uint64_t model_bytes(const served_model *m)
{
    if (m->state == MODEL_UNLOADED) return model_bytes_min(m);
    return m->own_bytes + m->kv_bytes;
}

/* KV pages of its running sessions cannot be returned now. */
static uint64_t kv_least(const served_model *m)
{
    cerium_engine_stats stats = {.kv_bytes_used = 0};
    if (m->engine) cerium_engine_measure(m->engine, &stats);
    return stats.kv_bytes_used > m->kv_bytes_min ? stats.kv_bytes_used : m->kv_bytes_min;
}

/* ---- of all ---- */

static bool is_there(const served_model *m) { return m->state != MODEL_UNLOADED; }

uint64_t models_room(const server *s)
{
    uint64_t kept = 0;
    for (uint32_t i = 0; i < models_n(s); i++)
        if (models_at(s, i)->is_borrowed) kept += model_bytes_min(models_at(s, i));
    return s->models_bytes_max > kept ? s->models_bytes_max - kept : 0;
}

bool models_fit_with(const server *s, const served_model *m)
{
    uint64_t n = is_there(m) ? 0 : model_bytes_min(m);
    for (uint32_t i = 0; i < models_n(s); i++) {
        const served_model *other = models_at(s, i);
        if (is_there(other)) n += other->own_bytes + kv_least(other);
    }
    return n <= s->models_bytes_max;
}

void models_share(server *s, bool keeps)
{
    uint64_t left = s->models_bytes_max;
    uint32_t n_more = 0;
    for (uint32_t i = 0; i < models_n(s); i++) {
        served_model *m = models_at(s, i);
        if (!is_there(m)) continue;
        const uint64_t least = kv_least(m);
        if (!keeps || m->kv_bytes < least) m->kv_bytes = least;
        const uint64_t n = m->own_bytes + m->kv_bytes;
        left = left > n ? left - n : 0;
        n_more += m->kv_bytes < m->kv_bytes_max;
    }
    /* Each round fills one of them, or distributes all that is left. */
    while (n_more && left >= n_more) {
        const uint64_t each = left / n_more;
        n_more = 0;
        for (uint32_t i = 0; i < models_n(s); i++) {
            served_model *m = models_at(s, i);
            if (!is_there(m) || m->kv_bytes >= m->kv_bytes_max) continue;
            const uint64_t lacks = m->kv_bytes_max - m->kv_bytes;
            const uint64_t more = lacks < each ? lacks : each;
            m->kv_bytes += more;
            left -= more;
            n_more += m->kv_bytes < m->kv_bytes_max;
        }
    }
}

void models_limit(const server *s)
{
    for (uint32_t i = 0; i < models_n(s); i++) {
        const served_model *m = models_at(s, i);
        if (m->engine) cerium_engine_limit_kv(m->engine, m->kv_bytes);
    }
}
