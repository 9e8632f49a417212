/* mesh_sample.c - the next token, chosen on the mesh: candidates meet over the columns.
 *
 * Every column offers its best logits; when two columns meet, the best of both continue.  The
 * result does not depend on the order in which columns meet, as ties go to the lowest id.  The root
 * then draws with the sampler's own integers, so the choice is the same as over all logits.  If a
 * setting needs every logit (top-p alone), all of them go to the root. */
#include "wafer/mesh_core.h"

enum { BEST_MAX = 64 };

typedef struct {
    uint32_t n;
    int32_t token[BEST_MAX];
    float logit[BEST_MAX];
} best;

static bool mesh_sample_before(float a, int32_t a_token, float b, int32_t b_token)
{
    return a > b || (a == b && a_token < b_token);
}

/* Ties with the last of the best count too: by sampler_best() they may be chosen. */
static void mesh_sample_offer(best *b, uint32_t k, int32_t token, float logit)
{
    uint32_t at = b->n < k ? b->n++ : k;
    if (at == k) {
        if (!mesh_sample_before(logit, token, b->logit[k - 1], b->token[k - 1])) return;
        at = k - 1;
    }
    for (; at > 0 && mesh_sample_before(logit, token, b->logit[at - 1], b->token[at - 1]); at--) {
        b->logit[at] = b->logit[at - 1];
        b->token[at] = b->token[at - 1];
    }
    b->logit[at] = logit;
    b->token[at] = token;
}

/* The k best of a row over all columns, in the order in which columns meet. */
static void meet_best(mesh *m, const float *logits, uint32_t k, best *columns)
{
    const mesh_schedule *s = &m->sum[WAFER_AXIS_X];
    for (uint32_t c = 0; c < s->n; c++) columns[c].n = 0;
    for (uint32_t i = 0; i < m->split_v.n_pieces; i++) {
        const mesh_piece *p = &m->split_v.pieces[i];
        for (uint32_t t = p->begin; t < p->end; t++)
            if (logits[t] == logits[t])
                mesh_sample_offer(&columns[p->core], k, (int32_t)t, logits[t]);
    }
    for (uint32_t i = 0; i < s->n_adds; i++) {
        const best *from = &columns[s->adds[i].from];
        for (uint32_t j = 0; j < from->n; j++)
            mesh_sample_offer(&columns[s->adds[i].to], k, from->token[j], from->logit[j]);
    }
    mesh_count_work(m, m->split_v.most, 1);
    mesh_count_collective(m, WAFER_AXIS_X, NULL, 2 * k, 1);
}

/* The penalised tokens separately: their logits go to the root unchanged. */
static void gather_best(mesh *m, const float *logits, uint32_t k, const int32_t *recent, size_t n)
{
    best columns[MESH_SIDE_MAX];
    const uint32_t n_vocab = m->program->shape.n_vocab;
    const float *from = logits;
    if (n) {
        memcpy(m->others, logits, n_vocab * sizeof *logits);
        for (size_t i = 0; i < n; i++) m->others[recent[i]] = -INFINITY;
        from = m->others;
    }
    meet_best(m, from, k, columns);
    const best *all = &columns[m->sum[WAFER_AXIS_X].root];
    for (uint32_t i = 0; i < n_vocab; i++) m->candidates[i] = -INFINITY;
    for (uint32_t i = 0; i < all->n; i++) m->candidates[all->token[i]] = all->logit[i];
    for (size_t i = 0; i < n; i++) m->candidates[recent[i]] = logits[recent[i]];
    if (n) mesh_count_collective(m, WAFER_AXIS_X, NULL, (uint32_t)n, 1);
}

int32_t mesh_sample(mesh *m, uint32_t row, const cerium_sampling *sampling, const int32_t *recent,
                    size_t n_recent, uint64_t position)
{
    const uint32_t n_vocab = m->program->shape.n_vocab, k = sampler_best(sampling);
    const float *logits = mesh_logits(m, row);
    m->kind = (step_kind)MESH_KIND_SAMPLE;
    if (k == 0 || k > BEST_MAX) {
        mesh_count_collective(m, WAFER_AXIS_X, NULL, n_vocab, 1);
    } else {
        const size_t n = sampler_look_back(sampling, n_recent);
        gather_best(m, logits, k, n ? recent + n_recent - n : NULL, n);
        logits = m->candidates;
    }
    return sampler_choose(m->sampler, logits, n_vocab, sampling, recent, n_recent, position);
}

uint32_t mesh_verify(mesh *m, const int32_t *draft, uint32_t n, uint32_t position, int32_t *out)
{
    mesh_run(m, draft, n, position, n);
    for (uint32_t r = 0; r < n; r++) {
        out[r] = mesh_sample(m, r, NULL, NULL, 0, position + r + 1);
        if (r + 1 < n && draft[r + 1] != out[r]) return r + 1;
    }
    return n;
}
