/* chat_chatml.c - owns ChatML and its relatives: Qwen2.5 and Hermes, Qwen3, which thinks,
 * Qwen3-Coder, which calls tools in XML, and Qwen3.5, which does both. */
#include "tokenizer/chat_forms.h"

typedef struct {
    bool thinks;        /* thoughts stay in a turn that is not followed by a question */
    bool opens_thought; /* always, also a missing one, as empty */
    bool trims;         /* white space around the content */
    bool trims_calling; /* the same, in a turn with calls */
    bool tools_first;   /* before the system message in its turn, not after it */
    const char *call_after_text; /* between the content and a call */
    void (*tools)(const talk *k);
    void (*call)(const talk *k, const piece *call);
    const char *default_system; /* the default system message before tools */
    const char *results, *result, *result_end; /* before all, before each, after each */
} relative;

static const relative chatml = {
    .call_after_text = "\n",
    .tools = chat_hermes_tools,
    .call = chat_hermes_call,
    .results = "<|im_start|>user",
    .result = "\n<tool_response>\n",
    .result_end = "\n</tool_response>",
};

static const relative qwen3 = {
    .thinks = true,
    .call_after_text = "\n",
    .tools = chat_hermes_tools,
    .call = chat_hermes_call,
    .results = "<|im_start|>user",
    .result = "\n<tool_response>\n",
    .result_end = "\n</tool_response>",
};

static const relative qwen3_coder = {
    .trims_calling = true,
    .call_after_text = "\n\n",
    .tools = chat_xml_tools,
    .call = chat_xml_call,
    .default_system =
        "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.",
    .results = "<|im_start|>user\n",
    .result = "<tool_response>\n",
    .result_end = "\n</tool_response>\n",
};

static const relative qwen35 = {
    .thinks = true,
    .opens_thought = true,
    .trims = true,
    .tools_first = true,
    .call_after_text = "\n\n",
    .tools = chat_xml_tools_json,
    .call = chat_xml_call,
    .results = "<|im_start|>user",
    .result = "\n<tool_response>\n",
    .result_end = "\n</tool_response>",
};

static const relative *relative_of(chat_kind kind)
{
    return kind == CHAT_QWEN3         ? &qwen3
           : kind == CHAT_QWEN3_CODER ? &qwen3_coder
           : kind == CHAT_QWEN35      ? &qwen35
                                      : &chatml;
}

/* ---- thoughts ---- */

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

static bool is_question(const relative *r, const piece *one)
{
    static const view open = {"<tool_response>", 15}, close = {"</tool_response>", 16};
    view text = r->trims ? chat_trim(one->content) : one->content;
    return one->kind == PIECE_USER &&
           !(view_starts(text, open) && text.len >= close.len &&
             memcmp(text.ptr + text.len - close.len, close.ptr, close.len) == 0);
}

/* The number of pieces up to the last question, which keep no thoughts.  If more will follow, that
 * is a question after an answer, and results after a call. */
static size_t count_before_question(const talk *k, const relative *r)
{
    size_t last = k->n;
    while (last > 0 && k->list[last - 1].kind == PIECE_SYSTEM) last--;
    if (k->open && last && k->list[last - 1].kind == PIECE_CONTENT) return k->n;
    for (size_t i = k->n; i-- > 0;)
        if (is_question(r, &k->list[i])) return i + 1;
    return k->continues ? 0 : k->n;
}

/* ---- turns ---- */

static void put_thought(const talk *k, const relative *r, size_t i, size_t end, view in_text,
                        bool always)
{
    size_t n = 0;
    for (size_t j = i; j < end; j++) n += k->list[j].kind == PIECE_THOUGHT;
    if (!n && !in_text.len && !always) return;
    prompt_scaffold(k->p, "<think>\n");
    if (!n) prompt_text(k->p, in_text);
    for (size_t j = i, left = n; j < end; j++) {
        if (k->list[j].kind != PIECE_THOUGHT) continue;
        view text = k->list[j].content;
        prompt_text(k->p, r->trims ? chat_trim(text) : strip_newlines(text, true, true));
        if (--left) prompt_scaffold(k->p, "\n");
    }
    prompt_scaffold(k->p, "\n</think>\n\n");
}

/* One piece of the assistant, in its family's form. */
static view answered(const talk *k, const relative *r, size_t j, bool calls, bool thought_shown,
                     view *thought)
{
    view text = k->list[j].content;
    *thought = (view){0};
    if (r->trims || (calls && r->trims_calling)) text = chat_trim(text);
    if (r->thinks) split_thought(text, thought, &text);
    return thought_shown ? strip_newlines(text, true, false) : text;
}

static void put_assistant(const talk *k, const relative *r, size_t i, size_t end, bool keeps)
{
    bool calls = false, has_thought = false;
    size_t first = end;
    for (size_t j = i; j < end; j++) {
        calls = calls || k->list[j].kind == PIECE_CALL;
        has_thought = has_thought || k->list[j].kind == PIECE_THOUGHT;
        if (first == end && k->list[j].kind == PIECE_CONTENT) first = j;
    }
    view thought = {0};
    bool always = r->opens_thought || (end == k->n && !k->open);
    if (first < end) answered(k, r, first, calls, false, &thought);
    bool shown = r->thinks && keeps && (always || thought.len || has_thought);
    if (!shown && first == end && !calls) return; /* a thought, which is dropped */
    prompt_scaffold(k->p, "<|im_start|>assistant\n");
    if (shown) put_thought(k, r, i, end, thought, always);
    const piece *before = NULL;
    for (size_t j = i; j < end; j++) {
        const piece *one = &k->list[j];
        view text = {0};
        if (one->kind == PIECE_CONTENT)
            text = answered(k, r, j, calls, shown && j == first, &thought);
        if (one->kind == PIECE_THOUGHT || (one->kind == PIECE_CONTENT && !text.len)) continue;
        if (before)
            prompt_scaffold(k->p, before->kind == PIECE_CONTENT && one->kind == PIECE_CALL
                                      ? r->call_after_text
                                      : "\n");
        if (one->kind == PIECE_CALL) r->call(k, one);
        else prompt_text(k->p, text);
        before = one;
    }
    prompt_scaffold(k->p, "<|im_end|>\n");
}

static void put_results(const talk *k, const relative *r, size_t i, size_t end)
{
    prompt_scaffold(k->p, r->results);
    for (; i < end; i++) {
        prompt_scaffold(k->p, r->result);
        prompt_text(k->p, r->trims ? chat_trim(k->list[i].content) : k->list[i].content);
        prompt_scaffold(k->p, r->result_end);
    }
    prompt_scaffold(k->p, "<|im_end|>\n");
}

static void put_generate(const talk *k, const relative *r)
{
    prompt_scaffold(k->p, r->opens_thought ? "<|im_start|>assistant\n<think>\n"
                                           : "<|im_start|>assistant\n");
}

/* The system turn, which may be only a default or only tools; returns the number of its pieces. */
static size_t put_head(const talk *k, const relative *r)
{
    bool has_system = k->n > 0 && k->list[0].kind == PIECE_SYSTEM;
    view system = has_system ? k->list[0].content : k->form->default_system;
    if (!has_system && !system.len && k->says_tools) system = view_of(r->default_system);
    if (!has_system && !system.len && !k->says_tools) return 0;
    if (r->trims) system = chat_trim(system);
    prompt_scaffold(k->p, "<|im_start|>system\n");
    if (k->says_tools && r->tools_first) r->tools(k);
    if (k->says_tools && r->tools_first && system.len) prompt_scaffold(k->p, "\n\n");
    prompt_text(k->p, system);
    if (k->says_tools && !r->tools_first) {
        if (has_system || system.len) prompt_scaffold(k->p, "\n\n");
        r->tools(k);
    }
    prompt_scaffold(k->p, "<|im_end|>\n");
    return has_system;
}

void chat_render_chatml(const talk *k)
{
    const relative *r = relative_of(k->form->kind);
    size_t before_question = count_before_question(k, r), i = 0;
    if (k->continues) chat_close(k, k->after, k->n_after, "<|im_end|>", "\n");
    else i = put_head(k, r);
    if (!k->continues) chat_head_ends(k);
    for (size_t end; i < k->n; i = end) {
        const piece *one = &k->list[i];
        end = chat_turn_end(k, i);
        switch (one->kind) {
        case PIECE_SYSTEM:
        case PIECE_USER:
            prompt_scaffold(k->p, one->kind == PIECE_USER ? "<|im_start|>user\n"
                                                          : "<|im_start|>system\n");
            prompt_text(k->p, r->trims ? chat_trim(one->content) : one->content);
            prompt_scaffold(k->p, "<|im_end|>\n");
            break;
        case PIECE_SAMPLED:
            put_generate(k, r);
            chat_sampled(k, one);
            chat_close(k, one->tokens, one->n_tokens, "<|im_end|>", "\n");
            break;
        case PIECE_RESULT: put_results(k, r, i, end); break;
        case PIECE_CONTENT:
        case PIECE_THOUGHT:
        case PIECE_CALL: put_assistant(k, r, i, end, i >= before_question); break;
        }
    }
    if (!k->open) put_generate(k, r);
}
