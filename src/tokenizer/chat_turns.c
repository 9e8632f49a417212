/* chat_turns.c - owns the forms in which every message is one turn between fixed words: Llama 3's,
 * DeepSeek-Coder's, StarCoder2's, and the plain one of models that have none. */
#include "tokenizer/chat_forms.h"

typedef enum { TURN_SYSTEM, TURN_USER, TURN_ASSISTANT, TURN_KINDS } turn_kind;

typedef struct {
    bool trim; /* white space around the content is dropped */
    const char *default_system, *default_end; /* for a conversation without a system message, or
                                                 NULL */
    const char *glue; /* before every turn but the first: at the seams of timelines */
    const char *before[TURN_KINDS], *after[TURN_KINDS];
    /* The end of the assistant's turn: an optional line feed, the token, the rest. */
    const char *line, *end, *rest;
    bool headings; /* turns of others end in plain text: headings show the role */
} turns;

#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n"

static const turns llama3 = {
    .trim = true,
    .glue = "",
    .before = {LLAMA3("system"), LLAMA3("user"), LLAMA3("assistant")},
    .after = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
    .end = "<|eot_id|>",
    .rest = "",
};

static const turns deepseek_coder = {
    .default_system =
        "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by "
        "Deepseek Company, and you only answer questions related to computer science. For "
        "politically sensitive questions, security and privacy issues, and other non-computer "
        "science questions, you will refuse to answer",
    .default_end = "\n",
    .glue = "",
    .before = {"", "### Instruction:\n", "### Response:\n"},
    .after = {"", "\n", "\n<|EOT|>\n"},
    .line = "\n",
    .end = "<|EOT|>",
    .rest = "\n",
    .headings = true,
};

/* The template takes no system message; ours replaces its own. */
static const turns starcoder2 = {
    .default_system = "You are an exceptionally intelligent coding assistant that consistently "
                      "delivers accurate and reliable responses to user instructions.",
    .default_end = "\n",
    .glue = "\n",
    .before = {"", "### Instruction\n", "### Response\n"},
    .after = {"\n", "\n", "<|endoftext|>\n"},
    .end = "<|endoftext|>",
    .rest = "\n",
    .headings = true,
};

/* Headings as a base model has seen them in many documents.  Only the next heading ends a turn, so
 * a timeline continues at any place. */
static const turns plain = {
    .glue = "\n\n",
    .before = {"### System\n", "### User\n", "### Assistant\n"},
    .after = {"", "", ""},
};

static const turns *turns_of(chat_kind kind)
{
    return kind == CHAT_LLAMA3 || kind == CHAT_LLAMA31 ? &llama3
           : kind == CHAT_DEEPSEEK_CODER               ? &deepseek_coder
           : kind == CHAT_STARCODER2                   ? &starcoder2
                                                       : &plain;
}

/* ---- continuing ---- */

/* The beginning of the last occurrence of part, or SIZE_MAX. */
static size_t find_last(view text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = text.len >= len ? text.len - len + 1 : 0; i-- > 0;)
        if (memcmp(text.ptr + i, part, len) == 0) return i;
    return SIZE_MAX;
}

/* Whether the last heading of a timeline is the assistant's, and its turn has not ended. */
static bool assistant_is_last(const talk *k, const turns *form)
{
    bytes text = {.max = SIZE_MAX};
    int32_t end = tokenizer_find(k->p->t, view_of(form->end));
    size_t ended = 0;
    int status = CERIUM_OK;
    for (size_t i = 0; !status && i < k->n_after; i++) {
        size_t len;
        if (k->after[i] == end) ended = text.len;
        const char *token = tokenizer_bytes(k->p->t, k->after[i], &len);
        status = bytes_append(&text, token, len);
    }
    if (status) prompt_fail(k->p, status);
    view all = {text.ptr, text.len};
    size_t answer = find_last(all, form->before[TURN_ASSISTANT]);
    size_t question = find_last(all, form->before[TURN_USER]);
    bytes_free(&text);
    return answer != SIZE_MAX && answer >= ended && (question == SIZE_MAX || answer > question);
}

static void close_answer(const talk *k, const turns *form, const int32_t *tokens, size_t n)
{
    if (!form->end) return;
    bool ended = chat_ends(k->p->t, tokens, n, form->end);
    if (!ended && form->line && !chat_ends(k->p->t, tokens, n, form->line))
        prompt_scaffold(k->p, form->line);
    chat_close(k, tokens, n, form->end, form->rest);
}

static void go_on(const talk *k, const turns *form)
{
    char closed[64];
    if (!form->end) return;
    snprintf(closed, sizeof closed, "%s%s", form->end, form->rest);
    if (chat_ends(k->p->t, k->after, k->n_after, closed)) return;
    if (!form->headings || chat_ends(k->p->t, k->after, k->n_after, form->end) ||
        assistant_is_last(k, form))
        close_answer(k, form, k->after, k->n_after);
}

/* ---- turns ---- */

static void put_content(const talk *k, const turns *form, view content)
{
    prompt_text(k->p, form->trim ? chat_trim(content) : content);
}

static void llama31_call(const talk *k, const piece *call)
{
    prompt_scaffold(k->p, "{\"name\": \"");
    prompt_text(k->p, call->name);
    prompt_scaffold(k->p, "\", \"parameters\": ");
    chat_arguments(k, call);
    prompt_scaffold(k->p, "}");
}

static void put_assistant(const talk *k, const turns *form, size_t i, size_t end)
{
    bool llama31 = k->form->kind == CHAT_LLAMA31;
    const piece *before = NULL;
    prompt_scaffold(k->p, form->before[TURN_ASSISTANT]);
    for (; i < end; i++) {
        const piece *one = &k->list[i];
        if (one->kind == PIECE_THOUGHT) continue;
        if (one->kind == PIECE_CONTENT && !one->content.len) continue;
        if (before && llama31 && before->kind == PIECE_CALL && one->kind == PIECE_CALL)
            prompt_scaffold(k->p, "; ");
        else if (before) prompt_scaffold(k->p, "\n");
        if (one->kind == PIECE_CONTENT) put_content(k, form, one->content);
        else if (llama31) llama31_call(k, one);
        else chat_hermes_call(k, one);
        before = one;
    }
    prompt_scaffold(k->p, form->after[TURN_ASSISTANT]);
}

static void put_results(const talk *k, const turns *form, size_t i, size_t end)
{
    prompt_scaffold(k->p, form->before[TURN_USER]);
    for (size_t first = i; i < end; i++) {
        prompt_scaffold(k->p, i > first ? "\n<tool_response>\n" : "<tool_response>\n");
        prompt_text(k->p, k->list[i].content);
        prompt_scaffold(k->p, "\n</tool_response>");
    }
    prompt_scaffold(k->p, form->after[TURN_USER]);
}

static void llama31_results(const talk *k, size_t i, size_t end)
{
    for (; i < end; i++) {
        json_t *text = chat_json_string(k->list[i].content);
        prompt_scaffold(k->p, LLAMA3("ipython"));
        if (text) chat_json(k->p, text, 0);
        else prompt_fail(k->p, CERIUM_ERR_MEMORY);
        prompt_scaffold(k->p, "<|eot_id|>");
        json_decref(text);
    }
}

/* Llama 3.1 always has a system message, with a fixed date, the one of the published template:
 * prompts stay the same from day to day.  Tools are in it, as in the template with
 * tools_in_user_message off: a continued conversation has them once. */
static size_t llama31_head(const talk *k)
{
    enum { INDENT = 4 };
    bool has_system = k->n && k->list[0].kind == PIECE_SYSTEM;
    prompt_scaffold(k->p, LLAMA3("system"));
    if (k->says_tools) prompt_scaffold(k->p, "Environment: ipython\n");
    prompt_scaffold(k->p, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
    if (k->says_tools)
        prompt_scaffold(k->p, "You have access to the following functions. To call a function, "
                              "please respond with JSON for a function call.Respond in the format "
                              "{\"name\": function name, \"parameters\": dictionary of argument "
                              "name and its value}.Do not use variables.\n\n");
    for (size_t i = 0; k->says_tools && i < k->n_tools; i++) {
        chat_json(k->p, k->tools[i].spec, INDENT);
        prompt_scaffold(k->p, "\n\n");
    }
    if (has_system) put_content(k, &llama3, k->list[0].content);
    prompt_scaffold(k->p, "<|eot_id|>");
    return has_system;
}

/* The system turn; returns the number of its pieces. */
static size_t put_head(const talk *k, const turns *form)
{
    bool has_system = k->n && k->list[0].kind == PIECE_SYSTEM;
    if (k->form->kind == CHAT_LLAMA31) return llama31_head(k);
    if (!has_system && !form->default_system && !k->says_tools) return 0;
    prompt_scaffold(k->p, form->before[TURN_SYSTEM]);
    if (has_system) put_content(k, form, k->list[0].content);
    else if (form->default_system) prompt_scaffold(k->p, form->default_system);
    if (k->says_tools) {
        if (has_system || form->default_system) prompt_scaffold(k->p, "\n\n");
        chat_hermes_tools(k);
    }
    bool own_line = form->default_end && (k->says_tools || !has_system);
    prompt_scaffold(k->p, own_line ? form->default_end : form->after[TURN_SYSTEM]);
    return has_system;
}

static void put_turn(const talk *k, const turns *form, size_t i, size_t end)
{
    const piece *one = &k->list[i];
    turn_kind kind = one->kind == PIECE_SYSTEM ? TURN_SYSTEM : TURN_USER;
    switch (one->kind) {
    case PIECE_SYSTEM:
    case PIECE_USER:
        prompt_scaffold(k->p, form->before[kind]);
        put_content(k, form, one->content);
        prompt_scaffold(k->p, form->after[kind]);
        return;
    case PIECE_SAMPLED:
        prompt_scaffold(k->p, form->before[TURN_ASSISTANT]);
        chat_sampled(k, one);
        close_answer(k, form, one->tokens, one->n_tokens);
        return;
    case PIECE_RESULT:
        if (k->form->kind == CHAT_LLAMA31) llama31_results(k, i, end);
        else put_results(k, form, i, end);
        return;
    case PIECE_CONTENT:
    case PIECE_THOUGHT:
    case PIECE_CALL: put_assistant(k, form, i, end); return;
    }
}

static void put_glue(const talk *k, const turns *form, bool first)
{
    prompt_cut(k->p);
    if (!first) prompt_scaffold(k->p, form->glue);
}

void chat_render_turns(const talk *k)
{
    const turns *form = turns_of(k->form->kind);
    size_t i = 0;
    if (k->continues) go_on(k, form);
    else i = put_head(k, form);
    bool first = !k->continues && !i && !form->default_system && !k->says_tools;
    if (!k->continues) chat_head_ends(k);
    for (size_t end; i < k->n; i = end) {
        end = chat_turn_end(k, i);
        put_glue(k, form, first);
        put_turn(k, form, i, end);
        first = false;
    }
    if (k->open) return;
    put_glue(k, form, first);
    prompt_scaffold(k->p, form->before[TURN_ASSISTANT]);
}
