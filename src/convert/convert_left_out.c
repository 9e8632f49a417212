/* convert_left_out.c - the tensors that a conversion leaves out. */
#include <limits.h>

#include "convert/convert_plan.h"

/* The number after `before` in a tensor's name; ULONG_MAX: there is none. */
static unsigned long number_after(const char *name, const char *before)
{
    const size_t len = strlen(before);
    char *end;
    if (strncmp(name, before, len) != 0) return ULONG_MAX;
    const unsigned long n = strtoul(name + len, &end, 10);
    return end > name + len && *end == '.' ? n : ULONG_MAX;
}

/* The block for further tokens that a tensor is of, from 0; ULONG_MAX: none. */
static unsigned long block_of(const planner *p, const char *name)
{
    char layers[64];
    snprintf(layers, sizeof layers, "%slayers.", p->prefix);
    const unsigned long layer = number_after(name, layers);
    if (layer != ULONG_MAX) return layer >= p->c->n_layers ? layer - p->c->n_layers : ULONG_MAX;
    const unsigned long block = number_after(name, "mtp.layers.");
    if (block != ULONG_MAX) return block;
    return strncmp(name, "mtp.", 4) ? ULONG_MAX : 0; /* what its blocks share */
}

convert_left_out convert_find_left_out(const convert_config *c, const safetensors *set,
                                       convert_tensor *plan, size_t n)
{
    planner p = {.c = c, .set = set, .all = plan, .n = n};
    convert_left_out out = {0};
    uint64_t blocks = 0; /* a bit for each */
    plan_find_prefix(&p);
    for (size_t i = 0; i < set->n; i++) {
        const safetensor *t = &set->tensors[i];
        const unsigned long block = block_of(&p, t->name);
        if (block < 64) {
            blocks |= UINT64_C(1) << block;
        } else if (!plan_uses(&p, t)) {
            if (!out.n_tensors++) out.first = t->name;
        }
    }
    if (c->has_mtp) blocks &= ~UINT64_C(1);
    out.n_blocks = (uint32_t)__builtin_popcountll(blocks);
    return out;
}
