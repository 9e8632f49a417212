/* code_file.c - functions shared by the readers of all languages. */
#include "exists/code_file.h"

bool code_open(code_file *s, name_table *b, tokens_family family, view text)
{
    tokens_carry carry = {0};
    *s = (code_file){.b = b, .text = text};
    if (b->status || text.len > CODE_FILE_BYTES_MAX) return false;
    size_t max = text.len + 2;
    s->t = memory_alloc((max + 1) * sizeof *s->t);
    if (!s->t) return b->status = CERIUM_ERR_MEMORY, false;
    s->n = (uint32_t)tokens_read(&carry, family, text, s->t, max);
    s->t[s->n] = (code_token){.begin = (uint32_t)text.len, .end = (uint32_t)text.len,
                         .kind = TOKEN_LINE, .first = true};
    return true;
}

void code_close(code_file *s)
{
    memory_free(s->t);
    s->t = NULL;
}

uint32_t code_after(const code_file *s, uint32_t i, uint32_t end)
{
    uint32_t depth = 0;
    for (; i < end; i++) {
        if (s->t[i].kind != TOKEN_SIGN) continue;
        if (token_opens(s->t[i].sign)) depth++;
        if (token_closes(s->t[i].sign) && (depth == 0 || --depth == 0)) return i + 1;
    }
    return end;
}

uint32_t code_dotted(const code_file *s, uint32_t i, uint32_t end, bytes *out)
{
    out->len = 0;
    while (i < end && s->t[i].kind == TOKEN_NAME) {
        view word = code_word(s, i++);
        bool more = i + 1 < end && token_sign(&s->t[i], '.') && s->t[i + 1].kind == TOKEN_NAME;
        if (!s->b->status) s->b->status = bytes_append(out, word.ptr, word.len);
        if (!more) break;
        if (!s->b->status) s->b->status = bytes_append(out, ".", 1);
        i++;
    }
    return i;
}
