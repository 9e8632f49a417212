/* prompt.c - owns the seam between scaffolding and text from outside. */
#include "tokenizer/prompt.h"

enum { TOKEN_TEXT = -2 }; /* the last token was one of text */

void prompt_fail(prompt *p, int status)
{
    if (p->status) return;
    p->status = status == CERIUM_ERR_CAPACITY
                    ? error_set(p->err, CERIUM_ERR_ARGUMENT,
                                "a prompt may have %u bytes of text; send less",
                                TOKENIZER_TEXT_BYTES_MAX)
                    : error_set(p->err, status, "no memory for the prompt");
}

static void emit(prompt *p, int32_t id)
{
    if (id < 0) return;
    p->last = id;
    if (p->n < p->cap) p->tokens[p->n] = id;
    p->n++;
}

static void flush(prompt *p)
{
    if (p->status || !p->pending.len) return;
    size_t room = p->n < p->cap ? p->cap - p->n : 0, n = 0;
    int32_t *to = room ? p->tokens + p->n : NULL;
    view text = {p->pending.ptr, p->pending.len};
    bool bare = p->bare || (p->n && !tokenizer_adds_space_within(p->t));
    int status = bare ? tokenizer_encode_bare(p->t, text, to, room, &n, p->err)
                         : tokenizer_encode(p->t, text, false, false, to, room, &n, p->err);
    if (status && status != CERIUM_ERR_CAPACITY) p->status = status;
    p->n += n;
    if (n) p->last = TOKEN_TEXT;
    p->pending.len = 0;
    p->bare = false;
}

void prompt_open(prompt *p, const tokenizer *t, bool bos, int32_t *tokens, size_t cap,
                 cerium_error *err)
{
    CHECK(p && t && (tokens || !cap));
    *p = (prompt){.t = t, .tokens = tokens, .cap = cap, .last = TOKEN_NONE, .err = err};
    p->pending.max = TOKENIZER_TEXT_BYTES_MAX;
    if (bos) emit(p, tokenizer_role(t, TOKEN_BOS));
}

void prompt_text(prompt *p, view text)
{
    if (p->status || !text.len) return;
    int status = bytes_append(&p->pending, text.ptr, text.len);
    if (status) prompt_fail(p, status);
}

void prompt_bare_text(prompt *p, view text)
{
    if (!p->pending.len) p->bare = true;
    prompt_text(p, text);
}

void prompt_token(prompt *p, int32_t id)
{
    flush(p);
    if (!p->status) emit(p, id);
    p->bare = false;
}

void prompt_cut(prompt *p)
{
    flush(p);
    p->bare = p->last == TOKEN_TEXT || (p->last >= 0 && !tokenizer_is_control(p->t, p->last));
}

void prompt_after(prompt *p, int32_t last)
{
    CHECK(!p->n && !p->pending.len);
    p->last = last;
    prompt_cut(p);
}

void prompt_scaffold(prompt *p, const char *scaffold)
{
    prompt_scaffold_view(p, view_of(scaffold));
}

void prompt_scaffold_view(prompt *p, view rest)
{
    if (rest.len && rest.ptr[0] == ' ' && !p->pending.len && !p->bare &&
        tokenizer_adds_space(p->t))
        rest = (view){rest.ptr + 1, rest.len - 1};
    for (;;) {
        size_t at = 0, len = 0;
        int32_t id = tokenizer_find_special(p->t, rest, &at, &len);
        if (id < 0) break;
        prompt_text(p, (view){rest.ptr, at});
        prompt_token(p, id);
        rest = (view){rest.ptr + at + len, rest.len - at - len};
        /* The same rule after the token as before it. */
        if (rest.len && rest.ptr[0] == ' ' && tokenizer_adds_space(p->t))
            rest = (view){rest.ptr + 1, rest.len - 1};
    }
    prompt_text(p, rest);
}

int prompt_finish(prompt *p, size_t *n)
{
    flush(p);
    bytes_free(&p->pending);
    if (p->status) return p->status;
    *n = p->n;
    if (p->n <= p->cap) return CERIUM_OK;
    return error_set(p->err, CERIUM_ERR_CAPACITY,
                     "the prompt has %zu tokens, there is room for %zu", p->n, p->cap);
}
