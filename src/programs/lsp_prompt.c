/* lsp_prompt.c - the prompt of a hole for the model in this process, and the text of its answers
 * token by token. */
#include "programs/lsp_host.h"

size_t lsp_prompt_heal(const cerium_engine *engine, const cerium_engine_info *info,
                       const lsp_order *o)
{
    return info->fill_in_middle ? cerium_infill_heal_prefix(engine, o->before.ptr, o->before.len)
                                : cerium_heal_prefix(engine, o->before.ptr, o->before.len);
}

/* Text far from the hole goes first, three bytes before it for one after it. */
int lsp_prompt_make(const cerium_engine *engine, const cerium_engine_info *info, size_t tokens_max,
                    const lsp_order *o, size_t n_heal, int32_t **tokens, size_t *n,
                    cerium_error *err)
{
    size_t before = o->before.len - n_heal, after = o->after.len;
    const char *end = o->before.ptr + before;
    uint32_t n_files = o->n_files;
    *tokens = memory_alloc(tokens_max * sizeof **tokens);
    if (!*tokens) return error_set(err, CERIUM_ERR_MEMORY, "no memory for the prompt");
    for (;;) {
        const cerium_infill in = {.prefix = end - before, .prefix_len = before,
                                  .suffix = o->after.ptr, .suffix_len = after, .path = o->path,
                                  .files = o->files, .n_files = n_files};
        int status = info->fill_in_middle
                         ? cerium_infill_tokens(engine, &in, *tokens, tokens_max, n, err)
                         : cerium_tokenize(engine, in.prefix, before, CERIUM_TOKENIZE_BEGIN,
                                           *tokens, tokens_max, n, err);
        if (status != CERIUM_ERR_CAPACITY || before + after + n_files == 0) return status;
        if (before + after == 0) { /* they alone are too long */
            n_files = 0;
            before = o->before.len - n_heal;
            after = o->after.len;
            continue;
        }
        size_t keep = (size_t)((double)(before + after) * (double)tokens_max / (double)*n * 0.9);
        if (after > keep / 4) after = keep / 4;
        if (before > keep - after) before = keep - after;
    }
}

/* The confidence of the rest of a line depends on where it is cut.  Bytes that the tokens have
 * before the text are not part of the answer. */
void lsp_watched_pieces(const cerium_engine *engine, const watch_result *out, lsp_piece_fn *fn,
                        void *user)
{
    size_t total = 0, at = 0, len;
    for (uint32_t i = 0; i < out->n_tokens; i++) {
        (void)cerium_token_bytes(engine, out->tokens[i].token, &len);
        total += len;
    }
    size_t skip = total > out->text.len ? total - out->text.len : 0;
    for (uint32_t i = 0; i < out->n_tokens; i++) {
        (void)cerium_token_bytes(engine, out->tokens[i].token, &len);
        size_t gone = len < skip ? len : skip;
        skip -= gone;
        len -= gone;
        if (len > out->text.len - at || i + 1 == out->n_tokens) len = out->text.len - at;
        fn(user, (view){out->text.ptr + at, len}, (double)out->tokens[i].logprob);
        at += len;
    }
    if (!out->n_tokens) fn(user, out->text, 0);
}
