/* chat.c - owns knowing a model's chat form, and the forms in which every message is one turn
 * between fixed words.  Mistral's and Llama 2's, where turns lean on each other: chat_inst.c;
 * those with thoughts or channels: chat_thought.c. */
#include "tokenizer/chat.h"

#include "tokenizer/chat_forms.h"

/* ---- Section - Which form ---- */

static bool has(view text, const char *part)
{
    return text.len && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

static bool has_token(const tokenizer *t, const char *name)
{
    return tokenizer_find(t, view_of(name)) >= 0;
}

/* Templates of ChatML that begin with a system message of their own say so in one piece:
 * '<|im_start|>system\nYou are ...<|im_end|>\n'. */
static view find_default_system(view text)
{
    static const char before[] = "<|im_start|>system\\n", after[] = "<|im_end|>";
    const char *from = text.ptr, *end = text.ptr + text.len;
    while (from && (from = memmem(from, (size_t)(end - from), before, sizeof before - 1))) {
        from += sizeof before - 1;
        const char *to = memmem(from, (size_t)(end - from), after, sizeof after - 1);
        view found = {from, to ? (size_t)(to - from) : 0};
        if (found.len && !memchr(found.ptr, '\'', found.len) &&
            !memchr(found.ptr, '"', found.len) && !memchr(found.ptr, '{', found.len) &&
            !memchr(found.ptr, '\\', found.len))
            return found;
    }
    return (view){0};
}

static chat_kind inst_kind(view text)
{
    if (has(text, "[SYSTEM_PROMPT]"))
        return has(text, "[INST] ") ? CHAT_MISTRAL_V7 : CHAT_MISTRAL_V7_TEKKEN;
    if (has(text, "<<SYS>>")) return CHAT_LLAMA2;
    if (has(text, " [INST]")) return CHAT_MISTRAL_V1;
    if (has(text, "[AVAILABLE_TOOLS]"))
        return has(text, "\"[INST]\"") ? CHAT_MISTRAL_V3_TEKKEN : CHAT_MISTRAL_V3;
    return CHAT_MISTRAL_V0;
}

static chat_kind kind_by_template(view text)
{
    if (has(text, "<|start|>") && has(text, "<|channel|>")) return CHAT_HARMONY;
    if (has(text, "<|im_start|>")) {
        if (has(text, "<|im_sep|>")) return CHAT_NONE;
        if (!has(text, "last_query_index")) return CHAT_CHATML;
        return has(text, "<function=") && has(text, "'<think>\\n' }}") ? CHAT_QWEN35 : CHAT_QWEN3;
    }
    if (has(text, "[INST]")) return inst_kind(text);
    if (has(text, "<|start_header_id|>"))
        return has(text, "Cutting Knowledge Date") ? CHAT_LLAMA31 : CHAT_LLAMA3;
    if (has(text, "### Instruction:") && has(text, "<|EOT|>")) return CHAT_DEEPSEEK_CODER;
    if (has(text, "### Instruction\\n") && has(text, "### Response\\n")) return CHAT_STARCODER2;
    return CHAT_NONE;
}

/* A file without a template: the tokens that only one form has. */
static chat_kind kind_by_tokens(const tokenizer *t)
{
    if (has_token(t, "<|start|>") && has_token(t, "<|channel|>") && has_token(t, "<|message|>"))
        return CHAT_HARMONY;
    if (has_token(t, "<|im_start|>") && has_token(t, "<|im_end|>")) return CHAT_CHATML;
    if (has_token(t, "<|start_header_id|>") && has_token(t, "<|eot_id|>")) return CHAT_LLAMA3;
    return CHAT_NONE;
}

chat_form chat_detect(const tokenizer *t)
{
#define CHAT_KIND_NAME(symbol, name) name,
    static const char *const names[CHAT_KINDS] = {CHAT_KIND_MAP(CHAT_KIND_NAME)};
#undef CHAT_KIND_NAME
    CHECK(t);
    view text = tokenizer_template(t);
    chat_form form = {.kind = text.len ? kind_by_template(text) : kind_by_tokens(t)};
    form.name = names[form.kind];
    if (form.kind == CHAT_CHATML) form.default_system = find_default_system(text);
    return form;
}

/* ---- Section - Forms in which every message is one turn ---- */

typedef struct {
    bool bos;  /* the template begins with it, whatever the vocabulary says */
    bool trim; /* white space around the content is dropped */
    const char *open_system; /* before a conversation without a system message, or NULL */
    const char *before[CHAT_ROLES], *after[CHAT_ROLES];
    const char *generate;
} turns;

#define CHATML(role) "<|im_start|>" role "\n"
#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"
/* A fixed date, the one of the published template: prompts stay what they are from day to day. */
#define LLAMA31_SYSTEM                                                                             \
    LLAMA3("system") "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

static const turns chatml = {
    .before = {CHATML("system"), CHATML("user"), CHATML("assistant")},
    .after = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
    .generate = CHATML("assistant"),
};

static const turns llama3 = {
    .bos = true,
    .trim = true,
    .before = {LLAMA3("system"), LLAMA3("user"), LLAMA3("assistant")},
    .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
    .generate = LLAMA3("assistant"),
};

static const turns llama31 = {
    .bos = true,
    .trim = true,
    .open_system = LLAMA31_SYSTEM "<|eot_id|>",
    .before = {LLAMA31_SYSTEM, LLAMA3("user"), LLAMA3("assistant")},
    .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
    .generate = LLAMA3("assistant"),
};

static const turns deepseek_coder = {
    .bos = true,
    .open_system =
        "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by "
        "Deepseek Company, and you only answer questions related to computer science. For "
        "politically sensitive questions, security and privacy issues, and other non-computer "
        "science questions, you will refuse to answer\n",
    .before = {"", "### Instruction:\n", "### Response:\n"},
    .after = {"", "\n", "\n<|EOT|>\n"},
    .generate = "### Response:\n",
};

/* The template takes no system message; ours stands where its own stood. */
static const turns starcoder2 = {
    .bos = true,
    .open_system = "You are an exceptionally intelligent coding assistant that consistently "
                   "delivers accurate and reliable responses to user instructions.\n\n",
    .before = {"", "### Instruction\n", "### Response\n"},
    .after = {"\n\n", "\n\n", "<|endoftext|>\n\n"},
    .generate = "### Response\n",
};

static void render_turns(prompt *p, const turns *form, view default_system, const turn *list,
                         size_t n)
{
    bool has_system = n > 0 && list[0].role == CHAT_SYSTEM;
    if (!has_system && default_system.len) {
        prompt_scaffold(p, form->before[CHAT_SYSTEM]);
        prompt_text(p, default_system);
        prompt_scaffold(p, form->after[CHAT_SYSTEM]);
    } else if (!has_system && form->open_system) {
        prompt_scaffold(p, form->open_system);
    }
    for (size_t i = 0; i < n; i++) {
        /* Llama 3.1 dates the first system message only. */
        const turns *use = form == &llama31 && i > 0 ? &llama3 : form;
        prompt_scaffold(p, use->before[list[i].role]);
        prompt_text(p, form->trim ? chat_trim(list[i].content) : list[i].content);
        prompt_scaffold(p, use->after[list[i].role]);
    }
    prompt_scaffold(p, form->generate);
}

/* ---- Section - Rendering ---- */

view chat_trim(view text)
{
    while (text.len && strchr(" \t\n\v\f\r", text.ptr[0]) && text.ptr[0])
        text = (view){text.ptr + 1, text.len - 1};
    while (text.len && strchr(" \t\n\v\f\r", text.ptr[text.len - 1]) && text.ptr[text.len - 1])
        text.len--;
    return text;
}

static const turns *turns_of(chat_kind kind)
{
    switch (kind) {
    case CHAT_CHATML: return &chatml;
    case CHAT_LLAMA3: return &llama3;
    case CHAT_LLAMA31: return &llama31;
    case CHAT_DEEPSEEK_CODER: return &deepseek_coder;
    case CHAT_STARCODER2: return &starcoder2;
    case CHAT_NONE:
    case CHAT_QWEN3:
    case CHAT_QWEN35:
    case CHAT_HARMONY:
    case CHAT_LLAMA2:
    case CHAT_MISTRAL_V0:
    case CHAT_MISTRAL_V1:
    case CHAT_MISTRAL_V3:
    case CHAT_MISTRAL_V3_TEKKEN:
    case CHAT_MISTRAL_V7:
    case CHAT_MISTRAL_V7_TEKKEN:
    case CHAT_KINDS: break;
    }
    return NULL;
}

static int read_turns(const cerium_message *messages, size_t n, turn *list, cerium_error *err)
{
    for (size_t i = 0; i < n; i++) {
        view role = view_of(messages[i].role), content = view_of(messages[i].content);
        if (view_equal(role, VIEW("system")) || view_equal(role, VIEW("developer")))
            list[i] = (turn){CHAT_SYSTEM, content};
        else if (view_equal(role, VIEW("user"))) list[i] = (turn){CHAT_USER, content};
        else if (view_equal(role, VIEW("assistant"))) list[i] = (turn){CHAT_ASSISTANT, content};
        else
            return error_set(err, CERIUM_ERR_FORMAT,
                             "message %zu: role \"%.*s\" is unknown; use system, developer, user "
                             "or assistant",
                             i, (int)(role.len < 64 ? role.len : 64), role.ptr ? role.ptr : "");
    }
    return CERIUM_OK;
}

int chat_render(const tokenizer *t, const chat_form *form, const cerium_message *messages,
                size_t n, int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err)
{
    CHECK(t && form && n_tokens && (messages || !n) && (tokens || !cap));
    if (form->kind == CHAT_NONE)
        return error_set(err, CERIUM_ERR_FORMAT,
                         "the model has no chat form that is known; use it for completion");
    size_t size;
    if (!size_mul(n + 1, sizeof(turn), &size))
        return error_set(err, CERIUM_ERR_ARGUMENT, "too many messages");
    turn *list = memory_alloc(size);
    if (!list) return error_set(err, CERIUM_ERR_MEMORY, "no memory for %zu messages", n);
    int status = read_turns(messages, n, list, err);
    if (!status) {
        const turns *simple = turns_of(form->kind);
        bool bos = tokenizer_adds_bos(t) || (simple ? simple->bos : chat_begins(form->kind));
        prompt p;
        prompt_open(&p, t, bos, tokens, cap, err);
        if (simple) render_turns(&p, simple, form->default_system, list, n);
        else if (form->kind == CHAT_QWEN3) chat_render_qwen3(&p, list, n, false);
        else if (form->kind == CHAT_QWEN35) chat_render_qwen3(&p, list, n, true);
        else if (form->kind == CHAT_HARMONY) chat_render_harmony(&p, list, n);
        else chat_render_inst(&p, form->kind, list, n);
        status = prompt_finish(&p, n_tokens);
    }
    memory_free(list);
    return status;
}
