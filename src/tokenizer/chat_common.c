/* chat_common.c - shared by the renderers of chat forms: turns, sampled tokens, and the seams of
 * timelines. */
#include "base/text.h"
#include "tokenizer/chat_forms.h"

view chat_trim(view text)
{
    return view_trim(text, TEXT_SPACE);
}

static bool of_assistant(piece_kind kind)
{
    return kind == PIECE_CONTENT || kind == PIECE_THOUGHT || kind == PIECE_CALL;
}

size_t chat_turn_end(const talk *k, size_t i)
{
    size_t end = i + 1;
    piece_kind kind = k->list[i].kind;
    while (end < k->n && ((of_assistant(kind) && of_assistant(k->list[end].kind)) ||
                          (kind == PIECE_RESULT && k->list[end].kind == PIECE_RESULT)))
        end++;
    return end;
}

void chat_head_ends(const talk *k)
{
    prompt_cut(k->p);
    if (k->n_head) *k->n_head = k->p->n;
}

void chat_sampled(const talk *k, const piece *one)
{
    prompt_cut(k->p);
    for (size_t i = 0; i < one->n_tokens; i++) prompt_token(k->p, one->tokens[i]);
    prompt_cut(k->p);
}

/* A special token differs from the text of its name, so both sides are compared as bytes with
 * marks. */
enum { ENDS_BYTES_MAX = 64 };

static bool is_special(const tokenizer *t, int32_t id, view text)
{
    size_t at = 0, len = 0;
    return tokenizer_find_special(t, text, &at, &len) == id && at == 0 && len == text.len;
}

bool chat_ends(const tokenizer *t, const int32_t *tokens, size_t n, const char *scaffold)
{
    view want = view_of(scaffold);
    bool special[ENDS_BYTES_MAX] = {false};
    CHECK(want.len > 0 && want.len <= ENDS_BYTES_MAX);
    for (size_t i = 0, at = 0, len = 0; i < want.len; i += at + len) {
        view rest = {want.ptr + i, want.len - i};
        if (tokenizer_find_special(t, rest, &at, &len) < 0) break;
        memset(special + i + at, true, len);
    }
    for (size_t left = want.len; left > 0;) {
        if (n == 0) return false;
        view text = {0};
        text.ptr = tokenizer_bytes(t, tokens[--n], &text.len);
        bool is = is_special(t, tokens[n], text);
        for (; left > 0 && text.len > 0; text.len--, left--)
            if (text.ptr[text.len - 1] != want.ptr[left - 1] || special[left - 1] != is)
                return false;
        if (is && text.len) return false;
    }
    return true;
}

void chat_close(const talk *k, const int32_t *tokens, size_t n, const char *end, const char *rest)
{
    char both[ENDS_BYTES_MAX + 1];
    int len = snprintf(both, sizeof both, "%s%s", end, rest);
    CHECK(len > 0 && (size_t)len < sizeof both);
    if (chat_ends(k->p->t, tokens, n, both)) return;
    if (!chat_ends(k->p->t, tokens, n, end)) prompt_scaffold(k->p, end);
    prompt_scaffold(k->p, rest);
}
