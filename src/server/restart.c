/* restart.c - usage over several starts, and the rest of interrupted recorded texts. */
#include "server/restart.h"

#include "server/prompts.h"

/* ---- usage ---- */

static void add(cerium_usage *to, const cerium_usage *more)
{
    to->drafted_tokens += more->drafted_tokens;
    to->accepted_tokens += more->accepted_tokens;
    to->drafted_predicted += more->drafted_predicted;
    to->accepted_predicted += more->accepted_predicted;
    to->duration_ns += more->duration_ns;
}

void choice_keep_usage(choice *ch)
{
    cerium_usage usage;
    cerium_session_usage(ch->session, &usage);
    if (ch->was_started_again) add(&ch->before, &usage);
    else ch->before = usage;
    ch->was_started_again = true;
}

void choice_whole_usage(const choice *ch, cerium_usage *usage)
{
    if (!ch->was_started_again) return;
    const cerium_usage last = *usage;
    *usage = ch->before;
    add(usage, &last);
}

/* ---- scripts ---- */

int choice_script_text(const choice *ch, bytes *out)
{
    int status = CERIUM_OK;
    for (size_t i = 0; i < ch->n_script && !status; i++) {
        size_t len;
        const char *piece = cerium_token_bytes(ch->a->model->engine, ch->script[i], &len);
        status = bytes_append(out, piece, len);
    }
    return status;
}

int choice_say(choice *ch, view text)
{
    int32_t *made = NULL;
    size_t n = 0;
    protocol_error e;
    int status = text.len ? prompts_tokenize(ch->a->model, text, CERIUM_TOKENIZE_WITHIN, &made, &n,
                                             &e)
                          : CERIUM_OK;
    memory_free(ch->own_script);
    ch->script = ch->own_script = status ? NULL : made;
    ch->n_script = status ? 0 : n;
    return status;
}

int choice_skip_thought(choice *ch, view end)
{
    bytes text = {.max = SIZE_MAX / 2};
    const size_t n = ch->n_steps < ch->n_script ? ch->n_steps : ch->n_script;
    while (end.len && end.ptr[0] == '\n') end.ptr++, end.len--;
    while (end.len && end.ptr[end.len - 1] == '\n') end.len--;
    ch->script += n;
    ch->n_script -= n;
    int status = choice_script_text(ch, &text);
    const char *at = !status && text.len ? memmem(text.ptr, text.len, end.ptr, end.len) : NULL;
    view rest = {at ? at + end.len : "", 0};
    if (at) rest.len = (size_t)(text.ptr + text.len - rest.ptr);
    while (rest.len && rest.ptr[0] == '\n') rest.ptr++, rest.len--;
    if (!status && rest.len) status = choice_say(ch, rest);
    else if (!status) ch->n_script = 0;
    ch->n_steps = 0;
    bytes_free(&text);
    return status;
}
