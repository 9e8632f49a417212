/* text.c - the text half of the API: tokens, chat forms, fill-in-the-middle forms. */
#include "engine/engine.h"

int cerium_tokenize(const cerium_engine *engine, const char *text, size_t text_len, unsigned flags,
                    int32_t *tokens, size_t tokens_cap, size_t *n_tokens, cerium_error *err)
{
    if (!engine || (!text && text_len) || !n_tokens || (!tokens && tokens_cap) ||
        (flags & ~(unsigned)(CERIUM_TOKENIZE_SPECIAL | CERIUM_TOKENIZE_BEGIN |
                              CERIUM_TOKENIZE_WITHIN)))
        return error_set(err, CERIUM_ERR_ARGUMENT, "cerium_tokenize: an argument is missing");
    if (flags & CERIUM_TOKENIZE_WITHIN)
        return tokenizer_encode_bare(engine->tokens, (view){text, text_len}, tokens, tokens_cap,
                                     n_tokens, err);
    return tokenizer_encode(engine->tokens, (view){text, text_len},
                            flags & CERIUM_TOKENIZE_SPECIAL, flags & CERIUM_TOKENIZE_BEGIN, tokens,
                            tokens_cap, n_tokens, err);
}

const char *cerium_token_bytes(const cerium_engine *engine, int32_t token, size_t *len)
{
    return tokenizer_bytes(engine->tokens, token, len);
}

bool cerium_token_is_end(const cerium_engine *engine, int32_t token)
{
    return tokenizer_is_end(engine->tokens, token);
}

int cerium_chat_tokens(const cerium_engine *engine, const cerium_chat *chat, int32_t *tokens,
                       size_t tokens_cap, size_t *n_tokens, cerium_error *err)
{
    if (!engine || !chat || !n_tokens || (!chat->messages && chat->n_messages) ||
        (!chat->tools && chat->n_tools) || (!chat->after && chat->n_after) ||
        (!tokens && tokens_cap))
        return error_set(err, CERIUM_ERR_ARGUMENT, "cerium_chat_tokens: an argument is missing");
    return chat_render(engine->tokens, &engine->chat, chat, tokens, tokens_cap, n_tokens, err);
}

int cerium_infill_tokens(const cerium_engine *engine, const cerium_infill *infill, int32_t *tokens,
                         size_t tokens_cap, size_t *n_tokens, cerium_error *err)
{
    if (!engine || !infill || !n_tokens || (!tokens && tokens_cap))
        return error_set(err, CERIUM_ERR_ARGUMENT, "cerium_infill_tokens: an argument is missing");
    return infill_render(engine->tokens, &engine->infill, infill, tokens, tokens_cap, n_tokens,
                         err);
}
