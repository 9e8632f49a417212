/* draft_vocabulary.c - sets of panels, as bits. */
#include "speculation/draft_vocabulary.h"

#include "base/memory.h"

static const float MISSED_MAX = 0.1f; /* above, all tokens are worth their time */
static const float MISSED_NEW = 1.0f / 64;

enum { READ_MAX = 4096 }; /* tokens of a long timeline that are seen at once */

static uint32_t n_words(const draft_vocabulary *v) { return (v->n_panels + 63) / 64; }

static bool has(const uint64_t *bits, uint32_t panel) { return bits[panel / 64] >> panel % 64 & 1; }

static void put(uint64_t *bits, uint32_t panel) { bits[panel / 64] |= UINT64_C(1) << panel % 64; }

int draft_vocabulary_open(draft_vocabulary *v, const tokenizer *t, uint32_t n_tokens,
                          uint32_t n_first)
{
    *v = (draft_vocabulary){.n_tokens = n_tokens,
                            .n_panels = (n_tokens + VOCABULARY_PANEL - 1) / VOCABULARY_PANEL};
    v->always = memory_zalloc(n_words(v) + 1, sizeof *v->always);
    v->panels = memory_alloc((v->n_panels + 1) * sizeof *v->panels);
    if (!v->always || !v->panels) {
        draft_vocabulary_close(v);
        return CERIUM_ERR_MEMORY;
    }
    for (uint32_t p = 0; p < n_first && p < v->n_panels; p++) put(v->always, p);
    for (uint32_t i = 0; i < n_tokens; i++)
        if (tokenizer_is_control(t, (int32_t)i)) put(v->always, i / VOCABULARY_PANEL);
    return CERIUM_OK;
}

void draft_vocabulary_close(draft_vocabulary *v)
{
    memory_free(v->always);
    memory_free(v->panels);
    *v = (draft_vocabulary){0};
}

int draft_seen_open(draft_seen *s, const draft_vocabulary *v)
{
    if (!v->n_panels) return CERIUM_OK;
    s->seen = memory_zalloc(n_words(v), sizeof *s->seen);
    return s->seen ? CERIUM_OK : CERIUM_ERR_MEMORY;
}

void draft_seen_close(draft_seen *s)
{
    memory_free(s->seen);
    *s = (draft_seen){0};
}

static bool is_of(const draft_vocabulary *v, int32_t token)
{
    return token >= 0 && (uint32_t)token < v->n_tokens;
}

static void see(draft_seen *s, const draft_vocabulary *v, int32_t token)
{
    const uint32_t panel = (uint32_t)token / VOCABULARY_PANEL;
    if (!is_of(v, token) || has(v->always, panel) || has(s->seen, panel)) return;
    if (s->n_seen == VOCABULARY_SEEN_MAX) {
        memset(s->seen, 0, n_words(v) * sizeof *s->seen);
        s->n_seen = 0;
    }
    put(s->seen, panel);
    s->n_seen++;
}

void draft_seen_read(draft_seen *s, const draft_vocabulary *v, const int32_t *tokens, uint32_t n)
{
    if (!s->seen) return;
    uint32_t i = s->n_read < n ? s->n_read : n;
    if (n - i > READ_MAX) i = n - READ_MAX;
    for (; i < n; i++) see(s, v, tokens[i]);
    s->n_read = n;
}

void draft_seen_learn(draft_seen *s, const draft_vocabulary *v, int32_t token)
{
    if (!s->seen || !is_of(v, token)) return;
    const uint32_t panel = (uint32_t)token / VOCABULARY_PANEL;
    const bool could = has(v->always, panel) || has(s->seen, panel);
    s->missed += MISSED_NEW * ((could ? 0 : 1) - s->missed);
    see(s, v, token);
}

const uint32_t *draft_vocabulary_take(draft_vocabulary *v, const draft_seen *s,
                                      uint32_t *n_panels, uint32_t *n_tokens)
{
    uint32_t n = 0;
    *n_panels = 0;
    *n_tokens = v->n_tokens;
    if (!s->seen || s->missed > MISSED_MAX) return NULL;
    for (uint32_t w = 0; w < n_words(v); w++)
        for (uint64_t bits = v->always[w] | s->seen[w]; bits; bits &= bits - 1)
            v->panels[n++] = 64 * w + (uint32_t)__builtin_ctzll(bits);
    if (n == 0) return NULL;
    const uint32_t last = v->panels[n - 1] * VOCABULARY_PANEL, left = v->n_tokens - last;
    *n_panels = n;
    *n_tokens = (n - 1) * VOCABULARY_PANEL + (left < VOCABULARY_PANEL ? left : VOCABULARY_PANEL);
    return v->panels;
}
