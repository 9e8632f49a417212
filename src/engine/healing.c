/* healing.c - prompts that end within a token: the answer's first token spells their last bytes
 * again ("token healing").
 *
 * A tokenizer ends "def f(x):" with "):".  Where the text went on, the model saw "):\n" instead,
 * and after "):" alone it has never seen a line end. */
#include "engine/engine.h"

enum {
    OPENING_TOKENS_MAX = 4, /* that a longer one may span: "n", "):" and "\n" at most */
    TAIL_BYTES = CERIUM_OPENING_MAX, /* of a text, whose last tokens are those of the whole */
};

static size_t find_opening(const cerium_engine *engine, view text, bool in_line)
{
    const tokenizer *t = engine->tokens;
    int32_t tokens[TAIL_BYTES];
    size_t n_tokens, n = 0, tails[OPENING_TOKENS_MAX], found = 0;
    view tail = text;
    if (tail.len > TAIL_BYTES) tail = (view){text.ptr + text.len - TAIL_BYTES, TAIL_BYTES};
    if (tokenizer_encode(t, tail, true, false, tokens, ARRAY_LEN(tokens), &n_tokens, NULL))
        return 0;
    /* tails[i]: bytes of the last i + 1 tokens.  One token stays. */
    for (size_t bytes_of = 0; n < OPENING_TOKENS_MAX && n + 1 < n_tokens; n++) {
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

size_t cerium_opening(const cerium_engine *engine, const char *text, size_t text_len)
{
    return find_opening(engine, (view){text, text_len}, false);
}

size_t cerium_infill_opening(const cerium_engine *engine, const char *prefix, size_t prefix_len)
{
    return find_opening(engine, (view){prefix, prefix_len}, true);
}

int opening_check(const cerium_session *s, const cerium_resume *resume, const int32_t *tokens,
                  size_t n_tokens, cerium_error *err)
{
    const int bad = CERIUM_ERR_ARGUMENT;
    size_t at = 0, left = resume->n_opening;
    if (!resume->opening && left) return error_set(err, bad, "resume: the opening is missing");
    if (left > CERIUM_OPENING_MAX)
        return error_set(err, bad, "resume: an opening of %zu bytes, at most %d", left,
                         CERIUM_OPENING_MAX);
    for (size_t i = n_tokens - resume->n_answer; i < n_tokens && left; i++) {
        size_t len;
        const char *text = tokenizer_bytes(s->engine->tokens, tokens[i], &len);
        if (len > left) len = left;
        if (len && memcmp(text, resume->opening + at, len))
            return error_set(err, bad, "resume: the answer does not begin with its opening");
        at += len;
        left -= len;
    }
    return CERIUM_OK;
}

void opening_begin(cerium_session *s, const cerium_resume *resume)
{
    s->n_opening = s->n_opened = s->opening_unshown = 0;
    if (!resume || resume->n_opening == 0) return;
    memcpy(s->opening, resume->opening, resume->n_opening);
    s->n_opening = s->opening_unshown = (uint32_t)resume->n_opening;
    for (uint32_t i = 0; i < s->n_answer; i++) opening_follow(s, s->tokens[s->answer_at + i]);
}

void opening_copy(cerium_session *s, const cerium_session *from)
{
    memcpy(s->opening, from->opening, from->n_opening);
    s->n_opening = from->n_opening;
    s->n_opened = from->n_opened;
    s->opening_unshown = from->opening_unshown;
}

bool opening_is_open(const cerium_session *s) { return s->n_opened < s->n_opening; }

void opening_follow(cerium_session *s, int32_t token)
{
    size_t len;
    uint32_t left = s->n_opening - s->n_opened;
    if (left == 0) return;
    (void)tokenizer_bytes(s->engine->tokens, token, &len);
    s->n_opened += len < left ? (uint32_t)len : left;
}

view opening_leave_out(cerium_session *s, view text)
{
    uint32_t n = s->opening_unshown;
    if (n > text.len) n = (uint32_t)text.len;
    s->opening_unshown -= n;
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

/* A text was cut off within a token, so a token reaches the cut or passes it; shorter ones would
 * spell the opening in a way that no text has.  They serve where no token reaches so far. */
void opening_mask(const cerium_session *s, uint64_t *mask)
{
    const view rest = {s->opening + s->n_opened, s->n_opening - s->n_opened};
    memset(mask, 0, ((size_t)s->engine->n_vocab + 63) / 64 * sizeof *mask);
    if (!mask_spellings(s->engine, rest, false, mask))
        (void)mask_spellings(s->engine, rest, true, mask);
}
