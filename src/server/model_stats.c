/* model_stats.c - sums of engines' counters: these never decrease, though engines come and go. */
#include "server/model_stats.h"

#include "server/model_list.h"
#include "server/model_memory.h"

enum { PAGE_TOKENS = 64 }; /* of the engine's KV cache */

static void add_now(cerium_engine_stats *sum, const cerium_engine_stats *of)
{
    for (int i = 0; i < CERIUM_CLASSES; i++) {
        sum->running[i] += of->running[i];
        sum->waiting[i] += of->waiting[i];
    }
    sum->kv_pages_max += of->kv_pages_max;
    sum->kv_pages_used += of->kv_pages_used;
    sum->kv_pages_cached += of->kv_pages_cached;
    sum->kv_disk_pages += of->kv_disk_pages;
    sum->kv_disk_waiting_pages += of->kv_disk_waiting_pages;
    sum->kv_disk_states += of->kv_disk_states;
    sum->kv_disk_bytes += of->kv_disk_bytes;
    sum->kv_disk_bytes_max += of->kv_disk_bytes_max;
    sum->kv_disk_failed |= of->kv_disk_failed;
    sum->workspace_tokens += of->workspace_tokens;
    sum->recalled_tokens += of->recalled_tokens;
}

void stats_add(cerium_engine_stats *sum, const cerium_engine_stats *of, bool now)
{
    if (now) add_now(sum, of);
    sum->prompt_tokens += of->prompt_tokens;
    sum->reused_tokens += of->reused_tokens;
    sum->new_tokens += of->new_tokens;
    sum->drafted_tokens += of->drafted_tokens;
    sum->accepted_tokens += of->accepted_tokens;
    sum->passes += of->passes;
    sum->preempted_passes += of->preempted_passes;
    sum->busy_ns += of->busy_ns;
    sum->drafting_ns += of->drafting_ns;
    sum->head_bytes += of->head_bytes;
    sum->shared_rows += of->shared_rows;
    sum->answer_rows += of->answer_rows;
    sum->kv_disk_written_pages += of->kv_disk_written_pages;
    sum->kv_disk_loaded_pages += of->kv_disk_loaded_pages;
    sum->kv_disk_evicted_pages += of->kv_disk_evicted_pages;
    sum->kv_disk_damaged_pages += of->kv_disk_damaged_pages;
    sum->kv_disk_written_states += of->kv_disk_written_states;
    sum->kv_disk_loaded_states += of->kv_disk_loaded_states;
    sum->kv_disk_evicted_states += of->kv_disk_evicted_states;
    sum->kv_disk_damaged_states += of->kv_disk_damaged_states;
    sum->kv_disk_lookups += of->kv_disk_lookups;
    sum->kv_disk_hits += of->kv_disk_hits;
    sum->workspace_drafted_tokens += of->workspace_drafted_tokens;
    sum->workspace_accepted_tokens += of->workspace_accepted_tokens;
    sum->recalled_drafted_tokens += of->recalled_drafted_tokens;
    sum->recalled_accepted_tokens += of->recalled_accepted_tokens;
    sum->model_drafted_tokens += of->model_drafted_tokens;
    sum->model_accepted_tokens += of->model_accepted_tokens;
    sum->draft_model_passes += of->draft_model_passes;
    sum->draft_model_tokens += of->draft_model_tokens;
    sum->draft_model_ns += of->draft_model_ns;
}

void models_measure(const server *s, metrics_engine *all, metrics_model *out)
{
    const uint32_t n = models_n(s);
    all->model = models_at(s, 0)->names[0];
    all->context_tokens_max = models_at(s, 0)->info.context_tokens_max;
    all->page_tokens = PAGE_TOKENS;
    all->models = out;
    all->n_models = n;
    all->models_bytes_max = s->models_bytes_max;
    for (uint32_t i = 0; i < n; i++) {
        const served_model *m = models_at(s, i);
        cerium_engine_stats own = {.passes = 0};
        cerium_engine_info info;
        out[i] = (metrics_model){.name = m->names[0], .is_loaded = m->engine != NULL,
                                 .bytes = model_bytes(m), .n_loads = m->n_loads,
                                 .stats = m->past};
        if (m->engine) {
            cerium_engine_measure(m->engine, &own);
            cerium_engine_describe(m->engine, &info);
            if (!all->page_bytes) all->page_bytes = PAGE_TOKENS * info.kv_token_bytes;
        }
        stats_add(&out[i].stats, &own, true);
        stats_add(&all->stats, &out[i].stats, true);
    }
}
