/* resume.c - continues an answer whose tail was retracted: keeps its beginning, and forbids what
 * was retracted. */
#include "base/memory.h"
#include "engine/engine.h"

int answer_check_resume(const cerium_session *s, const cerium_resume *resume,
                        const int32_t *tokens, size_t n_tokens, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    if (!resume) return CERIUM_OK;
    if (resume->n_answer > n_tokens || (!resume->note && resume->n_note) ||
        (!resume->avoid && resume->n_avoid))
        return error_set(err, bad, "resume: an answer of %zu tokens in %zu, or a note is missing",
                         resume->n_answer, n_tokens);
    if (resume->n_avoid > CERIUM_AVOID_MAX)
        return error_set(err, bad, "resume: %zu tokens to avoid, at most %d", resume->n_avoid,
                         CERIUM_AVOID_MAX);
    for (size_t i = 0; i < resume->n_avoid; i++)
        if (resume->avoid[i] < -1 || resume->avoid[i] >= (int32_t)s->engine->n_vocab)
            return error_set(err, bad, "resume: token %d is not in the vocabulary",
                             resume->avoid[i]);
    RETURN_IF(heal_check(s, resume, tokens, n_tokens, err));
    if (resume->n_note == 0) return CERIUM_OK;
    if (n_tokens + resume->n_note > s->context_tokens)
        return error_set(err, CERIUM_ERR_CAPACITY, "resume: no room for a note of %zu tokens",
                         resume->n_note);
    return answer_check_tokens(s, resume->note, resume->n_note, err);
}

int answer_need_mask(cerium_session *s, cerium_error *err)
{
    if (!s->avoid_mask)
        s->avoid_mask = memory_zalloc(((size_t)s->engine->n_vocab + 63) / 64, sizeof(uint64_t));
    return s->avoid_mask ? CERIUM_OK
                         : error_set(err, CERIUM_ERR_MEMORY, "no memory for a mask");
}

int answer_resume(cerium_session *s, const cerium_resume *resume, const cerium_sampling *sampling,
                  cerium_error *err)
{
    s->answer_at = s->n_answer = s->n_avoid = 0;
    s->avoid_open = 0;
    guide_close(&s->within);
    s->is_private = resume && resume->n_note;
    kv_sequence_hide(s->pages.sequence, resume && resume->n_note ? s->n_tokens : 0);
    if (!resume) {
        s->stops = (stop_state){0};
        s->n_shown = 0;
        heal_begin(s, NULL);
        return CERIUM_OK;
    }
    if (resume->n_avoid || resume->n_heal || resume->within) RETURN_IF(answer_need_mask(s, err));
    if (resume->within) {
        const cerium_guide begin = {.grammar = resume->within};
        RETURN_IF(answer_guide(s->engine, &begin, &s->within, err));
    }
    s->n_avoid = (uint32_t)resume->n_avoid;
    if (s->n_avoid) memcpy(s->avoid, resume->avoid, s->n_avoid * sizeof *s->avoid);
    for (uint32_t i = 0; i < s->n_avoid; i++)
        if (i == 0 || s->avoid[i - 1] < 0) s->avoid_open |= UINT64_C(1) << i;
    s->n_answer = (uint32_t)resume->n_answer;
    s->answer_at = s->n_tokens - s->n_answer;
    heal_begin(s, resume);
    answer_hold_again(s, sampling);
    if (resume->n_note == 0) return CERIUM_OK;
    memcpy(s->tokens + s->n_tokens, resume->note, resume->n_note * sizeof *s->tokens);
    s->n_tokens += (uint32_t)resume->n_note;
    s->has_logits = false;
    return CERIUM_OK;
}

int answer_resume_guide(const cerium_session *s, guide *g, cerium_error *err)
{
    if (s->n_answer == 0 || guide_resume(g, s->tokens + s->answer_at, s->n_answer))
        return CERIUM_OK;
    return error_set(err, CERIUM_ERR_ARGUMENT,
                     "the guide cannot have made the answer that is continued");
}

_Static_assert(CERIUM_AVOID_MAX <= 64, "avoid_open has a bit for each");

/* Would the token at place i complete an avoided text? */
static bool completes(const cerium_session *s, uint32_t i)
{
    bool last = i + 1 == s->n_avoid || s->avoid[i + 1] < 0;
    return last && s->avoid[i] >= 0 && (s->avoid_open >> i & 1);
}

/* The allowed tokens, before avoided ones are removed. */
static void begin_mask(cerium_session *s, const uint64_t *allowed)
{
    uint32_t n_vocab = s->engine->n_vocab, n_words = (n_vocab + 63) / 64;
    uint64_t *mask = s->avoid_mask;
    if (heal_is_open(s)) {
        heal_mask(s, mask);
    } else if (allowed) {
        memcpy(mask, allowed, n_words * sizeof *mask);
    } else {
        memset(mask, 0xff, n_words * sizeof *mask);
        if (n_vocab % 64) mask[n_words - 1] = (UINT64_C(1) << n_vocab % 64) - 1;
    }
}

/* Of the tokens in the mask, keep those that `within` allows; if there are none, it holds alone in
 * free text, and not at all beside a guide. */
static void keep_within(cerium_session *s, const uint64_t *allowed)
{
    uint32_t n_words = (s->engine->n_vocab + 63) / 64;
    const uint64_t *within = s->within ? guide_mask(s->within, 0) : NULL;
    if (!within || !mask_count(within, n_words, 1)) return;
    for (uint32_t i = 0; i < n_words; i++) s->avoid_mask[i] &= within[i];
    if (mask_count(s->avoid_mask, n_words, 1)) return;
    if (allowed) begin_mask(s, allowed);
    else memcpy(s->avoid_mask, within, n_words * sizeof *within);
}

const uint64_t *answer_mask(cerium_session *s, guide *g, uint32_t place)
{
    const uint64_t *allowed = g ? guide_mask(g, place) : NULL;
    uint32_t n_vocab = s->engine->n_vocab, n_words = (n_vocab + 63) / 64, first = 0;
    while (first < s->n_avoid && !completes(s, first)) first++;
    bool marks = first < s->n_avoid || s->within || heal_is_open(s);
    if (place > 0 || !marks) return allowed;
    begin_mask(s, allowed);
    keep_within(s, allowed);
    for (uint32_t i = first; i < s->n_avoid; i++)
        if (completes(s, i)) s->avoid_mask[s->avoid[i] / 64] &= ~(UINT64_C(1) << s->avoid[i] % 64);
    if (mask_count(s->avoid_mask, n_words, 1)) return s->avoid_mask;
    begin_mask(s, allowed);
    keep_within(s, allowed);
    return s->avoid_mask;
}

void answer_follow(cerium_session *s, int32_t token)
{
    heal_follow(s, token);
    if (s->within && (!guide_resume(s->within, &token, 1) || guide_is_free(s->within)))
        guide_close(&s->within);
    uint64_t open = 0;
    for (uint32_t i = 0; i + 1 < s->n_avoid; i++)
        if ((s->avoid_open >> i & 1) && s->avoid[i] == token && s->avoid[i + 1] >= 0)
            open |= UINT64_C(2) << i;
    s->avoid_open = open;
    if (!open) s->n_avoid = 0;
}
