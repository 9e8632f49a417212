/* chat_thought.c - owns the forms in which a model thinks before it answers: Qwen3, Harmony. */
#include "tokenizer/chat_forms.h"

/* ---- Section - Qwen3 ---- */

static view strip_newlines(view text, bool left, bool right)
{
    while (left && text.len && text.ptr[0] == '\n') text = (view){text.ptr + 1, text.len - 1};
    while (right && text.len && text.ptr[text.len - 1] == '\n') text.len--;
    return text;
}

static const char *find_last(view text, view part)
{
    for (size_t i = text.len >= part.len ? text.len - part.len + 1 : 0; i-- > 0;)
        if (memcmp(text.ptr + i, part.ptr, part.len) == 0) return text.ptr + i;
    return NULL;
}

/* "<think>\nthought\n</think>\n\nanswer" -> thought and answer, without newlines around them. */
static void split_thought(view content, view *thought, view *answer)
{
    static const view open = {"<think>", 7}, close = {"</think>", 8};
    *thought = (view){0};
    *answer = content;
    const char *first = content.len ? memmem(content.ptr, content.len, close.ptr, close.len) : NULL;
    if (!first) return;
    const char *last = find_last(content, close) + close.len;
    *answer = strip_newlines((view){last, content.len - (size_t)(last - content.ptr)}, true, false);
    view before = strip_newlines((view){content.ptr, (size_t)(first - content.ptr)}, false, true);
    const char *begun = find_last(before, open);
    if (begun) {
        begun += open.len;
        before = (view){begun, before.len - (size_t)(begun - before.ptr)};
    }
    *thought = strip_newlines(before, true, true);
}

/* Thoughts stay only after the last question; always: also the one that was not there. */
static void render_qwen3_answer(prompt *p, view content, bool after_question, bool always)
{
    view thought, answer;
    split_thought(content, &thought, &answer);
    prompt_scaffold(p, "<|im_start|>assistant\n");
    if (after_question && (always || thought.len)) {
        prompt_scaffold(p, "<think>\n");
        prompt_text(p, thought);
        prompt_scaffold(p, "\n</think>\n\n");
        answer = strip_newlines(answer, true, false);
    }
    prompt_text(p, answer);
    prompt_scaffold(p, "<|im_end|>\n");
}

static bool is_question(const turn *one, bool thinks)
{
    static const view open = {"<tool_response>", 15}, close = {"</tool_response>", 16};
    view text = thinks ? chat_trim(one->content) : one->content;
    return one->role == CHAT_USER &&
           !(view_starts(text, open) && text.len >= close.len &&
             memcmp(text.ptr + text.len - close.len, close.ptr, close.len) == 0);
}

void chat_render_qwen3(prompt *p, const turn *list, size_t n, bool thinks)
{
    size_t question = n ? n - 1 : 0;
    for (size_t i = n; i-- > 0;) {
        if (!is_question(&list[i], thinks)) continue;
        question = i;
        break;
    }
    for (size_t i = 0; i < n; i++) {
        view content = thinks ? chat_trim(list[i].content) : list[i].content;
        if (list[i].role == CHAT_ASSISTANT) {
            render_qwen3_answer(p, content, i > question, thinks || i == n - 1);
            continue;
        }
        prompt_scaffold(p, list[i].role == CHAT_SYSTEM ? "<|im_start|>system\n"
                                                       : "<|im_start|>user\n");
        prompt_text(p, content);
        prompt_scaffold(p, "<|im_end|>\n");
    }
    prompt_scaffold(p, thinks ? "<|im_start|>assistant\n<think>\n" : "<|im_start|>assistant\n");
}

/* ---- Section - Harmony ---- */

/* What a caller calls the system message is the developer's; the system message proper is part
 * of the form.  It has no date, so that prompts stay what they are from day to day. */
void chat_render_harmony(prompt *p, const turn *list, size_t n)
{
    prompt_scaffold(p, "<|start|>system<|message|>You are ChatGPT, a large language model trained "
                       "by OpenAI.\nKnowledge cutoff: 2024-06\n\nReasoning: medium\n\n"
                       "# Valid channels: analysis, commentary, final. Channel must be included "
                       "for every message.<|end|>");
    for (size_t i = 0; i < n; i++) {
        static const char *const before[CHAT_ROLES] = {
            "<|start|>developer<|message|># Instructions\n\n", "<|start|>user<|message|>",
            "<|start|>assistant<|channel|>final<|message|>"};
        prompt_scaffold(p, before[list[i].role]);
        prompt_text(p, list[i].content);
        prompt_scaffold(p, "<|end|>");
    }
    prompt_scaffold(p, "<|start|>assistant");
}
