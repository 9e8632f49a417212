/* chat_inst.c - owns the forms with [INST]: Mistral's by their version numbers, and Llama 2's. */
#include "tokenizer/chat_forms.h"

typedef enum {
    TOOLS_AS_TEXT,  /* with the system message, in Hermes' form */
    TOOLS_LIST,     /* [TOOL_CALLS] and a JSON list with ids */
    TOOLS_NAMED,    /* [TOOL_CALLS]name[ARGS]{...} */
} tools_style;

typedef struct {
    const char *open, *close; /* around the user's text */
    const char *answer;       /* before the assistant's text */
    const char *answer_end;   /* after it, before the token that ends a text */
    bool trims_answer;
    bool system_last;         /* the template puts tools, and system messages without their own
                                 turn, with the last user message, not the first */
    const char *open_system, *close_system; /* around a system message; NULL: it has no turn */
    tools_style tools;
    const char *space;        /* after a control token, before the text */
} inst;

static const inst mistrals[CHAT_KINDS] = {
    [CHAT_LLAMA2] = {.open = "[INST] ", .close = " [/INST]", .answer = " ", .answer_end = " ",
                     .trims_answer = true},
    [CHAT_MISTRAL_V0] = {.open = "[INST] ", .close = " [/INST]", .answer = ""},
    [CHAT_MISTRAL_V1] = {.open = " [INST] ", .close = " [/INST]", .answer = " "},
    [CHAT_MISTRAL_V3] = {.open = "[INST] ", .close = "[/INST]", .answer = " ", .space = " ",
                         .trims_answer = true, .system_last = true, .tools = TOOLS_LIST},
    [CHAT_MISTRAL_V3_TEKKEN] = {.open = "[INST]", .close = "[/INST]", .answer = "", .space = "",
                                .system_last = true, .tools = TOOLS_LIST},
    [CHAT_MISTRAL_V7] = {.open = "[INST] ", .close = "[/INST]", .answer = " ", .space = " ",
                         .system_last = true,
                         .open_system = "[SYSTEM_PROMPT] ", .close_system = "[/SYSTEM_PROMPT]",
                         .tools = TOOLS_LIST},
    [CHAT_MISTRAL_V7_TEKKEN] = {.open = "[INST]", .close = "[/INST]", .answer = "", .space = "",
                                .open_system = "[SYSTEM_PROMPT]",
                                .close_system = "[/SYSTEM_PROMPT]", .tools = TOOLS_NAMED},
};

/* The state of one rendering: the places of tools and of system messages that have no turn. */
typedef struct {
    const talk *k;
    const inst *form;
    bool llama2;
    bool begun;       /* Llama 2: this text has its TOKEN_BOS */
    bool tools_due;
    size_t due;       /* system messages from here on are not rendered yet */
    size_t last_user; /* n: there is none */
} writer;

static void put_eos(const talk *k) { prompt_token(k->p, tokenizer_role(k->p->t, TOKEN_EOS)); }

/* ---- tools ---- */

static void put_tools_block(writer *w)
{
    const talk *k = w->k;
    w->tools_due = false;
    prompt_scaffold(k->p, "[AVAILABLE_TOOLS]");
    prompt_scaffold(k->p, w->form->space);
    prompt_scaffold(k->p, "[");
    for (size_t i = 0; i < k->n_tools; i++) {
        if (i) prompt_scaffold(k->p, ", ");
        chat_json(k->p, k->tools[i].spec, 0);
    }
    prompt_scaffold(k->p, "][/AVAILABLE_TOOLS]");
}

/* Ids of these forms have nine letters and digits; others are converted to such, always to the same
 * ones. */
static void put_id(const talk *k, const piece *one)
{
    enum { ID_LEN = 9 };
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    view id = one->id.len ? one->id : one->name;
    char made[ID_LEN];
    size_t good = 0;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < id.len; i++) {
        good += id.ptr[i] && strchr(letters, id.ptr[i]) != NULL;
        hash = (hash ^ (unsigned char)id.ptr[i]) * UINT64_C(1099511628211);
    }
    for (size_t i = 0; i < ID_LEN; i++, hash /= sizeof letters - 1)
        made[i] = letters[hash % (sizeof letters - 1)];
    prompt_text(k->p, id.len == ID_LEN && good == ID_LEN ? id : (view){made, ID_LEN});
}

static void put_call(const writer *w, const piece *one, bool first, bool last)
{
    const talk *k = w->k;
    if (w->form->tools == TOOLS_NAMED) {
        prompt_scaffold(k->p, "[TOOL_CALLS]");
        prompt_text(k->p, one->name);
        prompt_scaffold(k->p, "[ARGS]");
        chat_arguments(k, one);
        return;
    }
    if (first) {
        prompt_scaffold(k->p, "[TOOL_CALLS]");
        prompt_scaffold(k->p, w->form->space);
    }
    prompt_scaffold(k->p, first ? "[{\"name\": \"" : ", {\"name\": \"");
    prompt_text(k->p, one->name);
    prompt_scaffold(k->p, "\", \"arguments\": ");
    chat_arguments(k, one);
    prompt_scaffold(k->p, ", \"id\": \"");
    put_id(k, one);
    prompt_scaffold(k->p, last ? "\"}]" : "\"}");
}

/* In the form of mistral_common, and so of the model: JSON stays unchanged, other text becomes a
 * JSON string of it.
 * (The published templates insert the text itself.) */
static void put_result_json(const talk *k, view content)
{
    int status = CERIUM_OK;
    json_t *value = chat_json_parse(content, &status);
    if (!value && status != CERIUM_ERR_MEMORY) value = chat_json_string(content);
    if (value)
        chat_json(k->p, value, 0);
    else
        prompt_fail(k->p, CERIUM_ERR_MEMORY);
    json_decref(value);
}

static void put_result(const writer *w, const piece *one)
{
    const talk *k = w->k;
    bool has_content = tokenizer_find(k->p->t, VIEW("[TOOL_CONTENT]")) >= 0;
    prompt_scaffold(k->p, "[TOOL_RESULTS]");
    prompt_scaffold(k->p, w->form->space);
    if (w->form->tools == TOOLS_NAMED) {
        prompt_text(k->p, one->content);
    } else if (w->form->open_system && has_content) { /* v7 */
        put_id(k, one);
        prompt_scaffold(k->p, "[TOOL_CONTENT]");
        prompt_scaffold(k->p, w->form->space);
        prompt_text(k->p, one->content);
    } else {
        prompt_scaffold(k->p, "{\"content\": ");
        put_result_json(k, one->content);
        prompt_scaffold(k->p, ", \"call_id\": \"");
        put_id(k, one);
        prompt_scaffold(k->p, "\"}");
    }
    prompt_scaffold(k->p, "[/TOOL_RESULTS]");
}

/* ---- the user's text, and messages rendered with it ---- */

static void begin_text(writer *w)
{
    if (w->llama2 && !w->begun) prompt_token(w->k->p, tokenizer_role(w->k->p->t, TOKEN_BOS));
    w->begun = false;
}

static void put_system(const writer *w, view content)
{
    prompt_scaffold(w->k->p, w->llama2 ? "<<SYS>>\n" : "");
    prompt_text(w->k->p, content);
    prompt_scaffold(w->k->p, w->llama2 ? "\n<</SYS>>\n\n" : "\n\n");
}

/* Renders system messages before piece i and tools, if their place is here; returns whether there
 * were any. */
static bool put_due(writer *w, size_t i)
{
    const talk *k = w->k;
    bool any = w->tools_due;
    for (; w->due < i; w->due++) {
        if (k->list[w->due].kind != PIECE_SYSTEM) continue;
        put_system(w, k->list[w->due].content);
        any = true;
    }
    if (w->tools_due) {
        w->tools_due = false;
        prompt_scaffold(k->p, w->llama2 ? "<<SYS>>\n" : "");
        chat_hermes_tools(k);
        prompt_scaffold(k->p, w->llama2 ? "\n<</SYS>>\n\n" : "\n\n");
    }
    return any;
}

/* A template that renders system messages and tools in the last user message moves them in each
 * turn.  Continued timelines cannot move them: there they come with the next user message. */
static bool carries(const writer *w, size_t i)
{
    return !w->form->system_last || w->k->open || w->k->continues || i == w->last_user;
}

static void put_user(writer *w, size_t i)
{
    const talk *k = w->k;
    view content = k->list[i].content;
    begin_text(w);
    if (w->tools_due && w->form->tools != TOOLS_AS_TEXT && carries(w, i)) put_tools_block(w);
    prompt_scaffold(k->p, w->form->open);
    bool any = !w->form->open_system && carries(w, i) && put_due(w, i);
    if (w->llama2) { /* system messages and the user's text are one text, whose ends are trimmed */
        view trimmed = chat_trim(content);
        if (any && trimmed.len)
            trimmed = (view){content.ptr, (size_t)(trimmed.ptr + trimmed.len - content.ptr)};
        content = trimmed;
    }
    prompt_text(k->p, content);
    prompt_scaffold(k->p, w->form->close);
}

/* A system message without a user message after it becomes one. */
static void put_system_turn(writer *w, size_t i)
{
    const talk *k = w->k;
    if (w->form->open_system) {
        prompt_scaffold(k->p, w->form->open_system);
        prompt_text(k->p, k->list[i].content);
        prompt_scaffold(k->p, w->form->close_system);
        return;
    }
    if (w->last_user < k->n && i < w->last_user) return;
    begin_text(w);
    if (w->tools_due && w->form->tools != TOOLS_AS_TEXT) put_tools_block(w);
    prompt_scaffold(k->p, w->form->open);
    put_due(w, i + 1);
    prompt_scaffold(k->p, w->form->close);
}

static void put_results(writer *w, size_t i, size_t end)
{
    const talk *k = w->k;
    if (w->form->tools != TOOLS_AS_TEXT) {
        for (; i < end; i++) put_result(w, &k->list[i]);
        return;
    }
    begin_text(w);
    prompt_scaffold(k->p, w->form->open);
    for (size_t first = i; i < end; i++) {
        prompt_scaffold(k->p, i > first ? "\n<tool_response>\n" : "<tool_response>\n");
        prompt_text(k->p, k->list[i].content);
        prompt_scaffold(k->p, "\n</tool_response>");
    }
    prompt_scaffold(k->p, w->form->close);
}

/* ---- the assistant's text ---- */

static void put_assistant(writer *w, size_t i, size_t end)
{
    const talk *k = w->k;
    bool listed = w->form->tools == TOOLS_LIST, any = false;
    size_t n_calls = 0, n_said = 0, nth = 0;
    for (size_t j = i; j < end; j++) {
        n_calls += k->list[j].kind == PIECE_CALL;
        n_said += k->list[j].kind == PIECE_CONTENT;
    }
    if (!n_calls && !n_said) return;
    prompt_scaffold(k->p, n_said || w->form->tools == TOOLS_AS_TEXT ? w->form->answer : "");
    for (size_t j = i; j < end; j++) {
        const piece *one = &k->list[j];
        bool joins = one->kind == PIECE_CONTENT || w->form->tools == TOOLS_AS_TEXT;
        if (one->kind == PIECE_THOUGHT || (listed && one->kind == PIECE_CALL)) continue;
        if (any && joins) prompt_scaffold(k->p, "\n");
        any = true;
        if (one->kind == PIECE_CONTENT)
            prompt_text(k->p, w->form->trims_answer ? chat_trim(one->content) : one->content);
        else if (w->form->tools == TOOLS_AS_TEXT) chat_hermes_call(k, one);
        else put_call(w, one, true, true);
    }
    for (size_t j = i; listed && j < end; j++) {
        if (k->list[j].kind != PIECE_CALL) continue;
        nth++;
        put_call(w, &k->list[j], nth == 1, nth == n_calls);
    }
    if (w->form->answer_end) prompt_scaffold(k->p, w->form->answer_end);
    put_eos(k);
    w->begun = false;
}

/* The missing part after a turn of the assistant. */
static void close_answer(const writer *w, const int32_t *tokens, size_t n)
{
    if (n && tokens[n - 1] == tokenizer_role(w->k->p->t, TOKEN_EOS)) return;
    if (w->form->answer_end) prompt_scaffold(w->k->p, w->form->answer_end);
    put_eos(w->k);
}

static void go_on(const writer *w)
{
    static const char *const closed[] = {"[/INST]", "[/TOOL_RESULTS]", "[/SYSTEM_PROMPT]",
                                         "[/AVAILABLE_TOOLS]"};
    const talk *k = w->k;
    for (size_t i = 0; i < ARRAY_LEN(closed); i++)
        if (chat_ends(k->p->t, k->after, k->n_after, closed[i])) return;
    close_answer(w, k->after, k->n_after);
}

static void put_turn(writer *w, size_t i, size_t end)
{
    const piece *one = &w->k->list[i];
    switch (one->kind) {
    case PIECE_SYSTEM: put_system_turn(w, i); return;
    case PIECE_USER: put_user(w, i); return;
    case PIECE_RESULT: put_results(w, i, end); return;
    case PIECE_SAMPLED:
        chat_sampled(w->k, one);
        close_answer(w, one->tokens, one->n_tokens);
        w->begun = false;
        return;
    case PIECE_CONTENT:
    case PIECE_THOUGHT:
    case PIECE_CALL: put_assistant(w, i, end); return;
    }
}

void chat_render_inst(const talk *k)
{
    writer w = {.k = k, .form = &mistrals[k->form->kind], .llama2 = k->form->kind == CHAT_LLAMA2,
                .begun = !k->continues, .tools_due = k->says_tools, .last_user = k->n};
    CHECK(w.form->open);
    for (size_t i = 0; i < k->n; i++)
        if (k->list[i].kind == PIECE_USER) w.last_user = i;
    if (k->continues) go_on(&w);
    for (size_t i = 0, end; i < k->n; i = end) {
        end = chat_turn_end(k, i);
        /* Right after the first system message, if those have turns. */
        bool head = w.form->open_system && (i > 0 || k->list[i].kind != PIECE_SYSTEM);
        if (w.tools_due && head && carries(&w, i)) put_tools_block(&w);
        if (head && !k->continues && i == (k->list[0].kind == PIECE_SYSTEM)) chat_head_ends(k);
        prompt_cut(k->p);
        put_turn(&w, i, end);
    }
    if (!w.tools_due) return;
    if (w.form->tools != TOOLS_AS_TEXT) {
        put_tools_block(&w);
        return;
    }
    begin_text(&w);
    prompt_scaffold(k->p, w.form->open);
    put_due(&w, k->n);
    prompt_scaffold(k->p, w.form->close);
}
