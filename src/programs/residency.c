/* residency.c - bytes by role and level, and what follows from them. */
#include "programs/residency.h"

#include <inttypes.h>

#include "programs/options.h"

/* Share of a cache: the rest is for activations, code and other programs. */
enum { USABLE_OF_4 = 3, BAR_COLUMNS = 40, GAIN_PERCENT = 110 };

const char *const residency_role_names[RESIDENCY_ROLES] = {"embedding", "attention",
                                                           "feed-forward", "experts",
                                                           "head", "other"};

/* ---- contents of a file ---- */

static uint64_t number(const gguf_file *file, const char *suffix)
{
    char key[160];
    view arch = VIEW("");
    uint64_t n = 0;
    gguf_get_string(file, "general.architecture", &arch);
    snprintf(key, sizeof key, "%.*s.%s", arch.len < 100 ? (int)arch.len : 100, arch.ptr, suffix);
    gguf_get_u64(file, key, &n);
    return n < UINT32_MAX ? n : 0;
}

static bool has(view name, const char *part)
{
    return memmem(name.ptr, name.len, part, strlen(part)) != NULL;
}

static residency_role role_of(const gguf_tensor *t, bool tied)
{
    if (view_equal(t->name, VIEW("token_embd.weight"))) return tied ? ROLE_HEAD : ROLE_EMBEDDING;
    if (t->n_dims < 2 || has(t->name, ".bias")) return ROLE_OTHER;
    if (view_equal(t->name, VIEW("output.weight"))) return ROLE_HEAD;
    if (has(t->name, "_exps.")) return ROLE_EXPERTS;
    if (has(t->name, ".attn_")) return ROLE_ATTENTION;
    if (has(t->name, ".ffn_") && !has(t->name, "ffn_gate_inp")) return ROLE_FFN;
    return ROLE_OTHER;
}

/* n of a part in a whole, without overflow. */
static uint64_t share(uint64_t n, uint64_t part, uint64_t whole)
{
    return whole && part < whole ? (uint64_t)((double)n / (double)whole * (double)part) : n;
}

static void count(residency_model *m, const gguf_file *file, const gguf_tensor *t)
{
    const bool tied = !gguf_find_tensor(file, "output.weight");
    const residency_role role = role_of(t, tied);
    const uint64_t values = t->size / block_bytes(t->type) * block_values(t->type);
    uint64_t read = t->size, n = values;
    if (role == ROLE_EXPERTS) {
        const uint64_t all = number(file, "expert_count"), used = number(file, "expert_used_count");
        read = share(read, used, all);
        n = share(n, used, all);
    }
    if (role == ROLE_EMBEDDING) {
        read = share(read, 1, t->dims[1]);
        n = share(n, 1, t->dims[1]);
    }
    m->held[role] += t->size;
    m->read[role] += read;
    if (role != ROLE_OTHER) m->values[role] += n;
}

residency_model residency_of(const gguf_file *file)
{
    residency_model m = {0};
    view arch = VIEW("");
    gguf_get_string(file, "general.architecture", &arch);
    for (size_t i = 0; i < gguf_n_tensors(file); i++) count(&m, file, gguf_tensor_at(file, i));
    const uint64_t heads = number(file, "attention.head_count");
    const uint64_t kv_heads = number(file, "attention.head_count_kv");
    uint64_t dim = number(file, "attention.key_length");
    if (!dim && heads) dim = number(file, "embedding_length") / heads;
    m.n_layers = (uint32_t)number(file, "block_count");
    m.kv_vectors = 2 * (kv_heads ? kv_heads : heads) % UINT32_MAX;
    m.kv_values = m.kv_vectors * dim;
    const uint64_t latent = number(file, "attention.kv_lora_rank");
    if (latent) { /* one latent row of a token holds key and value of all heads */
        m.kv_vectors = 1;
        m.kv_values = latent + number(file, "rope.dimension_count");
    }
    m.kv_value_bytes = m.kv_vectors && m.kv_values / m.kv_vectors > 128 ? 2 : 1;
    m.context_tokens = number(file, "context_length");
    if (view_equal(arch, VIEW("gpt-oss"))) { /* every other layer, from the first */
        const uint64_t window = number(file, "attention.sliding_window");
        m.window = window ? (uint32_t)window : 128;
        m.n_windowed = m.n_layers - m.n_layers / 2;
    }
    /* Layers with a recurrent state store nothing for a token: as if they saw none. */
    for (size_t i = 0; i < gguf_n_tensors(file); i++)
        m.n_windowed += has(gguf_tensor_at(file, i)->name, ".ssm_conv1d.weight");
    /* So do layers that are but a feed-forward. */
    if (view_starts(arch, VIEW("nemotron_h"))) {
        m.n_windowed = m.n_layers;
        for (size_t i = 0; i < gguf_n_tensors(file); i++)
            m.n_windowed -= has(gguf_tensor_at(file, i)->name, ".attn_k.weight");
    }
    return m;
}

/* ---- bytes and levels ---- */

uint64_t residency_step_bytes(const residency_model *m)
{
    uint64_t n = 0;
    for (int role = 0; role < RESIDENCY_ROLES; role++) n += m->read[role];
    return n;
}

uint64_t residency_kv_bytes(const residency_model *m, uint32_t kv_value_bytes, uint64_t depth)
{
    const uint64_t seen = depth < m->window ? depth : m->window;
    const double layers = (double)(m->n_layers - m->n_windowed) * (double)depth +
                          (double)m->n_windowed * (double)seen;
    const uint64_t scales = kv_value_bytes == 1 ? 4 * m->kv_vectors : 0;
    return (uint64_t)(layers * ((double)m->kv_values * kv_value_bytes + (double)scales));
}

uint32_t residency_place(const residency_machine *machine, uint64_t n_bytes)
{
    uint32_t level = 0;
    while (level + 1 < machine->n_levels &&
           n_bytes > machine->levels[level].size / 4 * USABLE_OF_4)
        level++;
    return level;
}

double residency_speed(const residency_machine *machine, uint64_t n_bytes)
{
    const residency_level *level = &machine->levels[residency_place(machine, n_bytes)];
    return n_bytes ? level->bytes_per_s / (double)n_bytes : 0;
}

/* ---- advice ---- */

static bool better(const residency_machine *machine, residency_advice *a, double than)
{
    a->level = residency_place(machine, a->step_bytes);
    a->speed = residency_speed(machine, a->step_bytes);
    return a->speed * 100 >= than * GAIN_PERCENT;
}

/* Bytes of a step whose matrices have at most this many bits a weight. */
static uint64_t with_bits(const residency_model *m, double bits, bool head_only)
{
    uint64_t n = 0;
    for (int role = 0; role < RESIDENCY_ROLES; role++) {
        const uint64_t less = (uint64_t)((double)m->values[role] * bits / 8);
        const bool takes = role != ROLE_OTHER && (!head_only || role == ROLE_HEAD);
        n += takes && less < m->read[role] ? less : m->read[role];
    }
    return n;
}

uint32_t residency_advise(const residency_machine *machine, const residency_model *m,
                          uint32_t kv_value_bytes, uint64_t context, residency_advice *out)
{
    static const struct {
        const char *name;
        double bits;
        bool head_only;
    } types[] = {{"every matrix in Q8_0", 8.5, false},
                 {"the head in Q4_0", 4.5, true},
                 {"every matrix in Q4_0", 4.5, false}};
    const uint64_t step = residency_step_bytes(m);
    const double now = residency_speed(machine, step);
    uint32_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        residency_advice a = {.step_bytes = with_bits(m, types[i].bits, types[i].head_only)};
        snprintf(a.what, sizeof a.what, "%s", types[i].name);
        const bool other = n == 0 || a.step_bytes < out[n - 1].step_bytes / 100 * 99;
        if (better(machine, &a, now) && other) out[n++] = a;
    }
    const uint64_t deep = step + residency_kv_bytes(m, kv_value_bytes, context);
    const uint32_t level = residency_place(machine, step);
    if (level + 1 < machine->n_levels && residency_place(machine, deep) > level) {
        /* The longest context at which weights and KV stay in the level that holds the weights
         * alone. */
        uint64_t low = 0, high = context;
        while (high - low > 1) {
            const uint64_t mid = low + (high - low) / 2;
            const uint64_t bytes_then = step + residency_kv_bytes(m, kv_value_bytes, mid);
            *(residency_place(machine, bytes_then) > level ? &high : &low) = mid;
        }
        residency_advice a = {.step_bytes = step + residency_kv_bytes(m, kv_value_bytes, low),
                              .depth = low};
        snprintf(a.what, sizeof a.what, "at most %" PRIu64 " tokens of context", low);
        if (better(machine, &a, residency_speed(machine, deep)) && low) out[n++] = a;
    }
    if (kv_value_bytes > 1) {
        residency_advice a = {.step_bytes = step + residency_kv_bytes(m, 1, context),
                              .depth = context};
        snprintf(a.what, sizeof a.what, "keys and values in 8 bits");
        if (better(machine, &a, residency_speed(machine, deep))) out[n++] = a;
    }
    return n;
}

/* ---- for people ---- */

static void print_bar(FILE *out, const char *name, uint64_t n, uint64_t most)
{
    char size[32];
    int columns = most ? (int)((double)n / (double)most * BAR_COLUMNS + 0.5) : 0;
    fprintf(out, "  %-14s %9s%s", name, human_bytes(size, (double)n), columns > 0 ? "  " : "");
    while (columns-- > 0) fputc('#', out);
    fputc('\n', out);
}

static void print_levels(FILE *out, const residency_machine *machine, uint32_t weights,
                         uint32_t deep)
{
    char size[32], speed[32];
    for (uint32_t i = 0; i < machine->n_levels; i++) {
        const residency_level *l = &machine->levels[i];
        fprintf(out, "  %-14s %9s  %9s/s", l->name, human_bytes(size, (double)l->size),
                human_bytes(speed, l->bytes_per_s));
        if (i == weights) fprintf(out, "  <- weights%s", i == deep ? " and KV" : "");
        if (i == deep && i != weights) fprintf(out, "  <- weights and KV, at the end");
        fputc('\n', out);
    }
    if (machine->assumed) fprintf(out, "  (%s)\n", machine->assumed);
}

static void print_depth(FILE *out, const residency_machine *machine, uint64_t depth, uint64_t n)
{
    char size[32];
    fprintf(out, "  depth %-8" PRIu64 " %9s  in %s: at most %.1f tokens/s\n", depth,
            human_bytes(size, (double)n), machine->levels[residency_place(machine, n)].name,
            residency_speed(machine, n));
}

static void print_advice(FILE *out, const residency_machine *machine, const residency_advice *a,
                         uint32_t n)
{
    char size[32];
    if (n) fprintf(out, "What would be faster\n");
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "  %s: %s in %s at depth %" PRIu64 ", at most %.1f tokens/s\n", a[i].what,
                human_bytes(size, (double)a[i].step_bytes), machine->levels[a[i].level].name,
                a[i].depth, a[i].speed);
}

void residency_print(FILE *out, const residency_machine *machine, const residency_model *m,
                     const char *name, uint32_t kv_value_bytes, uint64_t context)
{
    residency_advice advice[RESIDENCY_ADVICE_MAX];
    const uint64_t step = residency_step_bytes(m);
    const uint64_t kv = residency_kv_bytes(m, kv_value_bytes, context);
    char size[32];
    uint64_t most = kv, layers = 0;
    for (int role = 0; role < RESIDENCY_ROLES; role++)
        if (m->read[role] > most) most = m->read[role];
    for (int role = ROLE_ATTENTION; role <= ROLE_EXPERTS; role++) layers += m->read[role];
    fprintf(out, "%s on this machine, %u threads\n", name, machine->threads);
    print_levels(out, machine, residency_place(machine, step),
                 residency_place(machine, step + kv));
    fprintf(out, "One token reads");
    if (m->n_layers)
        fprintf(out, ", %u layers of %s", m->n_layers,
                human_bytes(size, (double)layers / m->n_layers));
    fputc('\n', out);
    for (int role = 0; role < RESIDENCY_ROLES; role++)
        if (m->held[role]) print_bar(out, residency_role_names[role], m->read[role], most);
    print_bar(out, "KV at the end", kv, most);
    print_depth(out, machine, 0, step);
    print_depth(out, machine, context, step + kv);
    print_advice(out, machine, advice,
                 residency_advise(machine, m, kv_value_bytes, context, advice));
}
