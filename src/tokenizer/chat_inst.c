/* chat_inst.c - owns the forms with [INST]: Mistral's by their numbers, and Llama 2's. */
#include "tokenizer/chat_forms.h"

typedef struct {
    const char *open, *close; /* around what the user says */
    const char *answer;       /* before what the assistant says */
    bool trims_answer;
    bool system_last;         /* the system message leads the last user message, not the first */
    const char *open_system, *close_system; /* around a system message, or NULL: it has no own */
} inst;

static const inst mistrals[CHAT_KINDS] = {
    [CHAT_MISTRAL_V0] = {.open = "[INST] ", .close = " [/INST]", .answer = ""},
    [CHAT_MISTRAL_V1] = {.open = " [INST] ", .close = " [/INST]", .answer = " "},
    [CHAT_MISTRAL_V3] = {.open = "[INST] ",
                         .close = "[/INST]",
                         .answer = " ",
                         .trims_answer = true,
                         .system_last = true},
    [CHAT_MISTRAL_V3_TEKKEN] = {.open = "[INST]",
                                .close = "[/INST]",
                                .answer = "",
                                .system_last = true},
    [CHAT_MISTRAL_V7] = {.open = "[INST] ",
                         .close = "[/INST]",
                         .answer = " ",
                         .open_system = "[SYSTEM_PROMPT] ",
                         .close_system = "[/SYSTEM_PROMPT]"},
    [CHAT_MISTRAL_V7_TEKKEN] = {.open = "[INST]",
                                .close = "[/INST]",
                                .answer = "",
                                .open_system = "[SYSTEM_PROMPT]",
                                .close_system = "[/SYSTEM_PROMPT]"},
};

bool chat_begins(chat_kind kind) { return kind == CHAT_LLAMA2 || mistrals[kind].open != NULL; }

/* The user message that carries the system messages: the first, or the last if it ends all. */
static size_t find_carrier(const inst *form, const turn *list, size_t n)
{
    if (form->system_last) return n > 0 ? n - 1 : 0;
    for (size_t i = 0; i < n; i++)
        if (list[i].role == CHAT_USER) return i;
    return n;
}

static void render_mistral(prompt *p, const inst *form, const turn *list, size_t n)
{
    size_t carrier = find_carrier(form, list, n);
    for (size_t i = 0; i < n; i++) {
        if (list[i].role == CHAT_SYSTEM) {
            if (!form->open_system) continue;
            prompt_scaffold(p, form->open_system);
            prompt_text(p, list[i].content);
            prompt_scaffold(p, form->close_system);
        } else if (list[i].role == CHAT_USER) {
            prompt_scaffold(p, form->open);
            for (size_t s = 0; i == carrier && !form->open_system && s < n; s++) {
                if (list[s].role != CHAT_SYSTEM) continue;
                prompt_text(p, list[s].content);
                prompt_scaffold(p, "\n\n");
            }
            prompt_text(p, list[i].content);
            prompt_scaffold(p, form->close);
        } else {
            prompt_scaffold(p, form->answer);
            prompt_text(p, form->trims_answer ? chat_trim(list[i].content) : list[i].content);
            prompt_token(p, tokenizer_role(p->t, TOKEN_EOS));
        }
    }
}

/* The system messages and the user's own words are one text, whose ends are trimmed. */
static void render_llama2_question(prompt *p, const turn *list, size_t n, size_t at)
{
    bool has_system = false;
    prompt_scaffold(p, "[INST] ");
    for (size_t i = 0; at == find_carrier(&(inst){0}, list, n) && i < n; i++) {
        if (list[i].role != CHAT_SYSTEM) continue;
        prompt_scaffold(p, "<<SYS>>\n");
        prompt_text(p, list[i].content);
        prompt_scaffold(p, "\n<</SYS>>\n\n");
        has_system = true;
    }
    view content = list[at].content, trimmed = chat_trim(content);
    if (has_system && trimmed.len)
        trimmed = (view){content.ptr, (size_t)(trimmed.ptr + trimmed.len - content.ptr)};
    prompt_text(p, trimmed);
    prompt_scaffold(p, " [/INST]");
}

/* Each exchange is a text of its own, from TOKEN_BOS to TOKEN_EOS. */
static void render_llama2(prompt *p, const turn *list, size_t n)
{
    bool begun = true;
    for (size_t i = 0; i < n; i++) {
        if (list[i].role == CHAT_SYSTEM) continue; /* said with the first user message */
        if (list[i].role == CHAT_USER) {
            if (!begun) prompt_token(p, tokenizer_role(p->t, TOKEN_BOS));
            render_llama2_question(p, list, n, i);
        } else {
            prompt_scaffold(p, " ");
            prompt_text(p, chat_trim(list[i].content));
            prompt_scaffold(p, " ");
            prompt_token(p, tokenizer_role(p->t, TOKEN_EOS));
        }
        begun = false;
    }
}

void chat_render_inst(prompt *p, chat_kind kind, const turn *list, size_t n)
{
    if (kind == CHAT_LLAMA2) {
        render_llama2(p, list, n);
        return;
    }
    CHECK(mistrals[kind].open);
    render_mistral(p, &mistrals[kind], list, n);
}
