/* chat_forms.h - what the renderers of the chat forms share.  Private to this folder. */
#ifndef TOKENIZER_CHAT_FORMS_H
#define TOKENIZER_CHAT_FORMS_H

#include "tokenizer/chat.h"
#include "tokenizer/prompt.h"

typedef enum { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES } chat_role;

typedef struct {
    chat_role role;
    view content;
} turn;

/* Without ASCII white space at both ends. */
view chat_trim(view text);

/* Whether a form outside chat.c begins with TOKEN_BOS by its template. */
bool chat_begins(chat_kind kind);
void chat_render_inst(prompt *p, chat_kind kind, const turn *list, size_t n);
/* thinks: Qwen3.5, which trims what is said and opens a thought in the end. */
void chat_render_qwen3(prompt *p, const turn *list, size_t n, bool thinks);
void chat_render_harmony(prompt *p, const turn *list, size_t n);

#endif
