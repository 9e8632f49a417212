/* chat.c - owns recognizing a model's chat form, and reading a conversation for the renderers.
 * Each family is rendered in its own chat_*.c. */
#include "tokenizer/chat.h"

#include "base/text.h"
#include "tokenizer/chat_forms.h"

/* ---- which form ---- */

static bool has_token(const tokenizer *t, const char *name)
{
    return tokenizer_find(t, view_of(name)) >= 0;
}

/* Templates of ChatML that begin with their own system message have it in one piece:
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
    if (view_has(text, "[SYSTEM_PROMPT]"))
        return view_has(text, "[INST] ") ? CHAT_MISTRAL_V7 : CHAT_MISTRAL_V7_TEKKEN;
    if (view_has(text, "<<SYS>>")) return CHAT_LLAMA2;
    if (view_has(text, " [INST]")) return CHAT_MISTRAL_V1;
    if (view_has(text, "[AVAILABLE_TOOLS]"))
        return view_has(text, "\"[INST]\"") ? CHAT_MISTRAL_V3_TEKKEN : CHAT_MISTRAL_V3;
    return CHAT_MISTRAL_V0;
}

static chat_kind kind_by_template(view text)
{
    if (view_has(text, "<|start|>") && view_has(text, "<|channel|>")) return CHAT_HARMONY;
    if (view_has(text, "<|im_start|>")) {
        if (view_has(text, "<|im_sep|>")) return CHAT_NONE;
        if (!view_has(text, "last_query_index"))
            return view_has(text, "<function=") ? CHAT_QWEN3_CODER : CHAT_CHATML;
        return view_has(text, "<function=") && view_has(text, "'<think>\\n' }}") ? CHAT_QWEN35
                                                                               : CHAT_QWEN3;
    }
    if (view_has(text, "[INST]")) return inst_kind(text);
    if (view_has(text, "<|start_header_id|>"))
        return view_has(text, "Cutting Knowledge Date") ? CHAT_LLAMA31 : CHAT_LLAMA3;
    if (view_has(text, "### Instruction:") && view_has(text, "<|EOT|>")) return CHAT_DEEPSEEK_CODER;
    if (view_has(text, "### Instruction\\n") && view_has(text, "### Response\\n"))
        return CHAT_STARCODER2;
    return CHAT_NONE;
}

/* A file without a template: tokens that only one form has. */
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

/* ---- reading a conversation ---- */

static const struct {
    view role;
    piece_kind kind;
} roles[] = {
    {{"system", 6}, PIECE_SYSTEM}, {{"developer", 9}, PIECE_SYSTEM}, {{"user", 4}, PIECE_USER},
    {{"assistant", 9}, PIECE_CONTENT}, {{"reasoning", 9}, PIECE_THOUGHT}, {{"call", 4}, PIECE_CALL},
    {{"tool", 4}, PIECE_RESULT},
};

/* A result without a name has the name of its call: the one with its id, or the last. */
static view find_name(const piece *list, size_t i)
{
    enum { LOOK_BACK = 64 };
    view last = {0};
    for (size_t back = 1; back <= i && back <= LOOK_BACK; back++) {
        const piece *one = &list[i - back];
        if (one->kind != PIECE_CALL) continue;
        if (list[i].id.len && view_equal(one->id, list[i].id)) return one->name;
        if (!last.len) last = one->name;
    }
    return last;
}

static int read_sampled(const tokenizer *t, const cerium_message *m, size_t i, piece *out,
                        cerium_error *err)
{
    if (out->kind != PIECE_CONTENT)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "message %zu: only what the assistant said may be tokens", i);
    for (size_t j = 0; j < m->n_tokens; j++)
        if (m->tokens[j] < 0 || (uint32_t)m->tokens[j] >= tokenizer_n_tokens(t))
            return error_set(err, CERIUM_ERR_ARGUMENT,
                             "message %zu: token %d is not in the vocabulary", i, m->tokens[j]);
    out->kind = PIECE_SAMPLED;
    out->tokens = m->tokens;
    out->n_tokens = m->n_tokens;
    return CERIUM_OK;
}

static int read_piece(const tokenizer *t, const cerium_message *m, size_t i, piece *list,
                      cerium_error *err)
{
    piece *out = &list[i];
    view role = view_of(m->role);
    size_t r = 0;
    while (r < ARRAY_LEN(roles) && !view_equal(role, roles[r].role)) r++;
    if (r == ARRAY_LEN(roles))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "message %zu: role \"%.*s\" is unknown; use system, developer, user, "
                         "assistant, reasoning, call or tool",
                         i, (int)(role.len < 64 ? role.len : 64), role.ptr ? role.ptr : "");
    *out = (piece){.kind = roles[r].kind, .content = view_of(m->content),
                   .name = view_of(m->name), .id = view_of(m->call_id)};
    if (m->tokens) return read_sampled(t, m, i, out, err);
    if (!m->content)
        return error_set(err, CERIUM_ERR_ARGUMENT, "message %zu has no content", i);
    if (out->kind == PIECE_CALL && !m->name)
        return error_set(err, CERIUM_ERR_ARGUMENT,
                         "message %zu is a call without the name of its tool", i);
    if (out->kind == PIECE_RESULT && !m->name) out->name = find_name(list, i);
    return CERIUM_OK;
}

static int read_tools(const cerium_chat *chat, bool answered, chat_tool *tools, cerium_error *err)
{
    for (size_t i = 0; i < chat->n_tools; i++) {
        const cerium_tool *from = &chat->tools[i];
        if (!from->name)
            return error_set(err, CERIUM_ERR_ARGUMENT, "tool %zu has no name", i);
        tools[i] = (chat_tool){.name = from->name, .free_text = !from->parameters};
        if (!answered) continue;
        int status = CERIUM_OK;
        tools[i].spec = chat_tool_spec(from, &status);
        if (status == CERIUM_ERR_FORMAT)
            return error_set(err, status, "tool %zu: its parameters are not JSON", i);
        if (status) return error_set(err, status, "no memory for tool %zu", i);
    }
    return CERIUM_OK;
}

/* ---- rendering ---- */

/* Variables of a request for the template; other forms ignore them. */
static bool runs_template(const talk *k)
{
    const char *name;
    json_t *value;
    if (!k->form->template || k->form->runs) return k->form->template != NULL;
    json_object_foreach((json_t *)(uintptr_t)k->variables, name, value)
        if (chat_template_uses(k->form->template, name)) return true;
    return false;
}

static void render(const talk *k)
{
    if (runs_template(k)) {
        chat_render_template(k);
        return;
    }
    switch (k->form->kind) {
    case CHAT_CHATML:
    case CHAT_QWEN3:
    case CHAT_QWEN3_CODER:
    case CHAT_QWEN35: chat_render_chatml(k); return;
    case CHAT_HARMONY: chat_render_harmony(k); return;
    case CHAT_LLAMA2:
    case CHAT_MISTRAL_V0:
    case CHAT_MISTRAL_V1:
    case CHAT_MISTRAL_V3:
    case CHAT_MISTRAL_V3_TEKKEN:
    case CHAT_MISTRAL_V7:
    case CHAT_MISTRAL_V7_TEKKEN: chat_render_inst(k); return;
    case CHAT_NONE:
    case CHAT_LLAMA3:
    case CHAT_LLAMA31:
    case CHAT_DEEPSEEK_CODER:
    case CHAT_STARCODER2: chat_render_turns(k); return;
    case CHAT_KINDS: break;
    }
    CHECK(!"a form has a renderer");
}

/* The form begins with TOKEN_BOS by its template, whatever the vocabulary's setting. */
static bool begins(chat_kind kind)
{
    switch (kind) {
    case CHAT_CHATML:
    case CHAT_QWEN3:
    case CHAT_QWEN3_CODER:
    case CHAT_QWEN35:
    case CHAT_HARMONY:
    case CHAT_NONE: return false;
    case CHAT_LLAMA2:
    case CHAT_LLAMA3:
    case CHAT_LLAMA31:
    case CHAT_MISTRAL_V0:
    case CHAT_MISTRAL_V1:
    case CHAT_MISTRAL_V3:
    case CHAT_MISTRAL_V3_TEKKEN:
    case CHAT_MISTRAL_V7:
    case CHAT_MISTRAL_V7_TEKKEN:
    case CHAT_DEEPSEEK_CODER:
    case CHAT_STARCODER2:
    case CHAT_KINDS: break;
    }
    return true;
}

static int render_talk(const tokenizer *t, talk *k, const cerium_chat *chat, int32_t *tokens,
                       size_t cap, size_t *n_tokens, cerium_error *err)
{
    bool bos = !k->continues && !runs_template(k) &&
               (tokenizer_adds_bos(t) || begins(k->form->kind));
    prompt p;
    prompt_open(&p, t, bos, tokens, cap, err);
    if (k->continues) prompt_after(&p, chat->after[chat->n_after - 1]);
    k->p = &p;
    render(k);
    return prompt_finish(&p, n_tokens);
}

static int read_variables(const cerium_chat *chat, json_t **out, cerium_error *err)
{
    int status = CERIUM_OK;
    if (!chat->variables) return CERIUM_OK;
    *out = chat_json_parse(view_of(chat->variables), &status);
    if (json_is_object(*out)) return CERIUM_OK;
    json_decref(*out);
    *out = NULL;
    if (status == CERIUM_ERR_MEMORY) return error_set(err, status, "no memory for variables");
    return error_set(err, CERIUM_ERR_FORMAT, "variables of a chat template are a JSON object");
}

int chat_render(const tokenizer *t, const chat_form *form, const cerium_chat *chat,
                int32_t *tokens, size_t cap, size_t *n_tokens, cerium_error *err)
{
    CHECK(t && form && chat && n_tokens && (tokens || !cap));
    CHECK((chat->messages || !chat->n_messages) && (chat->tools || !chat->n_tools));
    bool continues = chat->continues && chat->n_after > 0;
    size_t n = chat->n_messages, n_tools = chat->n_tools;
    if (chat->n_head) *chat->n_head = CERIUM_NO_HEAD;
    if (form->refusal)
        return error_set(err, CERIUM_ERR_FORMAT, "the model's chat template cannot be run: %s",
                         form->refusal);
    if (n_tools && form->calls && !strncmp(form->calls, "none", 4))
        return error_set(err, CERIUM_ERR_FORMAT,
                         "the model's chat template writes calls in a way that cerium cannot read; "
                         "send no tools, or use another model");
    json_t *variables = NULL;
    RETURN_IF(read_variables(chat, &variables, err));
    if (!n && chat->open) { /* nothing was rendered, so nothing is closed */
        *n_tokens = 0;
        json_decref(variables);
        return CERIUM_OK;
    }
    piece *list = memory_zalloc(n + 1, sizeof *list);
    chat_tool *tools = memory_zalloc(n_tools + 1, sizeof *tools);
    int status = list && tools ? CERIUM_OK
                               : error_set(err, CERIUM_ERR_MEMORY, "no memory for %zu messages", n);
    for (size_t i = 0; !status && i < n; i++)
        status = read_piece(t, &chat->messages[i], i, list, err);
    if (!status) status = read_tools(chat, !continues, tools, err);
    talk k = {.form = form, .list = list, .n = n, .tools = tools, .n_tools = n_tools,
              .says_tools = n_tools > 0 && !continues, .continues = continues, .open = chat->open,
              .after = chat->after, .n_after = chat->n_after, .n_head = chat->n_head,
              .variables = variables};
    if (!status) status = render_talk(t, &k, chat, tokens, cap, n_tokens, err);
    for (size_t i = 0; tools && i < n_tools; i++) json_decref(tools[i].spec);
    memory_free(tools);
    memory_free(list);
    json_decref(variables);
    return status;
}
