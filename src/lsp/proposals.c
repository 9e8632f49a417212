/* proposals.c - a short list, newest first, of texts and the hashes of their surroundings. */
#include "lsp/proposals.h"

#include "base/hash.h"

static uint64_t hash_before(const lsp_text *t, size_t at, size_t n)
{
    return hash_bytes(n ? t->text.ptr + at - n : "", n, 1);
}

static uint64_t hash_after(const lsp_text *t, size_t at)
{
    size_t n = t->text.len - at;
    if (n > LSP_PROPOSAL_AROUND) n = LSP_PROPOSAL_AROUND;
    return hash_bytes(n ? t->text.ptr + at : "", n, 2);
}

static void close_one(lsp_proposal *p)
{
    bytes_free(&p->text);
    bytes_free(&p->marks);
}

lsp_proposal *lsp_proposals_begin(lsp_proposals *all, const lsp_text *t, size_t at, size_t after,
                                  view seed)
{
    lsp_proposal p = {.at = at,
                      .n_before = at < LSP_PROPOSAL_AROUND ? at : LSP_PROPOSAL_AROUND,
                      .after = hash_after(t, after),
                      .seed = seed.len,
                      .asked = seed.len,
                      .text = {.max = LSP_PROPOSAL_BYTES_MAX},
                      .marks = {.max = LSP_PROPOSAL_BYTES_MAX * sizeof(lsp_mark)}};
    p.before = hash_before(t, at, p.n_before);
    if (bytes_append(&p.text, seed.ptr, seed.len)) return NULL;
    if (all->n == LSP_PROPOSALS_MAX) close_one(&all->list[--all->n]);
    memmove(all->list + 1, all->list, all->n++ * sizeof *all->list);
    p.id = ++all->last_id;
    all->list[0] = p;
    return &all->list[0];
}

lsp_proposal *lsp_proposals_begin_behind(lsp_proposals *all, uint32_t id, const lsp_text *t,
                                         size_t at, size_t after)
{
    if (!lsp_proposals_by_id(all, id)) return NULL;
    if (!lsp_proposals_begin(all, t, at, after, (view){"", 0})) return NULL;
    const lsp_proposal *first = lsp_proposals_by_id(all, id);
    if (!first) { /* it was the oldest */
        lsp_proposals_drop(all, all->list[0].id);
        return NULL;
    }
    const size_t n = (size_t)(first - all->list);
    const lsp_proposal p = all->list[0];
    memmove(all->list, all->list + 1, n * sizeof *all->list);
    all->list[n] = p;
    return &all->list[n];
}

static bool is_closer(char c) { return memchr(")]}>\"'`", c, 7) != NULL; }

bool lsp_proposal_fits(const lsp_proposal *p, const lsp_text *t, size_t at, lsp_fit *fit)
{
    const size_t len = t->text.len;
    if (at < p->at || at > len || at - p->at > p->text.len || p->at < p->n_before) return false;
    size_t typed = at - p->at;
    if (typed && memcmp(t->text.ptr + p->at, p->text.ptr, typed) != 0) return false;
    size_t after = at;
    while (hash_after(t, after) != p->after) {
        bool may = after < len && after - at < LSP_PROPOSAL_CLOSERS &&
                   is_closer(t->text.ptr[after]);
        if (!may) return false;
        after++;
    }
    if (hash_before(t, p->at, p->n_before) != p->before) return false;
    *fit = (lsp_fit){.typed = typed, .n_closers = after - at};
    return true;
}

lsp_proposal *lsp_proposals_find(lsp_proposals *all, const lsp_text *t, size_t at, lsp_fit *fit)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (lsp_proposal_fits(&all->list[i], t, at, fit)) return &all->list[i];
    return NULL;
}

lsp_proposal *lsp_proposals_by_id(lsp_proposals *all, uint32_t id)
{
    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].id == id) return &all->list[i];
    return NULL;
}

void lsp_proposals_move(lsp_proposals *all, size_t from, size_t to, size_t n)
{
    for (uint32_t i = 0; i < all->n; i++) {
        lsp_proposal *p = &all->list[i];
        if (to + p->n_before <= p->at) p->at = p->at - (to - from) + n;
    }
}

void lsp_proposals_drop(lsp_proposals *all, uint32_t id)
{
    lsp_proposal *p = lsp_proposals_by_id(all, id);
    if (!p) return;
    close_one(p);
    size_t i = (size_t)(p - all->list);
    memmove(p, p + 1, (--all->n - i) * sizeof *p);
}

void lsp_proposals_close(lsp_proposals *all)
{
    for (uint32_t i = 0; i < all->n; i++) close_one(&all->list[i]);
    all->n = 0;
}

int lsp_proposal_add(lsp_proposal *p, view text, double logprob)
{
    const lsp_mark *marks = (const lsp_mark *)(const void *)p->marks.ptr;
    size_t n = p->marks.len / sizeof *marks;
    lsp_mark mark = {p->text.len + text.len, logprob + (n ? marks[n - 1].logprob : 0)};
    RETURN_IF(bytes_reserve(&p->marks, sizeof mark));
    RETURN_IF(bytes_append(&p->text, text.ptr, text.len));
    return bytes_append(&p->marks, &mark, sizeof mark);
}

/* For the bytes before `at`: the sum of all tokens that have some of them. */
static double logprob_until(const lsp_proposal *p, size_t at)
{
    const lsp_mark *marks = (const lsp_mark *)(const void *)p->marks.ptr;
    size_t n = p->marks.len / sizeof *marks, i = 0;
    while (i + 1 < n && marks[i].end < at) i++;
    return n && at > p->seed ? marks[i].logprob : 0;
}

double lsp_proposal_logprob(const lsp_proposal *p, size_t from, size_t to)
{
    /* A partly typed token is certain by now: it does not count. */
    return to > from ? logprob_until(p, to) - logprob_until(p, from) : 0;
}
