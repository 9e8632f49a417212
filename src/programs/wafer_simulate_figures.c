/* wafer_simulate_figures.c - the results of a run of `cerium wafer simulate`, as text and JSON. */
#include <jansson.h>

#include "programs/output.h"
#include "programs/wafer_simulate.h"

static const char *const kind_names[MESH_KIND_END] = {
    "embed", "qkv", "attend", "out", "ffn-up", "ffn-down", "route", "experts-up", "experts-down",
    "head", "sample",
};

static double tokens_a_pass(const simulate *s)
{
    const double n = (double)s->drafts.n_passes;
    return n > 0 ? 1 + (double)s->drafts.n_accepted / n : 0;
}

static double rate(double n, uint64_t ns) { return ns ? n * 1e9 / (double)ns : 0; }

static void print_events(const mesh_kind_events *k, double n, const char *what)
{
    fprintf(stderr, "%-12s %12s %12s %12s %12s %12s  a token%s, all cores\n", "", "issues",
            "steps", "hops", "ramps", "collectives", what);
    for (int i = 0; i < MESH_KIND_END; i++)
        if (k[i].issues)
            fprintf(stderr, "%-12s %12.0f %12.0f %12.0f %12.0f %12.1f\n", kind_names[i],
                    (double)k[i].issues / n, (double)k[i].steps / n, (double)k[i].hops / n,
                    (double)(k[i].up + k[i].down) / n, (double)k[i].collectives / n);
}

/* The first token follows the prompt; the others come from passes. */
static void print_time(const simulate *s, size_t n)
{
    const mesh_draft *d = &s->drafts;
    const double ghz = s->timed.mesh.clock_ghz.low;
    fprintf(stderr, "a step after %zu tokens, on cores as %s has them: %.0f cycles by tuned "
            "kernels, %.0f SDK-style\n", s->n - 1, s->timed.name, s->step[0].cycles,
            s->step[1].cycles);
    if (!s->draft) return;
    fprintf(stderr, "drafts: %llu of %llu right, %.2f tokens a pass\n",
            (unsigned long long)d->n_accepted, (unsigned long long)d->n_drafted, tokens_a_pass(s));
    if (s->is_overlapped)
        fprintf(stderr, "overlapped: %llu of %llu passes foreseen, %llu guesses made\n",
                (unsigned long long)d->n_foreseen, (unsigned long long)d->n_passes,
                (unsigned long long)d->n_steps);
    if (n > 1)
        fprintf(stderr, "%.2f microseconds a token by tuned kernels at %g GHz, %.2f without "
                "guesses\n", d->clock_us / (double)(n - 1), ghz, s->step[0].cycles / ghz / 1e3);
}

/* Of the tokens after the first, which the prompt yields; 0: there are no such tokens. */
static double decode_rate(const simulate *s)
{
    const size_t n = s->n - s->n_prompt;
    return n > 1 ? rate((double)(n - 1), s->decode_ns) : 0;
}

void wafer_simulate_print(const simulate *s)
{
    const mesh_layout *l = mesh_layout_of(s->m);
    const size_t n = s->n - s->n_prompt;
    char weights[32], kv[32];
    fprintf(stderr,
            "%u x %u cores, %s order: %s of weights and %s of KV (%u tokens) on the fullest\n",
            l->width, l->height, l->order == MESH_EQUAL ? "equal" : "mesh",
            human_bytes(weights, (double)mesh_core_weight_bytes(s->m)),
            human_bytes(kv, (double)mesh_core_kv_bytes(s->m)), l->choice.context);
    fprintf(stderr, "prompt %zu tokens at %.1f tokens/s, %zu tokens", s->n_prompt,
            rate((double)s->n_prompt, s->prompt_ns), n);
    if (n > 1) fprintf(stderr, " at %.1f tokens/s simulated", decode_rate(s));
    fprintf(stderr, "\n");
    if (s->n_places && l->order == MESH_EQUAL)
        fprintf(stderr, "logits: the CPU's to the bit at %u of %u places\n", s->n_equal,
                s->n_places);
    if (s->n_places && l->order == MESH_ORDER)
        fprintf(stderr, "logits: within the bound at %u of %u places, %.2f of it at most, %.3g at "
                "its widest; the best is certain at %u places and the CPU's at %u\n",
                s->n_bounded, s->n_places, s->worst, s->widest, s->n_decided, s->n_same);
    if (s->verify)
        fprintf(stderr, "verified %u tokens in passes of %u\n", s->n_verified, s->verify);
    print_time(s, n);
    if (s->show_events) {
        print_events(s->prompt_events, (double)s->n_prompt, " of the prompt");
        print_events(s->events, (double)n, "");
    }
}

static json_t *time_json(const simulate *s, size_t n)
{
    json_t *all = json_pack("{s:o, s:f, s:f, s:f}", "machine",
                            json_name(s->timed.name), "clock_ghz",
                            s->timed.mesh.clock_ghz.low, "tuned_step_cycles", s->step[0].cycles,
                            "sdk_step_cycles", s->step[1].cycles);
    if (s->draft && n > 1) json_object_set_new(all, "passes_us", json_real(s->drafts.clock_us));
    return all;
}

static json_t *events_json(const mesh_kind_events *k)
{
    json_t *all = json_object();
    for (int i = 0; i < MESH_KIND_END; i++)
        json_object_set_new(all, kind_names[i],
                            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "issues",
                                      (json_int_t)k[i].issues, "steps", (json_int_t)k[i].steps,
                                      "hops", (json_int_t)k[i].hops, "up", (json_int_t)k[i].up,
                                      "down", (json_int_t)k[i].down, "collectives",
                                      (json_int_t)k[i].collectives));
    return all;
}

int wafer_simulate_print_json(const simulate *s, cerium_error *err)
{
    const mesh_layout *l = mesh_layout_of(s->m);
    json_t *ids = json_array();
    for (size_t i = s->n_prompt; i < s->n; i++)
        json_array_append_new(ids, json_integer(s->tokens[i]));
    json_t *all =
        json_pack("{s:i, s:i, s:s, s:i, s:b, s:i, s:s, s:I, s:I, s:I, s:f, s:o}", "width",
                  (int)l->width, "height", (int)l->height, "order",
                  l->order == MESH_EQUAL ? "equal" : "mesh", "degree", (int)l->choice.degree,
                  "fused", l->choice.is_fused, "expert_group", (int)l->choice.group_side,
                  "kv_policy", l->choice.kv == WAFER_KV_SHIFT ? "shift" : "round-robin",
                  "core_weight_bytes", (json_int_t)mesh_core_weight_bytes(s->m), "core_kv_bytes",
                  (json_int_t)mesh_core_kv_bytes(s->m), "prompt_tokens", (json_int_t)s->n_prompt,
                  "simulated_tokens_per_second", decode_rate(s), "tokens", ids);
    json_t *logits = json_pack("{s:i, s:i, s:i, s:i, s:i, s:f, s:f}", "places", (int)s->n_places,
                               "equal", (int)s->n_equal, "bounded", (int)s->n_bounded, "certain",
                               (int)s->n_decided, "same_best", (int)s->n_same, "worst_of_bound",
                               s->worst, "widest_bound", s->widest);
    if (!s->no_compare) json_object_set_new(all, "logits", logits);
    else json_decref(logits);
    if (s->verify) json_object_set_new(all, "verified", json_integer(s->n_verified));
    if (s->draft)
        json_object_set_new(all, "drafts",
                            json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:f}", "overlapped",
                                      s->is_overlapped, "passes",
                                      (json_int_t)s->drafts.n_passes, "steps",
                                      (json_int_t)s->drafts.n_steps, "drafted",
                                      (json_int_t)s->drafts.n_drafted, "accepted",
                                      (json_int_t)s->drafts.n_accepted, "foreseen",
                                      (json_int_t)s->drafts.n_foreseen, "tokens_a_pass",
                                      tokens_a_pass(s)));
    json_object_set_new(all, "time", time_json(s, s->n - s->n_prompt));
    json_object_set_new(all, "prompt_events", events_json(s->prompt_events));
    json_object_set_new(all, "events", events_json(s->events));
    return output_json(all, JSON_INDENT(2), err);
}
