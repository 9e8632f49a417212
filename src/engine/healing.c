/* healing.c - prompts that end within a token: the answer's first token spells their last bytes
 * again ("token healing").
 *
 * A tokenizer ends "def f(x):" with "):".  In training text that continued, it saw "):\n" instead,
 * and never a line end after "):" alone. */
#include "engine/engine.h"

enum {
    HEAL_TOKENS_MAX = 4, /* tokens that a longer one may span: "n", "):" and "\n" at most */
    TAIL_BYTES = CERIUM_HEAL_PREFIX_MAX, /* of a text with the same last tokens as the whole */
};

static size_t find_heal_prefix(const cerium_engine *engine, view text, bool in_line)
{
    const tokenizer *t = engine->tokens;
    int32_t tokens[TAIL_BYTES];
    size_t n_tokens, n = 0, tails[HEAL_TOKENS_MAX], found = 0;
    view tail = text;
    if (tail.len > TAIL_BYTES) tail = (view){text.ptr + text.len - TAIL_BYTES, TAIL_BYTES};
    if (tokenizer_encode(t, tail, true, false, tokens, ARRAY_LEN(tokens), &n_tokens, NULL))
        return 0;
    /* tails[i]: bytes of the last i + 1 tokens.  One token stays. */
    for (size_t bytes_of = 0; n < HEAL_TOKENS_MAX && n + 1 < n_tokens; n++) {
        int32_t token = tokens[n_tokens - 1 - n];
        size_t len;
        const char *piece = tokenizer_bytes(t, token, &len);
        bytes_of += len;
        if (tokenizer_is_control(t, token) || len == 0 || bytes_of >= tail.len ||
            memcmp(tail.ptr + tail.len - bytes_of, piece, len) ||
            (in_line && memchr(piece, '\n', len)))
            break;
        tails[n] = bytes_of;
    }
    for (uint32_t id = 0; id < engine->n_vocab && found < n; id++) {
        size_t len;
        const char *piece = tokenizer_bytes(t, (int32_t)id, &len);
        for (size_t i = found; i < n; i++)
            if (len > tails[i] && !memcmp(piece, tail.ptr + tail.len - tails[i], tails[i]) &&
                !tokenizer_is_control(t, (int32_t)id))
                found = i + 1;
    }
    return found ? tails[found - 1] : 0;
}

size_t cerium_heal_prefix(const cerium_engine *engine, const char *text, size_t text_len)
{
    return find_heal_prefix(engine, (view){text, text_len}, false);
}

size_t cerium_infill_heal_prefix(const cerium_engine *engine, const char *prefix, size_t prefix_len)
{
    return find_heal_prefix(engine, (view){prefix, prefix_len}, true);
}

int heal_check(const cerium_session *s, const cerium_resume *resume, const int32_t *tokens,
                  size_t n_tokens, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    size_t at = 0, left = resume->n_heal;
    if (!resume->heal_prefix && left)
        return error_set(err, bad, "resume: the heal_prefix is missing");
    if (left > CERIUM_HEAL_PREFIX_MAX)
        return error_set(err, bad, "resume: a heal_prefix of %zu bytes, at most %d", left,
                         CERIUM_HEAL_PREFIX_MAX);
    for (size_t i = n_tokens - resume->n_answer; i < n_tokens && left; i++) {
        size_t len;
        const char *text = tokenizer_bytes(s->engine->tokens, tokens[i], &len);
        if (len > left) len = left;
        if (len && memcmp(text, resume->heal_prefix + at, len))
            return error_set(err, bad, "resume: the answer does not begin with its heal_prefix");
        at += len;
        left -= len;
    }
    return CERIUM_OK;
}

void heal_begin(cerium_session *s, const cerium_resume *resume)
{
    s->n_heal = s->n_healed = s->heal_unshown = 0;
    if (!resume || resume->n_heal == 0) return;
    memcpy(s->heal_prefix, resume->heal_prefix, resume->n_heal);
    s->n_heal = s->heal_unshown = (uint32_t)resume->n_heal;
    for (uint32_t i = 0; i < s->n_answer; i++) heal_follow(s, s->tokens[s->answer_at + i]);
}

void heal_copy(cerium_session *s, const cerium_session *from)
{
    memcpy(s->heal_prefix, from->heal_prefix, from->n_heal);
    s->n_heal = from->n_heal;
    s->n_healed = from->n_healed;
    s->heal_unshown = from->heal_unshown;
}

bool heal_is_open(const cerium_session *s) { return s->n_healed < s->n_heal; }

void heal_follow(cerium_session *s, int32_t token)
{
    size_t len;
    uint32_t left = s->n_heal - s->n_healed;
    if (left == 0) return;
    (void)tokenizer_bytes(s->engine->tokens, token, &len);
    s->n_healed += len < left ? (uint32_t)len : left;
}

view heal_leave_out(cerium_session *s, view text)
{
    uint32_t n = s->heal_unshown;
    if (n > text.len) n = (uint32_t)text.len;
    s->heal_unshown -= n;
    return (view){text.ptr + n, text.len - n};
}

/* Tokens that spell `rest` and reach its end or, where short ones are wanted, do not. */
static bool mask_spellings(const cerium_engine *engine, view rest, bool shorter, uint64_t *mask)
{
    bool found = false;
    for (uint32_t id = 0; id < engine->n_vocab; id++) {
        size_t len;
        const char *text = tokenizer_bytes(engine->tokens, (int32_t)id, &len);
        if (len == 0 || text[0] != rest.ptr[0] || (len < rest.len) != shorter) continue;
        if (memcmp(text, rest.ptr, shorter ? len : rest.len)) continue;
        if (tokenizer_is_control(engine->tokens, (int32_t)id)) continue;
        mask[id / 64] |= UINT64_C(1) << id % 64;
        found = true;
    }
    return found;
}

/* A text was cut off within a token, so prefer tokens that reach the cut or pass it: shorter ones
 * would spell the heal_prefix as no text does.  Use shorter ones if no token reaches the cut. */
void heal_mask(const cerium_session *s, uint64_t *mask)
{
    const view rest = {s->heal_prefix + s->n_healed, s->n_heal - s->n_healed};
    memset(mask, 0, ((size_t)s->engine->n_vocab + 63) / 64 * sizeof *mask);
    if (!mask_spellings(s->engine, rest, false, mask))
        (void)mask_spellings(s->engine, rest, true, mask);
}
